/* The tuner on a device whose driver says that every other candidate spills: what comes of that is counted, told and
   forgotten, and the plan's results are what they are without. */
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

enum { ROWS = 24, COLUMNS = 56, SPILLED = 4096 };

static int asked;

/* The first to be asked for is the default. */
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

static tuff_tune_stats tune(tuff_device *device, const tuff_compile_options *options, float *product)
{
    tuff_tune_stats stats;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, 40)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(40, COLUMNS));
    tuff_output(graph, "p", tuff_matmul(x, w));
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tuning(plan, &stats), TUFF_OK);
    write_steps(plan, "x", ROWS * 40, 13, 8);
    write_steps(plan, "w", 40 * COLUMNS, 11, 16);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "p", product, sizeof(float) * ROWS * COLUMNS), TUFF_OK);
    destroy_plan(plan, graph);
    return stats;
}

/* A device that cannot be opened again is its own bench, so that its driver's answers can be replaced. */
static void check(tuff_device *device)
{
    static float plain[ROWS * COLUMNS], tuned[ROWS * COLUMNS];
    char environment[ENVIRONMENT_SIZE], log_path[600];
    const tuff_compile_options off = {.tune = TUFF_TUNE_OFF};
    (void)snprintf(log_path, sizeof log_path, "%s/log", cache_folder());
    const tuff_compile_options normal = {
        .tune = TUFF_TUNE_NORMAL, .tune_milliseconds = 20000, .tune_progress = note, .tune_log = log_path};
    (void)tune(device, &off, plain);
    const driver *const own = device->driver;
    (void)snprintf(device->info.selector, sizeof device->info.selector, "%s:wrapped", own->name);
    device->posing = *own;
    device->posing.spilled_bytes = spill_every_other;
    device->driver = &device->posing;
    asked = 0;
    const tuff_tune_stats stats = tune(device, &normal, tuned);
    device->driver = own;
    assert_int_equal(stats.measured, 1);
    assert_true(asked > 4 && stats.spills > 0);
    assert_int_equal(stats.wrong, 0);
    assert_int_equal(stats.races, 0);
    assert_int_equal(stats.limits, 0); /* whether one seems to hang is a matter of what else the machine does */
    assert_non_null(strstr(rejection, "4096 bytes of a work-item's registers"));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(plain[i] - tuned[i] < 1e-5f && tuned[i] - plain[i] < 1e-5f);
    tune_store *store = open_device_store(device, environment);
    assert_null(find_store_record(store, RECORD_BAD, NULL));
    assert_non_null(find_store_record(store, RECORD_WIN, NULL));
    tuff__store_close(store);
    char line[1024];
    uint64_t told = 0;
    FILE *log = fopen(log_path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log))
        told += strstr(line, "\tspills\t0\t0\t") != NULL;
    (void)fclose(log);
    assert_true(told == stats.spills);
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
