/* The steps of an unrolled loop that differ in constants only share their kernels: the constant becomes a parameter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tuff.h>
#include <tuff/profile.h>

#include "each_device.h"

/* Returns the number of distinct kernels in `count` steps of x = dropout(x · w). */
static int count_programs(tuff_device *device, int count)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(5, 8));
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(8, 8));
    for (int i = 0; i < count; i++)
        x = tuff_dropout(tuff_matmul(x, w), 0.5);
    tuff_output(graph, "x", x);
    tuff_plan *plan = tuff_compile(graph, NULL);
    tuff_plan_info info = {0};
    assert_non_null(plan);
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    assert_true(info.matmul_count == count);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return info.program_count;
}

static void share_dropouts(tuff_device *device)
{
    assert_int_equal(count_programs(device, 7), count_programs(device, 4));
}

static void dropouts_share_a_kernel(void **state)
{
    (void)state;
    for_drawn_drivers(share_dropouts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dropouts_share_a_kernel)};
    return cmocka_run_group_tests_name("unrolled", tests, use_fresh_cache, drop_cache);
}
