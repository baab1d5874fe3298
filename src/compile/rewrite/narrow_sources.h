/* The copies of 16 bits that mixed precision makes of what matmuls read. */
#ifndef TUFF_COMPILE_REWRITE_NARROW_SOURCES_H
#define TUFF_COMPILE_REWRITE_NARROW_SOURCES_H

#include "tuff/graph.h"

/* Lets matmuls read casts of f32 inputs, arrays and constants, one for each and for each run of arrays that lie beside
   each other; nothing where the precision is f32. Like tuff__merge_matmuls for what becomes of the nodes. */
tuff_status tuff__narrow_sources(tuff_graph *graph, tuff_precision precision);

#endif
