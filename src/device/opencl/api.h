/* OpenCL as one table of function pointers, filled in from the loader that is opened at run time; tests may replace any
   entry. Also the objects that the files of this driver share. */
#ifndef TUFF_DEVICE_OPENCL_API_H
#define TUFF_DEVICE_OPENCL_API_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include "device/driver.h"
#include "device/submit/predictor.h"

/* Every OpenCL 1.2 function that the driver calls. */
#define OPENCL_CALLS(X)                       \
    X(GetPlatformIDs)                         \
    X(GetPlatformInfo)                        \
    X(GetDeviceIDs)                           \
    X(GetDeviceInfo)                          \
    X(GetExtensionFunctionAddressForPlatform) \
    X(CreateContext)                          \
    X(RetainContext)                          \
    X(ReleaseContext)                         \
    X(CreateCommandQueue)                     \
    X(RetainCommandQueue)                     \
    X(ReleaseCommandQueue)                    \
    X(GetCommandQueueInfo)                    \
    X(CreateBuffer)                           \
    X(SetMemObjectDestructorCallback)         \
    X(RetainMemObject)                        \
    X(ReleaseMemObject)                       \
    X(GetMemObjectInfo)                       \
    X(EnqueueMigrateMemObjects)               \
    X(EnqueueWriteBuffer)                     \
    X(EnqueueReadBuffer)                      \
    X(EnqueueCopyBuffer)                      \
    X(EnqueueFillBuffer)                      \
    X(EnqueueMapBuffer)                       \
    X(EnqueueUnmapMemObject)                  \
    X(EnqueueNDRangeKernel)                   \
    X(EnqueueMarkerWithWaitList)              \
    X(CreateProgramWithSource)                \
    X(CreateProgramWithBinary)                \
    X(BuildProgram)                           \
    X(CompileProgram)                         \
    X(LinkProgram)                            \
    X(GetProgramBuildInfo)                    \
    X(GetProgramInfo)                         \
    X(ReleaseProgram)                         \
    X(CreateKernel)                           \
    X(SetKernelArg)                           \
    X(GetKernelWorkGroupInfo)                 \
    X(ReleaseKernel)                          \
    X(GetEventInfo)                           \
    X(WaitForEvents)                          \
    X(RetainEvent)                            \
    X(SetEventCallback)                       \
    X(GetEventProfilingInfo)                  \
    X(ReleaseEvent)                           \
    X(Flush)

typedef struct opencl_api {
#define X(name) __typeof__(&cl##name) name;
    OPENCL_CALLS(X)
#undef X
} opencl_api;

/* The table in use. */
extern opencl_api tuff__cl;

/* Opens the loader and fills in the table. Returns NULL on success, else why OpenCL is unavailable (static storage). */
const char *tuff__cl_load(void);

/* Returns the name of an error, such as "CL_OUT_OF_RESOURCES"; "unknown error" for one without a name. */
const char *tuff__cl_error_name(cl_int error);
/* Whether it is an error of OpenCL or of a vendor, and not another library's. */
bool tuff__cl_is_known_error(cl_int error);
/* Fails with the status that corresponds to error and a message such as "clEnqueueReadBuffer: CL_OUT_OF_RESOURCES
   (-5)". */
tuff_status tuff__cl_fail(cl_int error, const char *call);
/* Calls OpenCL and returns an error as a status: CL_TRY(Flush, (queue)). */
#define CL_TRY(call, arguments)                               \
    do {                                                      \
        cl_int error_of_call_ = tuff__cl.call arguments;      \
        if (error_of_call_ != CL_SUCCESS)                     \
            return tuff__cl_fail(error_of_call_, "cl" #call); \
    } while (0)

/* Every CLBlast function that the driver calls; tests may replace any entry after
   tuff__cl_library_unavailable_reason. */
#define CLBLAST_CALLS(X)                         \
    X(sgemm, CLBlastSgemm)                       \
    X(sgemv, CLBlastSgemv)                       \
    X(sgemm_batched, CLBlastSgemmStridedBatched) \
    X(clear_cache, CLBlastClearCache)            \
    X(override, CLBlastOverrideParameters)

/* CLBlast's enumerations are ints with fixed values; 0 is success. */
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

/* An object of cl_khr_command_buffer, and the calls for it. All are NULL on devices without command buffers. */
typedef struct command_buffer command_buffer;
typedef struct command_buffer_api {
    command_buffer *(CL_API_CALL *create)(cl_uint queue_count, const cl_command_queue *queues,
                                          const cl_ulong *properties, cl_int *error);
    cl_int(CL_API_CALL *add_launch)(command_buffer *buffer, cl_command_queue queue, const cl_ulong *properties,
                                    cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                                    const size_t *global_size, const size_t *local_size, cl_uint wait_count,
                                    const cl_uint *waits, cl_uint *point, void **handle);
    cl_int(CL_API_CALL *finalize)(command_buffer *buffer);
    cl_int(CL_API_CALL *enqueue)(cl_uint queue_count, cl_command_queue *queues, command_buffer *buffer,
                                 cl_uint wait_count, const cl_event *waits, cl_event *event);
    cl_int(CL_API_CALL *release)(command_buffer *buffer);
} command_buffer_api;

/* Enqueued work that is not known to be finished. block is the memory that it reads from, freed together with it. */
typedef struct pending {
    cl_event event;
    void *block;
    size_t size;
    submission_record submission; /* for the steps that the event ends */
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
    cl_command_queue upload_queue; /* for data sent concurrently with other work; NULL until the first staging that
                                      sends */
    cl_command_queue timed_queue;  /* with profiling; NULL until the first timed submission */
    cl_ulong group_limit;          /* most groups of one launch */
    cl_ulong local_overhead;       /* bytes that the driver adds when it reports a kernel's local memory */
    bool makes_ptx;                /* the driver's binaries are PTX */
    bool doubles_registers;        /* takes Intel's option for REGISTERS_MANY */
    _Atomic bool limits_registers; /* takes NVIDIA's option for REGISTERS_FEW; also cleared while programs are made */
    bool is_pocl;
    bool compiles_alone; /* its compiler is not safe to call from several threads: PoCL's and Oclgrind's */
    bool is_cpu;
    bool reports_free_memory; /* tuff__cl_free_memory may be asked: AMD's GPUs */
    bool shares_memory;       /* with the host: buffers may lie in memory that the host chooses */
    bool needs_wait_thread;   /* computes on one more core while a thread waits in the driver */
    wait_thread *wait_thread; /* NULL until there is work for it */
    command_buffer_api command_buffers;
    bool used_library;     /* for matrix products */
    bool has_stuck_upload; /* an upload did not end in time: the device is never released */
    char identity[1024];
    char build_options[160];
    size_t plain_options; /* length of the options that also apply with the driver's own header: see builtins.c */
    cl_kernel_work_group_info spill_query; /* the kernel query that reports spills; 0: none does */
    size_t subgroup_sizes[SUBGROUP_SIZES]; /* those that a kernel can require; unused entries are 0 */
    pending pending[PENDING_COUNT];        /* a ring, in the order of the queue */
    int pending_first, pending_count;
    size_t staged_size;                 /* bytes of the blocks in the ring */
    staged_block spares[PENDING_COUNT]; /* blocks that the device has read, for later writes of the same size */
    int spare_count;
    size_t spare_size;         /* bytes of the spares */
    uint64_t timeout;          /* of waits, in nanoseconds; 0: tuff__cl_timeout */
    cl_ulong plain_allocation; /* bytes of the largest buffer without special flags */
    bool has_larger_buffers;   /* with special flags: Intel's GPUs */
    _Atomic bool hung;         /* a wait ended without progress, and no command was seen to end since; also read while
                                  programs are made, concurrently with other calls */
    time_predictor predictor;
};

struct driver_buffer {
    cl_mem memory;
    bool is_large; /* kernels that use it need a special build */
};

struct driver_program {
    cl_program program;
    char *name;
    int buffer_count, word_count;
    uint32_t local_size;
    uint64_t spilled; /* what spilled_bytes returns */
    time_scale scale;
    char *text; /* kept if a build for larger buffers may be needed; else NULL */
    register_count registers;
    cl_program large; /* the program built for larger buffers; NULL until it is needed */
};

/* The most groups of a launch, for devices opened from now on; 0: the device's own limit. Tests set it to force
   splits. */
extern cl_ulong tuff__cl_group_limit;
/* How long a wait goes on while a running command shows no sign of progress: 30 s; 8 times that before it runs. Tests
   shorten it. */
extern uint64_t tuff__cl_timeout;

/* open.c */
int tuff__cl_count(const char **reason);
tuff_status tuff__cl_describe(int index, tuff_device_info *info);
tuff_status tuff__cl_open(int index, driver_device **device);
void tuff__cl_close(driver_device *device);
const char *tuff__cl_identity(driver_device *device);
const char *tuff__cl_build_options(driver_device *device);

/* Whether the device has OpenCL 1.2 or later and a compiler, and is little-endian. */
bool tuff__cl_is_usable(cl_device_id id);
/* Describes a device of this API, listed or not. */
tuff_status tuff__cl_describe_device(cl_platform_id platform, cl_device_id id, tuff_device_info *info);
/* Fills in what needs no context: identity and limits. */
tuff_status tuff__cl_prepare(driver_device *device);
tuff_status tuff__cl_device_value(cl_device_id id, cl_device_info parameter, void *out, size_t size);
/* Truncates the text to the buffer's size. */
tuff_status tuff__cl_device_text(cl_device_id id, cl_device_info parameter, char *out, size_t size);
/* Returns NULL, with an error, if the extensions cannot be read; the caller frees the text. */
char *tuff__cl_read_extensions(cl_device_id id);

/* vendors.c */
bool tuff__cl_has_extension(const char *extensions, const char *name);
/* Fills in what the extensions and the profile say about kernels; may correct the class. */
tuff_status tuff__cl_describe_vendor(cl_device_id id, tuff_device_info *info);
/* Whether buffers may be larger than CL_DEVICE_MAX_MEM_ALLOC_SIZE, if they and the programs that use them are made for
   that. */
bool tuff__cl_has_larger_buffers(cl_device_id id);
/* Fills in build options and limits. Needs the identity. */
tuff_status tuff__cl_prepare_vendor(driver_device *device);

/* builtins.c: declarations that replace the header of drivers built on Clang. tuff__cl_declare_builtins appends the
   option that drops the header to the build options, which must be complete. tuff__cl_builtins returns NULL if the
   device keeps its header. */
void tuff__cl_declare_builtins(driver_device *device);
const char *tuff__cl_builtins(const driver_device *device);

/* wrap.c */
tuff_status tuff__cl_wrap(const void *handles, tuff_device_info *info, driver_device **device);
tuff_status tuff__cl_buffer_import(driver_device *device, const void *handle, uint64_t *size, driver_buffer **buffer);
void tuff__cl_unwrap(driver_device *device, void *handles);
void tuff__cl_buffer_unwrap(driver_buffer *buffer, tuff_buffer_handle *handle);
tuff_status tuff__cl_enqueue_wait(driver_device *device, const driver_signal *signal);
tuff_status tuff__cl_enqueue_signal(driver_device *device, driver_signal *signal);

/* buffer.c */
/* Free memory of a device in bytes, by the driver's own account. If it does not tell, all is 0 and the largest block
   is UINT64_MAX. */
typedef struct memory_report {
    uint64_t all, largest_block;
} memory_report;
memory_report tuff__cl_free_memory(cl_device_id id);
tuff_status tuff__cl_buffer_create(driver_device *device, uint64_t size, driver_buffer **buffer);
tuff_status tuff__cl_buffer_create_anywhere(driver_device *device, uint64_t size, driver_buffer **buffer);
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
/* Returns the program as built for buffers larger than 4 GiB; the program owns it. */
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

/* command_buffer.c */
/* Fills in the device's command_buffers if it offers command buffers, they are wanted there, and a trial shows that
   they work. Fails only if the trial leaves the device unusable. Needs context and queue. */
tuff_status tuff__cl_find_command_buffers(driver_device *device);
bool tuff__cl_has_command_buffers(driver_device *device);
/* Returns NULL if the driver refuses. The others return whether the driver did as it was told. */
command_buffer *tuff__cl_command_buffer_create(driver_device *device);
bool tuff__cl_command_buffer_add(const driver_device *device, command_buffer *buffer, cl_kernel kernel,
                                 size_t global_size, size_t local_size);
bool tuff__cl_command_buffer_finalize(const driver_device *device, command_buffer *buffer);
cl_int tuff__cl_command_buffer_enqueue(const driver_device *device, command_buffer *buffer, cl_event *event);
/* NULL is allowed. */
void tuff__cl_command_buffer_destroy(const driver_device *device, command_buffer *buffer);

/* clblast.c */
const char *tuff__cl_library_unavailable_reason(driver_device *device);
void tuff__cl_library_clear_cache(const driver_device *device);
/* Enqueues a product; event gets the event of its end. */
tuff_status tuff__cl_library_enqueue(const command *work, cl_command_queue queue, cl_event *event);

/* huge_pages.c */
/* Creates a buffer in large pages; NULL if they are of no use or unavailable. */
cl_mem tuff__cl_create_in_huge_pages(driver_device *device, size_t size);

/* wait_thread.c */
/* If the driver computes with threads that wait in it, makes the device's thread wait there until the event is
   complete. Called from one thread at a time, like everything that enqueues. */
void tuff__cl_wait_thread_post(driver_device *device, cl_event event);
/* Ends that thread. If the device hangs, the thread is abandoned, with the objects that it holds. */
void tuff__cl_wait_thread_stop(driver_device *device);

/* wait.c */
tuff_status tuff__cl_wait(driver_device *device);
/* To be called before a call that blocks, without limit, until the queue is done: waits for tuff's own work, and for an
   application's if it uses the queue too. */
tuff_status tuff__cl_wait_before_blocking(driver_device *device);
/* Waits, within bounds, until the ring has room for one more event and at most staged_limit bytes are staged. */
tuff_status tuff__cl_reserve_staging(driver_device *device, size_t staged_limit);
/* Returns a block for a write: a spare one, or new memory; NULL if memory runs out. */
void *tuff__cl_alloc_block(driver_device *device, size_t size);
/* Keeps the block as a spare, or frees it; NULL is allowed. */
void tuff__cl_free_block(driver_device *device, void *memory, size_t size);
/* Frees the spare blocks. */
void tuff__cl_free_blocks(driver_device *device);
/* Called after tuff__cl_reserve_staging. Takes over event, and block (may be NULL), which is freed when the event is
   complete. */
void tuff__cl_track(driver_device *device, cl_event event, void *block, size_t size);
/* Sets *done if the event is complete. An event that ended in an error is done, and the call fails. */
tuff_status tuff__cl_poll_event(cl_event event, bool *done, cl_int *state);
/* Waits, within bounds, for one event that need not be in the ring. */
tuff_status tuff__cl_wait_event(driver_device *device, cl_event event);
/* Records that the last event of the ring ends some steps of a recording, which is the submission's owner. Shares and
   scales are read until the event is complete or tuff__cl_forget_submissions is called. */
void tuff__cl_record_submission(driver_device *device, submission_record submission, bool is_idle);
void tuff__cl_forget_submissions(driver_device *device, const driver_recording *record);
/* The driver's is_lost. */
bool tuff__cl_is_lost(driver_device *device);
/* Removes completed events, without waiting; whether none is left. */
bool tuff__cl_is_idle(driver_device *device);
/* Stops tracking all events. */
void tuff__cl_untrack_all(driver_device *device);

#endif
