/* The queues of the fake Vulkan loader. The header says what is recorded of each submission. */
#include "fake_queues.h"

#include <stddef.h>
#include <stdlib.h>

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

enum { FAMILIES = 2, QUEUES = 4 };

/* What vkCreateDevice requested. A queue's handle points to its place. */
static uint32_t created[FAMILIES];
static char queues[FAMILIES][QUEUES];

typedef struct command_buffer {
    struct command_buffer *next;
    uint32_t family; /* of its pool */
    int copies, shared;
    VkPipelineStageFlags stages;
} command_buffer;

typedef struct command_pool {
    uint32_t family;
    command_buffer *first;
} command_pool;

#define COMMANDS(handle) ((command_buffer *)(void *)(handle))
#define POOL(handle) ((command_pool *)(uintptr_t)(handle))

void fake_note_families(const VkDeviceCreateInfo *info)
{
    for (uint32_t i = 0; i < FAMILIES; i++)
        created[i] = 0;
    for (uint32_t i = 0; i < info->queueCreateInfoCount; i++)
        created[info->pQueueCreateInfos[i].queueFamilyIndex] = info->pQueueCreateInfos[i].queueCount;
}

VKAPI_ATTR void VKAPI_CALL fake_list_families(VkPhysicalDevice device, uint32_t *count, VkQueueFamilyProperties *out)
{
    const fake_vulkan_device *self = (const fake_vulkan_device *)(void *)device;
    *count = self->transfer_queues ? 2 : 1;
    if (!out)
        return;
    out[0] = (VkQueueFamilyProperties){.queueFlags = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT,
                                       .queueCount = self->queues ? self->queues : 1,
                                       .timestampValidBits = 64};
    if (self->transfer_queues)
        out[1] = (VkQueueFamilyProperties){.queueFlags = VK_QUEUE_TRANSFER_BIT, .queueCount = self->transfer_queues};
}

/* Returns NULL for a queue that the device was created without. */
VKAPI_ATTR void VKAPI_CALL fake_get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue *out)
{
    (void)device;
    *out = family < FAMILIES && index < created[family] ? (VkQueue)(void *)&queues[family][index] : NULL;
}

VKAPI_ATTR VkResult VKAPI_CALL fake_create_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                                const VkAllocationCallbacks *memory, VkCommandPool *out)
{
    command_pool *made = calloc(1, sizeof *made);
    (void)device, (void)memory;
    made->family = info->queueFamilyIndex;
    *out = (VkCommandPool)(uintptr_t)made;
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL fake_destroy_pool(VkDevice device, VkCommandPool pool, const VkAllocationCallbacks *memory)
{
    (void)device, (void)memory;
    for (command_buffer *at = POOL(pool)->first, *next = NULL; at; at = next) {
        next = at->next;
        free(at);
    }
    free(POOL(pool));
    fake_vulkan.destroyed++;
}

VKAPI_ATTR VkResult VKAPI_CALL fake_allocate_commands(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                                      VkCommandBuffer *out)
{
    command_pool *pool = POOL(info->commandPool);
    (void)device;
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        command_buffer *made = calloc(1, sizeof *made);
        *made = (command_buffer){.next = pool->first, .family = pool->family};
        pool->first = made;
        out[i] = (VkCommandBuffer)(void *)made;
    }
    return VK_SUCCESS;
}

/* They stay until their pool is destroyed. */
VKAPI_ATTR void VKAPI_CALL fake_free_commands(VkDevice device, VkCommandPool pool, uint32_t count,
                                              const VkCommandBuffer *commands)
{
    (void)device, (void)pool, (void)count, (void)commands;
    fake_vulkan.destroyed++;
}

VKAPI_ATTR VkResult VKAPI_CALL fake_begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info)
{
    (void)info;
    COMMANDS(commands)->copies = COMMANDS(commands)->shared = 0;
    COMMANDS(commands)->stages = 0;
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL fake_copy_buffer(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count,
                                            const VkBufferCopy *regions)
{
    const VkBuffer buffers[] = {from, to};
    (void)count, (void)regions;
    fake_vulkan.copies++;
    COMMANDS(commands)->copies++;
    for (int i = 0; i < 2; i++)
        COMMANDS(commands)->shared += ((const fake_object *)(uintptr_t)buffers[i])->is_concurrent;
}

VKAPI_ATTR void VKAPI_CALL fake_barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                        VkDependencyFlags flags, uint32_t count, const VkMemoryBarrier *memories,
                                        uint32_t buffer_count, const VkBufferMemoryBarrier *buffers,
                                        uint32_t image_count, const VkImageMemoryBarrier *images)
{
    (void)flags, (void)count, (void)memories, (void)buffer_count, (void)buffers, (void)image_count, (void)images;
    COMMANDS(commands)->stages |= from | to;
}

VKAPI_ATTR VkResult VKAPI_CALL fake_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    const ptrdiff_t place = (char *)(void *)queue - &queues[0][0];
    const VkSubmitInfo *info = &infos[0];
    const command_buffer *commands = info->commandBufferCount ? COMMANDS(info->pCommandBuffers[0]) : NULL;
    fake_object *signal = (fake_object *)(uintptr_t)fence;
    (void)count;
    fake_vulkan.misused_fences += signal->is_pending;
    signal->is_pending = true;
    fake_vulkan.submissions++;
    fake_vulkan.last = (fake_submission){
        .family = (uint32_t)(place / QUEUES),
        .index = (uint32_t)(place % QUEUES),
        .pool_family = commands ? commands->family : UINT32_MAX,
        .copies = commands ? commands->copies : 0,
        .shared = commands ? commands->shared : 0,
        .stages = commands ? commands->stages : 0,
        .waited = info->waitSemaphoreCount ? info->pWaitSemaphores[0] : VK_NULL_HANDLE,
        .signalled = info->signalSemaphoreCount ? info->pSignalSemaphores[0] : VK_NULL_HANDLE,
    };
    return VK_SUCCESS;
}
#endif
