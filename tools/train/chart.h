/* Line charts over the steps of a training, as SVG inside of a page; colours are classes of the page's style. */
#ifndef TUFF_TOOLS_TRAIN_CHART_H
#define TUFF_TOOLS_TRAIN_CHART_H

#include "base/text.h"
#include "tools/train/history.h"

typedef struct chart_series {
    const char *name;   /* for the legend */
    const char *colour; /* class of its line */
    double (*value)(const line_numbers *line);
    bool on_right;     /* has the scale on the right */
    const history *of; /* lines of its own, which are drawn with dots; NULL: those of the chart */
} chart_series;

typedef struct chart {
    const char *title;
    const chart_series *series;
    int count;
    bool from_zero; /* the scales begin at 0 */
    bool is_whole;  /* they have whole numbers only */
    int width;      /* of the drawing, in pixels where it is not scaled */
} chart;

/* What charts need in the page's style. */
extern const char chart_style[];

/* A <figure> with the drawing and its legend. A long history is drawn by means of neighbouring lines; values that are
   not finite leave a gap. */
void chart_draw(const chart *self, const history *lines, text *out);

#endif
