/* The first stage of compilation: a new, smaller graph of the same meaning. Dead nodes go, equal ones become one,
   constants are folded with the float64 reference, long reductions are split so that many items share them and no
   chain of additions grows long. Never an identity that hides a NaN. */
#ifndef TUFF_COMPILE_REWRITE_SIMPLIFY_H
#define TUFF_COMPILE_REWRITE_SIMPLIFY_H

#include "graph/graph.h"

/* Returns NULL on failure. only_live: nothing but the removal of dead nodes (the reference executor). The result owns
   what it needs: the source may be destroyed. A graph with a step counter of its own gets an increment of it
   appended. */
tuff_graph *tuff__simplify(tuff_graph *source, bool only_live);

/* Between the files of this folder. */
/* A node that computes the same as op of inputs with these attributes: an earlier equal one where there is one.
   An input without a node, for which memory ran out, is returned as it is. */
tuff_tensor *tuff__share_node(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape,
                              tuff_tensor *const *inputs, int input_count, const op_attributes *attributes);
/* The constant that op of constant inputs gives; NULL where it should stay symbolic. */
tuff_tensor *tuff__fold(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape, tuff_tensor *const *inputs,
                        int input_count, const op_attributes *attributes);
/* The pieces, at most 8, that x + y is a concatenation of, and the axis along which; 0 where it is none. */
int tuff__join_pads(tuff_tensor *x, tuff_tensor *y, tuff_tensor **parts, int *axis);
/* count elements of a value in row-major order, from `begin` on. */
typedef struct slice_range {
    tuff_tensor *of;
    int64_t begin, count;
} slice_range;
/* How many of the parts, from the first on, follow each other in one value, at least 1, and where in it they are. */
int tuff__slice_run(tuff_tensor *const *parts, int count, slice_range *out);
/* A reduction or a running sum in pieces. */
tuff_tensor *tuff__split_reduction(tuff_graph *graph, op_code op, tuff_tensor *x, uint32_t axes);
tuff_tensor *tuff__split_scan(tuff_graph *graph, op_code op, tuff_tensor *x, int axis);
/* A gradient of attention with a bias that is repeated, where its own gradient has too few items; NULL elsewhere.
   inputs: of the node, as they are now; the bias among them may be replaced. */
tuff_tensor *tuff__split_bias_gradient(tuff_graph *graph, const node *at, tuff_tensor **inputs);

#endif
