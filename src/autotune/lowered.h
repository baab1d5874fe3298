/* The launches of lowered candidates. A candidate is lowered once, when a search asks for its estimate. The launches
   wait here until the candidate is compiled (compile_pool.h, evaluator.c), and are freed once they ran or the candidate
   is dropped. For the thread that steps the searches only; the caller owns what tuff__lowered_get returns. */
#ifndef TUFF_AUTOTUNE_LOWERED_H
#define TUFF_AUTOTUNE_LOWERED_H

#include "autotune/session.h"

typedef struct lowered_candidate {
    const tuning_task *task;
    tune_config requested, trimmed; /* trimmed: without tunables that lowering did not read, as the search names it */
    task_estimate estimate;
    launch_list launches; /* on the measuring device; without memory */
} lowered_candidate;

/* Lowers a configuration unless its launches are kept already, and keeps them; the least recently used ones are dropped
   first. Fills *out like tuff__estimate_task and returns the same errors. */
tuff_status tuff__lowered_estimate(const tuning_task *task, const tune_config *config, task_estimate *out);
/* Hands out the kept launches, or lowers the configuration now. The caller frees *out, which is NULL on failure. */
tuff_status tuff__lowered_get(const tuning_task *task, const tune_config *config, lowered_candidate **out);
void tuff__lowered_free(lowered_candidate *self); /* NULL is allowed */
/* Frees the launches of a configuration, given as it was requested. */
void tuff__lowered_drop(const tuning_task *task, const tune_config *config);
/* Frees all launches of a task. */
void tuff__lowered_clear(const tuning_task *task);

#endif
