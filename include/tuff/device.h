/* Devices: list them, open or wrap them; arrays: storage on a device. */
#ifndef TUFF_DEVICE_H
#define TUFF_DEVICE_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_device tuff_device; /* an opened device; may be shared by threads */
typedef struct tuff_array tuff_array;   /* storage on a device: dtype, shape, bytes */

typedef enum tuff_device_class {
    TUFF_DEVICE_CPU,
    TUFF_DEVICE_GPU_INTEGRATED,
    TUFF_DEVICE_GPU_DISCRETE,
    TUFF_DEVICE_OTHER,
    TUFF_DEVICE_REFERENCE
} tuff_device_class;

/* What a driver says of a device, and, where proved is true, what the self-test of the first open found.
   Sizes are bytes. */
typedef struct tuff_device_info {
    char name[128];    /* as the driver spells it */
    char selector[32]; /* what tuff_device_open takes: "opencl:0", "vulkan:1", "reference" */
    char driver[128];  /* driver or platform name and version */
    char api[32];      /* "OpenCL 3.0", "Vulkan 1.3" */
    tuff_device_class device_class;
    uint32_t vendor_id;
    uint32_t device_id;
    uint64_t memory_size;       /* of the device */
    uint64_t max_allocation;    /* of one buffer */
    uint64_t max_binding;       /* of one bound range */
    uint32_t offset_alignment;  /* of a bound range */
    uint32_t local_memory_size; /* of a work-group */
    uint32_t max_group_size;
    uint32_t compute_units;
    uint32_t max_bindings;  /* storage buffers that one kernel can see */
    uint32_t subgroup_size; /* as the driver claims; 0: none */
    uint32_t vector_width;  /* native float lanes, as the driver claims; 0: unknown */
    bool narrow_storage;    /* kernels can store single 8-bit and 16-bit elements */
    bool half_arithmetic;
    bool int64;
    bool proved;                   /* the self-test ran; the fields below are its results */
    uint32_t proved_subgroup_size; /* counted lanes; 0 where not proved */
    bool proved_barrier;           /* local memory and barriers work */
    bool proved_narrow_storage;
    bool proved_nan; /* NaN payloads survive a copy kernel */
    bool proved_negative_zero;
    bool proved_denormals; /* f32 denormals survive arithmetic */
    bool subgroup_shuffle; /* lanes of a subgroup can read each other's registers */
    /* Subgroups multiply blocks of 16 by 16 f16 and add in f32: 1 as VK_NV_cooperative_matrix, 2 as
       VK_KHR_cooperative_matrix says; once proved is true, 0 where the self-test found no such block right. */
    uint32_t cooperative_matrix;
    /* The driver ends the loops of a kernel, without an error, after so many iterations of them all together; 0: it
       does not. llvmpipe (lavapipe) allows 65535, of which the self-test finds all but a few. */
    uint32_t loop_limit;
    uint32_t reserved[12];
} tuff_device_info;

/* The number of devices that the drivers on this machine offer, the reference device included (last).
   0 is never the answer. Loads the OpenCL and Vulkan loaders at the first call. */
TUFF_API int tuff_device_count(void);

/* Describes device index (0 to tuff_device_count() - 1) without opening it. */
TUFF_API tuff_status tuff_device_describe(int index, tuff_device_info *info);

/* Why an API offers no devices here ("libvulkan.so.1 could not be opened: install ..."), or NULL where it does.
   api is "opencl" or "vulkan". Static storage. */
TUFF_API const char *tuff_device_absence(const char *api);

/* Opens a device. name is "auto", "opencl", "opencl:1", "opencl:nvidia" (part of the name or the platform's,
   any case), the same with "vulkan", or "reference" (host, float64). NULL takes the environment variable
   TUFF_DEVICE, else "auto": discrete GPUs first, then integrated ones, then CPU devices (OpenCL before
   Vulkan), and never "reference". Answers NULL on failure. The first open on a machine runs a self-test, whose
   results are kept in the cache directory. */
TUFF_API tuff_device *tuff_device_open(const char *name);

/* Everything made on the device must have been destroyed. NULL is allowed. */
TUFF_API void tuff_device_close(tuff_device *device);

/* The description of an open device, the self-test's results filled in. */
TUFF_API tuff_status tuff_device_information(const tuff_device *device, tuff_device_info *info);

/* Counts since the device was opened. Reads are host reads of device memory. */
typedef struct tuff_device_counters {
    uint64_t reads, writes, submissions, dispatches;
    uint64_t programs_compiled, programs_from_disk;
    uint64_t bytes_allocated, bytes_peak; /* of device memory: now, and the highest */
    uint64_t reserved[8];
} tuff_device_counters;
TUFF_API tuff_status tuff_device_count_work(const tuff_device *device, tuff_device_counters *counters);

/* Uses an application's own OpenCL context and in-order queue (cl_context, cl_device_id, cl_command_queue), which
   must outlive the device. May answer NULL with TUFF_E_UNSUPPORTED. */
TUFF_API tuff_device *tuff_device_wrap_opencl(void *context, void *device_id, void *queue);

/* Uses an application's own Vulkan objects (VkInstance, VkPhysicalDevice, VkDevice, VkQueue), which must outlive
   the device. get_instance_proc is vkGetInstanceProcAddr. The device must have been created with the features
   that tuff_vulkan_requirements names. May answer NULL with TUFF_E_UNSUPPORTED. */
typedef struct tuff_vulkan_handles {
    void *instance, *physical_device, *device, *queue;
    uint32_t queue_family;
    void *(*get_instance_proc)(void *instance, const char *name);
    uint32_t reserved[8];
} tuff_vulkan_handles;
TUFF_API tuff_device *tuff_device_wrap_vulkan(const tuff_vulkan_handles *handles);
/* One line of text: the Vulkan version, extensions and features that tuff uses where present. Static storage. */
TUFF_API const char *tuff_vulkan_requirements(void);

/* A new array of zeros. Answers NULL on failure. */
TUFF_API tuff_array *tuff_array_create(tuff_device *device, tuff_dtype dtype, tuff_shape shape);

/* A part of array's elements, from element offset (row-major), as an array of its own shape. It shares the storage
   and holds it alive: either may be destroyed first. */
TUFF_API tuff_array *tuff_array_view(tuff_array *array, int64_t offset, tuff_shape shape);

/* Uses a buffer of the application (cl_mem, or VkBuffer with storage usage) as an array's storage. The buffer must
   outlive the array. May answer NULL with TUFF_E_UNSUPPORTED. */
TUFF_API tuff_array *tuff_array_import(tuff_device *device, void *buffer, uint64_t offset, tuff_dtype dtype,
                                       tuff_shape shape);
/* NULL is allowed. Plans that use the array must have been destroyed. */
TUFF_API void tuff_array_destroy(tuff_array *array);

/* As the array was created, viewed or imported. */
TUFF_API tuff_dtype tuff_array_dtype(const tuff_array *array);
TUFF_API tuff_shape tuff_array_shape(const tuff_array *array);
TUFF_API uint64_t tuff_array_size(const tuff_array *array); /* bytes */
/* Raised by every host write and every plan that assigns to the storage. */
TUFF_API uint64_t tuff_array_version(const tuff_array *array);

/* Copies size bytes, which must be the array's, from data; data may be reused at once. Ordered before later runs. */
TUFF_API tuff_status tuff_array_write(tuff_array *array, const void *data, size_t size);
/* Waits for everything enqueued before, then copies size bytes, which must be the array's, to data. */
TUFF_API tuff_status tuff_array_read(tuff_array *array, void *data, size_t size);

#ifdef __cplusplus
}
#endif
#endif
