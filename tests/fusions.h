/* Graphs as the compiler sees them, for tests of its tasks. */
#ifndef TESTS_FUSIONS_H
#define TESTS_FUSIONS_H

#include "compile/fuse.h"

/* Simplifies and fuses a graph, which it destroys, by those options, and shows the result. */
void with_fusion(tuff_graph *graph, const tuff_compile_options *options,
                 void (*visit)(const struct fusion *fusion, void *state), void *state);

#endif
