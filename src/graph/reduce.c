/* Builders of reductions and cumulative sums. Nodes keep reduced axes with extent 1, so that the result broadcasts
   against the operand; dropping the axes is a RESHAPE, which costs nothing. Composites of these are in
   composite/reduce.c. */
#include "graph/builder.h"

/* Converts the axes to a mask; each must be legal and given once. */
static bool make_axes_mask(const char *op, const tuff_tensor *x, const int *axes, int count, uint32_t *mask)
{
    *mask = 0;
    if (count < 0 || (count > 0 && !axes)) {
        tuff__graph_fail(x->graph, TUFF_E_USAGE, "%s: %s: %s", op, SHAPE_TEXT(x->shape),
                         count < 0 ? "the number of axes is negative" : "the axes are NULL");
        return false;
    }
    for (int i = 0; i < count; i++) {
        int axis;
        if (!tuff__resolve_axis(op, x, axes[i], &axis))
            return false;
        if (*mask >> axis & 1) {
            tuff__graph_fail(x->graph, TUFF_E_SHAPE, "%s: %s: axis %d is given twice", op, SHAPE_TEXT(x->shape), axis);
            return false;
        }
        *mask |= UINT32_C(1) << axis;
    }
    return true;
}

tuff_shape tuff__without_axes(tuff_shape shape, uint32_t mask)
{
    tuff_shape result = {.rank = 0};
    for (int axis = 0; axis < shape.rank; axis++)
        if (!(mask >> axis & 1))
            result.extent[result.rank++] = shape.extent[axis];
    return result;
}

/* Builds either reduction; they differ only in their op. Over no axes, the result is the operand itself. */
static tuff_tensor *reduce(op_code op, tuff_tensor *x, const int *axes, int count, bool keep)
{
    const char *name = tuff__op_info(op)->name;
    tuff_tensor *failure;
    uint32_t mask;
    tuff_graph *graph = tuff__check_operands(name, &x, 1, &failure);
    if (!graph)
        return failure;
    if (!tuff__op_accepts(op, x->dtype))
        return tuff__graph_fail(graph, TUFF_E_DTYPE, "%s: %s %s: expected f32, f16, bf16, i32 or u32", name,
                                tuff_dtype_name(x->dtype), SHAPE_TEXT(x->shape));
    if (!make_axes_mask(name, x, axes, count, &mask))
        return &graph->failed;
    if (mask == 0)
        return x;
    tuff_shape kept = x->shape;
    for (int axis = 0; axis < kept.rank; axis++)
        if (mask >> axis & 1)
            kept.extent[axis] = 1;
    if (op == OP_REDUCE_MAX && tuff_shape_count(x->shape) == 0 && tuff_shape_count(kept) > 0)
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "reduce_max: %s: the maximum of no elements is not defined",
                                SHAPE_TEXT(x->shape));
    tuff_tensor *made = tuff__node_create(graph, op, x->dtype, kept, &x, 1, &(op_attributes){.axes = mask});
    return keep ? made : tuff_reshape(made, tuff__without_axes(kept, mask));
}

tuff_tensor *tuff_sum(tuff_tensor *x, const int *axes, int count, bool keep)
{
    return reduce(OP_SUM, x, axes, count, keep);
}

tuff_tensor *tuff_reduce_max(tuff_tensor *x, const int *axes, int count, bool keep)
{
    return reduce(OP_REDUCE_MAX, x, axes, count, keep);
}

/* The node is always the whole cumulative sum; the compiler splits long ones. */
tuff_tensor *tuff_cumsum(tuff_tensor *x, int axis)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("cumsum", &x, 1, &failure);
    if (!graph)
        return failure;
    if (!tuff__op_accepts(OP_CUMSUM, x->dtype))
        return tuff__graph_fail(graph, TUFF_E_DTYPE, "cumsum: %s %s: expected f32, f16, bf16, i32 or u32",
                                tuff_dtype_name(x->dtype), SHAPE_TEXT(x->shape));
    if (!tuff__resolve_axis("cumsum", x, axis, &axis))
        return &graph->failed;
    return tuff__node_create(graph, OP_CUMSUM, x->dtype, x->shape, &x, 1, &(op_attributes){.axis = axis});
}
