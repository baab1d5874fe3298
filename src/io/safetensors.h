/* The safetensors format: 8 bytes with the header's length (little-endian), the header, which is a JSON object that
   describes tensors by name, and their bytes, which fill the rest of the file without holes or overlap.
   https://github.com/huggingface/safetensors */
#ifndef TUFF_IO_SAFETENSORS_H
#define TUFF_IO_SAFETENSORS_H

#include "base/alloc.h"
#include "tuff/io.h"

#define SAFETENSORS_PREFIX_SIZE ((size_t)8)
#define SAFETENSORS_HEADER_LIMIT ((uint64_t)100000000)
#define SAFETENSORS_METADATA "__metadata__"

typedef struct file_metadata {
    const char *key, *text;
} file_metadata;

/* A tensor with its place: begin and end count from the first byte behind the header. */
typedef struct file_entry {
    tuff_file_tensor tensor;
    uint64_t begin, end;
    size_t order; /* in the header */
} file_entry;

struct tuff_file {
    arena arena;         /* everything but data */
    file_entry *entries; /* in the order of their bytes */
    file_entry **names;  /* the same, sorted by name */
    file_metadata *metadata;
    int count, metadata_count;
    unsigned char *data;
};

/* Fills entries and metadata from a header over data_size bytes of tensors, all of it checked; the tensors' data stay
   NULL. TUFF_E_FORMAT; TUFF_E_UNSUPPORTED for a dtype of the format that tuff lacks; TUFF_E_LIMIT for a rank above
   TUFF_MAX_RANK. */
tuff_status tuff__safetensors_header(tuff_file *file, const char *header, size_t size, uint64_t data_size);

/* TUFF_E_USAGE where no tensor of a file can be called so. */
tuff_status tuff__safetensors_check_name(const char *name);

/* TUFF_E_UNSUPPORTED where elements in memory do not have the byte order of files. */
tuff_status tuff__safetensors_machine(void);
/* "F32", ...; NULL where dtype is none. */
const char *tuff__safetensors_dtype_name(tuff_dtype dtype);
/* How far behind a dtype comes in a file: the format's writers put wide elements first. */
int tuff__safetensors_dtype_rank(tuff_dtype dtype);

#endif
