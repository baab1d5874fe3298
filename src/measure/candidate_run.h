/* A run of one candidate: the kernels of one task by one configuration, on test buffers. Knows no store and no search;
   autotune/evaluator.c uses it. */
#ifndef TUFF_MEASURE_CANDIDATE_RUN_H
#define TUFF_MEASURE_CANDIDATE_RUN_H

#include "measure/cache_flush.h"
#include "measure/test_buffers.h"

typedef struct candidate_run candidate_run;

/* Compiles and records launches that tuff__lower_task made, and takes them: the list is empty then, after a failure
   too. pool: borrowed, filled where there are weights that are to be cold while runs are timed; NULL: none are. */
tuff_status tuff__candidate_run_create(launch_list *launches, test_buffers *buffers, cache_flush_pool *pool,
                                       candidate_run **out);
void tuff__candidate_run_destroy(candidate_run *self); /* NULL is allowed */

/* Times count runs, one after another, by the device's clock, or the host's if it has none. Short runs are repeated
   within a submission. The setup's copies are not counted. If limit is not 0, after a run that takes longer the rest
   are not run: they get its time. */
tuff_status tuff__candidate_run_time(candidate_run *self, int count, uint64_t limit, uint64_t *nanoseconds);
/* The first run, with only some of each kernel's groups if the kernels can be run in part. *nanoseconds: an estimate of
   a whole run; 0: unknown. default_time: the time of another candidate (0: unknown), which the timeout is derived from,
   unless a library may compile during the run. */
tuff_status tuff__candidate_run_probe(candidate_run *self, uint64_t default_time, uint64_t *nanoseconds);
/* Runs until two times agree within 2 %, so that the clocks have settled, or for at most so many nanoseconds. */
tuff_status tuff__candidate_run_warm(candidate_run *self, uint64_t most);
/* Whether its weights are cold when it is timed. */
bool tuff__candidate_run_is_cold(const candidate_run *self);
/* Whether no device of this one's size could be so fast. */
bool tuff__candidate_run_is_too_fast(const candidate_run *self, uint64_t nanoseconds);
/* Bytes of registers that a work-item spills, the maximum over the kernels; 0: none, or unknown. */
uint64_t tuff__candidate_run_spilled(const candidate_run *self);
/* Runs once and waits. */
tuff_status tuff__candidate_run_run(candidate_run *self);

#endif
