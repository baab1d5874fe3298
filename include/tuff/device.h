/* Devices: how they are listed and opened. Arrays: typed storage on a device. A program with OpenCL or Vulkan objects
   of its own shares them through interop.h. */
#ifndef TUFF_DEVICE_H
#define TUFF_DEVICE_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuff_device tuff_device; /* an open device; threads may share it */
typedef struct tuff_array tuff_array;   /* storage on a device, with a dtype and a shape */

typedef enum tuff_device_class {
    TUFF_DEVICE_CPU,
    TUFF_DEVICE_GPU_INTEGRATED,
    TUFF_DEVICE_GPU_DISCRETE,
    TUFF_DEVICE_OTHER,
    TUFF_DEVICE_REFERENCE
} tuff_device_class;

/* Kinds of matrix units, and the instructions that multiply blocks on them: tuff_device_info.cooperative_matrix. */
typedef enum tuff_matrix_units {
    TUFF_MATRIX_NONE,
    TUFF_MATRIX_NV,     /* VK_NV_cooperative_matrix */
    TUFF_MATRIX_KHR,    /* VK_KHR_cooperative_matrix */
    TUFF_MATRIX_NVIDIA, /* OpenCL C with PTX: mma.sync, ldmatrix and cp.async; compute capability 8.0 or higher */
    TUFF_MATRIX_MFMA,   /* OpenCL C with the builtins of AMD's accelerators: gfx908 or later; bf16: gfx90a or later */
    TUFF_MATRIX_WMMA,   /* OpenCL C with the builtins of gfx11 or gfx12 */
    TUFF_MATRIX_INTEL,  /* cl_intel_subgroup_matrix_multiply_accumulate */
    TUFF_MATRIX_NV2     /* VK_NV_cooperative_matrix2, for matmuls; such a device has TUFF_MATRIX_KHR, and its
                           matrix_group_sizes is not 0 */
} tuff_matrix_units;

/* How the lanes of a subgroup read each other's registers when a row is reduced: tuff_device_info.exchange_form. */
typedef enum tuff_exchange_form {
    TUFF_EXCHANGE_NONE,
    TUFF_EXCHANGE_KHR,    /* GL_KHR_shader_subgroup_shuffle; cl_khr_subgroup_shuffle with a required width */
    TUFF_EXCHANGE_NVIDIA, /* OpenCL C with PTX */
    TUFF_EXCHANGE_AMD     /* OpenCL C with the builtins of AMD's compiler */
} tuff_exchange_form;

/* Whether the driver kills kernels that run for some seconds, which loses the device. */
typedef enum tuff_watchdog { TUFF_WATCHDOG_UNKNOWN, TUFF_WATCHDOG_PRESENT, TUFF_WATCHDOG_NONE } tuff_watchdog;

/* Whether the driver offers matrix units, and if they are not used, why: explains cooperative_matrix. */
typedef enum tuff_matrix_state {
    TUFF_MATRICES_ABSENT,      /* the driver offers none */
    TUFF_MATRICES_OFFERED,     /* the driver offers them; cooperative_matrix says whether the self-test proved them */
    TUFF_MATRICES_OTHER_SIZE,  /* the driver offers them, but only for block sizes that tuff does not use */
    TUFF_MATRICES_NO_COMPILER, /* the driver offers them, but this build's kernel compiler does not support them */
    TUFF_MATRICES_WRONG        /* the self-test computed wrong products */
} tuff_matrix_state;

/* What a driver reports about a device and, if `proved` is true, what tuff's self-test found. Sizes are in bytes. */
typedef struct tuff_device_info {
    char name[128];    /* as spelt by the driver */
    char selector[32]; /* for tuff_device_open: "opencl:0", "vulkan:1", "reference". "opencl:wrapped" and
                          "vulkan:wrapped" for wrapped devices, which tuff_device_open cannot open */
    char driver[128];  /* name and version of the driver or platform */
    char api[32];      /* "OpenCL 3.0", "Vulkan 1.3" */
    tuff_device_class device_class;
    uint32_t vendor_id;
    uint32_t device_id;
    uint64_t memory_size;       /* of the device */
    uint64_t max_allocation;    /* largest size of one buffer */
    uint64_t max_binding;       /* largest range of a buffer that can be bound to a kernel */
    uint32_t offset_alignment;  /* of the start of such a range */
    uint32_t local_memory_size; /* per work-group */
    uint32_t max_group_size;    /* largest number of work-items in a work-group */
    uint32_t compute_units;     /* as the driver counts them; Intel's GPUs: vector engines, 8 or 16 in a core */
    uint32_t max_bindings;  /* largest number of storage buffers that one kernel can access */
    uint32_t subgroup_size; /* lanes, as claimed by the driver; 0: no subgroups */
    uint32_t vector_width;  /* native float lanes, as claimed by the driver; 0: unknown */
    bool narrow_storage;    /* kernels can store single 8-bit and 16-bit elements */
    bool half_arithmetic;
    bool int64;
    bool proved;                   /* the self-test has run and set the proved_ fields */
    uint32_t proved_subgroup_size; /* lanes counted by a kernel; 0: not proved */
    bool proved_barrier;           /* local memory and barriers work */
    bool proved_narrow_storage;
    bool proved_nan; /* NaN payloads survive a copy kernel */
    bool proved_negative_zero;
    bool proved_denormals; /* f32 denormals survive arithmetic */
    bool subgroup_shuffle; /* lanes of a subgroup can read each other's registers */
    /* A tuff_matrix_units: subgroups multiply blocks of f16 and accumulate in f32. 0: they do not, or, once `proved` is
       true, the self-test failed. */
    uint32_t cooperative_matrix;
    /* The driver silently stops the loops of a kernel after this many iterations, counted over all loops of the kernel
       together; 0: it does not. llvmpipe (lavapipe) allows 65535, of which the self-test finds all but a few. */
    uint32_t loop_limit;
    uint32_t watchdog;          /* a tuff_watchdog */
    uint32_t min_subgroup_size; /* subgroup widths that a kernel can require; 0: it can require none */
    uint32_t max_subgroup_size;
    uint32_t matrix_state;     /* a tuff_matrix_state */
    bool local_is_global;      /* GPUs: local memory lies in global memory, behind caches, as on Mali */
    bool units_estimated;      /* the driver does not report compute_units: derived from an Intel GPU's name, else 16 */
    bool writes_directly;      /* the host can write directly to all of the device's own memory */
    uint64_t memory_available; /* part of memory_size available to this process when the device was described; 0: the
                                  driver does not report it */
    uint32_t matrix_shape[3];  /* rows, columns and terms of the blocks of the matrix units; 0: there are none */
    uint32_t matrix_lanes;     /* lanes of a subgroup that multiplies a block; 0: proved_subgroup_size */
    bool matrix_bf16;          /* the units also multiply bf16 blocks of the same shape */
    uint32_t matrix_warpgroup; /* 1: four subgroups multiply 64 rows together (wgmma, compute capability 9.0) */
    uint32_t matrix_group_sizes;      /* sizes of work-groups that multiply blocks of f16 together
                                         (VK_NV_cooperative_matrix2): the sum of 128 and 256, or one of them, or 0 */
    uint32_t matrix_group_sizes_bf16; /* the same for bf16 */
    uint32_t exchange_form;  /* a tuff_exchange_form. TUFF_EXCHANGE_NONE if the self-test failed */
    uint32_t exchange_lanes; /* lanes of the subgroups that exchange registers; 0 if they cannot */
} tuff_device_info;

/* Returns the number of devices that the drivers on this machine offer, including the reference device, which always
   exists and comes last. The first call loads the OpenCL and Vulkan loaders. */
TUFF_API int tuff_device_count(void);

/* Describes a device without opening it. index is 0 to tuff_device_count() - 1; otherwise TUFF_E_USAGE. */
TUFF_API tuff_status tuff_device_describe_at(int index, tuff_device_info *info);

/* Returns why an API offers no devices here ("libvulkan.so.1 could not be opened: install ..."), or NULL if it offers
   some. api is "opencl" or "vulkan". Static storage. */
TUFF_API const char *tuff_device_unavailable_reason(const char *api);

/* Opens a device. name is "auto", "opencl", "opencl:1", "opencl:nvidia" (part of the device's or platform's name,
   ignoring case), the same with "vulkan", or "reference" (float64 on the host). NULL stands for the environment
   variable TUFF_DEVICE or, if that is unset, for "auto": discrete GPUs first, then integrated ones, then CPUs, never
   "reference". Within a class the device with more compute resources comes first, then the one with more memory, and
   OpenCL comes before Vulkan. "auto:matrix" does the same, except that within a class devices with matrix units come
   first, whatever their API: for 16-bit storage (tuff_compile_options.precision). When a device is first opened on a
   machine, a self-test runs and its results are stored in the cache folder. Returns NULL on failure, with
   TUFF_E_NO_DEVICE if nothing matches name. */
TUFF_API tuff_device *tuff_device_open(const char *name);

/* Closes a device. Everything made on it must have been destroyed. NULL is allowed. */
TUFF_API void tuff_device_close(tuff_device *device);

/* Describes an open device, including the results of the self-test. */
TUFF_API tuff_status tuff_device_describe(const tuff_device *device, tuff_device_info *info);

/* From now on, arrays and plans of the device get no memory, as on PyTorch's meta device, so that plans for models of
   any size can be described, though each array must be one that the device could allocate. Every plan must be compiled
   with describe_only and without measuring, else TUFF_E_USAGE; $TUFF_TUNE is taken for "cached" if it would measure.
   Writing to an array does nothing; reading one is TUFF_E_USAGE. Imported arrays keep their memory. It lasts until the
   device is closed. TUFF_E_USAGE if arrays, or plans with memory, exist already. */
TUFF_API tuff_status tuff_device_set_describe_only(tuff_device *device);

/* Waits until all work submitted to the device has finished. TUFF_E_TIMEOUT after 30 s without progress; after
   240 s on Vulkan drivers for the CPU, and on OpenCL if the work has not begun. */
TUFF_API tuff_status tuff_device_wait(tuff_device *device);

/* Work done since the device was opened, without the self-test. */
typedef struct tuff_device_counters {
    uint64_t reads, writes;           /* accesses of the host to device memory */
    uint64_t submissions, dispatches; /* dispatches: kernel launches in these submissions */
    uint64_t programs_compiled, programs_from_disk;
    uint64_t bytes_allocated, bytes_peak; /* device memory: now, and at most */
    uint64_t reserved[8];
} tuff_device_counters;
/* Copies the current values of the counters; the difference between two copies is the work done in between.
   TUFF_E_USAGE if an argument is NULL. */
TUFF_API tuff_status tuff_device_counters_get(const tuff_device *device, tuff_device_counters *counters);

/* Creates an array of zeros. device must outlive it. NULL on failure: TUFF_E_DTYPE for f64 and i64, TUFF_E_SHAPE,
   TUFF_E_LIMIT if the device has no buffers of that size, TUFF_E_OOM_DEVICE. */
TUFF_API tuff_array *tuff_array_create(tuff_device *device, tuff_dtype dtype, tuff_shape shape);

/* Creates an array on part of another array's elements: as many elements as shape has, starting at element offset
   (row-major). The view shares the storage and keeps it alive, so the two may be destroyed in either order. NULL on
   failure: TUFF_E_SHAPE if the part does not lie within array. */
TUFF_API tuff_array *tuff_array_view(tuff_array *array, int64_t offset, tuff_shape shape);

/* Frees the array; its storage is freed with the last array that uses it. Plans that use the array must have been
   destroyed. NULL is allowed. */
TUFF_API void tuff_array_destroy(tuff_array *array);

/* Dtype, shape and size, as the array was created, viewed or imported. */
TUFF_API tuff_dtype tuff_array_dtype(const tuff_array *array);
TUFF_API tuff_shape tuff_array_shape(const tuff_array *array);
TUFF_API uint64_t tuff_array_size(const tuff_array *array); /* bytes */
/* Returns a number that grows with every host write to the array's storage, every run of a plan that assigns to it, and
   every tuff_array_touch. */
TUFF_API uint64_t tuff_array_version(const tuff_array *array);

/* Copies size bytes from data; size must be the array's size. data may be reused at once. Later runs see the new
   elements, earlier ones do not. To write a part, write to a view (tuff_array_view). */
TUFF_API tuff_status tuff_array_write(tuff_array *array, const void *data, size_t size);
/* Waits for everything enqueued before, then copies size bytes to data; size must be the array's size. */
TUFF_API tuff_status tuff_array_read(tuff_array *array, void *data, size_t size);

/* Copies all elements of an array to another array on the same device, with the same dtype and number of elements. The
   device makes the copy after everything enqueued before; the call does not wait. Later runs, copies and reads see the
   new elements. TUFF_E_USAGE if the arrays share elements, TUFF_E_DTYPE, TUFF_E_SHAPE. */
TUFF_API tuff_status tuff_array_copy(tuff_array *to, tuff_array *from);

#ifdef __cplusplus
}
#endif
#endif
