/* Values for graphs whose inputs nobody provides: those of files. */
#ifndef TUFF_TOOLS_MODEL_GRAPH_DATA_H
#define TUFF_TOOLS_MODEL_GRAPH_DATA_H

#include "tuff.h"

/* Writes every input of the plan, and every array of the loaded graph that it was compiled from. The values are random,
   the same in every call, and valid for what the graph does with them: integers that select along an axis, or are
   compared with positions along one, lie within its extent; floats are not negative if a root or logarithm of them is
   taken. Other integers are small in inputs, and 0 in arrays. */
tuff_status graph_data_write(const tuff_graph *graph, tuff_plan *plan);

#endif
