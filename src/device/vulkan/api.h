/* Every call to Vulkan goes through a table of its functions: tuff__vk for the devices that tuff opens, whose entries
   tests can replace, and a table for each device of an application. Tables are filled in at run time, from the loader's
   library or by the application's vkGetInstanceProcAddr: nothing here links to Vulkan. Device functions are looked up
   through the instance, so that they work for every device of the instance. */
#ifndef TUFF_DEVICE_VULKAN_API_H
#define TUFF_DEVICE_VULKAN_API_H

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

#include "base/status.h"

/* Functions that exist without an instance. X(name). */
#define VULKAN_GLOBAL_FUNCTIONS(X)            \
    X(vkEnumerateInstanceVersion)             \
    X(vkEnumerateInstanceExtensionProperties) \
    X(vkCreateInstance)

/* Functions of Vulkan 1.1 that are looked up through the instance. X(name). */
#define VULKAN_INSTANCE_FUNCTIONS(X)            \
    X(vkDestroyInstance)                        \
    X(vkEnumeratePhysicalDevices)               \
    X(vkEnumerateDeviceExtensionProperties)     \
    X(vkGetPhysicalDeviceProperties)            \
    X(vkGetPhysicalDeviceProperties2)           \
    X(vkGetPhysicalDeviceFeatures2)             \
    X(vkGetPhysicalDeviceQueueFamilyProperties) \
    X(vkGetPhysicalDeviceMemoryProperties)      \
    X(vkGetPhysicalDeviceMemoryProperties2)     \
    X(vkCreateDevice)                           \
    X(vkDestroyDevice)                          \
    X(vkGetDeviceQueue)                         \
    X(vkQueueSubmit)                            \
    X(vkCreateSemaphore)                        \
    X(vkDestroySemaphore)                       \
    X(vkCreateFence)                            \
    X(vkDestroyFence)                           \
    X(vkResetFences)                            \
    X(vkGetFenceStatus)                         \
    X(vkWaitForFences)                          \
    X(vkCreateBuffer)                           \
    X(vkDestroyBuffer)                          \
    X(vkGetBufferMemoryRequirements)            \
    X(vkAllocateMemory)                         \
    X(vkFreeMemory)                             \
    X(vkBindBufferMemory)                       \
    X(vkMapMemory)                              \
    X(vkFlushMappedMemoryRanges)                \
    X(vkInvalidateMappedMemoryRanges)           \
    X(vkCreateShaderModule)                     \
    X(vkDestroyShaderModule)                    \
    X(vkCreateDescriptorSetLayout)              \
    X(vkDestroyDescriptorSetLayout)             \
    X(vkCreatePipelineLayout)                   \
    X(vkDestroyPipelineLayout)                  \
    X(vkCreatePipelineCache)                    \
    X(vkDestroyPipelineCache)                   \
    X(vkGetPipelineCacheData)                   \
    X(vkMergePipelineCaches)                    \
    X(vkCreateComputePipelines)                 \
    X(vkDestroyPipeline)                        \
    X(vkCreateDescriptorPool)                   \
    X(vkDestroyDescriptorPool)                  \
    X(vkAllocateDescriptorSets)                 \
    X(vkUpdateDescriptorSets)                   \
    X(vkCreateQueryPool)                        \
    X(vkDestroyQueryPool)                       \
    X(vkGetQueryPoolResults)                    \
    X(vkCreateCommandPool)                      \
    X(vkDestroyCommandPool)                     \
    X(vkAllocateCommandBuffers)                 \
    X(vkFreeCommandBuffers)                     \
    X(vkBeginCommandBuffer)                     \
    X(vkEndCommandBuffer)                       \
    X(vkCmdBindPipeline)                        \
    X(vkCmdBindDescriptorSets)                  \
    X(vkCmdPushConstants)                       \
    X(vkCmdDispatch)                            \
    X(vkCmdCopyBuffer)                          \
    X(vkCmdFillBuffer)                          \
    X(vkCmdPipelineBarrier)                     \
    X(vkCmdResetQueryPool)                      \
    X(vkCmdWriteTimestamp)

/* VK_KHR_cooperative_matrix, VK_KHR_shader_bfloat16 and VK_NV_cooperative_matrix2, which are newer than many headers.
 */
enum {
    COOPERATIVE_FEATURES_KHR = 1000506000, /* sType for VkPhysicalDeviceCooperativeMatrixFeaturesNV, which has the same
                                              layout */
    COOPERATIVE_PROPERTIES_KHR = 1000506001,
    BFLOAT16_FEATURES_KHR = 1000141000,  /* sType for bfloat16_features_khr */
    COMPONENT_BFLOAT16_KHR = 1000141000, /* a type of components */
    COOPERATIVE_2_FEATURES_NV = 1000593000,
    FLEXIBLE_PROPERTIES_NV = 1000593001,
    COOPERATIVE_2_PROPERTIES_NV = 1000593002
};

typedef struct bfloat16_features_khr {
    VkStructureType sType;
    void *pNext;
    VkBool32 shaderBFloat16Type, shaderBFloat16DotProduct, shaderBFloat16CooperativeMatrix;
} bfloat16_features_khr;

typedef struct cooperative_properties_khr {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k, a, b, c, result; /* types, numbered like NV's */
    VkBool32 saturating;
    uint32_t scope;
} cooperative_properties_khr;

typedef VkResult(VKAPI_PTR *cooperative_khr)(VkPhysicalDevice device, uint32_t *count,
                                             cooperative_properties_khr *properties);

typedef struct cooperative_2_features_nv {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrixWorkgroupScope, cooperativeMatrixFlexibleDimensions, cooperativeMatrixReductions,
        cooperativeMatrixConversions, cooperativeMatrixPerElementOperations, cooperativeMatrixTensorAddressing,
        cooperativeMatrixBlockLoads;
} cooperative_2_features_nv;

typedef struct cooperative_2_properties_nv {
    VkStructureType sType;
    void *pNext;
    uint32_t largest_group, largest_side, reserved_memory;
} cooperative_2_properties_nv;

typedef struct flexible_properties_nv {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k; /* sides are multiples of these */
    uint32_t a, b, c, result;
    VkBool32 saturating;
    uint32_t scope, group_size;
} flexible_properties_nv;

typedef VkResult(VKAPI_PTR *flexible_nv)(VkPhysicalDevice device, uint32_t *count, flexible_properties_nv *properties);

typedef struct vulkan_api {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
    /* NULL if no driver has the function: */
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV cooperative_nv;
    cooperative_khr cooperative_khr;
    flexible_nv flexible_nv;
    PFN_vkGetPipelineExecutablePropertiesKHR executable_properties;
    PFN_vkGetPipelineExecutableStatisticsKHR executable_statistics;
    PFN_vkGetSemaphoreCounterValue counter_value;     /* Vulkan 1.2's */
    PFN_vkGetSemaphoreCounterValue counter_value_khr; /* the extension's */

#define X(name) PFN_##name name;
    VULKAN_GLOBAL_FUNCTIONS(X)
    VULKAN_INSTANCE_FUNCTIONS(X)
#undef X
} vulkan_api;

/* The table of the instance that tuff makes. */
extern vulkan_api tuff__vk;

/* Opens the loader (unless vkGetInstanceProcAddr is set already) and fills in the global part of the table. On failure
   returns TUFF_E_NO_DEVICE and says what to install. */
tuff_status tuff__vulkan_load_global(void);
/* Fills in the rest of tuff__vk, or of another table whose vkGetInstanceProcAddr is set. Entries that are not NULL
   stay. */
tuff_status tuff__vulkan_load_instance(vulkan_api *vk, VkInstance instance);

/* Turns the result of the call `function` into a status and a message. Positive results count as success. */
tuff_status tuff__vulkan_check(VkResult result, const char *function);
/* Calls a function of a table that returns VkResult: VULKAN(device->vk, vkEndCommandBuffer, commands). */
#define VULKAN(vk, function, ...) tuff__vulkan_check((vk)->function(__VA_ARGS__), #function)

#endif
