/* Bytes to graphs. None of the bytes is trusted: indices refer to what was read before, counts lead to no more memory
   than there are bytes, and every node is one that builders could have made (check.c). A reader that failed gives
   zeros, so that most functions check it once, at their end; status codes are for memory alone. The arrays of the graph
   are placeholders without memory. */
#include "graph/blob/blob.h"

#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/crc.h"
#include "graph/builder.h"

enum { LEAST_NODE = 4 * 4, LEAST_ARRAY = 20, NAME_SIZE = 4096 };

typedef struct reading {
    byte_reader from;
    tuff_device *device;
    graph_copy *out;
    tuff_array **arrays;
    int array_count;
} reading;

/* A scalar after a failure, which is legal everywhere. */
static tuff_shape take_shape(reading *self)
{
    tuff_shape shape = {.rank = tuff__take_below(&self->from, TUFF_MAX_RANK + 1)};
    for (int i = 0; i < shape.rank; i++)
        shape.extent[i] = tuff__take_i64(&self->from);
    if (!self->from.failed && !tuff__shape_is_legal(self->out->graph, "graph", shape))
        self->from.failed = true;
    return self->from.failed ? TUFF_SCALAR : shape;
}

static tuff_dtype take_dtype(reading *self)
{
    return (tuff_dtype)tuff__take_below(&self->from, TUFF_BOOL + 1);
}

/* Storages stand for those of another process: they have a size, but no memory. */
static tuff_status read_storages(reading *self)
{
    const int count = tuff__take_count(&self->from, 9);
    self->out->storages = tuff__calloc((size_t)count + 1, sizeof *self->out->storages);
    if (self->out->storages == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count && !self->from.failed; i++) {
        const uint64_t size = tuff__take_u64(&self->from);
        const bool is_imported = tuff__take_bool(&self->from);
        TRY(tuff__storage_stand_in(self->device, size, is_imported, &self->out->storages[i]));
        self->out->storage_count++;
    }
    return TUFF_OK;
}

/* An array must lie in its storage as a whole, aligned to its elements: kernels rely on both. */
static bool lies_within(const tuff_array *array)
{
    const uint64_t size = tuff_array_size(array), all = tuff__storage_size(array->storage);
    return array->offset % tuff_dtype_size(array->dtype) == 0 && array->offset <= all && size <= all - array->offset;
}

static tuff_status read_array(reading *self, int index)
{
    tuff_array *made = tuff__arena_alloc(&self->out->graph->arena, sizeof *made);
    if (made == NULL)
        return TUFF_E_OOM_HOST;
    const int memory = tuff__take_below(&self->from, (uint64_t)self->out->storage_count);
    made->device = self->device;
    made->offset = tuff__take_u64(&self->from);
    made->dtype = take_dtype(self);
    made->shape = take_shape(self);
    self->arrays[index] = made;
    if (self->from.failed)
        return TUFF_OK;
    made->storage = self->out->storages[memory];
    self->from.failed = !lies_within(made);
    return TUFF_OK;
}

static tuff_status read_arrays(reading *self)
{
    TRY(read_storages(self));
    const int count = tuff__take_count(&self->from, LEAST_ARRAY);
    self->arrays = tuff__calloc((size_t)count + 1, sizeof(tuff_array *));
    if (self->arrays == NULL)
        return TUFF_E_OOM_HOST;
    self->array_count = count;
    for (int i = 0; i < count && !self->from.failed; i++)
        TRY(read_array(self, i));
    return TUFF_OK;
}

/* Data as it must be: all elements of a shape, bools 0 or 1. */
static tuff_status take_data(reading *self, tuff_dtype dtype, tuff_shape shape, op_attributes *out)
{
    size_t size;
    if (!tuff__take_bool(&self->from))
        return TUFF_OK;
    const void *found = tuff__take_bytes(&self->from, &size);
    self->from.failed |= size != (size_t)tuff_shape_count(shape) * tuff_dtype_size(dtype);
    if (self->from.failed)
        return TUFF_OK;
    unsigned char *copy = tuff__arena_alloc(&self->out->graph->arena, size + 1);
    if (copy == NULL)
        return TUFF_E_OOM_HOST;
    if (size > 0)
        memcpy(copy, found, size);
    for (size_t i = 0; dtype == TUFF_BOOL && i < size; i++)
        self->from.failed |= copy[i] > 1;
    out->data = copy;
    return TUFF_OK;
}

static tuff_status take_name(reading *self, const char **out)
{
    char name[NAME_SIZE];
    tuff__take_text(&self->from, name, sizeof name);
    self->from.failed |= name[0] == '\0';
    *out = tuff__arena_strdup(&self->out->graph->arena, name);
    return *out == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
}

static void take_numbers(reading *self, op_attributes *out)
{
    byte_reader *from = &self->from;
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

/* By the column of ops.def that blob_write.c wrote by. */
static tuff_status take_attributes(reading *self, op_code op, tuff_dtype dtype, tuff_shape shape, op_attributes *out)
{
    take_numbers(self, out);
    const op_attribute attribute = tuff__op_info(op)->attribute;
    if (attribute == ATTRIBUTE_NAME)
        return take_name(self, &out->name);
    if (attribute == ATTRIBUTE_DATA)
        return take_data(self, dtype, shape, out);
    if (attribute == ATTRIBUTE_ARRAY) {
        const int index = tuff__take_below(&self->from, (uint64_t)self->array_count);
        out->array = self->from.failed ? NULL : self->arrays[index];
    }
    return TUFF_OK;
}

/* Ids of earlier nodes only, which keeps the graph free of cycles. */
static tuff_status take_inputs(reading *self, tuff_tensor ***out, int *count)
{
    tuff_graph *graph = self->out->graph;
    *count = tuff__take_count(&self->from, 4);
    *out = tuff__arena_alloc(&graph->arena, ((size_t)*count + 1) * sizeof(tuff_tensor *));
    if (*out == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < *count; i++) {
        const int id = tuff__take_below(&self->from, (uint64_t)graph->node_count);
        if (!self->from.failed)
            (*out)[i] = &graph->nodes[id]->outputs[0];
    }
    return TUFF_OK;
}

/* The node exists before it is checked: the check looks at it as the compiler would. */
static tuff_status read_node(reading *self)
{
    tuff_graph *graph = self->out->graph;
    byte_reader *from = &self->from;
    op_attributes attributes = {0};
    tuff_tensor **inputs;
    int input_count;
    const op_code op = (op_code)tuff__take_below(from, OP_COUNT);
    const tuff_dtype dtype = take_dtype(self);
    const tuff_shape shape = take_shape(self);
    const bool stops_gradient = tuff__take_bool(from), is_late_copy = tuff__take_bool(from);
    const int copy = tuff__take_below(from, from->size); /* no more of them than bytes */
    TRY(take_inputs(self, &inputs, &input_count));
    if (!from->failed)
        TRY(take_attributes(self, op, dtype, shape, &attributes));
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

static tuff_status read_nodes(reading *self)
{
    tuff_graph *graph = self->out->graph;
    graph->seed = tuff__take_u32(&self->from);
    graph->random_count = tuff__take_u32(&self->from);
    graph->copy_count = tuff__take_below(&self->from, self->from.size);
    const uint32_t step = tuff__take_u32(&self->from);
    if (step != UINT32_MAX && step >= (uint32_t)self->array_count)
        self->from.failed = true;
    if (self->from.failed)
        return TUFF_OK;
    graph->step_array = step == UINT32_MAX ? NULL : self->arrays[step];
    const int count = tuff__take_count(&self->from, LEAST_NODE);
    for (int i = 0; i < count && !self->from.failed; i++)
        TRY(read_node(self));
    return TUFF_OK;
}

static bool is_taken(const tuff_graph *graph, const char *name)
{
    for (int i = 0; i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0)
            return true;
    return false;
}

/* Names of outputs are unique, as tuff_output demands. */
static tuff_status read_outputs(reading *self)
{
    tuff_graph *graph = self->out->graph;
    const int count = tuff__take_count(&self->from, 12);
    for (int i = 0; i < count && !self->from.failed; i++) {
        const char *name;
        TRY(take_name(self, &name));
        const int id = tuff__take_below(&self->from, (uint64_t)graph->node_count);
        self->from.failed |= is_taken(graph, name);
        if (self->from.failed)
            return TUFF_OK;
        if (!GROW(graph->outputs, graph->output_count, graph->output_capacity))
            return TUFF_E_OOM_HOST;
        graph->outputs[graph->output_count++] = (graph_output){name, &graph->nodes[id]->outputs[0]};
    }
    return TUFF_OK;
}

/* As the builder of ASSIGN has it: no two of them share elements. */
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

static tuff_status read_assigns(reading *self)
{
    tuff_graph *graph = self->out->graph;
    const int count = tuff__take_count(&self->from, 4);
    for (int i = 0; i < count && !self->from.failed; i++) {
        const int id = tuff__take_below(&self->from, (uint64_t)graph->node_count);
        if (self->from.failed || graph->nodes[id]->op != OP_ASSIGN || is_assigned(graph, graph->nodes[id])) {
            self->from.failed = true;
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
        const node *n = graph->nodes[i];
        assigns += n->op == OP_ASSIGN;
        for (int k = 0; k < i && n->op == OP_INPUT; k++)
            if (graph->nodes[k]->op == OP_INPUT && strcmp(graph->nodes[k]->attributes.name, n->attributes.name) == 0)
                return false;
    }
    return assigns == graph->assign_count && graph->output_count + assigns > 0;
}

/* Each part only where those before were sound. */
static tuff_status read_body(reading *self)
{
    TRY(read_arrays(self));
    if (!self->from.failed)
        TRY(read_nodes(self));
    if (!self->from.failed)
        TRY(read_outputs(self));
    if (!self->from.failed)
        TRY(read_assigns(self));
    self->from.failed |= !is_whole(self->out->graph);
    return tuff__reader_status(&self->from, "the graph");
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
    reading self = {.device = device, .out = out};
    *out = (graph_copy){0};
    TRY(open_body(data, size, &self.from));
    out->graph = tuff_graph_create(device);
    const tuff_status status = out->graph == NULL ? TUFF_E_OOM_HOST : read_body(&self);
    tuff__free(self.arrays);
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
