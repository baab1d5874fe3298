/* The cost model of lowering: it must order pairs of candidates whose order is textbook knowledge. Choices that count
   work-groups compare them with processors, which hold whole groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "configured_plan.h"
#include "device/target.h"
#include "each_device.h"
#include "autotune/plan_tasks.h"
#include "tuff.h"

/* The product of rows x inner by inner x columns. */
typedef struct product {
    tuff_graph *graph;
    tuff_plan *plan;
    plan_tasks *tasks;
    int key; /* the product task; a long product of few rows and columns is split and summed by a second task */
} product;

static product begin(tuff_device *device, int64_t rows, int64_t columns, int64_t inner)
{
    product made = {.graph = tuff_graph_create(device)};
    tuff_tensor *x = tuff_input(made.graph, "x", TUFF_F32, TUFF_SHAPE(rows, inner));
    tuff_tensor *y = tuff_input(made.graph, "y", TUFF_F32, TUFF_SHAPE(inner, columns));
    tuff_output(made.graph, "z", tuff_matmul(x, y));
    made.plan =
        tuff_compile(made.graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
    assert_non_null(made.plan);
    assert_int_equal(tuff__plan_tasks_create(made.plan, &made.tasks), TUFF_OK);
    while (strcmp(tuff__plan_tasks_key(made.tasks, made.key)->family, "matmul") != 0)
        assert_true(++made.key < tuff__plan_tasks_count(made.tasks));
    return made;
}

static void end(product *matmul)
{
    tuff__plan_tasks_destroy(matmul->tasks);
    tuff_plan_destroy(matmul->plan);
    tuff_graph_destroy(matmul->graph);
}

static double cost_of(const product *matmul, const char *candidate)
{
    const evaluator by = tuff__plan_tasks_evaluator(matmul->tasks, matmul->key);
    tune_config config;
    candidate_info made;
    assert_int_equal(tuff__config_parse(candidate, &config), TUFF_OK);
    assert_int_equal(by.lower(by.state, &config, &made), EVALUATION_GOOD);
    assert_true(made.cost > 0);
    return made.cost;
}

static void tiles_in_registers(tuff_device *device)
{
    static const char good[] = "matmul_register.rows=6;matmul_register.vectors=2";
    if (tuff__device_info(device)->device_class != TUFF_DEVICE_CPU) {
        leave_out_device("no CPU");
        return;
    }
    product matmul = begin(device, 1024, 1024, 1024);
    /* One load per multiplication; more sums than registers; twice the work at twice the cost. */
    assert_true(cost_of(&matmul, "matmul_register.rows=1;matmul_register.vectors=1") > 2 * cost_of(&matmul, good));
    assert_true(cost_of(&matmul, "matmul_register.rows=32;matmul_register.vectors=2") > 1.2 * cost_of(&matmul, good));
    product twice = begin(device, 1024, 1024, 2048);
    assert_true(cost_of(&twice, good) > 1.8 * cost_of(&matmul, good) &&
                cost_of(&twice, good) < 2.2 * cost_of(&matmul, good));
    end(&twice);
    end(&matmul);
}

static void use_gpu(tuff_device *device, uint32_t max_group_size)
{
    tuff_device_info as = *tuff__device_info(device);
    as.device_class = TUFF_DEVICE_GPU_DISCRETE;
    as.local_is_global = false;
    as.vendor_id = 0; /* Intel counts engines */
    as.compute_units = 32;
    as.max_group_size = max_group_size;
    as.local_memory_size = 65536;
    tuff__device_override_info(device, &as);
}

static void blocks_in_local_memory(tuff_device *device)
{
    static const char small[] = "matmul_local.block_rows=32;matmul_local.block_columns=32",
                      large[] = "matmul_local.block_rows=128;matmul_local.block_columns=128;"
                                "matmul_local.thread_rows=8;matmul_local.thread_columns=8",
                      thin[] = "matmul_local.thread_rows=2";
    use_gpu(device, 1024);
    /* With enough groups larger blocks read less; too few groups do not occupy all units. */
    product many = begin(device, 4096, 4096, 4096), few = begin(device, 256, 256, 64);
    assert_true(cost_of(&many, large) < cost_of(&many, small));
    assert_true(cost_of(&few, large) > cost_of(&few, small));
    assert_true(cost_of(&many, thin) > cost_of(&many, ""));
    end(&few);
    end(&many);
}

/* Groups are smaller by default where the device does not allow those of the table. */
static void small_groups(tuff_device *device)
{
    use_gpu(device, 64);
    product rows = {.graph = tuff_graph_create(device)};
    tuff_tensor *x = tuff_input(rows.graph, "x", TUFF_F32, TUFF_SHAPE(4, 512));
    tuff_output(rows.graph, "y", tuff_softmax(x, 1));
    rows.plan =
        tuff_compile(rows.graph, &(tuff_compile_options){.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_OFF}});
    assert_non_null(rows.plan);
    assert_int_equal(tuff__plan_tasks_create(rows.plan, &rows.tasks), TUFF_OK);
    assert_true(cost_of(&rows, "") > 0);
    end(&rows);
}

/* The terms of both operands are spread over many pages, so that copies pay and are the default. */
static void terms_in_many_pages(tuff_device *device)
{
    tuff_device_info as = *tuff__device_info(device);
    if (as.device_class != TUFF_DEVICE_CPU || tuff__device_takes_glsl(device)) {
        leave_out_device("no CPU that takes OpenCL C");
        return;
    }
    for (int wide = 0; wide < 2; wide++) {
        as.vector_width = wide ? 16 : 8;
        tuff__device_override_info(device, &as);
        product matmul = begin(device, 1024, 384, 1536);
        assert_true(cost_of(&matmul, "matmul.copy_y=1") > (wide ? 1.01 : 1.1) * cost_of(&matmul, ""));
        assert_true(cost_of(&matmul, "matmul.copy_y=2") == cost_of(&matmul, ""));
        end(&matmul);
    }
}

static void tiles_in_registers_are_told_apart(void **state)
{
    (void)state;
    for_each_driver(tiles_in_registers);
}

static void blocks_in_local_memory_are_told_apart(void **state)
{
    (void)state;
    for_each_driver(blocks_in_local_memory);
}

static void groups_fit_the_device(void **state)
{
    (void)state;
    for_each_driver(small_groups);
}

static void copies_pay_where_terms_lie_in_many_pages(void **state)
{
    (void)state;
    for_each_driver(terms_in_many_pages);
}

/* An Arc A770 has 512 engines in 32 cores; a newer GPU with as many cores counts half as many, wider engines. */
static void use_intel(tuff_device *device, uint32_t engines, uint32_t engine_lanes)
{
    use_gpu(device, 1024);
    tuff_device_info as = *tuff__device_info(device);
    as.vendor_id = 0x8086;
    as.compute_units = engines;
    as.min_subgroup_size = engine_lanes;
    as.max_subgroup_size = as.subgroup_size = as.proved_subgroup_size = 32;
    as.loop_limit = 0;
    as.max_binding = as.max_allocation = (uint64_t)1 << 32;
    as.cooperative_matrix = tuff__device_takes_glsl(device) ? TUFF_MATRIX_KHR : TUFF_MATRIX_INTEL;
    as.matrix_shape[0] = as.matrix_shape[1] = as.matrix_lanes = 8;
    as.matrix_shape[2] = 16;
    tuff__device_override_info(device, &as);
}

static void build_product(tuff_graph *graph, tuff_dtype dtype)
{
    tuff_tensor *x = tuff_input(graph, "x", dtype, TUFF_SHAPE(2048, 2048));
    tuff_tensor *y = tuff_input(graph, "y", dtype, TUFF_SHAPE(2048, 2048));
    tuff_output(graph, "z", tuff_matmul(tuff_cast(x, TUFF_F32), tuff_cast(y, TUFF_F32)));
}

static void build_floats(tuff_graph *graph)
{
    build_product(graph, TUFF_F32);
}

static void build_halves(tuff_graph *graph)
{
    build_product(graph, TUFF_F16);
}

static void build_rows(tuff_graph *graph)
{
    tuff_output(graph, "y", tuff_softmax(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(3000, 64)), 1));
}

static void build_columns(tuff_graph *graph)
{
    tuff_tensor *y = tuff_softmax(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(192000, 128)), 1);
    tuff_output(graph, "y", y);
    tuff_output(graph, "sum", tuff_sum(y, (int[]){0}, 1, false));
}

static void build_thin(tuff_graph *graph)
{
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1, 16384));
    tuff_output(graph, "y", tuff_matmul(x, tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(16384, 1024))));
}

static void build_attention(tuff_graph *graph)
{
    const tuff_shape queries = TUFF_SHAPE(1, 8, 64, 64), keys = TUFF_SHAPE(1, 8192, 64, 64);
    tuff_tensor *q = tuff_input(graph, "q", TUFF_F32, queries);
    tuff_tensor *k = tuff_input(graph, "k", TUFF_F32, keys), *v = tuff_input(graph, "v", TUFF_F32, keys);
    tuff_output(graph, "y", tuff_attention(q, k, v, NULL));
}

static tuff_plan *lower_graph(tuff_device *device, void (*build)(tuff_graph *))
{
    tuff_graph *graph = tuff_graph_create(device);
    build(graph);
    tuff_plan *plan = lower_configured(graph, &(tuff_compile_options){0}, TASK_MATMUL, NULL);
    if (plan == NULL)
        fail_msg("%s", tuff_error());
    tuff_graph_destroy(graph);
    return plan;
}

static void choices_on_intel(tuff_device *device)
{
    void (*const builders[])(tuff_graph *) = {build_floats,  build_halves, build_rows,
                                              build_columns, build_thin,   build_attention};
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
        use_intel(device, 512, 8);
        assert_int_equal(tuff__processor_count(tuff__device_info(device)), 32);
        tuff_plan *narrow = lower_graph(device, builders[i]);
        use_intel(device, 256, 16);
        assert_int_equal(tuff__processor_count(tuff__device_info(device)), 32);
        tuff_plan *wide = lower_graph(device, builders[i]);
        const launch_list *one = &narrow->executable.launches, *other = &wide->executable.launches;
        assert_int_equal(one->launch_count, other->launch_count);
        for (int k = 0; k < one->launch_count; k++) {
            assert_string_equal(one->launches[k].body, other->launches[k].body);
            assert_string_equal(one->launches[k].defines, other->launches[k].defines);
            assert_int_equal(one->launches[k].groups, other->launches[k].groups);
            assert_int_equal(one->launches[k].local_size, other->launches[k].local_size);
        }
        if (builders[i] == build_floats)
            assert_true(uses_kernel(narrow, "matmul_local", "#define BLOCK_ROWS 128\n#define BLOCK_COLUMNS 128\n"));
        if (builders[i] == build_halves)
            assert_true(
                uses_kernel(narrow, "matmul_cooperative", "#define BLOCK_ROWS 256\n#define BLOCK_COLUMNS 128\n"));
        tuff_plan_destroy(narrow);
        tuff_plan_destroy(wide);
    }
}

static void engines_are_not_processors(void **state)
{
    (void)state;
    for_each_driver(choices_on_intel);
}

/* Small products on matrix units: groups of few lanes, which move the same tiles. A lane's sums and 6 registers for
   each part of 16 bytes that it moves leave the others of 256 for factors. Nothing is compiled. */
static void expect_registers(tuff_device *device, int side, bool transposed, int most)
{
    static const char *const names[] = {"BLOCK_ROWS", "BLOCK_COLUMNS", "STEP_K", "A_PARTS", "B_PARTS"};
    enum { ROWS, COLUMNS, STEP, LEFT_PARTS, RIGHT_PARTS, NAMES };
    int value[NAMES];
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(64, 256));
    tuff_tensor *y = tuff_input(graph, "y", TUFF_F16, transposed ? TUFF_SHAPE(side, 256) : TUFF_SHAPE(256, side));
    tuff_output(graph, "z", tuff_matmul(x, transposed ? tuff_permute(y, (const int[]){1, 0}) : y));
    tuff_plan *plan = lower_configured(graph, &(tuff_compile_options){0}, TASK_MATMUL, NULL);
    assert_non_null(plan);
    const launch *made = &plan->executable.launches.launches[0];
    assert_string_equal(made->body, "matmul_cooperative");
    for (int i = 0; i < NAMES; i++) {
        const char *line = strstr(made->defines, names[i]);
        assert_non_null(line);
        value[i] = atoi(line + strlen(names[i]));
    }
    const int lanes = (int)made->local_size, parts = value[STEP] / 8;
    int registers = value[ROWS] * value[COLUMNS] / lanes;
    registers += value[LEFT_PARTS] * 6 * value[ROWS] * parts / lanes;
    registers += value[RIGHT_PARTS] * 6 * value[COLUMNS] * parts / lanes;
    if (registers > most || registers < 64)
        fail_msg("%d columns: %d registers of %d lanes", side, registers, lanes);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void small_tiles_on_units(tuff_device *device)
{
    static const int sides[] = {32, 33, 64, 65, 128, 4096};
    if (tuff__device_takes_glsl(device))
        return;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        for (int transposed = 0; transposed < 2; transposed++) {
            use_intel(device, 512, 8);
            expect_registers(device, sides[i], transposed > 0, 168);
            tuff_device_info as = *tuff__device_info(device);
            as.vendor_id = 0x1002;
            as.cooperative_matrix = TUFF_MATRIX_WMMA;
            as.matrix_shape[0] = as.matrix_shape[1] = 16;
            as.matrix_lanes = as.min_subgroup_size = 32;
            tuff__device_override_info(device, &as);
            expect_registers(device, sides[i], transposed > 0, 208);
        }
    }
}

static void lanes_of_small_tiles_have_registers(void **state)
{
    (void)state;
    for_each_driver(small_tiles_on_units);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_in_registers_are_told_apart),
        cmocka_unit_test(blocks_in_local_memory_are_told_apart),
        cmocka_unit_test(groups_fit_the_device),
        cmocka_unit_test(copies_pay_where_terms_lie_in_many_pages),
        cmocka_unit_test(engines_are_not_processors),
        cmocka_unit_test(lanes_of_small_tiles_have_registers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
