/* The safetensors format: 8 bytes with the header's length (little-endian); the header, a JSON object that describes
   tensors by name; and the tensors' bytes, which fill the rest of the file without holes or overlap.
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

/* A tensor with its position: begin and end count from the first byte after the header. */
typedef struct file_entry {
    tuff_file_tensor tensor;
    uint64_t begin, end;
    size_t order; /* position in the header */
} file_entry;

struct tuff_file {
    arena arena;         /* everything but data */
    file_entry *entries; /* in the order of their bytes */
    file_entry **names;  /* the same, sorted by name */
    file_metadata *metadata;
    int count, metadata_count;
    unsigned char *data;
};

/* Fills entries and metadata from a header for data_size bytes of tensors. Everything is checked; the tensors' data
   stay NULL. TUFF_E_FORMAT; TUFF_E_UNSUPPORTED for a dtype of the format that tuff lacks; TUFF_E_LIMIT for a rank above
   TUFF_MAX_RANK. */
tuff_status tuff__safetensors_parse_header(tuff_file *file, const char *header, size_t size, uint64_t data_size);

/* Fails with TUFF_E_USAGE if no tensor of a file can have that name. */
tuff_status tuff__safetensors_check_name(const char *name);

/* Fails with TUFF_E_UNSUPPORTED if this machine's byte order differs from that of files. */
tuff_status tuff__safetensors_check_byte_order(void);
/* Returns "F32", ...; NULL if the format has no such dtype. */
const char *tuff__safetensors_dtype_name(tuff_dtype dtype);
/* Returns the rank of a dtype in the order of a file: writers of the format put wide elements first. */
int tuff__safetensors_dtype_rank(tuff_dtype dtype);

#endif
