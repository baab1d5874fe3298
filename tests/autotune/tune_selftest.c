/* A compiler that never returns from the self-test of the device on which candidates run: nothing is measured, and the
   plan is compiled as if no tuning had been requested. This is a separate program, because its process tunes no more.
   OpenCL's calls are replaced for that. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "opencl_replaced.h"
#include "autotune/session.h"
#include "small_plans.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL

enum { SIDE = 32 };

/* Checks the product of a matrix of ones and one whose elements are their column numbers. */
static void expect_product(tuff_plan *plan)
{
    float x[SIDE * SIDE], w[SIDE * SIDE], y[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        x[i] = 1;
        w[i] = (float)(i % SIDE);
    }
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "w", w, sizeof w), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", y, sizeof y), TUFF_OK);
    for (int i = 0; i < SIDE * SIDE; i++)
        assert_true(y[i] == (float)(SIDE * (i % SIDE)));
}

static tuff_tune_stats compile_and_run(tuff_device *device)
{
    const tuff_compile_options quick = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 4000}};
    tuff_tune_stats stats;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SIDE, SIDE)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(SIDE, SIDE));
    tuff_output(graph, "y", tuff_matmul(x, w));
    tuff_plan *plan = tuff_compile(graph, &quick);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    expect_product(plan);
    destroy_plan(plan, graph);
    return stats;
}

static void a_self_test_that_hangs_is_left(void **state)
{
    (void)state;
    char folder[600];
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    /* With another cache folder the second device does not find the self-test record of the first, and runs the
       self-test. */
    (void)snprintf(folder, sizeof folder, "%s/empty", cache_folder());
    assert_int_equal(setenv("TUFF_CACHE_DIR", folder, 1), 0);
    block_creation(1, "");
    tuff__compile_timeout = 1500000000;
    const uint64_t begin = tuff__nanoseconds();
    const tuff_tune_stats stats = compile_and_run(device);
    const double seconds = (double)(tuff__nanoseconds() - begin) * 1e-9;
    print_message("returned after %.1f s\n", seconds);
    assert_true(seconds >= 1.5 && seconds < 60);
    assert_int_equal(stats.compiles, 0);
    assert_int_equal(stats.launches, 0);
    assert_true(count_creations() >= 2);
    assert_int_equal(compile_and_run(device).measured, 0);
    release_creation();
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_self_test_that_hangs_is_left)};
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}

#else

int main(void)
{
    puts("built without OpenCL");
    return 77;
}

#endif
