/* The cases of the op suite: the shapes, values and parameters with which each op is tested. */
#include <math.h>

#include "base/alloc.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "tools/verify/suite.h"
#include "tuff/nn.h"
#include "tuff/ops.h"
#include "tuff/train.h"

#define SAME ((tuff_dtype)-1) /* the dtype under test */

/* A row of the tables below. A shape [] has rank 0. */
typedef struct special_row {
    op_code op;
    int parameter, operand_count;
    suite_view view;
    tuff_tensor *(*build)(const suite_case *test, tuff_graph *graph, tuff_tensor *const *operands);
    suite_operand operands[SUITE_MAX_OPERANDS];
} special_row;

static tuff_tensor *build_elementwise(const suite_case *test, tuff_graph *graph, tuff_tensor *const *operands)
{
    (void)graph;
    switch (test->op) {
#define CALL_1(name) tuff_##name(operands[0])
#define CALL_2(name) tuff_##name(operands[0], operands[1])
#define CALL_3(name) tuff_##name(operands[0], operands[1], operands[2])
#define ELEMENTWISE(code, name, inputs, ...) \
    case OP_##code:                          \
        return CALL_##inputs(name);
#define SPECIAL(...)
#include "ops/ops.def"
    default:
        return NULL;
    }
}

static int mask_axes(int mask, int *axes)
{
    int count = 0;
    for (int axis = 0; axis < TUFF_MAX_RANK; axis++)
        if (mask >> axis & 1)
            axes[count++] = axis;
    return count;
}

#define BUILD(name) static tuff_tensor *build_##name(const suite_case *test, tuff_graph *graph, tuff_tensor *const *x)
#define UNUSED (void)test, (void)graph, (void)x

BUILD(where)
{
    UNUSED;
    return tuff_where(x[0], x[1], x[2]);
}

BUILD(cast)
{
    UNUSED;
    return tuff_cast(x[0], (tuff_dtype)test->parameter);
}

BUILD(sum)
{
    int axes[TUFF_MAX_RANK];
    UNUSED;
    return tuff_sum(x[0], axes, mask_axes(test->parameter, axes), true);
}

BUILD(reduce_max)
{
    int axes[TUFF_MAX_RANK];
    UNUSED;
    return tuff_reduce_max(x[0], axes, mask_axes(test->parameter, axes), true);
}

BUILD(reshape)
{
    UNUSED;
    return tuff_reshape(x[0], test->parameter ? TUFF_SHAPE(test->parameter, -1) : TUFF_SHAPE(-1));
}

BUILD(permute)
{
    static const int orders[3][4] = {{1, 0}, {2, 0, 1}, {0, 2, 3, 1}};
    UNUSED;
    return tuff_permute(x[0], orders[test->parameter]);
}

BUILD(expand)
{
    UNUSED;
    return tuff_expand(x[0], test->parameter ? TUFF_SHAPE(4, 5, 33) : TUFF_SHAPE(3, 7));
}

/* Variants: a part, every third element, backwards, backwards by two, nothing. */
BUILD(slice)
{
    static const int64_t starts[5][2] = {{1, 2}, {0, 1}, {4, 36}, {3, 35}, {2, 3}};
    static const int64_t stops[5][2] = {{4, 35}, {5, 35}, {-1, -1}, {-1, 2}, {2, 5}};
    static const int64_t steps[5][2] = {{1, 1}, {2, 3}, {-1, -1}, {-2, -3}, {1, 1}};
    UNUSED;
    return tuff_slice(x[0], starts[test->parameter], stops[test->parameter], steps[test->parameter]);
}

BUILD(pad)
{
    static const int64_t before[2][2] = {{0, 1}, {2, 0}}, after[2][2] = {{3, 0}, {0, 31}};
    UNUSED;
    return tuff_pad(x[0], before[test->parameter], after[test->parameter], test->dtype == TUFF_BOOL ? 1 : 3);
}

/* Axis, size, step, dilation. Windows overlap, have gaps, are adjacent, are dilated; one per row, many. */
BUILD(unfold)
{
    static const int64_t variants[8][4] = {{1, 3, 1, 1}, {0, 2, 3, 1}, {1, 4, 4, 1},  {1, 3, 2, 5},
                                           {0, 5, 1, 1}, {1, 1, 3, 1}, {1, 12, 1, 1}, {1, 5, 2, 1}};
    UNUSED;
    const int64_t *is = variants[test->parameter];
    return tuff_unfold(x[0], (int)is[0], is[1], is[2], is[3]);
}

BUILD(concat)
{
    UNUSED;
    return tuff_concat(x, test->operand_count, test->parameter);
}

BUILD(copy)
{
    UNUSED;
    return x[0];
}

/* Builds a constant from values; with a parameter, expands a single value. */
BUILD(constant)
{
    UNUSED;
    tuff_shape shape = TUFF_SHAPE(3, 5);
    double values[15];
    unsigned char data[15 * 8];
    for (int i = 0; i < 15; i++)
        values[i] = test->dtype == TUFF_BOOL                            ? i % 2
                    : test->dtype == TUFF_U32 || test->dtype == TUFF_U8 ? i
                                                                        : i * 0.5 - 2;
    tuff__from_double(test->dtype, values, 15, data);
    tuff_tensor *made = tuff_constant_data(graph, test->dtype, shape, data);
    return test->parameter ? tuff_expand(tuff_constant(graph, test->dtype, values[test->parameter]), shape) : made;
}

BUILD(iota)
{
    UNUSED;
    return tuff_iota(graph, test->operands[0].shape, test->parameter);
}

BUILD(random)
{
    UNUSED;
    tuff_graph_seed(graph, 17);
    return tuff_random(graph, test->operands[0].shape);
}

BUILD(matmul)
{
    UNUSED;
    return tuff_matmul(x[0], x[1]);
}

BUILD(gather)
{
    UNUSED;
    return tuff_gather(x[0], x[1], test->parameter);
}

BUILD(scatter_add)
{
    UNUSED;
    return tuff_scatter_add(x[0], x[1], x[2], test->parameter);
}

BUILD(cumsum)
{
    UNUSED;
    return tuff_cumsum(x[0], test->parameter);
}

/* Variants: 0 causal, 1 all keys, 2 a causal window of 5, 3 a window of 3 that looks ahead. Flags: 4 scores times five,
   8 no softmax, 16 dropout. A fourth operand is the bias. */
static tuff_tensor *attend(const suite_case *test, tuff_tensor *const *x)
{
    static const int64_t windows[4] = {0, 0, 5, 3};
    const int variant = test->parameter & 3;
    const tuff_attention_options options = {.causal = variant % 2 == 0,
                                            .window = windows[variant],
                                            .scale = test->parameter & 4 ? 5 : 0,
                                            .no_softmax = (test->parameter & 8) != 0,
                                            .bias = test->operand_count > 3 ? x[3] : NULL,
                                            .dropout = test->parameter & 16 ? 0.3 : 0};
    return tuff__primitive_attention(x[0], x[1], x[2], &options);
}

BUILD(attention)
{
    UNUSED;
    return attend(test, x);
}

BUILD(attention_lse)
{
    UNUSED;
    const node *result = attend(test, x)->node;
    return result->inputs[tuff__attention_inputs(OP_ATTENTION, result->attributes.options).lse];
}

/* The gradient of half the sum of squares, with respect to the operand that the op is named after. */
BUILD(attention_gradient)
{
    UNUSED;
    tuff_tensor *result = attend(test, x), *gradient;
    tuff_tensor *half = tuff_constant(graph, tuff_tensor_dtype(result), 0.5);
    tuff_tensor *target = tuff_sum(tuff_mul(tuff_mul(result, result), half), (int[]){0, 1, 2, 3}, 4, false);
    tuff_tensor *wrt = x[test->op - OP_ATTENTION_DQ];
    return tuff_gradients(target, &wrt, 1, &gradient) == TUFF_OK ? gradient : target;
}

#define S(...) TUFF_SHAPE(__VA_ARGS__)
#define ROW(code, parameter, name, count, ...)                \
    {                                                         \
        OP_##code, parameter, count, VIEW_NONE, build_##name, \
        {                                                     \
            __VA_ARGS__                                       \
        }                                                     \
    }
#define VIEWED(code, parameter, name, count, view, ...)  \
    {                                                    \
        OP_##code, parameter, count, view, build_##name, \
        {                                                \
            __VA_ARGS__                                  \
        }                                                \
    }
#define VALUES(shape)                   \
    {                                   \
        SAME, shape, -4, 4, FILL_RANDOM \
    }
#define EDGES(shape)                   \
    {                                  \
        SAME, shape, -4, 4, FILL_EDGES \
    }
#define FLAGS(shape)                        \
    {                                       \
        TUFF_BOOL, shape, 0, 1, FILL_RANDOM \
    }
#define INDEX(shape, low, high)                 \
    {                                           \
        TUFF_I32, shape, low, high, FILL_RANDOM \
    }

/* Functions rather than static tables, because compound literals of shapes are not constants. */
static bool take_row(const special_row *rows, size_t count, int index, special_row *out)
{
    if ((size_t)index >= count)
        return false;
    *out = rows[index];
    return true;
}

static bool movement_row(int index, special_row *out)
{
    const special_row rows[] = {
        ROW(WHERE, 0, where, 3, FLAGS(S(1)), VALUES(S(1)), VALUES(S(1))),
        ROW(WHERE, 0, where, 3, FLAGS(S(5, 1)), VALUES(S(5, 33)), VALUES(S(33))),
        ROW(WHERE, 0, where, 3, FLAGS(S(13, 13)), EDGES(S(13, 13)), EDGES(S(13, 13))),
        VIEWED(WHERE, 0, where, 3, VIEW_PERMUTED, FLAGS(S(7, 9)), VALUES(S(7, 9)), VALUES(S(7, 9))),
        ROW(WHERE, 0, where, 3, FLAGS(S(0)), VALUES(S(0)), VALUES(S(0))),
        ROW(RESHAPE, 4, reshape, 1, VALUES(S(6, 10))),
        VIEWED(RESHAPE, 4, reshape, 1, VIEW_PERMUTED, VALUES(S(6, 10))),
        ROW(RESHAPE, 13, reshape, 1, EDGES(S(13 * 13))),
        ROW(RESHAPE, 0, reshape, 1, VALUES(S(3, 0))),
        ROW(PERMUTE, 0, permute, 1, VALUES(S(31, 33))),
        ROW(PERMUTE, 1, permute, 1, VALUES(S(4, 5, 7))),
        ROW(PERMUTE, 2, permute, 1, VALUES(S(2, 3, 5, 16))),
        ROW(PERMUTE, 0, permute, 1, EDGES(S(13, 13))),
        ROW(PERMUTE, 0, permute, 1, VALUES(S(0, 5))),
        ROW(EXPAND, 0, expand, 1, VALUES(S(7))),
        ROW(EXPAND, 0, expand, 1, VALUES(S(3, 1))),
        ROW(EXPAND, 1, expand, 1, VALUES(S(5, 1))),
        VIEWED(EXPAND, 1, expand, 1, VIEW_PERMUTED, VALUES(S(4, 1, 33))),
        ROW(SLICE, 0, slice, 1, VALUES(S(5, 37))),
        ROW(SLICE, 1, slice, 1, VALUES(S(5, 37))),
        ROW(SLICE, 2, slice, 1, VALUES(S(5, 37))),
        ROW(SLICE, 3, slice, 1, EDGES(S(5, 37))),
        ROW(SLICE, 4, slice, 1, VALUES(S(5, 37))),
        VIEWED(SLICE, 3, slice, 1, VIEW_PERMUTED, VALUES(S(5, 37))),
        ROW(PAD, 0, pad, 1, VALUES(S(3, 7))),
        ROW(PAD, 1, pad, 1, EDGES(S(13, 13))),
        ROW(PAD, 0, pad, 1, VALUES(S(0, 7))),
        VIEWED(PAD, 1, pad, 1, VIEW_FLIPPED, VALUES(S(5, 33))),
        ROW(UNFOLD, 0, unfold, 1, VALUES(S(5, 37))),
        ROW(UNFOLD, 1, unfold, 1, VALUES(S(5, 7))),
        ROW(UNFOLD, 2, unfold, 1, EDGES(S(13, 13))),
        ROW(UNFOLD, 3, unfold, 1, EDGES(S(13, 13))),
        ROW(UNFOLD, 4, unfold, 1, VALUES(S(5, 37))),
        ROW(UNFOLD, 5, unfold, 1, VALUES(S(5, 37))),
        ROW(UNFOLD, 6, unfold, 1, VALUES(S(3, 33))),
        ROW(UNFOLD, 7, unfold, 1, VALUES(S(2, 9, 1))),
        VIEWED(UNFOLD, 3, unfold, 1, VIEW_PERMUTED, VALUES(S(5, 37))),
        VIEWED(UNFOLD, 7, unfold, 1, VIEW_FLIPPED, VALUES(S(2, 8, 5))),
        ROW(CONCAT, 0, concat, 2, VALUES(S(3, 5)), VALUES(S(4, 5))),
        ROW(CONCAT, 1, concat, 3, VALUES(S(5, 1)), VALUES(S(5, 31)), EDGES(S(5, 7))),
        ROW(CONCAT, 1, concat, 3, VALUES(S(5, 3)), VALUES(S(5, 0)), VALUES(S(5, 2))),
        VIEWED(CONCAT, 1, concat, 2, VIEW_PERMUTED, VALUES(S(5, 4)), VALUES(S(5, 9))),
        ROW(INPUT, 0, copy, 1, VALUES(S(33))),
        ROW(INPUT, 0, copy, 1, EDGES(S(13, 13))),
        ROW(ARRAY, 0, copy, 1, VALUES(S(33))),
        ROW(ARRAY, 0, copy, 1, EDGES(S(13, 13))),
        ROW(ASSIGN, 0, copy, 1, VALUES(S(33))),
        VIEWED(ASSIGN, 0, copy, 1, VIEW_PERMUTED, EDGES(S(13, 13))),
        ROW(CONSTANT, 0, constant, 0, VALUES(S(1))),
        ROW(CONSTANT, 3, constant, 0, VALUES(S(1))),
    };
    return take_row(rows, sizeof rows / sizeof rows[0], index, out);
}

static bool reduction_row(int index, special_row *out)
{
    const special_row rows[] = {
        ROW(SUM, 1, sum, 1, VALUES(S(1))),
        ROW(SUM, 1, sum, 1, VALUES(S(257))),
        ROW(SUM, 2, sum, 1, VALUES(S(5, 65))),
        ROW(SUM, 1, sum, 1, VALUES(S(300, 7))),
        ROW(SUM, 5, sum, 1, VALUES(S(3, 31, 9))),
        ROW(SUM, 3, sum, 1, VALUES(S(33, 17, 3))),
        ROW(SUM, 1, sum, 1, {SAME, S(65537), 1, 1, FILL_RANDOM}),
        ROW(SUM, 2, sum, 1, EDGES(S(13, 13))),
        ROW(SUM, 1, sum, 1, EDGES(S(13, 13))),
        ROW(SUM, 2, sum, 1, VALUES(S(4, 0))),
        ROW(SUM, 1, sum, 1, VALUES(S(4, 0))),
        VIEWED(SUM, 2, sum, 1, VIEW_PERMUTED, VALUES(S(6, 33))),
        VIEWED(SUM, 1, sum, 1, VIEW_FLIPPED, VALUES(S(33, 6))),
        ROW(REDUCE_MAX, 1, reduce_max, 1, VALUES(S(1))),
        ROW(REDUCE_MAX, 1, reduce_max, 1, VALUES(S(257))),
        ROW(REDUCE_MAX, 2, reduce_max, 1, VALUES(S(5, 65))),
        ROW(REDUCE_MAX, 1, reduce_max, 1, VALUES(S(300, 7))),
        ROW(REDUCE_MAX, 5, reduce_max, 1, VALUES(S(3, 31, 9))),
        ROW(REDUCE_MAX, 2, reduce_max, 1, EDGES(S(13, 13))),
        ROW(REDUCE_MAX, 1, reduce_max, 1, EDGES(S(13, 13))),
        ROW(REDUCE_MAX, 2, reduce_max, 1, VALUES(S(0, 4))),
        VIEWED(REDUCE_MAX, 2, reduce_max, 1, VIEW_PERMUTED, VALUES(S(6, 33))),
        ROW(CUMSUM, 0, cumsum, 1, VALUES(S(1))),
        ROW(CUMSUM, 0, cumsum, 1, VALUES(S(257))),
        ROW(CUMSUM, 1, cumsum, 1, VALUES(S(5, 33))),
        ROW(CUMSUM, 0, cumsum, 1, VALUES(S(31, 7))),
        ROW(CUMSUM, 1, cumsum, 1, VALUES(S(3, 0))),
        VIEWED(CUMSUM, 1, cumsum, 1, VIEW_PERMUTED, VALUES(S(4, 9))),
    };
    return take_row(rows, sizeof rows / sizeof rows[0], index, out);
}

static bool contraction_row(int index, special_row *out)
{
    const special_row rows[] = {
        ROW(MATMUL, 0, matmul, 2, VALUES(S(1, 1)), VALUES(S(1, 1))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(7, 5)), VALUES(S(5, 3))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(33, 17)), VALUES(S(17, 65))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(64, 64)), VALUES(S(64, 64))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(63, 300)), VALUES(S(300, 129))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(9, 1)), VALUES(S(1, 31))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(2, 3, 4, 5)), VALUES(S(2, 1, 5, 6))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(3, 1, 4, 5)), VALUES(S(2, 5, 6))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(2, 9, 16)), VALUES(S(16, 33))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(7)), VALUES(S(7, 9))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(9, 7)), VALUES(S(7))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(33)), VALUES(S(33))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(4, 0)), VALUES(S(0, 3))),
        ROW(MATMUL, 0, matmul, 2, VALUES(S(0, 3)), VALUES(S(3, 4))),
        ROW(MATMUL, 0, matmul, 2, EDGES(S(13, 13)), VALUES(S(13, 13))),
        VIEWED(MATMUL, 0, matmul, 2, VIEW_PERMUTED, VALUES(S(17, 33)), VALUES(S(33, 20))),
        VIEWED(MATMUL, 0, matmul, 2, VIEW_PERMUTED, VALUES(S(3, 8, 9)), VALUES(S(3, 9, 7))),
        VIEWED(MATMUL, 0, matmul, 2, VIEW_FLIPPED, VALUES(S(12, 33)), VALUES(S(33, 16))),
        ROW(GATHER, 0, gather, 2, VALUES(S(7, 33)), INDEX(S(5, 33), 0, 6)),
        ROW(GATHER, 1, gather, 2, VALUES(S(7, 33)), INDEX(S(7, 40), 0, 32)),
        ROW(GATHER, 0, gather, 2, VALUES(S(7, 33)), INDEX(S(9, 1), -2, 9)),
        ROW(GATHER, 1, gather, 2, EDGES(S(13, 13)), INDEX(S(1, 13), 0, 12)),
        ROW(GATHER, 0, gather, 2, VALUES(S(7)), INDEX(S(0), 0, 6)),
        VIEWED(GATHER, 1, gather, 2, VIEW_PERMUTED, VALUES(S(5, 9)), INDEX(S(5, 4), 0, 8)),
        ROW(SCATTER_ADD, 0, scatter_add, 3, VALUES(S(7, 33)), INDEX(S(20, 33), 0, 6), VALUES(S(20, 33))),
        ROW(SCATTER_ADD, 0, scatter_add, 3, VALUES(S(7, 33)), INDEX(S(20, 1), -2, 9), VALUES(S(20, 33))),
        ROW(SCATTER_ADD, 1, scatter_add, 3, VALUES(S(7, 5)), INDEX(S(7, 65), 0, 4), VALUES(S(7, 65))),
        ROW(SCATTER_ADD, 0, scatter_add, 3, VALUES(S(9)), INDEX(S(300), 0, 8), VALUES(S(300))),
        ROW(SCATTER_ADD, 0, scatter_add, 3, VALUES(S(7)), INDEX(S(0), 0, 6), VALUES(S(0))),
        VIEWED(SCATTER_ADD, 1, scatter_add, 3, VIEW_PERMUTED, VALUES(S(3, 5)), INDEX(S(3, 9), 0, 4), VALUES(S(3, 9))),
    };
    return take_row(rows, sizeof rows / sizeof rows[0], index, out);
}

/* Sources, and casts, whose result has its own dtype. */
static bool other_row(int index, special_row *out)
{
    const special_row rows[] = {
        ROW(IOTA, 0, iota, 0, VALUES(S(33))),           ROW(IOTA, 1, iota, 0, VALUES(S(5, 7, 3))),
        ROW(RANDOM, 0, random, 0, VALUES(S(1))),        ROW(RANDOM, 0, random, 0, VALUES(S(31, 33))),
        ROW(CAST, TUFF_F32, cast, 1, VALUES(S(7, 33))),
    };
    const int sources = (int)(sizeof rows / sizeof rows[0]), target = index - sources;
    if (target > TUFF_BOOL)
        return false;
    const suite_operand mixed = {SAME, S(1021), -300, 300, FILL_MIXED};
    *out = target < 0 ? rows[index] : (special_row){OP_CAST, target, 1, VIEW_NONE, build_cast, {mixed}};
    return true;
}

/* A case of attention: batch, queries, keys, heads, heads of keys, width of queries and keys, width of values. */
#define ATTENTION(code, name, parameter, b, t, s, h, g, d, e) \
    ROW(code, parameter, name, 3, VALUES(S(b, t, h, d)), VALUES(S(b, s, g, d)), VALUES(S(b, s, g, e)))

/* Cases shared by the result, the log-sum-exp and the gradients: ragged lengths around the edges of tiles and panels, a
   single query, a single key, more keys than queries and fewer, shared heads, widths that differ or do not fill a
   vector. */
#define ATTENTIONS(code, name)                                                                                        \
    ATTENTION(code, name, 0, 2, 7, 7, 2, 2, 8, 8), ATTENTION(code, name, 0, 1, 33, 33, 2, 1, 20, 36),                 \
        ATTENTION(code, name, 4, 1, 100, 100, 1, 1, 64, 32), ATTENTION(code, name, 1, 1, 1, 70, 4, 2, 16, 16),        \
        ATTENTION(code, name, 1, 2, 40, 1, 1, 1, 5, 3), ATTENTION(code, name, 2, 1, 70, 35, 3, 1, 4, 16),             \
        ATTENTION(code, name, 2, 1, 35, 131, 2, 2, 32, 48), ATTENTION(code, name, 3, 1, 65, 66, 2, 1, 12, 8),         \
        VIEWED(code, 0, name, 3, VIEW_PERMUTED, VALUES(S(2, 9, 4, 8)), VALUES(S(2, 9, 2, 8)), VALUES(S(2, 9, 2, 8))), \
        ATTENTION(code, name, 0, 1, 3, 3, 1, 1, 3, 1), BIASED(code, name)

/* Cases with a bias: per score, shared by heads, by batches and heads, and also by queries. */
#define WITH_BIAS(code, name, parameter, b, t, s, h, g, d, e, ...)                                     \
    ROW(code, parameter, name, 4, VALUES(S(b, t, h, d)), VALUES(S(b, s, g, d)), VALUES(S(b, s, g, e)), \
        VALUES(S(__VA_ARGS__)))
#define BIASED(code, name)                                                                                             \
    WITH_BIAS(code, name, 0, 2, 7, 7, 2, 2, 8, 8, 2, 2, 7, 7), WITH_BIAS(code, name, 1, 2, 3, 5, 4, 2, 2, 3, 4, 3, 5), \
        WITH_BIAS(code, name, 2, 1, 35, 131, 2, 2, 8, 4, 1, 35, 131),                                                  \
        WITH_BIAS(code, name, 0, 2, 33, 64, 2, 1, 5, 3, 2, 1, 1, 64),                                                  \
        WITH_BIAS(code, name, 3, 2, 66, 40, 2, 1, 4, 4, 40), WITH_BIAS(code, name, 16, 2, 3, 5, 4, 2, 2, 3, 4, 3, 5)

/* Cases without softmax, with dropout, and with both. */
#define VARIED(code, name)                                                                         \
    ATTENTION(code, name, 8, 2, 3, 4, 4, 2, 3, 4), ATTENTION(code, name, 16, 1, 4, 4, 2, 2, 4, 5), \
        ATTENTION(code, name, 26, 2, 37, 70, 4, 2, 16, 20)

static bool attention_row(int index, special_row *out)
{
    const special_row rows[] = {
        ATTENTIONS(ATTENTION, attention),
        ATTENTIONS(ATTENTION_LSE, attention_lse),
        ATTENTIONS(ATTENTION_DQ, attention_gradient),
        ATTENTIONS(ATTENTION_DK, attention_gradient),
        ATTENTIONS(ATTENTION_DV, attention_gradient),
        BIASED(ATTENTION_DB, attention_gradient),
        VARIED(ATTENTION, attention),
        VARIED(ATTENTION_DQ, attention_gradient),
        VARIED(ATTENTION_DK, attention_gradient),
        VARIED(ATTENTION_DV, attention_gradient),
    };
    return take_row(rows, sizeof rows / sizeof rows[0], index, out);
}

/* Gets a row of one op by index, across all tables. */
static bool special_row_at(op_code op, int index, special_row *out)
{
    static bool (*const tables[])(int, special_row *) = {movement_row, reduction_row, contraction_row, attention_row,
                                                         other_row};
    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++)
        for (int i = 0; tables[table](i, out); i++)
            if (out->op == op && index-- == 0)
                return true;
    return false;
}

static bool special_case(op_code op, tuff_dtype dtype, int index, suite_case *out)
{
    special_row row;
    if (!tuff__op_accepts(op, dtype) || !special_row_at(op, index, &row))
        return false;
    *out = (suite_case){.op = op,
                        .name = tuff__op_info(op)->name,
                        .dtype = dtype,
                        .operand_count = row.operand_count,
                        .view = row.view,
                        .parameter = row.parameter,
                        .build = row.build};
    for (int i = 0; i < SUITE_MAX_OPERANDS; i++) {
        out->operands[i] = row.operands[i];
        if (row.operands[i].dtype == SAME)
            out->operands[i].dtype = dtype;
    }
    return true;
}

/* Gets the shapes of an elementwise case. The second and third operand broadcast if they differ from the first. */
static bool elementwise_shapes(int index, tuff_shape *shapes, suite_fill *fill, suite_view *view)
{
    const struct {
        tuff_shape first, second;
        suite_fill fill;
        suite_view view;
    } rows[] = {
        {S(1021), S(1021), FILL_MIXED, VIEW_NONE},
        {TUFF_SCALAR, TUFF_SCALAR, FILL_RANDOM, VIEW_NONE},
        {S(1), S(1), FILL_RANDOM, VIEW_NONE},
        {S(31), S(31), FILL_RANDOM, VIEW_NONE},
        {S(16, 64), S(16, 64), FILL_RANDOM, VIEW_NONE},
        {S(5, 63), S(63), FILL_RANDOM, VIEW_NONE},
        {S(4, 1, 33), S(5, 1), FILL_RANDOM, VIEW_NONE},
        {S(3, 0, 4), S(4), FILL_RANDOM, VIEW_NONE},
        {S(31, 17), S(31, 17), FILL_RANDOM, VIEW_PERMUTED},
        {S(2, 3, 65), S(65), FILL_RANDOM, VIEW_FLIPPED},
        {S(13, 16), S(13, 16), FILL_EDGES, VIEW_NONE},
    };
    if (index >= (int)(sizeof rows / sizeof rows[0]))
        return false;
    shapes[0] = rows[index].first;
    shapes[1] = shapes[2] = rows[index].second;
    *fill = rows[index].fill;
    *view = rows[index].view;
    return true;
}

static bool elementwise_case(op_code op, tuff_dtype dtype, int index, suite_case *out)
{
    const op_info *info = tuff__op_info(op);
    tuff_shape shapes[SUITE_MAX_OPERANDS];
    suite_fill fill;
    *out = (suite_case){
        .op = op, .name = info->name, .dtype = dtype, .operand_count = info->input_count, .build = build_elementwise};
    if (!tuff__op_accepts(op, dtype) || !elementwise_shapes(index, shapes, &fill, &out->view))
        return false;
    for (int i = 0; i < info->input_count; i++)
        out->operands[i] = (suite_operand){dtype, shapes[i], info->low, info->high, fill};
    return true;
}

bool suite_case_at(op_code op, tuff_dtype dtype, int index, suite_case *out)
{
    if (index < 0 || op >= OP_COUNT || dtype > TUFF_BOOL)
        return false;
    if (!tuff__op_has_text(op))
        return special_case(op, dtype, index, out);
    return elementwise_case(op, dtype, index, out);
}

bool suite_is_in_short_suite(op_code op, tuff_dtype dtype, int index)
{
    const bool plain = tuff__op_has_text(op);
    if (dtype == TUFF_F32 ? !plain || op == OP_ADD : op == OP_CAST || op == OP_IOTA)
        return true;
    if (plain)
        return index == 0 || (op == OP_ADD && (index == 6 || index == 8));
    /* The second row of each op has ragged shapes; the long sum overflows f16, and a matmul has the edge of a tile. For
       ATTENTION_DB, the kernel with a bias of keys alone compiles in a tenth of the time on devices that need many
       instructions to unpack halves. */
    if (op == OP_ATTENTION_DB)
        return index == 4;
    return index == 1 || (op == OP_SUM && index == 6) || (op == OP_MATMUL && index == 2);
}
