/* The command line of the example programs. */
#ifndef TUFF_EXAMPLES_OPTIONS_H
#define TUFF_EXAMPLES_OPTIONS_H

#include "example.h"

typedef struct example_options {
    const char *config_name; /* "small", "original" */
    void *config;            /* with all changes; freed by example_options_free */
    bool optimized;
    const char *device; /* NULL: as tuff_device_open(NULL) */
    uint64_t seed;
    tuff_precision precision, matmul_precision;
    tuff_tune_mode tune;
    bool deterministic;
    int64_t log_every;          /* steps; 0: a twentieth of the run */
    int64_t validate_every;     /* steps; 0: never */
    int64_t validation_batches; /* 0: 4 */
    int64_t save_every;         /* steps; 0: at the end */
    const char *data;           /* NULL: the data set that the example makes */
    const char *resume, *save, *log, *report, *save_graph, *save_batches;
    int64_t checks; /* > 0: so many random configurations against the reference device instead of a training */
    bool bench;     /* steps at commands on standard input: bench.c */
    bool help;
} example_options;

/* False where the words are wrong: one line on the error stream says why. */
bool example_options_read(const example *model, int count, char **words, example_options *out);
void example_options_free(example_options *self);
void example_options_help(const example *model);

#endif
