/* Replaces the call that creates OpenCL programs, so that a program differs from its text, or takes as long as a test
   likes. */
#ifndef TESTS_OPENCL_REPLACED_H
#define TESTS_OPENCL_REPLACED_H

#include "device/device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"

typedef cl_program(CL_API_CALL create_call)(cl_context, cl_uint, const char **, const size_t *, cl_int *);

/* Opens a device on which OpenCL programs can be replaced; NULL if there is none. */
tuff_device *open_replaceable(void);
/* The original function. replace_creation calls `by` instead of it until restore_creation. */
extern create_call *real_creation;
void replace_creation(create_call *by);
void restore_creation(void);

/* Makes the nth creation (from 1) of a program whose text contains part wait for release_creation, unless it is called
   by the current thread. */
void block_creation(int nth, const char *part);
/* Returns the number of such creations begun since then. */
int count_creations(void);
/* Releases the waiting creation, gives it time to finish, and restores the original function. */
void release_creation(void);

#endif
#endif
