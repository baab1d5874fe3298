/* Layers whose weights are [out,in], as PyTorch stores them. Names are formatted as by printf. */
#ifndef TUFF_EXAMPLES_LAYERS_H
#define TUFF_EXAMPLES_LAYERS_H

#include "example.h"

/* NAME.weight [out,in], uniform as of Glorot & Bengio (2010), and NAME.bias [out], zeros. */
void example_add_linear(example_parameters *list, int64_t in, int64_t out, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for each of names, which spaces separate. */
void example_add_linears(example_parameters *list, int64_t in, int64_t out, const char *names);
/* NAME.gain [width], ones, and NAME.bias [width], zeros. */
void example_add_norm(example_parameters *list, int64_t width, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* x [...,in] · NAME.weightᵀ + NAME.bias */
tuff_tensor *example_linear(example_build *self, tuff_tensor *x, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* Layer normalisation over the last axis with NAME.gain and NAME.bias. */
tuff_tensor *example_norm(example_build *self, tuff_tensor *x, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* A matrix with its axes exchanged. */
tuff_tensor *example_turned(tuff_tensor *matrix);
/* x and y behind each other along axis. */
tuff_tensor *example_joined(tuff_tensor *x, tuff_tensor *y, int axis);
/* count values [B] or [B,n] as [B,count] or [B,count,n]. */
tuff_tensor *example_stacked(tuff_tensor *const *values, int64_t count);
/* Positions as of Vaswani et al. (2017), [count,width]: in columns 2k, 2k + 1 sin and cos of
   i · 10000^(-2k / width). */
tuff_tensor *example_positions(tuff_graph *graph, int64_t count, int64_t width);
/* Attention of heads as programs without a fused kernel compute it, with scores and probabilities in memory: q, k, v
   [B,T,h,D] -> the same. bias is added to the scores [B,h,T,T]; dropout is of the probabilities. */
tuff_tensor *example_attention_in_steps(tuff_tensor *const qkv[3], tuff_tensor *bias, double dropout);

#endif
