/* Staging memory: a mapped host buffer with a command buffer of its own, which copies from or to it on the queue while
   the host continues. A staging that sends also has a device buffer, to which the upload queue copies the bytes
   concurrently with everything else. A semaphore orders the copies from there after the upload; the device buffer is
   not written again before the host has seen their fence, so the two queues need no other synchronization. */
#include "base/alloc.h"
#include "device/vulkan/state.h"

struct driver_staging {
    driver_buffer buffer;
    VkCommandBuffer commands;
    uint64_t ticket; /* of the copies submitted last */
    bool is_download;
    /* The following is set only if it sends. */
    driver_buffer device_buffer; /* for uploads; no handle: it does not send */
    VkCommandBuffer upload_commands;
    VkFence upload_fence;
    VkSemaphore upload_semaphore;
    bool is_uploading; /* the fence is not known to be signalled */
    bool has_upload;   /* the semaphore is signalled, or will be, and nothing waits for it yet */
};

static tuff_status create_semaphore(driver_device *device, VkSemaphore *out)
{
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    return VULKAN(device->vk, vkCreateSemaphore, device->handle, &info, NULL, out);
}

static tuff_status fill_staging(driver_device *device, uint64_t size, bool sends, driver_staging *self)
{
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    TRY(tuff__vulkan_allocate_commands(device, device->commands, 1, &self->commands));
    TRY(tuff__vulkan_buffer_create(device, size, MEMORY_HOST, sends, &self->buffer));
    if (!sends)
        return TUFF_OK;
    TRY(tuff__vulkan_allocate_commands(device, device->upload_commands, 1, &self->upload_commands));
    TRY(VULKAN(device->vk, vkCreateFence, device->handle, &fence, NULL, &self->upload_fence));
    TRY(create_semaphore(device, &self->upload_semaphore));
    return tuff__vulkan_buffer_create(device, size, MEMORY_ANYWHERE, true, &self->device_buffer);
}

tuff_status tuff__vulkan_staging_create(driver_device *device, uint64_t size, bool sends, driver_staging **out,
                                        void **memory)
{
    driver_staging *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return TUFF_E_OOM_HOST;
    const tuff_status status = fill_staging(device, size, sends, self);
    if (status != TUFF_OK) {
        tuff__vulkan_staging_destroy(device, self);
        return status;
    }
    *out = self;
    *memory = self->buffer.memory.mapped;
    return TUFF_OK;
}

static void destroy_objects(driver_device *device, driver_staging *self)
{
    if (self->commands)
        device->vk->vkFreeCommandBuffers(device->handle, device->commands, 1, &self->commands);
    if (self->upload_commands)
        device->vk->vkFreeCommandBuffers(device->handle, device->upload_commands, 1, &self->upload_commands);
    if (self->upload_fence)
        device->vk->vkDestroyFence(device->handle, self->upload_fence, NULL);
    if (self->upload_semaphore)
        device->vk->vkDestroySemaphore(device->handle, self->upload_semaphore, NULL);
    tuff__vulkan_buffer_release(device, &self->device_buffer);
    tuff__vulkan_buffer_release(device, &self->buffer);
}

void tuff__vulkan_staging_destroy(driver_device *device, driver_staging *self)
{
    const bool is_uploaded = !self->is_uploading || tuff__vulkan_settle_upload(device, self->upload_fence);
    if (tuff__vulkan_settle(device, self->ticket) && is_uploaded)
        destroy_objects(device, self);
    tuff__free(self);
}

static void record_copy(const driver_device *device, const driver_staging *self, const staged_copy *copy, bool upload)
{
    const VkBufferCopy region = {
        .srcOffset = upload ? copy->staging_offset : copy->offset,
        .dstOffset = upload ? copy->offset : copy->staging_offset,
        .size = copy->size,
    };
    const VkBuffer staged = upload && self->has_upload ? self->device_buffer.handle : self->buffer.handle;
    const VkBuffer from = upload ? staged : copy->buffer->handle;
    const VkBuffer to = upload ? copy->buffer->handle : staged;
    device->vk->vkCmdCopyBuffer(self->commands, from, to, 1, &region);
}

tuff_status tuff__vulkan_staging_copy(driver_device *device, driver_staging *self, const staged_copy *copies, int count,
                                      bool upload)
{
    const bool has_upload = upload && self->has_upload;
    if (upload && !has_upload)
        TRY(tuff__vulkan_flush(device, &self->buffer, 0, self->buffer.size));
    TRY(tuff__vulkan_begin(device, self->commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    for (int i = 0; i < count; i++)
        record_copy(device, self, &copies[i], upload);
    TRY(tuff__vulkan_end(device, self->commands));
    const vulkan_semaphore upload_semaphore = {.handle = self->upload_semaphore};
    TRY(tuff__vulkan_submit_with_semaphores(device, self->commands, has_upload ? &upload_semaphore : NULL, NULL,
                                            &self->ticket));
    self->is_download = !upload;
    self->has_upload = self->has_upload && !upload;
    for (int i = 0; i < count; i++)
        copies[i].buffer->last_use = self->ticket;
    return TUFF_OK;
}

/* A semaphore that was signalled but never waited for cannot be signalled again. */
static tuff_status renew_semaphore(driver_device *device, driver_staging *self)
{
    device->vk->vkDestroySemaphore(device->handle, self->upload_semaphore, NULL);
    self->upload_semaphore = VK_NULL_HANDLE;
    self->has_upload = false;
    return create_semaphore(device, &self->upload_semaphore);
}

/* Transfer-only queues have no stage for kernels, so this command buffer has none of the usual barriers. */
static tuff_status record_upload(const driver_device *device, driver_staging *self, uint64_t size)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    const VkBufferCopy region = {.size = size};
    TRY(VULKAN(device->vk, vkBeginCommandBuffer, self->upload_commands, &info));
    device->vk->vkCmdCopyBuffer(self->upload_commands, self->buffer.handle, self->device_buffer.handle, 1, &region);
    return VULKAN(device->vk, vkEndCommandBuffer, self->upload_commands);
}

tuff_status tuff__vulkan_staging_send(driver_device *device, driver_staging *self, uint64_t size)
{
    if (self->has_upload || !self->upload_semaphore)
        TRY(renew_semaphore(device, self));
    TRY(tuff__vulkan_flush(device, &self->buffer, 0, self->buffer.size));
    TRY(record_upload(device, self, size));
    TRY(VULKAN(device->vk, vkResetFences, device->handle, 1, &self->upload_fence));
    TRY(tuff__vulkan_submit_upload(device, self->upload_commands, self->upload_semaphore, self->upload_fence));
    self->is_uploading = self->has_upload = true;
    self->is_download = false;
    return TUFF_OK;
}

tuff_status tuff__vulkan_staging_poll(driver_device *device, driver_staging *self, bool *done)
{
    *done = tuff__vulkan_is_done(device, self->ticket);
    TRY(tuff__vulkan_check_lost(device));
    if (*done && self->is_uploading) {
        TRY(tuff__vulkan_is_uploaded(device, self->upload_fence, done));
        self->is_uploading = !*done;
    }
    if (*done && self->is_download)
        return tuff__vulkan_invalidate(device, &self->buffer, 0, self->buffer.size);
    return TUFF_OK;
}
