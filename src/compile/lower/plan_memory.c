/* Places temporaries: lifetimes over the launches become offsets in a few blocks, the largest buffer first, each at the
   lowest offset that is free during its lifetime. A buffer that is written in parts has a lifetime for each part: until
   a part is written, its memory serves other buffers, so that the gradients of all parameters can share memory with the
   values of the forward pass. The peak is known before anything is allocated. */
#include <limits.h>
#include <stdlib.h>

#include "compile/lower/lower.h"

#define ALIGNMENT 256u
#define BLOCK_SHIFT 48
#define OFFSET_MASK (((uint64_t)1 << BLOCK_SHIFT) - 1)

/* A range of a placement, in bytes, and the launches between which it is in use. */
typedef struct piece {
    uint64_t start, end;
    int first, last;
} piece;

typedef struct placement {
    int id;
    int first, last; /* of all pieces */
    uint64_t size;
    int piece_begin, piece_end;
} placement;

/* Offsets at which a buffer would overlap with a placed one: those greater than `begin` and less than `end`. */
typedef struct conflict {
    int64_t begin, end;
} conflict;

typedef struct planner {
    launch_list *list;
    placement *all;
    int count;
    piece *pieces; /* grouped by placement */
    int *place_of; /* by buffer: index of its placement */
    conflict *conflicts;
    int conflict_count, conflict_capacity;
} planner;

static int root_of(const launch_list *list, int id)
{
    while (list->buffers[id].parent >= 0)
        id = list->buffers[id].parent;
    return id;
}

/* Extends the lifetimes of a buffer and of the wholes that it is a part of. The lifetime of a whole begins only when a
   launch uses it as a whole. */
static void extend_lifetime(launch_list *list, int id, int launch_index)
{
    for (int i = id; i >= 0; i = list->buffers[i].parent) {
        memory_buffer *buffer = &list->buffers[i];
        if (!buffer->used) {
            buffer->used = true;
            buffer->first = INT_MAX;
        }
        buffer->last = buffer->last < launch_index ? launch_index : buffer->last;
    }
    if (list->buffers[id].first > launch_index)
        list->buffers[id].first = launch_index;
}

static void find_lifetimes(launch_list *list)
{
    for (int i = 0; i < list->launch_count; ++i) {
        const launch *kernel = &list->launches[i];
        for (int k = 0; k < kernel->chain.buffer_count; ++k)
            extend_lifetime(list, kernel->chain.buffers[k].id, i);
        if (kernel->kind == LAUNCH_COPY) {
            extend_lifetime(list, kernel->copy_from, i);
            extend_lifetime(list, kernel->copy_to, i);
        }
    }
}

static int larger_first(const void *a, const void *b)
{
    const placement *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static uint64_t start_of_part(const launch_list *list, int id)
{
    int64_t at = 0;
    const size_t size = tuff_dtype_size(list->buffers[id].dtype);
    for (; list->buffers[id].parent >= 0; id = list->buffers[id].parent)
        at += list->buffers[id].parent_at;
    return (uint64_t)at * size;
}

/* Returns the bytes that are bound for a buffer. On devices that bind ranges, a range begins at an offset that the
   device accepts and holds whole vectors. Temporaries and their parts begin at such offsets, or bind no more than their
   whole does. */
static uint64_t bound_size(const launch_list *list, const memory_buffer *buffer)
{
    const uint64_t size = tuff__buffer_size(buffer), alignment = list->policy.target.info->offset_alignment;
    if (!list->policy.target.binds_ranges)
        return size;
    return (size + (buffer->fixed && alignment > 0 ? buffer->offset % alignment : 0) + 15) / 16 * 16;
}

/* Collects the buffers that are no part of another, the largest first. */
static tuff_status find_placements(planner *self)
{
    launch_list *list = self->list;
    const tuff_device_info *info = list->policy.target.info;
    for (int i = 0; i < list->buffer_count; ++i) {
        const memory_buffer *buffer = &list->buffers[i];
        const uint64_t size = (tuff__buffer_size(buffer) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (!buffer->used)
            continue;
        if (bound_size(list, buffer) > info->max_binding)
            return FAIL(TUFF_E_LIMIT,
                        "compile: a tensor of %llu bytes exceeds the limit of %llu bytes for a buffer on %s",
                        (unsigned long long)size, (unsigned long long)info->max_binding, info->name);
        if (buffer->fixed || buffer->parent >= 0)
            continue;
        self->all[self->count++] = (placement){.id = i, .first = INT_MAX, .last = buffer->last, .size = size};
        list->unplanned += size;
    }
    qsort(self->all, (size_t)self->count, sizeof *self->all, larger_first);
    return TUFF_OK;
}

/* Collects the pieces of each placement: the buffer and its parts, each live from its first use until the last use of
   any of them. */
static void find_pieces(planner *self)
{
    const launch_list *list = self->list;
    int begin = 0, *counts = self->place_of;
    for (int i = 0; i < list->buffer_count; ++i)
        ++counts[root_of(list, i)];
    for (int i = 0; i < self->count; ++i) {
        placement *whole = &self->all[i];
        whole->piece_begin = whole->piece_end = begin;
        begin += counts[whole->id];
        self->place_of[whole->id] = i;
    }
    for (int i = 0; i < list->buffer_count; ++i) {
        const int root = root_of(list, i);
        const memory_buffer *buffer = &list->buffers[i];
        if (!buffer->used || buffer->first == INT_MAX || list->buffers[root].fixed)
            continue;
        placement *into = &self->all[self->place_of[root]];
        const uint64_t start = start_of_part(list, i);
        self->pieces[into->piece_end++] = (piece){.start = start,
                                                  .end = start + tuff__buffer_size(buffer),
                                                  .first = buffer->first,
                                                  .last = list->buffers[root].last};
        if (into->first > buffer->first)
            into->first = buffer->first;
    }
}

/* Adds the offsets at which two buffers overlap, of which `other` is placed at `start`. */
static tuff_status add_conflicts(planner *self, const placement *candidate, const placement *other, uint64_t start)
{
    for (int i = candidate->piece_begin; i < candidate->piece_end; ++i)
        for (int k = other->piece_begin; k < other->piece_end; ++k) {
            const piece *a = &self->pieces[i], *b = &self->pieces[k];
            if (a->first > b->last || b->first > a->last)
                continue;
            if (!GROW(self->conflicts, self->conflict_count, self->conflict_capacity))
                return TUFF_E_OOM_HOST;
            self->conflicts[self->conflict_count++] = (conflict){.begin = (int64_t)(start + b->start) - (int64_t)a->end,
                                                                 .end = (int64_t)(start + b->end) - (int64_t)a->start};
        }
    return TUFF_OK;
}

/* Finds the conflicts with the larger buffers, which are placed already, as far as they are in a block. */
static tuff_status find_conflicts(planner *self, int index, uint64_t block)
{
    const placement *candidate = &self->all[index];
    self->conflict_count = 0;
    for (int i = 0; i < index; ++i) {
        const placement *other = &self->all[i];
        if (candidate->first > other->last || other->first > candidate->last)
            continue;
        const uint64_t planned = self->list->buffers[other->id].planned;
        if (planned >> BLOCK_SHIFT == block)
            TRY(add_conflicts(self, candidate, other, planned & OFFSET_MASK));
    }
    return TUFF_OK;
}

/* Returns the lowest aligned offset without a conflict. Buffers placed earlier tend to lie lower, so that few passes
   over the conflicts are needed. */
static uint64_t lowest_offset(const planner *self)
{
    int64_t at = 0;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < self->conflict_count; ++i)
            if (self->conflicts[i].begin < at && self->conflicts[i].end > at) {
                at = (self->conflicts[i].end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
                again = true;
            }
    }
    return (uint64_t)at;
}

static tuff_status place(planner *self, int index, uint64_t limit)
{
    const placement *candidate = &self->all[index];
    for (uint64_t block = 0;; ++block) {
        TRY(find_conflicts(self, index, block));
        const uint64_t at = lowest_offset(self);
        if (at == 0 || at + candidate->size <= limit) {
            self->list->buffers[candidate->id].planned = block << BLOCK_SHIFT | at;
            return TUFF_OK;
        }
    }
}

static uint64_t size_of_block(const launch_list *list, const placement *all, int count, uint64_t block)
{
    uint64_t size = 0;
    for (int i = 0; i < count; ++i) {
        const uint64_t planned = list->buffers[all[i].id].planned, end = (planned & OFFSET_MASK) + all[i].size;
        if (planned >> BLOCK_SHIFT == block && end > size)
            size = end;
    }
    return size;
}

/* Returns the number of blocks, and adds their sizes to the peak. */
static uint64_t measure_blocks(launch_list *list, const placement *all, int count)
{
    uint64_t block_count = 0;
    for (int i = 0; i < count; ++i)
        if (list->buffers[all[i].id].planned >> BLOCK_SHIFT >= block_count)
            block_count = (list->buffers[all[i].id].planned >> BLOCK_SHIFT) + 1;
    for (uint64_t block = 0; block < block_count; ++block)
        list->peak += size_of_block(list, all, count, block);
    return block_count;
}

/* Returns the block of list->reuse_from to reuse, or NULL if there is none that is large enough. */
static storage *reusable_block(const launch_list *list, uint64_t block, uint64_t size)
{
    const launch_list *from = list->reuse_from;
    const bool fits =
        from != NULL && block < (uint64_t)from->block_count && tuff__storage_size(from->blocks[block]) >= size;
    return fits ? from->blocks[block] : NULL;
}

static tuff_status allocate_kept_copies(launch_list *list)
{
    for (int i = 0; i < list->copy_count; ++i) {
        packed_copy *copy = &list->copies[i];
        if (!copy->is_kept)
            continue;
        TRY(tuff__storage_create(list->device, tuff__buffer_size(&list->buffers[copy->target]), false, &copy->kept));
        list->buffers[copy->target].storage = copy->kept;
    }
    return TUFF_OK;
}

static tuff_status allocate_blocks(launch_list *list, const placement *all, int count, uint64_t block_count)
{
    list->blocks = tuff__calloc((size_t)block_count + 1, sizeof(storage *));
    if (list->blocks == NULL)
        return TUFF_E_OOM_HOST;
    for (uint64_t block = 0; block < block_count; ++block) {
        const uint64_t size = size_of_block(list, all, count, block);
        storage *other = reusable_block(list, block, size);
        if (other != NULL)
            tuff__storage_retain(list->blocks[block] = other);
        else
            TRY(tuff__storage_create(list->device, size, false, &list->blocks[block]));
        ++list->block_count;
    }
    return TUFF_OK;
}

static void resolve_whole(launch_list *list, memory_buffer *buffer)
{
    buffer->storage = list->blocks[buffer->planned >> BLOCK_SHIFT];
    buffer->offset = buffer->planned & OFFSET_MASK;
}

static void resolve_part(launch_list *list, int id)
{
    const memory_buffer *root = &list->buffers[root_of(list, id)];
    list->buffers[id].storage = root->storage;
    list->buffers[id].offset = root->offset + start_of_part(list, id);
}

/* Returns how far into a block a buffer may end. If whole blocks are bound, kernels count the block's elements in 32
   bits, in units of the buffer's element size. */
static uint64_t largest_end(const launch_list *list, int id)
{
    const uint64_t most = list->policy.target.info->max_allocation;
    const uint64_t addressed = (uint64_t)INT32_MAX * tuff_dtype_size(list->buffers[id].dtype);
    return list->policy.target.binds_ranges || most < addressed ? most : addressed;
}

static tuff_status plan(planner *self)
{
    launch_list *list = self->list;
    TRY(find_placements(self));
    find_pieces(self);
    for (int i = 0; i < self->count; ++i)
        TRY(place(self, i, largest_end(list, self->all[i].id)));
    const uint64_t block_count = measure_blocks(list, self->all, self->count);
    if (list->peak > list->budget)
        return TUFF_OK;
    TRY(allocate_kept_copies(list));
    TRY(allocate_blocks(list, self->all, self->count, block_count));
    for (int i = 0; i < self->count; ++i)
        resolve_whole(list, &list->buffers[self->all[i].id]);
    for (int i = 0; i < list->buffer_count; ++i)
        if (list->buffers[i].used && list->buffers[i].parent >= 0)
            resolve_part(list, i);
    return TUFF_OK;
}

tuff_status tuff__plan_memory(launch_list *list)
{
    const size_t count = (size_t)list->buffer_count + 1;
    planner self = {.list = list};
    find_lifetimes(list);
    self.all = tuff__calloc(count, sizeof *self.all);
    self.pieces = tuff__calloc(count, sizeof *self.pieces);
    self.place_of = tuff__calloc(count, sizeof *self.place_of);
    const bool complete = self.all != NULL && self.pieces != NULL && self.place_of != NULL;
    const tuff_status status = complete ? plan(&self) : TUFF_E_OOM_HOST;
    tuff__free(self.all);
    tuff__free(self.pieces);
    tuff__free(self.place_of);
    tuff__free(self.conflicts);
    return status;
}

void tuff__plan_placeholders(launch_list *list)
{
    for (int i = 0; i < list->buffer_count; ++i) {
        memory_buffer *buffer = &list->buffers[i];
        if (buffer->parent >= 0)
            continue;
        buffer->storage = (storage *)(void *)buffer; /* a dummy, different for each buffer */
        buffer->offset %= ALIGNMENT;
    }
    for (int i = 0; i < list->buffer_count; ++i)
        if (list->buffers[i].parent >= 0)
            resolve_part(list, i);
}
