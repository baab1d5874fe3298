/* Keeps the lines printed so far in a training run, for its report and its plot. */
#include "tools/train/history.h"

#include "base/alloc.h"

void history_add(history *self, const line_numbers *numbers)
{
    if (GROW(self->lines, self->count, self->capacity))
        self->lines[self->count++] = *numbers;
}

void history_free(history *self)
{
    tuff__free(self->lines);
    *self = (history){.lines = NULL};
}
