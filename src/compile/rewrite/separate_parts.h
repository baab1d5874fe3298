/* Concats of many parts, such as all gradients of a model in a slab. */
#ifndef TUFF_COMPILE_REWRITE_SEPARATE_PARTS_H
#define TUFF_COMPILE_REWRITE_SEPARATE_PARTS_H

#include "graph/graph.h"

/* Lets every part of a concat of many be computed straight into its place: a part that has memory elsewhere (a source,
   a concat, a part of another one or of the same a second time) is replaced by a view of it, which becomes a copy.
   Otherwise one kernel would have to read all parts, more than it can bind. Like tuff__merge_matmuls for what becomes
   of the nodes. */
tuff_status tuff__separate_parts(tuff_graph *graph);

#endif
