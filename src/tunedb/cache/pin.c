/* Pins: candidates that a user or a program sets for a key; and dropping records by key. */
#include <string.h>

#include "tunedb/cache/cache.h"
#include "kernels/config.h"
#include "tunedb/kernel_hash.h"

tuff_status tuff__cache_canonical_candidate(const char *source, text *out)
{
    tune_config parsed;
    TRY(tuff__config_parse(source, &parsed));
    tuff__config_format(&parsed, out);
    return tuff__text_status(out);
}

/* Returns the rejection that applies to the pin today. Rejections of other kernel texts and mere suspicions of a
   default do not count. */
static const tune_record *find_rejection(const tuff_cache *self, const tune_record *pin)
{
    tune_key key;
    char kernel_hash[KERNEL_HASH_SIZE];
    const bool is_valid_key = tuff__key_parse(pin->op, &key) == TUFF_OK;
    const char *const today = is_valid_key ? tuff__kernel_hash(key.family, kernel_hash) : NULL;
    return tuff__stores_rejection(self->lookup_stores, self->count, pin->environment, pin->key, pin->candidate, today);
}

tuff_status tuff__cache_pin_in(tuff_cache *self, const char *environment, const char *op, const char *candidate)
{
    tune_record pin = tuff__record_make(RECORD_PIN, environment, op, candidate);
    tune_environment parts;
    pin.reason = "user";
    const tune_record *rejection = find_rejection(self, &pin);
    if (rejection && tuff__environment_parse(environment, &parts) == TUFF_OK)
        return FAIL(TUFF_E_UNSUPPORTED, "cannot pin %s on %s: it was rejected there, %s in %s",
                    candidate[0] ? candidate : "default", parts.device, rejection->reason,
                    rejection->phase[0] ? rejection->phase : "use");
    return tuff__cache_add(self, environment, &pin);
}

/* Whether an earlier wanted file of the same environment knows the key. */
static bool has_earlier_file(const tuff_cache *self, int index, hash128 key)
{
    for (int i = 0; i < index; i++)
        if (self->files[i].is_wanted && strcmp(self->files[i].text, self->files[index].text) == 0 &&
            tuff__cache_file_has_key(&self->files[i], key))
            return true;
    return false;
}

/* Returns the position of a file, which changes when another one is added. */
static int find_file(const tuff_cache *self, const char *environment)
{
    int at = 0;
    while (self->files[at].text != environment)
        at++;
    return at;
}

tuff_status tuff__cache_pin_known(tuff_cache *self, const char *op, const char *candidate, pin_listener on_pin,
                                  void *state, int *count)
{
    const hash128 key = tuff__hash_text(op);
    *count = 0;
    for (int i = 0; i < self->count; i++) {
        const char *environment = self->files[i].text;
        const cache_file *file = &self->files[i];
        if (!file->is_wanted || !file->is_described || !tuff__cache_file_has_key(file, key) ||
            has_earlier_file(self, i, key))
            continue;
        TRY(tuff__cache_pin_in(self, environment, op, candidate));
        i = find_file(self, environment);
        if (on_pin)
            on_pin(&self->files[i], state);
        ++*count;
    }
    return TUFF_OK;
}

static bool is_key_selected(const cache_drop *self, const tune_record *record)
{
    if (self->environment && !tuff__is_same_hash(*self->environment, record->environment))
        return false;
    for (int i = 0; i < self->key_count; i++)
        if (tuff__is_same_hash(self->keys[i], record->key))
            return true;
    return false;
}

static bool is_to_be_dropped(const tune_record *record, void *state)
{
    cache_drop *self = state;
    const bool drop = record->kind == self->kind && is_key_selected(self, record);
    self->dropped += drop;
    return drop;
}

/* Whether records may be dropped from a file. If one environment is given, only its file counts, and the cache's filter
   is ignored. */
static bool may_drop_from(const cache_file *file, const cache_drop *self)
{
    const bool is_selected =
        self->environment ? tuff__is_same_hash(*self->environment, tuff__hash_text(file->text)) : file->is_wanted;
    return is_selected && !file->is_shipped;
}

/* Rewrites those of the user's stores that have such a record. */
tuff_status tuff__cache_drop_records(tuff_cache *self, cache_drop *request)
{
    for (int i = 0; i < self->count; i++) {
        const cache_file *file = &self->files[i];
        const tune_record *record;
        bool has_match = false;
        if (!may_drop_from(file, request))
            continue;
        if (tuff__store_error(file->store)[0])
            return FAIL(TUFF_E_IO, "%s", tuff__store_error(file->store));
        for (int at = 0; !has_match && (record = tuff__store_next(file->store, &at));)
            has_match = record->kind == request->kind && is_key_selected(request, record);
        if (has_match)
            TRY(tuff__store_compact(file->store, is_to_be_dropped, request));
    }
    return TUFF_OK;
}

tuff_status tuff__cache_hide_shipped(tuff_cache *self, cache_drop *request)
{
    for (int i = 0; i < self->count; i++) {
        const tune_store *store = self->files[i].store;
        const int before = self->count; /* added files are inserted before the shipped ones */
        const tune_record *record;
        if (!self->files[i].is_wanted || !self->files[i].is_shipped || !self->files[i].is_described)
            continue;
        for (int at = 0; (record = tuff__store_next(store, &at));) {
            if (record->kind != RECORD_WIN || !is_key_selected(request, record))
                continue;
            const char *environment = tuff__store_environment(store, record->environment);
            if (!environment)
                continue;
            tune_record seed = *record;
            seed.source = "seed";
            TRY(tuff__cache_add(self, environment, &seed));
            request->dropped++;
        }
        i += self->count - before;
    }
    return TUFF_OK;
}
