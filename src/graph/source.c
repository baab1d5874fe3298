/* Builders of values without operands: named inputs, arrays, the step counter, constants, indices, random numbers. */
#include <string.h>

#include "graph/builder.h"

tuff_tensor *tuff_input(tuff_graph *graph, const char *name, tuff_dtype dtype, tuff_shape shape)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("input", graph, &failure) || !tuff__name_is_legal(graph, "input", name) ||
        !tuff__dtype_is_legal(graph, "input", dtype) || !tuff__shape_is_legal(graph, "input", shape))
        return failure;
    const node *taken = tuff__graph_find_input(graph, name);
    if (taken)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "input: the name \"%.200s\" is taken by an input of shape %s",
                                name, SHAPE_TEXT(taken->outputs[0].shape));
    const char *copy = tuff__arena_strdup(&graph->arena, name);
    if (!copy)
        return tuff__graph_out_of_memory(graph);
    return tuff__node_create(graph, OP_INPUT, dtype, shape, NULL, 0, &(op_attributes){.name = copy});
}

/* Returns the same node for an array each time, so that the gradient with respect to it is complete. */
tuff_tensor *tuff_array_tensor(tuff_graph *graph, tuff_array *array)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("array", graph, &failure) || !tuff__array_is_legal(graph, "array", array))
        return failure;
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_ARRAY && graph->nodes[i]->attributes.array == array)
            return &graph->nodes[i]->outputs[0];
    if (!tuff__shape_is_legal(graph, "array", array->shape))
        return &graph->failed;
    return tuff__node_create(graph, OP_ARRAY, array->dtype, array->shape, NULL, 0, &(op_attributes){.array = array});
}

/* Rounds a float constant to f32 whatever its dtype: kernels compute in f32, and a chain does not round between its
   ops. */
tuff_tensor *tuff_constant(tuff_graph *graph, tuff_dtype dtype, double value)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("constant", graph, &failure) || !tuff__dtype_is_legal(graph, "constant", dtype))
        return failure;
    const double kept = tuff__round_to(tuff__dtype_is_float(dtype) ? TUFF_F32 : dtype, value);
    return tuff__node_create(graph, OP_CONSTANT, dtype, TUFF_SCALAR, NULL, 0, &(op_attributes){.value = kept});
}

/* Copies the data into the graph's arena, so that the caller may free it at once. Bools become 0 or 1. */
tuff_tensor *tuff_constant_data(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, const void *data)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("constant", graph, &failure) || !tuff__dtype_is_legal(graph, "constant", dtype) ||
        !tuff__shape_is_legal(graph, "constant", shape))
        return failure;
    const size_t size = (size_t)tuff_shape_count(shape) * tuff_dtype_size(dtype);
    if (!data && size > 0)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "constant: %s %s: the data is NULL", tuff_dtype_name(dtype),
                                SHAPE_TEXT(shape));
    unsigned char *copy = tuff__arena_alloc(&graph->arena, size);
    if (!copy)
        return tuff__graph_fail(graph, TUFF_E_OOM_HOST, "constant: out of host memory for %s %s",
                                tuff_dtype_name(dtype), SHAPE_TEXT(shape));
    if (size > 0)
        memcpy(copy, data, size);
    for (size_t i = 0; dtype == TUFF_BOOL && i < size; i++)
        copy[i] = copy[i] != 0;
    return tuff__node_create(graph, OP_CONSTANT, dtype, shape, NULL, 0, &(op_attributes){.data = copy});
}

/* Kernels compute the index where they read it, so no table is in memory. */
tuff_tensor *tuff_iota(tuff_graph *graph, tuff_shape shape, int axis)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("iota", graph, &failure) || !tuff__shape_is_legal(graph, "iota", shape))
        return failure;
    const tuff_tensor probe = {.graph = graph, .shape = shape};
    if (!tuff__resolve_axis("iota", &probe, axis, &axis))
        return &graph->failed;
    return tuff__node_create(graph, OP_IOTA, TUFF_I32, shape, NULL, 0, &(op_attributes){.axis = axis});
}

/* The counter must be set before the first random op, whose key it would change. */
void tuff_graph_step(tuff_graph *graph, tuff_array *counter)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("step", graph, &failure))
        return;
    if (!counter)
        tuff__graph_fail(graph, TUFF_E_USAGE, "step: the counter is NULL");
    else if (counter->device != graph->device)
        tuff__graph_fail(graph, TUFF_E_USAGE, "step: the counter is on another device than the graph");
    else if (counter->dtype != TUFF_I32 || counter->shape.rank != 0)
        tuff__graph_fail(graph, TUFF_E_DTYPE, "step: the counter must be an i32 scalar, not %s %s",
                         tuff_dtype_name(counter->dtype), SHAPE_TEXT(counter->shape));
    else if (graph->step_array && graph->step_array != counter)
        tuff__graph_fail(graph, TUFF_E_USAGE,
                         "step: the graph already has a counter: set another one before building random ops");
    else
        graph->step_array = counter;
}

tuff_tensor *tuff_step(tuff_graph *graph)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("step", graph, &failure))
        return failure;
    if (!graph->step_array) {
        graph->step_array = tuff_array_create(graph->device, TUFF_I32, TUFF_SCALAR);
        if (!graph->step_array)
            return tuff__graph_fail(graph, tuff_last_status(), "step: cannot create the counter: %s", tuff_error());
        graph->owns_step = true;
    }
    return tuff_array_tensor(graph, graph->step_array);
}

tuff_tensor *tuff_random(tuff_graph *graph, tuff_shape shape)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("random", graph, &failure) || !tuff__shape_is_legal(graph, "random", shape))
        return failure;
    tuff_tensor *step = tuff_step(graph);
    if (!tuff__is_valid(step))
        return &graph->failed;
    const op_attributes attributes = {.seed = graph->seed, .ordinal = graph->random_count++};
    return tuff__node_create(graph, OP_RANDOM, TUFF_F32, shape, &step, 1, &attributes);
}
