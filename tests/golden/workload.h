/* Holding a training example against its golden file: what the model shows, the loss, every gradient, and the
   parameters after the steps that the file has, in both forms. */
#ifndef TUFF_TESTS_WORKLOAD_H
#define TUFF_TESTS_WORKLOAD_H

#include "examples/common/trial.h"

/* The file's tolerances, which its metadata states as a text. */
typedef struct workload_bars {
    double out, gradient;                /* of a tensor's largest element */
    double loss, norm;                   /* relative */
    double noise;                        /* of grad_norm, for gradients that are zero */
    double threshold;                    /* gradients above it determine a step of Adam */
    double close1, far1, close10, far10; /* of the rate, for weights with such gradients and others: see trial.h */
} workload_bars;

typedef struct workload {
    const char *file; /* "1_dotgat" */
    const example *model;
    const char *prefix;  /* of the file's keys for outputs, gradients and losses: "", "alt." */
    const char *variant; /* of the keys of losses, norms and weights after steps: "losses_l2_own"; NULL: none */
    struct {
        const char *name; /* NULL ends the list */
        double value;
    } numbers[4]; /* of the configuration, which the metadata does not have */
    /* Sets what the metadata does not name as the configuration does; numbers of equal names are set before. False: the
       model lacks a setting. May be NULL. */
    bool (*configure)(const tuff_file *file, void *config);
    /* Fills an input, size bytes, instead of the file's tensor of its name. False: it is that tensor. May be NULL. */
    bool (*bind)(const tuff_file *file, const void *config, const char *name, void *values, size_t size);
    /* After step `step`, from 0: the deviation of what is neither an output of the file nor a parameter, as a part of
       what is allowed; NaN where the file has it not. May be NULL. */
    double (*look)(const tuff_file *file, const void *config, const example_test_step *trial, int64_t step);
    /* The file has the values of the forward pass and the norm of the gradients alone. */
    bool forward_only;
    /* Further values of the forward pass: names with this beginning, such as "greedy.", which the model shows under
       these names. NULL: none. */
    const char *also;
    /* Elements with a gradient of zero, of which a run has noise: of parameters whose names end like one of these,
       separated by commas, part zero_part of zero_parts. NULL: none. */
    const char *zero_endings;
    int zero_part, zero_parts;
    /* Parameters, named by endings as well, of which a batch does not use all rows: those have a gradient of exactly 0,
       and only decay. NULL: none. */
    const char *decaying_endings;
    workload_bars bars;
} workload;

typedef struct workload_counts {
    int compared, failed; /* quantities, and those that are beyond their bars or could not be computed */
} workload_counts;

/* Checks one form of a row on a device. Prints a line for each quantity beyond its bar, and one for the whole. file is
   the row's. */
workload_counts workload_check(const workload *self, const tuff_file *file, tuff_device *device, bool optimized);

#endif
