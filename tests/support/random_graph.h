/* Random graphs for differential tests: every kind of primitive and many composites, over shapes that seldom divide by
   anything, with gradients. Values stay of moderate size, and no discontinuous op is applied to a rounded value,
   because no error bound would hold there. */
#ifndef TESTS_RANDOM_GRAPH_H
#define TESTS_RANDOM_GRAPH_H

#include <stdint.h>

#include "tuff.h"

/* A graph_builder; context is a uint64_t, the seed. */
void random_graph(tuff_graph *graph, const void *seed);

#endif
