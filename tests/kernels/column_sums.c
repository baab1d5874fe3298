/* Reductions over outer axes in the kernels of GPUs, whose lanes own four neighbouring columns if the number of columns
   is a multiple of four, against the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "configured_plan.h"
#include "differential.h"
#include "each_device.h"

/* The first `skipped` columns of x are left out, so that those that remain may not be aligned. */
typedef struct column_graph {
    const char *name;
    void (*reduce)(tuff_graph *graph, tuff_tensor *x, int axis);
    tuff_dtype dtype;
    tuff_shape shape;
    int axis, skipped, lanes; /* lanes: of the vectors of columns */
} column_graph;

static void add_sums(tuff_graph *graph, tuff_tensor *x, int axis)
{
    add_output(graph, tuff_sum(x, &axis, 1, false));
}

static void add_sums_and_largest(tuff_graph *graph, tuff_tensor *x, int axis)
{
    add_output(graph, tuff_sum(tuff_mul(x, x), &axis, 1, false));
    add_output(graph, tuff_reduce_max(x, &axis, 1, false));
    add_output(graph, tuff_sum(tuff_exp(x), &axis, 1, false));
}

/* Two passes: the second one needs the first one's sums. */
static void add_variances(tuff_graph *graph, tuff_tensor *x, int axis)
{
    add_output(graph, tuff_variance(x, &axis, 1, false, 0));
}

/* Operands that vary only along the columns, only along the reduced axis, and along neither. */
static void add_weighted(tuff_graph *graph, tuff_tensor *x, int axis)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    const int64_t rows = shape.extent[axis], columns = shape.extent[shape.rank - 1];
    tuff_tensor *of_columns = float_input(graph, TUFF_SHAPE(columns)),
                *of_rows = float_input(graph, TUFF_SHAPE(rows, 1));
    tuff_tensor *one = float_input(graph, TUFF_SHAPE(1));
    add_output(graph, tuff_sum(tuff_add(tuff_mul(tuff_mul(x, of_columns), of_rows), one), &axis, 1, false));
}

static void build(tuff_graph *graph, const void *context)
{
    const column_graph *made = context;
    tuff_shape whole = made->shape;
    int64_t start[TUFF_MAX_RANK] = {0}, step[TUFF_MAX_RANK];
    const int last = whole.rank - 1;
    whole.extent[last] += made->skipped;
    start[last] = made->skipped;
    for (int i = 0; i < whole.rank; i++)
        step[i] = 1;
    tuff_tensor *x = ranged_input(graph, made->dtype, whole, -1, 1);
    x = made->skipped > 0 ? tuff_slice(x, start, whole.extent, step) : x;
    made->reduce(graph, made->dtype == TUFF_F32 ? x : tuff_cast(x, TUFF_F32), made->axis);
}

static const column_graph graphs[] = {
    {"sums", add_sums, TUFF_F32, {.rank = 2, .extent = {300, 68}}, 0, 0, 4},
    {"sums of few rows", add_sums, TUFF_F32, {.rank = 2, .extent = {7, 4}}, 0, 0, 4},
    {"sums of odd columns", add_sums, TUFF_F32, {.rank = 2, .extent = {300, 67}}, 0, 0, 1},
    {"sums of unaligned columns", add_sums, TUFF_F32, {.rank = 2, .extent = {300, 36}}, 0, 3, 4},
    {"sums of f16", add_sums, TUFF_F16, {.rank = 2, .extent = {129, 132}}, 0, 0, 4},
    {"sums of unaligned bf16", add_sums, TUFF_BF16, {.rank = 2, .extent = {129, 36}}, 0, 2, 4},
    {"sums of a middle axis", add_sums, TUFF_F32, {.rank = 3, .extent = {5, 67, 36}}, 1, 0, 4},
    {"several", add_sums_and_largest, TUFF_F32, {.rank = 2, .extent = {211, 40}}, 0, 0, 4},
    {"several, odd", add_sums_and_largest, TUFF_F32, {.rank = 2, .extent = {211, 41}}, 0, 0, 1},
    {"two passes", add_variances, TUFF_F32, {.rank = 2, .extent = {83, 72}}, 0, 0, 4},
    {"two passes, unaligned", add_variances, TUFF_F32, {.rank = 2, .extent = {83, 36}}, 0, 1, 4},
    {"weighted", add_weighted, TUFF_F32, {.rank = 2, .extent = {83, 72}}, 0, 0, 4},
};

static const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};

static void expect_lanes(tuff_device *device, const column_graph *one)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    build(graph, one);
    tuff_plan *plan = lower_configured(graph, &local, TASK_COLUMN, NULL);
    assert_non_null(plan);
    assert_true(uses_body(plan, "column_local"));
    assert_int_equal(uses_kernel(plan, "column_local", "#define MANY_VALUES\n"), one->lanes > 1);
    for (int i = 0; i < plan->executable.launches.launch_count; i++)
        if (strcmp(plan->executable.launches.launches[i].body, "column_local") == 0)
            assert_int_equal(plan->executable.launches.launches[i].vec, one->lanes);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void check_device(tuff_device *device)
{
    for (int i = 0; i < (int)(sizeof graphs / sizeof *graphs); i++) {
        differential graph;
        if (!is_drawn_for_device(device, i))
            continue;
        expect_lanes(device, &graphs[i]);
        differential_create(&graph, graphs[i].name, build, &graphs[i], (uint64_t)i);
        assert_int_equal(differential_run(&graph, device, &local), 0);
        differential_destroy(&graph);
    }
}

/* Groups of which every lane has a column of lanes to itself, and of many lanes for each. */
static void check_sizes(tuff_device *device)
{
    static const char *const configs[] = {"column_local.local_size=32", "column_local.local_size=256"};
    for (int i = 0; i < 2; i++) {
        float x[37 * 40], sums[40];
        tune_config config;
        assert_int_equal(tuff__config_parse(configs[i], &config), TUFF_OK);
        tuff_graph *graph = tuff_graph_create(device);
        assert_non_null(graph);
        tuff_output(graph, "y", tuff_sum(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(37, 40)), (int[]){0}, 1, false));
        tuff_plan *plan = compile_configured(graph, &local, TASK_COLUMN, &config);
        assert_non_null(plan);
        for (int k = 0; k < 37 * 40; k++)
            x[k] = (float)(k * 7919 % 251);
        assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
        assert_int_equal(tuff_plan_read(plan, "y", sums, sizeof sums), TUFF_OK);
        for (int column = 0; column < 40; column++) {
            float sum = 0;
            for (int row = 0; row < 37; row++)
                sum += x[row * 40 + column];
            assert_true(sums[column] == sum);
        }
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
}

static void lanes_own_vectors_of_columns(void **unused)
{
    (void)unused;
    for_each_driver(check_device);
}

static void groups_of_any_size_are_right(void **unused)
{
    (void)unused;
    for_each_driver(check_sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_own_vectors_of_columns),
                                       cmocka_unit_test(groups_of_any_size_are_right)};
    return cmocka_run_group_tests_name("column_sums", tests, use_fresh_cache, drop_cache);
}
