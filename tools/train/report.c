/* Writes the report. The page needs no other files. Its numbers are those of the run's lines; the times of kernels come
   from the few steps that ran with timestamps. */
#include "tools/train/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/file/file.h"
#include "tools/cli/page.h"
#include "tools/train/chart.h"
#include "tools/train/report_settings.h"

enum { MAX_KERNELS = 40 };

static const char style[] =
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:0 .75rem}"
    ".charts.even{grid-template-columns:repeat(auto-fit,minmax(min(25rem,100%),1fr))}.tile{flex-basis:8rem}"
    ".table{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.875rem;margin-top:.6rem}"
    "th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}"
    "th{color:var(--soft);font-weight:normal}th:last-child,td:last-child,.left{text-align:left}"
    "td:last-child{white-space:normal;min-width:14rem}td .bar{width:5rem;margin:0}\n"
    ".phases{display:flex;height:1.6rem;border-radius:.3rem;overflow:hidden;margin:.6rem 0 .3rem}"
    ".phases i{display:block}.forward{background:var(--win)}.backward{background:var(--mark)}"
    ".optimizer{background:var(--warn)}.swatch{display:inline-block;width:.8rem;height:.8rem;border-radius:.15rem;"
    "margin-right:.35rem;vertical-align:-.05rem}.keys{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}\n";

static double loss(const line_numbers *line)
{
    return line->loss;
}

static double learning_rate(const line_numbers *line)
{
    return line->learning_rate;
}

static double recent(const line_numbers *line)
{
    return line->recent;
}

static double average(const line_numbers *line)
{
    return line->average;
}

static double gradient_norm(const line_numbers *line)
{
    return line->gradient_norm;
}

static double memory(const line_numbers *line)
{
    return (double)line->memory_peak / (1 << 20);
}

/* Charted as an exponent, because scales may span many powers of two. */
static double scale_exponent(const line_numbers *line)
{
    return line->loss_scale > 0 ? log2(line->loss_scale) : (double)NAN;
}

static double skipped_steps(const line_numbers *line)
{
    return line->loss_scale > 0 ? line->skipped : (double)NAN;
}

/* The validation has its own steps. */
static void add_losses(text *out, const progress *self)
{
    const chart_series losses[] = {{"loss", "one", loss, false, NULL},
                                   {"learning rate", "two", learning_rate, true, NULL},
                                   {"validation loss", "three", loss, false, &self->validations}};
    const chart whole = {"Loss", losses, self->validations.count > 0 ? 3 : 2, .width = 800};
    chart_draw(&whole, &self->lines, out);
}

static void add_charts(text *out, const progress *self)
{
    static const chart_series rates[] = {{"recent", "one", recent, false, NULL},
                                         {"average", "two", average, false, NULL}};
    static const chart_series norms[] = {{"before clipping", "one", gradient_norm, false, NULL}};
    static const chart_series sizes[] = {{"peak MiB", "one", memory, false, NULL}};
    static const chart charts[] = {{"Tokens per second", rates, 2, .from_zero = true, .width = 400},
                                   {"Gradient norm", norms, 1, .from_zero = true, .width = 400},
                                   {"Device memory", sizes, 1, .from_zero = true, .width = 400}};
    static const chart_series scales[] = {{"log2 of the scale", "one", scale_exponent, false, NULL},
                                          {"steps skipped so far", "two", skipped_steps, true, NULL}};
    static const chart scaling = {"Loss scale", scales, 2, .is_whole = true, .width = 400};
    const history *lines = &self->lines;
    const bool is_scaled = lines->count > 0 && lines->lines[0].loss_scale > 0;
    add_losses(out, self);
    tuff__text_add(out, "<div class=\"charts%s\">", is_scaled ? " even" : "");
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
        chart_draw(&charts[i], lines, out);
    if (is_scaled)
        chart_draw(&scaling, lines, out);
    tuff__text_add(out, "</div>\n");
}

static const char *count_text(double value, char *buffer, size_t size)
{
    (void)snprintf(buffer, size,
                   value >= 1e9   ? "%.2f G"
                   : value >= 1e6 ? "%.2f M"
                   : value >= 1e4 ? "%.1f k"
                                  : "%.0f",
                   value >= 1e9   ? value * 1e-9
                   : value >= 1e6 ? value * 1e-6
                   : value >= 1e4 ? value * 1e-3
                                  : value);
    return buffer;
}
#define COUNT_TEXT(value) count_text((value), (char[32]){0}, 32)

static void add_tiles(text *out, const run_report *self)
{
    const history *lines = &self->progress->lines;
    char value[96];
    tuff__text_add(out, "<div class=\"tiles\">");
    if (lines->count > 0) {
        const line_numbers *last = &lines->lines[lines->count - 1];
        (void)snprintf(value, sizeof value, "%.4f", last->loss);
        page_add_tile(out, "final loss", value);
        (void)snprintf(value, sizeof value, "%" PRId64 " of %" PRId64, self->done, self->options->settings.steps);
        page_add_tile(out, self->first > 0 ? "steps, including earlier runs" : "steps", value);
        if (self->options->settings.state.has_best) {
            (void)snprintf(value, sizeof value, "%.4f", self->options->settings.state.best_loss);
            page_add_tile(out, "best validation loss", value);
        }
        page_add_tile(out, "average tokens per second", COUNT_TEXT(last->average));
        page_add_tile(out, "run time", TIME_TEXT(last->seconds));
        page_add_tile(out, "peak device memory", BYTES_TEXT(last->memory_peak));
    }
    page_add_tile(out, "parameters", COUNT_TEXT((double)model_parameter_count(&self->options->settings.model)));
    tuff__text_add(out, "</div>\n");
}

static void add_phases(text *out, const plan_profile *kernels)
{
    tuff__text_add(out, "<div class=\"phases\">");
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        tuff__text_add(out, "<i class=\"%s\" style=\"width:%.2f%%\"></i>", tuff_phase_name((tuff_phase)phase),
                       100 * kernels->phases[phase] / kernels->seconds);
    tuff__text_add(out, "</div><p class=\"keys soft\">");
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        tuff__text_add(out, "<span><i class=\"swatch %s\"></i>%s %s, %.1f\xc2\xa0%%</span>",
                       tuff_phase_name((tuff_phase)phase), tuff_phase_name((tuff_phase)phase),
                       DURATION(1e9 * kernels->phases[phase]), 100 * kernels->phases[phase] / kernels->seconds);
    tuff__text_add(out, "</p>\n");
}

/* Appends a rate, or a dash if it is unknown. */
static void add_rate(text *out, double amount, double seconds)
{
    tuff__text_add(out, amount > 0 ? "<td>%.1f</td>" : "<td>\xe2\x80\x93</td>", amount / seconds * 1e-9);
}

static void add_kernel(text *out, const kernel_profile *kernel, double whole, double longest, const device_peaks *peaks)
{
    const double share = 100 * kernel->seconds / whole, fraction = kernel_fraction(kernel, peaks);
    tuff__text_add(out,
                   "<tr><td>%.1f\xc2\xa0%%</td><td><div class=\"bar\"><i style=\"width:%.1f%%\"></i></div></td>"
                   "<td>%s</td><td>%d</td><td class=\"left\">%s</td>",
                   share, 100 * kernel->seconds / longest, DURATION(1e9 * kernel->seconds), kernel->calls,
                   tuff_phase_name(kernel->phase));
    add_rate(out, kernel->operations, kernel->seconds);
    add_rate(out, kernel->bytes, kernel->seconds);
    tuff__text_add(out, fraction > 0 ? "<td>%.0f\xc2\xa0%%</td><td><code>" : "<td>\xe2\x80\x93</td><td><code>",
                   100 * fraction);
    page_add_escaped(out, kernel->label);
    tuff__text_add(out, "</code></td></tr>\n");
}

static void add_table(text *out, const plan_profile *profile, const device_peaks *peaks)
{
    const int shown = profile->count > MAX_KERNELS ? MAX_KERNELS : profile->count;
    double rest = 0;
    tuff__text_add(out, "<div class=\"table\"><table><thead><tr><th colspan=\"2\">share</th><th>time</th><th>calls</th>"
                        "<th class=\"left\">phase</th><th>GFLOP/s</th><th>GB/s</th><th>of peak</th><th>ops</th></tr>"
                        "</thead><tbody>\n");
    for (int i = 0; i < profile->count; i++)
        if (i < shown)
            add_kernel(out, &profile->kernels[i], profile->seconds, profile->kernels[0].seconds, peaks);
        else
            rest += profile->kernels[i].seconds;
    tuff__text_add(out, "</tbody></table></div>\n");
    if (shown < profile->count)
        tuff__text_add(out, "<p class=\"soft\">and %d more, %s together</p>\n", profile->count - shown,
                       DURATION(1e9 * rest));
}

static void add_profile(text *out, const run_report *self)
{
    const step_profile *profile = self->profile;
    device_peaks peaks;
    tuff__text_add(out, "<h2>Step time</h2>");
    if (!profile->has_kernels) {
        tuff__text_add(out, "<p class=\"soft\">Not measured: ");
        page_add_escaped(out, profile->missing_reason[0] ? profile->missing_reason : "the run had no steps");
        tuff__text_add(out, "</p>\n");
        return;
    }
    peaks_measure(self->device, &peaks);
    char steps[64] = "after the end of the run";
    if (!profile->is_after_end)
        (void)snprintf(steps, sizeof steps, "up to step %" PRId64, profile->last);
    tuff__text_add(out,
                   "<p class=\"soft\">Median kernel times over %d steps %s, which ran with timestamps: %s in %d "
                   "kernels. Measured device peaks: %.1f GFLOP/s and %.1f GB/s.</p>",
                   profile->count, steps, DURATION(1e9 * profile->kernels.seconds), profile->kernels.task_count,
                   1e-9 * peaks.operations, 1e-9 * peaks.bytes);
    add_phases(out, &profile->kernels);
    add_table(out, &profile->kernels, &peaks);
}

static void add_memory(text *out, const run_report *self)
{
    const history *lines = &self->progress->lines;
    tuff_plan_info info;
    tuff__text_add(out, "<h2>Memory</h2><dl>");
    if (lines->count > 0)
        page_add_fact(out, "peak device memory", BYTES_TEXT(lines->lines[lines->count - 1].memory_peak));
    if (tuff_plan_describe(self->plan, &info) == TUFF_OK && info.memory_peak > 0) {
        page_add_fact(out, "peak of intermediates", BYTES_TEXT(info.memory_peak));
        page_add_fact(out, "intermediates without memory reuse", BYTES_TEXT(info.memory_unplanned));
        page_add_fact(out, "constants", BYTES_TEXT(info.constant_size));
    }
    page_add_fact(out, "parameters as f32",
                  BYTES_TEXT(4 * (uint64_t)model_parameter_count(&self->options->settings.model)));
    tuff__text_add(out, "</dl>\n");
}

static void write_page(text *out, const run_report *self, const tuff_device_info *device)
{
    const model_config *model = &self->options->settings.model;
    char styles[4096];
    (void)snprintf(styles, sizeof styles, "%s%s", chart_style, style);
    page_begin(out, "training", styles);
    tuff__text_add(out, "<h1>Training of a %s</h1><p class=\"soft\">", model->form == MODEL_GPT ? "GPT" : "Llama");
    page_add_escaped(out, device->name);
    tuff__text_add(out, " \xc2\xb7 %s \xc2\xb7 tuff %s \xc2\xb7 %s</p>\n", device->api, tuff_version(),
                   page_day((int64_t)time(NULL), (char[32]){0}, 32));
    add_tiles(out, self);
    add_charts(out, self->progress);
    add_profile(out, self);
    add_memory(out, self);
    report_add_settings(out, self->options, device);
    page_end(out);
}

tuff_status report_write(const run_report *self, const char *path)
{
    text page = {0};
    tuff_device_info device;
    TRY(tuff_device_describe(self->device, &device));
    write_page(&page, self, &device);
    tuff_status status = tuff__text_status(&page);
    const file_part part = {tuff__text_get(&page), page.length};
    if (status == TUFF_OK)
        status = tuff__file_write(path, &part, 1, false, false);
    tuff__text_free(&page);
    return status;
}
