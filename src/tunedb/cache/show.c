/* Fills in the public structs that describe files and records (tuff/cache.h). */
#include <string.h>

#include "tunedb/cache/cache.h"

int tuff_cache_file_count(const tuff_cache *cache)
{
    if (!cache) {
        (void)FAIL(TUFF_E_USAGE, "cache: the cache is NULL");
        return -1;
    }
    int count = 0;
    for (int i = 0; i < cache->count; i++)
        count += cache->files[i].is_wanted;
    return count;
}

/* Returns the position of a file among the wanted ones; -1 if it is not wanted. */
static int wanted_index(const tuff_cache *self, int file)
{
    int number = 0;
    if (file < 0 || !self->files[file].is_wanted)
        return -1;
    for (int i = 0; i < file; i++)
        number += self->files[i].is_wanted;
    return number;
}

static void count_records(const tune_store *store, tuff_cache_file_info *out)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store, &at));) {
        out->winners += record->kind == RECORD_WIN;
        out->rejected += record->kind == RECORD_REJECTION;
        out->pins += record->kind == RECORD_PIN;
    }
}

tuff_status tuff_cache_file(const tuff_cache *cache, int index, tuff_cache_file_info *info)
{
    if (!cache || !info)
        return FAIL(TUFF_E_USAGE, "cache: the %s is NULL", cache ? "information" : "cache");
    for (int i = 0; i < cache->count; i++) {
        const cache_file *file = &cache->files[i];
        if (!file->is_wanted || index-- != 0)
            continue;
        const store_counts counts = tuff__store_count(file->store);
        *info = (tuff_cache_file_info){.path = file->path,
                                       .environment = file->text,
                                       .device = file->environment.device,
                                       .driver = file->environment.driver,
                                       .error = tuff__store_error(file->store),
                                       .is_shipped = file->is_shipped,
                                       .bytes = counts.bytes,
                                       .shards = counts.shards,
                                       .damaged = counts.damaged,
                                       .unknown = counts.unknown,
                                       .newest = tuff__store_newest(file->store)};
        count_records(file->store, info);
        return TUFF_OK;
    }
    return FAIL(TUFF_E_USAGE, "cache: the file index is out of range");
}

void tuff__cache_fill_record(const tuff_cache *self, const tune_record *record, int file, tuff_cache_record *out)
{
    static const tuff_cache_kind kinds[] = {
        [RECORD_WIN] = TUFF_CACHE_WINNER, [RECORD_REJECTION] = TUFF_CACHE_REJECTED, [RECORD_PIN] = TUFF_CACHE_PIN};
    const char *environment = self ? tuff__cache_environment(self, record->environment) : NULL;
    *out = (tuff_cache_record){.kind = kinds[record->kind],
                               .key = record->op,
                               .environment = environment ? environment : "",
                               .candidate = record->candidate,
                               .samples = record->samples,
                               .default_nanoseconds = record->default_nanoseconds,
                               .gain = record->kind == RECORD_WIN ? tuff__record_gain(record) : 0,
                               .source = record->source,
                               .kernels = record->kernel_hash,
                               .library = record->library,
                               .reason = record->reason,
                               .phase = record->phase,
                               .time = record->time,
                               .file = self ? wanted_index(self, file) : 0};
    (void)tuff__hash_digits(record->key, 32, out->digits);
    memcpy(out->nanoseconds, record->nanoseconds, sizeof out->nanoseconds);
    for (int i = 0; i < RUNNERS_UP; i++)
        out->runners_up[i] = record->runners_up[i];
}

bool tuff_cache_next(const tuff_cache *cache, tuff_cache_cursor *at, tuff_cache_record *record)
{
    if (!cache || !at || !record || at->file < 0 || at->record < 0) {
        (void)FAIL(TUFF_E_USAGE, "cache: an iteration needs a cache, a cursor and a record");
        return false;
    }
    for (; at->file < cache->count; at->file++, at->record = 0) {
        const tune_record *found;
        if (!cache->files[at->file].is_wanted)
            continue;
        while ((found = tuff__store_next(cache->files[at->file].store, &at->record)))
            if (found->kind != RECORD_ENVIRONMENT) {
                tuff__cache_fill_record(cache, found, at->file, record);
                return true;
            }
    }
    return false;
}
