/* Shared by the files that save: a checkpoint in host memory, and the device arrays that it is read from. */
#ifndef TUFF_TRAIN_CHECKPOINT_H
#define TUFF_TRAIN_CHECKPOINT_H

#include "train/train.h"

/* An array of the state, and host memory for its elements. */
typedef struct checkpoint_array {
    tuff_array *array;
    void *host;
} checkpoint_array;

typedef struct checkpoint_state checkpoint_state;
/* Lists the state and allocates host memory for it. optimizer may be NULL. */
tuff_status tuff__checkpoint_open(tuff_parameters *parameters, tuff_optimizer *optimizer, checkpoint_state **out);
void tuff__checkpoint_close(checkpoint_state *state); /* NULL is allowed */
int tuff__checkpoint_array_count(const checkpoint_state *state);
checkpoint_array tuff__checkpoint_array(checkpoint_state *state, int index);
/* Writes the contents of host memory to a file, without using the device. May be called once. */
tuff_status tuff__checkpoint_store(checkpoint_state *state, const char *path, const char *const *keys,
                                   const char *const *texts, int metadata_count);

#endif
