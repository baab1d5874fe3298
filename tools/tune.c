/* tuff tune: measures the kernels of a model before anybody waits for them. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "tools/fastest.h"
#include "tools/measure.h"
#include "tools/supervise.h"
#include "tools/verbs.h"

typedef struct warm_options {
    model_options of;
    const char *device;
    tuning tune;
    int isolate; /* as isolation */
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

/* What each key runs with now, from the cache alone. */
static tuff_status print_keys(const known_plan *of, bool json, bool last)
{
    const int count = tuff_plan_key_count(of->plan);
    tuff_status status = count < 0 ? tuff_last_status() : TUFF_OK;
    json_t *list = json ? json_array() : NULL;
    tuff_plan_key_info key;
    for (int i = 0; i < count && status == TUFF_OK; i++) {
        status = tuff_plan_key(of->plan, i, &key);
        if (status == TUFF_OK && json)
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s, s:s, s:I}", "key", key.key, "candidate", key.candidate,
                                                  "origin", key.origin, "calls", (json_int_t)key.calls));
        else if (status == TUFF_OK)
            printf("%-8s %4llux  %-12s %s: %s\n", of->name, (unsigned long long)key.calls, key.origin, key.key,
                   key.candidate[0] ? key.candidate : "default");
    }
    if (json && status == TUFF_OK) {
        printf("  \"%s\": ", of->name);
        (void)json_dumpf(list, stdout, JSON_INDENT(2));
        fputs(last ? "\n" : ",\n", stdout);
    }
    json_decref(list);
    return status;
}

static int print_plan(const known_plan *of, const warm_options *options, bool last)
{
    tuff_tune_stats stats;
    if (options->list)
        return print_keys(of, options->json, last) == TUFF_OK ? EXIT_DONE : cli_fail_library(&verb_tune, "the keys");
    if (tuff_plan_tune_stats(of->plan, &stats) != TUFF_OK)
        return cli_fail_library(&verb_tune, "counting");
    print_stats(of->name, &stats, options->json, last);
    return EXIT_DONE;
}

static int warm_device(tuff_device *device, warm_options *options)
{
    known_plans plans = {0};
    tuff_device_info info;
    if (tuff_device_describe(device, &info) == TUFF_OK && info.device_class == TUFF_DEVICE_REFERENCE)
        fprintf(stderr, "%s runs no kernels: there is nothing to tune\n", info.selector);
    tuff__json_begin();
    int code = measure_model(&verb_tune, device, &options->of, &options->tune, &plans);
    fputs(options->json && code == EXIT_DONE ? "{\n" : "", stdout);
    for (int i = 0; i < KNOWN_COUNT && code == EXIT_DONE; i++)
        code = print_plan(&plans.items[i], options, i + 1 == KNOWN_COUNT);
    fputs(options->json && code == EXIT_DONE ? "}\n" : "", stdout);
    known_plans_destroy(&plans);
    return cli_is_interrupted() && code == EXIT_DONE ? EXIT_FAILED : code;
}

static int warm(int count, char **arguments)
{
    warm_options self = {.of = MODEL_OPTIONS_USUAL, .tune = {.mode = TUFF_TUNE_NORMAL}};
    const cli_option options[] = {
        {"--device", CLI_TEXT, &self.device, "D", CLI_WORK_DEVICE_HELP, 0, 0, NULL},
        MODEL_OPTIONS(&self.of),
        TUNING_OPTIONS(&self.tune),
        {"--budget", CLI_NUMBER, &self.tune.seconds, "S", "the same as --tune-budget: 60 or 60s", 0, 1e6, NULL},
        {"--list", CLI_SWITCH, &self.list, NULL, "print the model's keys and what each runs with; none is measured", 0,
         0, NULL},
        ISOLATE_OPTION(&self.isolate),
        {"--json", CLI_SWITCH, &self.json, NULL, "for programs: one object with the counts of both plans", 0, 0, NULL},
    };
    const cli_end end = cli_parse(&verb_tune, options, sizeof options / sizeof *options, count, arguments, NULL);
    if (end.now)
        return end.code;
    if (model_options_complete(&self.of) != TUFF_OK)
        return cli_fail(&verb_tune, EXIT_WRONG_USE, "%s", tuff_error());
    if (self.list) {
        self.tune.mode = TUFF_TUNE_CACHED;
        self.tune.mode_given = true;
    }
    int code = EXIT_FAILED;
    if (!self.list && !supervise(&verb_tune, (isolation)self.isolate, (const char *const[]){"tune", "warm", NULL},
                                 count, arguments, &code))
        return code;
    (void)setenv("TUFF_TUNE_WAIT", "1", 0); /* who asks for tuning can wait for another who tunes */
    tuff_device *device = cli_open_device_for(&verb_tune, self.device,
                                              &(fastest_work){.model = &self.of.model, .batch = self.of.batch}, &code);
    if (!device)
        return code;
    code = warm_device(device, &self);
    tuff_device_close(device);
    return code;
}

static int tune(int count, char **arguments)
{
    if (count > 0 && strcmp(arguments[0], "warm") == 0)
        return warm(count - 1, arguments + 1);
    if (count > 0 && strcmp(arguments[0], "helper") == 0)
        return verb_tune_helper(count - 1, arguments + 1);
    if (count > 0 && strcmp(arguments[0], "record") == 0)
        return verb_tune_record(count - 1, arguments + 1);
    if (count > 0 && strcmp(arguments[0], "portfolio") == 0)
        return verb_tune_portfolio(count - 1, arguments + 1);
    if (count > 0 && strcmp(arguments[0], "report") == 0)
        return verb_tune_report(count - 1, arguments + 1);
    if (count > 0 && (strcmp(arguments[0], "--help") == 0 || strcmp(arguments[0], "-h") == 0))
        return warm(count, arguments);
    return cli_fail(&verb_tune, EXIT_WRONG_USE,
                    "the verb below it is missing: tuff tune warm|report|record|portfolio [OPTIONS]");
}

const cli_verb verb_tune = {
    .name = "tune",
    .operand = "warm|report|record|portfolio",
    .summary = "Measures a model's kernels on a device, so that later starts need not.",
    .about = "What is found is kept in the cache: see tuff cache. Ctrl-C keeps what is finished. report writes a\n"
             "page of what was tuned. For those who work on the tuner: record writes down what many candidates of\n"
             "a list of tasks take, portfolio finds those that serve all of them best. See their own --help.",
    .run = tune,
};
