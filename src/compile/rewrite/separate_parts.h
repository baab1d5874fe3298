/* Concats of many parts, such as the gradients of a whole model in a slab. */
#ifndef TUFF_COMPILE_REWRITE_SEPARATE_PARTS_H
#define TUFF_COMPILE_REWRITE_SEPARATE_PARTS_H

#include "graph/graph.h"

/* Makes it possible to compute every part of a concat of many parts straight into its place. A part that has memory
   elsewhere (a source, a concat, a part of another concat, or a part that occurs twice) is replaced by a view of it,
   which becomes a copy. Otherwise a single kernel would have to read all parts, which are more than it can bind.
   Rewrites the graph in place, as tuff__merge_matmuls does. */
tuff_status tuff__separate_parts(tuff_graph *graph);

#endif
