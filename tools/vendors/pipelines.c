/* Compiles GLSL kernels to compute pipelines on the first Vulkan device and prints the statistics of its driver. Built
   and run by tools/check-vendors: Mesa's RADV opens a device for absent hardware (RADV_FORCE_FAMILY) and compiles for
   it.

   Usage: pipelines FILE.comp...

   Prints for each file its name and, separated by tabs, NAME=VALUE for each statistic, or "failed: WHY". Exits with 1
   if no device can be opened. */
#include <shaderc/shaderc.h>
#include <stdio.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

/* tuff binds only storage buffers and passes two words as push constants (src/exec/record.c). */
enum { BINDINGS = 32, WORD_BYTES = 8, MAX_STATISTICS = 64, MAX_TEXT = 1 << 20 };

typedef struct compiler {
    VkInstance instance;
    VkDevice device;
    VkPipelineLayout layout;
    PFN_vkGetPipelineExecutableStatisticsKHR get_statistics;
} compiler;

static VkDevice open_device(VkPhysicalDevice physical)
{
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pipelineExecutableInfo = VK_TRUE};
    VkPhysicalDeviceVulkan12Features later = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                              .pNext = &statistics,
                                              .storageBuffer8BitAccess = VK_TRUE,
                                              .shaderInt8 = VK_TRUE};
    VkPhysicalDeviceVulkan11Features narrow = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                               .pNext = &later,
                                               .storageBuffer16BitAccess = VK_TRUE};
    const VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                                .pNext = &narrow,
                                                .features = {.shaderInt16 = VK_TRUE, .shaderInt64 = VK_TRUE}};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    const char *const extensions[] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &features,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = 1,
                                     .ppEnabledExtensionNames = extensions};
    VkDevice device = VK_NULL_HANDLE;
    return vkCreateDevice(physical, &info, NULL, &device) == VK_SUCCESS ? device : VK_NULL_HANDLE;
}

static VkPipelineLayout make_layout(VkDevice device)
{
    VkDescriptorSetLayoutBinding bindings[BINDINGS];
    for (uint32_t i = 0; i < BINDINGS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    const VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = BINDINGS, .pBindings = bindings};
    const VkPushConstantRange words = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = WORD_BYTES};
    VkDescriptorSetLayout set;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    if (vkCreateDescriptorSetLayout(device, &set_info, NULL, &set) != VK_SUCCESS)
        return VK_NULL_HANDLE;
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = 1,
                                             .pSetLayouts = &set,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &words};
    if (vkCreatePipelineLayout(device, &info, NULL, &layout) != VK_SUCCESS)
        layout = VK_NULL_HANDLE;
    vkDestroyDescriptorSetLayout(device, set, NULL);
    return layout;
}

static void close_all(compiler *self)
{
    if (self->layout)
        vkDestroyPipelineLayout(self->device, self->layout, NULL);
    if (self->device)
        vkDestroyDevice(self->device, NULL);
    if (self->instance)
        vkDestroyInstance(self->instance, NULL);
}

/* Returns NULL, or the name of what is missing. */
static const char *open_all(compiler *self)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    if (vkCreateInstance(&info, NULL, &self->instance) != VK_SUCCESS)
        return "no Vulkan instance";
    VkPhysicalDevice physical;
    uint32_t count = 1;
    const VkResult listed = vkEnumeratePhysicalDevices(self->instance, &count, &physical);
    if ((listed != VK_SUCCESS && listed != VK_INCOMPLETE) || count == 0)
        return "no Vulkan device";
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(physical, &properties);
    printf("device\t%s\n", properties.deviceName);
    self->device = open_device(physical);
    if (!self->device)
        return "cannot open the device with pipeline statistics";
    self->layout = make_layout(self->device);
    self->get_statistics = (PFN_vkGetPipelineExecutableStatisticsKHR)vkGetDeviceProcAddr(
        self->device, "vkGetPipelineExecutableStatisticsKHR");
    return self->layout && self->get_statistics ? NULL : "no pipeline layout or no statistics";
}

static void print_statistics(const compiler *self, VkPipeline pipeline)
{
    const VkPipelineExecutableInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                              .pipeline = pipeline};
    VkPipelineExecutableStatisticKHR statistics[MAX_STATISTICS];
    uint32_t count = MAX_STATISTICS;
    for (uint32_t i = 0; i < count; i++)
        statistics[i] =
            (VkPipelineExecutableStatisticKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    const VkResult got = self->get_statistics(self->device, &info, &count, statistics);
    if (got != VK_SUCCESS && got != VK_INCOMPLETE)
        printf("\tfailed: no statistics (%d)", (int)got);
    for (uint32_t i = 0; (got == VK_SUCCESS || got == VK_INCOMPLETE) && i < count; i++)
        if (statistics[i].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR)
            printf("\t%s=%llu", statistics[i].name, (unsigned long long)statistics[i].value.u64);
}

static void print_pipeline(const compiler *self, const uint32_t *code, size_t size)
{
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size, .pCode = code};
    VkShaderModule module;
    VkPipeline pipeline;
    if (vkCreateShaderModule(self->device, &module_info, NULL, &module) != VK_SUCCESS) {
        printf("\tfailed: no shader module");
        return;
    }
    const VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                              .flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR,
                                              .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                        .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                        .module = module,
                                                        .pName = "main"},
                                              .layout = self->layout};
    const VkResult made = vkCreateComputePipelines(self->device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
    if (made == VK_SUCCESS) {
        print_statistics(self, pipeline);
        vkDestroyPipeline(self->device, pipeline, NULL);
    } else {
        printf("\tfailed: vkCreateComputePipelines (%d)", (int)made);
    }
    vkDestroyShaderModule(self->device, module, NULL);
}

/* Uses the same options as the library (src/device/vulkan/shaderc.c). */
static void compile_text(const compiler *self, shaderc_compiler_t glsl, const char *text, size_t size)
{
    shaderc_compile_options_t options = shaderc_compile_options_initialize();
    shaderc_compile_options_set_target_env(options, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_1);
    shaderc_compile_options_set_optimization_level(options, shaderc_optimization_level_performance);
    shaderc_compilation_result_t result =
        shaderc_compile_into_spv(glsl, text, size, shaderc_compute_shader, "kernel", "main", options);
    if (shaderc_result_get_compilation_status(result) == shaderc_compilation_status_success)
        print_pipeline(self, (const uint32_t *)(const void *)shaderc_result_get_bytes(result),
                       shaderc_result_get_length(result));
    else
        printf("\tfailed: %.200s", shaderc_result_get_error_message(result));
    shaderc_result_release(result);
    shaderc_compile_options_release(options);
}

int main(int count, char **arguments)
{
    static char text[MAX_TEXT];
    compiler self = {0};
    const char *missing = open_all(&self);
    if (missing) {
        fprintf(stderr, "pipelines: %s\n", missing);
        close_all(&self);
        return 1;
    }
    shaderc_compiler_t glsl = shaderc_compiler_initialize();
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(arguments[i], "rb");
        const size_t size = file ? fread(text, 1, sizeof text, file) : 0;
        if (file)
            fclose(file);
        printf("%s", arguments[i]);
        if (size > 0 && size < sizeof text)
            compile_text(&self, glsl, text, size);
        else
            printf("\tfailed: cannot read the file");
        putchar('\n');
        fflush(stdout);
    }
    shaderc_compiler_release(glsl);
    close_all(&self);
    return 0;
}
