/* A training whose gradients are inputs: loss = sum(w · g), which is what makes any gradient out of a loss. */
#ifndef TUFF_TESTS_TRAIN_FIXTURE_H
#define TUFF_TESTS_TRAIN_FIXTURE_H

#include "train/state.h"

typedef struct trainer {
    const tuff_parameter_spec *specs;
    int count;
    tuff_parameters *parameters;
    tuff_optimizer *optimizer;
    tuff_plan *plan;   /* of a step, or of its part that accumulates */
    tuff_plan *update; /* of the other part, or NULL */
} trainer;

typedef struct trainer_options {
    const tuff_optimizer_options *optimizer;
    const char *const *patterns; /* of groups */
    int pattern_count;
    int64_t slab_limit; /* elements; 0: the device's */
} trainer_options;

/* Fails the test where anything cannot be made. The plan's inputs have the parameters' names; outputs are loss, norm,
   rate, scale, skipped, in_row, and tensor_norms and group_norms where the options ask for them. */
trainer trainer_make(tuff_device *device, const tuff_parameter_spec *specs, int count, const trainer_options *options);
void trainer_drop(trainer *self);

/* Parameter `index`, or its gradient, in round `round`: numbers of either sign, none of them 0. */
double trainer_value(int index, int64_t element, int round);
/* Writes the parameters of round 0, or the gradients of a round. */
void trainer_write_weights(trainer *self);
void trainer_write_gradients(trainer *self, int round);
/* Writes the gradients of the round and runs a step: of several parts round · parts and so on. */
void trainer_step(trainer *self, int round);
/* An output of rank 0 of the plan that makes the update. */
float trainer_float(trainer *self, const char *name);
int32_t trainer_int(trainer *self, const char *name);

/* The contents of all arrays that a checkpoint holds, one after the other, without those that belong to loss scaling
   and the count of batches where `settled` is set. Freed with free. */
char *trainer_bits(const trainer *self, bool settled, size_t *size);
bool trainer_same_bits(const trainer *a, const trainer *b, bool settled);
/* Launches of a plan that write the storage of one of the arrays, of which some may be NULL; not of the reference
   device. */
int trainer_count_writers(const tuff_plan *plan, tuff_array *const *arrays, int count);
/* Elements of a parameter, freed with free. */
float *trainer_weights(const trainer *self, int index);

#endif
