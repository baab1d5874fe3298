/* Elementwise composites: activations, their gated forms, powers and dropout. They are sequences of elementwise ops,
   which the compiler fuses with their surroundings into one kernel. If a branch of a selection could have an infinite
   value or derivative, that branch gets a harmless operand where it is not selected: infinity times the gradient 0 of
   an unselected element would be NaN. To add an activation: its function here, its prototype in include/tuff/nn.h, its
   case in the suite of composites. */
#include <math.h>

#include "graph/builder.h"
#include "tuff/nn.h"

/* max(x, 0) alone would pass half of the gradient at 0. It is still the other branch because it propagates NaN. */
tuff_tensor *tuff_relu(tuff_tensor *x)
{
    tuff_tensor *failure;
    if (!tuff__check_float_operand("relu", x, &failure))
        return failure;
    return tuff_where(tuff_less(tuff__scalar(x, 0), x), x, tuff__stop_gradient(tuff_max(x, tuff__scalar(x, 0))));
}

/* The exact form: 0.5 x (1 + erf(x / sqrt(2))). */
tuff_tensor *tuff_gelu(tuff_tensor *x)
{
    tuff_tensor *failure;
    if (!tuff__check_float_operand("gelu", x, &failure))
        return failure;
    return tuff_mul(tuff__scale(x, 0.5), tuff__shift(tuff_erf(tuff__scale(x, 0.70710678118654752440)), 1));
}

/* 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), computed as x sigmoid(2 u), which keeps its digits if
   tanh is near -1. */
tuff_tensor *tuff_gelu_tanh(tuff_tensor *x)
{
    tuff_tensor *failure;
    if (!tuff__check_float_operand("gelu_tanh", x, &failure))
        return failure;
    const double factor = 2 * 0.79788456080286535588;
    tuff_tensor *argument = tuff_mul(x, tuff__shift(tuff__scale(tuff_mul(x, x), factor * 0.044715), factor));
    return tuff_mul(x, tuff_sigmoid(argument));
}

/* The primitives check the operand. */
tuff_tensor *tuff_silu(tuff_tensor *x)
{
    return tuff_mul(x, tuff_sigmoid(x));
}

/* max(x, 0) + log(1 + exp(-|x|)) has no overflow and no cancellation. At 0, max gives the right derivative, 1/2,
   and the other term gives 0. */
tuff_tensor *tuff_softplus(tuff_tensor *x)
{
    tuff_tensor *failure;
    if (!tuff__check_float_operand("softplus", x, &failure))
        return failure;
    return tuff_add(tuff_max(x, tuff__scalar(x, 0)), tuff_log1p(tuff_exp(tuff_neg(tuff_abs(x)))));
}

/* expm1 keeps the digits of small x. It gets 0 if x is positive, because its exponential could overflow. */
tuff_tensor *tuff_elu(tuff_tensor *x, double alpha)
{
    tuff_tensor *failure;
    if (!tuff__check_float_operand("elu", x, &failure))
        return failure;
    tuff_tensor *positive = tuff_less(tuff__scalar(x, 0), x);
    tuff_tensor *below = tuff_expm1(tuff_where(positive, tuff__scalar(x, 0), x));
    return tuff_where(positive, x, tuff__scale(below, alpha));
}

tuff_tensor *tuff_leaky_relu(tuff_tensor *x, double slope)
{
    tuff_tensor *failure;
    if (!tuff__check_float_operand("leaky_relu", x, &failure))
        return failure;
    return tuff_where(tuff_less(tuff__scalar(x, 0), x), x, tuff__scale(x, slope));
}

/* Like relu: the derivative is 1 strictly between the bounds and 0 at and beyond them; min and max propagate NaN. */
tuff_tensor *tuff_clamp(tuff_tensor *x, double low, double high)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_float_operand("clamp", x, &failure);
    if (!graph)
        return failure;
    if (!(low <= high))
        return tuff__graph_fail(graph, TUFF_E_USAGE, "clamp: %s: the lower bound %g must not exceed the upper bound %g",
                                SHAPE_TEXT(x->shape), low, high);
    tuff_tensor *least = tuff__scalar(x, low), *greatest = tuff__scalar(x, high);
    tuff_tensor *inside = tuff_and(tuff_less(least, x), tuff_less(x, greatest));
    return tuff_where(inside, x, tuff__stop_gradient(tuff_min(tuff_max(x, least), greatest)));
}

/* Returns x^exponent for 1 <= exponent <= 8, by repeated squaring. */
static tuff_tensor *pow_by_squaring(tuff_tensor *x, int exponent)
{
    if (exponent == 1)
        return x;
    tuff_tensor *half = pow_by_squaring(x, exponent / 2);
    tuff_tensor *square = tuff_mul(half, half);
    return exponent % 2 ? tuff_mul(square, x) : square;
}

/* Special cases are exact and cheap. Only the rest uses the general power, whose kernel is expensive. */
tuff_tensor *tuff_pow_scalar(tuff_tensor *x, double exponent)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_float_operand("pow_scalar", x, &failure);
    if (!graph)
        return failure;
    if (exponent == 0)
        return tuff__full(graph, x->dtype, x->shape, 1);
    if (exponent == 0.5)
        return tuff_sqrt(x);
    if (exponent == -0.5)
        return tuff_rsqrt(x);
    if (fabs(exponent) > 8 || exponent != floor(exponent))
        return tuff_pow(x, tuff__scalar(x, exponent));
    /* Multiplies powers of 1 / x: the gradient of 1 / x^n would need x^2n, which may overflow although x^(-n-1) does
       not. */
    tuff_tensor *base = exponent > 0 ? x : tuff_div(tuff__scalar(x, 1), x);
    return pow_by_squaring(base, (int)fabs(exponent));
}

tuff_tensor *tuff_swiglu(tuff_tensor *gate, tuff_tensor *up)
{
    return tuff_mul(tuff_silu(gate), up);
}

/* Multiplies the first half of the axis by the sigmoid of the second. */
tuff_tensor *tuff_glu(tuff_tensor *x, int axis)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_float_operand("glu", x, &failure);
    if (!graph || !tuff__resolve_axis("glu", x, axis, &axis))
        return failure;
    const int64_t extent = x->shape.extent[axis];
    if (extent % 2)
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "glu: %s: axis %d must have an even extent", SHAPE_TEXT(x->shape),
                                axis);
    tuff_tensor *gate = tuff_sigmoid(tuff__slice_axis(x, axis, extent / 2, extent, 1));
    return tuff_mul(tuff__slice_axis(x, axis, 0, extent / 2, 1), gate);
}

/* Scales up the elements that are kept, so that inference is simply the graph without dropout. */
tuff_tensor *tuff_dropout(tuff_tensor *x, double probability)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_float_operand("dropout", x, &failure);
    if (!graph)
        return failure;
    if (!(probability >= 0 && probability <= 1))
        return tuff__graph_fail(graph, TUFF_E_USAGE, "dropout: %s: the probability %g must be between 0 and 1",
                                SHAPE_TEXT(x->shape), probability);
    if (probability == 0)
        return x;
    if (probability == 1)
        return tuff__full(graph, x->dtype, x->shape, 0);
    tuff_tensor *dropped = tuff_less(tuff_random(graph, x->shape), tuff_constant(graph, TUFF_F32, probability));
    return tuff_where(dropped, tuff__scalar(x, 0), tuff__scale(x, 1 / (1 - probability)));
}
