/* Sums of scatter_add by indices of every form, exactly, in lists and tables of many blocks; and what the gradient of a
   gather along a wide axis takes of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"
#include "tuff.h"

/* A table of `rows` times `columns`; the list is shorter or longer along the axis. */
typedef struct table {
    int64_t rows, columns, list;
    int axis;
} table;

/* Few keys and long lists, many keys and short ones; batches with blocks of their own; runs that do not divide. */
static const table cases[] = {{3, 50, 1400, 1}, {300, 70, 1, 1}, {1, 5003, 2000, 1}, {40, 7, 600, 0}, {1000, 3, 2, 0}};
enum { CASES = sizeof cases / sizeof cases[0] };

static int32_t *make_indices(int64_t count, int64_t extent)
{
    uint32_t state = (uint32_t)test_seed();
    int32_t *out = malloc((size_t)count * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = (int32_t)(state >> 8) % (int32_t)(extent + 2) - 1; /* some are outside */
    }
    return out;
}

static void expect_sums(const table *of, const int32_t *indices, const float *source, const float *got)
{
    const int64_t list_columns = of->axis == 1 ? of->list : of->columns,
                  list_rows = of->axis == 0 ? of->list : of->rows;
    float *wanted = calloc((size_t)(of->rows * of->columns), sizeof *wanted);
    assert_non_null(wanted);
    for (int64_t i = 0; i < list_rows * list_columns; i++) {
        const int64_t row = of->axis == 0 ? indices[i] : i / list_columns;
        const int64_t column = of->axis == 1 ? indices[i] : i % list_columns;
        if (row >= 0 && row < of->rows && column >= 0 && column < of->columns)
            wanted[row * of->columns + column] += source[i];
    }
    for (int64_t i = 0; i < of->rows * of->columns; i++)
        if (got[i] != wanted[i])
            fail_msg("[%lld,%lld] by %lld along axis %d: element %lld is %g, not %g", (long long)of->rows,
                     (long long)of->columns, (long long)of->list, of->axis, (long long)i, (double)got[i],
                     (double)wanted[i]);
    free(wanted);
}

static void scatter_one(tuff_device *device, const table *of)
{
    const int64_t count = of->list * (of->axis == 0 ? of->columns : of->rows), all = of->rows * of->columns;
    const tuff_shape list = of->axis == 0 ? TUFF_SHAPE(of->list, of->columns) : TUFF_SHAPE(of->rows, of->list);
    int32_t *indices = make_indices(count, of->axis == 0 ? of->rows : of->columns);
    float *source = malloc((size_t)count * sizeof *source), *got = malloc((size_t)all * sizeof *got);
    assert_true(source && got);
    for (int64_t i = 0; i < count; i++)
        source[i] = (float)(i % 101);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *zeros = tuff_expand(tuff_constant(graph, TUFF_F32, 0), TUFF_SHAPE(of->rows, of->columns));
    tuff_tensor *by = tuff_input(graph, "by", TUFF_I32, list), *from = tuff_input(graph, "from", TUFF_F32, list);
    tuff_output(graph, "y", tuff_scatter_add(zeros, by, from, of->axis));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "by", indices, (size_t)count * sizeof *indices), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "from", source, (size_t)count * sizeof *source), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", got, (size_t)all * sizeof *got), TUFF_OK);
    expect_sums(of, indices, source, got);
    destroy_plan(plan, graph);
    free(indices);
    free(source);
    free(got);
}

static void scatter_all(tuff_device *device)
{
    for (int i = 0; i < CASES; i++)
        if (is_thorough() || is_its_turn(device, i))
            scatter_one(device, &cases[i]);
}

static void every_item_is_added_where_its_index_says(void **state)
{
    (void)state;
    for_each_driver(scatter_all);
}

/* Of the logits of targets, as losses take them: one of each row. */
static void pick_targets(tuff_device *device)
{
    enum { ROWS = 1024, COLUMNS = 5000 };
    int32_t targets[ROWS];
    float *slopes = calloc(ROWS * COLUMNS, sizeof(float));
    assert_non_null(slopes);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS)), *slope;
    tuff_tensor *picked = tuff_gather(x, tuff_input(graph, "targets", TUFF_I32, TUFF_SHAPE(ROWS, 1)), 1);
    assert_int_equal(tuff_gradients(tuff_sum(picked, (int[]){0, 1}, 2, false), &x, 1, &slope), TUFF_OK);
    tuff_output(graph, "slope", slope);
    tuff_plan *plan = compile_plan(graph);
    tuff_plan_info info;
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    print_message("    %.1f times the bytes of the logits\n",
                  (double)info.memory_peak / (sizeof(float) * ROWS * COLUMNS));
    assert_true(info.memory_peak <= 6 * sizeof(float) * ROWS * COLUMNS);
    for (int i = 0; i < ROWS; i++)
        targets[i] = i * 7919 % COLUMNS;
    assert_int_equal(tuff_plan_write(plan, "targets", targets, sizeof targets), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "x", slopes, sizeof(float) * ROWS * COLUMNS), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "slope", slopes, sizeof(float) * ROWS * COLUMNS), TUFF_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(slopes[i] == (i % COLUMNS == targets[i / COLUMNS] ? 1.0f : 0.0f));
    destroy_plan(plan, graph);
    free(slopes);
}

static void gradients_of_picked_logits_take_little_memory(void **state)
{
    (void)state;
    for_drawn_drivers(pick_targets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_added_where_its_index_says),
        cmocka_unit_test(gradients_of_picked_logits_take_little_memory),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
