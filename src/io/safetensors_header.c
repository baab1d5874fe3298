/* Reads a safetensors header, which may be hostile: every field is checked for type and range, sizes are computed with
   checked arithmetic, and the tensors must tile the data exactly. A header with any fault is rejected as a whole. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "io/json.h"

/* In the order by which the format's own writer sorts a file: by this table, then by name. */
static const struct {
    const char *name;
    tuff_dtype dtype;
} dtypes[] = {
    {"I64", TUFF_I64},   {"F64", TUFF_F64}, {"F32", TUFF_F32}, {"U32", TUFF_U32}, {"I32", TUFF_I32},
    {"BF16", TUFF_BF16}, {"F16", TUFF_F16}, {"I8", TUFF_I8},   {"U8", TUFF_U8},   {"BOOL", TUFF_BOOL},
};
#define DTYPE_COUNT ((int)(sizeof dtypes / sizeof dtypes[0]))

/* Dtypes of the format that tuff lacks. They are told from unknown ones, so that a message says whether the library or
   the file is at fault. */
static const char *const unsupported_dtypes[] = {"U64",     "I16",     "U16", "F8_E4M3", "F8_E5M2",     "F8_E8M0",
                                                 "F6_E2M3", "F6_E3M2", "F4",  "C64",     "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

/* Values in files are little-endian and are used where they lie, so other machines would have to swap all of them. */
tuff_status tuff__safetensors_check_byte_order(void)
{
    const unsigned one = 1;
    if (*(const unsigned char *)&one != 1)
        return FAIL(TUFF_E_UNSUPPORTED, "safetensors files need a little-endian machine");
    return TUFF_OK;
}

/* A dtype that the format lacks gets the last rank; such tensors are refused before they are sorted. */
int tuff__safetensors_dtype_rank(tuff_dtype dtype)
{
    int rank = 0;
    while (rank < DTYPE_COUNT && dtypes[rank].dtype != dtype)
        rank++;
    return rank;
}

const char *tuff__safetensors_dtype_name(tuff_dtype dtype)
{
    int rank = tuff__safetensors_dtype_rank(dtype);
    return rank < DTYPE_COUNT ? dtypes[rank].name : NULL;
}

/* Messages show only the beginning of a long name. */
#define NAME "tensor \"%.100s\": "

static tuff_status read_dtype(const char *name, const json_t *field, tuff_dtype *out)
{
    const char *spelt = json_string_value(field);
    if (!spelt)
        return FAIL(TUFF_E_FORMAT, NAME "its dtype is not a string", name);
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(spelt, dtypes[i].name) == 0) {
            *out = dtypes[i].dtype;
            return TUFF_OK;
        }
    for (size_t i = 0; i < sizeof unsupported_dtypes / sizeof unsupported_dtypes[0]; i++)
        if (strcmp(spelt, unsupported_dtypes[i]) == 0)
            return FAIL(TUFF_E_UNSUPPORTED, NAME "dtype %s is not supported", name, spelt);
    return FAIL(TUFF_E_FORMAT, NAME "unknown dtype \"%.40s\"", name, spelt);
}

/* tuff__json_parse never returns negative numbers or numbers beyond int64. */
static tuff_status read_shape(const char *name, const json_t *field, tuff_shape *out)
{
    if (!json_is_array(field))
        return FAIL(TUFF_E_FORMAT, NAME "its shape is not an array", name);
    size_t rank = json_array_size(field);
    for (size_t i = 0; i < rank; i++)
        if (!json_is_integer(json_array_get(field, i)))
            return FAIL(TUFF_E_FORMAT, NAME "extent %zu of its shape is not an integer", name, i);
    if (rank > TUFF_MAX_RANK)
        return FAIL(TUFF_E_LIMIT, NAME "it has %zu axes, the limit is %d", name, rank, TUFF_MAX_RANK);
    tuff_shape shape = {.rank = (int)rank};
    for (size_t i = 0; i < rank; i++)
        shape.extent[i] = json_integer_value(json_array_get(field, i));
    *out = shape;
    return TUFF_OK;
}

static tuff_status read_offsets(file_entry *entry, const json_t *field)
{
    const char *name = entry->tensor.name;
    const json_t *begin = json_array_get(field, 0), *end = json_array_get(field, 1);
    if (!json_is_array(field) || json_array_size(field) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return FAIL(TUFF_E_FORMAT, NAME "its data_offsets are not two integers", name);
    entry->begin = (uint64_t)json_integer_value(begin);
    entry->end = (uint64_t)json_integer_value(end);
    if (entry->begin > entry->end)
        return FAIL(TUFF_E_FORMAT, NAME "its data begin after their end", name);
    return TUFF_OK;
}

static tuff_status check_entry_size(file_entry *entry)
{
    tuff_file_tensor *tensor = &entry->tensor;
    int64_t size = tuff_shape_count(tensor->shape);
    if (size < 0 || !tuff__mul_i64(size, (int64_t)tuff_dtype_size(tensor->dtype), &size))
        return FAIL(TUFF_E_FORMAT, NAME "its size does not fit into 63 bits", tensor->name);
    tensor->size = (uint64_t)size;
    if (entry->end - entry->begin != tensor->size)
        return FAIL(TUFF_E_FORMAT, NAME "its shape needs %" PRIu64 " bytes, but its data_offsets span %" PRIu64,
                    tensor->name, tensor->size, entry->end - entry->begin);
    return TUFF_OK;
}

/* Exactly three members: whatever another one means, ignoring it could give wrong values. */
static tuff_status read_entry(tuff_file *file, const char *name, const json_t *value, size_t order, file_entry *entry)
{
    const json_t *dtype = json_object_get(value, "dtype"), *shape = json_object_get(value, "shape");
    const json_t *offsets = json_object_get(value, "data_offsets");
    if (!dtype || !shape || !offsets || json_object_size(value) != 3)
        return FAIL(TUFF_E_FORMAT, NAME "expected exactly dtype, shape and data_offsets", name);
    *entry = (file_entry){.order = order};
    entry->tensor.name = tuff__arena_strdup(&file->arena, name);
    if (!entry->tensor.name)
        return tuff_last_status();
    TRY(read_dtype(name, dtype, &entry->tensor.dtype));
    TRY(read_shape(name, shape, &entry->tensor.shape));
    TRY(read_offsets(entry, offsets));
    return check_entry_size(entry);
}

/* Called at most once for a file, because the parser rejects duplicate names. */
static tuff_status read_metadata(tuff_file *file, json_t *value)
{
    if (!json_is_object(value))
        return FAIL(TUFF_E_FORMAT, SAFETENSORS_METADATA " is not an object");
    file->metadata = tuff__arena_alloc(&file->arena, json_object_size(value) * sizeof *file->metadata);
    if (!file->metadata)
        return tuff_last_status();
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
        if (!json_is_string(member))
            return FAIL(TUFF_E_FORMAT, SAFETENSORS_METADATA ": the value of \"%.100s\" is not a string", key);
        file_metadata *metadata = &file->metadata[file->metadata_count];
        metadata->key = tuff__arena_strdup(&file->arena, key);
        metadata->text = tuff__arena_strdup(&file->arena, json_string_value(member));
        if (!metadata->key || !metadata->text)
            return tuff_last_status();
        file->metadata_count++;
    }
    return TUFF_OK;
}

/* The count includes the metadata, if there are any, so the arrays may be longer than needed by one. */
static tuff_status read_object(tuff_file *file, json_t *object)
{
    size_t count = json_object_size(object), order = 0;
    file->entries = tuff__arena_alloc(&file->arena, count * sizeof *file->entries);
    file->names = tuff__arena_alloc(&file->arena, count * sizeof *file->names);
    if (!file->entries || !file->names)
        return tuff_last_status();
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (strcmp(name, SAFETENSORS_METADATA) == 0)
            TRY(read_metadata(file, value));
        else
            TRY(read_entry(file, name, value, order++, &file->entries[file->count++]));
    }
    return TUFF_OK;
}

/* Empty tensors may share a position. They keep the order of the header, so that the same file always lists the same.
   */
static int compare_positions(const void *left, const void *right)
{
    const file_entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static int compare_names(const void *left, const void *right)
{
    const file_entry *const *a = left, *const *b = right;
    return strcmp((*a)->tensor.name, (*b)->tensor.name);
}

/* Each tensor must begin where the previous one ends, the first at 0, and the last must end with the file. */
static tuff_status check_tiling(const tuff_file *file, uint64_t data_size)
{
    uint64_t previous_end = 0;
    for (int i = 0; i < file->count; i++) {
        const file_entry *entry = &file->entries[i];
        if (entry->begin != previous_end)
            return FAIL(TUFF_E_FORMAT, NAME "its data begin at byte %" PRIu64 ", %s at byte %" PRIu64,
                        entry->tensor.name, entry->begin,
                        entry->begin < previous_end ? "inside the previous tensor, which ends"
                        : i == 0                    ? "but the first tensor must begin"
                                                    : "after a gap: the previous tensor ends",
                        previous_end);
        if (entry->end > data_size)
            return FAIL(TUFF_E_FORMAT,
                        NAME "its data end at byte %" PRIu64 ", but the file has only %" PRIu64 " bytes of data",
                        entry->tensor.name, entry->end, data_size);
        previous_end = entry->end;
    }
    if (previous_end != data_size)
        return FAIL(TUFF_E_FORMAT, "%" PRIu64 " unused bytes after the last tensor", data_size - previous_end);
    return TUFF_OK;
}

tuff_status tuff__safetensors_parse_header(tuff_file *file, const char *header, size_t size, uint64_t data_size)
{
    json_t *object = NULL;
    TRY(tuff__json_parse(header, size, &object));
    tuff_status status = read_object(file, object);
    json_decref(object);
    if (status != TUFF_OK)
        return status;
    if (file->count > 0) {
        qsort(file->entries, (size_t)file->count, sizeof *file->entries, compare_positions);
        for (int i = 0; i < file->count; i++)
            file->names[i] = &file->entries[i];
        qsort(file->names, (size_t)file->count, sizeof(file_entry *), compare_names);
    }
    return check_tiling(file, data_size);
}
