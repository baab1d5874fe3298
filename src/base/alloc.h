/* Memory allocation. Every block comes from the hooked allocator, so that tests can make any request fail. A failed
   request sets tuff_error() (TUFF_E_OOM_HOST) and returns NULL. Sizes are checked for overflow. */
#ifndef TUFF_BASE_ALLOC_H
#define TUFF_BASE_ALLOC_H

#include "base/status.h"

void *tuff__alloc(size_t size);                /* size 0 returns a valid block */
void *tuff__calloc(size_t count, size_t size); /* zeroed */
void *tuff__realloc_array(void *block, size_t count, size_t size);
void tuff__free(void *block); /* NULL is allowed */
char *tuff__strdup(const char *text);
void *tuff__memdup(const void *data, size_t size);

/* Makes room for one more element in a growing array; items, count and capacity are variables of the caller (count and
   capacity are int). Returns false, and leaves the array unchanged, if memory runs out. */
#define GROW(items, count, capacity) \
    ((count) < (capacity) || tuff__grow((void **)&(items), &(capacity), sizeof *(items)))
bool tuff__grow(void **items, int *capacity, size_t size);

/* Blocks that are freed together. Zero is an empty arena. */
typedef struct arena {
    struct arena_block *blocks;
} arena;
void *tuff__arena_alloc(arena *self, size_t size); /* zeroed, aligned for any type */
char *tuff__arena_strdup(arena *self, const char *text);
void tuff__arena_free(arena *self);

#endif
