/* Tuning when a graph is compiled, on a device of each API: winners are correct and are stored, a second start measures
   nothing, a plan is compiled whatever is wrong with the cache, and a pin is used. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "each_device.h"
#include "small_plans.h"
#include "tunedb/folder.h"
#include "tune_fixture.h"

enum { ROWS = 24, INNER = 40, COLUMNS = 56 };

/* gelu(x · w) and its row-wise softmax: a matmul task and a row task. */
static tuff_graph *make_graph(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INNER)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS));
    tuff_tensor *y = tuff_gelu(tuff_matmul(x, w));
    tuff_output(graph, "y", y);
    tuff_output(graph, "p", tuff_softmax(y, 1));
    return graph;
}

typedef struct outputs {
    float y[ROWS * COLUMNS], p[ROWS * COLUMNS];
} outputs;

static void run_graph(tuff_plan *plan, outputs *out)
{
    write_steps(plan, "x", ROWS * INNER, 13, 8);
    write_steps(plan, "w", INNER * COLUMNS, 11, 16);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", out->y, sizeof out->y), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "p", out->p, sizeof out->p), TUFF_OK);
}

static tuff_tune_stats compile_and_run(tuff_device *device, const tuff_compile_options *options, outputs *out)
{
    tuff_tune_stats stats;
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    run_graph(plan, out);
    destroy_plan(plan, graph);
    return stats;
}

static void expect_close(const outputs *a, const outputs *b)
{
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(fabsf(a->y[i] - b->y[i]) <= 1e-5f);
        assert_true(fabsf(a->p[i] - b->p[i]) <= 1e-5f);
    }
}

static void remove_stores(void)
{
    char line[600];
    (void)snprintf(line, sizeof line, "rm -rf '%s/tune'", cache_folder());
    assert_int_equal(system(line), 0);
}

static int count_known_keys(const tuff_tune_stats *stats)
{
    return stats->hits[TUFF_TUNE_HIT_PIN] + stats->hits[TUFF_TUNE_HIT_SAME];
}

static const tuff_compile_options off = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}},
                                  quick = {.tuning =
                                               &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 4000}};

/* Time may run out before all keys are measured, so that it may take a few starts until all are known. */
static void learn_and_remember(tuff_device *device)
{
    outputs plain, tuned, again;
    remove_stores();
    tuff_tune_stats stats = compile_and_run(device, &off, &plain);
    assert_int_equal(stats.keys, 0);
    stats = compile_and_run(device, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_CACHED}},
                            &again);
    assert_int_equal(stats.measured, 0);
    assert_true(stats.keys >= 2 && stats.tasks >= stats.keys);
    assert_int_equal(stats.hits[TUFF_TUNE_HIT_DEFAULT], stats.keys);
    assert_int_equal(stats.misses[TUFF_TUNE_MISS_UNKNOWN], stats.keys);
    assert_memory_equal(&plain, &again, sizeof plain);
    int missing = 1;
    for (int attempt = 0; attempt < 6 && missing > 0; attempt++) {
        stats = compile_and_run(device, &quick, &tuned);
        assert_true(stats.keys >= 2 && stats.tasks >= stats.keys);
        assert_int_equal(stats.measured + count_known_keys(&stats), stats.keys);
        assert_int_equal(stats.wrong + stats.races + stats.hangs + stats.crashes, 0);
        expect_close(&plain, &tuned);
        missing = stats.measured;
    }
    assert_int_equal(missing, 0);
    assert_int_equal(stats.compiles, 0);
    assert_int_equal(stats.launches, 0);
    stats = compile_and_run(device, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_CACHED}},
                            &again);
    assert_int_equal(count_known_keys(&stats), stats.keys);
    assert_memory_equal(&tuned, &again, sizeof tuned);
}

static void tuning_is_remembered(void **state)
{
    (void)state;
    for_drawn_api(1, learn_and_remember);
}

typedef struct watcher {
    int calls, stop_at;
} watcher;

static bool watch(void *user, const tuff_tune_progress *now)
{
    watcher *self = user;
    assert_true(now->keys_done <= now->key_count);
    assert_true(strlen(now->key) > 0);
    return ++self->calls < self->stop_at;
}

/* For each key the best candidate reported to the callback: the next search must begin there, unless the key has a
   winner already. */
typedef struct reported_key {
    char key[TUNE_KEY_SIZE], best[512];
} reported_key;

static struct {
    reported_key keys[16];
    int count, calls, stop_at, most_done;
} reported;

static bool listen(void *user, const tuff_tune_progress *now)
{
    (void)user;
    int i = 0;
    while (i < reported.count && strcmp(reported.keys[i].key, now->key) != 0)
        i++;
    assert_true(i < 16);
    reported.count += i == reported.count;
    (void)snprintf(reported.keys[i].key, sizeof reported.keys[i].key, "%s", now->key);
    (void)snprintf(reported.keys[i].best, sizeof reported.keys[i].best, "%s", now->best);
    assert_true(now->keys_done >= reported.most_done && now->keys_done <= now->key_count);
    reported.most_done = now->keys_done;
    return ++reported.calls < reported.stop_at;
}

static int count_kept(tuff_device *device)
{
    char environment[ENVIRONMENT_SIZE];
    tune_store *store = open_device_store(device, environment);
    int kept = 0;
    for (int i = 0; i < reported.count; i++) {
        const tune_record *win =
            tuff__store_winner(store, tuff__hash_text(environment), tuff__hash_text(reported.keys[i].key), NULL);
        if (reported.keys[i].best[0] == '\0')
            continue;
        assert_non_null(win);
        if (tuff__record_is_seed(win))
            assert_string_equal(win->candidate, reported.keys[i].best);
        kept++;
    }
    tuff__store_close(store);
    return kept;
}

/* Stops at any point until the tuning ends by itself. */
static void stop_anywhere(tuff_device *device)
{
    enum { MILLISECONDS = 2000 };
    outputs got;
    int kept = 0;
    tuff_compile_options options = {
        .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = MILLISECONDS, .progress = listen}};
    bool was_stopped = true;
    for (int stop_at = 1; was_stopped; stop_at += 1 + stop_at / 2) {
        memset(&reported, 0, sizeof reported);
        reported.stop_at = stop_at;
        remove_stores();
        const tuff_tune_stats stats = compile_and_run(device, &options, &got);
        kept += count_kept(device);
        was_stopped = reported.calls == stop_at;
        assert_true(reported.calls <= stop_at);
        /* Every key is reported as done, unless a busy machine left no time for the last races. */
        assert_true(was_stopped || reported.most_done == stats.measured ||
                    (reported.most_done < stats.measured && stats.nanoseconds >= MILLISECONDS * UINT64_C(500000)));
    }
    print_message("%s: %d leaders kept\n", tuff__device_info(device)->selector, kept);
}

static void whoever_stops_loses_nothing(void **state)
{
    (void)state;
    for_drawn_api(0, stop_anywhere);
}

static void stop_early(tuff_device *device)
{
    outputs plain, tuned;
    watcher self = {.stop_at = 2};
    remove_stores();
    compile_and_run(device, &off, &plain);
    tuff_tune_options tuning = *quick.tuning;
    const tuff_compile_options options = {.tuning = &tuning};
    tuning.progress = watch;
    tuning.user = &self;
    compile_and_run(device, &options, &tuned);
    assert_int_equal(self.calls, 2);
    expect_close(&plain, &tuned);
}

static void the_caller_may_stop(void **state)
{
    (void)state;
    for_drawn_api(4, stop_early);
}

static int device_runs;

static void tune_anyway(tuff_device *device)
{
    outputs plain, tuned;
    device_runs++;
    compile_and_run(device, &off, &plain);
    tuff_tune_stats stats = compile_and_run(
        device, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 700}},
        &tuned);
    assert_true(stats.measured > 0);
    expect_close(&plain, &tuned);
}

static int warnings; /* warnings that results are not kept */

static void count_warnings(void *user, tuff_log_level level, const char *said)
{
    (void)user;
    warnings += level == TUFF_LOG_WARNING && strstr(said, "results are not saved: ") != NULL;
}

/* A log line names a folder that cannot be created, but not one that is left out on purpose. */
static void a_cache_is_not_needed(void **state)
{
    (void)state;
    tuff_set_log(count_warnings, NULL);
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    warnings = 0;
    for_each_api(tune_anyway);
    assert_int_equal(warnings, 0);
    assert_int_equal(setenv("TUFF_CACHE_DIR", "/dev/null/nowhere", 1), 0);
    warnings = 0;
    for_each_api(tune_anyway);
    assert_true((warnings > 0) == (device_runs > 0));
    tuff_set_log(NULL, NULL);
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

/* Finds the first winner of a family. */
static bool find_win(const tune_store *store, const char *family, char *key, size_t size)
{
    int at = 0;
    for (const tune_record *one; (one = tuff__store_next(store, &at));)
        if (one->kind == RECORD_WIN && strncmp(one->op, family, strlen(family)) == 0) {
            (void)snprintf(key, size, "%s", one->op);
            return true;
        }
    return false;
}

static bool has_source(tuff_device *device, const char *subject)
{
    bool found = false;
    tuff_plan_info info;
    tuff_graph *graph = make_graph(device);
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
        found = found || (task.source && strstr(task.source, subject));
    }
    destroy_plan(plan, graph);
    return found;
}

static void obey_pin(tuff_device *device)
{
    outputs plain, pinned;
    char environment[ENVIRONMENT_SIZE], key[600] = "";
    remove_stores();
    compile_and_run(device, &off, &plain);
    for (int attempt = 0; attempt < 6 && key[0] == '\0'; attempt++) {
        compile_and_run(device, &quick, &pinned);
        tune_store *store = open_device_store(device, environment);
        (void)find_win(store, "matmul ", key, sizeof key);
        tuff__store_close(store);
    }
    assert_true(key[0] != '\0');
    tune_store *store = open_device_store(device, environment);
    const tune_record pin = {.kind = RECORD_PIN,
                             .environment = tuff__hash_text(environment),
                             .key = tuff__hash_text(key),
                             .op = key,
                             .kernel_hash = "",
                             .candidate = "matmul_register.rows=5;matmul_register.vectors=1;task.family=1",
                             .runners_up = {"", "", ""},
                             .cold = "",
                             .end = "",
                             .source = "live",
                             .library = "",
                             .reason = "test",
                             .phase = ""};
    assert_int_equal(tuff__store_add(store, &pin), TUFF_OK);
    tuff__store_close(store);
    assert_true(has_source(device, "#define TILE_ROWS 5"));
    const tuff_tune_stats stats = compile_and_run(device, NULL, &pinned);
    assert_int_equal(stats.hits[TUFF_TUNE_HIT_PIN], 1);
    expect_close(&plain, &pinned);
    remove_stores();
    assert_false(has_source(device, "#define TILE_ROWS 5"));
}

static void a_pin_is_obeyed(void **state)
{
    (void)state;
    for_drawn_api(3, obey_pin);
}

/* Returns how many keys are known after tuning with so much memory; *squeezed gets the number of candidates that had
   too little. */
static int learn_within(tuff_device *device, uint64_t memory, int *keys, int *squeezed)
{
    char log[600], line[800];
    outputs got;
    (void)snprintf(log, sizeof log, "%s/tuning.log", cache_folder());
    (void)remove(log);
    remove_stores();
    tuff_compile_options options = {
        .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 60000, .memory = memory, .log = log}};
    tuff_tune_stats stats = compile_and_run(device, &options, &got);
    assert_int_equal(stats.wrong + stats.races + stats.limits, 0);
    *keys = stats.keys;
    FILE *file = fopen(log, "r");
    *squeezed = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        *squeezed += strstr(line, "\troom\t") != NULL;
    if (file != NULL)
        (void)fclose(file);
    stats = compile_and_run(device, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_CACHED}},
                            &got);
    return count_known_keys(&stats);
}

/* With the least memory in which every key can be measured they take turns; with less, keys are only skipped. */
static void share_memory(tuff_device *device)
{
    int keys, squeezed;
    if (!is_thorough() && tuff__device_takes_glsl(device)) {
        leave_out_device("it compiles for minutes: in thorough runs");
        return;
    }
    assert_int_equal(learn_within(device, 1, &keys, &squeezed), 0);
    assert_true(keys >= 2);
    assert_int_equal(squeezed, keys);
    uint64_t memory = 16384;
    while (learn_within(device, memory, &keys, &squeezed) < keys) {
        assert_true(memory < (uint64_t)1 << 26);
        memory += memory / 4;
    }
    assert_true(squeezed > 0);
}

static void keys_take_turns_where_memory_is_short(void **state)
{
    (void)state;
    for_drawn_api(2, share_memory);
}

static void modes_are_checked(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    tuff_graph *graph = make_graph(device);
    assert_null(
        tuff_compile(graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = (tuff_tune_mode)7}}));
    assert_non_null(strstr(tuff_error(), "tune"));
    tuff_tune_stats stats;
    assert_int_equal(tuff_plan_tune_stats(NULL, &stats), TUFF_E_USAGE);
    tuff_plan *plan = tuff_compile(graph, &quick);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    assert_int_equal(stats.keys, 0);
    destroy_plan(plan, graph);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tuning_is_remembered),
        cmocka_unit_test(the_caller_may_stop),
        cmocka_unit_test(a_cache_is_not_needed),
        cmocka_unit_test(a_pin_is_obeyed),
        cmocka_unit_test(whoever_stops_loses_nothing),
        cmocka_unit_test(modes_are_checked),
        cmocka_unit_test(keys_take_turns_where_memory_is_short),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
