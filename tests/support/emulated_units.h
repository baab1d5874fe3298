/* A driver whose kernels have the instructions of matrix units replaced by plain code of the same meaning. */
#ifndef TUFF_TESTS_EMULATED_UNITS_H
#define TUFF_TESTS_EMULATED_UNITS_H

#include "device/state.h"
#include "tuff.h"

typedef struct units {
    const char *name, *instructions; /* in OpenCL C; NULL: GLSL */
    uint32_t form, shape[3], lanes;
    bool of_warpgroups;
    const char *lie[2]; /* of its instructions, what a lie about turned factors has in place of what; NULL: none */
} units;

enum { UNITS = 11 };
extern const units all_units[UNITS];

/* What create_emulated calls, whose units it emulates, how many kernels it was given with them, and whether to lie. */
extern const driver *real_driver;
extern const units *emulated_units;
extern int emulated;
extern bool units_lie;

/* The function of a driver's table. */
tuff_status create_emulated(driver_device *device, const program_request *request, blob cached, blob *made,
                            driver_program **out);

#endif
