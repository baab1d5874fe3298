/* The keys of a compiled plan, with an evaluator for each, for tools that choose candidates themselves. Winners are
   neither looked up nor recorded. Candidates that were rejected on this device stay rejected, and the journal is
   written, so that a candidate that kills the process is not tried again. */
#ifndef TUFF_AUTOTUNE_PLAN_TASKS_H
#define TUFF_AUTOTUNE_PLAN_TASKS_H

#include "tuff/graph.h"
#include "tunedb/environment.h"
#include "tunedb/key.h"
#include "search/search.h"

typedef struct plan_tasks plan_tasks;

/* The plan must outlive *out and belong to a device that can be tuned; TUFF_E_UNSUPPORTED for the reference device. */
tuff_status tuff__plan_tasks_create(tuff_plan *plan, plan_tasks **out);
void tuff__plan_tasks_destroy(plan_tasks *self); /* NULL is allowed */

int tuff__plan_tasks_count(const plan_tasks *self);
const tune_key *tuff__plan_tasks_key(const plan_tasks *self, int index);
const tune_environment *tuff__plan_tasks_environment(const plan_tasks *self);
/* Valid as long as self. The caller, or tuff__plan_tasks_clear, releases what the evaluator compiles. */
evaluator tuff__plan_tasks_evaluator(plan_tasks *self, int index);
/* Frees the runs of a key and their memory. */
void tuff__plan_tasks_clear(plan_tasks *self, int index);

#endif
