/* Objects of OpenCL and Vulkan that an application shares with tuff: its own devices wrapped, and the handles behind
   tuff's devices and arrays lent to it. What a handle is, only the driver knows. */
#include <string.h>

#include "device/list.h"
#include "device/state.h"

static tuff_device *wrap(const char *api, const void *handles)
{
    const driver *calls = tuff__device_driver(api);
    return calls ? tuff__device_wrap(calls, handles) : NULL;
}

tuff_device *tuff_device_wrap_opencl(const tuff_opencl_handles *handles)
{
    if (handles && handles->context && handles->device_id && handles->queue)
        return wrap("opencl", handles);
    FAIL(TUFF_E_USAGE, "tuff_device_wrap_opencl: %s must not be NULL",
         handles ? "context, device_id and queue" : "handles");
    return NULL;
}

tuff_device *tuff_device_wrap_vulkan(const tuff_vulkan_handles *handles)
{
    if (handles)
        return wrap("vulkan", handles);
    FAIL(TUFF_E_USAGE, "tuff_device_wrap_vulkan: handles is NULL");
    return NULL;
}

const char *tuff_vulkan_requirements(void)
{
    return "Vulkan 1.1; where present: VK_KHR_8bit_storage, VK_KHR_shader_float16_int8, VK_EXT_subgroup_size_control, "
           "storageBuffer16BitAccess, storageBuffer8BitAccess, shaderFloat16, shaderInt64";
}

/* handles: a tuff_opencl_handles or tuff_vulkan_handles, as the driver of that API takes it. */
static tuff_status unwrap(tuff_device *device, const char *api, void *handles)
{
    if (!device || !handles)
        return FAIL(TUFF_E_USAGE, "tuff_device_unwrap_%s: the %s is NULL", api, device ? "handles" : "device");
    if (!device->driver || strcmp(device->driver->name, api) != 0)
        return FAIL(TUFF_E_UNSUPPORTED, "tuff_device_unwrap_%s: %s has no such handles", api, device->info.selector);
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
