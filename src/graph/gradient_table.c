/* Gradients of the elementwise ops: the expressions of ops.def, read as graph builders. */
#include "graph/builder.h"

static tuff_tensor *zero_like(const tuff_tensor *x)
{
    return tuff__scalar(x, 0);
}

/* g where x > 0, -g where x < 0, else 0. */
static tuff_tensor *signed_as(tuff_tensor *g, tuff_tensor *x)
{
    tuff_tensor *positive = tuff_where(tuff_less(zero_like(x), x), g, zero_like(g));
    return tuff_where(tuff_less(x, zero_like(x)), tuff_neg(g), positive);
}

/* g where low < high, half of it where they are equal, else 0. */
static tuff_tensor *share(tuff_tensor *g, tuff_tensor *low, tuff_tensor *high)
{
    tuff_tensor *tied = tuff_where(tuff_equal(low, high), tuff__scale(g, 0.5), zero_like(g));
    return tuff_where(tuff_less(low, high), g, tied);
}

/* x^0 is 1 everywhere, hence its slope 0, also where x^-1 is infinite. */
static tuff_tensor *power_base(tuff_tensor *g, tuff_tensor *x, tuff_tensor *y)
{
    tuff_tensor *slope = tuff_mul(y, tuff_pow(x, tuff__shift(y, -1)));
    return tuff_where(tuff_equal(y, zero_like(y)), zero_like(g), tuff_mul(g, slope));
}

/* 0^y stays 0 as y moves. */
static tuff_tensor *power_exponent(tuff_tensor *g, tuff_tensor *x, tuff_tensor *f)
{
    return tuff_where(tuff_equal(x, zero_like(x)), zero_like(g), tuff_mul(g, tuff_mul(f, tuff_log(x))));
}

/* The names that the expressions use. */
#define neg(x) tuff_neg(x)
#define mul(x, y) tuff_mul(x, y)
#define div(x, y) tuff_div(x, y)
#define sub(x, y) tuff_sub(x, y)
#define exp(x) tuff_exp(x)
#define log(x) tuff_log(x)
#define sin(x) tuff_sin(x)
#define cos(x) tuff_cos(x)
#define sigmoid(x) tuff_sigmoid(x)
#define scale(x, factor) tuff__scale(x, factor)
#define shift(x, term) tuff__shift(x, term)
#define one(x) tuff__scalar(x, 1)
#define G(...) CHOOSE(__VA_ARGS__, NULL, NULL, NULL)
#define CHOOSE(dx, dy, dz, ...) (input == 0 ? (dx) : input == 1 ? (dy) : (dz))

#define ELEMENTWISE(code, name, inputs, kinds, value, integer_value, partials, gradients, ulps, low, high) \
    static tuff_tensor *gradient_of_##name(tuff_tensor *x, tuff_tensor *y, tuff_tensor *z, tuff_tensor *f, \
                                           tuff_tensor *g, int input)                                      \
    {                                                                                                      \
        (void)x, (void)y, (void)z, (void)f, (void)g, (void)input;                                          \
        return gradients;                                                                                  \
    }
#define SPECIAL(code, name, inputs)
#include "ops/ops.def"
#undef ELEMENTWISE

typedef tuff_tensor *(*gradient_function)(tuff_tensor *x, tuff_tensor *y, tuff_tensor *z, tuff_tensor *f,
                                          tuff_tensor *g, int input);

static const gradient_function functions[OP_COUNT] = {
#define ELEMENTWISE(code, name, ...) [OP_##code] = gradient_of_##name,
#include "ops/ops.def"
};

tuff_tensor *tuff__table_gradient(const node *of, tuff_tensor *upstream, int input)
{
    tuff_tensor *x = of->inputs[0], *y = of->input_count > 1 ? of->inputs[1] : NULL;
    tuff_tensor *z = of->input_count > 2 ? of->inputs[2] : NULL;
    return functions[of->op](x, y, z, &of->outputs[0], upstream, input);
}
