/* A compiler that takes longer for a default than the tuner waits for any candidate: this process measures nothing
   more, but the default is not blamed, and the plan uses it in any case. OpenCL's calls are replaced for that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "opencl_replaced.h"
#include "autotune/session.h"
#include "small_plans.h"
#include "tune_fixture.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL

/* Enough for the tuner to learn how long compilations take here before the row's turn comes. */
enum { PRODUCTS = 12, INNER = 16, COLUMNS = 32, LONG = 64 };

static tuff_plan *compile(tuff_graph *graph, uint32_t milliseconds)
{
    char name[16];
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS));
    for (int i = 0; i < PRODUCTS; i++) {
        (void)snprintf(name, sizeof name, "x%d", i);
        tuff_tensor *x = tuff_input(graph, name, TUFF_F32, TUFF_SHAPE(8 + i, INNER));
        name[0] = 'y';
        tuff_output(graph, name, tuff_matmul(x, w));
    }
    tuff_output(graph, "z", tuff_softmax(tuff_input(graph, "r", TUFF_F32, TUFF_SHAPE(8, LONG)), -1));
    const tuff_compile_options options = {
        .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = milliseconds}};
    tuff_plan *plan = tuff_compile(graph, &options);
    if (!plan)
        fail_msg("%s", tuff_error());
    return plan;
}

static void a_default_is_not_given_up_for_good(void **state)
{
    (void)state;
    enum { BUDGET = 20000 }; /* enough for all products before it, on busy machines too */
    static float out[8 * LONG];
    char environment[ENVIRONMENT_SIZE];
    tuff_tune_stats stats;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    block_creation(1, "tuff_row");
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile(graph, BUDGET);
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    assert_int_equal(stats.hangs, 1);
    tune_store *store = open_device_store(device, environment);
    assert_null(find_store_record(store, RECORD_REJECTION, NULL));
    tuff__store_close(store);
    write_steps(plan, "r", 8 * LONG, 5, 8);
    write_steps(plan, "w", INNER * COLUMNS, 11, 16);
    for (int i = 0; i < PRODUCTS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "x%d", i);
        write_steps(plan, name, (8 + i) * INNER, 13, 8);
    }
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "z", out, sizeof out), TUFF_OK);
    double sum = 0;
    for (int i = 0; i < 8 * LONG; i++)
        sum += out[i];
    assert_true(sum > 7.999 && sum < 8.001);
    destroy_plan(plan, graph);
    release_creation();
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_default_is_not_given_up_for_good, use_empty_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;
}

#endif
