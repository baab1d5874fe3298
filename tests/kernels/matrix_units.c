/* Matmuls on matrix units, which no CPU driver has. They are refused if the self-test has not proved them, and tested
   everywhere with the matrix instructions replaced by plain code of the same meaning, lane by lane as the vendors
   document them, so that tiles, tails, layouts and epilogues are those of the GPUs. Results are compared with sums in
   double. TUFF_DEVICE selects one device; TUFF_SUITE=thorough leaves nothing out. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/task_key.h"
#include "configured_plan.h"
#include "device/state.h"
#include "each_device.h"
#include "emulated_units.h"
#include "exec/plan.h"
#include "graph/builder.h"
#include "gpu_description.h"
#include "graph/graph.h"
#include "kernels/tunables.h"
#include "tuff.h"
#include "unit_products.h"

static bool uses_units(const tuff_plan *plan)
{
    return uses_body(plan, "matmul_cooperative") || uses_body(plan, "matmul_workgroup");
}

static bool uses_warpgroups(const tuff_plan *plan)
{
    return uses_kernel(plan, "matmul_cooperative", "#define MATRIX_WARPGROUP 1");
}

/* Whether the whole group must multiply a product: its factors have the same 16 bits in memory, every matrix of a batch
   begins at a multiple of 16 bytes, and no tile would be half empty. */
static bool suits_groups(const tuff_device *device, const product_case *one)
{
    const uint32_t sizes = one->x_dtype == TUFF_F16    ? device->info.matrix_group_sizes
                           : one->x_dtype == TUFF_BF16 ? device->info.matrix_group_sizes_bf16
                                                       : 0;
    return sizes != 0 && one->y_dtype == one->x_dtype && !one->backwards && one->rows > 16 && one->columns > 32 &&
           (one->batches == 1 || (one->rows * one->inner % 8 == 0 && one->inner * one->columns % 8 == 0));
}

/* Operands that are loaded in parts of 16 bytes must begin at a multiple of 16. */
static void expect_whole_parts(const tuff_plan *plan)
{
    const launch_list *list = &plan->executable.launches;
    for (int i = 0; i < list->launch_count; i++)
        for (int k = 0; k < 2 && strcmp(list->launches[i].body, "matmul_cooperative") == 0; k++) {
            const fused_chain *chain = &list->launches[i].chain;
            const int id = chain->buffers[chain->operand_buffers[k]].id;
            assert_int_equal(list->buffers[id].offset % 16, 0);
        }
}

/* Results of 16 bits leave in vectors of 16 bytes where OpenCL C can address them. */
static void expect_wide_results(const tuff_device *device, const product_case *one, const tuff_plan *plan)
{
    const launch_list *list = &plan->executable.launches;
    const bool wide = one->narrow && one->columns % 8 == 0 && !tuff__device_takes_glsl(device);
    for (int i = 0; i < list->launch_count; i++)
        if (strcmp(list->launches[i].body, "matmul_cooperative") == 0)
            assert_int_equal(list->launches[i].vec, wide ? 8 : 4);
}

/* Compiles a plan with a configuration for its tasks of one kind. */
static tuff_plan *compile_with(tuff_graph *graph, const tuff_compile_options *options, task_kind kind,
                               const tune_config *config)
{
    tuff_plan *plan = compile_configured(graph, options, kind, config);
    if (plan == NULL)
        fail_msg("%s: %s", emulated_units->name, tuff_error());
    return plan;
}

/* Returns the configuration that buffers so many tiles of a step. */
static tune_config config_with_buffers(int buffers)
{
    tune_config config = {.set = {0}};
    tuff__config_set(&config, TUNABLE_matmul_cooperative_buffers, buffers);
    tuff__config_set(&config, TUNABLE_matmul_workgroup_enabled, 1);
    tuff__config_set(&config, TUNABLE_matmul_workgroup_block_rows, 16 << buffers);
    tuff__config_set(&config, TUNABLE_matmul_workgroup_block_columns, buffers == 1 ? 128 : 64);
    tuff__config_set(&config, TUNABLE_matmul_workgroup_step_k, 32);
    tuff__config_set(&config, TUNABLE_matmul_workgroup_unroll, 1 << (buffers - 1));
    if (emulated_units->on_warpgroups) { /* blocks of each width, with one or two subgroups per row and column */
        tuff__config_set(&config, TUNABLE_matmul_cooperative_warpgroups, 1);
        tuff__config_set(&config, TUNABLE_matmul_cooperative_block_rows, buffers == 3 ? 128 : 64);
        tuff__config_set(&config, TUNABLE_matmul_cooperative_block_columns, 64 << buffers % 3);
        tuff__config_set(&config, TUNABLE_matmul_cooperative_step_k, buffers == 1 ? 64 : 32);
    }
    return config;
}

/* Counts the launches of a product on units, with its epilogue or without. They may be several: factors are rounded to
   16 bits before, and parts of sums are joined after. */
static int count_launches(tuff_device *device, const product_case *one, int buffers, bool epilogue)
{
    const tuff_compile_options options = product_options(one);
    const tune_config config = config_with_buffers(buffers);
    tuff_graph *graph = build_product(device, one, epilogue);
    tuff_plan *plan = lower_configured(graph, &options, TASK_MATMUL, &config);
    if (plan == NULL)
        fail_msg("%s: %s", emulated_units->name, tuff_error());
    assert_true(uses_units(plan));
    const int count = plan->executable.launches.launch_count;
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return count;
}

static void try_product(tuff_device *device, const product_case *one, int buffers)
{
    const int64_t x_count = one->batches * one->rows * one->inner, y_count = one->batches * one->inner * one->columns;
    const int64_t count = one->batches * one->rows * one->columns;
    tuff_graph *graph = build_product(device, one, one->epilogue);
    const tuff_compile_options options = product_options(one);
    const tune_config config = config_with_buffers(buffers);
    tuff_plan *plan = compile_with(graph, &options, TASK_MATMUL, &config);
    assert_true(uses_units(plan));
    expect_wide_results(device, one, plan);
    assert_true(!suits_groups(device, one) || uses_body(plan, "matmul_workgroup"));
    assert_true(!emulated_units->on_warpgroups || one->rows <= 32 || one->columns <= 32 || uses_warpgroups(plan));
    assert_true(!one->epilogue ||
                plan->executable.launches.launch_count == count_launches(device, one, buffers, false));
    double *x_numbers = random_numbers(x_count), *y_numbers = random_numbers(y_count);
    float *got = malloc((size_t)count * sizeof *got);
    assert_non_null(got);
    write_numbers(plan, "x", one->x_dtype, x_numbers, x_count);
    write_numbers(plan, "y", one->y_dtype, y_numbers, y_count);
    if (tuff_plan_run(plan) != TUFF_OK || read_result(plan, one, count, got) != TUFF_OK)
        fail_msg("%s: %s", emulated_units->name, tuff_error());
    check_elements(one, x_numbers, y_numbers, got);
    free(x_numbers);
    free(y_numbers);
    free(got);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

#define F16 TUFF_F16, TUFF_F16, .precision = TUFF_PRECISION_F32
/* Extents of 1, primes, and around a tile of 64 by 64 by 32; loads of 16 bytes and of single elements in either
   layout. */
static const product_case cases[] = {
    {64, 64, 64, 1, false, false, false, F16},
    {72, 136, 96, 1, false, false, true, F16},
    {72, 136, 96, 1, true, true, false, F16},
    {65, 63, 33, 1, false, true, true, F16},
    {80, 72, 40, 1, true, false, true, F16},
    {63, 65, 31, 1, true, true, false, F16},
    {37, 53, 29, 1, false, false, true, F16},
    {1, 1, 1, 1, false, false, false, F16},
    {1, 67, 16, 1, false, true, true, F16},
    {71, 1, 40, 1, true, false, false, F16},
    {24, 40, 72, 3, false, true, false, F16},
    {17, 24, 19, 2, true, false, true, F16},
    {72, 64, 48, 1, true, false, false, TUFF_F32, TUFF_F16, .precision = TUFF_PRECISION_F16},
    {40, 72, 88, 1, false, true, true, TUFF_F16, TUFF_F32, .precision = TUFF_PRECISION_F16},
    {33, 31, 21, 1, false, true, false, TUFF_F32, TUFF_F32, .precision = TUFF_PRECISION_F16},
    {72, 64, 40, 1, false, false, true, TUFF_BF16, TUFF_BF16, .precision = TUFF_PRECISION_F32},
    {72, 40, 56, 1, false, true, true, TUFF_F32, TUFF_F32, .precision = TUFF_PRECISION_F32,
     .factors = TUFF_PRECISION_F16},
    {31, 33, 35, 2, true, false, false, TUFF_F32, TUFF_F32, .precision = TUFF_PRECISION_F32,
     .factors = TUFF_PRECISION_F16},
    {48, 37, 29, 1, false, true, false, TUFF_F16, TUFF_F32, .precision = TUFF_PRECISION_F32,
     .factors = TUFF_PRECISION_F16},
    {72, 136, 96, 1, false, false, true, F16, .backwards = true},
    {40, 64, 80, 1, true, true, false, TUFF_F32, TUFF_F32, .precision = TUFF_PRECISION_F16, .backwards = true},
    {35, 40, 37, 1, true, true, false, TUFF_BF16, TUFF_F32, .precision = TUFF_PRECISION_BF16},
    {72, 136, 96, 1, false, false, true, F16, .narrow = true},
    {33, 72, 40, 2, false, true, false, TUFF_BF16, TUFF_BF16, .precision = TUFF_PRECISION_F32, .narrow = true},
    {24, 44, 72, 1, true, false, true, F16, .narrow = true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* More rows of tiles than a band has, and a last band with fewer. */
static const product_case in_bands = {330, 136, 32, 2, false, false, false, F16};

/* A 16-bit factor that is assigned to an array which does not begin at a multiple of 16 bytes. */
static void try_assigned(tuff_device *device)
{
    enum { SIDE = 16, COUNT = SIDE * SIDE, START = 4 };
    const product_case one = {SIDE, SIDE, SIDE, 1, false, false, false, F16};
    double *x_numbers = random_numbers(COUNT), *y_numbers = random_numbers(COUNT);
    float got[COUNT];
    tuff_array *slab = tuff_array_create(device, TUFF_F16, TUFF_SHAPE(START + COUNT));
    tuff_array *part = tuff_array_view(slab, START, TUFF_SHAPE(SIDE, SIDE));
    tuff_graph *graph = tuff_graph_create(device);
    assert_true(slab && part && graph);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(SIDE, SIDE));
    tuff_tensor *y = tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(SIDE, SIDE));
    y = tuff_assign(graph, part, tuff_cast(tuff_mul(y, tuff_constant(graph, TUFF_F32, 2)), TUFF_F16));
    tuff_output(graph, "result", tuff_cast(tuff_matmul(x, y), TUFF_F32));
    tuff_plan *plan = tuff_compile(graph, &(tuff_compile_options){.family = TUFF_FAMILY_COOPERATIVE});
    if (!plan)
        fail_msg("%s: %s", emulated_units->name, tuff_error());
    assert_true(uses_units(plan));
    expect_whole_parts(plan);
    for (int i = 0; i < COUNT; i++) /* one term per column: f16 holds the results */
        y_numbers[i] *= i / SIDE == (i % SIDE * 5 + 3) % SIDE;
    write_numbers(plan, "x", TUFF_F16, x_numbers, COUNT);
    write_numbers(plan, "y", TUFF_F32, y_numbers, COUNT);
    if (tuff_plan_run(plan) != TUFF_OK || tuff_plan_read(plan, "result", got, sizeof got) != TUFF_OK)
        fail_msg("%s: %s", emulated_units->name, tuff_error());
    for (int i = 0; i < COUNT; i++)
        y_numbers[i] *= 2;
    check_elements(&one, x_numbers, y_numbers, got);
    free(x_numbers);
    free(y_numbers);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_array_destroy(part);
    tuff_array_destroy(slab);
}

/* f32 factors are rounded only if the program allows it, and then they must be: 1 + 2^-12 becomes 1 in f16. */
static void try_allowed(tuff_device *device)
{
    enum { SIDE = 32, COUNT = SIDE * SIDE };
    static const char *const maths[] = {"strict", "f16"};
    float got[COUNT];
    double numbers[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = 1 + 0x1p-12;
    for (int allowed = 0; allowed < 2; allowed++) {
        tuff_graph *graph = tuff_graph_create(device);
        assert_non_null(graph);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SIDE, SIDE));
        tuff_output(graph, "result", tuff_matmul(x, x));
        tuff_plan *plan = tuff_compile(
            graph, &(tuff_compile_options){.matmul_precision = allowed ? TUFF_PRECISION_F16 : TUFF_PRECISION_F32});
        if (!plan)
            fail_msg("%s: %s", emulated_units->name, tuff_error());
        assert_true(uses_units(plan) == (allowed != 0));
        tune_key key;
        assert_int_equal(tuff__task_key(&plan->fusion, 0, &key), TUFF_OK);
        assert_string_equal(key.math, maths[allowed]);
        write_numbers(plan, "x", TUFF_F32, numbers, COUNT);
        if (tuff_plan_run(plan) != TUFF_OK || tuff_plan_read(plan, "result", got, sizeof got) != TUFF_OK)
            fail_msg("%s: %s", emulated_units->name, tuff_error());
        for (int i = 0; i < COUNT; i++)
            assert_true(allowed ? got[i] == SIDE : got[i] > SIDE + 0x1p-8F);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
}

/* An attention; its gradients are computed from the log-sum-exp of the forward pass. */
typedef struct attention_case {
    const char *name;
    int64_t batch, queries, keys, heads, groups, key_width, value_width;
    bool causal;
    int64_t window, bias; /* rows of the bias: 1 or the number of queries; 0: no bias */
    double dropout, scale;
    tuff_precision precision, factors; /* of the plan; to which f32 operands may be rounded */
    int gradients;                     /* bits: of queries, keys, values; 0: all */
    bool narrow;                       /* operands are stored as 16 bits, as results of maps in such plans */
    int splits; /* groups that share the keys of a block, if there are so many panels; 0: the default */
} attention_case;

enum { RESULTS = 4 };
static const char *const attention_results[RESULTS] = {"out", "dq", "dk", "dv"};

/* Whether kernels know which sums each lane of the units holds. */
static bool knows_sums(void)
{
    return emulated_units->form == TUFF_MATRIX_NVIDIA;
}

/* Whether the plan's gradients run on the units. */
static bool has_gradients_on_units(const tuff_plan *plan)
{
    return uses_body(plan, knows_sums() ? "attention_backward_cooperative" : "attention_backward_cooperative_shared");
}

static bool should_have_gradients_on_units(const attention_case *one)
{
    return one->key_width <= 128 && one->value_width <= 128;
}

/* Extents of 1, primes, and around blocks and panels; loads of 16 bytes and of single elements; scores that grow from
   panel to panel, so that results are rescaled. */
static const attention_case attentions[] = {
    {"causal, 70, heads of 16", 2, 70, 70, 2, 2, 16, 16, .causal = true, .precision = TUFF_PRECISION_F16},
    {"all keys, shared heads, widths that differ", 1, 33, 131, 4, 2, 24, 40, .precision = TUFF_PRECISION_F16},
    {"odd widths, window", 1, 67, 67, 2, 1, 5, 3, .causal = true, .window = 17, .precision = TUFF_PRECISION_F16},
    {"one query", 1, 1, 45, 2, 2, 8, 8, .precision = TUFF_PRECISION_F16},
    {"one key", 1, 17, 1, 1, 1, 32, 20, .precision = TUFF_PRECISION_F16},
    {"a bias for each score, large scores", 1, 40, 67, 2, 1, 16, 24, .bias = 40, .scale = 6,
     .precision = TUFF_PRECISION_F16},
    {"a bias of keys, dropout", 2, 35, 128, 2, 2, 16, 16, .bias = 1, .dropout = 0.3, .precision = TUFF_PRECISION_F16},
    {"wide heads", 1, 18, 40, 1, 1, 128, 136, .causal = true, .precision = TUFF_PRECISION_F16},
    {"bf16", 1, 64, 128, 2, 2, 64, 64, .causal = true, .scale = 3, .precision = TUFF_PRECISION_BF16},
    {"rounded as they are loaded", 1, 37, 64, 2, 1, 24, 16, .factors = TUFF_PRECISION_F16},
    {"heads of 80 and 20, groups of heads", 1, 97, 131, 6, 2, 80, 20, .precision = TUFF_PRECISION_F16},
    {"heads of 128, bf16", 1, 50, 90, 1, 1, 128, 128, .causal = true, .precision = TUFF_PRECISION_BF16},
    {"window, values alone", 1, 150, 150, 1, 1, 16, 32, .causal = true, .window = 40, .precision = TUFF_PRECISION_F16,
     .gradients = 4},
    {"window, queries alone", 1, 150, 150, 1, 1, 16, 32, .causal = true, .window = 40, .precision = TUFF_PRECISION_F16,
     .gradients = 1},
    {"one head of one, keys alone", 1, 19, 23, 1, 1, 1, 1, .precision = TUFF_PRECISION_F16, .gradients = 2},
    {"a bias for each score, dropout, several blocks", 1, 75, 67, 2, 2, 16, 16, .bias = 75, .dropout = 0.25,
     .precision = TUFF_PRECISION_F16},
    {"operands of 16 bits", 1, 150, 200, 4, 2, 64, 64, .causal = true, .precision = TUFF_PRECISION_F16, .narrow = true},
    {"operands of 16 bits, a scale below 0", 1, 35, 128, 2, 2, 24, 40, .scale = -2, .precision = TUFF_PRECISION_BF16,
     .narrow = true},
    {"operands of 16 bits, wide heads, window", 1, 90, 90, 1, 1, 144, 136, .causal = true, .window = 30,
     .precision = TUFF_PRECISION_F16, .gradients = 4, .narrow = true},
    {"splits, all keys", 2, 20, 331, 2, 1, 24, 40, .precision = TUFF_PRECISION_F16, .splits = 3},
    {"splits, causal, some without keys for a block", 1, 150, 150, 2, 2, 64, 64, .causal = true, .window = 70,
     .precision = TUFF_PRECISION_F16, .narrow = true, .splits = 32},
    {"splits, a bias for each score, dropout, large scores", 1, 19, 200, 2, 2, 16, 16, .bias = 19, .dropout = 0.25,
     .scale = 6, .precision = TUFF_PRECISION_F16, .splits = 2},
    {"splits, one query, wide heads, bf16", 1, 1, 257, 2, 1, 128, 136, .precision = TUFF_PRECISION_BF16, .narrow = true,
     .splits = 2},
    {"heads of 20 and 128, keys alone", 1, 70, 67, 2, 1, 20, 128, .precision = TUFF_PRECISION_F16, .gradients = 2},
    {"heads of 128, queries alone, dropout", 1, 40, 75, 1, 1, 128, 100, .dropout = 0.25,
     .precision = TUFF_PRECISION_F16, .gradients = 1},
};
enum { ATTENTIONS = sizeof attentions / sizeof *attentions };

static tuff_tensor *attended(tuff_graph *graph, const attention_case *one, const char *name, tuff_shape shape)
{
    tuff_tensor *input = tuff_input(graph, name, TUFF_F32, shape);
    return one->narrow ? tuff_mul(input, tuff_constant(graph, TUFF_F32, 0.5)) : input;
}

static tuff_graph *build_attention(tuff_device *device, const attention_case *one)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *q = attended(graph, one, "q", TUFF_SHAPE(one->batch, one->queries, one->heads, one->key_width));
    tuff_tensor *k = attended(graph, one, "k", TUFF_SHAPE(one->batch, one->keys, one->groups, one->key_width));
    tuff_tensor *v = attended(graph, one, "v", TUFF_SHAPE(one->batch, one->keys, one->groups, one->value_width));
    tuff_tensor *bias =
        one->bias ? tuff_input(graph, "bias", TUFF_F32, TUFF_SHAPE(one->batch, 1, one->bias, one->keys)) : NULL;
    tuff_tensor *out = tuff__primitive_attention(
        q, k, v,
        &(tuff_attention_options){
            .causal = one->causal, .window = one->window, .bias = bias, .dropout = one->dropout, .scale = one->scale});
    const tuff_shape shape = TUFF_SHAPE(one->batch, one->queries, one->heads, one->value_width);
    tuff_tensor *product = tuff_mul(out, tuff_input(graph, "weights", TUFF_F32, shape));
    tuff_tensor *loss = tuff_sum(product, (int[]){0, 1, 2, 3}, 4, false), *gradients[3];
    assert_int_equal(tuff_gradients(loss, (tuff_tensor *[]){q, k, v}, 3, gradients), TUFF_OK);
    tuff_output(graph, "out", out);
    for (int i = 0; i < 3; i++)
        if (one->gradients == 0 || (one->gradients >> i & 1) != 0)
            tuff_output(graph, attention_results[1 + i], gradients[i]);
    return graph;
}

/* Gets the number of elements of the result and of each gradient. */
static void count_results(const attention_case *one, int64_t counts[RESULTS])
{
    const int64_t queries = one->batch * one->queries * one->heads, keys = one->batch * one->keys * one->groups;
    counts[0] = queries * one->value_width;
    counts[1] = queries * one->key_width;
    counts[2] = keys * one->key_width;
    counts[3] = keys * one->value_width;
    for (int i = 1; i < RESULTS; i++)
        if (one->gradients != 0 && (one->gradients >> (i - 1) & 1) == 0)
            counts[i] = 0;
}

static void read_results(tuff_plan *plan, const int64_t counts[RESULTS], float *got)
{
    for (int i = 0; i < RESULTS; got += counts[i++])
        if (counts[i] > 0)
            assert_int_equal(tuff_plan_read(plan, attention_results[i], got, (size_t)counts[i] * sizeof *got), TUFF_OK);
}

/* Keeps scores in registers or in local memory, if there is a choice. */
static tuff_plan *compile_attention(tuff_graph *graph, const attention_case *one, tuff_family family, bool in_registers)
{
    tune_config config = {.set = {0}};
    const tuff_compile_options options = {
        .family = family, .precision = one->precision, .matmul_precision = one->factors};
    const bool on_units = family == TUFF_FAMILY_COOPERATIVE, chooses = on_units && knows_sums();
    if (chooses)
        tuff__config_set(&config, TUNABLE_attention_cooperative_registers, in_registers);
    if (on_units && one->splits > 0)
        tuff__config_set(&config, TUNABLE_attention_cooperative_splits, one->splits);
    tuff_plan *plan = compile_with(graph, &options, TASK_ATTENTION, chooses || one->splits > 0 ? &config : NULL);
    if (!on_units)
        return plan;
    if (uses_body(plan, "attention_join") != (one->splits > 1))
        fail_msg("%s: keys of %s are not shared as meant", emulated_units->name, one->name);
    if (!uses_body(plan, chooses && in_registers ? "attention_cooperative_register" : "attention_cooperative"))
        fail_msg("%s: %s is not on matrix units", emulated_units->name, one->name);
    if (chooses && in_registers && one->narrow &&
        !uses_kernel(plan, "attention_cooperative_register", "#define COPIES_K 1\n#define COPIES_V 1\n"))
        fail_msg("%s: operands of %s are not copied by the hardware", emulated_units->name, one->name);
    if (has_gradients_on_units(plan) != should_have_gradients_on_units(one))
        fail_msg("%s: the gradients of %s are on other kernels than meant", emulated_units->name, one->name);
    return plan;
}

/* Returns the result followed by the gradients: of kernels for CPUs, which do not round weights, or of matrix units.
   Tells whether the gradients are from matrix units. The caller frees the result. */
static float *run_attention(tuff_device *device, const attention_case *one, tuff_family family, bool in_registers,
                            const int64_t results[RESULTS], bool *on_units)
{
    static const char *const inputs[] = {"q", "k", "v", "weights", "bias"};
    const int64_t queries = one->batch * one->queries * one->heads, keys = one->batch * one->keys * one->groups;
    const int64_t counts[] = {queries * one->key_width, keys * one->key_width, keys * one->value_width,
                              queries * one->value_width, one->batch * one->bias * one->keys};
    tuff_graph *graph = build_attention(device, one);
    tuff_plan *plan = compile_attention(graph, one, family, in_registers);
    *on_units = has_gradients_on_units(plan);
    seed_numbers(7);
    for (int i = 0; i < 4 + (one->bias > 0); i++) {
        double *numbers = random_numbers(counts[i]);
        write_numbers(plan, inputs[i], TUFF_F32, numbers, counts[i]);
        free(numbers);
    }
    float *got = malloc((size_t)(results[0] + results[1] + results[2] + results[3]) * sizeof *got);
    assert_non_null(got);
    if (tuff_plan_run(plan) != TUFF_OK)
        fail_msg("%s, %s: %s", emulated_units->name, one->name, tuff_error());
    read_results(plan, results, got);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return got;
}

/* Values are at most 2, so that the error of a result from rounded weights is a few roundings of that. Kernels without
   units compute the gradient of the values from exact weights, with the log-sum-exp of the forward pass. Everywhere
   else weights or gradients of scores are rounded, or a query's sum is over rounded results: the error of gradients is
   a few roundings of the largest. */
static double attention_bound(const attention_case *one, bool on_units, int result, double wanted, double largest)
{
    const double unit = one->precision == TUFF_PRECISION_BF16 ? 0x1p-9 : 0x1p-11;
    if (result == 0)
        return 3 * unit / (1 - one->dropout);
    if (result == 3 && !on_units)
        return 2e-5 * (4 + fabs(wanted));
    return 6 * unit * largest / (1 - one->dropout);
}

static void try_attention(tuff_device *device, const attention_case *one, bool in_registers)
{
    int64_t counts[RESULTS];
    bool on_units;
    count_results(one, counts);
    float *wanted = run_attention(device, one, TUFF_FAMILY_REGISTER, false, counts, &on_units),
          *got = run_attention(device, one, TUFF_FAMILY_COOPERATIVE, in_registers, counts, &on_units);
    const float *is = got, *should = wanted;
    for (int r = 0; r < RESULTS; is += counts[r], should += counts[r], r++) {
        double largest = 0;
        for (int64_t i = 0; i < counts[r]; i++)
            largest = fmax(largest, fabs((double)should[i]));
        for (int64_t i = 0; i < counts[r]; i++)
            if (!(fabs((double)is[i] - (double)should[i]) <= attention_bound(one, on_units, r, should[i], largest)))
                fail_msg("%s, %s, scores in registers %d: element %lld of %s is %.9g, not %.9g; the largest is %.9g",
                         emulated_units->name, one->name, in_registers, (long long)i, attention_results[r],
                         (double)is[i], (double)should[i], largest);
    }
    free(wanted);
    free(got);
}

/* Tries one case, or all of them (-1), with scores in registers or in local memory if there is a choice. */
static void try_attentions(tuff_device *device, int only)
{
    for (int i = 0; i < ATTENTIONS; i++) {
        const bool has_units = (attentions[i].precision != TUFF_PRECISION_BF16 || device->info.matrix_bf16) &&
                               (attentions[i].dropout == 0 || tuff__device_target(device).has_dropout_on_units);
        if (!has_units || (only >= 0 && i != only))
            continue;
        const bool in_memory = !knows_sums() || (only >= 0 && drawn_turn("scores in local memory", i, 3) == 0);
        if (!in_memory)
            try_attention(device, &attentions[i], true);
        if (in_memory || only < 0)
            try_attention(device, &attentions[i], false);
    }
}

/* Makes a device look as if it had these units, and the local memory of a GPU. */
static void describe_units(tuff_device *device, const units *one)
{
    enum { GPU_LOCAL_MEMORY = 65536 };
    device->info.cooperative_matrix = one->form;
    memcpy(device->info.matrix_shape, one->shape, sizeof one->shape);
    device->info.matrix_lanes = one->lanes;
    device->info.matrix_bf16 = one->form != TUFF_MATRIX_NV;
    device->info.matrix_warpgroup = one->on_warpgroups;
    if (device->info.local_memory_size > GPU_LOCAL_MEMORY)
        device->info.local_memory_size = GPU_LOCAL_MEMORY;
    emulated_units = one;
}

/* Varies the device from case to case; own is its description. Returns false if the units cannot multiply the case. */
static bool describe_for_case(tuff_device *device, const tuff_device_info *own, const units *one, int i)
{
    static const uint32_t group_sizes[] = {128 + 256, 256, 128, 0};
    /* A device that takes GLSL may lack 16-bit storage; it then splits words. */
    device->info.proved_narrow_storage = own->proved_narrow_storage && (one->instructions != NULL || i % 2 == 0);
    device->info.matrix_group_sizes = device->info.matrix_group_sizes_bf16 = group_sizes[one->in_groups ? i % 3 : 3];
    return cases[i].x_dtype != TUFF_BF16 || device->info.matrix_bf16;
}

/* Presents the device with these matrix units; tries one case, or all in a thorough run. */
static void try_units(tuff_device *device, const units *one, int only)
{
    const tuff_device_info info = device->info;
    const driver *before = device->driver;
    driver emulating = *before;
    real_driver = before;
    emulating.program_create = create_emulated;
    device->driver = &emulating;
    describe_units(device, one);
    emulated = 0;
    for (int i = 0; i < CASES; i++)
        if ((is_thorough() || i == only) && describe_for_case(device, &info, one, i))
            try_product(device, &cases[i], 1 + i % 3);
    device->info.proved_narrow_storage = info.proved_narrow_storage;
    try_product(device, &in_bands, 2);
    try_assigned(device);
    try_allowed(device);
    device->info.matrix_group_sizes = device->info.matrix_group_sizes_bf16 = 0;
    device->info.matrix_lanes = one->lanes > 0 ? one->lanes : 32;
    if (!one->in_groups)
        try_attentions(device, is_thorough() ? -1 : only % ATTENTIONS);
    assert_true(emulated > 0 || !is_thorough());
    device->driver = before;
    device->info = info;
}

static bool may_have_units(const tuff_device *device)
{
    const bool may =
        device->info.narrow_storage && (!tuff__device_takes_glsl(device) || device->info.proved_subgroup_size > 0);
    if (!may)
        leave_out_device("no 16-bit elements in memory, or no subgroups of a known size");
    return may;
}

/* Compiles nothing, so that all cases are tried in every run. */
static void check_epilogues(tuff_device *device)
{
    const tuff_device_info info = device->info;
    const bool takes_glsl = tuff__device_takes_glsl(device);
    if (!may_have_units(device))
        return;
    for (int i = 0; i < UNITS * CASES; i++) {
        const units *one = &all_units[i / CASES];
        const product_case *product = &cases[i % CASES];
        if ((one->instructions == NULL) != takes_glsl || !product->epilogue)
            continue;
        describe_units(device, one);
        if (!describe_for_case(device, &info, one, i % CASES))
            continue;
        const int fused = count_launches(device, product, 1 + i % 3, true);
        const int alone = count_launches(device, product, 1 + i % 3, false);
        if (fused != alone)
            fail_msg("%s, case %d: %d launches with the epilogue, %d without", one->name, i % CASES, fused, alone);
    }
    device->info = info;
}

static void epilogues_take_no_launch(void **unused)
{
    (void)unused;
    for_each_driver(check_epilogues);
}

static void check_emulated(tuff_device *device)
{
    const char *chosen = getenv("TUFF_DEVICE");
    const bool takes_glsl = tuff__device_takes_glsl(device);
    if (chosen && chosen[0] && strcmp(chosen, device->info.selector) != 0) {
        leave_out_device("TUFF_DEVICE names another");
        return;
    }
    if (!may_have_units(device))
        return;
    for (int i = 0; i < UNITS; i++)
        if ((all_units[i].instructions == NULL) == takes_glsl && (is_thorough() || drawn_turn("shape", i, 6) == 0))
            try_units(device, &all_units[i], drawn_turn("case", i, CASES));
}

/* Tests the device's own units, if it has any. */
static void check_own(tuff_device *device)
{
    const bool on_warpgroups = device->info.matrix_warpgroup != 0;
    const uint32_t form = device->info.cooperative_matrix;
    emulated_units = NULL;
    for (int i = 0; i < UNITS; i++)
        if (all_units[i].form == form && all_units[i].on_warpgroups == on_warpgroups && !all_units[i].in_groups)
            emulated_units = &all_units[i]; /* names the units; the sizes are the device's */
    if (!emulated_units) {
        leave_out_device("no matrix units of its own");
        return;
    }
    for (int i = 0; i < CASES; i++)
        for (int buffers = 1; buffers <= 3; buffers++)
            if ((cases[i].x_dtype != TUFF_BF16 || device->info.matrix_bf16) && (is_thorough() || buffers == 1 + i % 3))
                try_product(device, &cases[i], buffers);
    try_attentions(device, -1);
}

static void products_on_own_units_are_right(void **unused)
{
    (void)unused;
    for_each_driver(check_own);
}

static void products_on_emulated_units_are_right(void **unused)
{
    (void)unused;
    for_drawn_drivers(check_emulated);
}

static tuff_status create_nothing(driver_device *device, const program_request *request, blob cached, blob *made,
                                  driver_program **out)
{
    if (!strstr(request->text, "MATRIX_M"))
        return real_driver->program_create(device, request, cached, made, out);
    return tuff__fail(TUFF_E_COMPILE, "this compiler knows no such instructions");
}

/* The self-test's findings for a driver whose emulation is right or wrong, or whose compiler refuses the kernels. */
typedef enum emulation_kind { CORRECT, WRONG, REFUSED, EMULATION_KINDS } emulation_kind;

static void try_proof(tuff_device *device, driver *emulating, const units *one, emulation_kind given)
{
    static const tuff_matrix_state states[EMULATION_KINDS] = {TUFF_MATRICES_OFFERED, TUFF_MATRICES_WRONG,
                                                              TUFF_MATRICES_NO_COMPILER};
    emulates_wrongly = given == WRONG;
    emulating->program_create = given == REFUSED ? create_nothing : create_emulated;
    describe_units(device, one);
    assert_int_equal(tuff__device_self_test(device), TUFF_OK);
    emulates_wrongly = false;
    /* Wrong results of warpgroups do not disable the device's other units. */
    const bool warpgroups = one->on_warpgroups && given == CORRECT;
    if (one->on_warpgroups && given == WRONG)
        given = CORRECT;
    if (device->info.cooperative_matrix != (given == CORRECT ? one->form : 0) ||
        device->info.matrix_bf16 != (given == CORRECT) || device->info.matrix_state != states[given] ||
        device->info.matrix_warpgroup != warpgroups)
        fail_msg("%s, %d: units %u, bf16 %d, state %u, warpgroups %u", one->name, given,
                 device->info.cooperative_matrix, device->info.matrix_bf16, device->info.matrix_state,
                 device->info.matrix_warpgroup);
}

/* The self-test's own kernels use the same instructions. */
static void check_proof(tuff_device *device)
{
    const tuff_device_info info = device->info;
    const driver *before = device->driver;
    driver emulating = *before;
    if (tuff__device_takes_glsl(device)) {
        leave_out_device("tests/device/selftest.c covers GLSL");
        return;
    }
    real_driver = before;
    device->driver = &emulating;
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    for (int i = 0; i < UNITS * EMULATION_KINDS; i++) {
        const units *one = &all_units[i / EMULATION_KINDS];
        const emulation_kind given = (emulation_kind)(i % EMULATION_KINDS);
        if (!one->instructions || (given == WRONG && !one->wrong_emulation[0]) ||
            (!is_thorough() && drawn_turn("proof", i, given == REFUSED ? 2 : 4) != 0))
            continue;
        try_proof(device, &emulating, one, given);
    }
    device->driver = before;
    device->info = info;
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

static void the_self_test_proves_units(void **unused)
{
    (void)unused;
    for_drawn_drivers(check_proof);
}

/* Attention with dropout does not use units for which the driver's compiler would crash. */
static void check_dropout(tuff_device *device)
{
    enum { NVIDIA = 0x10de, AMD = 0x1002 };
    static const tuff_compile_options asked = {.family = TUFF_FAMILY_COOPERATIVE, .precision = TUFF_PRECISION_F16};
    const tuff_device_info before = device->info;
    device->info.cooperative_matrix = tuff__device_takes_glsl(device) ? TUFF_MATRIX_NV : TUFF_MATRIX_NVIDIA;
    device->info.matrix_shape[0] = device->info.matrix_shape[1] = device->info.matrix_shape[2] = 16;
    device->info.matrix_lanes = 32;
    for (int i = 0; i < 4; i++) {
        const attention_case one = {"dropout", 1, 64, 64, 2, 2, 16, 16, .dropout = i % 2 * 0.25};
        device->info.vendor_id = i / 2 ? NVIDIA : AMD;
        tuff_graph *graph = build_attention(device, &one);
        tuff_plan *plan = lower_configured(graph, &asked, TASK_ATTENTION, NULL);
        assert_non_null(plan);
        const bool on_units =
                       uses_body(plan, "attention_cooperative") || uses_body(plan, "attention_cooperative_register"),
                   has_gradients = uses_body(plan, "attention_backward_cooperative") ||
                                   uses_body(plan, "attention_backward_cooperative_shared"),
                   crashes = one.dropout > 0 && i / 2 && tuff__device_takes_glsl(device);
        assert_int_equal(on_units, !crashes);
        assert_int_equal(has_gradients, !crashes);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
    device->info = before;
}

static void dropout_avoids_units_if_compilers_crash(void **unused)
{
    (void)unused;
    for_each_api(check_dropout);
}

/* A few queries over many keys leave most processors idle unless groups share the keys. Nothing is compiled. */
static void check_few_queries(tuff_device *device)
{
    static const struct {
        int64_t queries, keys, heads;
        bool is_shared;
    } given[] = {{16, 8192, 8, true}, {64, 8192, 8, true},  {64, 8192, 40, true},   {16, 1024, 1100, false},
                 {16, 100, 8, false}, {512, 8192, 2, true}, {4096, 4096, 32, false}};
    const tuff_device_info before = device->info;
    describe_as_gpu(device);
    device->info.compute_units = 132;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const attention_case one = {
            "few queries", 1, given[i].queries, given[i].keys, given[i].heads, given[i].heads, 64, 64, .causal = false};
        const tuff_compile_options options = {.family = TUFF_FAMILY_DEVICE, .precision = TUFF_PRECISION_F16};
        tuff_graph *graph = build_attention(device, &one);
        tuff_plan *plan = lower_configured(graph, &options, TASK_ATTENTION, NULL);
        if (!plan)
            fail_msg("%s", tuff_error());
        const bool on_units =
            uses_body(plan, "attention_cooperative") || uses_body(plan, "attention_cooperative_register");
        if (!on_units || uses_body(plan, "attention_join") != given[i].is_shared)
            fail_msg("%lld queries, %lld keys, %lld heads", (long long)one.queries, (long long)one.keys,
                     (long long)one.heads);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
    device->info = before;
}

static void few_queries_share_keys(void **unused)
{
    (void)unused;
    for_each_api(check_few_queries);
}

static void check_refusal(tuff_device *device)
{
    static const tuff_compile_options asked = {.family = TUFF_FAMILY_COOPERATIVE};
    if (device->info.cooperative_matrix != 0) {
        leave_out_device("has matrix units");
        return;
    }
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    tuff_tensor *x = tuff_cast(tuff_input(graph, "x", TUFF_F16, TUFF_SHAPE(16, 16)), TUFF_F32);
    tuff_output(graph, "y", tuff_matmul(x, x));
    assert_null(tuff_compile(graph, &asked));
    assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
    assert_non_null(strstr(tuff_error(), "matrix units"));
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_false(uses_units(plan));
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void units_that_are_not_proved_are_refused(void **unused)
{
    (void)unused;
    for_each_driver(check_refusal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_on_own_units_are_right, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(dropout_avoids_units_if_compilers_crash, use_fresh_cache, drop_cache),
        cmocka_unit_test(few_queries_share_keys),
        cmocka_unit_test(units_that_are_not_proved_are_refused),
        cmocka_unit_test(epilogues_take_no_launch),
        cmocka_unit_test_setup_teardown(the_self_test_proves_units, use_fresh_cache, drop_cache),
        cmocka_unit_test_setup_teardown(products_on_emulated_units_are_right, use_fresh_cache, drop_cache)};
    return cmocka_run_group_tests_name("matrix_units", tests, NULL, NULL);
}
