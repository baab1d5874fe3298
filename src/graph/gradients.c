/* Gradients of all ops, one function for each row of ops.def. The row itself holds an expression in graph builders; the
   functions in this file are parts that do not fit on a line there. autodiff.c calls them once for each input that
   needs a gradient. The result has that input's shape and dtype, or is NULL if the gradient is 0 everywhere. */
#include "graph/builder.h"

static tuff_tensor *zeros(const tuff_tensor *x)
{
    return tuff__full(x->graph, x->dtype, x->shape, 0);
}

/* REDUCE_MAX: elements that tie for the maximum share the gradient equally. */
static tuff_tensor *reduce_max_gradient(const node *n, tuff_tensor *g)
{
    tuff_tensor *x = n->inputs[0];
    tuff_tensor *largest = tuff_equal(x, &n->outputs[0]);
    int axes[TUFF_MAX_RANK], count = 0;
    for (int axis = 0; axis < x->shape.rank; axis++)
        if (n->attributes.axes >> axis & 1)
            axes[count++] = axis;
    tuff_tensor *ties = tuff_sum(tuff_cast(largest, g->dtype), axes, count, true);
    return tuff_where(largest, tuff_div(g, ties), tuff__scalar(g, 0));
}

static tuff_tensor *permute_gradient(const node *n, tuff_tensor *g)
{
    int inverse[TUFF_MAX_RANK] = {0};
    for (int axis = 0; axis < g->shape.rank; axis++)
        inverse[n->attributes.order[axis]] = axis;
    return tuff_permute(g, inverse);
}

/* EXPAND: sums the gradients of all copies of an element. */
static tuff_tensor *expand_gradient(const node *n, tuff_tensor *g)
{
    int axes[TUFF_MAX_RANK], count = 0;
    for (int axis = 0; axis < g->shape.rank; axis++)
        if (n->inputs[0]->shape.extent[axis] != g->shape.extent[axis])
            axes[count++] = axis;
    return tuff_sum(g, axes, count, true);
}

/* SLICE, undone axis by axis: reverses, dilates, then pads to the operand's extent. */
static tuff_tensor *slice_gradient(const node *n, tuff_tensor *g)
{
    const tuff_shape whole = n->inputs[0]->shape;
    int64_t before[TUFF_MAX_RANK] = {0}, after[TUFF_MAX_RANK] = {0};
    if (tuff_shape_count(g->shape) == 0)
        return zeros(n->inputs[0]);
    for (int axis = 0; axis < whole.rank; axis++) {
        const int64_t start = n->attributes.start[axis], step = n->attributes.step[axis];
        const int64_t extent = g->shape.extent[axis], magnitude = step < 0 ? -step : step;
        if (step < 0)
            g = tuff__slice_axis(g, axis, extent - 1, -1, -1);
        if (magnitude > 1)
            g = tuff__dilate(g, axis, magnitude);
        before[axis] = step < 0 ? start + (extent - 1) * step : start;
        after[axis] = whole.extent[axis] - before[axis] - ((extent - 1) * magnitude + 1);
        if (!tuff__is_valid(g))
            return g;
    }
    return tuff_pad(g, before, after, 0);
}

static tuff_tensor *pad_gradient(const node *n, tuff_tensor *g)
{
    int64_t stop[TUFF_MAX_RANK] = {0};
    for (int axis = 0; axis < g->shape.rank; axis++)
        stop[axis] = n->attributes.start[axis] + n->inputs[0]->shape.extent[axis];
    return tuff_slice(g, n->attributes.start, stop, NULL);
}

static tuff_tensor *concat_gradient(const node *n, tuff_tensor *g, int input)
{
    const int axis = n->attributes.axis;
    int64_t start = 0;
    for (int i = 0; i < input; i++)
        start += n->inputs[i]->shape.extent[axis];
    return tuff__slice_axis(g, axis, start, start + n->inputs[input]->shape.extent[axis], 1);
}

/* Returns the gradient of the source of SCATTER_ADD. Elements whose index is out of range were added nowhere and get 0,
   for which a plain gather would give NaN. */
static tuff_tensor *scatter_add_source_gradient(const node *n, tuff_tensor *g)
{
    tuff_tensor *indices = n->inputs[1];
    const int64_t extent = n->outputs[0].shape.extent[n->attributes.axis];
    tuff_tensor *inside = tuff_and(tuff_less(tuff__scalar(indices, -1), indices),
                                   tuff_less(indices, tuff__scalar(indices, (double)extent)));
    return tuff_where(inside, tuff_gather(g, indices, n->attributes.axis), tuff__scalar(g, 0));
}

/* For MATMUL, whose operands have equal batch axes: the gradient of EXPAND does the sums over shared ones. */
static tuff_tensor *transposed(tuff_tensor *x)
{
    return tuff__swap_axes(x, x->shape.rank - 2, x->shape.rank - 1);
}

/* Second derivatives of attention are not implemented. */
static tuff_tensor *no_second_gradient(const node *n)
{
    return tuff__graph_fail(n->outputs[0].graph, TUFF_E_UNSUPPORTED,
                            "gradients: second derivatives of attention are not supported (%s %s)",
                            tuff__op_info(n->op)->name, SHAPE_TEXT(n->outputs[0].shape));
}

static tuff_tensor *zero(const tuff_tensor *x)
{
    return tuff__scalar(x, 0);
}

/* g where x > 0, -g where x < 0, else 0. */
static tuff_tensor *multiply_by_sign(tuff_tensor *g, tuff_tensor *x)
{
    tuff_tensor *positive = tuff_where(tuff_less(zero(x), x), g, zero(g));
    return tuff_where(tuff_less(x, zero(x)), tuff_neg(g), positive);
}

/* g where low < high, half of it where they are equal, else 0. */
static tuff_tensor *gradient_if_less(tuff_tensor *g, tuff_tensor *low, tuff_tensor *high)
{
    tuff_tensor *tied = tuff_where(tuff_equal(low, high), tuff__scale(g, 0.5), zero(g));
    return tuff_where(tuff_less(low, high), g, tied);
}

/* d/dx of x^y. x^0 is 1 everywhere, so its derivative is 0, even where x^-1 is infinite. */
static tuff_tensor *pow_base_gradient(tuff_tensor *g, tuff_tensor *x, tuff_tensor *y)
{
    tuff_tensor *derivative = tuff_mul(y, tuff_pow(x, tuff__shift(y, -1)));
    return tuff_where(tuff_equal(y, zero(y)), zero(g), tuff_mul(g, derivative));
}

/* d/dy of x^y. At x = 0 and y >= 0 the derivative is 0, since 0^y stays 0 as y grows; for y < 0 it is infinite, by
   the formula. */
static tuff_tensor *pow_exponent_gradient(tuff_tensor *g, tuff_tensor *x, tuff_tensor *y, tuff_tensor *f)
{
    tuff_tensor *product = tuff_mul(g, tuff_mul(f, tuff_log(x)));
    tuff_tensor *stays = tuff_where(tuff_less(y, zero(y)), product, zero(g));
    return tuff_where(tuff_equal(x, zero(x)), stays, product);
}

/* Macros used in the column `gradients`. */
#define AXIS (n->attributes.axis)
#define G(...) CHOOSE(__VA_ARGS__, NULL, NULL, NULL)
#define CHOOSE(dx, dy, dz, ...) (input == 0 ? (dx) : input == 1 ? (dy) : (dz))

/* The expressions use the node n, its operands x, y, z, its result f and the upstream gradient g. */
#define GRADIENT(name, expression)                                                                        \
    static tuff_tensor *gradient_of_##name(const node *n, tuff_tensor *x, tuff_tensor *y, tuff_tensor *z, \
                                           tuff_tensor *f, tuff_tensor *g, int input)                     \
    {                                                                                                     \
        (void)n, (void)x, (void)y, (void)z, (void)f, (void)g, (void)input;                                \
        return expression;                                                                                \
    }
#define ELEMENTWISE(code, name, inputs, kinds, text, integer_text, value, partials, gradients, ...) \
    GRADIENT(name, gradients)
#define SPECIAL(code, name, inputs, kinds, pattern, operands, axes, attributes, cost, evaluate, valid, gradients) \
    GRADIENT(name, gradients)
#include "ops/ops.def"

typedef tuff_tensor *(*gradient_function)(const node *n, tuff_tensor *x, tuff_tensor *y, tuff_tensor *z, tuff_tensor *f,
                                          tuff_tensor *g, int input);

static const gradient_function functions[OP_COUNT] = {
#define ELEMENTWISE(code, name, ...) [OP_##code] = gradient_of_##name,
#define SPECIAL(code, name, ...) [OP_##code] = gradient_of_##name,
#include "ops/ops.def"
};

tuff_tensor *tuff__op_gradient(const node *n, tuff_tensor *upstream, int input)
{
    tuff_tensor *x = n->input_count > 0 ? n->inputs[0] : NULL, *y = n->input_count > 1 ? n->inputs[1] : NULL;
    tuff_tensor *z = n->input_count > 2 ? n->inputs[2] : NULL;
    return functions[n->op](n, x, y, z, &n->outputs[0], upstream, input);
}
