/* Mixed precision as plans show it: what of a language model's training step has 16 bits in memory, on a device that
   is described as a GPU, and what keeps 32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "exec/plan.h"
#include "tools/model/graphs.h"

static void describe_as_gpu(tuff_device *device)
{
    tuff_device_info as = *tuff__device_info(device);
    as.device_class = TUFF_DEVICE_GPU_DISCRETE;
    as.local_is_global = false;
    as.compute_units = 32;
    as.max_group_size = 1024;
    as.local_memory_size = 65536;
    as.vector_width = 1;
    as.loop_limit = 0;
    as.local_is_global = false;
    as.max_binding = (uint64_t)1 << 30;
    as.subgroup_size = as.proved_subgroup_size = 32;
    as.subgroup_shuffle = as.narrow_storage = as.proved_narrow_storage = true;
    as.cooperative_matrix = tuff__device_takes_glsl(device) ? TUFF_MATRIX_KHR : TUFF_MATRIX_NVIDIA;
    as.matrix_shape[0] = as.matrix_shape[1] = as.matrix_shape[2] = 16;
    as.matrix_lanes = 32;
    as.matrix_bf16 = !tuff__device_takes_glsl(device);
    tuff__device_override_info(device, &as);
}

/* A training step of a model, with all that it needs. */
typedef struct step {
    language_model model;
    tuff_optimizer *optimizer;
    tuff_graph *graph;
    tuff_plan *plan;
} step;

static step make_step(tuff_device *device, const model_config *config, const tuff_compile_options *options)
{
    step made = {.optimizer = NULL};
    const tuff_optimizer_options rule = model_optimizer_options(1e-3, 1000);
    assert_int_equal(model_create(device, config, &made.model), TUFF_OK);
    made.optimizer = tuff_optimizer_create(made.model.parameters, &rule);
    assert_non_null(made.optimizer);
    made.graph = train_graph(device, &made.model, made.optimizer, 8);
    assert_non_null(made.graph);
    made.plan = tuff_compile(made.graph, options);
    if (!made.plan)
        fail_msg("%s", tuff_error());
    return made;
}

static void drop_step(step *self)
{
    tuff_plan_destroy(self->plan);
    tuff_graph_destroy(self->graph);
    tuff_optimizer_destroy(self->optimizer);
    model_destroy(&self->model);
}

/* 6 layers of 384 as `tuff plan --layers 6 --width 384` has them. */
static const model_config models[] = {
    {.form = MODEL_GPT, .layers = 6, .heads = 4, .width = 384, .context = 128, .vocabulary = 256},
    {.form = MODEL_LLAMA,
     .layers = 6,
     .heads = 6,
     .width = 384,
     .context = 128,
     .vocabulary = 256,
     .key_value_heads = 2,
     .hidden = 1024},
};
enum { MODELS = sizeof models / sizeof *models };

/* Kernels that do nothing but store with other bits what another kernel has stored. */
static int count_conversions(const tuff_plan *plan)
{
    const launch_list *list = &plan->executable.launches;
    int count = 0;
    for (int i = 0; i < list->launch_count; i++)
        count += list->launches[i].kind == LAUNCH_KERNEL && list->launches[i].task < 0;
    return count;
}

static int count_body(const tuff_plan *plan, const char *name)
{
    const launch_list *list = &plan->executable.launches;
    int count = 0;
    for (int i = 0; i < list->launch_count; i++)
        count += strncmp(list->launches[i].body, name, strlen(name)) == 0;
    return count;
}

/* Nine of ten matmuls read both operands with 16 bits, and are on matrix units that take them unless another family is
   asked for; three fifths of the memory are enough, and there are at most
   two copies of weights for each sixth of them. */
static void check_step(tuff_device *device, const model_config *model, const tuff_plan_info *plain,
                       const tuff_compile_options *options)
{
    tuff_plan_info info;
    step mixed = make_step(device, model, options);
    assert_int_equal(tuff_plan_describe(mixed.plan, &info), TUFF_OK);
    print_message("    family %d, precision %d: %d of %d matmuls, %.3f of the memory, %d launches more\n",
                  (int)options->family, (int)options->precision, info.narrow_matmul_count, info.matmul_count,
                  (double)info.memory_peak / (double)plain->memory_peak, info.dispatch_count - plain->dispatch_count);
    assert_true(10 * info.narrow_matmul_count >= 9 * info.matmul_count);
    assert_true(10 * info.memory_peak <= 6 * plain->memory_peak);
    assert_int_equal(count_conversions(mixed.plan), 0);
    const int on_units = count_body(mixed.plan, "matmul_cooperative"), all = count_body(mixed.plan, "matmul");
    print_message("    %d of %d on matrix units\n", on_units, all);
    if (options->precision == TUFF_PRECISION_F16 || tuff__device_info(device)->matrix_bf16)
        assert_true(options->family == TUFF_FAMILY_SUBGROUP ? on_units == 0 : 10 * on_units >= 9 * all);
    drop_step(&mixed);
}

static void check_steps(tuff_device *device)
{
    static const tuff_family families[] = {TUFF_FAMILY_DEVICE, TUFF_FAMILY_SUBGROUP, TUFF_FAMILY_COOPERATIVE};
    describe_as_gpu(device);
    for (int i = 0; i < MODELS; i++) {
        tuff_plan_info plain;
        step defaults = make_step(device, &models[i], &(tuff_compile_options){.fuse = TUFF_FUSE_ALL});
        assert_int_equal(tuff_plan_describe(defaults.plan, &plain), TUFF_OK);
        assert_int_equal(plain.narrow_matmul_count, 0);
        drop_step(&defaults);
        for (int family = 0; family < 3; family++)
            for (int precision = TUFF_PRECISION_F16; precision <= TUFF_PRECISION_BF16; precision++)
                check_step(device, &models[i], &plain,
                           &(tuff_compile_options){.family = families[family], .precision = (tuff_precision)precision});
    }
}

static void a_training_step_is_stored_with_16_bits(void **state)
{
    (void)state;
    for_drawn_drivers(check_steps);
}

/* The dtype in which the first value of an op that has memory lies there. */
static tuff_dtype stored(const tuff_plan *plan, op_code op)
{
    const tuff_graph *graph = plan->fusion.graph;
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == op && plan->fusion.facts[i].materialized)
            return plan->executable.launches.buffers[i].dtype;
    fail_msg("no %s has memory", tuff__op_info(op)->name);
    return TUFF_F32;
}

/* A product that two tasks read has 16 bits; reductions, outputs and what is assigned have 32. */
static void keep_bits(tuff_device *device)
{
    tuff_device_info as = *tuff__device_info(device);
    as.narrow_storage = as.proved_narrow_storage = true;
    tuff__device_override_info(device, &as);
    tuff_array *w = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(40, 48)),
               *sums = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(48));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(32, 40));
    tuff_tensor *y = tuff_matmul(x, tuff_array_tensor(graph, w));
    tuff_tensor *means = tuff_mean(y, (int[]){0}, 1, false);
    tuff_assign(graph, sums,
                tuff_add(tuff_mul(tuff_array_tensor(graph, sums), tuff_constant(graph, TUFF_F32, 0.9)), means));
    tuff_output(graph, "scaled", tuff_exp(tuff_matmul(y, tuff_permute(y, (int[]){1, 0}))));
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.precision = TUFF_PRECISION_BF16});
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(stored(plan, OP_MATMUL), TUFF_BF16);
    assert_int_equal(stored(plan, OP_CAST), TUFF_BF16);
    assert_int_equal(stored(plan, OP_EXP), TUFF_F32);
    tuff_plan_destroy(plan);
    assert_null(tuff_compile(graph, &(tuff_compile_options){.precision = (tuff_precision)3}));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    tuff_graph_destroy(graph);
    tuff_array_destroy(sums);
    tuff_array_destroy(w);
}

static void what_must_be_exact_keeps_32_bits(void **state)
{
    (void)state;
    for_each_driver(keep_bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_training_step_is_stored_with_16_bits, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(what_must_be_exact_keeps_32_bits, use_fresh_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
