/* Makes operands fit each other: expands shapes, and gives constant scalars the dtype of the other operands. */
#include "graph/builder.h"

/* EXPAND never changes the rank; RESHAPE does that first. */
tuff_tensor *tuff__expand_to(tuff_tensor *tensor, tuff_shape shape)
{
    if (!tuff__is_valid(tensor))
        return tensor;
    if (tensor->shape.rank < shape.rank) {
        tuff_shape padded = {.rank = shape.rank};
        const int added = shape.rank - tensor->shape.rank;
        for (int axis = 0; axis < shape.rank; axis++)
            padded.extent[axis] = axis < added ? 1 : tensor->shape.extent[axis - added];
        tensor = tuff_reshape(tensor, padded);
    }
    if (!tuff__is_valid(tensor) || tuff_shape_equal(tensor->shape, shape))
        return tensor;
    return tuff__node_create(tensor->graph, OP_EXPAND, tensor->dtype, shape, &tensor, 1, NULL);
}

/* Whether tensor is what a number in an expression becomes. Constants with data keep their dtype. */
static bool is_scalar_constant(const tuff_tensor *tensor)
{
    return tensor->node->op == OP_CONSTANT && tensor->shape.rank == 0 && !tensor->node->attributes.data;
}

/* Whether a constant can be converted to dtype: any number to floats, an integer to integers whose range it is in. A
   float constant never becomes an integer, which would turn a division by it into an integer division. */
static bool can_hold(tuff_dtype dtype, const tuff_tensor *constant)
{
    if (dtype == TUFF_BOOL || constant->dtype == TUFF_BOOL)
        return dtype == constant->dtype;
    const double value = constant->node->attributes.value;
    return tuff__dtype_is_float(dtype) ||
           (!tuff__dtype_is_float(constant->dtype) && tuff__round_to(dtype, value) == value);
}

tuff_tensor *tuff__as_dtype(tuff_tensor *tensor, tuff_dtype dtype)
{
    if (!tuff__is_valid(tensor) || tensor->dtype == dtype || !is_scalar_constant(tensor) || !can_hold(dtype, tensor))
        return tensor;
    return tuff_constant(tensor->graph, dtype, tensor->node->attributes.value);
}

/* Tries the second operand first, for expressions like x * 2. */
void tuff__unify_dtypes(tuff_tensor **x, tuff_tensor **y)
{
    if ((*x)->dtype == (*y)->dtype)
        return;
    *y = tuff__as_dtype(*y, (*x)->dtype);
    if (tuff__is_valid(*y) && (*x)->dtype != (*y)->dtype)
        *x = tuff__as_dtype(*x, (*y)->dtype);
}

tuff_tensor *tuff__full(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, double value)
{
    return tuff__expand_to(tuff_constant(graph, dtype, value), shape);
}

tuff_tensor *tuff__scalar(const tuff_tensor *like, double value)
{
    return tuff_constant(like->graph, like->dtype, value);
}
