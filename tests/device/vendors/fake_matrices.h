/* What the devices of the fake Vulkan loader list of matrix units: the extensions' functions. */
#ifndef TUFF_TESTS_FAKE_MATRICES_H
#define TUFF_TESTS_FAKE_MATRICES_H

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/vulkan/api.h"
#include "fake_vulkan.h"

VKAPI_ATTR VkResult VKAPI_CALL fake_list_khr(VkPhysicalDevice device, uint32_t *count, cooperative_properties_khr *out);
VKAPI_ATTR VkResult VKAPI_CALL fake_list_nv(VkPhysicalDevice device, uint32_t *count,
                                            VkCooperativeMatrixPropertiesNV *out);
VKAPI_ATTR VkResult VKAPI_CALL fake_list_groups(VkPhysicalDevice device, uint32_t *count, flexible_properties_nv *out);
/* Records in fake_vulkan which of the newer features a structure of vkCreateDevice's chain enables. */
void fake_record_features(const VkBaseInStructure *at);
#endif

#endif
