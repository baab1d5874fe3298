/* Replaces the table of Vulkan functions by wrappers that count calls, fail the armed one, keep track of living objects
   and refuse to destroy null handles. Included by vulkan_failures.c only. */
#ifndef TUFF_TESTS_VULKAN_FAULTS_H
#define TUFF_TESTS_VULKAN_FAULTS_H

#include "device/vulkan/api.h"

/* Functions that return VkResult and create nothing that must be destroyed. X(name, parameters, arguments). */
#define PLAIN_CALLS(X)                                                                                              \
    X(vkEnumerateDeviceExtensionProperties,                                                                         \
      (VkPhysicalDevice a, const char *b, uint32_t *c, VkExtensionProperties *d), (a, b, c, d))                     \
    X(vkQueueSubmit, (VkQueue a, uint32_t b, const VkSubmitInfo *c, VkFence d), (a, b, c, d))                       \
    X(vkResetFences, (VkDevice a, uint32_t b, const VkFence *c), (a, b, c))                                         \
    X(vkGetFenceStatus, (VkDevice a, VkFence b), (a, b))                                                            \
    X(vkWaitForFences, (VkDevice a, uint32_t b, const VkFence *c, VkBool32 d, uint64_t e), (a, b, c, d, e))         \
    X(vkBindBufferMemory, (VkDevice a, VkBuffer b, VkDeviceMemory c, VkDeviceSize d), (a, b, c, d))                 \
    X(vkMapMemory, (VkDevice a, VkDeviceMemory b, VkDeviceSize c, VkDeviceSize d, VkMemoryMapFlags e, void **f),    \
      (a, b, c, d, e, f))                                                                                           \
    X(vkFlushMappedMemoryRanges, (VkDevice a, uint32_t b, const VkMappedMemoryRange *c), (a, b, c))                 \
    X(vkInvalidateMappedMemoryRanges, (VkDevice a, uint32_t b, const VkMappedMemoryRange *c), (a, b, c))            \
    X(vkAllocateDescriptorSets, (VkDevice a, const VkDescriptorSetAllocateInfo *b, VkDescriptorSet *c), (a, b, c))  \
    X(vkGetQueryPoolResults,                                                                                        \
      (VkDevice a, VkQueryPool b, uint32_t c, uint32_t d, size_t e, void *f, VkDeviceSize g, VkQueryResultFlags h), \
      (a, b, c, d, e, f, g, h))                                                                                     \
    X(vkGetPipelineCacheData, (VkDevice a, VkPipelineCache b, size_t * c, void *d), (a, b, c, d))                   \
    X(vkBeginCommandBuffer, (VkCommandBuffer a, const VkCommandBufferBeginInfo *b), (a, b))                         \
    X(vkEndCommandBuffer, (VkCommandBuffer a), (a))

/* Functions that create one object. X(maker, owner, info, object). */
#define OBJECTS(X)                                                                                   \
    X(vkCreateDevice, VkPhysicalDevice, VkDeviceCreateInfo, VkDevice)                                \
    X(vkCreateFence, VkDevice, VkFenceCreateInfo, VkFence)                                           \
    X(vkCreateSemaphore, VkDevice, VkSemaphoreCreateInfo, VkSemaphore)                               \
    X(vkCreateBuffer, VkDevice, VkBufferCreateInfo, VkBuffer)                                        \
    X(vkAllocateMemory, VkDevice, VkMemoryAllocateInfo, VkDeviceMemory)                              \
    X(vkCreateShaderModule, VkDevice, VkShaderModuleCreateInfo, VkShaderModule)                      \
    X(vkCreateDescriptorSetLayout, VkDevice, VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout) \
    X(vkCreatePipelineLayout, VkDevice, VkPipelineLayoutCreateInfo, VkPipelineLayout)                \
    X(vkCreatePipelineCache, VkDevice, VkPipelineCacheCreateInfo, VkPipelineCache)                   \
    X(vkCreateDescriptorPool, VkDevice, VkDescriptorPoolCreateInfo, VkDescriptorPool)                \
    X(vkCreateQueryPool, VkDevice, VkQueryPoolCreateInfo, VkQueryPool)                               \
    X(vkCreateCommandPool, VkDevice, VkCommandPoolCreateInfo, VkCommandPool)

/* Functions that destroy one object. X(destroyer, object). */
#define DESTROYERS(X)                                      \
    X(vkDestroyFence, VkFence)                             \
    X(vkDestroySemaphore, VkSemaphore)                     \
    X(vkDestroyBuffer, VkBuffer)                           \
    X(vkFreeMemory, VkDeviceMemory)                        \
    X(vkDestroyShaderModule, VkShaderModule)               \
    X(vkDestroyDescriptorSetLayout, VkDescriptorSetLayout) \
    X(vkDestroyPipelineLayout, VkPipelineLayout)           \
    X(vkDestroyPipeline, VkPipeline)                       \
    X(vkDestroyPipelineCache, VkPipelineCache)             \
    X(vkDestroyDescriptorPool, VkDescriptorPool)           \
    X(vkDestroyQueryPool, VkQueryPool)                     \
    X(vkDestroyCommandPool, VkCommandPool)

enum fault_site {
#define X(name, ...) SITE_##name,
    PLAIN_CALLS(X) OBJECTS(X)
#undef X
        SITE_vkCreateComputePipelines,
    SITE_vkAllocateCommandBuffers,
    SITE_COUNT
};

static const char *const site_names[SITE_COUNT] = {
#define X(name, ...) #name,
    PLAIN_CALLS(X) OBJECTS(X)
#undef X
        "vkCreateComputePipelines",
    "vkAllocateCommandBuffers",
};

/* calls: number of calls of each function since the last reset. Call number armed_call (from 1) of armed_site returns
   armed_result. */
static struct {
    vulkan_api real;
    PFN_vkDeviceWaitIdle wait_idle;
    VkDevice device;
    int calls[SITE_COUNT];
    int armed_site, armed_call, hits;
    VkResult armed_result;
    int alive, null_destroyed;
} faults = {.armed_site = -1};

static void faults_reset(void)
{
    memset(faults.calls, 0, sizeof faults.calls);
    faults.armed_site = -1;
    faults.hits = 0;
}

static void faults_arm(int site, int call, VkResult result)
{
    faults_reset();
    faults.armed_site = site;
    faults.armed_call = call;
    faults.armed_result = result;
}

static bool is_failing_call(int site)
{
    if (++faults.calls[site] != faults.armed_call || site != faults.armed_site)
        return false;
    faults.hits++;
    /* A lost device would run nothing any more, but this one still works: waits until it is idle. */
    if (faults.armed_result == VK_ERROR_DEVICE_LOST && faults.device)
        faults.wait_idle(faults.device);
    return true;
}

#define X(name, parameters, arguments)                            \
    static VKAPI_ATTR VkResult VKAPI_CALL fault_##name parameters \
    {                                                             \
        if (is_failing_call(SITE_##name))                         \
            return faults.armed_result;                           \
        return faults.real.name arguments;                        \
    }
PLAIN_CALLS(X)
#undef X

#define X(name, owner, info, object)                                                                     \
    static VKAPI_ATTR VkResult VKAPI_CALL fault_##name(owner from, const info *how,                      \
                                                       const VkAllocationCallbacks *memory, object *out) \
    {                                                                                                    \
        if (is_failing_call(SITE_##name))                                                                \
            return faults.armed_result;                                                                  \
        VkResult result = faults.real.name(from, how, memory, out);                                      \
        faults.alive += result == VK_SUCCESS;                                                            \
        return result;                                                                                   \
    }
OBJECTS(X)
#undef X

#define X(name, object)                                                                                              \
    static VKAPI_ATTR void VKAPI_CALL fault_##name(VkDevice from, object which, const VkAllocationCallbacks *memory) \
    {                                                                                                                \
        faults.alive--;                                                                                              \
        faults.null_destroyed += !which;                                                                             \
        faults.real.name(from, which, memory);                                                                       \
    }
DESTROYERS(X)
#undef X

static VKAPI_ATTR VkResult VKAPI_CALL remember_device(VkPhysicalDevice from, const VkDeviceCreateInfo *how,
                                                      const VkAllocationCallbacks *memory, VkDevice *out)
{
    VkResult result = fault_vkCreateDevice(from, how, memory, out);
    faults.device = result == VK_SUCCESS ? *out : NULL;
    return result;
}

static VKAPI_ATTR void VKAPI_CALL fault_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *memory)
{
    faults.alive--;
    faults.null_destroyed += !device;
    faults.device = NULL;
    faults.real.vkDestroyDevice(device, memory);
}

static VKAPI_ATTR VkResult VKAPI_CALL fault_vkCreateComputePipelines(VkDevice device, VkPipelineCache cache,
                                                                     uint32_t count,
                                                                     const VkComputePipelineCreateInfo *how,
                                                                     const VkAllocationCallbacks *memory,
                                                                     VkPipeline *out)
{
    if (is_failing_call(SITE_vkCreateComputePipelines))
        return faults.armed_result;
    VkResult result = faults.real.vkCreateComputePipelines(device, cache, count, how, memory, out);
    faults.alive += result == VK_SUCCESS;
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL fault_vkAllocateCommandBuffers(VkDevice device,
                                                                     const VkCommandBufferAllocateInfo *how,
                                                                     VkCommandBuffer *out)
{
    if (is_failing_call(SITE_vkAllocateCommandBuffers))
        return faults.armed_result;
    return faults.real.vkAllocateCommandBuffers(device, how, out);
}

/* Puts the wrappers into the filled table. */
static void faults_install(PFN_vkDeviceWaitIdle wait_idle)
{
    faults.real = tuff__vk;
    faults.wait_idle = wait_idle;
#define X(name, ...) tuff__vk.name = fault_##name;
    PLAIN_CALLS(X)
    OBJECTS(X)
    DESTROYERS(X)
#undef X
    tuff__vk.vkCreateDevice = remember_device;
    tuff__vk.vkDestroyDevice = fault_vkDestroyDevice;
    tuff__vk.vkCreateComputePipelines = fault_vkCreateComputePipelines;
    tuff__vk.vkAllocateCommandBuffers = fault_vkAllocateCommandBuffers;
}

static void faults_remove(void)
{
    tuff__vk = faults.real;
}

#endif
