/* Additional names of checkpoint files: one for each step that is kept, and one for the best. */
#ifndef TUFF_TRAIN_CHECKPOINT_FILES_H
#define TUFF_TRAIN_CHECKPOINT_FILES_H

#include "base/status.h"

struct tuff_checkpoint_options;
tuff_status tuff__check_checkpoint_options(const struct tuff_checkpoint_options *options);

/* Gives the checkpoint at path the additional names that tuff_checkpoint_options requests, and removes old ones. */
tuff_status tuff__rotate_checkpoints(const char *path, int64_t step, int keep, bool best);

#endif
