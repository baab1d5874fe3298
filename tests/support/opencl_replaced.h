/* Programs of OpenCL that become something else than their text says, or take as long as a test likes: the call that
   creates them is replaced. */
#ifndef TESTS_OPENCL_REPLACED_H
#define TESTS_OPENCL_REPLACED_H

#include "device/device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"

typedef cl_program(CL_API_CALL create_call)(cl_context, cl_uint, const char **, const size_t *, cl_int *);

/* NULL where there is no device that kernels of OpenCL can be replaced on. */
tuff_device *open_replaceable(void);
/* What is replaced, and by what, until restore_creation. */
extern create_call *real_creation;
void replace_creation(create_call *by);
void restore_creation(void);

/* Replaces it: the nth creation (from 1) of a program whose text has that part comes back only once it is let go,
   unless the thread that calls this asks for it. */
void hang_creation(int nth, const char *part);
/* Of such programs, begun since then. */
int count_creations(void);
/* Waits for it to come back, and restores. */
void let_creation_go(void);

#endif
#endif
