/* Composite reductions: means, variances, minima, argmax, one_hot, softmax and its relatives. The last all begin with
   `exponentiate`, which subtracts the maximum of a row so that no exponential overflows. */
#include <float.h>
#include <math.h>

#include "graph/builder.h"
#include "tuff/nn.h"

/* Returns the number of elements that a reduction over these axes adds up. The axes were checked when the reduction was
   built. */
static double reduced_count(const tuff_tensor *x, const int *axes, int count)
{
    double elements = 1;
    for (int i = 0; i < count; i++)
        elements *= (double)x->shape.extent[axes[i] < 0 ? axes[i] + x->shape.rank : axes[i]];
    return elements;
}

/* Multiplies by the reciprocal of the count, a constant, so that the kernel need not divide. */
tuff_tensor *tuff_mean(tuff_tensor *x, const int *axes, int count, bool keep)
{
    tuff_tensor *failure;
    if (!tuff__check_float_operand("mean", x, &failure))
        return failure;
    tuff_tensor *sum = tuff_sum(x, axes, count, keep);
    return tuff__is_valid(sum) ? tuff__scale(sum, 1 / reduced_count(x, axes, count)) : sum;
}

/* Takes two passes: with a sum of squares, large numbers would cancel. */
tuff_tensor *tuff_variance(tuff_tensor *x, const int *axes, int count, bool keep, int correction)
{
    tuff_tensor *failure;
    if (!tuff__check_float_operand("variance", x, &failure))
        return failure;
    tuff_tensor *mean = tuff_mean(x, axes, count, true);
    if (!tuff__is_valid(mean))
        return mean;
    tuff_tensor *deviation = tuff_sub(x, mean);
    const double divisor = reduced_count(x, axes, count) - correction;
    return tuff__scale(tuff_sum(tuff_mul(deviation, deviation), axes, count, keep), 1 / (divisor > 0 ? divisor : 0));
}

/* The gradient is 0 if the deviation is 0, as in PyTorch, although the derivative of the root is infinite there. A
   variance of NaN stays NaN. */
tuff_tensor *tuff_std(tuff_tensor *x, const int *axes, int count, bool keep, int correction)
{
    tuff_tensor *variance = tuff_variance(x, axes, count, keep, correction);
    if (!tuff__is_valid(variance))
        return variance;
    tuff_tensor *spreads = tuff_less(tuff__scalar(variance, 0), variance);
    tuff_tensor *root = tuff_sqrt(tuff_where(spreads, variance, tuff__scalar(variance, 1)));
    tuff_tensor *rest = tuff_add(variance, tuff__scalar(variance, 0)); /* a node of its own, to stop gradients */
    return tuff_where(spreads, root, tuff__stop_gradient(rest));
}

/* Negates, reduces by maximum and negates again: kernels have only one kind of extremum. */
tuff_tensor *tuff_reduce_min(tuff_tensor *x, const int *axes, int count, bool keep)
{
    if (!tuff__is_valid(x) || (x->dtype != TUFF_I32 && x->dtype != TUFF_U32))
        return tuff_neg(tuff_reduce_max(tuff_neg(x), axes, count, keep));
    /* -x would overflow: in i32 for the least number, in u32 for all but 0. last - x does not. */
    tuff_tensor *last = tuff_constant(x->graph, x->dtype, x->dtype == TUFF_I32 ? -1.0 : (double)UINT32_MAX);
    return tuff_sub(last, tuff_reduce_max(tuff_sub(last, x), axes, count, keep));
}

/* A NaN counts as the largest. It is found by x != x. */
tuff_tensor *tuff_argmax(tuff_tensor *x, int axis, bool keep)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("argmax", &x, 1, &failure);
    if (!graph || !tuff__resolve_axis("argmax", x, axis, &axis))
        return failure;
    tuff_tensor *index = tuff_iota(graph, x->shape, axis);
    tuff_tensor *beyond = tuff_constant(graph, TUFF_I32, (double)x->shape.extent[axis]);
    tuff_tensor *if_nan = tuff_where(tuff_equal(x, x), beyond, index);
    tuff_tensor *largest = tuff_equal(x, tuff_reduce_max(x, &axis, 1, true));
    return tuff_reduce_min(tuff_where(largest, index, if_nan), &axis, 1, keep);
}

/* Indices out of range give rows of zeros. */
tuff_tensor *tuff_one_hot(tuff_tensor *indices, int64_t classes)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("one_hot", &indices, 1, &failure);
    if (!graph)
        return failure;
    const int rank = indices->shape.rank;
    if (indices->dtype != TUFF_I32)
        return tuff__graph_fail(graph, TUFF_E_DTYPE, "one_hot: %s %s: indices must be i32",
                                tuff_dtype_name(indices->dtype), SHAPE_TEXT(indices->shape));
    if (rank == TUFF_MAX_RANK || classes < 0)
        return tuff__graph_fail(graph, classes < 0 ? TUFF_E_SHAPE : TUFF_E_LIMIT, "one_hot: %s into %lld classes: %s",
                                SHAPE_TEXT(indices->shape), (long long)classes,
                                classes < 0 ? "the number is negative" : "the rank would exceed the limit");
    tuff_shape column = indices->shape;
    column.rank = rank + 1;
    column.extent[rank] = 1;
    tuff_tensor *class_index = tuff_iota(graph, tuff__with_extent(column, rank, classes), rank);
    return tuff_cast(tuff_equal(tuff_reshape(indices, column), class_index), TUFF_F32);
}

/* exp(x - row maximum) and its sum. The maximum cancels out, so no gradient goes through it. Rows of only -inf are
   shifted by -FLT_MAX instead, so that they give zeros rather than -inf - -inf = NaN. */
typedef struct exponentials {
    tuff_tensor *largest, *shifted, *exponential, *sum;
} exponentials;

static bool exponentiate(const char *op, tuff_tensor *x, int axis, exponentials *out, tuff_tensor **failure)
{
    if (!tuff__check_float_operand(op, x, failure) || !tuff__resolve_axis(op, x, axis, &axis))
        return false;
    out->largest = tuff__stop_gradient(tuff_reduce_max(x, &axis, 1, true));
    if (!tuff__is_valid(out->largest))
        return false;
    tuff_tensor *shift = tuff_max(out->largest, tuff__scalar(x, -FLT_MAX));
    out->shifted = tuff_sub(x, tuff__stop_gradient(shift));
    out->exponential = tuff_exp(out->shifted);
    out->sum = tuff_sum(out->exponential, &axis, 1, true);
    return x->graph->status == TUFF_OK;
}

/* Whether a row is all -inf: in any other, the maximum contributes exp(0) to the sum. */
static tuff_tensor *is_empty(tuff_tensor *sum)
{
    return tuff_equal(sum, tuff__scalar(sum, 0));
}

/* Returns sum, or 1 for an empty row. */
static tuff_tensor *at_least_one(tuff_tensor *sum)
{
    return tuff_add(sum, tuff__stop_gradient(tuff_cast(is_empty(sum), sum->dtype)));
}

/* Multiplies by the reciprocal of the sum. The gradient of this product needs the sum of gradient · exponential, which
   can be computed as early as the sum itself; the gradient of a quotient would need the sum first. */
tuff_tensor *tuff_softmax(tuff_tensor *x, int axis)
{
    exponentials parts;
    tuff_tensor *failure;
    if (!exponentiate("softmax", x, axis, &parts, &failure))
        return failure;
    return tuff_mul(parts.exponential, tuff_div(tuff__scalar(parts.sum, 1), at_least_one(parts.sum)));
}

tuff_tensor *tuff__shifted_logits(const char *op, tuff_tensor *x, int axis, tuff_tensor **log_sum)
{
    exponentials parts;
    tuff_tensor *failure;
    if (!exponentiate(op, x, axis, &parts, &failure))
        return *log_sum = failure;
    *log_sum = tuff_log(at_least_one(parts.sum));
    return parts.shifted;
}

/* Does not use the softmax, whose small values would round to 0 before the logarithm. */
tuff_tensor *tuff_log_softmax(tuff_tensor *x, int axis)
{
    exponentials parts;
    tuff_tensor *failure;
    if (!exponentiate("log_softmax", x, axis, &parts, &failure))
        return failure;
    tuff_tensor *shifted = tuff_where(is_empty(parts.sum), parts.largest, parts.shifted);
    return tuff_sub(shifted, tuff_log(at_least_one(parts.sum)));
}

/* Adds the maximum back. For a row of only -inf it is the result. */
tuff_tensor *tuff_logsumexp(tuff_tensor *x, int axis, bool keep)
{
    exponentials parts;
    tuff_tensor *failure;
    if (!exponentiate("logsumexp", x, axis, &parts, &failure))
        return failure;
    tuff_tensor *result = tuff_add(tuff_log(at_least_one(parts.sum)), parts.largest);
    /* With +inf in the row, inf - inf is NaN, but the result is inf. */
    tuff_tensor *infinite = tuff_equal(parts.largest, tuff__scalar(parts.largest, (double)INFINITY));
    result = tuff_where(infinite, parts.largest, result);
    if (keep || !tuff__is_valid(result))
        return result;
    axis = axis < 0 ? axis + x->shape.rank : axis;
    return tuff_reshape(result, tuff__without_axes(x->shape, UINT32_C(1) << axis));
}
