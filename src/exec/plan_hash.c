/* Hashes what distinguishes plans with the same kernels: which values each launch reads and writes, under which names
   or in which arrays they are, and the data of constants. Memory offsets are left out, since they depend only on the
   layout. */
#include <string.h>

#include "exec/executable.h"

/* Chains hashes: each one depends on all before it, so the order of additions is part of the result. */
static void add_bytes(hash128 *hash, const void *data, size_t size)
{
    const hash128 parts[] = {*hash, tuff__hash(data, size)};
    *hash = tuff__hash(parts, sizeof parts);
}

/* The id ties the name to a value. Without it, two inputs of the same shape could change places and keep the hash. */
static void add_name(hash128 *hash, const char *name, int id)
{
    add_bytes(hash, name, strlen(name));
    add_bytes(hash, &id, sizeof id);
}

static void add_names(hash128 *hash, const launch_list *list)
{
    const tuff_graph *graph = list->fusion->graph;
    for (int i = 0; i < list->input_count; ++i)
        add_name(hash, list->inputs[i].name, list->inputs[i].buffer_id);
    for (int i = 0; i < graph->output_count; ++i)
        add_name(hash, graph->outputs[i].name, graph->outputs[i].tensor->node->id);
    for (int i = 0; i < list->output_count; ++i)
        add_bytes(hash, &list->outputs[i].buffer_id, sizeof list->outputs[i].buffer_id);
}

static bool has_array(const node *at)
{
    return at->op == OP_ARRAY || at->op == OP_ASSIGN;
}

/* Arrays have no names, so each is identified by the first node that reads or assigns it. */
static void add_array(hash128 *hash, const tuff_graph *graph, const node *at)
{
    const tuff_array *array = at->attributes.array;
    int first = 0;
    for (; first < at->id; ++first) {
        const node *other = graph->nodes[first];
        if (has_array(other) && other->attributes.array->storage == array->storage &&
            other->attributes.array->offset == array->offset)
            break;
    }
    const int parts[] = {at->id, first, at->op == OP_ASSIGN ? at->inputs[0]->node->id : -1};
    add_bytes(hash, parts, sizeof parts);
}

static void add_constant(hash128 *hash, const node *at)
{
    const tuff_tensor *value = &at->outputs[0];
    add_bytes(hash, &at->id, sizeof at->id);
    if (at->attributes.data == NULL)
        add_bytes(hash, &at->attributes.value, sizeof at->attributes.value);
    else
        add_bytes(hash, at->attributes.data, (size_t)tuff_shape_count(value->shape) * tuff_dtype_size(value->dtype));
}

/* A copy has no kernel whose text could be hashed, so its ends are. Of kernels, self->hash covers text, grid and
   parameters (record.c). */
static void add_launch(hash128 *hash, const launch *kernel)
{
    const int copy[] = {kernel->kind, kernel->copy_from, kernel->copy_to};
    if (kernel->kind == LAUNCH_COPY)
        add_bytes(hash, copy, sizeof copy);
    for (int i = 0; i < kernel->chain.buffer_count && kernel->kind != LAUNCH_COPY; ++i) {
        const chain_buffer *buffer = &kernel->chain.buffers[i];
        const int parts[] = {buffer->id, buffer->written};
        add_bytes(hash, parts, sizeof parts);
    }
}

hash128 tuff__executable_hash(const executable *self)
{
    const tuff_graph *graph = self->launches.fusion->graph;
    hash128 hash = self->hash;
    add_names(&hash, &self->launches);
    for (int i = 0; i < graph->node_count; ++i) {
        if (has_array(graph->nodes[i]))
            add_array(&hash, graph, graph->nodes[i]);
        if (graph->nodes[i]->op == OP_CONSTANT)
            add_constant(&hash, graph->nodes[i]);
    }
    for (int i = 0; i < self->command_count; ++i)
        add_launch(&hash, &self->launches.launches[i]);
    return hash;
}
