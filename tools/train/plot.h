/* The loss as a text drawing, one dot per column: in braille if the terminal's locale is UTF-8, else in ASCII. */
#ifndef TUFF_TOOLS_TRAIN_PLOT_H
#define TUFF_TOOLS_TRAIN_PLOT_H

#include "base/text.h"
#include "tools/train/history.h"

typedef struct plot_size {
    int columns, rows; /* in characters, without labels */
    int64_t last_step; /* at the right edge */
    bool braille;
} plot_size;

/* Appends rows + 1 lines, each with a newline; nothing if there are no finite losses yet. */
void plot_draw(const history *lines, const plot_size *size, text *out);

/* A size that fits the terminal of standard error, or 80 columns if it is not a terminal. */
plot_size plot_terminal_size(int64_t last_step);

#endif
