/* Builders of what leaves a graph: named outputs, and assignments to arrays. */
#include <string.h>

#include "graph/builder.h"

void tuff_output(tuff_graph *graph, const char *name, tuff_tensor *tensor)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("output", graph, &failure))
        return;
    if (tensor && tensor->graph && tensor->graph != graph) {
        tuff__graph_fail(graph, TUFF_E_USAGE, "output: the tensor %s belongs to another graph",
                         SHAPE_TEXT(tensor->shape));
        return;
    }
    if (!tuff__check_operands("output", &tensor, 1, &failure)) {
        tuff__graph_fail(graph, TUFF_E_USAGE,
                         tensor ? "output: the tensor does not belong to a graph" : "output: the tensor is NULL");
        return;
    }
    if (!tuff__name_is_legal(graph, "output", name))
        return;
    for (int i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0) {
            tuff__graph_fail(graph, TUFF_E_USAGE, "output: the name \"%.200s\" is taken by an output of shape %s", name,
                             SHAPE_TEXT(graph->outputs[i].tensor->shape));
            return;
        }
    const char *copy = tuff__arena_strdup(&graph->arena, name);
    if (!copy || !GROW(graph->outputs, graph->output_count, graph->output_capacity))
        tuff__graph_out_of_memory(graph);
    else
        graph->outputs[graph->output_count++] = (graph_output){copy, tensor};
}

static bool assign_is_legal(tuff_graph *graph, const tuff_array *array, const tuff_tensor *value)
{
    if (value->dtype != array->dtype)
        tuff__graph_fail(graph, TUFF_E_DTYPE, "assign: %s %s := %s %s: the dtypes differ: cast the value",
                         tuff_dtype_name(array->dtype), SHAPE_TEXT(array->shape), tuff_dtype_name(value->dtype),
                         SHAPE_TEXT(value->shape));
    else if (!tuff_shape_equal(value->shape, array->shape))
        tuff__graph_fail(graph, TUFF_E_SHAPE, "assign: %s := %s: the shapes differ", SHAPE_TEXT(array->shape),
                         SHAPE_TEXT(value->shape));
    for (int i = 0; i < graph->assign_count; i++)
        if (tuff__arrays_overlap(array, graph->assigns[i]->attributes.array))
            tuff__graph_fail(graph, TUFF_E_USAGE, "assign: %s overlaps %s, which is assigned already",
                             SHAPE_TEXT(array->shape), SHAPE_TEXT(graph->assigns[i]->attributes.array->shape));
    return graph->status == TUFF_OK;
}

/* The list of assigns keeps these nodes alive in a compiled plan although nothing reads them. */
tuff_tensor *tuff_assign(tuff_graph *graph, tuff_array *array, tuff_tensor *value)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("assign", graph, &failure) || !tuff__array_is_legal(graph, "assign", array))
        return failure;
    if (value && value->graph && value->graph != graph)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "assign: %s := %s: the value belongs to another graph",
                                SHAPE_TEXT(array->shape), SHAPE_TEXT(value->shape));
    if (!value || !value->node)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "assign: %s: the value is NULL or does not belong to a graph",
                                SHAPE_TEXT(array->shape));
    value = tuff__as_dtype(value, array->dtype);
    if (graph->status != TUFF_OK || !assign_is_legal(graph, array, value))
        return &graph->failed;
    if (!GROW(graph->assigns, graph->assign_count, graph->assign_capacity))
        return tuff__graph_out_of_memory(graph);
    tuff_tensor *made =
        tuff__node_create(graph, OP_ASSIGN, array->dtype, array->shape, &value, 1, &(op_attributes){.array = array});
    if (tuff__is_valid(made))
        graph->assigns[graph->assign_count++] = made->node;
    return made;
}
