/* Buffers, and the host's writes to and reads from them. */
#include <string.h>

#include "base/alloc.h"
#include "device/opencl/api.h"

/* Writes up to this size are staged: copied on the host and enqueued. Larger ones wait for the queue. */
#define STAGED_SIZE ((size_t)1 << 20)
/* Flag for Intel's GPUs: a buffer above CL_DEVICE_MAX_MEM_ALLOC_SIZE (compute-runtime,
   ALLOCATIONS_GREATER_THAN_4GB.md). */
#define ALLOW_UNRESTRICTED_SIZE_INTEL ((cl_mem_flags)1 << 23)
/* From cl_amd_device_attribute_query (cl_ext.h): KiB, of all free memory and of the largest free block. */
#define GLOBAL_FREE_MEMORY_AMD 0x4039
/* How many bytes may be staged at a time. */
#define STAGED_LIMIT ((size_t)32 << 20)
#define SPARE_LIMIT ((size_t)8 << 20) /* bytes of spare blocks that are kept for later writes */

static const memory_report unlimited = {0, UINT64_MAX};

/* The second value is that of the largest block; a driver may return only the first. */
memory_report tuff__cl_free_memory(cl_device_id id)
{
    const size_t most = SIZE_MAX >> 10;
    size_t kib[2] = {0, 0}, returned = 0;
    if (tuff__cl.GetDeviceInfo(id, GLOBAL_FREE_MEMORY_AMD, sizeof kib, kib, &returned) != CL_SUCCESS || kib[0] > most)
        return unlimited;
    if (returned < sizeof kib || kib[1] > kib[0])
        kib[1] = kib[0];
    return (memory_report){(uint64_t)kib[0] << 10, (uint64_t)kib[1] << 10};
}

/* Many drivers allocate at first use, which is too late for a failure; the migration makes them allocate here. */
static tuff_status make_resident(driver_device *device, cl_mem memory)
{
    CL_TRY(EnqueueMigrateMemObjects,
           (device->queue, 1, &memory, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL));
    return TUFF_OK;
}

static tuff_status create(driver_device *device, uint64_t size, cl_mem_flags placement, driver_buffer **out)
{
    cl_int error = CL_SUCCESS;
    if (size > SIZE_MAX)
        return FAIL(TUFF_E_OOM_DEVICE, "a buffer of %llu bytes is too large", (unsigned long long)size);
    driver_buffer *buffer = tuff__calloc(1, sizeof *buffer);
    if (!buffer)
        return TUFF_E_OOM_HOST;
    buffer->is_large = device->has_larger_buffers && size > device->plain_allocation;
    buffer->memory = tuff__cl_create_in_huge_pages(device, (size_t)size);
    const cl_mem_flags flags = CL_MEM_READ_WRITE | placement | (buffer->is_large ? ALLOW_UNRESTRICTED_SIZE_INTEL : 0u);
    if (buffer->memory == NULL)
        buffer->memory = tuff__cl.CreateBuffer(device->context, flags, (size_t)size, NULL, &error);
    tuff_status status = TUFF_OK;
    if (error != CL_SUCCESS || !buffer->memory)
        status = tuff__cl_fail(error, "clCreateBuffer");
    else
        status = make_resident(device, buffer->memory);
    if (status != TUFF_OK) {
        tuff__cl_buffer_destroy(device, buffer);
        return status;
    }
    *out = buffer;
    return TUFF_OK;
}

/* A driver that reports how much memory is free may still create a buffer beyond that, and then moves others to host
   memory without notice. */
tuff_status tuff__cl_buffer_create(driver_device *device, uint64_t size, driver_buffer **out)
{
    const memory_report left = device->reports_free_memory ? tuff__cl_free_memory(device->id) : unlimited;
    if (size > left.largest_block)
        return FAIL(TUFF_E_OOM_DEVICE, "opencl: not enough free device memory for a buffer of %llu bytes",
                    (unsigned long long)size);
    return create(device, size, 0, out);
}

/* What CL_MEM_ALLOC_HOST_PTR means is up to the driver: AMD's then creates the buffer in host memory that the GPU
   reaches. With others, the failure and the message of the last attempt remain. */
tuff_status tuff__cl_buffer_create_anywhere(driver_device *device, uint64_t size, driver_buffer **out)
{
    return device->reports_free_memory ? create(device, size, CL_MEM_ALLOC_HOST_PTR, out) : TUFF_E_OOM_DEVICE;
}

/* OpenCL keeps the memory until the commands that use it have run. Intel's driver waits for them in the release: if the
   device hangs, the memory is leaked instead. */
void tuff__cl_buffer_destroy(driver_device *device, driver_buffer *buffer)
{
    if (buffer->memory && !device->hung)
        tuff__cl.ReleaseMemObject(buffer->memory);
    tuff__free(buffer);
}

/* Reuses spare blocks, so that a loop that keeps writing inputs of the same sizes allocates only until enough blocks
   are in flight. */
void *tuff__cl_alloc_block(driver_device *device, size_t size)
{
    for (int i = device->spare_count - 1; i >= 0; i--)
        if (device->spares[i].size == size) {
            void *memory = device->spares[i].memory;
            device->spares[i] = device->spares[--device->spare_count];
            device->spare_size -= size;
            return memory;
        }
    return tuff__alloc(size);
}

void tuff__cl_free_block(driver_device *device, void *memory, size_t size)
{
    if (!memory)
        return;
    if (device->spare_count == PENDING_COUNT || device->spare_size + size > SPARE_LIMIT) {
        tuff__free(memory);
        return;
    }
    device->spares[device->spare_count++] = (staged_block){memory, size};
    device->spare_size += size;
}

void tuff__cl_free_blocks(driver_device *device)
{
    while (device->spare_count > 0)
        tuff__free(device->spares[--device->spare_count].memory);
    device->spare_size = 0;
}

static tuff_status write_staged(driver_device *device, driver_buffer *buffer, size_t offset, const void *data,
                                size_t size)
{
    cl_event event = NULL;
    TRY(tuff__cl_reserve_staging(device, STAGED_LIMIT));
    void *block = tuff__cl_alloc_block(device, size);
    if (!block)
        return TUFF_E_OOM_HOST;
    memcpy(block, data, size);
    cl_int error =
        tuff__cl.EnqueueWriteBuffer(device->queue, buffer->memory, CL_FALSE, offset, size, block, 0, NULL, &event);
    if (error != CL_SUCCESS) {
        tuff__cl_free_block(device, block, size);
        return tuff__cl_fail(error, "clEnqueueWriteBuffer");
    }
    tuff__cl_track(device, event, block, size);
    CL_TRY(Flush, (device->queue));
    return TUFF_OK;
}

tuff_status tuff__cl_buffer_write(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                                  uint64_t size)
{
    if ((device->pending_count > 0 || device->predictor.is_shared) && size <= STAGED_SIZE)
        return write_staged(device, buffer, (size_t)offset, data, (size_t)size);
    TRY(tuff__cl_wait_before_blocking(device));
    CL_TRY(EnqueueWriteBuffer,
           (device->queue, buffer->memory, CL_TRUE, (size_t)offset, (size_t)size, data, 0, NULL, NULL));
    return TUFF_OK;
}

tuff_status tuff__cl_buffer_read(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                                 uint64_t size)
{
    TRY(tuff__cl_wait_before_blocking(device));
    CL_TRY(EnqueueReadBuffer,
           (device->queue, buffer->memory, CL_TRUE, (size_t)offset, (size_t)size, data, 0, NULL, NULL));
    return TUFF_OK;
}

tuff_status tuff__cl_buffer_copy(driver_device *device, driver_buffer *from, uint64_t from_offset, driver_buffer *to,
                                 uint64_t to_offset, uint64_t size)
{
    cl_event event = NULL;
    TRY(tuff__cl_reserve_staging(device, SIZE_MAX));
    CL_TRY(EnqueueCopyBuffer, (device->queue, from->memory, to->memory, (size_t)from_offset, (size_t)to_offset,
                               (size_t)size, 0, NULL, &event));
    tuff__cl_track(device, event, NULL, 0);
    CL_TRY(Flush, (device->queue));
    return TUFF_OK;
}
