/* tuff train: trains a byte-level GPT or Llama on text files. A step is one run of one plan; the host writes the next
   windows and reads back only the report of steps that get a line. Ctrl-C ends the loop between two steps and saves. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "device/device.h"
#include "tools/model/fastest.h"
#include "tools/train/averages.h"
#include "tools/train/batches.h"
#include "tools/train/rates.h"
#include "tools/train/report.h"
#include "tools/train/sampler.h"
#include "tools/train/saving.h"
#include "tools/train/text.h"
#include "tools/train/step_graphs.h"
#include "tools/train/validation.h"
#include "tools/verbs.h"

typedef struct training {
    train_options options;
    corpus text, held_out;
    tuff_device *device;
    language_model model;
    optimizer_setup setup;
    tuff_optimizer *optimizer;
    tuff_graph *graph;
    tuff_plan *plan;
    tuff_graph *update_graph;
    tuff_plan *update; /* ends a step of several batches; NULL: a run of plan is a step */
    batches batches;
    rate_list rates;
    logged_norms norms;
    line_norms line_norms;
    const char **norm_names; /* names of the logged norms; NULL: none */
    float *norm_values;
    int64_t done, last; /* steps: done, and at the end of this run */
    save_state saving;
    validation validation;
    progress progress;
    step_profile profile;
} training;

static tuff_compile_options compile_options(training *self)
{
    tuff_compile_options options = {.fuse = self->options.fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE,
                                    .matmul_library = (tuff_matmul_library)self->options.matmul,
                                    .memory_budget = (uint64_t)self->options.memory_budget,
                                    .precision = (tuff_precision)self->options.settings.precision,
                                    .matmul_precision = (tuff_precision)self->options.settings.matmul_precision};
    tuning_apply(&self->options.tune, &options);
    return options;
}

static int open_device(training *self)
{
    const model_options described = {.model = self->options.settings.model,
                                     .batch = self->options.settings.batch,
                                     .precision = self->options.settings.precision,
                                     .recompute = self->options.recompute};
    const fastest_work work = {.described = &described, .matmul_precision = self->options.settings.matmul_precision};
    int code = EXIT_DONE;
    self->device = cli_open_device_for(&verb_train, self->options.device, &work, &code);
    if (self->device && self->options.memory_budget > 0 && tuff__device_is_reference(self->device))
        return cli_fail(&verb_train, EXIT_USAGE, "--memory-budget has no effect on reference, which runs no kernels");
    return code;
}

/* Selects the norms that the log files get. */
static void choose_norms(training *self)
{
    const train_options *options = &self->options;
    if (!options->settings.log_norms || (!options->log && !options->csv && !options->tensorboard))
        return;
    self->norms = self->setup.pattern_count > 0 ? LOG_GROUP_NORMS : LOG_TENSOR_NORMS;
    self->setup.options.tensor_norms = true;
}

/* More columns than this would be useless. */
enum { NAMED_NORMS_MAX = 512 };

static int name_norms(training *self)
{
    const bool groups = self->norms == LOG_GROUP_NORMS;
    const int count = groups ? self->setup.pattern_count + 1 : tuff_parameters_count(self->model.parameters);
    if (self->norms == LOG_NO_NORMS)
        return EXIT_DONE;
    if (count > NAMED_NORMS_MAX)
        return cli_fail(
            &verb_train, EXIT_USAGE,
            "--log-norms: the model has %d parameters, but at most %d norms can be logged: group them with --group",
            count, NAMED_NORMS_MAX);
    self->norm_names = tuff__calloc((size_t)count, sizeof *self->norm_names);
    self->norm_values = tuff__calloc((size_t)count, sizeof *self->norm_values);
    if (!self->norm_names || !self->norm_values)
        return cli_fail_library(&verb_train, "--log-norms");
    for (int i = 0; i < count; i++)
        if (groups)
            self->norm_names[i] = i > 0 ? self->setup.patterns[i - 1] : "others";
        else
            (void)tuff_parameters_at(self->model.parameters, i, &self->norm_names[i]);
    self->line_norms.names = self->norm_names;
    self->line_norms.count = count;
    return EXIT_DONE;
}

static int check_update_top(const training *self)
{
    const int count = tuff_parameters_count(self->model.parameters);
    if (self->setup.update_top <= count)
        return EXIT_DONE;
    return cli_fail(&verb_train, EXIT_USAGE, "--update-top %" PRId64 ": the model has only %d parameters",
                    self->setup.update_top, count);
}

static int make_model(training *self)
{
    const run_settings *settings = &self->options.settings;
    optimizer_setup_make(&settings->optimizer, settings->learning_rate, settings->steps, &self->setup);
    choose_norms(self);
    if (model_create_grouped(self->device, &settings->model, self->setup.patterns, self->setup.pattern_count,
                             &self->model) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot create the model");
    self->optimizer = tuff_optimizer_create(self->model.parameters, &self->setup.options);
    if (!self->optimizer)
        return cli_fail_library(&verb_train, "cannot create the optimizer");
    if (check_update_top(self) != EXIT_DONE)
        return EXIT_USAGE;
    return name_norms(self);
}

/* Determines the number of steps done in a checkpoint. Older ones have only the number of batches, from which it
   follows if all steps had equally many. */
static tuff_status count_steps(training *self)
{
    int32_t counter = 0;
    tuff_array *counted = tuff_optimizer_batch_counter(self->optimizer);
    const bool are_steps = counted == tuff_optimizer_counter(self->optimizer);
    self->done = self->options.settings.state.step;
    if (self->done >= 0)
        return TUFF_OK;
    TRY(tuff_array_read(counted, &counter, sizeof counter));
    self->done = are_steps ? counter : counter / self->options.saved_accumulate;
    return TUFF_OK;
}

static int make_weights(training *self)
{
    if (!self->options.resume) {
        if (model_initialize(&self->model, (uint64_t)self->options.settings.seed) != TUFF_OK)
            return cli_fail_library(&verb_train, "cannot initialize the weights");
        return EXIT_DONE;
    }
    if (tuff_checkpoint_load(self->options.resume, self->model.parameters, self->optimizer) != TUFF_OK ||
        count_steps(self) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot load the checkpoint");
    return EXIT_DONE;
}

static int make_batches(training *self)
{
    const run_settings *settings = &self->options.settings;
    if (batches_open(&self->batches, self->device, &self->text, settings, self->options.workers,
                     (tuff_upload)self->options.upload) != TUFF_OK ||
        batches_seek(&self->batches, self->done * settings->optimizer.accumulate, settings->state.loader) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot prepare the batches");
    return EXIT_DONE;
}

/* Plain steps use the graph that other verbs know too. */
static tuff_graph *make_graph(training *self)
{
    if (self->setup.options.accumulate > 1)
        return accumulate_graph(self->device, &self->batches, &self->model, self->optimizer);
    const tuff_optimizer_options *options = &self->setup.options;
    return options->loss_scaling || options->choose || self->norms != LOG_NO_NORMS
               ? full_train_graph(self->device, &self->batches, &self->model, self->optimizer, self->norms)
               : batches_graph(&self->batches, self->device, &self->model, self->optimizer);
}

static int make_update(training *self, const tuff_compile_options *options)
{
    if (self->setup.options.accumulate <= 1)
        return EXIT_DONE;
    self->update_graph = update_graph(self->device, self->optimizer, self->norms);
    self->update = self->update_graph ? tuff_compile(self->update_graph, options) : NULL;
    return self->update ? EXIT_DONE : cli_fail_library(&verb_train, "cannot compile the update");
}

/* Saves the graph of a step. A step of several batches is two graphs: that of a batch, and in FILE.update the one that
   ends the step. */
static int save_graphs(training *self, const tuff_compile_options *options)
{
    char path[4096];
    const char *file = self->options.save_graph;
    if (!file)
        return EXIT_DONE;
    tuff_status status = model_graph_save(self->graph, "train", self->model.parameters, options, file);
    if (status == TUFF_OK && self->update && (size_t)snprintf(path, sizeof path, "%s.update", file) >= sizeof path)
        status = FAIL(TUFF_E_USAGE, "path too long");
    else if (status == TUFF_OK && self->update)
        status = model_graph_save(self->update_graph, "update", self->model.parameters, options, path);
    return status == TUFF_OK ? EXIT_DONE : cli_fail_library(&verb_train, "--save-graph");
}

static int make_plan(training *self)
{
    const tuff_compile_options options = compile_options(self);
    self->model.recompute = self->options.recompute;
    self->graph = make_graph(self);
    self->plan = self->graph ? tuff_compile(self->graph, &options) : NULL;
    const int code =
        self->plan ? make_update(self, &options) : cli_fail_library(&verb_train, "cannot compile the model");
    if (code != EXIT_DONE) {
        (void)tuning_end(&self->options.tune, NULL);
        return code;
    }
    if (save_graphs(self, &options) != EXIT_DONE)
        return EXIT_FAILED;
    if (self->options.tune.background) /* nothing to report yet */
        return EXIT_DONE;
    return tuning_end(&self->options.tune, self->plan) ? EXIT_DONE : EXIT_FAILED;
}

static int read_text(training *self)
{
    run_settings *settings = &self->options.settings;
    if (corpus_read(&self->options.data, settings->model.context + 1, &self->text) != TUFF_OK)
        return cli_fail(&verb_train, EXIT_FAILED, "%s", tuff_error());
    const bool is_other = self->options.resume && settings->text_hash != self->text.hash;
    if (is_other)
        fputs("the text differs from the one that the checkpoint was trained on\n", stderr);
    settings->text_hash = self->text.hash;
    if (settings->validate[0] && validation_split(&self->validation, settings->validate, &self->text, &self->held_out,
                                                  settings->model.context + 1) != TUFF_OK)
        return cli_fail(&verb_train, EXIT_FAILED, "%s", tuff_error());
    const uint64_t before = settings->held_out_hash;
    settings->held_out_hash = self->validation.text.bytes ? self->validation.text.hash : 0;
    const bool validates_other = before != 0 && before != settings->held_out_hash;
    if (validates_other)
        fprintf(stderr, "%s differs from the text that the checkpoint was validated on\n", settings->validate);
    /* If the held-out text is part of the training text, it has changed too. */
    if (validates_other || (is_other && !self->validation.text.bytes))
        run_state_forget_best(&settings->state);
    return EXIT_DONE;
}

static int read_rates(training *self)
{
    optimizer_flags *flags = &self->options.settings.optimizer;
    if (!flags->rates[0])
        return EXIT_DONE;
    if (rates_read(&self->rates, flags->rates, flags->epoch_steps) != TUFF_OK)
        return cli_fail(&verb_train, EXIT_FAILED, "--rates: %s", tuff_error());
    if (flags->rates_hash != 0 && flags->rates_hash != self->rates.hash)
        fprintf(stderr,
                "%s: learning rates differ from the checkpoint: the result will differ from an uninterrupted run\n",
                flags->rates);
    flags->rates_hash = self->rates.hash;
    return EXIT_DONE;
}

/* To be called after make_weights: the validation keeps a copy of the weights. */
static int make_validation(training *self)
{
    run_settings *settings = &self->options.settings;
    const tuff_compile_options options = compile_options(self);
    if (!settings->validate[0])
        return EXIT_DONE;
    if (validation_open(&self->validation, self->device, &self->model, self->optimizer, &self->held_out, settings,
                        &options) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot prepare the validation");
    if (self->options.resume &&
        validation_resume(&self->validation, &settings->state, self->options.resume, self->done) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot load the best weights so far");
    return EXIT_DONE;
}

static int make_saving(training *self)
{
    const train_options *options = &self->options;
    const bool async = options->save_every > 0 || options->settings.validate[0];
    if (saving_open(&self->saving, options->save, options->keep, async, &options->settings.state, &self->model,
                    self->optimizer) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot prepare saving");
    return EXIT_DONE;
}

static tuff_plan *reporting_plan(const training *self)
{
    return self->update ? self->update : self->plan;
}

/* Reads the outputs needed, with one read of the device for each. */
static tuff_status read_report(training *self, step_report *numbers, scaling_report *scaling)
{
    tuff_plan *plan = reporting_plan(self);
    TRY(tuff_plan_read(plan, "report", numbers, sizeof *numbers));
    if (self->setup.options.loss_scaling)
        TRY(tuff_plan_read(plan, "scaling", scaling, sizeof *scaling));
    if (self->norms == LOG_NO_NORMS)
        return TUFF_OK;
    return tuff_plan_read(plan, "norms", self->norm_values, (size_t)self->line_norms.count * sizeof(float));
}

static int report(training *self)
{
    step_report numbers;
    scaling_report scaling;
    const bool may_skip = self->setup.options.loss_scaling != NULL;
    if (read_report(self, &numbers, &scaling) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot read the loss");
    self->progress.waited = batches_wait_seconds(&self->batches);
    self->progress.has_phases = step_profile_phases(&self->profile, self->progress.phases);
    progress_line(&self->progress, self->done, &numbers, may_skip ? &scaling : NULL, self->norm_values);
    if (may_skip && tuff_optimizer_check(self->optimizer) != TUFF_OK) {
        progress_end(&self->progress);
        return cli_fail_library(&verb_train, "training step failed");
    }
    if (!may_skip && (!isfinite(numbers.loss) || !isfinite(numbers.gradient_norm))) {
        progress_end(&self->progress);
        return cli_fail(&verb_train, EXIT_FAILED,
                        "loss is not finite at step %" PRId64
                        ", so nothing more is saved: lower --learning-rate, or look for NaN in the data",
                        self->done);
    }
    return EXIT_DONE;
}

/* Reports a failed save. The training continues, because what it can save next is worth more. */
static int report_save_failure(training *self)
{
    char why[1024];
    snprintf(why, sizeof why, "%s", tuff_error());
    progress_end(&self->progress);
    if (saving_is_written(&self->saving))
        return cli_fail(&verb_train, EXIT_FAILED,
                        "%s has step %" PRId64 ", but not all of its other names could be created: %s",
                        self->options.save, self->saving.failed, why);
    return cli_fail(&verb_train, EXIT_FAILED, "cannot save step %" PRId64 ": %s; %s is unchanged", self->saving.failed,
                    why, self->options.save);
}

/* To be called before a save, because a checkpoint with numbers that are not finite is worthless. */
static int report_once(training *self)
{
    return self->progress.line_step == self->done ? EXIT_DONE : report(self);
}

static int save(training *self, bool is_best)
{
    run_state *state = &self->options.settings.state;
    int code = EXIT_DONE;
    if (self->saving.begun == self->done && !is_best)
        return EXIT_DONE;
    if (saving_wait(&self->saving) != TUFF_OK)
        code = report_save_failure(self);
    state->step = self->done;
    if (batches_save_position(&self->batches, state->loader, sizeof state->loader) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot save the position in the text");
    if (saving_begin(&self->saving, &self->options.settings, self->done, is_best, self->validation.best) != TUFF_OK)
        code = report_save_failure(self);
    return code;
}

/* Saves the last step. Fails only if this step is not saved; the failure of an earlier save is just reported. */
static int save_last(training *self)
{
    const int code = report_once(self);
    if (code == EXIT_DONE)
        (void)save(self, false);
    if (saving_wait(&self->saving) != TUFF_OK)
        (void)report_save_failure(self);
    if (code != EXIT_DONE)
        return code;
    return self->saving.saved == self->done && self->saving.failed != self->done ? EXIT_DONE : EXIT_FAILED;
}

static int validate(training *self, bool *is_best)
{
    run_state *state = &self->options.settings.state;
    double loss;
    *is_best = false;
    if (!validation_is_due(&self->validation, self->done))
        return EXIT_DONE;
    if (validation_loss(&self->validation, &loss) != TUFF_OK ||
        validation_record(&self->validation, state, self->done, loss, is_best) != TUFF_OK)
        return cli_fail_library(&verb_train, "validation failed");
    progress_validation(&self->progress, self->done, loss, state->best_loss, *is_best);
    return EXIT_DONE;
}

static int step(training *self)
{
    const int64_t parts = self->options.settings.optimizer.accumulate;
    if (rates_apply(&self->rates, self->optimizer, self->done) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot set the learning rate");
    step_profile_begin(&self->profile, self->done + 1, progress_is_due(&self->progress, self->done + 1));
    for (int64_t i = 0; i < parts; i++)
        if (batches_next(&self->batches, self->plan) != TUFF_OK ||
            step_profile_run(&self->profile, self->plan, STEP_BATCH) != TUFF_OK)
            return cli_fail_library(&verb_train, "training step failed");
    if (self->update && step_profile_run(&self->profile, self->update, STEP_UPDATE) != TUFF_OK)
        return cli_fail_library(&verb_train, "training step failed");
    self->done++;
    return EXIT_DONE;
}

static int loop(training *self)
{
    const int64_t every = self->options.save_every;
    while (self->done < self->last && !cli_is_interrupted() && !validation_is_over(&self->validation)) {
        bool is_best = false;
        int code = step(self);
        if (code == EXIT_DONE && progress_is_due(&self->progress, self->done))
            code = report(self);
        if (code == EXIT_DONE)
            code = validate(self, &is_best);
        if (code != EXIT_DONE)
            return code;
        const bool is_due = every > 0 && self->done % every == 0 && self->done < self->last;
        if (!self->options.save || (!is_due && !is_best))
            continue;
        code = report_once(self);
        if (code != EXIT_DONE)
            return code;
        if (save(self, is_best) != EXIT_DONE)
            fputs("training continues\n", stderr);
    }
    return EXIT_DONE;
}

static void print_start(const training *self, const tuff_device_info *info)
{
    const run_settings *settings = &self->options.settings;
    const model_config *config = &settings->model;
    fprintf(stderr, "%s (%s), %s\n", info->name, info->selector, info->api);
    fprintf(stderr,
            "%s of %" PRId64 " layers, %" PRId64 " heads, width %" PRId64 ", context %" PRId64 ": %" PRId64
            " parameters; %zu bytes of text, %" PRId64 " windows per step\n",
            config->form == MODEL_GPT ? "GPT" : "Llama", config->layers, config->heads, config->width, config->context,
            model_parameter_count(config), self->text.size, settings->batch);
    tuff_plan_info plan;
    if (tuff_plan_describe(self->plan, &plan) == TUFF_OK && plan.memory_peak > 0)
        fprintf(stderr, "peak memory of intermediates: %s\n", BYTES_TEXT(plan.memory_peak));
    if (self->options.resume)
        fprintf(stderr, "resuming after step %" PRId64 "\n", self->done);
}

static bool has_averages(const training *self)
{
    return self->setup.options.average_decay > 0;
}

static void print_summary(const training *self, int64_t first)
{
    const double seconds = tuff__seconds_since(self->progress.begin);
    const double tokens = (double)(self->done - first) * (double)self->progress.tokens_per_step;
    const run_state *state = &self->options.settings.state;
    const bool early = self->done < self->options.settings.steps;
    if (validation_is_over(&self->validation))
        fprintf(stderr, "no improvement in %" PRId64 " validations: stopping early\n", state->without_gain);
    if (state->has_best)
        fprintf(stderr, "best validation loss %.4f, after step %" PRId64 "; the sample uses these weights%s\n",
                state->best_loss, state->best_step, has_averages(self) ? ", averaged (--ema)" : "");
    else if (has_averages(self) && self->options.sample > 0)
        fputs("the sample uses the averaged weights (--ema)\n", stderr);
    fprintf(stderr, "%s after step %" PRId64 ": %s, %.0f tokens/s%s%s\n", early ? "stopped" : "done", self->done,
            TIME_TEXT(seconds), tokens / fmax(seconds, 1e-9),
            self->options.save ? ", saved to " : "; not saved: no --save",
            self->options.save ? self->options.save : "");
    if (self->batches.loader)
        fprintf(stderr, "steps waited %.3f s (%.2f %%) for batches, uploaded %s\n",
                batches_wait_seconds(&self->batches), 100 * batches_wait_seconds(&self->batches) / fmax(seconds, 1e-9),
                batches_use_upload_queue(&self->batches) ? "ahead, on a separate queue" : "in order with the steps");
    scaling_report scaling;
    if (self->setup.options.loss_scaling && self->done > first &&
        tuff_plan_read(reporting_plan(self), "scaling", &scaling, sizeof scaling) == TUFF_OK)
        fprintf(stderr, "%.0f steps skipped, the loss scale is %g\n", (double)scaling.skipped,
                (double)scaling.loss_scale);
    /* Caching programs at exit can take a while: PoCL compiles a kernel separately to get its binary. */
    if (cli_is_interrupted())
        fputs("saving compiled kernels for later runs; press Ctrl-C again to skip\n", stderr);
}

/* Prints the kernel times of the profiled steps, by phase. */
static void print_profile(const training *self)
{
    const step_profile *profile = &self->profile;
    if (!self->options.profile)
        return;
    if (!profile->has_kernels) {
        fprintf(stderr, "no profile: %s\n",
                profile->missing_reason[0] ? profile->missing_reason : "the run had no steps");
        return;
    }
    fprintf(stderr, "%.3f ms per step in kernels, median of %d%s:", 1e3 * profile->kernels.seconds, profile->count,
            profile->is_after_end ? " after the end" : "");
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        fprintf(stderr, "%s %s %.3f ms (%.0f %%)", phase > 0 ? "," : "", tuff_phase_name((tuff_phase)phase),
                1e3 * profile->kernels.phases[phase], 100 * profile->kernels.phases[phase] / profile->kernels.seconds);
    fputc('\n', stderr);
}

static int write_report(training *self, int64_t first)
{
    const run_report report = {.device = self->device,
                               .plan = self->plan,
                               .options = &self->options,
                               .progress = &self->progress,
                               .profile = &self->profile,
                               .first = first,
                               .done = self->done};
    if (!self->options.report || report_write(&report, self->options.report) == TUFF_OK)
        return EXIT_DONE;
    return cli_fail_library(&verb_train, "--report");
}

/* Restores the weights to sample from. To be called after the last save. */
static int restore_best(training *self)
{
    averages into_model;
    tuff_status status = self->validation.plan ? validation_restore(&self->validation) : TUFF_OK;
    if (status == TUFF_OK && has_averages(self) && !self->options.settings.state.has_best && self->options.sample > 0) {
        status =
            averages_open(&into_model, self->device, self->optimizer, self->model.parameters, self->model.parameters);
        if (status == TUFF_OK)
            status = averages_update(&into_model);
        averages_close(&into_model);
    }
    return status == TUFF_OK ? EXIT_DONE : cli_fail_library(&verb_train, "cannot restore the best weights");
}

static int print_sample(training *self)
{
    const sampler_options options = {.prompt = self->options.prompt,
                                     .temperature = 0.8,
                                     .seed = self->options.settings.seed,
                                     .compile = compile_options(self)};
    text_sampler sampler;
    if (self->options.sample == 0 || cli_is_interrupted())
        return EXIT_DONE;
    if (sampler_create(self->device, &self->model, &options, &sampler) != TUFF_OK)
        return cli_fail_library(&verb_train, "cannot compile the model for the sample");
    const int code = sampler_print(&sampler, &verb_train, self->options.sample);
    sampler_destroy(&sampler);
    return code;
}

static int run(training *self)
{
    const run_settings *settings = &self->options.settings;
    const int64_t first = self->done,
                  tokens = settings->batch * settings->model.context * settings->optimizer.accumulate;
    tuff_device_info info;
    if (tuff_device_describe(self->device, &info) == TUFF_OK)
        print_start(self, &info);
    self->last = self->options.stop_after > 0 && self->options.stop_after < settings->steps ? self->options.stop_after
                                                                                            : settings->steps;
    cli_catch_interrupt();
    self->profile = (step_profile){.wanted = self->options.profile || self->options.report,
                                   .with_lines = self->options.profile,
                                   .batches = settings->optimizer.accumulate};
    self->progress.device = self->device;
    self->progress.plot = self->options.force_plot ? PLOT_ALWAYS : self->options.plot ? PLOT_ON_TERMINAL : PLOT_NONE;
    progress_begin(&self->progress, self->done, self->last, settings->steps, tokens, self->options.log_every);
    int code = loop(self);
    if (code == EXIT_DONE && tuff_plan_wait(self->plan) != TUFF_OK)
        code = cli_fail_library(&verb_train, "training step failed");
    progress_end(&self->progress);
    if (code == EXIT_DONE && self->options.save)
        code = save_last(self);
    else if (self->options.save && saving_wait(&self->saving) != TUFF_OK)
        (void)report_save_failure(self);
    if (code == EXIT_DONE)
        code = restore_best(self);
    if (code == EXIT_DONE && self->options.tune.background && !tuning_end(&self->options.tune, self->plan))
        code = EXIT_FAILED;
    if (code != EXIT_DONE)
        return code;
    print_summary(self, first);
    code = print_sample(self);
    /* After everything that needs the weights, because it may run further steps. */
    step_profile_finish(&self->profile, (tuff_plan *const[]){self->plan, self->update});
    print_profile(self);
    const int written = write_report(self, first);
    return code == EXIT_DONE ? written : code;
}

/* All user errors are detected before the training starts. */
static int prepare(training *self)
{
    int (*const stages[])(training *) = {read_text,    read_rates, open_device,     make_model, make_weights,
                                         make_batches, make_plan,  make_validation, make_saving};
    int code = EXIT_DONE;
    if (saving_check_path("--save", self->options.save) != TUFF_OK)
        code = cli_fail_library(&verb_train, "cannot save checkpoints");
    else if (saving_check_path("--report", self->options.report) != TUFF_OK)
        code = cli_fail_library(&verb_train, "--report");
    for (size_t i = 0; i < sizeof stages / sizeof *stages && code == EXIT_DONE; i++)
        code = stages[i](self);
    const char *const files[MONITOR_COUNT] = {self->options.log, self->options.csv, self->options.tensorboard};
    if (code == EXIT_DONE)
        code = progress_open(&self->progress, &verb_train, files, self->options.resume != NULL, self->done,
                             &self->line_norms);
    return code;
}

static void clean_up(training *self)
{
    step_profile_free(&self->profile);
    tuff_plan_destroy(self->update);
    tuff_graph_destroy(self->update_graph);
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    saving_close(&self->saving);
    validation_close(&self->validation);
    batches_close(&self->batches);
    tuff_optimizer_destroy(self->optimizer);
    model_destroy(&self->model);
    tuff_device_close(self->device);
    corpus_free(&self->text);
    rates_free(&self->rates);
    tuff__free(self->norm_names);
    tuff__free(self->norm_values);
    cli_texts_free(&self->options.data);
}

static int train(int count, char **arguments)
{
    training self = {0};
    const cli_end end = train_options_read(&verb_train, count, arguments, &self.options);
    int code = end.code;
    if (!end.now) {
        code = prepare(&self);
        if (code == EXIT_DONE)
            code = run(&self);
    }
    if (!progress_close(&self.progress) && code == EXIT_DONE)
        code = EXIT_FAILED;
    clean_up(&self);
    return code;
}

const cli_verb verb_train = {
    .name = "train",
    .summary = "Trains a small GPT or Llama on a text, saves it and prints a sample.",
    .about =
        "Progress goes to standard error, the sample to standard output. Ctrl-C saves the last complete step (with\n"
        "--save) and ends; --resume continues from there, with the same bits as an uninterrupted run.",
    .run = train,
    .repeats = true,
};
