/* Builds slabs of tensors, in the layout of the parameters. */
#ifndef TUFF_TRAIN_SLAB_H
#define TUFF_TRAIN_SLAB_H

#include "train/train.h"

/* A slab, or a run of one, that is assembled part by part in the order of elements. Gaps are zeros. */
typedef struct slab_builder {
    tuff_graph *graph;
    tuff_tensor **parts;
    int count, capacity;
    int64_t end; /* elements so far */
    bool failed; /* out of memory */
} slab_builder;

/* Adds a tensor of any shape, with count elements, at element `at`. */
void tuff__slab_add(slab_builder *self, tuff_tensor *part, int64_t at, int64_t count);
/* Returns the assembled slab, [total]; NULL if out of memory. The builder is empty afterwards. */
tuff_tensor *tuff__slab_join(slab_builder *self, int64_t total);

/* Returns the elements of a tensor [n] from `at` on, as a tensor of another shape. */
tuff_tensor *tuff__slab_part(tuff_tensor *slab, int64_t at, tuff_shape shape);

#endif
