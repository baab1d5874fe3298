/* Values for graphs whose inputs nobody provides: those of files. */
#ifndef TUFF_TOOLS_MODEL_GRAPH_DATA_H
#define TUFF_TOOLS_MODEL_GRAPH_DATA_H

#include "tuff.h"

/* Writes an input of a graph by name. `to` is the argument of graph_data_make. */
typedef tuff_status graph_data_writer(void *to, const char *name, const void *data, size_t size);

/* Makes values for every input of a loaded graph, which the writer gets, and for its arrays, which are written. The
   values are random, the same in every call with that seed, and valid for what the graph does with them: integers that
   select along an axis, or are compared with positions along one, lie within its extent; floats are not negative if a
   root or logarithm of them is taken. Other integers are small in inputs, and 0 in arrays. */
tuff_status graph_data_make(const tuff_graph *graph, uint64_t seed, graph_data_writer *write, void *to);
/* The same for a plan that was compiled from the graph. */
tuff_status graph_data_write(const tuff_graph *graph, uint64_t seed, tuff_plan *plan);

#endif
