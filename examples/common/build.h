/* From an example to graphs and plans: shared by training, the checks and the golden tests. */
#ifndef TUFF_EXAMPLES_BUILD_H
#define TUFF_EXAMPLES_BUILD_H

#include <stdarg.h>
#include <stdio.h>

#include "example.h"

/* Formats the name that a function takes with a variable number of arguments. */
#define EXAMPLE_FORMAT(text, name)                      \
    do {                                                \
        va_list list_;                                  \
        va_start(list_, name);                          \
        vsnprintf((text), sizeof(text), (name), list_); \
        va_end(list_);                                  \
    } while (0)

/* Everything that a graph is built from. */
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

/* Opens the data of the model, from the file, or generated if path is NULL or the model reads no files, and sets
   source->data. *error_reported: whether a failure has already been printed; unchanged without a file. */
tuff_status example_open_data(example_source *source, const char *path, bool *error_reported);

/* The number of batches that a step accumulates. */
int64_t example_batches_per_step(const example_settings *settings);

/* Creates a graph that computes the model's loss; *loss has rank 0. The metrics and inputs in *build are valid as long
   as the graph, which the caller destroys. counter is the step counter that random numbers derive from; NULL if the
   graph draws none. Returns NULL on failure; errors of single ops stay in the graph. */
tuff_graph *example_build_graph(const example_source *source, tuff_array *counter, example_build *build,
                                tuff_tensor **loss);

/* Compile options of a form: the baseline is compiled without fusion and tuning. */
tuff_compile_options example_compile_options(bool optimized, tuff_precision precision, tuff_tune_options *tuning,
                                             bool deterministic);
/* The AdamW options that the configuration asks for, for a run of `steps` steps. */
tuff_optimizer_options example_optimizer_options(const example *model, const void *config, int64_t steps);

/* Registers the model's `choose` hook, if it has one. source must outlive the optimizer. */
void example_set_update_chooser(const example_source *source, tuff_optimizer_options *options);

/* Writes all fixed inputs of a plan, including that of example_copy. */
tuff_status example_write_fixed(const example_source *source, tuff_plan *plan);
/* Fills batch `number` into `inputs`, which has room for its values. Returns why the batch is invalid, or NULL. */
const char *example_fill_batch(const example_source *source, int64_t number, void *const *inputs);
/* Fills batch `number` on the host and writes it to the plan's inputs. Returns TUFF_E_USAGE if the batch is invalid. */
tuff_status example_write_batch(const example_source *source, tuff_plan *plan, int64_t number);
/* Why this thread's last example_write_batch rejected a batch, else tuff_error(). */
const char *example_error(void);

#endif
