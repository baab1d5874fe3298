/* Objects of OpenCL and Vulkan that an application shares with tuff: its own devices wrapped and its buffers imported,
   the handles behind tuff's devices and arrays lent to it, and signals that order the work of both. Only the driver
   knows what a handle is. */
#include <string.h>

#include "device/list.h"
#include "device/state.h"

tuff_device *tuff_device_wrap_opencl(const tuff_opencl_handles *handles)
{
    if (handles && handles->context && handles->device_id && handles->queue) {
        const driver *calls = tuff__device_driver("opencl");
        return calls ? tuff__device_wrap(calls, handles) : NULL;
    }
    FAIL(TUFF_E_USAGE, "tuff_device_wrap_opencl: %s must not be NULL",
         handles ? "context, device_id and queue" : "handles");
    return NULL;
}

tuff_device *tuff_device_wrap_vulkan(const tuff_vulkan_handles *handles)
{
    if (handles) {
        /* Needs no loader or instance of tuff's: the application's own functions are used. */
        const driver *calls = tuff__device_built_driver("vulkan");
        return calls ? tuff__device_wrap(calls, handles) : NULL;
    }
    FAIL(TUFF_E_USAGE, "tuff_device_wrap_vulkan: handles is NULL");
    return NULL;
}

const char *tuff_vulkan_requirements(void)
{
    return "Vulkan 1.1 and a compute queue; used if enabled: storageBuffer16BitAccess and storageBuffer8BitAccess "
           "(VK_KHR_8bit_storage) for single 8-bit and 16-bit elements, shaderFloat16 and shaderInt8 "
           "(VK_KHR_shader_float16_int8), subgroupSizeControl and computeFullSubgroups (VK_EXT_subgroup_size_control), "
           "timelineSemaphore (VK_KHR_timeline_semaphore), cooperativeMatrix (VK_KHR_cooperative_matrix or "
           "VK_NV_cooperative_matrix) with vulkanMemoryModel and Vulkan 1.2, shaderBFloat16Type and "
           "shaderBFloat16CooperativeMatrix (VK_KHR_shader_bfloat16), cooperativeMatrixWorkgroupScope, "
           "cooperativeMatrixFlexibleDimensions, cooperativeMatrixPerElementOperations and "
           "cooperativeMatrixTensorAddressing (VK_NV_cooperative_matrix2), pipelineExecutableInfo "
           "(VK_KHR_pipeline_executable_properties), "
           "shaderInt16, shaderInt64, VK_KHR_shader_float_controls";
}

/* handles: a tuff_opencl_handles or tuff_vulkan_handles, as the API's driver takes it. */
static tuff_status unwrap(tuff_device *device, const char *api, void *handles)
{
    if (!device || !handles)
        return FAIL(TUFF_E_USAGE, "tuff_device_unwrap_%s: the %s is NULL", api, device ? "handles" : "device");
    if (!device->driver || strcmp(device->driver->name, api) != 0)
        return FAIL(TUFF_E_UNSUPPORTED, "tuff_device_unwrap_%s: %s is not a device of this API", api,
                    device->info.selector);
    TRY(tuff__device_begin(device));
    device->driver->unwrap(device->handle, handles);
    return tuff__device_end(device, TUFF_OK);
}

tuff_status tuff_device_unwrap_opencl(tuff_device *device, tuff_opencl_handles *handles)
{
    return unwrap(device, "opencl", handles);
}

tuff_status tuff_device_unwrap_vulkan(tuff_device *device, tuff_vulkan_handles *handles)
{
    return unwrap(device, "vulkan", handles);
}

/* Checks that the device belongs to the API; a failure names the call and its NULL argument. */
static tuff_status check_api(const char *call, const tuff_device *device, const char *api, const char *argument,
                             bool is_set)
{
    if (!device || !is_set)
        return FAIL(TUFF_E_USAGE, "%s: the %s is NULL", call, device ? argument : "device");
    if (!device->driver || strcmp(device->driver->name, api) != 0)
        return FAIL(TUFF_E_UNSUPPORTED, "%s: expected a device of %s, got %s", call, api, device->info.selector);
    return TUFF_OK;
}

/* Checks that buffers of the device's API are imported by the call; a failure names the function that does it. */
static tuff_status check_import(const char *call, const tuff_device *device, bool is_set)
{
    if (!device || !is_set)
        return FAIL(TUFF_E_USAGE, "%s: the %s is NULL", call, device ? "buffer" : "device");
    if (!device->driver)
        return FAIL(TUFF_E_UNSUPPORTED, "%s: %s has no buffers to import", call, device->info.selector);
    if (strcmp(device->driver->import, call) != 0)
        return FAIL(TUFF_E_UNSUPPORTED, "%s: use %s for buffers of %s", call, device->driver->import,
                    device->info.selector);
    return TUFF_OK;
}

tuff_array *tuff_array_import(tuff_device *device, void *buffer, uint64_t offset, tuff_dtype dtype, tuff_shape shape)
{
    static const char call[] = "tuff_array_import";
    if (check_import(call, device, buffer != NULL) != TUFF_OK)
        return NULL;
    return tuff__array_import(call, device, buffer, offset, dtype, shape);
}

tuff_array *tuff_array_import_vulkan(tuff_device *device, const tuff_vulkan_buffer *buffer, uint64_t offset,
                                     tuff_dtype dtype, tuff_shape shape)
{
    static const char call[] = "tuff_array_import_vulkan";
    if (check_import(call, device, buffer && buffer->buffer) != TUFF_OK)
        return NULL;
    return tuff__array_import(call, device, buffer, offset, dtype, shape);
}

/* A wait counts as a submission: waiting for the device includes waiting for the signal. */
static tuff_status enqueue_wait(tuff_device *device, const driver_signal *signal)
{
    TRY(tuff__device_begin_work(device));
    atomic_fetch_add(&device->submitted, 1);
    return tuff__device_end_work(device, device->driver->enqueue_wait(device->handle, signal));
}

static tuff_status enqueue_signal(tuff_device *device, driver_signal *signal)
{
    TRY(tuff__device_begin_work(device));
    return tuff__device_end_work(device, device->driver->enqueue_signal(device->handle, signal));
}

tuff_status tuff_vulkan_enqueue_wait(tuff_device *device, uint64_t semaphore, uint64_t value)
{
    TRY(check_api("tuff_vulkan_enqueue_wait", device, "vulkan", "semaphore", semaphore != 0));
    return enqueue_wait(device, &(driver_signal){.semaphore = semaphore, .value = value});
}

tuff_status tuff_vulkan_enqueue_signal(tuff_device *device, uint64_t semaphore, uint64_t value)
{
    TRY(check_api("tuff_vulkan_enqueue_signal", device, "vulkan", "semaphore", semaphore != 0));
    return enqueue_signal(device, &(driver_signal){.semaphore = semaphore, .value = value});
}

tuff_status tuff_opencl_enqueue_wait(tuff_device *device, void *event)
{
    TRY(check_api("tuff_opencl_enqueue_wait", device, "opencl", "event", event != NULL));
    return enqueue_wait(device, &(driver_signal){.event = event});
}

tuff_status tuff_opencl_enqueue_signal(tuff_device *device, void **event)
{
    driver_signal signal = {0};
    TRY(check_api("tuff_opencl_enqueue_signal", device, "opencl", "event", event != NULL));
    TRY(enqueue_signal(device, &signal));
    *event = signal.event;
    return TUFF_OK;
}

tuff_status tuff_array_unwrap(tuff_array *array, tuff_buffer_handle *handle)
{
    if (!array || !handle)
        return FAIL(TUFF_E_USAGE, "tuff_array_unwrap: the %s is NULL", array ? "handle" : "array");
    tuff_device *device = array->device;
    driver_buffer *buffer = tuff__storage_buffer(array->storage);
    if (!buffer)
        return FAIL(TUFF_E_UNSUPPORTED, "tuff_array_unwrap: the array has no buffer on %s", device->info.selector);
    TRY(tuff__device_begin(device));
    *handle = (tuff_buffer_handle){.offset = array->offset, .size = tuff_array_size(array)};
    device->driver->buffer_unwrap(buffer, handle);
    return tuff__device_end(device, TUFF_OK);
}

tuff_status tuff_array_touch(tuff_array *array)
{
    if (!array)
        return FAIL(TUFF_E_USAGE, "tuff_array_touch: the array is NULL");
    tuff__storage_touch(array->storage);
    return TUFF_OK;
}
