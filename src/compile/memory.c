/* Places temporaries: lifetimes over the launches become offsets in a few blocks, the largest first, each at the lowest
   offset that no living neighbour holds. The peak is known before anything is allocated. */
#include <stdlib.h>
#include <string.h>

#include "compile/lower.h"

#define ALIGNMENT 256u
#define BLOCK_SHIFT 48

uint64_t tuff__buffer_size(const memory_buffer *of)
{
    const uint64_t size = (uint64_t)of->count * tuff_dtype_size(of->dtype);
    return size == 0 ? 4 : size;
}

static int root_of(const lowered *with, int id)
{
    while (with->buffers[id].parent >= 0)
        id = with->buffers[id].parent;
    return id;
}

static void use(lowered *with, int id, int launch_index)
{
    memory_buffer *of = &with->buffers[root_of(with, id)];
    if (!of->used) {
        of->used = true;
        of->first = of->last = launch_index;
    }
    if (launch_index < of->first)
        of->first = launch_index;
    if (launch_index > of->last)
        of->last = launch_index;
    with->buffers[id].used = true;
}

static void find_lifetimes(lowered *with)
{
    for (int i = 0; i < with->launch_count; ++i) {
        const launch *of = &with->launches[i];
        for (int k = 0; k < of->chain.buffer_count; ++k)
            use(with, of->chain.buffers[k].id, i);
        if (of->kind == LAUNCH_COPY) {
            use(with, of->copy_from, i);
            use(with, of->copy_to, i);
        }
    }
}

typedef struct placement {
    int id;
    uint64_t size;
    const memory_buffer *buffer;
} placement;

static int larger_first(const void *a, const void *b)
{
    const placement *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The end of a placed neighbour in the way of [at, at + size) in block, or 0. */
static uint64_t obstacle(const lowered *with, const placement *placed, int count, const memory_buffer *of,
                         uint64_t block, uint64_t at, uint64_t size)
{
    for (int i = 0; i < count; ++i) {
        const memory_buffer *other = &with->buffers[placed[i].id];
        const uint64_t start = other->planned & (((uint64_t)1 << BLOCK_SHIFT) - 1);
        if (other->planned >> BLOCK_SHIFT != block || other->last < of->first || of->last < other->first)
            continue;
        if (start < at + size && at < start + placed[i].size)
            return start + placed[i].size;
    }
    return 0;
}

static void place(lowered *with, placement *all, int index, uint64_t limit)
{
    memory_buffer *of = &with->buffers[all[index].id];
    for (uint64_t block = 0;; ++block) {
        uint64_t at = 0, next = 0;
        while ((next = obstacle(with, all, index, of, block, at, all[index].size)) != 0)
            at = next;
        if (at == 0 || at + all[index].size <= limit) {
            of->planned = block << BLOCK_SHIFT | at;
            return;
        }
    }
}

static uint64_t size_of_block(const lowered *with, const placement *all, int count, uint64_t block)
{
    uint64_t size = 0;
    for (int i = 0; i < count; ++i) {
        const uint64_t planned = with->buffers[all[i].id].planned,
                       end = (planned & (((uint64_t)1 << BLOCK_SHIFT) - 1)) + all[i].size;
        if (planned >> BLOCK_SHIFT == block && end > size)
            size = end;
    }
    return size;
}

/* The number of blocks; their sizes become the peak. */
static uint64_t measure_blocks(lowered *with, const placement *all, int count)
{
    uint64_t block_count = 0;
    for (int i = 0; i < count; ++i)
        if (with->buffers[all[i].id].planned >> BLOCK_SHIFT >= block_count)
            block_count = (with->buffers[all[i].id].planned >> BLOCK_SHIFT) + 1;
    for (uint64_t block = 0; block < block_count; ++block)
        with->peak += size_of_block(with, all, count, block);
    return block_count;
}

static tuff_status allocate_blocks(lowered *with, const placement *all, int count, uint64_t block_count)
{
    with->blocks = tuff__calloc((size_t)block_count + 1, sizeof(storage *));
    if (with->blocks == NULL)
        return TUFF_E_OOM_HOST;
    for (uint64_t block = 0; block < block_count; ++block) {
        TRY(tuff__storage_create(with->device, size_of_block(with, all, count, block), false, &with->blocks[block]));
        ++with->block_count;
    }
    return TUFF_OK;
}

static void resolve_whole(lowered *with, memory_buffer *of)
{
    of->storage = with->blocks[of->planned >> BLOCK_SHIFT];
    of->offset = of->planned & (((uint64_t)1 << BLOCK_SHIFT) - 1);
}

static void resolve_part(lowered *with, int id)
{
    memory_buffer *of = &with->buffers[id];
    const int root = root_of(with, id);
    int64_t at = 0;
    for (int k = id; k != root; k = with->buffers[k].parent)
        at += with->buffers[k].parent_at;
    of->storage = with->buffers[root].storage;
    of->offset = with->buffers[root].offset + (uint64_t)at * tuff_dtype_size(of->dtype);
}

static tuff_status plan(lowered *with, placement *all)
{
    const tuff_device_info *info = tuff__device_info(with->device);
    int count = 0;
    for (int i = 0; i < with->buffer_count; ++i) {
        const memory_buffer *of = &with->buffers[i];
        const uint64_t size = (tuff__buffer_size(of) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (!of->used)
            continue;
        if (tuff__buffer_size(of) > info->max_binding)
            return FAIL(TUFF_E_LIMIT,
                        "compile: a tensor of %llu bytes exceeds the %llu that a kernel of %s can address",
                        (unsigned long long)size, (unsigned long long)info->max_binding, info->name);
        if (of->fixed || of->parent >= 0)
            continue;
        all[count++] = (placement){.id = i, .size = size};
        with->unplanned += size;
    }
    qsort(all, (size_t)count, sizeof *all, larger_first);
    for (int i = 0; i < count; ++i)
        place(with, all, i, info->max_allocation);
    const uint64_t block_count = measure_blocks(with, all, count);
    if (with->peak > with->budget)
        return TUFF_OK;
    TRY(allocate_blocks(with, all, count, block_count));
    for (int i = 0; i < count; ++i)
        resolve_whole(with, &with->buffers[all[i].id]);
    for (int i = 0; i < with->buffer_count; ++i)
        if (with->buffers[i].used && with->buffers[i].parent >= 0)
            resolve_part(with, i);
    return TUFF_OK;
}

tuff_status tuff__plan_memory(lowered *with)
{
    find_lifetimes(with);
    placement *all = tuff__calloc((size_t)with->buffer_count + 1, sizeof *all);
    const tuff_status status = all == NULL ? TUFF_E_OOM_HOST : plan(with, all);
    tuff__free(all);
    return status;
}
