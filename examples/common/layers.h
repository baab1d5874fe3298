/* Layers whose weights are stored as [out,in], as in PyTorch. Names are formatted as by printf. */
#ifndef TUFF_EXAMPLES_LAYERS_H
#define TUFF_EXAMPLES_LAYERS_H

#include "example.h"

/* Adds NAME.weight [out,in], initialized uniformly as in Glorot & Bengio (2010), and NAME.bias [out], zeros. */
void example_add_linear(example_parameters *list, int64_t in, int64_t out, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds such a layer for each of several names, separated by spaces. */
void example_add_linears(example_parameters *list, int64_t in, int64_t out, const char *names);
/* Adds NAME.gain [width], ones, and NAME.bias [width], zeros. */
void example_add_norm(example_parameters *list, int64_t width, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* x [...,in] · NAME.weightᵀ + NAME.bias */
tuff_tensor *example_linear(example_build *self, tuff_tensor *x, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* Layer normalization over the last axis with NAME.gain and NAME.bias. */
tuff_tensor *example_norm(example_build *self, tuff_tensor *x, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* An i32 constant. */
tuff_tensor *example_integer_constant(example_build *self, int64_t value);
/* The transpose of a matrix. */
tuff_tensor *example_transpose(tuff_tensor *matrix);
/* Concatenates x and y along axis. */
tuff_tensor *example_concat(tuff_tensor *x, tuff_tensor *y, int axis);
/* Stacks `count` values [B] or [B,n] to [B,count] or [B,count,n]. */
tuff_tensor *example_stack(tuff_tensor *const *values, int64_t count);
/* Sinusoidal positional encoding of Vaswani et al. (2017), [count,width]: row i holds the sine and cosine of i ·
   10000^(-2k / width) in columns 2k and 2k + 1. */
tuff_tensor *example_positions(tuff_graph *graph, int64_t count, int64_t width);
/* Multi-head attention as programs without a fused kernel compute it, with scores and probabilities in memory. q, k, v
   and the result are [B,T,h,D]. bias is added to the scores [B,h,T,T]; dropout applies to the probabilities. */
tuff_tensor *example_attention_in_steps(tuff_tensor *const qkv[3], tuff_tensor *bias, double dropout);

#endif
