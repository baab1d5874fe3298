/* safetensors files: read as untrusted input, written atomically. An open file never changes, so threads may share
   it. */
#ifndef TUFF_IO_H
#define TUFF_IO_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_file tuff_file; /* an open safetensors file, completely read and checked */

/* One tensor of a file. */
typedef struct tuff_file_tensor {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape;
    const void *data; /* row-major, little-endian, aligned to 16 bytes */
    uint64_t size;    /* bytes */
} tuff_file_tensor;

/* Reads and checks a whole file: the tensors cover the data exactly, sizes match shapes, no name occurs twice. NULL on
   failure: TUFF_E_IO, TUFF_E_FORMAT, TUFF_E_UNSUPPORTED if a tensor has a dtype that tuff lacks, TUFF_E_LIMIT if its
   rank is above TUFF_MAX_RANK, TUFF_E_OOM_HOST. */
TUFF_API tuff_file *tuff_file_open(const char *path);
/* The same for a file in memory: size bytes, which are copied. */
TUFF_API tuff_file *tuff_file_parse(const void *data, size_t size);
TUFF_API void tuff_file_close(tuff_file *file); /* NULL is allowed */

/* Returns the number of tensors. */
TUFF_API int tuff_file_count(const tuff_file *file);
/* Describes a tensor. index is 0 to count - 1, in file order; otherwise TUFF_E_USAGE. Name and data are valid as long
   as the file. */
TUFF_API tuff_status tuff_file_tensor_at(const tuff_file *file, int index, tuff_file_tensor *tensor);
/* The same by name; TUFF_E_USAGE if the file has no such tensor. */
TUFF_API tuff_status tuff_file_find(const tuff_file *file, const char *name, tuff_file_tensor *tensor);
/* Returns the text under key in __metadata__, valid as long as the file; NULL if there is none. */
TUFF_API const char *tuff_file_metadata(const tuff_file *file, const char *key);
/* The entries of __metadata__, in file order. index is 0 to count - 1; otherwise TUFF_E_USAGE. Strings are valid as
   long as the file. */
TUFF_API int tuff_file_metadata_count(const tuff_file *file);
TUFF_API tuff_status tuff_file_metadata_at(const tuff_file *file, int index, const char **key, const char **text);

/* Writes a file of count tensors, all of whose fields must be set, and metadata_count pairs of keys and texts. The file
   is written under a temporary name next to path, flushed, and renamed to path; the previous file is kept as path.prev.
   If the process is killed meanwhile, the temporary file (path.tmp-PID-DIGITS) stays until the next save to path
   removes it; other processes and threads may be saving to path. On failure path is unchanged. TUFF_E_IO; TUFF_E_USAGE
   for NULL or duplicate names, TUFF_E_DTYPE, TUFF_E_SHAPE if shape and size do not match. */
TUFF_API tuff_status tuff_file_save(const char *path, const tuff_file_tensor *tensors, int count,
                                    const char *const *keys, const char *const *texts, int metadata_count);

#ifdef __cplusplus
}
#endif
#endif
