/* Parses the command line of the example programs into example_options. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(const example *model, const char *option, const char *given, const char *wanted)
{
    fprintf(stderr, "%s: %s%s%s: %s\n", model->name, option, given && given[0] ? " " : "", given ? given : "", wanted);
    return false;
}

static bool read_integer(const example *model, const char *option, const char *word, int64_t low, int64_t high,
                         int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = word ? strtoll(word, &end, 10) : 0;
    if (!word || end == word || *end != 0 || errno || value < low || value > high) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "expected an integer of at least %lld and at most %lld", (long long)low,
                 (long long)high);
        return refuse(model, option, word, wanted);
    }
    *out = value;
    return true;
}

/* Finds word in a list of names separated by |. */
static bool read_choice(const example *model, const char *option, const char *word, const char *names, int *out)
{
    const size_t length = word ? strlen(word) : 0;
    int index = 0;
    for (const char *at = names; length > 0 && at; index++) {
        const char *end = strchr(at, '|');
        if ((end ? (size_t)(end - at) : strlen(at)) == length && strncmp(at, word, length) == 0) {
            *out = index;
            return true;
        }
        at = end ? end + 1 : NULL;
    }
    char wanted[96];
    snprintf(wanted, sizeof wanted, "expected one of %s", names);
    return refuse(model, option, word, wanted);
}

static bool read_setting(const example *model, const char *word, void *config)
{
    char name[64];
    const char *equals = word ? strchr(word, '=') : NULL;
    char *end = NULL;
    if (!equals || (size_t)(equals - word) >= sizeof name)
        return refuse(model, "--set", word, "expected NAME=VALUE");
    memcpy(name, word, (size_t)(equals - word));
    name[equals - word] = 0;
    const double value = strtod(equals + 1, &end);
    if (end == equals + 1 || *end != 0 || !example_set(model, config, name, value))
        return refuse(model, "--set", word, "unknown setting or invalid value; see --help");
    return true;
}

enum { INTEGER, TEXT, CHOICE, FLAG, SETTING, CONFIG };
/* What the program does. An option is refused where it would have no effect. */
enum { TRAIN = 1, BENCH = 2, BATCHES = 4, CHECK = 8, RUNS = TRAIN | BENCH, SAMPLES = RUNS | BATCHES, ANY = 15 };
typedef struct option {
    const char *name, *value, *meaning;
    int kind, modes;
    int64_t low;
    size_t offset;
} option;
#define AT(member) offsetof(example_options, member)
static const option options[] = {
    {"--config", "small|original", "base configuration (small)", CONFIG, SAMPLES, 0, AT(config)},
    {"--form", "baseline|optimized", "the program as published, or its optimized form (optimized)", CHOICE, RUNS, 0,
     AT(optimized)},
    {"--set", "NAME=VALUE", "change a setting of the configuration, see below", SETTING, SAMPLES, 0, 0},
    {"--steps", "N", "number of steps", SETTING, SAMPLES, 1, 0},
    {"--batch", "N", "samples per batch", SETTING, SAMPLES, 1, 0},
    {"--device", "D", "device, such as opencl:0, vulkan or reference ($TUFF_DEVICE, else the best)", TEXT, ANY, 0,
     AT(device)},
    {"--seed", "N", "seed of weights, data and dropout (0)", INTEGER, ANY, 0, AT(seed)},
    {"--data", "F", NULL, TEXT, SAMPLES, 0,
     AT(data)}, /* only if the example has open_file; its `file_help` is the help text */
    {"--precision", "f32|f16|bf16", "precision of intermediates; f16 turns on loss scaling (f32)", CHOICE, RUNS, 0,
     AT(precision)},
    {"--matmul-precision", "f32|f16|bf16", "precision of f32 operands on matrix units (f32)", CHOICE, RUNS, 0,
     AT(matmul_precision)},
    {"--tune", "cached|off|quick|normal|max", "autotuning of kernels; the baseline is never tuned (cached)", CHOICE,
     RUNS, 0, AT(tune)},
    {"--deterministic", "", "bit-identical results, whatever tuning measured", FLAG, RUNS, 0, AT(deterministic)},
    {"--log-every", "N", "steps between log lines (a twentieth of the run)", INTEGER, TRAIN, 1, AT(log_every)},
    {"--validate-every", "N", "steps between validations (never)", INTEGER, TRAIN, 1, AT(validate_every)},
    {"--validation-batches", "N", "batches per validation of --validate-every (4)", INTEGER, TRAIN, 1,
     AT(validation_batches)},
    {"--save", "F", "save a checkpoint, and with validations the best one as F.best; frozen parameters as F.frozen",
     TEXT, TRAIN, 0, AT(save)},
    {"--save-every", "N", "steps between checkpoints of --save (only at the end)", INTEGER, TRAIN, 1, AT(save_every)},
    {"--resume", "F", "resume from a checkpoint of the same configuration and data; --steps counts its steps too", TEXT,
     RUNS, 0, AT(resume)},
    {"--log", "F", "write the log lines as CSV", TEXT, TRAIN, 0, AT(log)},
    {"--save-graph", "F", "save the graph of a step for the tuff tool; with accumulation also the update, as F.update",
     TEXT, RUNS, 0, AT(save_graph)},
    {"--save-batches", "F", "save the initial weights and the data of all batches instead of training", TEXT, BATCHES,
     0, AT(save_batches)},
    {"--report", "F", "write an HTML report with the loss curve and kernel times", TEXT, TRAIN, 0, AT(report)},
    {"--check", "N", "compare N random configurations in f32 with the reference device instead of training", INTEGER,
     CHECK, 1, AT(checks)},
    {"--bench", "", "read commands from standard input instead of training, for bench/workloads", FLAG, BENCH, 0,
     AT(bench)},
    {"--help", "", "print this help", FLAG, ANY, 0, AT(help)},
};
enum { OPTIONS = sizeof options / sizeof *options };

/* Graphs have seeds of 32 bits. */
static int64_t highest(const option *given)
{
    return given->kind == INTEGER && given->offset == AT(seed) ? UINT32_MAX : (int64_t)1 << 40;
}

/* Reads --set, or --steps or --batch, which are short for --set of the number. */
static bool read_named(const example *model, const option *given, const char *word, void *config)
{
    int64_t value = 0;
    if (strcmp(given->name, "--set") == 0)
        return read_setting(model, word, config);
    return read_integer(model, given->name, word, given->low, highest(given), &value) &&
           example_set(model, config, strcmp(given->name, "--steps") == 0 ? "steps" : "B", (double)value);
}

static bool read_option(const example *model, const option *given, const char *word, example_options *out)
{
    char *const at = (char *)out + given->offset;
    int choice = 0;
    switch (given->kind) {
    case FLAG:
        *(bool *)(void *)at = true;
        return true;
    case INTEGER:
        return read_integer(model, given->name, word, given->low, highest(given), (int64_t *)(void *)at);
    case SETTING:
        return read_named(model, given, word, out->config);
    case TEXT:
        if (!word || !*word)
            return refuse(model, given->name, NULL, "needs a value");
        *(const char **)(void *)at = word;
        return true;
    case CONFIG:
        return true; /* already read by read_config */
    default:
        if (!read_choice(model, given->name, word, given->value, &choice))
            return false;
    }
    if (given->offset == AT(optimized))
        out->optimized = choice == 1;
    else if (given->offset == AT(precision))
        out->precision = (tuff_precision)choice;
    else if (given->offset == AT(matmul_precision))
        out->matmul_precision = (tuff_precision)choice;
    else
        out->tune = (tuff_tune_mode)choice;
    return true;
}

/* Reads --config before all other options, wherever it stands, because the others change the configuration. */
static bool read_config(const example *model, int count, char **words, example_options *out)
{
    int choice = 0;
    for (int i = 1; i < count; i++)
        if (strcmp(words[i], "--config") == 0 &&
            !read_choice(model, words[i], i + 1 < count ? words[i + 1] : NULL, "small|original", &choice))
            return false;
    out->config_name = choice ? "original" : "small";
    out->config = malloc(model->config_size);
    if (!out->config)
        return refuse(model, "--config", out->config_name, "out of memory");
    memcpy(out->config, choice ? model->original : model->small, model->config_size);
    return true;
}

static bool has_option(const example *model, const option *given)
{
    return given->offset != AT(data) || given->kind != TEXT || model->open_file;
}

static const option *find_option(const example *model, const char *word)
{
    for (int i = 0; i < OPTIONS; i++)
        if (has_option(model, &options[i]) && strcmp(options[i].name, word) == 0)
            return &options[i];
    return NULL;
}

static bool check_config(const example *model, const void *config)
{
    const example_settings *settings = config;
    const char *why = model->check_config ? model->check_config(config) : NULL;
    if (!why && (settings->batch < 1 || settings->steps < 1 || settings->accumulate < 0))
        why = "B and steps must be at least 1, accumulate at least 0";
    if (!why && settings->accumulate > INT32_MAX)
        why = "accumulate must be at most 2147483647";
    if (!why && !(settings->dropout >= 0 && settings->dropout < 1))
        why = "dropout must be at least 0 and less than 1";
    return !why || refuse(model, "configuration", "", why);
}

/* Whether every option given has an effect. given: a bit for each. */
static bool check_effects(const example *model, const example_options *self, uint64_t given)
{
    int mode = TRAIN;
    const char *name = NULL;
    if (self->checks > 0)
        mode = CHECK, name = "--check";
    else if (self->save_batches)
        mode = BATCHES, name = "--save-batches";
    else if (self->bench)
        mode = BENCH, name = "--bench";
    for (int i = 0; i < OPTIONS && name; i++)
        if (given >> i & 1 && !(options[i].modes & mode)) {
            char why[64];
            snprintf(why, sizeof why, "has no effect with %s; leave it out", name);
            return refuse(model, options[i].name, "", why);
        }
    if (self->save_every > 0 && !self->save)
        return refuse(model, "--save-every", "", "needs --save, the name of the checkpoints");
    if (self->validation_batches > 0 && self->validate_every < 1)
        return refuse(model, "--validation-batches", "", "needs --validate-every, the steps between validations");
    return true;
}

bool example_options_read(const example *model, int count, char **words, example_options *out)
{
    uint64_t seen = 0;
    *out = (example_options){.optimized = true};
    if (!read_config(model, count, words, out))
        return false;
    for (int i = 1; i < count; i++) {
        const option *given = find_option(model, words[i]);
        if (!given)
            return refuse(model, words[i], "", "unknown option; see --help");
        const char *word = given->kind != FLAG && i + 1 < count ? words[i + 1] : NULL;
        if (!read_option(model, given, word, out))
            return false;
        i += given->kind != FLAG;
        seen |= (uint64_t)1 << (given - options);
    }
    return out->help || (check_effects(model, out, seen) && check_config(model, out->config));
}

void example_options_free(example_options *self)
{
    free(self->config);
    self->config = NULL;
}

void example_options_help(const example *model)
{
    printf("%s: %s\n\nusage: %s [OPTION ...]\n", model->name, model->summary, model->name);
    for (int i = 0; i < OPTIONS; i++)
        if (has_option(model, &options[i]))
            printf("  %-20s %-27s %s\n", options[i].name, options[i].value,
                   options[i].meaning ? options[i].meaning : model->file_help);
    printf("\nSettings of the configurations small and original:\n");
    for (int i = 0; i < example_field_count(model); i++) {
        const example_field *field = example_field_at(model, i);
        printf("  %-14s %10.6g %10.6g  %s\n", field->name, example_field_value(field, model->small),
               example_field_value(field, model->original), field->meaning);
    }
}
