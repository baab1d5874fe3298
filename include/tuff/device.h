/* Devices: listing and opening them; arrays: typed storage on a device. A program that has OpenCL or Vulkan objects of
   its own shares them by interop.h. */
#ifndef TUFF_DEVICE_H
#define TUFF_DEVICE_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_device tuff_device; /* an opened device; may be shared by threads */
typedef struct tuff_array tuff_array;   /* storage on a device, with a dtype and a shape */

typedef enum tuff_device_class {
    TUFF_DEVICE_CPU,
    TUFF_DEVICE_GPU_INTEGRATED,
    TUFF_DEVICE_GPU_DISCRETE,
    TUFF_DEVICE_OTHER,
    TUFF_DEVICE_REFERENCE
} tuff_device_class;

/* The forms of matrix units, and the instructions that multiply a block: tuff_device_info.cooperative_matrix. */
typedef enum tuff_matrix_units {
    TUFF_MATRIX_NONE,
    TUFF_MATRIX_NV,     /* VK_NV_cooperative_matrix */
    TUFF_MATRIX_KHR,    /* VK_KHR_cooperative_matrix */
    TUFF_MATRIX_NVIDIA, /* OpenCL C with PTX: mma.sync, ldmatrix and cp.async, of compute capability 8.0 on */
    TUFF_MATRIX_MFMA,   /* OpenCL C with the builtins of AMD's accelerators from gfx908 on; bf16 from gfx90a */
    TUFF_MATRIX_WMMA,   /* the same of gfx11 */
    TUFF_MATRIX_INTEL   /* cl_intel_subgroup_matrix_multiply_accumulate */
} tuff_matrix_units;

/* Whether the driver ends kernels that run for some seconds, with the device then lost. */
typedef enum tuff_watchdog { TUFF_WATCHDOG_UNKNOWN, TUFF_WATCHDOG_THERE, TUFF_WATCHDOG_NONE } tuff_watchdog;

/* What became of the matrix units that cooperative_matrix tells of. */
typedef enum tuff_matrix_state {
    TUFF_MATRICES_ABSENT,      /* the driver offers none */
    TUFF_MATRICES_OFFERED,     /* it does; whether they are proved cooperative_matrix tells */
    TUFF_MATRICES_OTHER_SIZE,  /* it does, but not for blocks that tuff uses */
    TUFF_MATRICES_NO_COMPILER, /* it does, but this build's compiler of kernels does not know them */
    TUFF_MATRICES_WRONG        /* the self-test got wrong products */
} tuff_matrix_state;

/* What a driver reports about a device and, where `proved` is true, what tuff's self-test found. Sizes are bytes. */
typedef struct tuff_device_info {
    char name[128];    /* as the driver spells it */
    char selector[32]; /* what tuff_device_open takes: "opencl:0", "vulkan:1", "reference"; "opencl:wrapped" and
                          "vulkan:wrapped" for wrapped devices, which cannot be opened by it */
    char driver[128];  /* name and version of driver or platform */
    char api[32];      /* "OpenCL 3.0", "Vulkan 1.3" */
    tuff_device_class device_class;
    uint32_t vendor_id;
    uint32_t device_id;
    uint64_t memory_size;       /* of the device */
    uint64_t max_allocation;    /* of one buffer */
    uint64_t max_binding;       /* of the range of a buffer that a kernel sees */
    uint32_t offset_alignment;  /* of the start of such a range */
    uint32_t local_memory_size; /* of a work-group */
    uint32_t max_group_size;    /* work-items of a work-group */
    uint32_t compute_units;
    uint32_t max_bindings;  /* storage buffers that one kernel can see */
    uint32_t subgroup_size; /* lanes, as the driver claims; 0: none */
    uint32_t vector_width;  /* native float lanes, as the driver claims; 0: unknown */
    bool narrow_storage;    /* kernels can store single 8-bit and 16-bit elements */
    bool half_arithmetic;
    bool int64;
    bool proved;                   /* the self-test ran; the fields below are its results */
    uint32_t proved_subgroup_size; /* lanes counted by a kernel; 0 where not proved */
    bool proved_barrier;           /* local memory and barriers work */
    bool proved_narrow_storage;
    bool proved_nan; /* NaN payloads survive a copy kernel */
    bool proved_negative_zero;
    bool proved_denormals; /* f32 denormals survive arithmetic */
    bool subgroup_shuffle; /* lanes of a subgroup can read each other's registers */
    /* Subgroups multiply blocks of f16 and accumulate in f32 (tuff_matrix_units). Once `proved` is true, also 0 where
       the self-test failed. */
    uint32_t cooperative_matrix;
    /* The driver ends the loops of a kernel, without an error, after so many iterations of them all together; 0: it
       does not. llvmpipe (lavapipe) allows 65535, of which the self-test finds all but a few. */
    uint32_t loop_limit;
    uint32_t watchdog;          /* a tuff_watchdog */
    uint32_t min_subgroup_size; /* of the widths that a kernel can require; 0: none can */
    uint32_t max_subgroup_size;
    uint32_t matrix_state;     /* a tuff_matrix_state */
    bool local_is_global;      /* of a GPU: local memory lies in its memory, behind caches, as on Mali */
    bool units_estimated;      /* compute_units follows from the device's name: the driver does not tell */
    bool writes_directly;      /* the host writes into the device's own memory, all of which it reaches */
    uint64_t memory_available; /* to this process, of memory_size, when it was described; 0: the driver does not tell */
    uint32_t matrix_shape[3];  /* rows, columns and terms of the blocks of matrix units; 0 where there are none */
    uint32_t matrix_lanes;     /* of a subgroup that multiplies one; 0: proved_subgroup_size */
    bool matrix_bf16;          /* blocks of bf16 of the same shape are multiplied, too */
    uint32_t matrix_warpgroup; /* 1: four subgroups multiply 64 rows at once (wgmma, of compute capability 9.0) */
} tuff_device_info;

/* The number of devices that the drivers on this machine offer, including the reference device, which is the last one
   and always there. The first call loads the OpenCL and Vulkan loaders. */
TUFF_API int tuff_device_count(void);

/* Describes a device without opening it. index is 0 to tuff_device_count() - 1; TUFF_E_USAGE where it is not. */
TUFF_API tuff_status tuff_device_describe_at(int index, tuff_device_info *info);

/* Why an API offers no devices here ("libvulkan.so.1 could not be opened: install ..."), or NULL where it offers some.
   api is "opencl" or "vulkan". Static storage. */
TUFF_API const char *tuff_device_unavailable_reason(const char *api);

/* Opens a device. name is "auto", "opencl", "opencl:1", "opencl:nvidia" (part of the device's or platform's name, in
   any case), the same with "vulkan", or "reference" (float64 on the host). NULL takes the environment variable
   TUFF_DEVICE, else "auto": discrete GPUs first, then integrated ones, then CPUs, never "reference"; of one kind the
   larger GPU, by what computes and then by memory, and OpenCL before Vulkan. "auto:matrix" is the same, but of one kind
   those with matrix units come first, whatever their API: for 16-bit storage (tuff_compile_options.precision). The
   first open of a device on a machine runs a self-test, whose results are kept in the cache folder. Returns NULL on
   failure, with TUFF_E_NO_DEVICE where nothing matches name. */
TUFF_API tuff_device *tuff_device_open(const char *name);

/* Closes a device, after everything made on it was destroyed. NULL is allowed. */
TUFF_API void tuff_device_close(tuff_device *device);

/* Describes an open device, including the results of the self-test. */
TUFF_API tuff_status tuff_device_describe(const tuff_device *device, tuff_device_info *info);

/* Waits until all work submitted to the device has finished. TUFF_E_TIMEOUT after 30 s without progress. */
TUFF_API tuff_status tuff_device_wait(tuff_device *device);

/* What was done since the device was opened; the self-test does not count. */
typedef struct tuff_device_counters {
    uint64_t reads, writes;           /* by the host, of device memory */
    uint64_t submissions, dispatches; /* dispatches: kernel launches in these submissions */
    uint64_t programs_compiled, programs_from_disk;
    uint64_t bytes_allocated, bytes_peak; /* of device memory: now, and at most */
    uint64_t reserved[8];
} tuff_device_counters;
/* Copies the counters' present values; a difference of two copies tells what was done between them. TUFF_E_USAGE where
   an argument is NULL. */
TUFF_API tuff_status tuff_device_counters_get(const tuff_device *device, tuff_device_counters *counters);

/* A new array of zeros. device must outlive it. NULL on failure: TUFF_E_DTYPE for f64 and i64, TUFF_E_SHAPE,
   TUFF_E_LIMIT where the device has no buffers of that size, TUFF_E_OOM_DEVICE. */
TUFF_API tuff_array *tuff_array_create(tuff_device *device, tuff_dtype dtype, tuff_shape shape);

/* A part of array's elements as an array of its own: as many as shape has, from element offset on (row-major). It
   shares the storage and keeps it alive, so the two may be destroyed in either order. NULL on failure: TUFF_E_SHAPE
   where the part does not lie within array. */
TUFF_API tuff_array *tuff_array_view(tuff_array *array, int64_t offset, tuff_shape shape);

/* Frees the array; its storage goes with the last array on it. Plans that use the array must have been destroyed. NULL
   is allowed. */
TUFF_API void tuff_array_destroy(tuff_array *array);

/* As the array was created, viewed or imported. */
TUFF_API tuff_dtype tuff_array_dtype(const tuff_array *array);
TUFF_API tuff_shape tuff_array_shape(const tuff_array *array);
TUFF_API uint64_t tuff_array_size(const tuff_array *array); /* bytes */
/* A number that grows with every host write to the array's storage, every run of a plan that assigns to it, and every
   tuff_array_touch. */
TUFF_API uint64_t tuff_array_version(const tuff_array *array);

/* Copies size bytes, which must be the array's size, from data; data may be reused at once. Later runs see them,
   earlier ones do not. To write a part, write to a view (tuff_array_view). */
TUFF_API tuff_status tuff_array_write(tuff_array *array, const void *data, size_t size);
/* Waits for everything enqueued before, then copies size bytes, which must be the array's size, to data. */
TUFF_API tuff_status tuff_array_read(tuff_array *array, void *data, size_t size);

/* Copies all elements of an array to another one on the same device, with the same dtype and number of elements, on the
   device: behind everything enqueued before, and returns without waiting. Later runs, copies and reads see the new
   elements. TUFF_E_USAGE where the arrays share elements, TUFF_E_DTYPE, TUFF_E_SHAPE. */
TUFF_API tuff_status tuff_array_copy(tuff_array *to, tuff_array *from);

#ifdef __cplusplus
}
#endif
#endif
