/* Building slabs of tensors, as optimizers update them. */
#ifndef TUFF_TRAIN_SLAB_H
#define TUFF_TRAIN_SLAB_H

#include "train/train.h"

/* A slab, or a run of one, that is put together part by part in the order of elements; what is left out is zeros. */
typedef struct slab_builder {
    tuff_graph *graph;
    tuff_tensor **parts;
    int count, capacity;
    int64_t end; /* elements so far */
    bool failed; /* memory ran out */
} slab_builder;

/* Adds a tensor of any shape with count elements from element `at` on. */
void tuff__slab_add(slab_builder *self, tuff_tensor *part, int64_t at, int64_t count);
/* The whole, [total]; NULL where memory ran out. The builder is free afterwards. */
tuff_tensor *tuff__slab_join(slab_builder *self, int64_t total);

/* count elements from `at` on of a tensor [n], in another shape. */
tuff_tensor *tuff__slab_part(tuff_tensor *whole, int64_t at, tuff_shape shape);

#endif
