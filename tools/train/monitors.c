/* The numbers of a line as scalars of monitors (tuff/monitor.h). */
#include "tools/train/monitors.h"

#include "base/alloc.h"

static const tuff_monitor_format formats[] = {TUFF_MONITOR_JSON_LINES, TUFF_MONITOR_CSV, TUFF_MONITOR_TENSORBOARD};
static const char *const options[] = {"--log", "--csv", "--tensorboard"};
static const char *const line_names[] = {
    "loss",          "tokens_per_second", "seconds",     "average_tokens_per_second", "loader_wait_seconds",
    "learning_rate", "gradient_norm",     "memory_peak",
};
static const char *const scaling_names[] = {"loss_scale", "skipped_steps"};
static const char *const validation_names[] = {"validation_loss", "best_validation_loss"};
#define NORM_PREFIX "gradient_norm/"
enum {
    LINE_COUNT = sizeof line_names / sizeof *line_names,
    SCALING_COUNT = sizeof scaling_names / sizeof *scaling_names,
    VALIDATION_COUNT = sizeof validation_names / sizeof *validation_names
};

static void add_names(monitors *self, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        self->names[self->count++] = names[i];
}

/* A list of patterns may be longer than a name. */
static void add_norm(monitors *self, const line_extras *extras, int i)
{
    char *name = self->norm_names[i];
    if ((size_t)snprintf(name, MONITOR_NAME_SIZE, NORM_PREFIX "%s", extras->norms[i]) >= MONITOR_NAME_SIZE)
        snprintf(name, MONITOR_NAME_SIZE, NORM_PREFIX "group_%d", i);
    self->names[self->count++] = name;
}

static tuff_status make_names(monitors *self, const line_extras *extras)
{
    const int norms = extras ? extras->norm_count : 0;
    const size_t most = (size_t)norms + LINE_COUNT + SCALING_COUNT + VALIDATION_COUNT;
    self->is_scaled = extras && extras->is_scaled;
    self->names = tuff__calloc(most, sizeof *self->names);
    self->scalars = tuff__calloc(most, sizeof *self->scalars);
    self->norm_names = tuff__calloc((size_t)norms + 1, sizeof *self->norm_names);
    if (!self->names || !self->scalars || !self->norm_names)
        return TUFF_E_OOM_HOST;
    add_names(self, line_names, LINE_COUNT);
    if (self->is_scaled)
        add_names(self, scaling_names, SCALING_COUNT);
    for (int i = 0; i < norms; i++)
        add_norm(self, extras, i);
    add_names(self, validation_names, VALIDATION_COUNT);
    return TUFF_OK;
}

int monitors_open(monitors *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step, const line_extras *extras)
{
    *self = (monitors){.verb = verb};
    if (make_names(self, extras) != TUFF_OK)
        return cli_fail_library(verb, "the numbers of a line");
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
            return cli_fail(verb, EXIT_FAILED, "%s: the %s cannot be written: %s", options[i],
                            i == MONITOR_LOG ? "log" : "file", tuff_error());
    }
    return EXIT_DONE;
}

/* The first count scalars. */
static void write_scalars(monitors *self, int64_t step, int count, void (*begin_message)(void *user), void *user)
{
    for (int i = 0; i < MONITOR_COUNT; i++) {
        if (!self->items[i])
            continue;
        const bool failed = tuff_monitor_write(self->items[i], step, self->scalars, count) != TUFF_OK;
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

void monitors_write(monitors *self, const line_numbers *numbers, const float *norms, void (*begin_message)(void *user),
                    void *user)
{
    const double values[LINE_COUNT + SCALING_COUNT] = {
        numbers->loss,       numbers->recent,        numbers->seconds,       numbers->average,
        numbers->waited,     numbers->learning_rate, numbers->gradient_norm, (double)numbers->memory_peak,
        numbers->loss_scale, numbers->skipped};
    const int fixed = LINE_COUNT + (self->is_scaled ? SCALING_COUNT : 0), count = self->count - VALIDATION_COUNT;
    for (int i = 0; i < count; i++)
        self->scalars[i] = (tuff_scalar){self->names[i], i < fixed ? values[i] : (double)norms[i - fixed]};
    write_scalars(self, numbers->step, count, begin_message, user);
}

void monitors_write_validation(monitors *self, int64_t step, double loss, double best,
                               void (*begin_message)(void *user), void *user)
{
    self->scalars[0] = (tuff_scalar){validation_names[0], loss};
    self->scalars[1] = (tuff_scalar){validation_names[1], best};
    write_scalars(self, step, VALIDATION_COUNT, begin_message, user);
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
