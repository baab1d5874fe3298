/* The command line of the example programs. */
#ifndef TUFF_EXAMPLES_OPTIONS_H
#define TUFF_EXAMPLES_OPTIONS_H

#include "example.h"

typedef struct example_options {
    const char *config_name; /* "small" or "original" */
    void *config;            /* with all changes applied; freed by example_options_free */
    bool optimized;
    const char *device; /* as for tuff_device_open; NULL: the default */
    uint64_t seed;
    tuff_precision precision, matmul_precision;
    tuff_tune_mode tune;
    bool deterministic;
    int64_t log_every;          /* steps between lines; 0: a twentieth of the run */
    int64_t validate_every;     /* steps between validations; 0: never */
    int64_t validation_batches; /* batches per validation; 0: 4 */
    int64_t save_every;         /* steps between checkpoints; 0: only at the end */
    const char *data;           /* NULL: the example generates its data */
    const char *resume, *save, *log, *report, *save_graph, *save_batches;
    int64_t checks; /* if > 0, checks this many random configurations instead of training */
    bool bench;     /* runs steps as commands on standard input request, see bench.c */
    bool help;
} example_options;

/* Parses the command line. Returns false if it is invalid, after one line on standard error that says why. */
bool example_options_read(const example *model, int count, char **words, example_options *out);
void example_options_free(example_options *self);
void example_options_help(const example *model);

#endif
