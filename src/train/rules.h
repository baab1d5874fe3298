/* The table of optimizers. */
#ifndef TUFF_TRAIN_RULES_H
#define TUFF_TRAIN_RULES_H

#include "train/train.h"

/* The rule of a tuff_optimizer_kind; NULL where there is none. */
const optimizer_rule *tuff__optimizer_rule(int kind);

#endif
