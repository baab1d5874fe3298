/* A run of one candidate: the kernels of one task in one configuration, on test buffers. Knows neither stores nor
   searches; used by autotune/evaluator.c. */
#ifndef TUFF_MEASURE_CANDIDATE_RUN_H
#define TUFF_MEASURE_CANDIDATE_RUN_H

#include "measure/cache_flush.h"
#include "measure/test_buffers.h"

typedef struct candidate_run candidate_run;

/* Compiles and records launches made by tuff__lower_task, and takes ownership of them: the list is empty afterwards,
   even on failure. pool: borrowed; filled if weights must be cold while runs are timed. NULL: weights stay warm. */
tuff_status tuff__candidate_run_create(launch_list *launches, test_buffers *buffers, cache_flush_pool *pool,
                                       candidate_run **out);
void tuff__candidate_run_destroy(candidate_run *self); /* NULL is allowed */

/* Times count runs, one after another, by the device's clock, or by the host's if it has none. Short runs are repeated
   within a submission. Copies made by the setup are not counted. If limit is not 0 and a run takes longer, the rest are
   skipped and get its time. */
tuff_status tuff__candidate_run_time(candidate_run *self, int count, uint64_t limit, uint64_t *nanoseconds);
/* Call this for the first run: runs only a part of each kernel's groups, if the kernels can be run in part.
   *nanoseconds: an estimate of a whole run; 0: unknown. default_time: the time of another candidate (0: unknown), from
   which the timeout is derived, unless a library may compile during the run. */
tuff_status tuff__candidate_run_probe(candidate_run *self, uint64_t default_time, uint64_t *nanoseconds);
/* Whether the weights are cold when the candidate is timed. */
bool tuff__candidate_run_is_cold(const candidate_run *self);
/* Whether no device of this size could be that fast. */
bool tuff__candidate_run_is_too_fast(const candidate_run *self, uint64_t nanoseconds);
/* Returns the bytes of registers that a work-item spills, the maximum over the kernels; 0: none, or unknown. */
uint64_t tuff__candidate_run_spilled(const candidate_run *self);
/* Runs once and waits for the end. */
tuff_status tuff__candidate_run_once(candidate_run *self);

#endif
