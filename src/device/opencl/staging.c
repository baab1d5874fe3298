/* Staging memory: a buffer of the host's, mapped as long as it lives, which is how OpenCL is asked for pinned memory,
   and copies from and to it that the queue makes while the host goes on. */
#include "base/alloc.h"
#include "device/opencl/api.h"

struct driver_staging {
    cl_mem memory;
    void *mapped;
    cl_event event; /* of the last copy enqueued; NULL: none, or it is known to be done */
};

static tuff_status map_memory(driver_device *device, size_t size, driver_staging *self)
{
    cl_int error = CL_SUCCESS;
    self->memory =
        tuff__cl.CreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, NULL, &error);
    if (error != CL_SUCCESS || self->memory == NULL)
        return tuff__cl_fail(error, "clCreateBuffer");
    /* With an idle queue the blocking call has nothing else to wait for. */
    if (device->pending_count > 0)
        TRY(tuff__cl_wait(device));
    self->mapped = tuff__cl.EnqueueMapBuffer(device->queue, self->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size,
                                             0, NULL, NULL, &error);
    if (error != CL_SUCCESS || self->mapped == NULL)
        return tuff__cl_fail(error, "clEnqueueMapBuffer");
    return TUFF_OK;
}

tuff_status tuff__cl_staging_create(driver_device *device, uint64_t size, driver_staging **out, void **memory)
{
    if (size > SIZE_MAX)
        return FAIL(TUFF_E_OOM_HOST, "staging memory of %llu bytes", (unsigned long long)size);
    driver_staging *self = tuff__calloc(1, sizeof *self);
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    const tuff_status status = map_memory(device, (size_t)size, self);
    if (status != TUFF_OK) {
        tuff__cl_staging_destroy(device, self);
        return status;
    }
    *out = self;
    *memory = self->mapped;
    return TUFF_OK;
}

/* A question that fails is asked again, since giving up leaves objects behind. */
static bool is_settled(const driver_device *device, cl_event event)
{
    cl_int state = CL_QUEUED;
    bool done = event == NULL;
    for (int attempt = 0; attempt < 2 && !done; attempt++)
        if (tuff__cl_wait_event(device, event) == TUFF_OK)
            done = true;
        else
            (void)tuff__cl_poll_event(event, &done, &state);
    return done;
}

/* Memory that the device may still use is never freed. */
void tuff__cl_staging_destroy(driver_device *device, driver_staging *self)
{
    if (!is_settled(device, self->event))
        return;
    if (self->event != NULL)
        tuff__cl.ReleaseEvent(self->event);
    if (self->mapped != NULL)
        (void)tuff__cl.EnqueueUnmapMemObject(device->queue, self->memory, self->mapped, 0, NULL, NULL);
    if (self->memory != NULL)
        tuff__cl.ReleaseMemObject(self->memory);
    tuff__free(self);
}

static tuff_status enqueue(driver_device *device, const driver_staging *self, const staged_copy *copy, bool upload,
                           cl_event *event)
{
    char *host = (char *)self->mapped + copy->staging_offset;
    if (upload)
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
    /* The queue is in order: the last copy's event tells of all. */
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
    TRY(tuff__cl_make_room(device, SIZE_MAX));
    const tuff_status status = enqueue_all(device, self, copies, count, upload);
    /* Copies that nothing tells of must not outlive this call. */
    if (status != TUFF_OK && self->event == NULL)
        (void)tuff__cl_wait(device);
    return status;
}

tuff_status tuff__cl_staging_poll(driver_device *device, driver_staging *self, bool *done)
{
    (void)device;
    *done = self->event == NULL;
    if (*done)
        return TUFF_OK;
    cl_int state = CL_QUEUED;
    const tuff_status status = tuff__cl_poll_event(self->event, done, &state);
    if (*done) {
        tuff__cl.ReleaseEvent(self->event);
        self->event = NULL;
    }
    return status;
}
