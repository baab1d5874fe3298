/* Buffers with their memory: the choice of a memory type, mapping, and the flushes that incoherent memory needs. Every
   buffer has an allocation of its own, because the pool above requests few and large ones. */
#include "base/checked.h"
#include "device/vulkan/state.h"

#include <string.h>

/* Properties that need extensions or features that tuff does not use: protected, lazily allocated, AMD's coherent and
   uncached memory, RDMA. */
#define FORBIDDEN_PROPERTIES UINT32_C(0x1f0)

static int count_bits(uint32_t bits)
{
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

/* Finds the type with all `needed` properties, the most `wanted` ones and the fewest others; -1 if there is none. Among
   wanted ones, cached counts more than coherent: mobile GPUs have types with only one of the two, and the host reads
   uncached memory many times slower, whereas a flush costs little. */
static int find_type(const VkPhysicalDeviceMemoryProperties *memory, uint32_t allowed, uint32_t needed, uint32_t wanted)
{
    int best = -1, best_score = -100;
    for (uint32_t i = 0; i < memory->memoryTypeCount; i++) {
        uint32_t flags = memory->memoryTypes[i].propertyFlags;
        if (!(allowed >> i & 1) || (flags & needed) != needed || flags & (FORBIDDEN_PROPERTIES & ~needed))
            continue;
        const int score = 8 * count_bits(flags & wanted) +
                          4 * count_bits(flags & wanted & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) -
                          count_bits(flags & ~(needed | wanted));
        if (score > best_score) {
            best = (int)i;
            best_score = score;
        }
    }
    return best;
}

static int choose_type(const driver_device *device, uint32_t allowed, vulkan_memory_kind kind)
{
    const uint32_t visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const uint32_t preferred = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const VkPhysicalDeviceMemoryProperties *memory = &device->physical.memory;
    if (kind == MEMORY_HOST)
        return find_type(memory, allowed, visible, preferred);
    int type = device->mapped ? find_type(memory, allowed, local | visible, preferred) : -1;
    if (type < 0)
        type = find_type(memory, allowed, local, 0);
    return type < 0 ? find_type(memory, allowed, 0, 0) : type;
}

/* Whether the memory of a type is full by the driver's own account. Some drivers then evict other memory without
   notice, and everything gets slow. */
static bool is_over_budget(const driver_device *device, int type, uint64_t size)
{
    const VkMemoryType *memory_type = &device->physical.memory.memoryTypes[type];
    const uint64_t available = memory_type->propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
                                   ? tuff__vulkan_available_memory(&device->physical, (int)memory_type->heapIndex)
                                   : 0;
    return available > 0 && size > available;
}

/* Buffers of the device need no mapping: copies reach them, too. A driver may be short of address space. */
static tuff_status map_memory(driver_device *device, vulkan_memory_kind kind, vulkan_memory *memory)
{
    const VkResult result =
        device->vk->vkMapMemory(device->handle, memory->handle, 0, VK_WHOLE_SIZE, 0, &memory->mapped);
    if (result < 0)
        memory->mapped = NULL;
    return kind == MEMORY_HOST || result == VK_ERROR_DEVICE_LOST ? tuff__vulkan_check(result, "vkMapMemory") : TUFF_OK;
}

static tuff_status allocate_type(driver_device *device, int type, vulkan_memory_kind kind, vulkan_memory *memory)
{
    const VkMemoryPropertyFlags flags = device->physical.memory.memoryTypes[type].propertyFlags;
    memory->coherent = flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = memory->size,
        .memoryTypeIndex = (uint32_t)type,
    };
    TRY(VULKAN(device->vk, vkAllocateMemory, device->handle, &info, NULL, &memory->handle));
    return kind == MEMORY_HOST || (device->mapped && flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)
               ? map_memory(device, kind, memory)
               : TUFF_OK;
}

/* Tries every type that the device can use: first those with room by the driver's own account, the device's own memory
   before others; then the rest, because a device may have only one heap. */
static tuff_status allocate_anywhere(driver_device *device, uint32_t allowed, int first, vulkan_memory *memory)
{
    tuff_status status = TUFF_E_OOM_DEVICE;
    uint32_t untried = allowed;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t left = untried; left && status == TUFF_E_OOM_DEVICE && !memory->handle;) {
            int type = first;
            if (!(left >> first & 1))
                type = find_type(&device->physical.memory, left, 0, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
            if (type < 0)
                break;
            left &= ~(UINT32_C(1) << type);
            if (pass == 0 && is_over_budget(device, type, memory->size))
                continue;
            untried &= ~(UINT32_C(1) << type);
            status = allocate_type(device, type, MEMORY_ANYWHERE, memory);
        }
    return status;
}

static tuff_status allocate(driver_device *device, const VkMemoryRequirements *requirements, vulkan_memory_kind kind,
                            vulkan_memory *memory)
{
    int type = choose_type(device, requirements->memoryTypeBits, kind);
    if (type < 0)
        return FAIL(TUFF_E_UNSUPPORTED, "vulkan: no memory type can hold a buffer of %llu bytes",
                    (unsigned long long)requirements->size);
    /* Flushes round to whole atoms, which must lie within the memory. */
    if (!tuff__align_u64(requirements->size, device->physical.properties.properties.limits.nonCoherentAtomSize,
                         &memory->size))
        return FAIL(TUFF_E_LIMIT, "vulkan: a buffer of %llu bytes is too large",
                    (unsigned long long)requirements->size);
    if (kind == MEMORY_ANYWHERE)
        return allocate_anywhere(device, requirements->memoryTypeBits, type, memory);
    if (kind == MEMORY_DEVICE && is_over_budget(device, type, memory->size))
        return FAIL(TUFF_E_OOM_DEVICE, "vulkan: not enough free device memory for a buffer of %llu bytes",
                    (unsigned long long)memory->size);
    return allocate_type(device, type, kind, memory);
}

static tuff_status fill_buffer(driver_device *device, uint64_t size, vulkan_memory_kind kind, bool shared,
                               driver_buffer *buffer)
{
    const uint32_t families[] = {device->physical.queue_family, device->physical.upload.family};
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size,
        .usage =
            VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    };
    if (shared && families[0] != families[1]) {
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = 2;
        info.pQueueFamilyIndices = families;
    }
    TRY(VULKAN(device->vk, vkCreateBuffer, device->handle, &info, NULL, &buffer->handle));
    VkMemoryRequirements requirements;
    device->vk->vkGetBufferMemoryRequirements(device->handle, buffer->handle, &requirements);
    TRY(allocate(device, &requirements, kind, &buffer->memory));
    return VULKAN(device->vk, vkBindBufferMemory, device->handle, buffer->handle, buffer->memory.handle, 0);
}

tuff_status tuff__vulkan_buffer_create(driver_device *device, uint64_t size, vulkan_memory_kind kind, bool shared,
                                       driver_buffer *buffer)
{
    *buffer = (driver_buffer){.size = size};
    uint64_t limit = tuff__vulkan_max_allocation(&device->physical);
    if (size > limit)
        return FAIL(TUFF_E_LIMIT, "vulkan: a buffer of %llu bytes exceeds the limit of %s (%llu)",
                    (unsigned long long)size, device->physical.properties.properties.deviceName,
                    (unsigned long long)limit);
    tuff_status status = fill_buffer(device, size, kind, shared, buffer);
    if (status != TUFF_OK)
        tuff__vulkan_buffer_release(device, buffer);
    return status;
}

void tuff__vulkan_buffer_release(driver_device *device, driver_buffer *buffer)
{
    if (buffer->handle && !buffer->is_imported)
        device->vk->vkDestroyBuffer(device->handle, buffer->handle, NULL);
    if (buffer->memory.handle)
        device->vk->vkFreeMemory(device->handle, buffer->memory.handle, NULL);
    *buffer = (driver_buffer){0};
}

/* Returns the whole atoms around a range. */
static VkMappedMemoryRange atom_range(const driver_device *device, const driver_buffer *buffer, uint64_t offset,
                                      uint64_t size)
{
    uint64_t atom = device->physical.properties.properties.limits.nonCoherentAtomSize;
    uint64_t first = offset / atom * atom, end = (offset + size + atom - 1) / atom * atom;
    return (VkMappedMemoryRange){
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = buffer->memory.handle,
        .offset = first,
        .size = end - first,
    };
}

tuff_status tuff__vulkan_flush(driver_device *device, const driver_buffer *buffer, uint64_t offset, uint64_t size)
{
    if (buffer->memory.coherent)
        return TUFF_OK;
    VkMappedMemoryRange range = atom_range(device, buffer, offset, size);
    return VULKAN(device->vk, vkFlushMappedMemoryRanges, device->handle, 1, &range);
}

tuff_status tuff__vulkan_invalidate(driver_device *device, const driver_buffer *buffer, uint64_t offset, uint64_t size)
{
    if (buffer->memory.coherent)
        return TUFF_OK;
    VkMappedMemoryRange range = atom_range(device, buffer, offset, size);
    return VULKAN(device->vk, vkInvalidateMappedMemoryRanges, device->handle, 1, &range);
}

/* Invalidates first, because whole atoms are flushed: bytes around the range that the host has cached would undo the
   device's writes. */
tuff_status tuff__vulkan_write_mapped(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                                      uint64_t size)
{
    TRY(tuff__vulkan_invalidate(device, buffer, offset, size));
    memcpy((char *)buffer->memory.mapped + offset, data, size);
    return tuff__vulkan_flush(device, buffer, offset, size);
}

tuff_status tuff__vulkan_read_mapped(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                                     uint64_t size)
{
    TRY(tuff__vulkan_invalidate(device, buffer, offset, size));
    memcpy(data, (const char *)buffer->memory.mapped + offset, size);
    return TUFF_OK;
}
