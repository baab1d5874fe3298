/* Trials of whole graphs: a graph as its program has it, on another device, rewritten and fused in one way or another,
   every task with its default, so that no way is ahead by what was tuned for it before. */
#ifndef TUFF_RUN_WHOLE_H
#define TUFF_RUN_WHOLE_H

#include "run/plan.h"

/* A graph of the program's on another device, and arrays of its own there. */
typedef struct stage stage;
/* A plan of that. */
typedef struct whole whole;

/* Asked between the steps of making a plan and of its first run, of which each may take a compiler's time. */
typedef struct stage_guard {
    bool (*may_go_on)(void *user);
    void *user;
} stage_guard;

/* most: bytes that arrays, plans and what is kept of results may take together; plans that do not fit make way for
   others. TUFF_E_LIMIT: without any plan it is more. guard may be NULL. The source outlives the stage; what its
   arrays hold is read now, once; what stand-ins of arrays (graph/blob.h) hold is made up. */
tuff_status tuff__stage_create(tuff_graph *source, tuff_device *device, const tuff_compile_options *options,
                               uint64_t most, const stage_guard *guard, stage **out);
uint64_t tuff__stage_size(const stage *self); /* without plans */
/* All plans were destroyed before. NULL is allowed. */
void tuff__stage_destroy(stage *self);

typedef struct whole_form {
    choice found;     /* as pass_choices.found */
    uint64_t kernels; /* equal numbers, equal plans */
    double cost;      /* as compile/schedule/cost.h says */
} whole_form;

/* What rewritings by a choice make of the graph, found without a compiler. */
tuff_status tuff__stage_foresee(stage *self, const choice *by, whole_form *out);

/* TUFF_E_OOM_DEVICE: it takes more than is left, of the device or of the stage's bytes. TUFF_E_TIMEOUT: the guard said
   no. */
tuff_status tuff__whole_create(stage *on, const choice *by, whole **out);
uint64_t tuff__whole_size(const whole *self); /* bytes, while it has its memory */
void tuff__whole_destroy(whole *self);        /* NULL is allowed */
/* Its programs, which are the caller's from here on: an array to be freed, each to be released. */
void tuff__whole_give_programs(whole *self, program ***out, int *count);
/* Runs one after another, each as long as the program would wait for it; limit: as of tuff__trial_time. */
tuff_status tuff__whole_time(whole *self, int count, uint64_t limit, uint64_t *nanoseconds);
/* A run from where the program's arrays were. keeps: its results are what is right from here on. Else *wrong is a line
   about the first result that is not, beyond what other orders of sums make of it; or "". */
tuff_status tuff__whole_check(whole *self, bool keeps, char *wrong, size_t size);
/* The same once more: whether the bits are those of the last check. */
tuff_status tuff__whole_repeat(whole *self, bool *same);

#endif
