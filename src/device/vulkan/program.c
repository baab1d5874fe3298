/* Programs: SPIR-V from the cache or the compiler, made into a compute pipeline with its layouts. */
#include <string.h>

#include "base/alloc.h"
#include "device/vulkan/state.h"

#define SPIRV_MAGIC UINT32_C(0x07230203)

static tuff_status create_set_layout(driver_device *device, driver_program *program)
{
    VkDescriptorSetLayoutBinding bindings[MAX_BINDINGS];
    if (!program->buffer_count)
        return TUFF_OK;
    for (uint32_t i = 0; i < program->buffer_count; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    VkDescriptorSetLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = program->buffer_count,
        .pBindings = bindings,
    };
    return VULKAN(device->vk, vkCreateDescriptorSetLayout, device->handle, &info, NULL, &program->set_layout);
}

static tuff_status create_layout(driver_device *device, driver_program *program)
{
    VkPushConstantRange words = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = program->word_count * 4u};
    VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = program->set_layout ? 1 : 0,
        .pSetLayouts = &program->set_layout,
        .pushConstantRangeCount = program->word_count ? 1 : 0,
        .pPushConstantRanges = &words,
    };
    return VULKAN(device->vk, vkCreatePipelineLayout, device->handle, &info, NULL, &program->layout);
}

static bool can_require(const vulkan_physical *physical, uint32_t width)
{
    const VkPhysicalDeviceSubgroupSizeControlProperties *sizes = &physical->subgroup_sizes;
    return physical->subgroup_control.subgroupSizeControl && width >= sizes->minSubgroupSize &&
           width <= sizes->maxSubgroupSize && !(width & (width - 1)) &&
           sizes->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
}

/* Returns the narrowest width for kernels that keep many sums on Intel's GPUs: there the compiler chooses the width,
   and the narrowest leaves each lane the most registers. cl/prelude.cl does the same in OpenCL. 0: any width. */
static uint32_t narrow_width(const vulkan_physical *physical, const program_request *request)
{
    const VkPhysicalDeviceSubgroupSizeControlProperties *sizes = &physical->subgroup_sizes;
    const uint32_t least = sizes->minSubgroupSize;
    const bool is_wanted = physical->properties.properties.vendorID == VENDOR_INTEL && request->text != NULL &&
                           strstr(request->text, "#define MANY_SUMS\n") != NULL;
    return is_wanted && least > 0 && can_require(physical, least) &&
                   request->local_size <= (uint64_t)least * sizes->maxComputeWorkgroupSubgroups
               ? least
               : 0;
}

/* Chooses the subgroup width that the pipeline must be created with; 0: it has the right one anyway. */
static tuff_status choose_width(const vulkan_physical *physical, const program_request *request, uint32_t *out)
{
    const VkPhysicalDeviceSubgroupSizeControlProperties *sizes = &physical->subgroup_sizes;
    uint32_t width = request->subgroup_size;
    *out = 0;
    if (!width) {
        *out = narrow_width(physical, request);
        return TUFF_OK;
    }
    if (can_require(physical, width)) {
        if (request->local_size > (uint64_t)width * sizes->maxComputeWorkgroupSubgroups)
            return FAIL(TUFF_E_LIMIT, "%s: groups of %u items exceed %u subgroups of %u", request->name,
                        request->local_size, sizes->maxComputeWorkgroupSubgroups, width);
        *out = width;
        return TUFF_OK;
    }
    bool varies = physical->subgroup_control.subgroupSizeControl && sizes->minSubgroupSize != sizes->maxSubgroupSize;
    if (!varies && physical->subgroup.subgroupSize == width)
        return TUFF_OK;
    return FAIL(TUFF_E_UNSUPPORTED, "%s: %s does not support subgroups of %u items", request->name,
                physical->properties.properties.deviceName, width);
}

static tuff_status create_pipeline(driver_device *device, const program_request *request, VkShaderModule module,
                                   driver_program *program)
{
    uint32_t width = 0;
    TRY(choose_width(&device->physical, request, &width));
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = width,
    };
    bool full = width > 0 && device->physical.subgroup_control.computeFullSubgroups && request->local_size % width == 0;
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = (device->collects_statistics ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0u) |
                 (device->optimizes ? 0u : VK_PIPELINE_CREATE_DISABLE_OPTIMIZATION_BIT),
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = width > 0 ? &subgroup : NULL,
                .flags = full ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0u,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
            },
        .layout = program->layout,
        .basePipelineIndex = -1,
    };
    TRY(VULKAN(device->vk, vkCreateComputePipelines, device->handle, device->pipelines.handle, 1, &info, NULL,
               &program->pipeline));
    tuff__vulkan_count_pipeline(device);
    return TUFF_OK;
}

static tuff_status build(driver_device *device, const program_request *request, blob spirv, driver_program *program)
{
    VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = spirv.size,
        .pCode = spirv.data,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    TRY(create_set_layout(device, program));
    TRY(create_layout(device, program));
    TRY(VULKAN(device->vk, vkCreateShaderModule, device->handle, &info, NULL, &module));
    tuff_status status = create_pipeline(device, request, module, program);
    device->vk->vkDestroyShaderModule(device->handle, module, NULL);
    return status;
}

/* Rejects bytes that are not SPIR-V at all; the caller has checked them for damage. */
static bool is_spirv(blob spirv)
{
    uint32_t magic = 0;
    if (spirv.size < 20 || spirv.size % 4)
        return false;
    memcpy(&magic, spirv.data, sizeof magic);
    return magic == SPIRV_MAGIC;
}

static tuff_status compile(driver_device *device, const program_request *request, blob *spirv)
{
    TRY(tuff__vulkan_compile(request, spirv));
    TRY(tuff__vulkan_declare_aliases(spirv));
    return tuff__vulkan_declare_floats(&device->physical, spirv);
}

static void destroy_objects(const driver_device *device, const driver_program *program)
{
    if (program->pipeline)
        device->vk->vkDestroyPipeline(device->handle, program->pipeline, NULL);
    if (program->layout)
        device->vk->vkDestroyPipelineLayout(device->handle, program->layout, NULL);
    if (program->set_layout)
        device->vk->vkDestroyDescriptorSetLayout(device->handle, program->set_layout, NULL);
}

static tuff_status create(driver_device *device, const program_request *request, blob spirv, driver_program **out)
{
    driver_program *program = tuff__calloc(1, sizeof *program);
    if (!program)
        return TUFF_E_OOM_HOST;
    program->buffer_count = (uint32_t)request->buffer_count;
    program->word_count = (uint32_t)request->word_count;
    program->has_statistics = device->collects_statistics;
    tuff_status status = build(device, request, spirv, program);
    if (status == TUFF_OK) {
        *out = program;
    } else {
        destroy_objects(device, program);
        tuff__free(program);
    }
    return status;
}

tuff_status tuff__vulkan_new_program(driver_device *device, const program_request *request, blob cached, blob *made,
                                     driver_program **out)
{
    blob spirv = {0};
    *made = (blob){0};
    if (cached.size)
        return is_spirv(cached) ? create(device, request, cached, out)
                                : FAIL(TUFF_E_COMPILE, "%s: the cached program is not SPIR-V", request->name);
    tuff_status status = compile(device, request, &spirv);
    if (status == TUFF_OK)
        status = create(device, request, spirv, out);
    if (status == TUFF_OK)
        *made = spirv;
    else
        tuff__free(spirv.data);
    return status;
}

/* Recordings that use the program are gone, and they waited for their submissions, or were leaked because the device
   did not end them in time. One of the latter may still run the program. */
void tuff__vulkan_drop_program(driver_device *device, driver_program *program)
{
    if (device->lost || tuff__vulkan_is_done(device, device->leaked_use))
        destroy_objects(device, program);
    else
        device->has_leaks = true;
    tuff__free(program);
}
