/* The optimizers that there are. */
#ifndef TUFF_TRAIN_RULES_H
#define TUFF_TRAIN_RULES_H

#include "train/train.h"

/* The rule for options, which are checked and complete. */
const optimizer_rule *tuff__optimizer_rule(const tuff_optimizer_options *options);

#endif
