/* Describes launches for users: kind, ops, bytes and operations. */
#include <string.h>

#include "exec/executable.h"

static const char *kind_name(const executable *self, const launch *kernel)
{
    /* By task_kind. A cumulative sum is named after its op instead, below. */
    static const char *const kinds[] = {"map", "row", "column", "matmul", "", "scatter", "attention", ""};
    if (kernel->kind == LAUNCH_COPY)
        return "copy";
    if (kernel->task < 0)
        return "convert";
    const task_kind kind = self->launches.fusion->tasks[kernel->task].kind;
    if (kind == TASK_MATMUL && strncmp(kernel->body, "matmul", 6) != 0)
        return "pack";
    if (kind == TASK_ATTENTION && strncmp(kernel->body, "attention", 9) != 0)
        return "pack";
    if (kind == TASK_SCAN)
        return tuff__op_info(self->launches.fusion->tasks[kernel->task].core->op)->name;
    return kinds[kind];
}

/* Lists the ops of a chain in the order of the kernel, with runs of equal ones listed once. */
static void list_ops(const launch *kernel, text *out, int *count)
{
    const char *last = "";
    for (int i = 0; i < kernel->chain.value_count; ++i) {
        const chain_value *value = &kernel->chain.values[i];
        const char *name = value->kind == VALUE_OP       ? tuff__op_info(value->op)->name
                           : value->kind == VALUE_LOOKUP ? "gather"
                           : value->kind == VALUE_RANDOM ? "random"
                           : value->kind == VALUE_RESULT && kernel->walk != WALK_MATMUL
                               ? tuff__op_info(kernel->chain.reductions[value->index].op)->name
                               : NULL;
        if (name == NULL)
            continue;
        ++*count;
        if (strcmp(name, last) != 0 && out->length < 160)
            tuff__text_add(out, " %s", name);
        last = name;
    }
}

/* Returns the number of distinct elements at an address: the product of the extents of the axes along which it
   moves. */
static uint64_t elements_at(const fused_chain *chain, const affine *address, bool loops)
{
    uint64_t count = 1;
    for (int i = 0; i < chain->rank; ++i)
        if (address->stride[i] != 0 && (loops || chain->classes[i] != AXIS_LOOP))
            count *= (uint64_t)chain->extent[i];
    return count;
}

/* Values of producers come first. Their addresses use other axes than the result's. */
static int produced_count(const fused_chain *chain)
{
    return chain->producers[0].end > chain->producers[1].end ? chain->producers[0].end : chain->producers[1].end;
}

/* Returns the bytes that a launch reads or writes of one of its buffers: as many as its chain accesses, but no more
   than there are; all of them if the body accesses the buffer by itself. */
static uint64_t launch_bytes(const executable *self, const launch *kernel, int buffer, bool written)
{
    const fused_chain *chain = &kernel->chain;
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

/* A task with a core has the core's phase: the core does the work, the other nodes only store its result. */
static tuff_phase task_phase(const struct task *task)
{
    tuff_phase phase = TUFF_PHASE_FORWARD;
    if (task->core != NULL)
        return task->core->phase;
    for (int i = 0; i < task->root_count; ++i)
        phase = task->roots[i]->phase > phase ? task->roots[i]->phase : phase;
    return phase;
}

/* A launch without a task copies or converts a node's value to an output or an array. */
static tuff_phase launch_phase(const executable *self, const launch *kernel)
{
    const struct fusion *fusion = self->launches.fusion;
    if (kernel->task >= 0)
        return task_phase(&fusion->tasks[kernel->task]);
    const int from = kernel->kind == LAUNCH_COPY ? kernel->copy_from : kernel->chain.buffers[0].id;
    return from < fusion->graph->node_count ? fusion->graph->nodes[from]->phase : TUFF_PHASE_FORWARD;
}

/* Returns the number of points of the domain that differ along the given axes. */
static double count_points(const fused_chain *chain, uint32_t axes)
{
    double count = 1;
    for (int i = 0; i < chain->rank; ++i)
        if ((axes >> i & 1) != 0)
            count *= (double)chain->extent[i];
    return count;
}

/* Returns floating-point operations per element: 2 for a multiply-add, 1 for others, such as exp; 0 for ops that only
   select, compare or convert. */
static int value_operations(const chain_value *value)
{
    if (value->kind != VALUE_OP || value->dtype != TUFF_F32 || value->op == OP_WHERE || value->op == OP_CAST)
        return 0;
    return value->op == OP_FMA ? 2 : 1;
}

/* Returns the operations of a launch that computes a chain: each value counts once for each point at which it differs,
   however often the kernel computes it; a reduction or cumulative sum counts one per element. */
static double chain_operations(const fused_chain *chain)
{
    const uint32_t all = (1u << chain->rank) - 1;
    double sum = 0;
    for (int i = 0; i < chain->value_count; ++i)
        sum += value_operations(&chain->values[i]) * count_points(chain, chain->values[i].varies);
    for (int i = 0; i < chain->reduction_count; ++i)
        if (chain->values[chain->reductions[i].input].dtype == TUFF_F32)
            sum += count_points(chain, all);
    return sum;
}

/* Counts only the operations of products if there are any: those of fused ops are negligible. */
static double launch_operations(const launch *kernel)
{
    if (kernel->operations > 0 || kernel->kind != LAUNCH_KERNEL || kernel->task < 0)
        return kernel->operations;
    return chain_operations(&kernel->chain);
}

tuff_status tuff__describe_launch(const executable *self, int index, task_record *out)
{
    const launch *kernel = &self->launches.launches[index];
    text label = {0};
    out->kind = kind_name(self, kernel);
    out->phase = launch_phase(self, kernel);
    tuff__text_add(&label, "%s", out->kind);
    /* These bodies compute one op that no value of the chain stands for. */
    out->op_count = strncmp(kernel->body, "matmul", 6) == 0 || strncmp(kernel->body, "attention", 9) == 0 ||
                    kernel->walk == WALK_SCAN || kernel->kind == LAUNCH_COPY;
    list_ops(kernel, &label, &out->op_count);
    out->operations = launch_operations(kernel);
    out->items = 1;
    for (int i = 0; i < kernel->chain.rank; ++i)
        out->items *= (uint64_t)kernel->chain.extent[i];
    if (kernel->chain.rank == 0 && kernel->kind != LAUNCH_COPY)
        out->items = kernel->groups * kernel->local_size;
    for (int i = 0; i < kernel->chain.buffer_count; ++i) {
        out->bytes_read += kernel->chain.buffers[i].read ? launch_bytes(self, kernel, i, false) : 0;
        out->bytes_written += kernel->chain.buffers[i].written ? launch_bytes(self, kernel, i, true) : 0;
    }
    if (kernel->kind == LAUNCH_COPY)
        out->bytes_read = out->bytes_written = tuff__buffer_size(&self->launches.buffers[kernel->copy_to]);
    const tuff_status status = tuff__text_status(&label);
    if (status == TUFF_OK)
        out->label = tuff__strdup(tuff__text_get(&label));
    tuff__text_free(&label);
    return status == TUFF_OK && out->label == NULL ? TUFF_E_OOM_HOST : status;
}
