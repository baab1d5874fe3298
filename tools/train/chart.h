/* Line charts over the steps of a training run, as SVG inside a page; colours are CSS classes of the page. */
#ifndef TUFF_TOOLS_TRAIN_CHART_H
#define TUFF_TOOLS_TRAIN_CHART_H

#include "base/text.h"
#include "tools/train/history.h"

typedef struct chart_series {
    const char *name;   /* for the legend */
    const char *colour; /* CSS class of its line */
    double (*value)(const line_numbers *line);
    bool on_right;        /* uses the scale on the right */
    const history *lines; /* its own lines, which are drawn with dots; NULL: those of the chart */
} chart_series;

typedef struct chart {
    const char *title;
    const chart_series *series;
    int count;
    bool from_zero; /* the scales start at 0 */
    bool is_whole;  /* the scales have only whole numbers */
    int width;      /* of the drawing, in pixels if not scaled */
} chart;

/* CSS rules that charts need. */
extern const char chart_style[];

/* Appends a <figure> with the drawing and its legend. In a long history, neighbouring lines are averaged; values that
   are not finite leave a gap. */
void chart_draw(const chart *self, const history *lines, text *out);

#endif
