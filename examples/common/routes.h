/* Vehicle routing: node 0 is the depot, the others are customers in the unit square, whose demands one vehicle of a
   given capacity serves in several tours. Instances are drawn on the host; the vehicles of a batch move on the
   device. */
#ifndef TUFF_EXAMPLES_ROUTES_H
#define TUFF_EXAMPLES_ROUTES_H

#include "example.h"

enum { ROUTES_LARGEST_DEMAND = 10, ROUTES_MAX_NODES = 257 };

/* Draws `count` instances with n nodes: coords [count,n,2] on a grid of hundredths, and demand [count,n] from 1 to
   ROUTES_LARGEST_DEMAND, 0 at the depot. If checks, coords are not on the grid, but no distance lies within rounding of
   a multiple of 0.1. */
void routes_draw(example_random *random, int64_t count, int64_t n, bool checks, float *coords, int32_t *demand);
/* Draws random tours that serve all customers and sometimes return early. Writes their first T nodes, padded with 0, to
   actions [count,T]. */
void routes_draw_actions(example_random *random, int64_t count, int64_t n, const int32_t *demand, int32_t capacity,
                         int64_t T, int32_t *actions);
/* Uploads the Euclidean distances between the nodes of coords [count,n,2] to an input [count,n,n], one instance at a
   time. */
tuff_status routes_upload_distances(tuff_plan *plan, const char *input, int64_t count, int64_t n, const float *coords);

/* State of the vehicles of a batch, as tensors of a graph. */
typedef struct routes_state {
    tuff_tensor *demand, *capacity; /* f32 [B,n] and [B] */
    tuff_tensor *node;              /* i32 [1,n]: 0, 1, ... */
    tuff_tensor *current, *here;    /* the vehicle's node, i32 [B], and the same as a one-hot bool [B,n] */
    tuff_tensor *left, *visited;    /* remaining capacity, f32 [B]; customers served so far, bool [B,n] */
    tuff_tensor *count, *done;      /* customers served, f32 [B]; all served and back at the depot, bool [B] */
} routes_state;
/* All vehicles at the depot, nobody served yet. demand and capacity as in routes_state. */
routes_state routes_start(tuff_tensor *demand, tuff_tensor *capacity);
/* Nodes that a vehicle may not visit, bool [B,n]: customers already served or with a demand above the remaining
   capacity, and the depot if the vehicle is there while customers wait. */
tuff_tensor *routes_mask(const routes_state *self);
/* Moves every vehicle to the node `to`, i32 [B]. A vehicle that is done stays at the depot. */
void routes_move(routes_state *self, tuff_tensor *to);

#endif
