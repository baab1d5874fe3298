/* The inside of graphs: nodes in an arena, in building order, which is a topological order. */
#ifndef TUFF_GRAPH_GRAPH_H
#define TUFF_GRAPH_GRAPH_H

#include "base/alloc.h"
#include "base/text.h"
#include "device/device.h"
#include "ops/ops.h"
#include "tuff/graph.h"
#include "tuff/ops.h"

typedef struct node node;

/* A value: the output of a node. In a graph in error, node may be NULL. */
struct tuff_tensor {
    tuff_graph *graph;
    node *node;
    tuff_dtype dtype;
    tuff_shape shape;
};

/* The gradient of a composite that does not use the gradients of its parts: the composite's inputs and options, and a
   function that returns the gradient of its result with respect to inputs[input], given the upstream gradient. It may
   be called with copies of the inputs (tuff_recompute). */
typedef struct custom_gradient {
    tuff_tensor **inputs;
    int input_count;
    const void *options;
    tuff_tensor *(*gradient)(tuff_tensor *const *inputs, const void *options, tuff_tensor *upstream, int input);
} custom_gradient;

/* Inputs come from earlier nodes. Every op has one output, outputs[0]. */
struct node {
    op_code op;
    int id; /* position in graph->nodes */
    int input_count;
    tuff_tensor **inputs;
    tuff_tensor *outputs;
    op_attributes attributes;
    const custom_gradient *custom; /* set on the result of a composite with its own gradient; else NULL */
    bool stops_gradient;           /* tuff_gradients treats the value as a constant */
    bool is_late_copy;             /* made by compile: recomputes an earlier node's value near its late users */
    int recomputation;             /* its number; 0: none; nodes of different recomputations are never merged */
    tuff_phase phase;              /* not earlier than that of any input */
};

/* Returns the node under views. */
static inline const node *tuff__skip_views(const node *at)
{
    while (tuff__op_is_view(at->op))
        at = at->inputs[0]->node;
    return at;
}

/* Whether the node is a constant with a single number, whatever its shape. */
static inline bool tuff__is_scalar_constant(const node *at)
{
    return at->op == OP_CONSTANT && at->attributes.data == NULL;
}

/* A segment of tuff_recompute: gradients keep none of its inner values. */
typedef struct segment {
    const node *result;
    const node **inputs;
    int input_count;
} segment;

typedef struct graph_output {
    const char *name;
    tuff_tensor *tensor;
} graph_output;

/* An array of a graph that was read from bytes. */
typedef struct graph_array {
    tuff_array *array;
    const char *name; /* "" if it has none */
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
    int recomputation_count; /* number of recomputations so far */
    int recomputation;       /* that of the nodes being built; 0: none */
    tuff_phase phase;        /* phase of the nodes being built */
    tuff_tensor failed;      /* what builders return when they cannot make a node */
    tuff_status status;      /* the first error */
    char message[TUFF_ERROR_SIZE];
    uint32_t seed, random_count; /* random_count: random ops so far, the ordinal of the next one */
    tuff_array *step_array;      /* the step counter; NULL until set or needed */
    bool owns_step;              /* the graph made the counter: compile appends its increment, destroy frees it */
};

/* Adds a node with one output. attributes may be NULL; inputs must be valid tensors of the graph. Checks nothing, since
   builders have done so. Returns a tensor that carries the error if out of memory. */
tuff_tensor *tuff__node_create(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape,
                               tuff_tensor *const *inputs, int input_count, const op_attributes *attributes);

/* Returns the input of that name; NULL if there is none. */
const node *tuff__graph_find_input(const tuff_graph *graph, const char *name);

/* From here on, new nodes get the recomputation number and the phase of model; NULL: no recomputation, forward
   phase. */
void tuff__graph_set_origin(tuff_graph *graph, const node *model);

/* Reorders the nodes and drops those that nothing needs; inputs stay. order must be topological; it may omit old nodes
   and contain new ones. */
tuff_status tuff__graph_reorder(tuff_graph *graph, node *const *order, int count);
/* Reorders likewise: each node from original_count on goes in front of the original node whose id insert_before has for
   it. Those in front of the same one stay in their order. */
tuff_status tuff__graph_insert(tuff_graph *graph, int original_count, const int *insert_before);

/* Records the error, unless the graph already has one, and returns the tensor that carries the graph's error. */
tuff_tensor *tuff__graph_fail(tuff_graph *graph, tuff_status status, const char *format, ...) PRINTF_LIKE(3, 4);
/* The same for running out of memory while building a node or a part of one. */
tuff_tensor *tuff__graph_out_of_memory(tuff_graph *graph);

/* Whether a tensor may have this shape, whose extents are not negative: at most INT32_MAX elements. */
bool tuff__shape_fits(tuff_shape shape);

/* Prints one line per node, for debugging: "%5 = add f32 [2,3] (%1, %4)". */
void tuff__graph_print(const tuff_graph *graph, text *out);

/* For tests: the op whose gradients tuff_gradients negates, or OP_COUNT. It proves that the tests notice a wrong
   sign. */
extern op_code tuff__mutated_gradient;

#endif
