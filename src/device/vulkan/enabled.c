/* What an application enabled on its VkDevice. No Vulkan call reports that, so the application passes what it created
   the device with. A feature may be in several structures: its own, and that of a Vulkan version. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "device/vulkan/state.h"

/* A VkBool32 of vulkan_physical, and one that an application sets for it. */
typedef struct feature_source {
    const char *name;
    size_t field;
    VkStructureType type;
    size_t offset; /* offset in the structure of that type */
} feature_source;

#define SOURCE(member, field, type, structure)                                              \
    {                                                                                       \
#member, offsetof(vulkan_physical, field.member), type, offsetof(structure, member) \
    }
#define SOURCE_CORE(member)                                                                                         \
    {                                                                                                               \
#member, offsetof(vulkan_physical, features.features.member), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, \
            offsetof(VkPhysicalDeviceFeatures2, features.member)                                                    \
    }
#define SOURCE_11(member, field) \
    SOURCE(member, field, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features)
#define SOURCE_12(member, field) \
    SOURCE(member, field, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features)
#define SOURCE_13(member, field) \
    SOURCE(member, field, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features)
#define SOURCE_NV2(member) SOURCE(member, groups, (VkStructureType)COOPERATIVE_2_FEATURES_NV, cooperative_2_features_nv)

static const feature_source sources[] = {
    SOURCE_CORE(shaderInt64),
    SOURCE_CORE(shaderInt16),
    SOURCE(storageBuffer16BitAccess, storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
           VkPhysicalDevice16BitStorageFeatures),
    SOURCE_11(storageBuffer16BitAccess, storage16),
    SOURCE(storageBuffer8BitAccess, storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
           VkPhysicalDevice8BitStorageFeatures),
    SOURCE_12(storageBuffer8BitAccess, storage8),
    SOURCE(shaderFloat16, arithmetic, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
           VkPhysicalDeviceShaderFloat16Int8Features),
    SOURCE_12(shaderFloat16, arithmetic),
    SOURCE(shaderInt8, arithmetic, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
           VkPhysicalDeviceShaderFloat16Int8Features),
    SOURCE_12(shaderInt8, arithmetic),
    SOURCE(subgroupSizeControl, subgroup_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
           VkPhysicalDeviceSubgroupSizeControlFeatures),
    SOURCE_13(subgroupSizeControl, subgroup_control),
    SOURCE(computeFullSubgroups, subgroup_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
           VkPhysicalDeviceSubgroupSizeControlFeatures),
    SOURCE_13(computeFullSubgroups, subgroup_control),
    SOURCE(cooperativeMatrix, matrices, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV,
           VkPhysicalDeviceCooperativeMatrixFeaturesNV),
    SOURCE(cooperativeMatrix, matrices, (VkStructureType)COOPERATIVE_FEATURES_KHR,
           VkPhysicalDeviceCooperativeMatrixFeaturesNV),
    SOURCE(shaderBFloat16Type, bfloat16, (VkStructureType)BFLOAT16_FEATURES_KHR, bfloat16_features_khr),
    SOURCE(shaderBFloat16CooperativeMatrix, bfloat16, (VkStructureType)BFLOAT16_FEATURES_KHR, bfloat16_features_khr),
    SOURCE_NV2(cooperativeMatrixWorkgroupScope),
    SOURCE_NV2(cooperativeMatrixFlexibleDimensions),
    SOURCE_NV2(cooperativeMatrixPerElementOperations),
    SOURCE_NV2(cooperativeMatrixTensorAddressing),
    SOURCE(vulkanMemoryModel, memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
           VkPhysicalDeviceVulkanMemoryModelFeatures),
    SOURCE_12(vulkanMemoryModel, memory_model),
    SOURCE(timelineSemaphore, timeline, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
           VkPhysicalDeviceTimelineSemaphoreFeatures),
    SOURCE_12(timelineSemaphore, timeline),
    SOURCE(pipelineExecutableInfo, executables,
           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
           VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR),
};
enum { SOURCE_COUNT = sizeof sources / sizeof *sources };

static bool is_on(const void *chain, const feature_source *source)
{
    for (const VkBaseInStructure *at = chain; at; at = at->pNext)
        if (at->sType == source->type) {
            VkBool32 value;
            memcpy(&value, (const char *)at + source->offset, sizeof value);
            if (value)
                return true;
        }
    return false;
}

/* Both extensions for matrix units have a feature of this name: only the one that tuff uses counts. */
static bool is_other_matrix(const vulkan_physical *physical, const feature_source *source)
{
    return source->field == offsetof(vulkan_physical, matrices.cooperativeMatrix) &&
           source->type != physical->matrices.sType;
}

void tuff__vulkan_restrict_features(vulkan_physical *physical, const void *chain)
{
    size_t length = 0;
    physical->disabled[0] = 0;
    for (int i = 0; i < SOURCE_COUNT; i++) {
        VkBool32 *field = (VkBool32 *)((char *)physical + sources[i].field);
        bool enabled = false;
        for (int k = 0; k < SOURCE_COUNT && *field; k++)
            if (sources[k].field == sources[i].field && !is_other_matrix(physical, &sources[k]))
                enabled |= is_on(chain, &sources[k]);
        if (enabled || !*field)
            continue;
        *field = VK_FALSE;
        const int added = snprintf(physical->disabled + length, sizeof physical->disabled - length, "%s%s",
                                   length ? ", " : "", sources[i].name);
        if (added > 0 && length + (size_t)added < sizeof physical->disabled)
            length += (size_t)added;
    }
}

static bool is_first_source(int index)
{
    for (int i = 0; i < index; i++)
        if (sources[i].field == sources[index].field)
            return false;
    return true;
}

void tuff__vulkan_append_features(const vulkan_physical *physical, text *out)
{
    const uint32_t *shape = physical->units.shape;
    tuff__text_add(out, "\nas %u.%u, float controls %d, matrices %u of %u %u %u, with",
                   VK_API_VERSION_MAJOR(physical->version), VK_API_VERSION_MINOR(physical->version),
                   physical->float_controls.sType != 0, physical->units.form, shape[0], shape[1], shape[2]);
    for (int i = 0; i < SOURCE_COUNT; i++) {
        VkBool32 field;
        memcpy(&field, (const char *)physical + sources[i].field, sizeof field);
        if (field && is_first_source(i))
            tuff__text_add(out, " %s", sources[i].name);
    }
}

bool tuff__vulkan_has_enabled(const tuff_vulkan_handles *application, const char *extension)
{
    for (uint32_t i = 0; i < application->extension_count; i++)
        if (strcmp(application->extensions[i], extension) == 0)
            return true;
    return false;
}
