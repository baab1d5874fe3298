/* Draws charts. The drawing has fixed coordinates and scales to the available width. */
#include "tools/train/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/cli/page.h"

enum { HEIGHT = 230, LEFT = 46, MARGIN = 12, RIGHT_MARGIN = 52, TOP = 12, BOTTOM = 202, MAX_POINTS = 400, TICKS = 5 };

const char chart_style[] =
    "figure{margin:.6rem 0;background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem .9rem}"
    "figure svg{display:block;width:100%;height:auto}figcaption{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;"
    "font-size:.875rem;color:var(--soft);margin-bottom:.4rem}figcaption b{color:var(--ink)}"
    "figcaption svg{display:inline-block;width:1.6rem;height:.7rem;margin-right:.35rem}\n"
    "svg text{fill:var(--soft);font:12px system-ui,sans-serif}.grid{stroke:var(--line);stroke-width:1}"
    ".one,.two,.three{fill:none;stroke:var(--win);stroke-width:2;stroke-linejoin:round}"
    ".two{stroke:var(--warn);stroke-width:1.5;stroke-dasharray:6 4}.three{stroke:var(--third)}"
    "circle.three{fill:var(--third)}:root{--third:#6d3fc0}"
    "@media (prefers-color-scheme:dark){:root{--third:#b79bf5}}\n";

/* An axis with evenly spaced round values that cover low to high. */
typedef struct scale {
    double low, high, step;
} scale;

static scale make_scale(double low, double high, int ticks, double least)
{
    if (!(low < high)) { /* one value, or none */
        const double margin = low != 0 && isfinite(low) ? fabs(low) * 0.1 : 0;
        low = isfinite(low) ? low - margin : 0;
        high = margin > 0 ? low + 2 * margin : 1;
    }
    const double raw = (high - low) / ticks, power = pow(10, floor(log10(raw))), digit = raw / power;
    const double step = fmax(power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10), least);
    return (scale){.low = floor(low / step + 1e-9) * step, .high = ceil(high / step - 1e-9) * step, .step = step};
}

static const history *lines_of(const chart_series *series, const history *lines)
{
    return series->lines ? series->lines : lines;
}

static scale scale_of_values(const chart *self, const history *all, bool on_right)
{
    double low = self->from_zero ? 0 : (double)INFINITY, high = -INFINITY;
    for (int k = 0; k < self->count; k++) {
        const history *lines = lines_of(&self->series[k], all);
        for (int i = 0; i < lines->count && self->series[k].on_right == on_right; i++) {
            const double value = self->series[k].value(&lines->lines[i]);
            if (!isfinite(value))
                continue;
            low = fmin(low, value);
            high = fmax(high, value);
        }
    }
    return make_scale(low, high, TICKS, self->is_whole ? 1 : 0);
}

/* State of a drawing. */
typedef struct chart_state {
    const history *lines;
    text *out;
    int right;           /* x coordinate of the last step */
    int64_t first, last; /* range of steps */
} chart_state;

static void find_steps(chart_state *self, const chart *drawn)
{
    self->first = self->lines->lines[0].step;
    self->last = self->lines->lines[self->lines->count - 1].step;
    for (int k = 0; k < drawn->count; k++) {
        const history *lines = lines_of(&drawn->series[k], self->lines);
        for (int i = 0; i < lines->count; i++) {
            self->first = lines->lines[i].step < self->first ? lines->lines[i].step : self->first;
            self->last = lines->lines[i].step > self->last ? lines->lines[i].step : self->last;
        }
    }
}

static double place_x(const chart_state *self, int64_t step)
{
    const int64_t first = self->first, last = self->last;
    const double width = self->right - LEFT;
    return LEFT + (last > first ? width * (double)(step - first) / (double)(last - first) : width / 2);
}

static double place_y(const scale *axis, double value)
{
    return BOTTOM - (value - axis->low) / (axis->high - axis->low) * (BOTTOM - TOP);
}

/* Formats 12000 as "12k"; a value that is 0 up to rounding as 0. */
static void add_number(text *out, double value, double step)
{
    value = fabs(value) < 1e-6 * step ? 0 : value;
    if (fabs(value) >= 1e6)
        tuff__text_add(out, "%.4gM", value * 1e-6);
    else if (fabs(value) >= 1e4)
        tuff__text_add(out, "%.4gk", value * 1e-3);
    else
        tuff__text_add(out, "%.4g", value);
}

static void add_values(const chart_state *self, const scale *axis, bool on_right)
{
    text *out = self->out;
    for (double value = axis->low; value <= axis->high + 0.5 * axis->step; value += axis->step) {
        const double y = place_y(axis, value);
        if (!on_right)
            tuff__text_add(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, self->right,
                           y, y);
        tuff__text_add(out, "<text x=\"%d\" y=\"%.1f\"%s>", on_right ? self->right + 6 : LEFT - 6, y + 4,
                       on_right ? "" : " text-anchor=\"end\"");
        add_number(out, value, axis->step);
        tuff__text_add(out, "</text>");
    }
}

static void add_steps(const chart_state *self)
{
    text *out = self->out;
    const int64_t first = self->first, last = self->last;
    const scale steps = make_scale((double)first, (double)last, self->right / 80, 1);
    for (double step = steps.low; step <= steps.high && first < last; step += steps.step)
        if (step >= (double)first && step <= (double)last)
            tuff__text_add(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>",
                           place_x(self, (int64_t)step), BOTTOM + 18, step);
    if (first == last)
        tuff__text_add(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%" PRId64 "</text>", place_x(self, first),
                       BOTTOM + 18, first);
}

/* Mean of `count` lines from `first` on; NAN if it is not finite, which leaves a gap. */
static double mean_of(const chart_series *series, const history *lines, int first, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += series->value(&lines->lines[first + i]);
    return isfinite(sum) ? sum / count : (double)NAN;
}

static void add_line(const chart_state *self, const chart_series *series, const scale *axis)
{
    const history *lines = lines_of(series, self->lines);
    text *out = self->out;
    const int group = (lines->count + MAX_POINTS - 1) / MAX_POINTS;
    bool is_open = false;
    tuff__text_add(out, "<path class=\"%s\" d=\"", series->colour);
    for (int i = 0; i < lines->count; i += group) {
        const int count = i + group <= lines->count ? group : lines->count - i;
        const double value = mean_of(series, lines, i, count);
        const bool is_shown = !isnan(value);
        if (is_shown)
            tuff__text_add(out, "%s%.1f %.1f", is_open ? "L" : "M", place_x(self, lines->lines[i + count / 2].step),
                           place_y(axis, value));
        is_open = is_shown;
    }
    /* A single point is drawn as a short line, to be visible. */
    tuff__text_add(out, "%s\"/>", lines->count == 1 && is_open ? "h1" : "");
}

/* Marks the points of a series that has only a few. */
static void add_dots(const chart_state *self, const chart_series *series, const scale *axis)
{
    enum { MAX_DOTS = 60 };
    const history *lines = lines_of(series, self->lines);
    for (int i = 0; i < lines->count && lines->count <= MAX_DOTS; i++) {
        const double value = series->value(&lines->lines[i]);
        if (isfinite(value))
            tuff__text_add(self->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>", series->colour,
                           place_x(self, lines->lines[i].step), place_y(axis, value));
    }
}

static void add_legend(text *out, const chart *self)
{
    tuff__text_add(out, "<figcaption><b>%s</b>", self->title);
    for (int i = 0; i < self->count; i++)
        tuff__text_add(
            out,
            "<span><svg viewBox=\"0 0 26 11\"><line class=\"%s\" x1=\"0\" x2=\"26\" y1=\"6\" y2=\"6\"/></svg>"
            "%s%s</span>",
            self->series[i].colour, self->series[i].name, self->series[i].on_right ? " (scale on the right)" : "");
    tuff__text_add(out, "</figcaption>");
}

void chart_draw(const chart *self, const history *lines, text *out)
{
    bool has_right = false;
    for (int i = 0; i < self->count; i++)
        has_right = has_right || self->series[i].on_right;
    if (lines->count == 0)
        return;
    const scale left = scale_of_values(self, lines, false), right = scale_of_values(self, lines, true);
    chart_state made = {.lines = lines, .out = out, .right = self->width - (has_right ? RIGHT_MARGIN : MARGIN)};
    find_steps(&made, self);
    tuff__text_add(out, "<figure>");
    add_legend(out, self);
    tuff__text_add(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s over the steps\">", self->width,
                   HEIGHT, self->title);
    add_values(&made, &left, false);
    if (has_right)
        add_values(&made, &right, true);
    add_steps(&made);
    for (int i = 0; i < self->count; i++) {
        const scale *axis = self->series[i].on_right ? &right : &left;
        add_line(&made, &self->series[i], axis);
        if (self->series[i].lines)
            add_dots(&made, &self->series[i], axis);
    }
    tuff__text_add(out, "</svg></figure>\n");
}
