/* A task's part of its graph, by itself and smaller: what it reads becomes inputs, what it stores outputs. Of axes
   along which values do not depend on each other some places alone may be looked at, for the host to compute what the
   whole task has there; or axes get other, odd extents, for a task of the same structure that no tile divides. */
#ifndef TUFF_RUN_EXCERPT_H
#define TUFF_RUN_EXCERPT_H

#include "compile/fuse.h"

typedef struct excerpt excerpt;

/* Whole, at first. TUFF_E_UNSUPPORTED: the task needs what no input can stand for. The fusion outlives it. */
tuff_status tuff__excerpt_create(const struct fusion *fusion, int task, excerpt **out);
void tuff__excerpt_destroy(excerpt *self); /* NULL is allowed */

/* Takes at most so many places of each axis that allows it: those that are wanted, the first, the last, the middle, and
   some between, as far as there is room; 0: all of them. */
tuff_status tuff__excerpt_sample(excerpt *self, int most);
/* Has later samples take an element of a node, by its place along every axis. Of those that cannot all be taken the
   last are. */
void tuff__excerpt_want(excerpt *self, const node *of, const int64_t *place);
/* Gives the axes that allow it odd extents, none above most; *changed: whether any allows it. */
tuff_status tuff__excerpt_shrink(excerpt *self, int64_t most, bool *changed);

/* About how many terms the host computes. */
double tuff__excerpt_cost(const excerpt *self);
/* The nodes: those that the task reads, and those that it stores. */
int tuff__excerpt_read_count(const excerpt *self);
const node *tuff__excerpt_read(const excerpt *self, int index);
int tuff__excerpt_root_count(const excerpt *self);
const node *tuff__excerpt_root(const excerpt *self, int index);
/* A node's shape in the excerpt, and the place in the task of element i along one of its axes. */
tuff_shape tuff__excerpt_shape(const excerpt *self, const node *of);
int64_t tuff__excerpt_place(const excerpt *self, const node *of, int axis, int64_t i);
/* Whether results jump where inputs do not: what one rounding decides may be anything. */
bool tuff__excerpt_jumps(const excerpt *self);
/* Whether what it reads may be of either sign, as none of its ops is partial. */
bool tuff__excerpt_takes_signs(const excerpt *self);
/* Whether sums of products of eighths between -1 and 1, which is what grounds hold, are all that it has: f32 keeps
   each of them exactly, in whatever order they are added. */
bool tuff__excerpt_is_exact(const excerpt *self);
/* The least extent that indices among the inputs find something at; 0 where there are none. */
int64_t tuff__excerpt_index_bound(const excerpt *self);

/* "r0", "r1", ... for reads and "o0", ... for roots; another call needs another buffer of 16 bytes. */
const char *tuff__excerpt_name(char kind, int index, char *buffer);
/* The excerpt as a graph with those names: the caller's. It borrows the constants of the fusion's graph. */
tuff_status tuff__excerpt_graph(const excerpt *self, tuff_device *device, tuff_graph **out);

#endif
