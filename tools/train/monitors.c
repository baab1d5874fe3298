/* The numbers of a line as scalars of monitors (tuff/monitor.h). */
#include "tools/train/monitors.h"

static const tuff_monitor_format formats[] = {TUFF_MONITOR_JSON_LINES, TUFF_MONITOR_CSV, TUFF_MONITOR_TENSORBOARD};
static const char *const options[] = {"--log", "--csv", "--tensorboard"};
/* Those of a line, then those of a validation. */
static const char *const names[] = {
    "loss",          "tokens_per_second", "seconds",     "average_tokens_per_second", "loader_wait_seconds",
    "learning_rate", "gradient_norm",     "memory_peak", "validation_loss",           "best_validation_loss",
};
enum { NAME_COUNT = sizeof names / sizeof *names, VALIDATION_COUNT = 2, LINE_COUNT = NAME_COUNT - VALIDATION_COUNT };

int monitors_open(monitors *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step)
{
    *self = (monitors){.verb = verb};
    for (int i = 0; i < MONITOR_COUNT; i++) {
        if (!paths[i])
            continue;
        self->items[i] = tuff_monitor_open(&(tuff_monitor_options){.format = formats[i],
                                                                   .path = paths[i],
                                                                   .names = names,
                                                                   .count = NAME_COUNT,
                                                                   .append = resumed,
                                                                   .first_step = first_step});
        if (!self->items[i])
            return cli_fail(verb, EXIT_FAILED, "%s: the %s cannot be written: %s", options[i],
                            i == MONITOR_LOG ? "log" : "file", tuff_error());
    }
    return EXIT_DONE;
}

/* count values of the names from `first` on. */
static void write_values(monitors *self, int64_t step, int first, const double *values, int count,
                         void (*begin_message)(void *user), void *user)
{
    tuff_scalar scalars[NAME_COUNT];
    for (int i = 0; i < count; i++)
        scalars[i] = (tuff_scalar){names[first + i], values[i]};
    for (int i = 0; i < MONITOR_COUNT; i++) {
        if (!self->items[i])
            continue;
        const bool failed = tuff_monitor_write(self->items[i], step, scalars, count) != TUFF_OK;
        if (failed && !self->is_failing[i]) {
            if (begin_message)
                begin_message(user);
            (void)cli_fail(self->verb, EXIT_FAILED, "%s: step %lld is missing, and the training goes on: %s",
                           options[i], (long long)step, tuff_error());
        }
        self->is_failing[i] = failed;
        self->has_failed = self->has_failed || failed;
    }
}

void monitors_write(monitors *self, const line_numbers *numbers, void (*begin_message)(void *user), void *user)
{
    const double values[LINE_COUNT] = {
        numbers->loss,   numbers->recent,        numbers->seconds,       numbers->average,
        numbers->waited, numbers->learning_rate, numbers->gradient_norm, (double)numbers->memory_peak};
    write_values(self, numbers->step, 0, values, LINE_COUNT, begin_message, user);
}

void monitors_write_validation(monitors *self, int64_t step, double loss, double best,
                               void (*begin_message)(void *user), void *user)
{
    write_values(self, step, LINE_COUNT, (double[]){loss, best}, VALIDATION_COUNT, begin_message, user);
}

bool monitors_close(monitors *self)
{
    bool complete = !self->has_failed;
    for (int i = 0; i < MONITOR_COUNT; i++)
        if (tuff_monitor_close(self->items[i]) != TUFF_OK) {
            (void)cli_fail_library(self->verb, options[i]);
            complete = false;
        }
    *self = (monitors){.verb = self->verb};
    return complete;
}
