/* Data for training: loaders, which prepare batches on their own threads and upload them while the device computes, and
   sampling of data sets that lie in device memory. */
#ifndef TUFF_DATA_H
#define TUFF_DATA_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the samples of a batch lie in the buffer of a field. A row is the slice at one index of the first axis. */
typedef enum tuff_collate {
    TUFF_COLLATE_STACK, /* [batch_size, shape...]: every sample has all rows of shape */
    TUFF_COLLATE_PAD,   /* [batch_size, shape...]: a sample has 0 to shape.extent[0] rows; the rest is padding */
    TUFF_COLLATE_CONCAT /* [rows, shape.extent[1], ...]: a sample has 0 to shape.extent[0] rows; the rows of all samples
                           follow each other without gaps, and the rest is padding */
} tuff_collate;

/* One part of every sample; it becomes one input of a plan. Names are copied. */
typedef struct tuff_field {
    const char *name; /* name of the input */
    tuff_dtype dtype;
    tuff_shape shape; /* shape of one sample; PAD and CONCAT: extent[0] is the largest number of rows of a sample */
    tuff_collate collate;
    const char *lengths; /* PAD and CONCAT: name of an i32 input [batch_size] that gets the number of rows of each
                            sample; NULL: none */
    int64_t rows;        /* CONCAT: number of rows of the buffer; 0: batch_size · shape.extent[0] */
    double fill;         /* value of the padding, rounded to dtype; 0 by default */
    uint32_t reserved[8];
} tuff_field;

/* Sample `index` of the set, to be filled in by a source. */
typedef struct tuff_sample {
    int64_t index, epoch;
    void *const *data; /* by field: room for the sample's elements, row-major without padding */
    int64_t *rows; /* by field, for PAD and CONCAT: the number of rows filled. Initially the largest number that fits */
    char *message; /* on failure: the error message of the source; initially empty */
    size_t message_size;
    uint64_t reserved[4];
} tuff_sample;
/* Fills a sample. Called from the loader's threads; with several workers concurrently and in any order. Any result but
   TUFF_OK ends loading at this batch: tuff_loader_next fails with the same status and with the message or, if that is
   empty, with the thread's tuff_error(). */
typedef tuff_status (*tuff_sample_source)(void *user, tuff_sample *sample);

/* A batch to be filled in by a source of whole batches. */
typedef struct tuff_batch_target {
    int64_t number;         /* number of the batch, counted over all epochs from 0 */
    int64_t epoch, count;   /* count: samples; batch_size, or fewer in a last batch (keep_last) */
    const int64_t *indices; /* indices of the samples; NULL for an endless set */
    void *const *data;      /* by field. STACK and PAD: room for batch_size samples. CONCAT: the same, with sample i
                               beginning at row i · shape.extent[0]; the loader closes the gaps */
    int64_t *const *rows;   /* by field: number of rows of each sample, as in tuff_sample */
    char *message;          /* as in tuff_sample */
    size_t message_size;
    uint64_t reserved[4];
} tuff_batch_target;
/* Fills a whole batch, like tuff_sample_source. With several workers it is called for several batches concurrently. */
typedef tuff_status (*tuff_batch_source)(void *user, tuff_batch_target *target);

/* When batches are copied to the device. The values that plans read do not depend on it. */
typedef enum tuff_upload {
    TUFF_UPLOAD_DEFAULT,  /* AHEAD on devices with their own memory and a second queue, else IN_ORDER */
    TUFF_UPLOAD_IN_ORDER, /* in tuff_loader_next, on the compute queue, after the plan's earlier runs */
    TUFF_UPLOAD_AHEAD     /* as soon as a batch is ready, concurrently with runs of plans, on a queue for uploads
                             (Vulkan: of a transfer-only family if there is one, else a second queue of the compute
                             family), to device memory of the loader, which holds `ring` batches; tuff_loader_next moves
                             it from there to the inputs. On a device with only one queue that queue is used, without
                             any gain */
} tuff_upload;

/* Options of a loader. Zero is the default of every field that mentions it. Exactly one of sample, batch and path is
   the source. */
typedef struct tuff_loader_options {
    const tuff_field *fields; /* 1 to 16 */
    int field_count;
    int64_t batch_size;   /* samples per batch */
    int64_t sample_count; /* of the set; 0: as many as the file holds; with `batch`: an endless set of one epoch */
    bool shuffle;         /* each epoch has its own order, determined by the seed: tuff_shuffled_index */
    uint64_t seed;
    bool keep_last; /* an epoch may end with a batch of fewer samples: the places of the missing ones are padding, their
                       lengths 0. By default these samples are left out of the epoch */
    int workers;    /* threads; 0: 1. The batches do not depend on it */
    int ring;       /* batches that may be ready or in preparation ahead of the program; 0: 2 */
    double timeout; /* how long tuff_loader_destroy and tuff_loader_seek wait for a source, and after what time
                       tuff_loader_next logs a warning and goes on waiting, in seconds; 0: 10 */
    tuff_sample_source sample;
    tuff_batch_source batch;
    void *user; /* passed to the source */
    /* A file of records of equal size. Record i begins at byte header_size + i · record_stride and holds the elements
       of the fields one after the other, little-endian; all fields are STACK. record_stride 0: the record's size. With
       a smaller stride records overlap, for example as windows of a text. */
    const char *path;
    uint64_t header_size, record_stride;
    tuff_upload upload;
    uint32_t reserved[15];
} tuff_loader_options;

/* Prepares batches. Used by one thread at a time, apart from its own threads. */
typedef struct tuff_loader tuff_loader;

/* Creates a loader and starts its workers; all memory is allocated here. device is that of the plans that get the
   batches, and must outlive the loader; NULL: batches are for the host only. options are copied; user must stay valid
   until tuff_loader_destroy has returned TUFF_OK. NULL on failure: TUFF_E_USAGE, TUFF_E_SHAPE and TUFF_E_DTYPE for
   invalid options, TUFF_E_LIMIT if a batch is too large, TUFF_E_IO for the file, TUFF_E_FORMAT if it is too short,
   memory. */
TUFF_API tuff_loader *tuff_loader_create(tuff_device *device, const tuff_loader_options *options);
/* Stops the workers and frees the loader; NULL is allowed. If a source does not return within `timeout`, the result is
   TUFF_E_TIMEOUT: its thread and the memory that it may write are then freed only once it returns, and user must stay
   valid until then. Everything else is freed in either case, and the loader must not be used again. */
TUFF_API tuff_status tuff_loader_destroy(tuff_loader *loader);

/* A batch in host memory, valid until the next call of tuff_loader_next, tuff_loader_seek or tuff_loader_destroy. */
typedef struct tuff_batch {
    int64_t epoch, index;          /* index: number of the batch within the epoch */
    int64_t count;                 /* number of its samples */
    const void *const *data;       /* by field, laid out as described at tuff_collate */
    const int32_t *const *lengths; /* by field: number of rows of each sample; NULL for STACK */
    uint64_t reserved[4];
} tuff_batch;
/* Waits for the next batch, for as long as its source takes: only the source knows how long a call may last, and ends
   it with an error of its own if necessary. Enqueues the upload of the batch to the inputs of plan that have the
   fields' names, and returns without waiting for the upload, which is executed after the plan's earlier runs and before
   the next one. plan may be NULL: nothing is uploaded; batch may be NULL. Does not allocate. At most `ring` batches are
   ahead of the device; beyond that, the host waits for the device. After a batch has failed, every call fails with it
   again until tuff_loader_seek. TUFF_E_USAGE if the plan has no such input, TUFF_E_SHAPE or TUFF_E_DTYPE if the input
   differs from the field; the next call then returns the same batch. */
TUFF_API tuff_status tuff_loader_next(tuff_loader *loader, tuff_plan *plan, tuff_batch *batch);

/* The position of a loader: the batch that tuff_loader_next returns next. */
typedef struct tuff_loader_position {
    int64_t epoch, batch; /* batch: number within the epoch */
} tuff_loader_position;
/* Writes the current position to *position. */
TUFF_API tuff_status tuff_loader_tell(const tuff_loader *loader, tuff_loader_position *position);
/* Continues at a position, as if every batch before it had been taken. TUFF_E_USAGE if there is no such batch,
   TUFF_E_TIMEOUT if a source does not return within `timeout`: the loader then accepts only another seek. */
TUFF_API tuff_status tuff_loader_seek(tuff_loader *loader, tuff_loader_position position);
/* Writes the position and everything it depends on (sizes, seed, shuffling) as a string for a checkpoint's metadata. If
   size is too small, the string is empty and the result TUFF_E_LIMIT; 160 bytes are enough. */
TUFF_API tuff_status tuff_loader_save(const tuff_loader *loader, char *buffer, size_t size);
/* Continues at a position that tuff_loader_save wrote. If the string is damaged, or is that of a loader with other
   sizes, seed or shuffling, whose batches would differ, the result is TUFF_E_FORMAT and nothing changes. */
TUFF_API tuff_status tuff_loader_restore(tuff_loader *loader, const char *saved);
/* Returns the number of batches of an epoch; 0: the set is endless. */
TUFF_API int64_t tuff_loader_batch_count(const tuff_loader *loader);
/* Returns the number of samples of the set; 0: it is endless. */
TUFF_API int64_t tuff_loader_sample_count(const tuff_loader *loader);

/* Work that a loader has done since it was created. */
typedef struct tuff_loader_counters {
    uint64_t batches;  /* returned by tuff_loader_next */
    uint64_t uploaded; /* bytes */
    uint64_t waited;   /* nanoseconds that tuff_loader_next waited for batches that were not ready */
    /* Nanoseconds that tuff_loader_next waited because the device had not yet consumed earlier batches: the device was
       busy, so no time was lost. */
    uint64_t held_back;
    uint64_t uploaded_ahead; /* bytes of `uploaded` that were copied to the device on a queue of their own */
    uint64_t reserved[3];
} tuff_loader_counters;
/* Copies the current values of the counters. */
TUFF_API tuff_status tuff_loader_counters_get(const tuff_loader *loader, tuff_loader_counters *counters);

/* Returns element `index` of the permutation of 0 .. count - 1 that seed and epoch select: a Feistel network of six
   rounds over the next power of 4, iterated until the result is below count (Black and Rogaway 2002). Needs no memory.
   -1 if index is out of range. */
TUFF_API int64_t tuff_shuffled_index(uint64_t seed, int64_t epoch, int64_t index, int64_t count);

/* i32 of the given shape: numbers from 0 to count - 1, drawn on the device by two tuff_random, so that seed and step of
   the graph determine them. With tuff_gather_rows this makes batches from a data set that lies in an array. 31 random
   bits modulo count: a number's probability differs from 1 / count by less than 2^-31. count is 1 to 2^31 - 1. */
TUFF_API tuff_tensor *tuff_random_index(tuff_graph *graph, tuff_shape shape, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
