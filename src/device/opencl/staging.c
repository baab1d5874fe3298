/* Staging memory: a host buffer that stays mapped as long as it lives, which is OpenCL's way to get pinned memory, and
   copies from and to it that the queue makes while the host continues. A staging that sends also has a device buffer,
   to which a second queue uploads the bytes concurrently with everything else. The copies from there wait for the
   upload's event, and the buffer is not written again before the host has seen them complete. */
#include "base/alloc.h"
#include "device/opencl/api.h"

struct driver_staging {
    cl_mem memory;
    void *mapped;
    cl_event event;       /* of the last copy enqueued; NULL: there is none, or it is known to be done */
    cl_mem device_buffer; /* for uploads; NULL: it does not send */
    cl_event upload_done; /* event of the last upload to it; NULL: none */
    bool has_upload;      /* the uploaded bytes wait for a staging_copy */
};

static tuff_status map_memory(driver_device *device, size_t size, driver_staging *self)
{
    cl_int error = CL_SUCCESS;
    self->memory =
        tuff__cl.CreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, NULL, &error);
    if (error != CL_SUCCESS || self->memory == NULL)
        return tuff__cl_fail(error, "clCreateBuffer");
    TRY(tuff__cl_wait_before_blocking(device));
    self->mapped = tuff__cl.EnqueueMapBuffer(device->queue, self->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size,
                                             0, NULL, NULL, &error);
    if (error != CL_SUCCESS || self->mapped == NULL)
        return tuff__cl_fail(error, "clEnqueueMapBuffer");
    return TUFF_OK;
}

static tuff_status create_device_buffer(driver_device *device, size_t size, driver_staging *self)
{
    cl_int error = CL_SUCCESS;
    if (!device->upload_queue) {
        cl_command_queue queue = tuff__cl.CreateCommandQueue(device->context, device->id, 0, &error);
        if (error != CL_SUCCESS || !queue)
            return tuff__cl_fail(error, "clCreateCommandQueue");
        device->upload_queue = queue;
    }
    self->device_buffer = tuff__cl.CreateBuffer(device->context, CL_MEM_READ_WRITE, size, NULL, &error);
    return error == CL_SUCCESS && self->device_buffer ? TUFF_OK : tuff__cl_fail(error, "clCreateBuffer");
}

tuff_status tuff__cl_staging_create(driver_device *device, uint64_t size, bool sends, driver_staging **out,
                                    void **memory)
{
    if (size > SIZE_MAX)
        return FAIL(TUFF_E_OOM_HOST, "staging memory of %llu bytes is too large", (unsigned long long)size);
    driver_staging *self = tuff__calloc(1, sizeof *self);
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    tuff_status status = map_memory(device, (size_t)size, self);
    if (status == TUFF_OK && sends)
        status = create_device_buffer(device, (size_t)size, self);
    if (status != TUFF_OK) {
        tuff__cl_staging_destroy(device, self);
        return status;
    }
    *out = self;
    *memory = self->mapped;
    return TUFF_OK;
}

/* Waits for the event; whether it is complete. A wait that fails is repeated once, because giving up leaks objects, but
   not on a device that hangs, which would get the whole time again for each staging. A complete event of the upload
   queue says nothing about whether the other queue hangs. */
static bool settle(driver_device *device, cl_event event)
{
    cl_int state = CL_QUEUED;
    bool done = event == NULL;
    if (!done)
        (void)tuff__cl_poll_event(event, &done, &state);
    for (int attempt = 0; attempt < 2 && !done && !device->hung; attempt++)
        if (tuff__cl_wait_event(device, event) == TUFF_OK)
            done = true;
        else
            (void)tuff__cl_poll_event(event, &done, &state);
    return done;
}

static void release_objects(driver_device *device, driver_staging *self)
{
    if (self->event != NULL)
        tuff__cl.ReleaseEvent(self->event);
    if (self->upload_done != NULL)
        tuff__cl.ReleaseEvent(self->upload_done);
    if (self->device_buffer != NULL)
        tuff__cl.ReleaseMemObject(self->device_buffer);
    if (self->mapped != NULL)
        (void)tuff__cl.EnqueueUnmapMemObject(device->queue, self->memory, self->mapped, 0, NULL, NULL);
    if (self->memory != NULL)
        tuff__cl.ReleaseMemObject(self->memory);
}

/* Never frees memory that the device may still use. If the device hangs, a release may never return, so the objects are
   leaked. */
void tuff__cl_staging_destroy(driver_device *device, driver_staging *self)
{
    if (device->hung)
        (void)tuff__cl_is_idle(device); /* it may have gone on meanwhile */
    if (!settle(device, self->event) || !settle(device, self->upload_done))
        device->has_stuck_upload = true;
    else if (!device->hung || tuff__cl_is_idle(device))
        release_objects(device, self);
    tuff__free(self);
}

static tuff_status enqueue(driver_device *device, const driver_staging *self, const staged_copy *copy, bool upload,
                           cl_event *event)
{
    char *host = (char *)self->mapped + copy->staging_offset;
    if (upload && self->has_upload)
        CL_TRY(EnqueueCopyBuffer,
               (device->queue, self->device_buffer, copy->buffer->memory, (size_t)copy->staging_offset,
                (size_t)copy->offset, (size_t)copy->size, 1, &self->upload_done, event));
    else if (upload)
        CL_TRY(EnqueueWriteBuffer, (device->queue, copy->buffer->memory, CL_FALSE, (size_t)copy->offset,
                                    (size_t)copy->size, host, 0, NULL, event));
    else
        CL_TRY(EnqueueReadBuffer, (device->queue, copy->buffer->memory, CL_FALSE, (size_t)copy->offset,
                                   (size_t)copy->size, host, 0, NULL, event));
    return TUFF_OK;
}

static tuff_status enqueue_all(driver_device *device, driver_staging *self, const staged_copy *copies, int count,
                               bool upload)
{
    cl_event event = NULL;
    /* The queue is in order: the last copy's event covers all. */
    for (int i = 0; i < count; i++)
        TRY(enqueue(device, self, &copies[i], upload, i + 1 < count ? NULL : &event));
    const cl_int error = tuff__cl.RetainEvent(event);
    tuff__cl_track(device, event, NULL, 0);
    if (error != CL_SUCCESS)
        return tuff__cl_fail(error, "clRetainEvent");
    self->event = event;
    CL_TRY(Flush, (device->queue));
    return TUFF_OK;
}

tuff_status tuff__cl_staging_copy(driver_device *device, driver_staging *self, const staged_copy *copies, int count,
                                  bool upload)
{
    TRY(tuff__cl_reserve_staging(device, SIZE_MAX));
    /* Of copies that failed after they had been enqueued. */
    if (self->event != NULL)
        tuff__cl.ReleaseEvent(self->event);
    self->event = NULL;
    const tuff_status status = enqueue_all(device, self, copies, count, upload);
    /* Copies without an event must not outlive this call. */
    if (status != TUFF_OK && self->event == NULL)
        (void)tuff__cl_wait(device);
    if (status == TUFF_OK && upload)
        self->has_upload = false;
    return status;
}

bool tuff__cl_has_upload_queue(driver_device *device)
{
    (void)device;
    return true;
}

tuff_status tuff__cl_staging_send(driver_device *device, driver_staging *self, uint64_t size)
{
    self->has_upload = false;
    if (self->upload_done != NULL)
        tuff__cl.ReleaseEvent(self->upload_done);
    self->upload_done = NULL;
    CL_TRY(EnqueueWriteBuffer, (device->upload_queue, self->device_buffer, CL_FALSE, 0, (size_t)size, self->mapped, 0,
                                NULL, &self->upload_done));
    self->has_upload = true;
    CL_TRY(Flush, (device->upload_queue));
    return TUFF_OK;
}

/* Polls an event and releases it if it is complete, even with an error. */
static tuff_status poll_one(cl_event *event, bool *done)
{
    *done = *event == NULL;
    if (*done)
        return TUFF_OK;
    cl_int state = CL_QUEUED;
    const tuff_status status = tuff__cl_poll_event(*event, done, &state);
    if (*done) {
        tuff__cl.ReleaseEvent(*event);
        *event = NULL;
    }
    return status;
}

tuff_status tuff__cl_staging_poll(driver_device *device, driver_staging *self, bool *done)
{
    (void)device;
    TRY(poll_one(&self->event, done));
    bool has_upload = self->upload_done == NULL;
    cl_int state = CL_QUEUED;
    /* A completed event is kept: the next upload may still wait for it. */
    const tuff_status status = has_upload ? TUFF_OK : tuff__cl_poll_event(self->upload_done, &has_upload, &state);
    if (status != TUFF_OK && has_upload) {
        tuff__cl.ReleaseEvent(self->upload_done);
        self->upload_done = NULL;
        self->has_upload = false;
    }
    *done = *done && has_upload;
    return status;
}
