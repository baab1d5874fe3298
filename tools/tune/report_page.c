/* The page of a report: HTML with inline style and drawings, without scripts or external resources. All texts from
   stores are escaped. */
#include "tools/tune/report_data.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/cli/page.h"

static const char style[] =
    ".key{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem .9rem;margin:.6rem 0;"
    "display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1.5fr) 11rem;gap:.25rem 1.25rem;align-items:center}\n"
    ".key>details{grid-column:1/-1}.key svg{display:block;width:100%;height:2.5rem}.times{text-align:right}"
    ".times b{font-size:1.1rem}\n"
    ".least{stroke:var(--mark);stroke-width:1.5}.box{fill:var(--box)}.median{stroke:var(--mark);stroke-width:2}"
    ".default{stroke:var(--ink);stroke-width:2;stroke-dasharray:3 2}.winner{stroke:var(--win);stroke-width:4}"
    "svg *{vector-effect:non-scaling-stroke}\n"
    ".ends{display:flex;justify-content:space-between;gap:.5rem}.ends "
    "span:nth-child(2){text-align:center}.legend{display:flex;flex-wrap:wrap;gap:.25rem "
    "1.25rem;align-items:center}.legend svg{width:1.5rem;height:1rem;vertical-align:middle;margin-right:.35rem}\n"
    "summary{cursor:pointer;color:var(--soft);font-size:.875rem}\n"
    "@media (max-width:44rem){.key{grid-template-columns:minmax(0,1fr)}.times{text-align:left}dl{grid-template-columns:"
    "minmax(0,1fr)}dt{margin-top:.4rem}}\n";

static const char *text_of(const json_t *object, const char *name)
{
    const char *found = json_string_value(json_object_get(object, name));
    return found ? found : "";
}

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static double item_of(const json_t *object, const char *name, size_t index)
{
    return json_number_value(json_array_get(json_object_get(object, name), index));
}

static bool is_improved(const json_t *key)
{
    return text_of(key, "candidate")[0] != 0;
}

/* The scale of a drawing. It is logarithmic, because candidates differ by factors. */
typedef struct scale {
    double low, high;
} scale;

static double position_of(const scale *scaling, double nanoseconds)
{
    const double width = log(scaling->high / scaling->low);
    return width > 0 ? 4 + 392 * log(nanoseconds / scaling->low) / width : 200;
}

static scale scale_of(const json_t *key)
{
    const bool is_spread = number_of(key, "timed") > 1;
    double times[] = {is_spread ? item_of(key, "spread", 0) : 0, is_spread ? item_of(key, "spread", 4) : 0,
                      number_of(key, "default_nanoseconds"), item_of(key, "nanoseconds", 1)};
    scale out = {.low = INFINITY};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (times[i] <= 0)
            continue;
        out.low = fmin(out.low, times[i]);
        out.high = fmax(out.high, times[i]);
    }
    /* Widen the scale if times differ little, so that small differences look small. */
    const double least = 1.5, margin = out.high > 0 ? sqrt(fmax(least * out.low / out.high, 1)) : 1;
    out.low /= margin;
    out.high *= margin;
    return out;
}

static void draw_line(text *out, const char *kind, double from, double to, double top, double bottom)
{
    tuff__text_add(out, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>", kind, from, to, top,
                   bottom);
}

static void draw_spread(text *out, const json_t *key)
{
    const scale scaling = scale_of(key);
    const double baseline = number_of(key, "default_nanoseconds"), winner = item_of(key, "nanoseconds", 1);
    if (!(scaling.high > 0))
        return;
    tuff__text_add(out,
                   "<svg viewBox=\"0 0 400 40\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"default %s, "
                   "winner %s, candidates from %s to %s\">",
                   DURATION(baseline), DURATION(winner), DURATION(scaling.low), DURATION(scaling.high));
    if (number_of(key, "timed") > 1) {
        const double left = position_of(&scaling, item_of(key, "spread", 1)),
                     right = position_of(&scaling, item_of(key, "spread", 3)),
                     median = position_of(&scaling, item_of(key, "spread", 2));
        draw_line(out, "least", position_of(&scaling, item_of(key, "spread", 0)),
                  position_of(&scaling, item_of(key, "spread", 4)), 20, 20);
        tuff__text_add(out, "<rect class=\"box\" x=\"%.1f\" y=\"11\" width=\"%.1f\" height=\"18\"/>", left,
                       fmax(right - left, 1));
        draw_line(out, "median", median, median, 11, 29);
    }
    if (baseline > 0)
        draw_line(out, "default", position_of(&scaling, baseline), position_of(&scaling, baseline), 2, 38);
    if (winner > 0 && is_improved(key))
        draw_line(out, "winner", position_of(&scaling, winner), position_of(&scaling, winner), 5, 35);
    tuff__text_add(out, "</svg>");
    if (number_of(key, "timed") > 1)
        tuff__text_add(
            out, "<div class=\"ends soft\"><span>%s</span><span>%.0f candidates, median %s</span><span>%s</span></div>",
            DURATION(item_of(key, "spread", 0)), number_of(key, "timed"), DURATION(item_of(key, "spread", 2)),
            DURATION(item_of(key, "spread", 4)));
    else
        tuff__text_add(out, "<div class=\"soft\">%s</div>",
                       number_of(key, "timed") > 0 ? "only the default was timed"
                                                   : "the spread of the candidates' times was not recorded");
}

static void add_times(text *out, const json_t *key, const json_t *steps)
{
    size_t index;
    json_t *step;
    tuff__text_add(out, "<div class=\"times\">");
    if (!json_is_true(json_object_get(key, "known")))
        tuff__text_add(out, "<span class=\"soft\">not measured</span>");
    else if (is_improved(key))
        tuff__text_add(out, "<b class=\"win\">%.2f\xc3\x97</b><div class=\"soft\">%s \xe2\x86\x92 %s</div>",
                       number_of(key, "gain"), DURATION(number_of(key, "default_nanoseconds")),
                       DURATION(item_of(key, "nanoseconds", 1)));
    else
        tuff__text_add(out, "<b>default</b><div class=\"soft\">%s</div>",
                       DURATION(number_of(key, "default_nanoseconds")));
    json_array_foreach(steps, index, step)
    {
        const double saved = 100 * item_of(key, "saved", index);
        if (item_of(key, "calls", index) > 0 && saved > 0.005)
            tuff__text_add(out,
                           "<div class=\"soft\">saves %.2f\xc2\xa0%% of %s</div><div class=\"bar\"><i "
                           "style=\"width:%.1f%%\"></i></div>",
                           saved, text_of(step, "name"), fmin(saved, 100));
    }
    tuff__text_add(out, "</div>");
}

static void add_candidate(text *out, const char *candidate)
{
    tuff__text_add(out, "<code>");
    page_add_escaped(out, candidate[0] ? candidate : "default");
    tuff__text_add(out, "</code>");
}

static void add_winner(text *out, const json_t *key)
{
    size_t index;
    json_t *one;
    const json_t *runners_up = json_object_get(key, "runners_up");
    tuff__text_add(out, "<dt>winner</dt><dd>");
    add_candidate(out, text_of(key, "candidate"));
    tuff__text_add(out, "</dd><dt>times</dt><dd>%s, quartiles %s and %s, %.0f samples</dd>",
                   DURATION(item_of(key, "nanoseconds", 1)), DURATION(item_of(key, "nanoseconds", 0)),
                   DURATION(item_of(key, "nanoseconds", 2)), number_of(key, "samples"));
    if (json_array_size(runners_up) > 0)
        tuff__text_add(out, "<dt>next best</dt><dd>");
    json_array_foreach(runners_up, index, one)
    {
        tuff__text_add(out, index > 0 ? "<br>" : "");
        add_candidate(out, json_string_value(one));
    }
    tuff__text_add(out, json_array_size(runners_up) > 0 ? "</dd>" : "");
    tuff__text_add(out, "<dt>measured</dt><dd>%s ago, ", AGE_TEXT((uint64_t)number_of(key, "time")));
    page_add_escaped(out, text_of(key, "source"));
    tuff__text_add(out, "%s</dd>",
                   json_is_true(json_object_get(key, "current"))
                       ? ""
                       : ", <span class=\"warn\">with outdated kernel texts: not used</span>");
}

static void add_details(text *out, const json_t *key, const json_t *steps)
{
    size_t index;
    json_t *one;
    const json_t *rejected = json_object_get(key, "rejected"), *pin = json_object_get(key, "pin");
    tuff__text_add(out, "<details><summary>%.12s", text_of(key, "key"));
    if (json_array_size(rejected) > 0)
        tuff__text_add(out, " \xc2\xb7 <span class=\"warn\">%zu rejected</span>", json_array_size(rejected));
    tuff__text_add(out, "%s</summary><dl><dt>key</dt><dd><code>",
                   json_is_string(pin) ? " \xc2\xb7 <span class=\"warn\">pinned</span>" : "");
    page_add_escaped(out, text_of(key, "op"));
    tuff__text_add(out, "</code></dd>");
    json_array_foreach(steps, index, one) if (item_of(key, "calls", index) > 0)
        tuff__text_add(out, "<dt>calls</dt><dd>%.0f in %s</dd>", item_of(key, "calls", index), text_of(one, "name"));
    if (json_is_string(pin)) {
        tuff__text_add(out, "<dt>pinned to</dt><dd>");
        add_candidate(out, json_string_value(pin));
        tuff__text_add(out, "</dd>");
    }
    if (json_is_true(json_object_get(key, "known")))
        add_winner(out, key);
    json_array_foreach(rejected, index, one)
    {
        tuff__text_add(out, "<dt class=\"warn\">");
        page_add_escaped(out, text_of(one, "why"));
        tuff__text_add(out, text_of(one, "phase")[0] ? " in " : "");
        page_add_escaped(out, text_of(one, "phase"));
        tuff__text_add(out, "</dt><dd>");
        add_candidate(out, text_of(one, "candidate"));
        tuff__text_add(out, "</dd>");
    }
    tuff__text_add(out, "</dl></details>");
}

static void add_key(text *out, const json_t *key, const json_t *steps)
{
    tuff__text_add(out, "<article class=\"key\"><div><h3>");
    page_add_escaped(out, text_of(key, "family"));
    tuff__text_add(out, "</h3><div class=\"soft\">");
    page_add_escaped(out, text_of(key, "dims"));
    tuff__text_add(out, "</div></div><div>");
    draw_spread(out, key);
    tuff__text_add(out, "</div>");
    add_times(out, key, steps);
    add_details(out, key, steps);
    tuff__text_add(out, "</article>\n");
}

static void add_step(text *out, const json_t *step)
{
    char value[96], name[128];
    const double baseline = number_of(step, "default_nanoseconds"), tuned = number_of(step, "nanoseconds");
    if (baseline > 0 && tuned < baseline)
        (void)snprintf(value, sizeof value, "%s\xc2\xa0\xe2\x86\x92\xc2\xa0%s", DURATION(baseline), DURATION(tuned));
    else
        (void)snprintf(value, sizeof value, "%s", baseline > 0 ? DURATION(baseline) : "not measured");
    (void)snprintf(name, sizeof name, "kernels of %s: %.2f\xc3\x97, %.0f of %.0f keys known", text_of(step, "name"),
                   tuned > 0 ? baseline / tuned : 1.0, number_of(step, "known"), number_of(step, "keys"));
    page_add_tile(out, name, value);
}

static void add_tiles(text *out, const json_t *environment)
{
    size_t index, known = 0, improved = 0, rejected = 0;
    double best = 1;
    json_t *one;
    char value[32];
    json_array_foreach(json_object_get(environment, "keys"), index, one)
    {
        known += json_is_true(json_object_get(one, "known"));
        improved += is_improved(one);
        rejected += json_array_size(json_object_get(one, "rejected"));
        best = fmax(best, number_of(one, "gain"));
    }
    tuff__text_add(out, "<div class=\"tiles\">");
    json_array_foreach(json_object_get(environment, "steps"), index, one) add_step(out, one);
    (void)snprintf(value, sizeof value, "%zu of %zu", improved, known);
    page_add_tile(out, "keys with a winner faster than the default", value);
    (void)snprintf(value, sizeof value, "%.2f\xc3\x97", best);
    page_add_tile(out, "largest speedup", value);
    (void)snprintf(value, sizeof value, "%zu", rejected);
    page_add_tile(out, "candidates rejected", value);
    tuff__text_add(out, "</div>\n");
}

static void add_environment(text *out, const json_t *environment)
{
    size_t index;
    json_t *key;
    tuff__text_add(out, "<section><h2>");
    page_add_escaped(out, text_of(environment, "device"));
    tuff__text_add(out, "</h2><p class=\"soft\">");
    page_add_escaped(out, text_of(environment, "backend"));
    tuff__text_add(out, " \xc2\xb7 ");
    page_add_escaped(out, text_of(environment, "driver"));
    tuff__text_add(out, "</p>\n");
    add_tiles(out, environment);
    json_array_foreach(json_object_get(environment, "keys"), index, key)
        add_key(out, key, json_object_get(environment, "steps"));
    tuff__text_add(out, "</section>\n");
}

static void add_legend(text *out)
{
    tuff__text_add(
        out,
        "<p class=\"legend soft\"><span><svg viewBox=\"0 0 24 16\"><line class=\"winner\" x1=\"12\" x2=\"12\" y1=\"1\" "
        "y2=\"15\"/></svg>winner</span><span><svg viewBox=\"0 0 24 16\"><line class=\"default\" x1=\"12\" x2=\"12\" "
        "y1=\"0\" y2=\"16\"/></svg>default</span><span><svg viewBox=\"0 0 24 16\"><line class=\"least\" x1=\"0\" "
        "x2=\"24\" y1=\"8\" y2=\"8\"/><rect class=\"box\" x=\"6\" y=\"3\" width=\"12\" height=\"10\"/><line "
        "class=\"median\" x1=\"12\" x2=\"12\" y1=\"3\" y2=\"13\"/></svg>candidates: minimum, quartiles, median, "
        "maximum; "
        "left is faster, the scale is logarithmic</span></p>\n");
}

tuff_status report_page(const json_t *data, text *out)
{
    size_t index;
    json_t *environment;
    page_begin(out, "tuning results", style);
    tuff__text_add(out, "<h1>Tuning results</h1><p class=\"soft\">tuff ");
    page_add_escaped(out, text_of(data, "version"));
    tuff__text_add(out, " \xc2\xb7 %s</p>\n", page_day((int64_t)number_of(data, "time"), (char[32]){0}, 32));
    add_legend(out);
    json_array_foreach(json_object_get(data, "environments"), index, environment) add_environment(out, environment);
    if (json_array_size(json_object_get(data, "environments")) == 0)
        tuff__text_add(out, "<p>There are no results yet: <code>tuff tune warm</code> tunes a model.</p>\n");
    page_end(out);
    return tuff__text_status(out);
}
