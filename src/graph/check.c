/* Checks and small helpers that builders share: legal shapes, dtypes and axes, broadcasting, and constants that take
   the dtype of what they are combined with. A failed check sets the graph's error, which names the op and the
   shapes. */
#include "graph/builder.h"

#include "base/checked.h"

bool tuff__shape_is_legal(tuff_graph *graph, const char *op, tuff_shape shape)
{
    if (shape.rank < 0 || shape.rank > TUFF_MAX_RANK) {
        tuff__graph_fail(graph, TUFF_E_LIMIT, "%s: rank %d is not in 0 to %d", op, shape.rank, TUFF_MAX_RANK);
        return false;
    }
    int64_t count = 1;
    bool fits = true;
    for (int axis = 0; axis < shape.rank; axis++) {
        if (shape.extent[axis] < 0) {
            tuff__graph_fail(graph, TUFF_E_SHAPE, "%s: the shape %s has a negative extent", op, SHAPE_TEXT(shape));
            return false;
        }
        /* An empty shape must not hide extents that its views and gradients could not have. */
        fits = fits && shape.extent[axis] <= INT32_MAX &&
               tuff__mul_i64(count, shape.extent[axis] > 0 ? shape.extent[axis] : 1, &count) && count <= INT32_MAX;
    }
    if (!fits)
        tuff__graph_fail(graph, TUFF_E_LIMIT, "%s: the shape %s has more than 2147483647 elements", op,
                         SHAPE_TEXT(shape));
    return fits;
}

/* f64 and i64 exist for files and the host only: many devices have neither. */
bool tuff__dtype_is_legal(tuff_graph *graph, const char *op, tuff_dtype dtype)
{
    if (dtype >= TUFF_F32 && dtype <= TUFF_BOOL)
        return true;
    tuff__graph_fail(graph, TUFF_E_DTYPE, "%s: tensors cannot be %s", op,
                     dtype == TUFF_F64 || dtype == TUFF_I64 ? tuff_dtype_name(dtype) : "of an unknown dtype");
    return false;
}

/* Negative axes count from the end, as in NumPy. */
bool tuff__axis(const char *op, const tuff_tensor *tensor, int axis, int *out)
{
    const int rank = tensor->shape.rank;
    if (axis < -rank || axis >= rank) {
        tuff__graph_fail(tensor->graph, TUFF_E_SHAPE, "%s: %s has no axis %d", op, SHAPE_TEXT(tensor->shape), axis);
        return false;
    }
    *out = axis < 0 ? axis + rank : axis;
    return true;
}

/* Shapes are aligned at their last axes; an extent of 1, or none, takes the other's. */
bool tuff__broadcast(tuff_shape a, tuff_shape b, tuff_shape *out)
{
    tuff_shape result = {.rank = a.rank > b.rank ? a.rank : b.rank};
    for (int axis = 0; axis < result.rank; axis++) {
        const int in_a = axis - (result.rank - a.rank), in_b = axis - (result.rank - b.rank);
        const int64_t x = in_a < 0 ? 1 : a.extent[in_a], y = in_b < 0 ? 1 : b.extent[in_b];
        if (x != y && x != 1 && y != 1)
            return false;
        result.extent[axis] = x == 1 ? y : x;
    }
    *out = result;
    return true;
}

/* EXPAND never changes the rank: a RESHAPE adds the leading axes, so that views stay simple to compose. */
tuff_tensor *tuff__expand_to(tuff_tensor *tensor, tuff_shape shape)
{
    if (!tuff__is_sound(tensor))
        return tensor;
    if (tensor->shape.rank < shape.rank) {
        tuff_shape padded = {.rank = shape.rank};
        const int added = shape.rank - tensor->shape.rank;
        for (int axis = 0; axis < shape.rank; axis++)
            padded.extent[axis] = axis < added ? 1 : tensor->shape.extent[axis - added];
        tensor = tuff_reshape(tensor, padded);
    }
    if (!tuff__is_sound(tensor) || tuff_shape_equal(tensor->shape, shape))
        return tensor;
    return tuff__node_create(tensor->graph, OP_EXPAND, tensor->dtype, shape, &tensor, 1, NULL);
}

/* What a number in an expression becomes; such constants may change their dtype. Those with data keep it. */
static bool is_scalar_constant(const tuff_tensor *tensor)
{
    return tensor->node->op == OP_CONSTANT && tensor->shape.rank == 0 && !tensor->node->attributes.data;
}

/* Whether dtype can stand for a constant of another dtype: any number for floats, whole numbers in range for
   integers. */
static bool can_hold(tuff_dtype dtype, const tuff_tensor *constant)
{
    if (dtype == TUFF_BOOL || constant->dtype == TUFF_BOOL)
        return dtype == constant->dtype;
    const double value = constant->node->attributes.value;
    return tuff__dtype_is_float(dtype) || tuff__round_to(dtype, value) == value;
}

/* `x * 2` for x in f16 must not fail because 2 was made as f32. */
tuff_tensor *tuff__as_dtype(tuff_tensor *tensor, tuff_dtype dtype)
{
    if (!tuff__is_sound(tensor) || tensor->dtype == dtype || !is_scalar_constant(tensor) || !can_hold(dtype, tensor))
        return tensor;
    return tuff_constant(tensor->graph, dtype, tensor->node->attributes.value);
}

/* The second operand is tried first: x * 2 is the usual way to write it. */
void tuff__agree(tuff_tensor **x, tuff_tensor **y)
{
    if ((*x)->dtype == (*y)->dtype)
        return;
    *y = tuff__as_dtype(*y, (*x)->dtype);
    if (tuff__is_sound(*y) && (*x)->dtype != (*y)->dtype)
        *x = tuff__as_dtype(*x, (*y)->dtype);
}

/* A scalar and an EXPAND: no memory whatever the shape. */
tuff_tensor *tuff__filled(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, double value)
{
    return tuff__expand_to(tuff_constant(graph, dtype, value), shape);
}

tuff_tensor *tuff__scalar(const tuff_tensor *like, double value)
{
    return tuff_constant(like->graph, like->dtype, value);
}

tuff_tensor *tuff__scale(tuff_tensor *x, double factor)
{
    return tuff__is_sound(x) && factor != 1 ? tuff_mul(x, tuff__scalar(x, factor)) : x;
}

tuff_tensor *tuff__shift(tuff_tensor *x, double term)
{
    return tuff__is_sound(x) && term != 0 ? tuff_add(x, tuff__scalar(x, term)) : x;
}

tuff_shape tuff__with_extent(tuff_shape shape, int axis, int64_t extent)
{
    shape.extent[axis] = extent;
    return shape;
}

tuff_tensor *tuff__stop_gradient(tuff_tensor *tensor)
{
    if (tuff__is_sound(tensor))
        tensor->node->stops_gradient = true;
    return tensor;
}
