/* Segments of tuff_recompute: values and gradients equal those without segments, bit for bit on the reference device
   and within the bounds on all others; the compiler does not merge copies with their originals; less memory at the
   peak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/lower/lower.h"
#include "compile/rewrite/simplify.h"
#include "differential.h"
#include "each_device.h"
#include "small_plans.h"
#include "tools/model/graphs.h"

/* Whether a graph's segments are marked; the unmarked graph is the expectation for the marked one. */
typedef struct marking {
    bool marked;
} marking;

static tuff_tensor *mark(const void *context, tuff_tensor *y, tuff_tensor *const *inputs, int count)
{
    return ((const marking *)context)->marked ? tuff_recompute(y, inputs, count) : y;
}

#define WIDTH 12

typedef struct weights {
    tuff_tensor *gain, *up, *down;
} weights;

static weights make_weights(tuff_graph *graph)
{
    return (weights){.gain = float_input(graph, TUFF_SHAPE(WIDTH)),
                     .up = ranged_input(graph, TUFF_F32, TUFF_SHAPE(WIDTH, 20), -0.2, 0.2),
                     .down = ranged_input(graph, TUFF_F32, TUFF_SHAPE(20, WIDTH), -0.2, 0.2)};
}

/* A residual block: products, activations, dropout, two heads of attention with dropout. It has no norm, because the
   bounds would become too wide. */
static tuff_tensor *block(tuff_tensor *x, const weights *made)
{
    const tuff_shape whole = tuff_tensor_shape(x), heads = TUFF_SHAPE(whole.extent[0], whole.extent[1], 2, WIDTH / 2);
    tuff_tensor *normed = tuff_mul(tuff_sigmoid(x), made->gain);
    tuff_tensor *hidden = tuff_dropout(tuff_gelu_tanh(tuff_matmul(normed, made->up)), 0.25);
    tuff_tensor *part = tuff_reshape(tuff_matmul(hidden, made->down), heads);
    tuff_tensor *mixed = tuff_attention(part, part, part, &(tuff_attention_options){.causal = true, .dropout = 0.2});
    return tuff_add(x, tuff_reshape(mixed, whole));
}

static void row_of_segments(tuff_graph *graph, const void *context)
{
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(2, 9, WIDTH)), *y = x;
    const weights made = make_weights(graph);
    for (int i = 0; i < 3; i++) {
        tuff_tensor *result = block(y, &made);
        y = mark(context, result, &y, 1);
    }
    add_with_gradients(graph, y, (tuff_tensor *[]){x, made.gain, made.up, made.down}, 4);
}

static void nested_segments(tuff_graph *graph, const void *context)
{
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(2, 5, WIDTH));
    const weights made = make_weights(graph);
    tuff_tensor *before = tuff_tanh(tuff_matmul(x, made.up));
    tuff_tensor *start = tuff_matmul(before, made.down), *first = block(start, &made);
    first = mark(context, first, &start, 1);
    tuff_tensor *second = block(first, &made);
    second = mark(context, second, &first, 1);
    tuff_tensor *y = mark(context, tuff_exp(tuff_sigmoid(second)), &x, 1);
    add_with_gradients(graph, y, (tuff_tensor *[]){x, made.gain, made.up, made.down}, 4);
}

/* The results and an inner value are outputs, too; both segments contain the same first ops. */
static void shared_segments(tuff_graph *graph, const void *context)
{
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(7, WIDTH)), *z = float_input(graph, TUFF_SHAPE(7, 20));
    const weights made = make_weights(graph);
    tuff_tensor *trunk = tuff_softmax(tuff_mul(tuff_matmul(x, made.up), z), 1);
    tuff_tensor *left = tuff_exp(tuff_matmul(trunk, made.down)), *right = tuff_cumsum(tuff_tanh(trunk), 0);
    left = mark(context, left, (tuff_tensor *[]){x, z}, 2);
    right = mark(context, right, (tuff_tensor *[]){x, z}, 2);
    add_output(graph, trunk);
    add_output(graph, left);
    tuff_tensor *joined = tuff_concat((tuff_tensor *[]){left, right, left}, 3, 1);
    add_with_gradients(graph, joined, (tuff_tensor *[]){x, z, made.up, made.down}, 4);
}

/* Ops whose gradients read their own results, indices, constants and views; and a segment without inputs. */
static void odd_segment(tuff_graph *graph, const void *context)
{
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(6, 10));
    tuff_tensor *indices = ranged_input(graph, TUFF_I32, TUFF_SHAPE(8), 0, 5);
    tuff_tensor *scale =
        tuff_add(tuff_cast(tuff_iota(graph, TUFF_SHAPE(10), 0), TUFF_F32), tuff_constant(graph, TUFF_F32, 0.5));
    tuff_tensor *rows = tuff_gather_rows(tuff_mul(x, scale), indices, 0);
    tuff_tensor *largest = tuff_reduce_max(rows, (int[]){1}, 1, true);
    tuff_tensor *flipped = tuff_slice(rows, (int64_t[]){7, 9}, (int64_t[]){-1, -1}, (int64_t[]){-1, -1});
    tuff_tensor *y = tuff_div(tuff_sub(flipped, largest), tuff_sqrt(tuff_add(tuff_exp(rows), scale)));
    add_with_gradients(graph, mark(context, y, NULL, 0), &x, 1);
}

static const struct {
    const char *name;
    graph_builder build;
} cases[] = {
    {"row of segments", row_of_segments},
    {"nested segments", nested_segments},
    {"shared segments", shared_segments},
    {"odd segment", odd_segment},
};
#define CASE_COUNT (sizeof cases / sizeof cases[0])

static void the_reference_gives_the_same_bits(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    for (size_t i = 0; i < CASE_COUNT; i++) {
        unsigned char *bytes[2];
        size_t sizes[2];
        for (int marked = 0; marked < 2; marked++) {
            differential graph;
            differential_create(&graph, cases[i].name, cases[i].build, &(marking){.marked = marked == 1}, 5);
            bytes[marked] = differential_bytes(&graph, device, NULL, 1, &sizes[marked]);
            assert_non_null(bytes[marked]);
            differential_destroy(&graph);
        }
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(bytes[0], bytes[1], sizes[0]);
        free(bytes[0]);
        free(bytes[1]);
    }
    tuff_device_close(device);
}

/* Also without fusion, which leaves the most ops. */
static void compare(tuff_device *device)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        differential graph;
        if (!is_drawn_for_api(device, (int)i))
            continue;
        differential_create(&graph, cases[i].name, cases[i].build, &(marking){.marked = true}, 5);
        assert_int_equal(differential_run(&graph, device, NULL), 0);
        if (cases[i].build == nested_segments)
            assert_int_equal(differential_run(&graph, device, &(tuff_compile_options){.fuse = TUFF_FUSE_NONE}), 0);
        differential_destroy(&graph);
    }
}

static void every_driver_is_right(void **state)
{
    (void)state;
    for_drawn_drivers(compare);
}

static int count_nodes(tuff_graph *graph, op_code op)
{
    int count = 0;
    tuff_graph *simple = tuff__simplify(graph, false);
    assert_non_null(simple);
    for (int i = 0; i < simple->node_count; i++)
        count += simple->nodes[i]->op == op;
    tuff_graph_destroy(simple);
    return count;
}

/* Checks how often ops in two segments, in one and in none are computed. depth is the number of marked segments. */
static void count_copies(tuff_device *device, int depth, int tangents, int exponentials, int powers)
{
    tuff_tensor *gradient;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(3));
    tuff_tensor *drawn = tuff_mul(x, tuff_random(graph, TUFF_SHAPE(3)));
    tuff_tensor *inner = tuff_exp(tuff_tanh(drawn));
    inner = depth > 1 ? tuff_recompute(inner, &x, 1) : inner;
    tuff_tensor *y = tuff_exp2(tuff_sigmoid(inner));
    y = depth > 0 ? tuff_recompute(y, &x, 1) : y;
    assert_int_equal(tuff_gradients(tuff_sum(y, (int[]){0}, 1, false), &x, 1, &gradient), TUFF_OK);
    tuff_output(graph, "gradient", gradient);
    tuff_output(graph, "y", y);
    assert_int_equal(count_nodes(graph, OP_TANH), tangents);
    assert_int_equal(count_nodes(graph, OP_EXP), exponentials);
    assert_int_equal(count_nodes(graph, OP_EXP2), powers);
    tuff_graph_destroy(graph);
}

/* The inputs of a segment are kept, however they were computed. */
static void keep_inputs(tuff_device *device)
{
    tuff_tensor *gradient;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(3)), *kept = tuff_tanh(x);
    tuff_tensor *y = tuff_exp2(tuff_exp(tuff_mul(kept, kept)));
    y = tuff_recompute(y, &kept, 1);
    assert_int_equal(tuff_gradients(tuff_sum(y, (int[]){0}, 1, false), &x, 1, &gradient), TUFF_OK);
    tuff_output(graph, "gradient", gradient);
    tuff_output(graph, "y", y);
    assert_int_equal(count_nodes(graph, OP_TANH), 1);
    assert_int_equal(count_nodes(graph, OP_EXP), 2);
    tuff_graph_destroy(graph);
}

static void what_segments_begin_with_is_kept(void **state)
{
    (void)state;
    for_drawn_api(1, keep_inputs);
}

/* Recomputed ops are not merged with the originals, one copy per enclosing segment; a segment's result is not
   recomputed. */
static void copies_are_kept_apart(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    count_copies(device, 0, 1, 1, 1);
    count_copies(device, 1, 2, 2, 1);
    count_copies(device, 2, 3, 2, 1);
    tuff_device_close(device);
}

/* An assign within a segment is done once; the ops after it are recomputed. */
static void assign_once(tuff_device *device)
{
    const float start[] = {1, 2}, x[] = {0.5F, 2}, after[] = {1.25F, 6};
    const float derivative[] = {3, 80}; /* 4ax + 8x^3, the derivative of y = (a + x^2) · 2x^2 */
    tuff_array *array = make_array(device, TUFF_F32, 2, start);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *made, *input = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2));
    tuff_tensor *square = tuff_mul(input, input);
    tuff_tensor *sum = tuff_assign(graph, array, tuff_add(tuff_array_tensor(graph, array), square));
    tuff_tensor *y = tuff_recompute(tuff_mul(sum, tuff_mul(square, tuff_constant(graph, TUFF_F32, 2))), &input, 1);
    assert_int_equal(tuff_gradients(tuff_sum(y, (int[]){0}, 1, false), &input, 1, &made), TUFF_OK);
    tuff_output(graph, "gradient", made);
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    run_plan(plan);
    expect_array(array, after);
    expect_output(plan, "gradient", derivative, sizeof derivative);
    destroy_plan(plan, graph);
    tuff_array_destroy(array);
}

static void assigns_are_done_once(void **state)
{
    (void)state;
    for_drawn_devices(assign_once);
}

/* Returns the peak memory in bytes of a training step, with or without its blocks as segments, without compiling a
   program. */
static uint64_t peak_of_training(tuff_device *device, bool recompute)
{
    const model_config config = {
        .form = MODEL_GPT, .layers = 6, .heads = 4, .width = 64, .context = 128, .vocabulary = 64};
    const tuff_optimizer_options rule = model_optimizer_options(1e-3, 100);
    language_model model;
    struct fusion fusion;
    launch_list launches;
    const tuff_compile_options options = {.fuse = TUFF_FUSE_ALL};
    assert_int_equal(model_create(device, &config, &model), TUFF_OK);
    model.recompute = recompute;
    tuff_optimizer *optimizer = tuff_optimizer_create(model.parameters, &rule);
    assert_non_null(optimizer);
    tuff_graph *graph = train_graph(device, &model, optimizer, 4), *simple = tuff__simplify(graph, false);
    assert_non_null(simple);
    assert_int_equal(tuff__fuse(simple, &options, MAX_BINDINGS, NULL, &fusion), TUFF_OK);
    assert_int_equal(tuff__lower(device, &fusion, &options, NULL, &launches), TUFF_OK);
    const uint64_t peak = launches.peak;
    tuff__launch_list_free(&launches);
    tuff__fusion_free(&fusion);
    tuff_graph_destroy(simple);
    tuff_graph_destroy(graph);
    tuff_optimizer_destroy(optimizer);
    model_destroy(&model);
    return peak;
}

static void halve_memory(tuff_device *device)
{
    const uint64_t kept = peak_of_training(device, false), segments = peak_of_training(device, true);
    print_message("    a step of GPT with 6 layers: a peak of %llu bytes, %llu with one segment per layer\n",
                  (unsigned long long)kept, (unsigned long long)segments);
    assert_true(segments > 0 && 2 * segments <= kept);
}

static void a_segment_a_layer_halves_memory(void **state)
{
    (void)state;
    for_drawn_api(0, halve_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_gives_the_same_bits),
        cmocka_unit_test(every_driver_is_right),
        cmocka_unit_test(what_segments_begin_with_is_kept),
        cmocka_unit_test(copies_are_kept_apart),
        cmocka_unit_test(assigns_are_done_once),
        cmocka_unit_test(a_segment_a_layer_halves_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
