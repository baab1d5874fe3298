/* The loss as a drawing of text, a dot a column, in braille where the terminal's locale is UTF-8, else in ASCII. */
#ifndef TUFF_TOOLS_TRAIN_PLOT_H
#define TUFF_TOOLS_TRAIN_PLOT_H

#include "base/text.h"
#include "tools/train/history.h"

typedef struct plot_size {
    int columns, rows; /* characters, of the drawing without its labels */
    int64_t last_step; /* where its right edge lies */
    bool braille;
} plot_size;

/* Lines that end with a newline, rows + 1 of them; nothing where there are no finite losses yet. */
void plot_draw(const history *lines, const plot_size *size, text *out);

/* As wide as the terminal of the error stream, or 80 columns where it is none. */
plot_size plot_size_here(int64_t last_step);

#endif
