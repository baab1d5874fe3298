/* The weight averages that an optimizer keeps (--ema), copied to a set of parameters. */
#ifndef TUFF_TOOLS_TRAIN_AVERAGES_H
#define TUFF_TOOLS_TRAIN_AVERAGES_H

#include "tuff/train.h"

typedef struct averages {
    tuff_plan *plan; /* copies the averages */
} averages;

/* Compiles the copy. into: a clone of parameters, or parameters itself; both sets must outlive self. Call
   averages_close even after a failure. */
tuff_status averages_open(averages *self, tuff_device *device, tuff_optimizer *optimizer, tuff_parameters *parameters,
                          tuff_parameters *into);
void averages_close(averages *self);
/* Copies the averages on the device. Before the first step that is not skipped, it copies the weights instead. */
tuff_status averages_update(averages *self);

#endif
