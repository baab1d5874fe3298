/* The primitive ops, one function each. Brackets hold shapes, outermost axis first. Negative axes count from the end.
   Elementwise ops broadcast like NumPy. The graph keeps errors of shape, dtype or use, and no function returns NULL:
   see tuff_graph_status.

   Float ops compute in f32 whatever their storage type. Values passed from op to op stay f32; they are rounded to f16
   or bf16 by tuff_cast, at inputs and outputs of the graph, and by tuff_assign. If the precision of
   tuff_compile_options is not f32, they are also rounded where the plan stores them. */
#ifndef TUFF_OPS_H
#define TUFF_OPS_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sources. */
/* A tensor of rank 0 with the given dtype. If the other operand of an elementwise op, or the array of an assignment,
   has another dtype, the constant takes that dtype: any number becomes a float, and an integer becomes any integer type
   that can represent it. A float constant with integers is TUFF_E_DTYPE: cast one of the two. */
TUFF_API tuff_tensor *tuff_constant(tuff_graph *graph, tuff_dtype dtype, double value);
/* A constant tensor; its elements are copied from data. */
TUFF_API tuff_tensor *tuff_constant_data(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, const void *data);
/* i32: each element is its index along axis. */
TUFF_API tuff_tensor *tuff_iota(tuff_graph *graph, tuff_shape shape, int axis);
/* f32, uniform in [0, 1), 24 random bits each: Threefry-2x32 with 20 rounds (Salmon et al. 2011). The key consists of
   the graph's seed and step and the ordinal of this op in building order; the counter is the element's row-major
   index. */
TUFF_API tuff_tensor *tuff_random(tuff_graph *graph, tuff_shape shape);
/* i32, rank 0: the graph's step (tuff_graph_step). */
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
TUFF_API tuff_tensor *tuff_sin(tuff_tensor *x);   /* accurate for |x| <= 1e5 */
TUFF_API tuff_tensor *tuff_cos(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_tanh(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_sigmoid(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_erf(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_erfc(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_pow(tuff_tensor *x, tuff_tensor *y); /* like C's pow; d/dy of 0^y is 0, for y < 0 -inf */
/* Elementwise, floats and integers. */
TUFF_API tuff_tensor *tuff_neg(tuff_tensor *x);
TUFF_API tuff_tensor *tuff_abs(tuff_tensor *x);   /* gradient 0 at 0 */
TUFF_API tuff_tensor *tuff_floor(tuff_tensor *x); /* gradient 0 */
TUFF_API tuff_tensor *tuff_add(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_sub(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_mul(tuff_tensor *x, tuff_tensor *y);
/* Integers: rounds towards 0; x / 0 is 0. Floats: relative error at most 3 * 2^-24. If the elements of a row share y,
   the result may be x times 1 / y, so x / x is not always 1; this is not done if the same kernel compares the quotient,
   takes its floor or casts it to integers. */
TUFF_API tuff_tensor *tuff_div(tuff_tensor *x, tuff_tensor *y);
/* NaN if either operand is NaN. If the operands are equal, each gets half of the gradient; if either is NaN, both get
   0. */
TUFF_API tuff_tensor *tuff_max(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_min(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_fma(tuff_tensor *x, tuff_tensor *y, tuff_tensor *z); /* x * y + z, rounded once or twice */
/* To bool: x < y, x == y; false if either is NaN. */
TUFF_API tuff_tensor *tuff_less(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_equal(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_is_finite(tuff_tensor *x); /* to bool: false for infinities and NaN; tests their bits */
/* For bool operands. */
TUFF_API tuff_tensor *tuff_and(tuff_tensor *x, tuff_tensor *y);
TUFF_API tuff_tensor *tuff_or(tuff_tensor *x, tuff_tensor *y);
/* condition ? x : y, bit for bit. The element that is not selected affects neither value nor gradient, even if it is
   NaN. */
TUFF_API tuff_tensor *tuff_where(tuff_tensor *condition, tuff_tensor *x, tuff_tensor *y);
/* To floats: rounds to nearest even. From floats to integers: truncates and saturates, NaN becomes 0. Between i32 and
   u32: keeps the bits. To bool: x != 0. */
TUFF_API tuff_tensor *tuff_cast(tuff_tensor *x, tuff_dtype dtype);

/* Reductions over count axes; keep: reduced axes remain, with extent 1. The sum of no elements is 0; the maximum of
   none is an error. Equal maxima share the gradient evenly; if the maximum is NaN, the gradient is 0 for all
   elements. */
TUFF_API tuff_tensor *tuff_sum(tuff_tensor *x, const int *axes, int count, bool keep);
TUFF_API tuff_tensor *tuff_reduce_max(tuff_tensor *x, const int *axes, int count, bool keep);

/* Movement: elements are not copied if strides or index expressions suffice. */
TUFF_API tuff_tensor *tuff_reshape(tuff_tensor *x, tuff_shape shape); /* one extent may be -1 */
TUFF_API tuff_tensor *tuff_permute(tuff_tensor *x, const int *order); /* axis i of the result is x's axis order[i] */
TUFF_API tuff_tensor *tuff_expand(tuff_tensor *x, tuff_shape shape);  /* broadcasts to shape like NumPy */
/* Python's x[start:stop:step] on every axis: start, stop and step have one entry per axis of x. start <= stop if step >
   0; if step < 0, stop -1 includes element 0. step may be NULL: all 1. */
TUFF_API tuff_tensor *tuff_slice(tuff_tensor *x, const int64_t *start, const int64_t *stop, const int64_t *step);
/* Adds before[i] and after[i] elements of the given value to axis i. */
TUFF_API tuff_tensor *tuff_pad(tuff_tensor *x, const int64_t *before, const int64_t *after, double value);
/* Splits axis into windows, as many as fit: the elements of a window are `dilation` apart, the windows `step`. The axis
   becomes two, [.., windows, size, ..], and element (i, j) is x[.., i * step + j * dilation, ..]. */
TUFF_API tuff_tensor *tuff_unfold(tuff_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation);
/* Joins count tensors, at least one, along axis; their other extents must be equal. */
TUFF_API tuff_tensor *tuff_concat(tuff_tensor *const *parts, int count, int axis);

/* Contraction: x [..., M, K] · y [..., K, N] -> [..., M, N]; leading axes broadcast, and vectors are promoted as in
   NumPy. Accumulates in f32; K = 0 gives zeros. */
TUFF_API tuff_tensor *tuff_matmul(tuff_tensor *x, tuff_tensor *y);

/* Indexing. indices are i32. With an index outside 0 .. extent-1, a gather gives NaN (0 for integers) and a scatter has
   no effect. */
/* NumPy's take_along_axis: out[.., c, ..] = x[.., indices[.., c, ..], ..]. On the other axes indices and x broadcast
   against each other. */
TUFF_API tuff_tensor *tuff_gather(tuff_tensor *x, tuff_tensor *indices, int axis);
/* out = x; out[.., indices[.., c, ..], ..] += source[.., c, ..]. Values with the same index are added in the order of
   c, so the result is always bit-identical. */
TUFF_API tuff_tensor *tuff_scatter_add(tuff_tensor *x, tuff_tensor *indices, tuff_tensor *source, int axis);
/* Cumulative sum along axis: each element is the sum of the elements up to and including it. */
TUFF_API tuff_tensor *tuff_cumsum(tuff_tensor *x, int axis);

#ifdef __cplusplus
}
#endif
#endif
