/* Compiles a model to get its tasks, because a key in a store is not enough to build its task from. */
#include "tools/cache/rerun.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "autotune/plan_tasks.h"
#include "tools/tune/measure.h"
#include "tunedb/kernel_hash.h"
#include "search/times.h"

enum { ROUNDS = 11 };
static const double slower_threshold = 1.05;

typedef enum finding { FOUND_OK, FOUND_SLOWER, FOUND_WRONG, FOUND_GONE, FINDINGS } finding;

/* A winner to be examined. */
typedef struct winner_task {
    plan_tasks *tasks;
    int index;
    const tune_record *win;
} winner_task;

typedef struct rerun {
    const cli_verb *verb;
    tuff_cache *cache;
    model_plans plans;
    plan_tasks *tasks[MODEL_PLAN_COUNT];
    winner_task *all;
    int count, capacity;
    int found[FINDINGS];
    json_t *list; /* NULL if findings are printed */
} rerun;

static const tune_record *find_win(const rerun *self, hash128 environment, const tune_key *key)
{
    char kernel_hash[KERNEL_HASH_SIZE];
    const char *const today = tuff__kernel_hash(key->family, kernel_hash);
    for (int i = 0; i < self->cache->count; i++) {
        const tune_record *win =
            tuff__store_winner(self->cache->files[i].store, environment, tuff__key_hash(key), today);
        if (win && !tuff__record_is_seed(win) && strcmp(win->kernel_hash, today) == 0)
            return win;
    }
    return NULL;
}

static tuff_status collect(rerun *self, plan_tasks *from)
{
    const hash128 environment = tuff__hash_text(ENVIRONMENT_TEXT(tuff__plan_tasks_environment(from)));
    for (int i = 0; i < tuff__plan_tasks_count(from); i++) {
        const tune_record *win = find_win(self, environment, tuff__plan_tasks_key(from, i));
        bool fresh = win != NULL;
        for (int k = 0; k < self->count && fresh; k++)
            fresh = self->all[k].win != win;
        if (!fresh)
            continue;
        if (!GROW(self->all, self->count, self->capacity))
            return TUFF_E_OOM_HOST;
        self->all[self->count++] = (winner_task){from, i, win};
    }
    return TUFF_OK;
}

static int compare_age(const void *a, const void *b)
{
    const tune_record *first = ((const winner_task *)a)->win, *second = ((const winner_task *)b)->win;
    if (first->time != second->time)
        return first->time < second->time ? 1 : -1;
    return (first->default_nanoseconds < second->default_nanoseconds) -
           (first->default_nanoseconds > second->default_nanoseconds);
}

/* Lowers, compiles and verifies a candidate. The caller must release one that is good. */
static tune_evaluation make(const evaluator *by, search_candidate *candidate)
{
    candidate_info lowered;
    tune_evaluation found = by->lower(by->state, &candidate->config, &lowered);
    if (found != EVALUATION_GOOD)
        return found;
    candidate->program = lowered.program;
    candidate->group_items = lowered.group_items;
    found = by->compile(by->state, candidate);
    if (found != EVALUATION_GOOD)
        return found;
    found = by->verify(by->state, candidate, candidate->slot > 0);
    if (found != EVALUATION_GOOD)
        by->release(by->state, candidate);
    return found;
}

/* Times both in turns; returns the ratio of their medians, or 0 if they could not be timed. */
static double race(const evaluator *by, const search_candidate *baseline, const search_candidate *winner)
{
    uint64_t times[2][ROUNDS];
    for (int i = -1; i < ROUNDS; i++)
        for (int k = 0; k < 2; k++) {
            const search_candidate *candidate = (i + k) % 2 != 0 ? winner : baseline;
            if (by->sample(by->state, candidate, 1, 0, &times[candidate == winner][i < 0 ? 0 : i]) != EVALUATION_GOOD)
                return 0;
        }
    const uint64_t median = tuff__times_median(times[0], ROUNDS);
    return median > 0 ? (double)tuff__times_median(times[1], ROUNDS) / (double)median : 0;
}

static finding examine(const winner_task *item, char *why, size_t size)
{
    const evaluator by = tuff__plan_tasks_evaluator(item->tasks, item->index);
    search_candidate baseline = {.slot = 0}, winner = {.slot = 1};
    finding out = FOUND_GONE;
    if (tuff__config_parse(item->win->candidate, &winner.config) != TUFF_OK) {
        (void)snprintf(why, size, "%s", tuff_error());
        return FOUND_GONE;
    }
    tune_evaluation found = make(&by, &baseline);
    const bool has_default = found == EVALUATION_GOOD;
    if (has_default && item->win->candidate[0])
        found = make(&by, &winner);
    if (found == EVALUATION_WRONG || found == EVALUATION_RACE)
        out = FOUND_WRONG;
    if (found != EVALUATION_GOOD)
        (void)snprintf(why, size, "%s: %s", tuff__evaluation_text(found), tuff_error());
    if (found == EVALUATION_GOOD && item->win->candidate[0]) {
        const double ratio = race(&by, &baseline, &winner);
        out = ratio == 0 ? FOUND_GONE : ratio > slower_threshold ? FOUND_SLOWER : FOUND_OK;
        if (ratio == 0)
            (void)snprintf(why, size, "it cannot be timed");
        else
            (void)snprintf(why, size, "%.2f times the default's time", ratio);
        by.release(by.state, &winner);
    } else if (found == EVALUATION_GOOD) {
        out = FOUND_OK;
        (void)snprintf(why, size, "the default");
    }
    if (has_default)
        by.release(by.state, &baseline);
    tuff__plan_tasks_clear(item->tasks, item->index);
    return out;
}

static void report(rerun *self, const winner_task *item, finding found, const char *why)
{
    static const char *const names[] = {"ok", "slower", "wrong", "gone"};
    self->found[found]++;
    if (self->list)
        (void)json_array_append_new(self->list, json_pack("{s:s, s:s, s:s, s:s, s:o}", "what", names[found], "key",
                                                          ALL_DIGITS(item->win->key), "op", item->win->op, "candidate",
                                                          item->win->candidate, "why", cache_json_text(why)));
    else if (found != FOUND_OK)
        printf("%s %s %s, %s: %s\n", names[found], KEY_DIGITS(item->win->key), item->win->op,
               cache_candidate(item->win->candidate), why);
}

static int print_summary(rerun *self)
{
    const int *found = self->found;
    const int code = found[FOUND_SLOWER] + found[FOUND_WRONG] + found[FOUND_GONE] > 0 ? CACHE_FINDINGS : CACHE_OK;
    if (!self->list) {
        printf("ok %d  slower>5%% %d  wrong %d  gone %d\n", found[FOUND_OK], found[FOUND_SLOWER], found[FOUND_WRONG],
               found[FOUND_GONE]);
        return code;
    }
    return cache_print_json(self->verb,
                            json_pack("{s:i, s:i, s:i, s:i, s:O}", "ok", found[FOUND_OK], "slower", found[FOUND_SLOWER],
                                      "wrong", found[FOUND_WRONG], "gone", found[FOUND_GONE], "winners", self->list),
                            code);
}

static int rerun_plans(rerun *self, int most)
{
    tuff_status status = TUFF_OK;
    for (int i = 0; i < self->plans.count && status == TUFF_OK; i++) {
        status = tuff__plan_tasks_create(self->plans.items[i].plan, &self->tasks[i]);
        if (status == TUFF_OK)
            status = collect(self, self->tasks[i]);
    }
    if (status != TUFF_OK)
        return cache_fail(self->verb, "listing the keys of the model");
    if (self->count > 0)
        qsort(self->all, (size_t)self->count, sizeof *self->all, compare_age);
    for (int i = 0; i < self->count && i < most; i++) {
        char why[256] = "";
        report(self, &self->all[i], examine(&self->all[i], why, sizeof why), why);
    }
    return print_summary(self);
}

static tuff_device *open_device(const cli_verb *verb, const char *name, int *code)
{
    tuff_device *device = cli_open_device(verb, name, code);
    *code = device ? CACHE_OK : CACHE_ERROR;
    return device;
}

static int fail_compiling(const cli_verb *verb, const model_options *options)
{
    return cache_fail(verb, options->file ? "compiling the graph" : "compiling the model");
}

int cache_rerun(const cli_verb *verb, const char *name, const model_options *options, int most, bool json)
{
    const tuff_compile_options baseline = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_CACHED}};
    rerun self = {.verb = verb};
    int code = CACHE_OK;
    tuff_device *device = open_device(verb, name, &code);
    if (!device)
        return code;
    code = cache_open_any(verb, NULL, &self.cache);
    tuff__json_begin();
    self.list = json ? json_array() : NULL;
    if (code == CACHE_OK)
        code = model_plans_open(device, options, &baseline, &self.plans) == TUFF_OK ? rerun_plans(&self, most)
                                                                                    : fail_compiling(verb, options);
    for (int i = 0; i < MODEL_PLAN_COUNT; i++)
        tuff__plan_tasks_destroy(self.tasks[i]);
    tuff__free(self.all);
    json_decref(self.list);
    model_plans_destroy(&self.plans);
    tuff_cache_close(self.cache);
    tuff_device_close(device);
    return code;
}

int cache_measure_begin(const cli_verb *verb, const char *name, const model_options *options, tuff_device **out)
{
    /* The environment must not choose a mode that measures. */
    const tuff_tune_options cached = {.mode = TUFF_TUNE_CACHED, .environment = TUFF_TUNE_ENVIRONMENT_NONE};
    const tuff_compile_options described = {
        .precision = (tuff_precision)options->precision, .describe_only = true, .tuning = &cached};
    model_plans plans = {0};
    int code = CACHE_OK;
    *out = open_device(verb, name, &code);
    if (!*out)
        return code;
    if (model_plans_open(*out, options, &described, &plans) != TUFF_OK)
        code = fail_compiling(verb, options);
    model_plans_destroy(&plans);
    if (code != CACHE_OK) {
        tuff_device_close(*out);
        *out = NULL;
    }
    return code;
}

int cache_measure(const cli_verb *verb, tuff_device *device, const model_options *options, tuff_tune_mode mode)
{
    tuning tune = {.mode = (int)mode};
    model_plans plans = {0};
    tuning_isolate(&tune);
    const int code = measure_model(verb, device, options, &tune, &plans);
    model_plans_destroy(&plans);
    return code == EXIT_DONE ? CACHE_OK : CACHE_ERROR;
}
