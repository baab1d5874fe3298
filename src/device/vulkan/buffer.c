/* Buffers, and transfers between host and device: directly through mapped memory if that needs no long wait,
   else through a ring of staging slots and copies on the queue. */
#include "base/alloc.h"
#include "device/vulkan/state.h"

static tuff_status make_buffer(driver_device *device, uint64_t size, vulkan_memory_kind kind, driver_buffer **out)
{
    driver_buffer *buffer = tuff__alloc(sizeof *buffer);
    if (!buffer)
        return TUFF_E_OOM_HOST;
    tuff_status status = tuff__vulkan_buffer_create(device, size, kind, false, buffer);
    if (status != TUFF_OK) {
        tuff__free(buffer);
        return status;
    }
    *out = buffer;
    return TUFF_OK;
}

tuff_status tuff__vulkan_new_buffer(driver_device *device, uint64_t size, driver_buffer **out)
{
    return make_buffer(device, size, MEMORY_DEVICE, out);
}

tuff_status tuff__vulkan_new_buffer_anywhere(driver_device *device, uint64_t size, driver_buffer **out)
{
    return make_buffer(device, size, MEMORY_ANYWHERE, out);
}

void tuff__vulkan_drop_buffer(driver_device *device, driver_buffer *buffer)
{
    if (tuff__vulkan_settle(device, buffer->last_use))
        tuff__vulkan_buffer_release(device, buffer);
    tuff__free(buffer);
}

void tuff__vulkan_buffer_unwrap(driver_buffer *buffer, tuff_buffer_handle *handle)
{
    buffer->is_shared = true;
    handle->vulkan = (uint64_t)buffer->handle;
}

static tuff_status open_staging(driver_device *device)
{
    vulkan_staging *staging = &device->staging;
    if (staging->buffer.handle)
        return TUFF_OK;
    if (!staging->commands[0])
        TRY(tuff__vulkan_allocate_commands(device, device->commands, STAGING_SLOTS, staging->commands));
    return tuff__vulkan_buffer_create(device, (uint64_t)STAGING_SLOTS * STAGING_SLOT_SIZE, MEMORY_HOST, false,
                                      &staging->buffer);
}

/* Takes the next slot, once its previous copy is done. */
static tuff_status take_slot(driver_device *device, uint32_t *slot)
{
    TRY(open_staging(device));
    TRY(tuff__vulkan_wait_until(device, device->staging.tickets[device->staging.next]));
    *slot = device->staging.next;
    device->staging.next = (*slot + 1) % STAGING_SLOTS;
    return TUFF_OK;
}

/* Submits the copy of a region between a slot and a buffer. */
static tuff_status copy_slot(driver_device *device, uint32_t slot, VkBuffer from, VkBuffer to, VkBufferCopy region)
{
    VkCommandBuffer commands = device->staging.commands[slot];
    TRY(tuff__vulkan_begin(device, commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    device->vk->vkCmdCopyBuffer(commands, from, to, 1, &region);
    TRY(tuff__vulkan_end(device, commands));
    return tuff__vulkan_submit(device, commands, &device->staging.tickets[slot]);
}

static tuff_status upload_piece(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                                uint64_t size)
{
    uint32_t slot;
    TRY(take_slot(device, &slot));
    driver_buffer *staging = &device->staging.buffer;
    VkBufferCopy region = {.srcOffset = (uint64_t)slot * STAGING_SLOT_SIZE, .dstOffset = offset, .size = size};
    TRY(tuff__vulkan_write_mapped(device, staging, region.srcOffset, data, size));
    TRY(copy_slot(device, slot, staging->handle, buffer->handle, region));
    buffer->last_use = device->submitted;
    return TUFF_OK;
}

/* Whether the host reads and writes the memory itself. It does not if an application uses the buffer too: only the
   queue orders that work. */
static bool is_direct(const driver_buffer *buffer)
{
    return buffer->memory.mapped && !buffer->is_shared;
}

tuff_status tuff__vulkan_write(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                               uint64_t size)
{
    /* Small writes to a buffer in use are enqueued; large ones would fill the ring and wait anyway. */
    if (is_direct(buffer) && (tuff__vulkan_is_done(device, buffer->last_use) || size > STAGING_SLOT_SIZE)) {
        TRY(tuff__vulkan_wait_until(device, buffer->last_use));
        return tuff__vulkan_write_mapped(device, buffer, offset, data, size);
    }
    for (uint64_t done = 0; done < size; done += STAGING_SLOT_SIZE) {
        uint64_t piece = size - done < STAGING_SLOT_SIZE ? size - done : STAGING_SLOT_SIZE;
        TRY(upload_piece(device, buffer, offset + done, (const char *)data + done, piece));
    }
    return TUFF_OK;
}

typedef struct download {
    driver_buffer *buffer;
    uint64_t offset, size, requested, received; /* bytes of the range that were requested and that have arrived */
    char *data;
    uint32_t slots[STAGING_SLOTS]; /* of the pieces in flight */
    uint32_t first, count;
} download;

static uint64_t next_piece(const download *range, uint64_t done)
{
    return range->size - done < STAGING_SLOT_SIZE ? range->size - done : STAGING_SLOT_SIZE;
}

static tuff_status request_piece(driver_device *device, download *range)
{
    uint32_t slot;
    TRY(take_slot(device, &slot));
    VkBufferCopy region = {
        .srcOffset = range->offset + range->requested,
        .dstOffset = (uint64_t)slot * STAGING_SLOT_SIZE,
        .size = next_piece(range, range->requested),
    };
    TRY(copy_slot(device, slot, range->buffer->handle, device->staging.buffer.handle, region));
    range->buffer->last_use = device->submitted;
    range->requested += region.size;
    range->slots[(range->first + range->count++) % STAGING_SLOTS] = slot;
    return TUFF_OK;
}

static tuff_status receive_piece(driver_device *device, download *range)
{
    uint32_t slot = range->slots[range->first];
    uint64_t size = next_piece(range, range->received);
    TRY(tuff__vulkan_wait_until(device, device->staging.tickets[slot]));
    TRY(tuff__vulkan_read_mapped(device, &device->staging.buffer, (uint64_t)slot * STAGING_SLOT_SIZE,
                                 range->data + range->received, size));
    range->received += size;
    range->first = (range->first + 1) % STAGING_SLOTS;
    range->count--;
    return TUFF_OK;
}

tuff_status tuff__vulkan_read(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data, uint64_t size)
{
    TRY(tuff__vulkan_wait_until(device, device->submitted));
    if (is_direct(buffer) && !device->reads_through_copies)
        return tuff__vulkan_read_mapped(device, buffer, offset, data, size);
    download range = {.buffer = buffer, .offset = offset, .size = size, .data = data};
    /* Half of the ring is in flight while the other half is emptied. */
    while (range.received < size)
        if (range.requested < size && range.count < STAGING_SLOTS / 2)
            TRY(request_piece(device, &range));
        else
            TRY(receive_piece(device, &range));
    return TUFF_OK;
}

/* Uses the command buffer of a staging slot. */
tuff_status tuff__vulkan_copy(driver_device *device, driver_buffer *from, uint64_t from_offset, driver_buffer *to,
                              uint64_t to_offset, uint64_t size)
{
    uint32_t slot;
    TRY(take_slot(device, &slot));
    VkBufferCopy region = {.srcOffset = from_offset, .dstOffset = to_offset, .size = size};
    TRY(copy_slot(device, slot, from->handle, to->handle, region));
    from->last_use = to->last_use = device->submitted;
    return TUFF_OK;
}
