/* Trials: the kernels of one task by one choice, on a test buffers of their own. */
#ifndef TUFF_MEASURE_CANDIDATE_RUN_H
#define TUFF_MEASURE_CANDIDATE_RUN_H

#include "measure/cache_flush.h"
#include "measure/test_buffers.h"

typedef struct candidate_run candidate_run;

/* Compiles and records launches that tuff__lower_task made, and takes them: the list is empty then, after a failure too.
   pool: borrowed, filled where there are weights that are to be cold while runs are timed; NULL: none are. */
tuff_status tuff__candidate_run_create(launch_list *launches, test_buffers *buffers, cache_flush_pool *pool,
                                       candidate_run **out);
void tuff__candidate_run_destroy(candidate_run *self); /* NULL is allowed */

/* One run after another, each timed by the device's clock (the host's, where that is none): count times. Short runs are
   repeated in one submission. Copies that are kept between runs do not count. limit, where not 0: after a run that
   takes longer the rest are given its time. */
tuff_status tuff__candidate_run_time(candidate_run *self, int count, uint64_t limit, uint64_t *nanoseconds);
/* The first run: of some of each kernel's groups alone, where the task's kernels can be run in part. Answers how long a
   whole run should take; 0 where that is not known. usual: what another candidate's takes, 0: not known. Patience goes
   by that, but where a library compiles meanwhile. */
tuff_status tuff__candidate_run_probe(candidate_run *self, uint64_t usual, uint64_t *nanoseconds);
/* Runs until two times agree within 2 %, which says that the clocks have settled, or so long at most. */
tuff_status tuff__candidate_run_warm(candidate_run *self, uint64_t most);
/* Whether its weights are cold when it is timed. */
bool tuff__candidate_run_is_cold(const candidate_run *self);
/* Whether no device of this one's size could be so fast. */
bool tuff__candidate_run_is_too_fast(const candidate_run *self, uint64_t nanoseconds);
/* Bytes of registers that a work-item keeps in memory, of that kernel of which it is most; 0: none, or not known. */
uint64_t tuff__candidate_run_spilled(const candidate_run *self);
/* One run, waited for. */
tuff_status tuff__candidate_run_run(candidate_run *self);

#endif
