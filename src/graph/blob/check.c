/* Checks whether a node read from bytes is one that builders could have made: the predicates that the column `valid` of
   ops.def combines, and their table. read.c calls this for every node; a node that passes is safe to compile. */
#include "graph/blob/blob.h"

#include <math.h>
#include <stdlib.h>

#include "graph/builder.h"

static const tuff_shape *shape_of(const node *n)
{
    return &n->outputs[0].shape;
}

static const tuff_shape *input_shape(const node *n, int input)
{
    return &n->inputs[input]->shape;
}

/* Whether the result has the dtype of the first operand. */
static bool keeps_dtype(const node *n)
{
    return n->inputs[0]->dtype == n->outputs[0].dtype;
}

static bool keeps_shape(const node *n)
{
    return tuff_shape_equal(*input_shape(n, 0), *shape_of(n));
}

static bool keeps_count(const node *n)
{
    return tuff_shape_count(*input_shape(n, 0)) == tuff_shape_count(*shape_of(n));
}

/* Whether attributes.axis is an axis of the result. */
static bool has_axis(const node *n)
{
    return n->attributes.axis >= 0 && n->attributes.axis < shape_of(n)->rank;
}

/* Whether the shapes are equal except for the extent of one axis. */
static bool equal_except_axis(tuff_shape a, tuff_shape b, int axis)
{
    return tuff_shape_equal(a, tuff__with_extent(b, axis, a.extent[axis]));
}

/* Elementwise rows: all operands have the result's shape and one dtype, which the row accepts. */
static bool is_elementwise(const node *n)
{
    const op_kinds kinds = tuff__op_info(n->op)->kinds;
    const tuff_dtype dtype = n->inputs[0]->dtype, made = n->outputs[0].dtype;
    for (int i = 0; i < n->input_count; i++)
        if (n->inputs[i]->dtype != dtype || !tuff_shape_equal(*input_shape(n, i), *shape_of(n)))
            return false;
    return tuff__op_accepts(n->op, dtype) && made == (kinds == OP_KIND_COMPARE ? TUFF_BOOL : dtype);
}

static bool is_selection(const node *n)
{
    for (int i = 0; i < 3; i++)
        if (!tuff_shape_equal(*input_shape(n, i), *shape_of(n)))
            return false;
    return n->inputs[0]->dtype == TUFF_BOOL && n->inputs[1]->dtype == n->outputs[0].dtype &&
           n->inputs[2]->dtype == n->outputs[0].dtype;
}

/* Reduced axes have extent 1, the others are unchanged. */
static bool is_reduction(const node *n)
{
    const tuff_shape *from = input_shape(n, 0), *to = shape_of(n);
    const uint32_t axes = n->attributes.axes;
    if (!keeps_dtype(n) || from->rank != to->rank || axes == 0 || axes >> from->rank != 0)
        return false;
    for (int i = 0; i < to->rank; i++)
        if (to->extent[i] != ((axes >> i & 1) ? 1 : from->extent[i]))
            return false;
    return true;
}

/* The maximum of no elements is undefined. */
static bool has_terms(const node *n)
{
    return tuff_shape_count(*input_shape(n, 0)) > 0 || tuff_shape_count(*shape_of(n)) == 0;
}

/* Each axis occurs once. */
static bool is_permutation(const node *n)
{
    const tuff_shape *from = input_shape(n, 0), *to = shape_of(n);
    uint32_t seen = 0;
    if (from->rank != to->rank)
        return false;
    for (int i = 0; i < to->rank; i++) {
        const int axis = n->attributes.order[i];
        if (axis < 0 || axis >= to->rank || (seen >> axis & 1) || to->extent[i] != from->extent[axis])
            return false;
        seen |= UINT32_C(1) << axis;
    }
    return true;
}

/* Only axes of extent 1 grow. */
static bool is_expansion(const node *n)
{
    const tuff_shape *from = input_shape(n, 0), *to = shape_of(n);
    if (from->rank != to->rank)
        return false;
    for (int i = 0; i < to->rank; i++)
        if (from->extent[i] != to->extent[i] && from->extent[i] != 1)
            return false;
    return true;
}

/* The first and the last element of each axis are elements of the operand; an empty axis starts at 0. */
static bool is_slice(const node *n)
{
    const tuff_shape *from = input_shape(n, 0), *to = shape_of(n);
    if (from->rank != to->rank)
        return false;
    for (int i = 0; i < to->rank; i++) {
        const int64_t start = n->attributes.start[i], step = n->attributes.step[i], count = to->extent[i];
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX || start < 0 || start > INT32_MAX)
            return false;
        const int64_t last = start + (count - 1) * step;
        if (count == 0 ? start != 0 : start >= from->extent[i] || last < 0 || last >= from->extent[i])
            return false;
    }
    return true;
}

/* Whether elements of the result can have attributes.value. Floats are stored as f32, whatever their dtype. */
static bool has_value(const node *n)
{
    const tuff_dtype dtype = n->outputs[0].dtype;
    const bool is_float = tuff__dtype_is_float(dtype);
    const double value = n->attributes.value;
    return isnan(value) ? is_float : tuff__round_to(is_float ? TUFF_F32 : dtype, value) == value;
}

/* The operand lies entirely inside the result. */
static bool is_padding(const node *n)
{
    const tuff_shape *from = input_shape(n, 0), *to = shape_of(n);
    if (from->rank != to->rank || !has_value(n))
        return false;
    for (int i = 0; i < to->rank; i++)
        if (n->attributes.start[i] < 0 || from->extent[i] > to->extent[i] ||
            n->attributes.start[i] > to->extent[i] - from->extent[i])
            return false;
    return true;
}

/* One axis becomes two; their last element is in the operand. */
static bool is_unfolding(const node *n)
{
    const tuff_shape *from = input_shape(n, 0), *to = shape_of(n);
    const int axis = n->attributes.axis;
    const int64_t step = n->attributes.step[0], dilation = n->attributes.step[1];
    if (axis < 0 || axis >= from->rank || to->rank != from->rank + 1 || step < 1 || step > INT32_MAX || dilation < 1 ||
        dilation > INT32_MAX || to->extent[axis] < 1 || to->extent[axis + 1] < 1)
        return false;
    for (int i = 0; i < from->rank; i++)
        if (i != axis && to->extent[i < axis ? i : i + 1] != from->extent[i])
            return false;
    return (to->extent[axis] - 1) * step + (to->extent[axis + 1] - 1) * dilation < from->extent[axis];
}

/* The extents of the parts add up along the axis and are equal on the others. */
static bool is_concatenation(const node *n)
{
    int64_t extent = 0;
    if (n->input_count < 1 || !has_axis(n))
        return false;
    for (int i = 0; i < n->input_count; i++) {
        if (n->inputs[i]->dtype != n->outputs[0].dtype ||
            !equal_except_axis(*input_shape(n, i), *shape_of(n), n->attributes.axis))
            return false;
        extent += input_shape(n, i)->extent[n->attributes.axis];
    }
    return extent == shape_of(n)->extent[n->attributes.axis];
}

/* Non-empty matrices with matching extents and equal batch axes. */
static bool is_contraction(const node *n)
{
    const tuff_shape *x = input_shape(n, 0), *y = input_shape(n, 1), *to = shape_of(n);
    const int rank = to->rank;
    if (rank < 2 || x->rank != rank || y->rank != rank || !keeps_dtype(n) || n->inputs[1]->dtype != n->outputs[0].dtype)
        return false;
    for (int i = 0; i < rank - 2; i++)
        if (x->extent[i] != to->extent[i] || y->extent[i] != to->extent[i])
            return false;
    return x->extent[rank - 2] == to->extent[rank - 2] && y->extent[rank - 1] == to->extent[rank - 1] &&
           x->extent[rank - 1] == y->extent[rank - 2] && tuff_shape_count(*x) > 0 && tuff_shape_count(*y) > 0;
}

/* The indices have the result's shape; the table differs from it along the axis only. */
static bool is_gather(const node *n)
{
    return has_axis(n) && keeps_dtype(n) && n->inputs[1]->dtype == TUFF_I32 &&
           tuff_shape_equal(*input_shape(n, 1), *shape_of(n)) &&
           equal_except_axis(*input_shape(n, 0), *shape_of(n), n->attributes.axis);
}

/* Indices and source have the same shape, which differs from the result's along the axis only. */
static bool is_scatter(const node *n)
{
    return has_axis(n) && keeps_dtype(n) && n->inputs[1]->dtype == TUFF_I32 &&
           n->inputs[2]->dtype == n->outputs[0].dtype && tuff_shape_equal(*input_shape(n, 0), *shape_of(n)) &&
           tuff_shape_equal(*input_shape(n, 1), *input_shape(n, 2)) &&
           equal_except_axis(*input_shape(n, 1), *shape_of(n), n->attributes.axis);
}

/* The node has the dtype and the shape of its array. */
static bool fits_array(const node *n)
{
    const tuff_array *array = n->attributes.array;
    return array != NULL && array->dtype == n->outputs[0].dtype && tuff_shape_equal(array->shape, *shape_of(n));
}

/* Whether x can be the counter that random numbers depend on. */
static bool is_step(const tuff_tensor *x)
{
    return x->dtype == TUFF_I32 && x->shape.rank == 0;
}

/* Whether the operands are q [B,T,H,D], k [B,S,G,D] and v [B,S,G,E], with G a divisor of H. Sets the shape of the
   result and that of values per row of q. */
static bool operands_fit(const node *n, const attention_inputs *at, tuff_shape *result, tuff_shape *rows)
{
    const tuff_shape q = *input_shape(n, at->q), k = *input_shape(n, at->k);
    const tuff_shape v = at->v >= 0 ? *input_shape(n, at->v) : k;
    if (q.rank != 4 || k.rank != 4 || v.rank != 4 || tuff_shape_count(q) == 0 || tuff_shape_count(k) == 0 ||
        tuff_shape_count(v) == 0)
        return false;
    *result = q;
    result->extent[3] = v.extent[3];
    *rows = TUFF_SHAPE(q.extent[0], q.extent[1], q.extent[2]);
    return k.extent[0] == q.extent[0] && k.extent[3] == q.extent[3] && q.extent[2] % k.extent[2] == 0 &&
           v.extent[0] == k.extent[0] && v.extent[1] == k.extent[1] && v.extent[2] == k.extent[2];
}

/* Whether each axis of the bias has the extent of the scores or 1; the axis of keys must have all keys. */
static bool bias_fits(const node *n, const attention_inputs *at)
{
    const tuff_shape *q = input_shape(n, at->q), *k = input_shape(n, at->k);
    if (at->bias < 0)
        return true;
    const tuff_shape *bias = input_shape(n, at->bias);
    const int64_t expected[4] = {q->extent[0], q->extent[2], q->extent[1], k->extent[1]};
    if (bias->rank != 4 || bias->extent[3] != expected[3])
        return false;
    for (int i = 0; i < 3; i++)
        if (bias->extent[i] != expected[i] && bias->extent[i] != 1)
            return false;
    return true;
}

/* The band is bounded so that adding positions to it cannot overflow. */
static bool attention_attributes_fit(const op_attributes *attributes)
{
    const bool drops = (attributes->options & ATTENTION_DROPOUT) != 0;
    return attributes->options <= (ATTENTION_BIAS | ATTENTION_DROPOUT | ATTENTION_NO_SOFTMAX) &&
           isfinite(attributes->value) && attributes->start[0] >= -INT64_C(4) * INT32_MAX &&
           attributes->start[0] <= INT64_C(4) * INT32_MAX && attributes->start[1] >= -INT64_C(4) * INT32_MAX &&
           attributes->start[1] <= INT64_C(4) * INT32_MAX &&
           (drops ? attributes->dropout > 0 && attributes->dropout < 1 : true);
}

/* One more than the last position of an input. */
static int attention_input_count(const attention_inputs *at)
{
    const int all[] = {at->q, at->k, at->v, at->lse, at->upstream, at->sums, at->bias, at->step};
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        count = all[i] >= count ? all[i] + 1 : count;
    return count;
}

/* A gradient has the shape of its operand. */
static bool attention_result_fits(const node *n, const attention_inputs *at, tuff_shape result, tuff_shape rows)
{
    const tuff_shape *made = shape_of(n);
    switch (n->op) {
    case OP_ATTENTION_LSE:
        return tuff_shape_equal(*made, rows);
    case OP_ATTENTION:
        return tuff_shape_equal(*made, result);
    case OP_ATTENTION_DQ:
        return tuff_shape_equal(*made, *input_shape(n, at->q));
    case OP_ATTENTION_DK:
        return tuff_shape_equal(*made, *input_shape(n, at->k));
    case OP_ATTENTION_DV:
        return tuff_shape_equal(*made, *input_shape(n, at->v));
    default:
        return at->bias >= 0 && tuff_shape_equal(*made, *input_shape(n, at->bias));
    }
}

static bool is_attention(const node *n)
{
    const attention_inputs at = tuff__attention_inputs(n->op, n->attributes.options);
    tuff_shape result, rows;
    if (!attention_attributes_fit(&n->attributes) || n->input_count != attention_input_count(&at) ||
        !operands_fit(n, &at, &result, &rows) || !bias_fits(n, &at))
        return false;
    for (int i = 0; i < n->input_count; i++)
        if (i == at.step ? !is_step(n->inputs[i]) : n->inputs[i]->dtype != n->outputs[0].dtype)
            return false;
    return (at.lse < 0 || tuff_shape_equal(*input_shape(n, at.lse), rows)) &&
           (at.sums < 0 || tuff_shape_equal(*input_shape(n, at.sums), rows)) &&
           (at.upstream < 0 || tuff_shape_equal(*input_shape(n, at.upstream), result)) &&
           attention_result_fits(n, &at, result, rows);
}

/* A constant without data is a scalar; larger ones of a single value are an EXPAND of it. */
static bool has_data_or_is_scalar(const node *n)
{
    return n->attributes.data != NULL || (shape_of(n)->rank == 0 && has_value(n));
}

/* The expressions of the column `valid` of ops.def as functions. */
#define ELEMENTWISE(...)
#define SPECIAL(code, name, inputs, kinds, pattern, operands, axes, attributes, cost, evaluate, valid, gradients) \
    static bool name##_is_valid(const node *n)                                                                    \
    {                                                                                                             \
        (void)n;                                                                                                  \
        return valid;                                                                                             \
    }
#include "ops/ops.def"

static bool (*const checks[OP_COUNT])(const node *n) = {
#define ELEMENTWISE(code, ...) [OP_##code] = is_elementwise,
#define SPECIAL(code, name, ...) [OP_##code] = name##_is_valid,
#include "ops/ops.def"
};

bool tuff__node_is_valid(const node *n)
{
    const op_info *info = tuff__op_info(n->op);
    if (info->input_count >= 0 && n->input_count != info->input_count)
        return false;
    if (!tuff__op_has_text(n->op) && !tuff__op_accepts(n->op, n->outputs[0].dtype))
        return false;
    return checks[n->op](n);
}
