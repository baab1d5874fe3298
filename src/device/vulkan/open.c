/* The driver's table, the list of devices, and opening and closing a device. The instance is made when devices are
   first counted and lives as long as the process, because drivers do not survive being unloaded. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "device/vulkan/glsl_compiler.h"
#include "device/vulkan/state.h"

#define SECOND UINT64_C(1000000000)

static VkInstance instance;
static VkPhysicalDevice *usable_devices;
static int usable_count;
static char reason_text[256];

/* Loaders from 2022 on hide devices of layers over other APIs unless this extension is enabled. */
static tuff_status has_portability(bool *found)
{
    uint32_t count = 0;
    TRY(VULKAN(&tuff__vk, vkEnumerateInstanceExtensionProperties, NULL, &count, NULL));
    VkExtensionProperties *extensions = tuff__calloc(count + 1u, sizeof *extensions);
    if (!extensions)
        return TUFF_E_OOM_HOST;
    tuff_status status = VULKAN(&tuff__vk, vkEnumerateInstanceExtensionProperties, NULL, &count, extensions);
    for (uint32_t i = 0; status == TUFF_OK && i < count; i++)
        if (strcmp(extensions[i].extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME) == 0)
            *found = true;
    tuff__free(extensions);
    return status;
}

static tuff_status make_instance(VkInstance *out)
{
    static const char *const portability_names[] = {VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME};
    uint32_t version = 0;
    bool portability = false;
    TRY(VULKAN(&tuff__vk, vkEnumerateInstanceVersion, &version));
    if (version < VK_API_VERSION_1_1)
        return FAIL(TUFF_E_NO_DEVICE, "the Vulkan loader is older than 1.1");
    TRY(has_portability(&portability));
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "tuff",
        .pEngineName = "tuff",
        .apiVersion = VK_API_VERSION_1_3,
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .flags = portability ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0u,
        .pApplicationInfo = &application,
        .enabledExtensionCount = portability ? 1 : 0,
        .ppEnabledExtensionNames = portability_names,
    };
    return VULKAN(&tuff__vk, vkCreateInstance, &info, NULL, out);
}

/* Keeps the devices that tuff can use. TUFF_E_NO_DEVICE if there is none. */
static tuff_status list_devices(VkInstance from)
{
    uint32_t count = 0;
    int usable = 0;
    TRY(VULKAN(&tuff__vk, vkEnumeratePhysicalDevices, from, &count, NULL));
    VkPhysicalDevice *devices = tuff__calloc(count + 1u, sizeof *devices);
    if (!devices)
        return TUFF_E_OOM_HOST;
    tuff_status status = VULKAN(&tuff__vk, vkEnumeratePhysicalDevices, from, &count, devices);
    for (uint32_t i = 0; status == TUFF_OK && i < count; i++)
        if (tuff__vulkan_is_usable(devices[i]))
            devices[usable++] = devices[i];
    if (status == TUFF_OK && !usable)
        status = FAIL(TUFF_E_NO_DEVICE, "no driver offers a device with Vulkan 1.1 and compute");
    if (status != TUFF_OK) {
        tuff__free(devices);
        return status;
    }
    usable_devices = devices;
    usable_count = usable;
    return TUFF_OK;
}

static tuff_status initialize(void)
{
    VkInstance made = NULL;
    TRY(tuff__vulkan_load_global());
    TRY(make_instance(&made));
    tuff_status status = tuff__vulkan_load_instance(&tuff__vk, made);
    if (status == TUFF_OK)
        status = list_devices(made);
    if (status == TUFF_OK)
        instance = made;
    else if (tuff__vk.vkDestroyInstance)
        tuff__vk.vkDestroyInstance(made, NULL);
    return status;
}

static int count_devices(const char **reason)
{
    if (instance || initialize() == TUFF_OK)
        return usable_count;
    const char *error = tuff_error();
    const char *advice = ": install a Vulkan driver (Debian: mesa-vulkan-drivers, which also runs on the CPU)";
    snprintf(reason_text, sizeof reason_text, "%.150s%s", error, strstr(error, "install") ? "" : advice);
    *reason = reason_text;
    return 0;
}

static tuff_status describe(int index, tuff_device_info *info)
{
    vulkan_physical physical;
    *info = (tuff_device_info){0};
    TRY(tuff__vulkan_examine(&tuff__vk, usable_devices[index], NULL, &physical));
    tuff__vulkan_describe(&physical, info);
    return TUFF_OK;
}

static tuff_status create_device(driver_device *device)
{
    const vulkan_physical *physical = &device->physical;
    const float priorities[] = {1, 1};
    const bool has_upload_family = physical->upload.family != physical->queue_family;
    VkDeviceQueueCreateInfo queues[2] = {{
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = physical->queue_family,
        .queueCount = has_upload_family ? 1 : physical->upload.index + 1,
        .pQueuePriorities = priorities,
    }};
    queues[1] = queues[0];
    queues[1].queueFamilyIndex = physical->upload.family;
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &physical->features,
        .queueCreateInfoCount = has_upload_family ? 2 : 1,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = physical->extension_count,
        .ppEnabledExtensionNames = physical->extensions,
    };
    return VULKAN(device->vk, vkCreateDevice, physical->handle, &info, NULL, &device->handle);
}

/* Nanoseconds without progress after which work counts as hanging. Drivers for the CPU compile a kernel when it first
   runs, which may take them minutes on a busy machine. */
static uint64_t default_wait_limit(const driver_device *device)
{
    return device->physical.properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? 240 * SECOND
                                                                                            : 30 * SECOND;
}

tuff_status tuff__vulkan_prepare(driver_device *device)
{
    const VkPhysicalDeviceType type = device->physical.properties.properties.deviceType;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = device->physical.queue_family,
    };
    device->wait_limit = default_wait_limit(device);
    device->optimizes = tuff__driver_optimizer_is_on();
    /* On a CPU one command may take seconds, and submissions are cheap; on GPUs it is the other way round. */
    device->segment_size = type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 8 : 32;
    device->mapped = tuff__vulkan_is_host_visible(&device->physical);
    device->reads_through_copies = type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    tuff__predictor_init(&device->predictor, type != VK_PHYSICAL_DEVICE_TYPE_CPU);
    device->predictor.is_shared = device->is_wrapped;
    TRY(tuff__vulkan_create_ring(device));
    TRY(VULKAN(device->vk, vkCreateCommandPool, device->handle, &pool, NULL, &device->commands));
    pool.queueFamilyIndex = device->physical.upload.family;
    TRY(VULKAN(device->vk, vkCreateCommandPool, device->handle, &pool, NULL, &device->upload_commands));
    device->identity = tuff__vulkan_identity(&device->physical);
    if (!device->identity)
        return TUFF_E_OOM_HOST;
    tuff__vulkan_open_pipelines(device);
    return TUFF_OK;
}

static void destroy_objects(driver_device *device)
{
    if (!device->handle)
        return;
    tuff__vulkan_close_pipelines(device);
    tuff__vulkan_buffer_release(device, &device->staging.buffer);
    tuff__vulkan_destroy_ring(device);
    if (device->commands)
        device->vk->vkDestroyCommandPool(device->handle, device->commands, NULL);
    if (device->upload_commands)
        device->vk->vkDestroyCommandPool(device->handle, device->upload_commands, NULL);
    if (!device->is_wrapped && !device->has_leaks)
        device->vk->vkDestroyDevice(device->handle, NULL);
}

void tuff__vulkan_close(driver_device *device)
{
    /* A device that still runs after the time limit keeps its objects: destroying them could block forever. */
    if (tuff__vulkan_settle(device, device->submitted) && !device->has_stuck_upload)
        destroy_objects(device);
    tuff__free(device->submissions);
    tuff__free(device->identity);
    tuff__free(device);
}

static tuff_status connect(int index, driver_device *device)
{
    const vulkan_physical *physical = &device->physical;
    TRY(tuff__vulkan_examine(device->vk, usable_devices[index], NULL, &device->physical));
    TRY(create_device(device));
    device->vk->vkGetDeviceQueue(device->handle, physical->queue_family, 0, &device->queue);
    device->vk->vkGetDeviceQueue(device->handle, physical->upload.family, physical->upload.index,
                                 &device->upload_queue);
    return tuff__vulkan_prepare(device);
}

static tuff_status open_device(int index, driver_device **out)
{
    driver_device *device = tuff__calloc(1, sizeof *device);
    if (!device)
        return TUFF_E_OOM_HOST;
    device->vk = &tuff__vk;
    const tuff_status status = connect(index, device);
    if (status == TUFF_OK)
        *out = device;
    else
        tuff__vulkan_close(device);
    return status;
}

static const char *identity(driver_device *device)
{
    return device->identity;
}

/* The same in a build without a GLSL compiler, so that it finds the cached programs of a build with one. */
static const char *build_options(driver_device *device)
{
    return device->optimizes ? GLSL_COMPILER_OPTIONS : GLSL_COMPILER_OPTIONS "; optimization by the driver disabled";
}

static tuff_status wait_for_all(driver_device *device)
{
    return tuff__vulkan_wait_until(device, device->submitted);
}

static bool has_upload_queue(driver_device *device)
{
    return device->physical.upload.is_separate;
}

static bool has_pipeline_cache(driver_device *device)
{
    return device->pipelines.handle != VK_NULL_HANDLE;
}

static void set_timeout(driver_device *device, uint64_t nanoseconds)
{
    device->wait_limit = nanoseconds > 0 ? nanoseconds : default_wait_limit(device);
}

static void unwrap(driver_device *device, void *handles)
{
    tuff_vulkan_handles *out = handles;
    device->predictor.is_shared = true;
    if (device->is_wrapped) {
        *out = device->application;
        return;
    }
    *out = (tuff_vulkan_handles){.instance = instance,
                                 .physical_device = device->physical.handle,
                                 .device = device->handle,
                                 .queue = device->queue,
                                 .queue_family = device->physical.queue_family,
                                 .api_version = VK_API_VERSION_1_3};
    /* Vulkan's type of this function returns a function pointer. */
    memcpy(&out->get_instance_proc, &tuff__vk.vkGetInstanceProcAddr, sizeof out->get_instance_proc);
}

const driver tuff__driver_vulkan = {
    .name = "vulkan",
    .language = "GLSL",
    .import = "tuff_array_import_vulkan",
    .count = count_devices,
    .describe = describe,
    .open = open_device,
    .close = tuff__vulkan_close,
    .identity = identity,
    .build_options = build_options,
    .buffer_create = tuff__vulkan_new_buffer,
    .buffer_create_anywhere = tuff__vulkan_new_buffer_anywhere,
    .buffer_destroy = tuff__vulkan_drop_buffer,
    .buffer_write = tuff__vulkan_write,
    .buffer_read = tuff__vulkan_read,
    .buffer_copy = tuff__vulkan_copy,
    .staging_create = tuff__vulkan_staging_create,
    .staging_destroy = tuff__vulkan_staging_destroy,
    .staging_copy = tuff__vulkan_staging_copy,
    .staging_send = tuff__vulkan_staging_send,
    .staging_poll = tuff__vulkan_staging_poll,
    .has_upload_queue = has_upload_queue,
    .has_pipeline_cache = has_pipeline_cache,
    .program_create = tuff__vulkan_new_program,
    .compiles_in_parallel = true,
    .program_destroy = tuff__vulkan_drop_program,
    .collect_spill_statistics = tuff__vulkan_collect_spill_statistics,
    .spilled_bytes = tuff__vulkan_spilled_bytes,
    .recording_create = tuff__vulkan_record,
    .recording_destroy = tuff__vulkan_drop_recording,
    .submit = tuff__vulkan_replay,
    .wait = wait_for_all,
    .set_timeout = set_timeout,
    .timestamps = tuff__vulkan_timestamps,
    .start_times = tuff__vulkan_start_times,
    .wrap = tuff__vulkan_wrap,
    .buffer_import = tuff__vulkan_import,
    .unwrap = unwrap,
    .buffer_unwrap = tuff__vulkan_buffer_unwrap,
    .enqueue_wait = tuff__vulkan_enqueue_wait,
    .enqueue_signal = tuff__vulkan_enqueue_signal,
};
