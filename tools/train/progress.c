/* The progress line and the log. Reading a loss waits for the device, so lines are spaced: by a fixed number of
   steps, or so that one appears about every second. */
#include "tools/train/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/thread.h"

int progress_open(progress *self, const cli_verb *verb, const char *path, bool append)
{
    *self = (progress){.log_path = path, .terminal = cli_is_terminal()};
    if (!path)
        return EXIT_DONE;
    self->log = fopen(path, append ? "a" : "w");
    if (!self->log)
        return cli_fail(verb, EXIT_FAILED, "%s: the log cannot be written: %s", path, strerror(errno));
    return EXIT_DONE;
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

/* The last step always has a line. */
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

/* JSON has no NaN and no infinity. */
static void log_number(FILE *log, const char *key, double value, const char *end)
{
    if (isfinite(value))
        fprintf(log, "\"%s\": %.9g%s", key, value, end);
    else
        fprintf(log, "\"%s\": null%s", key, end);
}

static bool log_line(progress *self, int64_t step, const step_report *report, double recent, double average,
                     double seconds)
{
    if (!self->log)
        return true;
    fprintf(self->log, "{\"step\": %" PRId64 ", ", step);
    log_number(self->log, "loss", (double)report->loss, ", ");
    log_number(self->log, "tokens_per_second", recent, ", ");
    log_number(self->log, "seconds", seconds, ", ");
    log_number(self->log, "average_tokens_per_second", average, ", ");
    log_number(self->log, "loader_wait_seconds", self->waited, ", ");
    log_number(self->log, "learning_rate", (double)report->learning_rate, ", ");
    log_number(self->log, "gradient_norm", (double)report->gradient_norm, "}\n");
    return fflush(self->log) == 0 && !ferror(self->log);
}

/* Doubles at most, so that one slow line does not silence the next ones. */
static void adapt(progress *self, int64_t steps, double seconds)
{
    const double wanted = seconds > 0 ? (double)steps / seconds : 2.0 * (double)self->interval;
    const double limit = 2.0 * (double)self->interval;
    self->interval = (int64_t)(wanted < limit ? wanted : limit);
    if (self->interval < 1)
        self->interval = 1;
}

bool progress_line(progress *self, int64_t step, const step_report *report)
{
    const uint64_t now = tuff__nanoseconds();
    const double line = (double)(now - self->line_time) * 1e-9, whole = (double)(now - self->begin) * 1e-9;
    const double tokens = (double)self->tokens_per_step;
    const double recent = tokens * (double)(step - self->line_step) / fmax(line, 1e-9);
    const double average = tokens * (double)(step - self->first) / fmax(whole, 1e-9);
    const double left = tokens * (double)(self->last - step) / fmax(recent, 1e-9);
    fprintf(stderr, "%sstep %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s (average %.0f)  %s left%s",
            self->terminal ? "\r\033[K" : "", step, self->total, (double)report->loss, recent, average, TIME_TEXT(left),
            self->terminal ? "" : "\n");
    fflush(stderr);
    const bool logged = log_line(self, step, report, recent, average, whole);
    if (self->fixed_interval == 0)
        adapt(self, step - self->line_step, line);
    self->line_step = step;
    self->line_time = now;
    return logged;
}

void progress_end(progress *self)
{
    if (self->terminal && self->line_step > self->first)
        fputc('\n', stderr);
}

void progress_close(progress *self)
{
    if (self->log)
        fclose(self->log);
    self->log = NULL;
}

bool progress_validation(progress *self, int64_t step, double loss, double best, bool is_best)
{
    fprintf(stderr, "%sstep %" PRId64 "  validation loss %.4f%s\n", self->terminal ? "\r\033[K" : "", step, loss,
            is_best ? ", the best so far" : "");
    if (!self->log)
        return true;
    fprintf(self->log, "{\"step\": %" PRId64 ", ", step);
    log_number(self->log, "validation_loss", loss, ", ");
    log_number(self->log, "best_validation_loss", best, "}\n");
    return fflush(self->log) == 0 && !ferror(self->log);
}
