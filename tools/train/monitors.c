/* The numbers of a line as scalars of monitors (tuff/monitor.h). */
#include "tools/train/monitors.h"

static const tuff_monitor_format formats[] = {TUFF_MONITOR_JSON_LINES, TUFF_MONITOR_CSV, TUFF_MONITOR_TENSORBOARD};
static const char *const options[] = {"--log", "--csv", "--tensorboard"};
/* Those of every line, those of lines whose step was timed, those of lines of scaled losses, those of a validation. A
   file has columns for all of them, so that a run may go on with other options. */
static const char *const names[] = {
    "loss",
    "tokens_per_second",
    "seconds",
    "average_tokens_per_second",
    "loader_wait_seconds",
    "learning_rate",
    "gradient_norm",
    "memory_peak",
    "forward_seconds",
    "backward_seconds",
    "optimizer_seconds",
    "loss_scale",
    "skipped_steps",
    "validation_loss",
    "best_validation_loss",
};
enum {
    NAME_COUNT = sizeof names / sizeof *names,
    PHASES = 8,
    SCALE = 11,
    VALIDATION = 13,
};

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

/* The scalars of a record. */
typedef struct record {
    tuff_scalar scalars[NAME_COUNT];
    int count;
} record;

/* Values of the names from `first` to before `end`. */
static void add_values(record *to, int first, int end, const double *values)
{
    for (int i = first; i < end; i++)
        to->scalars[to->count++] = (tuff_scalar){names[i], values[i - first]};
}

static void write_record(monitors *self, int64_t step, const record *made, void (*begin_message)(void *user),
                         void *user)
{
    for (int i = 0; i < MONITOR_COUNT; i++) {
        if (!self->items[i])
            continue;
        const bool failed = tuff_monitor_write(self->items[i], step, made->scalars, made->count) != TUFF_OK;
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
    const line_extras *extras = &numbers->extras;
    const double values[PHASES] = {
        numbers->loss,   numbers->recent,        numbers->seconds,       numbers->average,
        numbers->waited, numbers->learning_rate, numbers->gradient_norm, (double)numbers->memory_peak};
    record made = {.count = 0};
    add_values(&made, 0, PHASES, values);
    if (extras->has_phases)
        add_values(&made, PHASES, SCALE, extras->phases);
    if (extras->has_scale)
        add_values(&made, SCALE, VALIDATION, (double[]){extras->loss_scale, extras->skipped_steps});
    write_record(self, numbers->step, &made, begin_message, user);
}

void monitors_write_validation(monitors *self, int64_t step, double loss, double best,
                               void (*begin_message)(void *user), void *user)
{
    record made = {.count = 0};
    add_values(&made, VALIDATION, NAME_COUNT, (double[]){loss, best});
    write_record(self, step, &made, begin_message, user);
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
