/* A training whose gradients are inputs: the loss sum(w · g) has the gradient g. */
#ifndef TUFF_TESTS_TRAIN_FIXTURE_H
#define TUFF_TESTS_TRAIN_FIXTURE_H

#include "train/state.h"

typedef struct trainer {
    const tuff_parameter_spec *specs;
    int count;
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_plan *plan;   /* a step, or its accumulating part */
    tuff_plan *update; /* the updating part, or NULL */
} trainer;

typedef struct trainer_options {
    const tuff_optimizer_options *optimizer;
    const char *const *patterns; /* of the groups */
    int pattern_count;
    int64_t slab_limit; /* in elements; 0: the device's limit */
} trainer_options;

/* Fails the test on any error. The plan's inputs have the parameters' names; its outputs are loss, norm, rate, scale,
   skipped, in_row, and, if the options request them, tensor_norms and group_norms. */
trainer trainer_make(tuff_device *device, const tuff_parameter_spec *specs, int count, const trainer_options *options);
void trainer_drop(trainer *self);

/* Returns an element of parameter `index` (round 0) or of its gradient in a later round: of either sign, never 0. */
double trainer_value(int index, int64_t element, int round);
/* Write the parameters of round 0, or the gradients of a round. */
void trainer_write_weights(trainer *self);
void trainer_write_gradients(trainer *self, int round);
/* Writes the gradients of the round and runs a step. With several parts per step, these are the rounds from round ·
   parts on. */
void trainer_step(trainer *self, int round);
/* Return an output of rank 0 of the plan that makes the update. */
float trainer_float(trainer *self, const char *name);
int32_t trainer_int(trainer *self, const char *name);

/* Returns the contents of all arrays that a checkpoint holds, one after the other; with `settled` without those of loss
   scaling and the count of batches. The caller frees it. */
char *trainer_bits(const trainer *self, bool settled, size_t *size);
bool trainer_same_bits(const trainer *a, const trainer *b, bool settled);
/* Counts the launches of a plan that write the storage of one of the arrays, some of which may be NULL. Not for the
   reference device. */
int trainer_count_writers(const tuff_plan *plan, tuff_array *const *arrays, int count);
/* Returns the elements of a parameter, which the caller frees. */
float *trainer_weights(const trainer *self, int index);

#endif
