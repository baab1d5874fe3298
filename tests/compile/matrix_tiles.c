/* Which kernels for matrix units, and which tiles, matmuls get on a device that is described as a GPU. Nothing is
   compiled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "configured_plan.h"
#include "device/state.h"
#include "each_device.h"
#include "gpu_description.h"
#include "kernels/tunables.h"
#include "tuff.h"

enum { BOTH_SIZES = 128 + 256 };

/* x of rows by inner times y of inner by columns; each may be transposed in memory. Lines of x have `pad` more
   elements, and x begins `start` elements after the start of its input. */
typedef struct product {
    int64_t rows, inner, columns;
    bool x_turned, y_turned;
    int64_t pad, start;
    tuff_dtype dtype;
    bool in_f32; /* x is f32, rounded as it is loaded */
} product;

static tuff_tensor *input_of(tuff_graph *graph, const char *name, tuff_dtype dtype, tuff_shape shape)
{
    tuff_tensor *made = tuff_input(graph, name, dtype, shape);
    return dtype == TUFF_F32 ? made : tuff_cast(made, TUFF_F32);
}

static tuff_graph *build(tuff_device *device, const product *one)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    const int64_t lines = one->x_turned ? one->inner : one->rows, width = one->x_turned ? one->rows : one->inner;
    const tuff_dtype x_dtype = one->in_f32 ? TUFF_F32 : one->dtype;
    tuff_tensor *x = input_of(graph, "x", x_dtype, TUFF_SHAPE(lines, width + one->pad));
    if (one->pad > 0)
        x = tuff_slice(x, (int64_t[]){0, one->start}, (int64_t[]){lines, one->start + width}, (int64_t[]){1, 1});
    tuff_tensor *y =
        input_of(graph, "y", one->dtype,
                 one->y_turned ? TUFF_SHAPE(one->columns, one->inner) : TUFF_SHAPE(one->inner, one->columns));
    x = one->x_turned ? tuff_permute(x, (int[]){1, 0}) : x;
    y = one->y_turned ? tuff_permute(y, (int[]){1, 0}) : y;
    tuff_output(graph, "z", tuff_matmul(x, y));
    return graph;
}

static tuff_plan *lower(tuff_graph *graph, const product *one, const tune_config *config)
{
    const tuff_compile_options options = {.matmul_precision =
                                              one->dtype == TUFF_BF16 ? TUFF_PRECISION_BF16 : TUFF_PRECISION_F16};
    return lower_configured(graph, &options, TASK_MATMUL, config);
}

static bool takes_groups(tuff_device *device, const product *one)
{
    tuff_graph *graph = build(device, one);
    tuff_plan *plan = lower(graph, one, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    const bool by_group = uses_body(plan, "matmul_workgroup"), by_subgroups = uses_body(plan, "matmul_cooperative");
    assert_int_equal(by_group + by_subgroups, 1);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return by_group;
}

/* Describes the device as a GPU whose work-groups of these sizes share units; in OpenCL C there are no such. */
static bool describe_with_groups(tuff_device *device, uint32_t sizes, uint32_t sizes_bf16)
{
    describe_as_gpu(device);
    device->info.matrix_group_sizes = sizes;
    device->info.matrix_group_sizes_bf16 = sizes_bf16;
    return tuff__device_takes_glsl(device);
}

static void check_forms(tuff_device *device)
{
    static const struct {
        product of;
        bool by_group;
    } given[] = {{{256, 256, 256, .dtype = TUFF_F16}, true},
                 {{256, 256, 256, .x_turned = true, .y_turned = true, .dtype = TUFF_F16}, true},
                 {{256, 256, 256, .dtype = TUFF_BF16}, true},
                 {{99, 77, 55, .y_turned = true, .dtype = TUFF_F16}, true}, /* edges, and lines of any length */
                 {{256, 250, 256, .pad = 13, .start = 8, .dtype = TUFF_F16}, true},
                 {{256, 250, 256, .pad = 13, .start = 4, .dtype = TUFF_F16}, false}, /* not at 16 bytes */
                 {{256, 256, 256, .dtype = TUFF_F16, .in_f32 = true}, false},
                 {{16, 256, 256, .dtype = TUFF_F16}, false},
                 {{256, 256, 32, .dtype = TUFF_F16}, false}};
    const tuff_device_info before = device->info;
    const bool has_groups = describe_with_groups(device, BOTH_SIZES, BOTH_SIZES);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (takes_groups(device, &given[i].of) != (has_groups && given[i].by_group))
            fail_msg("%s: %lld x %lld x %lld, case %zu", before.selector, (long long)given[i].of.rows,
                     (long long)given[i].of.inner, (long long)given[i].of.columns, i);
    /* Each dtype needs groups of its own. */
    (void)describe_with_groups(device, BOTH_SIZES, 0);
    assert_int_equal(takes_groups(device, &given[0].of), has_groups);
    assert_false(takes_groups(device, &given[2].of));
    (void)describe_with_groups(device, 0, BOTH_SIZES);
    assert_false(takes_groups(device, &given[0].of));
    device->info = before;
}

static void groups_share_units_where_operands_allow(void **unused)
{
    (void)unused;
    for_each_api(check_forms);
}

/* Lowers a product of 4096 by 4096 with a tile. Returns the items of a group, or 0 if the tile is refused. */
static uint32_t items_of(tuff_device *device, int rows, int columns, int enabled)
{
    static const product large = {4096, 4096, 4096, .dtype = TUFF_F16};
    tune_config config = {.set = {0}};
    uint32_t items = 0;
    tuff__config_set(&config, TUNABLE_matmul_workgroup_enabled, enabled);
    tuff__config_set(&config, TUNABLE_matmul_workgroup_block_rows, rows);
    tuff__config_set(&config, TUNABLE_matmul_workgroup_block_columns, columns);
    tuff_graph *graph = build(device, &large);
    tuff_plan *plan = lower(graph, &large, &config);
    if (!plan)
        assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
    else
        assert_int_equal(uses_body(plan, "matmul_workgroup"), enabled);
    if (plan)
        items = plan->executable.launches.launches[0].local_size;
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return items;
}

static void check_sizes(tuff_device *device)
{
    const tuff_device_info before = device->info;
    if (!describe_with_groups(device, BOTH_SIZES, 0)) {
        device->info = before;
        leave_out_device("work-groups share units in GLSL alone");
        return;
    }
    assert_int_equal(items_of(device, 128, 128, 1), 256);
    assert_int_equal(items_of(device, 128, 256, 1), 256);
    assert_int_equal(items_of(device, 64, 128, 1), 128);
    assert_int_equal(items_of(device, 256, 256, 1), 0);
    assert_true(items_of(device, 128, 128, 0) > 0);
    (void)describe_with_groups(device, 128, 0);
    assert_int_equal(items_of(device, 128, 128, 1), 128);
    assert_int_equal(items_of(device, 128, 256, 1), 0);
    (void)describe_with_groups(device, 256, 0);
    assert_int_equal(items_of(device, 32, 64, 1), 256);
    device->info = before;
}

static void groups_are_as_large_as_their_tiles_need(void **unused)
{
    (void)unused;
    for_each_api(check_sizes);
}

/* A band has about as many rows of tiles as the groups that run at a time have columns. */
static void check_bands(tuff_device *device)
{
    static const struct {
        uint32_t units;
        int64_t band;
    } expected[] = {{2, 4}, {60, 8}, {132, 16}, {512, 32}};
    static const product large = {4096, 4096, 4096, .dtype = TUFF_F16};
    const tuff_device_info before = device->info;
    for (size_t i = 0; i < 2 * sizeof expected / sizeof *expected; i++) {
        const bool by_group = describe_with_groups(device, i % 2 ? BOTH_SIZES : 0, 0) && i % 2;
        device->info.compute_units = expected[i / 2].units;
        tuff_graph *graph = build(device, &large);
        tuff_plan *plan = lower(graph, &large, NULL);
        assert_non_null(plan);
        const launch_list *list = &plan->executable.launches;
        assert_int_equal(list->launch_count, 1);
        assert_string_equal(list->launches[0].body, by_group ? "matmul_workgroup" : "matmul_cooperative");
        assert_int_equal(list->launches[0].parameters[6], expected[i / 2].band);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
    device->info = before;
}

static void groups_run_in_bands(void **unused)
{
    (void)unused;
    for_each_api(check_bands);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_share_units_where_operands_allow),
                                       cmocka_unit_test(groups_are_as_large_as_their_tiles_need),
                                       cmocka_unit_test(groups_run_in_bands)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
