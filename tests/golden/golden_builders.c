/* Golden ops by name, and how to build each with tuff's functions. */
#include "golden_builders.h"

#include <math.h>
#include <string.h>

static tuff_tensor *input_x(const golden_case *c)
{
    return golden_input(c, "x");
}

static int axes_of(const golden_case *c, int *axes)
{
    int64_t list[TUFF_MAX_RANK];
    const int count = golden_list(c, "axes", list);
    for (int i = 0; i < count; i++)
        axes[i] = (int)list[i];
    return count;
}

static int axis_of(const golden_case *c)
{
    return (int)golden_whole(c, "axis", 0);
}

#define UNARY(name, function)                              \
    static tuff_tensor *build_##name(const golden_case *c) \
    {                                                      \
        return function(input_x(c));                       \
    }
#define BINARY(name, function, first, second)                             \
    static tuff_tensor *build_##name(const golden_case *c)                \
    {                                                                     \
        return function(golden_input(c, first), golden_input(c, second)); \
    }
#define REDUCTION(name, function)                                         \
    static tuff_tensor *build_##name(const golden_case *c)                \
    {                                                                     \
        int axes[TUFF_MAX_RANK];                                          \
        const int count = axes_of(c, axes);                               \
        return function(input_x(c), axes, count, golden_flag(c, "keep")); \
    }
#define SPREAD(name, function)                                                                  \
    static tuff_tensor *build_##name(const golden_case *c)                                      \
    {                                                                                           \
        int axes[TUFF_MAX_RANK];                                                                \
        const int count = axes_of(c, axes), correction = (int)golden_whole(c, "correction", 0); \
        return function(input_x(c), axes, count, golden_flag(c, "keep"), correction);           \
    }
#define ALONG(name, function)                              \
    static tuff_tensor *build_##name(const golden_case *c) \
    {                                                      \
        return function(input_x(c), axis_of(c));           \
    }

UNARY(abs, tuff_abs)
UNARY(cos, tuff_cos)
UNARY(erf, tuff_erf)
UNARY(exp, tuff_exp)
UNARY(gelu_erf, tuff_gelu)
UNARY(gelu_tanh, tuff_gelu_tanh)
UNARY(log, tuff_log)
UNARY(relu, tuff_relu)
UNARY(rsqrt, tuff_rsqrt)
UNARY(sigmoid, tuff_sigmoid)
UNARY(silu, tuff_silu)
UNARY(sin, tuff_sin)
UNARY(softplus, tuff_softplus)
UNARY(sqrt, tuff_sqrt)
UNARY(tanh, tuff_tanh)
BINARY(add, tuff_add, "x", "y")
BINARY(sub, tuff_sub, "x", "y")
BINARY(mul, tuff_mul, "x", "y")
BINARY(div, tuff_div, "x", "y")
BINARY(pow, tuff_pow, "x", "y")
BINARY(maximum, tuff_max, "x", "y")
BINARY(minimum, tuff_min, "x", "y")
BINARY(mse, tuff_mse, "x", "target")
BINARY(swiglu, tuff_swiglu, "gate", "up")
BINARY(embedding, tuff_embedding, "weight", "ids")
REDUCTION(sum, tuff_sum)
REDUCTION(mean, tuff_mean)
REDUCTION(max, tuff_reduce_max)
REDUCTION(min, tuff_reduce_min)
SPREAD(variance, tuff_variance)
SPREAD(std, tuff_std)
ALONG(cumsum, tuff_cumsum)
ALONG(softmax, tuff_softmax)
ALONG(log_softmax, tuff_log_softmax)
ALONG(glu, tuff_glu)

static tuff_tensor *build_where(const golden_case *c)
{
    return tuff_where(golden_input(c, "cond"), input_x(c), golden_input(c, "y"));
}

static tuff_tensor *build_clamp(const golden_case *c)
{
    return tuff_clamp(input_x(c), golden_real(c, "low", -INFINITY), golden_real(c, "high", INFINITY));
}

static tuff_tensor *build_pow_scalar(const golden_case *c)
{
    return tuff_pow_scalar(input_x(c), golden_real(c, "exponent", 1));
}

static tuff_tensor *build_argmax(const golden_case *c)
{
    return tuff_argmax(input_x(c), axis_of(c), false);
}

static tuff_tensor *build_layer_norm(const golden_case *c)
{
    return tuff_layer_norm(input_x(c), golden_input(c, "gain"), golden_input(c, "bias"),
                           (int)golden_whole(c, "trailing", 1), golden_real(c, "eps", 0));
}

static tuff_tensor *build_rms_norm(const golden_case *c)
{
    return tuff_rms_norm(input_x(c), golden_input(c, "gain"), (int)golden_whole(c, "trailing", 1),
                         golden_real(c, "eps", 0));
}

static tuff_tensor *build_group_norm(const golden_case *c)
{
    return tuff_group_norm(input_x(c), golden_input(c, "gain"), golden_input(c, "bias"),
                           (int)golden_whole(c, "groups", 1), golden_real(c, "eps", 0));
}

static tuff_tensor *build_permute(const golden_case *c)
{
    int64_t list[TUFF_MAX_RANK];
    int order[TUFF_MAX_RANK];
    const int count = golden_list(c, "order", list);
    for (int i = 0; i < count; i++)
        order[i] = (int)list[i];
    return tuff_permute(input_x(c), order);
}

static tuff_tensor *build_expand(const golden_case *c)
{
    tuff_shape shape = {0};
    shape.rank = golden_list(c, "shape", shape.extent);
    return tuff_expand(input_x(c), shape);
}

static tuff_tensor *build_slice(const golden_case *c)
{
    int64_t start[TUFF_MAX_RANK], stop[TUFF_MAX_RANK], step[TUFF_MAX_RANK];
    golden_list(c, "start", start);
    golden_list(c, "stop", stop);
    return tuff_slice(input_x(c), start, stop, golden_list(c, "step", step) > 0 ? step : NULL);
}

static tuff_tensor *build_pad(const golden_case *c)
{
    int64_t before[TUFF_MAX_RANK], after[TUFF_MAX_RANK];
    golden_list(c, "before", before);
    golden_list(c, "after", after);
    return tuff_pad(input_x(c), before, after, golden_real(c, "value", 0));
}

static tuff_tensor *build_concat(const golden_case *c)
{
    char name[] = "x0";
    tuff_tensor *parts[GOLDEN_INPUTS_MAX];
    int count = 0;
    while (count < GOLDEN_INPUTS_MAX && (parts[count] = golden_input(c, name))) {
        count++;
        name[1]++;
    }
    return tuff_concat(parts, count, axis_of(c));
}

static tuff_tensor *transposed(tuff_tensor *x, bool really)
{
    const int rank = tuff_tensor_shape(x).rank;
    int order[TUFF_MAX_RANK];
    if (!really || rank < 2)
        return x;
    for (int i = 0; i < rank; i++)
        order[i] = i;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    return tuff_permute(x, order);
}

static tuff_tensor *build_matmul(const golden_case *c)
{
    tuff_tensor *x = input_x(c), *y = golden_flag(c, "same") ? x : golden_input(c, "y");
    return tuff_matmul(transposed(x, golden_flag(c, "transpose_x")), transposed(y, golden_flag(c, "transpose_y")));
}

/* [B,T,A,K] · [A,K,N]: the batch axis of y is in the middle of x. */
static tuff_tensor *build_matmul_middle_batch(const golden_case *c)
{
    const int outwards[] = {2, 0, 1, 3}, back[] = {1, 2, 0, 3};
    tuff_tensor *x = input_x(c), *y = golden_input(c, "y");
    const tuff_shape shape = tuff_tensor_shape(x);
    const int64_t *from = shape.extent, width = tuff_tensor_shape(y).extent[2];
    tuff_tensor *rows = tuff_reshape(tuff_permute(x, outwards), TUFF_SHAPE(from[2], from[0] * from[1], from[3]));
    tuff_tensor *product = tuff_reshape(tuff_matmul(rows, y), TUFF_SHAPE(from[2], from[0], from[1], width));
    return tuff_permute(product, back);
}

static tuff_tensor *build_linear(const golden_case *c)
{
    return tuff_linear(input_x(c), golden_input(c, "weight"), golden_input(c, "bias"));
}

static tuff_tensor *build_linear_gelu(const golden_case *c)
{
    return tuff_gelu_tanh(build_linear(c));
}

static tuff_tensor *build_gather_rows(const golden_case *c)
{
    return tuff_gather_rows(input_x(c), golden_input(c, "indices"), axis_of(c));
}

static tuff_tensor *build_gather_along(const golden_case *c)
{
    return tuff_gather(input_x(c), golden_input(c, "indices"), axis_of(c));
}

static tuff_tensor *build_scatter_add_rows(const golden_case *c)
{
    return tuff_scatter_add_rows(input_x(c), golden_input(c, "indices"), golden_input(c, "source"), axis_of(c));
}

static tuff_tensor *build_scatter_add_along(const golden_case *c)
{
    return tuff_scatter_add(input_x(c), golden_input(c, "indices"), golden_input(c, "source"), axis_of(c));
}

static tuff_tensor *build_cross_entropy(const golden_case *c)
{
    return tuff_cross_entropy(input_x(c), golden_input(c, "target"), golden_whole(c, "ignore_index", -100),
                              golden_real(c, "label_smoothing", 0));
}

static tuff_tensor *build_rope(const golden_case *c)
{
    const bool half = strcmp(golden_text(c, "pairs"), "half") == 0;
    return tuff_rope(input_x(c), half ? TUFF_ROPE_HALF : TUFF_ROPE_INTERLEAVED, golden_real(c, "theta", 10000),
                     golden_whole(c, "offset", 0), NULL);
}

static tuff_tensor *build_conv2d(const golden_case *c)
{
    const int64_t stride = golden_whole(c, "stride", 1), padding = golden_whole(c, "padding", 0);
    const tuff_conv2d_options options = {.stride = {stride, stride}, .padding = {padding, padding}};
    return tuff_conv2d(input_x(c), golden_input(c, "weight"), golden_input(c, "bias"), &options);
}

static tuff_tensor *build_patch_embed(const golden_case *c)
{
    return tuff_patch_embed(golden_input(c, "image"), golden_input(c, "weight"), golden_input(c, "bias"));
}

static tuff_pool2d_options pool_of(const golden_case *c)
{
    const int64_t size = golden_whole(c, "size", 0), stride = golden_whole(c, "stride", 0);
    return (tuff_pool2d_options){.size = {size, size}, .stride = {stride, stride}};
}

static tuff_tensor *build_avg_pool(const golden_case *c)
{
    const tuff_pool2d_options options = pool_of(c);
    return tuff_avg_pool2d(input_x(c), &options);
}

static tuff_tensor *build_max_pool(const golden_case *c)
{
    const tuff_pool2d_options options = pool_of(c);
    return tuff_max_pool2d(input_x(c), &options);
}

/* The result is the values; the indices are a separate output. */
static tuff_tensor *build_top_k(const golden_case *c)
{
    tuff_tensor *indices, *values = tuff_top_k(input_x(c), golden_whole(c, "k", 0), axis_of(c), &indices);
    tuff_output(c->graph, "out.values", values);
    tuff_output(c->graph, "out.indices", indices);
    return values;
}

static tuff_tensor *build_attention(const golden_case *c)
{
    const tuff_attention_options options = {.scale = golden_real(c, "scale", 0),
                                            .causal = golden_flag(c, "causal"),
                                            .window = golden_whole(c, "window", 0),
                                            .no_softmax = !golden_flag(c, "softmax"),
                                            .bias = golden_input(c, "bias")};
    return tuff_attention(golden_input(c, "q"), golden_input(c, "k"), golden_input(c, "v"), &options);
}

static const struct {
    const char *op;
    golden_builder build;
} builders[] = {
    {"abs", build_abs},
    {"add", build_add},
    {"argmax", build_argmax},
    {"attention", build_attention},
    {"avg_pool", build_avg_pool},
    {"clamp", build_clamp},
    {"concat", build_concat},
    {"conv2d", build_conv2d},
    {"cos", build_cos},
    {"cross_entropy", build_cross_entropy},
    {"cumsum", build_cumsum},
    {"div", build_div},
    {"embedding", build_embedding},
    {"erf", build_erf},
    {"exp", build_exp},
    {"expand", build_expand},
    {"gather_along", build_gather_along},
    {"gather_rows", build_gather_rows},
    {"gelu_erf", build_gelu_erf},
    {"gelu_tanh", build_gelu_tanh},
    {"glu", build_glu},
    {"group_norm", build_group_norm},
    {"layer_norm", build_layer_norm},
    {"linear", build_linear},
    {"linear_gelu", build_linear_gelu},
    {"log", build_log},
    {"log_softmax", build_log_softmax},
    {"matmul", build_matmul},
    {"matmul_middle_batch", build_matmul_middle_batch},
    {"max", build_max},
    {"max_pool", build_max_pool},
    {"maximum", build_maximum},
    {"mean", build_mean},
    {"min", build_min},
    {"minimum", build_minimum},
    {"mse", build_mse},
    {"mul", build_mul},
    {"pad", build_pad},
    {"patch_embed", build_patch_embed},
    {"permute", build_permute},
    {"pow", build_pow},
    {"pow_scalar", build_pow_scalar},
    {"relu", build_relu},
    {"rms_norm", build_rms_norm},
    {"rope", build_rope},
    {"rsqrt", build_rsqrt},
    {"scatter_add_along", build_scatter_add_along},
    {"scatter_add_rows", build_scatter_add_rows},
    {"sigmoid", build_sigmoid},
    {"silu", build_silu},
    {"sin", build_sin},
    {"slice", build_slice},
    {"softmax", build_softmax},
    {"softplus", build_softplus},
    {"sqrt", build_sqrt},
    {"std", build_std},
    {"sub", build_sub},
    {"sum", build_sum},
    {"swiglu", build_swiglu},
    {"tanh", build_tanh},
    {"top_k", build_top_k},
    {"variance", build_variance},
    {"where", build_where},
};

golden_builder golden_find_builder(const char *op)
{
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
        if (strcmp(builders[i].op, op) == 0)
            return builders[i].build;
    return NULL;
}
