/* What a physical device is and has: properties and features of every Vulkan version from 1.1, the queue family, the
   description for users and the identity for cache keys. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "device/vulkan/state.h"

/* Names the way from GLSL to SPIR-V; to be raised whenever that way changes. The compiler's version is not part of it,
   so that a build without a compiler finds the programs of a build with one. */
#define SPIRV_REVISION "3: shaderc, Vulkan 1.1, optimised for performance, floats, denormals and aliases declared"

#define KHR_MATRICES "VK_KHR_cooperative_matrix"
#define KHR_BFLOAT16 "VK_KHR_shader_bfloat16"
#define NV_MATRICES_2 "VK_NV_cooperative_matrix2"

/* Puts a structure at the head of a pNext chain. */
#define CHAIN(head, structure, type)      \
    do {                                  \
        (structure).sType = (type);       \
        (structure).pNext = (head).pNext; \
        (head).pNext = &(structure);      \
    } while (0)

/* Finds the family for compute: preferably one without graphics but with timestamps, because it does not wait for the
   desktop. */
static bool find_queue_family(const VkQueueFamilyProperties *families, uint32_t count, uint32_t *family,
                              uint32_t *timestamp_bits)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || !families[i].queueCount)
            continue;
        bool is_dedicated = !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) && families[i].timestampValidBits;
        if (found && !is_dedicated)
            continue;
        *family = i;
        *timestamp_bits = families[i].timestampValidBits;
        if (is_dedicated)
            return true;
        found = true;
    }
    return found;
}

vulkan_upload_queue tuff__vulkan_choose_upload_queue(const VkQueueFamilyProperties *families, uint32_t count,
                                                     uint32_t compute_family)
{
    /* Video engines have transfer queues too, which are meant only for their pictures. */
    const VkQueueFlags allowed = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueCount > 0 && families[i].queueFlags & VK_QUEUE_TRANSFER_BIT &&
            !(families[i].queueFlags & ~allowed))
            return (vulkan_upload_queue){.family = i, .is_separate = true};
    const bool has_two = families[compute_family].queueCount > 1;
    return (vulkan_upload_queue){.family = compute_family, .index = has_two ? 1 : 0, .is_separate = has_two};
}

enum { MAX_FAMILIES = 32 };

/* Makes two calls, because SwiftShader fills every entry that it has room for. */
static uint32_t list_families(const vulkan_api *vk, VkPhysicalDevice handle, VkQueueFamilyProperties *families)
{
    uint32_t count = 0;
    vk->vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, NULL);
    if (count > MAX_FAMILIES)
        count = MAX_FAMILIES;
    vk->vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, families);
    return count;
}

/* Returns false if no family has compute. */
static bool choose_queues(VkPhysicalDevice handle, vulkan_physical *physical)
{
    VkQueueFamilyProperties families[MAX_FAMILIES];
    const uint32_t count = list_families(physical->vk, handle, families);
    if (!find_queue_family(families, count, &physical->queue_family, &physical->timestamp_bits))
        return false;
    physical->upload = tuff__vulkan_choose_upload_queue(families, count, physical->queue_family);
    return true;
}

/* Takes the application's queue, for uploads too. */
static tuff_status use_application_queue(const tuff_vulkan_handles *application, vulkan_physical *physical)
{
    VkQueueFamilyProperties families[MAX_FAMILIES];
    const uint32_t count = list_families(physical->vk, physical->handle, families);
    const uint32_t family = application->queue_family;
    if (family >= count)
        return FAIL(TUFF_E_USAGE, "tuff_device_wrap_vulkan: queue family %u is out of range: the device has %u", family,
                    count);
    if (!(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT))
        return FAIL(
            TUFF_E_UNSUPPORTED,
            "tuff_device_wrap_vulkan: queue family %u does not support compute: choose one with VK_QUEUE_COMPUTE_BIT",
            family);
    physical->queue_family = family;
    physical->timestamp_bits = families[family].timestampValidBits;
    physical->upload = (vulkan_upload_queue){.family = family};
    return TUFF_OK;
}

bool tuff__vulkan_is_usable(VkPhysicalDevice handle)
{
    VkPhysicalDeviceProperties properties;
    vulkan_physical physical = {.vk = &tuff__vk};
    tuff__vk.vkGetPhysicalDeviceProperties(handle, &properties);
    return properties.apiVersion >= VK_API_VERSION_1_1 && choose_queues(handle, &physical);
}

static bool has_extension(const VkExtensionProperties *extensions, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(extensions[i].extensionName, name) == 0)
            return true;
    return false;
}

/* The extensions of a device; for an application's device, only those that it enabled can be used. */
typedef struct extension_list {
    VkExtensionProperties *items;
    uint32_t count;
    const tuff_vulkan_handles *application; /* may be NULL */
} extension_list;

static tuff_status list_extensions(const vulkan_physical *physical, extension_list *list)
{
    const vulkan_api *vk = physical->vk;
    TRY(VULKAN(vk, vkEnumerateDeviceExtensionProperties, physical->handle, NULL, &list->count, NULL));
    list->items = tuff__calloc(list->count + 1u, sizeof *list->items);
    if (!list->items)
        return TUFF_E_OOM_HOST;
    return VULKAN(vk, vkEnumerateDeviceExtensionProperties, physical->handle, NULL, &list->count, list->items);
}

static bool can_use(const extension_list *list, const char *name)
{
    return has_extension(list->items, list->count, name) &&
           (!list->application || tuff__vulkan_has_enabled(list->application, name));
}

/* Whether the device has what core_version made core. Below that version, the extension is added to those to enable. */
static bool provides(vulkan_physical *physical, const extension_list *list, uint32_t core_version, const char *name)
{
    if (physical->version >= core_version)
        return true;
    if (!can_use(list, name))
        return false;
    physical->extensions[physical->extension_count++] = name;
    return true;
}

static void query_properties(vulkan_physical *physical, const extension_list *list)
{
    VkPhysicalDeviceProperties2 *head = &physical->properties;
    head->sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    CHAIN(*head, physical->id, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
    CHAIN(*head, physical->maintenance3, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
    CHAIN(*head, physical->subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    if (physical->version >= VK_API_VERSION_1_2 ||
        has_extension(list->items, list->count, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
        CHAIN(*head, physical->driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    if (physical->subgroup_control.sType)
        CHAIN(*head, physical->subgroup_sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    if (provides(physical, list, VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME))
        CHAIN(*head, physical->float_controls, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES);
    if (physical->version >= VK_API_VERSION_1_3)
        CHAIN(*head, physical->maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
    if (has_extension(list->items, list->count, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        CHAIN(*head, physical->multiprocessors, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
    if (has_extension(list->items, list->count, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME))
        CHAIN(*head, physical->compute_units, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
    physical->vk->vkGetPhysicalDeviceProperties2(physical->handle, head);
}

/* Clears features that the device has and tuff does not use: unused features can cost speed. */
static void keep_used_features(vulkan_physical *physical)
{
    VkPhysicalDeviceFeatures *core = &physical->features.features;
    *core = (VkPhysicalDeviceFeatures){.shaderInt64 = core->shaderInt64, .shaderInt16 = core->shaderInt16};
    physical->storage16.uniformAndStorageBuffer16BitAccess = VK_FALSE;
    physical->storage16.storagePushConstant16 = VK_FALSE;
    physical->storage16.storageInputOutput16 = VK_FALSE;
    physical->storage8.uniformAndStorageBuffer8BitAccess = VK_FALSE;
    physical->storage8.storagePushConstant8 = VK_FALSE;
    physical->matrices.cooperativeMatrixRobustBufferAccess = VK_FALSE;
    physical->bfloat16.shaderBFloat16DotProduct = VK_FALSE;
    physical->groups.cooperativeMatrixReductions = VK_FALSE;
    physical->groups.cooperativeMatrixConversions = VK_FALSE;
    physical->groups.cooperativeMatrixBlockLoads = VK_FALSE;
    physical->memory_model.vulkanMemoryModelDeviceScope = VK_FALSE;
    physical->memory_model.vulkanMemoryModelAvailabilityVisibilityChains = VK_FALSE;
}

/* Adds what matrix units need to the features and extensions. */
static void query_matrices(vulkan_physical *physical, const extension_list *list)
{
    VkPhysicalDeviceFeatures2 *head = &physical->features;
    /* The memory model that they need is core from 1.2 on. */
    if (physical->version < VK_API_VERSION_1_2)
        return;
    const matrix_extensions has = {.khr = can_use(list, KHR_MATRICES),
                                   .nv = can_use(list, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME),
                                   .bfloat16 = can_use(list, KHR_BFLOAT16),
                                   .nv2 = can_use(list, NV_MATRICES_2)};
    physical->has_matrices = has.khr || has.nv;
    tuff__vulkan_find_matrices(physical->vk, physical->handle, has, &physical->units);
    if (physical->units.form == TUFF_MATRIX_NONE)
        return;
    const bool khr = physical->units.form == TUFF_MATRIX_KHR;
    CHAIN(*head, physical->matrices,
          khr ? (VkStructureType)COOPERATIVE_FEATURES_KHR
              : VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV);
    CHAIN(*head, physical->memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES);
    physical->extensions[physical->extension_count++] = khr ? KHR_MATRICES : VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (physical->units.bf16) {
        CHAIN(*head, physical->bfloat16, (VkStructureType)BFLOAT16_FEATURES_KHR);
        physical->extensions[physical->extension_count++] = KHR_BFLOAT16;
    }
    if (physical->units.group_sizes | physical->units.group_sizes_bf16) {
        CHAIN(*head, physical->groups, (VkStructureType)COOPERATIVE_2_FEATURES_NV);
        physical->extensions[physical->extension_count++] = NV_MATRICES_2;
    }
}

static void query_features(vulkan_physical *physical, const extension_list *list)
{
    VkPhysicalDeviceFeatures2 *head = &physical->features;
    head->sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    CHAIN(*head, physical->storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    if (provides(physical, list, VK_API_VERSION_1_2, VK_KHR_8BIT_STORAGE_EXTENSION_NAME))
        CHAIN(*head, physical->storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
    if (provides(physical, list, VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
        CHAIN(*head, physical->arithmetic, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
    if (provides(physical, list, VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        CHAIN(*head, physical->subgroup_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
    if (provides(physical, list, VK_API_VERSION_1_2, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME))
        CHAIN(*head, physical->timeline, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
    query_matrices(physical, list);
    /* On a CPU, what does not fit into registers lies in cached memory on purpose. */
    if (can_use(list, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME) && physical->vk->executable_properties &&
        physical->vk->executable_statistics &&
        physical->properties.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) {
        CHAIN(*head, physical->executables,
              VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
        physical->extensions[physical->extension_count++] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    }
    physical->vk->vkGetPhysicalDeviceFeatures2(physical->handle, head);
    keep_used_features(physical);
}

static void find_version(const tuff_vulkan_handles *application, uint32_t device_version, vulkan_physical *physical)
{
    uint32_t version = device_version & ~UINT32_C(0xfff), limit = VK_API_VERSION_1_3;
    if (application)
        limit = application->api_version ? application->api_version & ~UINT32_C(0xfff) : VK_API_VERSION_1_1;
    if (limit > VK_API_VERSION_1_3)
        limit = VK_API_VERSION_1_3;
    physical->version = version < limit ? version : limit;
}

static tuff_status find_queues(const tuff_vulkan_handles *application, const char *name, vulkan_physical *physical)
{
    if (application)
        return use_application_queue(application, physical);
    if (choose_queues(physical->handle, physical))
        return TUFF_OK;
    return FAIL(TUFF_E_NO_DEVICE, "vulkan: %s has no compute queue", name);
}

tuff_status tuff__vulkan_examine(const vulkan_api *vk, VkPhysicalDevice handle, const tuff_vulkan_handles *application,
                                 vulkan_physical *physical)
{
    extension_list list = {.application = application};
    *physical = (vulkan_physical){.vk = vk, .handle = handle};
    VkPhysicalDeviceProperties *properties = &physical->properties.properties;
    vk->vkGetPhysicalDeviceProperties(handle, properties);
    find_version(application, properties->apiVersion, physical);
    TRY(find_queues(application, properties->deviceName, physical));
    tuff_status status = list_extensions(physical, &list);
    if (status == TUFF_OK) {
        query_features(physical, &list);
        query_properties(physical, &list);
        if (application)
            tuff__vulkan_restrict_features(physical, application->features);
        vk->vkGetPhysicalDeviceMemoryProperties(handle, &physical->memory);
        /* A property of the physical device alone: no application has to enable it. */
        physical->has_budget = has_extension(list.items, list.count, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
        /* Layers over other APIs, such as MoltenVK, require that their restrictions are accepted. */
        if (has_extension(list.items, list.count, "VK_KHR_portability_subset"))
            physical->extensions[physical->extension_count++] = "VK_KHR_portability_subset";
    }
    tuff__free(list.items);
    return status;
}

static tuff_device_class device_class(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return TUFF_DEVICE_CPU;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return TUFF_DEVICE_GPU_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return TUFF_DEVICE_GPU_DISCRETE;
    default:
        return TUFF_DEVICE_OTHER;
    }
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Returns the index of the largest heap of the device's own memory; -1: there is none. */
static int main_heap(const VkPhysicalDeviceMemoryProperties *memory)
{
    int best = -1;
    for (int i = 0; i < (int)memory->memoryHeapCount; i++)
        if (memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
            (best < 0 || memory->memoryHeaps[i].size > memory->memoryHeaps[best].size))
            best = i;
    return best;
}

static uint64_t memory_size(const VkPhysicalDeviceMemoryProperties *memory)
{
    const int heap = main_heap(memory);
    return heap < 0 ? 0 : memory->memoryHeaps[heap].size;
}

uint64_t tuff__vulkan_available_memory(const vulkan_physical *physical, int heap)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                .pNext = &budget};
    if (!physical->has_budget || heap < 0)
        return 0;
    physical->vk->vkGetPhysicalDeviceMemoryProperties2(physical->handle, &memory);
    const uint64_t all = budget.heapBudget[heap], used = budget.heapUsage[heap];
    return all > used ? all - used : all > 0 ? 1 : 0;
}

/* True for a card if its window on the bus is as large as its memory; with a small window, drivers have another heap
   for it. */
bool tuff__vulkan_is_host_visible(const vulkan_physical *physical)
{
    const VkMemoryPropertyFlags both = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    const VkPhysicalDeviceType type = physical->properties.properties.deviceType;
    const VkPhysicalDeviceMemoryProperties *memory = &physical->memory;
    if (type != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU)
        return type == VK_PHYSICAL_DEVICE_TYPE_CPU || type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    for (uint32_t i = 0; i < memory->memoryTypeCount && memory->memoryHeapCount > 1; i++)
        if ((memory->memoryTypes[i].propertyFlags & both) == both &&
            (int)memory->memoryTypes[i].heapIndex == main_heap(memory))
            return true;
    return false;
}

uint64_t tuff__vulkan_max_allocation(const vulkan_physical *physical)
{
    const uint64_t buffer = physical->maintenance4.maxBufferSize, memory = memory_size(&physical->memory);
    uint64_t limit = physical->maintenance3.maxMemoryAllocationSize;
    if (buffer && buffer < limit)
        limit = buffer;
    return memory && memory < limit ? memory : limit;
}

static void describe_limits(const vulkan_physical *physical, tuff_device_info *info)
{
    const VkPhysicalDeviceLimits *limits = &physical->properties.properties.limits;
    const VkPhysicalDeviceShaderCorePropertiesAMD *amd = &physical->compute_units;
    uint32_t bindings = min_u32(limits->maxPerStageDescriptorStorageBuffers, limits->maxDescriptorSetStorageBuffers);
    info->memory_size = memory_size(&physical->memory);
    info->max_allocation = tuff__vulkan_max_allocation(physical);
    info->max_binding = limits->maxStorageBufferRange / 256u * 256u;
    /* Kernels read vectors of four words from the start of a range, even if the device requires less alignment. */
    info->offset_alignment = (uint32_t)limits->minStorageBufferOffsetAlignment;
    if (info->offset_alignment < 16)
        info->offset_alignment = 16;
    info->local_memory_size = limits->maxComputeSharedMemorySize;
    info->max_group_size = min_u32(limits->maxComputeWorkGroupInvocations, limits->maxComputeWorkGroupSize[0]);
    info->max_bindings = min_u32(min_u32(bindings, limits->maxPerStageResources), MAX_BINDINGS);
    info->compute_units = physical->multiprocessors.shaderSMCount;
    if (!info->compute_units)
        info->compute_units =
            amd->shaderEngineCount * amd->shaderArraysPerEngineCount * amd->computeUnitsPerShaderArray;
    if (!info->compute_units)
        tuff__vulkan_estimate_units(info);
    info->memory_available = tuff__vulkan_available_memory(physical, main_heap(&physical->memory));
    info->writes_directly = tuff__vulkan_is_host_visible(physical);
}

/* Fills in the subgroup widths that kernels can require. */
static void describe_widths(const vulkan_physical *physical, tuff_device_info *info)
{
    const VkPhysicalDeviceSubgroupSizeControlProperties *sizes = &physical->subgroup_sizes;
    if (!physical->subgroup_control.subgroupSizeControl ||
        !(sizes->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT))
        return;
    info->min_subgroup_size = sizes->minSubgroupSize;
    info->max_subgroup_size = sizes->maxSubgroupSize;
}

static void describe_driver(const vulkan_physical *physical, tuff_device_info *info)
{
    const VkPhysicalDeviceProperties *properties = &physical->properties.properties;
    if (physical->driver.driverName[0])
        snprintf(info->driver, sizeof info->driver, "%.60s %.60s", physical->driver.driverName,
                 physical->driver.driverInfo[0] ? physical->driver.driverInfo : "");
    else
        snprintf(info->driver, sizeof info->driver, "Vulkan driver %#x", properties->driverVersion);
    size_t length = strlen(info->driver);
    if (length && info->driver[length - 1] == ' ')
        info->driver[length - 1] = 0;
}

/* Whether kernels can have the operations that the self-test's probe and the kernels for subgroups use. */
static bool has_subgroups(const VkPhysicalDeviceSubgroupProperties *subgroup)
{
    const VkSubgroupFeatureFlags needed = VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    return subgroup->supportedStages & VK_SHADER_STAGE_COMPUTE_BIT &&
           (subgroup->supportedOperations & needed) == needed;
}

/* Claims that lanes can read each other's registers, which the self-test must prove, if kernels can require the width
   of their subgroups, and full ones, for the largest groups that use it. Intel's compilers have more registers for a
   lane in subgroups of 16 than in wider ones. */
static void claim_exchange(const vulkan_physical *physical, tuff_device_info *info)
{
    enum { LANES = 16, LARGEST_GROUP = 256 };
    const uint32_t least = info->min_subgroup_size, most = info->max_subgroup_size;
    const uint32_t lanes = least <= LANES && most >= LANES ? LANES : info->subgroup_size;
    if (!info->subgroup_shuffle || least == 0 || lanes < least || lanes > most ||
        !physical->subgroup_control.computeFullSubgroups ||
        (uint64_t)lanes * physical->subgroup_sizes.maxComputeWorkgroupSubgroups < LARGEST_GROUP)
        return;
    info->exchange_form = TUFF_EXCHANGE_KHR;
    info->exchange_lanes = lanes;
}

static void describe_matrices(const vulkan_physical *physical, tuff_device_info *info)
{
    const vulkan_matrices *units = &physical->units;
    info->matrix_state = !physical->has_matrices           ? TUFF_MATRICES_ABSENT
                         : units->form == TUFF_MATRIX_NONE ? TUFF_MATRICES_OTHER_SIZE
                                                           : TUFF_MATRICES_OFFERED;
    if (!physical->matrices.cooperativeMatrix || !physical->memory_model.vulkanMemoryModel || !info->half_arithmetic)
        return;
    info->cooperative_matrix = units->form;
    memcpy(info->matrix_shape, units->shape, sizeof info->matrix_shape);
    info->matrix_bf16 = physical->bfloat16.shaderBFloat16Type && physical->bfloat16.shaderBFloat16CooperativeMatrix;
    const cooperative_2_features_nv *groups = &physical->groups;
    if (!groups->cooperativeMatrixWorkgroupScope || !groups->cooperativeMatrixFlexibleDimensions ||
        !groups->cooperativeMatrixPerElementOperations || !groups->cooperativeMatrixTensorAddressing)
        return;
    info->matrix_group_sizes = units->group_sizes;
    info->matrix_group_sizes_bf16 = info->matrix_bf16 ? units->group_sizes_bf16 : 0;
}

void tuff__vulkan_describe(const vulkan_physical *physical, tuff_device_info *info)
{
    const VkPhysicalDeviceProperties *properties = &physical->properties.properties;
    snprintf(info->name, sizeof info->name, "%.127s", properties->deviceName);
    snprintf(info->api, sizeof info->api, "Vulkan %u.%u", VK_API_VERSION_MAJOR(properties->apiVersion),
             VK_API_VERSION_MINOR(properties->apiVersion));
    describe_driver(physical, info);
    info->device_class = device_class(properties->deviceType);
    info->vendor_id = properties->vendorID;
    info->device_id = properties->deviceID;
    describe_limits(physical, info);
    describe_widths(physical, info);
    info->local_is_global = properties->vendorID == VENDOR_ARM; /* Mali's is ordinary memory behind a cache */
    info->watchdog = info->device_class == TUFF_DEVICE_CPU ? TUFF_WATCHDOG_NONE : TUFF_WATCHDOG_UNKNOWN;
    info->subgroup_size = has_subgroups(&physical->subgroup) ? physical->subgroup.subgroupSize : 0;
    info->subgroup_shuffle =
        info->subgroup_size > 0 && physical->subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    claim_exchange(physical, info);
    info->narrow_storage = physical->storage16.storageBuffer16BitAccess && physical->storage8.storageBuffer8BitAccess;
    info->half_arithmetic = physical->arithmetic.shaderFloat16;
    info->int64 = physical->features.features.shaderInt64;
    describe_matrices(physical, info);
}

static void add_uuid(text *out, const char *name, const uint8_t *bytes)
{
    tuff__text_add(out, "\n%s ", name);
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        tuff__text_add(out, "%02x", bytes[i]);
}

char *tuff__vulkan_identity(const vulkan_physical *physical)
{
    const VkPhysicalDeviceProperties *properties = &physical->properties.properties;
    text lines = {0};
    tuff__text_add(&lines, "vulkan %u.%u\nname %s\nvendor %#x device %#x driver %#x %s %s",
                   VK_API_VERSION_MAJOR(properties->apiVersion), VK_API_VERSION_MINOR(properties->apiVersion),
                   properties->deviceName, properties->vendorID, properties->deviceID, properties->driverVersion,
                   physical->driver.driverName, physical->driver.driverInfo);
    add_uuid(&lines, "pipeline cache", properties->pipelineCacheUUID);
    add_uuid(&lines, "driver", physical->id.driverUUID);
    tuff__text_add(&lines, "\nSPIR-V " SPIRV_REVISION);
    tuff__vulkan_append_features(physical, &lines);
    char *copy = lines.failed ? NULL : tuff__strdup(tuff__text_get(&lines));
    tuff__text_free(&lines);
    return copy;
}
