/* What a training told of itself so far, line by line: what its report and its plot show. */
#ifndef TUFF_TOOLS_TRAIN_HISTORY_H
#define TUFF_TOOLS_TRAIN_HISTORY_H

#include "tools/train/monitors.h"

typedef struct history {
    line_numbers *lines;
    int count, capacity;
} history;

/* Memory that runs out costs the line, nothing else. */
void history_add(history *self, const line_numbers *numbers);
void history_free(history *self);

#endif
