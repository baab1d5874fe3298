/* Graphs to bytes: storages, arrays, names of ops, nodes, outputs, assigns; for other processes with a header that has
   size and checksum. Numbers are little-endian and of fixed width. Ops are written by name, because their numbers
   change with the table. read.c reads everything in the same order; a change of the order raises BLOB_VERSION and the
   format of files (file.c). */
#include "graph/blob/blob.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "graph/blob/parts.h"

/* Lists of what is written: the distinct arrays of a graph, their distinct storages, and the ops that occur. */
typedef struct graph_writer {
    const tuff_array **arrays;
    int array_count, array_capacity;
    storage **storages;
    int storage_count, storage_capacity;
    const array_names *names;
    const tuff_graph *graph;
    int ops[OP_COUNT]; /* by op: its index in the list of ops that occur */
    int op_count;
} graph_writer;

static int find_array(const graph_writer *writer, const tuff_array *array)
{
    for (int i = 0; i < writer->array_count; i++)
        if (writer->arrays[i] == array)
            return i;
    return -1;
}

/* Returns the name given by the caller, else the one that the array was read with, else "". */
static const char *name_of(const graph_writer *writer, const tuff_array *array)
{
    for (int i = 0; writer->names != NULL && i < writer->names->count; i++)
        if (writer->names->arrays[i] == array)
            return writer->names->names[i];
    for (int i = 0; i < writer->graph->array_count; i++)
        if (writer->graph->arrays[i].array == array)
            return writer->graph->arrays[i].name;
    return "";
}

static int find_storage(const graph_writer *writer, const storage *memory)
{
    for (int i = 0; i < writer->storage_count; i++)
        if (writer->storages[i] == memory)
            return i;
    return -1;
}

static tuff_status list_array(graph_writer *writer, const tuff_array *array)
{
    if (find_array(writer, array) >= 0)
        return TUFF_OK;
    if (!GROW(writer->arrays, writer->array_count, writer->array_capacity))
        return TUFF_E_OOM_HOST;
    writer->arrays[writer->array_count++] = array;
    if (find_storage(writer, array->storage) >= 0)
        return TUFF_OK;
    if (!GROW(writer->storages, writer->storage_count, writer->storage_capacity))
        return TUFF_E_OOM_HOST;
    writer->storages[writer->storage_count++] = array->storage;
    return TUFF_OK;
}

/* Lists arrays in the order of nodes, so that equal graphs give equal bytes. */
static tuff_status list_arrays(const tuff_graph *graph, graph_writer *out)
{
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->attributes.array != NULL)
            TRY(list_array(out, graph->nodes[i]->attributes.array));
    return graph->step_array == NULL ? TUFF_OK : list_array(out, graph->step_array);
}

static void put_shape(text *out, tuff_shape shape)
{
    tuff__put_u32(out, (uint32_t)shape.rank);
    for (int i = 0; i < shape.rank; i++)
        tuff__put_i64(out, shape.extent[i]);
}

/* Writes the properties of arrays that kernels depend on, such as their place in their storage, but no elements. */
static void put_arrays(text *out, const graph_writer *writer)
{
    tuff__put_u32(out, (uint32_t)writer->storage_count);
    for (int i = 0; i < writer->storage_count; i++) {
        tuff__put_u64(out, tuff__storage_size(writer->storages[i]));
        tuff__put_u8(out, tuff__storage_is_imported(writer->storages[i]));
    }
    tuff__put_u32(out, (uint32_t)writer->array_count);
    for (int i = 0; i < writer->array_count; i++) {
        tuff__put_u32(out, (uint32_t)find_storage(writer, writer->arrays[i]->storage));
        tuff__put_u64(out, writer->arrays[i]->offset);
        tuff__put_u32(out, writer->arrays[i]->dtype);
        put_shape(out, writer->arrays[i]->shape);
        tuff__put_text(out, name_of(writer, writer->arrays[i]));
    }
}

/* Returns the groups of attributes that are not all zero. */
static uint8_t used_groups(const op_attributes *at)
{
    static const double zero;
    uint8_t groups = at->axes != 0 || at->axis != 0 ? GROUP_AXES : 0;
    groups |= memcmp(&at->value, &zero, sizeof zero) != 0 ? GROUP_VALUE : 0;
    groups |= at->seed != 0 || at->ordinal != 0 ? GROUP_RANDOM : 0;
    groups |= at->options != 0 || memcmp(&at->dropout, &zero, sizeof zero) != 0 ? GROUP_OPTIONS : 0;
    for (int i = 0; i < TUFF_MAX_RANK; i++)
        groups |= at->order[i] != 0 || at->start[i] != 0 || at->step[i] != 0 ? GROUP_STEPS : 0;
    return groups;
}

static void put_steps(text *out, const op_attributes *at)
{
    int count = TUFF_MAX_RANK;
    while (count > 0 && at->order[count - 1] == 0 && at->start[count - 1] == 0 && at->step[count - 1] == 0)
        count--;
    tuff__put_u32(out, (uint32_t)count);
    for (int i = 0; i < count; i++) {
        tuff__put_u32(out, (uint32_t)at->order[i]);
        tuff__put_i64(out, at->start[i]);
        tuff__put_i64(out, at->step[i]);
    }
}

/* Writes the non-zero groups only: few nodes have more than one. */
static void put_numbers(text *out, const op_attributes *at)
{
    const uint8_t groups = used_groups(at);
    tuff__put_u8(out, groups);
    if (groups & GROUP_AXES) {
        tuff__put_u32(out, at->axes);
        tuff__put_u32(out, (uint32_t)at->axis);
    }
    if (groups & GROUP_STEPS)
        put_steps(out, at);
    if (groups & GROUP_VALUE)
        tuff__put_double(out, at->value);
    if (groups & GROUP_RANDOM) {
        tuff__put_u32(out, at->seed);
        tuff__put_u32(out, at->ordinal);
    }
    if (groups & GROUP_OPTIONS) {
        tuff__put_u32(out, at->options);
        tuff__put_double(out, at->dropout);
    }
}

/* Writes names, arrays and data only for ops that have them. */
static void put_attributes(text *out, const graph_writer *writer, const node *n)
{
    const op_attributes *at = &n->attributes;
    const tuff_tensor *value = &n->outputs[0];
    put_numbers(out, at);
    const op_attribute attribute = tuff__op_info(n->op)->attribute;
    if (attribute == ATTRIBUTE_NAME)
        tuff__put_text(out, at->name);
    if (attribute == ATTRIBUTE_ARRAY)
        tuff__put_u32(out, (uint32_t)find_array(writer, at->array));
    if (attribute == ATTRIBUTE_DATA) {
        tuff__put_u8(out, at->data != NULL);
        if (at->data != NULL)
            tuff__put_bytes(out, at->data, (size_t)tuff_shape_count(value->shape) * tuff_dtype_size(value->dtype));
    }
}

/* Inputs are written as ids of earlier nodes. */
static void put_node(text *out, const graph_writer *writer, const node *n)
{
    tuff__put_u32(out, (uint32_t)writer->ops[n->op]);
    tuff__put_u32(out, n->outputs[0].dtype);
    put_shape(out, n->outputs[0].shape);
    tuff__put_u8(out, n->stops_gradient);
    tuff__put_u8(out, n->is_late_copy);
    tuff__put_u8(out, (uint8_t)n->phase);
    tuff__put_u32(out, (uint32_t)n->recomputation);
    tuff__put_u32(out, (uint32_t)n->input_count);
    for (int i = 0; i < n->input_count; i++)
        tuff__put_u32(out, (uint32_t)n->inputs[i]->node->id);
    put_attributes(out, writer, n);
}

/* Writes the names of the ops that occur, in order of first use. */
static void put_ops(text *out, graph_writer *writer, const tuff_graph *graph)
{
    op_code used[OP_COUNT];
    for (int op = 0; op < OP_COUNT; op++)
        writer->ops[op] = -1;
    for (int i = 0; i < graph->node_count; i++) {
        const op_code op = graph->nodes[i]->op;
        if (writer->ops[op] >= 0)
            continue;
        used[writer->op_count] = op;
        writer->ops[op] = writer->op_count++;
    }
    tuff__put_u32(out, (uint32_t)writer->op_count);
    for (int i = 0; i < writer->op_count; i++)
        tuff__put_text(out, tuff__op_info(used[i])->name);
}

static void put_graph(text *out, graph_writer *writer, const tuff_graph *graph)
{
    put_arrays(out, writer);
    put_ops(out, writer, graph);
    tuff__put_u32(out, graph->seed);
    tuff__put_u32(out, graph->random_count);
    tuff__put_u32(out, (uint32_t)graph->recomputation_count);
    tuff__put_u32(out, graph->step_array == NULL ? UINT32_MAX : (uint32_t)find_array(writer, graph->step_array));
    tuff__put_u32(out, (uint32_t)graph->node_count);
    for (int i = 0; i < graph->node_count; i++)
        put_node(out, writer, graph->nodes[i]);
    tuff__put_u32(out, (uint32_t)graph->output_count);
    for (int i = 0; i < graph->output_count; i++) {
        tuff__put_text(out, graph->outputs[i].name);
        tuff__put_u32(out, (uint32_t)graph->outputs[i].tensor->node->id);
    }
    tuff__put_u32(out, (uint32_t)graph->assign_count);
    for (int i = 0; i < graph->assign_count; i++)
        tuff__put_u32(out, (uint32_t)graph->assigns[i]->id);
}

static tuff_status check_length(const char *name)
{
    return strlen(name) < NAME_SIZE
               ? TUFF_OK
               : FAIL(TUFF_E_LIMIT, "graph: the name \"%.60s...\" is longer than %d bytes", name, NAME_SIZE - 1);
}

/* Checks for names that a reader would refuse. */
static tuff_status check_names(const tuff_graph *graph, const graph_writer *writer)
{
    const char **names = tuff__calloc((size_t)writer->array_count + 1, sizeof *names);
    tuff_status status = names == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    for (int i = 0; i < writer->array_count && status == TUFF_OK; i++)
        status = check_length(names[i] = name_of(writer, writer->arrays[i]));
    const char *duplicate = status == TUFF_OK ? tuff__duplicate_name(names, writer->array_count) : NULL;
    if (duplicate != NULL)
        status = FAIL(TUFF_E_USAGE, "graph: two arrays have the name \"%.200s\"", duplicate);
    tuff__free(names);
    for (int i = 0; i < graph->output_count && status == TUFF_OK; i++)
        status = check_length(graph->outputs[i].name);
    for (int i = 0; i < graph->node_count && status == TUFF_OK; i++)
        if (graph->nodes[i]->op == OP_INPUT)
            status = check_length(graph->nodes[i]->attributes.name);
    return status;
}

tuff_status tuff__graph_serialize(const tuff_graph *graph, const array_names *names, text *out)
{
    graph_writer writer = {.names = names, .graph = graph};
    tuff_status status = list_arrays(graph, &writer);
    if (status == TUFF_OK)
        status = check_names(graph, &writer);
    if (status == TUFF_OK) {
        put_graph(out, &writer, graph);
        status = tuff__text_status(out);
    }
    tuff__free(writer.arrays);
    tuff__free(writer.storages);
    return status;
}

/* Serializes the body first, because the header needs its checksum. */
tuff_status tuff__graph_write(const tuff_graph *graph, text *out)
{
    text body = {0};
    tuff_status status = tuff__graph_serialize(graph, NULL, &body);
    if (status == TUFF_OK) {
        tuff__put_u32(out, BLOB_MAGIC);
        tuff__put_u32(out, BLOB_VERSION);
        tuff__put_u32(out, tuff__crc32(tuff__text_get(&body), body.length));
        tuff__put_bytes(out, tuff__text_get(&body), body.length);
        status = tuff__text_status(out);
    }
    tuff__text_free(&body);
    return status;
}
