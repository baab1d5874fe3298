/* An OpenCL loader without drivers: its devices report the same as those of vendors, and compute nothing but what
   `runs` does. Buffers are host memory, programs build if the device's compiler accepts their source, commands end at
   once. Devices with cl_khr_command_buffer among their extensions have its functions. */
#ifndef TUFF_TESTS_FAKE_OPENCL_H
#define TUFF_TESTS_FAKE_OPENCL_H

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"

/* An argument of a kernel. */
typedef union fake_argument {
    char *bytes; /* of a buffer */
    cl_uint word;
} fake_argument;
enum { FAKE_ARGUMENTS = 8 };

/* The properties that a vendor's driver reports; NULL and 0: it does not know the query. */
typedef struct fake_opencl_device {
    const char *platform, *platform_version, *name, *version, *language, *driver, *extensions, *board;
    cl_uint vendor, units;
    cl_bool unified;
    cl_ulong memory, allocation;
    cl_uint warp, wavefront; /* lanes */
    cl_uint capability;      /* the major number, on devices with a warp; 0: 8 */
    const cl_bool *timeout;  /* CL_DEVICE_KERNEL_EXEC_TIMEOUT_NV */
    size_t widths[4];        /* subgroup widths that can be required */
    cl_device_local_mem_type local;
    bool (*compiles)(const char *source, const char *options); /* NULL: accepts every source */
    /* Called for each launch, with the source of the kernel's program. NULL: launches do nothing. */
    void (*runs)(const char *source, size_t items, const fake_argument *arguments);
} fake_opencl_device;

/* Calls that the loader received, and how it is to fail. */
typedef struct fake_opencl_state {
    char options[256];     /* of the last build */
    cl_mem_flags flags;    /* of the last buffer */
    size_t free_kib[2];    /* AMD's free memory and its largest block; 0: the query is unknown */
    bool lacks_block;      /* the driver returns only the first of them */
    bool faulted;          /* the context returns CL_OUT_OF_RESOURCES for everything that runs */
    cl_int memory_error;   /* of buffer creation; 0: none */
    bool hangs;            /* commands begin and never end */
    bool holds_timed;      /* the same for queues with profiling and what waits for their commands */
    bool is_lazy;          /* commands begin only when flushed */
    int failing;           /* countdown to the command that fails; 0: none */
    int enqueued, flushed; /* commands */
    int launches, buffers; /* calls of clEnqueueNDRangeKernel and clCreateBuffer */
    int blocks;            /* calls of clEnqueueCommandBufferKHR */
    int living_blocks;     /* command buffers */
    int releases;          /* releases of objects that a hung device may use */
} fake_opencl_state;
extern fake_opencl_state fake_opencl;

/* Fills the driver's table. devices must outlive its use. */
void install_fake_opencl(const fake_opencl_device *devices, int count);

#endif

#endif
