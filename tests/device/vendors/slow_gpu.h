/* GPUs that are slower than the cost model predicts, and whose driver kills submissions of more than two seconds. CPU
   drivers compute; a simulated clock defines how long their kernels take. */
#ifndef TUFF_TESTS_SLOW_GPU_H
#define TUFF_TESTS_SLOW_GPU_H

#include <stdbool.h>

#include "device/device.h"
#include "device/submit/predictor.h"

#define SECOND 1e9

/* Times in nanoseconds. */
typedef struct slow_gpu_state {
    double now, busy; /* the clock, and the time at which the device finishes its submissions */
    double slowness;  /* ratio of real to predicted time */
    bool is_uneven;   /* the kernels' own ratios differ, from 0.3 to 2 times slowness */
    double work;      /* how much more work than it has each command counts as, for the model and the clock alike */
    double group;     /* the most seconds of one group by the model, work included: a group is never split */
    double longest;   /* longest submission since the caller set this to 0 */
    int submissions;  /* submissions with kernels */
    int callbacks;    /* OpenCL's: that were requested */
    bool is_mild;     /* submissions may take any time */
    bool is_dead;     /* a submission took more than two seconds: everything fails from then on */
} slow_gpu_state;
extern slow_gpu_state slow_gpu;

/* The simulated clock, for tuff__predictor_clock. */
uint64_t slow_gpu_time(void);
/* Opens PoCL (api "opencl") or lavapipe ("vulkan") presented as a GPU, with slowness and work 1. Returns NULL if it is
   missing. */
tuff_device *slow_gpu_open(const char *api);
time_predictor *slow_gpu_predictor(const tuff_device *device);
void slow_gpu_close(tuff_device *device);

#endif
