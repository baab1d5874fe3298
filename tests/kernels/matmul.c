/* Matmuls of every shape class with a kernel or a tile of its own, in every layout that autodiff produces, against sums
   in double, element by element. Each runs alone and with an epilogue; an operand is an input, or an array whose
   elements change between runs. TUFF_DEVICE selects one device; TUFF_SUITE=thorough leaves nothing out. */
#include <math.h>
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
#include "matmul_cases.h"
#include "small_plans.h"
#include "tuff.h"

#define EACH_FORM(m, n, k)                                                                                     \
    {m, n, k, 1, PLAIN, TUFF_F32}, {m, n, k, 1, X_TRANSPOSED, TUFF_F32}, {m, n, k, 1, Y_TRANSPOSED, TUFF_F32}, \
    {                                                                                                          \
        m, n, k, 1, BOTH_TRANSPOSED, TUFF_F32                                                                  \
    }

static const shape_case cases[] = {
    EACH_FORM(37, 53, 29),
    EACH_FORM(48, 96, 40),
    EACH_FORM(130, 260, 70),
    EACH_FORM(16, 72, 8),
    EACH_FORM(5, 300, 33),
    EACH_FORM(1, 261, 130),
    EACH_FORM(70, 3, 50),
    EACH_FORM(70, 1, 50),
    EACH_FORM(24, 40, 2100),
    /* One tile, and more terms than a single work-item should add. */
    EACH_FORM(12, 24, 8200),
    /* Operands whose rows map to few sets of a cache, or fill it: they are copied to panels. */
    EACH_FORM(256, 256, 1100),
    /* Operands spread over many pages, with a partial panel at the end. */
    EACH_FORM(203, 213, 1100),
    {197, 204, 700, 2, BATCHED, TUFF_F32},
    {200, 198, 1024, 1, PLAIN, TUFF_F16},
    {37, 200, 16500, 1, X_TRANSPOSED, TUFF_F32},
    EACH_FORM(200, 10, 64),
    EACH_FORM(12, 530, 40),
    EACH_FORM(2, 8300, 70),
    {9, 1, 67, 1, PLAIN, TUFF_F32},
    {1, 700, 90, 1, PLAIN, TUFF_F16},
    {1, 700, 90, 1, Y_TRANSPOSED, TUFF_F16},
    {3, 130, 90, 1, PLAIN, TUFF_BF16},
    {3, 130, 96, 1, Y_TRANSPOSED, TUFF_BF16},
    {33, 65, 31, 1, PLAIN, TUFF_F16},
    {33, 65, 31, 1, Y_TRANSPOSED, TUFF_F16},
    {17, 35, 19, 3, BATCHED, TUFF_F32},
    {17, 35, 19, 3, MIDDLE, TUFF_F32},
    {32, 64, 32, 4, MIDDLE, TUFF_F32},
    {1, 64, 48, 5, MIDDLE, TUFF_F32},
    {128, 32, 64, 2, MIDDLE, TUFF_BF16},
};

static void check_device(tuff_device *device)
{
    tuff_device_info info;
    const char *chosen = getenv("TUFF_DEVICE");
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    if (chosen && chosen[0] && strcmp(chosen, info.selector) != 0) {
        leave_out_device("TUFF_DEVICE names another");
        return;
    }
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        const bool epilogue = drawn_turn("epilogue", i, 2) == 0, array = drawn_turn("array", i, 2) == 0;
        if (!is_drawn_for_device(device, i) || (!is_thorough() && drawn_turn("cases", i, 2) != 0))
            continue;
        try_case(device, info.name, &cases[i], epilogue, array, NULL, NULL);
        if (is_thorough())
            try_case(device, info.name, &cases[i], !epilogue, !array, NULL, NULL);
    }
}

/* The kernels for GPUs: large blocks if each compute unit has few of them, small ones if many groups share a unit. */
static void check_gpu_kernels(tuff_device *device)
{
    static const kernel_choice any = {.for_gpus = true}, blocks = {.body = "matmul_local", .for_gpus = true},
                               parts = {.body = "matmul_gemv_local", .sums = "column_local", .for_gpus = true},
                               block_parts = {.body = "matmul_local", .sums = "column_local", .for_gpus = true};
    /* The latter cases read or add enough that their terms are split among groups. */
    static const struct {
        shape_case shape;
        const kernel_choice *choice;
    } known[] = {{{48, 96, 40, 1, PLAIN, TUFF_F32}, &blocks},
                 {{1, 2080, 2048, 1, PLAIN, TUFF_F32}, &parts},
                 {{3, 400, 16384, 1, Y_TRANSPOSED, TUFF_F16}, &parts},
                 {{37, 200, 16500, 1, X_TRANSPOSED, TUFF_F32}, &block_parts}};
    const tuff_device_info info = device->info;
    device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
    device->info.vendor_id = 0;
    device->info.local_is_global = false;
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        const uint32_t units = drawn_turn("units", i, 2) == 0 ? 1 : 32;
        if (!is_drawn_for_device(device, i) || (!is_thorough() && drawn_turn("kernels of GPUs", i, 5) != 0))
            continue;
        for (uint32_t k = 1; k <= 32; k *= 32) {
            device->info.compute_units = k;
            if (is_thorough() || k == units)
                try_case(device, info.name, &cases[i], drawn_turn("epilogue", i, 2) == 0,
                         drawn_turn("array", i, 2) == 0, NULL, &any);
        }
    }
    device->info.compute_units = 32;
    for (int i = 0; i < (int)(sizeof known / sizeof known[0]); i++)
        if (is_drawn_for_device(device, i))
            try_case(device, info.name, &known[i].shape, false, false, NULL, known[i].choice);
    device->info = info;
}

static void kernels_of_gpus_are_right(void **unused)
{
    (void)unused;
    for_each_driver(check_gpu_kernels);
}

/* Blocks of extreme shapes: groups of fewer lanes than a line of terms has chunks, narrow blocks, and lines of which
   every lane loads several chunks. */
static void check_blocks(tuff_device *device)
{
#define BLOCKS(rows, columns, thread_rows, thread_columns, step, buffers)                                   \
    {                                                                                                       \
        .body = "matmul_local",                                                                             \
        .config = "task.family=2;matmul_local.block_rows=" #rows ";matmul_local.block_columns=" #columns    \
                  ";matmul_local.thread_rows=" #thread_rows ";matmul_local.thread_columns=" #thread_columns \
                  ";matmul_local.step_k=" #step ";matmul_local.buffers=" #buffers                           \
    }
    static const kernel_choice choices[] = {BLOCKS(16, 16, 8, 8, 32, 2), BLOCKS(16, 16, 8, 8, 32, 1),
                                            BLOCKS(128, 16, 8, 8, 4, 2), BLOCKS(16, 128, 2, 4, 32, 2),
                                            BLOCKS(32, 64, 8, 4, 16, 2)};
#undef BLOCKS
    static const form layouts[] = {PLAIN, X_TRANSPOSED, Y_TRANSPOSED};
    for (int i = 0; i < (int)(sizeof choices / sizeof choices[0]); i++)
        for (int k = 0; k < 3; k++) {
            const shape_case one = {33 + 32 * (i % 2), 129, 61 + 3 * (i % 2), 1, layouts[k], TUFF_F32};
            /* The drivers of Vulkan compile the first two, which are unrolled 2048 times, for minutes. */
            if (is_drawn_for_device(device, 3 * i + k) && (i >= 2 || !tuff__device_takes_glsl(device)))
                try_case(device, device->info.name, &one, false, false, NULL, &choices[i]);
        }
}

static void blocks_of_any_shape_are_right(void **unused)
{
    (void)unused;
    for_each_driver(check_blocks);
}

static void check_registers(tuff_device *device)
{
    enum { NVIDIA = 0x10de, AMD = 0x1002 };
    static const char *const configs[] = {"", "matmul_local.few_registers=0", "matmul_local.few_registers=1"};
    const tuff_device_info info = device->info;
    device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
    device->info.local_is_global = false;
    for (int i = 0; i < 6; i++) {
        tune_config config;
        device->info.vendor_id = i < 3 ? NVIDIA : AMD;
        assert_int_equal(tuff__config_parse(configs[i % 3], &config), TUFF_OK);
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(256, 256));
        tuff_output(graph, "y", tuff_matmul(x, x));
        tuff_plan *plan = lower_configured(graph, &(tuff_compile_options){0}, TASK_MATMUL, &config);
        assert_non_null(plan);
        assert_true(uses_body(plan, "matmul_local"));
        const bool limited = i < 3 && i != 1 && !tuff__device_takes_glsl(device);
        assert_int_equal(uses_kernel(plan, "matmul_local", "#define FEW_REGISTERS\n"), limited);
        for (int k = 0; k < plan->executable.launches.launch_count; k++)
            assert_int_equal(plan->executable.launches.launches[k].registers == REGISTERS_FEW, limited);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
    device->info = info;
}

static void registers_are_limited_for_nvidia(void **unused)
{
    (void)unused;
    for_each_driver(check_registers);
}

/* One weight for a whole batch, a product of an operand with itself, and following ops in kernels of their own. */
static void check_chain(tuff_graph *graph, tuff_plan **plan)
{
    static float numbers[3 * 20 * 24];
    float sum, wanted_sum;
    for (int i = 0; i < 3 * 20 * 24; i++)
        numbers[i] = (float)(i % 13 - 6) / 8;
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(3, 20, 24));
    tuff_tensor *w = tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(24, 24));
    tuff_tensor *y = tuff_relu(tuff_matmul(tuff_matmul(x, w), tuff_matmul(w, w)));
    tuff_output(graph, "sum", tuff_sum(tuff_mul(y, y), (int[]){0, 1, 2}, 3, false));
    const tuff_compile_options library = {.matmul_library = TUFF_MATMUL_CLBLAST};
    tuff_plan *own = tuff_compile(graph, NULL);
    *plan = tuff_compile(graph, &library);
    assert_non_null(own);
    assert_non_null(*plan);
    tuff_plan *const both[] = {own, *plan};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tuff_plan_write(both[i], "x", numbers, sizeof numbers), TUFF_OK);
        assert_int_equal(tuff_plan_write(both[i], "w", numbers, 24 * 24 * sizeof(float)), TUFF_OK);
        assert_int_equal(tuff_plan_run(both[i]), TUFF_OK);
        assert_int_equal(tuff_plan_read(both[i], "sum", i ? &sum : &wanted_sum, sizeof sum), TUFF_OK);
    }
    assert_true(wanted_sum > 0 && fabsf(sum - wanted_sum) <= 1e-5f * wanted_sum);
    assert_int_equal(count_tasks(own, "matmul", "clblast"), 0);
    assert_true(count_tasks(*plan, "matmul", "clblast") > 0);
    tuff_plan_destroy(own);
}

/* A profile has times, and the plan's next run gives the same results. */
static void check_profile(tuff_plan *plan)
{
    tuff_plan_info info;
    float before, after;
    assert_int_equal(tuff_plan_read(plan, "sum", &before, sizeof before), TUFF_OK);
    assert_int_equal(tuff_plan_profile(plan), TUFF_OK);
    assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        assert_int_equal(tuff_plan_task(plan, i, &task), TUFF_OK);
        assert_true(task.nanoseconds > 0 && task.nanoseconds <= info.run_nanoseconds);
        assert_true((strcmp(task.program, "clblast") == 0) == (task.source == NULL));
    }
    assert_int_equal(tuff_plan_run(plan), TUFF_OK);
    assert_int_equal(tuff_plan_read(plan, "sum", &after, sizeof after), TUFF_OK);
    assert_memory_equal(&before, &after, sizeof before);
}

/* Devices without the library report an error; nothing is compiled instead. */
static void refuse_library(tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(4, 4));
    tuff_output(graph, "y", tuff_matmul(x, x));
    assert_null(tuff_compile(graph, &(tuff_compile_options){.matmul_library = TUFF_MATMUL_CLBLAST}));
    assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
    assert_non_null(strstr(tuff_error(), "CLBlast"));
    assert_null(tuff_compile(graph, &(tuff_compile_options){.matmul_library = (tuff_matmul_library)7}));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    tuff_graph_destroy(graph);
}

static void check_library(tuff_device *device)
{
    static const tuff_compile_options library = {.matmul_library = TUFF_MATMUL_CLBLAST};
    tuff_device_info info;
    tuff_plan *plan = NULL;
    if (tuff__device_library_unavailable_reason(device)) {
        refuse_library(device);
        return;
    }
    /* The library has many kernels, which take long to compile. */
    if (!is_drawn_for_device_per_api(device, 0) || (!is_thorough() && drawn_turn("library at all", 0, 4) != 0)) {
        leave_out_device("not drawn");
        return;
    }
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (is_thorough() || drawn_turn("library", (int)i, 4) == 0)
            try_case(device, info.name, &cases[i], drawn_turn("epilogue", (int)i, 2) == 0,
                     drawn_turn("array", (int)i, 3) == 0, &library, NULL);
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    check_chain(graph, &plan);
    check_profile(plan);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void a_library_is_right_too(void **unused)
{
    (void)unused;
    for_each_device(check_library);
}

/* Subgroup kernels, if the self-test proved shuffles; otherwise nothing is compiled instead. */
static void check_subgroups(tuff_device *device)
{
    static const tuff_compile_options subgroups = {.family = TUFF_FAMILY_SUBGROUP};
    const char *chosen = getenv("TUFF_DEVICE");
    tuff_device_info info;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    if (chosen && chosen[0] && strcmp(chosen, info.selector) != 0) {
        leave_out_device("TUFF_DEVICE names another");
        return;
    }
    if (!info.subgroup_shuffle) {
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(4, 4));
        tuff_output(graph, "y", tuff_matmul(x, x));
        assert_null(tuff_compile(graph, &subgroups));
        assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
        assert_non_null(strstr(tuff_error(), "subgroup shuffles"));
        tuff_graph_destroy(graph);
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int number = (int)i;
        if (is_thorough() || drawn_turn(info.selector, number, 10) == 0)
            try_case(device, info.name, &cases[i], drawn_turn("epilogue", number, 2) == 0,
                     drawn_turn("array", number, 3) == 0, &subgroups, NULL);
    }
}

static void subgroups_are_right_too(void **unused)
{
    (void)unused;
    for_each_driver(check_subgroups);
}

/* Every second row of x and the last column of y are infinite: elements that tiles load beyond an edge belong to
   another row, and no infinity may be multiplied by a zero there. */
static void check_infinities(tuff_device *device, tuff_family family)
{
    enum { ROWS = 37, COLUMNS = 53, INNER = 29 };
    float x[ROWS * INNER], y[INNER * COLUMNS], got[ROWS * COLUMNS];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *a = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(ROWS, INNER));
    tuff_tensor *b = tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(INNER, COLUMNS));
    tuff_output(graph, "z", tuff_matmul(a, b));
    tuff_plan *plan = tuff_compile(
        graph, &(tuff_compile_options){.family = family, .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
    assert_non_null(plan);
    for (int i = 0; i < ROWS * INNER; i++)
        x[i] = i / INNER % 2 != 0 ? INFINITY : (float)(1 + i % 3);
    for (int i = 0; i < INNER * COLUMNS; i++)
        y[i] = i % COLUMNS == COLUMNS - 1 ? INFINITY : (float)(1 + i % 4);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff_plan_write(plan, "y", y, sizeof y), TUFF_OK);
    run_plan(plan);
    assert_int_equal(tuff_plan_read(plan, "z", got, sizeof got), TUFF_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        float sum = 0;
        for (int k = 0; k < INNER; k++)
            sum += x[i / COLUMNS * INNER + k] * y[k * COLUMNS + i % COLUMNS];
        assert_true(got[i] == sum);
    }
    destroy_plan(plan, graph);
}

static void check_all_infinities(tuff_device *device)
{
    check_infinities(device, TUFF_FAMILY_REGISTER);
    check_infinities(device, TUFF_FAMILY_LOCAL);
}

static void no_infinity_meets_a_zero(void **unused)
{
    (void)unused;
    for_each_driver(check_all_infinities);
}

static void every_shape_is_right(void **unused)
{
    (void)unused;
    for_each_driver(check_device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_infinity_meets_a_zero),
                                       cmocka_unit_test(every_shape_is_right),
                                       cmocka_unit_test(kernels_of_gpus_are_right),
                                       cmocka_unit_test(blocks_of_any_shape_are_right),
                                       cmocka_unit_test(registers_are_limited_for_nvidia),
                                       cmocka_unit_test(subgroups_are_right_too),
                                       cmocka_unit_test(a_library_is_right_too)};
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
