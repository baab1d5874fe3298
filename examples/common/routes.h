/* Instances of vehicle routing on the host: the depot, node 0, and customers in the unit square, whose demands one
   vehicle of a given capacity serves in several tours. */
#ifndef TUFF_EXAMPLES_ROUTES_H
#define TUFF_EXAMPLES_ROUTES_H

#include "example.h"

enum { ROUTES_LARGEST_DEMAND = 10, ROUTES_MAX_NODES = 257 };

/* Writes `count` instances with n nodes: coords [count,n,2] on a grid of hundredths, demand [count,n] from 1 to
   ROUTES_LARGEST_DEMAND, 0 of the depot. For a check coords lie anywhere, but so that no distance is within rounding of
   a multiple of a tenth. */
void routes_draw(example_random *random, int64_t count, int64_t n, bool checks, float *coords, int32_t *demand);
/* The first T nodes of routes that serve all and return now and then, 0 behind their ends: actions [count,T]. */
void routes_draw_actions(example_random *random, int64_t count, int64_t n, const int32_t *demand, int32_t capacity,
                         int64_t T, int32_t *actions);
/* Uploads the Euclidean distances of coords [count,n,2] to an input [count,n,n], one instance after the other. */
tuff_status routes_upload_distances(tuff_plan *plan, const char *input, int64_t count, int64_t n, const float *coords);

#endif
