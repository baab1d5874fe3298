/* Arrays: typed, shaped parts of storages that the host reads and writes. */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/text.h"
#include "device/state.h"

/* Returns the size of an array in bytes, after checking it: the dtype is one that arrays may have, no extent is
   negative, and the size does not overflow. */
static tuff_status array_size(const char *call, tuff_dtype dtype, tuff_shape shape, uint64_t *size)
{
    if ((unsigned)dtype > TUFF_I64)
        return FAIL(TUFF_E_DTYPE, "%s: %d is not a valid dtype", call, (int)dtype);
    if (dtype == TUFF_F64 || dtype == TUFF_I64)
        return FAIL(TUFF_E_DTYPE, "%s: %s is only for files; use %s", call, tuff_dtype_name(dtype),
                    dtype == TUFF_F64 ? "f32" : "i32");
    if (shape.rank < 0 || shape.rank > TUFF_MAX_RANK)
        return FAIL(TUFF_E_SHAPE, "%s: rank %d is out of range: expected 0 to %d", call, shape.rank, TUFF_MAX_RANK);
    int64_t count = tuff_shape_count(shape), bytes = 0;
    if (count < 0 || !tuff__mul_i64(count, (int64_t)tuff_dtype_size(dtype), &bytes))
        return FAIL(TUFF_E_SHAPE, "%s: shape %s has a negative extent or too many elements", call, SHAPE_TEXT(shape));
    *size = (uint64_t)bytes;
    return TUFF_OK;
}

tuff_array *tuff__array_from_storage(tuff_device *device, storage *memory, uint64_t offset, tuff_dtype dtype,
                                     tuff_shape shape)
{
    tuff_array *array = tuff__calloc(1, sizeof *array);
    if (!array) {
        tuff__storage_release(memory);
        return NULL;
    }
    array->device = device;
    array->storage = memory;
    array->offset = offset;
    array->dtype = dtype;
    array->shape.rank = shape.rank;
    for (int i = 0; i < shape.rank; i++)
        array->shape.extent[i] = shape.extent[i];
    return array;
}

tuff_array *tuff_array_create(tuff_device *device, tuff_dtype dtype, tuff_shape shape)
{
    uint64_t size = 0;
    storage *memory;
    if (!device) {
        FAIL(TUFF_E_USAGE, "tuff_array_create: the device is NULL");
        return NULL;
    }
    if (array_size("tuff_array_create", dtype, shape, &size) != TUFF_OK ||
        tuff__storage_create(device, size, true, &memory) != TUFF_OK)
        return NULL;
    return tuff__array_from_storage(device, memory, 0, dtype, shape);
}

tuff_array *tuff_array_view(tuff_array *array, int64_t offset, tuff_shape shape)
{
    uint64_t size = 0;
    if (!array) {
        FAIL(TUFF_E_USAGE, "tuff_array_view: the array is NULL");
        return NULL;
    }
    if (array_size("tuff_array_view", array->dtype, shape, &size) != TUFF_OK)
        return NULL;
    int64_t count = tuff_shape_count(array->shape), viewed = tuff_shape_count(shape);
    if (offset < 0 || offset > count || viewed > count - offset) {
        FAIL(TUFF_E_SHAPE, "tuff_array_view: %s from element %lld exceeds the array %s of %lld elements",
             SHAPE_TEXT(shape), (long long)offset, SHAPE_TEXT(array->shape), (long long)count);
        return NULL;
    }
    tuff__storage_retain(array->storage);
    uint64_t bytes = (uint64_t)offset * tuff_dtype_size(array->dtype);
    return tuff__array_from_storage(array->device, array->storage, array->offset + bytes, array->dtype, shape);
}

tuff_array *tuff__array_import(const char *call, tuff_device *device, const void *buffer, uint64_t offset,
                               tuff_dtype dtype, tuff_shape shape)
{
    uint64_t size = 0;
    storage *memory;
    if (array_size(call, dtype, shape, &size) != TUFF_OK)
        return NULL;
    if (offset % tuff_dtype_size(dtype) != 0 || offset > UINT64_MAX - size - 4) {
        FAIL(TUFF_E_USAGE, "%s: offset %llu is too large or not a multiple of %zu bytes, the size of %s", call,
             (unsigned long long)offset, tuff_dtype_size(dtype), tuff_dtype_name(dtype));
        return NULL;
    }
    /* GLSL kernels read and write whole words if the device has no narrow storage, and fills always do. */
    const uint64_t words = tuff__device_takes_glsl(device) ? -(offset + size) % 4 : 0;
    if (tuff__storage_import(device, buffer, offset + size + words, &memory) != TUFF_OK)
        return NULL;
    return tuff__array_from_storage(device, memory, offset, dtype, shape);
}

void tuff_array_destroy(tuff_array *array)
{
    if (!array)
        return;
    tuff__storage_release(array->storage);
    tuff__free(array);
}

tuff_dtype tuff_array_dtype(const tuff_array *array)
{
    return array->dtype;
}

tuff_shape tuff_array_shape(const tuff_array *array)
{
    return array->shape;
}

uint64_t tuff_array_size(const tuff_array *array)
{
    return (uint64_t)tuff_shape_count(array->shape) * tuff_dtype_size(array->dtype);
}

uint64_t tuff_array_version(const tuff_array *array)
{
    return tuff__storage_version(array->storage);
}

static tuff_status check_transfer(const char *call, const tuff_array *array, const void *data, size_t size)
{
    if (!array)
        return FAIL(TUFF_E_USAGE, "%s: the array is NULL", call);
    if (size != tuff_array_size(array))
        return FAIL(TUFF_E_USAGE, "%s: got %zu bytes, but the array %s of %s has %llu bytes", call, size,
                    SHAPE_TEXT(array->shape), tuff_dtype_name(array->dtype),
                    (unsigned long long)tuff_array_size(array));
    if (!data && size > 0)
        return FAIL(TUFF_E_USAGE, "%s: data is NULL", call);
    return TUFF_OK;
}

tuff_status tuff_array_write(tuff_array *array, const void *data, size_t size)
{
    TRY(check_transfer("tuff_array_write", array, data, size));
    return tuff__storage_write(array->device, array->storage, array->offset, data, size);
}

tuff_status tuff_array_read(tuff_array *array, void *data, size_t size)
{
    TRY(check_transfer("tuff_array_read", array, data, size));
    return tuff__storage_read(array->device, array->storage, array->offset, data, size);
}

tuff_status tuff_array_copy(tuff_array *to, tuff_array *from)
{
    if (!to || !from)
        return FAIL(TUFF_E_USAGE, "tuff_array_copy: an array is NULL");
    if (to->device != from->device)
        return FAIL(TUFF_E_USAGE, "tuff_array_copy: the arrays are on different devices");
    if (to->dtype != from->dtype)
        return FAIL(TUFF_E_DTYPE, "tuff_array_copy: cannot copy %s to %s: the dtypes differ",
                    tuff_dtype_name(from->dtype), tuff_dtype_name(to->dtype));
    if (tuff_array_size(to) != tuff_array_size(from))
        return FAIL(TUFF_E_SHAPE, "tuff_array_copy: cannot copy %s to %s: the sizes differ", SHAPE_TEXT(from->shape),
                    SHAPE_TEXT(to->shape));
    if (tuff__arrays_overlap(to, from))
        return FAIL(TUFF_E_USAGE, "tuff_array_copy: the arrays overlap");
    return tuff__storage_copy(to->device, from->storage, from->offset, to->storage, to->offset, tuff_array_size(to));
}

uint64_t tuff__array_end(const tuff_array *array)
{
    return array->offset + (uint64_t)tuff_shape_count(array->shape) * tuff_dtype_size(array->dtype);
}

bool tuff__arrays_overlap(const tuff_array *a, const tuff_array *b)
{
    const bool has_elements = tuff_shape_count(a->shape) > 0 && tuff_shape_count(b->shape) > 0;
    return has_elements && a->storage == b->storage && a->offset < tuff__array_end(b) && b->offset < tuff__array_end(a);
}
