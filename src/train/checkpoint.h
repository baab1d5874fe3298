/* Shared by the files that save training state: checkpoint.c, which saves at once, and checkpoint_writer.c, which saves
   in the background. */
#ifndef TUFF_TRAIN_CHECKPOINT_H
#define TUFF_TRAIN_CHECKPOINT_H

#include "train/state.h"

/* Checks the arguments of a save or load; optimizer may be NULL. */
tuff_status tuff__checkpoint_check(const char *path, const tuff_parameters *parameters,
                                   const tuff_optimizer *optimizer);
/* Writes the list's host memory to a file, without using the device. May be called once for a list. */
tuff_status tuff__checkpoint_save(state_list *state, const char *path, const tuff_optimizer *optimizer,
                                  const char *const *keys, const char *const *texts, int metadata_count);

#endif
