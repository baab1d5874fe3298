/* What the devices of the fake Vulkan loader list of matrix units. The header has the contract. */
#include "fake_matrices.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
VKAPI_ATTR VkResult VKAPI_CALL fake_list_khr(VkPhysicalDevice device, uint32_t *count, cooperative_properties_khr *out)
{
    const fake_matrix *blocks = ((const fake_vulkan_device *)(const void *)device)->khr;
    uint32_t found = 0;
    for (; blocks && blocks[found].m; found++)
        if (out)
            out[found] = (cooperative_properties_khr){.m = blocks[found].m,
                                                      .n = blocks[found].n,
                                                      .k = blocks[found].k,
                                                      .a = blocks[found].type,
                                                      .b = blocks[found].type,
                                                      .c = VK_COMPONENT_TYPE_FLOAT32_NV,
                                                      .result = VK_COMPONENT_TYPE_FLOAT32_NV,
                                                      .scope = VK_SCOPE_SUBGROUP_NV};
    *count = found;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL fake_list_nv(VkPhysicalDevice device, uint32_t *count,
                                            VkCooperativeMatrixPropertiesNV *out)
{
    const fake_matrix *blocks = ((const fake_vulkan_device *)(const void *)device)->nv;
    uint32_t found = 0;
    for (; blocks && blocks[found].m; found++)
        if (out)
            out[found] = (VkCooperativeMatrixPropertiesNV){.MSize = blocks[found].m,
                                                           .NSize = blocks[found].n,
                                                           .KSize = blocks[found].k,
                                                           .CType = VK_COMPONENT_TYPE_FLOAT32_NV,
                                                           .DType = VK_COMPONENT_TYPE_FLOAT32_NV,
                                                           .scope = VK_SCOPE_SUBGROUP_NV};
    *count = found;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL fake_list_groups(VkPhysicalDevice device, uint32_t *count, flexible_properties_nv *out)
{
    const fake_group *groups = ((const fake_vulkan_device *)(const void *)device)->groups;
    uint32_t found = 0;
    for (; groups && groups[found].m; found++)
        if (out)
            out[found] = (flexible_properties_nv){.m = groups[found].m,
                                                  .n = groups[found].n,
                                                  .k = groups[found].k,
                                                  .a = groups[found].type,
                                                  .b = groups[found].type,
                                                  .c = VK_COMPONENT_TYPE_FLOAT32_NV,
                                                  .result = VK_COMPONENT_TYPE_FLOAT32_NV,
                                                  .scope = groups[found].is_subgroup ? VK_SCOPE_SUBGROUP_NV
                                                                                     : VK_SCOPE_WORKGROUP_NV,
                                                  .group_size = groups[found].items};
    *count = found;
    return VK_SUCCESS;
}

void fake_record_features(const VkBaseInStructure *at)
{
    const void *it = at;
    if (at->sType == (VkStructureType)BFLOAT16_FEATURES_KHR) {
        const bfloat16_features_khr *bfloat16 = it;
        fake_vulkan.enables_bfloat16 = bfloat16->shaderBFloat16Type && !bfloat16->shaderBFloat16DotProduct &&
                                       bfloat16->shaderBFloat16CooperativeMatrix;
    }
    if (at->sType == (VkStructureType)COOPERATIVE_2_FEATURES_NV) {
        const cooperative_2_features_nv *groups = it;
        fake_vulkan.enables_groups =
            groups->cooperativeMatrixWorkgroupScope && groups->cooperativeMatrixFlexibleDimensions &&
            groups->cooperativeMatrixPerElementOperations && groups->cooperativeMatrixTensorAddressing &&
            !groups->cooperativeMatrixReductions && !groups->cooperativeMatrixConversions &&
            !groups->cooperativeMatrixBlockLoads;
    }
}
#endif
