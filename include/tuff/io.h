/* safetensors files: read as untrusted input, written atomically. An opened file never changes,
   so threads may share it. */
#ifndef TUFF_IO_H
#define TUFF_IO_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_file tuff_file; /* an opened safetensors file, read and checked whole */

/* One tensor of a file. */
typedef struct tuff_file_tensor {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape;
    const void *data; /* row-major, little-endian, aligned to 16 bytes */
    uint64_t size;    /* bytes */
} tuff_file_tensor;

/* Reads a whole file and checks it: the tensors cover the data exactly, sizes match shapes, no name occurs twice. NULL
   on failure: TUFF_E_IO, TUFF_E_FORMAT, TUFF_E_UNSUPPORTED where a tensor has a dtype that tuff lacks, TUFF_E_LIMIT
   where its rank is above TUFF_MAX_RANK, TUFF_E_OOM_HOST. */
TUFF_API tuff_file *tuff_file_open(const char *path);
/* The same for a file in memory: size bytes, which are copied. */
TUFF_API tuff_file *tuff_file_parse(const void *data, size_t size);
TUFF_API void tuff_file_close(tuff_file *file); /* NULL is allowed */

/* The number of tensors. */
TUFF_API int tuff_file_count(const tuff_file *file);
/* Describes a tensor; index is 0 to count - 1, in file order; TUFF_E_USAGE where it is not. Name and data are valid as
   long as the file. */
TUFF_API tuff_status tuff_file_tensor_at(const tuff_file *file, int index, tuff_file_tensor *tensor);
/* The same by name; TUFF_E_USAGE where the file has no such tensor. */
TUFF_API tuff_status tuff_file_find(const tuff_file *file, const char *name, tuff_file_tensor *tensor);
/* The text that __metadata__ has under key, valid as long as the file; NULL where it has none. */
TUFF_API const char *tuff_file_metadata(const tuff_file *file, const char *key);
/* The entries of __metadata__, in file order; index is 0 to count - 1. TUFF_E_USAGE where it is not. Strings
   are valid as long as the file. */
TUFF_API int tuff_file_metadata_count(const tuff_file *file);
TUFF_API tuff_status tuff_file_metadata_at(const tuff_file *file, int index, const char **key, const char **text);

/* Writes a file of count tensors, with all their fields set, and metadata_count pairs of keys and texts. The file is
   written under a temporary name beside path, flushed, and renamed to path; what path was before is kept as path.prev.
   Where a process is killed meanwhile, that file (path.tmp-PID-DIGITS) stays until the next save to path, which removes
   it; other processes and threads may be saving to path. On failure path is as before. TUFF_E_IO; TUFF_E_USAGE for NULL
   or duplicate names, TUFF_E_DTYPE, TUFF_E_SHAPE where shape and size do not match. */
TUFF_API tuff_status tuff_file_save(const char *path, const tuff_file_tensor *tensors, int count,
                                    const char *const *keys, const char *const *texts, int metadata_count);

#ifdef __cplusplus
}
#endif
#endif
