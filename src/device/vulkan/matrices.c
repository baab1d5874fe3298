/* Matrix units as Vulkan reports them: by NV's extension and KHR's, which say the same in two ways. */
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "device/vulkan/state.h"

enum { SIDE_MULTIPLE = 8, MAX_SIDE = 32 };

/* One way to multiply; types are numbered like NV's. */
typedef struct block {
    uint32_t shape[3], a, b, c, result, scope;
} block;

/* Whether factors are f16, sums are f32, a subgroup shares the block, and kernels can cut their tiles into such
   blocks. */
static bool is_wanted(const block *offer)
{
    bool fits = true;
    for (int i = 0; i < 3; i++)
        fits = fits && offer->shape[i] % SIDE_MULTIPLE == 0 && offer->shape[i] > 0 && offer->shape[i] <= MAX_SIDE &&
               (offer->shape[i] & (offer->shape[i] - 1)) == 0;
    return fits && offer->a == VK_COMPONENT_TYPE_FLOAT16_NV && offer->b == VK_COMPONENT_TYPE_FLOAT16_NV &&
           offer->c == VK_COMPONENT_TYPE_FLOAT32_NV && offer->result == VK_COMPONENT_TYPE_FLOAT32_NV &&
           offer->scope == VK_SCOPE_SUBGROUP_NV;
}

/* Keeps the larger block, or the first one of equal blocks. */
static void keep_larger(const block *offer, uint32_t shape[3])
{
    if (is_wanted(offer) && offer->shape[0] * offer->shape[1] * offer->shape[2] > shape[0] * shape[1] * shape[2])
        memcpy(shape, offer->shape, sizeof offer->shape);
}

static void find_nv(const vulkan_api *vk, VkPhysicalDevice handle, uint32_t shape[3])
{
    uint32_t count = 0;
    if (!vk->cooperative_nv || vk->cooperative_nv(handle, &count, NULL) < 0)
        return;
    VkCooperativeMatrixPropertiesNV *all = tuff__calloc(count + 1u, sizeof *all);
    for (uint32_t i = 0; all && i < count; i++)
        all[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV;
    if (all && vk->cooperative_nv(handle, &count, all) >= 0)
        for (uint32_t i = 0; i < count; i++)
            keep_larger(&(block){{all[i].MSize, all[i].NSize, all[i].KSize},
                                 all[i].AType,
                                 all[i].BType,
                                 all[i].CType,
                                 all[i].DType,
                                 all[i].scope},
                        shape);
    tuff__free(all);
}

static void find_khr(const vulkan_api *vk, VkPhysicalDevice handle, uint32_t shape[3])
{
    uint32_t count = 0;
    if (!vk->cooperative_khr || vk->cooperative_khr(handle, &count, NULL) < 0)
        return;
    cooperative_properties_khr *all = tuff__calloc(count + 1u, sizeof *all);
    for (uint32_t i = 0; all && i < count; i++)
        all[i].sType = (VkStructureType)COOPERATIVE_PROPERTIES_KHR;
    if (all && vk->cooperative_khr(handle, &count, all) >= 0)
        for (uint32_t i = 0; i < count; i++)
            if (!all[i].saturating)
                keep_larger(
                    &(block){{all[i].m, all[i].n, all[i].k}, all[i].a, all[i].b, all[i].c, all[i].result, all[i].scope},
                    shape);
    tuff__free(all);
}

static tuff_status compile_khr(void)
{
    const program_request request = {.name = "khr",
                                     .text = "#version 450\n#extension GL_KHR_cooperative_matrix : require\n"
                                             "layout(local_size_x = 1) in;\nvoid main() {}\n"};
    blob spirv = {0};
    const tuff_status status = tuff__vulkan_compile(&request, &spirv);
    tuff__free(spirv.data);
    return status;
}

/* Whether this build's GLSL compiler knows KHR's form, which is newer than the compilers of some distributions (Debian
   12). It is tried once, and again only if memory was short. */
static bool compiler_supports_khr(void)
{
    static mutex khr_lock = MUTEX_INITIALIZER;
    static bool is_known, compiles;
    saved_error before;
    tuff__lock(&khr_lock);
    if (!is_known) {
        tuff__error_save(&before);
        const tuff_status status = compile_khr();
        tuff__error_restore(&before);
        compiles = status == TUFF_OK;
        is_known = status != TUFF_E_OOM_HOST;
    }
    const bool result = compiles;
    tuff__unlock(&khr_lock);
    return result;
}

/* Prefers KHR's form if the compiler knows it. It is also used if there is no other; the self-test then finds out
   whether it works. */
uint32_t tuff__vulkan_find_matrices(const vulkan_api *vk, VkPhysicalDevice handle, bool khr, bool nv, uint32_t shape[3])
{
    memset(shape, 0, 3 * sizeof *shape);
    if (nv && (!khr || !compiler_supports_khr()))
        find_nv(vk, handle, shape);
    if (shape[0] > 0)
        return TUFF_MATRIX_NV;
    if (khr)
        find_khr(vk, handle, shape);
    if (shape[0] > 0)
        return TUFF_MATRIX_KHR;
    if (nv)
        find_nv(vk, handle, shape);
    return shape[0] > 0 ? TUFF_MATRIX_NV : TUFF_MATRIX_NONE;
}
