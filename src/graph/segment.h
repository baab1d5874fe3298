/* Segments marked by tuff_recompute, while gradients are built: what they keep nothing of is read as a copy, which is
   computed from the segment's inputs. */
#ifndef TUFF_GRAPH_SEGMENT_H
#define TUFF_GRAPH_SEGMENT_H

#include "graph/graph.h"

/* One call of tuff_gradients. */
typedef struct recomputation {
    tuff_graph *graph;
    struct segment_copies *segments; /* one for each segment of the graph */
    int count;
    bool *fixed; /* by node: made of constants alone, so that nothing is gained by a copy */
} recomputation;

/* Finds the members of all segments. recomputation_end frees it, after a failure too. */
tuff_status tuff__recomputation_begin(tuff_graph *graph, recomputation *out);
void tuff__recomputation_end(recomputation *self);

/* The node as its gradients are to see it, in *out: inputs and result are those kept or computed again. False with the
   graph's error set where memory ran out. */
bool tuff__as_recomputed(recomputation *self, const node *n, node *out);

#endif
