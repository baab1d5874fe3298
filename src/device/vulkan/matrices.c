/* Matrix units as Vulkan reports them: by NV's extension and KHR's, which say the same in two ways, and by NV's second
   one, for those that a work-group shares. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "device/vulkan/state.h"

enum { SIDE_MULTIPLE = 8, MAX_SIDE = 32 };

/* One way to multiply; types are numbered like NV's. */
typedef struct block {
    uint32_t shape[3], a, b, c, result, scope;
} block;

/* Whether factors have the type, sums are f32, a subgroup shares the block, and kernels can cut their tiles into such
   blocks. */
static bool is_wanted(const block *offer, uint32_t type)
{
    bool fits = true;
    for (int i = 0; i < 3; i++)
        fits = fits && offer->shape[i] % SIDE_MULTIPLE == 0 && offer->shape[i] > 0 && offer->shape[i] <= MAX_SIDE &&
               (offer->shape[i] & (offer->shape[i] - 1)) == 0;
    return fits && offer->a == type && offer->b == type && offer->c == VK_COMPONENT_TYPE_FLOAT32_NV &&
           offer->result == VK_COMPONENT_TYPE_FLOAT32_NV && offer->scope == VK_SCOPE_SUBGROUP_NV;
}

/* Keeps the larger block of f16, or the first one of equal blocks. */
static void keep_larger(const block *offer, uint32_t shape[3])
{
    if (is_wanted(offer, VK_COMPONENT_TYPE_FLOAT16_NV) &&
        offer->shape[0] * offer->shape[1] * offer->shape[2] > shape[0] * shape[1] * shape[2])
        memcpy(shape, offer->shape, sizeof offer->shape);
}

static void find_nv(const vulkan_api *vk, VkPhysicalDevice handle, vulkan_matrices *out)
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
                        out->shape);
    tuff__free(all);
    if (out->shape[0] > 0)
        out->form = TUFF_MATRIX_NV;
}

/* Returns the blocks that KHR's extension lists, without those whose sums saturate; freed by the caller. */
static block *list_khr(const vulkan_api *vk, VkPhysicalDevice handle, int *kept)
{
    uint32_t count = 0;
    *kept = 0;
    if (!vk->cooperative_khr || vk->cooperative_khr(handle, &count, NULL) < 0)
        return NULL;
    cooperative_properties_khr *all = tuff__calloc(count + 1u, sizeof *all);
    block *blocks = tuff__calloc(count + 1u, sizeof *blocks);
    for (uint32_t i = 0; all && i < count; i++)
        all[i].sType = (VkStructureType)COOPERATIVE_PROPERTIES_KHR;
    if (all && blocks && vk->cooperative_khr(handle, &count, all) >= 0)
        for (uint32_t i = 0; i < count; i++)
            if (!all[i].saturating)
                blocks[(*kept)++] =
                    (block){{all[i].m, all[i].n, all[i].k}, all[i].a, all[i].b, all[i].c, all[i].result, all[i].scope};
    tuff__free(all);
    return blocks;
}

/* has_bf16: whether blocks of bf16 can be used. They count only in the shape of those of f16. */
static void find_khr(const vulkan_api *vk, VkPhysicalDevice handle, bool has_bf16, vulkan_matrices *out)
{
    int count;
    block *all = list_khr(vk, handle, &count);
    for (int i = 0; i < count; i++)
        keep_larger(&all[i], out->shape);
    for (int i = 0; i < count && has_bf16; i++)
        out->bf16 |=
            is_wanted(&all[i], COMPONENT_BFLOAT16_KHR) && memcmp(all[i].shape, out->shape, sizeof out->shape) == 0;
    tuff__free(all);
    if (out->shape[0] > 0)
        out->form = TUFF_MATRIX_KHR;
}

/* Whether kernels can cut their tiles by an entry's granularity, and tiles of any size that they use are allowed. */
static bool is_flexible_enough(const flexible_properties_nv *offer, const cooperative_2_properties_nv *limits)
{
    enum { ROWS = 32, COLUMNS = 64, TERMS = 32, LARGEST_SIDE = 256 }; /* what sides of tiles are multiples of */
    return offer->m > 0 && ROWS % offer->m == 0 && offer->n > 0 && COLUMNS % offer->n == 0 && offer->k > 0 &&
           TERMS % offer->k == 0 && offer->group_size <= limits->largest_group && limits->largest_side >= LARGEST_SIDE;
}

/* Adds the size of an entry's groups to those that multiply its dtype. */
static void add_group_size(const flexible_properties_nv *offer, vulkan_matrices *out)
{
    enum { SMALL = 128, LARGE = 256 };
    if (offer->a != offer->b || offer->c != VK_COMPONENT_TYPE_FLOAT32_NV ||
        offer->result != VK_COMPONENT_TYPE_FLOAT32_NV || offer->saturating || offer->scope != VK_SCOPE_WORKGROUP_NV ||
        (offer->group_size != SMALL && offer->group_size != LARGE))
        return;
    if (offer->a == VK_COMPONENT_TYPE_FLOAT16_NV)
        out->group_sizes |= offer->group_size;
    if (offer->a == COMPONENT_BFLOAT16_KHR && out->bf16)
        out->group_sizes_bf16 |= offer->group_size;
}

static void find_groups(const vulkan_api *vk, VkPhysicalDevice handle, vulkan_matrices *out)
{
    cooperative_2_properties_nv limits = {.sType = (VkStructureType)COOPERATIVE_2_PROPERTIES_NV};
    VkPhysicalDeviceProperties2 head = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &limits};
    uint32_t count = 0;
    if (!vk->flexible_nv || vk->flexible_nv(handle, &count, NULL) < 0)
        return;
    flexible_properties_nv *all = tuff__calloc(count + 1u, sizeof *all);
    for (uint32_t i = 0; all && i < count; i++)
        all[i].sType = (VkStructureType)FLEXIBLE_PROPERTIES_NV;
    vk->vkGetPhysicalDeviceProperties2(handle, &head);
    if (all && vk->flexible_nv(handle, &count, all) >= 0)
        for (uint32_t i = 0; i < count; i++)
            if (is_flexible_enough(&all[i], &limits))
                add_group_size(&all[i], out);
    tuff__free(all);
}

/* What the GLSL compiler of this build may not know, because it is newer than the compilers of some distributions
   (Debian 12): each is tried once, and again only if memory was short. */
typedef struct compiler_feature {
    const char *extension;
    bool is_known, compiles;
} compiler_feature;

typedef enum feature_index { FEATURE_KHR, FEATURE_BFLOAT16, FEATURE_NV2, FEATURE_COUNT } feature_index;

static tuff_status compile_empty(const char *extension)
{
    char source[192];
    snprintf(source, sizeof source,
             "#version 450\n#extension %s : require\nlayout(local_size_x = 1) in;\nvoid main() {}\n", extension);
    const program_request request = {.name = "extension", .text = source};
    blob spirv = {0};
    const tuff_status status = tuff__vulkan_compile(&request, &spirv);
    tuff__free(spirv.data);
    return status;
}

static bool compiler_supports(feature_index index)
{
    static mutex lock = MUTEX_INITIALIZER;
    static compiler_feature features[FEATURE_COUNT] = {[FEATURE_KHR] = {.extension = "GL_KHR_cooperative_matrix"},
                                                       [FEATURE_BFLOAT16] = {.extension = "GL_EXT_bfloat16"},
                                                       [FEATURE_NV2] = {.extension = "GL_NV_cooperative_matrix2"}};
    saved_error before;
    tuff__lock(&lock);
    compiler_feature *feature = &features[index];
    if (!feature->is_known) {
        tuff__error_save(&before);
        const tuff_status status = compile_empty(feature->extension);
        tuff__error_restore(&before);
        feature->compiles = status == TUFF_OK;
        feature->is_known = status != TUFF_E_OOM_HOST;
    }
    const bool result = feature->compiles;
    tuff__unlock(&lock);
    return result;
}

/* Prefers KHR's form if the compiler knows it. It is also used if there is no other; the self-test then finds out
   whether it works. */
void tuff__vulkan_find_matrices(const vulkan_api *vk, VkPhysicalDevice handle, matrix_extensions has,
                                vulkan_matrices *out)
{
    *out = (vulkan_matrices){.form = TUFF_MATRIX_NONE};
    if (has.nv && (!has.khr || !compiler_supports(FEATURE_KHR)))
        find_nv(vk, handle, out);
    if (out->form == TUFF_MATRIX_NONE && has.khr)
        find_khr(vk, handle, has.bfloat16 && compiler_supports(FEATURE_BFLOAT16), out);
    if (out->form == TUFF_MATRIX_NONE && has.nv)
        find_nv(vk, handle, out);
    if (out->form == TUFF_MATRIX_KHR && has.nv2 && compiler_supports(FEATURE_NV2))
        find_groups(vk, handle, out);
}
