/* Matrix units as Vulkan tells them: NV's extension and KHR's, which say the same in two ways. */
#include "base/alloc.h"
#include "device/vulkan/state.h"

enum { SIDE = 16 };

static bool suits(uint32_t m, uint32_t n, uint32_t k)
{
    return m == SIDE && n == SIDE && k == SIDE;
}

/* Whether factors are f16, sums f32, and a subgroup shares the block. */
static bool is_wanted(uint32_t a, uint32_t b, uint32_t c, uint32_t result, uint32_t scope)
{
    return a == VK_COMPONENT_TYPE_FLOAT16_NV && b == VK_COMPONENT_TYPE_FLOAT16_NV &&
           c == VK_COMPONENT_TYPE_FLOAT32_NV && result == VK_COMPONENT_TYPE_FLOAT32_NV && scope == VK_SCOPE_SUBGROUP_NV;
}

static bool nv_has_block(const vulkan_api *vk, VkPhysicalDevice handle)
{
    uint32_t count = 0;
    bool found = false;
    if (!vk->cooperative_nv || vk->cooperative_nv(handle, &count, NULL) < 0)
        return false;
    VkCooperativeMatrixPropertiesNV *all = tuff__calloc(count + 1u, sizeof *all);
    for (uint32_t i = 0; all && i < count; i++)
        all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV;
    if (all && vk->cooperative_nv(handle, &count, all) >= 0)
        for (uint32_t i = 0; i < count; i++)
            found |= suits(all[i].MSize, all[i].NSize, all[i].KSize) &&
                     is_wanted(all[i].AType, all[i].BType, all[i].CType, all[i].DType, all[i].scope);
    tuff__free(all);
    return found;
}

static bool khr_has_block(const vulkan_api *vk, VkPhysicalDevice handle)
{
    uint32_t count = 0;
    bool found = false;
    if (!vk->cooperative_khr || vk->cooperative_khr(handle, &count, NULL) < 0)
        return false;
    cooperative_properties_khr *all = tuff__calloc(count + 1u, sizeof *all);
    for (uint32_t i = 0; all && i < count; i++)
        all[i].sType = (VkStructureType)COOPERATIVE_PROPERTIES_KHR;
    if (all && vk->cooperative_khr(handle, &count, all) >= 0)
        for (uint32_t i = 0; i < count; i++)
            found |= suits(all[i].m, all[i].n, all[i].k) && !all[i].saturating &&
                     is_wanted(all[i].a, all[i].b, all[i].c, all[i].result, all[i].scope);
    tuff__free(all);
    return found;
}

/* NV's where both are there: older compilers of GLSL know no other. Whether this build's knows KHR's is what the
   self-test finds out. */
uint32_t tuff__vulkan_find_matrices(const vulkan_api *vk, VkPhysicalDevice handle, bool khr, bool nv)
{
    if (nv && nv_has_block(vk, handle))
        return 1;
    return khr && khr_has_block(vk, handle) ? 2 : 0;
}
