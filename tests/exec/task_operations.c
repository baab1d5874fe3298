/* The number of floating-point operations that tasks report, with and without fusion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

enum { ROWS = 13, COLUMNS = 31, ALL = ROWS * COLUMNS };

static tuff_tensor *matrix(tuff_graph *graph, const char *name)
{
    return tuff_input(graph, name, TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS));
}

static tuff_tensor *build_map(tuff_graph *graph)
{
    return tuff_mul(tuff_exp(matrix(graph, "x")), matrix(graph, "y"));
}

static tuff_tensor *build_multiply_add(tuff_graph *graph)
{
    return tuff_fma(matrix(graph, "x"), matrix(graph, "y"), matrix(graph, "z"));
}

/* Counts as many exponentials as a row has elements, however often a kernel computes them. */
static tuff_tensor *build_spread(tuff_graph *graph)
{
    return tuff_mul(tuff_exp(tuff_input(graph, "row", TUFF_F32, TUFF_SHAPE(COLUMNS))), matrix(graph, "x"));
}

static tuff_tensor *build_sum(tuff_graph *graph, int axis)
{
    tuff_tensor *x = matrix(graph, "x");
    return tuff_sum(tuff_mul(x, x), &axis, 1, false);
}

static tuff_tensor *build_row_sum(tuff_graph *graph)
{
    return build_sum(graph, 1);
}

static tuff_tensor *build_column_sum(tuff_graph *graph)
{
    return build_sum(graph, 0);
}

static tuff_tensor *build_scan(tuff_graph *graph)
{
    return tuff_cumsum(matrix(graph, "x"), 1);
}

static tuff_tensor *build_integers(tuff_graph *graph)
{
    tuff_tensor *x = tuff_input(graph, "i", TUFF_I32, TUFF_SHAPE(ROWS, COLUMNS));
    return tuff_add(tuff_mul(x, x), x);
}

static tuff_tensor *build_selection(tuff_graph *graph)
{
    tuff_tensor *x = matrix(graph, "x"), *y = matrix(graph, "y");
    return tuff_cast(tuff_where(tuff_less(x, y), matrix(graph, "z"), y), TUFF_I32);
}

static tuff_tensor *build_matmul(tuff_graph *graph)
{
    return tuff_matmul(matrix(graph, "x"), tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(COLUMNS, ROWS)));
}

static const struct {
    tuff_tensor *(*build)(tuff_graph *graph);
    double operations;
} cases[] = {
    {build_map, 2 * ALL},     {build_multiply_add, 2 * ALL}, {build_spread, ALL + COLUMNS},
    {build_row_sum, 2 * ALL}, {build_column_sum, 2 * ALL},   {build_scan, ALL},
    {build_integers, 0},      {build_selection, 0},          {build_matmul, 2.0 * ALL *ROWS},
};

static double operations_of(tuff_device *device, tuff_tensor *(*build)(tuff_graph *graph), tuff_fuse_mode fuse)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "out", build(graph));
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.fuse = fuse});
    tuff_plan_info info;
    double sum = 0;
    if (!plan || tuff_plan_describe(plan, &info) != TUFF_OK)
        fail_msg("%s", tuff_error());
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
        sum += task.operations;
    }
    destroy_plan(plan, graph);
    return sum;
}

static void check_cases(tuff_device *device)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int fuse = 0; fuse < 2; fuse++) {
            const tuff_fuse_mode mode = fuse ? TUFF_FUSE_ALL : TUFF_FUSE_NONE;
            const double sum = operations_of(device, cases[i].build, mode);
            if (sum != cases[i].operations)
                fail_msg("case %zu %s fusion: %g operations, not %g", i, fuse ? "with" : "without", sum,
                         cases[i].operations);
        }
}

static void every_kind_of_task_counts_its_operations(void **state)
{
    (void)state;
    for_drawn_drivers(check_cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_of_task_counts_its_operations)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
