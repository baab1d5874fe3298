/* The averages of weights that an optimizer keeps (--ema), as the weights of a set. */
#ifndef TUFF_TOOLS_TRAIN_AVERAGES_H
#define TUFF_TOOLS_TRAIN_AVERAGES_H

#include "tuff/train.h"

typedef struct averages {
    tuff_plan *plan; /* copies them */
} averages;

/* into: a clone of parameters, or these themselves; both must outlive it. Free it whatever is returned. */
tuff_status averages_open(averages *self, tuff_device *device, tuff_optimizer *optimizer, tuff_parameters *parameters,
                          tuff_parameters *into);
void averages_close(averages *self);
/* Copies them on the device. Before the first step that was not skipped they are the weights. */
tuff_status averages_take(averages *self);

#endif
