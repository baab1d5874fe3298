/* The graphs of random programs, and their input data. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_BUILD_H
#define TUFF_TOOLS_VERIFY_PROGRAM_BUILD_H

#include "tools/verify/program.h"

enum { PROGRAM_INPUTS = 5, PROGRAM_PARAMETERS = 96 };

typedef struct program_input {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape; /* the first axis is samples */
    void *data;
    size_t size;
} program_input;

/* The inputs of a step. */
typedef struct program_data {
    program_input inputs[PROGRAM_INPUTS];
    int count;
} program_data;

/* Makes the inputs of a batch, the same on every device. The numbers of a sample do not depend on anything else in the
   batch. TUFF_E_OOM_HOST if out of memory. Freed by program_data_free. */
tuff_status program_data_make(const program_recipe *recipe, int batch, program_data *out);
void program_data_free(program_data *data);

/* Maximum number of patterns that parameters are grouped by. */
enum { PROGRAM_GROUPS = 2 };
#define PROGRAM_VECTORS "*.bias,*.gain"
#define PROGRAM_LAYER "0.*"

/* Creates the parameters with their initial values. patterns has one for each group but the first, or NULL; patterns
   that match no name or all names are set to NULL. */
tuff_status program_build_parameters(const program_recipe *recipe, tuff_device *device, const char **patterns,
                                     tuff_parameters **out);
/* Adds the loss of all samples to a graph. Errors are kept in the graph. */
tuff_status program_build_loss(const program_recipe *recipe, tuff_graph *graph, tuff_parameters *parameters,
                               tuff_tensor **loss);

/* A program on a device: its parameters, with initial values, and its optimizer (program_training.c). */
typedef struct program_state {
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
} program_state;
tuff_status program_state_make(const program_recipe *recipe, tuff_device *device, program_state *out);
void program_state_free(program_state *state);

/* A training step is one graph, or two: the first runs program_run_count times, each time with the inputs of another
   batch. */
enum { PROGRAM_GRAPHS = 2 };
int program_graph_count(const program_recipe *recipe);
int program_run_count(const program_recipe *recipe);
/* Creates one of the graphs. Inputs of the first are named as in program_data; outputs of the last are "loss", "norm"
   (of all gradients, before clipping) and "rate". NULL on failure. */
tuff_graph *program_graph(const program_recipe *recipe, tuff_device *device, const program_state *state, int index);

/* Tokens per sequence including the variant's padding; number of classes. */
int64_t program_length(const program_recipe *recipe);
int64_t program_classes(const program_recipe *recipe);
/* Whether some targets are ignored, so that parts of a batch have different weights. */
bool program_has_ignored_targets(const program_recipe *recipe);

#endif
