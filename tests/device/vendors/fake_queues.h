/* The queues of the fake Vulkan loader: families, command pools and command buffers, and a record of submissions. */
#ifndef TUFF_TESTS_FAKE_QUEUES_H
#define TUFF_TESTS_FAKE_QUEUES_H

#include "fake_vulkan.h"

/* All objects; handles are pointers to these. */
typedef struct fake_object {
    uint64_t size;
    char *bytes;
    bool is_concurrent; /* a buffer that the families 0 and 1 share */
    bool is_pending;    /* a fence that was submitted and not seen to be signalled since */
} fake_object;

void fake_note_families(const VkDeviceCreateInfo *info);

VKAPI_ATTR void VKAPI_CALL fake_list_families(VkPhysicalDevice device, uint32_t *count, VkQueueFamilyProperties *out);
VKAPI_ATTR void VKAPI_CALL fake_get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue *out);
VKAPI_ATTR VkResult VKAPI_CALL fake_create_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                                const VkAllocationCallbacks *memory, VkCommandPool *out);
VKAPI_ATTR void VKAPI_CALL fake_destroy_pool(VkDevice device, VkCommandPool pool, const VkAllocationCallbacks *memory);
VKAPI_ATTR VkResult VKAPI_CALL fake_allocate_commands(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                                      VkCommandBuffer *out);
VKAPI_ATTR void VKAPI_CALL fake_free_commands(VkDevice device, VkCommandPool pool, uint32_t count,
                                              const VkCommandBuffer *commands);
VKAPI_ATTR VkResult VKAPI_CALL fake_begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info);
VKAPI_ATTR void VKAPI_CALL fake_copy_buffer(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count,
                                            const VkBufferCopy *regions);
VKAPI_ATTR void VKAPI_CALL fake_barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                        VkDependencyFlags flags, uint32_t count, const VkMemoryBarrier *memories,
                                        uint32_t buffer_count, const VkBufferMemoryBarrier *buffers,
                                        uint32_t image_count, const VkImageMemoryBarrier *images);
VKAPI_ATTR VkResult VKAPI_CALL fake_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence);

#endif
