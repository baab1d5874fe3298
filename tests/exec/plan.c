/* Plans on every device: shared arrays, random numbers, transfers and their errors, profiles, memory. All numbers are
   small enough for exact arithmetic on every device, so that results are compared bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"

/* One plan writes what another reads; every write increments the version, and nothing else does. */
static void share_array(tuff_device *device)
{
    const float start[] = {1, 2, 3}, step[] = {10, 20, 30}, after[] = {21, 42, 63};
    tuff_array *array = make_array(device, TUFF_F32, 3, start);
    tuff_graph *writer = tuff_graph_create(device), *reader = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(writer, "x", TUFF_F32, TUFF_SHAPE(3));
    tuff_assign(writer, array, tuff_add(tuff_array_tensor(writer, array), x));
    tuff_output(reader, "y", tuff_array_tensor(reader, array));
    tuff_plan *raise = compile_plan(writer), *show = compile_plan(reader);
    assert_int_equal(tuff_plan_write(raise, "x", step, sizeof step), TUFF_OK);
    const uint64_t before = tuff_array_version(array);
    run_plan(show);
    expect_output(show, "y", start, sizeof start);
    assert_int_equal(tuff_array_version(array), before);
    run_plan(raise);
    const uint64_t once = tuff_array_version(array);
    run_plan(raise);
    assert_true(once > before && tuff_array_version(array) > once);
    run_plan(show);
    expect_output(show, "y", after, sizeof after);
    assert_int_equal(tuff_array_write(array, start, sizeof start), TUFF_OK);
    run_plan(show);
    expect_output(show, "y", start, sizeof start);
    destroy_plan(raise, writer);
    destroy_plan(show, reader);
    tuff_array_destroy(array);
}

static void plans_share_arrays(void **state)
{
    (void)state;
    for_drawn_devices(share_array);
}

#define RANDOM_COUNT 50

/* The graph's own step counter and a given one draw the same numbers at the same step. The expected numbers are those
   of the reference device, which is always present. */
static void read_random(tuff_device *device, tuff_array *counter, int steps, uint32_t numbers[][RANDOM_COUNT])
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_graph_seed(graph, 77);
    if (counter)
        tuff_graph_step(graph, counter);
    tuff_tensor *first = tuff_random(graph, TUFF_SHAPE(RANDOM_COUNT / 2)),
                *second = tuff_random(graph, TUFF_SHAPE(5, 5));
    tuff_tensor *parts[] = {first, tuff_reshape(second, TUFF_SHAPE(-1))};
    tuff_output(graph, "numbers", tuff_concat(parts, 2, 0));
    tuff_plan *plan = compile_plan(graph);
    tuff_graph_destroy(graph);
    for (int i = 0; i < steps; i++) {
        if (counter)
            assert_int_equal(tuff_array_write(counter, &i, sizeof i), TUFF_OK);
        run_plan(plan);
        if (counter)
            run_plan(plan); /* the counter is unchanged: the same numbers again */
        assert_int_equal(tuff_plan_read(plan, "numbers", numbers[i], sizeof numbers[i]), TUFF_OK);
    }
    tuff_plan_destroy(plan);
}

static void draw(tuff_device *device)
{
    uint32_t expected[3][RANDOM_COUNT], own[3][RANDOM_COUNT], given[3][RANDOM_COUNT];
    tuff_device *reference = tuff_device_open("reference");
    tuff_array *counter = tuff_array_create(device, TUFF_I32, TUFF_SCALAR);
    read_random(reference, NULL, 3, expected);
    read_random(device, NULL, 3, own);
    read_random(device, counter, 3, given);
    assert_memory_equal(own, expected, sizeof own);
    assert_memory_equal(given, expected, sizeof given);
    for (int i = 0; i < 3; i++) {
        assert_memory_not_equal(own[i], own[(i + 1) % 3], sizeof own[0]);
        assert_memory_not_equal(own[i], own[i] + RANDOM_COUNT / 2, sizeof own[0] / 2);
    }
    tuff_array_destroy(counter);
    tuff_device_close(reference);
}

/* Two draws of one graph differ even with the same shape, at the same step, in the same kernel. */
static void subtract_draws(tuff_device *device, float *apart, size_t size)
{
    tuff_graph *graph = tuff_graph_create(device);
    const tuff_shape shape = TUFF_SHAPE(RANDOM_COUNT);
    tuff_graph_seed(graph, 77);
    tuff_output(graph, "apart", tuff_sub(tuff_random(graph, shape), tuff_random(graph, shape)));
    tuff_plan *plan = compile_plan(graph);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "apart", apart, size), TUFF_OK);
    destroy_plan(plan, graph);
}

static void draw_twice(tuff_device *device)
{
    float apart[RANDOM_COUNT], expected[RANDOM_COUNT];
    tuff_device *reference = tuff_device_open("reference");
    subtract_draws(reference, expected, sizeof expected);
    subtract_draws(device, apart, sizeof apart);
    assert_memory_equal(apart, expected, sizeof apart);
    for (int i = 0; i < RANDOM_COUNT; i++)
        assert_true(apart[i] != 0);
    tuff_device_close(reference);
}

static void draws_of_one_kernel_differ(void **state)
{
    (void)state;
    for_drawn_devices(draw_twice);
}

static void random_numbers_are_fresh_and_the_same_everywhere(void **state)
{
    (void)state;
    for_drawn_devices(draw);
}

static void transfer_wrongly(tuff_device *device)
{
    float data[12] = {0};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *sum = tuff_add(tuff_input(graph, "left", TUFF_F32, TUFF_SHAPE(2, 3)),
                                tuff_input(graph, "right", TUFF_F32, TUFF_SHAPE(2, 3)));
    tuff_output(graph, "sum", sum);
    tuff_plan *plan = compile_plan(graph);
    expect_error(tuff_plan_write(plan, "middle", data, 24), TUFF_E_USAGE, "middle");
    expect_error(tuff_plan_write(plan, "sum", data, 24), TUFF_E_USAGE, "sum");
    expect_error(tuff_plan_write(plan, "left", data, 20), TUFF_E_USAGE, "[2,3]");
    expect_error(tuff_plan_write(plan, "left", NULL, 24), TUFF_E_USAGE, "NULL");
    expect_error(tuff_plan_write(plan, NULL, data, 24), TUFF_E_USAGE, "NULL");
    assert_int_equal(tuff_plan_write(plan, "left", data, 24), TUFF_OK);
    expect_error(tuff_plan_run(plan), TUFF_E_USAGE, "right");
    assert_int_equal(tuff_plan_write(plan, "right", data, 24), TUFF_OK);
    expect_error(tuff_plan_read(plan, "sum", data, 24), TUFF_E_USAGE, "run");
    run_plan(plan);
    expect_error(tuff_plan_read(plan, "difference", data, 24), TUFF_E_USAGE, "difference");
    expect_error(tuff_plan_read(plan, "left", data, 24), TUFF_E_USAGE, "left");
    expect_error(tuff_plan_read(plan, "sum", data, 48), TUFF_E_USAGE, "[2,3]");
    expect_error(tuff_plan_read(plan, "sum", NULL, 24), TUFF_E_USAGE, "NULL");
    assert_int_equal(tuff_plan_read(plan, "sum", data, 24), TUFF_OK);
    assert_int_equal(tuff_plan_run(NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_plan_wait(NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_plan_wait(plan), TUFF_OK);
    destroy_plan(plan, graph);
}

static void wrong_transfers_are_told(void **state)
{
    (void)state;
    for_drawn_devices(transfer_wrongly);
}

/* Writes are ordered with the runs before and after them without any wait. */
static void accumulate(tuff_device *device)
{
    const float zero = 0, sum = 55;
    tuff_array *total = make_array(device, TUFF_F32, 1, &zero);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1));
    tuff_assign(graph, total, tuff_add(tuff_array_tensor(graph, total), x));
    tuff_plan *plan = compile_plan(graph);
    for (float i = 1; i <= 10; i++) {
        assert_int_equal(tuff_plan_write(plan, "x", &i, sizeof i), TUFF_OK);
        run_plan(plan);
    }
    expect_array(total, &sum);
    destroy_plan(plan, graph);
    tuff_array_destroy(total);
}

static void writes_keep_their_place_among_runs(void **state)
{
    (void)state;
    for_drawn_devices(accumulate);
}

static void profile(tuff_device *device)
{
    const float one = 1, three = 3, four = 4;
    tuff_array *count = make_array(device, TUFF_F32, 1, &one);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1));
    tuff_assign(graph, count, tuff_add(tuff_array_tensor(graph, count), x));
    tuff_plan *plan = compile_plan(graph);
    tuff_plan_info info;
    tuff_task_info task;
    uint64_t nanoseconds = 0;
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    assert_int_equal(tuff_plan_task(plan, info.task_count, &task), TUFF_E_USAGE);
    assert_int_equal(tuff_plan_task(plan, -1, &task), TUFF_E_USAGE);
    if (tuff__device_is_reference(device)) {
        assert_int_equal(tuff_plan_profile(plan), TUFF_E_UNSUPPORTED);
    } else {
        assert_true(info.task_count > 0);
        expect_error(tuff_plan_profile(plan), TUFF_E_USAGE, "\"x\"");
        assert_int_equal(tuff_plan_write(plan, "x", &one, sizeof one), TUFF_OK);
        assert_int_equal(tuff_plan_profile(plan), TUFF_OK);
        for (int i = 0; i < info.task_count; i++) {
            assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
            assert_non_null(task.kind);
            assert_non_null(task.label);
            nanoseconds += task.nanoseconds;
        }
        assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
        assert_true(nanoseconds > 0 && nanoseconds <= info.run_nanoseconds);
        /* tuff_plan_profile first runs a plan that never ran, so that the profiled run is its second. */
        expect_array(count, &three);
        assert_int_equal(tuff_plan_profile(plan), TUFF_OK);
        expect_array(count, &four);
    }
    destroy_plan(plan, graph);
    tuff_array_destroy(count);
}

static void a_profile_is_a_run_with_times(void **state)
{
    (void)state;
    for_drawn_devices(profile);
}

/* Five products in sequence need two buffers, not five; the plan outlives its graph. */
static void reuse_memory(tuff_device *device)
{
    float ones[64 * 64], got[64 * 64];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(64, 64)), *y = x;
    for (int i = 0; i < 5; i++)
        y = tuff_matmul(y, x);
    tuff_output(graph, "y", y);
    tuff_plan *plan = compile_plan(graph);
    tuff_graph_destroy(graph);
    for (int i = 0; i < 64 * 64; i++)
        ones[i] = i / 64 == i % 64 ? 2 : 0;
    tuff_plan_info info;
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    if (!tuff__device_is_reference(device)) {
        assert_true(info.memory_peak >= sizeof ones);
        assert_true(info.memory_peak < info.memory_unplanned);
    }
    assert_int_equal(tuff_plan_write(plan, "x", ones, sizeof ones), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", got, sizeof got), TUFF_OK);
    for (int i = 0; i < 64 * 64; i++)
        assert_true(got[i] == (i / 64 == i % 64 ? 64.0f : 0.0f));
    tuff_plan_destroy(plan);
}

#define SIDE 64
#define LAYERS 6

/* Returns the row to which `times` multiplications with w move a row. */
static int moved(int row, int times)
{
    for (int i = 0; i < times; i++)
        row = (row * 5 + 3) % SIDE;
    return row;
}

/* As in training: one value per layer is kept for its gradient, and the gradients are computed in reverse order; they
   are adjacent in memory and are multiplied by a vector. */
static tuff_plan *small_training(tuff_graph *graph)
{
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(SIDE, SIDE));
    tuff_tensor *numbers = tuff_input(graph, "numbers", TUFF_F32, TUFF_SHAPE(SIDE, 1));
    tuff_tensor *values[LAYERS], *gradients[LAYERS], *value = w;
    for (int i = 0; i < LAYERS; i++)
        values[i] = value = tuff_matmul(value, w);
    for (int i = LAYERS - 1; i >= 0; i--) {
        gradients[i] = tuff_matmul(tuff_permute(values[i], (int[]){1, 0}), value);
        value = tuff_matmul(value, w);
    }
    tuff_output(graph, "moved", tuff_matmul(tuff_concat(gradients, LAYERS, 0), numbers));
    return compile_plan(graph);
}

/* The memory of a gradient is needed only once it is computed: it may be that of values that are no longer read. */
static void share_room_of_gradients(tuff_device *device)
{
    static float w[SIDE][SIDE], numbers[SIDE], got[LAYERS * SIDE];
    tuff_plan_info info;
    for (int i = 0; i < SIDE; i++) {
        w[i][moved(i, 1)] = 1;
        numbers[i] = (float)i;
    }
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = small_training(graph);
    assert_int_equal(tuff_plan_write(plan, "w", w, sizeof w), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "numbers", numbers, sizeof numbers), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "moved", got, sizeof got), TUFF_OK);
    for (int i = 0; i < LAYERS * SIDE; i++)
        assert_true(got[i] == (float)moved(i % SIDE, 2 * (LAYERS - 1 - i / SIDE)));
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    if (!tuff__device_is_reference(device))
        assert_true(info.memory_peak >= (LAYERS + 2) * sizeof w && info.memory_peak < (2 * LAYERS - 1) * sizeof w);
    destroy_plan(plan, graph);
}

static void gradients_take_no_room_before_they_are_made(void **state)
{
    (void)state;
    for_drawn_devices(share_room_of_gradients);
}

static void memory_is_used_again(void **state)
{
    (void)state;
    for_drawn_devices(reuse_memory);
}

/* A regression by gradient descent: it converges without reads between those of the loss. */
static void train(tuff_device *device)
{
    const tuff_parameter_spec spec = {"w", TUFF_SHAPE(4, 1)};
    const tuff_optimizer_options rule = {.kind = TUFF_SGD, .learning_rate = 0.1};
    const float x[] = {1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1}, y[] = {1, 2, 3};
    float first, last;
    tuff_parameters *parameters = tuff_parameters_create(device, &spec, 1);
    tuff_optimizer *optimizer = tuff_optimizer_create(parameters, &rule);
    assert_non_null(optimizer);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *product = tuff_matmul(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(3, 4)),
                                       tuff_array_tensor(graph, tuff_parameters_at(parameters, 0, NULL)));
    tuff_tensor *loss = tuff_mse(product, tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(3, 1)));
    assert_int_equal(tuff_optimizer_apply(optimizer, loss, NULL), TUFF_OK);
    tuff_output(graph, "loss", loss);
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "y", y, sizeof y), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "loss", &first, sizeof first), TUFF_OK);
    tuff_device_counters before, after;
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    for (int i = 0; i < 10; i++)
        run_plan(plan);
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(after.reads, before.reads);
    assert_int_equal(after.bytes_allocated, before.bytes_allocated);
    assert_int_equal(tuff_plan_read(plan, "loss", &last, sizeof last), TUFF_OK);
    assert_true(last < first / 2);
    destroy_plan(plan, graph);
    tuff_optimizer_destroy(optimizer);
    tuff_parameters_destroy(parameters);
}

static void training_reads_nothing_from_the_device(void **state)
{
    (void)state;
    for_drawn_devices(train);
}

/* Positions are data: one recording serves all of them, including those out of range. */
static void look_up(tuff_device *device)
{
    int32_t table[40], row[4];
    for (int i = 0; i < 40; i++)
        table[i] = i * i;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *rows = tuff_constant_data(graph, TUFF_I32, TUFF_SHAPE(10, 4), table);
    tuff_tensor *position = tuff_input(graph, "position", TUFF_I32, TUFF_SCALAR);
    tuff_output(graph, "row", tuff_gather_rows(rows, tuff_reshape(position, TUFF_SHAPE(1)), 0));
    tuff_plan *plan = compile_plan(graph);
    tuff_device_counters before, after;
    assert_int_equal(tuff_device_counters_get(device, &before), TUFF_OK);
    for (int32_t i = -1; i <= 10; i++) {
        assert_int_equal(tuff_plan_write(plan, "position", &i, sizeof i), TUFF_OK);
        run_plan(plan);
        assert_int_equal(tuff_plan_read(plan, "row", row, sizeof row), TUFF_OK);
        for (int k = 0; k < 4; k++)
            assert_int_equal(row[k], i < 0 || i > 9 ? 0 : table[i * 4 + k]);
    }
    assert_int_equal(tuff_device_counters_get(device, &after), TUFF_OK);
    assert_int_equal(after.programs_compiled, before.programs_compiled);
    destroy_plan(plan, graph);
}

static void one_recording_serves_every_position(void **state)
{
    (void)state;
    for_drawn_devices(look_up);
}

/* A graph can be extended after it was compiled; the first plan stays unchanged. Tensors without elements are
   allowed. */
static void extend(tuff_device *device)
{
    const float x[] = {1, 2, 3}, twice[] = {2, 4, 6}, back[] = {6, 4, 2};
    char nothing;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *input = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(3)), *sum = tuff_add(input, input);
    tuff_output(graph, "sum", sum);
    tuff_plan *first = compile_plan(graph);
    tuff_output(graph, "back", reversed(sum));
    tuff_output(graph, "empty", tuff_slice(sum, &(int64_t){1}, &(int64_t){1}, NULL));
    tuff_plan *second = compile_plan(graph);
    assert_int_equal(tuff_plan_write(first, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(second, "x", x, sizeof x), TUFF_OK);
    run_plan(first);
    run_plan(second);
    expect_output(first, "sum", twice, sizeof twice);
    expect_output(second, "sum", twice, sizeof twice);
    expect_output(second, "back", back, sizeof back);
    assert_int_equal(tuff_plan_read(second, "empty", &nothing, 0), TUFF_OK);
    expect_error(tuff_plan_read(first, "back", &nothing, 1), TUFF_E_USAGE, "back");
    tuff_plan_destroy(first);
    destroy_plan(second, graph);
}

static void a_compiled_graph_may_be_extended(void **state)
{
    (void)state;
    for_drawn_devices(extend);
}

/* Returns the rows of a tile, from the text of the matmul's kernel. */
static int rows_of_tile(const tuff_plan *plan)
{
    tuff_task_info task;
    int rows = 0;
    assert_int_equal(tuff_plan_task(plan, 0, &task), TUFF_OK);
    const char *line = strstr(task.source, "#define BLOCK_ROWS ");
    assert_true(line == NULL || sscanf(line, "#define BLOCK_ROWS %d", &rows) == 1);
    return rows;
}

/* A CPU device multiplies without local memory; described as a GPU, it shows the kernel for a GPU, which is not run. */
static void override(tuff_device *device)
{
    const float ones[64] = {0};
    tuff_device_info as;
    assert_int_equal(tuff_device_describe(device, &as), TUFF_OK);
    const bool cpu = as.device_class == TUFF_DEVICE_CPU;
    for (int overridden = 0; overridden < 2; overridden++) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(8, 8));
        tuff_output(graph, "y", tuff_matmul(x, x));
        tuff_plan *plan = compile_plan(graph);
        assert_int_equal(rows_of_tile(plan) > 0, overridden || !cpu);
        assert_int_equal(tuff_plan_write(plan, "x", ones, sizeof ones), TUFF_OK);
        assert_int_equal(tuff_plan_run(plan), overridden ? TUFF_E_UNSUPPORTED : TUFF_OK);
        destroy_plan(plan, graph);
        as.device_class = TUFF_DEVICE_GPU_DISCRETE;
        if (!overridden)
            tuff__device_override_info(device, &as);
    }
}

static void an_overridden_device_shows_anothers_kernels(void **state)
{
    (void)state;
    for_drawn_drivers(override);
}

/* x · 0, 0 · x, x · (0 as a tensor) and x - x are NaN if x is NaN or infinite: no rewriting makes them 0. Mesa's
   compiler does (lavapipe 22.3 computes 0 · NaN = 0 for a literal 0), so that lavapipe is skipped. */
static void keep_nan(tuff_device *device)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 2};
    static const char *const names[] = {"right", "left", "spread", "difference"};
    tuff_device_info info;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    if (strstr(info.name, "llvmpipe") != NULL) {
        leave_out_device("its compiler folds products of 0");
        return;
    }
    for (int fused = 0; fused < 2; fused++) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(4)), *zero = tuff_constant(graph, TUFF_F32, 0);
        tuff_output(graph, "right", tuff_mul(x, zero));
        tuff_output(graph, "left", tuff_mul(zero, x));
        tuff_output(graph, "spread", tuff_mul(x, tuff_expand(zero, TUFF_SHAPE(4))));
        tuff_output(graph, "difference", tuff_sub(x, x));
        tuff_plan *plan =
            tuff_compile(graph, &(tuff_compile_options){.fuse = fused ? TUFF_FUSE_ALL : TUFF_FUSE_NONE,
                                                        .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
        assert_non_null(plan);
        assert_int_equal(tuff_plan_write(plan, "x", values, sizeof values), TUFF_OK);
        run_plan(plan);
        for (int i = 0; i < 4; i++) {
            float got[4];
            assert_int_equal(tuff_plan_read(plan, names[i], got, sizeof got), TUFF_OK);
            if (!isnan(got[0]) || !isnan(got[1]) || !isnan(got[2]) || got[3] != 0)
                fail_msg("%s, %s: %g %g %g %g", names[i], fused ? "fused" : "unfused", (double)got[0], (double)got[1],
                         (double)got[2], (double)got[3]);
        }
        destroy_plan(plan, graph);
    }
}

/* Minima of integers over the whole range: -x overflows i32 for one number, and u32 for all but 0. */
static void find_least(tuff_device *device)
{
    static const int32_t some[] = {5, INT32_MIN, -3, INT32_MAX, 7, 9};
    static const uint32_t others[] = {5, 0, 7, UINT32_MAX, 3, 9};
    const int axis = 1;
    int32_t least[2];
    uint32_t other[2];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_I32, TUFF_SHAPE(2, 3)),
                *y = tuff_input(graph, "y", TUFF_U32, TUFF_SHAPE(2, 3));
    tuff_output(graph, "least", tuff_reduce_min(x, &axis, 1, false));
    tuff_output(graph, "other", tuff_reduce_min(y, &axis, 1, false));
    tuff_plan *plan =
        tuff_compile(graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
    assert_non_null(plan);
    assert_int_equal(tuff_plan_write(plan, "x", some, sizeof some), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "y", others, sizeof others), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "least", least, sizeof least), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "other", other, sizeof other), TUFF_OK);
    assert_true(least[0] == INT32_MIN && least[1] == 7 && other[0] == 0 && other[1] == 3);
    destroy_plan(plan, graph);
}

static void whole_numbers_have_a_least(void **state)
{
    (void)state;
    for_drawn_devices(find_least);
}

static void expect_near(tuff_plan *plan, const char *name, int count, const float *expected)
{
    float got[4];
    assert_int_equal(tuff_plan_read(plan, name, got, (size_t)count * sizeof *got), TUFF_OK);
    for (int i = 0; i < count; i++)
        if (!(fabsf(got[i] - expected[i]) <= 1e-6f * fabsf(expected[i])))
            fail_msg("%s: element %d is %.9g, not %.9g", name, i, (double)got[i], (double)expected[i]);
}

/* Constant folding keeps values as f32, as a run does with values that are not constant. */
static void pass_on_constants(tuff_device *device)
{
    static const float x[] = {1, 0, 0}, third = 1.0f / 3, thirds[] = {1.0f / 3, 1.0f / 3, 1.0f / 3};
    static const float sum = 60000, parts[] = {1, 1.0f / 3};
    static const uint16_t one_and_three[] = {0x3c00, 0x4200};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(3)), *gradient;
    tuff_tensor *large = tuff_constant(graph, TUFF_F16, 60000), *part = tuff_constant(graph, TUFF_F16, 1.0 / 3);
    tuff_tensor *loss = tuff_mean(tuff_cast(w, TUFF_BF16), (int[]){0}, 1, false);
    assert_int_equal(tuff_gradients(loss, &w, 1, &gradient), TUFF_OK);
    tuff_output(graph, "gradient", tuff_cast(gradient, TUFF_F32));
    tuff_output(graph, "sum",
                tuff_cast(tuff_mul(tuff_add(large, large), tuff_constant(graph, TUFF_F16, 0.5)), TUFF_F32));
    tuff_tensor *data = tuff_constant_data(graph, TUFF_F16, TUFF_SHAPE(2), one_and_three);
    tuff_output(graph, "parts", tuff_cast(tuff_div(tuff_constant(graph, TUFF_F16, 1), data), TUFF_F32));
    tuff_tensor *column = tuff_expand(tuff_reshape(part, TUFF_SHAPE(1, 1)), TUFF_SHAPE(3, 1));
    tuff_tensor *row = tuff_reshape(tuff_cast(w, TUFF_F16), TUFF_SHAPE(1, 3));
    tuff_output(graph, "product", tuff_cast(tuff_matmul(row, column), TUFF_F32));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "w", x, sizeof x), TUFF_OK);
    run_plan(plan);
    expect_near(plan, "gradient", 3, thirds);
    expect_near(plan, "sum", 1, &sum);
    expect_near(plan, "parts", 2, parts);
    expect_near(plan, "product", 1, &third);
    destroy_plan(plan, graph);
}

static void narrow_constants_round_nowhere_in_between(void **state)
{
    (void)state;
    for_drawn_devices(pass_on_constants);
}

/* Tensors without elements may lie at the very end of their memory: a view, a parameter, a constant after others. */
static void sum_nothing(tuff_device *device)
{
    static const float data[] = {1, 2, 3, 4}, zero = 0, twice[] = {2, 4, 6, 8};
    const tuff_parameter_spec specs[] = {{"w", TUFF_SHAPE(64)}, {"none", TUFF_SHAPE(0)}};
    tuff_array *array = make_array(device, TUFF_F32, 4, data),
               *alone = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(0));
    tuff_array *end = tuff_array_view(array, 4, TUFF_SHAPE(0));
    tuff_parameters *parameters = tuff_parameters_create(device, specs, 2);
    assert_true(alone && end && parameters);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(0)), *all = tuff_array_tensor(graph, array);
    tuff_tensor *constant = tuff_constant_data(graph, TUFF_F32, TUFF_SHAPE(4), data);
    tuff_tensor *none[] = {tuff_array_tensor(graph, end), tuff_array_tensor(graph, alone),
                           tuff_array_tensor(graph, tuff_parameters_at(parameters, 1, NULL)),
                           tuff_constant_data(graph, TUFF_F32, TUFF_SHAPE(0), data)};
    static const char *const names[] = {"view", "alone", "parameter", "constant"};
    for (int i = 0; i < 4; i++)
        tuff_output(graph, names[i], tuff_sum(tuff_mul(none[i], x), (int[]){0}, 1, false));
    tuff_output(graph, "twice", tuff_add(all, constant));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", data, 0), TUFF_OK);
    run_plan(plan);
    for (int i = 0; i < 4; i++)
        expect_output(plan, names[i], &zero, sizeof zero);
    expect_output(plan, "twice", twice, sizeof twice);
    destroy_plan(plan, graph);
    tuff_array_destroy(end);
    tuff_array_destroy(alone);
    tuff_array_destroy(array);
    tuff_parameters_destroy(parameters);
}

static void nothing_may_lie_at_the_end(void **state)
{
    (void)state;
    for_drawn_devices(sum_nothing);
}

/* If there is nothing to transfer, the pointer may be NULL. */
static void transfer_nothing(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "y", tuff_neg(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(0, 3))));
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", NULL, 0), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "y", NULL, 0), TUFF_OK);
    expect_error(tuff_plan_read(plan, "y", NULL, 4), TUFF_E_USAGE, "read");
    destroy_plan(plan, graph);
}

static void nothing_is_transferred_from_nowhere(void **state)
{
    (void)state;
    for_drawn_devices(transfer_nothing);
}

static void zero_hides_no_nan(void **state)
{
    (void)state;
    for_drawn_devices(keep_nan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_share_arrays),
        cmocka_unit_test(random_numbers_are_fresh_and_the_same_everywhere),
        cmocka_unit_test(draws_of_one_kernel_differ),
        cmocka_unit_test(wrong_transfers_are_told),
        cmocka_unit_test(writes_keep_their_place_among_runs),
        cmocka_unit_test(a_profile_is_a_run_with_times),
        cmocka_unit_test(memory_is_used_again),
        cmocka_unit_test(gradients_take_no_room_before_they_are_made),
        cmocka_unit_test(training_reads_nothing_from_the_device),
        cmocka_unit_test(one_recording_serves_every_position),
        cmocka_unit_test(a_compiled_graph_may_be_extended),
        cmocka_unit_test(an_overridden_device_shows_anothers_kernels),
        cmocka_unit_test(zero_hides_no_nan),
        cmocka_unit_test(whole_numbers_have_a_least),
        cmocka_unit_test(narrow_constants_round_nowhere_in_between),
        cmocka_unit_test(nothing_may_lie_at_the_end),
        cmocka_unit_test(nothing_is_transferred_from_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
