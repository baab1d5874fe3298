/* What candidates were lowered to. A candidate is lowered once, when a search asks what can be made of it; the launches
   wait here until the candidate is compiled (compile_pool.h, evaluator.c), and are freed when they ran or when the
   candidate is dropped. Used by the thread that steps the searches; what tuff__lowered_get hands out belongs to its
   caller. */
#ifndef TUFF_AUTOTUNE_LOWERED_H
#define TUFF_AUTOTUNE_LOWERED_H

#include "autotune/session.h"

typedef struct lowered_candidate {
    const tuning_task *task;
    tune_config asked, tried; /* tried: without what lowering did not look up, as the search calls the candidate */
    task_estimate estimate;
    launch_list launches; /* on the device that candidates run on; without memory */
} lowered_candidate;

/* Lowers a configuration, unless that was done, and keeps the launches; of those kept the least recently used go first.
   *out is filled as by tuff__estimate_task, whose errors these are. */
tuff_status tuff__lowered_estimate(const tuning_task *task, const tune_config *config, task_estimate *out);
/* Hands out what was kept, or lowers the configuration now. The caller frees *out, which is NULL after a failure. */
tuff_status tuff__lowered_get(const tuning_task *task, const tune_config *config, lowered_candidate **out);
void tuff__lowered_free(lowered_candidate *self); /* NULL is allowed */
/* Frees what a configuration was lowered to, as it was asked for; or what is kept of a task. */
void tuff__lowered_drop(const tuning_task *task, const tune_config *config);
void tuff__lowered_clear(const tuning_task *task);

#endif
