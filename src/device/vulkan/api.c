/* The tables of Vulkan functions: how they are filled in, and what results mean. */
#include "device/vulkan/api.h"

#include <string.h>

#include "base/library.h"

vulkan_api tuff__vk;

tuff_status tuff__vulkan_load_global(void)
{
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib", "libMoltenVK.dylib"};
    if (!tuff__vk.vkGetInstanceProcAddr) {
        void *library = tuff__library_open(names, (int)(sizeof names / sizeof *names));
        if (!library)
            return FAIL(TUFF_E_NO_DEVICE, "cannot open libvulkan.so.1: install the Vulkan loader (Debian: "
                                          "libvulkan1) and a driver (Debian: mesa-vulkan-drivers)");
        void *symbol = tuff__library_symbol(library, "vkGetInstanceProcAddr");
        if (!symbol)
            return FAIL(TUFF_E_NO_DEVICE, "libvulkan.so.1 has no vkGetInstanceProcAddr: reinstall the Vulkan loader");
        /* ISO C cannot convert an object pointer to a function pointer. */
        memcpy(&tuff__vk.vkGetInstanceProcAddr, &symbol, sizeof symbol);
    }
#define X(name)                                                                  \
    if (!tuff__vk.name)                                                          \
        tuff__vk.name = (PFN_##name)tuff__vk.vkGetInstanceProcAddr(NULL, #name); \
    if (!tuff__vk.name)                                                          \
        return FAIL(TUFF_E_NO_DEVICE, "the Vulkan loader is older than 1.1: it has no " #name);
    VULKAN_GLOBAL_FUNCTIONS(X)
#undef X
    return TUFF_OK;
}

tuff_status tuff__vulkan_load_instance(vulkan_api *vk, VkInstance instance)
{
    const PFN_vkGetInstanceProcAddr find = vk->vkGetInstanceProcAddr;
    const char *missing = NULL;
#define X(name)                                       \
    if (!vk->name)                                    \
        vk->name = (PFN_##name)find(instance, #name); \
    if (!vk->name)                                    \
        missing = #name;
    VULKAN_INSTANCE_FUNCTIONS(X)
#undef X
    vk->cooperative_nv = (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV)find(
        instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesNV");
    vk->cooperative_khr = (cooperative_khr)find(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    vk->flexible_nv = (flexible_nv)find(instance, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV");
    vk->executable_properties =
        (PFN_vkGetPipelineExecutablePropertiesKHR)find(instance, "vkGetPipelineExecutablePropertiesKHR");
    vk->executable_statistics =
        (PFN_vkGetPipelineExecutableStatisticsKHR)find(instance, "vkGetPipelineExecutableStatisticsKHR");
    vk->counter_value = (PFN_vkGetSemaphoreCounterValue)find(instance, "vkGetSemaphoreCounterValue");
    vk->counter_value_khr = (PFN_vkGetSemaphoreCounterValue)find(instance, "vkGetSemaphoreCounterValueKHR");
    return missing ? FAIL(TUFF_E_NO_DEVICE, "Vulkan is older than 1.1: it has no %s", missing) : TUFF_OK;
}

static const struct {
    VkResult result;
    tuff_status status;
    const char *name;
} results[] = {
#define ROW(result, status)     \
    {                           \
        result, status, #result \
    }
    ROW(VK_ERROR_OUT_OF_HOST_MEMORY, TUFF_E_OOM_HOST),
    ROW(VK_ERROR_OUT_OF_DEVICE_MEMORY, TUFF_E_OOM_DEVICE),
    ROW(VK_ERROR_OUT_OF_POOL_MEMORY, TUFF_E_OOM_DEVICE),
    ROW(VK_ERROR_FRAGMENTED_POOL, TUFF_E_OOM_DEVICE),
    ROW(VK_ERROR_FRAGMENTATION, TUFF_E_OOM_DEVICE),
    ROW(VK_ERROR_TOO_MANY_OBJECTS, TUFF_E_OOM_DEVICE),
    ROW(VK_ERROR_MEMORY_MAP_FAILED, TUFF_E_OOM_HOST),
    ROW(VK_ERROR_DEVICE_LOST, TUFF_E_DEVICE_LOST),
    ROW(VK_ERROR_INITIALIZATION_FAILED, TUFF_E_NO_DEVICE),
    ROW(VK_ERROR_INCOMPATIBLE_DRIVER, TUFF_E_NO_DEVICE),
    ROW(VK_ERROR_LAYER_NOT_PRESENT, TUFF_E_NO_DEVICE),
    ROW(VK_ERROR_EXTENSION_NOT_PRESENT, TUFF_E_UNSUPPORTED),
    ROW(VK_ERROR_FEATURE_NOT_PRESENT, TUFF_E_UNSUPPORTED),
    ROW(VK_ERROR_INVALID_SHADER_NV, TUFF_E_COMPILE),
    ROW(VK_ERROR_UNKNOWN, TUFF_E_UNSUPPORTED),
#undef ROW
};

tuff_status tuff__vulkan_check(VkResult result, const char *function)
{
    if (result >= 0)
        return TUFF_OK;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result)
            return FAIL(results[i].status, "vulkan: %s: %s", function, results[i].name);
    return FAIL(TUFF_E_UNSUPPORTED, "vulkan: %s: VkResult %d", function, (int)result);
}
