/* Mixed precision in plans: which values of a language model's training step are stored as 16 bits, on a device
   described as a GPU, and which stay 32 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "exec/plan.h"
#include "gpu_description.h"
#include "tools/model/graphs.h"

/* A training step of a model, with all its objects. */
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

/* 6 layers of 384, as in `tuff plan --layers 6 --width 384`. */
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

/* Whether a launch computes nothing: its values are only loads and casts. */
static bool only_moves(const launch *kernel)
{
    const fused_chain *chain = &kernel->chain;
    bool moves = kernel->walk == WALK_MAP && chain->value_count > 0;
    for (int i = 0; i < chain->value_count; i++)
        moves &= chain->values[i].kind == VALUE_LOAD ||
                 (chain->values[i].kind == VALUE_OP && chain->values[i].op == OP_CAST);
    return moves;
}

/* Whether a launch reads values that another launch stored, and stores them with another dtype. Copies of parameters do
   not count. */
static bool stores_other_bits(const tuff_plan *plan, const launch *kernel)
{
    const memory_buffer *buffers = plan->executable.launches.buffers;
    const tuff_graph *graph = plan->fusion.graph;
    const fused_chain *chain = &kernel->chain;
    for (int i = 0; i < chain->buffer_count; i++)
        for (int k = 0; k < chain->buffer_count; k++) {
            const int from = chain->buffers[i].id, to = chain->buffers[k].id;
            const bool is_made = from >= graph->node_count || !tuff__op_is_source(graph->nodes[from]->op);
            if (chain->buffers[i].read && chain->buffers[k].written && is_made &&
                buffers[from].dtype != buffers[to].dtype)
                return true;
        }
    return false;
}

/* Counts kernels that only convert what another kernel stored to another dtype, whether lowering added them (then they
   belong to no task) or a task consists of a cast only. */
static int count_conversions(const tuff_plan *plan)
{
    const launch_list *list = &plan->executable.launches;
    int count = 0;
    for (int i = 0; i < list->launch_count; i++) {
        const launch *kernel = &list->launches[i];
        if (kernel->kind != LAUNCH_KERNEL ||
            (kernel->task >= 0 && !(only_moves(kernel) && stores_other_bits(plan, kernel))))
            continue;
        print_message("    launch %d only converts: %s, %s\n", i, kernel->body, plan->executable.records[i].label);
        count++;
    }
    return count;
}

/* Counts the operands of attention that are matrices of heads: queries, keys, values, upstream gradients. *narrow gets
   the number of those stored as 16 bits. */
static int count_attention_operands(const tuff_plan *plan, int *narrow)
{
    const launch_list *list = &plan->executable.launches;
    int count = 0;
    *narrow = 0;
    for (int i = 0; i < list->launch_count; i++) {
        const launch *kernel = &list->launches[i];
        if (kernel->kind != LAUNCH_KERNEL || strncmp(kernel->body, "attention", strlen("attention")) != 0)
            continue;
        const node *core = plan->fusion.tasks[kernel->task].core;
        for (int k = 0; k < core->input_count; k++) {
            view layout;
            const node *missing;
            if (core->inputs[k]->shape.rank != 4)
                continue;
            const node *base = tuff__operand_view(&plan->fusion, core->inputs[k], &layout, &missing);
            assert_null(missing);
            count++;
            *narrow += tuff_dtype_size(list->buffers[base->id].dtype) == 2;
        }
    }
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

/* At least nine of ten matmuls read both operands as 16 bits, and run on matrix units if the device has them for that
   dtype and no other family is requested. All operands of attention are 16 bits, no kernel only converts, and the plan
   needs at most three fifths of the f32 memory. */
static void check_step(tuff_device *device, const model_config *model, const tuff_plan_info *plain,
                       const tuff_compile_options *options)
{
    tuff_plan_info info;
    step mixed = make_step(device, model, options);
    assert_int_equal(tuff_plan_describe(mixed.plan, &info), TUFF_OK);
    print_message(
        "    family %d, precision %d: %d of %d matmuls narrow, %.3f of the f32 memory, %d additional launches\n",
        (int)options->family, (int)options->precision, info.narrow_matmul_count, info.matmul_count,
        (double)info.memory_peak / (double)plain->memory_peak, info.dispatch_count - plain->dispatch_count);
    assert_true(10 * info.narrow_matmul_count >= 9 * info.matmul_count);
    assert_true(10 * info.memory_peak <= 6 * plain->memory_peak);
    assert_int_equal(count_conversions(mixed.plan), 0);
    int narrow_operands;
    const int operands = count_attention_operands(mixed.plan, &narrow_operands);
    print_message("    %d of %d attention operands have 16 bits\n", narrow_operands, operands);
    assert_true(operands > 0);
    assert_int_equal(narrow_operands, operands);
    const int on_units = count_body(mixed.plan, "matmul_cooperative"), all = count_body(mixed.plan, "matmul");
    print_message("    %d of %d matmuls on matrix units\n", on_units, all);
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

/* Returns the dtype in memory of the first stored value of an op. */
static tuff_dtype stored(const tuff_plan *plan, op_code op)
{
    const tuff_graph *graph = plan->fusion.graph;
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == op && plan->fusion.facts[i].materialized)
            return plan->executable.launches.buffers[i].dtype;
    fail_msg("no %s has memory", tuff__op_info(op)->name);
    return TUFF_F32;
}

/* A product that two tasks read is stored as 16 bits; reductions, outputs and assigned values as 32. */
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

/* Random numbers are stored as 32 bits: rounded to 16, one just below a threshold would equal it. */
static void keep_random(tuff_device *device)
{
    tuff_device_info as = *tuff__device_info(device);
    as.narrow_storage = as.proved_narrow_storage = true;
    tuff__device_override_info(device, &as);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *drawn = tuff_random(graph, TUFF_SHAPE(32, 48)), *half = tuff_constant(graph, TUFF_F32, 0.5);
    tuff_tensor *moved = tuff_permute(drawn, (int[]){1, 0}), *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(32, 48));
    tuff_output(graph, "below", tuff_where(tuff_less(drawn, half), tuff_exp(x), x));
    tuff_output(graph, "moved", tuff_cast(tuff_less(moved, half), TUFF_F32));
    tuff_plan *plan =
        tuff_compile(graph, &(tuff_compile_options){.fuse = TUFF_FUSE_NONE, .precision = TUFF_PRECISION_BF16});
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(stored(plan, OP_EXP), TUFF_BF16);
    assert_int_equal(stored(plan, OP_RANDOM), TUFF_F32);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

/* The same two matmuls of an array, in the optimizer phase and before. In the optimizer phase neither reads a 16-bit
   copy, and the product that the second one reads stays 32 bits. */
static void keep_optimizer(tuff_device *device)
{
    describe_as_gpu(device);
    tuff_array *w = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(40, 48));
    for (int optimizes = 0; optimizes < 2; optimizes++) {
        tuff_plan_info info;
        tuff_graph *graph = tuff_graph_create(device);
        (void)tuff_graph_phase(graph, optimizes ? TUFF_PHASE_OPTIMIZER : TUFF_PHASE_BACKWARD);
        tuff_tensor *x = tuff_array_tensor(graph, w);
        tuff_tensor *square = tuff_matmul(x, tuff_permute(x, (int[]){1, 0}));
        tuff_output(graph, "y", tuff_exp(tuff_matmul(square, square)));
        tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.precision = TUFF_PRECISION_F16});
        if (!plan)
            fail_msg("%s", tuff_error());
        assert_int_equal(stored(plan, OP_MATMUL), optimizes ? TUFF_F32 : TUFF_F16);
        assert_int_equal(tuff_plan_describe(plan, &info), TUFF_OK);
        assert_int_equal(info.matmul_count, 2);
        assert_int_equal(info.narrow_matmul_count, optimizes ? 0 : 2);
        for (int i = 0; i < plan->executable.launches.launch_count; i++)
            if (optimizes && strcmp(plan->executable.launches.launches[i].body, "matmul_cooperative") == 0)
                fail_msg("launch %d of the optimizer rounds its operands for matrix units", i);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
    tuff_array_destroy(w);
}

/* The pieces of a matmul that is split along its terms stay 32 bits until they are added, also if the matmul is one of
   f16 values: a piece may be beyond the largest f16 number where the whole sum is not. */
static void keep_pieces(tuff_device *device)
{
    describe_as_gpu(device);
    for (int narrow = 0; narrow < 2; narrow++) {
        const tuff_dtype dtype = narrow ? TUFF_F16 : TUFF_F32;
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", dtype, TUFF_SHAPE(64, 32768)),
                    *w = tuff_input(graph, "w", dtype, TUFF_SHAPE(32768, 64));
        tuff_output(graph, "y", tuff_exp(tuff_matmul(x, w)));
        tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.precision = TUFF_PRECISION_F16});
        if (!plan)
            fail_msg("%s", tuff_error());
        bool is_split = false;
        for (int i = 0; i < plan->fusion.graph->node_count; i++)
            is_split |= plan->fusion.graph->nodes[i]->op == OP_SUM;
        assert_true(is_split);
        assert_int_equal(stored(plan, OP_MATMUL), TUFF_F32);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
}

/* So do the parts of a bias' gradient, which one launch computes per sequence and head where a GPU has many units. */
static void keep_bias_parts(tuff_device *device)
{
    describe_as_gpu(device);
    const tuff_shape shape = TUFF_SHAPE(8, 32, 2, 16);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *q = tuff_input(graph, "q", TUFF_F32, shape), *k = tuff_input(graph, "k", TUFF_F32, shape),
                *v = tuff_input(graph, "v", TUFF_F32, shape),
                *bias = tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(1, 2, 32, 32)), *gradient;
    tuff_tensor *y = tuff_attention(q, k, v, &(tuff_attention_options){.bias = bias});
    tuff_tensor *loss = tuff_sum(tuff_mul(y, y), (int[]){0, 1, 2, 3}, 4, false);
    assert_int_equal(tuff_gradients(loss, &bias, 1, &gradient), TUFF_OK);
    tuff_output(graph, "gradient", gradient);
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.precision = TUFF_PRECISION_F16});
    if (!plan)
        fail_msg("%s", tuff_error());
    assert_int_equal(stored(plan, OP_ATTENTION_DB), TUFF_F32);
    int sums = 0;
    for (int i = 0; i < plan->fusion.graph->node_count; i++) {
        const node *at = plan->fusion.graph->nodes[i];
        sums += at->op == OP_SUM && tuff_shape_count(at->outputs[0].shape) == 2 * 32 * 32;
    }
    assert_true(sums > 0);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void what_must_be_exact_keeps_32_bits(void **state)
{
    (void)state;
    for_drawn_drivers(keep_bits);
    for_drawn_drivers(keep_random);
    for_drawn_drivers(keep_pieces);
    for_drawn_drivers(keep_bias_parts);
}

static void optimizers_keep_32_bits(void **state)
{
    (void)state;
    for_drawn_drivers(keep_optimizer);
}

/* The library's warnings. */
static struct {
    int count;
    char text[300];
} warned;

static void note_warning(void *user, tuff_log_level level, const char *line)
{
    (void)user;
    if (level != TUFF_LOG_WARNING)
        return;
    warned.count++;
    (void)snprintf(warned.text, sizeof warned.text, "%s", line);
}

/* Compiles a product that two tasks read, and that is therefore stored, for a device that can or cannot store 16
   bits. */
static void compile_warned(tuff_device *device, bool stores_narrow, tuff_precision precision)
{
    tuff_device_info as = *tuff__device_info(device);
    as.narrow_storage = as.proved_narrow_storage = stores_narrow;
    tuff__device_override_info(device, &as);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(32, 40));
    tuff_tensor *y = tuff_matmul(x, tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(40, 48)));
    tuff_output(graph, "scaled", tuff_exp(tuff_matmul(y, tuff_permute(y, (int[]){1, 0}))));
    warned.count = 0;
    tuff_set_log(note_warning, NULL);
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.precision = precision});
    tuff_set_log(NULL, NULL);
    if (!plan)
        fail_msg("%s", tuff_error());
    const bool narrow = stores_narrow && precision != TUFF_PRECISION_F32;
    assert_int_equal(tuff_dtype_size(stored(plan, OP_MATMUL)), narrow ? 2 : 4);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

/* OpenCL C can store f16 on every device. */
static void check_warnings(tuff_device *device)
{
    char expected[200];
    if (!tuff__device_takes_glsl(device)) {
        leave_out_device("its kernels can always store 16 bits");
        return;
    }
    (void)snprintf(expected, sizeof expected, "%s cannot store 16-bit values: they are rounded",
                   tuff__device_info(device)->selector);
    for (int precision = TUFF_PRECISION_F32; precision <= TUFF_PRECISION_BF16; precision++) {
        compile_warned(device, false, (tuff_precision)precision);
        assert_int_equal(warned.count, precision != TUFF_PRECISION_F32);
        if (warned.count > 0 && !strstr(warned.text, expected))
            fail_msg("unexpected warning: \"%s\"", warned.text);
        compile_warned(device, true, (tuff_precision)precision);
        assert_int_equal(warned.count, 0);
    }
}

static void a_device_without_16_bits_is_warned_of(void **state)
{
    (void)state;
    for_drawn_drivers(check_warnings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_training_step_is_stored_with_16_bits, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(what_must_be_exact_keeps_32_bits, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(optimizers_keep_32_bits, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(a_device_without_16_bits_is_warned_of, use_fresh_cache, drop_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
