/* The cost model of lowering: it must order pairs of candidates whose order is textbook knowledge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_in_registers_are_told_apart),
        cmocka_unit_test(blocks_in_local_memory_are_told_apart),
        cmocka_unit_test(groups_fit_the_device),
        cmocka_unit_test(copies_pay_where_terms_lie_in_many_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
