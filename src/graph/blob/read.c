/* Bytes to graphs. The bytes are untrusted: indices must refer to items read before, counts cannot allocate more memory
   than there are bytes, and every node must be one that builders could have made (check.c). After a failure a reader
   returns zeros, so most functions check it only at their end. Status codes report only lack of memory and ops of later
   versions. */
#include "graph/blob/blob.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/crc.h"
#include "graph/blob/parts.h"
#include "graph/builder.h"

enum { MIN_NODE = 4 * 4, MIN_ARRAY = 28, MIN_OP = 8 };

typedef struct graph_reader {
    byte_reader *from;
    tuff_device *device;
    tuff_graph *graph;
    graph_memory memory;
    storage **storages;
    int storage_count;
    tuff_array **arrays;
    int array_count;
    op_code ops[OP_COUNT];
    int op_count;
} graph_reader;

/* Returns a scalar shape after a failure, which is legal everywhere. */
static tuff_shape read_shape(graph_reader *self)
{
    tuff_shape shape = {.rank = tuff__get_below(self->from, TUFF_MAX_RANK + 1)};
    for (int i = 0; i < shape.rank; i++)
        shape.extent[i] = tuff__get_i64(self->from);
    if (!self->from->failed && !tuff__shape_is_legal(self->graph, "graph", shape))
        self->from->failed = true;
    return self->from->failed ? TUFF_SCALAR : shape;
}

static tuff_dtype read_dtype(graph_reader *self)
{
    return (tuff_dtype)tuff__get_below(self->from, TUFF_BOOL + 1);
}

/* The device itself refuses an allocation that is too large, but not always a total that is. */
static tuff_status check_total(const graph_reader *self, uint64_t size, uint64_t all)
{
    const tuff_device_info *info = tuff__device_info(self->device);
    const uint64_t limit = info->memory_size > 0 ? info->memory_size : info->max_allocation;
    if (tuff__device_describes_only(self->device) || (size <= limit && all <= limit - size))
        return TUFF_OK;
    return FAIL(TUFF_E_LIMIT, "the arrays of the graph need more memory than the %llu bytes of %s",
                (unsigned long long)limit, info->selector);
}

static tuff_status make_storage(graph_reader *self, uint64_t size, bool is_imported, uint64_t *all)
{
    storage **out = &self->storages[self->storage_count];
    if (self->memory == GRAPH_PLACEHOLDERS)
        return tuff__storage_create_placeholder(self->device, size, is_imported, out);
    TRY(check_total(self, size, *all));
    *all += size;
    TRY(tuff__storage_create(self->device, size, true, out));
    if (is_imported)
        tuff__storage_mark_imported(*out);
    return TUFF_OK;
}

static tuff_status read_storages(graph_reader *self)
{
    uint64_t all = 0;
    const int count = tuff__get_count(self->from, 9);
    self->storages = tuff__calloc((size_t)count + 1, sizeof *self->storages);
    if (self->storages == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count; i++) {
        const uint64_t size = tuff__get_u64(self->from);
        const bool is_imported = tuff__get_bool(self->from);
        if (self->from->failed)
            return TUFF_OK;
        TRY(make_storage(self, size, is_imported, &all));
        self->storage_count++;
    }
    return TUFF_OK;
}

/* Whether an array lies entirely inside its storage, aligned to its elements. Kernels rely on both. */
static bool array_fits_storage(const tuff_array *array)
{
    const uint64_t size = tuff_array_size(array), all = tuff__storage_size(array->storage);
    return array->offset % tuff_dtype_size(array->dtype) == 0 && array->offset <= all && size <= all - array->offset;
}

static tuff_status read_text(graph_reader *self, const char **out)
{
    char name[NAME_SIZE];
    tuff__get_text(self->from, name, sizeof name);
    *out = tuff__arena_strdup(&self->graph->arena, name);
    return *out == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
}

static tuff_status read_name(graph_reader *self, const char **out)
{
    TRY(read_text(self, out));
    self->from->failed |= (*out)[0] == '\0';
    return TUFF_OK;
}

static tuff_status read_array(graph_reader *self, int index)
{
    graph_array *made = &self->graph->arrays[index];
    const int memory = tuff__get_below(self->from, (uint64_t)self->storage_count);
    const uint64_t offset = tuff__get_u64(self->from);
    const tuff_dtype dtype = read_dtype(self);
    const tuff_shape shape = read_shape(self);
    TRY(read_text(self, &made->name));
    if (self->from->failed)
        return TUFF_OK;
    tuff__storage_retain(self->storages[memory]);
    made->array = self->arrays[index] =
        tuff__array_from_storage(self->device, self->storages[memory], offset, dtype, shape);
    if (made->array == NULL)
        return TUFF_E_OOM_HOST;
    self->graph->array_count++;
    self->from->failed = !array_fits_storage(made->array);
    return TUFF_OK;
}

static tuff_status check_array_names(graph_reader *self)
{
    const tuff_graph *graph = self->graph;
    const char **names = tuff__calloc((size_t)graph->array_count + 1, sizeof *names);
    if (names == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < graph->array_count; i++)
        names[i] = graph->arrays[i].name;
    self->from->failed |= tuff__duplicate_name(names, graph->array_count) != NULL;
    tuff__free(names);
    return TUFF_OK;
}

static tuff_status read_arrays(graph_reader *self)
{
    TRY(read_storages(self));
    const int count = tuff__get_count(self->from, MIN_ARRAY);
    self->arrays = tuff__calloc((size_t)count + 1, sizeof(tuff_array *));
    self->graph->arrays = tuff__calloc((size_t)count + 1, sizeof(graph_array));
    if (self->arrays == NULL || self->graph->arrays == NULL)
        return TUFF_E_OOM_HOST;
    self->array_count = count;
    for (int i = 0; i < count && !self->from->failed; i++)
        TRY(read_array(self, i));
    return self->from->failed ? TUFF_OK : check_array_names(self);
}

static tuff_status read_op(graph_reader *self, op_code *out)
{
    char name[64];
    tuff__get_text(self->from, name, sizeof name);
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(tuff__op_info((op_code)op)->name, name) == 0) {
            *out = (op_code)op;
            return TUFF_OK;
        }
    if (self->from->failed)
        return TUFF_OK;
    return FAIL(TUFF_E_UNSUPPORTED, "the graph has an op that this version of tuff does not know: \"%.40s\"", name);
}

static tuff_status read_ops(graph_reader *self)
{
    const int count = tuff__get_count(self->from, MIN_OP);
    self->from->failed |= count > OP_COUNT;
    for (int i = 0; i < count && !self->from->failed; i++)
        TRY(read_op(self, &self->ops[i]));
    self->op_count = count;
    return TUFF_OK;
}

/* Reads a constant's data, if any, which must be exactly the elements of the shape; bools must be 0 or 1. */
static tuff_status read_data(graph_reader *self, tuff_dtype dtype, tuff_shape shape, op_attributes *out)
{
    size_t size;
    if (!tuff__get_bool(self->from))
        return TUFF_OK;
    const void *found = tuff__get_bytes(self->from, &size);
    self->from->failed |= size != (size_t)tuff_shape_count(shape) * tuff_dtype_size(dtype);
    if (self->from->failed)
        return TUFF_OK;
    unsigned char *copy = tuff__arena_alloc(&self->graph->arena, size + 1);
    if (copy == NULL)
        return TUFF_E_OOM_HOST;
    if (size > 0)
        memcpy(copy, found, size);
    for (size_t i = 0; dtype == TUFF_BOOL && i < size; i++)
        self->from->failed |= copy[i] > 1;
    out->data = copy;
    return TUFF_OK;
}

static void read_steps(byte_reader *from, op_attributes *out)
{
    const int count = tuff__get_below(from, TUFF_MAX_RANK + 1);
    for (int i = 0; i < count; i++) {
        out->order[i] = tuff__get_below(from, TUFF_MAX_RANK);
        out->start[i] = tuff__get_i64(from);
        out->step[i] = tuff__get_i64(from);
    }
}

static void read_numbers(byte_reader *from, op_attributes *out)
{
    const uint8_t groups = tuff__get_u8(from);
    from->failed |= groups > GROUP_ALL;
    if (groups & GROUP_AXES) {
        out->axes = tuff__get_u32(from);
        out->axis = tuff__get_below(from, TUFF_MAX_RANK);
    }
    if (groups & GROUP_STEPS)
        read_steps(from, out);
    if (groups & GROUP_VALUE)
        out->value = tuff__get_double(from);
    if (groups & GROUP_RANDOM) {
        out->seed = tuff__get_u32(from);
        out->ordinal = tuff__get_u32(from);
    }
    if (groups & GROUP_OPTIONS) {
        out->options = tuff__get_u32(from);
        out->dropout = tuff__get_double(from);
    }
}

/* Reads the attributes by the column of ops.def that write.c uses, too. */
static tuff_status read_attributes(graph_reader *self, op_code op, tuff_dtype dtype, tuff_shape shape,
                                   op_attributes *out)
{
    read_numbers(self->from, out);
    const op_attribute attribute = tuff__op_info(op)->attribute;
    if (attribute == ATTRIBUTE_NAME)
        return read_name(self, &out->name);
    if (attribute == ATTRIBUTE_DATA)
        return read_data(self, dtype, shape, out);
    if (attribute == ATTRIBUTE_ARRAY) {
        const int index = tuff__get_below(self->from, (uint64_t)self->array_count);
        out->array = self->from->failed ? NULL : self->arrays[index];
    }
    return TUFF_OK;
}

/* Accepts only ids of earlier nodes, which rules out cycles. */
static tuff_status read_inputs(graph_reader *self, tuff_tensor ***out, int *count)
{
    tuff_graph *graph = self->graph;
    *count = tuff__get_count(self->from, 4);
    *out = tuff__arena_alloc(&graph->arena, ((size_t)*count + 1) * sizeof(tuff_tensor *));
    if (*out == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < *count; i++) {
        const int id = tuff__get_below(self->from, (uint64_t)graph->node_count);
        if (!self->from->failed)
            (*out)[i] = &graph->nodes[id]->outputs[0];
    }
    return TUFF_OK;
}

/* Creates the node before checking it, so that the check sees it as the compiler would. */
static tuff_status read_node(graph_reader *self)
{
    tuff_graph *graph = self->graph;
    byte_reader *from = self->from;
    op_attributes attributes = {0};
    tuff_tensor **inputs;
    int input_count;
    const op_code op = self->ops[tuff__get_below(from, (uint64_t)self->op_count)];
    const tuff_dtype dtype = read_dtype(self);
    const tuff_shape shape = read_shape(self);
    const bool stops_gradient = tuff__get_bool(from), is_late_copy = tuff__get_bool(from);
    const tuff_phase phase = (tuff_phase)tuff__get_u8(from);
    const int recomputation = tuff__get_below(from, from->size); /* at most one for each byte */
    TRY(read_inputs(self, &inputs, &input_count));
    if (!from->failed)
        TRY(read_attributes(self, op, dtype, shape, &attributes));
    if (from->failed)
        return TUFF_OK;
    const tuff_tensor *made = tuff__node_create(graph, op, dtype, shape, inputs, input_count, &attributes);
    if (!tuff__is_valid(made))
        return TUFF_E_OOM_HOST;
    made->node->stops_gradient = stops_gradient;
    made->node->is_late_copy = is_late_copy;
    made->node->recomputation = recomputation;
    from->failed = phase < made->node->phase || phase > TUFF_PHASE_OPTIMIZER || !tuff__node_is_valid(made->node);
    made->node->phase = phase;
    return TUFF_OK;
}

static tuff_status read_nodes(graph_reader *self)
{
    tuff_graph *graph = self->graph;
    graph->seed = tuff__get_u32(self->from);
    graph->random_count = tuff__get_u32(self->from);
    graph->recomputation_count = tuff__get_below(self->from, self->from->size);
    const uint32_t step = tuff__get_u32(self->from);
    if (step != UINT32_MAX && step >= (uint32_t)self->array_count)
        self->from->failed = true;
    if (self->from->failed)
        return TUFF_OK;
    graph->step_array = step == UINT32_MAX ? NULL : self->arrays[step];
    if (step != UINT32_MAX && (graph->step_array->dtype != TUFF_I32 || graph->step_array->shape.rank != 0))
        self->from->failed = true;
    const int count = tuff__get_count(self->from, MIN_NODE);
    for (int i = 0; i < count && !self->from->failed; i++)
        TRY(read_node(self));
    return TUFF_OK;
}

static tuff_status read_outputs(graph_reader *self)
{
    tuff_graph *graph = self->graph;
    const int count = tuff__get_count(self->from, 12);
    for (int i = 0; i < count && !self->from->failed; i++) {
        const char *name;
        TRY(read_name(self, &name));
        const int id = tuff__get_below(self->from, (uint64_t)graph->node_count);
        if (self->from->failed)
            return TUFF_OK;
        if (!GROW(graph->outputs, graph->output_count, graph->output_capacity))
            return TUFF_E_OOM_HOST;
        graph->outputs[graph->output_count++] = (graph_output){name, &graph->nodes[id]->outputs[0]};
    }
    return TUFF_OK;
}

/* Accepts every ASSIGN once. */
static tuff_status read_assigns(graph_reader *self)
{
    tuff_graph *graph = self->graph;
    const int count = tuff__get_count(self->from, 4);
    bool *seen = tuff__calloc((size_t)graph->node_count + 1, sizeof *seen);
    tuff_status status = seen ? TUFF_OK : TUFF_E_OOM_HOST;
    for (int i = 0; i < count && status == TUFF_OK && !self->from->failed; i++) {
        const int id = tuff__get_below(self->from, (uint64_t)graph->node_count);
        if (self->from->failed || graph->nodes[id]->op != OP_ASSIGN || seen[id])
            self->from->failed = true;
        else if (!GROW(graph->assigns, graph->assign_count, graph->assign_capacity))
            status = TUFF_E_OOM_HOST;
        else
            graph->assigns[graph->assign_count++] = graph->nodes[id];
        seen[id] = true;
    }
    tuff__free(seen);
    return status;
}

static int compare_places(const void *a, const void *b)
{
    const tuff_array *first = *(const tuff_array *const *)a, *second = *(const tuff_array *const *)b;
    if (first->storage != second->storage)
        return (uintptr_t)first->storage < (uintptr_t)second->storage ? -1 : 1;
    return (first->offset > second->offset) - (first->offset < second->offset);
}

/* Checks that no two assigned arrays share elements, as the builder of ASSIGN does. Empty ones share none. */
static tuff_status check_assigns(graph_reader *self)
{
    const tuff_graph *graph = self->graph;
    const tuff_array **targets = tuff__calloc((size_t)graph->assign_count + 1, sizeof(tuff_array *));
    int count = 0;
    if (targets == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < graph->assign_count; i++)
        if (tuff_array_size(graph->assigns[i]->attributes.array) > 0)
            targets[count++] = graph->assigns[i]->attributes.array;
    if (count > 0)
        qsort(targets, (size_t)count, sizeof *targets, compare_places);
    for (int i = 1; i < count; i++)
        self->from->failed |= tuff__arrays_overlap(targets[i - 1], targets[i]);
    tuff__free(targets);
    return TUFF_OK;
}

/* Checks that inputs and outputs have unique names, and that the list of assigns, which has no duplicates, is
   complete. */
static tuff_status check_names_and_assigns(graph_reader *self)
{
    const tuff_graph *graph = self->graph;
    const char **names = tuff__calloc((size_t)(graph->node_count + graph->output_count) + 1, sizeof *names);
    int assigns = 0, inputs = 0;
    if (names == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < graph->node_count; i++) {
        assigns += graph->nodes[i]->op == OP_ASSIGN;
        if (graph->nodes[i]->op == OP_INPUT)
            names[inputs++] = graph->nodes[i]->attributes.name;
    }
    bool fits = assigns == graph->assign_count && graph->output_count + assigns > 0;
    fits = fits && tuff__duplicate_name(names, inputs) == NULL;
    for (int i = 0; i < graph->output_count; i++)
        names[i] = graph->outputs[i].name;
    fits = fits && tuff__duplicate_name(names, graph->output_count) == NULL;
    self->from->failed |= !fits;
    tuff__free(names);
    return TUFF_OK;
}

/* Reads part by part and stops at the first that is invalid. */
static tuff_status read_body(graph_reader *self)
{
    tuff_status (*const parts[])(graph_reader *) = {
        read_arrays, read_ops, read_nodes, read_outputs, read_assigns, check_assigns, check_names_and_assigns};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !self->from->failed; i++)
        TRY(parts[i](self));
    return tuff__reader_status(self->from, "the graph");
}

tuff_status tuff__graph_deserialize(tuff_device *device, byte_reader *from, graph_memory memory, tuff_graph **out)
{
    graph_reader self = {.from = from, .device = device, .memory = memory, .graph = tuff_graph_create(device)};
    const tuff_status status = self.graph == NULL ? tuff_last_status() : read_body(&self);
    for (int i = 0; i < self.storage_count; i++)
        tuff__storage_release(self.storages[i]);
    tuff__free(self.storages);
    tuff__free(self.arrays);
    if (status != TUFF_OK)
        tuff_graph_destroy(self.graph);
    *out = status == TUFF_OK ? self.graph : NULL;
    return status;
}

/* Checks header and checksum. Sets *out to the bytes of the body. */
static tuff_status open_body(const void *data, size_t size, byte_reader *out)
{
    byte_reader head = {.data = data, .size = size};
    const uint32_t magic = tuff__get_u32(&head), version = tuff__get_u32(&head), sum = tuff__get_u32(&head);
    size_t length;
    const void *body = tuff__get_bytes(&head, &length);
    if (!head.failed && (magic != BLOB_MAGIC || version != BLOB_VERSION))
        return FAIL(TUFF_E_FORMAT, "the graph was written by another version of tuff");
    TRY(tuff__reader_status(&head, "the graph"));
    if (tuff__crc32(body, length) != sum)
        return FAIL(TUFF_E_FORMAT, "the checksum of the graph does not match");
    *out = (byte_reader){.data = body, .size = length};
    return TUFF_OK;
}

tuff_status tuff__graph_read(tuff_device *device, const void *data, size_t size, tuff_graph **out)
{
    byte_reader body;
    *out = NULL;
    TRY(open_body(data, size, &body));
    return tuff__graph_deserialize(device, &body, GRAPH_PLACEHOLDERS, out);
}
