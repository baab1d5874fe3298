/* The keys of a compiled plan, with a judge for each: for tools that ask about candidates themselves. Winners are
   neither looked up nor remembered; candidates that were rejected on this device stay barred, and the journal is kept,
   so that one that takes the process down is not tried again. */
#ifndef TUFF_AUTOTUNE_PLAN_TASKS_H
#define TUFF_AUTOTUNE_PLAN_TASKS_H

#include "tuff/graph.h"
#include "tunedb/environment.h"
#include "tunedb/key.h"
#include "search/search.h"

typedef struct plan_subjects plan_subjects;

/* The plan must outlive them, and be one of a device that tunes: on the reference device there are none. */
tuff_status tuff__subjects_create(tuff_plan *plan, plan_subjects **out);
void tuff__subjects_destroy(plan_subjects *self); /* NULL is allowed */

int tuff__subjects_count(const plan_subjects *self);
const tune_key *tuff__subjects_key(const plan_subjects *self, int index);
const tune_environment *tuff__subjects_environment(const plan_subjects *self);
/* Valid as long as the subjects. What it compiles is released by its caller, or by clear. */
judge tuff__subjects_judge(plan_subjects *self, int index);
/* Gives back the memory that the trials of a key ran on. */
void tuff__subjects_clear(plan_subjects *self, int index);

#endif
