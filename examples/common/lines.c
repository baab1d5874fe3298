/* Lines of output: measures them, prints them, writes them to the log, and keeps them for the report. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "train.h"

enum { MAX_NAMES = 2 * EXAMPLE_MAX_METRICS + 7 };

/* Lists the named values of a line. NaN values are omitted unless `all` is set. */
static int list_scalars(const training *self, const example_line *line, bool all, char (*names)[80],
                        tuff_scalar *scalars)
{
    const struct {
        const char *name;
        double value;
    } common[] = {{"loss", line->loss},
                  {"validation loss", line->validation_loss},
                  {"gradient norm", line->gradient_norm},
                  {"learning rate", line->learning_rate},
                  {"loss scale", line->loss_scale},
                  {"steps/s", line->recent},
                  {"average steps/s", line->average}};
    int count = 0;
    for (int i = 0; i < 7; i++)
        if (all || !isnan(common[i].value))
            scalars[count++] = (tuff_scalar){.name = common[i].name, .value = common[i].value};
    for (int i = 0; i < 2 * self->metric_count; i++) {
        const int metric = i / 2;
        const double value = i % 2 ? line->validation_metrics[metric] : line->metrics[metric];
        if (!all && isnan(value))
            continue;
        snprintf(names[i], sizeof names[i], "%s%s", i % 2 ? "validation " : "", self->metric_names[metric]);
        scalars[count++] = (tuff_scalar){.name = names[i], .value = value};
    }
    return count;
}

tuff_status training_monitor_open(training *self)
{
    char texts[2 * EXAMPLE_MAX_METRICS][80];
    tuff_scalar scalars[MAX_NAMES];
    const char *names[MAX_NAMES];
    if (!self->options->log)
        return TUFF_OK;
    const int count = list_scalars(self, &(example_line){0}, true, texts, scalars);
    for (int i = 0; i < count; i++)
        names[i] = scalars[i].name;
    const tuff_monitor_options options = {.format = TUFF_MONITOR_CSV,
                                          .path = self->options->log,
                                          .names = names,
                                          .count = count,
                                          .append = self->options->resume != NULL,
                                          .first_step = self->first_step};
    self->monitor = tuff_monitor_open(&options);
    return self->monitor ? TUFF_OK : tuff_last_status();
}

/* The random numbers of a validation batch depend on the step and on its number only, so that a resumed run draws the
   same ones. */
static tuff_status write_counter(const training *self, int64_t number)
{
    example_random random = example_random_stream((uint64_t)self->run.step, (uint64_t)number);
    const int32_t drawn = (int32_t)(example_random_bits(&random) >> 33);
    return tuff_array_write(self->validation_counter, &drawn, sizeof drawn);
}

/* Computes the mean loss and metrics of held-out batches -1 - first, -2 - first and so on. */
static tuff_status run_held_out(training *self, int64_t first, int64_t count, double *loss, double *metrics)
{
    tuff_status status = TUFF_OK;
    for (int64_t i = first; i < first + count && status == TUFF_OK; i++) {
        status = example_write_batch(&self->held_out, self->run.validation, -1 - i);
        if (status == TUFF_OK)
            status = write_counter(self, i);
        if (status == TUFF_OK)
            status = tuff_plan_run(self->run.validation);
    }
    return status == TUFF_OK ? training_read_sums(self->validation_sums, self->metric_count, count, loss, metrics)
                             : status;
}

tuff_status example_validate(example_run *run, int64_t first, int64_t count, double *loss, double *metrics)
{
    training *self = (training *)run; /* run is its first member */
    double unread[EXAMPLE_MAX_METRICS];
    if (!run->validation)
        return TUFF_E_USAGE;
    tuff_status status = tuff_device_wait(run->device);
    const double started = example_now();
    if (status == TUFF_OK)
        status = run_held_out(self, first, count, loss, metrics ? metrics : unread);
    const double paused = example_now() - started;
    self->line_time += paused;
    self->first_step_done += paused;
    return status;
}

void training_show_step(training *self)
{
    const double now = example_now();
    if (!isatty(STDERR_FILENO) || now - self->progress_time < 0.2)
        return;
    self->progress_time = now;
    fprintf(stderr, "\rstep %lld/%lld \r", (long long)self->run.step, (long long)self->run.settings->steps);
}

static tuff_status read_scalar(tuff_plan *plan, const char *name, double *out)
{
    float value = NAN;
    const tuff_status status = tuff_plan_read(plan, name, &value, sizeof value);
    *out = (double)value;
    return status;
}

static tuff_status measure(training *self, example_line *line)
{
    tuff_plan *plan = self->run.update ? self->run.update : self->run.plan;
    tuff_status status = training_read_sums(self->sums, self->metric_count, self->summed, &line->loss, line->metrics);
    if (status == TUFF_OK)
        status = read_scalar(plan, "gradient_norm", &line->gradient_norm);
    if (status == TUFF_OK)
        status = read_scalar(plan, "learning_rate", &line->learning_rate);
    if (status == TUFF_OK)
        status = read_scalar(plan, "loss_scale", &line->loss_scale);
    if (status == TUFF_OK)
        status = tuff_optimizer_check(self->run.optimizer);
    self->summed = 0;
    return status;
}

static tuff_status append_line(training *self, const example_line *line)
{
    if (self->line_count == self->line_room) {
        const int room = self->line_room > 0 ? 2 * self->line_room : 64;
        example_line *more = realloc(self->lines, (size_t)room * sizeof *more);
        if (!more)
            return TUFF_E_OOM_HOST;
        self->lines = more;
        self->line_room = room;
    }
    self->lines[self->line_count++] = *line;
    return TUFF_OK;
}

static void print_line(const training *self, const example_line *line)
{
    printf("step %lld/%lld  loss %.5g", (long long)line->step, (long long)self->run.settings->steps, line->loss);
    for (int i = 0; i < self->metric_count; i++)
        printf("  %s %.4g", self->metric_names[i], line->metrics[i]);
    if (!isnan(line->validation_loss))
        printf("  validation %.5g", line->validation_loss);
    printf("  |g| %.3g  lr %.3g", line->gradient_norm, line->learning_rate);
    if (isfinite(line->recent) && isfinite(line->average))
        printf("  %.3g steps/s (avg %.3g)", line->recent, line->average);
    printf("\n");
    fflush(stdout);
}

static void set_speeds(training *self, example_line *line, double now)
{
    const int64_t before = self->line_count > 0 ? self->lines[self->line_count - 1].step : self->first_step + 1;
    self->seconds = now - self->first_step_done;
    self->timed_steps = line->step - self->first_step - 1;
    line->recent = line->step > before ? (double)(line->step - before) / (now - self->line_time) : NAN;
    line->average = self->timed_steps > 0 ? (double)self->timed_steps / self->seconds : NAN;
}

tuff_status training_log_line(training *self)
{
    const int64_t every = self->options->validate_every;
    char names[2 * EXAMPLE_MAX_METRICS][80];
    tuff_scalar scalars[MAX_NAMES];
    example_line line = {.step = self->run.step, .validation_loss = NAN};
    for (int i = 0; i < EXAMPLE_MAX_METRICS; i++)
        line.metrics[i] = line.validation_metrics[i] = NAN;
    tuff_status status = measure(self, &line);
    set_speeds(self, &line, example_now());
    const double paused = example_now();
    if (status == TUFF_OK && every > 0 && line.step % every == 0)
        status = run_held_out(self, 0, self->options->validation_batches > 0 ? self->options->validation_batches : 4,
                              &line.validation_loss, line.validation_metrics);
    if (status == TUFF_OK && self->monitor)
        status =
            tuff_monitor_write(self->monitor, line.step, scalars, list_scalars(self, &line, false, names, scalars));
    if (status == TUFF_OK)
        status = append_line(self, &line);
    if (status == TUFF_OK)
        print_line(self, &line);
    self->line_time = example_now();
    self->first_step_done += self->line_time - paused; /* speeds count training time only */
    return status;
}
