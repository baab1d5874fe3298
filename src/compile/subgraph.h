/* A task's part of its graph as a graph of its own: the values that the task reads become inputs, those that it stores
   become outputs. Independent axes may be sampled, so that the host can check a few elements of a large task, or be
   given odd extents, for a task of the same structure that no tile divides. */
#ifndef TUFF_COMPILE_SUBGRAPH_H
#define TUFF_COMPILE_SUBGRAPH_H

#include "compile/fuse/fuse.h"

typedef struct subgraph subgraph;

/* Creates a subgraph of a whole task, unsampled. The fusion must outlive it. Returns TUFF_E_UNSUPPORTED if the task
   reads a value that cannot be an input. */
tuff_status tuff__subgraph_create(const struct fusion *fusion, int task, subgraph **out);
void tuff__subgraph_destroy(subgraph *self); /* self may be NULL */

/* Samples at most max_places places of each axis that allows it: the required ones, the first, the last, the middle
   one, and some in between. 0 selects all places. */
tuff_status tuff__subgraph_sample(subgraph *self, int max_places);
/* Makes later samples include an element of a node, given by its place along every axis. If not all required elements
   fit, the latest ones are kept. */
void tuff__subgraph_require_sample(subgraph *self, const node *at, const int64_t *place);
/* Gives odd extents of at most max_extent to the axes that allow it. Returns whether any does. */
bool tuff__subgraph_shrink(subgraph *self, int64_t max_extent);

/* Estimates the number of terms that the host has to compute. */
double tuff__subgraph_cost(const subgraph *self);
/* The nodes that the task reads, and those that it stores. */
int tuff__subgraph_read_count(const subgraph *self);
const node *tuff__subgraph_read(const subgraph *self, int index);
int tuff__subgraph_root_count(const subgraph *self);
const node *tuff__subgraph_root(const subgraph *self, int index);
/* A node's shape in the subgraph, and the place in the task of index i along one of the node's axes. */
tuff_shape tuff__subgraph_shape(const subgraph *self, const node *at);
int64_t tuff__subgraph_task_index(const subgraph *self, const node *at, int axis, int64_t i);
/* Whether results are discontinuous functions of the inputs, so that rounding an input may change them by any
   amount. */
bool tuff__subgraph_is_discontinuous(const subgraph *self);
/* Whether inputs may have either sign, because no op of the subgraph is partial. */
bool tuff__subgraph_allows_negative(const subgraph *self);
/* Whether the subgraph computes only sums of products of its inputs. Test buffers hold eighths between -1 and 1, whose
   sums of products f32 represents exactly, in whatever order they are added. */
bool tuff__subgraph_is_exact(const subgraph *self);
/* Returns the smallest extent in which indices among the inputs look up; 0 if there are no indices. */
int64_t tuff__subgraph_index_bound(const subgraph *self);

/* Returns "r0", "r1", ... for reads or "o0", ... for roots, written to buffer, which has 16 bytes. */
const char *tuff__subgraph_name(char kind, int index, char *buffer);
/* Builds the subgraph as a graph with those names, which the caller owns. It borrows the constants of the fusion's
   graph. With as_stored, inputs and outputs have the dtypes of tuff__subgraph_dtype, with casts, so that a plan reads
   and stores as the task does; else they have those of the nodes. */
tuff_status tuff__subgraph_graph(const subgraph *self, tuff_device *device, bool as_stored, tuff_graph **out);
/* Returns the dtype of a node in the task's memory, which is narrower than the node's own if the plan's precision
   is. */
tuff_dtype tuff__subgraph_dtype(const subgraph *self, const node *at);
/* Returns the dtype to which a node's values are rounded in memory: tuff__subgraph_dtype, or a narrower one if the
   rounded values are stored as f32. */
tuff_dtype tuff__subgraph_rounding(const subgraph *self, const node *at);
/* Returns the dtype to which factors on matrix units may be rounded, including those that the task computes itself: the
   one that the plan allows, or the 16-bit dtype that the task reads; f32 if none is rounded. */
tuff_dtype tuff__subgraph_factor_dtype(const subgraph *self);
/* Whether the task computes with values that it stores, which may have been rounded by then. */
bool tuff__subgraph_reads_roots(const subgraph *self);

#endif
