/* The Vulkan loader without drivers that fake_vulkan.h describes: its functions, and what its devices report. */
#include "fake_vulkan.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "base/hash.h"
#include "device/vulkan/api.h"
#include "fake_matrices.h"
#include "fake_queues.h"

fake_vulkan_state fake_vulkan;
/* Guards fake_vulkan and the caches in the calls that make programs, which several threads make at once. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const fake_vulkan_device *listed;
static uint32_t listed_count;

typedef fake_object object;

/* Device handles point to their physical devices. */
static const fake_vulkan_device *profile_of(void *handle)
{
    return handle;
}

static void *make(void)
{
    return calloc(1, sizeof(object));
}

static VKAPI_ATTR VkResult VKAPI_CALL tell_version(uint32_t *version)
{
    *version = VK_API_VERSION_1_3;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL list_instance_extensions(const char *layer, uint32_t *count,
                                                               VkExtensionProperties *out)
{
    (void)layer, (void)out;
    *count = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *memory, VkInstance *out)
{
    static char instance;
    (void)info, (void)memory;
    *out = (VkInstance)(void *)&instance;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL list_devices(VkInstance instance, uint32_t *count, VkPhysicalDevice *out)
{
    (void)instance;
    for (uint32_t i = 0; out && i < listed_count && i < *count; i++)
        out[i] = (VkPhysicalDevice)(uintptr_t)&listed[i];
    *count = listed_count;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL list_extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
                                                      VkExtensionProperties *out)
{
    const fake_vulkan_device *self = profile_of(device);
    const char *const names[] = {
        self->khr ? "VK_KHR_cooperative_matrix" : NULL,
        self->nv ? VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME : NULL,
        self->has_bfloat16 ? "VK_KHR_shader_bfloat16" : NULL,
        self->groups ? "VK_NV_cooperative_matrix2" : NULL,
        self->multiprocessors ? VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME : NULL,
        self->units ? VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME : NULL,
        self->has_budget ? VK_EXT_MEMORY_BUDGET_EXTENSION_NAME : NULL,
        self->is_portability ? "VK_KHR_portability_subset" : NULL,
    };
    uint32_t found = 0;
    (void)layer;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!names[i])
            continue;
        if (out)
            snprintf(out[found].extensionName, sizeof out[found].extensionName, "%s", names[i]);
        found++;
    }
    *count = found;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL tell_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out)
{
    const fake_vulkan_device *self = profile_of(device);
    *out = (VkPhysicalDeviceProperties){
        .apiVersion = VK_API_VERSION_1_3,
        .driverVersion = self->version + 1,
        .vendorID = self->vendor,
        .deviceID = self->id,
        .deviceType = self->type,
        .pipelineCacheUUID = {(uint8_t)self->version},
        .limits = {.maxStorageBufferRange = self->largest ? (uint32_t)self->largest : UINT32_MAX,
                   .maxComputeSharedMemorySize = 32768,
                   .maxComputeWorkGroupCount = {65535, 65535, 65535},
                   .maxComputeWorkGroupInvocations = 1024,
                   .maxComputeWorkGroupSize = {1024, 1024, 64},
                   .maxPerStageDescriptorStorageBuffers = self->bindings ? self->bindings : 1u << 20,
                   .maxDescriptorSetStorageBuffers = 1u << 20,
                   .maxPerStageResources = 1u << 20,
                   .minStorageBufferOffsetAlignment = 16,
                   .nonCoherentAtomSize = 64,
                   .timestampPeriod = 1},
    };
    snprintf(out->deviceName, sizeof out->deviceName, "%s", self->name);
}

/* Fills one structure of a query's chain. */
static void fill_property(const fake_vulkan_device *self, VkBaseOutStructure *at)
{
    void *it = at;
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES)
        ((VkPhysicalDeviceMaintenance3Properties *)it)->maxMemoryAllocationSize = self->memory;
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES)
        snprintf(((VkPhysicalDeviceDriverProperties *)it)->driverName, VK_MAX_DRIVER_NAME_SIZE, "%s", self->driver);
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
        VkPhysicalDeviceSubgroupProperties *subgroup = it;
        subgroup->subgroupSize = self->width;
        subgroup->supportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
        subgroup->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
        if (!self->only_shuffles)
            subgroup->supportedOperations |= VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    }
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
        VkPhysicalDeviceSubgroupSizeControlProperties *sizes = it;
        sizes->minSubgroupSize = self->least_width;
        sizes->maxSubgroupSize = self->most_width;
        sizes->maxComputeWorkgroupSubgroups = 64;
        sizes->requiredSubgroupSizeStages = self->least_width ? VK_SHADER_STAGE_COMPUTE_BIT : 0;
    }
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES) {
        VkPhysicalDeviceFloatControlsProperties *controls = it;
        controls->denormBehaviorIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY;
        controls->roundingModeIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
        controls->shaderDenormPreserveFloat32 = self->keeps_denormals;
    }
    if (at->sType == (VkStructureType)COOPERATIVE_2_PROPERTIES_NV) {
        cooperative_2_properties_nv *limits = it;
        limits->largest_group = self->largest_group;
        limits->largest_side = self->largest_side;
        limits->reserved_memory = 8192;
    }
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV)
        ((VkPhysicalDeviceShaderSMBuiltinsPropertiesNV *)it)->shaderSMCount = self->multiprocessors;
    if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD) {
        VkPhysicalDeviceShaderCorePropertiesAMD *core = it;
        core->shaderEngineCount = self->engines;
        core->shaderArraysPerEngineCount = self->arrays;
        core->computeUnitsPerShaderArray = self->units;
    }
}

static VKAPI_ATTR void VKAPI_CALL tell_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out)
{
    tell_properties(device, &out->properties);
    for (VkBaseOutStructure *at = out->pNext; at; at = at->pNext)
        fill_property(profile_of(device), at);
}

static VKAPI_ATTR void VKAPI_CALL tell_features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out)
{
    const fake_vulkan_device *self = profile_of(device);
    out->features = (VkPhysicalDeviceFeatures){.shaderInt64 = VK_TRUE, .shaderInt16 = VK_TRUE};
    for (VkBaseOutStructure *at = out->pNext; at; at = at->pNext) {
        void *it = at;
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES)
            ((VkPhysicalDeviceShaderFloat16Int8Features *)it)->shaderFloat16 = VK_TRUE;
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES)
            ((VkPhysicalDeviceSubgroupSizeControlFeatures *)it)->subgroupSizeControl = self->least_width > 0;
        if (at->sType == (VkStructureType)COOPERATIVE_FEATURES_KHR ||
            at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV)
            ((VkPhysicalDeviceCooperativeMatrixFeaturesNV *)it)->cooperativeMatrix = VK_TRUE;
        if (at->sType == (VkStructureType)BFLOAT16_FEATURES_KHR) {
            bfloat16_features_khr *bfloat16 = it;
            bfloat16->shaderBFloat16Type = bfloat16->shaderBFloat16DotProduct =
                bfloat16->shaderBFloat16CooperativeMatrix = VK_TRUE;
        }
        if (at->sType == (VkStructureType)COOPERATIVE_2_FEATURES_NV)
            *(cooperative_2_features_nv *)it = (cooperative_2_features_nv){
                at->sType, at->pNext, VK_TRUE, VK_TRUE, VK_TRUE, VK_TRUE, VK_TRUE, VK_TRUE, VK_TRUE};
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES)
            ((VkPhysicalDeviceVulkanMemoryModelFeatures *)it)->vulkanMemoryModel = VK_TRUE;
    }
}

static VKAPI_ATTR void VKAPI_CALL tell_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *out)
{
    const fake_vulkan_device *self = profile_of(device);
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                          (self->is_incoherent ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT
                                                               : VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    *out = (VkPhysicalDeviceMemoryProperties){.memoryHeapCount = self->host_memory ? 2 : 1};
    out->memoryHeaps[0] = (VkMemoryHeap){self->memory, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    out->memoryHeaps[1].size = self->host_memory;
    if (self->is_incoherent)
        out->memoryTypes[out->memoryTypeCount++] =
            (VkMemoryType){local | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 0};
    out->memoryTypes[out->memoryTypeCount++] = (VkMemoryType){local | (self->maps_all ? visible : 0u), 0};
    if (self->host_memory)
        out->memoryTypes[out->memoryTypeCount++] = (VkMemoryType){visible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1};
}

static VKAPI_ATTR void VKAPI_CALL tell_memory2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *out)
{
    tell_memory(device, &out->memoryProperties);
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = out->pNext;
    budget->heapBudget[0] = fake_vulkan.budget;
    budget->heapUsage[0] = fake_vulkan.usage;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *memory, VkDevice *out)
{
    (void)memory;
    fake_vulkan.extensions[0] = 0;
    for (uint32_t i = 0, length = 0; i < info->enabledExtensionCount; i++)
        length += (uint32_t)snprintf(fake_vulkan.extensions + length, sizeof fake_vulkan.extensions - length, "%s ",
                                     info->ppEnabledExtensionNames[i]);
    fake_vulkan.enables_bfloat16 = fake_vulkan.enables_groups = false;
    for (const VkBaseInStructure *at = info->pNext; at; at = at->pNext)
        fake_record_features(at);
    fake_note_families(info);
    *out = (VkDevice)(void *)physical;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks *memory)
{
    (void)device, (void)memory;
    fake_vulkan.destroyed++;
    fake_vulkan.devices++;
}

#define OBJECTS(X)                                          \
    X(Semaphore, VkSemaphoreCreateInfo)                     \
    X(Fence, VkFenceCreateInfo)                             \
    X(DescriptorSetLayout, VkDescriptorSetLayoutCreateInfo) \
    X(PipelineLayout, VkPipelineLayoutCreateInfo)           \
    X(DescriptorPool, VkDescriptorPoolCreateInfo)           \
    X(QueryPool, VkQueryPoolCreateInfo)

#define DESTROY(name)                                                                                             \
    static VKAPI_ATTR void VKAPI_CALL destroy_##name(VkDevice device, Vk##name a, const VkAllocationCallbacks *m) \
    {                                                                                                             \
        (void)device, (void)m;                                                                                    \
        (void)pthread_mutex_lock(&lock);                                                                          \
        fake_vulkan.destroyed++;                                                                                  \
        (void)pthread_mutex_unlock(&lock);                                                                        \
        free((void *)(uintptr_t)a);                                                                               \
    }
#define X(name, info)                                                                                  \
    static VKAPI_ATTR VkResult VKAPI_CALL create_##name(VkDevice device, const info *how,              \
                                                        const VkAllocationCallbacks *m, Vk##name *out) \
    {                                                                                                  \
        (void)device, (void)how, (void)m;                                                              \
        *out = (Vk##name)(uintptr_t)make();                                                            \
        return VK_SUCCESS;                                                                             \
    }                                                                                                  \
    DESTROY(name)
OBJECTS(X)
#undef X
DESTROY(Buffer)
DESTROY(ShaderModule)
DESTROY(Pipeline)

static VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                                    const VkAllocationCallbacks *memory, VkBuffer *out)
{
    object *made = make();
    (void)device, (void)memory;
    made->size = info->size;
    made->is_concurrent =
        info->sharingMode == VK_SHARING_MODE_CONCURRENT && info->queueFamilyIndexCount == 2 &&
        info->pQueueFamilyIndices[0] + info->pQueueFamilyIndices[1] == 1; /* 0 and 1, in either order */
    *out = (VkBuffer)(uintptr_t)made;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL tell_requirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements *out)
{
    (void)device;
    const object *self = (const object *)(uintptr_t)buffer;
    *out = (VkMemoryRequirements){.size = self->size, .alignment = 64, .memoryTypeBits = 3};
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *memory, VkDeviceMemory *out)
{
    (void)device, (void)memory;
    if (info->memoryTypeIndex == 0 && info->allocationSize > fake_vulkan.room)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    fake_vulkan.type = info->memoryTypeIndex;
    object *made = make();
    made->size = info->allocationSize;
    made->bytes = calloc(made->size <= 64u << 20 ? made->size : 1, 1);
    *out = (VkDeviceMemory)(uintptr_t)made;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *m)
{
    object *self = (object *)(uintptr_t)memory;
    (void)device, (void)m;
    fake_vulkan.destroyed++;
    free(self->bytes);
    free(self);
}

static VKAPI_ATTR VkResult VKAPI_CALL bind(VkDevice device, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize at)
{
    (void)device, (void)buffer, (void)memory, (void)at;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice device, VkDeviceMemory memory, VkDeviceSize at, VkDeviceSize size,
                                          VkMemoryMapFlags flags, void **out)
{
    (void)device, (void)at, (void)size, (void)flags;
    if (fake_vulkan.refuses_maps && fake_vulkan.type == 0)
        return VK_ERROR_MEMORY_MAP_FAILED;
    *out = ((object *)(uintptr_t)memory)->bytes;
    return VK_SUCCESS;
}

/* Counts variables that share a binding, and those declared as aliased. */
static void count_aliases(const VkShaderModuleCreateInfo *info)
{
    enum { DECORATE = 71, ALIASED = 20, BINDING = 33, HEADER_WORDS = 5, BINDINGS = 64 };
    int variables[BINDINGS] = {0};
    fake_vulkan.shared = fake_vulkan.aliased = 0;
    for (size_t i = HEADER_WORDS; i < info->codeSize / 4 && info->pCode[i] >> 16; i += info->pCode[i] >> 16) {
        const uint32_t *at = &info->pCode[i];
        if ((at[0] & 0xffff) != DECORATE)
            continue;
        fake_vulkan.aliased += at[2] == ALIASED;
        if (at[2] == BINDING && at[3] < BINDINGS)
            variables[at[3]]++;
    }
    for (int i = 0; i < BINDINGS; i++)
        fake_vulkan.shared += variables[i] > 1 ? variables[i] : 0;
}

/* Records the execution modes that the module declares. */
static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *memory, VkShaderModule *out)
{
    enum { EXECUTION_MODE = 16, HEADER_WORDS = 5 };
    int count = 0;
    (void)device, (void)memory;
    (void)pthread_mutex_lock(&lock);
    memset(fake_vulkan.modes, 0, sizeof fake_vulkan.modes);
    count_aliases(info);
    for (size_t i = HEADER_WORDS; i < info->codeSize / 4 && info->pCode[i] >> 16; i += info->pCode[i] >> 16)
        if ((info->pCode[i] & 0xffff) == EXECUTION_MODE && count < 7)
            fake_vulkan.modes[count++] = info->pCode[i + 2];
    (void)pthread_mutex_unlock(&lock);
    object *made = make();
    made->size = tuff__hash64(info->pCode, info->codeSize, 0);
    *out = (VkShaderModule)(uintptr_t)made;
    return VK_SUCCESS;
}

/* A VkPipelineCache: the hashes of the modules whose pipelines it has. Its data: a header, then pipeline_size bytes for
   each, which begin with the hash. */
enum { CACHE_HEADER = 32, CACHE_CAPACITY = 512 };
typedef struct pipelines {
    uint64_t hashes[CACHE_CAPACITY];
    int count;
} pipelines;

/* Adds a hash; returns false if the cache has it already. */
static bool add_pipeline(pipelines *self, uint64_t hash)
{
    for (int i = 0; i < self->count; i++)
        if (self->hashes[i] == hash)
            return false;
    if (self->count < CACHE_CAPACITY)
        self->hashes[self->count++] = hash;
    return true;
}

static void write_header(const fake_vulkan_device *device, unsigned char out[CACHE_HEADER])
{
    const uint32_t words[] = {CACHE_HEADER, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, device->vendor, device->id};
    memset(out, 0, CACHE_HEADER);
    memcpy(out, words, sizeof words);
    out[sizeof words] = (unsigned char)device->version;
}

static void read_pipelines(const fake_vulkan_device *device, const VkPipelineCacheCreateInfo *info, pipelines *out)
{
    unsigned char header[CACHE_HEADER];
    const unsigned char *data = info->pInitialData;
    write_header(device, header);
    if (info->initialDataSize == 0)
        return;
    if (info->initialDataSize < CACHE_HEADER || memcmp(data, header, CACHE_HEADER) != 0) {
        fake_vulkan.foreign++;
        return;
    }
    for (size_t at = CACHE_HEADER; at + device->pipeline_size <= info->initialDataSize; at += device->pipeline_size) {
        uint64_t hash;
        memcpy(&hash, data + at, sizeof hash);
        add_pipeline(out, hash);
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                                                   const VkAllocationCallbacks *memory, VkPipelineCache *out)
{
    (void)memory;
    if (fake_vulkan.refuses_caches || (fake_vulkan.refuses_data && info->initialDataSize > 0))
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    pipelines *made = calloc(1, sizeof *made);
    (void)pthread_mutex_lock(&lock);
    read_pipelines(profile_of(device), info, made);
    fake_vulkan.caches++;
    (void)pthread_mutex_unlock(&lock);
    *out = (VkPipelineCache)(uintptr_t)made;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_cache(VkDevice device, VkPipelineCache cache, const VkAllocationCallbacks *m)
{
    (void)device, (void)m;
    (void)pthread_mutex_lock(&lock);
    fake_vulkan.destroyed++;
    fake_vulkan.caches--;
    free((void *)(uintptr_t)cache);
    (void)pthread_mutex_unlock(&lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL read_cache(VkDevice device, VkPipelineCache cache, size_t *size, void *out)
{
    const fake_vulkan_device *self = profile_of(device);
    const pipelines *from = (const pipelines *)(uintptr_t)cache;
    VkResult result = VK_SUCCESS;
    (void)pthread_mutex_lock(&lock);
    const size_t needed = CACHE_HEADER + (size_t)from->count * self->pipeline_size;
    if (!out) {
        const bool is_short = fake_vulkan.short_sizes > 0 && needed > CACHE_HEADER;
        fake_vulkan.short_sizes -= is_short;
        *size = needed - (is_short ? self->pipeline_size : 0);
    } else if (*size < needed) {
        result = VK_INCOMPLETE;
    } else {
        unsigned char *at = out;
        write_header(self, at);
        at += CACHE_HEADER;
        for (int i = 0; i < from->count && self->pipeline_size > 0; i++, at += self->pipeline_size) {
            memset(at, 'p', self->pipeline_size);
            memcpy(at, &from->hashes[i], sizeof from->hashes[i]);
        }
        *size = needed;
    }
    (void)pthread_mutex_unlock(&lock);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL merge_caches(VkDevice device, VkPipelineCache to, uint32_t count,
                                                   const VkPipelineCache *from)
{
    (void)device;
    (void)pthread_mutex_lock(&lock);
    fake_vulkan.merges++;
    for (uint32_t i = 0; i < count; i++) {
        const pipelines *source = (const pipelines *)(uintptr_t)from[i];
        for (int k = 0; k < source->count; k++)
            add_pipeline((pipelines *)(uintptr_t)to, source->hashes[k]);
    }
    (void)pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                       const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *memory, VkPipeline *out)
{
    (void)device, (void)count, (void)memory;
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *width = infos[0].stage.pNext;
    const object *module = (const object *)(uintptr_t)infos[0].stage.module;
    (void)pthread_mutex_lock(&lock);
    fake_vulkan.width = width ? width->requiredSubgroupSize : 0;
    const bool is_new = !cache || add_pipeline((pipelines *)(uintptr_t)cache, module->size);
    fake_vulkan.compiled += is_new;
    fake_vulkan.reused += !is_new;
    (void)pthread_mutex_unlock(&lock);
    *out = (VkPipeline)(uintptr_t)make();
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_sets(VkDevice device, const VkDescriptorSetAllocateInfo *info,
                                                    VkDescriptorSet *out)
{
    static char set;
    (void)device;
    for (uint32_t i = 0; i < info->descriptorSetCount; i++)
        out[i] = (VkDescriptorSet)(uintptr_t)&set;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all,
                                               uint64_t timeout)
{
    (void)device, (void)count, (void)all, (void)timeout;
    if (fake_vulkan.hangs)
        return VK_TIMEOUT;
    ((object *)(uintptr_t)fences[0])->is_pending = false;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL fence_status(VkDevice device, VkFence fence)
{
    (void)device;
    if (fake_vulkan.is_lost)
        return VK_ERROR_DEVICE_LOST;
    if (fake_vulkan.hangs)
        return VK_NOT_READY;
    ((object *)(uintptr_t)fence)->is_pending = false;
    return VK_SUCCESS;
}

/* Functions without effect, grouped by their results and parameters. */
static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *memory)
{
    (void)instance, (void)memory;
}
static VKAPI_ATTR VkResult VKAPI_CALL reset_fences(VkDevice device, uint32_t count, const VkFence *fences)
{
    (void)device;
    for (uint32_t i = 0; i < count; i++) {
        object *fence = (object *)(uintptr_t)fences[i];
        fake_vulkan.misused_fences += fence->is_pending;
        fence->is_pending = false;
    }
    return VK_SUCCESS;
}
static VKAPI_ATTR VkResult VKAPI_CALL flush(VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
    (void)device, (void)count, (void)ranges;
    fake_vulkan.flushes++;
    fake_vulkan.stale += !fake_vulkan.is_fresh;
    fake_vulkan.is_fresh = false;
    return VK_SUCCESS;
}
static VKAPI_ATTR VkResult VKAPI_CALL invalidate(VkDevice device, uint32_t count, const VkMappedMemoryRange *ranges)
{
    (void)device, (void)count, (void)ranges;
    fake_vulkan.is_fresh = true;
    return VK_SUCCESS;
}
static VKAPI_ATTR void VKAPI_CALL update_sets(VkDevice device, uint32_t count, const VkWriteDescriptorSet *writes,
                                              uint32_t copies, const VkCopyDescriptorSet *copied)
{
    (void)device, (void)count, (void)writes, (void)copies, (void)copied;
}
static VKAPI_ATTR VkResult VKAPI_CALL query_results(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count,
                                                    size_t size, void *out, VkDeviceSize stride, VkQueryResultFlags how)
{
    (void)device, (void)pool, (void)stride, (void)how;
    memset(out, 0, size);
    for (uint32_t i = 0; i < count && (i + 1) * sizeof(uint64_t) <= size; i++)
        ((uint64_t *)out)[i] = (first + i) * fake_vulkan.ticks;
    return fake_vulkan.lacks_ticks ? VK_NOT_READY : VK_SUCCESS;
}
static VKAPI_ATTR VkResult VKAPI_CALL end(VkCommandBuffer commands)
{
    (void)commands;
    return VK_SUCCESS;
}
static VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline which)
{
    (void)commands, (void)point, (void)which;
}
static VKAPI_ATTR void VKAPI_CALL bind_sets(VkCommandBuffer commands, VkPipelineBindPoint point,
                                            VkPipelineLayout layout, uint32_t first, uint32_t count,
                                            const VkDescriptorSet *sets, uint32_t offsets, const uint32_t *dynamic)
{
    (void)commands, (void)point, (void)layout, (void)first, (void)count, (void)sets, (void)offsets, (void)dynamic;
}
static VKAPI_ATTR void VKAPI_CALL push(VkCommandBuffer commands, VkPipelineLayout layout, VkShaderStageFlags stages,
                                       uint32_t offset, uint32_t size, const void *values)
{
    (void)commands, (void)layout, (void)stages, (void)offset, (void)size, (void)values;
}
static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    (void)commands, (void)x, (void)y, (void)z;
}
static VKAPI_ATTR void VKAPI_CALL fill(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset,
                                       VkDeviceSize size, uint32_t value)
{
    (void)commands, (void)buffer, (void)offset, (void)size, (void)value;
}
static VKAPI_ATTR void VKAPI_CALL reset_queries(VkCommandBuffer commands, VkQueryPool pool, uint32_t first,
                                                uint32_t count)
{
    (void)commands, (void)pool, (void)first, (void)count;
}
static VKAPI_ATTR void VKAPI_CALL write_timestamp(VkCommandBuffer commands, VkPipelineStageFlagBits stage,
                                                  VkQueryPool pool, uint32_t query)
{
    (void)commands, (void)stage, (void)pool, (void)query;
}

#define ENTRY(name, function)                 \
    {                                         \
#name, (PFN_vkVoidFunction)(function) \
    }
static const struct {
    const char *name;
    PFN_vkVoidFunction function;
} entries[] = {
#define X(name, info) ENTRY(vkCreate##name, create_##name), ENTRY(vkDestroy##name, destroy_##name),
    OBJECTS(X)
#undef X
        ENTRY(vkEnumerateInstanceVersion, tell_version),
    ENTRY(vkEnumerateInstanceExtensionProperties, list_instance_extensions),
    ENTRY(vkCreateInstance, create_instance),
    ENTRY(vkDestroyInstance, destroy_instance),
    ENTRY(vkEnumeratePhysicalDevices, list_devices),
    ENTRY(vkEnumerateDeviceExtensionProperties, list_extensions),
    ENTRY(vkGetPhysicalDeviceProperties, tell_properties),
    ENTRY(vkGetPhysicalDeviceProperties2, tell_properties2),
    ENTRY(vkGetPhysicalDeviceFeatures2, tell_features),
    ENTRY(vkGetPhysicalDeviceQueueFamilyProperties, fake_list_families),
    ENTRY(vkGetPhysicalDeviceMemoryProperties, tell_memory),
    ENTRY(vkGetPhysicalDeviceMemoryProperties2, tell_memory2),
    ENTRY(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, fake_list_khr),
    ENTRY(vkGetPhysicalDeviceCooperativeMatrixPropertiesNV, fake_list_nv),
    ENTRY(vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV, fake_list_groups),
    ENTRY(vkCreateDevice, create_device),
    ENTRY(vkDestroyDevice, destroy_device),
    ENTRY(vkGetDeviceQueue, fake_get_queue),
    ENTRY(vkQueueSubmit, fake_submit),
    ENTRY(vkResetFences, reset_fences),
    ENTRY(vkGetFenceStatus, fence_status),
    ENTRY(vkWaitForFences, wait_for),
    ENTRY(vkCreateBuffer, create_buffer),
    ENTRY(vkDestroyBuffer, destroy_Buffer),
    ENTRY(vkGetBufferMemoryRequirements, tell_requirements),
    ENTRY(vkAllocateMemory, allocate),
    ENTRY(vkFreeMemory, free_memory),
    ENTRY(vkBindBufferMemory, bind),
    ENTRY(vkMapMemory, map),
    ENTRY(vkFlushMappedMemoryRanges, flush),
    ENTRY(vkInvalidateMappedMemoryRanges, invalidate),
    ENTRY(vkCreateShaderModule, create_module),
    ENTRY(vkDestroyShaderModule, destroy_ShaderModule),
    ENTRY(vkCreateComputePipelines, create_pipelines),
    ENTRY(vkCreatePipelineCache, create_cache),
    ENTRY(vkDestroyPipelineCache, destroy_cache),
    ENTRY(vkGetPipelineCacheData, read_cache),
    ENTRY(vkMergePipelineCaches, merge_caches),
    ENTRY(vkDestroyPipeline, destroy_Pipeline),
    ENTRY(vkAllocateDescriptorSets, allocate_sets),
    ENTRY(vkUpdateDescriptorSets, update_sets),
    ENTRY(vkGetQueryPoolResults, query_results),
    ENTRY(vkCreateCommandPool, fake_create_pool),
    ENTRY(vkDestroyCommandPool, fake_destroy_pool),
    ENTRY(vkAllocateCommandBuffers, fake_allocate_commands),
    ENTRY(vkFreeCommandBuffers, fake_free_commands),
    ENTRY(vkBeginCommandBuffer, fake_begin),
    ENTRY(vkEndCommandBuffer, end),
    ENTRY(vkCmdBindPipeline, bind_pipeline),
    ENTRY(vkCmdBindDescriptorSets, bind_sets),
    ENTRY(vkCmdPushConstants, push),
    ENTRY(vkCmdDispatch, dispatch),
    ENTRY(vkCmdCopyBuffer, fake_copy_buffer),
    ENTRY(vkCmdFillBuffer, fill),
    ENTRY(vkCmdPipelineBarrier, fake_barrier),
    ENTRY(vkCmdResetQueryPool, reset_queries),
    ENTRY(vkCmdWriteTimestamp, write_timestamp),
};

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL find(VkInstance instance, const char *name)
{
    (void)instance;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entries[i].name, name) == 0)
            return entries[i].function;
    return NULL;
}

void install_fake_vulkan(const fake_vulkan_device *devices, int count)
{
    listed = devices;
    listed_count = (uint32_t)count;
    fake_vulkan = (fake_vulkan_state){.room = UINT64_MAX};
    tuff__vk.vkGetInstanceProcAddr = find;
}
#endif
