/* Graphs: the nodes that builders guarantee to the compiler, composites and gradients at edge values, the float64
   executor, and running out of memory at any allocation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "failing_memory.h"
#include "graph/graph.h"
#include "exec/reference.h"
#include "tuff/nn.h"

#define S(...) TUFF_SHAPE(__VA_ARGS__)
#define MAX_ELEMENTS 64

static tuff_device *device;

static tuff_graph *new_graph(void)
{
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    return graph;
}

/* Creates a constant from f32 numbers. */
#define F32(graph, shape, ...) tuff_constant_data(graph, TUFF_F32, shape, (const float[]){__VA_ARGS__})
#define I32(graph, shape, ...) tuff_constant_data(graph, TUFF_I32, shape, (const int32_t[]){__VA_ARGS__})

/* Computes the elements of a tensor, and destroys its graph. */
static void evaluate(tuff_tensor *tensor, double *out)
{
    tuff_graph *graph = tuff_tensor_graph(tensor);
    reference_plan *plan;
    tuff_output(graph, "result", tensor);
    if (tuff_graph_status(graph) != TUFF_OK)
        fail_msg("%s", tuff_graph_error(graph));
    assert_true(tuff_shape_count(tuff_tensor_shape(tensor)) <= MAX_ELEMENTS);
    assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
    assert_int_equal(tuff__reference_run(plan), TUFF_OK);
    assert_int_equal(tuff__reference_read_double(plan, "result", out), TUFF_OK);
    tuff__reference_destroy(plan);
}

static void expect(tuff_tensor *tensor, const double *wanted, int count)
{
    double got[MAX_ELEMENTS];
    assert_int_equal(tuff_shape_count(tuff_tensor_shape(tensor)), count);
    evaluate(tensor, got);
    for (int i = 0; i < count; i++)
        if (!(isnan(wanted[i]) ? isnan(got[i]) : got[i] == wanted[i] || fabs(got[i] - wanted[i]) < 1e-6))
            fail_msg("element %d is %.9g, not %.9g", i, got[i], wanted[i]);
}

#define EXPECT(tensor, ...) \
    expect((tensor), (const double[]){__VA_ARGS__}, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* Returns d sum(result) / d by. */
static tuff_tensor *gradient_of(tuff_tensor *result, tuff_tensor *by)
{
    static const int axes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    tuff_tensor *gradient;
    tuff_tensor *target = tuff_sum(result, axes, tuff_tensor_shape(result).rank, false);
    assert_int_equal(tuff_gradients(target, &by, 1, &gradient), TUFF_OK);
    return gradient;
}

static int count_ops(const tuff_graph *graph, op_code op)
{
    int count = 0;
    for (int i = 0; i < graph->node_count; i++)
        count += graph->nodes[i]->op == op;
    return count;
}

static void elementwise_nodes_have_inputs_of_their_own_shape(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, S(4, 1, 3)), *y = tuff_input(graph, "y", TUFF_F32, S(5, 1));
    tuff_tensor *sum = tuff_add(x, y);
    assert_true(tuff_shape_equal(tuff_tensor_shape(sum), S(4, 5, 3)));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sum->node->inputs[i]->node->op, OP_EXPAND);
        assert_true(tuff_shape_equal(sum->node->inputs[i]->shape, sum->shape));
    }
    assert_int_equal(sum->node->inputs[1]->node->inputs[0]->node->op, OP_RESHAPE);
    assert_ptr_equal(tuff_mul(sum, sum)->node->inputs[0], sum);
    tuff_graph_destroy(graph);
}

static void constant_scalars_take_the_dtype_of_the_other_operand(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *half = tuff_input(graph, "half", TUFF_F16, S(3)), *whole = tuff_input(graph, "whole", TUFF_I32, S(3));
    assert_int_equal(tuff_tensor_dtype(tuff_mul(half, tuff_constant(graph, TUFF_F32, 0.1))), TUFF_F16);
    assert_int_equal(tuff_tensor_dtype(tuff_add(tuff_constant(graph, TUFF_U32, 2), whole)), TUFF_I32);
    assert_int_equal(tuff_tensor_dtype(tuff_less(half, tuff_constant(graph, TUFF_I32, 2))), TUFF_BOOL);
    assert_int_equal(tuff_graph_status(graph), TUFF_OK);
    tuff_graph_destroy(graph);
    graph = new_graph();
    EXPECT(tuff_div(tuff_constant(graph, TUFF_I32, 3), tuff_constant(graph, TUFF_F32, 2)), 1.5);
}

static void float_constants_do_not_become_integers(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        tuff_graph *graph = new_graph();
        tuff_array *array = tuff_array_create(device, TUFF_I32, TUFF_SCALAR);
        tuff_tensor *whole = tuff_iota(graph, S(3), 0), *two = tuff_constant(graph, TUFF_F32, 2);
        tuff_tensor *made = form == 0   ? tuff_div(whole, two)
                            : form == 1 ? tuff_where(tuff_less(whole, whole), two, whole)
                                        : tuff_assign(graph, array, two);
        (void)made;
        assert_int_equal(tuff_graph_status(graph), TUFF_E_DTYPE);
        assert_non_null(strstr(tuff_graph_error(graph), form < 2 ? "cast one of them" : "cast the value"));
        tuff_array_destroy(array);
        tuff_graph_destroy(graph);
    }
}

static void what_changes_nothing_makes_no_node(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, S(2, 3)), *none = tuff_input(graph, "none", TUFF_F32, S(0, 3));
    assert_ptr_equal(tuff_reshape(x, S(2, -1)), x);
    assert_ptr_equal(tuff_permute(x, (int[]){0, -1}), x);
    assert_ptr_equal(tuff_expand(x, S(2, 3)), x);
    assert_ptr_equal(tuff_slice(x, (int64_t[]){0, 0}, (int64_t[]){2, 3}, NULL), x);
    assert_ptr_equal(tuff_pad(x, (int64_t[]){0, 0}, (int64_t[]){0, 0}, 1), x);
    assert_ptr_equal(tuff_concat((tuff_tensor *[]){none, x}, 2, 0), x);
    assert_ptr_equal(tuff_cast(x, TUFF_F32), x);
    assert_ptr_equal(tuff_sum(x, NULL, 0, false), x);
    assert_ptr_equal(tuff_dropout(x, 0), x);
    assert_int_equal(graph->node_count, 2);
    tuff_graph_destroy(graph);
}

static void reductions_keep_axes_and_drop_them_by_reshape(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, S(2, 3, 4));
    tuff_tensor *kept = tuff_sum(x, (int[]){-1, 0}, 2, true), *dropped = tuff_reduce_max(x, (int[]){1}, 1, false);
    assert_true(tuff_shape_equal(kept->shape, S(1, 3, 1)));
    assert_int_equal(kept->node->attributes.axes, 5);
    assert_true(tuff_shape_equal(dropped->shape, S(2, 4)));
    assert_int_equal(dropped->node->op, OP_RESHAPE);
    assert_true(tuff_shape_equal(dropped->node->inputs[0]->shape, S(2, 1, 4)));
    tuff_graph_destroy(graph);
}

static void a_shared_matrix_is_multiplied_once_and_so_is_its_gradient(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, S(2, 3, 4)), *w = tuff_input(graph, "w", TUFF_F32, S(4, 5));
    tuff_tensor *product = tuff_matmul(x, w);
    assert_true(tuff_shape_equal(product->shape, S(2, 3, 5)));
    assert_int_equal(product->node->inputs[0]->node->op, OP_MATMUL);
    assert_ptr_equal(product->node->inputs[0]->node->inputs[1], w);
    tuff_tensor *gradient = gradient_of(product, w);
    assert_int_equal(gradient->node->op, OP_MATMUL);
    tuff_tensor *nothing =
        tuff_matmul(tuff_input(graph, "a", TUFF_F32, S(2, 0)), tuff_input(graph, "b", TUFF_F32, S(0, 3)));
    assert_true(tuff_shape_equal(nothing->shape, S(2, 3)));
    assert_int_equal(count_ops(graph, OP_MATMUL), 2);
    /* As many copies of w as x has matrices would be too large, but none is made. */
    tuff_tensor *hidden = tuff_input(graph, "hidden", TUFF_F32, S(64, 128, 768)),
                *head = tuff_input(graph, "head", TUFF_F32, S(768, 50257));
    assert_true(tuff_shape_equal(tuff_matmul(hidden, head)->shape, S(64, 128, 50257)));
    assert_int_equal(tuff_graph_status(graph), TUFF_OK);
    tuff_graph_destroy(graph);
}

static void batches_of_matrices_are_expanded(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, S(2, 1, 3, 4)), *y = tuff_input(graph, "y", TUFF_F32, S(6, 4, 5));
    tuff_tensor *product = tuff_matmul(x, y);
    assert_true(tuff_shape_equal(product->shape, S(2, 6, 3, 5)));
    assert_true(tuff_shape_equal(product->node->inputs[0]->shape, S(2, 6, 3, 4)));
    assert_true(tuff_shape_equal(product->node->inputs[1]->shape, S(2, 6, 4, 5)));
    assert_true(tuff_shape_equal(gradient_of(product, y)->shape, S(6, 4, 5)));
    tuff_tensor *vector = tuff_input(graph, "v", TUFF_F32, S(4));
    assert_true(tuff_shape_equal(tuff_matmul(vector, y)->shape, S(6, 5)));
    assert_true(tuff_shape_equal(tuff_matmul(x, vector)->shape, S(2, 1, 3)));
    assert_int_equal(tuff_matmul(vector, vector)->shape.rank, 0);
    tuff_graph_destroy(graph);
}

static void gather_and_scatter_nodes_have_aligned_inputs(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *table = tuff_input(graph, "table", TUFF_F32, S(7, 4)),
                *ids = tuff_input(graph, "ids", TUFF_I32, S(2, 3));
    tuff_tensor *rows = tuff_embedding(table, ids);
    assert_true(tuff_shape_equal(rows->shape, S(2, 3, 4)));
    const node *gather = rows->node->inputs[0]->node;
    assert_int_equal(gather->op, OP_GATHER);
    assert_true(tuff_shape_equal(gather->inputs[0]->shape, S(7, 4)));
    assert_true(tuff_shape_equal(gather->inputs[1]->shape, S(6, 4)));
    const node *scatter = gradient_of(rows, table)->node;
    assert_int_equal(scatter->op, OP_SCATTER_ADD);
    assert_true(tuff_shape_equal(scatter->inputs[1]->shape, scatter->inputs[2]->shape));
    assert_int_equal(scatter->attributes.axis, 0);
    tuff_graph_destroy(graph);
}

static void one_array_is_one_node(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_array *array = tuff_array_create(device, TUFF_F32, S(3));
    tuff_tensor *x = tuff_array_tensor(graph, array);
    assert_ptr_equal(tuff_array_tensor(graph, array), x);
    tuff_assign(graph, array, tuff_neg(x));
    assert_ptr_equal(tuff_array_tensor(graph, array), x);
    assert_int_equal(graph->assign_count, 1);
    tuff_graph_destroy(graph);
    tuff_array_destroy(array);
}

static tuff_tensor *every(int64_t start, int64_t stop, int64_t step)
{
    return tuff_slice(F32(new_graph(), S(6), 0, 1, 2, 3, 4, 5), &start, &stop, &step);
}

/* A slice whose extent is no multiple of the step still includes its last element. */
static void slices_take_every_step(void **state)
{
    (void)state;
    EXPECT(every(0, 5, 2), 0, 2, 4);
    EXPECT(every(1, 5, 2), 1, 3);
    EXPECT(every(0, 6, 4), 0, 4);
    EXPECT(every(4, -1, -2), 4, 2, 0);
    EXPECT(every(5, 0, -2), 5, 3, 1);
    EXPECT(every(5, -1, -4), 5, 1);
    EXPECT(every(2, 1, -3), 2);
}

static void soft_maxima_survive_infinities(void **state)
{
    (void)state;
    const float low = -INFINITY;
    EXPECT(tuff_softmax(F32(new_graph(), S(2, 3), 1, low, 1, low, 5, low), -1), 0.5, 0, 0.5, 0, 1, 0);
    EXPECT(tuff_softmax(F32(new_graph(), S(2), low, low), -1), 0, 0);
    EXPECT(tuff_softmax(F32(new_graph(), S(2), 1000, 1000), -1), 0.5, 0.5);
    EXPECT(tuff_log_softmax(F32(new_graph(), S(3), 7, low, low), -1), 0, -INFINITY, -INFINITY);
    EXPECT(tuff_logsumexp(F32(new_graph(), S(2, 2), low, low, 80, low), 1, false), -INFINITY, 80);
    EXPECT(tuff_logsumexp(F32(new_graph(), S(2, 2), INFINITY, 0, 80, low), 1, false), INFINITY, 80);
    EXPECT(tuff_logsumexp(F32(new_graph(), S(2), INFINITY, NAN), 0, false), NAN);
    EXPECT(tuff_softmax(F32(new_graph(), S(2), NAN, 1), -1), NAN, NAN);
    tuff_tensor *x = F32(new_graph(), S(3), 7, low, low);
    EXPECT(gradient_of(tuff_softmax(x, -1), x), 0, 0, 0);
    x = F32(new_graph(), S(3), low, low, low);
    EXPECT(gradient_of(tuff_logsumexp(x, 0, true), x), 0, 0, 0);
}

/* The square root has no derivative at 0: one row of equal elements must not make all gradients of a step NaN. */
static void deviations_of_constant_rows_have_gradients(void **state)
{
    (void)state;
    const int axis = 1;
    EXPECT(tuff_std(F32(new_graph(), S(2, 2), 3, 3, 1, 3), &axis, 1, false, 0), 0, 1);
    tuff_tensor *x = F32(new_graph(), S(2, 2), 3, 3, 1, 3);
    EXPECT(gradient_of(tuff_std(x, &axis, 1, false, 0), x), 0, 0, -0.5, 0.5);
    EXPECT(tuff_std(F32(new_graph(), S(1, 2), NAN, 1), &axis, 1, false, 0), NAN);
}

static void ties_and_kinks_have_their_conventions(void **state)
{
    (void)state;
    tuff_tensor *x = F32(new_graph(), S(4), -1, 0, 0.5f, NAN);
    EXPECT(tuff_relu(x), 0, 0, 0.5, NAN);
    x = F32(new_graph(), S(3), -1, 0, 2);
    EXPECT(gradient_of(tuff_relu(x), x), 0, 0, 1);
    x = F32(new_graph(), S(3), -1, 0, 2);
    EXPECT(gradient_of(tuff_abs(x), x), -1, 0, 1);
    x = F32(new_graph(), S(4), -1, 1, 2, 3);
    EXPECT(gradient_of(tuff_clamp(x, 1, 3), x), 0, 0, 1, 0);
    x = F32(new_graph(), S(3), 1, 2, 3);
    EXPECT(gradient_of(tuff_max(x, F32(x->graph, S(3), 1, 1, 4)), x), 0.5, 1, 0);
    x = F32(new_graph(), S(3), 1, 2, 3);
    EXPECT(gradient_of(tuff_min(x, F32(x->graph, S(3), 1, 1, 4)), x), 0.5, 0, 1);
    x = F32(new_graph(), S(4), 5, 1, 5, 2);
    EXPECT(gradient_of(tuff_reduce_max(x, (int[]){0}, 1, false), x), 0.5, 0, 0.5, 0);
    x = F32(new_graph(), S(2), 0, 2);
    EXPECT(gradient_of(tuff_pow(x, F32(x->graph, S(2), 0, 3)), x), 0, 12);
    tuff_tensor *y = F32(new_graph(), S(4), -1, 0, 2, -3);
    EXPECT(gradient_of(tuff_pow(tuff_constant(y->graph, TUFF_F32, 0), y), y), -INFINITY, 0, 0, -INFINITY);
    x = F32(new_graph(), S(1), 0);
    EXPECT(gradient_of(tuff_softplus(x), x), 0.5);
}

static void branches_not_taken_reach_nothing(void **state)
{
    (void)state;
    tuff_tensor *x = F32(new_graph(), S(2), NAN, 3);
    tuff_tensor *positive = tuff_less(F32(x->graph, S(2), 1, -1), F32(x->graph, S(2), 0, 0));
    EXPECT(gradient_of(tuff_where(positive, x, tuff_constant(x->graph, TUFF_F32, 1)), x), 0, 1);
    x = F32(new_graph(), S(3), 1000, -1000, 0);
    EXPECT(gradient_of(tuff_elu(x, 1), x), 1, 0, 1);
    x = F32(new_graph(), S(2), 1000, -1000);
    EXPECT(tuff_softplus(x), 1000, 0);
}

static void not_a_number_has_no_gradient(void **state)
{
    (void)state;
    tuff_tensor *x = F32(new_graph(), S(3), NAN, 1, 2);
    EXPECT(gradient_of(tuff_max(x, F32(x->graph, S(3), 0, NAN, 1)), x), 0, 0, 1);
    x = F32(new_graph(), S(3), NAN, 1, 2);
    EXPECT(gradient_of(tuff_min(x, F32(x->graph, S(3), 0, NAN, 3)), x), 0, 0, 1);
    x = F32(new_graph(), S(2), NAN, 1);
    EXPECT(gradient_of(tuff_relu(x), x), 0, 1);
    x = F32(new_graph(), S(2, 2), NAN, 1, 1, 2);
    EXPECT(gradient_of(tuff_reduce_max(x, (int[]){1}, 1, false), x), 0, 0, 0, 1);
}

static void argmax_is_the_first_of_the_largest(void **state)
{
    (void)state;
    EXPECT(tuff_argmax(F32(new_graph(), S(2, 3), 1, 7, 7, 4, 4, 4), 1, false), 1, 0);
    EXPECT(tuff_argmax(F32(new_graph(), S(3), 1, NAN, 7), 0, true), 1);
    EXPECT(tuff_one_hot(I32(new_graph(), S(2), 2, 7), 3), 0, 0, 1, 0, 0, 0);
}

static void attention_without_a_visible_key_gives_zeros(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *q = F32(graph, S(1, 3, 1, 1), 1, 2, 3), *k = F32(graph, S(1, 2, 1, 1), 1, 1);
    tuff_tensor *v = F32(graph, S(1, 2, 1, 1), 10, 20);
    EXPECT(tuff_attention(q, k, v, &(tuff_attention_options){.causal = true}), 0, 10, 15);
    graph = new_graph();
    q = F32(graph, S(1, 3, 1, 1), 1, 2, 3);
    k = F32(graph, S(1, 3, 1, 1), 1, 1, 1);
    v = F32(graph, S(1, 3, 1, 1), 10, 20, 40);
    EXPECT(tuff_attention(q, k, v, &(tuff_attention_options){.causal = true, .window = 2}), 10, 15, 30);
}

static void cross_entropy_counts_what_is_not_ignored(void **state)
{
    (void)state;
    const double row = log(2 + exp(1.0));
    tuff_graph *graph = new_graph();
    tuff_tensor *logits = F32(graph, S(3, 3), 0, 1, 0, 5, 5, 5, 0, 0, 1);
    EXPECT(tuff_cross_entropy(logits, I32(graph, S(3), 1, -100, 0), -100, 0), (row - 1 + row) / 2);
    graph = new_graph();
    logits = F32(graph, S(1, 3), 0, 1, 0);
    EXPECT(tuff_cross_entropy(logits, I32(graph, S(1), 3), -100, 0), NAN);
    graph = new_graph();
    logits = F32(graph, S(1, 3), 0, 1, 0);
    EXPECT(tuff_cross_entropy(logits, I32(graph, S(1), 1), -100, 0.3), 0.7 * (row - 1) + 0.3 * (row - 1.0 / 3));
}

static void integers_wrap_and_divide_as_promised(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *x = I32(graph, S(4), INT32_MAX, INT32_MIN, -7, 7);
    EXPECT(tuff_add(x, I32(graph, S(4), 1, -1, 0, 0)), INT32_MIN, INT32_MAX, -7, 7);
    graph = new_graph();
    x = I32(graph, S(4), 5, INT32_MIN, -7, 7);
    EXPECT(tuff_div(x, I32(graph, S(4), 0, -1, 2, 2)), 0, INT32_MIN, -3, 3);
    graph = new_graph();
    x = I32(graph, S(2), 1 << 20, -1);
    EXPECT(tuff_mul(x, I32(graph, S(2), 1 << 20, 3)), 0, -3);
    EXPECT(tuff_sum(I32(new_graph(), S(2), INT32_MAX, 1), (int[]){0}, 1, false), INT32_MIN);
    /* More than a double holds. */
    x = tuff_expand(I32(new_graph(), S(1), INT32_MAX), S(1 << 23));
    EXPECT(tuff_sum(x, (int[]){0}, 1, false), -(1 << 23));
}

/* With strides so large that all taps of the only patch lie in the padding. */
static void an_image_beside_all_patches_has_no_gradient(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *image = F32(graph, S(1, 1, 2, 2), 1, 2, 3, 4), *kernel = F32(graph, S(1, 1, 2, 2), 5, 6, 7, 8);
    const tuff_conv2d_options options = {.stride = {100, 100}, .dilation = {2, 2}, .padding = {5, 5}};
    EXPECT(gradient_of(tuff_conv2d(image, kernel, NULL, &options), image), 0, 0, 0, 0);
}

static void casts_truncate_saturate_and_round_to_even(void **state)
{
    (void)state;
    EXPECT(tuff_cast(F32(new_graph(), S(5), 2.9f, -2.9f, 1e20f, -1e20f, NAN), TUFF_I32), 2, -2, INT32_MAX, INT32_MIN,
           0);
    EXPECT(tuff_cast(F32(new_graph(), S(3), -1, 300, 7.5f), TUFF_U8), 0, 255, 7);
    EXPECT(tuff_cast(F32(new_graph(), S(3), 0, -0.0f, NAN), TUFF_BOOL), 0, 0, 1);
    EXPECT(tuff_cast(I32(new_graph(), S(2), -1, 5), TUFF_U32), 4294967295.0, 5);
    EXPECT(tuff_cast(I32(new_graph(), S(3), -1, 300, 5), TUFF_U8), 0, 255, 5);
    EXPECT(tuff_cast(F32(new_graph(), S(5), 2049, 2051, 65519, 65520, 3e-8f), TUFF_F16), 2048, 2052, 65504, INFINITY,
           5.9604644775390625e-08);
    EXPECT(tuff_cast(F32(new_graph(), S(3), 257, 259, 3.4e38f), TUFF_BF16), 256, 260, INFINITY);
}

/* Every bit pattern of f16 and bf16 survives the conversion to double and back. */
static void narrow_floats_convert_both_ways(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const uint16_t pattern = (uint16_t)bits;
        uint16_t back;
        double value;
        for (int brain = 0; brain < 2; brain++) {
            const tuff_dtype dtype = brain ? TUFF_BF16 : TUFF_F16;
            tuff__to_double(dtype, &pattern, 1, &value);
            tuff__from_double(dtype, &value, 1, &back);
            assert_true(isnan(value) ? (back & 0x7fff) > (brain ? 0x7f80 : 0x7c00) : back == pattern);
        }
    }
}

/* The published test vector of Threefry-2x32 with 20 rounds for key 0 and counter 0. */
static void random_numbers_are_threefry(void **state)
{
    (void)state;
    double values[MAX_ELEMENTS];
    evaluate(tuff_random(new_graph(), S(3)), values);
    assert_true(values[0] == (double)(0x6b200159u >> 8) / 16777216);
    assert_true(values[1] != values[0] && values[1] >= 0 && values[1] < 1);
}

static void random_numbers_depend_on_seed_step_and_ordinal(void **state)
{
    (void)state;
    double first[8], again[8], seeded[8], stepped[8], second[8];
    const int32_t three = 3;
    evaluate(tuff_random(new_graph(), S(8)), first);
    evaluate(tuff_random(new_graph(), S(8)), again);
    assert_memory_equal(first, again, sizeof first);
    tuff_graph *graph = new_graph();
    tuff_graph_seed(graph, 1);
    evaluate(tuff_random(graph, S(8)), seeded);
    assert_memory_not_equal(first, seeded, sizeof first);
    graph = new_graph();
    tuff_random(graph, S(8));
    evaluate(tuff_random(graph, S(8)), second);
    assert_memory_not_equal(first, second, sizeof first);
    tuff_array *counter = tuff_array_create(device, TUFF_I32, TUFF_SCALAR);
    assert_int_equal(tuff_array_write(counter, &three, sizeof three), TUFF_OK);
    graph = new_graph();
    tuff_graph_step(graph, counter);
    evaluate(tuff_random(graph, S(8)), stepped);
    assert_memory_not_equal(first, stepped, sizeof first);
    tuff_array_destroy(counter);
}

static void gradients_of_what_does_not_matter_are_zeros(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_tensor *x = F32(graph, S(2), 1, 2), *unused = F32(graph, S(3), 1, 2, 3);
    EXPECT(gradient_of(tuff_mul(x, x), unused), 0, 0, 0);
    graph = new_graph();
    x = F32(graph, S(2), 1.5f, 2.5f);
    EXPECT(gradient_of(tuff_floor(x), x), 0, 0);
    graph = new_graph();
    x = F32(graph, S(2), 1, 2);
    tuff_tensor *square = tuff_mul(x, x);
    EXPECT(gradient_of(tuff_mul(square, square), square), 2, 8);
}

static void the_executor_refuses_wrong_use(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    reference_plan *plan;
    float x[3] = {1, 2, 3};
    double y[3];
    tuff_output(graph, "y", tuff_neg(tuff_input(graph, "x", TUFF_F32, S(3))));
    assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
    assert_int_equal(tuff__reference_run(plan), TUFF_E_USAGE);
    assert_int_equal(tuff__reference_write(plan, "z", x, sizeof x), TUFF_E_USAGE);
    assert_int_equal(tuff__reference_write(plan, "x", x, 4), TUFF_E_USAGE);
    assert_int_equal(tuff__reference_write(plan, "x", NULL, sizeof x), TUFF_E_USAGE);
    assert_int_equal(tuff__reference_write(plan, "x", x, sizeof x), TUFF_OK);
    assert_int_equal(tuff__reference_read_double(plan, "y", y), TUFF_E_USAGE);
    assert_int_equal(tuff__reference_run(plan), TUFF_OK);
    assert_int_equal(tuff__reference_read_double(plan, "x", y), TUFF_E_USAGE);
    assert_int_equal(tuff__reference_read_double(plan, "y", y), TUFF_OK);
    assert_true(y[0] == -1 && y[1] == -2 && y[2] == -3);
    tuff__reference_destroy(plan);
}

/* All reads of a run see the elements at its start. */
static void assigns_happen_when_a_run_ends(void **state)
{
    (void)state;
    tuff_graph *graph = new_graph();
    tuff_array *a = tuff_array_create(device, TUFF_F32, S(2)), *b = tuff_array_create(device, TUFF_F32, S(2));
    float values[2] = {1, 2}, got[2];
    reference_plan *plan;
    assert_int_equal(tuff_array_write(a, values, sizeof values), TUFF_OK);
    tuff_tensor *old_a = tuff_array_tensor(graph, a), *old_b = tuff_array_tensor(graph, b);
    tuff_assign(graph, a, tuff_add(old_b, tuff_constant(graph, TUFF_F32, 10)));
    tuff_assign(graph, b, old_a);
    const uint64_t version = tuff_array_version(a);
    assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
    assert_int_equal(tuff__reference_run(plan), TUFF_OK);
    assert_int_equal(tuff_array_read(a, got, sizeof got), TUFF_OK);
    assert_true(got[0] == 10 && got[1] == 10 && tuff_array_version(a) > version);
    assert_int_equal(tuff_array_read(b, got, sizeof got), TUFF_OK);
    assert_true(got[0] == 1 && got[1] == 2);
    tuff__reference_destroy(plan);
    tuff_array_destroy(a);
    tuff_array_destroy(b);
}

/* Builds, differentiates and runs a graph with everything that allocates memory. */
static tuff_status whole_script(void)
{
    tuff_graph *graph = tuff_graph_create(device);
    reference_plan *plan = NULL;
    if (!graph)
        return tuff_last_status();
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, S(2, 4, 2, 4)), *w = tuff_input(graph, "w", TUFF_F32, S(4, 4));
    tuff_tensor *q = tuff_rope(tuff_matmul(x, w), TUFF_ROPE_INTERLEAVED, 10000, 0, NULL);
    tuff_tensor *y = tuff_attention(q, x, x, &(tuff_attention_options){.causal = true, .dropout = 0.1});
    tuff_tensor *parts[9] = {y, y, y, y, y, y, y, y, y}, *gradients[2];
    tuff_tensor *loss = tuff_mean(tuff_gelu(tuff_concat(parts, 9, 0)), (int[]){0, 1, 2, 3}, 4, false);
    tuff_status status = tuff_gradients(loss, (tuff_tensor *[]){x, w}, 2, gradients);
    assert_int_equal(status, tuff_graph_status(graph));
    tuff_output(graph, "loss", loss);
    tuff_output(graph, "gradient", gradients[1]);
    status = tuff_graph_status(graph);
    if (status == TUFF_OK)
        status = tuff__reference_create(graph, &plan);
    if (status != TUFF_OK) {
        tuff_graph_destroy(graph);
        return status;
    }
    static const double zeros[64];
    status = tuff__reference_write_double(plan, "x", zeros);
    if (status == TUFF_OK)
        status = tuff__reference_write_double(plan, "w", zeros);
    tuff__reference_enable_bounds(plan, true);
    if (status == TUFF_OK)
        status = tuff__reference_run(plan);
    tuff__reference_destroy(plan);
    return status;
}

/* After a run that failed at any allocation, the plan's next run is correct. */
static void a_failed_run_leaves_nothing_behind(void **state)
{
    (void)state;
    static const double ones[4] = {1, 1, 1, 1};
    static const float numbers[4] = {3, 4, 5, 6};
    int failures = 0;
    bool hit = true;
    for (int64_t failing = 1; hit; failing++) {
        double y[4] = {0};
        reference_plan *plan = NULL;
        failing_memory_begin(0, false);
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, S(4));
        tuff_tensor *data = tuff_constant_data(graph, TUFF_F32, S(4), numbers);
        tuff_output(graph, "y", tuff_add(tuff_mul(x, tuff_constant(graph, TUFF_F32, 2)), data));
        assert_int_equal(tuff__reference_create(graph, &plan), TUFF_OK);
        tuff__reference_enable_bounds(plan, true);
        assert_int_equal(tuff__reference_write_double(plan, "x", ones), TUFF_OK);
        failing_memory_rearm(failing, false);
        const tuff_status status = tuff__reference_run(plan);
        hit = failing_memory_hit();
        failing_memory_rearm(0, false);
        assert_int_equal(status, hit ? TUFF_E_OOM_HOST : TUFF_OK);
        failures += status != TUFF_OK;
        assert_int_equal(tuff__reference_run(plan), TUFF_OK);
        assert_int_equal(tuff__reference_read_double(plan, "y", y), TUFF_OK);
        for (int i = 0; i < 4; i++)
            assert_true(y[i] == 2 + numbers[i]);
        tuff__reference_destroy(plan);
        (void)failing_memory_end();
    }
    assert_true(failures > 6);
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    tuff_device *shared = device;
    int64_t sites = 0;
    for (int sticky = 0; sticky < 2; sticky++) {
        bool reached = true;
        for (int64_t failing = 1; reached; failing++) {
            device = tuff_device_open("reference");
            assert_non_null(device);
            assert_int_equal(whole_script(), TUFF_OK);
            failing_memory_begin(failing, sticky != 0);
            const tuff_status status = whole_script();
            reached = failing_memory_end();
            assert_int_equal(status, reached ? TUFF_E_OOM_HOST : TUFF_OK);
            tuff_device_close(device);
            sites = failing;
        }
    }
    device = shared;
    assert_true(sites > 100);
}

static int open_device(void **state)
{
    (void)state;
    device = tuff_device_open("reference");
    return device ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    tuff_device_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_nodes_have_inputs_of_their_own_shape),
        cmocka_unit_test(constant_scalars_take_the_dtype_of_the_other_operand),
        cmocka_unit_test(float_constants_do_not_become_integers),
        cmocka_unit_test(what_changes_nothing_makes_no_node),
        cmocka_unit_test(reductions_keep_axes_and_drop_them_by_reshape),
        cmocka_unit_test(a_shared_matrix_is_multiplied_once_and_so_is_its_gradient),
        cmocka_unit_test(batches_of_matrices_are_expanded),
        cmocka_unit_test(gather_and_scatter_nodes_have_aligned_inputs),
        cmocka_unit_test(one_array_is_one_node),
        cmocka_unit_test(slices_take_every_step),
        cmocka_unit_test(soft_maxima_survive_infinities),
        cmocka_unit_test(deviations_of_constant_rows_have_gradients),
        cmocka_unit_test(ties_and_kinks_have_their_conventions),
        cmocka_unit_test(branches_not_taken_reach_nothing),
        cmocka_unit_test(not_a_number_has_no_gradient),
        cmocka_unit_test(argmax_is_the_first_of_the_largest),
        cmocka_unit_test(attention_without_a_visible_key_gives_zeros),
        cmocka_unit_test(cross_entropy_counts_what_is_not_ignored),
        cmocka_unit_test(integers_wrap_and_divide_as_promised),
        cmocka_unit_test(an_image_beside_all_patches_has_no_gradient),
        cmocka_unit_test(casts_truncate_saturate_and_round_to_even),
        cmocka_unit_test(narrow_floats_convert_both_ways),
        cmocka_unit_test(random_numbers_are_threefry),
        cmocka_unit_test(random_numbers_depend_on_seed_step_and_ordinal),
        cmocka_unit_test(gradients_of_what_does_not_matter_are_zeros),
        cmocka_unit_test(the_executor_refuses_wrong_use),
        cmocka_unit_test(assigns_happen_when_a_run_ends),
        cmocka_unit_test(a_failed_run_leaves_nothing_behind),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
