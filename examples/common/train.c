/* The training loop. The loss and the metrics are added up on the device, so that the host reads nothing between lines
   of output. The baseline form instead reads the loss in every step if the published program does, and fills each batch
   when it is needed instead of ahead. */
#define _POSIX_C_SOURCE 200809L
#include "train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "batches.h"
#include "check.h"
#include "files.h"
#include "parameters.h"

double example_now(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static tuff_status fill_batch(void *user, tuff_batch_target *target)
{
    const char *why = example_fill_batch(user, target->number, target->data);
    if (why)
        snprintf(target->message, target->message_size, "%s", why);
    return why ? TUFF_E_USAGE : TUFF_OK;
}

/* Opens a loader that fills batches ahead of the device, in the optimized form. */
static tuff_status open_loader(training *self)
{
    example_inputs list = {0};
    tuff_field fields[EXAMPLE_MAX_INPUTS];
    int count = 0;
    self->run.model->list_inputs(self->run.config, EXAMPLE_TRAIN, &list);
    for (int i = 0; i < list.count; i++)
        if (!list.specs[i].is_fixed)
            fields[count++] =
                (tuff_field){.name = list.specs[i].name, .dtype = list.specs[i].dtype, .shape = list.specs[i].shape};
    if (count == 0 || !self->run.optimized)
        return TUFF_OK;
    const tuff_loader_options options = {.fields = fields,
                                         .field_count = count,
                                         .batch_size = self->run.settings->batch,
                                         .seed = self->run.seed,
                                         .batch = fill_batch,
                                         .user = &self->source};
    self->loader = tuff_loader_create(self->run.device, &options);
    if (!self->loader)
        return tuff_last_status();
    const int64_t parts = example_batches_per_step(self->run.settings);
    return tuff_loader_seek(self->loader, (tuff_loader_position){.batch = self->first_step * parts});
}

static tuff_status run_batch(training *self, int64_t number)
{
    tuff_status status = self->loader ? tuff_loader_next(self->loader, self->run.plan, NULL)
                                      : example_write_batch(&self->source, self->run.plan, number);
    if (status == TUFF_OK)
        status = tuff_plan_run(self->run.plan);
    self->summed++;
    if (status == TUFF_OK && !self->run.optimized && self->run.model->baseline_reads_loss) {
        float loss = 0;
        status = tuff_plan_read(self->run.plan, "loss", &loss, sizeof loss);
    }
    return status;
}

tuff_status training_step(training *self)
{
    const int64_t parts = example_batches_per_step(self->run.settings);
    tuff_status status = self->run.model->before_step ? self->run.model->before_step(&self->run) : TUFF_OK;
    for (int64_t part = 0; part < parts && status == TUFF_OK; part++)
        status = run_batch(self, self->run.step * parts + part);
    if (status == TUFF_OK && self->run.update)
        status = tuff_plan_run(self->run.update);
    self->run.step++;
    if (status == TUFF_OK && self->run.model->after_step)
        status = self->run.model->after_step(&self->run);
    if (status == TUFF_OK && self->run.step == self->first_step + 1) {
        /* Drivers may finish building kernels in the first step, so it is not part of the speed. */
        status = tuff_device_wait(self->run.device);
        self->first_step_done = self->line_time = example_now();
        self->first_seconds = self->first_step_done - self->started;
    }
    return status;
}

/* Acts on a validation of the last line: saves the best checkpoint, may end the training. */
static tuff_status handle_validation(training *self, bool *stop)
{
    example_run *run = &self->run;
    const double loss = self->lines[self->line_count - 1].validation_loss;
    if (isnan(loss))
        return TUFF_OK;
    const bool is_best = isnan(run->best_validation_loss) || loss < run->best_validation_loss;
    run->validation_loss = loss;
    if (isnan(run->first_validation_loss))
        run->first_validation_loss = loss;
    if (is_best)
        run->best_validation_loss = loss;
    const tuff_status status = run->model->after_validation ? run->model->after_validation(run, stop) : TUFF_OK;
    return status == TUFF_OK && is_best ? training_save(self, true) : status;
}

static volatile sig_atomic_t interrupted;

/* Ctrl-C also ends a program that reads the output through a pipe; this one must save nevertheless. */
static void record_interrupt(int number)
{
    (void)number;
    interrupted = 1;
    (void)signal(SIGPIPE, SIG_IGN);
}

/* The first Ctrl-C ends the training after the current step, the second one the program. Programs in the background
   ignore it. */
static void catch_interrupt(struct sigaction *before)
{
    struct sigaction action = {.sa_handler = record_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    interrupted = 0;
    (void)sigaction(SIGINT, NULL, before);
    if (before->sa_handler != SIG_IGN)
        (void)sigaction(SIGINT, &action, NULL);
}

static bool is_due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

static tuff_status loop(training *self)
{
    const int64_t steps = self->run.settings->steps;
    const int64_t twentieth = steps >= 20 ? steps / 20 : 1;
    const int64_t log_every = self->options->log_every > 0 ? self->options->log_every : twentieth;
    bool stop = false, is_last = self->run.step >= steps;
    struct sigaction before;
    tuff_status status = TUFF_OK;
    catch_interrupt(&before);
    while (!is_last && !stop && status == TUFF_OK) {
        status = training_step(self);
        training_show_step(self);
        const int64_t step = self->run.step;
        is_last = step >= steps || interrupted;
        if (status == TUFF_OK && (is_due(step, log_every) || is_due(step, self->options->validate_every) || is_last)) {
            status = training_log_line(self);
            if (status == TUFF_OK)
                status = handle_validation(self, &stop);
        }
        if (status == TUFF_OK && is_due(step, self->options->save_every) && !is_last)
            status = training_save(self, false);
    }
    (void)sigaction(SIGINT, &before, NULL);
    if (interrupted && status == TUFF_OK)
        fprintf(stderr, "%s: stopped by Ctrl-C after step %lld\n", self->run.model->name, (long long)self->run.step);
    return status == TUFF_OK ? training_save(self, false) : status;
}

static tuff_status create(training *self)
{
    example_run *run = &self->run;
    run->device = tuff_device_open(self->options->device);
    if (!run->device)
        return tuff_last_status();
    self->source = (example_source){.model = run->model,
                                    .config = run->config,
                                    .device = run->device,
                                    .seed = run->seed,
                                    .optimized = run->optimized,
                                    .purpose = EXAMPLE_TRAIN};
    tuff_status status = example_open_data(&self->source, self->options->data, &self->error_reported);
    run->data = self->source.data;
    if (status != TUFF_OK)
        return status;
    example_data_describe(run->model, self->options, self->data_text, sizeof self->data_text);
    run->parameters = example_parameters_make(run->model, run->config, run->device, run->seed, 0);
    if (run->parameters && run->model->has_frozen)
        run->frozen = tuff_parameters_clone(run->parameters);
    if (!run->parameters || (run->model->has_frozen && !run->frozen))
        return example_creation_status();
    self->source.parameters = run->parameters;
    self->source.frozen = run->frozen;
    self->held_out = self->source;
    self->held_out.purpose = EXAMPLE_VALIDATE;
    status = training_plans_create(self);
    if (status == TUFF_OK)
        status = training_resume(self);
    if (status == TUFF_OK)
        status = training_monitor_open(self);
    return status == TUFF_OK ? open_loader(self) : status;
}

static tuff_status destroy(training *self)
{
    tuff_status status = tuff_checkpoint_writer_destroy(self->writer);
    const tuff_status closed = tuff_monitor_close(self->monitor);
    (void)tuff_loader_destroy(self->loader);
    training_plans_destroy(self);
    if (self->run.model->close && self->run.data)
        self->run.model->close(self->run.data);
    tuff_parameters_destroy(self->run.frozen);
    tuff_parameters_destroy(self->run.parameters);
    tuff_device_close(self->run.device);
    free(self->lines);
    return status == TUFF_OK ? closed : status;
}

static int print_failure(const example *model, tuff_status status)
{
    fprintf(stderr, "%s: %s: %s\n", model->name, tuff_status_name(status), example_error());
    return 1;
}

static int train(const example *model, const example_options *options)
{
    training self = {.options = options,
                     .started = example_now(),
                     .run = {.model = model,
                             .config = options->config,
                             .settings = options->config,
                             .optimized = options->optimized,
                             .seed = options->seed,
                             .validation_loss = NAN,
                             .first_validation_loss = NAN,
                             .best_validation_loss = NAN}};
    tuff_status status = create(&self);
    if (status == TUFF_OK)
        status = options->bench ? training_bench(&self) : loop(&self);
    if (status == TUFF_OK && self.writer)
        status = tuff_checkpoint_writer_wait(self.writer);
    if (status == TUFF_OK && !options->bench)
        training_print_table(&self);
    if (status == TUFF_OK && !options->bench && model->after_training)
        status = model->after_training(&self.run);
    if (status == TUFF_OK && options->report)
        status = training_report(&self);
    if (status != TUFF_OK && !self.error_reported)
        print_failure(model, status);
    const tuff_status ended = destroy(&self);
    if (status == TUFF_OK && ended != TUFF_OK)
        return print_failure(model, ended);
    return status != TUFF_OK;
}

int example_main(const example *model, int count, char **words)
{
    example_options options;
    int code = 2;
    if (example_options_read(model, count, words, &options)) {
        code = 0;
        if (options.help)
            example_options_help(model);
        else if (options.checks > 0)
            code = example_check(model, &options);
        else if (!example_files_are_distinct(model, &options))
            code = 2;
        else if (!example_files_are_writable(model, &options))
            code = 1;
        else
            code = options.save_batches ? example_save_batches(model, &options) : train(model, &options);
    }
    example_options_free(&options);
    return code;
}
