/* Gradient checkpointing: while gradients are built, a value inside a segment marked by tuff_recompute is read as a
   copy that is recomputed from the segment's inputs. */
#ifndef TUFF_GRAPH_SEGMENT_H
#define TUFF_GRAPH_SEGMENT_H

#include "graph/graph.h"

/* State of one call of tuff_gradients. */
typedef struct recomputation {
    tuff_graph *graph;
    struct segment_copies *segments; /* one for each segment of the graph */
    int count;
    bool *fixed; /* by node id: depends on constants only, so that a copy would save nothing */
} recomputation;

/* Finds the members of all segments. tuff__recomputation_end must be called, even after a failure. */
tuff_status tuff__recomputation_begin(tuff_graph *graph, recomputation *out);
void tuff__recomputation_end(recomputation *self);

/* Sets *out to the node as its gradient should see it: inputs and result are values that are kept or recomputed.
   Returns false, with the graph's error set, if out of memory. */
bool tuff__as_recomputed(recomputation *self, const node *n, node *out);

#endif
