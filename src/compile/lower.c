/* Turns a fused graph into launches over memory: sources get their storage, tasks their kernels, outputs and assigned
   arrays their last copies. */
#include "compile/lower.h"

#include <math.h>
#include <string.h>

#include "compile/verify.h"

/* What a temporary of this dtype is kept as: values between tasks stay 32-bit, so that fused and unfused agree. */
static tuff_dtype temporary_dtype(tuff_dtype dtype)
{
    const tuff_dtype computed = tuff__compute_dtype(dtype);
    return computed == TUFF_BOOL ? TUFF_U32 : computed;
}

/* What a source is kept as. A scalar constant may be what was computed of others, which no narrow dtype need hold. */
static tuff_dtype source_dtype(const node *at)
{
    const tuff_dtype dtype = at->outputs[0].dtype;
    const bool is_scalar = at->op == OP_CONSTANT && at->attributes.data == NULL;
    if (!is_scalar || !tuff__dtype_is_float(dtype) || isnan(at->attributes.value) ||
        tuff__round_to(dtype, at->attributes.value) == at->attributes.value)
        return dtype;
    return TUFF_F32;
}

int tuff__buffer_add(lowered *with, tuff_dtype dtype, int64_t count)
{
    if (!GROW(with->buffers, with->buffer_count, with->buffer_capacity))
        return -1;
    with->buffers[with->buffer_count] = (memory_buffer){.dtype = dtype, .count = count, .parent = -1};
    return with->buffer_count++;
}

launch *tuff__launch_add(lowered *with, const char *body, walk order, int task)
{
    if (!GROW(with->launches, with->launch_count, with->launch_capacity))
        return NULL;
    launch *of = &with->launches[with->launch_count++];
    *of = (launch){.body = body, .walk = order, .task = task, .vec = 1, .local_size = 1};
    return of;
}

static tuff_status add_node_buffers(lowered *with)
{
    const tuff_graph *graph = with->fusion->graph;
    for (int i = 0; i < graph->node_count; ++i) {
        const node *at = graph->nodes[i];
        const tuff_tensor *value = &at->outputs[0];
        const tuff_dtype dtype = tuff__is_source(at) ? source_dtype(at) : temporary_dtype(value->dtype);
        if (tuff__buffer_add(with, dtype, tuff_shape_count(value->shape)) < 0)
            return TUFF_E_OOM_HOST;
    }
    for (int i = 0; i < graph->node_count; ++i) {
        const node_facts *facts = &with->fusion->facts[i];
        if (facts->placed != NULL && facts->anchor) {
            with->buffers[i].parent = facts->placed->id;
            with->buffers[i].parent_at = facts->placed_at;
            with->buffers[i].count = tuff__view_span(&facts->layout);
        }
    }
    return TUFF_OK;
}

static void fix(lowered *with, int id, storage *at, uint64_t offset)
{
    with->buffers[id].fixed = true;
    with->buffers[id].storage = at;
    with->buffers[id].offset = offset;
}

static uint64_t constant_size(const tuff_tensor *constant)
{
    const uint64_t size = (uint64_t)tuff_shape_count(constant->shape) * tuff_dtype_size(constant->dtype);
    return (size + 255) / 256 * 256;
}

static tuff_status write_constant(lowered *with, const node *at, uint64_t offset)
{
    const tuff_tensor *value = &at->outputs[0];
    const int64_t count = tuff_shape_count(value->shape);
    const size_t size = (size_t)count * tuff_dtype_size(value->dtype);
    fix(with, at->id, with->constants, offset);
    if (count == 0 || with->like != NULL)
        return TUFF_OK;
    if (at->attributes.data != NULL)
        return tuff__storage_write(with->device, with->constants, offset, at->attributes.data, size);
    const tuff_dtype dtype = with->buffers[at->id].dtype;
    double number = at->attributes.value;
    char bytes[8];
    tuff__from_double(dtype, &number, 1, bytes);
    return tuff__storage_write(with->device, with->constants, offset, bytes, tuff_dtype_size(dtype));
}

/* Constants with data, and scalars (which kernels mostly write out, but operands of structured kernels read). */
static tuff_status add_constants(lowered *with)
{
    const tuff_graph *graph = with->fusion->graph;
    for (int i = 0; i < graph->node_count; ++i)
        if (graph->nodes[i]->op == OP_CONSTANT)
            with->constant_size += constant_size(&graph->nodes[i]->outputs[0]);
    if (with->constant_size == 0)
        return TUFF_OK;
    if (with->like != NULL)
        tuff__storage_retain(with->constants = with->like->constants);
    else
        TRY(tuff__storage_create(with->device, with->constant_size, false, &with->constants));
    uint64_t offset = 0;
    for (int i = 0; i < graph->node_count; ++i)
        if (graph->nodes[i]->op == OP_CONSTANT) {
            TRY(write_constant(with, graph->nodes[i], offset));
            offset += constant_size(&graph->nodes[i]->outputs[0]);
        }
    return TUFF_OK;
}

/* Memory for an input or output of the plan; other: the one that another plan has for it, with its buffers, or NULL. */
static tuff_status take_storage(lowered *with, const named_buffer *other, tuff_dtype dtype, tuff_shape shape,
                                storage **out)
{
    if (other != NULL) {
        tuff__storage_retain(*out = with->like->buffers[other->buffer].storage);
        return TUFF_OK;
    }
    const uint64_t size = (uint64_t)tuff_shape_count(shape) * tuff_dtype_size(dtype);
    return tuff__storage_create(with->device, size == 0 ? 4 : size, true, out);
}

static tuff_status add_sources(lowered *with)
{
    const tuff_graph *graph = with->fusion->graph;
    for (int i = 0; i < graph->node_count; ++i) {
        const node *at = graph->nodes[i];
        const tuff_tensor *value = &at->outputs[0];
        if (at->op == OP_ARRAY)
            fix(with, i, at->attributes.array->storage, at->attributes.array->offset);
        if (at->op != OP_INPUT)
            continue;
        storage *made;
        const named_buffer *other = with->like == NULL ? NULL : &with->like->inputs[with->input_count];
        TRY(take_storage(with, other, value->dtype, value->shape, &made));
        fix(with, i, made, 0);
        with->inputs[with->input_count++] =
            (named_buffer){.name = at->attributes.name, .buffer = i, .dtype = value->dtype, .shape = value->shape};
    }
    return add_constants(with);
}

static bool is_narrow(tuff_dtype dtype)
{
    return tuff_dtype_size(dtype) < 4;
}

static tuff_status add_copy(lowered *with, int from, int to)
{
    launch *of = tuff__launch_add(with, "copy", WALK_MAP, -1);
    if (of == NULL)
        return TUFF_E_OOM_HOST;
    of->kind = LAUNCH_COPY;
    of->copy_from = from;
    of->copy_to = to;
    return TUFF_OK;
}

/* Brings a node's value to a fixed buffer: by conversion where the dtype is narrow, else by a copy. */
static tuff_status bring(lowered *with, int from, int to)
{
    if (with->buffers[to].count == 0)
        return TUFF_OK;
    if (with->buffers[from].dtype != with->buffers[to].dtype)
        return tuff__lower_convert(with, from, to);
    return add_copy(with, from, to);
}

static tuff_status add_output(lowered *with, const graph_output *output)
{
    const tuff_tensor *value = output->tensor;
    const int from = value->node->id, to = tuff__buffer_add(with, value->dtype, tuff_shape_count(value->shape));
    storage *made;
    if (to < 0)
        return TUFF_E_OOM_HOST;
    const named_buffer *other = with->like == NULL ? NULL : &with->like->outputs[with->output_count];
    TRY(take_storage(with, other, value->dtype, value->shape, &made));
    with->outputs[with->output_count++] =
        (named_buffer){.name = output->name, .buffer = to, .dtype = value->dtype, .shape = value->shape};
    fix(with, to, made, 0);
    memory_buffer *node_buffer = &with->buffers[from];
    if (is_narrow(value->dtype) || node_buffer->fixed || node_buffer->parent >= 0)
        return bring(with, from, to);
    fix(with, from, made, 0);
    return TUFF_OK;
}

static uint64_t array_end(const tuff_array *array)
{
    return array->offset + (uint64_t)tuff_shape_count(array->shape) * tuff_dtype_size(array->dtype);
}

bool tuff__arrays_overlap(const tuff_array *a, const tuff_array *b)
{
    return a->storage == b->storage && a->offset < array_end(b) && b->offset < array_end(a);
}

/* True where launch `of` reads the buffer only where it stores `to`: element by element, in one pass over a map. */
static bool reads_in_step(const launch *of, int buffer, int to)
{
    const fused_chain *chain = &of->chain;
    const chain_output *output = NULL;
    for (int i = 0; i < chain->output_count; ++i)
        if (chain->buffers[chain->outputs[i].buffer].id == to)
            output = &chain->outputs[i];
    if (output == NULL || of->walk != WALK_MAP)
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

/* Whether the node's launch may write the array itself: all readers of the old elements come before, or are the launch
   itself in step. */
static bool can_write_in_place(const lowered *with, const node *assign)
{
    const tuff_array *array = assign->attributes.array;
    const int from = assign->inputs[0]->node->id;
    int writer = -1;
    for (int i = 0; i < with->launch_count; ++i)
        for (int k = 0; k < with->launches[i].chain.buffer_count; ++k)
            if (with->launches[i].chain.buffers[k].id == from && with->launches[i].chain.buffers[k].written) {
                if (writer >= 0)
                    return false;
                writer = i;
            }
    for (int i = writer; i < with->launch_count && writer >= 0; ++i) {
        const launch *of = &with->launches[i];
        for (int k = 0; k < of->chain.buffer_count; ++k) {
            const int id = of->chain.buffers[k].id;
            if (id >= with->fusion->graph->node_count || with->fusion->graph->nodes[id]->op != OP_ARRAY)
                continue;
            const tuff_array *read = with->fusion->graph->nodes[id]->attributes.array;
            if (!tuff__arrays_overlap(read, array))
                continue;
            const bool whole = read->offset == array->offset && array_end(read) == array_end(array);
            if (i > writer || !whole || !reads_in_step(of, id, from))
                return false;
        }
    }
    return writer >= 0;
}

/* Tasks were lowered with memory of our own in mind, in which vectors of four begin where a buffer does; GLSL addresses
   these by their number. */
static bool keeps_alignment(const lowered *with, const tuff_array *array)
{
    return !tuff__is_vulkan(with) || array->offset % (4 * tuff_dtype_size(array->dtype)) == 0;
}

static bool is_in_place(const lowered *with, const node *assign)
{
    const memory_buffer *from = &with->buffers[assign->inputs[0]->node->id];
    return keeps_alignment(with, assign->attributes.array) && !is_narrow(assign->attributes.array->dtype) &&
           !from->fixed && from->parent < 0 && can_write_in_place(with, assign);
}

static tuff_status add_assign(lowered *with, const node *assign)
{
    const tuff_array *array = assign->attributes.array;
    if (is_in_place(with, assign)) {
        fix(with, assign->inputs[0]->node->id, array->storage, array->offset);
        return TUFF_OK;
    }
    const int to = tuff__buffer_add(with, array->dtype, tuff_shape_count(array->shape));
    if (to < 0)
        return TUFF_E_OOM_HOST;
    fix(with, to, array->storage, array->offset);
    return bring(with, assign->inputs[0]->node->id, to);
}

/* What is not part of a step comes before everything that is. */
static tuff_status move_setup_first(lowered *with)
{
    launch *sorted = tuff__alloc(((size_t)with->launch_count + 1) * sizeof *sorted);
    int count = 0;
    if (sorted == NULL)
        return TUFF_E_OOM_HOST;
    for (int setup = 1; setup >= 0; --setup)
        for (int i = 0; i < with->launch_count; ++i)
            if (with->launches[i].setup == (setup == 1))
                sorted[count++] = with->launches[i];
    tuff__free(with->launches);
    with->launches = sorted;
    with->launch_capacity = with->launch_count + 1;
    return TUFF_OK;
}

static tuff_status lower(lowered *with, const choice *const *choices)
{
    const tuff_graph *graph = with->fusion->graph;
    TRY(add_node_buffers(with));
    with->inputs = tuff__calloc((size_t)graph->node_count + 1, sizeof *with->inputs);
    with->outputs = tuff__calloc((size_t)graph->output_count + 1, sizeof *with->outputs);
    if (with->inputs == NULL || with->outputs == NULL)
        return TUFF_E_OOM_HOST;
    TRY(add_sources(with));
    for (int i = 0; i < with->fusion->task_count; ++i)
        TRY(tuff__lower_task(with, i, choices == NULL ? NULL : choices[i]));
    for (int i = 0; i < graph->output_count; ++i)
        TRY(add_output(with, &graph->outputs[i]));
    for (int i = 0; i < graph->assign_count; ++i)
        TRY(add_assign(with, graph->assigns[i]));
    TRY(move_setup_first(with));
    TRY(tuff__plan_memory(with));
    return with->peak <= with->budget && tuff__verifies() ? tuff__verify_lowered(with) : TUFF_OK;
}

static lowered begin(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options)
{
    return (lowered){.device = device,
                     .fusion = fusion,
                     .family = options->family,
                     .library = options->matmul_library,
                     .budget = options->memory_budget == 0 ? UINT64_MAX : options->memory_budget};
}

static tuff_status lower_all(lowered *with, const choice *const *choices)
{
    const tuff_status status = lower(with, choices);
    with->like = NULL;
    if (status != TUFF_OK)
        tuff__lowered_free(with);
    return status;
}

tuff_status tuff__lower(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                        const choice *const *choices, lowered *out)
{
    *out = begin(device, fusion, options);
    return lower_all(out, choices);
}

tuff_status tuff__lower_like(const lowered *like, const struct fusion *fusion, const tuff_compile_options *options,
                             const choice *const *choices, lowered *out)
{
    *out = begin(like->device, fusion, options);
    out->like = like;
    return lower_all(out, choices);
}

/* What the host reads too has memory of its own. */
static bool is_output(const tuff_graph *graph, const node *of)
{
    for (int i = 0; i < graph->output_count; ++i)
        if (graph->outputs[i].tensor->node == of)
            return true;
    return false;
}

/* Without other tasks nothing is written to an array, but what would be in place makes the same kernels: it becomes a
   part of the node that reads the array. That of a map is in place whatever is chosen for it. */
static void share_with_array(lowered *with, const node *assign)
{
    const tuff_array *array = assign->attributes.array;
    memory_buffer *from = &with->buffers[assign->inputs[0]->node->id];
    if (!is_in_place(with, assign) || is_output(with->fusion->graph, assign->inputs[0]->node))
        return;
    for (int i = 0; i < with->launch_count; ++i)
        for (int k = 0; k < with->launches[i].chain.buffer_count; ++k) {
            const chain_buffer *buffer = &with->launches[i].chain.buffers[k];
            const memory_buffer *memory = &with->buffers[buffer->id];
            if (buffer->read && memory->fixed && memory->storage == array->storage && memory->offset == array->offset)
                from->parent = buffer->id;
        }
}

static tuff_status lower_alone(lowered *with, int task, const choice *what)
{
    TRY(add_node_buffers(with));
    for (int i = 0; i < with->fusion->graph->node_count; ++i) {
        const node *at = with->fusion->graph->nodes[i];
        if (at->op == OP_ARRAY) /* whose it is, and where vectors begin, matters to kernels */
            fix(with, i, at->attributes.array->storage, at->attributes.array->offset);
    }
    TRY(tuff__lower_task(with, task, what));
    const bool is_map = with->fusion->tasks[task].kind == TASK_MAP;
    for (int i = 0; i < with->fusion->graph->assign_count && is_map; ++i)
        share_with_array(with, with->fusion->graph->assigns[i]);
    return move_setup_first(with);
}

tuff_status tuff__lower_alone(tuff_device *device, const struct fusion *fusion, const tuff_compile_options *options,
                              int task, const choice *what, choice *consulted, lowered *out)
{
    *out = begin(device, fusion, options);
    out->consulted = consulted;
    const tuff_status status = lower_alone(out, task, what);
    out->consulted = NULL;
    if (status != TUFF_OK)
        tuff__lowered_free(out);
    return status;
}

static void release_named(const lowered *of, const named_buffer *list, int count)
{
    for (int i = 0; i < count; ++i)
        tuff__storage_release(of->buffers[list[i].buffer].storage);
}

void tuff__lowered_free(lowered *of)
{
    release_named(of, of->inputs, of->input_count);
    release_named(of, of->outputs, of->output_count);
    for (int i = 0; i < of->block_count; ++i)
        tuff__storage_release(of->blocks[i]);
    tuff__storage_release(of->constants);
    for (int i = 0; i < of->copy_count; ++i)
        tuff__storage_release(of->copies[i].kept);
    tuff__free(of->copies);
    for (int i = 0; i < of->launch_count; ++i)
        tuff__chain_free(&of->launches[i].chain);
    tuff__free(of->launches);
    tuff__free(of->buffers);
    tuff__free(of->inputs);
    tuff__free(of->outputs);
    tuff__free(of->blocks);
    *of = (lowered){.device = NULL};
}
