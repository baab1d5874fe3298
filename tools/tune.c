/* tuff tune: measures the kernels of a model before anybody waits for them. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/controls.h"
#include "run/tuner.h"
#include "tools/fastest.h"
#include "tools/known_plans.h"
#include "tools/model_options.h"
#include "tools/supervise.h"
#include "tools/tuning.h"
#include "tools/verbs.h"
#include "tune/guard.h"

typedef struct warm_options {
    model_options of;
    const char *device;
    tuning tune;
    int isolate; /* as isolation */
    bool json;
} warm_options;

static void print_stats(const char *name, const tuff_tune_stats *stats, bool json, bool last)
{
    const int known = stats->hits[0] + stats->hits[1];
    if (!json) {
        printf("%s: %d keys, %d known, %d measured, %d improved, %d left out\n", name, stats->keys, known,
               stats->measured, stats->improved, stats->skipped);
        return;
    }
    printf("  \"%s\": {\"keys\": %d, \"known\": %d, \"measured\": %d, \"improved\": %d, \"left_out\": %d, "
           "\"candidates\": %llu, \"wrong\": %llu, \"races\": %llu, \"limits\": %llu, \"hangs\": %llu, "
           "\"seconds\": %.3f}%s\n",
           name, stats->keys, known, stats->measured, stats->improved, stats->skipped,
           (unsigned long long)stats->compiles, (unsigned long long)stats->wrong, (unsigned long long)stats->races,
           (unsigned long long)stats->limits, (unsigned long long)stats->hangs, (double)stats->nanoseconds * 1e-9,
           last ? "" : ",");
}

/* Each plan has the budget that is asked for. What processes of this command that were ended have used of theirs is
   taken off, of the first plan's first: a command that is started again does not measure for longer. */
static void share_budget(const tuff_compile_options *asked, tuff_compile_options *out)
{
    tuff_compile_options seen = *asked;
    tuff__controls_apply(&seen);
    const uint64_t budget = tuff__tune_budget(&seen) / 1000000;
    uint64_t spent = supervised_before(), left = 0;
    for (int i = 0; i < KNOWN_COUNT; i++) {
        out[i] = *asked;
        const uint64_t used = spent < budget ? spent : budget;
        if (used > 0) /* 0 milliseconds would be the whole budget */
            out[i].tune_milliseconds = (uint32_t)(used < budget ? budget - used : 1);
        left += budget - used;
        spent -= used;
    }
    if (supervised_before() > 0 && budget > 0)
        fprintf(stderr, "tuff tune: %.1f s of the budget are left\n", (double)left * 1e-3);
}

static int warm_device(tuff_device *device, warm_options *options)
{
    known_plans plans = {0};
    tuff_compile_options asked = {.fuse = TUFF_FUSE_ALL}, each[KNOWN_COUNT];
    tuning_apply(&options->tune, &asked);
    share_budget(&asked, each);
    int code = EXIT_DONE;
    if (known_plans_create_each(device, &options->of.model, options->of.batch, false, each, &plans) != TUFF_OK)
        code = cli_fail_library(&verb_tune, "compiling the model");
    else if (tuff__tune_is_supervised && atomic_load(&tuff__tune_is_off) && !cli_is_interrupted())
        code = EXIT_AGAIN;
    fputs(options->json && code == EXIT_DONE ? "{\n" : "", stdout);
    for (int i = 0; i < KNOWN_COUNT && code == EXIT_DONE; i++) {
        tuff_tune_stats stats;
        if (!tuning_end(&options->tune, plans.items[i].plan))
            code = EXIT_FAILED;
        else if (tuff_plan_tuning(plans.items[i].plan, &stats) != TUFF_OK)
            code = cli_fail_library(&verb_tune, "counting");
        else
            print_stats(plans.items[i].name, &stats, options->json, i + 1 == KNOWN_COUNT);
    }
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
        ISOLATE_OPTION(&self.isolate),
        {"--json", CLI_SWITCH, &self.json, NULL, "for programs: one object with the counts of both plans", 0, 0, NULL},
    };
    const cli_end end = cli_parse(&verb_tune, options, sizeof options / sizeof *options, count, arguments, NULL);
    if (end.now)
        return end.code;
    if (model_options_complete(&self.of) != TUFF_OK)
        return cli_fail(&verb_tune, EXIT_WRONG_USE, "%s", tuff_error());
    int code = EXIT_FAILED;
    if (!supervise(&verb_tune, (isolation)self.isolate, (const char *const[]){"tune", "warm", NULL}, count, arguments,
                   &code))
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
