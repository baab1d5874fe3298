/* scatter_add with indices of every form: exact sums, with lists and tables of many blocks, and with operands of every
   memory layout; and the memory that the gradient of a gather along a wide axis needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "exec/plan.h"
#include "small_plans.h"
#include "tuff.h"

/* A table of `rows` times `columns`; the list has another length along the axis. */
typedef struct table {
    int64_t rows, columns, list;
    int axis;
} table;

/* Few keys and long lists, many keys and short ones; batches with blocks of their own; runs of uneven length. */
static const table cases[] = {{3, 50, 1400, 1}, {300, 70, 1, 1}, {1, 5003, 2000, 1}, {40, 7, 600, 0}, {1000, 3, 2, 0}};
enum { CASES = sizeof cases / sizeof cases[0] };

static int32_t *make_indices(int64_t count, int64_t extent)
{
    uint32_t state = (uint32_t)test_seed();
    int32_t *out = malloc((size_t)count * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = (int32_t)(state >> 8) % (int32_t)(extent + 2) - 1; /* some are out of range */
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
            fail_msg("shape [%lld,%lld], %lld indices, axis %d: element %lld is %g, not %g", (long long)of->rows,
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
        if (is_thorough() || is_drawn_for_device(device, i))
            scatter_one(device, &cases[i]);
}

static void every_item_is_added_where_its_index_says(void **state)
{
    (void)state;
    for_each_driver(scatter_all);
}

/* The memory layouts of an operand of shape [batches][rows][WIDTH]. */
typedef enum form { PLAIN, TURNED, SPACED, REVERSED, TWICE, SEAM, FORMS } form;
enum { WIDTH = 6, LIST = 40, KEYS = 5, MOST = 3 * (LIST + 3) * 2 * WIDTH };

/* Returns an operand. at[i] gets the index of its element i in the input. With TWICE the list and the table are one
   tensor. */
static tuff_tensor *make_operand(tuff_graph *graph, const char *name, tuff_dtype dtype, form how, int64_t batches,
                                 int64_t rows, int32_t *at)
{
    const int64_t spare = how == SEAM ? 3 : 0, step = how == SPACED ? 2 : 1;
    const tuff_shape shape =
        how == TURNED ? TUFF_SHAPE(WIDTH, batches, rows) : TUFF_SHAPE(batches, rows + spare, WIDTH * step);
    tuff_tensor *x = tuff_cast(tuff_input(graph, name, TUFF_F32, shape), dtype);
    for (int64_t b = 0; b < batches; b++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < WIDTH; c++) {
                const int64_t row = how == REVERSED ? rows - 1 - i : i + spare;
                *at++ = (int32_t)(how == TURNED ? (c * batches + b) * rows + i
                                                : (b * (rows + spare) + row) * WIDTH * step + c * step + step - 1);
            }
    if (how == TURNED)
        return tuff_permute(x, (int[]){1, 2, 0});
    if (how == REVERSED)
        return tuff_slice(x, (int64_t[]){0, rows - 1, 0}, (int64_t[]){batches, -1, WIDTH}, (int64_t[]){1, -1, 1});
    if (how == PLAIN || how == TWICE)
        return x;
    return tuff_slice(x, (int64_t[]){0, spare, step - 1}, (int64_t[]){batches, rows + spare, WIDTH * step},
                      (int64_t[]){1, 1, step});
}

/* Counts the map launches before a scatter: one creates keys, one clears counts, and others copy operands. */
static int count_maps(const tuff_plan *plan)
{
    const launch_list *list = &plan->executable.launches;
    int count = 0;
    for (int i = 0; i < list->launch_count; i++)
        count += strcmp(list->launches[i].body, "map") == 0 && list->launches[i].task >= 0 &&
                 plan->fusion.tasks[list->launches[i].task].kind == TASK_SCATTER;
    return count;
}

static void expect_rows(tuff_plan *plan, form how, tuff_dtype dtype, int64_t batches, int64_t keys, const float *wanted)
{
    float got[3 * LIST * WIDTH];
    const int64_t count = batches * keys * WIDTH;
    assert_int_equal(tuff_plan_read(plan, "y", got, (size_t)count * sizeof *got), TUFF_OK);
    for (int64_t i = 0; i < count; i++)
        if (got[i] != wanted[i])
            fail_msg("form %d of %s: element %lld is %g, not %g", (int)how, tuff_dtype_name(dtype), (long long)i,
                     (double)got[i], (double)wanted[i]);
    /* Operands are copied only if no stride leads from the last row of a batch to the next batch. */
    if (count_maps(plan) != (how == SEAM ? 4 : 2))
        fail_msg("form %d of %s: %d maps", (int)how, tuff_dtype_name(dtype), count_maps(plan));
}

static void scatter_form(tuff_device *device, form how, tuff_dtype dtype)
{
    const int64_t batches = how == REVERSED ? 1 : 3, keys = how == TWICE ? LIST : KEYS;
    static float source[MOST], start[MOST], wanted[3 * LIST * WIDTH];
    int32_t source_at[3 * LIST * WIDTH], table_at[3 * LIST * WIDTH];
    int32_t *indices = make_indices(batches * LIST, keys);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *by = tuff_input(graph, "by", TUFF_I32, TUFF_SHAPE(batches, LIST, 1));
    tuff_tensor *from = make_operand(graph, "from", dtype, how, batches, LIST, source_at);
    tuff_tensor *x = how == TWICE ? from : make_operand(graph, "x", dtype, how, batches, keys, table_at);
    tuff_output(graph, "y", tuff_cast(tuff_scatter_add(x, by, from, 1), TUFF_F32));
    tuff_plan *plan = compile_plan(graph);
    for (int i = 0; i < MOST; i++) {
        source[i] = (float)(i * 7 % 4);
        start[i] = how == TWICE ? source[i] : (float)(i * 5 % 3);
    }
    for (int64_t i = 0; i < batches * keys * WIDTH; i++)
        wanted[i] = start[how == TWICE ? source_at[i] : table_at[i]];
    for (int64_t i = 0; i < batches * LIST * WIDTH; i++) {
        const int64_t item = i / WIDTH, key = indices[item];
        if (key >= 0 && key < keys)
            wanted[(item / LIST * keys + key) * WIDTH + i % WIDTH] += source[source_at[i]];
    }
    tuff_plan_value value;
    for (int i = 0; tuff_plan_input_at(plan, i, &value) == TUFF_OK; i++) {
        const void *data = value.dtype == TUFF_I32 ? (const void *)indices : value.name[0] == 'x' ? start : source;
        assert_int_equal(tuff_plan_write_at(plan, i, 0, data, (size_t)tuff_shape_count(value.shape) * 4), TUFF_OK);
    }
    run_plan(plan);
    expect_rows(plan, how, dtype, batches, keys, wanted);
    destroy_plan(plan, graph);
    free(indices);
}

static void scatter_forms(tuff_device *device)
{
    static const tuff_dtype dtypes[] = {TUFF_F32, TUFF_F16, TUFF_BF16, TUFF_I32, TUFF_U32};
    for (int how = 0; how < FORMS; how++)
        for (int i = 0; i < 5; i++)
            if (is_thorough() || is_drawn_for_device(device, how * 5 + i))
                scatter_form(device, (form)how, dtypes[i]);
}

static void operands_are_read_where_they_lie(void **state)
{
    (void)state;
    for_each_driver(scatter_forms);
}

/* One of the logits of each row, as a loss selects its targets. */
static void pick_targets(tuff_device *device)
{
    enum { ROWS = 1024, COLUMNS = 5000 };
    int32_t targets[ROWS];
    float *values = calloc(ROWS * COLUMNS, sizeof(float));
    assert_non_null(values);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, COLUMNS)), *gradient;
    tuff_tensor *picked = tuff_gather(x, tuff_input(graph, "targets", TUFF_I32, TUFF_SHAPE(ROWS, 1)), 1);
    assert_int_equal(tuff_gradients(tuff_sum(picked, (int[]){0, 1}, 2, false), &x, 1, &gradient), TUFF_OK);
    tuff_output(graph, "gradient", gradient);
    tuff_plan *plan = compile_plan(graph);
    tuff_plan_info info;
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    print_message("    %.1f times the bytes of the logits\n",
                  (double)info.memory_peak / (sizeof(float) * ROWS * COLUMNS));
    assert_true(info.memory_peak <= 6 * sizeof(float) * ROWS * COLUMNS);
    for (int i = 0; i < ROWS; i++)
        targets[i] = i * 7919 % COLUMNS;
    assert_int_equal(tuff_plan_write(plan, "targets", targets, sizeof targets), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "x", values, sizeof(float) * ROWS * COLUMNS), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "gradient", values, sizeof(float) * ROWS * COLUMNS), TUFF_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(values[i] == (i % COLUMNS == targets[i / COLUMNS] ? 1.0f : 0.0f));
    destroy_plan(plan, graph);
    free(values);
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
        cmocka_unit_test(operands_are_read_where_they_lie),
        cmocka_unit_test(gradients_of_picked_logits_take_little_memory),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
