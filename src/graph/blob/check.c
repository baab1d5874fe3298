/* What builders make, as rules for nodes that are there already: one function for each kind of op. */
#include "graph/blob/blob.h"

#include <math.h>
#include <stdlib.h>

static const tuff_shape *shape_of(const node *of)
{
    return &of->outputs[0].shape;
}

static const tuff_shape *input_shape(const node *of, int input)
{
    return &of->inputs[input]->shape;
}

static bool is_number(tuff_dtype dtype)
{
    return tuff__dtype_is_float(dtype) || dtype == TUFF_I32 || dtype == TUFF_U32;
}

static bool keeps_dtype(const node *of)
{
    return of->inputs[0]->dtype == of->outputs[0].dtype;
}

static bool has_axis(const node *of)
{
    return of->attributes.axis >= 0 && of->attributes.axis < shape_of(of)->rank;
}

/* Equal but for the extent along one axis. */
static bool equal_beside(tuff_shape a, tuff_shape b, int axis)
{
    if (a.rank != b.rank)
        return false;
    a.extent[axis] = b.extent[axis];
    return tuff_shape_equal(a, b);
}

static bool is_row(const node *of)
{
    const op_kinds kinds = tuff__op_info(of->op)->kinds;
    const tuff_dtype dtype = of->inputs[0]->dtype, made = of->outputs[0].dtype;
    for (int i = 0; i < of->input_count; i++)
        if (of->inputs[i]->dtype != dtype || !tuff_shape_equal(*input_shape(of, i), *shape_of(of)))
            return false;
    if (kinds == OP_KIND_COMPARE)
        return is_number(dtype) && made == TUFF_BOOL;
    if (kinds == OP_KIND_BOOLS)
        return dtype == TUFF_BOOL && made == TUFF_BOOL;
    return made == dtype && (kinds == OP_KIND_FLOATS ? tuff__dtype_is_float(dtype) : is_number(dtype));
}

static bool is_where(const node *of)
{
    for (int i = 0; i < 3; i++)
        if (!tuff_shape_equal(*input_shape(of, i), *shape_of(of)))
            return false;
    return of->inputs[0]->dtype == TUFF_BOOL && of->inputs[1]->dtype == of->outputs[0].dtype &&
           of->inputs[2]->dtype == of->outputs[0].dtype;
}

static bool is_reduction(const node *of)
{
    const tuff_shape *from = input_shape(of, 0), *to = shape_of(of);
    const uint32_t axes = of->attributes.axes;
    if (!keeps_dtype(of) || !is_number(of->outputs[0].dtype) || from->rank != to->rank || axes == 0 ||
        axes >> from->rank != 0)
        return false;
    for (int i = 0; i < to->rank; i++)
        if (to->extent[i] != ((axes >> i & 1) ? 1 : from->extent[i]))
            return false;
    return of->op == OP_SUM || tuff_shape_count(*from) > 0 || tuff_shape_count(*to) == 0;
}

static bool is_permutation(const node *of)
{
    const tuff_shape *from = input_shape(of, 0), *to = shape_of(of);
    uint32_t seen = 0;
    if (!keeps_dtype(of) || from->rank != to->rank)
        return false;
    for (int i = 0; i < to->rank; i++) {
        const int axis = of->attributes.order[i];
        if (axis < 0 || axis >= to->rank || (seen >> axis & 1) || to->extent[i] != from->extent[axis])
            return false;
        seen |= UINT32_C(1) << axis;
    }
    return true;
}

static bool is_expansion(const node *of)
{
    const tuff_shape *from = input_shape(of, 0), *to = shape_of(of);
    if (!keeps_dtype(of) || from->rank != to->rank)
        return false;
    for (int i = 0; i < to->rank; i++)
        if (from->extent[i] != to->extent[i] && from->extent[i] != 1)
            return false;
    return true;
}

static bool is_slice(const node *of)
{
    const tuff_shape *from = input_shape(of, 0), *to = shape_of(of);
    if (!keeps_dtype(of) || from->rank != to->rank)
        return false;
    for (int i = 0; i < to->rank; i++) {
        const int64_t start = of->attributes.start[i], step = of->attributes.step[i], count = to->extent[i];
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX || start < 0 || start > INT32_MAX)
            return false;
        const int64_t last = start + (count - 1) * step;
        if (count == 0 ? start != 0 : start >= from->extent[i] || last < 0 || last >= from->extent[i])
            return false;
    }
    return true;
}

static bool is_padding(const node *of)
{
    const tuff_shape *from = input_shape(of, 0), *to = shape_of(of);
    if (!keeps_dtype(of) || from->rank != to->rank)
        return false;
    for (int i = 0; i < to->rank; i++)
        if (of->attributes.start[i] < 0 || from->extent[i] > to->extent[i] ||
            of->attributes.start[i] > to->extent[i] - from->extent[i])
            return false;
    return true;
}

static bool is_concatenation(const node *of)
{
    int64_t extent = 0;
    if (of->input_count < 1 || !has_axis(of))
        return false;
    for (int i = 0; i < of->input_count; i++) {
        if (of->inputs[i]->dtype != of->outputs[0].dtype ||
            !equal_beside(*input_shape(of, i), *shape_of(of), of->attributes.axis))
            return false;
        extent += input_shape(of, i)->extent[of->attributes.axis];
    }
    return extent == shape_of(of)->extent[of->attributes.axis];
}

static bool is_product(const node *of)
{
    const tuff_shape *x = input_shape(of, 0), *y = input_shape(of, 1), *to = shape_of(of);
    const int rank = to->rank;
    if (rank < 2 || x->rank != rank || y->rank != rank || !keeps_dtype(of) ||
        of->inputs[1]->dtype != of->outputs[0].dtype || !tuff__dtype_is_float(of->outputs[0].dtype))
        return false;
    for (int i = 0; i < rank - 2; i++)
        if (x->extent[i] != to->extent[i] || y->extent[i] != to->extent[i])
            return false;
    return x->extent[rank - 2] == to->extent[rank - 2] && y->extent[rank - 1] == to->extent[rank - 1] &&
           x->extent[rank - 1] == y->extent[rank - 2] && tuff_shape_count(*x) > 0 && tuff_shape_count(*y) > 0;
}

static bool is_gather(const node *of)
{
    return has_axis(of) && keeps_dtype(of) && of->inputs[1]->dtype == TUFF_I32 &&
           tuff_shape_equal(*input_shape(of, 1), *shape_of(of)) &&
           equal_beside(*input_shape(of, 0), *shape_of(of), of->attributes.axis);
}

static bool is_scatter(const node *of)
{
    return has_axis(of) && keeps_dtype(of) && is_number(of->outputs[0].dtype) && of->inputs[1]->dtype == TUFF_I32 &&
           of->inputs[2]->dtype == of->outputs[0].dtype && tuff_shape_equal(*input_shape(of, 0), *shape_of(of)) &&
           tuff_shape_equal(*input_shape(of, 1), *input_shape(of, 2)) &&
           equal_beside(*input_shape(of, 1), *shape_of(of), of->attributes.axis);
}

static bool is_of_array(const node *of)
{
    const tuff_array *array = of->attributes.array;
    return array != NULL && array->dtype == of->outputs[0].dtype && tuff_shape_equal(array->shape, *shape_of(of));
}

static bool is_assign(const node *of)
{
    return is_of_array(of) && keeps_dtype(of) && tuff_shape_equal(*input_shape(of, 0), *shape_of(of));
}

static bool is_step(const tuff_tensor *x)
{
    return x->dtype == TUFF_I32 && x->shape.rank == 0;
}

/* q [B,T,H,D], k [B,S,G,D], v [B,S,G,E], and what belongs to rows of q. */
static bool operands_fit(const node *of, const attention_inputs *at, tuff_shape *result, tuff_shape *rows)
{
    const tuff_shape q = *input_shape(of, at->q), k = *input_shape(of, at->k);
    const tuff_shape v = at->v >= 0 ? *input_shape(of, at->v) : k;
    if (q.rank != 4 || k.rank != 4 || v.rank != 4 || tuff_shape_count(q) == 0 || tuff_shape_count(k) == 0 ||
        tuff_shape_count(v) == 0)
        return false;
    *result = q;
    result->extent[3] = v.extent[3];
    *rows = TUFF_SHAPE(q.extent[0], q.extent[1], q.extent[2]);
    return k.extent[0] == q.extent[0] && k.extent[3] == q.extent[3] && q.extent[2] % k.extent[2] == 0 &&
           v.extent[0] == k.extent[0] && v.extent[1] == k.extent[1] && v.extent[2] == k.extent[2];
}

static bool bias_fits(const node *of, const attention_inputs *at)
{
    const tuff_shape *q = input_shape(of, at->q), *k = input_shape(of, at->k);
    if (at->bias < 0)
        return true;
    const tuff_shape *bias = input_shape(of, at->bias);
    const int64_t want[4] = {q->extent[0], q->extent[2], q->extent[1], k->extent[1]};
    if (bias->rank != 4 || bias->extent[3] != want[3])
        return false;
    for (int i = 0; i < 3; i++)
        if (bias->extent[i] != want[i] && bias->extent[i] != 1)
            return false;
    return true;
}

static bool attention_attributes_fit(const op_attributes *of)
{
    const bool drops = (of->options & ATTENTION_DROPOUT) != 0;
    return of->options <= (ATTENTION_BIAS | ATTENTION_DROPOUT | ATTENTION_NO_SOFTMAX) && isfinite(of->value) &&
           of->start[0] >= -INT64_C(4) * INT32_MAX && of->start[0] <= INT64_C(4) * INT32_MAX &&
           of->start[1] >= -INT64_C(4) * INT32_MAX && of->start[1] <= INT64_C(4) * INT32_MAX &&
           (drops ? of->dropout > 0 && of->dropout < 1 : true);
}

static int attention_input_count(const attention_inputs *at)
{
    const int all[] = {at->q, at->k, at->v, at->lse, at->upstream, at->sums, at->bias, at->step};
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        count = all[i] >= count ? all[i] + 1 : count;
    return count;
}

static bool attention_result_fits(const node *of, const attention_inputs *at, tuff_shape result, tuff_shape rows)
{
    const tuff_shape *made = shape_of(of);
    switch (of->op) {
    case OP_ATTENTION_LSE:
        return tuff_shape_equal(*made, rows);
    case OP_ATTENTION:
        return tuff_shape_equal(*made, result);
    case OP_ATTENTION_DQ:
        return tuff_shape_equal(*made, *input_shape(of, at->q));
    case OP_ATTENTION_DK:
        return tuff_shape_equal(*made, *input_shape(of, at->k));
    case OP_ATTENTION_DV:
        return tuff_shape_equal(*made, *input_shape(of, at->v));
    default:
        return at->bias >= 0 && tuff_shape_equal(*made, *input_shape(of, at->bias));
    }
}

static bool is_attention(const node *of)
{
    const attention_inputs at = tuff__attention_inputs(of->op, of->attributes.options);
    tuff_shape result, rows;
    if (!attention_attributes_fit(&of->attributes) || of->input_count != attention_input_count(&at) ||
        !operands_fit(of, &at, &result, &rows) || !bias_fits(of, &at))
        return false;
    for (int i = 0; i < of->input_count; i++)
        if (i == at.step ? !is_step(of->inputs[i]) : of->inputs[i]->dtype != of->outputs[0].dtype)
            return false;
    return tuff__dtype_is_float(of->outputs[0].dtype) &&
           (at.lse < 0 || tuff_shape_equal(*input_shape(of, at.lse), rows)) &&
           (at.sums < 0 || tuff_shape_equal(*input_shape(of, at.sums), rows)) &&
           (at.upstream < 0 || tuff_shape_equal(*input_shape(of, at.upstream), result)) &&
           attention_result_fits(of, &at, result, rows);
}

static bool is_source(const node *of)
{
    switch (of->op) {
    case OP_ARRAY:
        return is_of_array(of);
    case OP_CONSTANT:
        return of->attributes.data != NULL || shape_of(of)->rank == 0;
    case OP_IOTA:
        return of->outputs[0].dtype == TUFF_I32 && has_axis(of);
    case OP_RANDOM:
        return of->outputs[0].dtype == TUFF_F32 && is_step(of->inputs[0]);
    default:
        return of->op == OP_INPUT;
    }
}

static bool is_movement(const node *of)
{
    switch (of->op) {
    case OP_RESHAPE:
        return keeps_dtype(of) && tuff_shape_count(*input_shape(of, 0)) == tuff_shape_count(*shape_of(of));
    case OP_PERMUTE:
        return is_permutation(of);
    case OP_EXPAND:
        return is_expansion(of);
    case OP_SLICE:
        return is_slice(of);
    case OP_PAD:
        return is_padding(of);
    default:
        return is_concatenation(of);
    }
}

bool tuff__node_is_plausible(const node *of)
{
    const op_info *info = tuff__op_info(of->op);
    if (info->input_count >= 0 && of->input_count != info->input_count)
        return false;
    if (info->kinds != OP_KIND_SPECIAL)
        return is_row(of);
    switch (of->op) {
    case OP_WHERE:
        return is_where(of);
    case OP_CAST:
        return tuff_shape_equal(*input_shape(of, 0), *shape_of(of));
    case OP_SUM:
    case OP_REDUCE_MAX:
        return is_reduction(of);
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_EXPAND:
    case OP_SLICE:
    case OP_PAD:
    case OP_CONCAT:
        return is_movement(of);
    case OP_MATMUL:
        return is_product(of);
    case OP_GATHER:
        return is_gather(of);
    case OP_SCATTER_ADD:
        return is_scatter(of);
    case OP_CUMSUM:
        return has_axis(of) && keeps_dtype(of) && is_number(of->outputs[0].dtype) &&
               tuff_shape_equal(*input_shape(of, 0), *shape_of(of));
    case OP_ASSIGN:
        return is_assign(of);
    default:
        return tuff__op_is_attention(of->op) ? is_attention(of) : is_source(of);
    }
}
