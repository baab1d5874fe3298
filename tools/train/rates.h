/* Learning rates from a file, one line per step or epoch: a schedule of the program's own, which plans read from a
   scalar on the device (tuff_optimizer_rate). */
#ifndef TUFF_TOOLS_TRAIN_RATES_H
#define TUFF_TOOLS_TRAIN_RATES_H

#include "tuff/train.h"

typedef struct rate_list {
    float *items; /* NULL if a schedule sets the rate */
    int64_t count;
    int64_t steps_each; /* steps per line */
    uint64_t hash;      /* of the rates */
    float applied;      /* rate on the device; below 0: not set yet */
} rate_list;

/* Reads the file at path. epoch_steps: steps per line; 0: one. Call rates_free even after a failure. */
tuff_status rates_read(rate_list *self, const char *path, int64_t epoch_steps);
void rates_free(rate_list *self);
/* Writes the rate of the step after `done` steps to the device, unless it is there already. */
tuff_status rates_apply(rate_list *self, tuff_optimizer *optimizer, int64_t done);

#endif
