/* safetensors files: reading as untrusted input, writing atomically. */
#ifndef TUFF_IO_H
#define TUFF_IO_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_file tuff_file; /* an opened safetensors file, read and checked whole */

/* One tensor of a file; strings and data live as long as the file. */
typedef struct tuff_file_tensor {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape;
    const void *data; /* row-major, little-endian, aligned to 16 bytes */
    uint64_t size;    /* bytes */
} tuff_file_tensor;

/* Opens and checks a file: exact tiling of the data, sizes against shapes, no duplicate names. NULL on failure:
   TUFF_E_IO or TUFF_E_FORMAT; TUFF_E_UNSUPPORTED where a tensor has a dtype of the format that tuff lacks, TUFF_E_LIMIT
   where its rank is above TUFF_MAX_RANK. */
TUFF_API tuff_file *tuff_file_open(const char *path);
/* The same from size bytes of memory, which are copied. */
TUFF_API tuff_file *tuff_file_parse(const void *data, size_t size);
TUFF_API void tuff_file_close(tuff_file *file); /* NULL is allowed */

TUFF_API int tuff_file_count(const tuff_file *file);
TUFF_API tuff_status tuff_file_tensor_at(const tuff_file *file, int index,
                                         tuff_file_tensor *tensor); /* in file order */
/* TUFF_E_USAGE where the file has no such tensor. */
TUFF_API tuff_status tuff_file_find(const tuff_file *file, const char *name, tuff_file_tensor *tensor);
/* The text under key of __metadata__, or NULL. */
TUFF_API const char *tuff_file_metadata(const tuff_file *file, const char *key);
TUFF_API int tuff_file_metadata_count(const tuff_file *file);
TUFF_API tuff_status tuff_file_metadata_at(const tuff_file *file, int index, const char **key, const char **text);

/* Writes a file: to path.tmp-..., flushed, renamed over path; the old path stays intact until the new one is whole,
   and is then kept as path.prev. tensors hold name, dtype, shape, data and size; keys and texts are metadata_count
   long. */
TUFF_API tuff_status tuff_file_save(const char *path, const tuff_file_tensor *tensors, int count,
                                    const char *const *keys, const char *const *texts, int metadata_count);

#ifdef __cplusplus
}
#endif
#endif
