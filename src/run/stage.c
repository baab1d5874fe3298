/* A copy of the program's graph on another device, with copies of the program's arrays. Results are all outputs and all
   arrays that the graph assigns. */
#include "run/whole_parts.h"

#include "compile/simplify.h"

static tuff_status copy_storage(const stage *self, const mirrored *of)
{
    enum { AT_ONCE = 4 << 20 };
    const uint64_t size = tuff__storage_size(of->from);
    void *block = tuff__alloc(size < AT_ONCE ? (size_t)size : AT_ONCE);
    tuff_status status = block == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    for (uint64_t at = 0; at < size && status == TUFF_OK; at += AT_ONCE) {
        const uint64_t count = size - at < AT_ONCE ? size - at : AT_ONCE;
        status = tuff__storage_read(self->from, of->from, at, block, count);
        if (status == TUFF_OK)
            status = tuff__storage_write(self->device, of->to, at, block, count);
        if (status == TUFF_OK && of->first != NULL)
            status = tuff__storage_write(self->device, of->first, at, block, count);
    }
    tuff__free(block);
    return status;
}

/* What stands for arrays of another process: small numbers above zero, as weights are and squares of gradients, so that
   whatever is computed from them is a number, and not zero either. Integers are 0, which is an index of anything. */
static tuff_status make_up(const stage *self, const mirrored *of, const tuff_array *array)
{
    enum { AT_ONCE = 4096, KINDS = 32 };
    double values[AT_ONCE];
    char block[AT_ONCE * sizeof(double)];
    const int64_t count = tuff_shape_count(array->shape);
    const size_t size = tuff_dtype_size(array->dtype);
    for (int i = 0; i < AT_ONCE; ++i)
        values[i] = tuff__dtype_is_float(array->dtype) ? (i * 7 % KINDS + 1) / 1024.0 : 0;
    tuff__from_double(array->dtype, values, AT_ONCE, block);
    for (int64_t at = 0; at < count; at += AT_ONCE) {
        const uint64_t bytes = (uint64_t)(count - at < AT_ONCE ? count - at : AT_ONCE) * size;
        const uint64_t offset = array->offset + (uint64_t)at * size;
        TRY(tuff__storage_write(self->device, of->to, offset, block, bytes));
        if (of->first != NULL)
            TRY(tuff__storage_write(self->device, of->first, offset, block, bytes));
    }
    return TUFF_OK;
}

static mirrored *find_storage(const stage *self, const storage *from)
{
    for (int i = 0; i < self->storage_count; ++i)
        if (self->storages[i].from == from)
            return &self->storages[i];
    return NULL;
}

static bool has_array(const node *at)
{
    return at->op == OP_ARRAY || at->op == OP_ASSIGN;
}

static tuff_status list_storages(stage *self)
{
    for (int i = 0; i < self->graph->node_count; ++i) {
        const node *at = self->graph->nodes[i];
        if (!has_array(at))
            continue;
        storage *from = at->attributes.array->storage;
        if (find_storage(self, from) == NULL) {
            if (!GROW(self->storages, self->storage_count, self->storage_capacity))
                return TUFF_E_OOM_HOST;
            self->storages[self->storage_count++] = (mirrored){.from = from};
        }
        find_storage(self, from)->is_assigned |= at->op == OP_ASSIGN;
    }
    return TUFF_OK;
}

/* Before any of it is made. */
static tuff_status count_bytes(stage *self)
{
    for (int i = 0; i < self->storage_count; ++i)
        self->own += tuff__storage_size(self->storages[i].from) * (self->storages[i].is_assigned ? 2 : 1);
    for (int i = 0; i < self->result_count; ++i)
        self->own += 2 * self->results[i].size;
    self->used = self->own;
    return self->own <= self->most
               ? TUFF_OK
               : FAIL(TUFF_E_LIMIT, "tune: the graph's arrays and results are more than the tuner may take");
}

static tuff_status make_storages(stage *self)
{
    for (int i = 0; i < self->storage_count; ++i) {
        mirrored *of = &self->storages[i];
        const uint64_t size = tuff__storage_size(of->from);
        TRY(tuff__storage_create(self->device, size, false, &of->to));
        if (of->is_assigned)
            TRY(tuff__storage_create(self->device, size, false, &of->first));
        if (!tuff__storage_is_stand_in(of->from))
            TRY(copy_storage(self, of));
    }
    return TUFF_OK;
}

static tuff_status make_up_storages(const stage *self)
{
    for (int i = 0; i < self->graph->node_count; ++i) {
        const node *at = self->graph->nodes[i];
        const mirrored *of = has_array(at) ? find_storage(self, at->attributes.array->storage) : NULL;
        if (of != NULL && tuff__storage_is_stand_in(of->from))
            TRY(make_up(self, of, at->attributes.array));
    }
    return TUFF_OK;
}

static tuff_status record_restoring(stage *self)
{
    command *all = tuff__calloc((size_t)self->storage_count + 1, sizeof *all);
    int count = 0;
    if (all == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < self->storage_count; ++i) {
        const mirrored *of = &self->storages[i];
        if (!of->is_assigned)
            continue;
        const uint64_t size = tuff__storage_size(of->from);
        command *one = &all[count++];
        *one = (command){.kind = COMMAND_COPY, .binding_count = 2};
        one->bindings[0] = (buffer_binding){.buffer = tuff__storage_buffer(of->first), .size = size};
        one->bindings[1] = (buffer_binding){.buffer = tuff__storage_buffer(of->to), .size = size, .written = true};
    }
    const tuff_status status =
        count == 0 ? TUFF_OK : tuff__recording_create(self->device, all, count, true, false, &self->restoring);
    tuff__free(all);
    return status;
}

static tuff_status mirror_arrays(stage *self)
{
    for (int i = 0; i < self->graph->node_count; ++i) {
        node *at = self->graph->nodes[i];
        if (!has_array(at))
            continue;
        if (!GROW(self->arrays, self->array_count, self->array_capacity))
            return TUFF_E_OOM_HOST;
        const tuff_array *from = at->attributes.array;
        tuff_array *made = tuff__array_like(from, self->device, find_storage(self, from->storage)->to);
        if (made == NULL)
            return TUFF_E_OOM_HOST;
        self->arrays[self->array_count++] = made;
        at->attributes.array = made;
    }
    return TUFF_OK;
}

/* Outputs, and arrays of the program. */
static tuff_status list_results(stage *self)
{
    const tuff_graph *graph = self->graph;
    self->results = tuff__calloc((size_t)(graph->output_count + graph->assign_count) + 1, sizeof *self->results);
    if (self->results == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < graph->output_count; ++i) {
        const tuff_tensor *value = graph->outputs[i].tensor;
        self->results[self->result_count++] =
            (result){.name = graph->outputs[i].name,
                     .dtype = value->dtype,
                     .size = (uint64_t)tuff_shape_count(value->shape) * tuff_dtype_size(value->dtype)};
    }
    for (int i = 0; i < graph->assign_count; ++i) {
        const tuff_array *array = graph->assigns[i]->attributes.array;
        self->results[self->result_count++] =
            (result){.memory = find_storage(self, array->storage),
                     .offset = array->offset,
                     .dtype = array->dtype,
                     .size = (uint64_t)tuff_shape_count(array->shape) * tuff_dtype_size(array->dtype)};
    }
    return TUFF_OK;
}

static void note_dtypes(stage *self)
{
    for (int i = 0; i < self->graph->node_count; ++i) {
        const tuff_dtype dtype = self->graph->nodes[i]->outputs[0].dtype;
        self->is_narrow |= dtype == TUFF_F16 || dtype == TUFF_BF16 || dtype == TUFF_I8;
    }
}

/* The live nodes of the program's graph, with arrays of this device. A counter that belongs to the graph is an array
   like others then, raised by a node. */
static tuff_status build_stage(stage *self, tuff_graph *source, tuff_array **counter)
{
    self->graph = tuff__simplify(source, true);
    if (self->graph == NULL)
        return tuff_last_status() == TUFF_OK ? TUFF_E_OOM_HOST : tuff_last_status();
    tuff_graph *graph = self->graph;
    *counter = graph->owns_step ? graph->step_array : NULL;
    graph->device = self->device;
    graph->owns_step = false;
    graph->step_array = NULL;
    note_dtypes(self);
    TRY(list_storages(self));
    TRY(list_results(self));
    TRY(count_bytes(self));
    TRY(make_storages(self));
    TRY(make_up_storages(self));
    TRY(record_restoring(self));
    return mirror_arrays(self);
}

tuff_status tuff__stage_create(tuff_graph *source, tuff_device *device, const tuff_compile_options *options,
                               uint64_t most, const stage_guard *guard, stage **out)
{
    static const tuff_tune_options off = {.mode = TUFF_TUNE_OFF};
    stage *self = tuff__calloc(1, sizeof *self);
    tuff_array *counter = NULL;
    *out = NULL;
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    *self = (stage){.device = device, .from = source->device, .most = most};
    if (guard != NULL)
        self->guard = *guard;
    self->options = (tuff_compile_options){.fuse = options->fuse, .family = options->family, .tuning = &off};
    const tuff_status status = build_stage(self, source, &counter);
    tuff_array_destroy(counter);
    if (status != TUFF_OK) {
        tuff__stage_destroy(self);
        return status;
    }
    *out = self;
    return TUFF_OK;
}

void tuff__stage_destroy(stage *self)
{
    if (self == NULL)
        return;
    tuff__recording_destroy(self->device, self->restoring);
    tuff_graph_destroy(self->graph);
    for (int i = 0; i < self->array_count; ++i)
        tuff_array_destroy(self->arrays[i]);
    for (int i = 0; i < self->storage_count; ++i) {
        tuff__storage_release(self->storages[i].to);
        tuff__storage_release(self->storages[i].first);
    }
    for (int i = 0; i < self->result_count; ++i) {
        tuff__free(self->results[i].right);
        tuff__free(self->results[i].last);
    }
    tuff__free(self->arrays);
    tuff__free(self->storages);
    tuff__free(self->results);
    tuff__free(self);
}

uint64_t tuff__stage_size(const stage *self)
{
    return self->own;
}
