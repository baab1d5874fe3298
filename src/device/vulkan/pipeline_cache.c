/* The pipelines that the driver compiled, kept in the cache folder: programs are kept there as SPIR-V, and drivers
   without a cache of their own, as on phones, would compile that at every start.

   A device has one VkPipelineCache. It begins with the data that the folder has for this driver, and its data are saved
   when the device is closed, and before that whenever a quarter more pipelines exist than at the last save. If another
   process, or another device of this one, saved meanwhile, its pipelines are merged in. Between reading and replacing
   the file nothing is locked: if two save at the same moment, the file has the pipelines of one of them, and those of
   the other are compiled again, once.

   All of this is optional: without a folder or when a call fails, pipelines are compiled as without a cache. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/log.h"
#include "device/cache/program_cache.h"
#include "device/vulkan/state.h"

enum {
    HEADER_SIZE = 32, /* of VkPipelineCacheHeaderVersionOne */
    EMPTY_SIZE = 128, /* data up to this size have no pipeline: the header, and perhaps a count and a checksum */
    SIZE_LIMIT = 64 << 20,
    SAVE_STEP = 16, /* pipelines between saves, at first */
    READ_ATTEMPTS = 4
};

static void write_key(const vulkan_physical *physical, char *key, size_t size)
{
    const VkPhysicalDeviceProperties *properties = &physical->properties.properties;
    int length = snprintf(key, size, "vulkan pipelines, pointers of %zu bytes\nvendor %#x device %#x driver %#x\nUUID ",
                          sizeof(void *), properties->vendorID, properties->deviceID, properties->driverVersion);
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++)
        length += snprintf(key + length, size - (size_t)length, "%02x", properties->pipelineCacheUUID[i]);
}

/* Whether the data begin with the header that the specification prescribes, and are of this device and driver. */
static bool is_ours(const vulkan_physical *physical, blob data)
{
    const VkPhysicalDeviceProperties *properties = &physical->properties.properties;
    byte_reader reader = {.data = data.data, .size = data.size};
    const uint32_t header_size = tuff__get_u32(&reader), version = tuff__get_u32(&reader);
    const uint32_t vendor = tuff__get_u32(&reader), device = tuff__get_u32(&reader);
    return data.size >= HEADER_SIZE && header_size >= HEADER_SIZE && header_size <= data.size &&
           version == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && vendor == properties->vendorID &&
           device == properties->deviceID &&
           memcmp(reader.data + reader.at, properties->pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

/* Returns the data of the file, which the caller frees; empty if there are none that the driver may see. */
static blob load(const driver_device *device)
{
    const cache_key key = {"pipelines", device->pipelines.key};
    blob data;
    if (!tuff__program_cache_load(key, &data))
        return (blob){0};
    if (data.size <= SIZE_LIMIT && is_ours(&device->physical, data))
        return data;
    tuff__log(TUFF_LOG_WARNING, "vulkan: %s: ignoring the pipelines in the cache: %s",
              device->physical.properties.properties.deviceName,
              data.size > SIZE_LIMIT ? "they are too large" : "another driver made them");
    tuff__free(data.data);
    return (blob){0};
}

static VkPipelineCache create(const driver_device *device, blob data)
{
    const VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = data.size,
        .pInitialData = data.data,
    };
    VkPipelineCache made = VK_NULL_HANDLE;
    return VULKAN(device->vk, vkCreatePipelineCache, device->handle, &info, NULL, &made) == TUFF_OK ? made
                                                                                                    : VK_NULL_HANDLE;
}

/* Returns the size of the cache's data; 0 if the driver cannot tell. */
static size_t size_of(const driver_device *device, VkPipelineCache cache)
{
    size_t size = 0;
    const tuff_status status = VULKAN(device->vk, vkGetPipelineCacheData, device->handle, cache, &size, NULL);
    return status == TUFF_OK ? size : 0;
}

/* Returns the cache's data, which the caller frees; empty on failure. Other threads may add to it: then it has grown
   since its size was read. */
static blob read_data(const driver_device *device, VkPipelineCache cache)
{
    for (int i = 0; i < READ_ATTEMPTS; i++) {
        blob data = {.size = size_of(device, cache)};
        if (data.size == 0 || data.size > SIZE_LIMIT)
            return (blob){0};
        data.data = tuff__alloc(data.size);
        if (!data.data)
            return (blob){0};
        const VkResult result = device->vk->vkGetPipelineCacheData(device->handle, cache, &data.size, data.data);
        if (result == VK_SUCCESS)
            return data;
        tuff__free(data.data);
        if (result != VK_INCOMPLETE)
            return (blob){0};
    }
    return (blob){0};
}

/* Returns the data of the device's pipelines together with those of the file, in a cache of its own: threads that
   create pipelines may not use a cache that others are merged into. Empty on failure. */
static blob merge(const driver_device *device, blob file)
{
    blob merged = {0};
    const VkPipelineCache all = create(device, file);
    if (!all)
        return merged;
    if (VULKAN(device->vk, vkMergePipelineCaches, device->handle, all, 1, &device->pipelines.handle) == TUFF_OK)
        merged = read_data(device, all);
    device->vk->vkDestroyPipelineCache(device->handle, all, NULL);
    return merged;
}

/* Returns whether the data are in the folder now. */
static bool store(const driver_device *device, blob data)
{
    /* A driver whose data have another header would be refused its own file. */
    return is_ours(&device->physical, data) &&
           tuff__program_cache_store((cache_key){"pipelines", device->pipelines.key}, data);
}

/* Nothing can be removed from a VkPipelineCache: without the file, the next process begins with an empty one, and keeps
   only what is still in use. */
static void give_up(driver_device *device)
{
    vulkan_pipelines *self = &device->pipelines;
    self->is_full = true;
    tuff__log(TUFF_LOG_INFO, "vulkan: %s: the cache of pipelines exceeds %d MiB and is begun anew",
              device->physical.properties.properties.deviceName, SIZE_LIMIT >> 20);
    tuff__program_cache_drop((cache_key){"pipelines", self->key});
}

/* Saves the pipelines if there are new ones. Called by one thread at a time. */
static void save_new(driver_device *device)
{
    vulkan_pipelines *self = &device->pipelines;
    const size_t size = size_of(device, self->handle);
    if (self->is_full || size <= EMPTY_SIZE || size == self->saved_size || !tuff__program_cache_is_on())
        return;
    if (size > SIZE_LIMIT) {
        give_up(device);
        return;
    }
    const blob file = load(device);
    const bool is_known = file.size == 0 || tuff__is_same_hash(tuff__hash(file.data, file.size), self->known_file);
    const blob merged = is_known ? (blob){0} : merge(device, file);
    const blob data = merged.size > 0 ? merged : read_data(device, self->handle);
    const bool stored = store(device, data);
    if (stored && merged.size == 0)
        self->known_file = tuff__hash(data.data, data.size);
    if (stored)
        self->saved_size = size;
    tuff__free(data.data);
    tuff__free(file.data);
}

/* The same; failures are no errors of the caller. */
static void save(driver_device *device)
{
    saved_error before;
    tuff__error_save(&before);
    save_new(device);
    tuff__error_restore(&before);
}

static void open_cache(driver_device *device)
{
    vulkan_pipelines *self = &device->pipelines;
    write_key(&device->physical, self->key, sizeof self->key);
    const blob file = load(device);
    self->handle = create(device, file);
    if (!self->handle && file.size > 0)
        self->handle = create(device, (blob){0});
    if (!self->handle) {
        tuff__log(TUFF_LOG_INFO, "vulkan: no pipelines are cached: %s", tuff_error());
    } else if (file.size > 0) {
        self->known_file = tuff__hash(file.data, file.size);
        self->saved_size = size_of(device, self->handle);
    }
    tuff__free(file.data);
}

void tuff__vulkan_open_pipelines(driver_device *device)
{
    saved_error before;
    tuff__error_save(&before);
    if (tuff__program_cache_is_on())
        open_cache(device);
    tuff__error_restore(&before);
}

void tuff__vulkan_count_pipeline(driver_device *device)
{
    vulkan_pipelines *self = &device->pipelines;
    if (!self->handle)
        return;
    const uint32_t created = atomic_fetch_add(&self->created, 1) + 1;
    const uint32_t last = atomic_load(&self->created_at_save);
    if (created - last < SAVE_STEP || created - last < last / 4 || atomic_exchange(&self->is_saving, true))
        return;
    atomic_store(&self->created_at_save, created);
    save(device);
    atomic_store(&self->is_saving, false);
}

void tuff__vulkan_close_pipelines(driver_device *device)
{
    if (!device->pipelines.handle)
        return;
    if (!device->lost)
        save(device);
    device->vk->vkDestroyPipelineCache(device->handle, device->pipelines.handle, NULL);
}
