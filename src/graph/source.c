/* Builders of values without operands: constants, indices, random numbers. Inputs and arrays, which the host fills, are
   in graph.c. */
#include <string.h>

#include "graph/builder.h"

/* Floats are kept to f32 whatever the dtype: kernels compute in f32, and a chain does not round between its ops. */
tuff_tensor *tuff_constant(tuff_graph *graph, tuff_dtype dtype, double value)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("constant", graph, &answer))
        return answer;
    if (!tuff__dtype_is_legal(graph, "constant", dtype))
        return &graph->failed;
    const double kept = tuff__round_to(tuff__dtype_is_float(dtype) ? TUFF_F32 : dtype, value);
    return tuff__node_create(graph, OP_CONSTANT, dtype, TUFF_SCALAR, NULL, 0, &(op_attributes){.value = kept});
}

/* The data is copied into the graph's arena, so that the caller may free his at once. Bools become 0 or 1. */
tuff_tensor *tuff_constant_data(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, const void *data)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("constant", graph, &answer))
        return answer;
    if (!tuff__dtype_is_legal(graph, "constant", dtype) || !tuff__shape_is_legal(graph, "constant", shape))
        return &graph->failed;
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

/* No table in memory: kernels compute the index where it is read. */
tuff_tensor *tuff_iota(tuff_graph *graph, tuff_shape shape, int axis)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("iota", graph, &answer))
        return answer;
    if (!tuff__shape_is_legal(graph, "iota", shape))
        return &graph->failed;
    const tuff_tensor probe = {.graph = graph, .shape = shape};
    if (!tuff__axis("iota", &probe, axis, &axis))
        return &graph->failed;
    return tuff__node_create(graph, OP_IOTA, TUFF_I32, shape, NULL, 0, &(op_attributes){.axis = axis});
}

/* Numbers depend on seed, ordinal and step alone: a graph that is built the same way draws the same on every device. */
tuff_tensor *tuff_random(tuff_graph *graph, tuff_shape shape)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("random", graph, &answer) || !tuff__shape_is_legal(graph, "random", shape))
        return graph ? &graph->failed : answer;
    tuff_tensor *step = tuff_step(graph);
    if (!tuff__is_sound(step))
        return &graph->failed;
    const op_attributes attributes = {.seed = graph->seed, .ordinal = graph->random_count++};
    return tuff__node_create(graph, OP_RANDOM, TUFF_F32, shape, &step, 1, &attributes);
}
