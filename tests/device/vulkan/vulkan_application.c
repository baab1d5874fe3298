/* Creates the Vulkan objects of an application, as vulkan_application.h describes them, without any code of tuff. */
#define _POSIX_C_SOURCE 200809L
#include "vulkan_application.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define made(call) assert_int_equal(call, VK_SUCCESS)

vulkan_api vk;
int application_device_count, application_messages, submissions, unlocked_submissions, locks;
bool is_application_validated, loses_devices;

enum { MAX_DEVICES = 16 };
static VkInstance instance;
static VkPhysicalDevice devices[MAX_DEVICES];
static PFN_vkWaitSemaphores wait_semaphores;
static PFN_vkSignalSemaphore signal_semaphore;
static PFN_vkDeviceWaitIdle wait_idle;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_locked; /* whether tuff holds the lock; guarded by it */

static VKAPI_ATTR VkBool32 VKAPI_CALL hear(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                           VkDebugUtilsMessageTypeFlagsEXT type,
                                           const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)severity, (void)user;
    if (type & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT && ++application_messages <= 20)
        printf("validation: %s\n", data->pMessage);
    return VK_FALSE;
}

static bool has_layer(void)
{
    VkLayerProperties layers[64];
    uint32_t count = 64;
    PFN_vkEnumerateInstanceLayerProperties list =
        (PFN_vkEnumerateInstanceLayerProperties)vk.vkGetInstanceProcAddr(NULL, "vkEnumerateInstanceLayerProperties");
    if (!list || list(&count, layers) < 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(layers[i].layerName, "VK_LAYER_KHRONOS_validation") == 0)
            return true;
    return false;
}

static bool create_instance(void)
{
    static const char *const layers[] = {"VK_LAYER_KHRONOS_validation"};
    static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                             VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    static const VkValidationFeatureEnableEXT checks[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    const VkDebugUtilsMessengerCreateInfoEXT listener = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = hear,
    };
    const VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = &listener,
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = checks,
    };
    const VkApplicationInfo program = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = is_application_validated ? &features : NULL,
        .pApplicationInfo = &program,
        .enabledLayerCount = is_application_validated ? 1 : 0,
        .ppEnabledLayerNames = layers,
        .enabledExtensionCount = is_application_validated ? 2 : 0,
        .ppEnabledExtensionNames = extensions,
    };
    VkDebugUtilsMessengerEXT messenger;
    if (vk.vkCreateInstance(&info, NULL, &instance) != VK_SUCCESS)
        return false;
    PFN_vkCreateDebugUtilsMessengerEXT listen =
        (PFN_vkCreateDebugUtilsMessengerEXT)vk.vkGetInstanceProcAddr(instance, "vkCreateDebugUtilsMessengerEXT");
    if (is_application_validated)
        made(listen(instance, &listener, NULL, &messenger));
    return true;
}

/* Lists devices of Vulkan 1.2 or later, which have timeline semaphores. */
static void list_devices(void)
{
    VkPhysicalDevice all[MAX_DEVICES];
    uint32_t count = MAX_DEVICES;
    assert_true(vk.vkEnumeratePhysicalDevices(instance, &count, all) >= 0);
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        vk.vkGetPhysicalDeviceProperties(all[i], &properties);
        if (properties.apiVersion >= VK_API_VERSION_1_3)
            devices[application_device_count++] = all[i];
    }
}

int start_applications(void)
{
    const char *layers = getenv("TUFF_VALIDATION_LAYERS");
    if (layers && layers[0])
        setenv("VK_LAYER_PATH", layers, 1);
    /* Layers from 2024 on check the accesses of shaders only on request. */
    setenv("VK_KHRONOS_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "1", 1);
    if (tuff__vulkan_load_global() != TUFF_OK) {
        printf("no Vulkan: %s\n", tuff_error());
        return 77;
    }
    vk = tuff__vk;
    is_application_validated = has_layer();
    if (!create_instance() || tuff__vulkan_load_instance(&vk, instance) != TUFF_OK) {
        printf("no Vulkan 1.3 instance\n");
        return 77;
    }
    wait_semaphores = (PFN_vkWaitSemaphores)vk.vkGetInstanceProcAddr(instance, "vkWaitSemaphores");
    signal_semaphore = (PFN_vkSignalSemaphore)vk.vkGetInstanceProcAddr(instance, "vkSignalSemaphore");
    wait_idle = (PFN_vkDeviceWaitIdle)vk.vkGetInstanceProcAddr(instance, "vkDeviceWaitIdle");
    list_devices();
    return application_device_count ? 0 : 77;
}

void lock_application_queue(void)
{
    assert_int_equal(pthread_mutex_lock(&lock), 0);
}

void unlock_application_queue(void)
{
    assert_int_equal(pthread_mutex_unlock(&lock), 0);
}

static void take_lock(void *user)
{
    lock_application_queue();
    is_locked = user == (void *)&lock;
    locks++;
}

static void give_lock(void *user)
{
    (void)user;
    is_locked = false;
    unlock_application_queue();
}

static VKAPI_ATTR VkResult VKAPI_CALL count_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos,
                                                   VkFence fence)
{
    submissions++;
    unlocked_submissions += !is_locked;
    return loses_devices ? VK_ERROR_DEVICE_LOST : vk.vkQueueSubmit(queue, count, infos, fence);
}

/* Returns counting wrappers for functions through which tuff calls the application's objects. */
static void *find_counted(void *from, const char *name)
{
    PFN_vkVoidFunction found =
        strcmp(name, "vkQueueSubmit") == 0 ? (PFN_vkVoidFunction)count_submit : vk.vkGetInstanceProcAddr(from, name);
    void *out;
    memcpy(&out, &found, sizeof out);
    return out;
}

static uint32_t find_family(VkPhysicalDevice physical)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = 32;
    vk.vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)
            return i;
    fail_msg("no compute queue");
    return 0;
}

/* The features that a device has or that are enabled, in structures per version or per feature. They must stay in
   place, because tuff reads them after the device was created. */
typedef struct feature_chain {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceVulkan11Features of11;
    VkPhysicalDeviceVulkan12Features of12;
    VkPhysicalDeviceVulkan13Features of13;
    VkPhysicalDevice16BitStorageFeatures storage16;
    VkPhysicalDevice8BitStorageFeatures storage8;
    VkPhysicalDeviceShaderFloat16Int8Features arithmetic;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroups;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline;
} feature_chain;

static void link_versions(feature_chain *chain)
{
    chain->core =
        (VkPhysicalDeviceFeatures2){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &chain->of11};
    chain->of11 = (VkPhysicalDeviceVulkan11Features){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                     .pNext = &chain->of12};
    chain->of12 = (VkPhysicalDeviceVulkan12Features){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                     .pNext = &chain->of13};
    chain->of13 = (VkPhysicalDeviceVulkan13Features){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
}

static void enable_by_version(const feature_chain *has, feature_chain *out)
{
    out->of11.storageBuffer16BitAccess = has->of11.storageBuffer16BitAccess;
    out->of12.storageBuffer8BitAccess = has->of12.storageBuffer8BitAccess;
    out->of12.shaderFloat16 = has->of12.shaderFloat16;
    out->of12.shaderInt8 = has->of12.shaderInt8;
    out->of12.timelineSemaphore = VK_TRUE;
    out->of13.subgroupSizeControl = has->of13.subgroupSizeControl;
    out->of13.computeFullSubgroups = has->of13.computeFullSubgroups;
}

static void enable_apart(const feature_chain *has, feature_chain *out)
{
    out->core.pNext = &out->storage16;
    out->storage16 =
        (VkPhysicalDevice16BitStorageFeatures){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
                                               .pNext = &out->storage8,
                                               .storageBuffer16BitAccess = has->of11.storageBuffer16BitAccess};
    out->storage8 =
        (VkPhysicalDevice8BitStorageFeatures){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
                                              .pNext = &out->arithmetic,
                                              .storageBuffer8BitAccess = has->of12.storageBuffer8BitAccess};
    out->arithmetic = (VkPhysicalDeviceShaderFloat16Int8Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
        .pNext = &out->subgroups,
        .shaderFloat16 = has->of12.shaderFloat16,
        .shaderInt8 = has->of12.shaderInt8};
    out->subgroups = (VkPhysicalDeviceSubgroupSizeControlFeatures){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .pNext = &out->timeline,
        .subgroupSizeControl = has->of13.subgroupSizeControl,
        .computeFullSubgroups = has->of13.computeFullSubgroups};
}

static const void *choose_features(VkPhysicalDevice physical, enabled_features enabled)
{
    static feature_chain has, out;
    link_versions(&has);
    link_versions(&out);
    vk.vkGetPhysicalDeviceFeatures2(physical, &has.core);
    out.timeline = (VkPhysicalDeviceTimelineSemaphoreFeatures){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, .timelineSemaphore = VK_TRUE};
    out.core.features.shaderInt16 = has.core.features.shaderInt16;
    out.core.features.shaderInt64 = has.core.features.shaderInt64;
    if (enabled == ENABLED_NONE)
        return NULL;
    if (enabled == ENABLED_TIMELINE)
        return &out.timeline;
    if (enabled == ENABLED_STORAGE) {
        has.core.features = out.core.features = (VkPhysicalDeviceFeatures){0};
        has.of12.shaderFloat16 = has.of12.shaderInt8 = VK_FALSE;
    }
    (enabled == ENABLED_ALL ? enable_by_version : enable_apart)(&has, &out);
    return &out.core;
}

application open_application(int index, enabled_features enabled)
{
    const VkPhysicalDevice physical = devices[index];
    const float priority = 1;
    application self = {.physical = physical, .family = find_family(physical), .enabled = enabled};
    const void *features = choose_features(physical, enabled);
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = self.family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = features,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue};
    made(vk.vkCreateDevice(physical, &info, NULL, &self.device));
    vk.vkGetDeviceQueue(self.device, self.family, 0, &self.queue);
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = self.family};
    made(vk.vkCreateCommandPool(self.device, &pool, NULL, &self.pool));
    self.handles = (tuff_vulkan_handles){
        .instance = instance,
        .physical_device = physical,
        .device = self.device,
        .queue = self.queue,
        .queue_family = self.family,
        .get_instance_proc = find_counted,
        .api_version = enabled == ENABLED_NONE ? 0 : VK_API_VERSION_1_3,
        .features = features,
        .lock_queue = take_lock,
        .unlock_queue = give_lock,
        .lock_user = &lock,
    };
    return self;
}

void wait_for_application(const application *self)
{
    made(wait_idle(self->device));
}

void close_application(application *self)
{
    wait_for_application(self);
    vk.vkDestroyCommandPool(self->device, self->pool, NULL);
    vk.vkDestroyDevice(self->device, NULL);
    *self = (application){0};
}

static uint32_t find_memory(const application *self, uint32_t allowed)
{
    const VkMemoryPropertyFlags needed = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties memory;
    vk.vkGetPhysicalDeviceMemoryProperties(self->physical, &memory);
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++)
        if (allowed >> i & 1 && (memory.memoryTypes[i].propertyFlags & needed) == needed)
            return i;
    fail_msg("no coherent memory");
    return 0;
}

application_buffer create_application_buffer(const application *self, uint64_t size, VkBufferUsageFlags usage)
{
    application_buffer buffer = {.import = {.size = size, .usage = usage}};
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size, .usage = usage};
    VkMemoryRequirements needed;
    void *words;
    made(vk.vkCreateBuffer(self->device, &info, NULL, &buffer.handle));
    vk.vkGetBufferMemoryRequirements(self->device, buffer.handle, &needed);
    const VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                         .allocationSize = needed.size,
                                         .memoryTypeIndex = find_memory(self, needed.memoryTypeBits)};
    made(vk.vkAllocateMemory(self->device, &memory, NULL, &buffer.memory));
    made(vk.vkBindBufferMemory(self->device, buffer.handle, buffer.memory, 0));
    made(vk.vkMapMemory(self->device, buffer.memory, 0, VK_WHOLE_SIZE, 0, &words));
    memset(words, 0, size);
    buffer.words = words;
    memcpy(&buffer.import.buffer, &buffer.handle, sizeof buffer.handle);
    return buffer;
}

void destroy_application_buffer(const application *self, application_buffer *buffer)
{
    vk.vkDestroyBuffer(self->device, buffer->handle, NULL);
    vk.vkFreeMemory(self->device, buffer->memory, NULL);
    *buffer = (application_buffer){0};
}

VkSemaphore create_application_semaphore(const application *self, bool is_timeline)
{
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                        .pNext = is_timeline ? &type : NULL};
    VkSemaphore semaphore;
    made(vk.vkCreateSemaphore(self->device, &info, NULL, &semaphore));
    return semaphore;
}

void destroy_application_semaphore(const application *self, VkSemaphore semaphore)
{
    wait_for_application(self);
    vk.vkDestroySemaphore(self->device, semaphore, NULL);
}

uint64_t semaphore_number(VkSemaphore semaphore)
{
    uint64_t number;
    memcpy(&number, &semaphore, sizeof number);
    return number;
}

void signal_from_host(const application *self, VkSemaphore semaphore, uint64_t value)
{
    const VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = value};
    made(signal_semaphore(self->device, &info));
}

void wait_on_host(const application *self, VkSemaphore semaphore, uint64_t value)
{
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &semaphore,
                                      .pValues = &value};
    made(wait_semaphores(self->device, &info, UINT64_C(60000000000)));
}

uint64_t semaphore_value(const application *self, VkSemaphore semaphore)
{
    uint64_t value = 0;
    made(vk.counter_value(self->device, semaphore, &value));
    return value;
}

static void record_work(VkCommandBuffer commands, const application_work *work)
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkBufferCopy region = {.size = work->to->import.size};
    made(vk.vkBeginCommandBuffer(commands, &begin));
    vk.vkCmdPipelineBarrier(commands, all, all, 0, 1, &barrier, 0, NULL, 0, NULL);
    if (work->from)
        vk.vkCmdCopyBuffer(commands, work->from->handle, work->to->handle, 1, &region);
    else
        vk.vkCmdFillBuffer(commands, work->to->handle, 0, VK_WHOLE_SIZE, work->word);
    vk.vkCmdPipelineBarrier(commands, all, all | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    made(vk.vkEndCommandBuffer(commands));
}

void submit_work(const application *self, const application_work *work)
{
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = self->pool, .commandBufferCount = 1};
    VkCommandBuffer commands;
    made(vk.vkAllocateCommandBuffers(self->device, &info, &commands));
    record_work(commands, work);
    const VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                  .waitSemaphoreValueCount = work->wait ? 1 : 0,
                                                  .pWaitSemaphoreValues = &work->wait_value,
                                                  .signalSemaphoreValueCount = work->signal ? 1 : 0,
                                                  .pSignalSemaphoreValues = &work->signal_value};
    const VkSubmitInfo submission = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                     .pNext = work->wait_value || work->signal_value ? &values : NULL,
                                     .waitSemaphoreCount = work->wait ? 1 : 0,
                                     .pWaitSemaphores = &work->wait,
                                     .pWaitDstStageMask = &all,
                                     .commandBufferCount = 1,
                                     .pCommandBuffers = &commands,
                                     .signalSemaphoreCount = work->signal ? 1 : 0,
                                     .pSignalSemaphores = &work->signal};
    lock_application_queue();
    made(vk.vkQueueSubmit(self->queue, 1, &submission, VK_NULL_HANDLE));
    unlock_application_queue();
}

#endif
