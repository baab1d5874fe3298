/* Data for training: loaders, which prepare batches ahead of the device on threads of their own and upload them while
   it computes, and the sampling of data sets that lie in device memory. */
#ifndef TUFF_DATA_H
#define TUFF_DATA_H

#include "tuff/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the samples of a batch lie in the buffer of a field. A row is what one index of the first axis holds. */
typedef enum tuff_collate {
    TUFF_COLLATE_STACK, /* [batch_size, shape...]: every sample has all rows of shape */
    TUFF_COLLATE_PAD,   /* [batch_size, shape...]: a sample has 0 to shape.extent[0] rows, the others are padding */
    TUFF_COLLATE_CONCAT /* [rows, shape.extent[1], ...]: a sample has 0 to shape.extent[0] rows; those of all samples
                           lie behind each other without gaps, the others are padding */
} tuff_collate;

/* One part of every sample, which becomes one input of a plan. Names are copied. */
typedef struct tuff_field {
    const char *name; /* of the input */
    tuff_dtype dtype;
    tuff_shape shape; /* of one sample; PAD and CONCAT: extent[0] is the most rows that a sample may have */
    tuff_collate collate;
    const char *lengths; /* PAD and CONCAT: an input i32 [batch_size] that gets the rows of each sample; NULL: none */
    int64_t rows;        /* CONCAT: of the buffer; 0: batch_size · shape.extent[0] */
    double fill;         /* the value of padding, rounded to dtype; 0 by default */
    uint32_t reserved[8];
} tuff_field;

/* What a source fills: sample `index` of the set. */
typedef struct tuff_sample {
    int64_t index, epoch;
    void *const *data; /* by field: room for the sample's elements, row-major without padding */
    int64_t *rows; /* by field: PAD and CONCAT: how many rows were filled. The most that there is room for, at first */
    char *message; /* where it fails: a text of its own for the error; empty at first */
    size_t message_size;
    uint64_t reserved[4];
} tuff_sample;
/* Fills a sample. Called from the loader's threads, with several workers from many at once, in any order. Anything but
   TUFF_OK ends the loading at this batch: tuff_loader_next fails with the same status and with the message, or
   tuff_error() of the thread where that is empty. */
typedef tuff_status (*tuff_sample_source)(void *user, tuff_sample *sample);

/* What a source of whole batches fills. */
typedef struct tuff_batch_room {
    int64_t number;         /* of the batch, counted over all epochs, from 0 */
    int64_t epoch, count;   /* samples: batch_size, or fewer in a last batch that is kept */
    const int64_t *indices; /* of the samples; NULL for an endless set */
    void *const *data;      /* by field: STACK and PAD: room for batch_size samples; CONCAT: likewise, sample i
                                   from row i · shape.extent[0]; the loader moves them together */
    int64_t *const *rows;   /* by field: of each sample, as in tuff_sample */
    char *message;          /* as in tuff_sample */
    size_t message_size;
    uint64_t reserved[4];
} tuff_batch_room;
/* The same for a whole batch: called for several batches at once where there are several workers. */
typedef tuff_status (*tuff_batch_source)(void *user, tuff_batch_room *room);

/* When batches go to the device. The values that plans read are the same. */
typedef enum tuff_upload {
    TUFF_UPLOAD_DEFAULT,  /* AHEAD on devices with memory of their own and a second queue, else IN_ORDER */
    TUFF_UPLOAD_IN_ORDER, /* in tuff_loader_next, on the queue that computes, behind the plan's earlier runs */
    TUFF_UPLOAD_AHEAD     /* as soon as a batch is ready, beside the runs of plans, on a queue for uploads (Vulkan: of a
                             family of transfers alone, else a second one of the family that computes): to device memory
                             of the loader's, `ring` batches large, from where tuff_loader_next moves it to the inputs.
                             Where the device has one queue, on that, which gains nothing */
} tuff_upload;

/* Zero is the default of every field that says so. Exactly one of sample, batch and path is the source. */
typedef struct tuff_loader_options {
    const tuff_field *fields; /* 1 to 16 */
    int field_count;
    int64_t batch_size;   /* samples of a batch */
    int64_t sample_count; /* of the set. 0: as many as the file holds; with `batch`: an endless set of one epoch */
    bool shuffle;         /* each epoch in an order of its own, drawn by the seed: tuff_shuffled_index */
    uint64_t seed;
    bool keep_last; /* an epoch may end with a batch of fewer samples: the places of the others are padding,
                                 their lengths 0. By default such a rest is left out of the epoch */
    int workers;    /* threads; 0: 1. The batches are the same for any number */
    int ring;       /* batches that may be ready or under way ahead of the program; 0: 2 */
    double timeout; /* seconds that tuff_loader_destroy and tuff_loader_seek wait for a source, and after which
                       tuff_loader_next, which goes on waiting, logs a warning; 0: 10 */
    tuff_sample_source sample;
    tuff_batch_source batch;
    void *user; /* of these */
    /* A file of records of equal size: record i begins at byte header_size + i · record_stride and holds the fields'
       elements one behind the other, little-endian; all fields are STACK. record_stride 0: the record's size. With a
       smaller one records overlap, as windows of a text do. */
    const char *path;
    uint64_t header_size, record_stride;
    tuff_upload upload;
    uint32_t reserved[15];
} tuff_loader_options;

/* Prepares batches. Used by one thread at a time, apart from its own threads. */
typedef struct tuff_loader tuff_loader;

/* Starts the workers; all memory is allocated here. device: of the plans that batches are for, which must outlive the
   loader; NULL: batches are for the host only. options are copied; user must stay valid until tuff_loader_destroy has
   returned TUFF_OK. NULL on failure: TUFF_E_USAGE, TUFF_E_SHAPE and TUFF_E_DTYPE for options that make no sense,
   TUFF_E_IO for the file, memory. */
TUFF_API tuff_loader *tuff_loader_create(tuff_device *device, const tuff_loader_options *options);
/* Stops the workers and frees the loader; NULL is allowed. A source that does not return within `timeout` cannot be
   stopped: TUFF_E_TIMEOUT then says so, the thread and the memory that it may write are left to it, and are freed once
   it returns; user must stay valid for it. Everything else is freed in either case, and the loader is gone. */
TUFF_API tuff_status tuff_loader_destroy(tuff_loader *loader);

/* A batch in host memory, valid until the next call of tuff_loader_next, tuff_loader_seek or tuff_loader_destroy. */
typedef struct tuff_batch {
    int64_t epoch, index;          /* index: of the batch within the epoch */
    int64_t count;                 /* of its samples */
    const void *const *data;       /* by field, laid out as tuff_collate says */
    const int32_t *const *lengths; /* by field: rows of each sample; NULL for STACK */
    uint64_t reserved[4];
} tuff_batch;
/* Waits for the next batch, for as long as its source takes: how long a call may last is known to the source alone,
   which ends it with an error of its own. Enqueues its upload to the inputs of plan that have the fields' names, and
   returns without waiting for the upload, which runs behind the plan's earlier runs and before the next one. plan may
   be NULL: nothing is uploaded; batch may be NULL. Makes no allocation. At most `ring` batches are ahead of the device:
   the host waits for it then. A batch that failed fails again until tuff_loader_seek. TUFF_E_USAGE where the plan has
   no such input, TUFF_E_SHAPE or TUFF_E_DTYPE where the input is another; the batch is then next again. */
TUFF_API tuff_status tuff_loader_next(tuff_loader *loader, tuff_plan *plan, tuff_batch *batch);

/* Where a loader is: the batch that tuff_loader_next returns next. */
typedef struct tuff_loader_position {
    int64_t epoch, batch; /* batch: within the epoch */
} tuff_loader_position;
/* Writes the position to *position. */
TUFF_API tuff_status tuff_loader_tell(const tuff_loader *loader, tuff_loader_position *position);
/* Goes on from there, as if every batch before had been taken. TUFF_E_USAGE where there is no such batch,
   TUFF_E_TIMEOUT where a source does not return within `timeout`: the loader then takes nothing but another seek. */
TUFF_API tuff_status tuff_loader_seek(tuff_loader *loader, tuff_loader_position position);
/* The position and what it depends on (sizes, seed, shuffling) as a text for a checkpoint's metadata, "" and
   TUFF_E_LIMIT where size is too small; 160 bytes are enough. */
TUFF_API tuff_status tuff_loader_save(const tuff_loader *loader, char *buffer, size_t size);
/* Goes on from a position that tuff_loader_save wrote. TUFF_E_FORMAT, and nothing changes, where the text is damaged,
   or is of a loader with other sizes, seed or shuffling, whose batches would be others. */
TUFF_API tuff_status tuff_loader_restore(tuff_loader *loader, const char *saved);
/* Batches of an epoch; 0: the set is endless. */
TUFF_API int64_t tuff_loader_batch_count(const tuff_loader *loader);
/* Samples of the set; 0: it is endless. */
TUFF_API int64_t tuff_loader_sample_count(const tuff_loader *loader);

/* What a loader did since it was created. */
typedef struct tuff_loader_counters {
    uint64_t batches;  /* returned by tuff_loader_next */
    uint64_t uploaded; /* bytes */
    uint64_t waited;   /* nanoseconds that tuff_loader_next waited for batches that were not ready */
    /* Nanoseconds that it waited because the device had not taken up earlier batches: the device was busy, and nothing
       was lost. */
    uint64_t held_back;
    uint64_t beside; /* bytes of the batches uploaded that a queue of their own had brought to the device */
    uint64_t reserved[3];
} tuff_loader_counters;
/* Copies the counters' present values. */
TUFF_API tuff_status tuff_loader_counters_get(const tuff_loader *loader, tuff_loader_counters *counters);

/* Element `index` of the permutation of 0 .. count - 1 that seed and epoch choose: a Feistel network of six rounds over
   the next power of 4, walked until it ends below count (Black and Rogaway 2002). Needs no memory. index must be in
   range; -1 where it is not. */
TUFF_API int64_t tuff_shuffled_index(uint64_t seed, int64_t epoch, int64_t index, int64_t count);

/* i32 of shape: numbers from 0 to count - 1, drawn on the device by two tuff_random, so that seed and step of the graph
   choose them: with tuff_gather_rows, batches out of a data set that lies in an array. 31 random bits modulo count: a
   number's probability differs from 1 / count by less than 2^-31. count is 1 to 2^31 - 1. */
TUFF_API tuff_tensor *tuff_random_index(tuff_graph *graph, tuff_shape shape, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
