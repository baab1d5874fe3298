/* Vehicle routing: the depot, node 0, and customers in the unit square, whose demands one vehicle of a given capacity
   serves in several tours. Instances are drawn on the host; the vehicles of a batch move on the device. */
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

/* Where the vehicles of a batch stand, in a graph. */
typedef struct routes_state {
    tuff_tensor *demand, *capacity; /* f32 [B,n] and [B] */
    tuff_tensor *node;              /* i32 [1,n]: 0, 1, ... */
    tuff_tensor *current, *here;    /* the node of a vehicle, i32 [B], and the same as bool [B,n] */
    tuff_tensor *left, *visited;    /* what it can still load, f32 [B]; customers that were served, bool [B,n] */
    tuff_tensor *count, *done; /* of customers served, f32 [B]; all are, and the vehicle is at the depot: bool [B] */
} routes_state;
/* At the depot, empty-handed. demand and capacity as above. */
routes_state routes_begin(tuff_tensor *demand, tuff_tensor *capacity);
/* Where vehicles may not go, bool [B,n]: customers who were served or demand more than is left, and the depot, for a
   vehicle that stands there while customers wait. */
tuff_tensor *routes_mask(const routes_state *self);
/* Moves every vehicle to a node, i32 [B]. One that is done stays at the depot. */
void routes_move(routes_state *self, tuff_tensor *to);

#endif
