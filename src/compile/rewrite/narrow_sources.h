/* The 16-bit copies that mixed precision makes of the sources that matmuls read. */
#ifndef TUFF_COMPILE_REWRITE_NARROW_SOURCES_H
#define TUFF_COMPILE_REWRITE_NARROW_SOURCES_H

#include "tuff/graph.h"

/* Makes matmuls read casts of f32 inputs, arrays and constants: one cast for each source, or for a run of neighbouring
   arrays. Does nothing if the precision is f32. Rewrites the graph in place, as tuff__merge_matmuls does. */
tuff_status tuff__narrow_sources(tuff_graph *graph, tuff_precision precision);

#endif
