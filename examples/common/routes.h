/* Instances of vehicle routing on the host: the depot, node 0, and customers in the unit square, whose demands one
   vehicle of a given capacity serves in several tours. */
#ifndef TUFF_EXAMPLES_ROUTES_H
#define TUFF_EXAMPLES_ROUTES_H

#include "example.h"

enum { ROUTES_LARGEST_DEMAND = 10, ROUTES_MAX_NODES = 257 };

/* An instance with n nodes: coords [n,2] on a grid of hundredths, demand [n] from 1 to ROUTES_LARGEST_DEMAND, 0 of the
   depot. For a check coords lie anywhere, but so that no distance is within rounding of a multiple of a tenth. */
void routes_draw(example_random *random, int64_t n, bool checks, float *coords, int32_t *demand);
/* The first T nodes of a route that serves all and returns now and then; 0 behind its end. */
void routes_draw_actions(example_random *random, int64_t n, const int32_t *demand, int32_t capacity, int64_t T,
                         int32_t *actions);
/* Euclidean distances dist [n,n] of coords [n,2]. */
void routes_distances(int64_t n, const float *coords, float *dist);

#endif
