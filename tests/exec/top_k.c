/* The largest elements of rows on every device, exactly: values bit for bit, positions in order, for rows of any length
   with NaN, infinities and ties; and the arguments that tuff_top_k refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "graph/builder.h"
#include "tuff.h"

typedef struct rows {
    int64_t count, extent, k;
    bool few_values; /* many ties, NaN and infinities */
    int64_t limit;   /* maximum elements of any tensor; 0: the default */
} rows;

/* The last but one case is processed in parts, and the rows of the last one are longer than the loops that some drivers
   allow. */
static const rows cases[] = {{3, 1, 1, true, 0},      {5, 13, 4, true, 0},       {2, 64, 64, false, 0},
                             {4, 127, 5, true, 0},    {3, 130, 1, false, 0},     {1, 1000, 30, true, 0},
                             {2, 777, 300, false, 0}, {3, 200, 30, true, 30000}, {1, 70001, 3, true, 0}};
enum { CASES = sizeof cases / sizeof cases[0] };

static void fill(const rows *of, uint32_t state, float *x)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.5f, -2.25f, 1.5f};
    for (int64_t i = 0; i < of->count * of->extent; i++) {
        state = state * 1664525u + 1013904223u;
        const float random = (float)(int32_t)(state >> 8) / 1048576.0f - 8.0f;
        x[i] = of->few_values ? values[state >> 16 & 7] : random;
    }
}

/* Whether element i of a row ranks before element j. */
static bool comes_before(const float *row, int64_t i, int64_t j)
{
    const bool x = isnan(row[i]), y = isnan(row[j]);
    if (x || y)
        return x && (!y || i < j);
    return row[i] > row[j] || (row[i] == row[j] && i < j);
}

/* Checks one rank per pass: the first of the elements that rank after the previous one. */
static void expect_row(const float *row, const rows *of, const float *values, const int32_t *positions)
{
    int64_t last = -1;
    for (int64_t rank = 0; rank < of->k; rank++) {
        int64_t best = -1;
        for (int64_t i = 0; i < of->extent; i++)
            if ((last < 0 || comes_before(row, last, i)) && (best < 0 || comes_before(row, i, best)))
                best = i;
        assert_int_equal(positions[rank], best);
        assert_memory_equal(&values[rank], &row[best], sizeof(float));
        last = best;
    }
}

static void run_rows(tuff_device *device, const rows *of, uint32_t seed)
{
    const size_t count = (size_t)(of->count * of->extent), chosen = (size_t)(of->count * of->k);
    float *x = malloc(count * sizeof *x), *values = malloc(chosen * sizeof *values);
    int32_t *positions = malloc(chosen * sizeof *positions);
    assert_true(x && values && positions);
    fill(of, seed, x);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *indices, *in = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(of->count, of->extent)), *largest;
    if (of->limit == 0) {
        largest = tuff_top_k(in, of->k, -1, &indices);
    } else {
        indices = tuff__top_k_positions(in, of->k, of->limit);
        largest = tuff_gather(in, indices, 1);
        for (int i = 0; i < graph->node_count; i++)
            assert_true(tuff_shape_count(graph->nodes[i]->outputs[0].shape) <= of->limit);
    }
    tuff_output(graph, "values", largest);
    tuff_output(graph, "positions", indices);
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_write(plan, "x", x, count * sizeof *x), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "values", values, chosen * sizeof *values), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "positions", positions, chosen * sizeof *positions), TUFF_OK);
    for (int64_t i = 0; i < of->count; i++)
        expect_row(x + i * of->extent, of, values + i * of->k, positions + i * of->k);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    free(x);
    free(values);
    free(positions);
}

static void choose_rows(tuff_device *device)
{
    for (int i = 0; i < CASES; i++)
        if (is_thorough() || i == CASES - 1 || is_drawn_for_device(device, i))
            run_rows(device, &cases[i], (uint32_t)test_seed() + (uint32_t)i);
}

static void the_largest_are_chosen_in_order(void **state)
{
    (void)state;
    for_each_driver(choose_rows);
}

/* Integers up to both ends of their range, along the first axis, and the gradient of floats. */
static void choose_columns(tuff_device *device)
{
    static const int32_t x[6] = {INT32_MIN, 7, INT32_MIN, INT32_MAX, 5, -1};
    static const uint32_t u[6] = {0, 7, 0, UINT32_MAX, 5, 7};
    static const float f[4] = {2, 5, 3, 5}, expected[4] = {0, 5, 0, 5};
    int32_t values[4], positions[4];
    uint32_t unsigned_values[4];
    float gradient[4];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *indices, *with = tuff_input(graph, "f", TUFF_F32, TUFF_SHAPE(4)), *with_gradient;
    tuff_output(graph, "values", tuff_top_k(tuff_input(graph, "x", TUFF_I32, TUFF_SHAPE(3, 2)), 2, 0, &indices));
    tuff_output(graph, "positions", indices);
    tuff_output(graph, "u", tuff_top_k(tuff_input(graph, "in", TUFF_U32, TUFF_SHAPE(3, 2)), 2, 0, NULL));
    tuff_tensor *two = tuff_top_k(with, 2, 0, NULL), *half = tuff_constant(graph, TUFF_F32, 0.5);
    tuff_tensor *target = tuff_sum(tuff_mul(tuff_mul(two, two), half), (int[]){0}, 1, false);
    assert_int_equal(tuff_gradients(target, &with, 1, &with_gradient), TUFF_OK);
    tuff_output(graph, "gradient", with_gradient);
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "in", u, sizeof u), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "f", f, sizeof f), TUFF_OK);
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "values", values, sizeof values), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "positions", positions, sizeof positions), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "u", unsigned_values, sizeof unsigned_values), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "gradient", gradient, sizeof gradient), TUFF_OK);
    assert_memory_equal(values, ((int32_t[]){5, INT32_MAX, INT32_MIN, 7}), sizeof values);
    assert_memory_equal(positions, ((int32_t[]){2, 1, 0, 0}), sizeof positions);
    assert_memory_equal(unsigned_values, ((uint32_t[]){5, UINT32_MAX, 0, 7}), sizeof unsigned_values);
    assert_memory_equal(gradient, expected, sizeof gradient);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void integers_and_gradients_are_right(void **state)
{
    (void)state;
    for_drawn_devices(choose_columns);
}

static void what_cannot_be_chosen_is_refused(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    const struct {
        tuff_dtype dtype;
        int64_t extent, k;
        int axis;
        tuff_status status;
    } wrong[] = {{TUFF_F32, 5, 0, 0, TUFF_E_SHAPE}, {TUFF_F32, 5, 6, 0, TUFF_E_SHAPE},
                 {TUFF_F32, 0, 1, 0, TUFF_E_SHAPE}, {TUFF_BOOL, 5, 1, 0, TUFF_E_DTYPE},
                 {TUFF_I8, 5, 1, 0, TUFF_E_DTYPE},  {TUFF_F32, 5, 1, 1, TUFF_E_SHAPE}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tuff_tensor *indices;
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", wrong[i].dtype, TUFF_SHAPE(wrong[i].extent));
        tuff_tensor *made = tuff_top_k(x, wrong[i].k, wrong[i].axis, &indices);
        assert_int_equal(tuff_graph_status(graph), wrong[i].status);
        assert_non_null(strstr(tuff_error(), "top_k: "));
        assert_ptr_equal(made, indices);
        tuff_graph_destroy(graph);
    }
    tuff_device_close(device);
}

/* The logits of a language model, and rows whose blocks need too many comparisons for one tensor. */
static void rows_of_ordinary_sizes_can_be_chosen_from(void **state)
{
    (void)state;
    static const rows sizes[] = {{1024, 50257, 5, false, 0}, {1, 600000, 1000, false, 0}, {1, 46341, 11585, false, 0}};
    tuff_device *device = tuff_device_open("reference");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(sizes[i].count, sizes[i].extent));
        const tuff_shape made = tuff_tensor_shape(tuff_top_k(x, sizes[i].k, 1, NULL));
        if (tuff_graph_status(graph) != TUFF_OK)
            fail_msg("%s", tuff_graph_error(graph));
        assert_true(tuff_shape_equal(made, TUFF_SHAPE(sizes[i].count, sizes[i].k)));
        tuff_graph_destroy(graph);
    }
    tuff_graph *graph = tuff_graph_create(device);
    tuff_top_k(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(50257)), 50257, 0, NULL);
    assert_int_equal(tuff_graph_status(graph), TUFF_E_LIMIT);
    assert_non_null(strstr(tuff_graph_error(graph), "top_k: [1,50257]: k = 50257"));
    tuff_graph_destroy(graph);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_chosen_is_refused),
        cmocka_unit_test(rows_of_ordinary_sizes_can_be_chosen_from),
        cmocka_unit_test(integers_and_gradients_are_right),
        cmocka_unit_test(the_largest_are_chosen_in_order),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
