/* What subgraph.c and axis_dependence.c share: a subgraph from the inside, and the classes of its axes. */
#ifndef TUFF_COMPILE_AXIS_DEPENDENCE_H
#define TUFF_COMPILE_AXIS_DEPENDENCE_H

#include "compile/subgraph.h"

/* Places of one axis that later samples can be made to take. */
enum { MAX_WANTED = 16 };

/* An axis of a node, or the class of axes that it stands for. */
typedef struct axis_state {
    int above; /* the class that it became a part of; itself: it stands for its class */
    int64_t was, now;
    bool fixed;      /* must stay as it is */
    bool whole;      /* no place of it can be left out */
    int product;     /* the product that it is the result of; -1: none */
    int64_t *places; /* in the arena, `now` of them; NULL: all */
    int64_t wanted[MAX_WANTED];
    int wanted_count;
} axis_state;

/* A reshape that makes one axis of several, or several of one. */
typedef struct axis_product {
    int result, factors[TUFF_MAX_RANK], count;
} axis_product;

struct subgraph {
    const struct fusion *fusion;
    const struct task *task;
    const node **nodes; /* in order of their ids */
    bool *read;         /* by position in nodes */
    int *position;      /* by id; -1: no part of it */
    int node_count;
    axis_state *axes; /* TUFF_MAX_RANK for each node */
    axis_product *products;
    int product_count, product_capacity;
    const node **reads, **roots;
    int read_count, root_count;
    arena arena;
};

/* The number of the class that an axis of a node belongs to. */
int tuff__axis_class(const subgraph *self, const node *at, int axis);
/* Finds the classes and what they allow. */
tuff_status tuff__find_axes(subgraph *self);

#endif
