/* Learning rates out of a file, a line for each step or epoch: the program's own schedule, which plans read from a
   scalar on the device (tuff_optimizer_rate). */
#ifndef TUFF_TOOLS_TRAIN_RATES_H
#define TUFF_TOOLS_TRAIN_RATES_H

#include "tuff/train.h"

typedef struct rate_list {
    float *items; /* NULL: the rate is a schedule's */
    int64_t count;
    int64_t steps_each; /* steps that a line is for */
    uint64_t hash;      /* of the rates */
    float given;        /* what the device has; below 0: nothing yet */
} rate_list;

/* Reads the file at path. epoch_steps: a line is for so many steps; 0: for one. Free it whatever is returned. */
tuff_status rates_read(rate_list *self, const char *path, int64_t epoch_steps);
void rates_free(rate_list *self);
/* Gives the device the rate of the step behind `done` steps, if it does not have that already. */
tuff_status rates_give(rate_list *self, tuff_optimizer *optimizer, int64_t done);

#endif
