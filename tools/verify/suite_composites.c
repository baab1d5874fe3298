/* Composites as cases of the suite. A COMPOSITE and a ROW line add one: `tuff verify` then runs it, and
   tests/graph/gradients.c differentiates it. tests/graph/composites.c runs those that it lists on devices, in narrow
   floats. */
#include <string.h>

#include "base/status.h"
#include "tools/verify/suite.h"
#include "tuff/nn.h"

#define COMPOSITE(name, expression)                                                                               \
    static tuff_tensor *name(const suite_case *test, tuff_graph *graph, tuff_tensor *const *x)                      \
    {                                                                                                             \
        (void)test, (void)graph;                                                                                    \
        return expression;                                                                                        \
    }
COMPOSITE(mean, tuff_mean(x[0], (int[]){0, 2}, 2, false))
COMPOSITE(variance, tuff_variance(x[0], (int[]){-1}, 1, true, 1))
COMPOSITE(std, tuff_std(x[0], (int[]){1}, 1, false, 0))
COMPOSITE(reduce_min, tuff_reduce_min(x[0], (int[]){1}, 1, false))
COMPOSITE(argmax, tuff_mul(x[0], tuff_cast(tuff_argmax(x[0], -1, true), test->dtype)))
COMPOSITE(one_hot, tuff_mul(x[0], tuff_cast(tuff_one_hot(x[1], 5), test->dtype)))
COMPOSITE(relu, tuff_relu(x[0]))
COMPOSITE(gelu, tuff_gelu(x[0]))
COMPOSITE(gelu_tanh, tuff_gelu_tanh(x[0]))
COMPOSITE(silu, tuff_silu(x[0]))
COMPOSITE(softplus, tuff_softplus(x[0]))
COMPOSITE(elu, tuff_elu(x[0], 1.5))
COMPOSITE(leaky_relu, tuff_leaky_relu(x[0], 0.1))
COMPOSITE(clamp, tuff_clamp(x[0], -1, 2))
COMPOSITE(pow_scalar_3, tuff_pow_scalar(x[0], 3))
COMPOSITE(pow_scalar_minus_2, tuff_pow_scalar(x[0], -2))
COMPOSITE(pow_scalar_2_5, tuff_pow_scalar(tuff_abs(x[0]), 2.5))
COMPOSITE(swiglu, tuff_swiglu(x[0], x[1]))
COMPOSITE(glu, tuff_glu(x[0], 1))
COMPOSITE(softmax, tuff_softmax(x[0], -1))
COMPOSITE(softmax_outer, tuff_softmax(x[0], 0))
COMPOSITE(log_softmax, tuff_log_softmax(x[0], -1))
COMPOSITE(logsumexp, tuff_logsumexp(x[0], 1, false))
COMPOSITE(layer_norm, tuff_layer_norm(x[0], x[1], x[2], 1, 1e-5))
COMPOSITE(layer_norm_2, tuff_layer_norm(x[0], x[1], NULL, 2, 1e-5))
COMPOSITE(rms_norm, tuff_rms_norm(x[0], x[1], 1, 1e-6))
COMPOSITE(group_norm, tuff_group_norm(x[0], x[1], x[2], 2, 1e-5))
COMPOSITE(linear, tuff_linear(x[0], x[1], x[2]))
COMPOSITE(embedding, tuff_embedding(x[0], x[1]))
COMPOSITE(gather_rows, tuff_gather_rows(x[0], x[1], 1))
COMPOSITE(scatter_add_rows, tuff_scatter_add_rows(x[0], x[1], x[2], 0))
COMPOSITE(dropout, tuff_dropout(x[0], 0.3))
COMPOSITE(rope_interleaved, tuff_rope(x[0], TUFF_ROPE_INTERLEAVED, 100, 3, NULL))
COMPOSITE(rope_half, tuff_rope(x[0], TUFF_ROPE_HALF, 100, 0, tuff_constant(graph, TUFF_I32, 5)))
COMPOSITE(attention_full, tuff_attention(x[0], x[1], x[2], NULL))
COMPOSITE(attention_causal, tuff_attention(x[0], x[1], x[2], &(tuff_attention_options){.causal = true, .window = 2}))
COMPOSITE(attention_linear, tuff_attention(x[0], x[1], x[2],
                                           &(tuff_attention_options){.causal = true, .no_softmax = true, .scale = 0.7}))
COMPOSITE(attention_bias, tuff_attention(x[0], x[1], tuff_neg(x[1]), &(tuff_attention_options){.bias = x[2]}))
COMPOSITE(attention_key_bias, tuff_attention(x[0], x[0], x[1], &(tuff_attention_options){.causal = true, .bias = x[2]}))
COMPOSITE(cross_entropy, tuff_cross_entropy(x[0], x[1], -100, 0))
COMPOSITE(cross_entropy_smoothed, tuff_cross_entropy(x[0], x[1], 2, 0.1))
COMPOSITE(mse, tuff_mse(x[0], x[1]))
#define CONV2D(name, ...) \
    COMPOSITE(name, tuff_conv2d(x[0], x[1], test->operand_count > 2 ? x[2] : NULL, &(tuff_conv2d_options){__VA_ARGS__}))
CONV2D(conv2d, .padding = {1, 1})
CONV2D(conv2d_strided, .stride = {2, 3}, .padding = {1, 2})
CONV2D(conv2d_dilated, .dilation = {2, 1}, .padding = {2, 0})
CONV2D(conv2d_spread, .stride = {2, 1}, .dilation = {3, 2}, .padding = {1, 1})
CONV2D(conv2d_groups, .groups = 2, .stride = {1, 2}, .padding = {0, 1})
CONV2D(conv2d_depthwise, .groups = 3, .stride = {2, 1}, .padding = {1, 1})
CONV2D(conv2d_points, .stride = {2, 2})
COMPOSITE(patch_embed, tuff_patch_embed(x[0], x[1], x[2]))
COMPOSITE(max_pool2d, tuff_max_pool2d(x[0], &(tuff_pool2d_options){.size = {2, 3}}))
COMPOSITE(max_pool2d_padded,
          tuff_max_pool2d(x[0], &(tuff_pool2d_options){.size = {3, 3}, .stride = {2, 1}, .padding = {1, 2}}))
COMPOSITE(avg_pool2d,
          tuff_avg_pool2d(x[0], &(tuff_pool2d_options){.size = {3, 2}, .stride = {2, 1}, .padding = {1, 1}}))
COMPOSITE(avg_pool2d_inside, tuff_avg_pool2d(x[0], &(tuff_pool2d_options){
                                                       .size = {3, 2}, .padding = {2, 0}, .without_padding = true}))
COMPOSITE(top_k, tuff_top_k(x[0], 3, -1, NULL))
COMPOSITE(top_k_outer, tuff_top_k(x[0], 2, 0, NULL))
COMPOSITE(top_k_blocks, tuff_top_k(x[0], 1, 1, NULL))
COMPOSITE(many_uses, tuff_add(tuff_mul(x[0], x[0]), tuff_mul(tuff_exp(x[0]), tuff_sum(x[0], (int[]){0}, 1, true))))


#define S(...) TUFF_SHAPE(__VA_ARGS__)
#define SAME ((tuff_dtype)-1) /* the dtype under test */
#define F(...) {SAME, S(__VA_ARGS__), -2, 2, FILL_RANDOM}
#define I(low, high, ...) {TUFF_I32, S(__VA_ARGS__), low, high, FILL_RANDOM}

bool suite_composite_at(int index, tuff_dtype dtype, suite_case *out)
{
    const struct {
        const char *name;
        tuff_tensor *(*build)(const suite_case *test, tuff_graph *graph, tuff_tensor *const *x);
        int count;
        suite_operand operands[SUITE_MAX_OPERANDS];
    } rows[] = {
#define ROW(name, count, ...) {#name, name, count, {__VA_ARGS__}}
        ROW(mean, 1, F(2, 3, 4)), ROW(variance, 1, F(3, 5)), ROW(std, 1, F(3, 5)),
        ROW(reduce_min, 1, F(3, 5)), ROW(argmax, 1, F(3, 5)), ROW(one_hot, 2, F(4, 5), I(0, 4, 4)),
        ROW(relu, 1, F(11)), ROW(gelu, 1, F(11)), ROW(gelu_tanh, 1, F(11)), ROW(silu, 1, F(11)),
        ROW(softplus, 1, F(11)), ROW(elu, 1, F(11)), ROW(leaky_relu, 1, F(11)), ROW(clamp, 1, F(11)),
        ROW(pow_scalar_3, 1, F(7)), ROW(pow_scalar_minus_2, 1, F(7)), ROW(pow_scalar_2_5, 1, F(7)),
        ROW(swiglu, 2, F(7), F(7)), ROW(glu, 1, F(3, 6)), ROW(softmax, 1, F(3, 5)), ROW(softmax_outer, 1, F(5, 3)),
        ROW(log_softmax, 1, F(3, 5)), ROW(logsumexp, 1, F(3, 5)), ROW(layer_norm, 3, F(3, 5), F(5), F(5)),
        ROW(layer_norm_2, 2, F(2, 3, 4), F(3, 4)), ROW(rms_norm, 2, F(3, 5), F(5)),
        ROW(group_norm, 3, F(2, 4, 3), F(4), F(4)), ROW(linear, 3, F(2, 3, 4), F(4, 5), F(5)),
        ROW(embedding, 2, F(5, 3), I(0, 4, 2, 4)), ROW(gather_rows, 2, F(3, 5), I(-1, 5, 7)),
        ROW(scatter_add_rows, 3, F(5, 3), I(-1, 5, 8), F(8, 3)), ROW(dropout, 1, F(31)),
        ROW(rope_interleaved, 1, F(2, 3, 2, 4)), ROW(rope_half, 1, F(2, 3, 2, 4)),
        ROW(attention_full, 3, F(1, 3, 4, 2), F(1, 5, 2, 2), F(1, 5, 2, 3)),
        ROW(attention_causal, 3, F(2, 4, 1, 2), F(2, 3, 1, 2), F(2, 3, 1, 2)),
        ROW(attention_linear, 3, F(1, 3, 2, 2), F(1, 3, 2, 2), F(1, 3, 2, 3)),
        ROW(attention_bias, 3, F(1, 3, 4, 2), F(1, 3, 2, 2), F(4, 3, 3)),
        ROW(attention_key_bias, 3, F(2, 4, 2, 3), F(2, 4, 2, 2), F(2, 1, 1, 4)),
        ROW(cross_entropy, 2, F(4, 5), I(0, 4, 4)), ROW(cross_entropy_smoothed, 2, F(6, 5), I(0, 4, 6)),
        ROW(conv2d, 3, F(2, 2, 4, 5), F(3, 2, 3, 2), F(3)), ROW(conv2d_strided, 2, F(2, 2, 5, 6), F(2, 2, 3, 4)),
        ROW(conv2d_dilated, 2, F(1, 2, 5, 4), F(3, 2, 3, 2)), ROW(conv2d_spread, 2, F(1, 2, 7, 5), F(2, 2, 2, 3)),
        ROW(conv2d_groups, 3, F(2, 4, 3, 5), F(6, 2, 2, 3), F(6)),
        ROW(conv2d_depthwise, 2, F(2, 3, 4, 5), F(6, 1, 3, 2)), ROW(conv2d_points, 2, F(2, 3, 5, 4), F(4, 3, 1, 1)),
        ROW(patch_embed, 3, F(2, 2, 4, 6), F(3, 2, 2, 3), F(3)), ROW(max_pool2d, 1, F(2, 2, 5, 6)),
        ROW(max_pool2d_padded, 1, F(1, 2, 5, 4)), ROW(avg_pool2d, 1, F(2, 1, 5, 4)),
        ROW(avg_pool2d_inside, 1, F(1, 2, 5, 4)), ROW(top_k, 1, F(3, 7)), ROW(top_k_outer, 1, F(5, 3)),
        ROW(top_k_blocks, 1, F(1, 150)),
        ROW(mse, 2, F(3, 4), F(3, 4)), ROW(many_uses, 1, F(4)),
    };
    if (index < 0 || index >= (int)(sizeof rows / sizeof rows[0]))
        return false;
    /* judged as a sum, by the bound that the reference carries through all ops */
    *out = (suite_case){.op = OP_SUM, .name = rows[index].name, .dtype = dtype, .operand_count = rows[index].count,
                        .build = rows[index].build};
    memcpy(out->operands, rows[index].operands, sizeof out->operands);
    for (int i = 0; i < SUITE_MAX_OPERANDS; i++)
        if (out->operands[i].dtype == SAME)
            out->operands[i].dtype = dtype;
    return true;
}
