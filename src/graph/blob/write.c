/* Graphs to bytes: a head with size and checksum, then storages, arrays, nodes, outputs, assigns. Numbers are
   little-endian, of fixed width. Whatever is put here is taken in the same order by read.c; a change of the order
   raises BLOB_VERSION. */
#include "graph/blob/blob.h"

#include "base/bytes.h"
#include "base/crc.h"

/* Distinct arrays of a graph, and the distinct storages of those. */
typedef struct listing {
    const tuff_array **arrays;
    int array_count, array_capacity;
    storage **storages;
    int storage_count, storage_capacity;
} listing;

static int find_array(const listing *in, const tuff_array *array)
{
    for (int i = 0; i < in->array_count; i++)
        if (in->arrays[i] == array)
            return i;
    return -1;
}

static int find_storage(const listing *in, const storage *memory)
{
    for (int i = 0; i < in->storage_count; i++)
        if (in->storages[i] == memory)
            return i;
    return -1;
}

static tuff_status list_array(listing *in, const tuff_array *array)
{
    if (find_array(in, array) >= 0)
        return TUFF_OK;
    if (!GROW(in->arrays, in->array_count, in->array_capacity))
        return TUFF_E_OOM_HOST;
    in->arrays[in->array_count++] = array;
    if (find_storage(in, array->storage) >= 0)
        return TUFF_OK;
    if (!GROW(in->storages, in->storage_count, in->storage_capacity))
        return TUFF_E_OOM_HOST;
    in->storages[in->storage_count++] = array->storage;
    return TUFF_OK;
}

/* In the order of nodes, so that equal graphs become equal bytes. */
static tuff_status list_all(const tuff_graph *graph, listing *out)
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

/* Arrays as kernels depend on them: where they lie in which storage. Elements are not written. */
static void put_arrays(text *out, const listing *listed)
{
    tuff__put_u32(out, (uint32_t)listed->storage_count);
    for (int i = 0; i < listed->storage_count; i++) {
        tuff__put_u64(out, tuff__storage_size(listed->storages[i]));
        tuff__put_u8(out, tuff__storage_is_imported(listed->storages[i]));
    }
    tuff__put_u32(out, (uint32_t)listed->array_count);
    for (int i = 0; i < listed->array_count; i++) {
        tuff__put_u32(out, (uint32_t)find_storage(listed, listed->arrays[i]->storage));
        tuff__put_u64(out, listed->arrays[i]->offset);
        tuff__put_u32(out, listed->arrays[i]->dtype);
        put_shape(out, listed->arrays[i]->shape);
    }
}

/* Attributes that are numbers are written for every op; names, arrays and data only for the ops that have them. */
static void put_attributes(text *out, const listing *listed, const node *n)
{
    const op_attributes *at = &n->attributes;
    const tuff_tensor *value = &n->outputs[0];
    tuff__put_u32(out, at->axes);
    tuff__put_u32(out, (uint32_t)at->axis);
    for (int i = 0; i < TUFF_MAX_RANK; i++) {
        tuff__put_u32(out, (uint32_t)at->order[i]);
        tuff__put_i64(out, at->start[i]);
        tuff__put_i64(out, at->step[i]);
    }
    tuff__put_double(out, at->value);
    tuff__put_u32(out, at->seed);
    tuff__put_u32(out, at->ordinal);
    tuff__put_u32(out, at->options);
    tuff__put_double(out, at->dropout);
    const op_attribute attribute = tuff__op_info(n->op)->attribute;
    if (attribute == ATTRIBUTE_NAME)
        tuff__put_text(out, at->name);
    if (attribute == ATTRIBUTE_ARRAY)
        tuff__put_u32(out, (uint32_t)find_array(listed, at->array));
    if (attribute == ATTRIBUTE_DATA) {
        tuff__put_u8(out, at->data != NULL);
        if (at->data != NULL)
            tuff__put_bytes(out, at->data, (size_t)tuff_shape_count(value->shape) * tuff_dtype_size(value->dtype));
    }
}

/* Inputs are ids of earlier nodes, as in the graph. */
static void put_node(text *out, const listing *listed, const node *n)
{
    tuff__put_u32(out, n->op);
    tuff__put_u32(out, n->outputs[0].dtype);
    put_shape(out, n->outputs[0].shape);
    tuff__put_u8(out, n->stops_gradient);
    tuff__put_u8(out, n->is_late_copy);
    tuff__put_u32(out, (uint32_t)n->copy);
    tuff__put_u32(out, (uint32_t)n->input_count);
    for (int i = 0; i < n->input_count; i++)
        tuff__put_u32(out, (uint32_t)n->inputs[i]->node->id);
    put_attributes(out, listed, n);
}

static void put_graph(text *out, const listing *listed, const tuff_graph *graph)
{
    put_arrays(out, listed);
    tuff__put_u32(out, graph->seed);
    tuff__put_u32(out, graph->random_count);
    tuff__put_u32(out, (uint32_t)graph->copy_count);
    tuff__put_u32(out, graph->step_array == NULL ? UINT32_MAX : (uint32_t)find_array(listed, graph->step_array));
    tuff__put_u32(out, (uint32_t)graph->node_count);
    for (int i = 0; i < graph->node_count; i++)
        put_node(out, listed, graph->nodes[i]);
    tuff__put_u32(out, (uint32_t)graph->output_count);
    for (int i = 0; i < graph->output_count; i++) {
        tuff__put_text(out, graph->outputs[i].name);
        tuff__put_u32(out, (uint32_t)graph->outputs[i].tensor->node->id);
    }
    tuff__put_u32(out, (uint32_t)graph->assign_count);
    for (int i = 0; i < graph->assign_count; i++)
        tuff__put_u32(out, (uint32_t)graph->assigns[i]->id);
}

/* The body is made first, for the head needs its checksum. */
tuff_status tuff__graph_write(const tuff_graph *graph, text *out)
{
    listing listed = {0};
    text body = {0};
    tuff_status status = list_all(graph, &listed);
    if (status == TUFF_OK) {
        put_graph(&body, &listed, graph);
        tuff__put_u32(out, BLOB_MAGIC);
        tuff__put_u32(out, BLOB_VERSION);
        tuff__put_u32(out, tuff__crc32(tuff__text_get(&body), body.length));
        tuff__put_bytes(out, tuff__text_get(&body), body.length);
        status = tuff__text_status(&body) == TUFF_OK ? tuff__text_status(out) : TUFF_E_OOM_HOST;
    }
    tuff__text_free(&body);
    tuff__free(listed.arrays);
    tuff__free(listed.storages);
    return status;
}
