/* The types that the files of src/train share: where a parameter lies in the slab, and which slabs an optimizer keeps.
   A slab is one f32 array of total elements: parameters of rank >= 2 first, every one from a multiple of 16
   elements, zeros between them and at the end. Moments are laid out alike. */
#ifndef TUFF_TRAIN_TRAIN_H
#define TUFF_TRAIN_TRAIN_H

#include "base/alloc.h"
#include "tuff/graph.h"
#include "tuff/train.h"

#define SLAB_ALIGNMENT 16 /* elements: no vector load of a parameter straddles two */
#define SLAB_CHUNK 1024   /* elements: the total is a multiple, so that sums over a slab go in two even stages */

typedef struct parameter {
    char *name;
    tuff_shape shape;
    int64_t offset, count; /* elements */
    tuff_array *array;     /* a view of the slab */
} parameter;

struct tuff_parameters {
    tuff_device *device;
    tuff_array *slab;
    parameter *items; /* in the order given */
    int count;
    int *order;            /* indices of items by offset */
    int64_t total;         /* elements of the slab */
    int64_t decayed_total; /* elements before the first parameter of rank < 2 */
};

#define MOMENTS_MAX 2

/* An algorithm as data. */
typedef struct optimizer_rule {
    const char *name;                 /* as checkpoints spell it */
    const char *moments[MOMENTS_MAX]; /* names of the slabs it keeps, NULL where there is none */
    /* False for options with which it keeps none of them; NULL: it always does. */
    bool (*keeps_moments)(const tuff_optimizer_options *options);
    /* Builds the new parameters from the old ones, the scaled gradients and the moments, which it replaces. All are
       [total]. */
    tuff_tensor *(*update)(const tuff_optimizer *optimizer, tuff_tensor *weights, tuff_tensor *gradients,
                           tuff_tensor **moments, tuff_tensor *rate, tuff_tensor *step);
} optimizer_rule;

struct tuff_optimizer {
    const optimizer_rule *rule;
    tuff_parameters *parameters;
    tuff_optimizer_options options; /* the defaults filled in */
    tuff_array *moments[MOMENTS_MAX];
    tuff_array *counter;
};

/* The rate of a step (f32 scalar: the number of steps done before it), as an f32 scalar. */
tuff_tensor *tuff__learning_rate(const tuff_optimizer_options *options, tuff_tensor *step);

#endif
