/* Finds a run's weights by the memory that its commands are bound to, and rebinds them to places in the pool. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include "measure/cache_flush.h"

#include <unistd.h>

#include "base/alloc.h"

/* Granularity of addresses: weights are as aligned in the pool as they were before. */
enum { GRAIN = 256 };

typedef struct cold_weight weight;

uint64_t tuff__cache_flush_pool_size(const tuff_device *device)
{
    const tuff_device_info *info = tuff__device_info(device);
    const uint64_t most = (uint64_t)512 << 20;
    uint64_t caches = (uint64_t)128 << 20; /* no GPU has more today */
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long own = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (info->device_class == TUFF_DEVICE_CPU && own > 0)
        caches = (uint64_t)own;
#endif
    const uint64_t wanted = 2 * caches < most ? 2 * caches : most;
    return info->memory_size == 0 || wanted <= info->memory_size / 4 ? wanted : 0;
}

void tuff__cache_flush_pool_free(cache_flush_pool *self)
{
    tuff__storage_release(self->memory);
    *self = (cache_flush_pool){.memory = NULL};
}

tuff_status tuff__cache_flush_pool_fill(tuff_device *device, cache_flush_pool *self)
{
    /* 1 as f16, less than 0.01 as f32 and bf16. */
    static const uint32_t number = 0x3C003C00;
    if (self->memory != NULL || self->size == 0)
        return TUFF_OK;
    tuff_status status = tuff__storage_create(device, self->size, false, &self->memory);
    if (status == TUFF_OK)
        status = tuff__storage_fill(device, self->memory, 0, self->size, &number, sizeof number);
    if (status != TUFF_OK)
        tuff__cache_flush_pool_free(self);
    return status;
}

static bool is_written(const command *commands, int count, const driver_buffer *buffer)
{
    for (int i = 0; i < count; ++i)
        for (int k = 0; k < commands[i].binding_count; ++k)
            if (commands[i].bindings[k].buffer == buffer && commands[i].bindings[k].written)
                return true;
    return false;
}

/* Indices are not weights: what kernels do depends on their values. */
static bool is_array(const executable *self, const driver_buffer *buffer)
{
    const tuff_graph *graph = self->launches.fusion->graph;
    bool found = false;
    for (int id = 0; id < graph->node_count; ++id) {
        const memory_buffer *one = &self->launches.buffers[id];
        if (one->storage == NULL || tuff__storage_buffer(one->storage) != buffer)
            continue;
        if (graph->nodes[id]->op != OP_ARRAY || !tuff__dtype_is_float(one->dtype))
            return false;
        found = true;
    }
    return found;
}

static bool is_weight(const executable *self, const buffer_binding *binding)
{
    const command *runs = self->commands + self->setup_count;
    if (binding->buffer == tuff__storage_buffer(self->parameters) ||
        is_written(runs, self->command_count - self->setup_count, binding->buffer))
        return false;
    return is_array(self, binding->buffer) || is_written(self->commands, self->setup_count, binding->buffer);
}

static const weight *find(const flushed_weights *self, const buffer_binding *binding)
{
    for (int i = 0; i < self->count; ++i)
        if (self->all[i].buffer == binding->buffer && self->all[i].offset == binding->offset &&
            self->all[i].size == binding->size)
            return &self->all[i];
    return NULL;
}

void tuff__cache_flush_find(const executable *self, flushed_weights *out)
{
    *out = (flushed_weights){.count = 0};
    for (int i = self->setup_count; i < self->command_count; ++i)
        for (int k = 0; k < self->commands[i].binding_count && out->count < MAX_WEIGHTS; ++k) {
            const buffer_binding *binding = &self->commands[i].bindings[k];
            if (find(out, binding) != NULL || !is_weight(self, binding))
                continue;
            out->all[out->count++] = (weight){binding->buffer, binding->offset, binding->size, out->size};
            out->size += (binding->size + GRAIN - 1) / GRAIN * GRAIN + GRAIN;
        }
}

int tuff__cache_flush_places(const flushed_weights *weights, const cache_flush_pool *pool)
{
    const uint64_t places = pool == NULL || weights->size == 0 ? 1 : pool->size / weights->size;
    return places < 2 || places > COLD_PLACES ? 1 : (int)places;
}

int tuff__cache_flush_next(cache_flush_pool *self, int places, uint64_t size, int count)
{
    const uint64_t place = (self->next + size - 1) / size % (uint64_t)places;
    self->next = (place + (uint64_t)count) % (uint64_t)places * size;
    return (int)place;
}

void tuff__cache_flush_bind(const flushed_weights *weights, const cache_flush_pool *pool, int place, command *commands,
                            int count)
{
    for (int i = 0; i < count; ++i)
        for (int k = 0; k < commands[i].binding_count; ++k) {
            buffer_binding *binding = &commands[i].bindings[k];
            const weight *found = find(weights, binding);
            if (found == NULL)
                continue;
            binding->offset = (uint64_t)place * weights->size + found->at + binding->offset % GRAIN;
            binding->buffer = tuff__storage_buffer(pool->memory);
        }
}
