/* Bytes to graphs. Nothing of them is trusted: indices lead to what was read before, counts to no more memory than
   there are bytes, and every node is one that builders could have made (blob_check.c). */
#include "graph/blob.h"

#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "graph/blob_parts.h"
#include "graph/builder.h"

enum { LEAST_NODE = 4 * 4, LEAST_ARRAY = 20, NAME_SIZE = 4096 };

typedef struct reading {
    byte_reader from;
    tuff_device *device;
    graph_copy *out;
    tuff_array **arrays;
    int array_count;
} reading;

static tuff_shape take_shape(reading *with)
{
    tuff_shape shape = {.rank = tuff__take_below(&with->from, TUFF_MAX_RANK + 1)};
    for (int i = 0; i < shape.rank; i++)
        shape.extent[i] = tuff__take_i64(&with->from);
    if (!with->from.failed && !tuff__shape_is_legal(with->out->graph, "graph", shape))
        with->from.failed = true;
    return with->from.failed ? TUFF_SCALAR : shape;
}

static tuff_dtype take_dtype(reading *with)
{
    return (tuff_dtype)tuff__take_below(&with->from, TUFF_BOOL + 1);
}

static tuff_status read_storages(reading *with)
{
    const int count = tuff__take_count(&with->from, 9);
    with->out->storages = tuff__calloc((size_t)count + 1, sizeof *with->out->storages);
    if (with->out->storages == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count && !with->from.failed; i++) {
        const uint64_t size = tuff__take_u64(&with->from);
        const bool is_imported = tuff__take_bool(&with->from);
        TRY(tuff__storage_stand_in(with->device, size, is_imported, &with->out->storages[i]));
        with->out->storage_count++;
    }
    return TUFF_OK;
}

static bool lies_within(const tuff_array *array)
{
    const uint64_t size = tuff_array_size(array), all = tuff__storage_size(array->storage);
    return array->offset % tuff_dtype_size(array->dtype) == 0 && array->offset <= all && size <= all - array->offset;
}

static tuff_status read_array(reading *with, int index)
{
    tuff_array *made = tuff__arena_alloc(&with->out->graph->arena, sizeof *made);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    const int memory = tuff__take_below(&with->from, (uint64_t)with->out->storage_count);
    made->device = with->device;
    made->offset = tuff__take_u64(&with->from);
    made->dtype = take_dtype(with);
    made->shape = take_shape(with);
    with->arrays[index] = made;
    if (with->from.failed)
        return TUFF_OK;
    made->storage = with->out->storages[memory];
    with->from.failed = !lies_within(made);
    return TUFF_OK;
}

static tuff_status read_arrays(reading *with)
{
    TRY(read_storages(with));
    const int count = tuff__take_count(&with->from, LEAST_ARRAY);
    with->arrays = tuff__calloc((size_t)count + 1, sizeof(tuff_array *));
    if (with->arrays == NULL)
        return TUFF_E_OOM_HOST;
    with->array_count = count;
    for (int i = 0; i < count && !with->from.failed; i++)
        TRY(read_array(with, i));
    return TUFF_OK;
}

/* Data as it must be: all elements of a shape, bools 0 or 1. */
static tuff_status take_data(reading *with, tuff_dtype dtype, tuff_shape shape, op_attributes *out)
{
    size_t size;
    if (!tuff__take_bool(&with->from))
        return TUFF_OK;
    const void *found = tuff__take_bytes(&with->from, &size);
    with->from.failed |= size != (size_t)tuff_shape_count(shape) * tuff_dtype_size(dtype);
    if (with->from.failed)
        return TUFF_OK;
    unsigned char *copy = tuff__arena_alloc(&with->out->graph->arena, size + 1);
    if (copy == NULL)
        return TUFF_E_OOM_HOST;
    if (size > 0)
        memcpy(copy, found, size);
    for (size_t i = 0; dtype == TUFF_BOOL && i < size; i++)
        with->from.failed |= copy[i] > 1;
    out->data = copy;
    return TUFF_OK;
}

static tuff_status take_name(reading *with, const char **out)
{
    char name[NAME_SIZE];
    tuff__take_text(&with->from, name, sizeof name);
    with->from.failed |= name[0] == '\0';
    *out = tuff__arena_strdup(&with->out->graph->arena, name);
    return *out == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
}

static void take_numbers(reading *with, op_attributes *out)
{
    byte_reader *from = &with->from;
    out->axes = tuff__take_u32(from);
    out->axis = tuff__take_below(from, TUFF_MAX_RANK);
    for (int i = 0; i < TUFF_MAX_RANK; i++) {
        out->order[i] = tuff__take_below(from, TUFF_MAX_RANK);
        out->start[i] = tuff__take_i64(from);
        out->step[i] = tuff__take_i64(from);
    }
    out->value = tuff__take_double(from);
    out->seed = tuff__take_u32(from);
    out->ordinal = tuff__take_u32(from);
    out->options = tuff__take_u32(from);
    out->dropout = tuff__take_double(from);
}

static tuff_status take_attributes(reading *with, op_code op, tuff_dtype dtype, tuff_shape shape, op_attributes *out)
{
    take_numbers(with, out);
    const op_attribute attribute = tuff__op_info(op)->attribute;
    if (attribute == ATTRIBUTE_NAME)
        return take_name(with, &out->name);
    if (attribute == ATTRIBUTE_DATA)
        return take_data(with, dtype, shape, out);
    if (attribute == ATTRIBUTE_ARRAY) {
        const int index = tuff__take_below(&with->from, (uint64_t)with->array_count);
        out->array = with->from.failed ? NULL : with->arrays[index];
    }
    return TUFF_OK;
}

static tuff_status take_inputs(reading *with, tuff_tensor ***out, int *count)
{
    tuff_graph *graph = with->out->graph;
    *count = tuff__take_count(&with->from, 4);
    *out = tuff__arena_alloc(&graph->arena, ((size_t)*count + 1) * sizeof(tuff_tensor *));
    if (*out == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < *count; i++) {
        const int id = tuff__take_below(&with->from, (uint64_t)graph->node_count);
        if (!with->from.failed)
            (*out)[i] = &graph->nodes[id]->outputs[0];
    }
    return TUFF_OK;
}

static tuff_status read_node(reading *with)
{
    tuff_graph *graph = with->out->graph;
    byte_reader *from = &with->from;
    op_attributes attributes = {0};
    tuff_tensor **inputs;
    int input_count;
    const op_code op = (op_code)tuff__take_below(from, OP_COUNT);
    const tuff_dtype dtype = take_dtype(with);
    const tuff_shape shape = take_shape(with);
    const bool stops_gradient = tuff__take_bool(from), is_late_copy = tuff__take_bool(from);
    const int copy = tuff__take_below(from, from->size); /* no more of them than bytes */
    TRY(take_inputs(with, &inputs, &input_count));
    if (!from->failed)
        TRY(take_attributes(with, op, dtype, shape, &attributes));
    if (from->failed)
        return TUFF_OK;
    const tuff_tensor *made = tuff__node_create(graph, op, dtype, shape, inputs, input_count, &attributes);
    if (!tuff__is_sound(made))
        return TUFF_E_OOM_HOST;
    made->node->stops_gradient = stops_gradient;
    made->node->is_late_copy = is_late_copy;
    made->node->copy = copy;
    from->failed = !tuff__node_is_plausible(made->node);
    return TUFF_OK;
}

static tuff_status read_nodes(reading *with)
{
    tuff_graph *graph = with->out->graph;
    graph->seed = tuff__take_u32(&with->from);
    graph->random_count = tuff__take_u32(&with->from);
    graph->copy_count = tuff__take_below(&with->from, with->from.size);
    const uint32_t step = tuff__take_u32(&with->from);
    if (step != UINT32_MAX && step >= (uint32_t)with->array_count)
        with->from.failed = true;
    if (with->from.failed)
        return TUFF_OK;
    graph->step_array = step == UINT32_MAX ? NULL : with->arrays[step];
    const int count = tuff__take_count(&with->from, LEAST_NODE);
    for (int i = 0; i < count && !with->from.failed; i++)
        TRY(read_node(with));
    return TUFF_OK;
}

static bool is_taken(const tuff_graph *graph, const char *name)
{
    for (int i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0)
            return true;
    return false;
}

static tuff_status read_outputs(reading *with)
{
    tuff_graph *graph = with->out->graph;
    const int count = tuff__take_count(&with->from, 12);
    for (int i = 0; i < count && !with->from.failed; i++) {
        const char *name;
        TRY(take_name(with, &name));
        const int id = tuff__take_below(&with->from, (uint64_t)graph->node_count);
        with->from.failed |= is_taken(graph, name);
        if (with->from.failed)
            return TUFF_OK;
        if (!GROW(graph->outputs, graph->output_count, graph->output_capacity))
            return TUFF_E_OOM_HOST;
        graph->outputs[graph->output_count++] = (graph_output){name, &graph->nodes[id]->outputs[0]};
    }
    return TUFF_OK;
}

static bool is_assigned(const tuff_graph *graph, const node *assign)
{
    const tuff_array *array = assign->attributes.array;
    for (int i = 0; i < graph->assign_count; i++) {
        const tuff_array *other = graph->assigns[i]->attributes.array;
        if (array->storage == other->storage && array->offset < other->offset + tuff_array_size(other) &&
            other->offset < array->offset + tuff_array_size(array))
            return true;
    }
    return false;
}

static tuff_status read_assigns(reading *with)
{
    tuff_graph *graph = with->out->graph;
    const int count = tuff__take_count(&with->from, 4);
    for (int i = 0; i < count && !with->from.failed; i++) {
        const int id = tuff__take_below(&with->from, (uint64_t)graph->node_count);
        if (with->from.failed || graph->nodes[id]->op != OP_ASSIGN || is_assigned(graph, graph->nodes[id])) {
            with->from.failed = true;
            return TUFF_OK;
        }
        if (!GROW(graph->assigns, graph->assign_count, graph->assign_capacity))
            return TUFF_E_OOM_HOST;
        graph->assigns[graph->assign_count++] = graph->nodes[id];
    }
    return TUFF_OK;
}

/* Names of inputs are told apart by them, and every ASSIGN is in the list of those. */
static bool is_whole(const tuff_graph *graph)
{
    int assigns = 0;
    for (int i = 0; i < graph->node_count; i++) {
        const node *of = graph->nodes[i];
        assigns += of->op == OP_ASSIGN;
        for (int k = 0; k < i && of->op == OP_INPUT; k++)
            if (graph->nodes[k]->op == OP_INPUT && strcmp(graph->nodes[k]->attributes.name, of->attributes.name) == 0)
                return false;
    }
    return assigns == graph->assign_count && graph->output_count + assigns > 0;
}

static tuff_status read_body(reading *with)
{
    TRY(read_arrays(with));
    if (!with->from.failed)
        TRY(read_nodes(with));
    if (!with->from.failed)
        TRY(read_outputs(with));
    if (!with->from.failed)
        TRY(read_assigns(with));
    with->from.failed |= !is_whole(with->out->graph);
    return tuff__reader_status(&with->from, "the graph");
}

/* The bytes behind the head, proved undamaged. */
static tuff_status open_body(const void *data, size_t size, byte_reader *out)
{
    byte_reader head = {.data = data, .size = size};
    const uint32_t magic = tuff__take_u32(&head), version = tuff__take_u32(&head), sum = tuff__take_u32(&head);
    size_t length;
    const void *body = tuff__take_bytes(&head, &length);
    if (!head.failed && (magic != BLOB_MAGIC || version != BLOB_VERSION))
        return FAIL(TUFF_E_FORMAT, "the graph: no graph of this version");
    TRY(tuff__reader_status(&head, "the graph"));
    if (tuff__crc32(body, length) != sum)
        return FAIL(TUFF_E_FORMAT, "the graph: its checksum is another");
    *out = (byte_reader){.data = body, .size = length};
    return TUFF_OK;
}

tuff_status tuff__graph_read(tuff_device *device, const void *data, size_t size, graph_copy *out)
{
    reading with = {.device = device, .out = out};
    *out = (graph_copy){0};
    TRY(open_body(data, size, &with.from));
    out->graph = tuff_graph_create(device);
    const tuff_status status = out->graph == NULL ? TUFF_E_OOM_HOST : read_body(&with);
    tuff__free(with.arrays);
    if (status != TUFF_OK)
        tuff__graph_copy_free(out);
    return status;
}

void tuff__graph_copy_free(graph_copy *copy)
{
    tuff_graph_destroy(copy->graph);
    for (int i = 0; i < copy->storage_count; i++)
        tuff__storage_release(copy->storages[i]);
    tuff__free(copy->storages);
    *copy = (graph_copy){0};
}
