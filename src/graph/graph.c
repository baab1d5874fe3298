/* The graph itself: its lifetime, its sticky error and its nodes. Builders are in the other files: values without
   operands in source.c, outputs and assignments in sink.c. */
#include <string.h>

#include "graph/builder.h"

/* Returned by builders if there is no graph to carry the error. Never written. */
static tuff_tensor no_graph_tensor;

tuff_graph *tuff_graph_create(tuff_device *device)
{
    if (!device) {
        FAIL(TUFF_E_USAGE, "graph: the device is NULL");
        return NULL;
    }
    tuff_graph *graph = tuff__calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->device = device;
    graph->failed.graph = graph;
    return graph;
}

void tuff_graph_destroy(tuff_graph *graph)
{
    if (!graph)
        return;
    if (graph->owns_step)
        tuff_array_destroy(graph->step_array);
    for (int i = 0; i < graph->array_count; i++)
        tuff_array_destroy(graph->arrays[i].array);
    tuff__free(graph->arrays);
    tuff__free(graph->nodes);
    tuff__free(graph->outputs);
    tuff__free(graph->assigns);
    tuff__free(graph->segments);
    tuff__arena_free(&graph->arena);
    tuff__free(graph);
}

tuff_status tuff_graph_status(const tuff_graph *graph)
{
    return graph ? graph->status : TUFF_E_USAGE;
}

const char *tuff_graph_error(const tuff_graph *graph)
{
    return graph ? graph->message : "the graph is NULL";
}

const node *tuff__graph_find_input(const tuff_graph *graph, const char *name)
{
    for (int i = 0; name && i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_INPUT && strcmp(graph->nodes[i]->attributes.name, name) == 0)
            return graph->nodes[i];
    return NULL;
}

/* Renumbers the nodes first, since liveness is indexed by id, then drops dead nodes and closes the gaps. */
tuff_status tuff__graph_reorder(tuff_graph *graph, node *const *order, int count)
{
    bool *live = tuff__calloc((size_t)count + 1, sizeof *live);
    if (!live)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count; i++) {
        order[i]->id = i;
        live[i] = order[i]->op == OP_INPUT || order[i]->op == OP_ASSIGN;
    }
    for (int i = 0; i < graph->output_count; i++)
        live[graph->outputs[i].tensor->node->id] = true;
    for (int i = count - 1; i >= 0; i--)
        for (int k = 0; k < order[i]->input_count && live[i]; k++)
            live[order[i]->inputs[k]->node->id] = true;
    graph->node_count = 0;
    for (int i = 0; i < count; i++)
        if (live[i]) {
            order[i]->id = graph->node_count;
            graph->nodes[graph->node_count++] = order[i];
        }
    tuff__free(live);
    return TUFF_OK;
}

tuff_status tuff__graph_insert(tuff_graph *graph, int original_count, const int *insert_before)
{
    const int count = graph->node_count;
    int *start = tuff__calloc((size_t)original_count + 1, sizeof *start);
    node **order = tuff__calloc((size_t)count + 1, sizeof(node *));
    if (start && order) {
        for (int i = original_count; i < count; i++)
            start[insert_before[i - original_count]]++;
        for (int i = 0, next = 0; i < original_count; i++) {
            const int inserted = start[i];
            start[i] = next;
            next += inserted;
            order[next++] = graph->nodes[i];
        }
        for (int i = original_count; i < count; i++)
            order[start[insert_before[i - original_count]]++] = graph->nodes[i];
    }
    const tuff_status status = start && order ? tuff__graph_reorder(graph, order, count) : TUFF_E_OOM_HOST;
    tuff__free(start);
    tuff__free(order);
    return status;
}

/* Sets the thread's error every time but the graph's only once: the first error explains the later ones. */
tuff_tensor *tuff__graph_fail(tuff_graph *graph, tuff_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tuff__fail_list(status, format, list);
    va_end(list);
    if (!graph)
        return &no_graph_tensor;
    if (graph->status == TUFF_OK) {
        graph->status = status;
        strcpy(graph->message, tuff_error());
    }
    return &graph->failed;
}

tuff_tensor *tuff__graph_out_of_memory(tuff_graph *graph)
{
    return tuff__graph_fail(graph, TUFF_E_OOM_HOST, "graph: out of host memory after %d nodes", graph->node_count);
}

tuff_tensor *tuff__node_create(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape,
                               tuff_tensor *const *inputs, int input_count, const op_attributes *attributes)
{
    /* Nodes live as long as the graph: its arena frees them all at once. */
    node *made = tuff__arena_alloc(&graph->arena, sizeof *made);
    tuff_tensor *output = tuff__arena_alloc(&graph->arena, sizeof *output);
    tuff_tensor **list = tuff__arena_alloc(&graph->arena, (size_t)(input_count + 1) * sizeof(tuff_tensor *));
    if (!made || !output || !list || !GROW(graph->nodes, graph->node_count, graph->node_capacity))
        return tuff__graph_out_of_memory(graph);
    *output = (tuff_tensor){.graph = graph, .node = made, .dtype = dtype, .shape = shape};
    /* Lets shapes be compared and hashed as bytes. */
    for (int axis = shape.rank; axis < TUFF_MAX_RANK; axis++)
        output->shape.extent[axis] = 0;
    tuff_phase phase = graph->phase;
    for (int i = 0; i < input_count; i++) {
        list[i] = inputs[i];
        phase = inputs[i]->node->phase > phase ? inputs[i]->node->phase : phase;
    }
    *made = (node){.op = op,
                   .id = graph->node_count,
                   .input_count = input_count,
                   .inputs = list,
                   .outputs = output,
                   .recomputation = graph->recomputation,
                   .phase = phase};
    if (attributes)
        made->attributes = *attributes;
    graph->nodes[graph->node_count++] = made;
    return output;
}

void tuff__graph_set_origin(tuff_graph *graph, const node *model)
{
    graph->recomputation = model ? model->recomputation : 0;
    graph->phase = model ? model->phase : TUFF_PHASE_FORWARD;
}

tuff_phase tuff_graph_phase(tuff_graph *graph, tuff_phase phase)
{
    if (!graph)
        return TUFF_PHASE_FORWARD;
    const tuff_phase before = graph->phase;
    graph->phase = phase;
    return before;
}

const char *tuff_phase_name(tuff_phase phase)
{
    static const char *const names[] = {"forward", "backward", "optimizer"};
    return (unsigned)phase < sizeof names / sizeof *names ? names[phase] : "unknown";
}

bool tuff__is_valid(const tuff_tensor *tensor)
{
    return tensor && tensor->graph && tensor->node && tensor->graph->status == TUFF_OK;
}

tuff_tensor *tuff__stop_gradient(tuff_tensor *tensor)
{
    if (tuff__is_valid(tensor))
        tensor->node->stops_gradient = true;
    return tensor;
}

tuff_graph *tuff__check_graph(const char *op, tuff_graph *graph, tuff_tensor **failure)
{
    if (!graph) {
        *failure = tuff__graph_fail(NULL, TUFF_E_USAGE, "%s: the graph is NULL", op);
        return NULL;
    }
    *failure = &graph->failed;
    return graph->status == TUFF_OK ? graph : NULL;
}

/* Takes the graph of the first operand that has one. Returns an earlier error of that graph before looking at the
   operands: they may carry it, and it explains their state. */
tuff_graph *tuff__check_operands(const char *op, tuff_tensor *const *operands, int count, tuff_tensor **failure)
{
    tuff_graph *graph = NULL;
    for (int i = 0; i < count && !graph; i++)
        graph = operands[i] ? operands[i]->graph : NULL;
    if (graph && graph->status != TUFF_OK) {
        *failure = &graph->failed;
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        const tuff_tensor *operand = operands[i];
        if (operand && operand->graph == graph && operand->node)
            continue;
        *failure = !operand ? tuff__graph_fail(graph, TUFF_E_USAGE, "%s: operand %d is NULL", op, i)
                   : operand->graph && operand->graph != graph
                       ? tuff__graph_fail(graph, TUFF_E_USAGE, "%s: operand %d, %s, belongs to another graph", op, i,
                                          SHAPE_TEXT(operand->shape))
                       : tuff__graph_fail(graph, TUFF_E_USAGE, "%s: operand %d does not belong to a graph", op, i);
        return NULL;
    }
    *failure = &graph->failed;
    return graph;
}

tuff_graph *tuff__check_float_operand(const char *op, tuff_tensor *x, tuff_tensor **failure)
{
    tuff_graph *graph = tuff__check_operands(op, &x, 1, failure);
    if (!graph || tuff__dtype_is_float(x->dtype))
        return graph;
    *failure = tuff__graph_fail(graph, TUFF_E_DTYPE, "%s: %s %s: expected f32, f16 or bf16", op,
                                tuff_dtype_name(x->dtype), SHAPE_TEXT(x->shape));
    return NULL;
}

/* Random ops keep the seed that was set when they were built. */
void tuff_graph_seed(tuff_graph *graph, uint32_t seed)
{
    if (graph)
        graph->seed = seed;
}

tuff_dtype tuff_tensor_dtype(const tuff_tensor *tensor)
{
    return tensor ? tensor->dtype : TUFF_F32;
}

tuff_shape tuff_tensor_shape(const tuff_tensor *tensor)
{
    return tensor ? tensor->shape : TUFF_SCALAR;
}

tuff_graph *tuff_tensor_graph(const tuff_tensor *tensor)
{
    return tensor ? tensor->graph : NULL;
}
