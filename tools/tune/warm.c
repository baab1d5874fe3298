/* tuff tune warm: measures the kernels of a model, or of a program's graph, before anyone has to wait for them. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "api/controls.h"
#include "tools/cli/options.h"
#include "tools/model/fastest.h"
#include "tools/tune/measure.h"
#include "tools/tune/verbs.h"
#include "tools/verbs.h"

typedef struct warm_options {
    model_options description;
    const char *device;
    tuning tune;
    bool list, json;
} warm_options;

static void print_stats(const char *name, const tuff_tune_stats *stats, bool json, bool last)
{
    const int known = stats->hits[TUFF_TUNE_HIT_PIN] + stats->hits[TUFF_TUNE_HIT_SAME];
    if (!json) {
        printf("%s: %d keys, %d known, %d measured, %d improved, %d left out\n", name, stats->keys, known,
               stats->measured, stats->improved, stats->skipped);
        return;
    }
    printf("  \"%s\": {\"keys\": %d, \"known\": %d, \"measured\": %d, \"improved\": %d, \"left_out\": %d, "
           "\"candidates\": %llu, \"wrong\": %llu, \"races\": %llu, \"limits\": %llu, \"spills\": %llu, "
           "\"hangs\": %llu, \"seconds\": %.3f}%s\n",
           name, stats->keys, known, stats->measured, stats->improved, stats->skipped,
           (unsigned long long)stats->compiles, (unsigned long long)stats->wrong, (unsigned long long)stats->races,
           (unsigned long long)stats->limits, (unsigned long long)stats->spills, (unsigned long long)stats->hangs,
           (double)stats->nanoseconds * 1e-9, last ? "" : ",");
}

/* Prints what each key runs with now, according to the cache. */
static tuff_status print_keys(const model_plan *known, bool json, bool last)
{
    const int count = tuff_plan_key_count(known->plan);
    tuff_status status = count < 0 ? tuff_last_status() : TUFF_OK;
    json_t *list = json ? json_array() : NULL;
    tuff_plan_key_info key;
    for (int i = 0; i < count && status == TUFF_OK; i++) {
        status = tuff_plan_key(known->plan, i, &key);
        if (status == TUFF_OK && json)
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s, s:s, s:I}", "key", key.key, "candidate", key.candidate,
                                                  "origin", key.origin, "calls", (json_int_t)key.calls));
        else if (status == TUFF_OK)
            printf("%-8s %4llux  %-12s %s: %s\n", known->name, (unsigned long long)key.calls, key.origin, key.key,
                   key.candidate[0] ? key.candidate : "default");
    }
    if (json && status == TUFF_OK) {
        printf("  \"%s\": ", known->name);
        (void)json_dumpf(list, stdout, JSON_INDENT(2));
        fputs(last ? "\n" : ",\n", stdout);
    }
    json_decref(list);
    return status;
}

static int print_plan(const model_plan *known, const warm_options *options, bool last)
{
    tuff_tune_stats stats;
    if (options->list)
        return print_keys(known, options->json, last) == TUFF_OK
                   ? EXIT_DONE
                   : cli_fail_library(&tune_verb_warm, "listing the keys");
    if (tuff_plan_tune_stats(known->plan, &stats) != TUFF_OK)
        return cli_fail_library(&tune_verb_warm, "reading the statistics");
    print_stats(known->name, &stats, options->json, last);
    return EXIT_DONE;
}

static int warm_device(tuff_device *device, warm_options *options)
{
    model_plans plans = {0};
    tuff_device_info info;
    if (tuff_device_describe(device, &info) == TUFF_OK && info.device_class == TUFF_DEVICE_REFERENCE)
        fprintf(stderr, "%s runs no kernels: there is nothing to tune\n", info.selector);
    tuff__json_begin();
    int code = measure_model(&tune_verb_warm, device, &options->description, &options->tune, &plans);
    fputs(options->json && code == EXIT_DONE ? "{\n" : "", stdout);
    for (int i = 0; i < plans.count && code == EXIT_DONE; i++)
        code = print_plan(&plans.items[i], options, i + 1 == plans.count);
    fputs(options->json && code == EXIT_DONE ? "}\n" : "", stdout);
    model_plans_destroy(&plans);
    return cli_is_interrupted() && code == EXIT_DONE ? EXIT_FAILED : code;
}

/* Returns $TUFF_TUNE or, if it is not set to a mode, `normal`. */
static int default_mode(void)
{
    tuff_tune_options options = {.mode = TUFF_TUNE_NORMAL, .environment = TUFF_TUNE_ENVIRONMENT_ALL};
    tuff__controls_apply(&options);
    return (int)options.mode;
}

/* Decides on the mode. Says so if it measures nothing, because that is what the verb is for. */
static int choose_mode(warm_options *self)
{
    tuning *tune = &self->tune;
    const char *origin = tune->mode_given ? "--tune" : "TUFF_TUNE";
    if (self->list && tune->mode_given && tune->mode >= TUFF_TUNE_QUICK)
        return cli_fail(&tune_verb_warm, EXIT_USAGE, "--list measures nothing: it takes only --tune cached or off");
    if (!self->list && tune->deterministic)
        return cli_fail(&tune_verb_warm, EXIT_USAGE, "--deterministic measures nothing: it needs --list here");
    if (!tune->mode_given)
        tune->mode = default_mode();
    if (self->list && tune->mode >= TUFF_TUNE_QUICK) {
        tune->mode = TUFF_TUNE_CACHED;
        tune->mode_given = true; /* $TUFF_TUNE must not change it */
    }
    if (!self->list && tune->mode < TUFF_TUNE_QUICK)
        fprintf(stderr, "%s is %s: nothing is measured, and earlier results are %s\n", origin,
                tune->mode == TUFF_TUNE_OFF ? "off" : "cached", tune->mode == TUFF_TUNE_OFF ? "ignored" : "counted");
    return EXIT_DONE;
}

static int warm(int count, char **arguments)
{
    warm_options self = {.description = MODEL_OPTIONS_DEFAULT};
    const cli_option options[] = {
        WORK_DEVICE_OPTION(&self.device),
        MODEL_OPTIONS(&self.description),
        PRECISION_OPTION(&self.description.precision, &self.description.has_precision),
        TUNING_OPTIONS_ELSE(&self.tune, "normal"),
        {"--list", CLI_SWITCH, &self.list, NULL, "print the candidate that each key uses; measure nothing", 0, 0, NULL},
        TUNING_ISOLATE_OPTION(&self.tune),
        JSON_OPTION(&self.json, "one object with the counts of both plans"),
    };
    const cli_end end =
        cli_parse(&tune_verb_warm, options, sizeof options / sizeof *options, count, arguments, &self.description.file);
    if (end.now)
        return end.code;
    if (model_options_complete(&self.description) != TUFF_OK)
        return cli_fail(&tune_verb_warm, EXIT_USAGE, "%s", tuff_error());
    int code = choose_mode(&self);
    if (code != EXIT_DONE)
        return code;
    tuning_isolate(&self.tune);
    (void)setenv("TUFF_TUNE_WAIT", "1", 0); /* a user who requests tuning can wait for another process that tunes */
    tuff_device *device =
        cli_open_device_for(&tune_verb_warm, self.device, &(fastest_work){.described = &self.description}, &code);
    if (!device)
        return code;
    code = warm_device(device, &self);
    tuff_device_close(device);
    return code;
}

const cli_verb tune_verb_warm = {
    .name = "tune warm",
    .operand = GRAPH_OPERAND,
    .summary = "Tunes the kernels of a model or of a graph file on a device ahead of time.",
    .about =
        GRAPH_ABOUT "\nResults are stored in the cache (see tuff cache). Ctrl-C stops and keeps the results so far.",
    .run = warm,
};
