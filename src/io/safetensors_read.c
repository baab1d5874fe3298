/* Opens safetensors files and returns their tensors. The header is read and checked before memory for the data is
   allocated; each tensor's bytes are then read to an aligned position, wherever they lie in the file. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file/file.h"

/* In bytes. Programs may load any tensor with vector instructions; the file itself only aligns the whole of the data.
   */
#define DATA_ALIGNMENT 16

/* Source of the bytes of a file: an open file, or memory if reader is NULL. */
typedef struct source {
    file_reader *reader;
    const unsigned char *memory;
    uint64_t remaining; /* bytes not read yet */
} source;

/* Reads the next size bytes; the caller knows that there are that many. */
static tuff_status read_bytes(source *from, void *out, size_t size)
{
    if (from->reader)
        TRY(tuff__reader_read(from->reader, out, size));
    else {
        memcpy(out, from->memory, size);
        from->memory += size;
    }
    from->remaining -= size;
    return TUFF_OK;
}

/* Reads the length of the header, independently of this machine's byte order. */
static tuff_status read_prefix(source *from, size_t *out)
{
    unsigned char bytes[SAFETENSORS_PREFIX_SIZE];
    if (from->remaining < sizeof bytes)
        return FAIL(TUFF_E_FORMAT, "not a safetensors file: only %" PRIu64 " bytes long", from->remaining);
    TRY(read_bytes(from, bytes, sizeof bytes));
    uint64_t size = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        size |= (uint64_t)bytes[i] << (8 * i);
    if (size > SAFETENSORS_HEADER_LIMIT)
        return FAIL(TUFF_E_FORMAT, "not a safetensors file: its header would have %" PRIu64 " bytes", size);
    if (size > from->remaining)
        return FAIL(TUFF_E_FORMAT, "the header should have %" PRIu64 " bytes, but the file ends after %" PRIu64, size,
                    from->remaining);
    *out = (size_t)size;
    return TUFF_OK;
}

/* The text is freed at once: what outlives it, names and metadata, is copied to the file's arena. */
static tuff_status read_header(tuff_file *file, source *from)
{
    size_t size = 0;
    TRY(read_prefix(from, &size));
    char *header = tuff__alloc(size);
    if (!header)
        return tuff_last_status();
    tuff_status status = read_bytes(from, header, size);
    if (status == TUFF_OK)
        status = tuff__safetensors_parse_header(file, header, size, from->remaining);
    tuff__free(header);
    return status;
}

/* Lays out the tensors one after the other, aligned, and points their data into file->data. */
static tuff_status allocate_data(tuff_file *file)
{
    uint64_t total = 0;
    for (int i = 0; i < file->count; i++)
        if (!tuff__align_u64(total, DATA_ALIGNMENT, &total) || file->entries[i].tensor.size > UINT64_MAX - total)
            return FAIL(TUFF_E_LIMIT, "the data do not fit into the address space");
        else
            total += file->entries[i].tensor.size;
    if (total > SIZE_MAX)
        return FAIL(TUFF_E_LIMIT, "the data do not fit into the address space");
    file->data = tuff__alloc((size_t)total);
    if (!file->data)
        return tuff_last_status();
    size_t place = 0;
    for (int i = 0; i < file->count; i++) {
        tuff_file_tensor *tensor = &file->entries[i].tensor;
        place += (DATA_ALIGNMENT - place % DATA_ALIGNMENT) % DATA_ALIGNMENT;
        /* The place of an empty tensor may lie behind the end of the block. */
        tensor->data = file->data + (tensor->size ? place : 0);
        place += (size_t)tensor->size;
    }
    return TUFF_OK;
}

/* Entries are sorted by position and tile the data, so reading one after the other reads the file once, from front to
   back. */
static tuff_status read_data(tuff_file *file, source *from)
{
    TRY(allocate_data(file));
    for (int i = 0; i < file->count; i++) {
        const tuff_file_tensor *tensor = &file->entries[i].tensor;
        if (tensor->size)
            TRY(read_bytes(from, file->data + ((const unsigned char *)tensor->data - file->data),
                           (size_t)tensor->size));
    }
    return TUFF_OK;
}

static tuff_file *read_source(source *from)
{
    tuff_file *file = tuff__safetensors_check_byte_order() == TUFF_OK ? tuff__calloc(1, sizeof *file) : NULL;
    if (!file)
        return NULL;
    if (read_header(file, from) == TUFF_OK && read_data(file, from) == TUFF_OK)
        return file;
    tuff_file_close(file);
    return NULL;
}

tuff_file *tuff_file_open(const char *path)
{
    file_reader reader = {.fd = -1};
    if (!path) {
        (void)FAIL(TUFF_E_USAGE, "tuff_file_open: path is NULL");
        return NULL;
    }
    if (tuff__reader_open(path, &reader) != TUFF_OK)
        return NULL;
    tuff_file *file = read_source(&(source){.reader = &reader, .remaining = reader.size});
    tuff_status status = tuff_last_status();
    tuff__reader_close(&reader);
    /* Errors of the file itself already name it. */
    if (!file && status != TUFF_E_IO)
        (void)FAIL(status, "cannot read %s: %s", path, tuff_error());
    return file;
}

tuff_file *tuff_file_parse(const void *data, size_t size)
{
    if (!data) {
        (void)FAIL(TUFF_E_USAGE, "tuff_file_parse: data is NULL");
        return NULL;
    }
    return read_source(&(source){.memory = data, .remaining = size});
}

void tuff_file_close(tuff_file *file)
{
    if (!file)
        return;
    tuff__arena_free(&file->arena);
    tuff__free(file->data);
    tuff__free(file);
}

int tuff_file_count(const tuff_file *file)
{
    return file ? file->count : 0;
}

tuff_status tuff_file_tensor_at(const tuff_file *file, int index, tuff_file_tensor *tensor)
{
    if (!file || !tensor)
        return FAIL(TUFF_E_USAGE, "tuff_file_tensor_at: an argument is NULL");
    if (index < 0 || index >= file->count)
        return FAIL(TUFF_E_USAGE, "tuff_file_tensor_at: index %d is out of range: the file has %d tensors", index,
                    file->count);
    *tensor = file->entries[index].tensor;
    return TUFF_OK;
}

static int compare_with_name(const void *name, const void *element)
{
    const file_entry *const *entry = element;
    return strcmp(name, (*entry)->tensor.name);
}

tuff_status tuff_file_find(const tuff_file *file, const char *name, tuff_file_tensor *tensor)
{
    if (!file || !name || !tensor)
        return FAIL(TUFF_E_USAGE, "tuff_file_find: an argument is NULL");
    file_entry **found = NULL;
    if (file->count)
        /* `names` is sorted by name, `entries` by position in the file. */
        found = bsearch(name, file->names, (size_t)file->count, sizeof *file->names, compare_with_name);
    if (!found)
        return FAIL(TUFF_E_USAGE, "tuff_file_find: the file has no tensor \"%.100s\"", name);
    *tensor = (*found)->tensor;
    return TUFF_OK;
}

const char *tuff_file_metadata(const tuff_file *file, const char *key)
{
    for (int i = 0; file && key && i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].text;
    return NULL;
}

int tuff_file_metadata_count(const tuff_file *file)
{
    return file ? file->metadata_count : 0;
}

tuff_status tuff_file_metadata_at(const tuff_file *file, int index, const char **key, const char **text)
{
    if (!file || !key || !text)
        return FAIL(TUFF_E_USAGE, "tuff_file_metadata_at: an argument is NULL");
    if (index < 0 || index >= file->metadata_count)
        return FAIL(TUFF_E_USAGE, "tuff_file_metadata_at: index %d is out of range: the file has %d entries", index,
                    file->metadata_count);
    *key = file->metadata[index].key;
    *text = file->metadata[index].text;
    return TUFF_OK;
}
