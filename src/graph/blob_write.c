/* Graphs to bytes: a head with size and checksum, then storages, arrays, nodes, outputs, assigns. */
#include "graph/blob.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "graph/blob_parts.h"

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

static void put_arrays(text *out, const listing *of)
{
    tuff__put_u32(out, (uint32_t)of->storage_count);
    for (int i = 0; i < of->storage_count; i++) {
        tuff__put_u64(out, tuff__storage_size(of->storages[i]));
        tuff__put_u8(out, tuff__storage_is_imported(of->storages[i]));
    }
    tuff__put_u32(out, (uint32_t)of->array_count);
    for (int i = 0; i < of->array_count; i++) {
        tuff__put_u32(out, (uint32_t)find_storage(of, of->arrays[i]->storage));
        tuff__put_u64(out, of->arrays[i]->offset);
        tuff__put_u32(out, of->arrays[i]->dtype);
        put_shape(out, of->arrays[i]->shape);
    }
}

static void put_attributes(text *out, const listing *with, const node *of)
{
    const op_attributes *at = &of->attributes;
    const tuff_tensor *value = &of->outputs[0];
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
    const op_attribute attribute = tuff__op_info(of->op)->attribute;
    if (attribute == ATTRIBUTE_NAME)
        tuff__put_text(out, at->name);
    if (attribute == ATTRIBUTE_ARRAY)
        tuff__put_u32(out, (uint32_t)find_array(with, at->array));
    if (attribute == ATTRIBUTE_DATA) {
        tuff__put_u8(out, at->data != NULL);
        if (at->data != NULL)
            tuff__put_bytes(out, at->data, (size_t)tuff_shape_count(value->shape) * tuff_dtype_size(value->dtype));
    }
}

static void put_node(text *out, const listing *with, const node *of)
{
    tuff__put_u32(out, of->op);
    tuff__put_u32(out, of->outputs[0].dtype);
    put_shape(out, of->outputs[0].shape);
    tuff__put_u8(out, of->stops_gradient);
    tuff__put_u8(out, of->is_late_copy);
    tuff__put_u32(out, (uint32_t)of->copy);
    tuff__put_u32(out, (uint32_t)of->input_count);
    for (int i = 0; i < of->input_count; i++)
        tuff__put_u32(out, (uint32_t)of->inputs[i]->node->id);
    put_attributes(out, with, of);
}

static void put_graph(text *out, const listing *with, const tuff_graph *graph)
{
    put_arrays(out, with);
    tuff__put_u32(out, graph->seed);
    tuff__put_u32(out, graph->random_count);
    tuff__put_u32(out, (uint32_t)graph->copy_count);
    tuff__put_u32(out, graph->step_array == NULL ? UINT32_MAX : (uint32_t)find_array(with, graph->step_array));
    tuff__put_u32(out, (uint32_t)graph->node_count);
    for (int i = 0; i < graph->node_count; i++)
        put_node(out, with, graph->nodes[i]);
    tuff__put_u32(out, (uint32_t)graph->output_count);
    for (int i = 0; i < graph->output_count; i++) {
        tuff__put_text(out, graph->outputs[i].name);
        tuff__put_u32(out, (uint32_t)graph->outputs[i].tensor->node->id);
    }
    tuff__put_u32(out, (uint32_t)graph->assign_count);
    for (int i = 0; i < graph->assign_count; i++)
        tuff__put_u32(out, (uint32_t)graph->assigns[i]->id);
}

tuff_status tuff__graph_write(const tuff_graph *graph, text *out)
{
    listing with = {0};
    text body = {0};
    tuff_status status = list_all(graph, &with);
    if (status == TUFF_OK) {
        put_graph(&body, &with, graph);
        tuff__put_u32(out, BLOB_MAGIC);
        tuff__put_u32(out, BLOB_VERSION);
        tuff__put_u32(out, tuff__crc32(tuff__text_get(&body), body.length));
        tuff__put_bytes(out, tuff__text_get(&body), body.length);
        status = tuff__text_status(&body) == TUFF_OK ? tuff__text_status(out) : TUFF_E_OOM_HOST;
    }
    tuff__text_free(&body);
    tuff__free(with.arrays);
    tuff__free(with.storages);
    return status;
}
