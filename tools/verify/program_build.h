/* The graphs of random programs, and the data that they run on. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_BUILD_H
#define TUFF_TOOLS_VERIFY_PROGRAM_BUILD_H

#include "tools/verify/program.h"

enum { PROGRAM_INPUTS = 5, PROGRAM_PARAMETERS = 96 };

typedef struct program_input {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape; /* the first axis: samples */
    void *data;
    size_t size;
} program_input;

/* What a step reads. */
typedef struct program_data {
    program_input inputs[PROGRAM_INPUTS];
    int count;
} program_data;

/* The inputs of batch `batch`, the same for everybody; a sample's numbers do not depend on what else there is.
   TUFF_E_OOM_HOST where memory ran out. Freed by program_data_free. */
tuff_status program_data_make(const program_recipe *recipe, int batch, program_data *out);
void program_data_free(program_data *data);

/* Patterns of names that parameters are grouped by, at most so many. */
enum { PROGRAM_GROUPS = 2 };
#define PROGRAM_VECTORS "*.bias,*.gain"
#define PROGRAM_LAYER "0.*"

/* The parameters with their first values. Of patterns, one for each group but the first, NULL where there is none,
   those that match no name, or all of them, become NULL. */
tuff_status program_build_parameters(const program_recipe *recipe, tuff_device *device, const char **patterns,
                                     tuff_parameters **out);
/* Adds the loss of all samples to a graph, which keeps its own errors. */
tuff_status program_build_loss(const program_recipe *recipe, tuff_graph *graph, tuff_parameters *parameters,
                               tuff_tensor **loss);

/* A program on a device: its parameters, with their first values, and its optimizer (program_training.c). */
typedef struct program_state {
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
} program_state;
tuff_status program_state_make(const program_recipe *recipe, tuff_device *device, program_state *out);
void program_state_free(program_state *state);

/* A step of training is one graph, or two: the first runs program_runs times, on the inputs of as many batches. */
enum { PROGRAM_GRAPHS = 2 };
int program_graph_count(const program_recipe *recipe);
int program_runs(const program_recipe *recipe);
/* Inputs of the first as program_data names them; outputs of the last "loss", "norm" (of all gradients, before
   clipping) and "rate". NULL on failure. */
tuff_graph *program_graph(const program_recipe *recipe, tuff_device *device, const program_state *state, int index);

/* Tokens of a sequence with what the variant puts behind; classes that are told apart. */
int64_t program_length(const program_recipe *recipe);
int64_t program_classes(const program_recipe *recipe);
/* Whether some targets are ignored, so that parts of a batch count differently. */
bool program_ignores(const program_recipe *recipe);

#endif
