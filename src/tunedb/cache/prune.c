/* tuff_cache_prune: drops records that are too old, belong to an old driver, or exceed the size limit. Compaction also
   removes damaged and superseded lines. Pins are never dropped. */
#include <stdio.h>
#include <string.h>

#include "tunedb/cache/cache.h"
#include "tunedb/kernel_hash.h"
#include "tunedb/tidy.h"

static bool is_prunable(const cache_file *file)
{
    return file->is_wanted && !file->is_shipped;
}

/* Whether another of the user's files has later records of the same device under another driver. So of all drivers of a
   device, only the one with the newest records is not old. */
static bool has_old_driver(const tuff_cache *self, const cache_file *file)
{
    for (int i = 0; i < self->count && file->is_described; i++) {
        const cache_file *other = &self->files[i];
        if (!other->is_shipped && other->is_described &&
            tuff__environment_compare(&file->environment, &other->environment) == LIKENESS_OTHER_DRIVER &&
            tuff__store_newest(file->store) < tuff__store_newest(other->store))
            return true;
    }
    return false;
}

static tuff_status find_old_drivers(const tuff_cache *self, pruning *state)
{
    for (int i = 0; i < self->count; i++) {
        if (!is_prunable(&self->files[i]) || !has_old_driver(self, &self->files[i]))
            continue;
        if (!GROW(state->old, state->old_count, state->old_capacity))
            return TUFF_E_OOM_HOST;
        state->old[state->old_count++] = tuff__hash_text(self->files[i].text);
    }
    return TUFF_OK;
}

/* Finds the cutoff for the size limit. Shipped files do not count towards it. */
static tuff_status find_size_cutoff(const tuff_cache *self, pruning *state)
{
    const tune_store **stores = tuff__calloc((size_t)self->count + 1, sizeof(tune_store *));
    int count = 0;
    if (!stores)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < self->count; i++)
        if (is_prunable(&self->files[i]))
            stores[count++] = self->files[i].store;
    const tuff_status status = tuff__tidy_cutoff(stores, count, state->options.max_bytes, &state->size_cutoff);
    tuff__free((void *)stores);
    return status;
}

tuff_status tuff__prune_begin(const tuff_cache *self, const tuff_cache_prune_options *options, pruning *out)
{
    const uint64_t today = tuff__record_now();
    *out = (pruning){.options = *options};
    out->cutoff = options->older_seconds > 0 && options->older_seconds < today ? today - options->older_seconds : 0;
    tuff_status status = options->old_drivers ? find_old_drivers(self, out) : TUFF_OK;
    if (status == TUFF_OK && options->max_bytes > 0)
        status = find_size_cutoff(self, out);
    if (status != TUFF_OK)
        tuff__prune_end(out);
    return status;
}

void tuff__prune_end(pruning *self)
{
    tuff__free(self->old);
    self->old = NULL;
}

static bool is_stale(const tune_record *record)
{
    char family[32], today[KERNEL_HASH_SIZE];
    (void)snprintf(family, sizeof family, "%.*s", (int)strcspn(record->op, " "), record->op);
    return strcmp(record->kernel_hash, tuff__kernel_hash(family, today)) != 0;
}

static bool is_old(const pruning *self, const tune_record *record)
{
    if (record->time < self->cutoff || (self->size_cutoff > 0 && record->time <= self->size_cutoff))
        return true;
    for (int i = 0; i < self->old_count; i++)
        if (tuff__is_same_hash(self->old[i], record->environment))
            return true;
    return self->options.stale_kernels && is_stale(record);
}

static bool is_to_be_dropped(const tune_record *record, void *state)
{
    pruning *self = state;
    if (record->kind == RECORD_ENVIRONMENT)
        return false;
    const bool drop = record->kind != RECORD_PIN && is_old(self, record);
    self->dropped += drop;
    self->kept += !drop;
    return drop;
}

tuff_status tuff__prune_file(tuff_cache *self, int index, pruning *state)
{
    tune_store *store = self->files[index].store;
    const tune_record *record;
    state->dropped = state->kept = 0;
    if (!state->options.dry_run)
        return tuff__store_compact(store, is_to_be_dropped, state);
    for (int at = 0; (record = tuff__store_next(store, &at));)
        (void)is_to_be_dropped(record, state);
    return TUFF_OK;
}

tuff_status tuff_cache_prune(tuff_cache *cache, const tuff_cache_prune_options *options, tuff_cache_pruned *counts)
{
    static const tuff_cache_prune_options nothing;
    tuff_cache_pruned sums = {0};
    pruning self;
    char why[TUFF_ERROR_SIZE] = "";
    tuff_status first = TUFF_OK;
    if (!cache)
        return FAIL(TUFF_E_USAGE, "cache: the cache is NULL");
    TRY(tuff__prune_begin(cache, options ? options : &nothing, &self));
    for (int i = 0; i < cache->count; i++) {
        if (!is_prunable(&cache->files[i]))
            continue;
        sums.bytes_before += tuff__store_count(cache->files[i].store).bytes;
        const tuff_status status = tuff__prune_file(cache, i, &self);
        sums.bytes_after += tuff__store_count(cache->files[i].store).bytes;
        sums.dropped += status == TUFF_OK ? self.dropped : 0;
        sums.kept += status == TUFF_OK ? self.kept : 0;
        if (status != TUFF_OK && first == TUFF_OK) {
            first = status;
            (void)snprintf(why, sizeof why, "%s", tuff_error());
        }
    }
    tuff__prune_end(&self);
    if (counts)
        *counts = sums;
    return first == TUFF_OK ? TUFF_OK : FAIL(first, "%s", why);
}
