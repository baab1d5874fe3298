/* The optimizer of tuff train: from its options to those of the library. */
#include "tools/train/optimizer_flags.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/train/update_top.h"

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

/* Parses a loss scale: returns 0 for "auto", -1 for "off", or the number; NaN if the text is none of these. */
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

/* Parses one setting of a group, such as "rate=0.5" or "frozen". */
static bool parse_setting(const char *text, size_t length, tuff_parameter_group *out)
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
        *numbers[i] = i == 1 && value == 0 ? -1 : value; /* 0 would mean the optimizer's decay */
        return end == text + length && length > name && value >= 0 && value <= 1e9 && (value > 0 || i == 1);
    }
    return false;
}

/* Fills patterns and groups from the text, which is split in place. Returns false if it is malformed. */
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
            if (!parse_setting(one, strcspn(one, ","), &groups[*count]))
                return false;
        text = more ? end + 1 : end;
    }
    return true;
}

static bool are_groups_valid(const char *text)
{
    char copy[sizeof((optimizer_flags *)0)->groups];
    const char *patterns[TUFF_MAX_GROUPS];
    tuff_parameter_group groups[TUFF_MAX_GROUPS] = {{0}};
    int count;
    snprintf(copy, sizeof copy, "%s", text);
    return read_groups(copy, patterns, groups, &count);
}

static cli_end invalid_value(const cli_verb *verb, const char *option, const char *text, const char *expected)
{
    return cli_exit(cli_fail(verb, EXIT_USAGE, "%s: invalid value \"%s\": expected %s", option, text, expected));
}

static cli_end invalid_group(const cli_verb *verb, const char *text)
{
    static const char expected[] =
        "NAMES:SETTINGS, such as '*.bias,*.gain:rate=0.5,decay=0'; settings are rate=FACTOR, "
        "decay=R, clip=NORM, frozen, elementwise";
    return invalid_value(verb, "--group", text, expected);
}

static cli_end usage_error(const cli_verb *verb, const char *message)
{
    return cli_exit(cli_fail(verb, EXIT_USAGE, "%s", message));
}

cli_end optimizer_flags_check(const cli_verb *verb, const optimizer_given *given, optimizer_flags *flags)
{
    if (given->loss_scale) {
        if (isnan(scale_of(given->loss_scale)) || strlen(given->loss_scale) >= sizeof flags->loss_scale)
            return invalid_value(verb, "--loss-scale", given->loss_scale,
                                 "auto, off, or a number above 0 such as 1024");
        snprintf(flags->loss_scale, sizeof flags->loss_scale, "%s", given->loss_scale);
    }
    if (given->rates && (!*given->rates || strlen(given->rates) >= sizeof flags->rates))
        return usage_error(verb, *given->rates ? "--rates: path too long" : "--rates is empty: expected a file");
    if (given->rates && given->schedule)
        return usage_error(verb, "--rates and --schedule cannot be combined");
    if (given->rates)
        snprintf(flags->rates, sizeof flags->rates, "%s", given->rates);
    size_t length = 0;
    for (int i = 0; i < given->groups.count; i++) {
        const char *text = given->groups.items[i];
        const int written = snprintf(flags->groups + length, sizeof flags->groups - length, "%s%s", i ? ";" : "", text);
        length += (size_t)written;
        if (length >= sizeof flags->groups || strchr(text, ';') || !*text || !are_groups_valid(text))
            return invalid_group(verb, text);
    }
    if (given->groups.count >= TUFF_MAX_GROUPS)
        return cli_exit(cli_fail(verb, EXIT_USAGE, "--group: %d given, at most %d allowed", given->groups.count,
                                 TUFF_MAX_GROUPS - 1));
    return (cli_end){0};
}

static void warn_changed(const char *option)
{
    fprintf(stderr, "%s differs from the checkpoint: the result will differ from an uninterrupted run\n", option);
}

/* Takes the number that was given, or that of the checkpoint. */
#define MERGE(option, member)                                \
    do {                                                     \
        if (given->member && flags->member != saved->member) \
            warn_changed(option);                            \
        if (!given->member)                                  \
            flags->member = saved->member;                   \
    } while (0)

static void merge_text(const char *option, bool given, char *value, const char *saved, size_t size)
{
    if (given && strcmp(value, saved) != 0)
        warn_changed(option);
    if (!given)
        snprintf(value, size, "%s", saved);
}

/* A file of rates and a schedule replace each other. Whether the file's rates have changed is known only after reading
   it. */
static void merge_rates(const optimizer_given *given, const optimizer_flags *saved, optimizer_flags *flags)
{
    const bool was_file = saved->rates[0] != 0;
    if (given->schedule && was_file)
        warn_changed("--schedule");
    else
        MERGE("--schedule", schedule);
    if (given->rates && !was_file)
        warn_changed("--rates");
    if (!given->rates && !given->schedule)
        snprintf(flags->rates, sizeof flags->rates, "%s", saved->rates);
    flags->rates_hash = flags->rates[0] ? saved->rates_hash : 0;
}

static void merge_loss_scale(const optimizer_given *given, const optimizer_flags *saved, optimizer_flags *flags)
{
    const bool drops = given->loss_scale && scale_of(flags->loss_scale) < 0 && scale_of(saved->loss_scale) >= 0;
    if (drops)
        fputs("--loss-scale off: the checkpoint's loss scale and its count of skipped steps are dropped; the result "
              "will differ from an uninterrupted run\n",
              stderr);
    else
        merge_text("--loss-scale", given->loss_scale != NULL, flags->loss_scale, saved->loss_scale,
                   sizeof saved->loss_scale);
}

void optimizer_flags_merge(const optimizer_given *given, const optimizer_flags *saved, optimizer_flags *flags)
{
    MERGE("--optimizer", kind);
    MERGE("--nesterov", nesterov);
    MERGE("--weight-decay", weight_decay);
    MERGE("--momentum", momentum);
    MERGE("--beta1", beta1);
    MERGE("--beta2", beta2);
    MERGE("--epsilon", epsilon);
    MERGE("--clip", clip);
    MERGE("--clip-value", clip_value);
    MERGE("--ema", average);
    MERGE("--final-rate", final_fraction);
    MERGE("--warmup", warmup);
    MERGE("--epoch-steps", epoch_steps);
    MERGE("--accumulate", accumulate);
    MERGE("--update-top", update_top);
    merge_rates(given, saved, flags);
    merge_loss_scale(given, saved, flags);
    merge_text("--group", given->groups.count > 0, flags->groups, saved->groups, sizeof saved->groups);
}

bool optimizer_flags_scales_loss(const optimizer_flags *flags)
{
    return scale_of(flags->loss_scale) >= 0;
}

cli_end optimizer_flags_check_kind(const cli_verb *verb, const optimizer_given *given, const optimizer_flags *flags)
{
    const int kind = flags->kind;
    const bool has_betas = kind != TUFF_SGD && kind != TUFF_ADAFACTOR;
    const bool sets_momentum = given->momentum || given->nesterov;
    optimizer_setup setup;
    optimizer_setup_make(flags, 1, 1, &setup);
    const struct {
        bool invalid;
        const char *message;
    } all[] = {
        {given->momentum && kind != TUFF_SGD && kind != TUFF_MUON, "--momentum requires --optimizer sgd or muon"},
        {given->momentum && flags->momentum == 0 && kind == TUFF_MUON,
         "--momentum must be above 0 with --optimizer muon (default 0.95)"},
        {given->nesterov && kind != TUFF_SGD, "--nesterov requires --optimizer sgd"},
        {sets_momentum && kind == TUFF_SGD && flags->nesterov && setup.options.momentum == 0,
         "--nesterov on requires --momentum above 0"},
        {given->beta1 && !has_betas, "--beta1 requires --optimizer adamw, adam, lion or muon"},
        {given->beta2 && !has_betas, "--beta2 requires --optimizer adamw, adam, lion or muon"},
        {given->epsilon && (kind == TUFF_SGD || kind == TUFF_LION),
         "--epsilon requires --optimizer adamw, adam, adafactor or muon"},
        {given->final_fraction && setup.options.schedule == TUFF_SCHEDULE_CONSTANT,
         "--final-rate has no effect with --schedule constant"},
        {given->final_fraction && flags->rates[0], "--final-rate has no effect with --rates"},
        {given->warmup && flags->rates[0], "--warmup has no effect with --rates"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].invalid)
            return usage_error(verb, all[i].message);
    for (int i = 1; i <= setup.pattern_count && given->groups.count > 0; i++)
        if (setup.groups[i].elementwise && kind != TUFF_MUON)
            return usage_error(verb, "--group: elementwise requires --optimizer muon");
    return (cli_end){0};
}

cli_end optimizer_flags_check_groups(const cli_verb *verb, const optimizer_given *given, const optimizer_flags *flags,
                                     const model_config *model)
{
    optimizer_setup setup;
    optimizer_setup_make(flags, 1, 1, &setup);
    for (int i = 1; i <= setup.pattern_count && given->groups.count > 0; i++)
        if (setup.groups[i].weight_decay > 0 && model_group_is_vectors(model, setup.patterns, i))
            return cli_exit(cli_fail(verb, EXIT_USAGE,
                                     "--group %s: decay=%g has no effect: only matrices decay, and the group has none",
                                     setup.patterns[i - 1], setup.groups[i].weight_decay));
    return (cli_end){0};
}

void optimizer_given_free(optimizer_given *given)
{
    cli_texts_free(&given->groups);
}

/* A path of rates that is not UTF-8 is left out. */
json_t *optimizer_flags_json(const optimizer_flags *f)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, f->rates_hash);
    json_t *flags =
        json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:s, s:s, s:i, s:f, s:f, s:f, s:I, s:I}", "kind",
                  f->kind, "schedule", f->schedule, "weight_decay", f->weight_decay, "momentum", f->momentum, "clip",
                  f->clip, "clip_value", f->clip_value, "average", f->average, "final_fraction", f->final_fraction,
                  "warmup", (json_int_t)f->warmup, "accumulate", (json_int_t)f->accumulate, "loss_scale", f->loss_scale,
                  "groups", f->groups, "nesterov", f->nesterov, "beta1", f->beta1, "beta2", f->beta2, "epsilon",
                  f->epsilon, "epoch_steps", (json_int_t)f->epoch_steps, "update_top", (json_int_t)f->update_top);
    if (flags) {
        (void)json_object_set_new(flags, "rates", json_string(f->rates));
        (void)json_object_set_new(flags, "rates_hash", json_string(hash));
    }
    return flags;
}

static bool is_beta(double value)
{
    return value == 0 || (value > 0 && value < 1);
}

static bool is_between(int64_t value, int64_t low, int64_t high)
{
    return value >= low && value <= high;
}

static bool are_flags_valid(const optimizer_flags *f)
{
    return !isnan(scale_of(f->loss_scale)) && are_groups_valid(f->groups) &&
           is_between(f->kind, 0, TUFF_OPTIMIZER_COUNT - 1) && is_between(f->schedule, 0, 3) &&
           is_between(f->accumulate, 1, 1 << 16) && is_between(f->nesterov, 0, 1) && is_beta(f->beta1) &&
           is_beta(f->beta2) && f->epsilon >= 0 && is_between(f->epoch_steps, 0, 1 << 24) &&
           is_between(f->update_top, 0, 1 << 20);
}

bool optimizer_flags_parse(const json_t *object, optimizer_flags *out)
{
    const char *loss_scale = "off", *groups = "", *rates = "", *hash = "0";
    json_int_t warmup = BY_DEFAULT, accumulate = 1, epoch_steps = 0, update_top = 0;
    *out = optimizer_flags_default();
    if (!object)
        return true;
    if (json_unpack((json_t *)object,
                    "{s:i, s:i, s:F, s:F, s:F, s:F, s:F, s:F, s:I, s:I, s:s, s:s, "
                    "s?i, s?F, s?F, s?F, s?I, s?I, s?s, s?s}",
                    "kind", &out->kind, "schedule", &out->schedule, "weight_decay", &out->weight_decay, "momentum",
                    &out->momentum, "clip", &out->clip, "clip_value", &out->clip_value, "average", &out->average,
                    "final_fraction", &out->final_fraction, "warmup", &warmup, "accumulate", &accumulate, "loss_scale",
                    &loss_scale, "groups", &groups, "nesterov", &out->nesterov, "beta1", &out->beta1, "beta2",
                    &out->beta2, "epsilon", &out->epsilon, "epoch_steps", &epoch_steps, "update_top", &update_top,
                    "rates", &rates, "rates_hash", &hash) != 0)
        return false;
    out->warmup = warmup;
    out->accumulate = accumulate;
    out->epoch_steps = epoch_steps;
    out->update_top = update_top;
    out->rates_hash = strtoull(hash, NULL, 16);
    snprintf(out->loss_scale, sizeof out->loss_scale, "%s", loss_scale);
    snprintf(out->groups, sizeof out->groups, "%s", groups);
    snprintf(out->rates, sizeof out->rates, "%s", rates);
    return strlen(loss_scale) < sizeof out->loss_scale && strlen(groups) < sizeof out->groups &&
           strlen(rates) < sizeof out->rates && are_flags_valid(out);
}

/* The momentum given, or the default of the kind. */
static double momentum_of(const optimizer_flags *flags)
{
    if (flags->momentum != BY_DEFAULT)
        return flags->momentum;
    return flags->kind == TUFF_SGD ? 0.9 : 0;
}

/* The number of steps, or of epochs if the rate changes only between epochs. */
static int64_t schedule_length(const optimizer_flags *flags, int64_t steps)
{
    return flags->epoch_steps > 0 ? (steps + flags->epoch_steps - 1) / flags->epoch_steps : steps;
}

static void set_rate(const optimizer_flags *flags, tuff_optimizer_options *options)
{
    static const tuff_schedule schedules[] = {TUFF_SCHEDULE_COSINE, TUFF_SCHEDULE_CONSTANT, TUFF_SCHEDULE_LINEAR,
                                              TUFF_SCHEDULE_ONE_CYCLE};
    options->schedule = flags->rates[0] ? TUFF_SCHEDULE_PROGRAM : schedules[flags->schedule];
    options->steps_per_epoch = flags->epoch_steps;
    options->final_fraction = flags->final_fraction;
    if (flags->warmup != BY_DEFAULT)
        options->warmup_steps = flags->warmup;
    else if (flags->epoch_steps > 0 && options->total_steps < 10) /* a warm-up of a single epoch would just be lost */
        options->warmup_steps = 0;
}

static void set_rule(const optimizer_flags *flags, tuff_optimizer_options *options)
{
    options->inputs_first = true; /* the convention of all models of the tool */
    options->kind = (tuff_optimizer_kind)flags->kind;
    options->weight_decay = flags->weight_decay;
    options->momentum = momentum_of(flags);
    options->nesterov = flags->nesterov == 1;
    if (flags->kind == TUFF_LION)
        options->beta2 = 0; /* selects the default of the rule */
    if (flags->beta1 > 0)
        options->beta1 = flags->beta1;
    if (flags->beta2 > 0)
        options->beta2 = flags->beta2;
    options->epsilon = flags->epsilon;
}

void optimizer_setup_make(const optimizer_flags *flags, double learning_rate, int64_t steps, optimizer_setup *out)
{
    const double scale = scale_of(flags->loss_scale);
    *out = (optimizer_setup){.options = model_optimizer_options(learning_rate, schedule_length(flags, steps)),
                             .update_top = flags->update_top};
    tuff_optimizer_options *options = &out->options;
    set_rule(flags, options);
    set_rate(flags, options);
    options->clip_norm = flags->clip;
    options->clip_value = flags->clip_value;
    options->average_decay = flags->average;
    options->accumulate = (int32_t)flags->accumulate;
    if (scale > 0)
        out->scaling = (tuff_loss_scaling){.initial = scale, .low = scale, .high = scale, .growth = 1, .backoff = 1};
    options->loss_scaling = scale >= 0 ? &out->scaling : NULL;
    snprintf(out->text, sizeof out->text, "%s", flags->groups);
    (void)read_groups(out->text, out->patterns, out->groups, &out->pattern_count);
    options->groups = out->groups;
    options->group_count = out->pattern_count + 1;
    /* Always with groups: logging must not change results, and norms summed by group are added in a different order. */
    options->tensor_norms = flags->update_top > 0 || out->pattern_count > 0;
    options->choose = flags->update_top > 0 ? update_top_choose : NULL;
    options->choose_user = &out->update_top;
}
