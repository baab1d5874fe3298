/* Builders of movement ops: reshape, permute, expand, slice, pad and concat compute nothing and only map elements of
   the result to those of their operands. A builder returns its operand if the op would change nothing, so the compiler
   never sees an identity. Read next: src/compile, which turns most of them into strided views. */
#include "graph/builder.h"

/* Infers the one extent that may be -1. */
static bool infer_extent(const tuff_tensor *x, tuff_shape *shape)
{
    int unknown = -1;
    int64_t known = 1;
    for (int axis = 0; axis < shape->rank && shape->rank <= TUFF_MAX_RANK; axis++) {
        if (shape->extent[axis] == -1 && unknown >= 0)
            return false;
        if (shape->extent[axis] == -1)
            unknown = axis;
        else if (shape->extent[axis] < 0 || shape->extent[axis] > INT32_MAX || known > INT32_MAX)
            return true; /* tuff__shape_is_legal reports it */
        else
            known *= shape->extent[axis];
    }
    if (unknown < 0)
        return true;
    const int64_t count = tuff_shape_count(x->shape);
    if (known == 0 || count % known != 0)
        return false;
    shape->extent[unknown] = count / known;
    return true;
}

tuff_tensor *tuff_reshape(tuff_tensor *x, tuff_shape shape)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("reshape", &x, 1, &failure);
    if (!graph)
        return failure;
    const tuff_shape requested = shape;
    if (!infer_extent(x, &shape))
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "reshape: %s to %s: the extent -1 cannot be inferred",
                                SHAPE_TEXT(x->shape), SHAPE_TEXT(requested));
    if (!tuff__shape_is_legal(graph, "reshape", shape))
        return &graph->failed;
    if (tuff_shape_count(shape) != tuff_shape_count(x->shape))
        return tuff__graph_fail(graph, TUFF_E_SHAPE,
                                "reshape: %s to %s: the numbers of elements, %lld and %lld, differ",
                                SHAPE_TEXT(x->shape), SHAPE_TEXT(shape), (long long)tuff_shape_count(x->shape),
                                (long long)tuff_shape_count(shape));
    return tuff_shape_equal(x->shape, shape) ? x : tuff__node_create(graph, OP_RESHAPE, x->dtype, shape, &x, 1, NULL);
}

/* order may count axes from the end; the attribute counts them from the front. */
tuff_tensor *tuff_permute(tuff_tensor *x, const int *order)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("permute", &x, 1, &failure);
    if (!graph)
        return failure;
    if (!order && x->shape.rank > 0)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "permute: %s: the order is NULL", SHAPE_TEXT(x->shape));
    op_attributes attributes = {0};
    tuff_shape shape = {.rank = x->shape.rank};
    bool seen[TUFF_MAX_RANK] = {false}, identity = true;
    for (int i = 0; i < shape.rank; i++) {
        int axis;
        if (!tuff__resolve_axis("permute", x, order[i], &axis))
            return &graph->failed;
        if (seen[axis])
            return tuff__graph_fail(graph, TUFF_E_SHAPE, "permute: %s: axis %d is given twice", SHAPE_TEXT(x->shape),
                                    axis);
        seen[axis] = true;
        identity = identity && axis == i;
        attributes.order[i] = axis;
        shape.extent[i] = x->shape.extent[axis];
    }
    return identity ? x : tuff__node_create(graph, OP_PERMUTE, x->dtype, shape, &x, 1, &attributes);
}

/* The public form broadcasts like NumPy; tuff__expand_to splits it into RESHAPE, for new axes, and EXPAND. */
tuff_tensor *tuff_expand(tuff_tensor *x, tuff_shape shape)
{
    tuff_tensor *failure;
    tuff_shape broadcast;
    tuff_graph *graph = tuff__check_operands("expand", &x, 1, &failure);
    if (!graph || !tuff__shape_is_legal(graph, "expand", shape))
        return failure;
    if (!tuff__broadcast(x->shape, shape, &broadcast) || !tuff_shape_equal(broadcast, shape))
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "expand: %s does not broadcast to %s", SHAPE_TEXT(x->shape),
                                SHAPE_TEXT(shape));
    return tuff__expand_to(x, shape);
}

/* Returns the extent of one axis of a slice; -1 if start, stop and step do not fit extent. */
static int64_t slice_extent(int64_t extent, int64_t start, int64_t stop, int64_t step)
{
    if (step > 0)
        return start < 0 || stop < start || stop > extent ? -1 : stop == start ? 0 : (stop - start - 1) / step + 1;
    if (step == 0 || stop < -1 || start < stop || start >= extent)
        return -1;
    return start == stop ? 0 : 1 - (start - stop - 1) / step;
}

/* Axes of one element get step 1, and empty axes get start 0, so that the compiler sees fewer kinds of views. */
tuff_tensor *tuff_slice(tuff_tensor *x, const int64_t *start, const int64_t *stop, const int64_t *step)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("slice", &x, 1, &failure);
    if (!graph)
        return failure;
    if ((!start || !stop) && x->shape.rank > 0)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "slice: %s: start or stop is NULL", SHAPE_TEXT(x->shape));
    op_attributes attributes = {0};
    tuff_shape shape = {.rank = x->shape.rank};
    bool identity = true;
    for (int axis = 0; axis < shape.rank; axis++) {
        const int64_t stride = step ? step[axis] : 1;
        const int64_t extent = slice_extent(x->shape.extent[axis], start[axis], stop[axis], stride);
        if (extent < 0)
            return tuff__graph_fail(
                graph, TUFF_E_SHAPE, "slice: %s: axis %d: start %lld, stop %lld and step %lld select no valid range",
                SHAPE_TEXT(x->shape), axis, (long long)start[axis], (long long)stop[axis], (long long)stride);
        shape.extent[axis] = extent;
        attributes.start[axis] = extent > 0 ? start[axis] : 0;
        attributes.step[axis] = extent > 1 ? stride : 1;
        identity = identity && extent == x->shape.extent[axis] && (extent <= 1 || stride == 1);
    }
    return identity ? x : tuff__node_create(graph, OP_SLICE, x->dtype, shape, &x, 1, &attributes);
}

/* For gradients and composites, which slice one axis at a time. */
tuff_tensor *tuff__slice_axis(tuff_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    if (!tuff__is_valid(x))
        return x;
    int64_t starts[TUFF_MAX_RANK] = {0}, stops[TUFF_MAX_RANK], steps[TUFF_MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        stops[i] = x->shape.extent[i];
        steps[i] = 1;
    }
    starts[axis] = start;
    stops[axis] = stop;
    steps[axis] = step;
    return tuff_slice(x, starts, stops, steps);
}

tuff_tensor *tuff__reverse_axis(tuff_tensor *x, int axis)
{
    return tuff__is_valid(x) ? tuff__slice_axis(x, axis, x->shape.extent[axis] - 1, -1, -1) : x;
}

/* Fills order for every axis that a shape may have; tuff_permute reads only those of x. */
tuff_tensor *tuff__swap_axes(tuff_tensor *x, int a, int b)
{
    int order[TUFF_MAX_RANK];
    for (int axis = 0; axis < TUFF_MAX_RANK; axis++)
        order[axis] = axis;
    order[a] = b;
    order[b] = a;
    return tuff_permute(x, order);
}

/* Rounds the fill value to the dtype here, so that a kernel's literal and the reference use the same value. */
tuff_tensor *tuff_pad(tuff_tensor *x, const int64_t *before, const int64_t *after, double value)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("pad", &x, 1, &failure);
    if (!graph)
        return failure;
    if ((!before || !after) && x->shape.rank > 0)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "pad: %s: before or after is NULL", SHAPE_TEXT(x->shape));
    op_attributes attributes = {.value = tuff__round_to(x->dtype, value)};
    tuff_shape shape = x->shape;
    for (int axis = 0; axis < shape.rank; axis++) {
        if (before[axis] < 0 || after[axis] < 0)
            return tuff__graph_fail(graph, TUFF_E_SHAPE,
                                    "pad: %s: axis %d: the padding, %lld and %lld, must not be negative",
                                    SHAPE_TEXT(x->shape), axis, (long long)before[axis], (long long)after[axis]);
        if (before[axis] > INT32_MAX || after[axis] > INT32_MAX)
            return tuff__graph_fail(graph, TUFF_E_LIMIT, "pad: %s: axis %d would have more than 2147483647 elements",
                                    SHAPE_TEXT(x->shape), axis);
        shape.extent[axis] += before[axis] + after[axis];
        attributes.start[axis] = before[axis];
    }
    if (!tuff__shape_is_legal(graph, "pad", shape))
        return &graph->failed;
    return tuff_shape_equal(shape, x->shape) ? x
                                             : tuff__node_create(graph, OP_PAD, x->dtype, shape, &x, 1, &attributes);
}

/* Whether part has the dtype and, except for the extent of axis, the shape of the first part. */
static bool part_fits(tuff_graph *graph, const tuff_tensor *first, const tuff_tensor *part, int axis)
{
    if (part->dtype != first->dtype) {
        tuff__graph_fail(graph, TUFF_E_DTYPE, "concat: %s %s and %s %s: the dtypes differ: cast one of them",
                         tuff_dtype_name(first->dtype), SHAPE_TEXT(first->shape), tuff_dtype_name(part->dtype),
                         SHAPE_TEXT(part->shape));
        return false;
    }
    if (tuff_shape_equal(first->shape, tuff__with_extent(part->shape, axis, first->shape.extent[axis])))
        return true;
    tuff__graph_fail(graph, TUFF_E_SHAPE, "concat: %s and %s: the shapes differ on an axis other than %d",
                     SHAPE_TEXT(first->shape), SHAPE_TEXT(part->shape), axis);
    return false;
}

/* Leaves out empty parts, so that kernels need not handle them. A single remaining part is returned itself. */
tuff_tensor *tuff_concat(tuff_tensor *const *parts, int count, int axis)
{
    tuff_tensor *failure;
    if (!parts || count < 1)
        return tuff__graph_fail(NULL, TUFF_E_USAGE, "concat: the list of tensors is NULL or empty");
    tuff_graph *graph = tuff__check_operands("concat", parts, count, &failure);
    if (!graph || !tuff__resolve_axis("concat", parts[0], axis, &axis))
        return failure;
    tuff_shape shape = tuff__with_extent(parts[0]->shape, axis, 0);
    tuff_tensor **kept = tuff__arena_alloc(&graph->arena, (size_t)count * sizeof(tuff_tensor *));
    if (!kept)
        return tuff__graph_fail(graph, TUFF_E_OOM_HOST, "concat: out of host memory for %d parts", count);
    int kept_count = 0;
    for (int i = 0; i < count; i++) {
        if (!part_fits(graph, parts[0], parts[i], axis))
            return &graph->failed;
        shape.extent[axis] += parts[i]->shape.extent[axis];
        if (parts[i]->shape.extent[axis] > 0)
            kept[kept_count++] = parts[i];
        if (!tuff__shape_is_legal(graph, "concat", shape))
            return &graph->failed;
    }
    if (kept_count <= 1)
        return kept_count == 1 ? kept[0] : parts[0];
    return tuff__node_create(graph, OP_CONCAT, parts[0]->dtype, shape, kept, kept_count,
                             &(op_attributes){.axis = axis});
}
