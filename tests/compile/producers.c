/* Elementwise ops that only an operand of a matmul reads are computed where the matmul loads it: all kinds of them, in
   every layout and kernel body, against the reference; that they are no separate tasks then, and when they remain
   tasks; weights that are precomputed once for many runs. TUFF_DEVICE selects one device; TUFF_SUITE=thorough leaves
   nothing out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/lower/lower.h"
#include "compile/rewrite/simplify.h"
#include "configured_plan.h"
#include "device/state.h"
#include "differential.h"
#include "each_device.h"
#include "exec/plan.h"
#include "kernels/tunables.h"
#include "small_plans.h"
#include "tuff.h"

static tuff_tensor *number(tuff_graph *graph, double value)
{
    return tuff_constant(graph, TUFF_F32, value);
}

static tuff_tensor *scaled(tuff_graph *graph, tuff_shape shape)
{
    return tuff_mul(float_input(graph, shape), number(graph, 0.75));
}

static tuff_tensor *masked(tuff_graph *graph, tuff_shape shape)
{
    tuff_tensor *mask = ranged_input(graph, TUFF_U8, shape, 0, 1), *scale = float_input(graph, TUFF_SHAPE(1));
    return tuff_mul(tuff_mul(float_input(graph, shape), tuff_cast(mask, TUFF_F32)), scale);
}

static tuff_tensor *chosen(tuff_graph *graph, tuff_shape shape)
{
    tuff_tensor *x = float_input(graph, shape), *y = float_input(graph, shape);
    return tuff_where(tuff_less(y, number(graph, 0.25)), x, number(graph, -2));
}

static tuff_tensor *activated(tuff_graph *graph, tuff_shape shape)
{
    return tuff_relu(tuff_add(float_input(graph, shape), float_input(graph, TUFF_SHAPE(shape.extent[shape.rank - 1]))));
}

static tuff_tensor *halves(tuff_graph *graph, tuff_shape shape)
{
    tuff_tensor *x = ranged_input(graph, TUFF_F16, shape, -1, 1);
    return tuff_mul(tuff_cast(x, TUFF_F32), number(graph, 0.3));
}

static tuff_tensor *brain_halves(tuff_graph *graph, tuff_shape shape)
{
    tuff_tensor *x = ranged_input(graph, TUFF_BF16, shape, -1, 1);
    return tuff_mul(tuff_cast(x, TUFF_F32), float_input(graph, shape));
}

/* Bytes with a scale per row. */
static tuff_tensor *quantised(tuff_graph *graph, tuff_shape shape)
{
    tuff_tensor *x = tuff_cast(ranged_input(graph, TUFF_I8, shape, -127, 127), TUFF_F32);
    shape.extent[shape.rank - 1] = 1;
    return tuff_mul(x, ranged_input(graph, TUFF_F32, shape, 0.001, 0.01));
}

static tuff_tensor *turned(tuff_tensor *x)
{
    const int rank = tuff_tensor_shape(x).rank;
    return tuff_permute(x, rank == 2 ? (int[]){1, 0} : (int[]){0, 2, 1});
}

static tuff_shape turned_shape(tuff_shape shape)
{
    const int64_t last = shape.extent[shape.rank - 1];
    shape.extent[shape.rank - 1] = shape.extent[shape.rank - 2];
    shape.extent[shape.rank - 2] = last;
    return shape;
}

static tuff_tensor *crossed(tuff_graph *graph, tuff_shape shape)
{
    return tuff_sub(float_input(graph, shape), turned(float_input(graph, turned_shape(shape))));
}

static tuff_tensor *causal(tuff_graph *graph, tuff_shape shape)
{
    tuff_tensor *row = tuff_iota(graph, shape, shape.rank - 2), *column = tuff_iota(graph, shape, shape.rank - 1);
    return tuff_where(tuff_less(row, column), number(graph, 0), float_input(graph, shape));
}

static tuff_tensor *padded(tuff_graph *graph, tuff_shape shape)
{
    int64_t before[3] = {0}, after[3] = {0};
    const int row = shape.rank - 2;
    tuff_shape inner = shape;
    for (int i = row; i < shape.rank; i++)
        if (shape.extent[i] > 8) {
            before[i] = i == row ? 2 : 3;
            after[i] = i == row ? 3 : 1;
            inner.extent[i] -= before[i] + after[i];
        }
    return tuff_mul(tuff_pad(float_input(graph, inner), before, after, 0.5), number(graph, 1.5));
}

static tuff_tensor *rounded(tuff_graph *graph, tuff_shape shape)
{
    return tuff_mul(tuff_cast(tuff_cast(float_input(graph, shape), TUFF_BF16), TUFF_F32), number(graph, 1.25));
}

static tuff_tensor *smooth(tuff_graph *graph, tuff_shape shape)
{
    return tuff_gelu(float_input(graph, shape));
}

static tuff_tensor *dropped(tuff_graph *graph, tuff_shape shape)
{
    return tuff_dropout(float_input(graph, shape), 0.25);
}

static tuff_tensor *looked_up(tuff_graph *graph, tuff_shape shape)
{
    const int row = shape.rank - 2;
    tuff_shape table = shape;
    table.extent[row] = 11;
    tuff_tensor *at = ranged_input(graph, TUFF_I32, TUFF_SHAPE(shape.extent[row]), 0, 10);
    return tuff_mul(tuff_gather_rows(float_input(graph, table), at, row), number(graph, 0.5));
}

static tuff_tensor *joined(tuff_graph *graph, tuff_shape shape)
{
    const int last = shape.rank - 1;
    tuff_shape half = shape, rest = shape;
    if (shape.extent[last] < 2)
        return scaled(graph, shape);
    half.extent[last] /= 2;
    rest.extent[last] -= half.extent[last];
    tuff_tensor *parts[] = {float_input(graph, half), float_input(graph, rest)};
    return tuff_abs(tuff_concat(parts, 2, last));
}

typedef tuff_tensor *(*producer)(tuff_graph *graph, tuff_shape shape);

static const producer producers[] = {scaled, masked, chosen,  activated, halves,  brain_halves, quantised, crossed,
                                     causal, padded, rounded, smooth,    dropped, looked_up,    joined};
enum { PRODUCERS = sizeof producers / sizeof producers[0], CHEAP = 5 };

typedef struct product_case {
    int64_t rows, columns, inner, batches;
    bool x_turned, y_turned;
    int first; /* index of the first producer; the others follow in order */
} product_case;

static tuff_tensor *operand(tuff_graph *graph, producer make, int64_t batches, int64_t rows, int64_t columns, bool turn)
{
    const tuff_shape shape = batches > 1 ? TUFF_SHAPE(batches, rows, columns) : TUFF_SHAPE(rows, columns);
    return turn ? turned(make(graph, turned_shape(shape))) : make(graph, shape);
}

/* Products with a producer for x and a plain y, the reverse, and producers for both. */
static void build_products(tuff_graph *graph, const void *context)
{
    const product_case *shapes = context;
    for (int i = 0; i < 3; i++) {
        const producer left = producers[(shapes->first + i) % PRODUCERS],
                       right = producers[(shapes->first + 2 * i) % PRODUCERS];
        tuff_tensor *x =
            operand(graph, i == 1 ? float_input : left, shapes->batches, shapes->rows, shapes->inner, shapes->x_turned);
        tuff_tensor *y = operand(graph, i == 0 ? float_input : right, shapes->batches, shapes->inner, shapes->columns,
                                 shapes->y_turned);
        tuff_tensor *product = tuff_matmul(x, y);
        add_output(graph,
                   i == 2 ? tuff_add(tuff_relu(product), float_input(graph, TUFF_SHAPE(shapes->columns))) : product);
    }
}

static const int64_t extents[][4] = {{20, 24, 18, 1}, {5, 70, 33, 1},  {37, 53, 29, 1}, {1, 130, 67, 1},
                                     {70, 3, 50, 1},  {17, 35, 19, 3}, {9, 1, 67, 1},   {64, 32, 48, 1}};
enum { SHAPES = sizeof extents / sizeof extents[0] };

static bool is_wanted(tuff_device *device)
{
    tuff_device_info info;
    const char *only = getenv("TUFF_DEVICE");
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    if (!only || !only[0] || strcmp(only, info.selector) == 0)
        return true;
    leave_out_device("TUFF_DEVICE names another");
    return false;
}

static int64_t failures;

static void check_products(tuff_device *device)
{
    static const tuff_compile_options families[] = {{.family = TUFF_FAMILY_REGISTER}, {.family = TUFF_FAMILY_LOCAL}};
    const bool thorough = is_thorough(), slow = !thorough && strcmp(tuff__device_language(device), "GLSL") == 0;
    for (int i = 0; i < SHAPES * 4 && is_wanted(device); i++) {
        if (!thorough && drawn_turn("products", i, slow ? 6 : 4) != 0)
            continue;
        const bool turn = is_drawn_for_device(device, i), is_local = drawn_turn("local kernels", i, 3) == 0;
        const int64_t *extent = extents[i / 4];
        const product_case one = {extent[0], extent[1], extent[2], extent[3], i % 2 == 1, i / 2 % 2 == 1, i * 3};
        differential graph;
        char name[80];
        snprintf(name, sizeof name, "%lldx%lldx%lld, layout %d, producers from %d", (long long)one.rows,
                 (long long)one.columns, (long long)one.inner, i % 4, one.first % PRODUCERS);
        differential_create(&graph, name, build_products, &one, (uint64_t)i + 1);
        for (int family = 0; family < 2; family++)
            if (thorough || (turn && family == is_local))
                failures += differential_run(&graph, device, &families[family]);
        const bool has_lanes = turn && drawn_turn("subgroups", i, 8) < 3;
        if (device->info.subgroup_shuffle && (thorough || has_lanes))
            failures += differential_run(&graph, device, &(tuff_compile_options){.family = TUFF_FAMILY_SUBGROUP});
        if (thorough || (turn && drawn_turn("unfused", i, 8) == 0))
            failures += differential_run(&graph, device, &(tuff_compile_options){.fuse = TUFF_FUSE_NONE});
        differential_destroy(&graph);
    }
}

static void every_producer_is_right(void **state)
{
    (void)state;
    failures = 0;
    for_each_driver(check_products);
    assert_int_equal(failures, 0);
}

/* Returns the number of tasks of a graph without compiling a program. */
static int tasks_of(tuff_graph *graph, const tuff_compile_options *options)
{
    struct fusion fusion;
    tuff_graph *simple = tuff__simplify(graph, false);
    assert_non_null(simple);
    assert_int_equal(tuff__fuse(simple, options, MAX_BINDINGS, NULL, &fusion), TUFF_OK);
    const int count = fusion.task_count;
    tuff__fusion_free(&fusion);
    tuff_graph_destroy(simple);
    return count;
}

/* Small operands: a separate dispatch would take longer than the recomputation. */
static void count_small_products(tuff_device *device)
{
    static const tuff_compile_options whole = {.fuse = TUFF_FUSE_ALL},
                                      register_family = {.family = TUFF_FAMILY_REGISTER},
                                      local_family = {.family = TUFF_FAMILY_LOCAL}, none = {.fuse = TUFF_FUSE_NONE};
    for (int i = 0; i < CHEAP * 4; i++)
        for (int y = 0; y < 2; y++) {
            tuff_graph *graph = tuff_graph_create(device);
            tuff_tensor *left = operand(graph, y ? float_input : producers[i / 4], 1, 6, 10, i % 2 == 1);
            tuff_tensor *right = operand(graph, y ? producers[i / 4] : float_input, 1, 10, 7, i / 2 % 2 == 1);
            tuff_output(graph, "result", tuff_matmul(left, right));
            assert_int_equal(tasks_of(graph, &whole), 1);
            assert_int_equal(tasks_of(graph, &register_family), 1);
            assert_int_equal(tasks_of(graph, &local_family), 1);
            assert_true(tasks_of(graph, &none) > 1);
            tuff_graph_destroy(graph);
        }
}

/* Matmuls without rows, columns, terms or batches, of which none has work that a choice could weigh. */
static void build_empty_products(tuff_graph *graph, const void *context)
{
    static const int64_t sizes[][4] = {{1, 0, 64, 64}, {1, 64, 0, 64}, {1, 64, 64, 0}, {0, 64, 64, 64}};
    (void)context;
    for (int i = 0; i < 4; i++) {
        const tuff_shape x = TUFF_SHAPE(sizes[i][0], sizes[i][1], sizes[i][3]);
        const tuff_shape y = TUFF_SHAPE(sizes[i][0], sizes[i][3], sizes[i][2]);
        add_output(graph, tuff_matmul(tuff_relu(float_input(graph, x)), float_input(graph, y)));
        add_output(graph, tuff_matmul(float_input(graph, x), tuff_relu(float_input(graph, y))));
    }
}

static void check_empty_products(tuff_device *device)
{
    differential graph;
    differential_create(&graph, "empty products", build_empty_products, NULL, 1);
    assert_int_equal(differential_run(&graph, device, NULL), 0);
    differential_destroy(&graph);
}

static void empty_products_have_producers(void **state)
{
    (void)state;
    for_drawn_drivers(check_empty_products);
}

static void a_producer_is_no_task(void **state)
{
    (void)state;
    for_drawn_drivers(count_small_products);
}

static void count_what_stays(tuff_device *device)
{
    tuff_device_info info;
    const tuff_compile_options all = {.fuse = TUFF_FUSE_ALL}, units = {.family = TUFF_FAMILY_COOPERATIVE};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = scaled(graph, TUFF_SHAPE(6, 10)), *y = float_input(graph, TUFF_SHAPE(10, 7));
    tuff_output(graph, "product", tuff_matmul(x, y));
    assert_int_equal(tasks_of(graph, &units), 2);
    tuff_output(graph, "also", x);
    assert_int_equal(tasks_of(graph, &all), 2);
    tuff_graph_destroy(graph);
    graph = tuff_graph_create(device);
    x = scaled(graph, TUFF_SHAPE(6, 10));
    tuff_output(graph, "first", tuff_matmul(x, float_input(graph, TUFF_SHAPE(10, 7))));
    tuff_output(graph, "second", tuff_matmul(float_input(graph, TUFF_SHAPE(4, 6)), x));
    assert_int_equal(tasks_of(graph, &all), 3);
    tuff_graph_destroy(graph);
    /* Each of the many tiles would recompute the activation; with more columns, x may be copied for them. */
    graph = tuff_graph_create(device);
    x = smooth(graph, TUFF_SHAPE(512, 768));
    tuff_output(graph, "result", tuff_matmul(x, float_input(graph, TUFF_SHAPE(768, 480))));
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    if (info.device_class == TUFF_DEVICE_CPU)
        assert_int_equal(tasks_of(graph, &(tuff_compile_options){.family = TUFF_FAMILY_REGISTER}), 2);
    tuff_graph_destroy(graph);
}

static void what_others_read_stays_a_task(void **state)
{
    (void)state;
    for_drawn_drivers(count_what_stays);
}

enum { LINES = 24, TERMS = 40, COLUMNS = 48 };

static void expect_product(tuff_plan *plan, const float *x, const uint16_t *w, float scale)
{
    static float result[LINES * COLUMNS];
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "y", result, sizeof result), TUFF_OK);
    for (int i = 0; i < LINES * COLUMNS; i++) {
        double sum = 0;
        for (int k = 0; k < TERMS; k++) /* bf16 is the upper half of an f32 */
        {
            const uint32_t bits = (uint32_t)w[k * COLUMNS + i % COLUMNS] << 16;
            float weight;
            memcpy(&weight, &bits, sizeof weight);
            sum += (double)x[i / COLUMNS * TERMS + k] * (double)weight * (double)scale;
        }
        assert_true(sum - 1e-3 < (double)result[i] && (double)result[i] < sum + 1e-3);
    }
}

/* Weights times a scale, both arrays: recomputed if either changes. */
static void change_weights(tuff_device *device)
{
    static float x[LINES * TERMS];
    static uint16_t w[TERMS * COLUMNS];
    float scale = 0.5f;
    if (!is_wanted(device))
        return;
    for (int i = 0; i < LINES * TERMS; i++)
        x[i] = (float)(i % 7 - 3) / 4;
    for (int i = 0; i < TERMS * COLUMNS; i++)
        w[i] = (uint16_t)(i % 3 == 0 ? 0x3f80 : i % 5 == 0 ? 0xbf00 : 0x3f20);
    tuff_array *weights = tuff_array_create(device, TUFF_BF16, TUFF_SHAPE(TERMS, COLUMNS));
    tuff_array *factor = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(1));
    assert_int_equal(tuff_array_write(weights, w, sizeof w), TUFF_OK);
    assert_int_equal(tuff_array_write(factor, &scale, sizeof scale), TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *wide = tuff_cast(tuff_array_tensor(graph, weights), TUFF_F32);
    wide = tuff_mul(wide, tuff_array_tensor(graph, factor));
    tuff_output(graph, "y", tuff_matmul(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(LINES, TERMS)), wide));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(count_tasks(plan, "map", NULL), 0);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    expect_product(plan, x, w, scale);
    scale = -1.25f;
    assert_int_equal(tuff_array_write(factor, &scale, sizeof scale), TUFF_OK);
    expect_product(plan, x, w, scale);
    for (int i = 0; i < TERMS; i++)
        w[i * COLUMNS + i] = 0x4000;
    assert_int_equal(tuff_array_write(weights, w, sizeof w), TUFF_OK);
    expect_product(plan, x, w, scale);
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
    tuff_array_destroy(factor);
}

static void finished_weights_follow_their_sources(void **state)
{
    (void)state;
    for_drawn_drivers(change_weights);
}

enum { MANY = 256, DEEP = 1100 };

/* Rows that map to few sets of a cache: x is copied to panels, too, unless the driver has another reason against it. */
static void copy_rows(tuff_device *device)
{
    static float x[DEEP * MANY], y[DEEP * MANY], result[MANY * MANY];
    if (!is_wanted(device))
        return;
    for (int i = 0; i < DEEP * MANY; i++) {
        x[i] = (float)(i % 17 - 8) / 8;
        y[i] = (float)(i % 7 - 3) / 4;
    }
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *left = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(DEEP, MANY));
    left = turned(tuff_add(tuff_mul(left, number(graph, 0.5)), number(graph, 1)));
    tuff_output(graph, "z", tuff_matmul(left, tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(DEEP, MANY))));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "y", y, sizeof y), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "z", result, sizeof result), TUFF_OK);
    if (strcmp(tuff__device_language(device), "GLSL") != 0 && device->info.device_class == TUFF_DEVICE_CPU)
        assert_int_equal(count_tasks(plan, "map", NULL), 0);
    for (int i = 0; i < MANY * MANY; i += 13) {
        double sum = 0;
        for (int k = 0; k < DEEP; k++)
            sum += (x[k * MANY + i / MANY] * 0.5 + 1) * (double)y[k * MANY + i % MANY];
        assert_true(sum - 0.01 < (double)result[i] && (double)result[i] < sum + 0.01);
    }
    destroy_plan(plan, graph);
}

static void rows_are_finished_in_their_copies(void **state)
{
    (void)state;
    for_drawn_drivers(copy_rows);
}

enum { SIDE = 24 };

/* Weights that the plan itself halves: the product uses their values at the start of the run. */
static void halve_weights(tuff_device *device)
{
    static float numbers[SIDE * SIDE], result[SIDE * SIDE];
    if (!is_wanted(device))
        return;
    for (int i = 0; i < SIDE * SIDE; i++)
        numbers[i] = (float)(i % 11 - 5) / 4;
    tuff_array *weights = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(SIDE, SIDE));
    assert_int_equal(tuff_array_write(weights, numbers, sizeof numbers), TUFF_OK);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *w = tuff_array_tensor(graph, weights), *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SIDE, SIDE));
    tuff_assign(graph, weights, tuff_mul(w, number(graph, 0.5)));
    tuff_output(graph, "y", tuff_matmul(tuff_neg(x), tuff_add(w, number(graph, 1))));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", numbers, sizeof numbers), TUFF_OK);
    for (int run = 0; run < 3; run++) {
        assert_int_equal(tuff_plan_run(plan), TUFF_OK);
        assert_int_equal(tuff_plan_read(plan, "y", result, sizeof result), TUFF_OK);
        for (int i = 0; i < SIDE * SIDE; i++) {
            double sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum -= (double)numbers[i / SIDE * SIDE + k] *
                       ((double)numbers[k * SIDE + i % SIDE] / (double)(1 << run) + 1);
            assert_true(sum - 1e-4 < (double)result[i] && (double)result[i] < sum + 1e-4);
        }
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(weights);
}

static void weights_change_after_they_were_read(void **state)
{
    (void)state;
    for_drawn_drivers(halve_weights);
}

/* A thin product by GPU kernels; its weights, after an activation and transposed, are copied first or not. */
static void multiply_copied(tuff_device *device, int copy, float *result)
{
    enum { THIN_ROWS = 4, THIN_TERMS = 512, THIN_COLUMNS = 256 };
    static float x[THIN_ROWS * THIN_TERMS], w[THIN_COLUMNS * THIN_TERMS];
    const tuff_compile_options options = {.family = TUFF_FAMILY_LOCAL};
    tune_config config = {.set = {0}};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *weights = tuff_relu(tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(THIN_COLUMNS, THIN_TERMS)));
    tuff_output(graph, "y",
                tuff_matmul(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(THIN_ROWS, THIN_TERMS)),
                            tuff_permute(weights, (int[]){1, 0})));
    tuff__config_set(&config, TUNABLE_matmul_copy_y, copy);
    tuff_plan *plan = compile_configured(graph, &options, TASK_MATMUL, &config);
    assert_non_null(plan);
    for (int i = 0; i < THIN_ROWS * THIN_TERMS; i++)
        x[i] = (float)(i * 37 % 101) / 7 - 6;
    for (int i = 0; i < THIN_COLUMNS * THIN_TERMS; i++)
        w[i] = (float)(i * 53 % 103) / 9 - 4;
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "w", w, sizeof w), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "y", result, THIN_ROWS * THIN_COLUMNS * sizeof *result), TUFF_OK);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void compare_copies(tuff_device *device)
{
    static float results[3][1024];
    for (int copy = 0; copy < 3; copy++)
        multiply_copied(device, copy, results[copy]);
    assert_memory_equal(results[0], results[1], sizeof results[0]);
    assert_memory_equal(results[0], results[2], sizeof results[0]);
}

/* The table of tunables says that copies do not change results. */
static void a_copy_changes_no_bit(void **state)
{
    (void)state;
    for_drawn_drivers(compare_copies);
}

/* Terms that are selected element by element in an unrolled loop: SwiftShader analyses such a loop path by path, which
   took it tens of minutes when each selection was a branch. */
static void compile_halves(tuff_device *device)
{
    const uint64_t limit = (uint64_t)60000000000;
    if (!is_wanted(device))
        return;
    if (!device->info.subgroup_shuffle) {
        leave_out_device("no lanes that read each other's registers");
        return;
    }
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(20, 18));
    tuff_output(graph, "y", tuff_matmul(x, halves(graph, TUFF_SHAPE(18, 24))));
    tuff__device_limit_compiles(device, limit);
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.family = TUFF_FAMILY_SUBGROUP});
    if (plan == NULL)
        fail_msg("%s", tuff_error());
    assert_int_equal(count_tasks(plan, "map", NULL), 0);
    destroy_plan(plan, graph);
}

static void many_choices_compile_in_a_minute(void **state)
{
    (void)state;
    for_drawn_drivers(compile_halves);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_choices_compile_in_a_minute),
                                       cmocka_unit_test(every_producer_is_right),
                                       cmocka_unit_test(empty_products_have_producers),
                                       cmocka_unit_test(a_producer_is_no_task),
                                       cmocka_unit_test(what_others_read_stays_a_task),
                                       cmocka_unit_test(finished_weights_follow_their_sources),
                                       cmocka_unit_test(rows_are_finished_in_their_copies),
                                       cmocka_unit_test(weights_change_after_they_were_read),
                                       cmocka_unit_test(a_copy_changes_no_bit)};
    return cmocka_run_group_tests_name("producers", tests, NULL, NULL);
}
