/* Turns a fused graph into launches over memory: gives sources their storage, tasks their kernels, and outputs and
   assigned arrays their final copies. */
#include "compile/lower/lower.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compile/lower/loop_limit.h"
#include "compile/lower/verify_launches.h"

/* Returns the dtype in which a source is stored. A scalar constant may be the folded result of others, which a narrow
   dtype need not represent exactly. */
static tuff_dtype source_dtype(const node *at)
{
    const tuff_dtype dtype = at->outputs[0].dtype;
    if (!tuff__is_scalar_constant(at) || !tuff__dtype_is_float(dtype) || isnan(at->attributes.value) ||
        tuff__round_to(dtype, at->attributes.value) == at->attributes.value)
        return dtype;
    return TUFF_F32;
}

static tuff_status add_node_buffers(launch_list *list)
{
    const tuff_graph *graph = list->fusion->graph;
    for (int i = 0; i < graph->node_count; ++i) {
        const node *at = graph->nodes[i];
        const tuff_tensor *value = &at->outputs[0];
        const tuff_dtype dtype = tuff__op_is_source(at->op) ? source_dtype(at) : list->fusion->facts[i].storage;
        if (tuff__buffer_add(list, dtype, tuff_shape_count(value->shape)) < 0)
            return TUFF_E_OOM_HOST;
    }
    for (int i = 0; i < graph->node_count; ++i) {
        const node_facts *facts = &list->fusion->facts[i];
        if (facts->placed_in != NULL && facts->materialized) {
            list->buffers[i].parent = facts->placed_in->id;
            list->buffers[i].parent_at = facts->placed_at;
            list->buffers[i].count = tuff__view_span(&facts->layout);
        }
    }
    return TUFF_OK;
}

static void bind_storage(launch_list *list, int id, storage *at, uint64_t offset)
{
    list->buffers[id].fixed = true;
    list->buffers[id].storage = at;
    list->buffers[id].offset = offset;
}

static uint64_t constant_size(const tuff_tensor *constant)
{
    const uint64_t size = (uint64_t)tuff_shape_count(constant->shape) * tuff_dtype_size(constant->dtype);
    return (size + 255) / 256 * 256;
}

static tuff_status write_constant(launch_list *list, const node *at, uint64_t offset)
{
    const tuff_tensor *value = &at->outputs[0];
    const int64_t count = tuff_shape_count(value->shape);
    const size_t size = (size_t)count * tuff_dtype_size(value->dtype);
    bind_storage(list, at->id, list->constants, offset);
    if (count == 0 || list->reuse_from != NULL)
        return TUFF_OK;
    if (at->attributes.data != NULL)
        return tuff__storage_write(list->device, list->constants, offset, at->attributes.data, size);
    const tuff_dtype dtype = list->buffers[at->id].dtype;
    double number = at->attributes.value;
    char bytes[8];
    tuff__from_double(dtype, &number, 1, bytes);
    return tuff__storage_write(list->device, list->constants, offset, bytes, tuff_dtype_size(dtype));
}

/* Stores constants with data, and scalars: most kernels contain those as literals, but operands of structured kernels
   are read from memory. */
static tuff_status add_constants(launch_list *list)
{
    const tuff_graph *graph = list->fusion->graph;
    for (int i = 0; i < graph->node_count; ++i)
        if (graph->nodes[i]->op == OP_CONSTANT)
            list->constant_size += constant_size(&graph->nodes[i]->outputs[0]);
    if (list->constant_size == 0)
        return TUFF_OK;
    if (list->reuse_from != NULL)
        tuff__storage_retain(list->constants = list->reuse_from->constants);
    else
        TRY(tuff__storage_create(list->device, list->constant_size, false, &list->constants));
    uint64_t offset = 0;
    for (int i = 0; i < graph->node_count; ++i)
        if (graph->nodes[i]->op == OP_CONSTANT) {
            TRY(write_constant(list, graph->nodes[i], offset));
            offset += constant_size(&graph->nodes[i]->outputs[0]);
        }
    return TUFF_OK;
}

/* Gets memory for an input or output of the plan. other: the same one of list->reuse_from, whose memory is shared; or
   NULL. */
static tuff_status get_storage(launch_list *list, const named_buffer *other, tuff_dtype dtype, tuff_shape shape,
                               storage **out)
{
    if (other != NULL) {
        tuff__storage_retain(*out = list->reuse_from->buffers[other->buffer_id].storage);
        return TUFF_OK;
    }
    const uint64_t size = (uint64_t)tuff_shape_count(shape) * tuff_dtype_size(dtype);
    return tuff__storage_create(list->device, size == 0 ? 4 : size, true, out);
}

static tuff_status add_sources(launch_list *list)
{
    const tuff_graph *graph = list->fusion->graph;
    for (int i = 0; i < graph->node_count; ++i) {
        const node *at = graph->nodes[i];
        const tuff_tensor *value = &at->outputs[0];
        if (at->op == OP_ARRAY)
            bind_storage(list, i, at->attributes.array->storage, at->attributes.array->offset);
        if (at->op != OP_INPUT)
            continue;
        storage *made;
        const named_buffer *other = list->reuse_from == NULL ? NULL : &list->reuse_from->inputs[list->input_count];
        TRY(get_storage(list, other, value->dtype, value->shape, &made));
        bind_storage(list, i, made, 0);
        list->inputs[list->input_count++] =
            (named_buffer){.name = at->attributes.name, .buffer_id = i, .dtype = value->dtype, .shape = value->shape};
    }
    return add_constants(list);
}

static tuff_status add_copy(launch_list *list, int from, int to)
{
    launch *kernel = tuff__launch_add(list, "copy", WALK_MAP, -1);
    if (kernel == NULL)
        return TUFF_E_OOM_HOST;
    kernel->kind = LAUNCH_COPY;
    kernel->copy_from = from;
    kernel->copy_to = to;
    return TUFF_OK;
}

/* Copies a node's value to a fixed buffer. The copy is element by element if the dtype differs or is narrow, since
   plain copies move whole words. */
static tuff_status copy_or_convert(launch_list *list, int from, int to)
{
    const tuff_dtype dtype = list->buffers[to].dtype;
    if (list->buffers[to].count == 0)
        return TUFF_OK;
    if (list->buffers[from].dtype != dtype || tuff_dtype_size(dtype) < 4)
        return tuff__lower_convert(list, from, to);
    return add_copy(list, from, to);
}

static tuff_status add_output(launch_list *list, const graph_output *output)
{
    const tuff_tensor *value = output->tensor;
    const int from = value->node->id, to = tuff__buffer_add(list, value->dtype, tuff_shape_count(value->shape));
    storage *made;
    if (to < 0)
        return TUFF_E_OOM_HOST;
    const named_buffer *other = list->reuse_from == NULL ? NULL : &list->reuse_from->outputs[list->output_count];
    TRY(get_storage(list, other, value->dtype, value->shape, &made));
    list->outputs[list->output_count++] =
        (named_buffer){.name = output->name, .buffer_id = to, .dtype = value->dtype, .shape = value->shape};
    bind_storage(list, to, made, 0);
    memory_buffer *node_buffer = &list->buffers[from];
    if (node_buffer->dtype != value->dtype || node_buffer->fixed || node_buffer->parent >= 0)
        return copy_or_convert(list, from, to);
    bind_storage(list, from, made, 0);
    return TUFF_OK;
}

/* Whether a launch reads the buffer only at the elements of `to` that it stores, as in a single pass of a map. */
static bool reads_in_step(const launch *kernel, int buffer, int to)
{
    const fused_chain *chain = &kernel->chain;
    const chain_output *output = NULL;
    for (int i = 0; i < chain->output_count; ++i)
        if (chain->buffers[chain->outputs[i].buffer].id == to)
            output = &chain->outputs[i];
    if (output == NULL || kernel->walk != WALK_MAP)
        return false;
    for (int i = 0; i < chain->value_count; ++i) {
        const chain_value *value = &chain->values[i];
        if (value->buffer < 0 || chain->buffers[value->buffer].id != buffer)
            continue;
        if (value->kind != VALUE_LOAD || memcmp(&value->address, &output->address, sizeof output->address) != 0)
            return false;
    }
    return true;
}

/* Whether the node's launches may write the array itself: all readers of the old elements come before the first of
   them, or are that launch itself if it reads in step. Several launches may write a result if they are of one task. */
static bool can_write_in_place(const launch_list *list, const node *assign)
{
    const tuff_array *array = assign->attributes.array;
    const int from = assign->inputs[0]->node->id;
    int writer = -1;
    for (int i = 0; i < list->launch_count; ++i)
        for (int k = 0; k < list->launches[i].chain.buffer_count; ++k)
            if (list->launches[i].chain.buffers[k].id == from && list->launches[i].chain.buffers[k].written) {
                if (writer >= 0 && list->launches[writer].task != list->launches[i].task)
                    return false;
                writer = writer < 0 ? i : writer;
            }
    for (int i = writer; i < list->launch_count && writer >= 0; ++i) {
        const launch *kernel = &list->launches[i];
        for (int k = 0; k < kernel->chain.buffer_count; ++k) {
            const int id = kernel->chain.buffers[k].id;
            if (id >= list->fusion->graph->node_count || list->fusion->graph->nodes[id]->op != OP_ARRAY)
                continue;
            const tuff_array *read = list->fusion->graph->nodes[id]->attributes.array;
            if (!tuff__arrays_overlap(read, array))
                continue;
            const bool whole = read->offset == array->offset && tuff__array_end(read) == tuff__array_end(array);
            if (i > writer || !whole || !reads_in_step(kernel, id, from))
                return false;
        }
    }
    return writer >= 0;
}

/* Whether a launch accesses the node's buffer or a part of it. */
static bool accesses(const launch_list *list, const launch *kernel, int id)
{
    for (int i = 0; i < kernel->chain.buffer_count; ++i) {
        int at = kernel->chain.buffers[i].id;
        while (at >= 0 && at != id)
            at = list->buffers[at].parent;
        if (at == id)
            return true;
    }
    return false;
}

/* Tasks are lowered for memory that the plan allocates, where a buffer begins at a boundary of the longest vectors and
   of the 16-byte parts that matrix units load. An array may begin in the middle of one. Only kernels that keep to
   registers accept that, and only if the language does not count vectors in memory in vectors. */
static bool keeps_alignment(const launch_list *list, const tuff_array *array, int from)
{
    enum { LONGEST = 8 };
    if (array->offset % (LONGEST * tuff_dtype_size(array->dtype)) == 0)
        return true;
    if (!list->policy.target.avoids_local_memory || list->policy.target.addresses_vectors)
        return false;
    for (int i = 0; i < list->launch_count; ++i)
        if (list->launches[i].aligned && accesses(list, &list->launches[i], from))
            return false;
    return true;
}

static bool is_in_place(const launch_list *list, const node *assign)
{
    const int id = assign->inputs[0]->node->id;
    const memory_buffer *from = &list->buffers[id];
    return keeps_alignment(list, assign->attributes.array, id) && from->dtype == assign->attributes.array->dtype &&
           !from->fixed && from->parent < 0 && can_write_in_place(list, assign);
}

static tuff_status add_assign(launch_list *list, const node *assign)
{
    const tuff_array *array = assign->attributes.array;
    if (is_in_place(list, assign)) {
        bind_storage(list, assign->inputs[0]->node->id, array->storage, array->offset);
        return TUFF_OK;
    }
    const int to = tuff__buffer_add(list, array->dtype, tuff_shape_count(array->shape));
    if (to < 0)
        return TUFF_E_OOM_HOST;
    bind_storage(list, to, array->storage, array->offset);
    return copy_or_convert(list, assign->inputs[0]->node->id, to);
}

static tuff_status lower_task(launch_list *list, int index)
{
    const struct task *task = &list->fusion->tasks[index];
    if (tuff__task_is_empty(task))
        return TUFF_OK;
    if (task->kind == TASK_SCATTER)
        return tuff__lower_scatter(list, index);
    if (task->kind == TASK_ATTENTION)
        return tuff__lower_attention(list, index);
    fused_chain chain;
    const node *give_up;
    bool impossible;
    TRY(tuff__chain_build(list->fusion, task, &chain, &give_up, &impossible));
    if (give_up != NULL || impossible)
        return FAIL(TUFF_E_LIMIT, "compile: internal error: no kernel can address a fused task");
    for (int i = 0; i < chain.buffer_count; ++i)
        chain.buffers[i].dtype = list->buffers[chain.buffers[i].id].dtype;
    tuff__chain_collapse(&chain);
    tuff__chain_analyse(&chain);
    switch (task->kind) {
    case TASK_MAP:
        return tuff__lower_map(list, index, &chain);
    case TASK_MATMUL:
        return tuff__lower_matmul(list, index, &chain);
    default:
        return tuff__lower_reducing(list, index, &chain);
    }
}

/* Some compilers take four times as long for twice as much unrolled code: half a minute and more for the epilogue of a
   large tile. */
static bool takes_long_to_compile(const launch_list *list, const launch *kernel)
{
    enum { DEFAULT_TILE = 128 * sizeof(float), MAX_UNROLLED = 6000 };
    return !list->policy.target.compiles_unrolled_fast && kernel->array_bytes > DEFAULT_TILE &&
           kernel->unrolled > MAX_UNROLLED;
}

/* A configuration may exceed the limits of the device, as may defaults that shorten loops; other defaults never do. */
static tuff_status check_limits(const launch_list *list, int first)
{
    const tuff_device_info *info = list->policy.target.info;
    const bool is_default = list->policy.config == NULL && list->policy.defaults == NULL;
    for (int i = first; i < list->launch_count && !is_default; ++i) {
        const launch *kernel = &list->launches[i];
        if (kernel->kind != LAUNCH_KERNEL)
            continue;
        if (kernel->local_size > info->max_group_size)
            return FAIL(TUFF_E_LIMIT, "compile: a kernel needs work-groups of %u items, but %s allows at most %u",
                        kernel->local_size, info->name, info->max_group_size);
        if (kernel->local_bytes > info->local_memory_size)
            return FAIL(TUFF_E_LIMIT, "compile: a work-group needs %u bytes of local memory, but %s has %u",
                        kernel->local_bytes, info->name, info->local_memory_size);
        if (kernel->array_bytes > tuff__max_array_bytes(&list->policy, kernel->local_size))
            return FAIL(TUFF_E_LIMIT,
                        "compile: %u work-items with %" PRId64 " bytes of arrays each do not fit on a thread's stack",
                        kernel->local_size, kernel->array_bytes);
        if (takes_long_to_compile(list, kernel))
            return FAIL(TUFF_E_LIMIT,
                        "compile: a tile of %" PRId64 " bytes with this epilogue takes too long to compile",
                        kernel->array_bytes);
    }
    return TUFF_OK;
}

/* The state before an attempt at a task. */
typedef struct attempt_start {
    int launches, buffers, copies;
    uint64_t constant_size;
    tune_config used_tunables;
} attempt_start;

static attempt_start begin_attempt(const launch_list *list)
{
    attempt_start start = {.launches = list->launch_count,
                           .buffers = list->buffer_count,
                           .copies = list->copy_count,
                           .constant_size = list->constant_size};
    if (list->policy.used_tunables != NULL)
        start.used_tunables = *list->policy.used_tunables;
    return start;
}

/* Drops everything that was added since. */
static void undo_attempt(launch_list *list, const attempt_start *start)
{
    while (list->launch_count > start->launches)
        tuff__chain_free(&list->launches[--list->launch_count].chain);
    while (list->copy_count > start->copies)
        tuff__storage_release(list->copies[--list->copy_count].kept);
    list->buffer_count = start->buffers;
    list->constant_size = start->constant_size;
    if (list->policy.used_tunables != NULL)
        *list->policy.used_tunables = start->used_tunables;
}

static tuff_status attempt_task(launch_list *list, int index, bool *too_long)
{
    const int first = list->launch_count;
    TRY(lower_task(list, index));
    TRY(check_limits(list, first));
    const launch *longest = tuff__find_long_loop(list, first);
    *too_long = longest != NULL;
    return longest == NULL ? TUFF_OK : tuff__refuse_long_loop(list, longest);
}

/* Tries other defaults, with shorter loops, for a task whose loops the driver would end early. */
static tuff_status shorten_task(launch_list *list, int index, const attempt_start *start)
{
    char reason[400];
    tune_config defaults;
    tuff_status status = TUFF_E_LIMIT;
    (void)snprintf(reason, sizeof reason, "%s", tuff_error());
    for (int i = 0; status == TUFF_E_LIMIT && tuff__shorten_loops(i, &defaults); ++i) {
        bool too_long = false;
        undo_attempt(list, start);
        list->policy.defaults = &defaults;
        status = attempt_task(list, index, &too_long);
    }
    list->policy.defaults = NULL;
    return status == TUFF_E_LIMIT ? FAIL(TUFF_E_LIMIT, "%s", reason) : status;
}

/* Adds the launches of a task, with a configuration. */
static tuff_status lower_with_config(launch_list *list, int index, const tune_config *config)
{
    const attempt_start start = begin_attempt(list);
    bool too_long = false;
    list->policy.config = config;
    tuff_status status = attempt_task(list, index, &too_long);
    if (too_long)
        status = shorten_task(list, index, &start);
    list->policy.config = NULL;
    return status;
}

/* Moves the launches of the setup before those of the steps. */
static tuff_status move_setup_first(launch_list *list)
{
    launch *sorted = tuff__alloc(((size_t)list->launch_count + 1) * sizeof *sorted);
    int count = 0;
    if (sorted == NULL)
        return TUFF_E_OOM_HOST;
    for (int setup = 1; setup >= 0; --setup)
        for (int i = 0; i < list->launch_count; ++i)
            if (list->launches[i].setup == (setup == 1))
                sorted[count++] = list->launches[i];
    tuff__free(list->launches);
    list->launches = sorted;
    list->launch_capacity = list->launch_count + 1;
    return TUFF_OK;
}

static tuff_status lower(launch_list *list, const tune_config *const *configs)
{
    const tuff_graph *graph = list->fusion->graph;
    TRY(add_node_buffers(list));
    list->inputs = tuff__calloc((size_t)graph->node_count + 1, sizeof *list->inputs);
    list->outputs = tuff__calloc((size_t)graph->output_count + 1, sizeof *list->outputs);
    if (list->inputs == NULL || list->outputs == NULL)
        return TUFF_E_OOM_HOST;
    TRY(add_sources(list));
    for (int i = 0; i < list->fusion->task_count; ++i)
        TRY(lower_with_config(list, i, configs == NULL ? NULL : configs[i]));
    for (int i = 0; i < graph->output_count; ++i)
        TRY(add_output(list, &graph->outputs[i]));
    for (int i = 0; i < graph->assign_count; ++i)
        TRY(add_assign(list, graph->assigns[i]));
    TRY(move_setup_first(list));
    TRY(tuff__plan_memory(list));
    return list->peak <= list->budget && tuff__verification_is_on() ? tuff__verify_launches(list) : TUFF_OK;
}

static launch_list begin(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options)
{
    return (launch_list){.device = device,
                         .fusion = fusion,
                         .policy = {.target = tuff__device_target(device),
                                    .family = options->family,
                                    .library = options->matmul_library,
                                    .is_deterministic = tuff__is_deterministic(options)},
                         .budget = options->memory_budget == 0 ? UINT64_MAX : options->memory_budget};
}

static tuff_status lower_all(launch_list *list, const tune_config *const *configs)
{
    const tuff_status status = lower(list, configs);
    list->reuse_from = NULL;
    if (status != TUFF_OK)
        tuff__launch_list_free(list);
    return status;
}

tuff_status tuff__lower(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                        const tune_config *const *configs, launch_list *out)
{
    *out = begin(device, fusion, options);
    return lower_all(out, configs);
}

tuff_status tuff__relower(const launch_list *reuse_from, const struct fusion *fusion,
                          const tuff_compile_options *options, const tune_config *const *configs, launch_list *out)
{
    *out = begin(reuse_from->device, fusion, options);
    out->reuse_from = reuse_from;
    return lower_all(out, configs);
}

/* Whether a node is an output. Outputs have memory of their own, which the host reads. */
static bool is_output(const tuff_graph *graph, const node *at)
{
    for (int i = 0; i < graph->output_count; ++i)
        if (graph->outputs[i].tensor->node == at)
            return true;
    return false;
}

/* A task that is lowered alone writes no array. To get the kernels that it has in the whole plan, a result that would
   be written to an array in place becomes a part of the node that reads the array. Only maps write in place. */
static void share_with_array(launch_list *list, const node *assign)
{
    const tuff_array *array = assign->attributes.array;
    memory_buffer *from = &list->buffers[assign->inputs[0]->node->id];
    if (!is_in_place(list, assign) || is_output(list->fusion->graph, assign->inputs[0]->node))
        return;
    for (int i = 0; i < list->launch_count; ++i)
        for (int k = 0; k < list->launches[i].chain.buffer_count; ++k) {
            const chain_buffer *buffer = &list->launches[i].chain.buffers[k];
            const memory_buffer *memory = &list->buffers[buffer->id];
            if (buffer->read && memory->fixed && memory->storage == array->storage && memory->offset == array->offset)
                from->parent = buffer->id;
        }
}

static tuff_status lower_one(launch_list *list, int task, const tune_config *config)
{
    TRY(add_node_buffers(list));
    for (int i = 0; i < list->fusion->graph->node_count; ++i) {
        const node *at = list->fusion->graph->nodes[i];
        if (at->op == OP_ARRAY) /* kernels depend on its storage and on where vectors begin in it */
            bind_storage(list, i, at->attributes.array->storage, at->attributes.array->offset);
    }
    TRY(lower_with_config(list, task, config));
    const bool is_map = list->fusion->tasks[task].kind == TASK_MAP;
    for (int i = 0; i < list->fusion->graph->assign_count && is_map; ++i)
        share_with_array(list, list->fusion->graph->assigns[i]);
    return move_setup_first(list);
}

tuff_status tuff__lower_task(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                             int task, const tune_config *config, tune_config *used_tunables, launch_list *out)
{
    *out = begin(device, fusion, options);
    out->policy.used_tunables = used_tunables;
    const tuff_status status = lower_one(out, task, config);
    out->policy.used_tunables = NULL;
    if (status != TUFF_OK)
        tuff__launch_list_free(out);
    return status;
}

void tuff__estimate_launches(const launch_list *launches, task_estimate *out)
{
    out->kernels = tuff__launch_list_hash(launches, &out->items);
    out->cost = tuff__launch_list_cost(launches);
    out->traffic = tuff__launch_list_traffic(launches);
}

tuff_status tuff__estimate_task(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                                int task, const tune_config *config, task_estimate *out)
{
    launch_list launches;
    *out = (task_estimate){.items = 1};
    TRY(tuff__lower_task(device, fusion, options, task, config, &out->used_tunables, &launches));
    tuff__estimate_launches(&launches, out);
    tuff__launch_list_free(&launches);
    return TUFF_OK;
}
