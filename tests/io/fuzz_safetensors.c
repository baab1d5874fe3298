/* libFuzzer target for the safetensors reader; safetensors_corpus.c runs the stored inputs through it. Every input must
   be refused or parsed, with memory proportional to its header; a file that parses must survive being written and read
   again. Mutations keep the length field of the header consistent, because otherwise nearly all of them would be
   refused there. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/file.h"
#include "tuff/io.h"

#define PREFIX_SIZE 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

static void require(bool holds, const char *subject)
{
    if (!holds) {
        fprintf(stderr, "fuzz_safetensors: %s; last error: %s\n", subject, tuff_error());
        abort();
    }
}

static uint64_t requested;

static void *count_allocate(void *user, size_t size)
{
    (void)user;
    requested += size;
    return malloc(size);
}

static void *count_reallocate(void *user, void *block, size_t size)
{
    (void)user;
    requested += size;
    return realloc(block, size);
}

static void count_release(void *user, void *block)
{
    (void)user;
    free(block);
}

/* A file in memory simulates the disk. */
static unsigned char *disk;
static size_t disk_size;

static int memory_open(const char *path, int flags, mode_t mode)
{
    (void)path, (void)flags, (void)mode;
    return 1;
}

static ssize_t memory_write(int fd, const void *data, size_t size)
{
    (void)fd;
    unsigned char *larger = realloc(disk, disk_size + size);
    require(larger != NULL, "no memory for the written file");
    disk = larger;
    memcpy(disk + disk_size, data, size);
    disk_size += size;
    return (ssize_t)size;
}

static int memory_fstat(int fd, struct stat *out)
{
    (void)fd;
    memset(out, 0, sizeof *out);
    out->st_size = (off_t)disk_size;
    out->st_nlink = 1;
    return 0;
}

static int memory_lstat(const char *path, struct stat *out)
{
    (void)path, (void)out;
    errno = ENOENT;
    return -1;
}

static int memory_fd(int fd)
{
    (void)fd;
    return 0;
}

static int memory_path(const char *path)
{
    (void)path;
    return 0;
}

static int memory_rename(const char *from, const char *to)
{
    (void)from, (void)to;
    return 0;
}

static void prepare(void)
{
    static const tuff_allocator counting = {count_allocate, count_reallocate, count_release, NULL};
    tuff_set_allocator(&counting);
    tuff__file.open = memory_open;
    tuff__file.write = memory_write;
    tuff__file.fstat = memory_fstat;
    tuff__file.lstat = memory_lstat;
    tuff__file.fsync = memory_fd;
    tuff__file.close = memory_fd;
    tuff__file.unlink = memory_path;
    tuff__file.rename = memory_rename;
}

static uint64_t header_size(const uint8_t *data, size_t size)
{
    uint64_t length = 0;
    for (size_t i = 0; i < PREFIX_SIZE && size >= PREFIX_SIZE; i++)
        length |= (uint64_t)data[i] << (8 * i);
    return length;
}

static void check_tensor(const tuff_file *file, const tuff_file_tensor *tensor)
{
    tuff_file_tensor found;
    require(tuff_file_find(file, tensor->name, &found) == TUFF_OK && found.data == tensor->data, "a name is not found");
    require((uintptr_t)tensor->data % 16 == 0, "data are not aligned");
    int64_t count = tuff_shape_count(tensor->shape);
    require(count >= 0 && (uint64_t)count * tuff_dtype_size(tensor->dtype) == tensor->size, "a size is wrong");
    volatile unsigned char sum = 0;
    for (uint64_t i = 0; i < tensor->size; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)tensor->data)[i]);
}

/* Writes the file to disk with the library. */
static void save(const tuff_file *file)
{
    size_t count = (size_t)tuff_file_count(file), metadata_count = (size_t)tuff_file_metadata_count(file);
    tuff_file_tensor *tensors = calloc(count + 1, sizeof *tensors);
    const char **keys = calloc(metadata_count + 1, sizeof *keys), **texts = calloc(metadata_count + 1, sizeof *texts);
    require(tensors && keys && texts, "no memory");
    for (size_t i = 0; i < count; i++) {
        require(tuff_file_tensor_at(file, (int)i, &tensors[i]) == TUFF_OK, "a tensor is not there");
        check_tensor(file, &tensors[i]);
    }
    for (size_t i = 0; i < metadata_count; i++)
        require(tuff_file_metadata_at(file, (int)i, &keys[i], &texts[i]) == TUFF_OK, "metadata are not there");
    disk_size = 0;
    require(tuff_file_save("x", tensors, (int)count, keys, texts, (int)metadata_count) == TUFF_OK, "it is not written");
    free(tensors);
    free(keys);
    free(texts);
}

static void check_round_trip(const tuff_file *file)
{
    save(file);
    size_t size = disk_size;
    unsigned char *first = disk;
    disk = NULL;
    tuff_file *again = tuff_file_parse(first, size);
    require(again != NULL, "a written file is refused");
    require(tuff_file_count(again) == tuff_file_count(file), "a tensor is lost");
    save(again);
    require(disk_size == size && memcmp(disk, first, size) == 0, "writing twice gives different bytes");
    tuff_file_close(again);
    free(first);
    free(disk);
    disk = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool prepared;
    if (!prepared)
        prepare();
    prepared = true;
    requested = 0;
    tuff_file *file = tuff_file_parse(data, size);
    uint64_t header = header_size(data, size), rest = size < PREFIX_SIZE ? 0 : size - PREFIX_SIZE;
    uint64_t allowed = header > rest ? 4096 : 32 * header + 1048576 + (file ? rest - header : 0);
    require(requested <= allowed, "too much memory was asked for");
    if (file)
        check_round_trip(file);
    tuff_file_close(file);
    return 0;
}

/* Most mutations change only the header and then set its length; the others treat the file as bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed)
{
    uint64_t header = header_size(data, size);
    if (seed % 8 == 0 || size < PREFIX_SIZE || header > size - PREFIX_SIZE)
        return LLVMFuzzerMutate(data, size, limit);
    size_t tail = size - PREFIX_SIZE - (size_t)header;
    uint8_t *kept = malloc(tail + 1);
    require(kept != NULL, "no memory");
    memcpy(kept, data + PREFIX_SIZE + header, tail);
    size_t mutated = LLVMFuzzerMutate(data + PREFIX_SIZE, (size_t)header, limit - PREFIX_SIZE - tail);
    memcpy(data + PREFIX_SIZE + mutated, kept, tail);
    free(kept);
    for (size_t i = 0; i < PREFIX_SIZE; i++)
        data[i] = (uint8_t)((uint64_t)mutated >> (8 * i));
    return PREFIX_SIZE + mutated + tail;
}
