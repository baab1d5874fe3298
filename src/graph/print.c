/* Prints a graph as text, one line per node, for debugging the compiler or a model. A column of ops.def says which
   attribute of a node is printed. */
#include "graph/graph.h"

/* Prints the attribute's numbers for each axis. */
static void print_axes(const node *n, op_attribute attribute, text *out)
{
    const op_attributes *attributes = &n->attributes;
    for (int axis = 0; axis < n->outputs[0].shape.rank; axis++)
        if (attribute == ATTRIBUTE_ORDER)
            tuff__text_add(out, " %d", attributes->order[axis]);
        else if (attribute == ATTRIBUTE_STEPS)
            tuff__text_add(out, " %lld:%lld", (long long)attributes->start[axis], (long long)attributes->step[axis]);
        else
            tuff__text_add(out, " +%lld", (long long)attributes->start[axis]);
}

static void print_attribute(const node *n, text *out)
{
    const op_attribute attribute = tuff__op_info(n->op)->attribute;
    switch (attribute) {
    case ATTRIBUTE_NAME:
        tuff__text_add(out, " \"%s\"", n->attributes.name);
        break;
    case ATTRIBUTE_DATA:
        if (!n->attributes.data)
            tuff__text_add(out, " %s", NUMBER_TEXT('g', 9, n->attributes.value));
        break;
    case ATTRIBUTE_AXES:
        tuff__text_add(out, " axes 0x%x", (unsigned)n->attributes.axes);
        break;
    case ATTRIBUTE_AXIS:
        tuff__text_add(out, " axis %d", n->attributes.axis);
        break;
    case ATTRIBUTE_ORDER:
    case ATTRIBUTE_STEPS:
    case ATTRIBUTE_BEFORE:
        print_axes(n, attribute, out);
        break;
    case ATTRIBUTE_WINDOWS:
        tuff__text_add(out, " axis %d step %lld dilation %lld", n->attributes.axis, (long long)n->attributes.step[0],
                       (long long)n->attributes.step[1]);
        break;
    case ATTRIBUTE_NONE:
    case ATTRIBUTE_ARRAY:
        break;
    }
}

/* Prints nodes, then outputs; outputs refer to nodes by id. */
void tuff__graph_print(const tuff_graph *graph, text *out)
{
    for (int i = 0; i < graph->node_count; i++) {
        const node *n = graph->nodes[i];
        tuff__text_add(out, "%%%d = %s %s %s", n->id, tuff__op_info(n->op)->name, tuff_dtype_name(n->outputs[0].dtype),
                       SHAPE_TEXT(n->outputs[0].shape));
        print_attribute(n, out);
        for (int input = 0; input < n->input_count; input++)
            tuff__text_add(out, "%s%%%d", input ? ", " : " (", n->inputs[input]->node->id);
        tuff__text_add(out, n->input_count ? ")\n" : "\n");
    }
    for (int i = 0; i < graph->output_count; i++)
        tuff__text_add(out, "\"%s\" = %%%d\n", graph->outputs[i].name, graph->outputs[i].tensor->node->id);
}
