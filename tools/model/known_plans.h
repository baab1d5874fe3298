/* The plans that verbs look into which train nothing: a training step and the next token of a model, or what a graph
   file holds. */
#ifndef TUFF_TOOLS_MODEL_KNOWN_PLANS_H
#define TUFF_TOOLS_MODEL_KNOWN_PLANS_H

#include "tools/model/options.h"

/* Of a model; the one plan of a file is the first. */
enum { KNOWN_TRAIN, KNOWN_GENERATE, KNOWN_COUNT };

typedef struct known_plan {
    const char *name; /* "train", "generate"; what a file says, made printable */
    tuff_graph *graph;
    tuff_plan *plan;
} known_plan;

typedef struct known_plans {
    language_model model;
    tuff_optimizer *optimizer;
    known_plan items[KNOWN_COUNT];
    int count; /* of the items */
    int64_t batch;
    bool is_file;
    tuff_precision file_precision; /* what the file was compiled with */
    char file_name[TUFF_GRAPH_NAME_SIZE];
} known_plans;

/* Compiles what the command line describes, a model or a file. The options of a file apply where options has the
   default, but to tuning: determinism only where nothing is measured. known_plans_destroy frees what there is, after a
   failure too; do not move *out. */
tuff_status known_plans_open(tuff_device *device, const model_options *described, const tuff_compile_options *options,
                             known_plans *out);
/* Compiles both of a model; recompute as in language_model; the weights are zeros. */
tuff_status known_plans_create(tuff_device *device, const model_config *config, int64_t batch, bool recompute,
                               const tuff_compile_options *options, known_plans *out);
void known_plans_destroy(known_plans *self);

/* Gives every input of a plan values, so that it can run: zeros to those of a model, random ones to those of a file and
   to its arrays. */
tuff_status known_plan_write(const known_plans *self, int index);

/* Writes the graph of a model's training step with the options it is compiled with, and the names of parameters. */
tuff_status known_graph_save(const tuff_graph *graph, const char *name, tuff_parameters *parameters,
                             const tuff_compile_options *options, const char *path);

#endif
