/* Writes the numbers of a line as scalars of monitors (tuff/monitor.h). */
#include "tools/train/monitors.h"

#include "base/alloc.h"

static const tuff_monitor_format formats[] = {TUFF_MONITOR_JSON_LINES, TUFF_MONITOR_CSV, TUFF_MONITOR_TENSORBOARD};
static const char *const options[] = {"--log", "--csv", "--tensorboard"};
/* Names of scalars: of every line, of lines whose step was timed, of lines with a scaled loss; the norms follow, then
   those of a validation. A file has columns for all of them, so that a run may be resumed with other options. */
static const char *const line_names[] = {
    "loss",          "tokens_per_second", "seconds",     "average_tokens_per_second", "loader_wait_seconds",
    "learning_rate", "gradient_norm",     "memory_peak",
};
static const char *const phase_names[] = {"forward_seconds", "backward_seconds", "optimizer_seconds"};
static const char *const scaling_names[] = {"loss_scale", "skipped_steps"};
static const char *const validation_names[] = {"validation_loss", "best_validation_loss"};
#define NORM_PREFIX "gradient_norm/"
#define COUNT_OF(list) ((int)(sizeof(list) / sizeof *(list)))
enum { LINE_COUNT = COUNT_OF(line_names), PHASES = COUNT_OF(phase_names) };

static void add_names(monitors *self, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        self->names[self->count++] = names[i];
}

/* A list of patterns may be longer than a name can be. */
static void add_norm(monitors *self, const char *subject, int i)
{
    char *name = self->norm_names[i];
    if ((size_t)snprintf(name, MONITOR_NAME_SIZE, NORM_PREFIX "%s", subject) >= MONITOR_NAME_SIZE)
        snprintf(name, MONITOR_NAME_SIZE, NORM_PREFIX "group_%d", i);
    self->names[self->count++] = name;
}

static tuff_status make_names(monitors *self, const line_norms *norms)
{
    self->norm_count = norms ? norms->count : 0;
    const size_t most =
        (size_t)self->norm_count + LINE_COUNT + PHASES + COUNT_OF(scaling_names) + COUNT_OF(validation_names);
    self->names = tuff__calloc(most, sizeof *self->names);
    self->scalars = tuff__calloc(most, sizeof *self->scalars);
    self->norm_names = tuff__calloc((size_t)self->norm_count + 1, sizeof *self->norm_names);
    if (!self->names || !self->scalars || !self->norm_names)
        return TUFF_E_OOM_HOST;
    add_names(self, line_names, LINE_COUNT);
    add_names(self, phase_names, PHASES);
    add_names(self, scaling_names, COUNT_OF(scaling_names));
    for (int i = 0; i < self->norm_count; i++)
        add_norm(self, norms->names[i], i);
    add_names(self, validation_names, COUNT_OF(validation_names));
    return TUFF_OK;
}

int monitors_open(monitors *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step, const line_norms *norms)
{
    *self = (monitors){.verb = verb};
    if (make_names(self, norms) != TUFF_OK)
        return cli_fail_library(verb, "cannot open the logs");
    for (int i = 0; i < MONITOR_COUNT; i++) {
        if (!paths[i])
            continue;
        self->items[i] = tuff_monitor_open(&(tuff_monitor_options){.format = formats[i],
                                                                   .path = paths[i],
                                                                   .names = self->names,
                                                                   .count = self->count,
                                                                   .append = resumed,
                                                                   .first_step = first_step});
        if (!self->items[i])
            return cli_fail(verb, EXIT_FAILED, "%s: cannot write the %s: %s", options[i],
                            i == MONITOR_LOG ? "log" : "file", tuff_error());
    }
    return EXIT_DONE;
}

/* Appends scalars to the record at index `at`. Returns the new count. */
static int add_values(monitors *self, int at, const char *const *names, int count, const double *values)
{
    for (int i = 0; i < count; i++)
        self->scalars[at++] = (tuff_scalar){names[i], values[i]};
    return at;
}

/* Writes the first `count` scalars to all files. */
static void write_scalars(monitors *self, int64_t step, int count, void (*begin_message)(void *user), void *user)
{
    for (int i = 0; i < MONITOR_COUNT; i++) {
        if (!self->items[i])
            continue;
        const bool failed = tuff_monitor_write(self->items[i], step, self->scalars, count) != TUFF_OK;
        if (failed && !self->is_failing[i]) {
            if (begin_message)
                begin_message(user);
            (void)cli_fail(self->verb, EXIT_FAILED, "%s: cannot log step %lld, training continues: %s", options[i],
                           (long long)step, tuff_error());
        }
        self->is_failing[i] = failed;
        self->has_failed = self->has_failed || failed;
    }
}

void monitors_write(monitors *self, const line_numbers *numbers, const float *norms, void (*begin_message)(void *user),
                    void *user)
{
    const double values[LINE_COUNT] = {
        numbers->loss,   numbers->recent,        numbers->seconds,       numbers->average,
        numbers->waited, numbers->learning_rate, numbers->gradient_norm, (double)numbers->memory_peak};
    const double scaling[] = {numbers->loss_scale, numbers->skipped};
    int count = add_values(self, 0, line_names, LINE_COUNT, values);
    if (numbers->has_phases)
        count = add_values(self, count, phase_names, PHASES, numbers->phases);
    if (numbers->loss_scale > 0)
        count = add_values(self, count, scaling_names, COUNT_OF(scaling_names), scaling);
    for (int i = 0; i < self->norm_count; i++)
        self->scalars[count++] = (tuff_scalar){self->norm_names[i], (double)norms[i]};
    write_scalars(self, numbers->step, count, begin_message, user);
}

void monitors_write_validation(monitors *self, int64_t step, double loss, double best,
                               void (*begin_message)(void *user), void *user)
{
    const int count = add_values(self, 0, validation_names, COUNT_OF(validation_names), (double[]){loss, best});
    write_scalars(self, step, count, begin_message, user);
}

bool monitors_close(monitors *self)
{
    bool complete = !self->has_failed;
    for (int i = 0; i < MONITOR_COUNT; i++)
        if (tuff_monitor_close(self->items[i]) != TUFF_OK) {
            (void)cli_fail_library(self->verb, options[i]);
            complete = false;
        }
    tuff__free(self->names);
    tuff__free(self->scalars);
    tuff__free(self->norm_names);
    *self = (monitors){.verb = self->verb};
    return complete;
}
