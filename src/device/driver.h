/* The whole boundary to an API: one table of functions. A driver knows bytes, programs and grids; never tensors or ops.
   The files of src/device validate and lock before they call a driver: every slot is called with the device's lock
   held, but for program_create where a flag beside it says that it need not be; arguments are in range, sizes are not
   0. A driver returns statuses with a message made by FAIL; state.c keeps a lost device lost. */
#ifndef TUFF_DEVICE_DRIVER_H
#define TUFF_DEVICE_DRIVER_H

#include "base/status.h"
#include "tuff/device.h"
#include "tuff/interop.h"

typedef struct driver_device driver_device;
typedef struct driver_buffer driver_buffer;
typedef struct driver_program driver_program;
typedef struct driver_recording driver_recording;
typedef struct driver_staging driver_staging;

typedef struct blob {
    void *data; /* tuff__free */
    size_t size;
} blob;

/* One kernel. text is what the driver's compiler gets: OpenCL C with one kernel function `name`, or GLSL with main.
   The kernel sees buffer_count storage buffers (OpenCL: arguments 0..buffer_count-1; Vulkan: set 0, bindings
   0..buffer_count-1) and word_count 32-bit words (OpenCL: the arguments after the buffers, uint each; Vulkan: push
   constants). Groups lie on one logical axis of local_size items each; see command. */
typedef struct program_request {
    const char *name, *text;
    int buffer_count, word_count;
    uint32_t local_size;
    uint32_t subgroup_size; /* required width; 0: any */
    bool many_registers;    /* twice as many to a lane, where lanes can be given up for them (Intel's GPUs) */
} program_request;

typedef struct buffer_binding {
    driver_buffer *buffer;
    uint64_t offset, size; /* Vulkan binds the range; offset is a multiple of offset_alignment. OpenCL binds the whole
                              buffer: the kernel gets the offset as data */
    bool written;
} buffer_binding;

/* A copy between staging memory and a buffer. */
typedef struct staged_copy {
    driver_buffer *buffer;
    uint64_t offset, staging_offset, size;
} staged_copy;

/* What an application's work and tuff's order each other by: an event of OpenCL, or a semaphore of Vulkan and its value
   (0: a binary one). */
typedef struct driver_signal {
    void *event;
    uint64_t semaphore, value;
} driver_signal;

#define MAX_STAGED_COPIES 32

#define MAX_BINDINGS 32
#define MAX_WORDS 8

typedef enum command_kind { COMMAND_DISPATCH, COMMAND_COPY, COMMAND_FILL_ZERO, COMMAND_PRODUCT } command_kind;

/* A matrix of f32 in a binding, counted in elements. Elements of a line lie side by side. */
typedef struct library_matrix {
    int64_t start, line, step; /* the first element; from line to line; from one matrix of a batch to the next */
    bool transposed;           /* its lines are columns */
} library_matrix;

/* result (rows × columns) = x (rows × inner) · y (inner × columns), once for each of a batch. */
typedef struct library_product {
    int64_t rows, columns, inner, batches;
    library_matrix matrices[3]; /* x, y, result: bindings 0, 1, 2 */
} library_product;

/* One step of a recording. A dispatch runs group_count groups of program; the last word of `words` is the base that the
   kernel adds to its group index: the driver fills it in when it must split a dispatch (65,535 groups an axis,
   watchdogs: submit/pace.h), and passes 0 otherwise. A Vulkan kernel finds its group as
   gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + base and does nothing beyond the count, which it gets from
   its own parameters. A copy moves size bytes from bindings[0] to bindings[1]; a fill zeroes bindings[0]. Offsets and
   sizes of copies and fills are multiples of 4. A product comes only where library_absence answers NULL. */
typedef struct command {
    command_kind kind;
    driver_program *program;
    uint64_t group_count;
    int binding_count, word_count;
    buffer_binding bindings[MAX_BINDINGS];
    uint32_t words[MAX_WORDS];
    library_product product;
    double seconds; /* that the cost model expects it to take; 0: next to none, or not known */
    bool barrier; /* everything before must be visible to this command: set by tuff__hazards, the one place that does */
    bool after_copy, after_dispatch; /* what kinds of commands the barrier waits for */
} command;

typedef struct driver {
    const char *name;     /* "opencl" */
    const char *language; /* "OpenCL C" or "GLSL": what the assembler writes for it */
    /* The number of devices; 0 with *absence set where the API is not to be had. Called once. */
    int (*count)(const char **absence);
    tuff_status (*describe)(int index, tuff_device_info *info);
    tuff_status (*open)(int index, driver_device **device);
    void (*close)(driver_device *device);
    /* Text that identifies compiler and device exactly: platform, versions, UUIDs. Part of every cache key. */
    const char *(*identity)(driver_device *device);
    /* What programs are built with beyond their text: the compiler's options. Part of the key of compiled programs and
       of what a device proved. */
    const char *(*build_options)(driver_device *device);

    tuff_status (*buffer_create)(driver_device *device, uint64_t size, driver_buffer **buffer); /* contents undefined */
    /* May be NULL. The same where buffer_create finds no memory: also where the device is slow to reach it. */
    tuff_status (*buffer_create_anywhere)(driver_device *device, uint64_t size, driver_buffer **buffer);
    void (*buffer_destroy)(driver_device *device, driver_buffer *buffer); /* waits until no submission uses it */
    /* The source may be reused on return; ordered before later submissions and after earlier ones. */
    tuff_status (*buffer_write)(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                                uint64_t size);
    /* Waits for earlier submissions. */
    tuff_status (*buffer_read)(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                               uint64_t size);

    /* Enqueues a copy between buffers, ordered as a write; ranges of one buffer do not overlap. */
    tuff_status (*buffer_copy)(driver_device *device, driver_buffer *from, uint64_t from_offset, driver_buffer *to,
                               uint64_t to_offset, uint64_t size);

    /* Memory of the host, pinned where the API can do that, from and to which the device copies while the host goes on.
       *memory: size bytes, valid until staging_destroy, which waits, within bounds, for copies under way. sends:
       staging_send may be called. */
    tuff_status (*staging_create)(driver_device *device, uint64_t size, bool sends, driver_staging **staging,
                                  void **memory);
    void (*staging_destroy)(driver_device *device, driver_staging *staging);
    /* Enqueues copies to buffers where `upload`, else from them, and returns: ordered after earlier submissions and
       before later ones. count is 1 to MAX_STAGED_COPIES; the staging's earlier copies are known to be done. */
    tuff_status (*staging_copy)(driver_device *device, driver_staging *staging, const staged_copy *copies, int count,
                                bool upload);
    /* Enqueues the copy of the first size bytes to device memory that belongs to the staging, and returns: on the queue
       of uploads, beside earlier and later submissions. The next staging_copy up is ordered behind it and takes the
       bytes from there. The staging's earlier copies are known to be done. */
    tuff_status (*staging_send)(driver_device *device, driver_staging *staging, uint64_t size);
    /* Whether that queue is another than the one that computes. */
    bool (*has_upload_queue)(driver_device *device);
    /* Whether all of these are done, without waiting; then the host sees what they brought. Fails where they did. */
    tuff_status (*staging_poll)(driver_device *device, driver_staging *staging, bool *done);

    /* cached: the bytes that an earlier call gave in *made, proved undamaged; an empty blob compiles the text. made:
       gets the bytes to keep, empty where there is nothing worth keeping. A cached blob that the driver refuses is an
       error: the caller tries again without. TUFF_E_COMPILE carries the build log's first lines. */
    tuff_status (*program_create)(driver_device *device, const program_request *request, blob cached, blob *made,
                                  driver_program **program);
    void (*program_destroy)(driver_device *device, driver_program *program);
    /* program_create with cached bytes may be called from several threads at once, while nothing else is. */
    bool loads_in_parallel;
    /* program_create may be called from several threads at once, beside any other call, program_destroy of other
       programs among them: what it touches of the device is set when that is opened, or has a lock of the driver's. A
       driver that does not trust a compiler with several threads takes turns inside. */
    bool compiles_in_parallel;
    /* May be NULL, which means no: whether the bytes in *made cost another compilation. program_create is then never
       asked for them, made is NULL; program_bytes is, which may be NULL with it, for programs that were of use. */
    bool (*is_binary_costly)(driver_device *device);
    tuff_status (*program_bytes)(driver_device *device, driver_program *program, blob *made);

    /* Both may be NULL. From tell_spills on, programs are created so that spilled_bytes knows how many bytes of its
       registers each work-item keeps in memory, arrays that are no registers included; 0: none, or not known. Such
       programs may have their own places in the driver's caches: a device that was not told compiles them once more. */
    void (*tell_spills)(driver_device *device);
    tuff_status (*spilled_bytes)(driver_device *device, driver_program *program, uint64_t *out);

    /* Records commands for many replays. The bindings' buffers and programs outlive the recording. timed: timestamps
       around every command. */
    tuff_status (*recording_create)(driver_device *device, const command *commands, int count, bool timed,
                                    driver_recording **recording);
    void (*recording_destroy)(driver_device *device, driver_recording *recording);
    tuff_status (*submit)(driver_device *device, driver_recording *recording); /* enqueues and returns */
    /* May be NULL. The dispatch that the driver refused, by what submit answered last: its index, or -1. */
    int (*refused_dispatch)(const driver_recording *recording);
    /* May be NULL. Asked after a failure for want of memory: whether the device takes no more work at all. */
    bool (*is_lost)(driver_device *device);
    /* Bounded: TUFF_E_TIMEOUT after the limit (30 s since the last sign of progress; OpenCL: 8 times that for what has
       not begun, for drivers compile late), never an endless wait. */
    tuff_status (*wait)(driver_device *device);
    /* May be NULL. The limit from now on; 0: as at first. */
    void (*set_timeout)(driver_device *device, uint64_t nanoseconds);
    /* After wait: nanoseconds of each command of the last submission of a timed recording. */
    tuff_status (*timestamps)(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
    /* Likewise, when each of them began, by a clock of the driver's. */
    tuff_status (*start_times)(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);

    /* All may be NULL, where an application's own objects cannot be used. wrap: like describe and open; handles is the
       tuff_opencl_handles or tuff_vulkan_handles of the API. buffer_import: handle is a cl_mem or a tuff_vulkan_buffer;
       *size gets the buffer's bytes. */
    tuff_status (*wrap)(const void *handles, tuff_device_info *info, driver_device **device);
    tuff_status (*buffer_import)(driver_device *device, const void *handle, uint64_t *size, driver_buffer **buffer);
    /* Enqueues that later submissions begin behind the signal; and that it is given behind the earlier ones, which
       OpenCL makes an event for. Neither waits. */
    tuff_status (*enqueue_wait)(driver_device *device, const driver_signal *signal);
    tuff_status (*enqueue_signal)(driver_device *device, driver_signal *signal);
    /* The reverse, for every device and buffer: unwrap fills the API's handles, buffer_unwrap its field of the handle.
       What they write stays the driver's. */
    void (*unwrap)(driver_device *device, void *handles);
    void (*buffer_unwrap)(driver_buffer *buffer, tuff_buffer_handle *handle);
    /* NULL where products can be left to a library, else why not. The slot may be NULL: there is none for this API. */
    const char *(*library_absence)(driver_device *device);
} driver;

#define DRIVER(name, option, api) extern const driver tuff__driver_##name;
#include "device/drivers.def"
#undef DRIVER

#endif
