/* A driver that replaces the matrix instructions in kernels with plain code that computes the same. */
#ifndef TUFF_TESTS_EMULATED_UNITS_H
#define TUFF_TESTS_EMULATED_UNITS_H

#include "device/state.h"
#include "tuff.h"

typedef struct units {
    const char *name, *instructions; /* in OpenCL C; NULL for GLSL */
    uint32_t form, shape[3], lanes;
    bool on_warpgroups;
    const char *wrong_emulation[2]; /* the part of the instructions to replace, and its replacement, which computes
                                       transposed factors wrongly; NULL if there is none */
    bool in_groups;                 /* matmuls use units that a whole work-group shares */
} units;

enum { UNITS = 12 };
extern const units all_units[UNITS];

/* The driver that create_emulated calls, the units it emulates, the number of kernels with matrix instructions that it
   got so far, and whether to use the wrong emulation. */
extern const driver *real_driver;
extern const units *emulated_units;
extern _Atomic int emulated;
extern bool emulates_wrongly;

/* The program_create function for a driver's table. */
tuff_status create_emulated(driver_device *device, const program_request *request, blob cached, blob *made,
                            driver_program **out);

#endif
