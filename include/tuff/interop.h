/* Objects of OpenCL and Vulkan that a program and tuff share, in both directions.

   A program with a device of its own wraps it, imports its buffers as arrays, and gets plans that run on its queue:
   tuff_device_wrap_vulkan, tuff_array_import_vulkan; tuff_device_wrap_opencl, tuff_array_import. Nothing is copied, and
   what the program made stays its own to destroy. A program without one asks for tuff's: tuff_device_unwrap_vulkan,
   tuff_device_unwrap_opencl, tuff_array_unwrap.

   The program's work and tuff's follow each other on the device, without a wait of the host: tuff_vulkan_enqueue_wait
   and tuff_vulkan_enqueue_signal by semaphores, tuff_opencl_enqueue_wait and tuff_opencl_enqueue_signal by events.

   No header of OpenCL or Vulkan is needed here: handles are void *, or uint64_t where they may be wider than a pointer.
   docs/embedding.md shows how the calls go together, examples/vulkan_interop.c and examples/opencl_interop.c are whole
   programs. */
#ifndef TUFF_INTEROP_H
#define TUFF_INTEROP_H

#include "tuff/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The Vulkan objects of a device. Zero is the default of every field below get_instance_proc. */
typedef struct tuff_vulkan_handles {
    void *instance, *physical_device, *device, *queue; /* VkInstance, VkPhysicalDevice, VkDevice, VkQueue */
    uint32_t queue_family;                             /* of queue; it must have VK_QUEUE_COMPUTE_BIT */
    /* vkGetInstanceProcAddr: every call on these objects is looked up by it, once. */
    void *(*get_instance_proc)(void *instance, const char *name);
    /* What instance and device were created with. tuff uses nothing else, and does without what is not named here:
       VkApplicationInfo::apiVersion (0: Vulkan 1.1), the names of the device's extensions, and the chain of feature
       structures, from a VkPhysicalDeviceFeatures2 or any other on through pNext (NULL: no feature was enabled; what
       was enabled by pEnabledFeatures is named by a VkPhysicalDeviceFeatures2). All of it is read during the call
       only. */
    uint32_t api_version, extension_count;
    const char *const *extensions;
    const void *features;
    /* Vulkan leaves the locking of a queue to its users. These are called around each of tuff's vkQueueSubmit to queue,
       from the thread that called tuff or one of tuff's own, with lock_user: the program's other threads may submit to
       it at any other time. Never call tuff from them, nor with that lock held: tuff may wait for it under a lock of
       its own. Both may be NULL if no other thread submits to the queue while a call to tuff with this device is in
       progress, while a checkpoint writer saves, while a loader with workers uploads ahead, or while a plan is tuned in
       the background (these use threads of their own). */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
    uint64_t reserved[8];
} tuff_vulkan_handles;

/* A device on an application's own Vulkan objects. It is used like any other; tuff_device_info::selector is
   "vulkan:wrapped". The objects must outlive it: destroy plans and arrays, close the device, then destroy the VkDevice.
   tuff_device_close waits for tuff's own work only, and destroys what tuff made on the VkDevice and nothing else.
   The queue may be shared, also by several wrapped devices: tuff's submissions begin behind the compute and transfer
   work that was submitted to it earlier and see what that wrote, so that only work of other stages and queues needs
   semaphores; the application's begin with a barrier of their own. tuff needs no loader of its own for all this.
   NULL on failure: TUFF_E_USAGE where handles or a handle is NULL, the family does not exist, or one callback of two is
   missing; TUFF_E_UNSUPPORTED where device or instance are older than Vulkan 1.1 or the family does not compute;
   TUFF_E_NO_DEVICE where tuff was built without Vulkan or get_instance_proc lacks a function of Vulkan 1.1. */
TUFF_API tuff_device *tuff_device_wrap_vulkan(const tuff_vulkan_handles *handles);
/* Writes the device's Vulkan objects to handles: of a wrapped device those that it was made of, without features and
   extensions. Those of a device that tuff opened are borrowed: valid until it is closed (instance and get_instance_proc
   until the process ends), and the application must not destroy them. While the application submits to this queue, no
   other thread may call tuff with such a device, nor may one of tuff's own be at work with it: a checkpoint writer's, a
   loader's that uploads ahead, background tuning's. TUFF_E_UNSUPPORTED where the device is not a Vulkan device. */
TUFF_API tuff_status tuff_device_unwrap_vulkan(tuff_device *device, tuff_vulkan_handles *handles);
/* One line of text: the Vulkan version, features and extensions that tuff uses. Static storage. */
TUFF_API const char *tuff_vulkan_requirements(void);

/* Later work of tuff's on the device (runs, copies, reads and writes of arrays) begins when the semaphore is signalled,
   and sees everything that was written before. Enqueues that and returns. value is that of a timeline semaphore, which
   may be signalled later; 0 means a binary semaphore, whose signal must have been submitted before. semaphore is a
   VkSemaphore of the device and must live until the wait is over. A wait of the host for this work, such as
   tuff_array_read, gives up after 30 s without progress, with TUFF_E_TIMEOUT: time in which nobody signals counts.
   tuff_plan_run waits as well, once more than 31 submissions are under way, and a plan may have more than that: the
   signal must not depend on what the thread that runs plans does next, nor on another call for this device.
   TUFF_E_USAGE where device is NULL or semaphore is 0; TUFF_E_UNSUPPORTED where the device is not a Vulkan device, or
   where value is not 0 and the feature timelineSemaphore was not enabled: devices that tuff opens have it where there
   is one. */
TUFF_API tuff_status tuff_vulkan_enqueue_wait(tuff_device *device, uint64_t semaphore, uint64_t value);
/* The semaphore is signalled, with that value or, 0, as a binary one, when all work enqueued so far has finished; what
   that wrote is then available to whatever waits for the semaphore. Enqueues that and returns. semaphore must live
   until then. Errors as above; TUFF_E_USAGE also where value is not above what a timeline semaphore has or will get by
   signals enqueued here. */
TUFF_API tuff_status tuff_vulkan_enqueue_signal(tuff_device *device, uint64_t semaphore, uint64_t value);

/* A buffer of an application's, as it was created. */
typedef struct tuff_vulkan_buffer {
    uint64_t buffer; /* VkBuffer, bound to memory of any kind, which need not be mapped */
    uint64_t size;   /* VkBufferCreateInfo::size */
    uint32_t usage;  /* VkBufferCreateInfo::usage: storage, transfer source and transfer destination at least */
    uint32_t reserved[7];
} tuff_vulkan_buffer;

/* An array on a VkBuffer of the device's, without a copy: its elements lie from byte offset on, a multiple of the
   dtype's size, and end with a whole word of 4 bytes within the buffer, to whose other bytes nobody may write at the
   same time. Plans and copies work on the buffer itself; tuff_array_read and tuff_array_write go through staging
   memory. Buffer and memory belong to the application and must outlive the array, its views, and the plans that use
   them. tuff_array_destroy waits until no work of tuff's uses the buffer, so that the application may destroy it then.
   A buffer of VK_SHARING_MODE_EXCLUSIVE must be owned by the family of the device's queue. Import a buffer once at a
   time, and make views (tuff_array_view) for its parts: arrays of two imports count as arrays that share no element.
   NULL on failure: TUFF_E_USAGE where an argument is NULL or 0, the usage lacks a flag, the size is more than the
   buffer can have or the array does not lie within it; TUFF_E_DTYPE, TUFF_E_SHAPE; TUFF_E_UNSUPPORTED where the device
   is not a Vulkan device. */
TUFF_API tuff_array *tuff_array_import_vulkan(tuff_device *device, const tuff_vulkan_buffer *buffer, uint64_t offset,
                                              tuff_dtype dtype, tuff_shape shape);

/* The OpenCL objects of a device. */
typedef struct tuff_opencl_handles {
    void *context;   /* cl_context */
    void *device_id; /* cl_device_id */
    void *queue;     /* cl_command_queue, in order */
    void *reserved[4];
} tuff_opencl_handles;
/* A device on an application's own OpenCL objects, which are retained until it is closed;
   tuff_device_info::selector is "opencl:wrapped". The queue must be in order and belong to context and device_id. NULL
   on failure: TUFF_E_USAGE where handles or one of them is NULL or they do not belong together, TUFF_E_UNSUPPORTED for
   an out-of-order queue, TUFF_E_NO_DEVICE where tuff was built without OpenCL or finds no loader. */
TUFF_API tuff_device *tuff_device_wrap_opencl(const tuff_opencl_handles *handles);
/* Writes the device's OpenCL objects to handles. They are borrowed: valid until the device is closed, unless the
   application retains them. tuff submits all its work to this queue, so commands that the application enqueues on it
   run after earlier and before later work of tuff's, without a wait. Other queues are ordered by
   tuff_opencl_enqueue_wait and tuff_opencl_enqueue_signal. TUFF_E_UNSUPPORTED where the device is not an OpenCL
   device. */
TUFF_API tuff_status tuff_device_unwrap_opencl(tuff_device *device, tuff_opencl_handles *handles);

/* Later work of tuff's on the device begins when the event is complete. Enqueues that and returns. event is a cl_event
   of the device's context, also a user event; the queue of its command must be flushed. It may be released at once.
   Where the event ends in an error, so does the work behind it, as far as the driver tells. A wait of the host for
   work that has not begun gives up after 240 s, for work that runs after 30 s without progress, with TUFF_E_TIMEOUT;
   tuff_plan_run waits as well where much is under way: what completes the event must not depend on what the thread
   that runs plans does next, nor on another call for this device. TUFF_E_USAGE where an
   argument is NULL or the event is one of another context, TUFF_E_UNSUPPORTED where the device is not an OpenCL device.
   */
TUFF_API tuff_status tuff_opencl_enqueue_wait(tuff_device *device, void *event);
/* Writes to event a cl_event that is complete when all work enqueued so far has finished: to be named in wait lists of
   other queues of the context. The caller owns it and calls clReleaseEvent. Errors as above; event stays as it was
   then. */
TUFF_API tuff_status tuff_opencl_enqueue_signal(tuff_device *device, void **event);

/* An array on a buffer of the application (a cl_mem of the device's context), from byte offset on, a multiple of the
   dtype's size. The buffer is retained until the array and its views are destroyed. Import it once at a time, and make
   views (tuff_array_view) for its parts: arrays of two imports count as arrays that share no element. NULL on failure:
   TUFF_E_UNSUPPORTED where the device is not an OpenCL device, TUFF_E_USAGE where the buffer belongs to another
   context, is too small, or cannot be read and written by host and kernels. */
TUFF_API tuff_array *tuff_array_import(tuff_device *device, void *buffer, uint64_t offset, tuff_dtype dtype,
                                       tuff_shape shape);

/* Where an array's elements lie. */
typedef struct tuff_buffer_handle {
    void *opencl;          /* the cl_mem; NULL on Vulkan */
    uint64_t vulkan;       /* the VkBuffer, with storage and transfer usage; 0 on OpenCL */
    uint64_t offset, size; /* bytes of the array in that buffer, which may be larger */
    uint64_t reserved[4];
} tuff_buffer_handle;
/* Writes the buffer behind an array to handle. It is borrowed: valid until the array and all its views are destroyed,
   and the application must not free it; afterwards tuff may use the memory for something else, even if the application
   retained a cl_mem. The application orders its commands on it with tuff's as for imported buffers, by semaphores or
   events. TUFF_E_UNSUPPORTED on the reference device, whose arrays have no buffer. */
TUFF_API tuff_status tuff_array_unwrap(tuff_array *array, tuff_buffer_handle *handle);
/* To be called after the application wrote to an array's buffer by itself: plans keep repacked copies of weights, and
   make them again only when the version changes. Imported arrays need no call. TUFF_E_USAGE where array is NULL. */
TUFF_API tuff_status tuff_array_touch(tuff_array *array);

#ifdef __cplusplus
}
#endif
#endif
