/* tuff generate: continues a prompt with a trained model. */
#include <stdio.h>

#include "base/status.h"
#include "tools/cli/options.h"
#include "tools/model/fastest.h"
#include "tools/train/run_settings.h"
#include "tools/train/sampler.h"
#include "tools/tune/tuning.h"
#include "tools/verbs.h"

typedef struct generation {
    const char *checkpoint, *prompt, *device;
    int64_t tokens, seed;
    double temperature;
    int fuse;
    bool average;
    tuning tune;
} generation;

static int run_sampler(tuff_device *device, language_model *model, generation *self)
{
    sampler_options options = {.prompt = self->prompt,
                               .temperature = self->temperature,
                               .seed = self->seed,
                               .compile = {.fuse = self->fuse == 0 ? TUFF_FUSE_ALL : TUFF_FUSE_NONE}};
    text_sampler sampler;
    int code = EXIT_FAILED;
    tuning_apply(&self->tune, &options.compile);
    if (sampler_create(device, model, &options, &sampler) != TUFF_OK) {
        (void)tuning_end(&self->tune, NULL);
        return cli_fail_library(&verb_generate, "cannot compile the model");
    }
    if (self->tune.background || tuning_end(&self->tune, sampler.plan)) {
        cli_catch_interrupt();
        code = sampler_print(&sampler, &verb_generate, self->tokens);
    }
    if (self->tune.background && !tuning_end(&self->tune, sampler.plan))
        code = EXIT_FAILED;
    sampler_destroy(&sampler);
    return code;
}

static tuff_status load(language_model *model, const generation *self)
{
    return self->average ? tuff_checkpoint_load_average(self->checkpoint, model->parameters)
                         : tuff_checkpoint_load(self->checkpoint, model->parameters, NULL);
}

static int run_model(tuff_device *device, const run_settings *settings, generation *self)
{
    language_model model;
    int code;
    if (model_create(device, &settings->model, &model) != TUFF_OK)
        code = cli_fail_library(&verb_generate, "cannot create the model");
    else if (load(&model, self) != TUFF_OK)
        code = cli_fail_library(&verb_generate, "cannot load the checkpoint");
    else
        code = run_sampler(device, &model, self);
    model_destroy(&model);
    return code;
}

static tuff_device *open_device(const char *name, const run_settings *settings, int *code)
{
    const model_options described = {.model = settings->model, .batch = settings->batch};
    const fastest_work work = {.described = &described, .plan = MODEL_PLAN_GENERATE};
    return cli_open_device_for(&verb_generate, name, &work, code);
}

static int generate_from(generation *self)
{
    run_settings settings;
    if (!self->checkpoint)
        return cli_fail(&verb_generate, EXIT_USAGE, "--checkpoint FILE is required");
    if (!self->prompt[0])
        return cli_fail(&verb_generate, EXIT_USAGE, "--prompt is empty: expected at least one byte");
    if (run_settings_read(self->checkpoint, &settings) != TUFF_OK)
        return cli_fail_library(&verb_generate, "cannot read the checkpoint");
    int code = EXIT_FAILED;
    tuff_device *device = open_device(self->device, &settings, &code);
    if (!device)
        return code;
    code = run_model(device, &settings, self);
    tuff_device_close(device);
    return code;
}

static int generate(int count, char **arguments)
{
    generation self = {.prompt = "\n", .tokens = 400, .seed = 1, .temperature = 0.8};
    const cli_option options[] = {
        {.name = "--checkpoint",
         .kind = CLI_TEXT,
         .value = &self.checkpoint,
         .placeholder = "FILE",
         .help = "checkpoint of tuff train; required"},
        {.name = "--average",
         .kind = CLI_SWITCH,
         .value = &self.average,
         .help = "use the averaged weights of tuff train --ema instead of the last weights"},
        {.name = "--prompt",
         .kind = CLI_TEXT,
         .value = &self.prompt,
         .placeholder = "TEXT",
         .help = "text to continue; default: a newline"},
        {.name = "--tokens",
         .kind = CLI_INTEGER,
         .value = &self.tokens,
         .placeholder = "N",
         .low = 0,
         .high = 1e9,
         .help = "bytes of text to generate"},
        {.name = "--temperature",
         .kind = CLI_NUMBER,
         .value = &self.temperature,
         .placeholder = "T",
         .low = 0,
         .high = 100,
         .help = "sampling temperature; 0: always the most likely byte"},
        SEED_OPTION(&self.seed, "seed of sampling; the same seed generates the same text", NULL),
        WORK_DEVICE_OPTION(&self.device),
        FUSE_OPTION(&self.fuse, NULL),
        TUNING_OPTIONS(&self.tune),
        TUNING_BACKGROUND_OPTION(&self.tune),
    };
    const cli_end end = cli_parse(&verb_generate, options, sizeof options / sizeof *options, count, arguments, NULL);
    return end.now ? end.code : generate_from(&self);
}

const cli_verb verb_generate = {
    .name = "generate",
    .summary = "Continues a text with a trained model.",
    .about = "Prints each byte as soon as it is generated. Ctrl-C ends the text.",
    .run = generate,
    .repeats = true,
};
