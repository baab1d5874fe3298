/* Checks shared by builders: shapes, dtypes, names, arrays and axes; and broadcasting of shapes. */
#include "graph/builder.h"

#include "base/checked.h"

/* Even an empty shape must not have extents that its views and gradients could not have. */
bool tuff__shape_fits(tuff_shape shape)
{
    int64_t count = 1;
    for (int axis = 0; axis < shape.rank; axis++)
        if (shape.extent[axis] > INT32_MAX ||
            !tuff__mul_i64(count, shape.extent[axis] > 0 ? shape.extent[axis] : 1, &count) || count > INT32_MAX)
            return false;
    return true;
}

bool tuff__shape_is_legal(tuff_graph *graph, const char *op, tuff_shape shape)
{
    if (shape.rank < 0 || shape.rank > TUFF_MAX_RANK) {
        tuff__graph_fail(graph, TUFF_E_LIMIT, "%s: rank %d is out of range: expected 0 to %d", op, shape.rank,
                         TUFF_MAX_RANK);
        return false;
    }
    for (int axis = 0; axis < shape.rank; axis++)
        if (shape.extent[axis] < 0) {
            tuff__graph_fail(graph, TUFF_E_SHAPE, "%s: the shape %s has a negative extent", op, SHAPE_TEXT(shape));
            return false;
        }
    if (tuff__shape_fits(shape))
        return true;
    tuff__graph_fail(graph, TUFF_E_LIMIT, "%s: the shape %s has more than 2147483647 elements", op, SHAPE_TEXT(shape));
    return false;
}

/* f64 and i64 exist only in files and on the host: many devices lack them. */
bool tuff__dtype_is_legal(tuff_graph *graph, const char *op, tuff_dtype dtype)
{
    if (dtype >= TUFF_F32 && dtype <= TUFF_BOOL)
        return true;
    tuff__graph_fail(graph, TUFF_E_DTYPE, "%s: tensors cannot be %s", op,
                     dtype == TUFF_F64 || dtype == TUFF_I64 ? tuff_dtype_name(dtype) : "of an unknown dtype");
    return false;
}

bool tuff__name_is_legal(tuff_graph *graph, const char *op, const char *name)
{
    if (name && name[0])
        return true;
    tuff__graph_fail(graph, TUFF_E_USAGE, "%s: the name is %s", op, name ? "empty" : "NULL");
    return false;
}

bool tuff__array_is_legal(tuff_graph *graph, const char *op, const tuff_array *array)
{
    if (array && array->device == graph->device)
        return true;
    tuff__graph_fail(graph, TUFF_E_USAGE,
                     array ? "%s: the array is on another device than the graph" : "%s: the array is NULL", op);
    return false;
}

bool tuff__resolve_axis(const char *op, const tuff_tensor *tensor, int axis, int *out)
{
    const int rank = tensor->shape.rank;
    if (axis < -rank || axis >= rank) {
        tuff__graph_fail(tensor->graph, TUFF_E_SHAPE, "%s: %s has no axis %d", op, SHAPE_TEXT(tensor->shape), axis);
        return false;
    }
    *out = axis < 0 ? axis + rank : axis;
    return true;
}

/* Aligns the shapes at their last axes; an axis that is missing or has extent 1 takes the other shape's extent. */
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

tuff_shape tuff__with_extent(tuff_shape shape, int axis, int64_t extent)
{
    shape.extent[axis] = extent;
    return shape;
}
