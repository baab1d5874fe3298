/* The lines printed so far in a training run, kept for its report and its plot. */
#ifndef TUFF_TOOLS_TRAIN_HISTORY_H
#define TUFF_TOOLS_TRAIN_HISTORY_H

#include "tools/train/monitors.h"

typedef struct history {
    line_numbers *lines;
    int count, capacity;
} history;

/* Appends a line. If memory runs out, only the line is lost. */
void history_add(history *self, const line_numbers *numbers);
void history_free(history *self);

#endif
