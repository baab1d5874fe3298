/* Loops longer than some drivers allow: llvmpipe silently ends each loop of a kernel after 65535 iterations. Tests
   every kind of work whose loops grow with the data against the float64 reference on every driver; and smaller cases on
   devices that are made to report a lower limit. The last element of each long axis is large, so that a result that
   misses it is wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/lower/loop_limit.h"
#include "device/state.h"
#include "each_device.h"
#include "graph/builder.h"
#include "exec/plan.h"
#include "tuff.h"

enum { LOW_LIMIT = 1000 };

/* A graph to build. Its builder defines the meaning of the extents. */
typedef struct work {
    const char *name;
    void (*build)(tuff_graph *graph, const int64_t *extents);
    int64_t extents[4];
} work;

static tuff_tensor *input(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape)
{
    char name[16];
    int before = 0;
    for (int i = 0; i < graph->node_count; i++)
        before += graph->nodes[i]->op == OP_INPUT;
    (void)snprintf(name, sizeof name, "in%d", before);
    return tuff_input(graph, name, dtype, shape);
}

/* x [a, rows, k] · y [k, columns]; both are transposed in memory if the last extent is negative. */
static void build_matmul(tuff_graph *graph, const int64_t *extents)
{
    const int64_t rows = extents[1], inner = extents[2], columns = extents[3] < 0 ? -extents[3] : extents[3];
    static const int turn_x[] = {0, 2, 1}, turn_y[] = {1, 0};
    tuff_tensor *x, *y;
    if (extents[3] < 0) {
        x = tuff_permute(input(graph, TUFF_F32, TUFF_SHAPE(extents[0], inner, rows)), turn_x);
        y = tuff_permute(input(graph, TUFF_F32, TUFF_SHAPE(columns, inner)), turn_y);
    } else {
        x = input(graph, TUFF_F32, TUFF_SHAPE(extents[0], rows, inner));
        y = input(graph, TUFF_F32, TUFF_SHAPE(inner, columns));
    }
    tuff_output(graph, "y", tuff_matmul(x, y));
}

/* [rows, columns]. */
static tuff_tensor *matrix(tuff_graph *graph, const int64_t *extents)
{
    return input(graph, TUFF_F32, TUFF_SHAPE(extents[0], extents[1]));
}

static void build_sum(tuff_graph *graph, const int64_t *extents)
{
    tuff_output(graph, "y", tuff_sum(matrix(graph, extents), (int[]){1}, 1, false));
}

static void build_integer_sum(tuff_graph *graph, const int64_t *extents)
{
    tuff_tensor *x = tuff_cast(tuff_mul(matrix(graph, extents), tuff_constant(graph, TUFF_F32, 16)), TUFF_I32);
    tuff_output(graph, "y", tuff_cast(tuff_sum(x, (int[]){1}, 1, false), TUFF_F32));
}

static void build_max(tuff_graph *graph, const int64_t *extents)
{
    tuff_output(graph, "y", tuff_reduce_max(matrix(graph, extents), (int[]){1}, 1, false));
}

static void build_argmax(tuff_graph *graph, const int64_t *extents)
{
    tuff_output(graph, "y", tuff_cast(tuff_argmax(matrix(graph, extents), 1, false), TUFF_F32));
}

static void build_softmax(tuff_graph *graph, const int64_t *extents)
{
    tuff_output(graph, "y", tuff_softmax(matrix(graph, extents), 1));
}

static void build_layer_norm(tuff_graph *graph, const int64_t *extents)
{
    tuff_output(graph, "y", tuff_layer_norm(matrix(graph, extents), NULL, NULL, 1, 1e-5));
}

static void build_cumsum(tuff_graph *graph, const int64_t *extents)
{
    tuff_output(graph, "y", tuff_cumsum(matrix(graph, extents), 1));
}

static void build_columns(tuff_graph *graph, const int64_t *extents)
{
    tuff_output(graph, "y", tuff_sum(matrix(graph, extents), (int[]){0}, 1, false));
}

/* The gradients of a layer's weight and bias: input [rows, columns], output [rows, extents[2]]. */
static void build_bias_gradient(tuff_graph *graph, const int64_t *extents)
{
    tuff_tensor *x = matrix(graph, extents), *weight = input(graph, TUFF_F32, TUFF_SHAPE(extents[1], extents[2])),
                *bias = input(graph, TUFF_F32, TUFF_SHAPE(extents[2])), *gradients[2];
    tuff_tensor *y = tuff_tanh(tuff_linear(x, weight, bias));
    assert_int_equal(
        tuff_gradients(tuff_sum(y, (int[]){0, 1}, 2, false), (tuff_tensor *[]){weight, bias}, 2, gradients), TUFF_OK);
    tuff_output(graph, "y", gradients[0]);
    tuff_output(graph, "z", gradients[1]);
}

/* Rows of a table [keys, columns] that a list selects, and the gradient with respect to the table. */
static void build_embedding(tuff_graph *graph, const int64_t *extents)
{
    tuff_tensor *table = matrix(graph, extents), *list = input(graph, TUFF_I32, TUFF_SHAPE(extents[2]));
    tuff_tensor *factors = input(graph, TUFF_F32, TUFF_SHAPE(extents[2], extents[1])), *gradient;
    tuff_tensor *found = tuff_embedding(table, list);
    assert_int_equal(tuff_gradients(tuff_sum(tuff_mul(found, factors), (int[]){0, 1}, 2, false), &table, 1, &gradient),
                     TUFF_OK);
    tuff_output(graph, "y", gradient);
    tuff_output(graph, "z", found);
}

/* extents: queries, keys, width, and a flag: positive for causal, negative for the kernels of attention even if others
   are faster. */
static tuff_tensor *attend(tuff_graph *graph, const int64_t *extents, tuff_tensor **operands)
{
    operands[0] = tuff_abs(input(graph, TUFF_F32, TUFF_SHAPE(1, extents[0], 1, extents[2])));
    operands[1] = input(graph, TUFF_F32, TUFF_SHAPE(1, extents[1], 1, extents[2]));
    operands[2] = input(graph, TUFF_F32, TUFF_SHAPE(1, extents[1], 1, extents[2]));
    const tuff_attention_options options = {.causal = extents[3] > 0};
    return (extents[3] < 0 ? tuff__primitive_attention : tuff_attention)(operands[0], operands[1], operands[2],
                                                                         &options);
}

static void build_attention(tuff_graph *graph, const int64_t *extents)
{
    tuff_tensor *operands[3];
    tuff_output(graph, "y", attend(graph, extents, operands));
}

static void build_attention_backward(tuff_graph *graph, const int64_t *extents)
{
    tuff_tensor *operands[3], *gradients[3];
    tuff_tensor *y = tuff_tanh(attend(graph, extents, operands));
    assert_int_equal(tuff_gradients(tuff_sum(y, (int[]){0, 1, 2, 3}, 4, false), operands, 3, gradients), TUFF_OK);
    tuff_output(graph, "y", gradients[0]);
    tuff_output(graph, "z", gradients[1]);
    tuff_output(graph, "w", gradients[2]);
}

static const work long_works[] = {
    {"matmul, 65535 terms", build_matmul, {1, 1, 65535, 2}},
    {"matmul, 65536 terms", build_matmul, {1, 1, 65536, 2}},
    {"matmul, 77500 terms", build_matmul, {1, 5, 77500, 3}},
    {"matmul, a prime of terms", build_matmul, {1, 9, 131071, 2}},
    {"matmul, many columns", build_matmul, {1, 8, 77500, 70}},
    {"matmul, transposed", build_matmul, {1, 5, 131073, -6}},
    {"matmul, batched", build_matmul, {3, 4, 77500, 5}},
    {"row sums", build_sum, {3, 70001}},
    {"many row sums", build_sum, {70, 300001}},
    {"integer row sums", build_integer_sum, {70, 70001}},
    {"maxima", build_max, {70, 70001}},
    {"argmax", build_argmax, {70, 50003}},
    {"argmax, few", build_argmax, {2, 300000}},
    {"softmax", build_softmax, {3, 70001}},
    {"softmax, long", build_softmax, {2, 300000}},
    {"layer norm", build_layer_norm, {70, 70000}},
    {"layer norm, long", build_layer_norm, {2, 300003}},
    {"cumsum", build_cumsum, {2, 300000}},
    {"columns", build_columns, {70000, 5}},
    {"many rows", build_columns, {300000, 3}},
    {"many columns", build_columns, {16384, 259}},
    {"bias gradient", build_bias_gradient, {70000, 4, 3}},
    {"one row of a table", build_embedding, {2, 3, 70000}},
    {"a long table", build_embedding, {140000, 2, 500}},
    {"attention, 66000 keys", build_attention, {1, 66000, 8}},
    {"attention, 66000 keys by its kernel", build_attention, {1, 66000, 8, -1}},
    {"attention by its kernel", build_attention, {130, 1200, 64, -1}},
    {"attention backward, causal", build_attention_backward, {600, 600, 64, 1}},
    {"attention backward by its kernels", build_attention_backward, {1100, 130, 32, -1}},
};
enum { LONG_WORKS = (int)(sizeof long_works / sizeof *long_works) };

static const work short_works[] = {
    {"matmul", build_matmul, {1, 1, 1001, 2}},
    {"matmul, a prime of terms", build_matmul, {1, 9, 5003, 2}},
    {"matmul, many columns", build_matmul, {1, 8, 3000, 70}},
    {"matmul, transposed", build_matmul, {1, 5, 4001, -6}},
    {"matmul, batched", build_matmul, {3, 4, 3000, 5}},
    {"matmul of many tiles", build_matmul, {1, 100, 900, 100}},
    {"row sums", build_sum, {3, 3001}},
    {"many row sums", build_sum, {70, 20001}},
    {"integer row sums", build_integer_sum, {70, 3001}},
    {"maxima", build_max, {70, 3001}},
    {"argmax", build_argmax, {70, 900}},
    {"softmax", build_softmax, {70, 3001}},
    {"layer norm", build_layer_norm, {70, 9000}},
    {"cumsum", build_cumsum, {2, 9000}},
    {"columns", build_columns, {3000, 5}},
    {"many columns", build_columns, {3000, 1023}},
    {"bias gradient", build_bias_gradient, {3000, 4, 3}},
    {"one row of a table", build_embedding, {2, 3, 5000}},
    {"a long table", build_embedding, {2900, 2, 500}},
    {"attention", build_attention, {40, 600, 8}},
    {"attention by its kernel", build_attention, {40, 150, 8, -1}},
    {"attention backward by its kernels", build_attention_backward, {60, 150, 8, -1}},
};
enum { SHORT_WORKS = (int)(sizeof short_works / sizeof *short_works), MAX_WORKS = LONG_WORKS };

static bool is_last(const tuff_shape *shape, int64_t index, int64_t least)
{
    for (int i = shape->rank - 1; i >= 0; i--) {
        if (shape->extent[i] >= least && index % shape->extent[i] == shape->extent[i] - 1)
            return true;
        index /= shape->extent[i];
    }
    return false;
}

/* Fills an input with values between -0.5 and 0.5, and 8 at the end of a long axis. Index lists select the second row
   of a short table; in a long one they are scattered, and include its last row. */
static void fill_input(const work *tried, tuff_plan *plan, const node *at, int64_t least)
{
    const tuff_shape shape = at->outputs[0].shape;
    const int64_t count = tuff_shape_count(shape), keys = tried->extents[0];
    uint32_t *data = malloc((size_t)count * sizeof *data), state = 1;
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        const float value = is_last(&shape, i, least) ? 8 : (float)(state >> 8) / (1 << 24) - 0.5f;
        const int32_t row = keys < 10 ? 1 : (int32_t)(i == 0 ? keys - 1 : i * 211 % keys);
        if (at->outputs[0].dtype == TUFF_I32)
            memcpy(&data[i], &row, sizeof row);
        else
            memcpy(&data[i], &value, sizeof value);
    }
    assert_int_equal(tuff_plan_write(plan, at->attributes.name, data, (size_t)count * sizeof *data), TUFF_OK);
    free(data);
}

typedef struct results {
    float *values[3];
    int64_t counts[3];
    int count;
} results;

static bool has_expected; /* computed for the first device, so that nothing is allocated if all are skipped */
static results expected[MAX_WORKS];

static void free_results(results *freed)
{
    for (int i = 0; i < freed->count; i++)
        free(freed->values[i]);
    *freed = (results){.count = 0};
}

static tuff_graph *graph_of(const work *tried, tuff_device *device)
{
    tuff_graph *graph = tuff_graph_create(device);
    tried->build(graph, tried->extents);
    if (tuff_graph_status(graph) != TUFF_OK)
        fail_msg("%s: %s", tried->name, tuff_graph_error(graph));
    return graph;
}

static results run_plan_of(const work *tried, tuff_graph *graph, tuff_plan *plan, int64_t least)
{
    results out = {.count = graph->output_count};
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_INPUT)
            fill_input(tried, plan, graph->nodes[i], least);
    if (tuff_plan_run(plan) != TUFF_OK)
        fail_msg("%s: %s", tried->name, tuff_error());
    for (int i = 0; i < out.count; i++) {
        const size_t size = (size_t)tuff_shape_count(graph->outputs[i].tensor->shape) * sizeof(float);
        out.counts[i] = tuff_shape_count(graph->outputs[i].tensor->shape);
        out.values[i] = malloc(size);
        assert_non_null(out.values[i]);
        assert_int_equal(tuff_plan_read(plan, graph->outputs[i].name, out.values[i], size), TUFF_OK);
    }
    return out;
}

/* Returns the largest deviation from the expected results, relative to the largest of them. */
static double distance(const results *got, const results *wanted)
{
    double worst = 0;
    for (int i = 0; i < wanted->count; i++) {
        double largest = 1e-30, apart = 0;
        for (int64_t k = 0; k < wanted->counts[i]; k++) {
            largest = fmax(largest, fabs((double)wanted->values[i][k]));
            const double off = fabs((double)got->values[i][k] - (double)wanted->values[i][k]);
            apart = off <= apart ? apart : isnan(off) ? HUGE_VAL : off;
        }
        worst = fmax(worst, apart / largest);
    }
    return worst;
}

static void expect_no_long_loop(const work *tried, const tuff_plan *plan, uint32_t limit)
{
    const launch_list *made = &plan->executable.launches;
    for (int i = 0; i < made->launch_count && limit > 0; i++)
        if (tuff__loop_steps(&made->launches[i]) > limit)
            fail_msg("%s: %s takes %.0f steps", tried->name, made->launches[i].body,
                     tuff__loop_steps(&made->launches[i]));
}

static void check_work(const work *tried, tuff_device *device, const results *wanted, int64_t least)
{
    const uint32_t limit = tuff__device_info(device)->loop_limit;
    tuff_graph *graph = graph_of(tried, device);
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (plan == NULL)
        fail_msg("%s: %s", tried->name, tuff_error());
    expect_no_long_loop(tried, plan, limit);
    results got = run_plan_of(tried, graph, plan, least);
    const double apart = distance(&got, wanted);
    if (!(apart <= 1e-4))
        fail_msg("%s on %s: results differ by %g", tried->name, tuff__device_info(device)->name, apart);
    free_results(&got);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

static void expect_works(const work *works, int count, int64_t least)
{
    if (has_expected)
        return;
    has_expected = true;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    for (int i = 0; i < count; i++) {
        tuff_graph *graph = graph_of(&works[i], device);
        tuff_plan *plan = tuff_compile(graph, NULL);
        assert_non_null(plan);
        expected[i] = run_plan_of(&works[i], graph, plan, least);
        tuff_plan_destroy(plan);
        tuff_graph_destroy(graph);
    }
    tuff_device_close(device);
}

static void forget_works(int count)
{
    for (int i = 0; i < count; i++)
        free_results(&expected[i]);
    has_expected = false;
}

static void run_long_works(tuff_device *device)
{
    expect_works(long_works, LONG_WORKS, 40000);
    for (int i = 0; i < LONG_WORKS; i++)
        if (is_thorough() ||
            (device->info.loop_limit > 0 ? drawn_turn("long works", i, 2) == 0 : is_one_of_two_drawn(device, i)))
            check_work(&long_works[i], device, &expected[i], 40000);
}

static void runs_long_loops_to_their_end(void **state)
{
    (void)state;
    for_each_driver(run_long_works);
    forget_works(LONG_WORKS);
}

static void run_short_works(tuff_device *device)
{
    expect_works(short_works, SHORT_WORKS, 800);
    const uint32_t own = device->info.loop_limit;
    device->info.loop_limit = LOW_LIMIT;
    for (int i = 0; i < SHORT_WORKS; i++)
        if (is_drawn_for_api(device, i) && (is_thorough() || drawn_turn("short works", i / 2, 2) == 0))
            check_work(&short_works[i], device, &expected[i], 800);
    device->info.loop_limit = own;
}

static void respects_a_low_limit(void **state)
{
    (void)state;
    for_each_api(run_short_works);
    forget_works(SHORT_WORKS);
}

/* A configuration that selects a kernel with too long loops is refused, though the default for the task is not. */
static void refuse_choice(tuff_device *device)
{
    const work few = {"attention", build_attention, {40, 200, 8, -1}};
    tune_config large_blocks = {.set = {0}};
    launch_list made;
    tuff_graph *graph = graph_of(&few, device);
    tuff_plan *plan = tuff_compile(graph, NULL);
    int task = 0;
    if (plan == NULL)
        fail_msg("%s", tuff_error());
    while (plan->fusion.tasks[task].kind != TASK_ATTENTION)
        task++;
    tuff__config_set(&large_blocks, TUNABLE_task_family, TUFF_FAMILY_REGISTER);
    tuff__config_set(&large_blocks, TUNABLE_attention_register_block_rows, 64);
    assert_int_equal(tuff__lower_task(device, &plan->fusion, &(tuff_compile_options){.fuse = TUFF_FUSE_ALL}, task,
                                      &large_blocks, NULL, &made),
                     TUFF_E_LIMIT);
    assert_non_null(strstr(tuff_error(), "ends loops after 1000"));
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
}

/* If no kernel can compute a task, the error names it. */
static void refuse_graph(tuff_device *device)
{
    const work many = {"attention", build_attention, {4, 256000, 64, -1}};
    tuff_graph *graph = graph_of(&many, device);
    assert_null(tuff_compile(graph, NULL));
    assert_int_equal(tuff_last_status(), TUFF_E_LIMIT);
    assert_non_null(strstr(tuff_error(), "attention of [1,4,1,64] and [1,256000,1,64]"));
    tuff_graph_destroy(graph);
}

static double longest_loops(const work *tried, tuff_device *device)
{
    tuff_graph *graph = graph_of(tried, device);
    tuff_plan *plan = tuff_compile(graph, NULL);
    double most = 0;
    if (plan == NULL)
        fail_msg("%s: %s", tried->name, tuff_error());
    for (int i = 0; i < plan->executable.launches.launch_count; i++)
        most = fmax(most, tuff__loop_steps(&plan->executable.launches.launches[i]));
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    return most;
}

static void compare_passes(tuff_device *device)
{
    const work sum = {"sums", build_sum, {3, 300}}, softmax = {"softmax", build_softmax, {3, 300}};
    assert_true(longest_loops(&softmax, device) > 2 * longest_loops(&sum, device));
}

/* A sum takes one pass over a row, a softmax three. */
static void counts_only_passes_that_are_made(void **state)
{
    (void)state;
    for_drawn_api(0, compare_passes);
}

static void refuse_long_loops(tuff_device *device)
{
    const uint32_t own = device->info.loop_limit;
    device->info.loop_limit = LOW_LIMIT;
    refuse_choice(device);
    refuse_graph(device);
    device->info.loop_limit = own;
}

static void refuses_what_is_longer(void **state)
{
    (void)state;
    for_drawn_api(0, refuse_long_loops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_long_loops_to_their_end),
        cmocka_unit_test(respects_a_low_limit),
        cmocka_unit_test(refuses_what_is_longer),
        cmocka_unit_test(counts_only_passes_that_are_made),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
