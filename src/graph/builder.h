/* Between the files of src/graph: checks that every builder begins with, and builders without a public name. A builder
   checks, then calls tuff__node_create; whatever is wrong becomes the graph's error. */
#ifndef TUFF_GRAPH_BUILDER_H
#define TUFF_GRAPH_BUILDER_H

#include "graph/graph.h"

/* The graph of a builder's operands, or NULL with *answer set to the tensor that the builder must return: one operand
   is NULL, carries an error, or is of another graph. op names the builder in messages. */
tuff_graph *tuff__enter(const char *op, tuff_tensor *const *operands, int count, tuff_tensor **answer);
/* The same for builders without operands: graph where it is valid, or NULL with *answer set. */
tuff_graph *tuff__enter_graph(const char *op, tuff_graph *graph, tuff_tensor **answer);

/* True where tensor is a value that can be used. */
bool tuff__is_valid(const tuff_tensor *tensor);

/* Checks rank, extents and count of a shape; false with the graph's error set. */
bool tuff__shape_is_legal(tuff_graph *graph, const char *op, tuff_shape shape);
/* Checks that arrays and tensors may have dtype. */
bool tuff__dtype_is_legal(tuff_graph *graph, const char *op, tuff_dtype dtype);
/* Checks the name of an input or an output, which op says. */
bool tuff__name_is_legal(tuff_graph *graph, const char *op, const char *name);
/* Checks that array is there, on the graph's device. */
bool tuff__array_is_legal(tuff_graph *graph, const char *op, const tuff_array *array);
/* axis of tensor, counted from the front, in *out. */
bool tuff__axis(const char *op, const tuff_tensor *tensor, int axis, int *out);

/* The shape that a and b broadcast to, as NumPy; false where there is none. */
bool tuff__broadcast(tuff_shape a, tuff_shape b, tuff_shape *out);
/* tensor as shape, to which it must be known to broadcast: RESHAPE to add leading axes, then EXPAND. */
tuff_tensor *tuff__expand_to(tuff_tensor *tensor, tuff_shape shape);
/* tensor, or where it is a constant scalar whose value dtype can hold, that constant in dtype. */
tuff_tensor *tuff__as_dtype(tuff_tensor *tensor, tuff_dtype dtype);
/* Gives both operands one dtype where one of them is a constant scalar. */
void tuff__unify_dtypes(tuff_tensor **x, tuff_tensor **y);

/* All elements are value. */
tuff_tensor *tuff__full(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, double value);
/* A scalar constant of like's dtype. */
tuff_tensor *tuff__scalar(const tuff_tensor *like, double value);
/* x · factor, x + term. */
tuff_tensor *tuff__scale(tuff_tensor *x, double factor);
tuff_tensor *tuff__shift(tuff_tensor *x, double term);

/* shape with the extent of axis replaced. */
tuff_shape tuff__with_extent(tuff_shape shape, int axis, int64_t extent);
/* Elements start to stop along one axis, the others whole. */
tuff_tensor *tuff__slice_axis(tuff_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* Puts step - 1 zeros between the elements along axis. */
tuff_tensor *tuff__dilate(tuff_tensor *x, int axis, int64_t step);
/* tuff_unfold as an UNFOLD node even where a reshape would do: the compiler knows patches of an image by it. */
tuff_tensor *tuff__windows(tuff_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation);
/* The gradient of UNFOLD: adds up what windows have of each element. */
tuff_tensor *tuff__fold_windows(const node *n, tuff_tensor *upstream);
/* Exchanges two axes. */
tuff_tensor *tuff__swap_axes(tuff_tensor *x, int a, int b);

/* The positions [R, k] of the largest elements of rows [R, n], in order, by tensors of at most `limit` elements. */
tuff_tensor *tuff__largest(tuff_tensor *rows, int64_t k, int64_t limit);

/* x less its greatest element along the axis, and the logarithm of the sum of the exponentials of that, in *log_sum:
   their difference is the log-softmax. Both carry the error where there is one. */
tuff_tensor *tuff__shifted_logits(const char *op, tuff_tensor *x, int axis, tuff_tensor **log_sum);

/* Marks a value that nothing else uses yet: tuff_gradients treats it as a constant. Returns it. */
tuff_tensor *tuff__stop_gradient(tuff_tensor *tensor);

/* Makes the result of a composite, which nothing else uses yet, pass its gradient straight to the inputs of the
   composite (autodiff.c). of is copied, with its inputs; options must live as long as the graph. Returns result. */
tuff_tensor *tuff__with_own_gradient(tuff_tensor *result, const own_gradient *of);

/* What attention works on; bias, of four axes, may be NULL. */
typedef struct attention_operands {
    tuff_tensor *q, *k, *v, *bias;
} attention_operands;
/* The attention primitive of operands whose shapes fit and have elements. Of the options, value (the scale), start (the
   band), ATTENTION_NO_SOFTMAX and dropout are read. */
tuff_tensor *tuff__attention(const attention_operands *n, const op_attributes *options);
tuff_tensor *tuff__attention_gradient(const node *n, tuff_tensor *upstream, int input);
/* tuff_attention made of other ops, whatever the options, and as the primitive where that can serve, whatever the
   device. */
struct tuff_attention_options;
tuff_tensor *tuff__composite_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                       const struct tuff_attention_options *options);
tuff_tensor *tuff__primitive_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                       const struct tuff_attention_options *options);

/* The gradient of a node's output with respect to one input, given the upstream gradient; NULL where there is none. */
tuff_tensor *tuff__op_gradient(const node *n, tuff_tensor *upstream, int input);

#endif
