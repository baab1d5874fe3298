/* The progress line and the log. Reading a loss waits for the device, so lines are spaced: by a fixed number of steps,
   or to appear about once a second. */
#include "tools/train/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/thread.h"

int progress_open(progress *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step, const line_norms *norms)
{
    *self = (progress){.terminal = cli_is_terminal()};
    return monitors_open(&self->files, verb, paths, resumed, first_step, norms);
}

void progress_begin(progress *self, int64_t first, int64_t last, int64_t total, int64_t tokens_per_step,
                    int64_t interval)
{
    self->first = self->line_step = first;
    self->last = last;
    self->total = total;
    self->tokens_per_step = tokens_per_step;
    self->fixed_interval = interval;
    self->interval = interval > 0 ? interval : 1;
    self->begin = self->line_time = tuff__nanoseconds();
}

bool progress_is_due(const progress *self, int64_t step)
{
    if (self->fixed_interval > 0)
        return step % self->fixed_interval == 0 || step == self->last;
    return step - self->line_step >= self->interval || step == self->last;
}

const char *progress_time(double seconds, char *buffer, size_t size)
{
    const int64_t whole = (int64_t)(seconds + 0.5);
    if (!(seconds < 360000))
        snprintf(buffer, size, "over 100h");
    else if (whole >= 3600)
        snprintf(buffer, size, "%" PRId64 "h%02" PRId64 "m", whole / 3600, whole / 60 % 60);
    else if (whole >= 60)
        snprintf(buffer, size, "%" PRId64 "m%02" PRId64 "s", whole / 60, whole % 60);
    else
        snprintf(buffer, size, "%" PRId64 "s", whole);
    return buffer;
}

/* Adapts the interval to one line a second. It at most doubles, so that one fast line does not suppress the next
   ones. */
static void adapt_interval(progress *self, int64_t steps, double seconds)
{
    const double wanted = seconds > 0 ? (double)steps / seconds : 2.0 * (double)self->interval;
    const double limit = 2.0 * (double)self->interval;
    self->interval = (int64_t)(wanted < limit ? wanted : limit);
    if (self->interval < 1)
        self->interval = 1;
}

static uint64_t memory_peak(const progress *self)
{
    tuff_device_counters counters;
    return self->device && tuff_device_counters_get(self->device, &counters) == TUFF_OK ? counters.bytes_peak : 0;
}

/* Redraws the plot: on a terminal over the last drawing; elsewhere, if requested, ten times per run. */
static void draw_plot(progress *self, int64_t step)
{
    enum { PLOTS = 10 };
    const bool wanted = self->plot == PLOT_ALWAYS || (self->plot == PLOT_ON_TERMINAL && self->terminal);
    text drawing = {0};
    if (!wanted || (!self->terminal && (step - self->first) * PLOTS < (self->last - self->first) * (self->plots + 1)))
        return;
    const plot_size size = plot_terminal_size(self->last);
    plot_draw(&self->lines, &size, &drawing);
    if (self->terminal && self->plot_lines > 0)
        fprintf(stderr, "\r\033[%dA\033[J", self->plot_lines);
    else if (self->terminal)
        fputs("\r\033[K", stderr);
    fputs(tuff__text_get(&drawing), stderr);
    self->plot_lines = self->terminal && drawing.length > 0 ? size.rows + 1 : 0;
    self->plots++;
    tuff__text_free(&drawing);
}

static void begin_message(void *user)
{
    progress_end(user);
}

void progress_line(progress *self, int64_t step, const step_report *report, const scaling_report *scaling,
                   const float *norms)
{
    const uint64_t now = tuff__nanoseconds();
    const double line = (double)(now - self->line_time) * 1e-9, whole = (double)(now - self->begin) * 1e-9;
    const double tokens = (double)self->tokens_per_step;
    const line_numbers numbers = {.step = step,
                                  .loss = (double)report->loss,
                                  .learning_rate = (double)report->learning_rate,
                                  .gradient_norm = (double)report->gradient_norm,
                                  .recent = tokens * (double)(step - self->line_step) / fmax(line, 1e-9),
                                  .average = tokens * (double)(step - self->first) / fmax(whole, 1e-9),
                                  .seconds = whole,
                                  .waited = self->waited,
                                  .memory_peak = memory_peak(self),
                                  .loss_scale = scaling ? (double)scaling->loss_scale : 0,
                                  .skipped = scaling ? (double)scaling->skipped : 0,
                                  .has_phases = self->has_phases,
                                  .phases = {self->phases[0], self->phases[1], self->phases[2]}};
    const double left = tokens * (double)(self->last - step) / fmax(numbers.recent, 1e-9);
    history_add(&self->lines, &numbers);
    draw_plot(self, step);
    fprintf(stderr, "%sstep %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s (average %.0f)  %s left%s",
            self->terminal ? "\r\033[K" : "", step, self->total, numbers.loss, numbers.recent, numbers.average,
            TIME_TEXT(left), self->terminal ? "" : "\n");
    fflush(stderr);
    self->is_open = self->terminal;
    monitors_write(&self->files, &numbers, norms, begin_message, self);
    if (self->fixed_interval == 0)
        adapt_interval(self, step - self->line_step, line);
    self->line_step = step;
    self->line_time = now;
}

void progress_end(progress *self)
{
    if (self->is_open)
        fputc('\n', stderr);
    self->is_open = false;
    self->plot_lines = 0;
}

bool progress_close(progress *self)
{
    history_free(&self->lines);
    history_free(&self->validations);
    return monitors_close(&self->files);
}

void progress_validation(progress *self, int64_t step, double loss, double best, bool is_best)
{
    fprintf(stderr, "%sstep %" PRId64 "  validation loss %.4f%s\n", self->terminal ? "\r\033[K" : "", step, loss,
            is_best ? ", the best so far" : "");
    self->is_open = false;
    self->plot_lines = 0;
    history_add(&self->validations, &(line_numbers){.step = step, .loss = loss});
    monitors_write_validation(&self->files, step, loss, best, begin_message, self);
}
