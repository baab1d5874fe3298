/* The allocator hook, and plain blocks, growing arrays and arenas on top of it. All memory of the library comes from
   here. Reporting a failed request does not allocate. */
#include "base/alloc.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static void *default_allocate(void *user, size_t size)
{
    (void)user;
    return malloc(size);
}

static void *default_reallocate(void *user, void *block, size_t size)
{
    (void)user;
    return realloc(block, size);
}

static void default_release(void *user, void *block)
{
    (void)user;
    free(block);
}

static const tuff_allocator default_allocator = {default_allocate, default_reallocate, default_release, NULL};
static tuff_allocator current = {default_allocate, default_reallocate, default_release, NULL};

/* All functions or none: a block must go back to the allocator that it came from. */
void tuff_set_allocator(const tuff_allocator *allocator)
{
    bool complete = allocator && allocator->allocate && allocator->reallocate && allocator->release;
    current = complete ? *allocator : default_allocator;
}

static void *out_of_memory(size_t size)
{
    (void)FAIL(TUFF_E_OOM_HOST, "out of host memory: cannot allocate %zu bytes", size);
    return NULL;
}

/* Never asks for 0 bytes, for which malloc may return NULL. Sizes above PTRDIFF_MAX would make differences of pointers
   overflow. */
void *tuff__alloc(size_t size)
{
    if (size > PTRDIFF_MAX)
        return out_of_memory(size);
    void *block = current.allocate(current.user, size ? size : 1);
    return block ? block : out_of_memory(size);
}

void *tuff__calloc(size_t count, size_t size)
{
    size_t total;
    if (!tuff__mul_size(count, size, &total))
        return out_of_memory(SIZE_MAX);
    void *block = tuff__alloc(total);
    return block ? memset(block, 0, total) : NULL;
}

void *tuff__realloc_array(void *block, size_t count, size_t size)
{
    size_t total;
    if (!tuff__mul_size(count, size, &total) || total > PTRDIFF_MAX)
        return out_of_memory(SIZE_MAX);
    if (!block)
        return tuff__alloc(total);
    void *moved = current.reallocate(current.user, block, total ? total : 1);
    return moved ? moved : out_of_memory(total);
}

void tuff__free(void *block)
{
    if (block)
        current.release(current.user, block);
}

char *tuff__strdup(const char *text)
{
    return tuff__memdup(text, strlen(text) + 1);
}

void *tuff__memdup(const void *data, size_t size)
{
    void *block = tuff__alloc(size);
    return block && size ? memcpy(block, data, size) : block;
}

bool tuff__grow(void **items, int *capacity, size_t size)
{
    /* The caller's pointer has another type: memcpy respects the aliasing rules. */
    void *block;
    memcpy(&block, items, sizeof block);
    if (*capacity > INT_MAX / 2) {
        (void)FAIL(TUFF_E_LIMIT, "cannot grow an array of %d elements: too large", *capacity);
        return false;
    }
    /* Doubling keeps the cost of n additions proportional to n. */
    int larger = *capacity ? *capacity * 2 : 8;
    void *moved = tuff__realloc_array(block, (size_t)larger, size);
    if (!moved)
        return false;
    memcpy(items, &moved, sizeof moved);
    *capacity = larger;
    return true;
}

/* A block is a header followed by its bytes; a flexible array of max_align_t aligns them for any type. */
typedef struct arena_block {
    struct arena_block *next;
    size_t used, capacity; /* bytes */
    max_align_t bytes[];
} arena_block;

/* In bytes: large enough that a graph of a thousand nodes takes few blocks, small enough for small graphs. */
#define ARENA_BLOCK_SIZE ((size_t)16384)

static arena_block *arena_block_create(size_t capacity)
{
    size_t total;
    if (!tuff__add_size(sizeof(arena_block), capacity, &total))
        return out_of_memory(capacity);
    arena_block *block = tuff__calloc(1, total);
    if (block)
        block->capacity = capacity;
    return block;
}

/* The first block is the one being filled. A large request gets a block of its own after it, so that the space left in
   the first is not lost. */
void *tuff__arena_alloc(arena *self, size_t size)
{
    uint64_t rounded;
    if (!tuff__align_u64(size, sizeof(max_align_t), &rounded) || rounded > PTRDIFF_MAX)
        return out_of_memory(size);
    size_t needed = (size_t)rounded;
    arena_block *first = self->blocks;
    if (!first || first->capacity - first->used < needed) {
        bool large = needed > ARENA_BLOCK_SIZE / 4;
        arena_block *block = arena_block_create(large ? needed : ARENA_BLOCK_SIZE);
        if (!block)
            return NULL;
        arena_block **place = large && first ? &first->next : &self->blocks;
        block->next = *place;
        *place = block;
        first = block;
    }
    void *memory = (unsigned char *)first->bytes + first->used;
    first->used += needed;
    return memory;
}

char *tuff__arena_strdup(arena *self, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = tuff__arena_alloc(self, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

void tuff__arena_free(arena *self)
{
    for (arena_block *block = self->blocks, *next; block; block = next) {
        next = block->next;
        tuff__free(block);
    }
    self->blocks = NULL;
}
