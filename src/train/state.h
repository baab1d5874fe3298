/* Everything that a checkpoint holds, as one list: parameters, what an optimizer keeps of each, and its scalars. */
#ifndef TUFF_TRAIN_STATE_H
#define TUFF_TRAIN_STATE_H

#include "train/train.h"

/* The slab range that updates a parameter; NULL where it is frozen. */
const slab_range *tuff__slab_range_of(const tuff_optimizer *optimizer, const parameter *item);
/* Elements of factors that a parameter's state_parts take; 0 where the slab range does not hold it. */
int64_t tuff__factors_size(const slab_range *of, const parameter *item);
/* Elements of a shape, up to a multiple of SLAB_ALIGNMENT. */
int64_t tuff__aligned_count(tuff_shape shape);
/* Where in the slab range's factors they begin. */
int64_t tuff__factors_offset(const tuff_optimizer *optimizer, const slab_range *of, int index);

typedef struct state_array {
    tuff_array *array;
    void *host; /* room for all of it, zeros at first */
} state_array;

typedef struct state_tensor {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape;
    void *data; /* in an array's host memory */
} state_tensor;

typedef struct state_list {
    arena arena;
    state_array *arrays;
    state_tensor *tensors;
    int array_count, array_capacity, tensor_count, tensor_capacity;
} state_list;

/* Lists the state with host memory for it; optimizer may be NULL. Free it whatever is returned. */
tuff_status tuff__state_list(tuff_parameters *parameters, tuff_optimizer *optimizer, state_list *out);
void tuff__state_free(state_list *self);
/* Transfers of whole arrays: a few, however many tensors. */
tuff_status tuff__state_read(state_list *self);
tuff_status tuff__state_write(state_list *self);

#endif
