/* Options of tuff train. Settings come from the checkpoint unless the command line overrides them; the model cannot
   change. */
#include "tools/cli/options.h"
#include "tools/train/options.h"

#include "tools/model/fastest.h"
#include "tools/model/options.h"
#include "tools/train/run_files.h"

#include <stdio.h>
#include <string.h>

#include "tools/verbs.h"

/* The default training takes less than three minutes on two cores. */
static const run_settings defaults = {
    .model = {.form = MODEL_GPT, .layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256},
    .steps = 1600,
    .batch = 8,
    .seed = 1,
    .learning_rate = 3e-3,
};

/* Which settings the command line gave. */
typedef struct given_settings {
    bool form, layers, heads, key_value_heads, width, hidden, context, steps, batch, seed, learning_rate, resident;
    bool validate_every, patience, precision, matmul_precision, workers, upload, log_norms;
    const char *validate; /* NULL: not given */
    optimizer_given optimizer;
} given_settings;

/* Rows of the table: options about observing a run, and about what it keeps. */
/* clang-format off */
#define FOLLOWING_OPTIONS(self, settings, given) \
    {"--log", CLI_TEXT, &(self)->log, "FILE", \
     "log to FILE as JSON Lines: step, loss, tokens_per_second, seconds and more", 0, 0, NULL}, \
    {"--csv", CLI_TEXT, &(self)->csv, "FILE", "log the same values as CSV", 0, 0, NULL}, \
    {"--tensorboard", CLI_TEXT, &(self)->tensorboard, "FOLDER", \
     "log the same values as an event file for TensorBoard", 0, 0, NULL}, \
    {"--log-norms", CLI_CHOICE, &(settings)->log_norms, "off|on", \
     "also log the gradient norm of each group or, without --group, of each parameter", 0, 0, \
     &(given)->log_norms}, \
    {"--report", CLI_TEXT, &(self)->report, "FILE", "write an HTML report with curves and kernel times at the end", 0, \
     0, NULL}, \
    {"--profile", CLI_SWITCH, &(self)->profile, NULL, \
     "print the times of the phases of a few steps, and log those of logged steps", 0, 0, NULL}, \
    {"--plot", CLI_SWITCH, &(self)->plot, NULL, "on a terminal, plot the loss above the progress line", 0, 0, NULL}, \
    {"--force-plot", CLI_SWITCH, &(self)->force_plot, NULL, \
     "plot the loss also without a terminal, ten times per run", 0, 0, NULL}, \
    {"--log-every", CLI_INTEGER, &(self)->log_every, "N", "steps between log lines; 0: about one line per second", 0, \
     1 << 24, NULL}
#define LOADING_OPTIONS(self, given) \
    {"--workers", CLI_INTEGER, &(self)->workers, "N", "threads that prepare batches; does not affect results", 1, \
     256, &(given)->workers}, \
    {"--upload", CLI_CHOICE, &(self)->upload, "auto|in-order|ahead", \
     "when batches are uploaded: in-order with the steps, or ahead on a separate queue; does not affect results", 0, \
     0, &(given)->upload}
#define KEEPING_OPTIONS(self, settings, given) \
    {"--save", CLI_TEXT, &(self)->save, "FILE", \
     "write a checkpoint at the end and on Ctrl-C; the previous one becomes FILE.prev", 0, 0, NULL}, \
    {"--save-every", CLI_INTEGER, &(self)->save_every, "N", "also save every N steps", 1, 1 << 24, NULL}, \
    {"--keep", CLI_INTEGER, &(self)->keep, "N", "also keep the last N checkpoints, as FILE.step-<step>; 0: none", 0, \
     1 << 20, NULL}, \
    {"--validate", CLI_TEXT, &(given)->validate, "FILE|FRACTION", \
     "validate on FILE, or on the last FRACTION of the text, which is then not trained on; the best checkpoint is " \
     "saved as FILE.best of --save, and the final sample uses it", \
     0, 0, NULL}, \
    {"--validate-every", CLI_INTEGER, &(settings)->validate_every, "N", \
     "steps between validations; default: a tenth of all steps", 1, 1 << 24, &(given)->validate_every}, \
    {"--patience", CLI_INTEGER, &(settings)->patience, "N", "stop after N validations without a lower loss; 0: never", \
     0, 1 << 24, &(given)->patience}, \
    {"--save-graph", CLI_TEXT, &(self)->save_graph, "FILE", \
     "write the graph of a step to FILE, for tuff plan, profile, bench and tune warm", 0, 0, NULL}, \
    {"--resume", CLI_TEXT, &(self)->resume, "FILE", "resume from a checkpoint, with its settings", 0, 0, NULL}, \
    {"--stop-after", CLI_INTEGER, &(self)->stop_after, "N", \
     "stop after step N, like Ctrl-C; does not change the schedule", 1, 1 << 24, NULL}
/* clang-format on */

static cli_end parse(const cli_verb *verb, int count, char **arguments, train_options *self, given_settings *given)
{
    run_settings *settings = &self->settings;
    model_config *model = &settings->model;
    const cli_option options[] = {
        {"--data", CLI_TEXTS, &self->data, "FILE", "text to train on, as bytes; required; may be given several times",
         0, 0, NULL},
        {"--steps", CLI_INTEGER, &settings->steps, "N", "total number of steps, over which the schedule runs", 1,
         1 << 24, &given->steps},
        WORK_DEVICE_OPTION(&self->device),
        SEED_OPTION(&settings->seed, "seed of initial weights and batches, which are the same on every device",
                    &given->seed),
        {"--form", CLI_CHOICE, &self->form, "gpt|llama", "architecture of the model", 0, 0, &given->form},
        {"--layers", CLI_INTEGER, &model->layers, "N", "transformer blocks", 1, 1000, &given->layers},
        {"--heads", CLI_INTEGER, &model->heads, "N", "attention heads; must divide the width", 1, 1 << 20,
         &given->heads},
        {"--key-value-heads", CLI_INTEGER, &model->key_value_heads, "N",
         "llama: key and value heads; 0: as many as heads", 0, 1 << 20, &given->key_value_heads},
        {"--width", CLI_INTEGER, &model->width, "N", "width of the residual stream", 1, 1 << 20, &given->width},
        {"--hidden", CLI_INTEGER, &model->hidden, "N", "llama: hidden size of the MLP; 0: 8/3 of the width", 0, 1 << 20,
         &given->hidden},
        {"--context", CLI_INTEGER, &model->context, "N", "context length in bytes", 1, 1 << 20, &given->context},
        {"--batch", CLI_INTEGER, &settings->batch, "N", "sequences per step", 1, 1 << 20, &given->batch},
        {"--learning-rate", CLI_NUMBER, &settings->learning_rate, "R",
         "peak learning rate; by default with warm-up and cosine decay to a tenth (--schedule)", 1e-12, 100,
         &given->learning_rate},
        LOADING_OPTIONS(self, given),
        {"--resident", CLI_SWITCH, &settings->resident, NULL,
         "keep the text in device memory and draw windows there, which differ from those of the host", 0, 0,
         &given->resident},
        OPTIMIZER_OPTIONS(&settings->optimizer, &given->optimizer),
        FUSE_OPTION(&self->fuse, NULL),
        MATMUL_OPTION(&self->matmul, NULL),
        PRECISION_OPTION(&settings->precision, &given->precision),
        MATMUL_PRECISION_OPTION(&settings->matmul_precision, &given->matmul_precision),
        RECOMPUTE_OPTION(&self->recompute),
        MEMORY_BUDGET_OPTION(&self->memory_budget),
        TUNING_OPTIONS(&self->tune),
        TUNING_BACKGROUND_OPTION(&self->tune),
        FOLLOWING_OPTIONS(self, settings, given),
        KEEPING_OPTIONS(self, settings, given),
        {"--sample", CLI_INTEGER, &self->sample, "N", "bytes of text to generate after training; 0: none", 0, 1 << 24,
         NULL},
        {"--prompt", CLI_TEXT, &self->prompt, "TEXT", "text that the sample continues; default: a newline", 0, 0, NULL},
    };
    return cli_parse(verb, options, sizeof options / sizeof *options, count, arguments, NULL);
}

static cli_end check_same(const cli_verb *verb, const char *option, bool given, int64_t wanted, int64_t saved)
{
    if (!given || wanted == saved)
        return (cli_end){0};
    return cli_exit(cli_fail(verb, EXIT_FAILED, "%s %lld: the checkpoint's model has %lld; omit the option", option,
                             (long long)wanted, (long long)saved));
}

static cli_end check_model(const cli_verb *verb, const given_settings *given, int form, const model_config *requested,
                           const model_config *saved)
{
    static const char *const forms[] = {[MODEL_GPT] = "gpt", [MODEL_LLAMA] = "llama"};
    const struct {
        const char *option;
        bool given;
        int64_t requested, saved;
    } sizes[] = {
        {"--layers", given->layers, requested->layers, saved->layers},
        {"--heads", given->heads, requested->heads, saved->heads},
        {"--key-value-heads", given->key_value_heads, requested->key_value_heads, saved->key_value_heads},
        {"--width", given->width, requested->width, saved->width},
        {"--hidden", given->hidden, requested->hidden, saved->hidden},
        {"--context", given->context, requested->context, saved->context},
    };
    if (given->form && form != (int)saved->form)
        return cli_exit(cli_fail(verb, EXIT_FAILED, "--form %s: the checkpoint's model is a %s; omit the option",
                                 forms[form], forms[saved->form]));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const cli_end end = check_same(verb, sizes[i].option, sizes[i].given, sizes[i].requested, sizes[i].saved);
        if (end.now)
            return end;
    }
    return (cli_end){0};
}

static void warn_changed(const char *option, bool given, double requested, double saved)
{
    if (given && requested != saved)
        fprintf(stderr, "%s %g instead of the checkpoint's %g: the result will differ from an uninterrupted run\n",
                option, requested, saved);
}

/* resumed: the settings come from a checkpoint. */
static cli_end merge_validation(const cli_verb *verb, const given_settings *given, bool resumed, run_settings *settings)
{
    const size_t length = given->validate ? strlen(given->validate) : 0;
    if (given->validate && length == 0) /* an empty path means no validation in the settings */
        return cli_exit(cli_fail(verb, EXIT_USAGE, "--validate is empty: expected a file or a fraction of the text"));
    if (length >= sizeof settings->validate)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "--validate: path too long"));
    if (given->validate && resumed && strcmp(settings->validate, given->validate) != 0) {
        if (settings->validate[0])
            fprintf(stderr,
                    "--validate %s instead of the checkpoint's %s: the result will differ from an uninterrupted run\n",
                    given->validate, settings->validate);
        else
            fprintf(
                stderr,
                "--validate %s: the checkpoint was trained without validation: text that is held out from now on may "
                "have been trained on\n",
                given->validate);
        run_state_forget_best(&settings->state);
        settings->held_out_hash = 0;
    }
    if (given->validate)
        memcpy(settings->validate, given->validate, length + 1);
    if (!settings->validate[0] && (given->validate_every || given->patience))
        return cli_exit(cli_fail(verb, EXIT_USAGE, "%s needs --validate FILE or FRACTION",
                                 given->patience ? "--patience" : "--validate-every"));
    if (settings->validate_every == 0)
        settings->validate_every = settings->steps < 10 ? 1 : settings->steps / 10;
    return (cli_end){0};
}

/* Rejects options that would be ignored, and says why. */
static cli_end check_ignored(const cli_verb *verb, const given_settings *given, const train_options *self, int form)
{
    const bool is_gpt = form == MODEL_GPT, resident = self->settings.resident;
    const bool has_rates = self->settings.optimizer.rates[0] != 0,
               has_files = self->log || self->csv || self->tensorboard;
    const bool one_epoch = self->settings.optimizer.epoch_steps >= self->settings.steps;
    const struct {
        bool ignored;
        const char *message;
    } all[] = {
        {is_gpt && given->key_value_heads, "--key-value-heads requires --form llama"},
        {is_gpt && given->hidden, "--hidden requires --form llama"},
        {resident && given->workers, "--workers has no effect with --resident"},
        {resident && given->upload, "--upload has no effect with --resident"},
        {has_rates && given->learning_rate, "--learning-rate has no effect with --rates"},
        {one_epoch && given->optimizer.epoch_steps,
         "--epoch-steps must be less than --steps: the learning rate changes only between epochs"},
        {given->log_norms && self->settings.log_norms && !has_files, "--log-norms needs --log, --csv or --tensorboard"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].ignored)
            return cli_exit(cli_fail(verb, EXIT_USAGE, "%s", all[i].message));
    return (cli_end){0};
}

/* Handles changes of the optimizer that need more than a warning. */
static cli_end check_changes(const cli_verb *verb, const given_settings *given, const run_settings *requested,
                             run_settings *saved)
{
    const bool scales = optimizer_flags_scales_loss(&saved->optimizer), averages = saved->optimizer.average > 0;
    if (given->optimizer.loss_scale && optimizer_flags_scales_loss(&requested->optimizer) && !scales)
        return cli_exit(cli_fail(verb, EXIT_FAILED,
                                 "--loss-scale %s: the checkpoint has no loss scale to resume with; omit the option",
                                 requested->optimizer.loss_scale));
    if (given->precision && requested->precision == TUFF_PRECISION_F16 && saved->precision != TUFF_PRECISION_F16 &&
        !scales)
        fputs("the checkpoint has no loss scale to resume with: small gradients become 0 with --precision f16\n",
              stderr);
    /* Losses of weights and of averaged weights are not comparable. */
    if (given->optimizer.average && (requested->optimizer.average > 0) != averages)
        run_state_forget_best(&saved->state);
    return (cli_end){0};
}

/* Turns loss scaling on with f16, in which small gradients become 0. In a resumed run the checkpoint decides. */
static void scale_f16(const given_settings *given, train_options *self)
{
    optimizer_flags *flags = &self->settings.optimizer;
    if (!given->optimizer.loss_scale && !self->resume && self->settings.precision == TUFF_PRECISION_F16)
        snprintf(flags->loss_scale, sizeof flags->loss_scale, "auto");
}

/* Warns that a precision differs from the checkpoint's. */
static void warn_precision_changed(const char *option, bool given, int requested, int saved)
{
    if (given && requested != saved)
        fprintf(stderr, "%s %s instead of the checkpoint's %s: the result will differ from an uninterrupted run\n",
                option, run_precision_name(requested), run_precision_name(saved));
}

/* Reads the checkpoint. Settings that the command line did not give come from it. */
static cli_end merge_checkpoint(const cli_verb *verb, const given_settings *given, train_options *self)
{
    run_settings saved, *requested = &self->settings;
    if (run_settings_read(self->resume, &saved) != TUFF_OK)
        return cli_exit(cli_fail_library(verb, "cannot read the checkpoint"));
    cli_end end = check_model(verb, given, self->form, &requested->model, &saved.model);
    if (!end.now)
        end = check_changes(verb, given, requested, &saved);
    if (end.now)
        return end;
    warn_changed("--steps", given->steps, (double)requested->steps, (double)saved.steps);
    warn_changed("--batch", given->batch, (double)requested->batch, (double)saved.batch);
    warn_changed("--seed", given->seed, (double)requested->seed, (double)saved.seed);
    warn_changed("--learning-rate", given->learning_rate, requested->learning_rate, saved.learning_rate);
    warn_precision_changed("--precision", given->precision, requested->precision, saved.precision);
    warn_precision_changed("--matmul-precision", given->matmul_precision, requested->matmul_precision,
                           saved.matmul_precision);
    if (saved.validate[0]) {
        warn_changed("--validate-every", given->validate_every, (double)requested->validate_every,
                     (double)saved.validate_every);
        warn_changed("--patience", given->patience, (double)requested->patience, (double)saved.patience);
    }
    warn_changed("--resident", given->resident, 1, (double)saved.resident);
    saved.resident = given->resident || saved.resident;
    saved.log_norms = given->log_norms ? requested->log_norms : saved.log_norms;
    saved.precision = given->precision ? requested->precision : saved.precision;
    saved.matmul_precision = given->matmul_precision ? requested->matmul_precision : saved.matmul_precision;
    saved.steps = given->steps ? requested->steps : saved.steps;
    saved.batch = given->batch ? requested->batch : saved.batch;
    saved.seed = given->seed ? requested->seed : saved.seed;
    saved.learning_rate = given->learning_rate ? requested->learning_rate : saved.learning_rate;
    saved.validate_every = given->validate_every ? requested->validate_every : saved.validate_every;
    saved.patience = given->patience ? requested->patience : saved.patience;
    self->saved_accumulate = saved.optimizer.accumulate;
    optimizer_flags_merge(&given->optimizer, &saved.optimizer, &requested->optimizer);
    saved.optimizer = requested->optimizer;
    *requested = saved;
    return (cli_end){0};
}

static cli_end read_all(const cli_verb *verb, int count, char **arguments, given_settings *given, train_options *out)
{
    cli_end end = parse(verb, count, arguments, out, given);
    if (!end.now)
        end = optimizer_flags_check(verb, &given->optimizer, &out->settings.optimizer);
    if (end.now)
        return end;
    if (out->data.count == 0)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "--data FILE is required"));
    if (out->save_every > 0 && !out->save)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "--save-every needs --save FILE"));
    if (!out->prompt[0])
        return cli_exit(cli_fail(verb, EXIT_USAGE, "--prompt is empty: expected at least one byte"));
    if (out->keep > 0 && !out->save)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "--keep needs --save FILE"));
    if (out->resume)
        end = merge_checkpoint(verb, given, out);
    scale_f16(given, out);
    if (!end.now)
        end = optimizer_flags_check_kind(verb, &given->optimizer, &out->settings.optimizer);
    if (!end.now)
        end = merge_validation(verb, given, out->resume != NULL, &out->settings);
    if (!end.now)
        end = run_files_check(verb, out);
    const int form = out->resume ? (int)out->settings.model.form : out->form;
    if (!end.now)
        end = check_ignored(verb, given, out, form);
    if (!end.now && model_config_complete(&out->settings.model, form) != TUFF_OK)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "%s", tuff_error()));
    return end.now
               ? end
               : optimizer_flags_check_groups(verb, &given->optimizer, &out->settings.optimizer, &out->settings.model);
}

cli_end train_options_read(const cli_verb *verb, int count, char **arguments, train_options *out)
{
    given_settings given = {0};
    *out = (train_options){.settings = defaults, .prompt = "\n", .sample = 300, .workers = 1};
    out->settings.optimizer = optimizer_flags_default();
    const cli_end end = read_all(verb, count, arguments, &given, out);
    optimizer_given_free(&given.optimizer);
    return end;
}
