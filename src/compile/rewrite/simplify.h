/* The first stage of compilation: a new, smaller graph with the same meaning. Dead nodes are dropped, equal nodes
   become one, constants are folded with the float64 reference, and long reductions are split so that many work-items
   share them and no chain of additions grows long. No rule may use an identity that hides a NaN. */
#ifndef TUFF_COMPILE_REWRITE_SIMPLIFY_H
#define TUFF_COMPILE_REWRITE_SIMPLIFY_H

#include "graph/graph.h"

/* Returns NULL on failure. With only_live, only dead nodes are removed, for the reference executor. The result owns
   everything it needs: the source may be destroyed. If the graph owns a step counter, an increment of it is
   appended. */
tuff_graph *tuff__simplify(tuff_graph *source, bool only_live);

/* The rest is internal to this folder. */
/* Returns an existing node that computes the op of these inputs with these attributes, or else a new one. If memory ran
   out for an input, which then has no node, returns that input. */
tuff_tensor *tuff__share_node(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape,
                              tuff_tensor *const *inputs, int input_count, const op_attributes *attributes);
/* Returns `count` elements from byte `offset` of the model's storage on as one array of its dtype, which may span
   several arrays there. Every call makes a node: copies of one range for early and for late readers stay apart. */
tuff_tensor *tuff__array_range(tuff_graph *graph, const tuff_array *model, uint64_t offset, int64_t count);
/* Returns the constant result of an op on constant inputs; NULL if it should stay symbolic. */
tuff_tensor *tuff__fold(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape, tuff_tensor *const *inputs,
                        int input_count, const op_attributes *attributes);
/* Returns the number of pieces of which x + y is a concatenation, at most 8, with the pieces and the axis; 0 if it is
   none. */
int tuff__join_pads(tuff_tensor *x, tuff_tensor *y, tuff_tensor **parts, int *axis);
/* The range of `count` elements of a value in row-major order that starts at `begin`. */
typedef struct slice_range {
    tuff_tensor *source;
    int64_t begin, count;
} slice_range;
/* Returns how many of the parts, from the first on, follow each other in one value, at least 1, and in *out the range
   that they make up. */
int tuff__slice_run(tuff_tensor *const *parts, int count, slice_range *out);
/* Return a reduction or a cumulative sum, in pieces if it is long. */
tuff_tensor *tuff__split_reduction(tuff_graph *graph, op_code op, tuff_tensor *x, uint32_t axes);
tuff_tensor *tuff__split_scan(tuff_graph *graph, op_code op, tuff_tensor *x, int axis);
/* Returns a gradient of an attention whose bias is repeated, if the gradient of the bias would otherwise have too few
   work-items; else NULL. inputs are the node's inputs in the new graph; the bias among them may be replaced. */
tuff_tensor *tuff__split_bias_gradient(tuff_graph *graph, const node *at, tuff_tensor **inputs);

#endif
