/* Graphs that are hard to fuse correctly. */
#ifndef TESTS_HARD_GRAPHS_H
#define TESTS_HARD_GRAPHS_H

#include "differential.h"

typedef struct hard_graph {
    const char *name;
    graph_builder build;
    bool unfused; /* worth testing without fusion, too */
} hard_graph;

extern const hard_graph hard_graphs[];
extern const int hard_graph_count;

/* Returns the builder of that name, or NULL. */
graph_builder find_hard_graph(const char *name);

#endif
