/* What the kernels of a plan take, from tuff_plan_profile: for `tuff profile` and for the report of `tuff train`. */
#ifndef TUFF_TOOLS_PROFILE_KERNELS_H
#define TUFF_TOOLS_PROFILE_KERNELS_H

#include "base/alloc.h"
#include "tuff.h"

enum { PHASE_COUNT = 3 };

/* All tasks that run one program for the same ops over as many items in one phase. */
typedef struct kernel_profile {
    const char *program, *kind, *label; /* as tuff_task_info says; belong to the profile */
    tuff_phase phase;
    uint64_t items; /* of one call */
    int first_task; /* index of the first of them */
    int calls;
    double seconds;           /* of all calls */
    double operations, bytes; /* likewise; bytes read and written */
} kernel_profile;

typedef struct plan_profile {
    kernel_profile *kernels; /* that take longest first */
    int count;
    int task_count, runs;
    double *samples;            /* seconds: of each task in each run, and behind all tasks of each run */
    double phases[PHASE_COUNT]; /* seconds of their kernels */
    double seconds;             /* of all kernels */
    double run_seconds; /* of a profiled run by the host's clock: with the gaps between kernels, and the waiting */
    arena names;
} plan_profile;

/* Takes in the profiled run that the plan did last. Zero is a profile of no runs; profile_free frees it, after a
   failure too. */
tuff_status profile_add_run(plan_profile *self, const tuff_plan *plan);
/* After the last run: fills in the kernels; each task counts with its median over the runs. */
tuff_status profile_finish(plan_profile *self, const tuff_plan *plan);
/* Adds the kernels of a finished profile as if its plan ran so many times, to a profile of several plans. A kernel of
   two plans stands there twice. */
tuff_status profile_add_times(plan_profile *self, const plan_profile *part, int64_t times);
void profile_free(plan_profile *self);

/* What the device can do at most in a second, measured now; 0 where that could not be measured. */
typedef struct device_peaks {
    double operations, bytes;
} device_peaks;
void peaks_measure(tuff_device *device, device_peaks *out);

/* The least time that the kernel's operations and bytes need at the peaks, as a fraction of the time that it took; 0
   where there is no peak. Above 1 where its memory stays in caches. */
double kernel_fraction(const kernel_profile *kernel, const device_peaks *peaks);

#endif
