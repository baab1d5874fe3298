/* Shared by subgraph.c and axis_dependence.c: the fields of a subgraph, and the classes of its axes. */
#ifndef TUFF_COMPILE_AXIS_DEPENDENCE_H
#define TUFF_COMPILE_AXIS_DEPENDENCE_H

#include "compile/subgraph.h"

/* Places on one axis that samples can be required to include, at most. */
enum { MAX_REQUIRED = 16 };

/* An axis of a node, or the class of axes that it represents. */
typedef struct axis_state {
    int parent;         /* in the union-find forest; itself: it represents its class */
    int64_t extent;     /* in the task */
    int64_t new_extent; /* in the subgraph, whose axes may be sampled or resized */
    bool fixed;      /* its extent must not change, nor may it be sampled */
    bool whole;      /* it must not be sampled: no place may be left out */
    int product;     /* index of the product that it is the result of; -1: none */
    int64_t *places; /* the sampled places, `new_extent` of them, in the arena; NULL: all */
    int64_t required[MAX_REQUIRED];
    int required_count;
} axis_state;

/* An axis that a reshape makes of several, or splits into several. */
typedef struct axis_product {
    int result, factors[TUFF_MAX_RANK], count;
} axis_product;

struct subgraph {
    const struct fusion *fusion;
    const struct task *task;
    const node **nodes; /* in the order of their ids */
    bool *read;         /* by position in nodes: the task reads it from memory */
    int *position;      /* by id: the position in nodes; -1: not in the subgraph */
    int node_count;
    axis_state *axes; /* TUFF_MAX_RANK of them for each node */
    axis_product *products; /* at most one for each axis of a node */
    int product_count;
    const node **reads, **roots;
    int read_count, root_count;
    arena arena;
};

/* Returns the number of the class to which an axis of a node belongs. */
int tuff__axis_class(const subgraph *self, const node *at, int axis);
/* Finds the classes of axes, and which of them may be sampled or resized. */
void tuff__find_axes(subgraph *self);

#endif
