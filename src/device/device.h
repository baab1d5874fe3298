/* Devices: all that the library above may call. Arguments are checked and the lock is taken, then a driver is called.
   Programs are kept (in memory and on disk), work is counted, and the loss of a device is permanent. Nothing here knows
   tensors or ops. */
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

/* Makes an array over a part of a storage, without checks. Takes over the caller's reference to the storage, and
   releases it if memory runs out and NULL is returned. Destroyed with tuff_array_destroy. */
tuff_array *tuff__array_from_storage(tuff_device *device, storage *memory, uint64_t offset, tuff_dtype dtype,
                                     tuff_shape shape);
/* Implements tuff_array_import and its Vulkan variant; call is the name of the public function. buffer is what the
   driver's buffer_import takes. */
tuff_array *tuff__array_import(const char *call, tuff_device *device, const void *buffer, uint64_t offset,
                               tuff_dtype dtype, tuff_shape shape);
/* Returns the offset of the first byte of the storage after the array's elements. */
uint64_t tuff__array_end(const tuff_array *array);
/* Whether two arrays have elements in common. */
bool tuff__arrays_overlap(const tuff_array *a, const tuff_array *b);

/* Returns true for the reference device: it has no driver, and its arrays live in host memory. */
bool tuff__device_is_reference(const tuff_device *device);
const tuff_device_info *tuff__device_info(const tuff_device *device);
/* "OpenCL C" or "GLSL"; "" for the reference device. */
const char *tuff__device_language(const tuff_device *device);
bool tuff__device_takes_glsl(const tuff_device *device);
/* What the driver's compiler is given with every text, such as "-cl-std=CL1.2 -w"; "" for the reference device. Valid
   until the device is closed. */
const char *tuff__device_build_options(const tuff_device *device);
/* For tools and tests that want to see what another device would get: from now on tuff_device_describe and compilation
   see `other` instead of the description of this device, just opened and not the reference device. Plans compiled for
   it contain the kernel texts, which are never built; running one fails with TUFF_E_UNSUPPORTED. */
void tuff__device_override_info(tuff_device *device, const tuff_device_info *other);
/* Limits how long a compilation may take; 0: no limit. A compilation that takes longer is abandoned, and the device is
   lost for this process; see tuff__device_is_stuck. */
void tuff__device_limit_compiles(tuff_device *device, uint64_t nanoseconds);
/* tuff_device_open with that limit from the beginning, so that it holds for the kernels of the self-test too. */
tuff_device *tuff__device_open_limited(const char *name, uint64_t nanoseconds);
/* Whether a compilation was abandoned; the device is then lost for this process. */
bool tuff__device_is_stuck(tuff_device *device);
/* Sets how long a wait may see no progress before it returns TUFF_E_TIMEOUT; 0: the driver's default. */
void tuff__device_set_timeout(tuff_device *device, uint64_t nanoseconds);
/* Returns for how long the device has been idle, in nanoseconds: since a call last submitted, read, wrote or waited; if
   none ever did, the current value of the clock. 0: such a call is in progress, or some submission is not known to be
   done because it was not waited for. Callable from any thread; never blocks. */
uint64_t tuff__device_idle_time(tuff_device *device);
/* Returns NULL if COMMAND_LIBRARY_GEMM is supported, else the reason. Loads the library. */
const char *tuff__device_library_unavailable_reason(const tuff_device *device);
/* Whether a command that cannot be split, of that many seconds by the cost model, is short enough for the device, which
   may be lost if one command runs for long. This depends on what was measured before. */
bool tuff__device_takes_whole(tuff_device *device, double seconds);

/* Whether tuff_device_set_describe_only was called. */
bool tuff__device_describes_only(const tuff_device *device);

/* Returns device memory from the pool, which keeps released buffers for reuse. Sizes round up to 256 bytes. A storage
   is one buffer: its offset 0 is aligned for binding. Filled with zeros if `zeroed`. Reference counted. On a device
   that describes only, the storage has no bytes: writing it does nothing, and reading it is TUFF_E_USAGE. */
tuff_status tuff__storage_create(tuff_device *device, uint64_t size, bool zeroed, storage **out);
/* Makes a storage from an application's buffer, in the form that the driver takes, of at least size bytes. It never
   enters the pool. */
tuff_status tuff__storage_import(tuff_device *device, const void *handle, uint64_t size, storage **out);
/* Stands for memory of another process, for graphs that are compiled here and run there, or for memory that a device
   which only describes plans does not allocate. It has a size and an identity of its own, but no bytes. Reading it is
   TUFF_E_USAGE, and so is writing it unless the device only describes plans. It must not be bound. */
tuff_status tuff__storage_create_placeholder(tuff_device *device, uint64_t size, bool is_imported, storage **out);
/* TUFF_E_USAGE if it is such a storage. */
tuff_status tuff__storage_check_bytes(const storage *storage);
void tuff__storage_retain(storage *storage);
void tuff__storage_release(storage *storage);          /* NULL is allowed; the last release returns it to the pool */
driver_buffer *tuff__storage_buffer(storage *storage); /* NULL on the reference device */
void *tuff__storage_host(storage *storage);            /* the bytes on the reference device, else NULL */
/* Bracket uses of those bytes: no other thread uses the device in between. */
void tuff__host_begin(tuff_device *device);
void tuff__host_end(tuff_device *device);
/* Bracket a run on the reference device: no other run and no write begins in between, as on a device with a queue. */
void tuff__host_run_begin(tuff_device *device);
void tuff__host_run_end(tuff_device *device);
uint64_t tuff__storage_size(const storage *storage);
uint64_t tuff__storage_version(const storage *storage);
bool tuff__storage_is_imported(const storage *storage); /* the application may write to it unnoticed */
/* For graphs loaded from files: from now on the storage counts as imported, like the one it was made after. */
void tuff__storage_mark_imported(storage *storage);
void tuff__storage_touch(storage *storage); /* raises the version */
tuff_status tuff__storage_write(tuff_device *device, storage *storage, uint64_t offset, const void *data,
                                uint64_t size);
/* Repeats a pattern over a range. */
tuff_status tuff__storage_fill(tuff_device *device, storage *storage, uint64_t offset, uint64_t size,
                               const void *pattern, size_t period);
tuff_status tuff__storage_read(tuff_device *device, storage *storage, uint64_t offset, void *data, uint64_t size);

/* Enqueues a copy of device memory after everything submitted earlier. Ranges of one storage do not overlap. */
tuff_status tuff__storage_copy(tuff_device *device, storage *from, uint64_t from_offset, storage *to,
                               uint64_t to_offset, uint64_t size);

/* Host memory that the device copies from and to while the host continues. One user at a time. */
typedef struct staging staging;
typedef struct staging_transfer {
    storage *storage;
    uint64_t offset, staging_offset, size; /* bytes; if size is 0, nothing is done */
} staging_transfer;
/* Creates staging memory. sends: tuff__staging_send may be called, for which the staging gets device memory of the same
   size. */
tuff_status tuff__staging_create(tuff_device *device, uint64_t size, bool sends, staging **out);
void tuff__staging_destroy(staging *staging); /* NULL is allowed; waits, within bounds, for copies in flight */
void *tuff__staging_memory(staging *staging);
/* Enqueue copies and return; the copies are ordered after everything submitted earlier and before everything later. The
   copies enqueued before must be known to be done (tuff__staging_poll). At most MAX_STAGED_COPIES. */
tuff_status tuff__staging_upload(staging *staging, const staging_transfer *transfers, int count);
tuff_status tuff__staging_download(staging *staging, const staging_transfer *transfers, int count);
/* Enqueues the copy of the first size bytes of the memory to the device and returns; it runs concurrently with kernels
   if there is a queue for uploads. The copies enqueued before must be known to be done. The next tuff__staging_upload
   then only moves the bytes on the device, ordered as usual, which is quick. Bytes that were sent but not uploaded are
   lost when the next are sent. Does nothing on the reference device. */
tuff_status tuff__staging_send(staging *staging, uint64_t size);
/* Whether the device has an upload queue besides its compute queue, and whether sending pays off: it does if the device
   has memory of its own. */
bool tuff__device_has_upload_queue(tuff_device *device);
bool tuff__device_prefers_staged_upload(tuff_device *device);
/* Whether launches are enqueued together in command buffers of the API (cl_khr_command_buffer), and whether the
   pipelines that the driver compiles are kept in the cache folder. */
bool tuff__device_has_command_buffers(tuff_device *device);
bool tuff__device_has_pipeline_cache(tuff_device *device);
/* Reports, without waiting, whether the copies enqueued last are done; true if there were none. */
tuff_status tuff__staging_poll(staging *staging, bool *done);

/* Returns the program for a request: shared, if one with equal text is in memory; else from disk; else compiled. The
   caller releases it. */
typedef struct program program;
tuff_status tuff__program_get(tuff_device *device, const program_request *request, program **out);
/* Gets the programs that are not in memory from disk or the compiler, several at once if the driver can do that. The
   others, those that failed among them, are left as they are in out, whose elements are NULL before: tuff__program_get
   gets them. */
void tuff__programs_prepare(tuff_device *device, const program_request *requests, int count, program **out);
/* Whether other calls can proceed while tuff__program_prepare compiles. */
bool tuff__device_compiles_in_parallel(const tuff_device *device);
/* tuff__program_get for threads that compile ahead of the one that uses the device: does not hold the device's lock,
   unless the driver needs that. If two threads make the same program at once, one of the two is shared and only that
   one is counted. If memory runs short, the pool is not trimmed, and the call fails with TUFF_E_OOM_DEVICE. There is no
   time limit, but another thread may call tuff__device_give_up_compiles, unless begun is NULL: *begun is when the
   compiler got the request; 0: it has not got it yet, or is done. */
tuff_status tuff__program_prepare(tuff_device *device, const program_request *request, _Atomic uint64_t *begun,
                                  program **out);
/* Ends the waiting of all tuff__program_prepare calls of other threads that are in the compiler: the device is lost,
   and stuck as after tuff__device_limit_compiles. Returns false, and does nothing, if there is no such call. */
bool tuff__device_give_up_compiles(tuff_device *device);
/* Whether tuff__program_get would find the program in memory at this moment. */
bool tuff__program_is_loaded(tuff_device *device, const program_request *request);
void tuff__program_release(tuff_device *device, program *program); /* NULL is allowed */
driver_program *tuff__program_driver(program *program);
/* Calls visit with the program of every kernel of the self-test that the device's claims call for, until it fails, for
   tools that compile them elsewhere. A request is valid during the call only. */
typedef tuff_status (*program_visitor)(void *state, const program_request *request);
tuff_status tuff__device_self_test_programs(tuff_device *device, program_visitor visit, void *state);
/* From now on, the device's programs are built so that tuff__program_spilled_bytes knows their spills; for devices on
   which candidates run. */
void tuff__device_collect_spill_statistics(tuff_device *device);
/* Returns how many bytes of registers each work-item of the program spills; 0: none, or unknown, as on CPUs. */
uint64_t tuff__program_spilled_bytes(tuff_device *device, program *program);
/* Called at the end of a plan that was in use for `used` nanoseconds: stores the bytes of its programs in the cache
   folder if that was put off because making the bytes costs another compilation. Spends at most half of `used` on it;
   for programs that an earlier process compiled too, all of it. Programs that were not launched are kept only if they
   are among the latter. NULL among the programs is allowed. */
void tuff__programs_store(tuff_device *device, program *const *programs, int count, bool launched, uint64_t used);

/* A recorded list of commands. tuff__recording_create calls tuff__set_barriers, which sets a barrier before every
   command if barriers_everywhere is true. */
typedef struct recording recording;
tuff_status tuff__recording_create(tuff_device *device, command *commands, int count, bool barriers_everywhere,
                                   bool timed, recording **out);
/* NULL is allowed; waits for its submissions. */
void tuff__recording_destroy(tuff_device *device, recording *recording);
tuff_status tuff__submit(tuff_device *device, recording *recording);

/* Two recordings that no other thread's submission or write comes between. The functions are called with the device
   locked: they must not use it. */
typedef struct prepared_submission {
    recording *preparation, *main; /* NULL: nothing */
    bool (*needs_preparation)(void *state);
    void (*ended)(void *state); /* NULL is allowed. Called after main, even if that failed */
    void *state;
} prepared_submission;
/* Submits main, after preparation if that is needed. Sets *last to the recording submitted last. */
tuff_status tuff__submit_prepared(tuff_device *device, const prepared_submission *pair, const recording **last);
/* After a failed submission: returns the index of the dispatch that the driver refused; -1: none, or unknown. recorded
   may be NULL: nothing was to be submitted. */
int tuff__refused_dispatch(tuff_device *device, const recording *recorded);
tuff_status tuff__wait(tuff_device *device);
tuff_status tuff__timestamps(tuff_device *device, recording *recording, uint64_t *nanoseconds);
/* Submits a recording, waits for it, and gets the times of its commands; *has_stamps is false if the device has no
   clock. *passed: the time of all by the host's clock. */
tuff_status tuff__submit_timed(tuff_device *device, recording *recording, uint64_t *stamps, bool *has_stamps,
                               uint64_t *passed);
/* Returns when each command began, in nanoseconds since the first one did. */
tuff_status tuff__start_times(tuff_device *device, recording *recording, uint64_t *nanoseconds);

/* Decides, from the read and write sets of the commands, which ones must wait for earlier ones; all of them if
   barriers_everywhere is true. */
void tuff__set_barriers(command *commands, int count, bool barriers_everywhere);
/* Returns TUFF_E_COMPILE if two commands that depend on their order have no barrier between them: a fault of
   tuff__set_barriers. Checked for every recording if tuff__verification_is_on. */
tuff_status tuff__verify_hazards(const command *commands, int count);
/* Whether plans and recordings are verified: they are unless TUFF_VERIFY is 0. */
bool tuff__verification_is_on(void);

#endif
