/* An application's own VkDevice and queue, its buffers as arrays, and the semaphores that order its work and tuff's.
   The application keeps its objects: closing destroys only what was made here. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "device/vulkan/state.h"

static tuff_status check_handles(const tuff_vulkan_handles *handles)
{
    if (!handles->instance || !handles->physical_device || !handles->device || !handles->queue ||
        !handles->get_instance_proc)
        return FAIL(TUFF_E_USAGE, "tuff_device_wrap_vulkan: instance, physical_device, device, queue and "
                                  "get_instance_proc must not be NULL");
    if (!handles->lock_queue != !handles->unlock_queue)
        return FAIL(TUFF_E_USAGE, "tuff_device_wrap_vulkan: set both lock_queue and unlock_queue, or neither");
    if (handles->extension_count && !handles->extensions)
        return FAIL(TUFF_E_USAGE, "tuff_device_wrap_vulkan: extensions is NULL, but extension_count is %u",
                    handles->extension_count);
    for (uint32_t i = 0; i < handles->extension_count; i++)
        if (!handles->extensions[i])
            return FAIL(TUFF_E_USAGE, "tuff_device_wrap_vulkan: extensions[%u] is NULL", i);
    return TUFF_OK;
}

static tuff_status check_version(const char *subject, uint32_t version)
{
    return version >= VK_API_VERSION_1_1
               ? TUFF_OK
               : FAIL(TUFF_E_UNSUPPORTED,
                      "tuff_device_wrap_vulkan: tuff needs Vulkan 1.1, but the %s has version %u.%u", subject,
                      VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
}

static tuff_status connect(driver_device *device, const tuff_vulkan_handles *handles, tuff_device_info *info)
{
    vulkan_api *vk = &device->application_vk;
    VkPhysicalDeviceProperties properties;
    /* First, because an old instance also lacks functions. */
    TRY(check_version("instance", handles->api_version ? handles->api_version : VK_API_VERSION_1_1));
    /* Vulkan's type of this function returns a function pointer. */
    memcpy(&vk->vkGetInstanceProcAddr, &handles->get_instance_proc, sizeof vk->vkGetInstanceProcAddr);
    TRY(tuff__vulkan_load_instance(vk, handles->instance));
    device->vk = vk;
    device->is_wrapped = true;
    vk->vkGetPhysicalDeviceProperties(handles->physical_device, &properties);
    TRY(check_version("device", properties.apiVersion));
    TRY(tuff__vulkan_examine(vk, handles->physical_device, handles, &device->physical));
    device->application = *handles;
    device->application.extensions = NULL;
    device->application.extension_count = 0;
    device->application.features = NULL;
    device->handle = handles->device;
    device->queue = device->upload_queue = handles->queue;
    TRY(tuff__vulkan_prepare(device));
    tuff__vulkan_describe(&device->physical, info);
    if (device->physical.disabled[0])
        tuff__log(TUFF_LOG_INFO, "vulkan: %s: not using features that the application did not enable: %s", info->name,
                  device->physical.disabled);
    return TUFF_OK;
}

tuff_status tuff__vulkan_wrap(const void *handles, tuff_device_info *info, driver_device **out)
{
    TRY(check_handles(handles));
    driver_device *device = tuff__calloc(1, sizeof *device);
    if (!device)
        return TUFF_E_OOM_HOST;
    const tuff_status status = connect(device, handles, info);
    if (status == TUFF_OK)
        *out = device;
    else
        tuff__vulkan_close(device);
    return status;
}

/* Vulkan reports nothing about a buffer except the memory that it needs, which is no less than its size. */
static tuff_status check_buffer(const driver_device *device, const tuff_vulkan_buffer *from, VkBuffer handle)
{
    const uint32_t needed =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    const uint32_t missing = needed & ~from->usage;
    VkMemoryRequirements requirements;
    if (missing)
        return FAIL(TUFF_E_USAGE, "tuff_array_import_vulkan: the buffer's usage lacks%s%s%s",
                    missing & VK_BUFFER_USAGE_STORAGE_BUFFER_BIT ? " VK_BUFFER_USAGE_STORAGE_BUFFER_BIT" : "",
                    missing & VK_BUFFER_USAGE_TRANSFER_SRC_BIT ? " VK_BUFFER_USAGE_TRANSFER_SRC_BIT" : "",
                    missing & VK_BUFFER_USAGE_TRANSFER_DST_BIT ? " VK_BUFFER_USAGE_TRANSFER_DST_BIT" : "");
    device->vk->vkGetBufferMemoryRequirements(device->handle, handle, &requirements);
    if (from->size == 0 || from->size > requirements.size)
        return FAIL(TUFF_E_USAGE,
                    "tuff_array_import_vulkan: size %llu must be between 1 and %llu, the bytes of memory that the "
                    "buffer occupies",
                    (unsigned long long)from->size, (unsigned long long)requirements.size);
    return TUFF_OK;
}

tuff_status tuff__vulkan_import(driver_device *device, const void *handle, uint64_t *size, driver_buffer **out)
{
    const tuff_vulkan_buffer *from = handle;
    VkBuffer buffer;
    _Static_assert(sizeof buffer == sizeof from->buffer, "a pointer or a number, of 64 bits");
    memcpy(&buffer, &from->buffer, sizeof buffer);
    TRY(check_buffer(device, from, buffer));
    driver_buffer *made = tuff__calloc(1, sizeof *made);
    if (!made)
        return TUFF_E_OOM_HOST;
    *made = (driver_buffer){.handle = buffer, .size = from->size, .is_imported = true, .is_shared = true};
    *size = from->size;
    *out = made;
    return TUFF_OK;
}

static tuff_status import_semaphore(const driver_device *device, const driver_signal *signal, const char *call,
                                    vulkan_semaphore *out)
{
    out->value = signal->value;
    _Static_assert(sizeof out->handle == sizeof signal->semaphore, "a pointer or a number, of 64 bits");
    memcpy(&out->handle, &signal->semaphore, sizeof out->handle);
    if (signal->value && !device->physical.timeline.timelineSemaphore)
        return FAIL(
            TUFF_E_UNSUPPORTED,
            "%s: the feature timelineSemaphore is not enabled: enable it and list it in tuff_vulkan_handles, or "
            "pass a binary semaphore and value 0",
            call);
    return TUFF_OK;
}

/* Makes the application's writes visible to all later work and to the host, by one command buffer that is submitted
   after every semaphore. */
static tuff_status create_entry_barrier(driver_device *device)
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
        .dstAccessMask =
            VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT,
    };
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkCommandBuffer commands = NULL;
    TRY(tuff__vulkan_allocate_commands(device, device->commands, 1, &commands));
    tuff_status status = VULKAN(device->vk, vkBeginCommandBuffer, commands, &begin);
    if (status == TUFF_OK) {
        device->vk->vkCmdPipelineBarrier(commands, all, all | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0,
                                         NULL);
        status = VULKAN(device->vk, vkEndCommandBuffer, commands);
    }
    if (status == TUFF_OK)
        device->entry_barrier = commands;
    else
        device->vk->vkFreeCommandBuffers(device->handle, device->commands, 1, &commands);
    return status;
}

tuff_status tuff__vulkan_enqueue_wait(driver_device *device, const driver_signal *signal)
{
    vulkan_semaphore semaphore;
    uint64_t ticket;
    TRY(import_semaphore(device, signal, "tuff_vulkan_enqueue_wait", &semaphore));
    if (!device->entry_barrier)
        TRY(create_entry_barrier(device));
    return tuff__vulkan_submit_with_semaphores(device, device->entry_barrier, &semaphore, NULL, &ticket);
}

/* A timeline never goes back: the value must be greater than the semaphore's and greater than those that submissions in
   flight will set. The latter are looked at first: if one ends in between, the semaphore has its value. */
static tuff_status check_value(driver_device *device, const vulkan_semaphore *semaphore)
{
    const PFN_vkGetSemaphoreCounterValue counter_value =
        device->physical.version >= VK_API_VERSION_1_2 ? device->vk->counter_value : device->vk->counter_value_khr;
    uint64_t reached = 0, pending_value = 0;
    if (!counter_value)
        return FAIL(TUFF_E_UNSUPPORTED, "vulkan: vkGetSemaphoreCounterValue is not available");
    (void)tuff__vulkan_is_done(device, device->submitted);
    for (uint64_t ticket = device->finished + 1; ticket <= device->submitted; ticket++) {
        const vulkan_semaphore *pending = &tuff__vulkan_submission(device, ticket)->signal;
        if (pending->handle == semaphore->handle && pending->value > pending_value)
            pending_value = pending->value;
    }
    TRY(tuff__vulkan_check_device(device, counter_value(device->handle, semaphore->handle, &reached),
                                  "vkGetSemaphoreCounterValue"));
    reached = pending_value > reached ? pending_value : reached;
    if (semaphore->value > reached)
        return TUFF_OK;
    return FAIL(TUFF_E_USAGE,
                "tuff_vulkan_enqueue_signal: value %llu must be greater than %llu, which the timeline semaphore has or "
                "will get",
                (unsigned long long)semaphore->value, (unsigned long long)reached);
}

tuff_status tuff__vulkan_enqueue_signal(driver_device *device, driver_signal *signal)
{
    vulkan_semaphore semaphore;
    uint64_t ticket;
    TRY(import_semaphore(device, signal, "tuff_vulkan_enqueue_signal", &semaphore));
    if (semaphore.value)
        TRY(check_value(device, &semaphore));
    return tuff__vulkan_submit_with_semaphores(device, NULL, NULL, &semaphore, &ticket);
}
