/* Keeps stores below a size: finds a time up to which records have to be dropped. A record's age counts from when it
   was measured, because a store does not note when a record is used. */
#include "tunedb/tidy.h"

#include <stdlib.h>

typedef struct record_size {
    uint64_t time, size;
} record_size;

typedef struct record_sizes {
    record_size *items;
    int count, capacity;
    uint64_t kept_bytes; /* bytes of the records that are always kept */
} record_sizes;

static int compare_newest_first(const void *a, const void *b)
{
    const record_size *first = a, *second = b;
    return (first->time < second->time) - (first->time > second->time);
}

static tuff_status collect(const tune_store *store, text *line, record_sizes *out)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store, &at));) {
        tuff__text_clear(line);
        TRY(tuff__record_write(record, line));
        if (!tuff__record_is_result(record->kind)) {
            out->kept_bytes += line->length;
            continue;
        }
        if (!GROW(out->items, out->count, out->capacity))
            return TUFF_E_OOM_HOST;
        out->items[out->count++] = (record_size){record->time, line->length};
    }
    return TUFF_OK;
}

/* Finds the newest record that no longer fits. Records of the same time are dropped together. */
static uint64_t find_cutoff(record_sizes *all, uint64_t max_bytes)
{
    uint64_t used = all->kept_bytes;
    if (all->count > 0)
        qsort(all->items, (size_t)all->count, sizeof *all->items, compare_newest_first);
    for (int i = 0; i < all->count; i++) {
        used += all->items[i].size;
        if (used > max_bytes)
            return all->items[i].time > 0 ? all->items[i].time : 1;
    }
    return 0;
}

tuff_status tuff__tidy_cutoff(const tune_store *const *stores, int count, uint64_t max_bytes, uint64_t *out)
{
    record_sizes all = {.count = 0};
    text line = {0};
    tuff_status status = TUFF_OK;
    *out = 0;
    for (int i = 0; i < count && status == TUFF_OK; i++)
        status = collect(stores[i], &line, &all);
    if (status == TUFF_OK)
        *out = find_cutoff(&all, max_bytes);
    tuff__text_free(&line);
    tuff__free(all.items);
    return status;
}

static bool is_up_to_cutoff(const tune_record *record, void *state)
{
    return tuff__record_is_result(record->kind) && record->time <= *(const uint64_t *)state;
}

tuff_status tuff__store_tidy(tune_store *store, uint64_t limit)
{
    uint64_t cutoff = 0;
    const bool is_large = tuff__store_count(store).bytes > limit;
    if (!is_large && !tuff__store_needs_compaction(store))
        return TUFF_OK;
    if (is_large)
        TRY(tuff__tidy_cutoff((const tune_store *const *)&store, 1, limit, &cutoff));
    return tuff__store_compact(store, cutoff > 0 ? is_up_to_cutoff : NULL, &cutoff);
}
