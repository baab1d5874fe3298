/* Matmuls that share an operand become one, and one that leaves most of the device idle becomes several. Rewritings of
   a simplified graph, one file each:

     x · w0, x · w1, ...               become  x · [w0 w1 ...] and slices of it        (merge_columns.c)
     y0 · v0 + y1 · v1 + ...           becomes [y0 y1 ...] · [v0; v1; ...]             (merge_terms.c)
     x' · y0, x' · y1, ... in a slab   become  one product that the slab takes whole   (merge_gradients.c)
     x · y with few tiles and a long inner axis becomes a sum over its pieces          (split_k.c)

   Weights are joined only as a view of the memory that they lie in, never by a copy; the cost model decides whether
   joining pays. */
#ifndef TUFF_COMPILE_REWRITE_MATMUL_MERGE_H
#define TUFF_COMPILE_REWRITE_MATMUL_MERGE_H

#include "compile/rewrite/passes.h"
#include "compile/rewrite/view.h"
#include "device/target.h"

/* Rewrites the graph in place: nodes are sorted and numbered anew, dead ones dropped. After a failure the graph can
   only be destroyed. passes may be NULL. */
tuff_status tuff__merge_matmuls(tuff_graph *graph, pass_choices *passes);

/* Between the files that merge matmuls. */
#define MAX_MERGED 8   /* that become one */
#define MAX_FACTORS 32 /* that are looked at together */

typedef struct rewriting {
    tuff_graph *graph;
    int original_count; /* nodes beyond are new */
    int *use_count;     /* by original node: uses by live nodes */
    node **user;        /* one of them */
    bool *kept;         /* is an output, or assigned */
    bool *taken;        /* replaced, or a part of something new */
    tuff_tensor **now;  /* what stands for the node's value; NULL: itself */
    target target;
    pass_choices *passes;
} rewriting;

/* Counts uses. end follows whatever came of it: it redirects the uses of what was replaced, sorts the nodes and frees
   what begin allocated; status: of the rewriting. */
tuff_status tuff__rewriting_begin(rewriting *self, tuff_graph *graph);
tuff_status tuff__rewriting_end(rewriting *self, tuff_status status);
/* The only user of a value that nothing else needs, or NULL. */
node *tuff__only_user(const rewriting *self, const node *at);

/* A factor of a matmul, [rows, columns], as a view of memory: element (i, k) of the base, or of the storage where the
   base is an array, is at offset + i · row_stride + k · column_stride. */
typedef struct factor {
    const node *base;
    view place;
    tuff_dtype dtype; /* that it is read as; the base's may be narrower */
} factor;

/* False where there is no such view. */
bool tuff__factor_of(const tuff_tensor *operand, factor *out);
/* Orders at most MAX_FACTORS factors by where they begin, and the members that they belong to likewise. */
void tuff__sort_factors(factor *factors, node **members, int count);
/* How many of the factors, from the first on, form [rows, sum of columns], [sum of rows, columns] and
   [factors, rows, columns] as one view; at least 1. */
int tuff__run_of_columns(const factor *factors, int count);
int tuff__run_of_rows(const factor *factors, int count);
int tuff__run_of_stack(const factor *factors, int count);
/* That view as a tensor; NULL where it has no legal form. */
tuff_tensor *tuff__join_columns(rewriting *self, const factor *factors, int count);
tuff_tensor *tuff__join_rows(rewriting *self, const factor *factors, int count);
tuff_tensor *tuff__join_stack(rewriting *self, const factor *factors, int count);

/* What a merge would change, for tuff__merge_is_profitable. */
typedef struct merge_cost {
    int64_t rows, inner;         /* of every product */
    int64_t columns[MAX_MERGED]; /* of each */
    int count;
    bool along_inner; /* the products are terms of a sum: inner is of all together */
    int launches_saved;
    double bytes_added; /* read and written more than before; may be negative */
} merge_cost;
bool tuff__merge_is_profitable(const rewriting *self, const merge_cost *cost);

/* The values side by side along an axis, which they are computed into; whether no copy is needed for that. */
bool tuff__concat_is_free(const rewriting *self, tuff_tensor *const *values, int count, int axis);
tuff_tensor *tuff__concat_as_view(rewriting *self, tuff_tensor *const *values, int count, int axis);

tuff_status tuff__merge_columns(rewriting *self);
tuff_status tuff__merge_terms(rewriting *self);
tuff_status tuff__merge_gradients(rewriting *self);
tuff_status tuff__split_k(rewriting *self);

#endif
