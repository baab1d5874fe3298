/* Staging memory: loaders upload from it and checkpoints download to it. The reference device, whose memory is the
   host's, copies immediately. */
#include <string.h>

#include "base/alloc.h"
#include "device/state.h"

struct staging {
    tuff_device *device;
    driver_staging *driver; /* NULL on the reference device */
    void *memory;
    uint64_t size;
    bool sends;
};

static tuff_status make_memory(staging *self)
{
    tuff_device *device = self->device;
    if (!device->driver) {
        self->memory = self->size <= SIZE_MAX ? tuff__calloc((size_t)self->size, 1) : NULL;
        return self->memory ? TUFF_OK : TUFF_E_OOM_HOST;
    }
    const driver *calls = device->driver;
    TRY(tuff__device_begin(device));
    tuff_status status = calls->staging_create(device->handle, self->size, self->sends, &self->driver, &self->memory);
    if (tuff__pool_reclaim(device, status))
        status = calls->staging_create(device->handle, self->size, self->sends, &self->driver, &self->memory);
    return tuff__device_end(device, status);
}

tuff_status tuff__staging_create(tuff_device *device, uint64_t size, bool sends, staging **out)
{
    *out = NULL;
    staging *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return TUFF_E_OOM_HOST;
    self->device = device;
    self->size = size > 0 ? size : 1;
    self->sends = sends;
    const tuff_status status = make_memory(self);
    if (status == TUFF_OK)
        *out = self;
    else
        tuff__free(self);
    return status;
}

void tuff__staging_destroy(staging *self)
{
    if (!self)
        return;
    if (self->driver) {
        tuff__lock(&self->device->lock);
        self->device->driver->staging_destroy(self->device->handle, self->driver);
        tuff__unlock(&self->device->lock);
    } else {
        tuff__free(self->memory);
    }
    tuff__free(self);
}

void *tuff__staging_memory(staging *self)
{
    return self->memory;
}

static tuff_status check_transfers(const staging *self, const staging_transfer *transfers, int count)
{
    if (count < 0 || count > MAX_STAGED_COPIES)
        return FAIL(TUFF_E_LIMIT, "%d staged copies; at most %d are allowed", count, MAX_STAGED_COPIES);
    for (int i = 0; i < count; i++) {
        const staging_transfer *transfer = &transfers[i];
        const uint64_t size = tuff__storage_size(transfer->storage);
        if (transfer->offset > size || transfer->size > size - transfer->offset ||
            transfer->staging_offset > self->size || transfer->size > self->size - transfer->staging_offset)
            return FAIL(TUFF_E_USAGE, "a staged copy of %llu bytes is out of range",
                        (unsigned long long)transfer->size);
        if (transfer->size > 0)
            TRY(tuff__storage_check_bytes(transfer->storage));
    }
    return TUFF_OK;
}

static void copy_on_host(const staging *self, const staging_transfer *transfer, bool upload)
{
    unsigned char *host = (unsigned char *)tuff__storage_host(transfer->storage) + transfer->offset;
    unsigned char *memory = (unsigned char *)self->memory + transfer->staging_offset;
    memcpy(upload ? host : memory, upload ? memory : host, (size_t)transfer->size);
}

/* Called with the lock held after an upload: whoever sees the new version also submits after it. */
static void touch_all(const staging_transfer *transfers, int count, bool upload)
{
    for (int i = 0; i < count && upload; i++)
        tuff__storage_touch(transfers[i].storage);
}

static tuff_status enqueue(staging *self, const staging_transfer *transfers, int count, bool upload)
{
    staged_copy copies[MAX_STAGED_COPIES];
    int used = 0;
    for (int i = 0; i < count; i++)
        if (transfers[i].size > 0)
            copies[used++] = (staged_copy){tuff__storage_buffer(transfers[i].storage), transfers[i].offset,
                                           transfers[i].staging_offset, transfers[i].size};
    if (used == 0)
        return TUFF_OK;
    tuff_device *device = self->device;
    TRY(tuff__device_begin_work(device));
    const tuff_status status = device->driver->staging_copy(device->handle, self->driver, copies, used, upload);
    touch_all(transfers, count, upload);
    if (status == TUFF_OK && upload)
        device->counters.writes += (uint64_t)used;
    else if (status == TUFF_OK)
        device->counters.reads += (uint64_t)used;
    return tuff__device_end_work(device, status);
}

static tuff_status transfer_all(staging *self, const staging_transfer *transfers, int count, bool upload)
{
    TRY(check_transfers(self, transfers, count));
    if (self->driver)
        return enqueue(self, transfers, count, upload);
    if (upload)
        tuff__host_run_begin(self->device);
    tuff__host_begin(self->device);
    for (int i = 0; i < count; i++)
        if (transfers[i].size > 0)
            copy_on_host(self, &transfers[i], upload);
    touch_all(transfers, count, upload);
    tuff__host_end(self->device);
    if (upload)
        tuff__host_run_end(self->device);
    return TUFF_OK;
}

tuff_status tuff__staging_upload(staging *self, const staging_transfer *transfers, int count)
{
    return transfer_all(self, transfers, count, true);
}

tuff_status tuff__staging_download(staging *self, const staging_transfer *transfers, int count)
{
    return transfer_all(self, transfers, count, false);
}

tuff_status tuff__staging_send(staging *self, uint64_t size)
{
    tuff_device *device = self->device;
    if (!self->sends || size > self->size)
        return FAIL(TUFF_E_USAGE, "cannot send %llu bytes of %llu bytes of staging memory%s", (unsigned long long)size,
                    (unsigned long long)self->size, self->sends ? "" : ", which was not created for sending");
    if (!self->driver || size == 0)
        return TUFF_OK;
    TRY(tuff__device_begin_work(device));
    return tuff__device_end_work(device, device->driver->staging_send(device->handle, self->driver, size));
}

bool tuff__device_has_upload_queue(tuff_device *device)
{
    return device->driver && device->driver->has_upload_queue(device->handle);
}

bool tuff__device_prefers_staged_upload(tuff_device *device)
{
    return device->info.device_class == TUFF_DEVICE_GPU_DISCRETE && tuff__device_has_upload_queue(device);
}

tuff_status tuff__staging_poll(staging *self, bool *done)
{
    *done = !self->driver;
    if (*done)
        return TUFF_OK;
    TRY(tuff__device_begin(self->device));
    return tuff__device_end(self->device, self->device->driver->staging_poll(self->device->handle, self->driver, done));
}
