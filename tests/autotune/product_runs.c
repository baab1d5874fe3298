/* Compiles small plans in different ways and compares their results: see product_runs.h. */
#include "product_runs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "small_plans.h"

static tuff_tune_stats run(tuff_device *device, const tuff_compile_options *options, bool softmax, product_result *out)
{
    tuff_tune_stats stats;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INNER)),
                *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS)), *y = tuff_matmul(x, w);
    tuff_output(graph, "y", softmax ? tuff_softmax(y, -1) : y);
    tuff_plan *plan = tuff_compile(graph, options);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_tune_stats(plan, &stats), TUFF_OK);
    write_steps(plan, "x", ROWS * INNER, 13, 8);
    write_steps(plan, "w", INNER * COLUMNS, 11, 16);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", out->y, sizeof out->y), TUFF_OK);
    destroy_plan(plan, graph);
    return stats;
}

tuff_tune_stats run_product(tuff_device *device, const tuff_compile_options *options, product_result *out)
{
    return run(device, options, false, out);
}

tuff_tune_stats run_softmax_of_product(tuff_device *device, const tuff_compile_options *options, product_result *out)
{
    return run(device, options, true, out);
}

bool are_close(const product_result *a, const product_result *b)
{
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (!(fabsf(a->y[i] - b->y[i]) <= 1e-5f))
            return false;
    return true;
}
