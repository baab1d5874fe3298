/* Compares a training example with its golden file: the model's outputs, the loss, every gradient, and the parameters
   after the file's steps, in both forms. */
#ifndef TUFF_TESTS_WORKLOAD_H
#define TUFF_TESTS_WORKLOAD_H

#include "examples/common/trial.h"

/* The file's tolerances, given as text in its metadata. */
typedef struct workload_bars {
    double out, gradient;                /* relative to a tensor's largest element */
    double loss, norm;                   /* relative */
    double noise;                        /* for gradients that are zero, relative to grad_norm */
    double threshold;                    /* gradients above it determine a step of Adam */
    double close1, far1, close10, far10; /* relative to the rate, for weights with such gradients and for others: see
                                            trial.h */
} workload_bars;

typedef struct workload {
    const char *file; /* "1_dotgat" */
    const example *model;
    const char *prefix;  /* of the file's keys for outputs, gradients and losses: "", "alt." */
    const char *variant; /* in the keys of losses, norms and weights after steps: "losses_l2_own"; NULL: none */
    struct {
        const char *name; /* NULL ends the list */
        double value;
    } numbers[4]; /* of the configuration that the metadata does not have */
    /* Sets options of the configuration that have other names in the metadata; numbers of equal names are already set.
       Returns false if the model lacks a setting. May be NULL. */
    bool (*configure)(const tuff_file *file, void *config);
    /* Fills an input of size bytes instead of using the file's tensor of that name. Returns false to use that tensor.
       May be NULL. */
    bool (*bind)(const tuff_file *file, const void *config, const char *name, void *values, size_t size);
    /* After step `step`, from 0: returns the deviation, relative to the tolerance, of values that are neither outputs
       of the file nor parameters; NaN if the file lacks them. May be NULL. */
    double (*compare)(const tuff_file *file, const void *config, const example_test_step *trial, int64_t step);
    /* The file has only the values of the forward pass and the norm of the gradients. */
    bool forward_only;
    /* Prefix, such as "greedy.", of further values of the forward pass, which the model outputs under the same names.
       NULL: none. */
    const char *also;
    /* Elements whose gradient is zero up to rounding noise: part zero_part of zero_parts of the parameters whose names
       have one of these comma-separated endings. NULL: none. */
    const char *zero_endings;
    int zero_part, zero_parts;
    /* Endings of the names of parameters of which a batch does not use all rows: the gradient of unused rows is exactly
       0, so that they only decay. NULL: none. */
    const char *decaying_endings;
    workload_bars bars;
} workload;

typedef struct workload_counts {
    int compared, failed; /* quantities compared, and those beyond their tolerance or not computed */
} workload_counts;

/* Checks one form of a row on a device. Prints a line for each quantity beyond its tolerance, and a summary. file is
   the row's. */
workload_counts workload_check(const workload *self, const tuff_file *file, tuff_device *device, bool optimized);

#endif
