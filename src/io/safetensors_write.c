/* Writes safetensors files. The same tensors and metadata give the same bytes, laid out as by the format's own writer,
   and the reader accepts every file written. */
#include "io/safetensors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file/file.h"
#include "io/json.h"

/* Tensors in the order of the file. */
typedef struct file_layout {
    const tuff_file_tensor **tensors;
    int count;
} file_layout;

tuff_status tuff__safetensors_check_name(const char *name)
{
    if (strcmp(name, SAFETENSORS_METADATA) == 0)
        return FAIL(TUFF_E_USAGE, "a tensor cannot be named " SAFETENSORS_METADATA);
    return tuff__json_check_string(name, "the name of a tensor is not valid UTF-8");
}

static tuff_status check_tensor(const tuff_file_tensor *tensor)
{
    if (!tensor->name)
        return FAIL(TUFF_E_USAGE, "tuff_file_save: a tensor has no name");
    TRY(tuff__safetensors_check_name(tensor->name));
    if (!tuff__safetensors_dtype_name(tensor->dtype))
        return FAIL(TUFF_E_DTYPE, "tuff_file_save: tensor \"%.100s\" has no valid dtype", tensor->name);
    int64_t size = tuff_shape_count(tensor->shape);
    if (size < 0 || !tuff__mul_i64(size, (int64_t)tuff_dtype_size(tensor->dtype), &size))
        return FAIL(TUFF_E_SHAPE, "tuff_file_save: tensor \"%.100s\" has the invalid shape %s", tensor->name,
                    SHAPE_TEXT(tensor->shape));
    if ((uint64_t)size != tensor->size)
        return FAIL(TUFF_E_SHAPE, "tuff_file_save: tensor \"%.100s\" %s has %llu bytes instead of %llu", tensor->name,
                    SHAPE_TEXT(tensor->shape), (unsigned long long)tensor->size, (unsigned long long)size);
    if (!tensor->data && size)
        return FAIL(TUFF_E_USAGE, "tuff_file_save: tensor \"%.100s\" has no data", tensor->name);
    return TUFF_OK;
}

/* Wider elements come first, so that every tensor is aligned to the size of its elements without padding; names break
   ties. The format's own writer sorts in the same way. */
static int compare_tensors(const void *left, const void *right)
{
    const tuff_file_tensor *const *a = left, *const *b = right;
    int rank = tuff__safetensors_dtype_rank((*a)->dtype) - tuff__safetensors_dtype_rank((*b)->dtype);
    return rank ? rank : strcmp((*a)->name, (*b)->name);
}

/* Sorts pointers: the caller's list stays as it is. */
static tuff_status make_layout(const tuff_file_tensor *tensors, int count, file_layout *out)
{
    out->tensors = tuff__calloc((size_t)count, sizeof *out->tensors);
    if (!out->tensors)
        return tuff_last_status();
    for (int i = 0; i < count; i++) {
        TRY(check_tensor(&tensors[i]));
        out->tensors[i] = &tensors[i];
    }
    out->count = count;
    if (count > 0)
        qsort(out->tensors, (size_t)count, sizeof *out->tensors, compare_tensors);
    return TUFF_OK;
}

/* Adds value, whose reference is consumed in any case, under a name that must be new and valid UTF-8. */
static tuff_status add_member(json_t *object, const char *name, json_t *value)
{
    if (json_object_get(object, name)) {
        json_decref(value);
        return FAIL(TUFF_E_USAGE, "tuff_file_save: duplicate name \"%.100s\"", name);
    }
    if (!value || json_object_set_new(object, name, value))
        return tuff__json_failure("tuff_file_save: a name or value is not valid UTF-8");
    return TUFF_OK;
}

static json_t *shape_value(tuff_shape shape)
{
    json_t *list = json_array();
    for (int i = 0; i < shape.rank; i++)
        if (json_array_append_new(list, json_integer(shape.extent[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static tuff_status add_tensor(json_t *object, const tuff_file_tensor *tensor, int64_t *offset)
{
    int64_t end;
    if (!tuff__add_i64(*offset, (int64_t)tensor->size, &end))
        return FAIL(TUFF_E_LIMIT, "tuff_file_save: the size of the data does not fit into 63 bits");
    json_t *shape = shape_value(tensor->shape);
    json_t *value = !shape ? NULL
                           : json_pack("{s:s,s:o,s:[I,I]}", "dtype", tuff__safetensors_dtype_name(tensor->dtype),
                                       "shape", shape, "data_offsets", (json_int_t)*offset, (json_int_t)end);
    *offset = end;
    return add_member(object, tensor->name, value);
}

static tuff_status add_metadata(json_t *object, const char *const *keys, const char *const *texts, int count)
{
    json_t *members = json_object();
    tuff_status status = TUFF_OK;
    for (int i = 0; i < count && status == TUFF_OK; i++)
        if (!keys || !texts || !keys[i] || !texts[i])
            status = FAIL(TUFF_E_USAGE, "tuff_file_save: a key or value of the metadata is NULL");
        else
            status = add_member(members, keys[i], json_string(texts[i]));
    if (status != TUFF_OK) {
        json_decref(members);
        return status;
    }
    return add_member(object, SAFETENSORS_METADATA, members);
}

/* Prints the header, padded with blanks so that the data begin at a multiple of 8. */
static tuff_status print_header(const json_t *object, text *header)
{
    TRY(tuff__json_print(object, header));
    while (header->length % 8 && !header->failed)
        tuff__text_add_bytes(header, " ", 1);
    TRY(tuff__text_status(header));
    if (header->length > SAFETENSORS_HEADER_LIMIT)
        return FAIL(TUFF_E_LIMIT,
                    "tuff_file_save: the names and the metadata need a header of %zu bytes, and a safetensors "
                    "file allows at most %llu",
                    header->length, (unsigned long long)SAFETENSORS_HEADER_LIMIT);
    return TUFF_OK;
}

static tuff_status fill_object(json_t *object, const file_layout *layout, const char *const *keys,
                               const char *const *texts, int metadata_count)
{
    if (metadata_count > 0)
        TRY(add_metadata(object, keys, texts, metadata_count));
    int64_t offset = 0;
    for (int i = 0; i < layout->count; i++)
        TRY(add_tensor(object, layout->tensors[i], &offset));
    return TUFF_OK;
}

static tuff_status make_header(const file_layout *layout, const char *const *keys, const char *const *texts,
                               int metadata_count, text *header)
{
    tuff__json_begin();
    json_t *object = json_object();
    if (!object)
        return tuff__json_failure("tuff_file_save: cannot create the header");
    tuff_status status = fill_object(object, layout, keys, texts, metadata_count);
    if (status == TUFF_OK)
        status = print_header(object, header);
    json_decref(object);
    return status;
}

/* All parts go in one call, which writes another file and then renames it: a reader sees the old or the new file. */
static tuff_status write_file(const char *path, const text *header, const file_layout *layout)
{
    unsigned char prefix[SAFETENSORS_PREFIX_SIZE];
    for (size_t i = 0; i < sizeof prefix; i++)
        prefix[i] = (unsigned char)((uint64_t)header->length >> (8 * i));
    file_part *parts = tuff__calloc((size_t)layout->count + 2, sizeof *parts);
    if (!parts)
        return tuff_last_status();
    parts[0] = (file_part){prefix, sizeof prefix};
    parts[1] = (file_part){header->data, header->length};
    for (int i = 0; i < layout->count; i++)
        parts[i + 2] = (file_part){layout->tensors[i]->data, (size_t)layout->tensors[i]->size};
    tuff_status status = tuff__file_write(path, parts, layout->count + 2, true, true);
    tuff__free(parts);
    return status;
}

tuff_status tuff_file_save(const char *path, const tuff_file_tensor *tensors, int count, const char *const *keys,
                           const char *const *texts, int metadata_count)
{
    if (!path || count < 0 || count > INT_MAX - 2 || (!tensors && count) || metadata_count < 0)
        return FAIL(TUFF_E_USAGE, "tuff_file_save: an argument is NULL or negative");
    TRY(tuff__safetensors_check_byte_order());
    file_layout layout = {0};
    text header = {0};
    tuff_status status = make_layout(tensors, count, &layout);
    if (status == TUFF_OK)
        status = make_header(&layout, keys, texts, metadata_count, &header);
    if (status == TUFF_OK)
        status = write_file(path, &header, &layout);
    tuff__text_free(&header);
    tuff__free(layout.tensors);
    return status;
}
