/* What a whole graph is to the tuner: the key of how its ops are fused. */
#ifndef TUFF_RUN_GRAPH_KEY_H
#define TUFF_RUN_GRAPH_KEY_H

#include "graph/graph.h"
#include "tune/key.h"

/* The family of these keys, and the word that their tunables begin with. */
#define FUSION_FAMILY "fusion"

/* Of a graph that is simplified and not rewritten yet. Equal graphs have equal keys, whatever their values are called
   and wherever they lie; graphs of one structure differ in dims alone. */
void tuff__graph_key(const tuff_graph *graph, tune_key *out);

#endif
