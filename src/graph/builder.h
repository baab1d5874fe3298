/* Shared by the files of src/graph: the checks that every builder begins with, and builders without a public name. A
   builder checks its operands, then calls tuff__node_create. Any failure becomes the graph's error. */
#ifndef TUFF_GRAPH_BUILDER_H
#define TUFF_GRAPH_BUILDER_H

#include "graph/graph.h"

/* Returns the graph of a builder's operands; NULL if an operand is NULL, carries an error or belongs to another graph.
   Sets *failure to the tensor that the builder must return if it fails, in this check or in a later one. op is the
   builder's name, for messages. */
tuff_graph *tuff__check_operands(const char *op, tuff_tensor *const *operands, int count, tuff_tensor **failure);
/* The same for one operand, which must be f32, f16 or bf16. */
tuff_graph *tuff__check_float_operand(const char *op, tuff_tensor *x, tuff_tensor **failure);
/* The same for builders without operands: returns graph if it is valid, else NULL. */
tuff_graph *tuff__check_graph(const char *op, tuff_graph *graph, tuff_tensor **failure);

/* Whether tensor is a usable value. */
bool tuff__is_valid(const tuff_tensor *tensor);

/* Checks rank, extents and element count of a shape. Returns false, with the graph's error set, if they are illegal.
   The checks below do the same. */
bool tuff__shape_is_legal(tuff_graph *graph, const char *op, tuff_shape shape);
/* Checks that arrays and tensors may have this dtype. */
bool tuff__dtype_is_legal(tuff_graph *graph, const char *op, tuff_dtype dtype);
/* Checks the name of an input or an output; op says which. */
bool tuff__name_is_legal(tuff_graph *graph, const char *op, const char *name);
/* Checks that array is not NULL and lies on the graph's device. */
bool tuff__array_is_legal(tuff_graph *graph, const char *op, const tuff_array *array);
/* Sets *out to the axis of tensor, counted from the front. */
bool tuff__resolve_axis(const char *op, const tuff_tensor *tensor, int axis, int *out);

/* Sets *out to the shape that a and b broadcast to, by NumPy's rules. Returns false if they do not broadcast. */
bool tuff__broadcast(tuff_shape a, tuff_shape b, tuff_shape *out);
/* Expands tensor to shape, to which it must broadcast: RESHAPE adds leading axes, then EXPAND. */
tuff_tensor *tuff__expand_to(tuff_tensor *tensor, tuff_shape shape);
/* Returns tensor, or the same constant in dtype if tensor is a constant scalar whose value dtype can hold. */
tuff_tensor *tuff__as_dtype(tuff_tensor *tensor, tuff_dtype dtype);
/* Gives both operands the same dtype if one of them is a constant scalar. */
void tuff__unify_dtypes(tuff_tensor **x, tuff_tensor **y);

/* Returns a tensor whose elements all equal value. */
tuff_tensor *tuff__full(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, double value);
/* Returns a scalar constant of the dtype of like. */
tuff_tensor *tuff__scalar(const tuff_tensor *like, double value);
/* Return x · factor and x + term. */
tuff_tensor *tuff__scale(tuff_tensor *x, double factor);
tuff_tensor *tuff__shift(tuff_tensor *x, double term);

/* Returns shape with the extent of one axis replaced. */
tuff_shape tuff__with_extent(tuff_shape shape, int axis, int64_t extent);
/* Returns shape without the axes of the mask. */
tuff_shape tuff__without_axes(tuff_shape shape, uint32_t mask);
/* Slices one axis from start to stop; the others stay whole. */
tuff_tensor *tuff__slice_axis(tuff_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* Reverses one axis. */
tuff_tensor *tuff__reverse_axis(tuff_tensor *x, int axis);
/* Adds zeros before and after the elements of one axis. */
tuff_tensor *tuff__pad_axis(tuff_tensor *x, int axis, int64_t before, int64_t after);
/* Inserts step - 1 zeros between the elements along axis. */
tuff_tensor *tuff__dilate(tuff_tensor *x, int axis, int64_t step);
/* tuff_unfold, but always as an UNFOLD node, even if a reshape would do: the compiler recognizes image patches by
   it. */
tuff_tensor *tuff__unfold_node(tuff_tensor *x, int axis, int64_t size, int64_t step, int64_t dilation);
/* Returns the gradient of UNFOLD: for each element, the sum of the gradients of all windows that contain it. */
tuff_tensor *tuff__fold_windows(const node *n, tuff_tensor *upstream);
/* Exchanges two axes. */
tuff_tensor *tuff__swap_axes(tuff_tensor *x, int a, int b);

/* Returns the positions [R, k] of the k largest elements of each row of rows [R, n], in order. No intermediate tensor
   has more than `limit` elements. */
tuff_tensor *tuff__top_k_positions(tuff_tensor *rows, int64_t k, int64_t limit);

/* Returns x minus its maximum along the axis, and in *log_sum the logarithm of the sum of the exponentials of that. The
   difference of the two is the log-softmax. Both carry the error after a failure. */
tuff_tensor *tuff__shifted_logits(const char *op, tuff_tensor *x, int axis, tuff_tensor **log_sum);

/* Marks a value that has no users yet: tuff_gradients treats it as a constant. Returns it. */
tuff_tensor *tuff__stop_gradient(tuff_tensor *tensor);

/* Makes the result of a composite, which must have no users yet, pass its gradient straight to the inputs of the
   composite (autodiff.c). Copies *gradient and its inputs; options must live as long as the graph. Returns result. */
tuff_tensor *tuff__with_custom_gradient(tuff_tensor *result, const custom_gradient *gradient);

/* Operands of attention; bias, of rank 4, may be NULL. */
typedef struct attention_operands {
    tuff_tensor *q, *k, *v, *bias;
} attention_operands;
/* Builds the attention primitive from operands whose shapes fit and are not empty. Of options, it reads value (the
   scale), start (the band), ATTENTION_NO_SOFTMAX and dropout. */
tuff_tensor *tuff__attention(const attention_operands *n, const op_attributes *options);
tuff_tensor *tuff__attention_gradient(const node *n, tuff_tensor *upstream, int input);
/* Two forms of tuff_attention: composed of other ops, whatever the options, and as the primitive if it supports the
   options, whatever the device. */
struct tuff_attention_options;
tuff_tensor *tuff__composite_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                       const struct tuff_attention_options *options);
tuff_tensor *tuff__primitive_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                       const struct tuff_attention_options *options);

/* Returns the gradient of a node's output with respect to one input, given the upstream gradient; NULL if it has
   none. */
tuff_tensor *tuff__op_gradient(const node *n, tuff_tensor *upstream, int input);

#endif
