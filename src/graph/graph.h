/* Graphs from the inside: nodes in an arena, in building order, which is a topological order. */
#ifndef TUFF_GRAPH_GRAPH_H
#define TUFF_GRAPH_GRAPH_H

#include "base/alloc.h"
#include "base/text.h"
#include "device/device.h"
#include "ops/ops.h"
#include "tuff/graph.h"
#include "tuff/ops.h"

typedef struct node node;

/* A value: (node, output index). Tensors of a graph in error may have node NULL. */
struct tuff_tensor {
    tuff_graph *graph;
    node *node;
    int output;
    tuff_dtype dtype;
    tuff_shape shape;
};

/* A composite whose gradient is not that of its parts: what it was made of, and the gradient of its result with respect
   to inputs[input], given the upstream gradient; inputs may be copies (tuff_recompute). options are the composite's. */
typedef struct own_gradient {
    tuff_tensor **inputs;
    int input_count;
    const void *options;
    tuff_tensor *(*gradient)(tuff_tensor *const *inputs, const void *options, tuff_tensor *upstream, int input);
} own_gradient;

/* Inputs come from earlier nodes. Every op of today has one output. */
struct node {
    op_code op;
    int id; /* position in the graph's nodes */
    int input_count, output_count;
    tuff_tensor **inputs;
    tuff_tensor *outputs; /* array of output_count */
    op_attributes attributes;
    const own_gradient *own; /* where the node is the result of such a composite; else NULL */
    bool stops_gradient;     /* tuff_gradients treats the value as a constant */
    bool is_late_copy;       /* made by compile: computes an earlier node's value once more, near its late readers */
    int copy;         /* the recomputation that it is part of, never one node with an equal one outside; 0: none */
    tuff_phase phase; /* not before that of an input */
};

/* A segment whose values gradients do not keep. */
typedef struct segment {
    const node *result;
    const node **inputs;
    int input_count;
} segment;

typedef struct graph_output {
    const char *name;
    tuff_tensor *tensor;
} graph_output;

/* An array that came with a graph that was read. */
typedef struct graph_array {
    tuff_array *array;
    const char *name; /* "" where it has none */
} graph_array;

struct tuff_graph {
    tuff_device *device;
    arena arena;
    node **nodes;
    int node_count, node_capacity;
    graph_output *outputs;
    int output_count, output_capacity;
    node **assigns; /* the ASSIGN nodes, in order */
    int assign_count, assign_capacity;
    segment *segments;
    int segment_count, segment_capacity;
    graph_array *arrays; /* destroyed with the graph */
    int array_count;
    int copy_count;     /* recomputations so far */
    int copy;           /* of the nodes being made */
    tuff_phase phase;   /* likewise */
    tuff_tensor failed; /* what builders return when they cannot make a node */
    tuff_status status; /* the first error */
    char message[TUFF_ERROR_SIZE];
    uint32_t seed, random_count; /* RANDOM nodes made so far: the next ordinal */
    tuff_array *step_array;      /* the counter; NULL until given or needed */
    bool owns_step;              /* made by the graph: compile appends the raise, destroy frees it */
};

/* Adds a node with one output; attributes may be NULL. Inputs must be valid tensors of the graph. Returns a tensor that
   carries the error where memory runs out. No checks: builders made them. */
tuff_tensor *tuff__node_create(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape,
                               tuff_tensor *const *inputs, int input_count, const op_attributes *attributes);

/* Nodes made from here on belong to the recomputation and the phase of model; NULL: to none, and to the forward pass.
   */
void tuff__graph_set_origin(tuff_graph *graph, const node *model);

/* Puts the nodes into another order, a topological one that may lack old nodes and have new ones, and drops what
   nothing needs; inputs stay. */
tuff_status tuff__graph_reorder(tuff_graph *graph, node *const *order, int count);

/* Keeps the graph's first error and returns the tensor that carries it. */
tuff_tensor *tuff__graph_fail(tuff_graph *graph, tuff_status status, const char *format, ...) PRINTF_LIKE(3, 4);
/* The same where memory ran out while a node, or what belongs to one, was made. */
tuff_tensor *tuff__graph_out_of_memory(tuff_graph *graph);

/* One line a node, for debugging: "%5 = add f32 [2,3] (%1, %4)". */
void tuff__graph_print(const tuff_graph *graph, text *out);

/* For tests: the op whose gradients tuff_gradients negates, OP_COUNT for none. A test suite that stays green with a
   sign error planted proves nothing. */
extern op_code tuff__mutated_gradient;

#endif
