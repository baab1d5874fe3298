/* The tuner on a device whose driver reports spills for every other candidate: these are counted, reported and dropped,
   and the plan's results do not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"
#include "small_plans.h"
#include "tune_fixture.h"

enum { ROWS = 24, INNER = 40, COLUMNS = 56, SPILLED = 4096, MAX_SEARCHES = 8 };

static int asked;

/* The first query is for the default. */
static tuff_status spill_every_other(driver_device *device, driver_program *made, uint64_t *out)
{
    (void)device;
    (void)made;
    *out = asked++ % 2 == 1 ? SPILLED : 0;
    return TUFF_OK;
}

static char rejection[256];

static bool note(void *user, const tuff_tune_progress *now)
{
    (void)user;
    if (strncmp(now->rejection, "spills", 6) == 0) {
        assert_true(now->rejected > 0);
        (void)snprintf(rejection, sizeof rejection, "%s", now->rejection);
    }
    return true;
}

static tuff_tune_stats tune(tuff_device *device, const tuff_compile_options *options, int inner, float *product)
{
    tuff_tune_stats stats;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, inner)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(inner, COLUMNS));
    tuff_output(graph, "p", tuff_matmul(x, w));
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    write_steps(plan, "x", ROWS * inner, 13, 8);
    write_steps(plan, "w", inner * COLUMNS, 11, 16);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "p", product, sizeof(float) * ROWS * COLUMNS), TUFF_OK);
    destroy_plan(plan, graph);
    return stats;
}

/* A wrapped device cannot be opened again, so that candidates run on it itself, and its driver's calls can be
   replaced. */
static tuff_tune_stats tune_with_spills(tuff_device *device, const char *log, int inner, float *product)
{
    const tuff_compile_options normal = {
        .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_NORMAL, .milliseconds = 20000, .progress = note, .log = log}};
    const driver *const own = device->driver;
    (void)snprintf(device->info.selector, sizeof device->info.selector, "%s:wrapped", own->name);
    device->driver_override = *own;
    device->driver_override.spilled_bytes = spill_every_other;
    device->driver = &device->driver_override;
    asked = 0;
    const tuff_tune_stats stats = tune(device, &normal, inner, product);
    device->driver = own;
    assert_int_equal(stats.measured, 1);
    assert_true(asked > 4);
    assert_int_equal(stats.wrong, 0);
    assert_int_equal(stats.races, 0);
    assert_int_equal(stats.limits, 0); /* a candidate may seem to hang because of other load on the machine */
    return stats;
}

static uint64_t logged_spills(const char *path)
{
    char line[1024];
    uint64_t count = 0;
    FILE *log = fopen(path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log))
        count += strstr(line, "\tspills\t0\t0\t") != NULL;
    (void)fclose(log);
    return count;
}

/* Candidates that spill are dropped only if another one without spills was timed to its end. On a loaded machine all of
   these may be stopped as slow; then the next shape is searched. */
static void check(tuff_device *device)
{
    static float plain[ROWS * COLUMNS], tuned[ROWS * COLUMNS];
    char environment[ENVIRONMENT_SIZE], log_path[600];
    const tuff_compile_options off = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}};
    tuff_tune_stats stats = {0};
    for (int i = 0; i < MAX_SEARCHES && stats.spills == 0; i++) {
        (void)snprintf(log_path, sizeof log_path, "%s/log%d", cache_folder(), i);
        (void)tune(device, &off, INNER + i, plain);
        stats = tune_with_spills(device, log_path, INNER + i, tuned);
        for (int at = 0; at < ROWS * COLUMNS; at++)
            assert_true(plain[at] - tuned[at] < 1e-5f && tuned[at] - plain[at] < 1e-5f);
        assert_true(logged_spills(log_path) == stats.spills);
    }
    assert_true(stats.spills > 0);
    assert_non_null(strstr(rejection, "4096 bytes of a work-item's registers"));
    tune_store *store = open_device_store(device, environment);
    assert_null(find_store_record(store, RECORD_REJECTION, NULL));
    assert_non_null(find_store_record(store, RECORD_WIN, NULL));
    tuff__store_close(store);
}

static void spills_are_counted_and_told(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("opencl");
    if (!device)
        skip();
    check(device);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spills_are_counted_and_told, use_fresh_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
