/* What a launch does, for people: kind, ops, bytes and operations. */
#include <string.h>

#include "exec/executable.h"

static const char *kind_of(const executable *self, const launch *of)
{
    static const char *const kinds[] = {"map", "row", "column", "matmul", "", "scatter", "attention", ""};
    if (of->kind == LAUNCH_COPY)
        return "copy";
    if (of->task < 0)
        return "convert";
    const task_kind kind = self->launches.fusion->tasks[of->task].kind;
    if (kind == TASK_MATMUL && strncmp(of->body, "matmul", 6) != 0)
        return "pack";
    if (kind == TASK_ATTENTION && strncmp(of->body, "attention", 9) != 0)
        return "pack";
    if (kind == TASK_SCAN)
        return tuff__op_info(self->launches.fusion->tasks[of->task].core->op)->name;
    return kinds[kind];
}

/* The ops of a chain in the order of the kernel, each run of equal ones once. */
static void list_ops(const launch *of, text *out, int *count)
{
    const char *last = "";
    for (int i = 0; i < of->chain.value_count; ++i) {
        const chain_value *value = &of->chain.values[i];
        const char *name = value->kind == VALUE_OP       ? tuff__op_info(value->op)->name
                           : value->kind == VALUE_LOOKUP ? "gather"
                           : value->kind == VALUE_RANDOM ? "random"
                           : value->kind == VALUE_RESULT && of->walk != WALK_MATMUL
                               ? tuff__op_info(of->chain.reductions[value->index].op)->name
                               : NULL;
        if (name == NULL)
            continue;
        ++*count;
        if (strcmp(name, last) != 0 && out->length < 160)
            tuff__text_add(out, " %s", name);
        last = name;
    }
}

/* Different elements at an address, over the axes that it moves along. */
static uint64_t elements_at(const fused_chain *chain, const affine *address, bool loops)
{
    uint64_t count = 1;
    for (int i = 0; i < chain->rank; ++i)
        if (address->stride[i] != 0 && (loops || chain->classes[i] != AXIS_LOOP))
            count *= (uint64_t)chain->extent[i];
    return count;
}

/* Values of producers come first; their addresses walk other axes than the result's. */
static int produced_count(const fused_chain *chain)
{
    return chain->producers[0].end > chain->producers[1].end ? chain->producers[0].end : chain->producers[1].end;
}

/* What a launch reads or writes of one of its buffers: what its chain says, but no more than there is; all of it where
   the body moves through it by itself. */
static uint64_t bytes_of(const executable *self, const launch *of, int buffer, bool written)
{
    const fused_chain *chain = &of->chain;
    const int id = chain->buffers[buffer].id;
    const memory_buffer *memory = &self->launches.buffers[id];
    const uint64_t size = tuff_dtype_size(memory->dtype);
    uint64_t whole = tuff__buffer_size(memory) / size, count = 0;
    const tuff_graph *graph = self->launches.fusion->graph;
    if (id < graph->node_count)
        whole = (uint64_t)tuff_shape_count(graph->nodes[id]->outputs[0].shape);
    for (int i = produced_count(chain); i < chain->value_count && !written; ++i) {
        const chain_value *value = &chain->values[i];
        if ((value->kind == VALUE_LOAD || value->kind == VALUE_LOOKUP) && value->buffer == buffer)
            count += elements_at(chain, &value->address, true);
    }
    for (int i = 0; i < chain->output_count && written; ++i)
        if (chain->outputs[i].buffer == buffer)
            count += elements_at(chain, &chain->outputs[i].address, chain->outputs[i].every_point);
    return (count == 0 || count > whole ? whole : count) * size;
}

tuff_status tuff__describe_launch(const executable *self, int index, task_record *out)
{
    const launch *of = &self->launches.launches[index];
    text label = {0};
    out->kind = kind_of(self, of);
    tuff__text_add(&label, "%s", out->kind);
    out->op_count = strncmp(of->body, "matmul", 6) == 0 || strncmp(of->body, "attention", 9) == 0 ||
                    of->walk == WALK_SCAN || of->kind == LAUNCH_COPY;
    list_ops(of, &label, &out->op_count);
    out->operations = of->operations;
    out->items = 1;
    for (int i = 0; i < of->chain.rank; ++i)
        out->items *= (uint64_t)of->chain.extent[i];
    if (of->chain.rank == 0 && of->kind != LAUNCH_COPY)
        out->items = of->groups * of->local_size;
    for (int i = 0; i < of->chain.buffer_count; ++i) {
        out->bytes_read += of->chain.buffers[i].read ? bytes_of(self, of, i, false) : 0;
        out->bytes_written += of->chain.buffers[i].written ? bytes_of(self, of, i, true) : 0;
    }
    if (of->kind == LAUNCH_COPY)
        out->bytes_read = out->bytes_written = tuff__buffer_size(&self->launches.buffers[of->copy_to]);
    const tuff_status status = tuff__text_status(&label);
    if (status == TUFF_OK)
        out->label = tuff__strdup(tuff__text_get(&label));
    tuff__text_free(&label);
    return status == TUFF_OK && out->label == NULL ? TUFF_E_OOM_HOST : status;
}
