/* Storages: reference-counted device memory, and the pool that keeps released buffers for the next request of about the
   same size. Reuse needs no wait, because a device's queue is in order. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/log.h"
#include "device/state.h"

enum { SIZE_STEP = 256 };

struct storage {
    tuff_device *device;
    driver_buffer *buffer; /* NULL on the reference device */
    void *host;            /* NULL elsewhere */
    uint64_t size;         /* as requested, rounded up */
    uint64_t capacity;     /* of the buffer */
    _Atomic uint32_t references;
    _Atomic uint64_t version;
    bool is_elsewhere;    /* not in the device's own memory, which was full: never pooled */
    bool imported;        /* owned by the application: never pooled, not counted */
    bool marked_imported; /* the compiler treats it as imported */
    bool is_placeholder;  /* has no bytes, see tuff__storage_create_placeholder: never pooled, not counted */
    storage *next;        /* in the pool */
};

static void count_bytes(tuff_device *device, uint64_t size)
{
    device->counters.bytes_allocated += size;
    if (device->counters.bytes_allocated > device->counters.bytes_peak)
        device->counters.bytes_peak = device->counters.bytes_allocated;
}

static void destroy(storage *memory)
{
    const driver *calls = memory->device->driver;
    if (calls && memory->buffer)
        calls->buffer_destroy(memory->device->handle, memory->buffer);
    tuff__free(memory->host);
    tuff__free(memory);
}

bool tuff__pool_trim(tuff_device *device)
{
    if (!device->idle)
        return false;
    tuff_status drained = tuff__device_drain(device);
    if (drained != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "%s: cannot wait for the device before freeing memory: %s", device->info.selector,
                  tuff_error());
    while (device->idle) {
        storage *memory = device->idle;
        device->idle = memory->next;
        destroy(memory);
    }
    device->idle_size = 0;
    return true;
}

bool tuff__pool_reclaim(tuff_device *device, tuff_status status)
{
    return (status == TUFF_E_OOM_HOST || status == TUFF_E_OOM_DEVICE) &&
           tuff__device_detect_loss(device, status) != TUFF_E_DEVICE_LOST && tuff__pool_trim(device);
}

/* Takes the smallest idle buffer of at least size bytes that wastes at most a quarter of itself. */
static storage *take_from_pool(tuff_device *device, uint64_t size)
{
    storage **best = NULL;
    for (storage **at = &device->idle; *at; at = &(*at)->next) {
        uint64_t capacity = (*at)->capacity;
        if (capacity >= size && capacity - size <= capacity / 4 && (!best || capacity < (*best)->capacity))
            best = at;
    }
    if (!best)
        return NULL;
    storage *found = *best;
    *best = found->next;
    found->next = NULL;
    device->idle_size -= found->capacity;
    return found;
}

/* Puts a buffer into the pool, which keeps at most an eighth of the device's memory; the least recently released
   buffers are freed first. */
static void add_to_pool(tuff_device *device, storage *released)
{
    uint64_t kept = 0, limit = device->info.memory_size / 8;
    if (released->capacity > limit) { /* else everything else would have to go, too */
        destroy(released);
        return;
    }
    released->next = device->idle;
    device->idle = released;
    device->idle_size += released->capacity;
    storage **at = &device->idle;
    while (*at && kept + (*at)->capacity <= limit) {
        kept += (*at)->capacity;
        at = &(*at)->next;
    }
    storage *surplus = *at;
    *at = NULL;
    device->idle_size = kept;
    while (surplus) {
        storage *next = surplus->next;
        destroy(surplus);
        surplus = next;
    }
}

static tuff_status check_size(const tuff_device *device, uint64_t size)
{
    if (size <= device->info.max_allocation && size <= SIZE_MAX)
        return TUFF_OK;
    return FAIL(TUFF_E_LIMIT, "%s: a buffer of %llu bytes exceeds the device's limit of %llu", device->info.selector,
                (unsigned long long)size, (unsigned long long)device->info.max_allocation);
}

/* Allocates the memory of a storage: a buffer of the driver, or host memory on the reference device. */
static tuff_status make_memory(tuff_device *device, storage *memory)
{
    const driver *calls = device->driver;
    TRY(check_size(device, memory->size));
    if (!calls) {
        memory->host = tuff__alloc((size_t)memory->size);
        return memory->host ? TUFF_OK : TUFF_E_OOM_HOST;
    }
    tuff_status status = calls->buffer_create(device->handle, memory->size, &memory->buffer);
    if (tuff__pool_reclaim(device, status))
        status = calls->buffer_create(device->handle, memory->size, &memory->buffer);
    if (status != TUFF_E_OOM_DEVICE || device->lost || !calls->buffer_create_anywhere)
        return status;
    status = calls->buffer_create_anywhere(device->handle, memory->size, &memory->buffer);
    memory->is_elsewhere = status == TUFF_OK;
    if (memory->is_elsewhere)
        tuff__log(TUFF_LOG_WARNING,
                  "%s: device memory is full: a buffer of %llu bytes goes to memory that may be slower",
                  device->info.selector, (unsigned long long)memory->size);
    return status;
}

/* Takes a storage from the pool or makes a new one. Lock held. */
static tuff_status obtain(tuff_device *device, uint64_t size, storage **out)
{
    storage *memory = device->driver ? take_from_pool(device, size) : NULL;
    if (!memory) {
        memory = tuff__calloc(1, sizeof *memory);
        if (!memory)
            return TUFF_E_OOM_HOST;
        memory->device = device;
        memory->size = memory->capacity = size;
        tuff_status status = make_memory(device, memory);
        if (status != TUFF_OK) {
            tuff__free(memory);
            return status;
        }
    }
    memory->size = size;
    memory->marked_imported = false;
    atomic_store(&memory->references, 1);
    atomic_store(&memory->version, 0);
    count_bytes(device, size);
    *out = memory;
    return TUFF_OK;
}

static void recycle(storage *memory)
{
    tuff_device *device = memory->device;
    const bool is_allocated = !memory->imported && !memory->is_placeholder;
    if (is_allocated)
        device->counters.bytes_allocated -= memory->size;
    if (device->driver && !device->lost && is_allocated && !memory->is_elsewhere)
        add_to_pool(device, memory);
    else
        destroy(memory);
}

/* Runs a recording of one fill, and destroys it after it has run. */
static tuff_status fill_zero(tuff_device *device, storage *memory)
{
    const driver *calls = device->driver;
    if (!calls) {
        memset(memory->host, 0, (size_t)memory->size);
        return TUFF_OK;
    }
    command fill = {.kind = COMMAND_FILL_ZERO, .binding_count = 1};
    fill.bindings[0] = (buffer_binding){memory->buffer, 0, memory->size, true};
    driver_recording *fill_recording = NULL;
    tuff_status status = calls->recording_create(device->handle, &fill, 1, false, &fill_recording);
    if (tuff__pool_reclaim(device, status))
        status = calls->recording_create(device->handle, &fill, 1, false, &fill_recording);
    TRY(status);
    status = calls->submit(device->handle, fill_recording);
    atomic_fetch_add(&device->submitted, 1);
    if (status == TUFF_OK)
        status = tuff__device_drain(device);
    calls->recording_destroy(device->handle, fill_recording);
    return status;
}

tuff_status tuff__storage_create(tuff_device *device, uint64_t size, bool zeroed, storage **out)
{
    *out = NULL;
    if (!tuff__align_u64(size ? size : 1, SIZE_STEP, &size))
        return FAIL(TUFF_E_LIMIT, "the size of the storage overflows 64 bits");
    if (device->describes_only) {
        TRY(check_size(device, size));
        return tuff__storage_create_placeholder(device, size, false, out);
    }
    TRY(tuff__device_begin(device));
    storage *memory = NULL;
    tuff_status status = obtain(device, size, &memory);
    if (status == TUFF_OK && zeroed) {
        status = fill_zero(device, memory);
        if (status != TUFF_OK)
            recycle(memory);
    }
    if (status == TUFF_OK)
        *out = memory;
    return tuff__device_end(device, status);
}

static tuff_status import_buffer(tuff_device *device, const void *handle, uint64_t size, storage *memory)
{
    const driver *calls = device->driver;
    if (!calls || !calls->buffer_import)
        return FAIL(TUFF_E_UNSUPPORTED,
                    "%s: importing an application's buffer is not supported: copy its data with tuff_array_write",
                    device->info.selector);
    TRY(calls->buffer_import(device->handle, handle, &memory->size, &memory->buffer));
    if (memory->size < size)
        return FAIL(TUFF_E_USAGE, "%s: the array ends at byte %llu, but the buffer has %llu bytes",
                    device->info.selector, (unsigned long long)size, (unsigned long long)memory->size);
    return TUFF_OK;
}

tuff_status tuff__storage_import(tuff_device *device, const void *handle, uint64_t size, storage **out)
{
    *out = NULL;
    TRY(tuff__device_begin(device));
    tuff_status status = TUFF_E_OOM_HOST;
    storage *memory = tuff__calloc(1, sizeof *memory);
    if (memory) {
        memory->device = device;
        memory->imported = true;
        atomic_store(&memory->references, 1);
        status = import_buffer(device, handle, size, memory);
        if (status == TUFF_OK)
            *out = memory;
        else
            destroy(memory);
    }
    return tuff__device_end(device, status);
}

tuff_status tuff__storage_create_placeholder(tuff_device *device, uint64_t size, bool is_imported, storage **out)
{
    storage *memory = tuff__calloc(1, sizeof *memory);
    *out = memory;
    if (!memory)
        return TUFF_E_OOM_HOST;
    memory->device = device;
    memory->size = memory->capacity = size;
    memory->imported = is_imported;
    memory->is_placeholder = true;
    atomic_store(&memory->references, 1);
    return TUFF_OK;
}

void tuff__storage_retain(storage *memory)
{
    atomic_fetch_add(&memory->references, 1);
}

void tuff__storage_release(storage *memory)
{
    if (!memory || atomic_fetch_sub(&memory->references, 1) != 1)
        return;
    tuff_device *device = memory->device;
    tuff__lock(&device->lock);
    recycle(memory);
    tuff__unlock(&device->lock);
}

driver_buffer *tuff__storage_buffer(storage *memory)
{
    return memory->buffer;
}

void *tuff__storage_host(storage *memory)
{
    return memory->host;
}

void tuff__host_begin(tuff_device *device)
{
    tuff__lock(&device->lock);
}

void tuff__host_end(tuff_device *device)
{
    tuff__unlock(&device->lock);
}

void tuff__host_run_begin(tuff_device *device)
{
    tuff__lock(&device->host_run);
}

void tuff__host_run_end(tuff_device *device)
{
    tuff__unlock(&device->host_run);
}

uint64_t tuff__storage_size(const storage *memory)
{
    return memory->size;
}

uint64_t tuff__storage_version(const storage *memory)
{
    return atomic_load(&memory->version);
}

bool tuff__storage_is_imported(const storage *memory)
{
    return memory->imported || memory->marked_imported;
}

void tuff__storage_mark_imported(storage *memory)
{
    memory->marked_imported = true;
}

void tuff__storage_touch(storage *memory)
{
    atomic_fetch_add(&memory->version, 1);
}

static tuff_status check_range(const storage *memory, uint64_t offset, uint64_t size)
{
    if (offset > memory->size || size > memory->size - offset)
        return FAIL(TUFF_E_USAGE, "bytes %llu to %llu are not within a storage of %llu bytes",
                    (unsigned long long)offset, (unsigned long long)(offset + size), (unsigned long long)memory->size);
    return TUFF_OK;
}

/* Whether it has no bytes because its device only describes plans. */
static bool is_described(const storage *memory)
{
    return memory->is_placeholder && memory->device->describes_only;
}

tuff_status tuff__storage_check_bytes(const storage *memory)
{
    if (!memory->is_placeholder)
        return TUFF_OK;
    return is_described(memory)
               ? FAIL(TUFF_E_USAGE, "%s only describes plans (tuff_device_set_describe_only): arrays hold no values",
                      memory->device->info.selector)
               : FAIL(TUFF_E_USAGE, "cannot read or write a placeholder: its memory is in another process");
}

/* Changes memory of the reference device. by_host: the data is the program's, which counts as a write. */
static tuff_status change_host(tuff_device *device, storage *to, uint64_t offset, const void *data, uint64_t size,
                               bool by_host)
{
    tuff__host_run_begin(device);
    tuff_status status = tuff__device_begin_work(device);
    if (status == TUFF_OK) {
        memcpy((unsigned char *)to->host + offset, data, (size_t)size);
        device->counters.writes += by_host;
        tuff__storage_touch(to);
        status = tuff__device_end_work(device, TUFF_OK);
    }
    tuff__host_run_end(device);
    return status;
}

tuff_status tuff__storage_write(tuff_device *device, storage *memory, uint64_t offset, const void *data, uint64_t size)
{
    TRY(check_range(memory, offset, size));
    if (size == 0)
        return TUFF_OK;
    if (is_described(memory)) {
        tuff__storage_touch(memory);
        return TUFF_OK;
    }
    TRY(tuff__storage_check_bytes(memory));
    if (!device->driver)
        return change_host(device, memory, offset, data, size, true);
    TRY(tuff__device_begin_work(device));
    tuff_status status = device->driver->buffer_write(device->handle, memory->buffer, offset, data, size);
    if (status == TUFF_OK)
        device->counters.writes++;
    tuff__storage_touch(memory);
    return tuff__device_end_work(device, status);
}

tuff_status tuff__storage_fill(tuff_device *device, storage *memory, uint64_t offset, uint64_t size,
                               const void *pattern, size_t period)
{
    enum { AT_ONCE = 1 << 20 };
    const uint64_t wanted = (size < AT_ONCE ? size : AT_ONCE) / period + 1, length = wanted * period;
    char *block = tuff__alloc((size_t)length);
    tuff_status status = block ? TUFF_OK : TUFF_E_OOM_HOST;
    for (uint64_t i = 0; i < wanted && block; i++)
        memcpy(block + i * period, pattern, period);
    for (uint64_t at = 0; at < size && status == TUFF_OK; at += length)
        status = tuff__storage_write(device, memory, offset + at, block, size - at < length ? size - at : length);
    tuff__free(block);
    return status;
}

tuff_status tuff__storage_read(tuff_device *device, storage *memory, uint64_t offset, void *data, uint64_t size)
{
    TRY(check_range(memory, offset, size));
    if (size == 0)
        return TUFF_OK;
    TRY(tuff__storage_check_bytes(memory));
    TRY(tuff__device_begin_work(device));
    tuff_status status = TUFF_OK;
    if (device->driver)
        status = device->driver->buffer_read(device->handle, memory->buffer, offset, data, size);
    else
        memcpy(data, (const unsigned char *)memory->host + offset, (size_t)size);
    if (status == TUFF_OK) {
        device->counters.reads++;
        atomic_store(&device->finished, atomic_load(&device->submitted));
    }
    return tuff__device_end_work(device, status);
}

tuff_status tuff__storage_copy(tuff_device *device, storage *from, uint64_t from_offset, storage *to,
                               uint64_t to_offset, uint64_t size)
{
    TRY(check_range(from, from_offset, size));
    TRY(check_range(to, to_offset, size));
    if (size == 0)
        return TUFF_OK;
    if (is_described(to)) {
        tuff__storage_touch(to);
        return TUFF_OK;
    }
    TRY(tuff__storage_check_bytes(from));
    TRY(tuff__storage_check_bytes(to));
    if (!device->driver)
        return change_host(device, to, to_offset, (const unsigned char *)from->host + from_offset, size, false);
    TRY(tuff__device_begin_work(device));
    const tuff_status status =
        device->driver->buffer_copy(device->handle, from->buffer, from_offset, to->buffer, to_offset, size);
    tuff__storage_touch(to);
    return tuff__device_end_work(device, status);
}
