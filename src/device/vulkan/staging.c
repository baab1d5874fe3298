/* Staging memory: a mapped buffer of the host's with a command buffer of its own, which copies from or to it on the
   queue while the host goes on. */
#include "base/alloc.h"
#include "device/vulkan/state.h"

struct driver_staging {
    driver_buffer buffer;
    VkCommandBuffer commands;
    uint64_t ticket; /* of the copies submitted last */
    bool is_download;
};

static tuff_status fill_staging(driver_device *device, uint64_t size, driver_staging *self)
{
    VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = device->commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    TRY(VULKAN(vkAllocateCommandBuffers, device->handle, &info, &self->commands));
    return tuff__vulkan_buffer_create(device, size, true, &self->buffer);
}

tuff_status tuff__vulkan_staging_create(driver_device *device, uint64_t size, driver_staging **out, void **memory)
{
    driver_staging *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return TUFF_E_OOM_HOST;
    const tuff_status status = fill_staging(device, size, self);
    if (status != TUFF_OK) {
        tuff__vulkan_staging_destroy(device, self);
        return status;
    }
    *out = self;
    *memory = self->buffer.memory.mapped;
    return TUFF_OK;
}

void tuff__vulkan_staging_destroy(driver_device *device, driver_staging *self)
{
    if (tuff__vulkan_settle(device, self->ticket)) {
        if (self->commands)
            tuff__vk.vkFreeCommandBuffers(device->handle, device->commands, 1, &self->commands);
        tuff__vulkan_buffer_release(device, &self->buffer);
    }
    tuff__free(self);
}

static void record_copy(const driver_staging *self, const staged_copy *copy, bool upload)
{
    const VkBufferCopy region = {
        .srcOffset = upload ? copy->staging_offset : copy->offset,
        .dstOffset = upload ? copy->offset : copy->staging_offset,
        .size = copy->size,
    };
    const VkBuffer from = upload ? self->buffer.handle : copy->buffer->handle;
    const VkBuffer to = upload ? copy->buffer->handle : self->buffer.handle;
    tuff__vk.vkCmdCopyBuffer(self->commands, from, to, 1, &region);
}

tuff_status tuff__vulkan_staging_copy(driver_device *device, driver_staging *self, const staged_copy *copies, int count,
                                      bool upload)
{
    if (upload)
        TRY(tuff__vulkan_flush(device, &self->buffer, 0, self->buffer.size));
    TRY(tuff__vulkan_begin(self->commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    for (int i = 0; i < count; i++)
        record_copy(self, &copies[i], upload);
    TRY(tuff__vulkan_end(self->commands));
    self->is_download = !upload;
    TRY(tuff__vulkan_submit(device, self->commands, &self->ticket));
    for (int i = 0; i < count; i++)
        copies[i].buffer->last_use = self->ticket;
    return TUFF_OK;
}

tuff_status tuff__vulkan_staging_poll(driver_device *device, driver_staging *self, bool *done)
{
    *done = tuff__vulkan_is_done(device, self->ticket);
    if (device->lost)
        return FAIL(TUFF_E_DEVICE_LOST, "vulkan: %s was lost", device->physical.properties.properties.deviceName);
    if (*done && self->is_download)
        return tuff__vulkan_invalidate(device, &self->buffer, 0, self->buffer.size);
    return TUFF_OK;
}
