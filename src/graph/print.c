/* A graph as text, one line a node, for people who debug the compiler or a model. */
#include "graph/graph.h"

static void print_attributes(const node *of, text *out)
{
    const op_attributes *attributes = &of->attributes;
    if (of->op == OP_INPUT)
        tuff__text_add(out, " \"%s\"", attributes->name);
    else if (of->op == OP_CONSTANT && !attributes->data)
        tuff__text_add(out, " %.9g", attributes->value);
    else if (of->op == OP_SUM || of->op == OP_REDUCE_MAX)
        tuff__text_add(out, " axes 0x%x", (unsigned)attributes->axes);
    else if (of->op == OP_CONCAT || of->op == OP_IOTA || of->op == OP_GATHER || of->op == OP_SCATTER_ADD ||
             of->op == OP_CUMSUM)
        tuff__text_add(out, " axis %d", attributes->axis);
    for (int axis = 0; axis < of->outputs[0].shape.rank; axis++)
        if (of->op == OP_PERMUTE)
            tuff__text_add(out, " %d", attributes->order[axis]);
        else if (of->op == OP_SLICE)
            tuff__text_add(out, " %lld:%lld", (long long)attributes->start[axis], (long long)attributes->step[axis]);
        else if (of->op == OP_PAD)
            tuff__text_add(out, " +%lld", (long long)attributes->start[axis]);
}

void tuff__graph_print(const tuff_graph *graph, text *out)
{
    for (int i = 0; i < graph->node_count; i++) {
        const node *of = graph->nodes[i];
        tuff__text_add(out, "%%%d = %s %s %s", of->id, tuff__op_info(of->op)->name,
                       tuff_dtype_name(of->outputs[0].dtype), SHAPE_TEXT(of->outputs[0].shape));
        print_attributes(of, out);
        for (int input = 0; input < of->input_count; input++)
            tuff__text_add(out, "%s%%%d", input ? ", " : " (", of->inputs[input]->node->id);
        tuff__text_add(out, of->input_count ? ")\n" : "\n");
    }
    for (int i = 0; i < graph->output_count; i++)
        tuff__text_add(out, "\"%s\" = %%%d\n", graph->outputs[i].name, graph->outputs[i].tensor->node->id);
}
