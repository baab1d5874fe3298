/* Programs at the front door: one for each different request, shared while somebody holds it; looked for in memory,
   then in the cache folder, then compiled. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "device/program_cache.h"
#include "device/state.h"

struct program {
    driver_program *driver;
    char *key;
    uint32_t references;
    program *next;
};

/* Raised whenever programs that an older tuff made must not be taken for today's. */
#define KEY_VERSION 1

/* Everything that the bytes of a program depend on. The kernel's text stands in it by its hash and its length. */
static char *key_text(const tuff_device *device, const program_request *request)
{
    text key = {0};
    size_t length = strlen(request->text);
    hash128 hash = tuff__hash(request->text, length);
    tuff__text_add(&key, "tuff %s, key %d, pointers of %zu bytes\n%s\n%s\n", tuff_version(), KEY_VERSION,
                   sizeof(void *), device->driver->name, device->driver->identity(device->handle));
    tuff__text_add(&key, "kernel %s, buffers %d, words %d, local size %lu, subgroup size %lu\n", request->name,
                   request->buffer_count, request->word_count, (unsigned long)request->local_size,
                   (unsigned long)request->subgroup_size);
    tuff__text_add(&key, "text %016llx%016llx of %zu bytes\n", (unsigned long long)hash.high,
                   (unsigned long long)hash.low, length);
    char *copy = tuff__text_status(&key) == TUFF_OK ? tuff__strdup(tuff__text_get(&key)) : NULL;
    tuff__text_free(&key);
    return copy;
}

static program *find(tuff_device *device, const char *key)
{
    program *shared = device->programs;
    while (shared && strcmp(shared->key, key) != 0)
        shared = shared->next;
    return shared;
}

/* One attempt; the blobs are as in driver.program_create. */
static tuff_status create(tuff_device *device, const program_request *request, blob cached, blob *made,
                          driver_program **out)
{
    const driver *calls = device->driver;
    if (device->compile_limit > 0)
        return tuff__create_watched(device, request, cached, made, out);
    tuff_status status = calls->program_create(device->handle, request, cached, made, out);
    if (tuff__pool_relieves(device, status))
        status = calls->program_create(device->handle, request, cached, made, out);
    return status;
}

/* False where the cache has nothing that the driver takes. */
static bool create_from_disk(tuff_device *device, const program_request *request, const char *key, driver_program **out)
{
    cache_key entry = {"program", key};
    blob cached, made = {0};
    if (!tuff__cache_load(entry, &cached))
        return false;
    tuff_status status = create(device, request, cached, &made, out);
    tuff__free(cached.data);
    tuff__free(made.data);
    if (status == TUFF_OK) {
        device->counters.programs_from_disk++;
        return true;
    }
    tuff__log(TUFF_LOG_WARNING, "kernel %s: the cached program is dropped: %s", request->name, tuff_error());
    tuff__cache_drop(entry);
    return false;
}

/* Whether the bytes of a program are worth their price: where that is another compilation, when the program was met
   before. */
static bool are_bytes_wanted(tuff_device *device, cache_key mark)
{
    const driver *calls = device->driver;
    blob nothing;
    if (!calls->is_binary_costly || !calls->is_binary_costly(device->handle))
        return true;
    bool seen = tuff__cache_load(mark, &nothing);
    tuff__free(nothing.data);
    return seen;
}

static tuff_status create_from_text(tuff_device *device, const program_request *request, const char *key,
                                    driver_program **out)
{
    const cache_key entry = {"program", key}, mark = {"seen", key};
    blob made = {0};
    bool wanted = are_bytes_wanted(device, mark);
    tuff_status status = create(device, request, (blob){0}, wanted ? &made : NULL, out);
    if (status == TUFF_OK) {
        device->counters.programs_compiled++;
        if (made.size > 0)
            tuff__cache_store(entry, made);
        else if (!wanted)
            tuff__cache_store(mark, made);
    }
    tuff__free(made.data);
    return status;
}

/* A program that is in nobody's memory yet; takes over key on success. */
static tuff_status make(tuff_device *device, const program_request *request, char *key, program **out)
{
    program *shared = tuff__calloc(1, sizeof *shared);
    if (!shared)
        return TUFF_E_OOM_HOST;
    tuff_status status = TUFF_OK;
    if (!create_from_disk(device, request, key, &shared->driver))
        status = device->is_stuck ? TUFF_E_DEVICE_LOST : create_from_text(device, request, key, &shared->driver);
    if (status != TUFF_OK) {
        tuff__free(shared);
        return status;
    }
    shared->key = key;
    shared->next = device->programs;
    device->programs = shared;
    *out = shared;
    return TUFF_OK;
}

static tuff_status check_request(const tuff_device *device, const program_request *request)
{
    if (!device->driver)
        return FAIL(TUFF_E_UNSUPPORTED, "the reference device takes no kernels");
    if (!request->name || !*request->name || !request->text)
        return FAIL(TUFF_E_USAGE, "a kernel needs a name and a text");
    if (request->buffer_count < 0 || (uint32_t)request->buffer_count > device->info.max_bindings ||
        request->buffer_count > MAX_BINDINGS)
        return FAIL(TUFF_E_LIMIT, "kernel %s: %d buffers; %s binds %lu", request->name, request->buffer_count,
                    device->info.selector, (unsigned long)device->info.max_bindings);
    if (request->word_count < 0 || request->word_count > MAX_WORDS)
        return FAIL(TUFF_E_LIMIT, "kernel %s: %d words; at most %d", request->name, request->word_count, MAX_WORDS);
    if (request->local_size == 0 || request->local_size > device->info.max_group_size)
        return FAIL(TUFF_E_LIMIT, "kernel %s: groups of %lu; %s has 1 to %lu", request->name,
                    (unsigned long)request->local_size, device->info.selector,
                    (unsigned long)device->info.max_group_size);
    return TUFF_OK;
}

tuff_status tuff__program_get(tuff_device *device, const program_request *request, program **out)
{
    *out = NULL;
    TRY(check_request(device, request));
    TRY(tuff__device_begin(device));
    tuff_status status = TUFF_OK;
    char *key = key_text(device, request);
    program *shared = key ? find(device, key) : NULL;
    if (!key) {
        status = TUFF_E_OOM_HOST;
    } else if (!shared) {
        status = make(device, request, key, &shared);
        if (status == TUFF_OK)
            key = NULL;
    }
    if (status == TUFF_OK) {
        shared->references++;
        *out = shared;
    }
    tuff__free(key);
    return tuff__device_end(device, status);
}

bool tuff__program_is_loaded(tuff_device *device, const program_request *request)
{
    if (tuff__device_begin(device) != TUFF_OK)
        return false;
    char *key = device->driver ? key_text(device, request) : NULL;
    const bool found = key && find(device, key);
    tuff__free(key);
    (void)tuff__device_end(device, TUFF_OK);
    return found;
}

void tuff__program_release(tuff_device *device, program *shared)
{
    if (!shared)
        return;
    tuff__lock(&device->lock);
    if (--shared->references == 0) {
        struct program **at = &device->programs;
        while (*at != shared)
            at = &(*at)->next;
        *at = shared->next;
        device->driver->program_destroy(device->handle, shared->driver);
        tuff__free(shared->key);
        tuff__free(shared);
    }
    tuff__unlock(&device->lock);
}

driver_program *tuff__program_driver(program *shared)
{
    return shared->driver;
}
