/* Products of few rows in the kernels of GPUs, with operands of 16 bits that are loaded sixteen bytes at a time where
   pitch and offset of the matrix allow, and otherwise in smaller parts. All sums are exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "configured_plan.h"
#include "device/state.h"
#include "each_device.h"
#include "ops/ops.h"
#include "small_plans.h"

/* turned: the terms of a column of y are contiguous. y is the part of a larger matrix behind `before` elements of each
   of its lines; `after` elements follow. x_pairs, y_pairs: whether eight elements are loaded at a time. */
typedef struct thin_case {
    int rows, columns, inner;
    bool turned;
    tuff_dtype x, y;
    int before, after;
    bool x_pairs, y_pairs;
} thin_case;

static const thin_case cases[] = {
    {1, 72, 136, false, TUFF_F16, TUFF_F16, 0, 0, true, true},
    {1, 264, 131, false, TUFF_BF16, TUFF_BF16, 0, 0, true, true},
    {2, 72, 136, false, TUFF_F16, TUFF_BF16, 8, 16, true, true},
    {3, 40, 200, false, TUFF_BF16, TUFF_F16, 0, 0, false, true},
    {4, 40, 129, false, TUFF_F16, TUFF_F16, 0, 8, false, true},
    {5, 40, 136, false, TUFF_F16, TUFF_F16, 0, 0, false, false},
    {1, 72, 131, false, TUFF_F32, TUFF_F16, 0, 0, false, true},
    {1, 72, 139, false, TUFF_F16, TUFF_F32, 0, 0, true, false},
    {1, 68, 136, false, TUFF_F16, TUFF_F16, 0, 0, true, false},
    {1, 71, 136, false, TUFF_BF16, TUFF_BF16, 0, 0, true, false},
    {1, 72, 136, false, TUFF_F16, TUFF_F16, 4, 4, true, false},
    {1, 72, 136, false, TUFF_F16, TUFF_F16, 3, 5, true, false},
    {1, 72, 136, false, TUFF_F16, TUFF_F16, 0, 4, true, false},
    {1, 37, 264, true, TUFF_F16, TUFF_F16, 0, 0, true, true},
    {2, 37, 136, true, TUFF_BF16, TUFF_BF16, 8, 0, true, true},
    {1, 64, 1033, true, TUFF_BF16, TUFF_BF16, 0, 7, true, true},
    {2, 18, 131, true, TUFF_F16, TUFF_F16, 0, 5, false, true},
    {3, 37, 136, true, TUFF_F16, TUFF_BF16, 0, 0, true, true},
    {4, 37, 264, true, TUFF_F32, TUFF_F16, 0, 0, false, true},
    {1, 37, 264, true, TUFF_F16, TUFF_F32, 0, 0, true, false},
    {1, 37, 136, true, TUFF_F16, TUFF_F16, 4, 4, true, false},
    {1, 37, 131, true, TUFF_BF16, TUFF_BF16, 0, 0, true, false},
};

static tuff_tensor *widened(tuff_tensor *x)
{
    return tuff_tensor_dtype(x) == TUFF_F32 ? x : tuff_cast(x, TUFF_F32);
}

static void build(const thin_case *one, tuff_graph *graph)
{
    const int64_t lines = one->turned ? one->columns : one->inner, length = one->turned ? one->inner : one->columns;
    tuff_tensor *x = tuff_input(graph, "x", one->x, TUFF_SHAPE(one->rows, one->inner));
    tuff_tensor *y = tuff_input(graph, "y", one->y, TUFF_SHAPE(lines, one->before + length + one->after));
    y = tuff_slice(y, (int64_t[]){0, one->before}, (int64_t[]){lines, one->before + length}, (int64_t[]){1, 1});
    if (one->turned)
        y = tuff_permute(y, (int[]){1, 0});
    tuff_output(graph, "z", tuff_matmul(widened(x), widened(y)));
}

/* Writes multiples of an eighth between -1 and 1 and returns them. */
static double *fill(tuff_plan *plan, const char *name, tuff_dtype dtype, size_t count, uint32_t factor)
{
    double *numbers = malloc(count * sizeof *numbers);
    void *bytes = malloc(count * tuff_dtype_size(dtype));
    assert_true(numbers && bytes);
    for (size_t i = 0; i < count; i++)
        numbers[i] = ((double)(((uint32_t)i * factor + 12345u) * 2654435761u >> 28) - 8) / 8;
    tuff__from_double(dtype, numbers, (int64_t)count, bytes);
    assert_int_equal(tuff_plan_write(plan, name, bytes, count * tuff_dtype_size(dtype)), TUFF_OK);
    free(bytes);
    return numbers;
}

static void compare(const thin_case *one, tuff_plan *plan, const char *device)
{
    const int lines = one->turned ? one->columns : one->inner, length = one->turned ? one->inner : one->columns;
    const int pitch = one->before + length + one->after;
    double *x = fill(plan, "x", one->x, (size_t)(one->rows * one->inner), 7919);
    double *y = fill(plan, "y", one->y, (size_t)(lines * pitch), 104729);
    float *z = malloc((size_t)(one->rows * one->columns) * sizeof *z);
    assert_non_null(z);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "z", z, (size_t)(one->rows * one->columns) * sizeof *z), TUFF_OK);
    for (int i = 0; i < one->rows * one->columns; i++) {
        const int row = i / one->columns, column = i % one->columns;
        double sum = 0;
        for (int k = 0; k < one->inner; k++)
            sum += x[row * one->inner + k] * y[one->before + (one->turned ? column * pitch + k : k * pitch + column)];
        if ((double)z[i] != sum)
            fail_msg("%s, case %d: element %d is %.9g, not %.9g", device, (int)(one - cases), i, (double)z[i], sum);
    }
    free(x);
    free(y);
    free(z);
}

static void check_case(tuff_device *device, const thin_case *one, const char *config_text)
{
    const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};
    tune_config config;
    char x_pairs[32], y_pairs[32];
    snprintf(x_pairs, sizeof x_pairs, "#define A_PAIRS %d\n", one->x_pairs);
    snprintf(y_pairs, sizeof y_pairs, "#define B_PAIRS %d\n", one->y_pairs);
    assert_int_equal(tuff__config_parse(config_text, &config), TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    build(one, graph);
    tuff_plan *plan = compile_configured(graph, &local, TASK_MATMUL, &config);
    if (!plan)
        fail_msg("%s, case %d: %s", device->info.selector, (int)(one - cases), tuff_error());
    assert_true(uses_kernel(plan, "matmul_gemv_local", "#define MANY_VALUES\n"));
    if (!uses_kernel(plan, "matmul_gemv_local", x_pairs) || !uses_kernel(plan, "matmul_gemv_local", y_pairs))
        fail_msg("%s, case %d: expected %s and %s", device->info.selector, (int)(one - cases), x_pairs, y_pairs);
    compare(one, plan, device->info.selector);
    destroy_plan(plan, graph);
}

static void check_device(tuff_device *device)
{
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        if (is_drawn_for_device(device, i))
            check_case(device, &cases[i], "");
}

/* Groups of few and of many lanes side by side, down to one for all terms. */
static void check_configurations(tuff_device *device)
{
    static const char *const configs[] = {
        "matmul_gemv_local.lane_columns=1;matmul_gemv_local.lane_dots=4;matmul_gemv_local.local_size=32",
        "matmul_gemv_local.lane_columns=32;matmul_gemv_local.lane_dots=32;matmul_gemv_local.local_size=32",
        "matmul_gemv_local.lane_columns=16;matmul_gemv_local.lane_dots=2;matmul_gemv_local.local_size=256"};
    for (int i = 0; i < 6; i++)
        if (is_drawn_for_device(device, i))
            check_case(device, &cases[i < 3 ? 0 : 13], configs[i % 3]);
}

/* A matrix of which groups of 64 columns are enough for the device has such groups, and another one twice as many. */
static void check_groups(tuff_device *device)
{
    enum { COLUMNS = 512, INNER = 256 };
    const tuff_compile_options local = {.family = TUFF_FAMILY_LOCAL};
    const uint32_t units = device->info.compute_units;
    for (uint32_t few = 0; few < 2; few++) {
        device->info.compute_units = few ? 1 : 64;
        tuff_graph *graph = tuff_graph_create(device);
        assert_non_null(graph);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(1, INNER));
        tuff_tensor *y = tuff_input(graph, "y", TUFF_F16, TUFF_SHAPE(INNER, COLUMNS));
        tuff_output(graph, "z", tuff_matmul(x, y));
        tuff_plan *plan = lower_configured(graph, &local, TASK_MATMUL, NULL);
        assert_non_null(plan);
        assert_true(uses_kernel(plan, "matmul_gemv_local", few ? "LANE_COLUMNS 8\n" : "LANE_COLUMNS 4\n"));
        for (int i = 0; i < plan->executable.launches.launch_count; i++)
            if (strcmp(plan->executable.launches.launches[i].body, "matmul_gemv_local") == 0)
                assert_int_equal(plan->executable.launches.launches[i].groups, few ? COLUMNS / 64 : COLUMNS / 32);
        destroy_plan(plan, graph);
    }
    device->info.compute_units = units;
}

static void narrow_operands_are_read_in_pairs(void **unused)
{
    (void)unused;
    for_each_driver(check_device);
}

static void pairs_suit_every_group(void **unused)
{
    (void)unused;
    for_each_driver(check_configurations);
}

static void groups_fill_the_device(void **unused)
{
    (void)unused;
    for_each_driver(check_groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(narrow_operands_are_read_in_pairs),
                                       cmocka_unit_test(pairs_suit_every_group),
                                       cmocka_unit_test(groups_fill_the_device)};
    return cmocka_run_group_tests_name("thin_matmul", tests, use_fresh_cache, drop_cache);
}
