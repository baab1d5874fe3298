/* Times of the kernels of a plan, from tuff_plan_profile, for `tuff profile` and the report of `tuff train`. */
#ifndef TUFF_TOOLS_PROFILE_KERNELS_H
#define TUFF_TOOLS_PROFILE_KERNELS_H

#include "base/alloc.h"
#include "tuff.h"

enum { PHASE_COUNT = 3 };

/* All tasks that run the same program for the same ops over as many items in the same phase. */
typedef struct kernel_profile {
    const char *program, *kind, *label; /* as in tuff_task_info; owned by the profile */
    tuff_phase phase;
    uint64_t items; /* of one call */
    int first_task; /* index of the first such task */
    int calls;
    double seconds;           /* of all calls */
    double operations, bytes; /* of all calls; bytes read and written */
} kernel_profile;

typedef struct plan_profile {
    kernel_profile *kernels; /* those that take longest first */
    int count;
    int task_count, runs;
    double *samples;            /* seconds: for each run those of each task, followed by those of the whole run */
    double phases[PHASE_COUNT]; /* seconds of the kernels of each phase */
    double seconds;             /* of all kernels */
    double run_seconds;         /* of a profiled run on the host's clock, including gaps between kernels and waiting */
    arena names;
} plan_profile;

/* Adds the last profiled run of the plan. All zero is a profile without runs; call profile_free even after a
   failure. */
tuff_status profile_add_run(plan_profile *self, const tuff_plan *plan);
/* Call this after the last run: fills in the kernels, with the median over the runs as the time of each task. */
tuff_status profile_finish(plan_profile *self, const tuff_plan *plan);
/* Adds the kernels of a finished profile, as if its plan ran `times` times, to a profile of several plans. A kernel of
   two plans is listed twice. */
tuff_status profile_add_times(plan_profile *self, const plan_profile *part, int64_t times);
void profile_free(plan_profile *self);

/* The most that the device can do per second, as measured; 0 if that could not be measured. */
typedef struct device_peaks {
    double operations, bytes;
} device_peaks;
void peaks_measure(tuff_device *device, device_peaks *out);

/* Returns the least time that the kernel's operations and bytes need at the peaks, as a fraction of the time that it
   took; 0 if there is no peak. It exceeds 1 if the kernel's memory stays in caches. */
double kernel_fraction(const kernel_profile *kernel, const device_peaks *peaks);

#endif
