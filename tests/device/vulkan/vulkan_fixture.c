/* Fixtures for tests of the Vulkan driver; vulkan_fixture.h describes them. */
#define _POSIX_C_SOURCE 200809L
#include "vulkan_fixture.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

const driver *const vulkan = &tuff__driver_vulkan;
#if !defined(TUFF_WITH_SHADERC) || TUFF_WITH_SHADERC
const bool has_compiler = true;
#else
const bool has_compiler = false;
#endif
int device_count;
int validation_messages;
bool validated, expects_messages;
vulkan_lies lies;
static VkInstance instance; /* the driver's instance */

/* The table without lies. */
static vulkan_api truth;

const char *const scale_text =
    "#version 450\n"
    "layout(local_size_x = 64) in;\n"
    "layout(std430, binding = 0) readonly buffer A { float x[]; };\n"
    "layout(std430, binding = 1) buffer B { float y[]; };\n"
    "layout(push_constant) uniform P { uint count; uint base; };\n"
    "void main() {\n"
    "    uint i = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + base) * 64u + gl_LocalInvocationID.x;\n"
    "    if (i < count) y[i] = 2.0 * x[i] + 1.0;\n"
    "}\n";

const char *const tally_text = "#version 450\n"
                               "layout(local_size_x = 1) in;\n"
                               "layout(std430, binding = 0) buffer A { uint x[]; };\n"
                               "layout(push_constant) uniform P { uint count; uint base; };\n"
                               "void main() {\n"
                               "    uint group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + base;\n"
                               "    if (group < count) x[group] += 1u;\n"
                               "}\n";

static VKAPI_ATTR void VKAPI_CALL lying_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out)
{
    truth.vkGetPhysicalDeviceProperties(device, out);
    if (lies.old)
        out->apiVersion = VK_API_VERSION_1_1;
}

static VKAPI_ATTR void VKAPI_CALL lying_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out)
{
    VkPhysicalDeviceProperties *properties = &out->properties;
    truth.vkGetPhysicalDeviceProperties2(device, out);
    if (lies.old)
        properties->apiVersion = VK_API_VERSION_1_1;
    if (lies.discrete)
        properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    if (lies.incoherent)
        properties->limits.nonCoherentAtomSize = 256;
    for (int i = 0; i < 2; i++)
        if (lies.groups[i])
            properties->limits.maxComputeWorkGroupCount[i] = lies.groups[i];
    if (lies.no_timestamps)
        properties->limits.timestampPeriod = 0;
}

static VKAPI_ATTR void VKAPI_CALL lying_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *out)
{
    truth.vkGetPhysicalDeviceMemoryProperties(device, out);
    for (uint32_t i = 0; lies.incoherent && i < out->memoryTypeCount; i++)
        out->memoryTypes[i].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}

static VKAPI_ATTR void VKAPI_CALL lying_features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out)
{
    truth.vkGetPhysicalDeviceFeatures2(device, out);
    if (!lies.old)
        return;
    VkPhysicalDevice16BitStorageFeatures *storage = out->pNext;
    out->features = (VkPhysicalDeviceFeatures){0};
    assert_int_equal(storage->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
    assert_null(storage->pNext);
    storage->storageBuffer16BitAccess = VK_FALSE;
}

static VKAPI_ATTR VkResult VKAPI_CALL lying_extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
                                                       VkExtensionProperties *out)
{
    if (!lies.old)
        return truth.vkEnumerateDeviceExtensionProperties(device, layer, count, out);
    *count = 0;
    return VK_SUCCESS;
}

static void install_lies(void)
{
    truth = tuff__vk;
    tuff__vk.vkGetPhysicalDeviceProperties = lying_properties;
    tuff__vk.vkGetPhysicalDeviceProperties2 = lying_properties2;
    tuff__vk.vkGetPhysicalDeviceMemoryProperties = lying_memory;
    tuff__vk.vkGetPhysicalDeviceFeatures2 = lying_features;
    tuff__vk.vkEnumerateDeviceExtensionProperties = lying_extensions;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL hear(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                           VkDebugUtilsMessageTypeFlagsEXT type,
                                           const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)severity;
    (void)user;
    if (type & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT && ++validation_messages <= 20 && !expects_messages)
        printf("validation: %s\n", data->pMessage);
    return VK_FALSE;
}

static PFN_vkVoidFunction find(VkInstance from, const char *name)
{
    return tuff__vk.vkGetInstanceProcAddr(from, name);
}

static bool has_validation_layer(void)
{
    VkLayerProperties layers[64];
    uint32_t count = 64;
    PFN_vkEnumerateInstanceLayerProperties list =
        (PFN_vkEnumerateInstanceLayerProperties)find(NULL, "vkEnumerateInstanceLayerProperties");
    if (!list || list(&count, layers) < 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(layers[i].layerName, "VK_LAYER_KHRONOS_validation") == 0)
            return true;
    return false;
}

/* Adds the layer and a message callback to the instance that the driver creates. */
static VKAPI_ATTR VkResult VKAPI_CALL create_validated(const VkInstanceCreateInfo *how,
                                                       const VkAllocationCallbacks *memory, VkInstance *out)
{
    static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    static const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    const char *extensions[8] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    VkDebugUtilsMessengerCreateInfoEXT listener = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = hear,
    };
    VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = &listener,
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = enabled,
    };
    VkInstanceCreateInfo info = *how;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)find(NULL, "vkCreateInstance");
    assert_true(how->enabledExtensionCount <= 6);
    for (uint32_t i = 0; i < how->enabledExtensionCount; i++)
        extensions[2 + i] = how->ppEnabledExtensionNames[i];
    if (validated) {
        info.pNext = &features;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = layers;
        info.enabledExtensionCount += 2;
        info.ppEnabledExtensionNames = extensions;
    }
    VkResult result = create(&info, memory, out);
    instance = result == VK_SUCCESS ? *out : NULL;
    if (!instance || !validated)
        return result;
    VkDebugUtilsMessengerEXT messenger;
    PFN_vkCreateDebugUtilsMessengerEXT listen =
        (PFN_vkCreateDebugUtilsMessengerEXT)find(*out, "vkCreateDebugUtilsMessengerEXT");
    return listen(*out, &listener, NULL, &messenger);
}

int vulkan_start(void)
{
    const char *absence = NULL;
    if (tuff__vulkan_load_global() != TUFF_OK) {
        printf("no Vulkan: %s\n", tuff_error());
        return 77;
    }
    /* Layers from 2024 on check the accesses of shaders only on request. */
    setenv("VK_KHRONOS_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "1", 1);
    validated = has_validation_layer();
    tuff__vk.vkCreateInstance = create_validated;
    device_count = vulkan->count(&absence);
    if (!device_count) {
        printf("no Vulkan devices: %s\n", absence);
        return 77;
    }
    printf("%d Vulkan devices, %s validation layer\n", device_count, validated ? "under the" : "without a");
    install_lies();
    return 0;
}

PFN_vkDeviceWaitIdle vulkan_wait_idle(void)
{
    return (PFN_vkDeviceWaitIdle)find(instance, "vkDeviceWaitIdle");
}

void no_validation_messages(void **state)
{
    (void)state;
    assert_int_equal(validation_messages, 0);
}

driver_device *open_device(int index)
{
    driver_device *device = NULL;
    ok(vulkan->open(index, &device));
    return device;
}

driver_buffer *create_buffer(driver_device *device, uint64_t size)
{
    driver_buffer *buffer = NULL;
    ok(vulkan->buffer_create(device, size, &buffer));
    return buffer;
}

driver_program *create_program(driver_device *device, const char *text, int buffers, uint32_t local_size)
{
    program_request request = {"test", text, buffers, 2, local_size, 0, false};
    driver_program *program = NULL;
    blob made = {0};
    ok(vulkan->program_create(device, &request, (blob){0}, &made, &program));
    assert_true(made.size > 20);
    tuff__free(made.data);
    return program;
}

driver_recording *record(driver_device *device, const command *commands, int count, bool timed)
{
    driver_recording *recording = NULL;
    ok(vulkan->recording_create(device, commands, count, timed, &recording));
    return recording;
}

command scale(driver_program *program, driver_buffer *from, driver_buffer *to, uint32_t count)
{
    return (command){
        .kind = COMMAND_DISPATCH,
        .program = program,
        .group_count = (count + 63) / 64,
        .binding_count = 2,
        .word_count = 2,
        .bindings = {{from, 0, count * 4u, false}, {to, 0, count * 4u, true}},
        .words = {count, 0},
        .barrier = true,
        .after_dispatch = true,
    };
}

command tally(driver_program *program, driver_buffer *buffer, uint32_t count)
{
    return (command){
        .kind = COMMAND_DISPATCH,
        .program = program,
        .group_count = count,
        .binding_count = 1,
        .word_count = 2,
        .bindings = {{buffer, 0, count * 4u, true}},
        .words = {count, 0},
    };
}

command copy(driver_buffer *from, uint64_t from_offset, driver_buffer *to, uint64_t to_offset, uint64_t size)
{
    return (command){
        .kind = COMMAND_COPY,
        .binding_count = 2,
        .bindings = {{from, from_offset, size, false}, {to, to_offset, size, true}},
    };
}

command fill(driver_buffer *buffer, uint64_t offset, uint64_t size)
{
    return (command){
        .kind = COMMAND_FILL_ZERO,
        .binding_count = 1,
        .bindings = {{buffer, offset, size, true}},
    };
}

void on_every_device(void (*check)(driver_device *device))
{
    for (int i = 0; i < device_count; i++)
        for (int discrete = 0; discrete < 2; discrete++) {
            lies.discrete = discrete;
            driver_device *device = open_device(i);

            check(device);
            vulkan->close(device);
            lies.discrete = false;
        }
}

static uint8_t pattern(uint64_t i, unsigned seed)
{
    return (uint8_t)(i * 7 + i / 251 + seed);
}

static void write_and_read(driver_device *device, uint64_t offset, uint64_t size)
{
    uint64_t whole = offset + size + 13;
    driver_buffer *buffer = create_buffer(device, whole);
    uint8_t *data = malloc(whole), *back = malloc(whole);
    for (uint64_t i = 0; i < whole; i++)
        data[i] = pattern(i, 1);
    ok(vulkan->buffer_write(device, buffer, 0, data, whole));
    memset(data, 0, whole);
    for (uint64_t i = 0; i < size; i++)
        data[i] = pattern(i, 99);
    ok(vulkan->buffer_write(device, buffer, offset, data, size));
    memset(data, 0, whole);
    ok(vulkan->buffer_read(device, buffer, 0, back, whole));
    for (uint64_t i = 0; i < whole; i++) {
        bool inside = i >= offset && i < offset + size;
        if (back[i] != (inside ? pattern(i - offset, 99) : pattern(i, 1)))
            fail_msg("byte %llu of %llu at %llu", (unsigned long long)i, (unsigned long long)size,
                     (unsigned long long)offset);
    }
    ok(vulkan->buffer_read(device, buffer, offset, back, size));
    assert_int_equal(back[size - 1], pattern(size - 1, 99));
    free(data);
    free(back);
    vulkan->buffer_destroy(device, buffer);
}

void check_writes_and_reads(driver_device *device)
{
    write_and_read(device, 0, 1);
    write_and_read(device, 3, 5);
    write_and_read(device, 256, 4096);
    write_and_read(device, 1, 2 * STAGING_SLOT_SIZE);
    write_and_read(device, 7, 11 * (uint64_t)STAGING_SLOT_SIZE + 3);
}

/* A chain longer than a segment: each command depends on the one before, and every third is a copy. */
void check_chain(driver_device *device)
{
    enum { COUNT = 1000, LENGTH = 101 };
    static command commands[LENGTH];
    float x[COUNT], expected[COUNT];
    driver_program *program = create_program(device, scale_text, 2, 64);
    driver_buffer *buffers[] = {create_buffer(device, sizeof x), create_buffer(device, sizeof x)};
    int where = 0;
    for (int j = 0; j < COUNT; j++)
        expected[j] = x[j] = (float)j * 0x1p-20f;
    for (int i = 0; i < LENGTH; i++, where = !where) {
        commands[i] = i % 3 == 2 ? copy(buffers[where], 0, buffers[!where], 0, sizeof x)
                                 : scale(program, buffers[where], buffers[!where], COUNT);
        commands[i].barrier = true;
        commands[i].after_copy = i % 3 == 0;
        commands[i].after_dispatch = i % 3 != 0;
        for (int j = 0; j < COUNT && i % 3 != 2; j++)
            expected[j] = 2 * expected[j] + 1;
    }
    driver_recording *recording = record(device, commands, LENGTH, false);
    ok(vulkan->buffer_write(device, buffers[0], 0, x, sizeof x));
    ok(vulkan->submit(device, recording));
    ok(vulkan->wait(device));
    ok(vulkan->buffer_read(device, buffers[where], 0, x, sizeof x));
    assert_memory_equal(x, expected, sizeof x);
    vulkan->recording_destroy(device, recording);
    vulkan->buffer_destroy(device, buffers[0]);
    vulkan->buffer_destroy(device, buffers[1]);
    vulkan->program_destroy(device, program);
}

#endif
