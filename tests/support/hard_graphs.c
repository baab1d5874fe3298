/* Graphs that are hard to fuse correctly: shared subexpressions, reductions of reductions, views that strides cannot
   express, and sums long enough to be split. */
#include "hard_graphs.h"

#include <stddef.h>
#include <string.h>

static void residual_and_norm(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(5, 40)),
                *w = ranged_input(graph, TUFF_F32, TUFF_SHAPE(40, 40), -0.2, 0.2);
    tuff_tensor *gain = float_input(graph, TUFF_SHAPE(40)), *bias = float_input(graph, TUFF_SHAPE(40));
    tuff_tensor *sum = tuff_add(x, tuff_linear(tuff_rms_norm(x, gain, 1, 1e-5), w, bias));
    add_output(graph, sum);
    add_with_gradients(graph, tuff_add(sum, tuff_layer_norm(sum, gain, bias, 1, 1e-5)),
                       (tuff_tensor *[]){x, w, gain, bias}, 4);
}

static void softmax_backward(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(7, 37)), *weights = float_input(graph, TUFF_SHAPE(7, 37));
    tuff_tensor *mixed = tuff_add(tuff_softmax(x, 1), tuff_mul(weights, tuff_softmax(x, 0)));
    add_with_gradients(graph, tuff_mul(mixed, weights), (tuff_tensor *[]){x, weights}, 2);
}

/* Queries, keys and values are slices of one product. */
static void attention_block(tuff_graph *graph, const void *context)
{
    (void)context;
    const int64_t batch = 2, time = 9, heads = 2, width = 12;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(batch, time, 24));
    tuff_tensor *w = ranged_input(graph, TUFF_F32, TUFF_SHAPE(24, 72), -0.25, 0.25);
    tuff_tensor *all = tuff_matmul(x, w), *part[3];
    for (int64_t i = 0; i < 3; i++)
        part[i] = tuff_reshape(tuff_slice(all, (int64_t[]){0, 0, 24 * i}, (int64_t[]){batch, time, 24 * (i + 1)}, NULL),
                               TUFF_SHAPE(batch, time, heads, width));
    tuff_tensor *y = tuff_attention(part[0], part[1], part[2], &(tuff_attention_options){.causal = true});
    y = tuff_add(x, tuff_reshape(y, TUFF_SHAPE(batch, time, 24)));
    add_with_gradients(graph, y, (tuff_tensor *[]){x, w}, 2);
}

/* A bias of slopes times distances, shared by heads, with dropout: its gradient is reduced to that of the slopes. */
static void biased_attention(tuff_graph *graph, const void *context)
{
    (void)context;
    const tuff_shape whole = TUFF_SHAPE(2, 9, 4, 8), shared = TUFF_SHAPE(2, 9, 2, 8), square = TUFF_SHAPE(9, 9);
    tuff_tensor *x = float_input(graph, whole), *k = float_input(graph, shared), *v = float_input(graph, shared);
    tuff_tensor *slopes = float_input(graph, TUFF_SHAPE(4, 1, 1)), *wrt[] = {x, k, v, slopes};
    tuff_tensor *distance = tuff_sub(tuff_iota(graph, square, 1), tuff_iota(graph, square, 0));
    tuff_tensor *bias = tuff_mul(slopes, tuff_cast(distance, TUFF_F32));
    tuff_tensor *y = tuff_attention(x, k, v, &(tuff_attention_options){.causal = true, .bias = bias, .dropout = 0.25});
    add_with_gradients(graph, tuff_add(x, y), wrt, 4);
}

/* A concat of more parts than one kernel would compute; some of them are equal, inputs, or views. */
static void many_parts(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(5, 6)), *y = float_input(graph, TUFF_SHAPE(5, 3));
    tuff_tensor *back = tuff_slice(x, (int64_t[]){4, 5}, (int64_t[]){-1, -1}, (int64_t[]){-1, -2});
    tuff_tensor *parts[] = {x,
                            tuff_exp(y),
                            back,
                            tuff_softmax(x, 1),
                            x,
                            tuff_matmul(x, float_input(graph, TUFF_SHAPE(6, 4))),
                            tuff_expand(tuff_sum(y, (int[]){1}, 1, true), TUFF_SHAPE(5, 2)),
                            tuff_exp(y)};
    tuff_tensor *joined = tuff_concat(parts, 8, 1);
    add_output(graph, parts[3]);
    add_with_gradients(graph, tuff_mul(joined, tuff_sum(joined, (int[]){0}, 1, true)), (tuff_tensor *[]){x, y}, 2);
    tuff_tensor *rows[] = {x, tuff_tanh(x), back, tuff_neg(x)};
    rows[2] = tuff_pad(back, (int64_t[]){0, 1}, (int64_t[]){1, 2}, -1);
    add_output(graph, tuff_concat(rows, 4, 0));
}

static void long_sums(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(2, 130003), -0.5, 1);
    tuff_tensor *mean = tuff_mean(x, (int[]){0, 1}, 2, true);
    tuff_tensor *apart = tuff_sub(x, mean);
    add_output(graph, mean);
    add_output(graph, tuff_mean(tuff_mul(apart, apart), (int[]){1}, 1, false));
    add_output(graph, tuff_reduce_max(x, (int[]){1}, 1, false));
    add_output(graph,
               tuff_slice(tuff_softmax(x, 1), (int64_t[]){0, 130002}, (int64_t[]){2, 129000}, (int64_t[]){1, -100}));
}

static void long_columns(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(50021, 3), 0, 1);
    tuff_tensor *y = ranged_input(graph, TUFF_F32, TUFF_SHAPE(50021, 1), 0.5, 1);
    add_output(graph, tuff_sum(x, (int[]){0}, 1, false));
    add_output(graph, tuff_sum(tuff_mul(tuff_exp(x), y), (int[]){0}, 1, true));
    add_output(graph, tuff_reduce_max(tuff_mul(x, y), (int[]){0}, 1, false));
    add_output(graph, tuff_sum(tuff_mul(x, x), (int[]){0, 1}, 2, false));
}

/* One subexpression that is read by reductions over different axes and is an output as well. */
static void shared_subexpression(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(6, 11, 13)), *y = float_input(graph, TUFF_SHAPE(11, 1));
    tuff_tensor *e = tuff_exp(tuff_mul(x, y));
    tuff_tensor *last = tuff_sum(e, (int[]){2}, 1, true), *first = tuff_reduce_max(e, (int[]){0}, 1, true);
    tuff_tensor *middle = tuff_sum(tuff_mul(e, x), (int[]){0, 2}, 2, true);
    add_output(graph, tuff_div(e, last));
    add_output(graph, tuff_sub(first, middle));
    add_output(graph, tuff_sum(tuff_div(tuff_mul(e, e), last), (int[]){1}, 1, false));
    add_output(graph, e);
    add_output(graph, tuff_sum(e, (int[]){0, 1, 2}, 3, false));
}

static void broadcast_transcendental(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *row = float_input(graph, TUFF_SHAPE(1, 65)), *column = float_input(graph, TUFF_SHAPE(90, 1));
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(90, 65));
    tuff_tensor *y = tuff_add(tuff_mul(x, tuff_exp(row)), tuff_tanh(column));
    add_with_gradients(graph, tuff_mul(y, tuff_erf(tuff_add(row, column))), (tuff_tensor *[]){row, column}, 2);
}

/* Inputs and outputs of narrow storage types; values in between stay f32 until a cast. */
static void narrow_types(tuff_graph *graph, const void *context)
{
    (void)context;
    const tuff_shape shape = TUFF_SHAPE(7, 19);
    tuff_tensor *half = ranged_input(graph, TUFF_F16, shape, -2, 2),
                *brain = ranged_input(graph, TUFF_BF16, shape, -2, 2);
    tuff_tensor *byte = ranged_input(graph, TUFF_U8, shape, 0, 255),
                *flag = ranged_input(graph, TUFF_BOOL, shape, 0, 1);
    tuff_tensor *x = tuff_cast(half, TUFF_F32), *y = tuff_cast(brain, TUFF_F32);
    tuff_tensor *picked = tuff_where(flag, x, tuff_mul(y, tuff_cast(byte, TUFF_F32)));
    add_output(graph, tuff_cast(picked, TUFF_F16));
    add_output(graph, tuff_cast(tuff_sum(picked, (int[]){1}, 1, false), TUFF_BF16));
    add_output(graph,
               tuff_cast(tuff_slice(byte, (int64_t[]){6, 18}, (int64_t[]){-1, -1}, (int64_t[]){-1, -3}), TUFF_I8));
    add_output(graph, tuff_and(flag, tuff_less(half, tuff_cast(brain, TUFF_F16))));
    add_output(graph, tuff_matmul(x, tuff_permute(y, (int[]){1, 0})));
}

static void embedding_and_loss(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *table = float_input(graph, TUFF_SHAPE(17, 12)), *w = float_input(graph, TUFF_SHAPE(12, 17));
    tuff_tensor *tokens = ranged_input(graph, TUFF_I32, TUFF_SHAPE(3, 10), 0, 16);
    tuff_tensor *targets = ranged_input(graph, TUFF_I32, TUFF_SHAPE(30), 0, 16), *gradients[2];
    tuff_tensor *logits = tuff_matmul(tuff_reshape(tuff_embedding(table, tokens), TUFF_SHAPE(30, 12)), w);
    tuff_tensor *loss = tuff_cross_entropy(logits, targets, 3, 0.1);
    add_output(graph, loss);
    if (tuff_gradients(loss, (tuff_tensor *[]){table, w}, 2, gradients) != TUFF_OK)
        return;
    add_output(graph, gradients[0]);
    add_output(graph, gradients[1]);
}

static void running_sums(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(3, 21, 5)), *y = float_input(graph, TUFF_SHAPE(2, 700));
    add_with_gradients(graph, tuff_mul(tuff_cumsum(tuff_mul(x, x), 1), x), &x, 1);
    add_output(graph, tuff_sub(tuff_cumsum(y, 1), tuff_mean(y, (int[]){1}, 1, true)));
}

/* Views of views that no strides can express, as operand and result of a product. */
static void moved_around(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(4, 3, 10)), *y = float_input(graph, TUFF_SHAPE(6, 5, 4));
    tuff_tensor *a = tuff_reshape(tuff_permute(x, (int[]){2, 0, 1}), TUFF_SHAPE(5, 24));
    a = tuff_slice(a, (int64_t[]){4, 22}, (int64_t[]){-1, 1}, (int64_t[]){-1, -2});
    a = tuff_pad(a, (int64_t[]){1, 0}, (int64_t[]){0, 2}, 0);
    tuff_tensor *b = tuff_permute(y, (int[]){2, 0, 1});
    b = tuff_slice(tuff_reshape(b, TUFF_SHAPE(10, 12)), (int64_t[]){9, 0}, (int64_t[]){-1, 12}, (int64_t[]){-1, 1});
    tuff_tensor *product = tuff_matmul(tuff_slice(a, (int64_t[]){0, 0}, (int64_t[]){6, 10}, NULL), b);
    product = tuff_permute(tuff_reshape(product, TUFF_SHAPE(3, 2, 12)), (int[]){2, 1, 0});
    add_with_gradients(graph, tuff_mul(product, product), (tuff_tensor *[]){x, y}, 2);
}

/* Concats and pads whose boundaries fall between vectors of any width, so that no vector straddles one. */
static void whole_vectors(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(37, 32)), *y = float_input(graph, TUFF_SHAPE(37, 16)),
                *z = float_input(graph, TUFF_SHAPE(37, 1));
    tuff_tensor *back = tuff_slice(y, (int64_t[]){36, 15}, (int64_t[]){-1, -1}, (int64_t[]){-1, -1});
    tuff_tensor *joined =
        tuff_concat((tuff_tensor *[]){x, back, tuff_expand(tuff_exp(z), TUFF_SHAPE(37, 32)), tuff_tanh(y)}, 4, 1);
    tuff_tensor *around = tuff_pad(back, (int64_t[]){2, 32}, (int64_t[]){1, 48}, -0.5);
    tuff_tensor *rest = tuff_pad(x, (int64_t[]){3, 16}, (int64_t[]){0, 48}, 0.25);
    add_output(graph, tuff_sum(around, (int[]){1}, 1, true));
    add_output(graph, tuff_sub(rest, tuff_reduce_max(around, (int[]){0}, 1, true)));
    add_with_gradients(graph, tuff_mul(joined, tuff_sum(joined, (int[]){0}, 1, true)), (tuff_tensor *[]){x, y, z}, 3);
}

/* Columns of many vectors and a remainder, over more rows than are added at once; some factors vary along rows only. */
static void wide_columns(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(149, 1219), -1, 2);
    tuff_tensor *mean = tuff_mean(x, (int[]){1}, 1, true), *gain = float_input(graph, TUFF_SHAPE(1219));
    tuff_tensor *scaled = tuff_mul(
        tuff_mul(tuff_sub(x, mean), tuff_rsqrt(tuff_add(tuff_mul(mean, mean), tuff_constant(graph, TUFF_F32, 0.5)))),
        gain);
    add_output(graph, tuff_sum(x, (int[]){0}, 1, false));
    add_output(graph, tuff_sum(scaled, (int[]){0}, 1, false));
    tuff_tensor *shares = tuff_softmax(tuff_mul(x, tuff_tanh(mean)), 0);
    add_output(graph, tuff_slice(shares, (int64_t[]){0, 3}, (int64_t[]){149, 1219}, (int64_t[]){37, 32}));
}

/* Columns that are computed separately and read as one matrix: written in place through permutes, next to parts that
   are outputs as well, that two concats read, or that are concatenated in reverse order. */
static void side_by_side(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(2, 5, 12)), *w = float_input(graph, TUFF_SHAPE(12, 7));
    tuff_tensor *parts[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = tuff_slice(x, (int64_t[]){0, 0, 4 * i}, (int64_t[]){2, 5, 4 * i + 4}, NULL);
        parts[i] = tuff_permute(tuff_reshape(parts[i], TUFF_SHAPE(2, 5, 2, 2)), (int[]){0, 2, 1, 3});
    }
    tuff_tensor *scores = tuff_matmul(parts[0], tuff_permute(parts[1], (int[]){0, 1, 3, 2}));
    tuff_tensor *mixed = tuff_matmul(tuff_exp(scores), parts[2]);
    add_with_gradients(graph, mixed, &x, 1);
    tuff_tensor *back = tuff_reshape(tuff_permute(mixed, (int[]){0, 2, 1, 3}), TUFF_SHAPE(2, 5, 4));
    tuff_tensor *doubled = tuff_add(back, back), *squared = tuff_mul(back, back);
    tuff_tensor *wide = tuff_concat((tuff_tensor *[]){doubled, squared, doubled}, 3, 2);
    add_with_gradients(graph, tuff_matmul(wide, w), (tuff_tensor *[]){x, w}, 2);
    add_output(graph, squared);
    tuff_tensor *thrice = tuff_concat((tuff_tensor *[]){x, tuff_neg(x), x}, 3, 2);
    add_output(graph, tuff_matmul(tuff_slice(thrice, (int64_t[]){0, 0, 3}, (int64_t[]){2, 5, 15}, NULL), w));
    tuff_tensor *again = tuff_concat((tuff_tensor *[]){squared, wide}, 2, 2);
    add_output(graph, tuff_matmul(tuff_slice(again, (int64_t[]){0, 0, 2}, (int64_t[]){2, 5, 14}, NULL), w));
}

/* Rows of many vectors, with and without a remainder: values that one pass computes are kept for the next. */
static void wide_rows(tuff_graph *graph, const void *context)
{
    (void)context;
    for (int64_t width = 1088; width <= 1101; width += 13) {
        tuff_tensor *x = float_input(graph, TUFF_SHAPE(5, width)), *weights = float_input(graph, TUFF_SHAPE(5, width));
        tuff_tensor *tangent = tuff_tanh(x), *largest = tuff_reduce_max(tangent, (int[]){1}, 1, true);
        add_output(graph, tuff_div(tuff_sub(tangent, largest), tuff_sum(tuff_exp(x), (int[]){1}, 1, true)));
        add_with_gradients(graph, tuff_mul(tuff_softmax(x, 1), weights), (tuff_tensor *[]){x, weights}, 2);
    }
}

/* Returns rows x columns elements of a slab from start on. */
static tuff_tensor *in_slab(tuff_tensor *slab, int64_t start, int64_t rows, int64_t columns)
{
    return tuff_reshape(tuff_slice(slab, &start, (int64_t[]){start + rows * columns}, NULL), TUFF_SHAPE(rows, columns));
}

/* Products of one x with matrices of one shape that follow each other in a slab: followed by equal ops, by different
   ops, and with a gap between the matrices; some are outputs once negated. */
static void stacked_siblings(tuff_graph *graph, const void *context)
{
    (void)context;
    const int64_t inner = 13, columns = 19, size = inner * columns;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(2, 5, inner)), *mixed = NULL;
    tuff_tensor *slab = ranged_input(graph, TUFF_F32, TUFF_SHAPE(6 * size + 11), -0.3, 0.3);
    tuff_tensor *bias = float_input(graph, TUFF_SHAPE(3, columns)), *wrt[] = {x, slab, bias};
    for (int64_t i = 0; i < 3; i++) {
        tuff_tensor *own = tuff_slice(bias, (int64_t[]){i, 0}, (int64_t[]){i + 1, columns}, NULL);
        tuff_tensor *y = tuff_linear(x, in_slab(slab, 3 + i * size, inner, columns), tuff_reshape(own, TUFF_SHAPE(-1)));
        y = tuff_gelu(y);
        mixed = i == 0 ? y : i == 1 ? tuff_sub(mixed, y) : tuff_mul(mixed, y);
    }
    for (int64_t i = 0; i < 2; i++) {
        tuff_tensor *y = tuff_matmul(x, in_slab(slab, 3 + 3 * size + i * (size + 4), inner, columns));
        mixed = tuff_add(mixed, i == 0 ? tuff_tanh(y) : tuff_mul(y, mixed));
    }
    tuff_tensor *rows = float_input(graph, TUFF_SHAPE(4, inner));
    for (int64_t i = 0; i < 3; i++) {
        tuff_tensor *y = tuff_matmul(rows, in_slab(slab, 3 + i * size, inner, columns));
        add_output(graph, i < 2 ? tuff_neg(y) : y);
    }
    add_with_gradients(graph, mixed, wrt, 3);
}

/* Products of one x with transposed row blocks of one matrix, of different lengths; the gradient with respect to x is a
   sum with another term. One of the products is an output unchanged, and one matrix is used twice. */
static void transposed_siblings(tuff_graph *graph, const void *context)
{
    (void)context;
    const int64_t inner = 21, columns[] = {17, 5, 33, 8};
    const int turn[] = {1, 0};
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(11, inner)), *parts[4];
    tuff_tensor *slab = ranged_input(graph, TUFF_F32, TUFF_SHAPE(63 * inner), -0.25, 0.25), *wrt[] = {x, slab};
    tuff_tensor *scale = float_input(graph, TUFF_SCALAR);
    int64_t start = 0;
    for (int i = 0; i < 4; i++) {
        tuff_tensor *w = tuff_permute(in_slab(slab, start, columns[i], inner), turn);
        parts[i] = tuff_mul(tuff_add(tuff_matmul(x, w), tuff_constant(graph, TUFF_F32, 0.5)), scale);
        start += columns[i] * inner;
    }
    add_output(graph, tuff_matmul(x, tuff_permute(in_slab(slab, 22 * inner, 33, inner), turn)));
    tuff_tensor *joined = tuff_concat((tuff_tensor *[]){parts[2], tuff_exp(parts[0]), parts[3], parts[1]}, 4, 1);
    tuff_tensor *sums = tuff_sum(tuff_mul(joined, joined), (int[]){1}, 1, true);
    add_with_gradients(graph, tuff_add(tuff_mul(x, sums), x), wrt, 2);
}

/* Queries, keys and values from column blocks of one matrix, after which columns follow that nothing reads; and a gated
   pair from two matrices in f16. */
static void sliced_siblings(tuff_graph *graph, const void *context)
{
    (void)context;
    const int64_t batch = 2, time = 7, width = 16;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(batch, time, width)), *part[3];
    tuff_tensor *w = ranged_input(graph, TUFF_F32, TUFF_SHAPE(width, 4 * width - 3), -0.3, 0.3), *wrt[] = {x, w};
    tuff_tensor *half = ranged_input(graph, TUFF_F16, TUFF_SHAPE(2, width, 24), -0.3, 0.3), *gated[2];
    for (int64_t i = 0; i < 3; i++) {
        tuff_tensor *own = tuff_slice(w, (int64_t[]){0, width * i}, (int64_t[]){width, width * (i + 1)}, NULL);
        part[i] = tuff_reshape(tuff_matmul(x, own), TUFF_SHAPE(batch, time, 2, width / 2));
    }
    part[0] = tuff_rope(part[0], TUFF_ROPE_INTERLEAVED, 100, 0, NULL);
    tuff_tensor *y = tuff_attention(part[0], part[1], part[2], &(tuff_attention_options){.causal = true});
    y = tuff_add(x, tuff_reshape(y, TUFF_SHAPE(batch, time, width)));
    for (int64_t i = 0; i < 2; i++) {
        tuff_tensor *own = tuff_slice(half, (int64_t[]){i, 0, 0}, (int64_t[]){i + 1, width, 24}, NULL);
        gated[i] = tuff_matmul(y, tuff_cast(tuff_reshape(own, TUFF_SHAPE(width, 24)), TUFF_F32));
    }
    add_output(graph, tuff_swiglu(gated[0], gated[1]));
    add_with_gradients(graph, y, wrt, 2);
}

/* Values used twice at each of 30 levels, directly and transposed: there are 2^30 paths through the graph. */
static void many_ways(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(6, 1056)), *y = x;
    tuff_tensor *square = float_input(graph, TUFF_SHAPE(9, 9)), *turned = square;
    for (int i = 0; i < 30; i++) {
        y = tuff_mul(tuff_add(y, tuff_mul(y, x)), tuff_constant(graph, TUFF_F32, 0.5));
        turned = tuff_mul(tuff_sub(turned, tuff_permute(tuff_mul(turned, square), (int[]){1, 0})),
                          tuff_constant(graph, TUFF_F32, 0.5));
    }
    add_output(graph, tuff_sub(y, tuff_sum(y, (int[]){1}, 1, true)));
    add_output(graph, turned);
}

/* The gradients of the products are terms of sums that end in other products. */
static void products_in_turns(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = ranged_input(graph, TUFF_F32, TUFF_SHAPE(16, 16), -0.2, 0.2), *y = x;
    for (int i = 0; i < 3; i++)
        y = tuff_add(y, tuff_matmul(tuff_tanh(tuff_matmul(y, x)), x));
    add_with_gradients(graph, y, &x, 1);
}

static void many_axes(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(2, 3, 2, 5, 1, 3, 2, 2));
    tuff_tensor *y = tuff_permute(x, (int[]){7, 2, 5, 0, 4, 3, 1, 6});
    add_output(graph, tuff_sum(tuff_mul(y, y), (int[]){0, 2, 5}, 3, false));
    add_output(graph, tuff_sub(y, tuff_reduce_max(y, (int[]){1, 3, 4, 7}, 4, true)));
    add_output(graph, tuff_variance(x, (int[]){1, 3, 6}, 3, false, 1));
}

/* A norm runs over the rows; the column sums next to it read the same elements in two shapes, which would split the
   rows into different blocks. */
static void columns_of_two_shapes(tuff_graph *graph, const void *context)
{
    (void)context;
    const tuff_shape rows = TUFF_SHAPE(9 * 24, 128), one = TUFF_SHAPE(9, 24, 128), other = TUFF_SHAPE(8, 27, 128);
    tuff_tensor *x = float_input(graph, rows), *y = float_input(graph, one), *z = float_input(graph, other),
                *gain = float_input(graph, TUFF_SHAPE(128)), *bias = float_input(graph, TUFF_SHAPE(128));
    tuff_tensor *norm = tuff_layer_norm(x, gain, bias, 1, 1e-5);
    add_output(graph, norm);
    add_output(graph, tuff_sum(tuff_mul(tuff_reshape(norm, one), y), (int[]){0, 1}, 2, false));
    add_output(graph, tuff_sum(tuff_mul(tuff_reshape(norm, other), z), (int[]){0, 1}, 2, false));
}

/* Sums of products that share the left operand: joined as [t t] · [w0; w1], one tensor would need two places in
   memory. */
static void one_factor_twice(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(4, 8)), *w = float_input(graph, TUFF_SHAPE(8, 12));
    tuff_tensor *left = tuff_slice(w, (int64_t[]){0, 0}, (int64_t[]){8, 6}, NULL),
                *right = tuff_slice(w, (int64_t[]){0, 6}, (int64_t[]){8, 12}, NULL);
    tuff_tensor *y = tuff_tanh(float_input(graph, TUFF_SHAPE(5, 6)));
    add_with_gradients(graph, tuff_add(tuff_matmul(x, left), tuff_matmul(x, right)), (tuff_tensor *[]){x, w}, 2);
    tuff_tensor *rows = float_input(graph, TUFF_SHAPE(12, 7));
    add_output(graph, tuff_add(tuff_matmul(y, tuff_slice(rows, (int64_t[]){0, 0}, (int64_t[]){6, 7}, NULL)),
                               tuff_matmul(y, tuff_slice(rows, (int64_t[]){6, 0}, (int64_t[]){12, 7}, NULL))));
}

/* Two parts of a concat that are views of one value; one of them is an output, too. */
static void one_value_in_two_parts(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *z = tuff_tanh(float_input(graph, TUFF_SHAPE(8)));
    tuff_tensor *a = tuff_permute(tuff_reshape(z, TUFF_SHAPE(1, 8)), (int[]){1, 0}),
                *b = tuff_reshape(z, TUFF_SHAPE(8, 1));
    add_output(graph, b);
    add_output(graph, tuff_concat((tuff_tensor *[]){a, b}, 2, 1));
    tuff_tensor *v = tuff_tanh(float_input(graph, TUFF_SHAPE(3, 5)));
    add_output(graph, tuff_concat((tuff_tensor *[]){v, v, v, v, v, v}, 6, 1));
}

/* The values that a scatter and attention read are strided, because they are parts of a concat as well. */
static void parts_read_elsewhere(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *z = tuff_tanh(float_input(graph, TUFF_SHAPE(4, 6))),
                *s = tuff_tanh(float_input(graph, TUFF_SHAPE(4, 2)));
    tuff_tensor *indices = ranged_input(graph, TUFF_I32, TUFF_SHAPE(24), 0, 9),
                *base = float_input(graph, TUFF_SHAPE(10));
    add_output(graph, tuff_scatter_add(base, indices, tuff_reshape(z, TUFF_SHAPE(24)), 0));
    add_output(graph, tuff_concat((tuff_tensor *[]){z, s}, 2, 1));
}

static void stacked_queries(tuff_graph *graph, const void *context)
{
    (void)context;
    const tuff_shape shape = TUFF_SHAPE(1, 4, 2, 8), column = TUFF_SHAPE(1, 4, 2, 8, 1);
    tuff_tensor *q = tuff_tanh(float_input(graph, shape)), *k = tuff_tanh(float_input(graph, shape));
    add_output(graph, tuff_attention(q, k, float_input(graph, shape), NULL));
    add_output(graph, tuff_concat((tuff_tensor *[]){tuff_reshape(q, column), tuff_reshape(k, column)}, 2, 4));
}

/* Overlapping factors, which must not be joined as neighbours; in the next graph, a vector that depends on the product
   next to which it is added. */
static void false_neighbours(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *w = float_input(graph, TUFF_SHAPE(9, 6)), *x = float_input(graph, TUFF_SHAPE(4, 8));
    for (int64_t i = 0; i < 2; i++)
        add_output(graph, tuff_tanh(tuff_matmul(x, tuff_slice(w, (int64_t[]){i, 0}, (int64_t[]){8 + i, 6}, NULL))));
    for (int64_t i = 0; i < 2; i++)
        add_output(graph,
                   tuff_tanh(tuff_matmul(
                       float_input(graph, TUFF_SHAPE(4, 6)),
                       tuff_permute(tuff_slice(w, (int64_t[]){i, 0}, (int64_t[]){8 + i, 6}, NULL), (int[]){1, 0}))));
}

static void a_vector_of_its_neighbour(tuff_graph *graph, const void *context)
{
    (void)context;
    const int rows = 0, columns = 1;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(8, 16)), *w = float_input(graph, TUFF_SHAPE(16, 12)),
                *b = float_input(graph, TUFF_SHAPE(6));
    tuff_tensor *left = tuff_matmul(x, tuff_slice(w, (int64_t[]){0, 0}, (int64_t[]){16, 6}, NULL)),
                *right = tuff_matmul(x, tuff_slice(w, (int64_t[]){0, 6}, (int64_t[]){16, 12}, NULL));
    tuff_tensor *u = tuff_add(left, b);
    add_output(graph, tuff_sum(tuff_add(right, tuff_sum(u, &rows, 1, false)), &columns, 1, false));
}

/* Products that read more or fewer matrices of one packed operand, in both orders. */
static void packed_for_two(tuff_graph *graph, const void *context)
{
    (void)context;
    const int turned[] = {0, 2, 1};
    for (int i = 0; i < 2; i++) {
        tuff_tensor *y = float_input(graph, TUFF_SHAPE(4, 8, 5)), *few = float_input(graph, TUFF_SHAPE(2, 32, 5)),
                    *all = float_input(graph, TUFF_SHAPE(4, 32, 5));
        tuff_tensor *part = tuff_permute(tuff_slice(y, (int64_t[]){0, 0, 0}, (int64_t[]){2, 8, 5}, NULL), turned);
        if (i == 0)
            add_output(graph, tuff_matmul(few, part));
        add_output(graph, tuff_matmul(all, tuff_permute(y, turned)));
        if (i == 1)
            add_output(graph, tuff_matmul(few, part));
    }
}

/* Nested concats with more parts than one kernel can bind. */
static void appended_rows(tuff_graph *graph, const void *context)
{
    (void)context;
    const int axis = 0;
    tuff_tensor *x = float_input(graph, TUFF_SHAPE(1, 5)), *all = tuff_abs(x);
    for (int i = 0; i < 40; i++)
        all =
            tuff_concat((tuff_tensor *[]){all, i % 3 == 0 ? tuff_neg(x) : float_input(graph, TUFF_SHAPE(1, 5))}, 2, 0);
    add_output(graph, all);
    add_output(graph, tuff_mean(all, &axis, 1, false));
}

/* Both parts of each concat depend on the concat of the level below. */
static void turned_round(tuff_graph *graph, const void *context)
{
    (void)context;
    tuff_tensor *y = float_input(graph, TUFF_SHAPE(7));
    for (int i = 0; i < 24; i++) {
        tuff_tensor *parts[] = {tuff_slice(y, (int64_t[]){1}, (int64_t[]){7}, NULL),
                                tuff_neg(tuff_slice(y, (int64_t[]){0}, (int64_t[]){1}, NULL))};
        y = tuff_concat(parts, 2, 0);
    }
    add_output(graph, y);
}

const hard_graph hard_graphs[] = {
    {"residual and norm", residual_and_norm, true},
    {"softmax backward", softmax_backward, false},
    {"attention block", attention_block, true},
    {"biased attention", biased_attention, true},
    {"many parts", many_parts, true},
    {"long sums", long_sums, false},
    {"long columns", long_columns, false},
    {"shared subexpression", shared_subexpression, false},
    {"broadcast transcendental", broadcast_transcendental, false},
    {"narrow types", narrow_types, false},
    {"embedding and loss", embedding_and_loss, false},
    {"running sums", running_sums, false},
    {"moved around", moved_around, true},
    {"whole vectors", whole_vectors, false},
    {"wide columns", wide_columns, false},
    {"side by side", side_by_side, true},
    {"wide rows", wide_rows, false},
    {"many ways", many_ways, false},
    {"products in turns", products_in_turns, false},
    {"many axes", many_axes, false},
    {"stacked siblings", stacked_siblings, true},
    {"transposed siblings", transposed_siblings, false},
    {"sliced siblings", sliced_siblings, false},
    {"columns of two shapes", columns_of_two_shapes, true},
    {"one factor twice", one_factor_twice, false},
    {"one value in two parts", one_value_in_two_parts, false},
    {"parts read elsewhere", parts_read_elsewhere, false},
    {"stacked queries", stacked_queries, false},
    {"false neighbours", false_neighbours, false},
    {"a vector of its neighbour", a_vector_of_its_neighbour, false},
    {"packed for two", packed_for_two, false},
    {"appended rows", appended_rows, true},
    {"turned round", turned_round, false},
};
const int hard_graph_count = (int)(sizeof hard_graphs / sizeof hard_graphs[0]);

graph_builder find_hard_graph(const char *name)
{
    for (int i = 0; i < hard_graph_count; i++)
        if (strcmp(hard_graphs[i].name, name) == 0)
            return hard_graphs[i].build;
    return NULL;
}
