/* The graph itself: its life, its sticky error, its nodes, inputs, outputs and state. Builders of ops are in the files
   beside it. */
#include <string.h>

#include "graph/builder.h"

/* What builders answer where there is no graph to carry the error. Never written. */
static tuff_tensor nowhere;

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

/* The thread's error is set each time, the graph's only once: the first error is the one that explains the others. */
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

tuff_tensor *tuff__graph_fail(tuff_graph *graph, tuff_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tuff__fail_list(status, format, list);
    va_end(list);
    if (!graph)
        return &nowhere;
    if (graph->status == TUFF_OK) {
        graph->status = status;
        strcpy(graph->message, tuff_error());
    }
    return &graph->failed;
}

static tuff_tensor *fail_for_memory(tuff_graph *graph)
{
    return tuff__graph_fail(graph, TUFF_E_OOM_HOST, "graph: out of host memory after %d nodes", graph->node_count);
}

tuff_tensor *tuff__node_create(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape,
                               tuff_tensor *const *inputs, int input_count, const op_attributes *attributes)
{
    node *made = tuff__arena_alloc(&graph->arena, sizeof *made);
    tuff_tensor *output = tuff__arena_alloc(&graph->arena, sizeof *output);
    tuff_tensor **list = tuff__arena_alloc(&graph->arena, (size_t)(input_count + 1) * sizeof(tuff_tensor *));
    if (!made || !output || !list || !GROW(graph->nodes, graph->node_count, graph->node_capacity))
        return fail_for_memory(graph);
    *output = (tuff_tensor){.graph = graph, .node = made, .dtype = dtype, .shape = shape};
    for (int axis = shape.rank; axis < TUFF_MAX_RANK; axis++)
        output->shape.extent[axis] = 0;
    for (int i = 0; i < input_count; i++)
        list[i] = inputs[i];
    *made = (node){.op = op,
                   .id = graph->node_count,
                   .input_count = input_count,
                   .output_count = 1,
                   .inputs = list,
                   .outputs = output,
                   .copy = graph->copy};
    if (attributes)
        made->attributes = *attributes;
    graph->nodes[graph->node_count++] = made;
    return output;
}

bool tuff__is_sound(const tuff_tensor *tensor)
{
    return tensor && tensor->graph && tensor->node && tensor->graph->status == TUFF_OK;
}

tuff_graph *tuff__enter_graph(const char *op, tuff_graph *graph, tuff_tensor **answer)
{
    if (!graph) {
        *answer = tuff__graph_fail(NULL, TUFF_E_USAGE, "%s: the graph is NULL", op);
        return NULL;
    }
    *answer = &graph->failed;
    return graph->status == TUFF_OK ? graph : NULL;
}

/* An operand of another graph is told apart from one that carries an error of its own graph. */
tuff_graph *tuff__enter(const char *op, tuff_tensor *const *operands, int count, tuff_tensor **answer)
{
    tuff_graph *graph = NULL;
    for (int i = 0; i < count && !graph; i++)
        graph = operands[i] ? operands[i]->graph : NULL;
    if (graph && graph->status != TUFF_OK) {
        *answer = &graph->failed;
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        const tuff_tensor *operand = operands[i];
        if (operand && operand->graph == graph && operand->node)
            continue;
        *answer = !operand ? tuff__graph_fail(graph, TUFF_E_USAGE, "%s: operand %d is NULL", op, i)
                  : operand->graph && operand->graph != graph
                      ? tuff__graph_fail(graph, TUFF_E_USAGE, "%s: operand %d, %s, belongs to another graph", op, i,
                                         SHAPE_TEXT(operand->shape))
                      : tuff__graph_fail(graph, TUFF_E_USAGE, "%s: operand %d was not made in any graph", op, i);
        return NULL;
    }
    return graph;
}

void tuff_graph_seed(tuff_graph *graph, uint32_t seed)
{
    if (graph)
        graph->seed = seed;
}

/* After the first random op its key would change: the counter must come before. */
void tuff_graph_step(tuff_graph *graph, tuff_array *counter)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("step", graph, &answer))
        return;
    if (!counter)
        tuff__graph_fail(graph, TUFF_E_USAGE, "step: the counter is NULL");
    else if (counter->device != graph->device)
        tuff__graph_fail(graph, TUFF_E_USAGE, "step: the counter is on another device than the graph");
    else if (counter->dtype != TUFF_I32 || counter->shape.rank != 0)
        tuff__graph_fail(graph, TUFF_E_DTYPE, "step: the counter must be i32 of shape [], not %s %s",
                         tuff_dtype_name(counter->dtype), SHAPE_TEXT(counter->shape));
    else if (graph->step_array && graph->step_array != counter)
        tuff__graph_fail(graph, TUFF_E_USAGE,
                         "step: the graph has a counter already: give it before building anything "
                         "that is random");
    else
        graph->step_array = counter;
}

/* The thread's message moves into the graph's: a copy, because a message cannot be formatted into itself. */
static tuff_tensor *fail_for_counter(tuff_graph *graph)
{
    char reason[512];
    strncpy(reason, tuff_error(), sizeof reason - 1);
    reason[sizeof reason - 1] = 0;
    return tuff__graph_fail(graph, tuff_last_status(), "step: no counter: %s", reason);
}

tuff_tensor *tuff_step(tuff_graph *graph)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("step", graph, &answer))
        return answer;
    if (!graph->step_array) {
        graph->step_array = tuff_array_create(graph->device, TUFF_I32, TUFF_SCALAR);
        if (!graph->step_array)
            return fail_for_counter(graph);
        graph->owns_step = true;
    }
    return tuff_array_tensor(graph, graph->step_array);
}

static bool name_is_legal(tuff_graph *graph, const char *what, const char *name)
{
    if (name && name[0])
        return true;
    tuff__graph_fail(graph, TUFF_E_USAGE, "%s: the name is %s", what, name ? "empty" : "NULL");
    return false;
}

tuff_tensor *tuff_input(tuff_graph *graph, const char *name, tuff_dtype dtype, tuff_shape shape)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("input", graph, &answer))
        return answer;
    if (!name_is_legal(graph, "input", name) || !tuff__dtype_is_legal(graph, "input", dtype) ||
        !tuff__shape_is_legal(graph, "input", shape))
        return &graph->failed;
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_INPUT && strcmp(graph->nodes[i]->attributes.name, name) == 0)
            return tuff__graph_fail(graph, TUFF_E_USAGE, "input: the name \"%.200s\" is taken by an input of shape %s",
                                    name, SHAPE_TEXT(graph->nodes[i]->outputs[0].shape));
    const char *copy = tuff__arena_strdup(&graph->arena, name);
    if (!copy)
        return fail_for_memory(graph);
    return tuff__node_create(graph, OP_INPUT, dtype, shape, NULL, 0, &(op_attributes){.name = copy});
}

static bool array_is_legal(tuff_graph *graph, const char *op, const tuff_array *array)
{
    if (array && array->device == graph->device)
        return true;
    tuff__graph_fail(graph, TUFF_E_USAGE,
                     array ? "%s: the array is on another device than the graph" : "%s: the array is NULL", op);
    return false;
}

/* One node for an array, however often it is asked for: a gradient with respect to it is then whole. */
tuff_tensor *tuff_array_tensor(tuff_graph *graph, tuff_array *array)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("array", graph, &answer))
        return answer;
    if (!array_is_legal(graph, "array", array))
        return &graph->failed;
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->op == OP_ARRAY && graph->nodes[i]->attributes.array == array)
            return &graph->nodes[i]->outputs[0];
    if (!tuff__shape_is_legal(graph, "array", array->shape))
        return &graph->failed;
    return tuff__node_create(graph, OP_ARRAY, array->dtype, array->shape, NULL, 0, &(op_attributes){.array = array});
}

void tuff_output(tuff_graph *graph, const char *name, tuff_tensor *tensor)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("output", graph, &answer))
        return;
    if (tensor && tensor->graph && tensor->graph != graph) {
        tuff__graph_fail(graph, TUFF_E_USAGE, "output: the tensor %s belongs to another graph",
                         SHAPE_TEXT(tensor->shape));
        return;
    }
    if (!tuff__enter("output", &tensor, 1, &answer)) {
        tuff__graph_fail(graph, TUFF_E_USAGE,
                         tensor ? "output: the tensor was not made in any graph" : "output: the tensor is NULL");
        return;
    }
    if (!name_is_legal(graph, "output", name))
        return;
    for (int i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0) {
            tuff__graph_fail(graph, TUFF_E_USAGE, "output: the name \"%.200s\" is taken by an output of shape %s", name,
                             SHAPE_TEXT(graph->outputs[i].tensor->shape));
            return;
        }
    const char *copy = tuff__arena_strdup(&graph->arena, name);
    if (!copy || !GROW(graph->outputs, graph->output_count, graph->output_capacity))
        fail_for_memory(graph);
    else
        graph->outputs[graph->output_count++] = (graph_output){copy, tensor};
}

/* Byte ranges of one storage: views of an array may share elements. */
static bool overlap(const tuff_array *a, const tuff_array *b)
{
    return a->storage == b->storage && a->offset < b->offset + tuff_array_size(b) &&
           b->offset < a->offset + tuff_array_size(a);
}

static bool assign_is_legal(tuff_graph *graph, const tuff_array *array, const tuff_tensor *value)
{
    if (value->dtype != array->dtype)
        tuff__graph_fail(graph, TUFF_E_DTYPE, "assign: %s %s := %s %s: cast the value", tuff_dtype_name(array->dtype),
                         SHAPE_TEXT(array->shape), tuff_dtype_name(value->dtype), SHAPE_TEXT(value->shape));
    else if (!tuff_shape_equal(value->shape, array->shape))
        tuff__graph_fail(graph, TUFF_E_SHAPE, "assign: %s := %s: the shapes differ", SHAPE_TEXT(array->shape),
                         SHAPE_TEXT(value->shape));
    for (int i = 0; i < graph->assign_count; i++)
        if (overlap(array, graph->assigns[i]->attributes.array))
            tuff__graph_fail(graph, TUFF_E_USAGE, "assign: %s overlaps %s, which is assigned already",
                             SHAPE_TEXT(array->shape), SHAPE_TEXT(graph->assigns[i]->attributes.array->shape));
    return graph->status == TUFF_OK;
}

/* The list of assigns keeps them alive in a compiled plan though nothing reads them. */
tuff_tensor *tuff_assign(tuff_graph *graph, tuff_array *array, tuff_tensor *value)
{
    tuff_tensor *answer;
    if (!tuff__enter_graph("assign", graph, &answer))
        return answer;
    if (!array_is_legal(graph, "assign", array))
        return &graph->failed;
    if (value && value->graph && value->graph != graph)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "assign: %s := %s: the value belongs to another graph",
                                SHAPE_TEXT(array->shape), SHAPE_TEXT(value->shape));
    if (!value || !value->node)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "assign: %s := nothing: the value is NULL or of no graph",
                                SHAPE_TEXT(array->shape));
    value = tuff__as_dtype(value, array->dtype);
    if (graph->status != TUFF_OK || !assign_is_legal(graph, array, value))
        return &graph->failed;
    if (!GROW(graph->assigns, graph->assign_count, graph->assign_capacity))
        return fail_for_memory(graph);
    tuff_tensor *made =
        tuff__node_create(graph, OP_ASSIGN, array->dtype, array->shape, &value, 1, &(op_attributes){.array = array});
    if (tuff__is_sound(made))
        graph->assigns[graph->assign_count++] = made->node;
    return made;
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
