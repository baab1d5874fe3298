/* Export and import: writes the wanted records to one file for another machine, or as a manifest of pins, and reads
   such files. */
#include <string.h>
#include <time.h>

#include "base/file/file.h"
#include "tunedb/cache/cache.h"
#include "tunedb/kernel_hash.h"

typedef struct export_context {
    tuff_cache_export_kind form;
    text *lines;
    tuff_cache_exported *counts;
} export_context;

static tuff_status write_record(export_context *to, const tune_record *record)
{
    enum { DAY = 24 * 60 * 60 };
    tune_record copy = *record;
    if (to->form == TUFF_CACHE_EXPORT_ANONYMOUS)
        copy.time -= copy.time % DAY;
    to->counts->winners += record->kind == RECORD_WIN;
    to->counts->rejected += record->kind == RECORD_REJECTION;
    to->counts->pins += record->kind == RECORD_PIN;
    to->counts->environments += record->kind == RECORD_ENVIRONMENT;
    return tuff__record_write(&copy, to->lines);
}

/* Exports a store. Anonymous exports leave out pins, which are one person's choice and whose "user" may become a real
   name one day, and lines of later versions, which may contain anything. */
static tuff_status export_store(export_context *to, const tune_store *store)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store, &at));)
        if (to->form != TUFF_CACHE_EXPORT_ANONYMOUS || record->kind != RECORD_PIN)
            TRY(write_record(to, record));
    const char *unknown = tuff__store_unknown(store);
    if (to->form != TUFF_CACHE_EXPORT_ANONYMOUS)
        tuff__text_add_bytes(to->lines, unknown, strlen(unknown));
    return TUFF_OK;
}

/* Whether a record decides what its key runs with, rather than where a search starts. */
static bool decides_choice(const tune_record *record)
{
    return record->kind == RECORD_PIN || (record->kind == RECORD_WIN && !tuff__record_is_seed(record));
}

/* Returns the hash of the texts that the record's family has today, or NULL if its key cannot be read. */
static const char *todays_kernels(const tune_record *record, char *out)
{
    tune_key key;
    return tuff__key_parse(record->op, &key) == TUFF_OK ? tuff__kernel_hash(key.family, out) : NULL;
}

/* Whether an earlier wanted store decides what the key runs with in this environment. */
static bool is_locked_earlier(const tuff_cache *self, int index, const tune_record *record, const char *kernels)
{
    for (int i = 0; i < index; i++) {
        const tune_store *store = self->files[i].store;
        const tune_record *win = tuff__store_winner(store, record->environment, record->key, kernels);
        const bool is_pinned = tuff__store_pin(store, record->environment, record->key) != NULL;
        if (self->files[i].is_wanted && (is_pinned || (win && decides_choice(win))))
            return true;
    }
    return false;
}

/* Looks up what a record's key runs with today: its pin, its winner, or a runner-up of a winner that was rejected.
   Returns false if no candidate that was measured for these kernels may run. */
static bool find_choice(const tuff_cache *self, const tune_store *store, const tune_record *record,
                        tune_lookup_result *out)
{
    tune_environment parts;
    const char *environment = tuff__store_environment(store, record->environment);
    return environment && tuff__environment_parse(environment, &parts) == TUFF_OK &&
           tuff__cache_lookup(self, &parts, record->op, out) == TUFF_OK && out->tier <= TIER_SAME;
}

static tuff_status lock_key(export_context *to, const tuff_cache *self, const tune_store *store,
                            const tune_record *record)
{
    char kernel_hash[KERNEL_HASH_SIZE];
    tune_key key;
    tune_lookup_result result;
    tune_record pin = *record;
    if (!find_choice(self, store, record, &result) || tuff__key_parse(record->op, &key) != TUFF_OK) {
        to->counts->left_out++;
        return TUFF_OK;
    }
    pin.kernel_hash = tuff__kernel_hash(key.family, kernel_hash);
    pin.kind = RECORD_PIN;
    pin.candidate = result.candidate;
    pin.reason = "lock";
    pin.phase = "";
    return write_record(to, &pin);
}

/* Adds a store to a manifest, which consists of pins only: for every key with a pin or a winner, what it runs with. */
static tuff_status lock_store(export_context *to, const tuff_cache *self, int index)
{
    const tune_store *store = self->files[index].store;
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store, &at));) {
        char kernel_hash[KERNEL_HASH_SIZE];
        const char *kernels =
            record->kind == RECORD_WIN || record->kind == RECORD_PIN ? todays_kernels(record, kernel_hash) : NULL;
        const bool is_pinned = tuff__store_pin(store, record->environment, record->key) != NULL;
        const bool is_newest = record->kind == RECORD_PIN ||
                               tuff__store_winner(store, record->environment, record->key, kernels) == record;
        const bool is_chosen = decides_choice(record) && is_newest && (record->kind == RECORD_PIN || !is_pinned);
        if (record->kind == RECORD_ENVIRONMENT)
            TRY(write_record(to, record));
        else if (is_chosen && !is_locked_earlier(self, index, record, kernels))
            TRY(lock_key(to, self, store, record));
    }
    return TUFF_OK;
}

tuff_status tuff__cache_export_text(const tuff_cache *self, tuff_cache_export_kind form, text *out,
                                    tuff_cache_exported *counts)
{
    export_context to = {form, out, counts};
    *counts = (tuff_cache_exported){0};
    for (int i = 0; i < self->count; i++) {
        const cache_file *file = &self->files[i];
        if (file->is_wanted && form == TUFF_CACHE_EXPORT_MANIFEST)
            TRY(lock_store(&to, self, i));
        else if (file->is_wanted && !file->is_shipped)
            TRY(export_store(&to, file->store));
    }
    return tuff__text_status(out);
}

tuff_status tuff_cache_export(const tuff_cache *cache, const char *path, tuff_cache_export_kind form,
                              tuff_cache_exported *counts)
{
    tuff_cache_exported unused;
    text lines = {0};
    if (!cache || !path || (unsigned)form > TUFF_CACHE_EXPORT_MANIFEST)
        return FAIL(TUFF_E_USAGE, "cache: an export needs a cache, a path and a valid kind");
    tuff_status status = tuff__cache_export_text(cache, form, &lines, counts ? counts : &unused);
    const file_part part = {tuff__text_get(&lines), lines.length};
    if (status == TUFF_OK)
        status = tuff__file_write(path, &part, 1, true, false);
    tuff__text_free(&lines);
    return status;
}

/* An environment of the file, and its likeness to what is known here before anything is imported. */
typedef struct file_environment {
    hash128 hash;
    const char *source; /* its text, from the file or from one of the user's stores; NULL if unknown */
    likeness like;
} file_environment;

typedef struct import_context {
    tuff_cache *into;
    tune_store *from;
    bool as_seed;
    tuff_cache_imported *counts;
    file_environment *all;
    int count, capacity;
} import_context;

/* Whether the user's record of the same key is to be kept. */
static bool is_kept(const tune_store *here, const tune_record *record)
{
    const tune_record *known = tuff__store_superseded(here, record);
    if (record->kind == RECORD_PIN)
        return known && known->time >= record->time;
    if (record->kind == RECORD_REJECTION)
        return known != NULL;
    return known &&
           (tuff__record_is_seed(record) || known->time >= record->time || tuff__record_is_weaker(record, known));
}

/* A candidate that was rejected elsewhere is rejected here too, but must not count as one of today's crashes, which
   would end measuring here. So its time is at least a day in the past. */
static uint64_t backdate_rejection(const tune_record *record)
{
    enum { DAY = 24 * 60 * 60 };
    const uint64_t before = (uint64_t)time(NULL) - DAY - 1;
    return record->time < before ? record->time : before;
}

static tuff_status import_record(import_context *self, const file_environment *where, const tune_record *record)
{
    tune_record copy = *record;
    cache_file *to;
    if (record->kind == RECORD_ENVIRONMENT || (self->as_seed && record->kind != RECORD_WIN))
        return TUFF_OK;
    if (record->kind == RECORD_WIN && !tuff__record_is_seed(record))
        copy.source = self->as_seed ? "seed" : "import";
    if (record->kind == RECORD_REJECTION)
        copy.time = backdate_rejection(record);
    TRY(tuff__cache_own_file(self->into, where->source, &to));
    if (is_kept(to->store, &copy)) {
        self->counts->skipped++;
        return TUFF_OK;
    }
    TRY(tuff__cache_add(self->into, where->source, &copy));
    const bool is_own = where->like == LIKENESS_SAME && !self->as_seed;
    self->counts->imported += is_own;
    self->counts->other_devices += !is_own && where->like > LIKENESS_OTHER_DRIVER;
    self->counts->seeds += !is_own && where->like <= LIKENESS_OTHER_DRIVER;
    return TUFF_OK;
}

/* Imports all records of one environment into the user's store of it. */
static tuff_status import_environment(import_context *self, const file_environment *where)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(self->from, &at));) {
        if (record->kind == RECORD_ENVIRONMENT || !tuff__is_same_hash(record->environment, where->hash))
            continue;
        self->counts->unknown_environments += where->source == NULL;
        if (where->source && tuff__cache_is_wanted(self->into->wanted, "", where->source))
            TRY(import_record(self, where, record));
    }
    return TUFF_OK;
}

static bool is_listed(const import_context *self, hash128 environment)
{
    for (int i = 0; i < self->count; i++)
        if (tuff__is_same_hash(self->all[i].hash, environment))
            return true;
    return false;
}

/* Lists the environments of the file. If the line that describes one was damaged, a store here may know its text. */
static tuff_status list_environments(import_context *self)
{
    const tune_record *record;
    tune_environment parts;
    for (int at = 0; (record = tuff__store_next(self->from, &at));) {
        if (record->kind == RECORD_ENVIRONMENT || is_listed(self, record->environment))
            continue;
        if (!GROW(self->all, self->count, self->capacity))
            return TUFF_E_OOM_HOST;
        file_environment *one = &self->all[self->count++];
        *one = (file_environment){record->environment, tuff__store_environment(self->from, record->environment),
                                  LIKENESS_NONE};
        if (!one->source)
            one->source = tuff__cache_environment(self->into, record->environment);
        if (one->source && tuff__environment_parse(one->source, &parts) != TUFF_OK)
            one->source = NULL;
        if (one->source)
            one->like = tuff__cache_likeness(self->into, &parts, true);
    }
    return TUFF_OK;
}

tuff_status tuff__cache_import(tuff_cache *cache, const char *path, bool as_seed, tuff_cache_imported *counts)
{
    import_context self = {.into = cache, .as_seed = as_seed, .counts = counts};
    *counts = (tuff_cache_imported){0};
    TRY(tuff__store_load(path, &self.from));
    const store_counts found = tuff__store_count(self.from);
    counts->damaged = found.damaged;
    counts->unknown = found.unknown;
    tuff_status status = list_environments(&self);
    for (int i = 0; i < self.count && status == TUFF_OK; i++)
        status = import_environment(&self, &self.all[i]);
    tuff__store_close(self.from);
    tuff__free(self.all);
    return status;
}
