/* Programs: one for each distinct request, shared while it is referenced; looked up in memory, then in the cache
   folder, then compiled. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/text.h"
#include "device/cache/program_cache.h"
#include "device/state.h"

struct program {
    driver_program *driver;
    char *key;
    uint32_t references;
    bool is_from_disk;
    bool is_unstored; /* compiled here; its bytes were not stored yet */
    bool was_seen;    /* by an earlier process, which stored no bytes either */
    program *next;
};

/* Raised when programs made by an older tuff must no longer be used. */
#define KEY_VERSION 1

/* Returns a text of everything that the bytes of a program depend on. The kernel's text is represented by its hash and
   length. */
static char *key_text(const tuff_device *device, const program_request *request)
{
    text key = {0};
    size_t length = strlen(request->text);
    hash128 hash = tuff__hash(request->text, length);
    tuff__text_add(&key, "tuff %s, key %d, pointers of %zu bytes\n%s\n%s\n", tuff_version(), KEY_VERSION,
                   sizeof(void *), device->driver->name, device->driver->identity(device->handle));
    tuff__text_add(&key, "options %s\n", device->driver->build_options(device->handle));
    tuff__text_add(&key, "kernel %s, buffers %d, words %d, local size %lu, subgroup size %lu\n", request->name,
                   request->buffer_count, request->word_count, (unsigned long)request->local_size,
                   (unsigned long)request->subgroup_size);
    tuff__text_add(&key, "text %016llx%016llx of %zu bytes\n", (unsigned long long)hash.high,
                   (unsigned long long)hash.low, length);
    char *copy = tuff__text_status(&key) == TUFF_OK ? tuff__strdup(tuff__text_get(&key)) : NULL;
    tuff__text_free(&key);
    return copy;
}

static program *find_program(tuff_device *device, const char *key)
{
    program *shared = device->programs;
    while (shared && strcmp(shared->key, key) != 0)
        shared = shared->next;
    return shared;
}

/* A program that is being made. */
typedef struct program_build {
    tuff_device *device;
    const program_request *request;
    char *key;
    bool costly;             /* getting its bytes would cost a compilation */
    bool is_unlocked;        /* is made without the device's lock */
    _Atomic uint64_t *begun; /* is_unlocked: if not NULL, another thread may give up: see tuff__create_concurrently */
} program_build;

/* Makes one attempt; the blobs are as in driver.program_create. */
static tuff_status create(const program_build *self, blob cached, blob *made, driver_program **out)
{
    tuff_device *device = self->device;
    const driver *calls = device->driver;
    if (self->begun)
        return tuff__create_concurrently(device, self->request, cached, self->begun, made, out);
    if (self->is_unlocked)
        return calls->program_create(device->handle, self->request, cached, made, out);
    if (device->compile_limit > 0)
        return tuff__create_with_deadline(device, self->request, cached, made, out);
    tuff_status status = calls->program_create(device->handle, self->request, cached, made, out);
    if (tuff__pool_reclaim(device, status))
        status = calls->program_create(device->handle, self->request, cached, made, out);
    return status;
}

/* Returns TUFF_E_COMPILE if the cache has nothing that the driver accepts. */
static tuff_status create_from_disk(const program_build *self, program *shared)
{
    cache_key entry = {"program", self->key};
    blob cached, made = {0};
    if (!tuff__program_cache_load(entry, &cached))
        return TUFF_E_COMPILE;
    const tuff_status status = create(self, cached, &made, &shared->driver);
    tuff__free(cached.data);
    tuff__free(made.data);
    shared->is_from_disk = status == TUFF_OK;
    /* These failures say nothing about the bytes, so the entry stays. */
    if (status == TUFF_OK || status == TUFF_E_OOM_HOST || status == TUFF_E_OOM_DEVICE || status == TUFF_E_DEVICE_LOST)
        return status;
    tuff__log(TUFF_LOG_WARNING, "kernel %s: discarding the cached program: %s", self->request->name, tuff_error());
    tuff__program_cache_drop(entry);
    return TUFF_E_COMPILE;
}

static bool are_bytes_costly(tuff_device *device)
{
    const driver *calls = device->driver;
    return calls->is_binary_costly && calls->is_binary_costly(device->handle);
}

/* Whether an earlier process compiled this program, of a driver with costly bytes; marks it as compiled. */
static bool mark_seen(const char *key)
{
    const cache_key mark = {"seen", key};
    blob empty;
    const bool is_known = tuff__program_cache_load(mark, &empty);
    if (!is_known)
        tuff__program_cache_store(mark, (blob){0});
    tuff__free(empty.data);
    return is_known;
}

static tuff_status create_from_text(const program_build *self, program *shared)
{
    blob made = {0};
    const tuff_status status = create(self, (blob){0}, self->costly ? NULL : &made, &shared->driver);
    if (status == TUFF_OK) {
        if (made.size > 0)
            tuff__program_cache_store((cache_key){"program", self->key}, made);
        shared->is_unstored = self->costly;
        shared->was_seen = self->costly && mark_seen(self->key);
    }
    tuff__free(made.data);
    return status;
}

/* Makes a program that is not in memory, and does not list it; takes over the key on success. */
static tuff_status build_program(program_build *self, program **out)
{
    program *shared = tuff__calloc(1, sizeof *shared);
    if (!shared)
        return TUFF_E_OOM_HOST;
    tuff_status status = create_from_disk(self, shared);
    if (status == TUFF_E_COMPILE)
        status = create_from_text(self, shared);
    if (status != TUFF_OK) {
        tuff__free(shared);
        return status;
    }
    shared->key = self->key;
    self->key = NULL;
    *out = shared;
    return TUFF_OK;
}

static void add_to_list(tuff_device *device, program *shared)
{
    shared->next = device->programs;
    device->programs = shared;
    if (shared->is_from_disk)
        device->counters.programs_from_disk++;
    else
        device->counters.programs_compiled++;
}

static void destroy(tuff_device *device, program *compiled_program)
{
    device->driver->program_destroy(device->handle, compiled_program->driver);
    tuff__free(compiled_program->key);
    tuff__free(compiled_program);
}

static tuff_status check_request(const tuff_device *device, const program_request *request)
{
    if (!device->driver)
        return FAIL(TUFF_E_UNSUPPORTED, "the reference device does not support kernels");
    if (!request->name || !*request->name || !request->text)
        return FAIL(TUFF_E_USAGE, "a kernel needs a name and a text");
    if (request->buffer_count < 0 || (uint32_t)request->buffer_count > device->info.max_bindings ||
        request->buffer_count > MAX_BINDINGS)
        return FAIL(TUFF_E_LIMIT, "kernel %s: %d buffers; %s supports at most %lu", request->name,
                    request->buffer_count, device->info.selector, (unsigned long)device->info.max_bindings);
    if (request->word_count < 0 || request->word_count > MAX_WORDS)
        return FAIL(TUFF_E_LIMIT, "kernel %s: %d words; at most %d are allowed", request->name, request->word_count,
                    MAX_WORDS);
    if (request->local_size == 0 || request->local_size > device->info.max_group_size)
        return FAIL(TUFF_E_LIMIT, "kernel %s: groups of %lu items; %s supports 1 to %lu", request->name,
                    (unsigned long)request->local_size, device->info.selector,
                    (unsigned long)device->info.max_group_size);
    return TUFF_OK;
}

/* Looks the program up in memory: *out gets a new reference, or NULL if the program must be made. Lock held. */
static tuff_status begin_build(program_build *self, program **out)
{
    self->key = key_text(self->device, self->request);
    if (!self->key)
        return TUFF_E_OOM_HOST;
    self->costly = are_bytes_costly(self->device);
    *out = find_program(self->device, self->key);
    if (*out)
        (*out)->references++;
    return TUFF_OK;
}

tuff_status tuff__program_get(tuff_device *device, const program_request *request, program **out)
{
    program_build self = {.device = device, .request = request};
    *out = NULL;
    TRY(check_request(device, request));
    TRY(tuff__device_begin(device));
    tuff_status status = begin_build(&self, out);
    if (status == TUFF_OK && !*out) {
        status = build_program(&self, out);
        if (status == TUFF_OK) {
            add_to_list(device, *out);
            (*out)->references++;
        }
    }
    tuff__free(self.key);
    return tuff__device_end(device, status);
}

/* Shares a program that was made without the lock, or the same one if another thread made it meanwhile. */
static tuff_status publish_program(tuff_device *device, program *made, program **out)
{
    tuff__lock(&device->lock);
    program *same = device->lost ? NULL : find_program(device, made->key);
    if (same || device->lost) {
        destroy(device, made);
        made = same;
    } else {
        add_to_list(device, made);
    }
    if (made)
        made->references++;
    *out = made;
    tuff__unlock(&device->lock);
    return made ? TUFF_OK : FAIL(TUFF_E_DEVICE_LOST, "the device was lost while a kernel was compiled for it");
}

tuff_status tuff__program_prepare(tuff_device *device, const program_request *request, _Atomic uint64_t *begun,
                                  program **out)
{
    program_build self = {.device = device, .request = request, .is_unlocked = true, .begun = begun};
    program *made;
    *out = NULL;
    if (!tuff__device_compiles_in_parallel(device))
        return tuff__program_get(device, request, out);
    TRY(check_request(device, request));
    TRY(tuff__device_begin(device));
    tuff_status status = tuff__device_end(device, begin_build(&self, out));
    if (status == TUFF_OK && !*out) {
        status = build_program(&self, &made);
        if (status == TUFF_OK)
            status = publish_program(device, made, out);
    }
    tuff__free(self.key);
    return status;
}

/* A request among several that are prepared at once. */
typedef struct preparation {
    tuff_device *device;
    const program_request *request;
    char *key;
    program **out;
} preparation;

/* Runs on any thread. Errors are left to tuff__program_get, which tries again and reports them. */
static void prepare(void *user, int index)
{
    const preparation *self = (preparation *)user + index;
    (void)tuff__program_prepare(self->device, self->request, NULL, self->out);
}

/* Lists the requests that are not in memory, each text once, and returns how many. Lock held. */
static int list_preparations(tuff_device *device, const program_request *requests, int count, program **out,
                             preparation *listed)
{
    int used = 0;
    for (int i = 0; i < count; i++) {
        char *key = check_request(device, &requests[i]) == TUFF_OK ? key_text(device, &requests[i]) : NULL;
        bool is_known = !key || find_program(device, key);
        for (int k = 0; k < used && !is_known; k++)
            is_known = strcmp(listed[k].key, key) == 0;
        if (is_known)
            tuff__free(key);
        else
            listed[used++] = (preparation){device, &requests[i], key, &out[i]};
    }
    return used;
}

void tuff__programs_prepare(tuff_device *device, const program_request *requests, int count, program **out)
{
    const bool one_by_one = device->compile_limit > 0 || !tuff__device_compiles_in_parallel(device);
    preparation *listed = one_by_one ? NULL : tuff__calloc((size_t)count + 1, sizeof *listed);
    if (!listed)
        return;
    if (tuff__device_begin(device) == TUFF_OK) {
        const int used = list_preparations(device, requests, count, out, listed);
        if (tuff__device_end(device, TUFF_OK) == TUFF_OK && used > 1)
            tuff__parallel(used, prepare, listed);
        for (int i = 0; i < used; i++)
            tuff__free(listed[i].key);
    }
    tuff__free(listed);
}

bool tuff__program_is_loaded(tuff_device *device, const program_request *request)
{
    if (tuff__device_begin(device) != TUFF_OK)
        return false;
    char *key = device->driver ? key_text(device, request) : NULL;
    const bool found = key && find_program(device, key);
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
        destroy(device, shared);
    }
    tuff__unlock(&device->lock);
}

/* Storing a program that no process compiled before may take this fraction (1/STORE_TIME_DIVISOR) of the time for which
   it was of use; a program that was compiled before, and may be again, all of that time. */
enum { STORE_TIME_DIVISOR = 2 };
#define INITIAL_COST_GUESS UINT64_C(100000000) /* nanoseconds to get the bytes of a program */

static bool is_worth_storing(const tuff_device *device, const program *shared, bool launched, uint64_t used,
                             uint64_t spent)
{
    const uint64_t expected = device->binary_cost > 0 ? device->binary_cost : INITIAL_COST_GUESS;
    return shared && shared->is_unstored && (launched || shared->was_seen) &&
           spent + expected <= (shared->was_seen ? used : used / STORE_TIME_DIVISOR) && tuff__program_cache_is_on();
}

/* The device's lock is held. */
static tuff_status store_bytes(tuff_device *device, program *shared)
{
    const cache_key entry = {"program", shared->key}, mark = {"seen", shared->key};
    blob made = {0};
    TRY(tuff__device_drain(device));
    const uint64_t begin = tuff__nanoseconds();
    if (device->driver->program_bytes(device->handle, shared->driver, &made) != TUFF_OK)
        tuff__log(TUFF_LOG_INFO, "cannot get a program's binary for the cache: %s", tuff_error());
    else if (made.size > 0) {
        tuff__program_cache_store(entry, made);
        tuff__program_cache_drop(mark);
    }
    shared->is_unstored = false;
    tuff__free(made.data);
    device->binary_cost = tuff__nanoseconds() - begin;
    return TUFF_OK;
}

void tuff__programs_store(tuff_device *device, program *const *programs, int count, bool launched, uint64_t used)
{
    tuff_status status = device->driver && device->driver->program_bytes ? TUFF_OK : TUFF_E_UNSUPPORTED;
    uint64_t spent = 0;
    for (int i = 0; i < count && status == TUFF_OK; i++) {
        if (tuff__device_begin(device) != TUFF_OK)
            return;
        if (is_worth_storing(device, programs[i], launched, used, spent)) {
            status = store_bytes(device, programs[i]);
            spent += device->binary_cost;
        }
        status = tuff__device_end(device, status);
    }
}

driver_program *tuff__program_driver(program *shared)
{
    return shared->driver;
}

void tuff__device_collect_spill_statistics(tuff_device *device)
{
    tuff__lock(&device->lock);
    if (device->driver && device->driver->collect_spill_statistics && !device->is_stuck)
        device->driver->collect_spill_statistics(device->handle);
    tuff__unlock(&device->lock);
}

uint64_t tuff__program_spilled_bytes(tuff_device *device, program *shared)
{
    uint64_t bytes = 0;
    if (!device->driver || !device->driver->spilled_bytes || tuff__device_begin(device) != TUFF_OK)
        return 0;
    const tuff_status status = device->driver->spilled_bytes(device->handle, shared->driver, &bytes);
    if (status != TUFF_OK)
        tuff__log(TUFF_LOG_DEBUG, "cannot read a program's spill statistics: %s", tuff_error());
    (void)tuff__device_end(device, status);
    return status == TUFF_OK ? bytes : 0;
}
