/* tuff_cache_merge: merges the exported files of several machines into one. Of two winners of the same key and
   environment, the one with the better evidence is kept. */
#include <string.h>

#include "base/file/file.h"
#include "tunedb/cache/cache.h"

typedef struct merge_context {
    tune_store *out;
    const char *wanted;
    text unknown; /* lines of later versions */
    conflict_listener on_conflict;
    void *state;
    tuff_cache_merged *counts;
} merge_context;

/* Whether a has better evidence than b: measured where it is used, or with far more samples, or later. Further criteria
   make the result independent of the order of the files. */
static bool is_better(const tune_record *a, const tune_record *b)
{
    if (tuff__record_is_foreign(a, b) || tuff__record_is_foreign(b, a))
        return tuff__record_is_foreign(b, a);
    if (tuff__record_is_weaker(a, b) || tuff__record_is_weaker(b, a))
        return !tuff__record_is_weaker(a, b);
    if (a->time != b->time)
        return a->time > b->time;
    if (a->samples != b->samples)
        return a->samples > b->samples;
    if (a->nanoseconds[1] != b->nanoseconds[1])
        return a->nanoseconds[1] < b->nanoseconds[1];
    return strcmp(a->candidate, b->candidate) < 0;
}

static tuff_status merge_record(merge_context *self, const tune_record *record)
{
    const tune_record *existing = tuff__store_superseded(self->out, record);
    if (record->kind == RECORD_ENVIRONMENT && existing)
        return TUFF_OK;
    if (!existing)
        return tuff__store_add(self->out, record);
    const bool better = is_better(record, existing);
    if (record->kind != RECORD_REJECTION && strcmp(record->candidate, existing->candidate) != 0) {
        self->counts->conflicts++;
        if (self->on_conflict)
            self->on_conflict(better ? record : existing, better ? existing : record, self->state);
    }
    return better ? tuff__store_add(self->out, record) : TUFF_OK;
}

static tuff_status merge_file(merge_context *self, const char *path)
{
    tune_store *from = NULL;
    const tune_record *record;
    TRY(tuff__store_load(path, &from));
    tuff_status status = TUFF_OK;
    for (int at = 0; status == TUFF_OK && (record = tuff__store_next(from, &at));)
        if (tuff__cache_record_is_wanted(self->wanted, from, record))
            status = merge_record(self, record);
    const char *unknown = tuff__store_unknown(from);
    tuff__text_add_bytes(&self->unknown, unknown, strlen(unknown));
    self->counts->damaged += tuff__store_count(from).damaged;
    tuff__store_close(from);
    return status == TUFF_OK ? tuff__text_status(&self->unknown) : status;
}

static tuff_status write_merged(merge_context *self, const char *path)
{
    text lines = {0};
    const tune_record *record;
    tuff_status status = TUFF_OK;
    for (int at = 0; status == TUFF_OK && (record = tuff__store_next(self->out, &at));) {
        self->counts->winners += record->kind == RECORD_WIN;
        status = tuff__record_write(record, &lines);
    }
    tuff__text_add_bytes(&lines, tuff__text_get(&self->unknown), self->unknown.length);
    const file_part part = {tuff__text_get(&lines), lines.length};
    if (status == TUFF_OK)
        status = tuff__text_status(&lines);
    if (status == TUFF_OK)
        status = tuff__file_write(path, &part, 1, true, false);
    tuff__text_free(&lines);
    return status;
}

tuff_status tuff__cache_merge(const char *const *paths, int count, const char *wanted, const char *out,
                              conflict_listener on_conflict, void *state, tuff_cache_merged *counts)
{
    merge_context self = {.wanted = wanted, .on_conflict = on_conflict, .state = state, .counts = counts};
    *counts = (tuff_cache_merged){0};
    tuff_status status = tuff__store_open(NULL, &self.out);
    for (int i = 0; i < count && status == TUFF_OK; i++)
        status = merge_file(&self, paths[i]);
    if (status == TUFF_OK)
        status = write_merged(&self, out);
    tuff__text_free(&self.unknown);
    tuff__store_close(self.out);
    return status;
}

typedef struct conflict_adapter {
    tuff_cache_conflict conflict;
    void *user;
} conflict_adapter;

static void forward_conflict(const tune_record *kept, const tune_record *left_out, void *state)
{
    const conflict_adapter *adapter = state;
    tuff_cache_record records[2];
    tuff__cache_fill_record(NULL, kept, 0, &records[0]);
    tuff__cache_fill_record(NULL, left_out, 0, &records[1]);
    adapter->conflict(adapter->user, &records[0], &records[1]);
}

tuff_status tuff_cache_merge(const char *const *paths, int count, const char *out, tuff_cache_conflict conflict,
                             void *user, tuff_cache_merged *counts)
{
    conflict_adapter adapter = {conflict, user};
    tuff_cache_merged unused;
    bool complete = paths && count > 0 && out;
    for (int i = 0; complete && i < count; i++)
        complete = paths[i] != NULL;
    if (!complete)
        return FAIL(TUFF_E_USAGE, "cache: merging needs at least one input file and an output path");
    return tuff__cache_merge(paths, count, NULL, out, conflict ? forward_conflict : NULL, &adapter,
                             counts ? counts : &unused);
}
