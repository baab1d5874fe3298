/* Values that are compared for equality after two kernels computed or stored them: a maximum must compare equal to an
   element again, so that its gradient is routed and its index is in range, however the kernels divide and round. The
   checks are exact relations, because error bounds would accept either result of a comparison. Also checks other values
   that keep 32 bits in 16-bit plans. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

enum { ROWS = 24, COLUMNS = 48, WIDTH = 8, WIDE = 16384 };

static float matrix[ROWS * COLUMNS], divisors[ROWS], ones[ROWS * WIDTH];

static void fill(void)
{
    for (int row = 0; row < ROWS; row++) {
        divisors[row] = (float)(41 + 2 * row);
        for (int i = 0; i < COLUMNS; i++)
            matrix[row * COLUMNS + i] = (float)((i * 37 + row * 11) % 101 + 1) / 3;
        for (int i = 0; i < WIDTH; i++)
            ones[row * WIDTH + i] = 1;
    }
}

static tuff_plan *compile(tuff_graph *graph, tuff_precision precision, tuff_fuse_mode fuse)
{
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.precision = precision, .fuse = fuse});
    if (!plan)
        fail_msg("%s", tuff_error());
    return plan;
}

/* Outputs the gradient of the sum of (m w)^2, where m are the maxima of h's rows: each row gets the same share of it,
   whichever of its elements are the largest. */
static void output_gradient(tuff_graph *graph, tuff_tensor *h, tuff_tensor *x, bool least)
{
    const int last = 1, first = 0;
    tuff_tensor *gradient, *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(ROWS, WIDTH));
    tuff_tensor *m = least ? tuff_reduce_min(h, &last, 1, false) : tuff_reduce_max(h, &last, 1, false);
    tuff_tensor *y = tuff_matmul(m, w);
    tuff_tensor *loss = tuff_sum(tuff_mul(y, y), &first, 1, false);
    assert_int_equal(tuff_gradients(loss, &x, 1, &gradient), TUFF_OK);
    tuff_output(graph, "dx", gradient);
    tuff_output(graph, "m", m);
}

/* Returns the share of a row: the sum of its gradient, times the scale that all of its elements share. */
static double row_share(const float *dx, const float *scale, int row)
{
    double share = 0;
    for (int i = 0; i < COLUMNS; i++)
        share += (double)dx[row * COLUMNS + i] * scale[row];
    return share;
}

/* scale[r]: divisor that turns the gradient of h in row r into that of x. */
static void expect_shares(tuff_plan *plan, const float *scale)
{
    static float dx[ROWS * COLUMNS], m[ROWS];
    double sum = 0;
    assert_int_equal(tuff_plan_write(plan, "w", ones, sizeof ones), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "dx", dx, sizeof dx), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "m", m, sizeof m), TUFF_OK);
    for (int row = 0; row < ROWS; row++)
        sum += m[row];
    for (int row = 0; row < ROWS; row++)
        assert_true(fabs(row_share(dx, scale, row) / (2 * WIDTH * sum) - 1) < 0.01);
}

static void check_quotients(tuff_device *device, bool least, tuff_precision precision)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS));
    output_gradient(graph, tuff_div(x, tuff_input(graph, "s", TUFF_F32, TUFF_SHAPE(ROWS, 1))), x, least);
    tuff_plan *plan = compile(graph, precision, TUFF_FUSE_ALL);
    assert_int_equal(tuff_plan_write(plan, "x", matrix, sizeof matrix), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "s", divisors, sizeof divisors), TUFF_OK);
    expect_shares(plan, divisors);
    destroy_plan(plan, graph);
}

static void quotients_on(tuff_device *device)
{
    fill();
    check_quotients(device, false, TUFF_PRECISION_F32);
    check_quotients(device, true, TUFF_PRECISION_F32);
    check_quotients(device, false, TUFF_PRECISION_F16);
}

static void extrema_of_quotients_have_gradients(void **state)
{
    (void)state;
    for_drawn_devices(quotients_on);
}

/* Computes the gradient of h's maxima; many values are live between them and their gradient. Returns false if the plan
   does not fit the budget. */
static bool run_within(tuff_device *device, uint64_t budget, float *dx, tuff_plan_info *info)
{
    enum { LAYERS = 3, INNER = 128 };
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS)), *gradient;
    tuff_tensor *h = tuff_div(x, tuff_input(graph, "s", TUFF_F32, TUFF_SHAPE(ROWS, 1)));
    tuff_tensor *y =
        tuff_matmul(tuff_reduce_max(h, (int[]){1}, 1, true), tuff_input(graph, "v", TUFF_F32, TUFF_SHAPE(1, INNER)));
    tuff_tensor *square = tuff_input(graph, "square", TUFF_F32, TUFF_SHAPE(INNER, INNER));
    for (int i = 0; i < LAYERS; i++)
        y = tuff_tanh(tuff_matmul(y, square));
    tuff_tensor *loss = tuff_sum(y, (int[]){0, 1}, 2, false);
    assert_int_equal(tuff_gradients(loss, &x, 1, &gradient), TUFF_OK);
    tuff_output(graph, "dx", gradient);
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.memory_budget = budget});
    if (!plan) {
        assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
        tuff_graph_destroy(graph);
        return false;
    }
    assert_int_equal(tuff_plan_describe(plan, info), TUFF_OK);
    static float squares[INNER * INNER];
    for (int i = 0; i < INNER * INNER; i++)
        squares[i] = 1.0f / INNER;
    assert_int_equal(tuff_plan_write(plan, "x", matrix, sizeof matrix), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "s", divisors, sizeof divisors), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "v", squares, INNER * sizeof *squares), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "square", squares, sizeof squares), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "dx", dx, ROWS * COLUMNS * sizeof *dx), TUFF_OK);
    destroy_plan(plan, graph);
    return true;
}

/* With the smallest possible budget many values are recomputed, but not those that are compared. */
static void budgets_on(tuff_device *device)
{
    static float whole[ROWS * COLUMNS], dx[ROWS * COLUMNS];
    tuff_plan_info info, least;
    uint64_t percent = 100;
    fill();
    assert_true(run_within(device, 0, whole, &info));
    for (int row = 0; row < ROWS; row++)
        assert_true(fabs(row_share(whole, divisors, row) - 1) < 0.2);
    while (percent > 10 && run_within(device, info.memory_peak * percent / 100, dx, &least)) {
        for (int i = 0; i < ROWS * COLUMNS; i++)
            assert_true(fabsf(dx[i] - whole[i]) <= 1e-5f);
        percent -= 3;
    }
    print_message("    %d tasks; %3d %% of the memory: %d tasks\n", info.task_count, (int)percent + 3,
                  least.task_count);
}

static void what_is_compared_is_not_recomputed(void **state)
{
    (void)state;
    for_drawn_devices(budgets_on);
}

/* The maximum is itself the result of a segment. */
static void segments_on(tuff_device *device)
{
    fill();
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS)), *gradient;
    tuff_tensor *inputs[2] = {x, tuff_input(graph, "s", TUFF_F32, TUFF_SHAPE(ROWS, 1))};
    tuff_tensor *m = tuff_reduce_max(tuff_div(x, inputs[1]), (int[]){1}, 1, true);
    m = tuff_recompute(m, inputs, 2);
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(ROWS, WIDTH));
    tuff_tensor *y = tuff_matmul(tuff_permute(m, (int[]){1, 0}), w);
    tuff_tensor *loss = tuff_sum(tuff_mul(y, y), (int[]){0, 1}, 2, false);
    tuff_output(graph, "m", m);
    assert_int_equal(tuff_gradients(loss, &x, 1, &gradient), TUFF_OK);
    tuff_output(graph, "dx", gradient);
    tuff_plan *plan = compile(graph, TUFF_PRECISION_F32, TUFF_FUSE_ALL);
    assert_int_equal(tuff_plan_write(plan, "x", matrix, sizeof matrix), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "s", divisors, sizeof divisors), TUFF_OK);
    expect_shares(plan, divisors);
    destroy_plan(plan, graph);
}

static void maxima_of_segments_have_gradients(void **state)
{
    (void)state;
    for_drawn_devices(segments_on);
}

static void dropped_on(tuff_device *device)
{
    static float kept[ROWS];
    fill();
    for (int row = 0; row < ROWS; row++)
        kept[row] = 0.9f;
    for (int precision = 0; precision < 2; precision++) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS));
        output_gradient(graph, tuff_dropout(x, 0.1), x, false);
        tuff_plan *plan = compile(graph, precision ? TUFF_PRECISION_BF16 : TUFF_PRECISION_F16, TUFF_FUSE_ALL);
        assert_int_equal(tuff_plan_write(plan, "x", matrix, sizeof matrix), TUFF_OK);
        expect_shares(plan, kept);
        destroy_plan(plan, graph);
    }
}

static void maxima_of_narrow_values_have_gradients(void **state)
{
    (void)state;
    for_drawn_devices(dropped_on);
}

/* A row so long that it is reduced in parts. */
static void largest_on(tuff_device *device)
{
    enum { LARGEST = 7 };
    static float logits[WIDE];
    const float temperature = 41;
    const int32_t expected = LARGEST;
    for (int i = 0; i < WIDE; i++)
        logits[i] = i == LARGEST ? 41 : 1;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1, WIDE));
    tuff_output(graph, "i", tuff_argmax(tuff_div(x, tuff_input(graph, "t", TUFF_F32, TUFF_SCALAR)), 1, false));
    tuff_plan *plan = compile(graph, TUFF_PRECISION_F32, TUFF_FUSE_ALL);
    assert_int_equal(tuff_plan_write(plan, "x", logits, sizeof logits), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "t", &temperature, sizeof temperature), TUFF_OK);
    run_plan(plan);
    expect_output(plan, "i", &expected, sizeof expected);
    destroy_plan(plan, graph);
}

static void argmax_of_a_quotient_lies_inside(void **state)
{
    (void)state;
    for_drawn_devices(largest_on);
}

static void indices_on(tuff_device *device)
{
    enum { COUNT = 1000, LIMIT = 50000 };
    static int32_t drawn[COUNT];
    for (int precision = 0; precision < 2; precision++) {
        int distinct = 0;
        tuff_graph *graph = tuff_graph_create(device);
        tuff_output(graph, "i", tuff_random_index(graph, TUFF_SHAPE(COUNT), LIMIT));
        tuff_plan *plan = compile(graph, precision ? TUFF_PRECISION_BF16 : TUFF_PRECISION_F16, TUFF_FUSE_NONE);
        run_plan(plan);
        assert_int_equal(tuff_plan_read(plan, "i", drawn, sizeof drawn), TUFF_OK);
        for (int i = 0; i < COUNT; i++) {
            assert_in_range(drawn[i], 0, LIMIT - 1);
            distinct += i == 0 || drawn[i] != drawn[i - 1];
        }
        assert_true(distinct > COUNT / 2);
        destroy_plan(plan, graph);
    }
}

static void indices_keep_their_bits(void **state)
{
    (void)state;
    for_drawn_devices(indices_on);
}

/* Rounding error of a product stored as f16: its square has the same gradient if it is recomputed. */
static void rounding_on(tuff_device *device)
{
    enum { COUNT = 16 };
    float gradients[2][COUNT];
    for (int again = 0; again < 2; again++) {
        const int axis = 0;
        uint16_t zeros[COUNT] = {0}, factors[COUNT];
        for (int i = 0; i < COUNT; i++)
            factors[i] = (uint16_t)(0x3c00 + 37 * i); /* increasing from 1 */
        tuff_array *array = make_array(device, TUFF_F16, COUNT, zeros);
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *inputs[2] = {tuff_input(graph, "p", TUFF_F16, TUFF_SHAPE(COUNT)),
                                  tuff_input(graph, "q", TUFF_F16, TUFF_SHAPE(COUNT))};
        tuff_tensor *wide = tuff_mul(tuff_cast(inputs[0], TUFF_F32), tuff_cast(inputs[1], TUFF_F32)), *gradient;
        tuff_tensor *kept = tuff_assign(graph, array, tuff_mul(inputs[0], inputs[1]));
        tuff_tensor *lost = tuff_sub(tuff_cast(kept, TUFF_F32), wide);
        tuff_tensor *loss = tuff_sum(tuff_mul(lost, lost), &axis, 1, false);
        loss = again ? tuff_recompute(loss, inputs, 2) : loss;
        assert_int_equal(tuff_gradients(loss, &inputs[0], 1, &gradient), TUFF_OK);
        tuff_output(graph, "dp", tuff_cast(gradient, TUFF_F32));
        tuff_plan *plan = compile(graph, TUFF_PRECISION_F32, TUFF_FUSE_ALL);
        assert_int_equal(tuff_plan_write(plan, "p", factors, sizeof factors), TUFF_OK);
        assert_int_equal(tuff_plan_write(plan, "q", factors, sizeof factors), TUFF_OK);
        run_plan(plan);
        assert_int_equal(tuff_plan_read(plan, "dp", gradients[again], sizeof gradients[again]), TUFF_OK);
        destroy_plan(plan, graph);
        tuff_array_destroy(array);
    }
    assert_true(gradients[0][5] != 0);
    assert_memory_equal(gradients[0], gradients[1], sizeof gradients[0]);
}

static void what_an_array_keeps_is_the_same_in_copies(void **state)
{
    (void)state;
    for_drawn_devices(rounding_on);
}

/* Like second moments of small gradients: the squares are below the range of f16. */
static void squares_on(tuff_device *device)
{
    const int axis = 1;
    float sums[ROWS], x[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)(1 + i % 7) * 0x1p-15f;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *small = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS));
    tuff_tensor *squares = tuff_add(tuff_mul(small, small), tuff_constant(graph, TUFF_F32, 0x1p-60));
    tuff_output(graph, "y", tuff_sum(squares, &axis, 1, false));
    tuff_plan *plan = compile(graph, TUFF_PRECISION_F16, TUFF_FUSE_NONE);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", sums, sizeof sums), TUFF_OK);
    for (int row = 0; row < ROWS; row++) {
        double wanted = 0;
        for (int i = 0; i < COLUMNS; i++)
            wanted += (double)x[row * COLUMNS + i] * (double)x[row * COLUMNS + i] + 0x1p-60;
        assert_true(fabs((double)sums[row] / wanted - 1) < 1e-5);
    }
    destroy_plan(plan, graph);
}

static void small_squares_are_summed(void **state)
{
    (void)state;
    for_drawn_devices(squares_on);
}

enum { SIDE = 64, CHANNELS = 2, WINDOW = 2, PIXELS = SIDE * SIDE * CHANNELS };

/* Pools the maxima of an image's windows after a layer norm, which loops may contract in different ways. Outputs the
   gradient of the pooled values' sum. */
static tuff_plan *compile_pool(tuff_graph *graph)
{
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1, CHANNELS, SIDE, SIDE)), *dy;
    tuff_tensor *gain = tuff_input(graph, "gain", TUFF_F32, TUFF_SHAPE(CHANNELS));
    tuff_tensor *bias = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(CHANNELS));
    tuff_tensor *y = tuff_layer_norm(tuff_permute(x, (int[]){0, 2, 3, 1}), gain, bias, 1, 1e-5);
    y = tuff_relu(tuff_permute(y, (int[]){0, 3, 1, 2}));
    tuff_tensor *pooled = tuff_max_pool2d(y, &(tuff_pool2d_options){.size = {WINDOW, WINDOW}});
    tuff_tensor *loss = tuff_sum(pooled, (int[]){0, 1, 2, 3}, 4, false);
    assert_int_equal(tuff_gradients(loss, &y, 1, &dy), TUFF_OK);
    tuff_output(graph, "dy", dy);
    return compile(graph, TUFF_PRECISION_F32, TUFF_FUSE_ALL);
}

/* Fills x with numbers between -0.5 and 0.5 that hardly ever repeat. */
static void spread(float *x, int count)
{
    for (int i = 0; i < count; i++)
        x[i] = (float)(i * 7919 % 10007) / 10007 - 0.5f;
}

/* Whether a kernel computes the norm more than once: for different elements, or in the pass that compares it after the
   one that finds the maxima. */
static bool repeats_norm(const tuff_plan *plan)
{
    tuff_plan_info info;
    bool found = false;
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
        const char *norm = strstr(task.label, "rsqrt");
        found |= norm && (strstr(norm + 1, "rsqrt") || strstr(task.label, "equal"));
    }
    return found;
}

/* The gradient of the maxima of a norm's rows, whose reductions one kernel can compute in several passes. */
static void rows_on(tuff_device *device)
{
    static float x[ROWS * COLUMNS], dy[ROWS * COLUMNS];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *y = tuff_layer_norm(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS)), NULL, NULL, 1, 1e-5);
    tuff_tensor *loss = tuff_sum(tuff_reduce_max(y, (int[]){1}, 1, false), (int[]){0}, 1, false), *gradient;
    assert_int_equal(tuff_gradients(loss, &y, 1, &gradient), TUFF_OK);
    tuff_output(graph, "dy", gradient);
    tuff_plan *plan = compile(graph, TUFF_PRECISION_F32, TUFF_FUSE_ALL);
    assert_false(repeats_norm(plan));
    spread(x, ROWS * COLUMNS);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "dy", dy, sizeof dy), TUFF_OK);
    for (int row = 0; row < ROWS; row++)
        assert_true(fabs(row_share(dy, ones, row) - 1) < 1e-5);
    destroy_plan(plan, graph);
}

static void pooled_on(tuff_device *device)
{
    static float dy[PIXELS], image[PIXELS];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile_pool(graph);
    assert_false(repeats_norm(plan));
    spread(image, PIXELS);
    assert_int_equal(tuff_plan_write(plan, "x", image, sizeof image), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "gain", (float[]){0.9f, 1.1f}, CHANNELS * sizeof(float)), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "bias", (float[]){0.3f, 0.2f}, CHANNELS * sizeof(float)), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "dy", dy, sizeof dy), TUFF_OK);
    for (int y = 0; y < CHANNELS * SIDE; y += WINDOW)
        for (int x = 0; x < SIDE; x += WINDOW) {
            const float *at = dy + y * SIDE + x;
            assert_true(fabsf(at[0] + at[1] + at[SIDE] + at[SIDE + 1] - 1) < 1e-5f);
        }
    destroy_plan(plan, graph);
}

static void maxima_of_windows_have_gradients(void **state)
{
    (void)state;
    for_drawn_devices(pooled_on);
}

static void maxima_of_norms_have_gradients(void **state)
{
    (void)state;
    fill();
    for_drawn_devices(rows_on);
}

static void looked_up_on(tuff_device *device)
{
    enum { TABLE = 40, FOUND = 24 };
    int32_t index[FOUND * WIDTH];
    float found[FOUND * WIDTH];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(TABLE, WIDTH));
    tuff_tensor *i = tuff_input(graph, "i", TUFF_I32, TUFF_SHAPE(FOUND, WIDTH));
    tuff_tensor *table = tuff_less(x, tuff_constant(graph, TUFF_F32, 0.25));
    tuff_output(graph, "y", tuff_cast(tuff_gather(table, i, 0), TUFF_F32));
    tuff_output(graph, "t", tuff_cast(table, TUFF_I32));
    tuff_plan *plan = compile(graph, TUFF_PRECISION_F32, TUFF_FUSE_ALL);
    write_steps(plan, "x", TABLE * WIDTH, 17, 4);
    for (int k = 0; k < FOUND * WIDTH; k++)
        index[k] = k * 7 % TABLE;
    assert_int_equal(tuff_plan_write(plan, "i", index, sizeof index), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", found, sizeof found), TUFF_OK);
    for (int k = 0; k < FOUND * WIDTH; k++) {
        const int at = index[k] * WIDTH + k % WIDTH;
        assert_true(found[k] == (float)(at % 17 - 8 < 1));
    }
    destroy_plan(plan, graph);
}

static void computed_bools_are_looked_up(void **state)
{
    (void)state;
    for_drawn_devices(looked_up_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extrema_of_quotients_have_gradients),
        cmocka_unit_test(what_is_compared_is_not_recomputed),
        cmocka_unit_test(maxima_of_segments_have_gradients),
        cmocka_unit_test(maxima_of_narrow_values_have_gradients),
        cmocka_unit_test(argmax_of_a_quotient_lies_inside),
        cmocka_unit_test(indices_keep_their_bits),
        cmocka_unit_test(what_an_array_keeps_is_the_same_in_copies),
        cmocka_unit_test(small_squares_are_summed),
        cmocka_unit_test(computed_bools_are_looked_up),
        cmocka_unit_test(maxima_of_windows_have_gradients),
        cmocka_unit_test(maxima_of_norms_have_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
