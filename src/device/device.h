/* The front door to devices: what the library above may call. It validates, locks, counts, keeps programs (in memory
   and on disk) and makes device-lost sticky; then it calls a driver. Nothing here knows tensors or ops. */
#ifndef TUFF_DEVICE_DEVICE_H
#define TUFF_DEVICE_DEVICE_H

#include "base/thread.h"
#include "device/driver.h"

/* A range of device memory that arrays share. */
typedef struct storage storage;

struct tuff_array {
    tuff_device *device;
    storage *storage;
    uint64_t offset; /* bytes into the storage */
    tuff_dtype dtype;
    tuff_shape shape;
};

/* An array over a part of a storage, which nobody checks. Takes over the caller's reference to it, and gives it up
   where there is no memory: NULL. Destroyed with tuff_array_destroy. */
tuff_array *tuff__array_over(tuff_device *device, storage *memory, uint64_t offset, tuff_dtype dtype, tuff_shape shape);
/* tuff_array_import for the function `call` of either API: buffer is what that driver's buffer_import takes. */
tuff_array *tuff__array_import(const char *call, tuff_device *device, const void *buffer, uint64_t offset,
                               tuff_dtype dtype, tuff_shape shape);
/* The first byte of the storage behind the array's elements. */
uint64_t tuff__array_end(const tuff_array *array);
/* Whether two arrays have elements in common. */
bool tuff__arrays_overlap(const tuff_array *a, const tuff_array *b);

/* True for the reference device: it has no driver, and arrays live in host memory. */
bool tuff__device_is_reference(const tuff_device *device);
const tuff_device_info *tuff__device_info(const tuff_device *device);
/* "OpenCL C" or "GLSL"; "" for the reference device. */
const char *tuff__device_language(const tuff_device *device);
bool tuff__device_takes_glsl(const tuff_device *device);
/* For tools and tests that want to see what another device would get: from here on this one, just opened and not the
   reference device, describes itself so. Plans compiled for it hold the texts of kernels, which nobody builds; running
   one fails with TUFF_E_UNSUPPORTED. */
void tuff__device_override_info(tuff_device *device, const tuff_device_info *as);
/* How long a compilation may take, 0: any time. One that takes longer is left to itself and the device is lost, for
   this process: tuff__device_is_stuck. */
void tuff__device_limit_compiles(tuff_device *device, uint64_t nanoseconds);
/* tuff_device_open with that limit from the beginning: for the kernels of the self-test too. */
tuff_device *tuff__device_open_limited(const char *name, uint64_t nanoseconds);
bool tuff__device_is_stuck(tuff_device *device);
/* How long a wait may see no progress until TUFF_E_TIMEOUT; 0: the driver's own time. */
void tuff__device_set_timeout(tuff_device *device, uint64_t nanoseconds);
/* For how long the device has been left alone, in nanoseconds: since a call last submitted, read, wrote or waited; all
   of the clock where none ever did. 0: such a call is under way, or something that was submitted is not known to be
   done, because nobody waited for it. From any thread, at once. */
uint64_t tuff__device_idle_time(tuff_device *device);
/* NULL where COMMAND_PRODUCT is understood, else why not. */
const char *tuff__device_library_absence(const tuff_device *device);

/* Device memory from the pool: released ranges are kept and reused. Sizes round up to 256 bytes. A storage is one
   buffer: offset 0 of it is aligned for binding. Zeroed where asked. Reference counted. */
tuff_status tuff__storage_create(tuff_device *device, uint64_t size, bool zeroed, storage **out);
/* A buffer of the application, as its driver takes it, as a storage, of at least size bytes; it never enters the pool.
   */
tuff_status tuff__storage_import(tuff_device *device, const void *handle, uint64_t size, storage **out);
/* Memory of another process, for graphs that are compiled here and run there: it has a size and is told apart from
   others, but has no bytes. Reading and writing it is TUFF_E_USAGE, and it must not be bound. */
tuff_status tuff__storage_create_placeholder(tuff_device *device, uint64_t size, bool is_imported, storage **out);
void tuff__storage_retain(storage *storage);
void tuff__storage_release(storage *storage);          /* NULL is allowed; the last one gives it back to the pool */
driver_buffer *tuff__storage_buffer(storage *storage); /* NULL on the reference device */
void *tuff__storage_host(storage *storage);            /* the bytes on the reference device, else NULL */
/* Around uses of those bytes: no other thread uses the device between the two. */
void tuff__host_begin(tuff_device *device);
void tuff__host_end(tuff_device *device);
uint64_t tuff__storage_size(const storage *storage);
uint64_t tuff__storage_version(const storage *storage);
bool tuff__storage_is_imported(const storage *storage); /* the application may write it unseen */
/* For graphs from files: from here on the storage counts as imported, as the one that it was made after. */
void tuff__storage_mark_imported(storage *storage);
void tuff__storage_touch(storage *storage); /* raises the version */
tuff_status tuff__storage_write(tuff_device *device, storage *storage, uint64_t offset, const void *data,
                                uint64_t size);
tuff_status tuff__storage_read(tuff_device *device, storage *storage, uint64_t offset, void *data, uint64_t size);

/* Enqueues a copy of device memory behind everything submitted earlier; ranges of one storage do not overlap. */
tuff_status tuff__storage_copy(tuff_device *device, storage *from, uint64_t from_offset, storage *to,
                               uint64_t to_offset, uint64_t size);

/* Memory of the host that the device copies from and to while the host goes on. One user at a time. */
typedef struct staging staging;
typedef struct staging_move {
    storage *storage;
    uint64_t offset, staging_offset, size; /* bytes; a size of 0 is nothing to do */
} staging_move;
/* sends: tuff__staging_send may be called, for which the staging has device memory of the same size. */
tuff_status tuff__staging_create(tuff_device *device, uint64_t size, bool sends, staging **out);
void tuff__staging_destroy(staging *staging); /* NULL is allowed; waits, within bounds, for copies under way */
void *tuff__staging_memory(staging *staging);
/* Enqueue copies, of which the last series must be known to be done (tuff__staging_poll), and return: ordered after
   everything submitted earlier, before everything later. At most MAX_STAGED_COPIES. */
tuff_status tuff__staging_upload(staging *staging, const staging_move *moves, int count);
tuff_status tuff__staging_download(staging *staging, const staging_move *moves, int count);
/* Enqueues the copy of the first size bytes of the memory to the device, beside the kernels where there is a queue for
   that, and returns; the last series of copies must be known to be done. The next tuff__staging_upload then only moves
   them on the device, ordered as ever, which is short. What was sent and not uploaded is lost when the next is sent.
   Nothing on the reference device. */
tuff_status tuff__staging_send(staging *staging, uint64_t size);
/* Whether the device has a queue for that beside the one that computes, and whether sending pays there: where the
   device has memory of its own. */
bool tuff__device_has_upload_queue(tuff_device *device);
bool tuff__device_prefers_staged_upload(tuff_device *device);
/* Whether the copies enqueued last are done; true where there were none. Does not wait. */
tuff_status tuff__staging_poll(staging *staging, bool *done);

/* The program for a request: shared in memory by equal text, then from disk, then compiled. Release when done. */
typedef struct program program;
tuff_status tuff__program_get(tuff_device *device, const program_request *request, program **out);
/* The same for many at once, as far as they come from memory or disk and the driver can load several at a time: what
   does not stays NULL in out. */
void tuff__programs_load(tuff_device *device, const program_request *requests, int count, program **out);
/* Whether tuff__program_prepare lets other calls through while it compiles. */
bool tuff__device_compiles_in_parallel(const tuff_device *device);
/* tuff__program_get for threads that compile ahead of the one that uses the device: without its lock, except where the
   driver needs that. Where two threads make the same program at once, one of the two is shared and alone counted. Short
   memory is not made up for by the pool: TUFF_E_OOM_DEVICE. No limit is set to this but by who calls
   tuff__device_give_up_compiles, and sees by *begun when the compiler got the request; 0: it has not, or is done. */
tuff_status tuff__program_prepare(tuff_device *device, const program_request *request, _Atomic uint64_t *begun,
                                  program **out);
/* Ends waiting in all tuff__program_prepare of other threads that are in the compiler: the device is lost, and stuck as
   after tuff__device_limit_compiles. False, and nothing was done, where none is. */
bool tuff__device_give_up_compiles(tuff_device *device);
/* Whether that would be shared in memory, at this moment. */
bool tuff__program_is_loaded(tuff_device *device, const program_request *request);
void tuff__program_release(tuff_device *device, program *program); /* NULL is allowed */
driver_program *tuff__program_driver(program *program);
/* From here on the device's programs are built so that the following knows; for devices that candidates run on. */
void tuff__device_tell_spills(tuff_device *device);
/* Bytes of its registers that each work-item of the program keeps in memory; 0: none, or not known, as on CPUs. */
uint64_t tuff__program_spilled(tuff_device *device, program *program);
/* For the end of a plan that was of use for so many nanoseconds: the bytes of its programs, where making them cost
   another compilation and was put off, go to the cache folder. That takes half of the time of use at most; for
   programs that an earlier process compiled as well, as long again. What was not launched is kept only if it is one of
   these. NULL among the programs is allowed. */
void tuff__programs_store(tuff_device *device, program *const *programs, int count, bool launched, uint64_t used);

/* A recorded list of commands. Sets the barriers (tuff__hazards), or one before every command where everywhere is
   true. */
typedef struct recording recording;
tuff_status tuff__recording_create(tuff_device *device, command *commands, int count, bool everywhere, bool timed,
                                   recording **out);
/* NULL is allowed; waits for its submissions. */
void tuff__recording_destroy(tuff_device *device, recording *recording);
tuff_status tuff__submit(tuff_device *device, recording *recording);
/* Behind a submission that failed: the index of the dispatch that the driver would not launch; -1: none, or unknown. */
int tuff__refused_dispatch(tuff_device *device, const recording *recorded);
tuff_status tuff__wait(tuff_device *device);
tuff_status tuff__timestamps(tuff_device *device, recording *recording, uint64_t *nanoseconds);
/* When each command began, in nanoseconds since the first one did. */
tuff_status tuff__start_times(tuff_device *device, recording *recording, uint64_t *nanoseconds);

/* From the read and write sets of the commands: which must wait for earlier ones. */
void tuff__hazards(command *commands, int count, bool everywhere);
/* TUFF_E_COMPILE where two commands that depend on their order have no barrier between them: a fault of tuff__hazards.
   Every recording is checked where tuff__verifies. */
tuff_status tuff__verify_hazards(const command *commands, int count);
/* Whether plans and recordings are verified: unless TUFF_VERIFY is 0. */
bool tuff__verifies(void);

#endif
