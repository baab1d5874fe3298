/* Windows along an axis: the builder of UNFOLD and its gradient, which is composed of other movement ops. Windows that
   touch without overlapping are a reshape, which is a view even of a value that is computed. */
#include "base/checked.h"
#include "graph/builder.h"

/* Returns shape with `axis` replaced by two axes. */
static tuff_shape window_shape(tuff_shape shape, int axis, int64_t count, int64_t size)
{
    for (int i = shape.rank++; i > axis + 1; i--)
        shape.extent[i] = shape.extent[i - 1];
    shape.extent[axis] = count;
    shape.extent[axis + 1] = size;
    return shape;
}

/* Whether windows fit the axis. Sets the graph's error if not. */
static bool windows_fit(const tuff_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation)
{
    const int64_t extent = x->shape.extent[axis];
    if (size < 1 || step < 1 || dilation < 1)
        tuff__graph_fail(x->graph, TUFF_E_SHAPE,
                         "unfold: %s: size %lld, step %lld and dilation %lld must be at least 1", SHAPE_TEXT(x->shape),
                         (long long)size, (long long)step, (long long)dilation);
    else if (size > extent || (size > 1 && dilation > (extent - 1) / (size - 1)))
        tuff__graph_fail(
            x->graph, TUFF_E_SHAPE,
            "unfold: %s: a window of %lld elements with dilation %lld does not fit in axis %d, which has %lld elements",
            SHAPE_TEXT(x->shape), (long long)size, (long long)dilation, axis, (long long)extent);
    else if (x->shape.rank == TUFF_MAX_RANK)
        tuff__graph_fail(x->graph, TUFF_E_LIMIT, "unfold: %s: the rank would exceed the limit", SHAPE_TEXT(x->shape));
    else
        return true;
    return false;
}

tuff_tensor *tuff__unfold_node(tuff_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("unfold", &x, 1, &failure);
    if (!graph || !tuff__resolve_axis("unfold", x, axis, &axis) || !windows_fit(x, axis, size, step, dilation))
        return failure;
    const int64_t count = (x->shape.extent[axis] - (size - 1) * dilation - 1) / step + 1;
    const tuff_shape shape = window_shape(x->shape, axis, count, size);
    if (!tuff__shape_is_legal(graph, "unfold", shape))
        return &graph->failed;
    /* With a single window, or a single element per window, the step or the dilation is never used. */
    const op_attributes attributes = {.axis = axis, .step = {count > 1 ? step : 1, size > 1 ? dilation : 1}};
    return tuff__node_create(graph, OP_UNFOLD, x->dtype, shape, &x, 1, &attributes);
}

tuff_tensor *tuff_unfold(tuff_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation)
{
    tuff_tensor *unfolded = tuff__unfold_node(x, axis, size, step, dilation);
    if (!tuff__is_valid(unfolded))
        return unfolded;
    axis = unfolded->node->attributes.axis;
    const int64_t count = unfolded->shape.extent[axis];
    if (size == 1)
        return tuff_reshape(tuff__slice_axis(x, axis, 0, (count - 1) * step + 1, step), unfolded->shape);
    if (count == 1)
        return tuff_reshape(tuff__slice_axis(x, axis, 0, (size - 1) * dilation + 1, dilation), unfolded->shape);
    if (step == size && dilation == 1)
        return tuff_reshape(tuff__slice_axis(x, axis, 0, count * size, 1), unfolded->shape);
    return unfolded;
}

/* Merges the axes before and after `axis` meanwhile, so that the rank stays legal. */
tuff_tensor *tuff__dilate(tuff_tensor *x, int axis, int64_t step)
{
    const tuff_shape shape = x->shape;
    const int64_t extent = shape.extent[axis];
    const int64_t outer = tuff__count_axes(shape, 0, axis), inner = tuff__count_axes(shape, axis + 1, shape.rank);
    x = tuff_reshape(x, TUFF_SHAPE(outer, extent, 1, inner));
    x = tuff_pad(x, (int64_t[]){0, 0, 0, 0}, (int64_t[]){0, 0, step - 1, 0}, 0);
    x = tuff_reshape(x, TUFF_SHAPE(outer, extent * step, inner));
    x = tuff__slice_axis(x, 1, 0, (extent - 1) * step + 1, 1);
    return tuff_reshape(x, tuff__with_extent(shape, axis, (extent - 1) * step + 1));
}

tuff_tensor *tuff__pad_axis(tuff_tensor *x, int axis, int64_t before, int64_t after)
{
    int64_t starts[TUFF_MAX_RANK] = {0}, ends[TUFF_MAX_RANK] = {0};
    starts[axis] = before;
    ends[axis] = after;
    return tuff_pad(x, starts, ends, 0);
}

/* [O, I, T, M] -> [O, I + (T-1)·shift, M]: the sum over t of the t-th part, moved by t·shift. A few parts are padded
   and added. Many are skewed by reshapes: rows are padded to `whole` + shift elements, and the flat data is then cut
   into rows of `whole`, which moves row t by t·shift. */
static tuff_tensor *add_shifted(tuff_tensor *g, int64_t shift)
{
    enum { FEW = 8 };
    const int64_t outer = g->shape.extent[0], count = g->shape.extent[1], parts = g->shape.extent[2];
    const int64_t inner = g->shape.extent[3], whole = count + (parts - 1) * shift;
    tuff_tensor *sum = NULL;
    for (int64_t t = 0; t < parts && parts <= FEW; t++) {
        tuff_tensor *part = tuff_reshape(tuff__slice_axis(g, 2, t, t + 1, 1), TUFF_SHAPE(outer, count, inner));
        part = tuff__pad_axis(part, 1, t * shift, (parts - 1 - t) * shift);
        sum = sum ? tuff_add(sum, part) : part;
    }
    if (sum)
        return sum;
    g = tuff__pad_axis(tuff_permute(g, (int[]){0, 2, 1, 3}), 2, 0, whole + shift - count);
    g = tuff_reshape(g, TUFF_SHAPE(outer, parts * (whole + shift), inner));
    g = tuff_reshape(tuff__slice_axis(g, 1, 0, parts * whole, 1), TUFF_SHAPE(outer, parts, whole, inner));
    return tuff_sum(g, (int[]){1}, 1, false);
}

/* Element p of the operand is at place j of window i if p = i·step + j·dilation. Contiguous places are cut into runs of
   step elements, each of which is a block of the operand. Otherwise (step and dilation > 1), windows are first dilated
   by step. */
tuff_tensor *tuff__fold_windows(const node *n, tuff_tensor *g)
{
    const tuff_shape whole = n->inputs[0]->shape, windows = n->outputs[0].shape;
    const int axis = n->attributes.axis;
    const int64_t extent = whole.extent[axis], dilation = n->attributes.step[1], size = windows.extent[axis + 1];
    const int64_t outer = tuff__count_axes(whole, 0, axis), inner = tuff__count_axes(whole, axis + 1, whole.rank);
    int64_t step = n->attributes.step[0], count = windows.extent[axis];
    g = tuff_reshape(g, TUFF_SHAPE(outer, count, size, inner));
    if (!tuff__is_valid(g) || outer == 0 || inner == 0)
        return tuff__is_valid(g) ? tuff__full(g->graph, g->dtype, whole, 0) : g;
    if (dilation > 1 && step > 1) {
        g = tuff__dilate(g, 1, step);
        count = (count - 1) * step + 1;
        step = 1;
    }
    const int64_t runs = tuff__divide_up(size, step);
    g = tuff_reshape(tuff__pad_axis(g, 2, 0, runs * step - size), TUFF_SHAPE(outer, count, runs, step * inner));
    if (!tuff__is_valid(g))
        return g;
    g = add_shifted(g, dilation);
    const int64_t reached = (count + (runs - 1) * dilation) * step;
    g = tuff_reshape(g, TUFF_SHAPE(outer, reached, inner));
    if (reached > extent)
        g = tuff__slice_axis(g, 1, 0, extent, 1);
    return tuff_reshape(reached < extent ? tuff__pad_axis(g, 1, 0, extent - reached) : g, whole);
}
