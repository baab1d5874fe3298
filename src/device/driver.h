/* The whole boundary to an API: one table of functions. A driver knows bytes, programs and grids, never tensors or ops.
   The files of src/device validate and lock before they call a driver: slots are called with arguments in range and
   sizes other than 0, and with the device's lock held, except program_create if compiles_in_parallel is set, close, and
   those that change nothing: identity, build_options, has_upload_queue, has_command_buffers, has_pipeline_cache,
   library_unavailable_reason. A driver returns statuses, with a message made by FAIL; state.c makes the loss of a
   device permanent. */
#ifndef TUFF_DEVICE_DRIVER_H
#define TUFF_DEVICE_DRIVER_H

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tuff/device.h"
#include "tuff/interop.h"

typedef struct driver_device driver_device;
typedef struct driver_buffer driver_buffer;
typedef struct driver_program driver_program;
typedef struct driver_recording driver_recording;
typedef struct driver_staging driver_staging;

typedef struct blob {
    void *data; /* freed with tuff__free */
    size_t size;
} blob;

/* PCI vendor ids, as in tuff_device_info.vendor_id. */
enum { VENDOR_AMD = 0x1002, VENDOR_NVIDIA = 0x10de, VENDOR_ARM = 0x13b5, VENDOR_INTEL = 0x8086 };

/* Separates the translation units of a text. */
#define UNIT_SEPARATOR "\n// next translation unit\n"

/* Registers of a lane, on devices that trade them for lanes that run at a time, and whose compilers can be told. */
typedef enum register_count {
    REGISTERS_DEFAULT, /* as the compiler decides */
    REGISTERS_FEW,     /* at most 128 (NVIDIA) */
    REGISTERS_MANY     /* twice as many as by default (Intel) */
} register_count;

/* One kernel. text is what the driver's compiler gets: OpenCL C with one kernel function `name`, or GLSL with main.
   OpenCL C may consist of several translation units, which are compiled one by one and linked. The kernel sees
   buffer_count storage buffers (OpenCL: arguments 0..buffer_count-1; Vulkan: set 0, bindings 0..buffer_count-1) and
   word_count 32-bit words (OpenCL: the arguments after the buffers, uint each; Vulkan: push constants). Groups of
   local_size items lie along one logical axis; see command. */
typedef struct program_request {
    const char *name, *text;
    int buffer_count, word_count;
    uint32_t local_size;
    uint32_t subgroup_size; /* required width; 0: any */
    register_count registers;
} program_request;

typedef struct buffer_binding {
    driver_buffer *buffer;
    uint64_t offset, size; /* Vulkan binds this range; offset is a multiple of offset_alignment. OpenCL binds the whole
                              buffer: the kernel gets the offset as data */
    bool written;
} buffer_binding;

/* A copy between staging memory and a buffer. */
typedef struct staged_copy {
    driver_buffer *buffer;
    uint64_t offset, staging_offset, size;
} staged_copy;

/* Orders an application's work and tuff's: an event of OpenCL, or a semaphore of Vulkan and its value (0: a binary
   semaphore). */
typedef struct driver_signal {
    void *event;
    uint64_t semaphore, value;
} driver_signal;

#define MAX_STAGED_COPIES 32

#define MAX_BINDINGS 32
#define MAX_WORDS 8

typedef enum command_kind { COMMAND_DISPATCH, COMMAND_COPY, COMMAND_FILL_ZERO, COMMAND_LIBRARY_GEMM } command_kind;

/* A matrix of f32 in a binding, measured in elements. The elements of a line are contiguous. */
typedef struct library_matrix {
    int64_t start, line, step; /* offset of the first element; stride between lines; stride between the matrices of a
                                  batch */
    bool transposed;           /* its lines are columns */
} library_matrix;

/* result (rows × columns) = x (rows × inner) · y (inner × columns), once for each matrix of the batch. */
typedef struct library_product {
    int64_t rows, columns, inner, batches;
    library_matrix matrices[3]; /* x, y, result: bindings 0, 1, 2 */
} library_product;

/* Whether drivers optimize the kernels that they compile: they do unless TUFF_DRIVER_OPTIMIZER is 0. */
static inline bool tuff__driver_optimizer_is_on(void)
{
    const char *setting = getenv("TUFF_DRIVER_OPTIMIZER");
    return setting == NULL || strcmp(setting, "0") != 0;
}

/* One step of a recording. A dispatch runs group_count groups of program. The last word of `words` is the base that the
   kernel adds to its group index: the driver fills it in if it must split a dispatch (65,535 groups per axis,
   watchdogs: submit/predictor.h), and passes 0 otherwise. A Vulkan kernel finds its group as gl_WorkGroupID.x +
   gl_WorkGroupID.y * gl_NumWorkGroups.x + base and does nothing beyond the group count, which is one of its own
   parameters. A copy moves size bytes from bindings[0] to bindings[1]; a fill zeroes bindings[0]. Offsets and sizes of
   copies and fills are multiples of 4. There are products only if library_unavailable_reason returns NULL. */
typedef struct command {
    command_kind kind;
    driver_program *program;
    uint64_t group_count;
    int binding_count, word_count;
    buffer_binding bindings[MAX_BINDINGS];
    uint32_t words[MAX_WORDS];
    library_product product;
    double seconds; /* the cost model's estimate of its time; 0: almost none, or unknown */
    bool barrier;   /* all earlier commands must be visible to this one; set by tuff__set_barriers, and nowhere else */
    bool after_copy, after_dispatch; /* which kinds of commands the barrier waits for */
} command;

typedef struct driver {
    const char *name;     /* "opencl" */
    const char *language; /* "OpenCL C" or "GLSL": the language in which the assembler writes kernels for it */
    const char *import;   /* the public function that imports an application's buffers of this API */
    /* Returns the number of devices, or 0 with *reason set if the API is unavailable. Called once. */
    int (*count)(const char **reason);
    tuff_status (*describe)(int index, tuff_device_info *info);
    tuff_status (*open)(int index, driver_device **device);
    void (*close)(driver_device *device);
    /* Returns text that identifies compiler and device exactly: platform, versions, UUIDs. Part of every cache key. */
    const char *(*identity)(driver_device *device);
    /* Returns what programs are built with besides their text: the compiler's options. Part of the keys of compiled
       programs and of self-test results. */
    const char *(*build_options)(driver_device *device);

    tuff_status (*buffer_create)(driver_device *device, uint64_t size, driver_buffer **buffer); /* contents undefined */
    /* May be NULL. Called if buffer_create finds no memory: the buffer may also be in memory that the device is slow to
       reach. */
    tuff_status (*buffer_create_anywhere)(driver_device *device, uint64_t size, driver_buffer **buffer);
    void (*buffer_destroy)(driver_device *device, driver_buffer *buffer); /* waits until no submission uses it */
    /* The source may be reused on return. Ordered after earlier submissions and before later ones. */
    tuff_status (*buffer_write)(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                                uint64_t size);
    /* Waits for earlier submissions. */
    tuff_status (*buffer_read)(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                               uint64_t size);

    /* Enqueues a copy between buffers, ordered like a write. Ranges of one buffer do not overlap. */
    tuff_status (*buffer_copy)(driver_device *device, driver_buffer *from, uint64_t from_offset, driver_buffer *to,
                               uint64_t to_offset, uint64_t size);

    /* Creates host memory, pinned if the API can do that, from and to which the device copies while the host continues.
       *memory has size bytes and is valid until staging_destroy, which waits, within bounds, for copies in flight.
       sends: staging_send may be called. */
    tuff_status (*staging_create)(driver_device *device, uint64_t size, bool sends, driver_staging **staging,
                                  void **memory);
    void (*staging_destroy)(driver_device *device, driver_staging *staging);
    /* Enqueues copies to buffers if `upload`, else from them, and returns: ordered after earlier submissions and before
       later ones. count is 1 to MAX_STAGED_COPIES; the staging's earlier copies are known to be done. */
    tuff_status (*staging_copy)(driver_device *device, driver_staging *staging, const staged_copy *copies, int count,
                                bool upload);
    /* Enqueues the copy of the first size bytes to device memory that belongs to the staging, and returns. The copy
       runs on the upload queue, concurrently with earlier and later submissions. The next upload by staging_copy is
       ordered after it and takes the bytes from there. The staging's earlier copies are known to be done. */
    tuff_status (*staging_send)(driver_device *device, driver_staging *staging, uint64_t size);
    /* Whether the upload queue is another one than the compute queue. */
    bool (*has_upload_queue)(driver_device *device);
    /* Both may be NULL, which means no. Whether launches are enqueued together in command buffers of the API, and
       whether compiled pipelines are kept for later processes in the cache folder. */
    bool (*has_command_buffers)(driver_device *device);
    bool (*has_pipeline_cache)(driver_device *device);
    /* Reports, without waiting, whether all of the staging's copies are done; if so, the host sees what they wrote.
       Fails if a copy failed. */
    tuff_status (*staging_poll)(driver_device *device, driver_staging *staging, bool *done);

    /* cached: the bytes that an earlier call returned in *made, checked for damage; if the blob is empty, the text is
       compiled. made: gets the bytes to keep, empty if none are worth keeping. A cached blob that the driver rejects is
       an error: the caller tries again without it. TUFF_E_COMPILE carries the first lines of the build log. */
    tuff_status (*program_create)(driver_device *device, const program_request *request, blob cached, blob *made,
                                  driver_program **program);
    void (*program_destroy)(driver_device *device, driver_program *program);
    /* program_create may be called from several threads at once and concurrently with any other call, including
       program_destroy of other programs: all that it touches of the device is set when the device is opened, or has a
       lock of the driver's own. A driver that does not trust its compiler with several threads takes turns inside. */
    bool compiles_in_parallel;
    /* May be NULL, which means no. Whether the bytes in *made would cost a second compilation. If so, program_create is
       not asked for them (made is NULL): programs that proved useful get them from program_bytes, which may be NULL if
       is_binary_costly is. */
    bool (*is_binary_costly)(driver_device *device);
    tuff_status (*program_bytes)(driver_device *device, driver_program *program, blob *made);

    /* Both may be NULL. After collect_spill_statistics, programs are created so that spilled_bytes knows how many bytes
       of registers each work-item keeps in memory, including arrays that are not in registers; 0: none, or unknown. The
       driver may cache such programs separately: a device without collect_spill_statistics then compiles them once
       more. */
    void (*collect_spill_statistics)(driver_device *device);
    tuff_status (*spilled_bytes)(driver_device *device, driver_program *program, uint64_t *out);

    /* Records commands for many replays. The bindings' buffers and the programs outlive the recording. timed: writes
       timestamps around every command. */
    tuff_status (*recording_create)(driver_device *device, const command *commands, int count, bool timed,
                                    driver_recording **recording);
    void (*recording_destroy)(driver_device *device, driver_recording *recording);
    tuff_status (*submit)(driver_device *device, driver_recording *recording); /* enqueues and returns */
    /* May be NULL. Returns the index of the dispatch that the driver refused in the last submit, or -1. */
    int (*refused_dispatch)(const driver_recording *recording);
    /* May be NULL. Called after an out-of-memory failure: whether the device accepts no more work at all. */
    bool (*is_lost)(driver_device *device);
    /* Waits, never endlessly: returns TUFF_E_TIMEOUT after the limit (30 s since the last sign of progress;
       240 s, because drivers compile late, for OpenCL work that has not begun and on Vulkan drivers for the CPU). */
    tuff_status (*wait)(driver_device *device);
    /* May be NULL. Sets the limit of later waits; 0: the initial one. */
    void (*set_timeout)(driver_device *device, uint64_t nanoseconds);
    /* After wait: returns the nanoseconds that each command took in the last submission of a timed recording. */
    tuff_status (*timestamps)(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
    /* After wait: returns when each command began, by a clock of the driver. */
    tuff_status (*start_times)(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);

    /* All may be NULL if an application's own objects cannot be used. wrap: like describe and open; handles is the
       API's tuff_opencl_handles or tuff_vulkan_handles. buffer_import: handle is a cl_mem or a tuff_vulkan_buffer;
       *size gets the buffer's bytes. */
    tuff_status (*wrap)(const void *handles, tuff_device_info *info, driver_device **device);
    tuff_status (*buffer_import)(driver_device *device, const void *handle, uint64_t *size, driver_buffer **buffer);
    /* enqueue_wait makes later submissions wait for the signal; enqueue_signal raises it after the earlier ones,
       creating the event for it in OpenCL. Neither waits. */
    tuff_status (*enqueue_wait)(driver_device *device, const driver_signal *signal);
    tuff_status (*enqueue_signal)(driver_device *device, driver_signal *signal);
    /* The reverse, for every device and buffer: unwrap fills in the API's handles, buffer_unwrap the API's field of the
       handle. The driver keeps ownership of the objects. */
    void (*unwrap)(driver_device *device, void *handles);
    void (*buffer_unwrap)(driver_buffer *buffer, tuff_buffer_handle *handle);
    /* Returns NULL if products can be left to a library, else the reason. The slot may be NULL: there is no library for
       this API. */
    const char *(*library_unavailable_reason)(driver_device *device);
    /* May be NULL, which means yes. Whether a command of that many seconds by the cost model may be submitted whole. */
    bool (*takes_whole)(driver_device *device, double seconds);
} driver;

#define DRIVER(name, option, api, kernels) extern const driver tuff__driver_##name;
#include "device/drivers.def"
#undef DRIVER

#endif
