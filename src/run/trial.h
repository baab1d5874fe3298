/* Trials: the kernels of one task by one choice, on a ground of their own. */
#ifndef TUFF_RUN_TRIAL_H
#define TUFF_RUN_TRIAL_H

#include "run/cold.h"
#include "run/ground.h"

typedef struct trial trial;

/* The same fusion with paper of its own to write on: what is lowered by it leaves nothing behind, and several threads
   can lower by borrowed ones at once. What was lowered is freed before it is given back. */
tuff_status tuff__fusion_borrow(const struct fusion *from, struct fusion *out);
void tuff__fusion_give_back(struct fusion *borrowed);

/* Equal kernels over equal grids have equal numbers. *items: of the largest work-group. */
uint64_t tuff__launches_hash(const lowered *of, uint32_t *items);

typedef struct foreseen {
    choice consulted; /* the tunables that were asked for, with their usual values; where nothing can be made, too */
    uint64_t kernels; /* equal kernels over equal grids have equal numbers */
    uint32_t items;   /* of the largest work-group */
    double cost;      /* as compile/foresee.h says */
} foreseen;

/* What a choice makes of a task, found without a compiler. TUFF_E_LIMIT, TUFF_E_UNSUPPORTED: nothing. */
tuff_status tuff__trial_foresee(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                                int task, const choice *what, foreseen *out);

/* Compiles and records. pool: borrowed, filled where there are weights that are to be cold while runs are
   timed; NULL: nothing is. */
tuff_status tuff__trial_create(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                               int task, const choice *what, ground *on, cold_pool *pool, trial **out);
void tuff__trial_destroy(trial *self); /* NULL is allowed */

/* One run after another, each timed by the device's clock (the host's, where that is none): count times. Short runs are
   repeated in one submission. Copies that are kept between runs do not count. limit, where not 0: after a run that
   takes longer the rest are given its time. */
tuff_status tuff__trial_time(trial *self, int count, uint64_t limit, uint64_t *nanoseconds);
/* The first run: of some of each kernel's groups alone, where the task's kernels can be run in part. Answers how long a
   whole run should take; 0 where that is not known. usual: what another candidate's takes, 0: not known. Patience goes
   by that, but where a library compiles meanwhile. */
tuff_status tuff__trial_probe(trial *self, uint64_t usual, uint64_t *nanoseconds);
/* Runs until two times agree within 2 %, which says that the clocks have settled, or so long at most. */
tuff_status tuff__trial_warm(trial *self, uint64_t most);
/* Whether its weights are cold when it is timed. */
bool tuff__trial_is_cold(const trial *self);
/* Whether no device of this one's size could be so fast. */
bool tuff__trial_is_too_fast(const trial *self, uint64_t nanoseconds);
/* Bytes of registers that a work-item keeps in memory, of that kernel of which it is most; 0: none, or not known. */
uint64_t tuff__trial_spilled(const trial *self);
/* One run, waited for. */
tuff_status tuff__trial_run(trial *self);

#endif
