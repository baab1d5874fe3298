/* The contents of a checkpoint as one list: parameters, the optimizer's state of each, and its scalars. */
#ifndef TUFF_TRAIN_STATE_H
#define TUFF_TRAIN_STATE_H

#include "train/train.h"

/* Returns the slab range that updates a parameter; NULL if it is frozen. */
const slab_range *tuff__find_slab_range(const tuff_optimizer *optimizer, const parameter *item);
/* Returns the number of elements of factors that a parameter's state_parts take; 0 if it is not in the slab range. */
int64_t tuff__factors_size(const slab_range *range, const parameter *item);
/* Returns the number of elements of a shape, rounded up to a multiple of SLAB_ALIGNMENT. */
int64_t tuff__aligned_count(tuff_shape shape);
/* Returns the offset of a parameter's state_parts in the slab range's factors. */
int64_t tuff__factors_offset(const tuff_optimizer *optimizer, const slab_range *range, int index);

typedef struct state_array {
    tuff_array *array;
    void *host; /* memory for the whole array, zeroed */
} state_array;

typedef struct state_tensor {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape;
    void *data; /* points into an array's host memory */
} state_tensor;

typedef struct state_list {
    arena arena;
    state_array *arrays;
    state_tensor *tensors;
    int array_count, array_capacity, tensor_count, tensor_capacity;
} state_list;

/* Lists the state and allocates host memory for it. optimizer may be NULL. Call tuff__state_free even after a
   failure. */
tuff_status tuff__list_state(tuff_parameters *parameters, tuff_optimizer *optimizer, state_list *out);
void tuff__state_free(state_list *self);
/* Transfer whole arrays: a few transfers, however many tensors there are. */
tuff_status tuff__state_read(state_list *self);
tuff_status tuff__state_write(state_list *self);

#endif
