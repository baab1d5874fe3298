/* Gradients of the ops that are no rows of values: selection, movement, reductions, contraction, indexing. Each
   function answers the gradient of one input in that input's shape and dtype. */
#include "graph/builder.h"

static tuff_tensor *zeros_like(const tuff_tensor *x)
{
    return tuff__filled(x->graph, x->dtype, x->shape, 0);
}

static tuff_tensor *where_gradient(const node *of, tuff_tensor *g, int input)
{
    tuff_tensor *zero = tuff__scalar(g, 0);
    return input == 1 ? tuff_where(of->inputs[0], g, zero) : tuff_where(of->inputs[0], zero, g);
}

/* Equal elements share evenly. */
static tuff_tensor *reduce_max_gradient(const node *of, tuff_tensor *g)
{
    tuff_tensor *x = of->inputs[0];
    tuff_tensor *largest = tuff_equal(x, &of->outputs[0]);
    int axes[TUFF_MAX_RANK], count = 0;
    for (int axis = 0; axis < x->shape.rank; axis++)
        if (of->attributes.axes >> axis & 1)
            axes[count++] = axis;
    tuff_tensor *ties = tuff_sum(tuff_cast(largest, g->dtype), axes, count, true);
    return tuff_where(largest, tuff_div(g, ties), tuff__scalar(g, 0));
}

static tuff_tensor *permute_gradient(const node *of, tuff_tensor *g)
{
    int inverse[TUFF_MAX_RANK] = {0};
    for (int axis = 0; axis < g->shape.rank; axis++)
        inverse[of->attributes.order[axis]] = axis;
    return tuff_permute(g, inverse);
}

/* What one element was copied to comes back as a sum. */
static tuff_tensor *expand_gradient(const node *of, tuff_tensor *g)
{
    int axes[TUFF_MAX_RANK], count = 0;
    for (int axis = 0; axis < g->shape.rank; axis++)
        if (of->inputs[0]->shape.extent[axis] != g->shape.extent[axis])
            axes[count++] = axis;
    return tuff_sum(g, axes, count, true);
}

/* Puts step - 1 zeros between the elements along axis. The axes before and behind are merged meanwhile, so that the
   rank stays legal. */
static tuff_tensor *dilate(tuff_tensor *g, int axis, int64_t step)
{
    const tuff_shape shape = g->shape;
    const int64_t extent = shape.extent[axis];
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < axis; i++)
        outer *= shape.extent[i];
    for (int i = axis + 1; i < shape.rank; i++)
        inner *= shape.extent[i];
    g = tuff_reshape(g, TUFF_SHAPE(outer, extent, 1, inner));
    g = tuff_pad(g, (int64_t[]){0, 0, 0, 0}, (int64_t[]){0, 0, step - 1, 0}, 0);
    g = tuff_reshape(g, TUFF_SHAPE(outer, extent * step, inner));
    g = tuff__slice_axis(g, 1, 0, (extent - 1) * step + 1, 1);
    return tuff_reshape(g, tuff__with_extent(shape, axis, (extent - 1) * step + 1));
}

/* Undoes the slice axis by axis: turned round, spread out, then padded to the whole. */
static tuff_tensor *slice_gradient(const node *of, tuff_tensor *g)
{
    const tuff_shape whole = of->inputs[0]->shape;
    int64_t before[TUFF_MAX_RANK] = {0}, after[TUFF_MAX_RANK] = {0};
    if (tuff_shape_count(g->shape) == 0)
        return zeros_like(of->inputs[0]);
    for (int axis = 0; axis < whole.rank; axis++) {
        const int64_t start = of->attributes.start[axis], step = of->attributes.step[axis];
        const int64_t extent = g->shape.extent[axis], magnitude = step < 0 ? -step : step;
        if (step < 0)
            g = tuff__slice_axis(g, axis, extent - 1, -1, -1);
        if (magnitude > 1)
            g = dilate(g, axis, magnitude);
        before[axis] = step < 0 ? start + (extent - 1) * step : start;
        after[axis] = whole.extent[axis] - before[axis] - ((extent - 1) * magnitude + 1);
        if (!tuff__is_sound(g))
            return g;
    }
    return tuff_pad(g, before, after, 0);
}

static tuff_tensor *pad_gradient(const node *of, tuff_tensor *g)
{
    int64_t stop[TUFF_MAX_RANK] = {0};
    for (int axis = 0; axis < g->shape.rank; axis++)
        stop[axis] = of->attributes.start[axis] + of->inputs[0]->shape.extent[axis];
    return tuff_slice(g, of->attributes.start, stop, NULL);
}

static tuff_tensor *concat_gradient(const node *of, tuff_tensor *g, int input)
{
    const int axis = of->attributes.axis;
    int64_t start = 0;
    for (int i = 0; i < input; i++)
        start += of->inputs[i]->shape.extent[axis];
    return tuff__slice_axis(g, axis, start, start + of->inputs[input]->shape.extent[axis], 1);
}

/* Nodes have operands of equal batch axes: sums over shared ones are EXPAND's gradient. */
static tuff_tensor *matmul_gradient(const node *of, tuff_tensor *g, int input)
{
    const int rank = g->shape.rank;
    if (input == 0)
        return tuff_matmul(g, tuff__swap_axes(of->inputs[1], rank - 2, rank - 1));
    return tuff_matmul(tuff__swap_axes(of->inputs[0], rank - 2, rank - 1), g);
}

static tuff_tensor *gather_gradient(const node *of, tuff_tensor *g)
{
    return tuff_scatter_add(zeros_like(of->inputs[0]), of->inputs[1], g, of->attributes.axis);
}

/* What an index outside scatters nowhere has no gradient, but would gather NaN. */
static tuff_tensor *scatter_add_gradient(const node *of, tuff_tensor *g, int input)
{
    if (input == 0)
        return g;
    tuff_tensor *indices = of->inputs[1];
    const int64_t extent = of->outputs[0].shape.extent[of->attributes.axis];
    tuff_tensor *inside = tuff_and(tuff_less(tuff__scalar(indices, -1), indices),
                                   tuff_less(indices, tuff__scalar(indices, (double)extent)));
    return tuff_where(inside, tuff_gather(g, indices, of->attributes.axis), tuff__scalar(g, 0));
}

/* Every element goes into all sums from its own on: a running sum from the end. */
static tuff_tensor *cumsum_gradient(const node *of, tuff_tensor *g)
{
    const int axis = of->attributes.axis;
    const int64_t extent = g->shape.extent[axis];
    g = tuff__slice_axis(g, axis, extent - 1, -1, -1);
    return tuff__slice_axis(tuff_cumsum(g, axis), axis, extent - 1, -1, -1);
}

/* What would pass back through a gradient of attention is not built. */
static tuff_tensor *fail_second_gradient(const node *of)
{
    return tuff__graph_fail(of->outputs[0].graph, TUFF_E_UNSUPPORTED,
                            "gradients: attention has no second derivatives (%s %s)", tuff__op_info(of->op)->name,
                            SHAPE_TEXT(of->outputs[0].shape));
}

tuff_tensor *tuff__special_gradient(const node *of, tuff_tensor *upstream, int input)
{
    tuff_tensor *x = of->inputs[0];
    switch (of->op) {
    case OP_WHERE:
        return where_gradient(of, upstream, input);
    case OP_CAST:
        return tuff_cast(upstream, x->dtype);
    case OP_SUM:
        return tuff_expand(upstream, x->shape);
    case OP_REDUCE_MAX:
        return reduce_max_gradient(of, upstream);
    case OP_RESHAPE:
        return tuff_reshape(upstream, x->shape);
    case OP_PERMUTE:
        return permute_gradient(of, upstream);
    case OP_EXPAND:
        return expand_gradient(of, upstream);
    case OP_SLICE:
        return slice_gradient(of, upstream);
    case OP_PAD:
        return pad_gradient(of, upstream);
    case OP_CONCAT:
        return concat_gradient(of, upstream, input);
    case OP_MATMUL:
        return matmul_gradient(of, upstream, input);
    case OP_GATHER:
        return gather_gradient(of, upstream);
    case OP_SCATTER_ADD:
        return scatter_add_gradient(of, upstream, input);
    case OP_CUMSUM:
        return cumsum_gradient(of, upstream);
    case OP_ASSIGN:
        return upstream;
    case OP_ATTENTION:
        return tuff__attention_gradient(of, upstream, input);
    case OP_ATTENTION_DQ:
    case OP_ATTENTION_DK:
    case OP_ATTENTION_DV:
    case OP_ATTENTION_DB:
        return fail_second_gradient(of);
    default:
        return NULL;
    }
}
