/* Fills in and checks the options of an optimizer, before anything is created from them. */
#ifndef TUFF_TRAIN_OPTIMIZER_OPTIONS_H
#define TUFF_TRAIN_OPTIMIZER_OPTIONS_H

#include "train/train.h"

/* Sets options, groups, loss_scaling and rule of an optimizer, whose parameters must be set. given may be NULL. */
tuff_status tuff__complete_options(tuff_optimizer *self, const tuff_optimizer_options *given);

#endif
