/* Trials: the kernels of one task by one choice, on a ground of their own. */
#ifndef TUFF_RUN_TRIAL_H
#define TUFF_RUN_TRIAL_H

#include "run/ground.h"

typedef struct trial trial;

/* What a choice makes of a task, found without a compiler: equal kernels over equal grids have equal numbers. consulted
   gets the tunables that were asked for, with their usual values; items the largest work-group. TUFF_E_LIMIT,
   TUFF_E_UNSUPPORTED: nothing. */
tuff_status tuff__trial_foresee(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                                int task, const choice *what, choice *consulted, uint64_t *kernels, uint32_t *items);

/* Compiles and records. */
tuff_status tuff__trial_create(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                               int task, const choice *what, ground *on, trial **out);
void tuff__trial_destroy(trial *self); /* NULL is allowed */

/* One run after another, each timed by the device's clock (the host's, where that is none): count times. Short runs are
   repeated in one submission. Copies that are kept between runs do not count. limit, where not 0: after a run that
   takes longer the rest are given its time. */
tuff_status tuff__trial_time(trial *self, int count, uint64_t limit, uint64_t *nanoseconds);
/* One run, waited for. */
tuff_status tuff__trial_run(trial *self);

#endif
