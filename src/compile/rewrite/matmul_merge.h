/* Rewritings of a simplified graph that merge matmuls which share an operand, or split matmuls that would leave most
   of the device idle or whose operands do not stay in a core's cache, one file each:

     x · w0, x · w1, ...               become  x · [w0 w1 ...] and slices of it        (merge_columns.c)
     y0 · v0 + y1 · v1 + ...           becomes [y0 y1 ...] · [v0; v1; ...]             (merge_terms.c)
     x' · y0, x' · y1, ... in a slab   become  one product written to the slab whole   (merge_gradients.c)
     x · y with a long inner axis      becomes a sum over pieces of the axis           (split_k.c)

   Weights are joined only as a view of the memory in which they lie, never by a copy. The cost model decides whether
   joining pays. */
#ifndef TUFF_COMPILE_REWRITE_MATMUL_MERGE_H
#define TUFF_COMPILE_REWRITE_MATMUL_MERGE_H

#include "compile/rewrite/passes.h"
#include "compile/rewrite/view.h"
#include "device/target.h"

/* Rewrites the graph in place: nodes are sorted and renumbered, and dead ones dropped. After a failure the graph can
   only be destroyed. options: how the graph will be compiled; NULL: the defaults. passes may be NULL. */
tuff_status tuff__merge_matmuls(tuff_graph *graph, const tuff_compile_options *options, pass_choices *passes);

/* The rest is internal to the files that merge matmuls. */
#define MAX_MERGED 8   /* matmuls merged into one, at most */
#define MAX_FACTORS 32 /* factors considered together, at most */

typedef struct rewriting {
    tuff_graph *graph;
    int original_count; /* nodes from this id on are new */
    int *use_count;     /* by original node: uses as an input of the graph's nodes */
    node **user;        /* by original node: one of its users */
    bool *is_output;    /* by original node: it is an output, or assigned */
    bool *taken;        /* by original node: it was replaced, or is a part of something new */
    tuff_tensor **replacement; /* by original node: the tensor that replaces its value; NULL: none */
    target target;
    const tuff_compile_options *options;
    pass_choices *passes;
} rewriting;

/* Begin counts uses. End must be called even if begin failed, with the status of the rewriting: it redirects the uses
   of replaced nodes, sorts the nodes, and frees what begin allocated. */
tuff_status tuff__rewriting_begin(rewriting *self, tuff_graph *graph);
tuff_status tuff__rewriting_end(rewriting *self, tuff_status status);
/* Returns the only user of a value that nothing else needs; NULL if there is none. */
node *tuff__only_user(const rewriting *self, const node *at);

/* A factor of a matmul, [rows, columns], as a view of memory: element (i, k) is at place.offset + i · place.stride[0] +
   k · place.stride[1] of the base or, if the base is an array, of its storage. */
typedef struct factor {
    const node *base;
    view place;
    tuff_dtype dtype; /* the dtype it is read as; the base's may be narrower */
} factor;

/* Returns false if there is no such view. */
bool tuff__factor_of(const tuff_tensor *operand, factor *out);
/* Sorts at most MAX_FACTORS factors by the place where they begin, and in the same way the members to which they
   belong. */
void tuff__sort_factors(factor *factors, node **members, int count);
/* Return how many of the factors, from the first on, form one view, at least 1: [sum of rows, columns] (axis 0), [rows,
   sum of columns] (axis 1), or [factors, rows, columns]. */
int tuff__run_along(const factor *factors, int count, int axis);
int tuff__run_of_stack(const factor *factors, int count);
/* Return that view as a tensor; NULL if it has no legal form. */
tuff_tensor *tuff__join_along(rewriting *self, const factor *factors, int count, int axis);
tuff_tensor *tuff__join_stack(rewriting *self, const factor *factors, int count);

/* The effect of a merge, for tuff__merge_is_profitable. */
typedef struct merge_cost {
    int64_t rows, inner;         /* extents of every product */
    int64_t columns[MAX_MERGED]; /* columns of each product */
    int count;
    bool along_inner; /* the products are terms of a sum, and inner is the total of theirs */
    int launches_saved;
    double bytes_added; /* additional reads and writes; may be negative */
} merge_cost;
bool tuff__merge_is_profitable(const rewriting *self, const merge_cost *cost);

/* Whether the values can be computed straight into their concat along an axis, without copies; and that concat, which
   may exist already. */
bool tuff__concat_is_free(const rewriting *self, tuff_tensor *const *values, int count, int axis);
tuff_tensor *tuff__concat_as_view(rewriting *self, tuff_tensor *const *values, int count, int axis);

tuff_status tuff__merge_columns(rewriting *self);
tuff_status tuff__merge_terms(rewriting *self);
tuff_status tuff__merge_gradients(rewriting *self);
tuff_status tuff__split_k(rewriting *self);

#endif
