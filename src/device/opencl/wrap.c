/* Wraps an application's own context, queue and buffers, and lends the driver's to an application. The application's
   objects are retained, so that closing releases them like those that the driver made. */
#include "base/alloc.h"
#include "device/opencl/api.h"

/* The queue must belong to the context and the device, and run its commands in order: recordings have no other
   barriers. */
static tuff_status check_queue(const tuff_opencl_handles *handles)
{
    cl_context context = NULL;
    cl_device_id id = NULL;
    cl_command_queue_properties properties = 0;
    cl_command_queue queue = handles->queue;
    CL_TRY(GetCommandQueueInfo, (queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL));
    CL_TRY(GetCommandQueueInfo, (queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &id, NULL));
    CL_TRY(GetCommandQueueInfo, (queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    if (context != handles->context || id != handles->device_id)
        return FAIL(TUFF_E_USAGE, "tuff_device_wrap_opencl: the queue belongs to another context or device");
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return FAIL(TUFF_E_UNSUPPORTED, "tuff_device_wrap_opencl: the queue is out of order; create an in-order queue");
    return TUFF_OK;
}

static tuff_status fill_device(driver_device *device, const tuff_opencl_handles *handles, tuff_device_info *info)
{
    cl_platform_id platform = NULL;
    device->id = handles->device_id;
    if (!tuff__cl_is_usable(device->id))
        return FAIL(TUFF_E_UNSUPPORTED, "tuff_device_wrap_opencl: the device needs OpenCL 1.2, a compiler and "
                                        "little-endian numbers");
    CL_TRY(GetDeviceInfo, (device->id, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL));
    device->platform = platform;
    TRY(tuff__cl_describe_device(platform, device->id, info));
    TRY(tuff__cl_prepare(device));
    CL_TRY(RetainContext, (handles->context));
    device->context = handles->context;
    CL_TRY(RetainCommandQueue, (handles->queue));
    device->queue = handles->queue;
    device->predictor.is_shared = true;
    return TUFF_OK;
}

tuff_status tuff__cl_wrap(const void *handles, tuff_device_info *info, driver_device **out)
{
    TRY(check_queue(handles));
    driver_device *device = tuff__calloc(1, sizeof *device);
    if (!device)
        return TUFF_E_OOM_HOST;
    tuff_status status = fill_device(device, handles, info);
    if (status != TUFF_OK) {
        tuff__cl_close(device);
        return status;
    }
    *out = device;
    return TUFF_OK;
}

static tuff_status check_buffer(const driver_device *device, cl_mem memory, uint64_t *bytes)
{
    cl_context context = NULL;
    cl_mem_object_type type = 0;
    cl_mem_flags flags = 0;
    size_t size = 0;
    CL_TRY(GetMemObjectInfo, (memory, CL_MEM_CONTEXT, sizeof(cl_context), &context, NULL));
    CL_TRY(GetMemObjectInfo, (memory, CL_MEM_TYPE, sizeof type, &type, NULL));
    CL_TRY(GetMemObjectInfo, (memory, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
    CL_TRY(GetMemObjectInfo, (memory, CL_MEM_SIZE, sizeof size, &size, NULL));
    if (context != device->context || type != CL_MEM_OBJECT_BUFFER)
        return FAIL(TUFF_E_USAGE, "tuff_array_import: expected a buffer of the device's context");
    if (flags &
        (CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY))
        return FAIL(TUFF_E_USAGE, "tuff_array_import: the buffer must allow reads and writes by host and kernels");
    *bytes = size;
    return TUFF_OK;
}

tuff_status tuff__cl_buffer_import(driver_device *device, const void *handle, uint64_t *size, driver_buffer **out)
{
    cl_mem memory = (cl_mem)(uintptr_t)handle; /* a handle: const means nothing here */
    TRY(check_buffer(device, memory, size));
    driver_buffer *buffer = tuff__calloc(1, sizeof *buffer);
    if (!buffer)
        return TUFF_E_OOM_HOST;
    cl_int error = tuff__cl.RetainMemObject(memory);
    if (error != CL_SUCCESS) {
        tuff__free(buffer);
        return tuff__cl_fail(error, "clRetainMemObject");
    }
    buffer->memory = memory;
    buffer->is_large = device->has_larger_buffers && *size > device->plain_allocation;
    *out = buffer;
    return TUFF_OK;
}

void tuff__cl_unwrap(driver_device *device, void *handles)
{
    *(tuff_opencl_handles *)handles =
        (tuff_opencl_handles){.context = device->context, .device_id = device->id, .queue = device->queue};
    device->predictor.is_shared = true;
}

void tuff__cl_buffer_unwrap(driver_buffer *buffer, tuff_buffer_handle *handle)
{
    handle->opencl = buffer->memory;
}

/* Enqueues a marker that waits for the event. In an in-order queue, later work begins when the marker is complete. */
tuff_status tuff__cl_enqueue_wait(driver_device *device, const driver_signal *signal)
{
    cl_context context = NULL;
    cl_event before = signal->event, marker = NULL;
    CL_TRY(GetEventInfo, (before, CL_EVENT_CONTEXT, sizeof(cl_context), &context, NULL));
    if (context != device->context)
        return FAIL(TUFF_E_USAGE, "tuff_opencl_enqueue_wait: the event belongs to another context");
    TRY(tuff__cl_reserve_staging(device, SIZE_MAX));
    CL_TRY(EnqueueMarkerWithWaitList, (device->queue, 1, &before, &marker));
    tuff__cl_track(device, marker, NULL, 0);
    CL_TRY(Flush, (device->queue));
    return TUFF_OK;
}

/* Without a wait list, a marker is complete when everything before it is. The application gets the reference; the ring
   has none, because later events in it cover this one. */
tuff_status tuff__cl_enqueue_signal(driver_device *device, driver_signal *signal)
{
    cl_event event = NULL;
    CL_TRY(EnqueueMarkerWithWaitList, (device->queue, 0, NULL, &event));
    const cl_int error = tuff__cl.Flush(device->queue);
    if (error != CL_SUCCESS) {
        tuff__cl.ReleaseEvent(event);
        return tuff__cl_fail(error, "clFlush");
    }
    signal->event = event;
    return TUFF_OK;
}
