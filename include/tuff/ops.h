/* One prototype per primitive op. Sizes in brackets are shapes, outermost axis first. Negative axes count from the
   end. Elementwise ops broadcast as NumPy does. Builders never return NULL: see tuff_graph_status.
   Values that a chain of ops passes on stay f32 whatever the storage type; f16 and bf16 round at tuff_cast, at graph
   inputs and outputs, and at tuff_assign. */
#ifndef TUFF_OPS_H
#define TUFF_OPS_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sources. */
/* A scalar of any dtype. */
TUFF_API tuff_tensor *tuff_constant(tuff_graph *graph, tuff_dtype dtype, double value);
/* count elements of dtype, copied from data. */
TUFF_API tuff_tensor *tuff_constant_data(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, const void *data);
/* i32: each element is its index along axis. */
TUFF_API tuff_tensor *tuff_iota(tuff_graph *graph, tuff_shape shape, int axis);
/* f32, uniform in [0, 1), 24 random bits each; Threefry-2x32 with 20 rounds (Salmon et al. 2011), keyed by the
   graph's seed, its step and the ordinal of this op in building order; the element's row-major index is the counter. */
TUFF_API tuff_tensor *tuff_random(tuff_graph *graph, tuff_shape shape);
/* i32 scalar: the graph's step, see tuff_graph_step. */
TUFF_API tuff_tensor *tuff_step(tuff_graph *graph);

/* Elementwise, floats. */
TUFF_API tuff_tensor *tuff_exp(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_exp2(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_expm1(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_log(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_log2(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_log1p(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_sqrt(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_rsqrt(tuff_tensor *x); /* 1 / sqrt(x) */
TUFF_API tuff_tensor *tuff_sin(tuff_tensor *x);   /* |x| <= 1e5 */
TUFF_API tuff_tensor *tuff_cos(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_tanh(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_sigmoid(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_erf(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_erfc(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_pow(tuff_tensor *x, tuff_tensor *y); /* as C's pow */
/* Elementwise, floats and integers. */
TUFF_API tuff_tensor *tuff_neg(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_abs(tuff_tensor *x);   /* gradient 0 at 0 */
TUFF_API tuff_tensor *tuff_floor(tuff_tensor *x); /* gradient 0 */
TUFF_API tuff_tensor *tuff_add(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_sub(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_mul(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_div(tuff_tensor *x, tuff_tensor *y); /* integers: towards zero; by zero: 0 */
/* NaN where either is NaN; equal elements give half of the gradient to each. */
TUFF_API tuff_tensor *tuff_max(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_min(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_fma(tuff_tensor *x, tuff_tensor *y, tuff_tensor *z); /* x * y + z, rounded once or twice */
/* bool results; a NaN is neither less nor equal. */
TUFF_API tuff_tensor *tuff_less(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_equal(tuff_tensor *x, tuff_tensor *y);
/* bool operands. */
TUFF_API tuff_tensor *tuff_and(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_or(tuff_tensor *x, tuff_tensor *y);
/* condition ? x : y, elements moved bit for bit; the branch not taken reaches neither value nor gradient. */
TUFF_API tuff_tensor *tuff_where(tuff_tensor *condition, tuff_tensor *x, tuff_tensor *y);
/* Floats round to nearest even; to integers truncates and saturates, NaN gives 0, but between i32 and u32 the bits
   pass; to bool is x != 0. */
TUFF_API tuff_tensor *tuff_cast(tuff_tensor *x, tuff_dtype dtype);

/* Reductions over count axes; keep: reduced axes stay as extent 1. The sum of no terms is 0, the maximum of none is
   an error. Ties of a maximum share its gradient evenly. */
TUFF_API tuff_tensor *tuff_sum(tuff_tensor *x, const int *axes, int count, bool keep);
TUFF_API tuff_tensor *tuff_reduce_max(tuff_tensor *x, const int *axes, int count, bool keep);

/* Movement: views where strides can say it, index expressions where they cannot. */
TUFF_API tuff_tensor *tuff_reshape(tuff_tensor *x, tuff_shape shape); /* one extent may be -1 */
TUFF_API tuff_tensor *tuff_permute(tuff_tensor *x, const int *order); /* axis i of the result is x's axis order[i] */
TUFF_API tuff_tensor *tuff_expand(tuff_tensor *x, tuff_shape shape);  /* NumPy broadcast to shape */
/* rank entries each; start <= stop for step > 0; for step < 0 as Python, with stop -1 meaning past element 0.
   NULL step: all 1. */
TUFF_API tuff_tensor *tuff_slice(tuff_tensor *x, const int64_t *start, const int64_t *stop, const int64_t *step);
TUFF_API tuff_tensor *tuff_pad(tuff_tensor *x, const int64_t *before, const int64_t *after, double value);
TUFF_API tuff_tensor *tuff_concat(tuff_tensor *const *parts, int count, int axis);

/* Contraction: x [..., M, K] · y [..., K, N] -> [..., M, N], leading axes broadcast; a vector is promoted as in NumPy.
   f32 accumulation; K = 0 gives zeros. */
TUFF_API tuff_tensor *tuff_matmul(tuff_tensor *x, tuff_tensor *y);

/* Kernels of their own. indices are i32; an index outside 0 .. extent-1 gathers NaN (0 for integers) and scatters
   nothing. */
/* Element by element, as NumPy's take_along_axis: out[.., c, ..] = x[.., indices[.., c, ..], ..]; indices broadcast
   against x on the other axes. */
TUFF_API tuff_tensor *tuff_gather(tuff_tensor *x, tuff_tensor *indices, int axis);
/* out = x; out[.., indices[.., c, ..], ..] += source[.., c, ..]. Repeated indices add up, in index order, always to
   the same bits. */
TUFF_API tuff_tensor *tuff_scatter_add(tuff_tensor *x, tuff_tensor *indices, tuff_tensor *source, int axis);
/* Sum of the elements up to and including each. */
TUFF_API tuff_tensor *tuff_cumsum(tuff_tensor *x, int axis);

#ifdef __cplusplus
}
#endif
#endif
