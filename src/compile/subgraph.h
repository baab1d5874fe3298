/* A task's part of its graph as a graph of its own: what the task reads becomes inputs, what it stores outputs.
   Independent axes may be sampled, so that the host can check a few elements of a large task, or be given odd extents,
   for a task of the same structure that no tile divides. */
#ifndef TUFF_COMPILE_SUBGRAPH_H
#define TUFF_COMPILE_SUBGRAPH_H

#include "compile/fuse/fuse.h"

typedef struct subgraph subgraph;

/* At first the whole task. TUFF_E_UNSUPPORTED: the task reads what cannot be an input. The fusion must outlive it. */
tuff_status tuff__subgraph_create(const struct fusion *fusion, int task, subgraph **out);
void tuff__subgraph_destroy(subgraph *self); /* NULL is allowed */

/* Samples at most so many places of each axis that allows it: those that are required, the first, the last, the middle,
   and some between; 0: all of them. */
tuff_status tuff__subgraph_sample(subgraph *self, int most);
/* Makes later samples include an element of a node, by its place along every axis; where not all fit, the last ones. */
void tuff__subgraph_require_sample(subgraph *self, const node *at, const int64_t *place);
/* Gives odd extents, none above most, to the axes that allow it; *changed: whether any does. */
tuff_status tuff__subgraph_shrink(subgraph *self, int64_t most, bool *changed);

/* About how many terms the host computes. */
double tuff__subgraph_cost(const subgraph *self);
/* The nodes: those that the task reads, and those that it stores. */
int tuff__subgraph_read_count(const subgraph *self);
const node *tuff__subgraph_read(const subgraph *self, int index);
int tuff__subgraph_root_count(const subgraph *self);
const node *tuff__subgraph_root(const subgraph *self, int index);
/* A node's shape in the subgraph, and the place in the task of element i along one of its axes. */
tuff_shape tuff__subgraph_shape(const subgraph *self, const node *at);
int64_t tuff__subgraph_task_index(const subgraph *self, const node *at, int axis, int64_t i);
/* Whether results are discontinuous, so that the rounding of an input may change them by any amount. */
bool tuff__subgraph_is_discontinuous(const subgraph *self);
/* Whether what it reads may be of either sign, as none of its ops is partial. */
bool tuff__subgraph_takes_signs(const subgraph *self);
/* Whether sums of products of eighths between -1 and 1, which is what test buffers hold, are all that it has: f32 keeps
   each of them exactly, in whatever order they are added. */
bool tuff__subgraph_is_exact(const subgraph *self);
/* The smallest extent that indices among the inputs look up in; 0 where there are no indices. */
int64_t tuff__subgraph_index_bound(const subgraph *self);

/* "r0", "r1", ... for reads and "o0", ... for roots; another call needs another buffer of 16 bytes. */
const char *tuff__subgraph_name(char kind, int index, char *buffer);
/* The subgraph as a graph with those names: the caller's. It borrows the constants of the fusion's graph. as_stored:
   inputs and outputs have the dtypes of tuff__subgraph_dtype, with casts, so that a plan reads and stores as the task
   does; else those of the nodes. */
tuff_status tuff__subgraph_graph(const subgraph *self, tuff_device *device, bool as_stored, tuff_graph **out);
/* With which dtype the task has a node in memory: fewer bits than the node's where the plan has a precision. */
tuff_dtype tuff__subgraph_dtype(const subgraph *self, const node *at);
/* What the values of a node are rounded to in memory: that dtype, or the same in more bits. */
tuff_dtype tuff__subgraph_rounding(const subgraph *self, const node *at);
/* What factors on matrix units may be rounded to, those among them that the task makes itself: as the plan allows, or
   the 16 bits that it reads; f32: none is. */
tuff_dtype tuff__subgraph_factors(const subgraph *self);
/* Whether the task computes with what it stores, which may be rounded by then. */
bool tuff__subgraph_reads_roots(const subgraph *self);

#endif
