/* struct tuff_cache: all stores of this machine, opened; looks up and adds records. The public functions of
   tuff/cache.h that need a device or a plan are in api/cache.c. */
#include "tunedb/cache/cache.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/config.h"
#include "tunedb/kernel_hash.h"
#include "search/portfolio.h"
#include "tunedb/store_state.h"

bool tuff__text_contains(const char *whole, const char *part)
{
    const size_t length = strlen(part);
    for (; *whole; whole++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)whole[i]) == tolower((unsigned char)part[i]))
            i++;
        if (i == length)
            return true;
    }
    return length == 0;
}

/* Returns the length of the driver's name in a text such as "opencl:intel"; 0 if it does not begin with one. */
static size_t driver_prefix(const char *wanted)
{
    static const char *const drivers[] = {
#define DRIVER(name, option, api, kernels) #name,
#include "device/drivers.def"
#undef DRIVER
    };
    const char *colon = strchr(wanted, ':');
    const size_t length = colon ? (size_t)(colon - wanted) : 0;
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (length == strlen(drivers[i]) && strncmp(wanted, drivers[i], length) == 0)
            return length;
    return 0;
}

bool tuff__cache_is_wanted(const char *wanted, const char *name, const char *environment)
{
    if (!wanted)
        return true;
    const size_t prefix = driver_prefix(wanted);
    if (prefix > 0)
        return strncmp(environment, wanted, prefix) == 0 && tuff__text_contains(environment, wanted + prefix + 1);
    return tuff__text_contains(name, wanted) || tuff__text_contains(environment, wanted);
}

/* Returns the first environment that the file describes, which is taken as the file's environment. */
static const char *find_description(const tune_store *store, tune_environment *out)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(store, &at));)
        if (record->kind == RECORD_ENVIRONMENT && tuff__environment_parse(record->op, out) == TUFF_OK)
            return record->op;
    return NULL;
}

/* Makes room for one more file. The plain list gets the same capacity, so that adding a file to both cannot fail
   halfway. */
static bool make_room(tuff_cache *self)
{
    if (!GROW(self->files, self->count, self->capacity))
        return false;
    if (self->lookup_capacity >= self->capacity)
        return true;
    const tune_store **longer =
        tuff__realloc_array((void *)self->lookup_stores, (size_t)self->capacity, sizeof *self->lookup_stores);
    if (!longer)
        return false;
    self->lookup_stores = longer;
    self->lookup_capacity = self->capacity;
    return true;
}

/* Inserts an open store at position `at`. The cache owns the store from here on, even if memory runs out. environment:
   used if the file describes none; may be NULL. */
static tuff_status add_file(tuff_cache *self, tune_store *store, const char *path, bool is_shipped,
                            const char *environment, int at)
{
    cache_file file = {.store = store, .is_shipped = is_shipped};
    const char *found = find_description(store, &file.environment);
    if (!found && environment && tuff__environment_parse(environment, &file.environment) == TUFF_OK)
        found = environment;
    file.is_described = found != NULL;
    file.path = tuff__strdup(path);
    file.text = tuff__strdup(found ? found : "");
    if (!file.path || !file.text || !make_room(self)) {
        tuff__store_close(store);
        tuff__free(file.path);
        tuff__free(file.text);
        return TUFF_E_OOM_HOST;
    }
    const char *slash = strrchr(file.path, '/');
    file.name = slash ? slash + 1 : file.path;
    file.is_wanted = tuff__cache_is_wanted(self->wanted, file.name, file.text);
    memmove(&self->files[at + 1], &self->files[at], (size_t)(self->count - at) * sizeof *self->files);
    self->files[at] = file;
    self->count++;
    for (int i = 0; i < self->count; i++)
        self->lookup_stores[i] = self->files[i].store;
    return TUFF_OK;
}

/* Opens a file. A shipped file that cannot be read is replaced by an empty store that has the error. */
static tuff_status open_file(const char *path, bool is_shipped, void *state)
{
    tuff_cache *self = state;
    tune_store *store = NULL;
    tuff_status status = is_shipped ? tuff__store_load_shipped(path, &store) : tuff__store_open(path, &store);
    if (status == TUFF_E_IO || status == TUFF_E_LIMIT) {
        char why[TUFF_ERROR_SIZE];
        (void)snprintf(why, sizeof why, "%s", tuff_error());
        status = tuff__store_open(NULL, &store);
        if (status == TUFF_OK)
            tuff__store_set_error(store, why);
    }
    TRY(status);
    return add_file(self, store, path, is_shipped, NULL, self->count);
}

tuff_status tuff__cache_open(const char *wanted, tuff_cache **out)
{
    tuff_cache *self = tuff__calloc(1, sizeof *self);
    *out = NULL;
    if (!self)
        return TUFF_E_OOM_HOST;
    self->wanted = wanted ? tuff__strdup(wanted) : NULL;
    tuff_status status = wanted && !self->wanted ? TUFF_E_OOM_HOST : tuff__tune_visit_stores(open_file, self);
    if (status != TUFF_OK) {
        tuff_cache_close(self);
        return status;
    }
    *out = self;
    return TUFF_OK;
}

void tuff_cache_close(tuff_cache *cache)
{
    if (!cache)
        return;
    for (int i = 0; i < cache->count; i++) {
        tuff__store_close(cache->files[i].store);
        tuff__free(cache->files[i].path);
        tuff__free(cache->files[i].text);
    }
    tuff__free(cache->files);
    tuff__free((void *)cache->lookup_stores);
    tuff__free(cache->wanted);
    tuff__free(cache->local_devices);
    tuff__free(cache);
}

bool tuff__cache_record_is_wanted(const char *wanted, const tune_store *store, const tune_record *record)
{
    const char *environment = tuff__store_environment(store, record->environment);
    return !wanted || (environment && tuff__cache_is_wanted(wanted, "", environment));
}

const char *tuff__cache_environment(const tuff_cache *self, hash128 environment)
{
    const char *found = NULL;
    for (int i = 0; i < self->count && !found; i++)
        found = tuff__store_environment(self->files[i].store, environment);
    return found;
}

likeness tuff__cache_likeness(const tuff_cache *self, const tune_environment *environment, bool with_stores)
{
    likeness best = LIKENESS_NONE;
    for (int i = 0; i < self->local_device_count; i++) {
        const likeness found = tuff__environment_compare(&self->local_devices[i], environment);
        best = found < best ? found : best;
    }
    for (int i = 0; with_stores && i < self->count; i++) {
        const cache_file *file = &self->files[i];
        if (file->is_shipped || !file->is_described)
            continue;
        const likeness found = tuff__environment_compare(&file->environment, environment);
        best = found < best ? found : best;
    }
    return best;
}

tuff_status tuff__cache_own_file(tuff_cache *self, const char *environment, cache_file **out)
{
    char name[STORE_NAME_SIZE];
    tune_store *store;
    int at = 0;
    (void)tuff__tune_store_name(environment, name);
    for (; at < self->count && !self->files[at].is_shipped; at++)
        if (strcmp(self->files[at].name, name) == 0) {
            *out = &self->files[at];
            return tuff__store_set_environment(self->files[at].store, environment);
        }
    TRY(tuff__tune_open(environment, &store));
    if (!tuff__store_file(store)[0]) {
        const tuff_status status = FAIL(TUFF_E_IO, "%s", tuff__store_error(store));
        tuff__store_close(store);
        return status;
    }
    TRY(add_file(self, store, tuff__store_file(store), false, environment, at));
    *out = &self->files[at];
    return TUFF_OK;
}

tuff_status tuff__cache_add(tuff_cache *self, const char *environment, const tune_record *record)
{
    cache_file *file;
    TRY(tuff__cache_own_file(self, environment, &file));
    const char *error = tuff__store_error(file->store);
    if (!error[0])
        TRY(tuff__store_add(file->store, record));
    error = tuff__store_error(file->store);
    return error[0] ? FAIL(TUFF_E_IO, "%s", error) : TUFF_OK;
}

bool tuff__cache_file_has_key(const cache_file *file, hash128 key)
{
    const tune_record *record;
    for (int at = 0; (record = tuff__store_next(file->store, &at));)
        if (record->kind != RECORD_ENVIRONMENT && tuff__is_same_hash(record->key, key))
            return true;
    return false;
}

static bool is_usable(const char *candidate, void *state)
{
    tune_config parsed;
    (void)state;
    return tuff__config_parse(candidate, &parsed) == TUFF_OK;
}

tuff_status tuff__cache_lookup(const tuff_cache *self, const tune_environment *environment, const char *op,
                               tune_lookup_result *out)
{
    tune_key key;
    char kernel_hash[KERNEL_HASH_SIZE];
    const char *const *portfolio = NULL;
    TRY(tuff__key_parse(op, &key));
    const int portfolio_count = tuff__portfolio_for_environment(environment, key.family, &portfolio);
    tuff__tune_lookup(&(tune_lookup_request){.key = &key,
                                             .environment = environment,
                                             .kernel_hash = tuff__kernel_hash(key.family, kernel_hash),
                                             .stores = self->lookup_stores,
                                             .store_count = self->count,
                                             .portfolio = portfolio,
                                             .portfolio_count = portfolio_count,
                                             .is_usable = is_usable},
                      out);
    return TUFF_OK;
}

const char *tuff__hash_digits(hash128 hash, int count, char *buffer)
{
    (void)snprintf(buffer, 33, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
    buffer[count < 32 ? count : 32] = 0;
    return buffer;
}

double tuff__record_gain(const tune_record *win)
{
    return win->nanoseconds[1] > 0 ? (double)win->default_nanoseconds / (double)win->nanoseconds[1] : 0;
}

uint64_t tuff__store_newest(const tune_store *store)
{
    const tune_record *record;
    uint64_t newest = 0;
    for (int at = 0; (record = tuff__store_next(store, &at));)
        newest = record->time > newest ? record->time : newest;
    return newest;
}
