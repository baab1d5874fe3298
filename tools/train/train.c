/* tuff train: trains a byte-level GPT on text files. A step is one run of one plan; the host writes the next windows
   and reads nothing back but the report of a step that gets a line. Ctrl-C ends the loop between two steps and
   saves. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/thread.h"
#include "tools/model/fastest.h"
#include "tools/model/graphs.h"
#include "tools/train/progress.h"
#include "tools/train/sampler.h"
#include "tools/train/text.h"
#include "tools/train/options.h"
#include "tools/verbs.h"

typedef struct training {
    train_options options;
    corpus text;
    tuff_device *device;
    language_model model;
    tuff_optimizer *optimizer;
    tuff_graph *graph;
    tuff_plan *plan;
    int32_t *windows;
    int64_t window;     /* bytes of one: the context and the byte after it */
    int64_t done, last; /* steps: done, and where this run ends */
    int64_t saved;      /* the step of the last checkpoint written, -1 before */
    progress progress;
} training;

static size_t windows_size(const training *self)
{
    return (size_t)(self->options.settings.batch * self->window) * sizeof(int32_t);
}

static tuff_compile_options compile_options(training *self)
{
    tuff_compile_options options = {.fuse = self->options.fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE,
                                    .matmul_library = (tuff_matmul_library)self->options.matmul,
                                    .memory_budget = (uint64_t)self->options.memory_budget,
                                    .precision = (tuff_precision)self->options.precision};
    tuning_apply(&self->options.tune, &options);
    return options;
}

/* Fails now rather than after the training: the folder must take a file, and the path must not be a folder. */
static int check_save_path(const char *path)
{
    struct stat entry;
    char probe[1024];
    if (!path)
        return EXIT_DONE;
    if (tuff__file.lstat(path, &entry) == 0 && S_ISDIR(entry.st_mode))
        return cli_fail(&verb_train, EXIT_FAILED, "--save %s: this is a folder", path);
    const int length = snprintf(probe, sizeof probe, "%s.probe", path);
    if (length < 0 || (size_t)length >= sizeof probe)
        return cli_fail(&verb_train, EXIT_FAILED, "--save: the path is too long");
    if (tuff__file_write(probe, NULL, 0, false, false) != TUFF_OK)
        return cli_fail_library(&verb_train, "the checkpoint could not be saved");
    remove(probe);
    return EXIT_DONE;
}

static int open_device(training *self)
{
    int code = EXIT_DONE;
    self->device = cli_open_device_for(&verb_train, self->options.device,
                                       &(fastest_work){.model = &self->options.settings.model,
                                                       .batch = self->options.settings.batch,
                                                       .recompute = self->options.recompute},
                                       &code);
    return code;
}

static int make_model(training *self)
{
    const run_settings *settings = &self->options.settings;
    if (model_create(self->device, &settings->model, &self->model) != TUFF_OK)
        return cli_fail_library(&verb_train, "making the model");
    const tuff_optimizer_options options = model_optimizer_options(settings->learning_rate, settings->steps);
    self->optimizer = tuff_optimizer_create(self->model.parameters, &options);
    if (!self->optimizer)
        return cli_fail_library(&verb_train, "making the optimizer");
    return EXIT_DONE;
}

static int make_weights(training *self)
{
    int32_t counter = 0;
    if (!self->options.resume) {
        if (model_initialize(&self->model, (uint64_t)self->options.settings.seed) != TUFF_OK)
            return cli_fail_library(&verb_train, "the first weights");
        return EXIT_DONE;
    }
    if (tuff_checkpoint_load(self->options.resume, self->model.parameters, self->optimizer) != TUFF_OK ||
        tuff_array_read(tuff_optimizer_counter(self->optimizer), &counter, sizeof counter) != TUFF_OK)
        return cli_fail_library(&verb_train, "loading the checkpoint");
    self->done = counter;
    return EXIT_DONE;
}

static int make_plan(training *self)
{
    const tuff_compile_options options = compile_options(self);
    self->windows = tuff__alloc(windows_size(self));
    if (!self->windows)
        return cli_fail_library(&verb_train, "the windows of text");
    self->model.recompute = self->options.recompute;
    self->graph = train_graph(self->device, &self->model, self->optimizer, self->options.settings.batch);
    self->plan = self->graph ? tuff_compile(self->graph, &options) : NULL;
    if (!self->plan) {
        const int code = cli_fail_library(&verb_train, "compiling the model");
        (void)tuning_end(&self->options.tune, NULL);
        return code;
    }
    if (self->options.tune.background) /* there is nothing to tell yet */
        return EXIT_DONE;
    return tuning_end(&self->options.tune, self->plan) ? EXIT_DONE : EXIT_FAILED;
}

static int read_text(training *self)
{
    run_settings *settings = &self->options.settings;
    self->window = settings->model.context + 1;
    if (corpus_read(&self->options.data, self->window, &self->text) != TUFF_OK)
        return cli_fail(&verb_train, EXIT_FAILED, "%s", tuff_error());
    if (self->options.resume && settings->text_hash != self->text.hash)
        fputs("the text is not the one that the checkpoint was trained on\n", stderr);
    settings->text_hash = self->text.hash;
    return EXIT_DONE;
}

static int report(training *self)
{
    step_report numbers;
    if (tuff_plan_read(self->plan, "report", &numbers, sizeof numbers) != TUFF_OK)
        return cli_fail_library(&verb_train, "reading the loss");
    const bool logged = progress_line(&self->progress, self->done, &numbers);
    if (!isfinite(numbers.loss) || !isfinite(numbers.gradient_norm)) {
        progress_end(&self->progress);
        return cli_fail(&verb_train, EXIT_FAILED,
                        "the loss is not finite at step %" PRId64 ", so nothing more is saved: lower --learning-rate",
                        self->done);
    }
    if (!logged)
        return cli_fail(&verb_train, EXIT_FAILED, "%s: the log could not be written", self->options.log);
    return EXIT_DONE;
}

/* Looks at the loss first: a checkpoint whose numbers are not finite is worth nothing. */
static int save(training *self)
{
    if (self->saved == self->done)
        return EXIT_DONE;
    const int code = self->progress.line_step == self->done ? EXIT_DONE : report(self);
    if (code != EXIT_DONE)
        return code;
    if (run_settings_save(self->options.save, &self->options.settings, &self->model, self->optimizer) != TUFF_OK) {
        progress_end(&self->progress);
        return cli_fail(&verb_train, EXIT_FAILED, "step %" PRId64 " could not be saved: %s; %s is as it was before",
                        self->done, tuff_error(), self->options.save);
    }
    self->saved = self->done;
    return EXIT_DONE;
}

static int step(training *self)
{
    const run_settings *settings = &self->options.settings;
    corpus_batch(&self->text, (uint64_t)settings->seed, self->done, settings->batch, self->window, self->windows);
    if (tuff_plan_write(self->plan, "windows", self->windows, windows_size(self)) != TUFF_OK ||
        tuff_plan_run(self->plan) != TUFF_OK)
        return cli_fail_library(&verb_train, "a training step");
    self->done++;
    return EXIT_DONE;
}

/* A periodic save that fails says so and lets the training go on: what it would save next is worth more. */
static int loop(training *self)
{
    const int64_t every = self->options.save_every;
    while (self->done < self->last && !cli_is_interrupted()) {
        int code = step(self);
        if (code == EXIT_DONE && progress_is_due(&self->progress, self->done))
            code = report(self);
        if (code != EXIT_DONE)
            return code;
        if (every > 0 && self->done % every == 0 && self->done < self->last && save(self) != EXIT_DONE)
            fputs("the training goes on\n", stderr);
    }
    return EXIT_DONE;
}

static void say_begin(const training *self, const tuff_device_info *info)
{
    const run_settings *settings = &self->options.settings;
    const model_config *config = &settings->model;
    fprintf(stderr, "%s (%s), %s\n", info->name, info->selector, info->api);
    fprintf(stderr,
            "%" PRId64 " layers, %" PRId64 " heads, width %" PRId64 ", context %" PRId64 ": %" PRId64
            " parameters; %zu bytes of text, %" PRId64 " windows a step\n",
            config->layers, config->heads, config->width, config->context, model_parameter_count(config),
            self->text.size, settings->batch);
    tuff_plan_info plan;
    if (tuff_plan_describe(self->plan, &plan) == TUFF_OK && plan.memory_peak > 0)
        fprintf(stderr, "%s of intermediates at the peak\n", BYTES_TEXT(plan.memory_peak));
    if (self->options.resume)
        fprintf(stderr, "going on after step %" PRId64 "\n", self->done);
}

static void say_end(const training *self, int64_t first)
{
    const double seconds = (double)(tuff__nanoseconds() - self->progress.begin) * 1e-9;
    const double tokens = (double)(self->done - first) * (double)self->progress.tokens_per_step;
    const bool early = self->done < self->options.settings.steps;
    fprintf(stderr, "%s after step %" PRId64 ": %s, %.0f tokens/s%s%s\n", early ? "stopped" : "done", self->done,
            TIME_TEXT(seconds), tokens / fmax(seconds, 1e-9),
            self->options.save ? ", saved to " : "; not saved: no --save",
            self->options.save ? self->options.save : "");
    /* PoCL makes the binary of a kernel in a compilation of its own. */
    if (cli_is_interrupted())
        fputs("what was compiled is kept for later starts; Ctrl-C again leaves without it\n", stderr);
}

static int print_sample(training *self)
{
    const sampler_options options = {.prompt = self->options.prompt,
                                     .temperature = 0.8,
                                     .seed = self->options.settings.seed,
                                     .compile = compile_options(self)};
    text_sampler sampler;
    int byte, code = EXIT_DONE;
    if (self->options.sample == 0 || cli_is_interrupted())
        return EXIT_DONE;
    if (sampler_create(self->device, &self->model, &options, &sampler) != TUFF_OK)
        return cli_fail_library(&verb_train, "compiling the model for a sample");
    fputs(self->options.prompt, stdout);
    for (int64_t i = 0; i < self->options.sample && code == EXIT_DONE && !cli_is_interrupted(); i++) {
        if (sampler_next(&sampler, &byte) != TUFF_OK)
            code = cli_fail_library(&verb_train, "the sample");
        else if (putchar(byte) == EOF || fflush(stdout) != 0)
            code = cli_fail(&verb_train, EXIT_FAILED, "the sample could not be written");
    }
    putchar('\n');
    sampler_destroy(&sampler);
    return code;
}

static int run(training *self)
{
    const run_settings *settings = &self->options.settings;
    const int64_t first = self->done, tokens = settings->batch * settings->model.context;
    tuff_device_info info;
    if (tuff_device_describe(self->device, &info) == TUFF_OK)
        say_begin(self, &info);
    self->saved = -1;
    self->last = self->options.stop_after > 0 && self->options.stop_after < settings->steps ? self->options.stop_after
                                                                                            : settings->steps;
    cli_catch_interrupt();
    progress_begin(&self->progress, self->done, self->last, settings->steps, tokens, self->options.log_every);
    int code = loop(self);
    if (code == EXIT_DONE && tuff_plan_wait(self->plan) != TUFF_OK)
        code = cli_fail_library(&verb_train, "a training step");
    progress_end(&self->progress);
    if (code == EXIT_DONE && self->options.save)
        code = save(self);
    if (code == EXIT_DONE && self->options.tune.background && !tuning_end(&self->options.tune, self->plan))
        code = EXIT_FAILED;
    if (code == EXIT_DONE)
        say_end(self, first);
    return code == EXIT_DONE ? print_sample(self) : code;
}

/* Everything that can be wrong with what the user gave comes before the work. */
static int prepare(training *self)
{
    int (*const stages[])(training *) = {read_text, open_device, make_model, make_weights, make_plan};
    int code = check_save_path(self->options.save);
    for (size_t i = 0; i < sizeof stages / sizeof *stages && code == EXIT_DONE; i++)
        code = stages[i](self);
    if (code == EXIT_DONE)
        code = progress_open(&self->progress, &verb_train, self->options.log, self->options.resume != NULL);
    return code;
}

static void clean_up(training *self)
{
    progress_close(&self->progress);
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    tuff_optimizer_destroy(self->optimizer);
    model_destroy(&self->model);
    tuff_device_close(self->device);
    corpus_free(&self->text);
    cli_texts_free(&self->options.data);
    tuff__free(self->windows);
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
    clean_up(&self);
    return code;
}

const cli_verb verb_train = {
    .name = "train",
    .summary = "Trains a small GPT on a text, saves it and prints a sample.",
    .about =
        "Progress goes to the error stream, the sample to the output. Ctrl-C saves the last whole step (with --save)\n"
        "and ends; --resume goes on from there to the same bits as an uninterrupted run.",
    .run = train,
    .repeats = true,
};
