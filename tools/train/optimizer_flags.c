/* The optimizer of tuff train, from its options to what the library takes. */
#include "tools/train/optimizer_flags.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BY_DEFAULT = -1 };

optimizer_flags optimizer_flags_default(void)
{
    const tuff_optimizer_options defaults = model_optimizer_options(1, 2);
    return (optimizer_flags){.weight_decay = defaults.weight_decay,
                             .momentum = BY_DEFAULT,
                             .clip = defaults.clip_norm,
                             .final_fraction = defaults.final_fraction,
                             .warmup = BY_DEFAULT,
                             .accumulate = 1,
                             .loss_scale = "off"};
}

/* "auto", "off" or a number above 0: 0, -1 or the number; NaN for anything else. */
static double scale_of(const char *text)
{
    char *end;
    if (strcmp(text, "auto") == 0)
        return 0;
    if (strcmp(text, "off") == 0)
        return -1;
    const double value = strtod(text, &end);
    return *end == 0 && end != text && value >= 0x1p-100 && value <= 0x1p100 ? value : (double)NAN;
}

/* Takes one of the settings "rate=0.5", "frozen" of a group. */
static bool take_setting(const char *text, size_t length, tuff_parameter_group *out)
{
    static const char *const names[] = {"rate=", "decay=", "clip=", "frozen", "elementwise"};
    double *const numbers[] = {&out->rate_factor, &out->weight_decay, &out->clip_norm};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t name = strlen(names[i]);
        char *end;
        if (length < name || strncmp(text, names[i], name) != 0)
            continue;
        if (i >= 3) {
            *(i == 3 ? &out->frozen : &out->elementwise) = true;
            return length == name;
        }
        const double value = strtod(text + name, &end);
        *numbers[i] = i == 1 && value == 0 ? -1 : value; /* 0 is the optimizer's decay */
        return end == text + length && length > name && value >= 0 && value <= 1e9 && (value > 0 || i == 1);
    }
    return false;
}

/* Fills patterns and groups from the text, which is cut into pieces; false where it has another form. */
static bool read_groups(char *text, const char **patterns, tuff_parameter_group *groups, int *count)
{
    *count = 0;
    while (*text) {
        char *end = text + strcspn(text, ";"), *settings = strchr(text, ':');
        if (*count == TUFF_MAX_GROUPS - 1 || !settings || settings + 1 >= end || settings == text)
            return false;
        const bool more = *end != 0;
        *end = *settings = 0;
        patterns[(*count)++] = text;
        for (const char *one = settings + 1; one < end; one += strcspn(one, ",") + 1)
            if (!take_setting(one, strcspn(one, ","), &groups[*count]))
                return false;
        text = more ? end + 1 : end;
    }
    return true;
}

static bool groups_make_sense(const char *text)
{
    char copy[sizeof((optimizer_flags *)0)->groups];
    const char *patterns[TUFF_MAX_GROUPS];
    tuff_parameter_group groups[TUFF_MAX_GROUPS] = {{0}};
    int count;
    snprintf(copy, sizeof copy, "%s", text);
    return read_groups(copy, patterns, groups, &count);
}

static cli_end wrong(const cli_verb *verb, const char *what, const char *text)
{
    return (cli_end){.now = true, .code = cli_fail(verb, EXIT_WRONG_USE, "%s: \"%s\" means nothing", what, text)};
}

static cli_end wrong_use(const cli_verb *verb, const char *message)
{
    return (cli_end){.now = true, .code = cli_fail(verb, EXIT_WRONG_USE, "%s", message)};
}

cli_end optimizer_flags_check(const cli_verb *verb, const optimizer_given *given, optimizer_flags *flags)
{
    if (given->loss_scale) {
        if (isnan(scale_of(given->loss_scale)) || strlen(given->loss_scale) >= sizeof flags->loss_scale)
            return wrong(verb, "--loss-scale", given->loss_scale);
        snprintf(flags->loss_scale, sizeof flags->loss_scale, "%s", given->loss_scale);
    }
    size_t length = 0;
    for (int i = 0; i < given->groups.count; i++) {
        const char *text = given->groups.items[i];
        const int written = snprintf(flags->groups + length, sizeof flags->groups - length, "%s%s", i ? ";" : "", text);
        length += (size_t)written;
        if (length >= sizeof flags->groups || strchr(text, ';') || !*text || !groups_make_sense(text))
            return wrong(verb, "--group", text);
    }
    return groups_make_sense(flags->groups) ? (cli_end){0} : wrong(verb, "--group", flags->groups);
}

static void say(const char *option)
{
    fprintf(stderr, "%s is not the checkpoint's: the run differs from an uninterrupted one\n", option);
}

static void merge_number(const char *option, bool given, double *asked, double kept)
{
    if (given && *asked != kept)
        say(option);
    *asked = given ? *asked : kept;
}

static void merge_whole(const char *option, bool given, int64_t *asked, int64_t kept)
{
    if (given && *asked != kept)
        say(option);
    *asked = given ? *asked : kept;
}

static void merge_choice(const char *option, bool given, int *asked, int kept)
{
    if (given && *asked != kept)
        say(option);
    *asked = given ? *asked : kept;
}

static void merge_text(const char *option, bool given, char *asked, const char *kept, size_t size)
{
    if (given && strcmp(asked, kept) != 0)
        say(option);
    if (!given)
        snprintf(asked, size, "%s", kept);
}

void optimizer_flags_merge(const optimizer_given *given, const optimizer_flags *kept, optimizer_flags *flags)
{
    merge_choice("--optimizer", given->kind, &flags->kind, kept->kind);
    merge_choice("--schedule", given->schedule, &flags->schedule, kept->schedule);
    merge_number("--weight-decay", given->weight_decay, &flags->weight_decay, kept->weight_decay);
    merge_number("--momentum", given->momentum, &flags->momentum, kept->momentum);
    merge_number("--clip", given->clip, &flags->clip, kept->clip);
    merge_number("--clip-value", given->clip_value, &flags->clip_value, kept->clip_value);
    merge_number("--ema", given->average, &flags->average, kept->average);
    merge_number("--final-rate", given->final_fraction, &flags->final_fraction, kept->final_fraction);
    merge_whole("--warmup", given->warmup, &flags->warmup, kept->warmup);
    merge_whole("--accumulate", given->accumulate, &flags->accumulate, kept->accumulate);
    merge_text("--loss-scale", given->loss_scale != NULL, flags->loss_scale, kept->loss_scale, sizeof kept->loss_scale);
    merge_text("--group", given->groups.count > 0, flags->groups, kept->groups, sizeof kept->groups);
}

cli_end optimizer_flags_check_kind(const cli_verb *verb, const optimizer_given *given, const optimizer_flags *flags)
{
    optimizer_setup setup;
    optimizer_setup_make(flags, 1, 1, &setup);
    if (given->momentum && flags->kind != TUFF_SGD && flags->kind != TUFF_MUON)
        return wrong_use(verb, "--momentum is of --optimizer sgd and muon alone");
    if (given->momentum && flags->momentum == 0 && flags->kind == TUFF_MUON)
        return wrong_use(verb, "--momentum 0: muon needs one above 0; default 0.95");
    if (given->final_fraction && setup.options.schedule == TUFF_SCHEDULE_CONSTANT)
        return wrong_use(verb, "--final-rate: with --schedule constant the rate does not fall");
    for (int i = 1; i <= setup.pattern_count && given->groups.count > 0; i++)
        if (setup.groups[i].elementwise && flags->kind != TUFF_MUON)
            return wrong_use(verb, "--group: elementwise is of --optimizer muon alone");
    return (cli_end){0};
}

cli_end optimizer_flags_check_groups(const cli_verb *verb, const optimizer_given *given, const optimizer_flags *flags,
                                     const model_config *model)
{
    optimizer_setup setup;
    optimizer_setup_make(flags, 1, 1, &setup);
    for (int i = 1; i <= setup.pattern_count && given->groups.count > 0; i++) {
        if (setup.groups[i].weight_decay <= 0 || !model_group_is_vectors(model, setup.patterns, i))
            continue;
        const int code = cli_fail(verb, EXIT_WRONG_USE,
                                  "--group %s: decay=%g does nothing: it is of matrices, and the group has none",
                                  setup.patterns[i - 1], setup.groups[i].weight_decay);
        return (cli_end){.now = true, .code = code};
    }
    return (cli_end){0};
}

void optimizer_given_free(optimizer_given *given)
{
    cli_texts_free(&given->groups);
}

json_t *optimizer_flags_json(const optimizer_flags *f)
{
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:s, s:s}", "kind", f->kind, "schedule",
                     f->schedule, "weight_decay", f->weight_decay, "momentum", f->momentum, "clip", f->clip,
                     "clip_value", f->clip_value, "average", f->average, "final_fraction", f->final_fraction, "warmup",
                     (json_int_t)f->warmup, "accumulate", (json_int_t)f->accumulate, "loss_scale", f->loss_scale,
                     "groups", f->groups);
}

bool optimizer_flags_parse(const json_t *object, optimizer_flags *out)
{
    const char *loss_scale = "off", *groups = "";
    json_int_t warmup = BY_DEFAULT, accumulate = 1;
    *out = optimizer_flags_default();
    if (!object)
        return true;
    if (json_unpack((json_t *)object, "{s:i, s:i, s:F, s:F, s:F, s:F, s:F, s:F, s:I, s:I, s:s, s:s}", "kind",
                    &out->kind, "schedule", &out->schedule, "weight_decay", &out->weight_decay, "momentum",
                    &out->momentum, "clip", &out->clip, "clip_value", &out->clip_value, "average", &out->average,
                    "final_fraction", &out->final_fraction, "warmup", &warmup, "accumulate", &accumulate, "loss_scale",
                    &loss_scale, "groups", &groups) != 0)
        return false;
    out->warmup = warmup;
    out->accumulate = accumulate;
    snprintf(out->loss_scale, sizeof out->loss_scale, "%s", loss_scale);
    snprintf(out->groups, sizeof out->groups, "%s", groups);
    return !isnan(scale_of(loss_scale)) && strlen(groups) < sizeof out->groups && groups_make_sense(groups) &&
           out->kind >= 0 && out->kind <= TUFF_MUON && out->schedule >= 0 && out->schedule < 4 && accumulate >= 1 &&
           accumulate <= 1 << 16;
}

/* What a kind does where no momentum is given. */
static double momentum_of(const optimizer_flags *flags)
{
    if (flags->momentum != BY_DEFAULT)
        return flags->momentum;
    return flags->kind == TUFF_SGD ? 0.9 : 0;
}

void optimizer_setup_make(const optimizer_flags *flags, double learning_rate, int64_t steps, optimizer_setup *out)
{
    static const tuff_schedule schedules[] = {TUFF_SCHEDULE_COSINE, TUFF_SCHEDULE_CONSTANT, TUFF_SCHEDULE_LINEAR,
                                              TUFF_SCHEDULE_ONE_CYCLE};
    const double scale = scale_of(flags->loss_scale);
    *out = (optimizer_setup){.options = model_optimizer_options(learning_rate, steps)};
    tuff_optimizer_options *options = &out->options;
    options->inputs_first = true; /* as all models of the tool */
    options->kind = (tuff_optimizer_kind)flags->kind;
    options->schedule = schedules[flags->schedule];
    options->weight_decay = flags->weight_decay;
    options->momentum = momentum_of(flags);
    options->clip_norm = flags->clip;
    options->clip_value = flags->clip_value;
    options->average_decay = flags->average;
    options->final_fraction = flags->final_fraction;
    options->accumulate = (int32_t)flags->accumulate;
    if (flags->kind == TUFF_LION)
        options->beta2 = 0; /* the rule's own */
    if (flags->warmup != BY_DEFAULT)
        options->warmup_steps = flags->warmup;
    if (scale > 0)
        out->scaling = (tuff_loss_scaling){.initial = scale, .low = scale, .high = scale, .growth = 1, .backoff = 1};
    options->loss_scaling = scale >= 0 ? &out->scaling : NULL;
    snprintf(out->text, sizeof out->text, "%s", flags->groups);
    (void)read_groups(out->text, out->patterns, out->groups, &out->pattern_count);
    options->groups = out->groups;
    options->group_count = out->pattern_count + 1;
}
