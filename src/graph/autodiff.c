/* Reverse-mode differentiation: walks the nodes backwards from the target and adds ordinary nodes that compute the
   gradients. The gradient of each op is its column in ops.def, compiled in gradients.c; segment.c handles values that
   are recomputed instead of kept. */
#include <string.h>

#include "graph/builder.h"
#include "graph/segment.h"

op_code tuff__mutated_gradient = OP_COUNT;

/* Per-node state of the traversal, for the nodes that exist when it begins. Gradient nodes are newer and are not
   visited. */
typedef struct adjoint {
    tuff_tensor *gradient; /* sum so far; complete once all users have been visited */
    bool depends;          /* some `wrt` is this node or one that it depends on */
} adjoint;

/* Integers and bools have no gradient. Values marked by tuff__stop_gradient count as constants. */
static bool passes_gradient(const node *n)
{
    return !n->stops_gradient && tuff__dtype_is_float(n->outputs[0].dtype);
}

/* Marks every node that depends on one of `wrt` through floats. Only these need a gradient. */
static void mark_dependence(const tuff_graph *graph, tuff_tensor *const *wrt, int count, adjoint *adjoints, int last)
{
    for (int i = 0; i < count; i++)
        adjoints[wrt[i]->node->id].depends = true;
    for (int i = 0; i <= last; i++) {
        const node *n = graph->nodes[i];
        for (int input = 0; input < n->input_count && passes_gradient(n); input++)
            adjoints[i].depends = adjoints[i].depends || adjoints[n->inputs[input]->node->id].depends;
    }
}

/* Returns the negated gradient for the op that tests mutate. */
static tuff_tensor *input_gradient(const node *n, tuff_tensor *upstream, int input)
{
    if (n->custom)
        return n->custom->gradient(n->inputs, n->custom->options, upstream, input);
    tuff_tensor *gradient = tuff__op_gradient(n, upstream, input);
    return gradient && n->op == tuff__mutated_gradient ? tuff_neg(gradient) : gradient;
}

/* Adds a node's contribution to the gradients of its inputs, first to last. The fixed order makes sums of several
   contributions bitwise reproducible. */
static void propagate(const node *n, tuff_tensor *upstream, adjoint *adjoints, recomputation *segments)
{
    node recomputed, whole = *n;
    if (n->custom) { /* skips the nodes inside the composite */
        whole.inputs = n->custom->inputs;
        whole.input_count = n->custom->input_count;
    }
    if (!tuff__as_recomputed(segments, &whole, &recomputed))
        return;
    for (int input = 0; input < whole.input_count; input++) {
        adjoint *to = &adjoints[whole.inputs[input]->node->id];
        if (!to->depends || !tuff__dtype_is_float(whole.inputs[input]->dtype))
            continue;
        tuff_tensor *gradient = input_gradient(&recomputed, upstream, input);
        if (gradient)
            to->gradient = to->gradient ? tuff_add(to->gradient, gradient) : gradient;
    }
}

tuff_tensor *tuff__with_custom_gradient(tuff_tensor *result, const custom_gradient *gradient)
{
    if (!tuff__is_valid(result))
        return result;
    tuff_graph *graph = result->graph;
    custom_gradient *kept = tuff__arena_alloc(&graph->arena, sizeof *kept);
    tuff_tensor **inputs = tuff__arena_alloc(&graph->arena, (size_t)gradient->input_count * sizeof(tuff_tensor *));
    if (!kept || !inputs)
        return tuff__graph_out_of_memory(graph);
    memcpy(inputs, gradient->inputs, (size_t)gradient->input_count * sizeof(tuff_tensor *));
    *kept = *gradient;
    kept->inputs = inputs;
    result->node->custom = kept;
    return result;
}

/* The target must be a float scalar: the traversal starts from its gradient with respect to itself, 1. */
static bool operands_are_legal(tuff_graph *graph, const tuff_tensor *target, tuff_tensor *const *wrt, int count)
{
    if (target->shape.rank != 0 || !tuff__dtype_is_float(target->dtype)) {
        tuff__graph_fail(graph, target->shape.rank ? TUFF_E_SHAPE : TUFF_E_DTYPE,
                         "gradients: the target is %s %s, not a float scalar", tuff_dtype_name(target->dtype),
                         SHAPE_TEXT(target->shape));
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!tuff__dtype_is_float(wrt[i]->dtype)) {
            tuff__graph_fail(graph, TUFF_E_DTYPE,
                             "gradients: tensor %d, %s %s, has no gradient: only float tensors have one", i,
                             tuff_dtype_name(wrt[i]->dtype), SHAPE_TEXT(wrt[i]->shape));
            return false;
        }
    return true;
}

/* Ids are a topological order, so when the traversal reaches a node, all its users have added their contributions. */
static void differentiate(tuff_tensor *target, tuff_tensor *const *wrt, int count, adjoint *adjoints,
                          recomputation *segments, tuff_tensor **gradients)
{
    tuff_graph *graph = target->graph;
    const int last = target->node->id;
    mark_dependence(graph, wrt, count, adjoints, last);
    adjoints[last].gradient = tuff__scalar(target, 1);
    for (int i = last; i >= 0 && graph->status == TUFF_OK; i--)
        if (adjoints[i].gradient && adjoints[i].depends && passes_gradient(graph->nodes[i]))
            propagate(graph->nodes[i], adjoints[i].gradient, adjoints, segments);
    for (int i = 0; i < count; i++) {
        tuff_tensor *gradient = adjoints[wrt[i]->node->id].gradient;
        gradients[i] = gradient ? gradient : tuff__full(graph, wrt[i]->dtype, wrt[i]->shape, 0);
    }
}

/* Sets the graph's error again for this thread, which may have seen other errors since, and sets every gradient to the
   tensor that carries it. */
static tuff_status fail_all(tuff_tensor *failure, int count, tuff_tensor **gradients)
{
    for (int i = 0; gradients && i < count; i++)
        gradients[i] = failure;
    const tuff_graph *graph = failure->graph;
    return graph && graph->status != TUFF_OK ? FAIL(graph->status, "%s", graph->message) : TUFF_E_USAGE;
}

tuff_status tuff_gradients(tuff_tensor *target, tuff_tensor *const *wrt, int count, tuff_tensor **gradients)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("gradients", &target, 1, &failure);
    if (!graph)
        return fail_all(failure, count, gradients);
    if (count < 0 || (count > 0 && (!wrt || !gradients)))
        return fail_all(tuff__graph_fail(graph, TUFF_E_USAGE, "gradients: %s",
                                         count < 0 ? "the count is negative" : "wrt or gradients is NULL"),
                        count, gradients);
    for (int i = 0; i < count; i++)
        if (!wrt[i] || wrt[i]->graph != graph || !wrt[i]->node)
            return fail_all(tuff__graph_fail(graph, TUFF_E_USAGE, "gradients: tensor %d %s", i,
                                             wrt[i] ? "belongs to another graph" : "is NULL"),
                            count, gradients);
    if (!operands_are_legal(graph, target, wrt, count))
        return fail_all(&graph->failed, count, gradients);
    adjoint *adjoints = tuff__calloc((size_t)graph->node_count, sizeof *adjoints);
    recomputation segments;
    const tuff_phase before = tuff_graph_phase(graph, TUFF_PHASE_BACKWARD);
    if (tuff__recomputation_begin(graph, &segments) != TUFF_OK || !adjoints)
        tuff__graph_fail(graph, TUFF_E_OOM_HOST, "gradients: out of host memory for %d nodes", graph->node_count);
    else
        differentiate(target, wrt, count, adjoints, &segments, gradients);
    graph->phase = before;
    tuff__recomputation_end(&segments);
    tuff__free(adjoints);
    return graph->status == TUFF_OK ? TUFF_OK : fail_all(&graph->failed, count, gradients);
}
