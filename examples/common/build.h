/* From an example to graphs and plans: what the training, the checks and the golden tests build alike. */
#ifndef TUFF_EXAMPLES_BUILD_H
#define TUFF_EXAMPLES_BUILD_H

#include "example.h"

/* What a graph is built from; copied. */
typedef struct example_source {
    const example *model;
    const void *config;
    tuff_device *device;
    tuff_parameters *parameters, *frozen;
    void *data;
    uint64_t seed;
    bool optimized;
    example_purpose purpose;
} example_source;

/* A graph with the model's loss: *loss, of rank 0. build's metrics and inputs stay valid as long as the graph, which
   the caller destroys. counter is what random numbers depend on; NULL: nothing may be random. NULL on failure; other
   errors stay in the graph. */
tuff_graph *example_graph(const example_source *source, tuff_array *counter, example_build *build, tuff_tensor **loss);

/* How the form is compiled: the published one without fusion and tuning. */
tuff_compile_options example_compile_options(bool optimized, tuff_precision precision, tuff_tune_options *tuning,
                                             bool deterministic);
/* The options of AdamW as the configuration says, for `steps` steps. */
tuff_optimizer_options example_optimizer_options(const example *model, const void *config, int64_t steps);

/* Lets the model choose what is updated, where it does so. source must outlive the optimizer. */
void example_let_choose(const example_source *source, tuff_optimizer_options *options);

/* Writes the input of example_copy, where the plan has it. */
tuff_status example_write_one(tuff_plan *plan);
/* Writes all fixed inputs of a plan, that one included. */
tuff_status example_write_fixed(const example_source *source, tuff_plan *plan);
/* Fills batch `number`: `inputs` is room for its values. Returns why it makes no sense; NULL where it does. */
const char *example_fill_batch(const example_source *source, int64_t number, void *const *inputs);
/* Fills batch `number` on the host, and writes it to the plan's inputs. TUFF_E_USAGE where it makes no sense. */
tuff_status example_write_batch(const example_source *source, tuff_plan *plan, int64_t number);
/* Why the thread's last example_write_batch refused a batch, else tuff_error(). */
const char *example_error(void);

#endif
