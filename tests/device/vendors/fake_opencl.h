/* An OpenCL loader without drivers: its devices answer as those of vendors do, and compute nothing. Buffers are bytes
   of the host, programs build where the device's compiler takes their text, commands end at once. */
#ifndef TUFF_TESTS_FAKE_OPENCL_H
#define TUFF_TESTS_FAKE_OPENCL_H

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"

/* What a vendor's driver says of a device; NULL and 0: it knows no such question. */
typedef struct fake_opencl_device {
    const char *platform, *platform_version, *name, *version, *language, *driver, *extensions, *board;
    cl_uint vendor, units;
    cl_bool unified;
    cl_ulong memory, allocation;
    cl_uint warp, wavefront; /* lanes */
    const cl_bool *timeout;  /* CL_DEVICE_KERNEL_EXEC_TIMEOUT_NV */
    size_t widths[4];        /* of subgroups that can be required */
    cl_device_local_mem_type local;
    bool (*compiles)(const char *source, const char *options); /* NULL: everything */
} fake_opencl_device;

/* What the loader was asked for, and how it is to go wrong. */
typedef struct fake_opencl_state {
    char options[256];     /* of the last build */
    cl_mem_flags flags;    /* of the last buffer */
    bool faulted;          /* the context answers CL_OUT_OF_RESOURCES to whatever runs */
    cl_int memory_error;   /* of buffers; 0: none */
    bool hangs;            /* commands begin and never end */
    bool holds_timed;      /* the same of queues with profiling, and of what is behind their commands */
    bool is_lazy;          /* commands begin when they are flushed */
    int failing;           /* the command that fails, counted down; 0: none */
    int enqueued, flushed; /* commands */
    int launches, buffers; /* calls of clEnqueueNDRangeKernel, clCreateBuffer */
    int releases;          /* of objects that a hanging device may use */
} fake_opencl_state;
extern fake_opencl_state fake_opencl;

/* Fills the driver's table. The devices must stay. */
void install_fake_opencl(const fake_opencl_device *devices, int count);

#endif

#endif
