/* OpenCL and Vulkan objects that a program and tuff share, in both directions.

   A program that has a device wraps it, imports its buffers as arrays, and gets plans that run on its queue:
   tuff_device_wrap_vulkan, tuff_array_import_vulkan; tuff_device_wrap_opencl, tuff_array_import. Nothing is copied, and
   the program still destroys what it created. A program without a device borrows tuff's: tuff_device_unwrap_vulkan,
   tuff_device_unwrap_opencl, tuff_array_unwrap.

   Work of the program and of tuff is ordered on the device, without a wait on the host: by semaphores with
   tuff_vulkan_enqueue_wait and tuff_vulkan_enqueue_signal, by events with tuff_opencl_enqueue_wait and
   tuff_opencl_enqueue_signal.

   No header of OpenCL or Vulkan is needed here: handles are void *, or uint64_t if they may be wider than a pointer.
   docs/embedding.md shows how the calls work together; examples/vulkan_interop.c and examples/opencl_interop.c are
   complete programs. */
#ifndef TUFF_INTEROP_H
#define TUFF_INTEROP_H

#include "tuff/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The Vulkan objects of a device. Zero is the default of every field below get_instance_proc. */
typedef struct tuff_vulkan_handles {
    void *instance, *physical_device, *device, *queue; /* VkInstance, VkPhysicalDevice, VkDevice, VkQueue */
    uint32_t queue_family;                             /* family of queue; must have VK_QUEUE_COMPUTE_BIT */
    /* vkGetInstanceProcAddr: used to look up every function called on these objects, once. */
    void *(*get_instance_proc)(void *instance, const char *name);
    /* What instance and device were created with; tuff uses nothing that is not listed here:
       VkApplicationInfo::apiVersion (0: Vulkan 1.1), the names of the device's extensions, and the pNext chain of
       feature structures, beginning with a VkPhysicalDeviceFeatures2 or any other (NULL: no feature was enabled;
       features enabled through pEnabledFeatures are listed by a VkPhysicalDeviceFeatures2). All of it is read only
       during the call. */
    uint32_t api_version, extension_count;
    const char *const *extensions;
    const void *features;
    /* Vulkan leaves the locking of a queue to its users. These callbacks are called around each vkQueueSubmit of tuff
       to queue, with lock_user, by the thread that called tuff or one of tuff's own: the program's other threads may
       submit to the queue at any other time. Never call tuff from them, nor with that lock held: tuff may wait for it
       while holding a lock of its own. Both may be NULL if no other thread submits to the queue while a call to tuff
       with this device is in progress, while a checkpoint writer saves, while a loader with workers uploads ahead, or
       while a plan is tuned in the background (these use threads of their own). */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
    uint64_t reserved[8];
} tuff_vulkan_handles;

/* Creates a device on an application's own Vulkan objects. It is used like any other; tuff_device_info::selector is
   "vulkan:wrapped". The objects must outlive it: destroy plans and arrays, close the device, then destroy the VkDevice.
   tuff_device_close waits only for tuff's own work, and destroys only what tuff made on the VkDevice. The queue may be
   shared, also by several wrapped devices: tuff's submissions start after the compute and transfer work that was
   submitted to the queue earlier and see what that wrote, so only work of other stages and queues needs semaphores; the
   application's submissions must begin with a barrier of their own. tuff does not need the Vulkan loader for this. NULL
   on failure: TUFF_E_USAGE if handles or a handle is NULL, the family does not exist, or only one of the two callbacks
   is set; TUFF_E_UNSUPPORTED if device or instance are older than Vulkan 1.1 or the family does not support compute;
   TUFF_E_NO_DEVICE if tuff was built without Vulkan or get_instance_proc lacks a function of Vulkan 1.1. */
TUFF_API tuff_device *tuff_device_wrap_vulkan(const tuff_vulkan_handles *handles);
/* Writes the device's Vulkan objects to handles: for a wrapped device those that it was created from, without features
   and extensions. Those of a device that tuff opened are borrowed: they are valid until it is closed (instance and
   get_instance_proc until the process ends), and the application must not destroy them. While the application submits
   to this queue, no other thread may call tuff with such a device, and none of tuff's own threads may use it: those of
   a checkpoint writer, of a loader that uploads ahead, of background tuning. TUFF_E_UNSUPPORTED if the device is not a
   Vulkan device. */
TUFF_API tuff_status tuff_device_unwrap_vulkan(tuff_device *device, tuff_vulkan_handles *handles);
/* Returns one line of text: the Vulkan version, features and extensions that tuff uses. Static storage. */
TUFF_API const char *tuff_vulkan_requirements(void);

/* Makes tuff's later work on the device (runs, copies, reads and writes of arrays) wait for the semaphore and see
   everything that was written before its signal. Enqueues the wait and returns. value is that of a timeline semaphore,
   which may be signalled later; 0 means a binary semaphore, whose signal must have been submitted before. semaphore is
   a VkSemaphore of the device and must live until the wait is over. A wait of the host for this work, such as
   tuff_array_read, gives up with TUFF_E_TIMEOUT after 30 s without progress (240 s on Vulkan drivers for the CPU),
   including time in which nobody signals. Of the calls that enqueue work, writes and copies of arrays wait too once
   eight are in flight (one for each 2 MiB), as do large writes to memory that the host reaches. On a device that was
   wrapped, or unwrapped before, tuff_plan_run does not wait unless 65536 submissions are in flight, so that the signal
   may follow in the same thread. TUFF_E_USAGE if device is NULL or semaphore is 0; TUFF_E_UNSUPPORTED if the device is
   not a Vulkan device, or if value is not 0 and the feature timelineSemaphore was not enabled: devices that tuff opens
   have it if the driver supports it. */
TUFF_API tuff_status tuff_vulkan_enqueue_wait(tuff_device *device, uint64_t semaphore, uint64_t value);
/* Signals the semaphore, with that value or, if it is 0, as a binary semaphore, when all work enqueued so far has
   finished; what that work wrote is then available to waiters of the semaphore. Enqueues the signal and returns.
   semaphore must live until then. Errors as above; TUFF_E_USAGE also if value is not greater than the value that a
   timeline semaphore has or will get from signals enqueued here. */
TUFF_API tuff_status tuff_vulkan_enqueue_signal(tuff_device *device, uint64_t semaphore, uint64_t value);

/* An application's buffer, as it was created. */
typedef struct tuff_vulkan_buffer {
    uint64_t buffer; /* VkBuffer, bound to any kind of memory, which need not be mapped */
    uint64_t size;   /* VkBufferCreateInfo::size */
    uint32_t usage;  /* VkBufferCreateInfo::usage: at least storage, transfer source and transfer destination */
    uint32_t reserved[7];
} tuff_vulkan_buffer;

/* Creates an array on a VkBuffer of the device, without a copy. Its elements begin at byte offset, a multiple of the
   dtype's size, and the last 4-byte word that they touch must lie within the buffer; nobody may write to the other
   bytes of that word at the same time. Plans and copies work on the buffer itself; tuff_array_read and tuff_array_write
   go through staging memory. Buffer and memory belong to the application and must outlive the array, its views, and the
   plans that use them. tuff_array_destroy waits until no work of tuff uses the buffer, so that the application may then
   destroy it. A buffer of VK_SHARING_MODE_EXCLUSIVE must be owned by the family of the device's queue. Import a buffer
   only once at a time, and create views (tuff_array_view) for its parts: arrays of two imports are assumed to share no
   element. NULL on failure: TUFF_E_USAGE if an argument is NULL or 0, the usage lacks a flag, the size is more than the
   buffer can have or the array does not lie within it; TUFF_E_DTYPE, TUFF_E_SHAPE; TUFF_E_UNSUPPORTED if the device is
   not a Vulkan device. */
TUFF_API tuff_array *tuff_array_import_vulkan(tuff_device *device, const tuff_vulkan_buffer *buffer, uint64_t offset,
                                              tuff_dtype dtype, tuff_shape shape);

/* The OpenCL objects of a device. */
typedef struct tuff_opencl_handles {
    void *context;   /* cl_context */
    void *device_id; /* cl_device_id */
    void *queue;     /* cl_command_queue, in-order */
    void *reserved[4];
} tuff_opencl_handles;
/* Creates a device on an application's own OpenCL objects, which are retained until it is closed;
   tuff_device_info::selector is "opencl:wrapped". The queue must be in-order and belong to context and device_id. NULL
   on failure: TUFF_E_USAGE if handles or one of them is NULL or they do not belong together, TUFF_E_UNSUPPORTED for an
   out-of-order queue or a device without OpenCL 1.2, a compiler or little-endian numbers, TUFF_E_NO_DEVICE if tuff was
   built without OpenCL or finds no loader. */
TUFF_API tuff_device *tuff_device_wrap_opencl(const tuff_opencl_handles *handles);
/* Writes the device's OpenCL objects to handles. They are borrowed: valid until the device is closed, unless the
   application retains them. tuff submits all its work to this queue, so commands that the application enqueues on it
   run after earlier and before later work of tuff, without a wait. Other queues are ordered by tuff_opencl_enqueue_wait
   and tuff_opencl_enqueue_signal. TUFF_E_UNSUPPORTED if the device is not an OpenCL device. */
TUFF_API tuff_status tuff_device_unwrap_opencl(tuff_device *device, tuff_opencl_handles *handles);

/* Makes tuff's later work on the device wait until the event is complete. Enqueues the wait and returns. event is a
   cl_event of the device's context, possibly a user event; the queue of its command must have been flushed. It may be
   released at once. If the event ends in an error, so does the work after it, as far as the driver reports it, and a
   wait of the host for that work fails with TUFF_E_USAGE. A wait of the host gives up with TUFF_E_TIMEOUT: for work
   that has not begun after 240 s, for work that runs after 30 s without progress. tuff_plan_run also waits if much work
   is pending: completion of the event must not depend on what the thread that runs plans does next, nor on another call
   for this device. TUFF_E_USAGE if an argument is NULL or the event belongs to another context, TUFF_E_UNSUPPORTED if
   the device is not an OpenCL device. */
TUFF_API tuff_status tuff_opencl_enqueue_wait(tuff_device *device, void *event);
/* Writes to *event a cl_event that is complete when all work enqueued so far has finished, for use in wait lists of
   other queues of the context. The caller owns it and calls clReleaseEvent. Errors as above; *event is then
   unchanged. */
TUFF_API tuff_status tuff_opencl_enqueue_signal(tuff_device *device, void **event);

/* Creates an array on a buffer of the application (a cl_mem of the device's context), beginning at byte offset, a
   multiple of the dtype's size. The buffer is retained until the array and its views are destroyed. Import a buffer
   only once at a time, and create views (tuff_array_view) for its parts: arrays of two imports are assumed to share no
   element. NULL on failure: TUFF_E_UNSUPPORTED if the device is not an OpenCL device, TUFF_E_USAGE if the buffer
   belongs to another context, is too small, or cannot be read and written by host and kernels. */
TUFF_API tuff_array *tuff_array_import(tuff_device *device, void *buffer, uint64_t offset, tuff_dtype dtype,
                                       tuff_shape shape);

/* The location of an array's elements. */
typedef struct tuff_buffer_handle {
    void *opencl;          /* the cl_mem; NULL on Vulkan */
    uint64_t vulkan;       /* the VkBuffer, with storage and transfer usage; 0 on OpenCL */
    uint64_t offset, size; /* bytes of the array in that buffer, which may be larger */
    uint64_t reserved[4];
} tuff_buffer_handle;
/* Writes the buffer behind an array to *handle. It is borrowed: valid until the array and all its views are destroyed,
   and the application must not free it; afterwards tuff may use the memory for something else, even if the application
   retained a cl_mem. The application orders its commands on the buffer relative to tuff's as for imported buffers, with
   semaphores or events. TUFF_E_UNSUPPORTED on the reference device, whose arrays have no buffer. */
TUFF_API tuff_status tuff_array_unwrap(tuff_array *array, tuff_buffer_handle *handle);
/* Must be called after the application itself wrote to an array's buffer: plans keep repacked copies of weights, and
   repack them only when the array's version changes. Imported arrays need no call. TUFF_E_USAGE if array is NULL. */
TUFF_API tuff_status tuff_array_touch(tuff_array *array);

#ifdef __cplusplus
}
#endif
#endif
