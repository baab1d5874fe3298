/* Internals of a loader. Batches have numbers, counted over all epochs; batch n is made in slot n % ring. Workers take
   units, which are a few samples of a batch, in order; the worker that finishes the last unit of a batch packs it and
   copies it to staging memory, which is sent to the device at once if uploads run ahead. Sources write to memory that
   belongs only to the loader, never to the device's: a hanging source may still write after the device is closed.

   The lock protects everything that changes, except the contents of a slot, which belong to the workers while the slot
   is FILLING and to the program's thread while it is TAKEN. */
#ifndef TUFF_DATA_LOADER_H
#define TUFF_DATA_LOADER_H

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "device/device.h"
#include "tuff/data.h"

#define FIELDS_MAX 16
#define PARTS_MAX (2 * FIELDS_MAX)
#define PART_ALIGNMENT 64
#define MESSAGE_SIZE 512
#define WORKERS_MAX 256
#define RING_MAX 1024

_Static_assert(PARTS_MAX <= MAX_STAGED_COPIES, "a batch is uploaded in one series of copies");

/* The content of one input: a field's elements, or its lengths. */
typedef struct batch_part {
    const char *name;
    tuff_dtype dtype;
    tuff_shape shape;
    uint64_t offset, size; /* bytes, in a slot's memory */
} batch_part;

typedef struct batch_field {
    tuff_field spec;        /* names are owned */
    int part, lengths_part; /* lengths_part is -1 if the lengths are no input */
    int64_t rows_max;       /* of a sample; 1 for STACK, where a sample is one row */
    uint64_t row_size, sample_size;
    uint64_t samples_offset; /* offset of the space for sample 0 in a slot's memory: the part, except for CONCAT */
    uint64_t lengths;      /* offset of i32 [batch_size], whether the lengths are a part or not */
    unsigned char fill[8]; /* one element of padding */
} batch_field;

/* Offsets of everything in the memory of a slot. */
typedef struct batch_layout {
    batch_field fields[FIELDS_MAX];
    int field_count;
    batch_part parts[PARTS_MAX];
    int part_count;
    int64_t batch_size;
    uint64_t upload_size; /* parts come first */
    uint64_t size;
} batch_layout;

typedef enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_TAKEN } slot_state;

typedef struct loader_slot {
    slot_state state;
    int64_t number, epoch, index, count;
    int64_t next_sample, samples_done; /* samples of the units taken and finished so far; whole batches: all at once */
    unsigned char *memory;
    int64_t *indices; /* [batch_size] */
    int64_t *rows;    /* [field][batch_size] */
    staging *staging; /* NULL: nothing is uploaded */
    tuff_status status;
    int64_t failed_sample; /* the first one, in order, that failed */
    char message[MESSAGE_SIZE];
    uint64_t held_from, held_to; /* time during which it waited for its staging memory */
    const void *data[FIELDS_MAX];
    const int32_t *lengths[FIELDS_MAX];
} loader_slot;

typedef struct loader_worker {
    tuff_loader *loader;
    pthread_t thread;
    bool is_started, has_ended;
    bool is_in_source; /* a source may never return */
} loader_worker;

struct tuff_loader {
    tuff_loader_options options; /* with defaults filled in; fields and path are not used */
    batch_layout layout;
    tuff_device *device;               /* NULL: for the host only */
    int64_t sample_count, batch_count; /* batches: per epoch; 0: endless */
    int64_t unit_size;                 /* samples that a worker takes at a time */
    bool uploads_ahead;                /* batches are sent to the device when they are ready, ahead of their steps */
    char *path;
    file_reader file; /* fd -1: none */

    mutex lock;
    pthread_cond_t work, done; /* work: a slot became free, or stopping; done: a batch is ready, or a worker is idle */
    loader_slot *slots;
    int64_t issued, taken; /* numbers of the batch whose units are taken, and of the program's next batch */
    int busy;              /* number of workers that have taken a unit and not finished it */
    atomic_bool is_paused, is_stopping;
    bool is_abandoned; /* the last worker frees the loader */
    loader_worker *workers;
    int running_workers;
    tuff_loader_counters counters;
    bool has_lock, has_work, has_done;
};

/* layout.c */
tuff_status tuff__batch_layout(const tuff_loader_options *options, batch_layout *out);
void tuff__batch_layout_free(batch_layout *self);
/* Packs a filled batch: checks the numbers of rows, pads, concatenates rows, writes lengths. */
tuff_status tuff__batch_pack(const batch_layout *self, loader_slot *slot);

/* records.c */
/* Opens the file; a sample_count of 0 becomes the number of records in the file. */
tuff_status tuff__records_open(tuff_loader *self);
tuff_status tuff__records_read(const tuff_loader *self, int64_t index, void *const *data);

/* workers.c */
tuff_status tuff__workers_start(tuff_loader *self);
/* Returns false if sources did not return in time: the loader then belongs to the workers. */
bool tuff__workers_stop(tuff_loader *self);
/* Waits, with the lock held, until the slot has the batch that the program gets next. */
void tuff__workers_await(tuff_loader *self, const loader_slot *slot);
/* Both are called with the lock held; between them no worker touches a slot. If pausing fails, the loader stays
   paused. */
tuff_status tuff__workers_pause(tuff_loader *self);
void tuff__workers_resume(tuff_loader *self);

/* loader.c */
/* Frees memory, locks and file; stagings must have been destroyed already. */
void tuff__loader_free(tuff_loader *self);

#endif
