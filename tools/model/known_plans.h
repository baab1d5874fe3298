/* The plans for verbs that inspect plans but do not train: a training step and the next token of a model, or the graph
   of a file. */
#ifndef TUFF_TOOLS_MODEL_KNOWN_PLANS_H
#define TUFF_TOOLS_MODEL_KNOWN_PLANS_H

#include "tools/model/options.h"

/* Plans of a model; a file's only plan is the first. */
enum { MODEL_PLAN_TRAIN, MODEL_PLAN_GENERATE, MODEL_PLAN_COUNT };

typedef struct model_plan {
    const char *name; /* "train", "generate", or the name in the file made printable */
    tuff_graph *graph;
    tuff_plan *plan;
} model_plan;

typedef struct model_plans {
    language_model model;
    tuff_optimizer *optimizer;
    model_plan items[MODEL_PLAN_COUNT];
    int count; /* of the items */
    int64_t batch;
    bool is_file;
    tuff_precision file_precision; /* that the file's graph is compiled with */
    char file_name[TUFF_GRAPH_NAME_SIZE];
} model_plans;

/* Compiles a model or a file, as the command line describes it. A file's own options apply where `options` has
   defaults, except for tuning, of which only determinism is used, and only if nothing is measured. The weights of a
   model are zeros. Call
   model_plans_destroy even after a failure; do not move *out. */
tuff_status model_plans_open(tuff_device *device, const model_options *described, const tuff_compile_options *options,
                             model_plans *out);
void model_plans_destroy(model_plans *self);

/* Writes every input of a plan, so that it can run, with random values; for a file, also to its arrays. */
tuff_status model_plan_write(const model_plans *self, int index);

/* Saves the graph of a model's training step with its compile options and the names of its parameters. */
tuff_status model_graph_save(const tuff_graph *graph, const char *name, tuff_parameters *parameters,
                             const tuff_compile_options *options, const char *path);

#endif
