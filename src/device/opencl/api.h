/* OpenCL through one table of function pointers, filled from the loader that is opened at run time: tests may replace
   any entry. Also the objects that the files of this driver share. */
#ifndef TUFF_DEVICE_OPENCL_API_H
#define TUFF_DEVICE_OPENCL_API_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include "device/driver.h"
#include "device/submit/pace.h"

/* Every call of OpenCL 1.2 that the driver makes. */
#define OPENCL_CALLS(X)               \
    X(GetPlatformIDs)                 \
    X(GetPlatformInfo)                \
    X(GetDeviceIDs)                   \
    X(GetDeviceInfo)                  \
    X(CreateContext)                  \
    X(RetainContext)                  \
    X(ReleaseContext)                 \
    X(CreateCommandQueue)             \
    X(RetainCommandQueue)             \
    X(ReleaseCommandQueue)            \
    X(GetCommandQueueInfo)            \
    X(CreateBuffer)                   \
    X(SetMemObjectDestructorCallback) \
    X(RetainMemObject)                \
    X(ReleaseMemObject)               \
    X(GetMemObjectInfo)               \
    X(EnqueueMigrateMemObjects)       \
    X(EnqueueWriteBuffer)             \
    X(EnqueueReadBuffer)              \
    X(EnqueueCopyBuffer)              \
    X(EnqueueFillBuffer)              \
    X(EnqueueMapBuffer)               \
    X(EnqueueUnmapMemObject)          \
    X(EnqueueNDRangeKernel)           \
    X(EnqueueMarkerWithWaitList)      \
    X(CreateProgramWithSource)        \
    X(CreateProgramWithBinary)        \
    X(BuildProgram)                   \
    X(GetProgramBuildInfo)            \
    X(GetProgramInfo)                 \
    X(ReleaseProgram)                 \
    X(CreateKernel)                   \
    X(SetKernelArg)                   \
    X(GetKernelWorkGroupInfo)         \
    X(ReleaseKernel)                  \
    X(GetEventInfo)                   \
    X(WaitForEvents)                  \
    X(RetainEvent)                    \
    X(SetEventCallback)               \
    X(GetEventProfilingInfo)          \
    X(ReleaseEvent)                   \
    X(Flush)

typedef struct opencl_api {
#define X(name) __typeof__(&cl##name) name;
    OPENCL_CALLS(X)
#undef X
} opencl_api;

/* The table in use. */
extern opencl_api tuff__cl;

/* Opens the loader and fills the table; NULL on success, else why it cannot be had (static storage). */
const char *tuff__cl_load(void);

/* "CL_OUT_OF_RESOURCES"; "unknown error" for what has no name. */
const char *tuff__cl_error_name(cl_int error);
/* FAIL with the status that error means: "clEnqueueReadBuffer: CL_OUT_OF_RESOURCES (-5)". */
tuff_status tuff__cl_fail(cl_int error, const char *call);
/* Hands an OpenCL error on as a status: CL_TRY(Flush, (queue)). */
#define CL_TRY(call, arguments)                               \
    do {                                                      \
        cl_int error_of_call_ = tuff__cl.call arguments;      \
        if (error_of_call_ != CL_SUCCESS)                     \
            return tuff__cl_fail(error_of_call_, "cl" #call); \
    } while (0)

/* Every call of CLBlast that the driver makes; tests may replace any entry after tuff__cl_library_absence. */
#define CLBLAST_CALLS(X)                         \
    X(sgemm, CLBlastSgemm)                       \
    X(sgemv, CLBlastSgemv)                       \
    X(sgemm_batched, CLBlastSgemmStridedBatched) \
    X(clear_cache, CLBlastClearCache)            \
    X(override, CLBlastOverrideParameters)

/* Enumerations are ints of fixed values there; 0 is success. */
typedef struct clblast_api {
    int (*sgemm)(int layout, int a_form, int b_form, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                 size_t a_start, size_t a_line, cl_mem b, size_t b_start, size_t b_line, float beta, cl_mem c,
                 size_t c_start, size_t c_line, cl_command_queue *queue, cl_event *event);
    int (*sgemv)(int layout, int form, size_t m, size_t n, float alpha, cl_mem a, size_t a_start, size_t a_line,
                 cl_mem x, size_t x_start, size_t x_step, float beta, cl_mem y, size_t y_start, size_t y_step,
                 cl_command_queue *queue, cl_event *event);
    int (*sgemm_batched)(int layout, int a_form, int b_form, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                         size_t a_start, size_t a_line, size_t a_step, cl_mem b, size_t b_start, size_t b_line,
                         size_t b_step, float beta, cl_mem c, size_t c_start, size_t c_line, size_t c_step,
                         size_t batches, cl_command_queue *queue, cl_event *event);
    int (*clear_cache)(void);
    int (*override)(cl_device_id device, const char *kernel, int precision, size_t count, const char **names,
                    const size_t *values);
} clblast_api;
extern clblast_api tuff__clblast;

/* Enqueued work that nobody has seen finished yet; block is what it reads from, given back with it. */
typedef struct pending {
    cl_event event;
    void *block;
    size_t size;
    pace_mark mark; /* of the steps that it is the end of */
} pending;

#define PENDING_COUNT 256

/* Memory for data on its way to the device. */
typedef struct staged_block {
    void *memory;
    size_t size;
} staged_block;

enum { SUBGROUP_SIZES = 16 };

typedef struct wait_thread wait_thread;

struct driver_device {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    cl_command_queue upload_queue; /* of what is sent beside the other's work; NULL until something can be */
    cl_command_queue timed_queue;  /* with profiling; NULL until the first timed submission */
    cl_ulong group_limit;          /* groups that one launch may have */
    cl_ulong local_overhead;       /* what the driver adds to the local memory of a kernel when it tells its size */
    bool makes_ptx;                /* its binaries are PTX */
    bool is_pocl;
    bool builds_in_turn; /* with all other devices of which that is true */
    bool is_cpu;
    bool shares_memory; /* with the host: buffers are where the host says */
    bool wants_thread;  /* computes on one core more while a thread waits in the driver */
    wait_thread *wait_thread; /* NULL until there is work for it */
    bool used_library;  /* for products */
    char identity[1024];
    char build_options[128];
    cl_kernel_work_group_info spill_query; /* what of a kernel tells its spills; 0: nothing does */
    size_t subgroup_sizes[SUBGROUP_SIZES]; /* that a kernel can require; zeros where there are no more */
    pending pending[PENDING_COUNT];        /* a ring, in order of the queue */
    int pending_first, pending_count;
    size_t staged_size;                 /* bytes of the blocks in it */
    staged_block spares[PENDING_COUNT]; /* that the device has read, for writes of the same size */
    int spare_count;
    size_t spare_size;         /* bytes of them */
    uint64_t timeout;          /* of waits, as tuff__cl_timeout; 0: that */
    cl_ulong plain_allocation; /* bytes of the largest buffer without special flags */
    bool has_larger_buffers;   /* with them: Intel's GPUs */
    _Atomic bool hung;         /* a wait ended without progress, and nothing was seen to end since; also read where
                                  programs are made, beside other calls */
    pace pace;
};

struct driver_buffer {
    cl_mem memory;
    bool is_large; /* kernels that use it are built for that */
};

struct driver_program {
    cl_program program;
    char *name;
    int buffer_count, word_count;
    uint32_t local_size;
    uint64_t spilled; /* as spilled_bytes answers */
    pace_scale scale;
    char *text; /* of one that may be needed again, for larger buffers; else NULL */
    bool many_registers;
    cl_program large; /* the same, built for them; NULL until it is needed */
};

/* The most groups that a launch of the devices opened from now on has; 0: the device's own limit. Tests set it to force
   splits. */
extern cl_ulong tuff__cl_group_limit;
/* How long waits go on while a command runs without any sign of progress: 30 s; before it runs, 8 times that. Tests
   shorten it. */
extern uint64_t tuff__cl_timeout;

/* open.c */
int tuff__cl_count(const char **absence);
tuff_status tuff__cl_describe(int index, tuff_device_info *info);
tuff_status tuff__cl_open(int index, driver_device **device);
void tuff__cl_close(driver_device *device);
const char *tuff__cl_identity(driver_device *device);
const char *tuff__cl_build_options(driver_device *device);

/* Describes a device of the driver's, listed or not. */
tuff_status tuff__cl_describe_device(cl_platform_id platform, cl_device_id id, tuff_device_info *info);
/* Fills in what needs no context: identity and limits. */
tuff_status tuff__cl_prepare(driver_device *device);
tuff_status tuff__cl_device_value(cl_device_id id, cl_device_info parameter, void *out, size_t size);
/* The text is cut at the buffer's size. */
tuff_status tuff__cl_device_text(cl_device_id id, cl_device_info parameter, char *out, size_t size);

/* vendors.c */
bool tuff__cl_has_extension(const char *extensions, const char *name);
/* Answers NULL, with an error, where they cannot be read; the caller frees. */
char *tuff__cl_read_extensions(cl_device_id id);
/* Fills in what the extensions and the profile say that kernels can do; may correct the class. */
tuff_status tuff__cl_describe_vendor(cl_device_id id, tuff_device_info *info);
/* Whether buffers may be larger than CL_DEVICE_MAX_MEM_ALLOC_SIZE, where they and the programs that use them are made
   for that. */
bool tuff__cl_has_larger_buffers(cl_device_id id);
/* Fills in build options and limits; after the identity. */
tuff_status tuff__cl_prepare_vendor(driver_device *device);

/* wrap.c */
tuff_status tuff__cl_wrap(const void *handles, tuff_device_info *info, driver_device **device);
tuff_status tuff__cl_buffer_import(driver_device *device, const void *handle, uint64_t *size, driver_buffer **buffer);
void tuff__cl_unwrap(driver_device *device, void *handles);
void tuff__cl_buffer_unwrap(driver_buffer *buffer, tuff_buffer_handle *handle);
tuff_status tuff__cl_enqueue_wait(driver_device *device, const driver_signal *signal);
tuff_status tuff__cl_enqueue_signal(driver_device *device, driver_signal *signal);

/* buffer.c */
tuff_status tuff__cl_buffer_create(driver_device *device, uint64_t size, driver_buffer **buffer);
void tuff__cl_buffer_destroy(driver_device *device, driver_buffer *buffer);
tuff_status tuff__cl_buffer_write(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                                  uint64_t size);
tuff_status tuff__cl_buffer_read(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                                 uint64_t size);

tuff_status tuff__cl_buffer_copy(driver_device *device, driver_buffer *from, uint64_t from_offset, driver_buffer *to,
                                 uint64_t to_offset, uint64_t size);

/* staging.c */
tuff_status tuff__cl_staging_create(driver_device *device, uint64_t size, bool sends, driver_staging **staging,
                                    void **memory);
void tuff__cl_staging_destroy(driver_device *device, driver_staging *staging);
tuff_status tuff__cl_staging_copy(driver_device *device, driver_staging *staging, const staged_copy *copies, int count,
                                  bool upload);
tuff_status tuff__cl_staging_send(driver_device *device, driver_staging *staging, uint64_t size);
bool tuff__cl_has_upload_queue(driver_device *device);
tuff_status tuff__cl_staging_poll(driver_device *device, driver_staging *staging, bool *done);

/* program.c */
tuff_status tuff__cl_program_create(driver_device *device, const program_request *request, blob cached, blob *made,
                                    driver_program **program);
void tuff__cl_program_destroy(driver_device *device, driver_program *program);
/* The program as built for buffers of more than 4 GiB; belongs to it. */
tuff_status tuff__cl_program_for_large(driver_device *device, driver_program *program, cl_program *out);
bool tuff__cl_is_binary_costly(driver_device *device);
tuff_status tuff__cl_program_bytes(driver_device *device, driver_program *program, blob *made);
tuff_status tuff__cl_spilled_bytes(driver_device *device, driver_program *program, uint64_t *out);

/* recording.c */
tuff_status tuff__cl_recording_create(driver_device *device, const command *commands, int count, bool timed,
                                      driver_recording **recording);
void tuff__cl_recording_destroy(driver_device *device, driver_recording *recording);
tuff_status tuff__cl_submit(driver_device *device, driver_recording *recording);
int tuff__cl_refused_dispatch(const driver_recording *recording);
tuff_status tuff__cl_timestamps(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
tuff_status tuff__cl_start_times(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);

/* library.c */
const char *tuff__cl_library_absence(driver_device *device);
void tuff__cl_library_forget(const driver_device *device);
/* Enqueues a product; event gets what tells of its end. */
tuff_status tuff__cl_library_enqueue(const command *work, cl_command_queue queue, cl_event *event);

/* huge.c */
/* Memory of the device's in large pages; NULL where that is of no use or cannot be had. */
cl_mem tuff__cl_create_huge(driver_device *device, size_t size);

/* wait_thread.c */
/* Has the device's thread wait in the driver until the event is complete, where the driver computes with such threads.
   From one thread at a time, as all that enqueues. */
void tuff__cl_wait_thread_post(driver_device *device, cl_event event);
/* Ends that thread; where the device hangs it is left to itself, with what it holds. */
void tuff__cl_wait_thread_stop(driver_device *device);

/* wait.c */
tuff_status tuff__cl_wait(driver_device *device);
/* Before a call that blocks until the queue is through, which nothing bounds: waits for tuff's own work, and for an
   application's where it has the queue too. */
tuff_status tuff__cl_wait_to_block(driver_device *device);
/* Waits, within bounds, until the ring has room for one more event and at most staged_limit bytes are staged. */
tuff_status tuff__cl_reserve_staging(driver_device *device, size_t staged_limit);
/* A block for a write: one that is spare, or new memory; NULL where that ran out. */
void *tuff__cl_alloc_block(driver_device *device, size_t size);
/* Keeps it as a spare, or frees it; NULL is allowed. */
void tuff__cl_free_block(driver_device *device, void *memory, size_t size);
/* Frees the spare ones. */
void tuff__cl_free_blocks(driver_device *device);
/* After tuff__cl_reserve_staging: takes over event, and block (may be NULL), which is freed when the event is
   complete. */
void tuff__cl_track(driver_device *device, cl_event event, void *block, size_t size);
/* *done where the event is complete; an event that ended in an error is done and fails. */
tuff_status tuff__cl_poll_event(cl_event event, bool *done, cl_int *state);
/* Waits, within bounds, for one event that need not be in the ring. */
tuff_status tuff__cl_wait_event(driver_device *device, cl_event event);
/* The last event of the ring is the end of steps of a recording, the mark's owner; shares and scales are looked at
   until it is complete, or tuff__cl_unmark is called. */
void tuff__cl_mark(driver_device *device, pace_mark mark, bool is_idle);
void tuff__cl_unmark(driver_device *device, const driver_recording *record);
/* As the driver's is_lost. */
bool tuff__cl_is_lost(driver_device *device);
/* Removes what is complete, without waiting; whether everything is. */
bool tuff__cl_is_idle(driver_device *device);
/* Gives up all tracking. */
void tuff__cl_forget(driver_device *device);

#endif
