/* The plans that tuff plan and tuff kernel look into: a training step and the next token of a GPT. */
#ifndef TUFF_TOOLS_MODEL_KNOWN_PLANS_H
#define TUFF_TOOLS_MODEL_KNOWN_PLANS_H

#include "tools/model/model.h"

enum { KNOWN_TRAIN, KNOWN_GENERATE, KNOWN_COUNT };

typedef struct known_plan {
    const char *name; /* "train", "generate" */
    tuff_graph *graph;
    tuff_plan *plan;
} known_plan;

typedef struct known_plans {
    language_model model;
    tuff_optimizer *optimizer;
    known_plan items[KNOWN_COUNT];
    int64_t batch;
} known_plans;

/* Compiles both; recompute as in language_model; the weights are zeros. known_plans_destroy frees what there is, after
   a failure too. */
tuff_status known_plans_create(tuff_device *device, const model_config *config, int64_t batch, bool recompute,
                               const tuff_compile_options *options, known_plans *out);
void known_plans_destroy(known_plans *self);

/* Gives every input of a plan values, so that it can run. */
tuff_status known_plan_write(const known_plans *self, int index);

#endif
