/* Fills in the table of OpenCL calls and turns OpenCL's errors into statuses. */
#include "device/opencl/api.h"

#include <stdio.h>
#include <string.h>

#include "base/library.h"

opencl_api tuff__cl;

/* Makes a function pointer from a symbol's bytes: C has no conversion from one to the other. */
static bool load_symbol(void *library, const char *name, void *slot, size_t size)
{
    void *symbol = tuff__library_symbol(library, name);
    memcpy(slot, &symbol, size);
    return symbol != NULL;
}

const char *tuff__cl_load(void)
{
    static char missing[96];
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};
    if (tuff__cl.GetPlatformIDs)
        return NULL;
    void *library = tuff__library_open(names, 2);
    if (!library)
        return "cannot open libOpenCL.so.1: install an OpenCL loader and a driver (Debian: ocl-icd-libopencl1 "
               "and pocl-opencl-icd for the CPU, or your GPU's)";
    opencl_api loaded;
#define X(name)                                                                                         \
    if (!load_symbol(library, "cl" #name, &loaded.name, sizeof loaded.name)) {                          \
        snprintf(missing, sizeof missing, "libOpenCL.so.1 lacks %s: OpenCL 1.2 is needed", "cl" #name); \
        return missing;                                                                                 \
    }
    OPENCL_CALLS(X)
#undef X
    tuff__cl = loaded;
    return NULL;
}

/* What an error means to the layers above. After DEVICE_LOST the context is unusable. An error in a wait list is that
   of an application's event (tuff_opencl_enqueue_wait): tuff's own events report what happened themselves. */
#define OPENCL_ERRORS(X)                                \
    X(DEVICE_NOT_FOUND, NO_DEVICE)                      \
    X(DEVICE_NOT_AVAILABLE, DEVICE_LOST)                \
    X(COMPILER_NOT_AVAILABLE, UNSUPPORTED)              \
    X(MEM_OBJECT_ALLOCATION_FAILURE, OOM_DEVICE)        \
    X(OUT_OF_RESOURCES, OOM_DEVICE)                     \
    X(OUT_OF_HOST_MEMORY, OOM_HOST)                     \
    X(PROFILING_INFO_NOT_AVAILABLE, UNSUPPORTED)        \
    X(MEM_COPY_OVERLAP, USAGE)                          \
    X(BUILD_PROGRAM_FAILURE, COMPILE)                   \
    X(MAP_FAILURE, OOM_DEVICE)                          \
    X(MISALIGNED_SUB_BUFFER_OFFSET, USAGE)              \
    X(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, USAGE) \
    X(COMPILE_PROGRAM_FAILURE, COMPILE)                 \
    X(LINKER_NOT_AVAILABLE, UNSUPPORTED)                \
    X(LINK_PROGRAM_FAILURE, COMPILE)                    \
    X(INVALID_VALUE, USAGE)                             \
    X(INVALID_PLATFORM, NO_DEVICE)                      \
    X(INVALID_DEVICE, DEVICE_LOST)                      \
    X(INVALID_CONTEXT, DEVICE_LOST)                     \
    X(INVALID_QUEUE_PROPERTIES, UNSUPPORTED)            \
    X(INVALID_COMMAND_QUEUE, DEVICE_LOST)               \
    X(INVALID_MEM_OBJECT, USAGE)                        \
    X(INVALID_BINARY, COMPILE)                          \
    X(INVALID_BUILD_OPTIONS, COMPILE)                   \
    X(INVALID_PROGRAM, COMPILE)                         \
    X(INVALID_PROGRAM_EXECUTABLE, COMPILE)              \
    X(INVALID_KERNEL_NAME, COMPILE)                     \
    X(INVALID_KERNEL_DEFINITION, COMPILE)               \
    X(INVALID_KERNEL, USAGE)                            \
    X(INVALID_ARG_INDEX, USAGE)                         \
    X(INVALID_ARG_VALUE, USAGE)                         \
    X(INVALID_ARG_SIZE, USAGE)                          \
    X(INVALID_KERNEL_ARGS, USAGE)                       \
    X(INVALID_WORK_DIMENSION, USAGE)                    \
    X(INVALID_WORK_GROUP_SIZE, LIMIT)                   \
    X(INVALID_WORK_ITEM_SIZE, LIMIT)                    \
    X(INVALID_GLOBAL_OFFSET, LIMIT)                     \
    X(INVALID_EVENT_WAIT_LIST, USAGE)                   \
    X(INVALID_EVENT, USAGE)                             \
    X(INVALID_OPERATION, UNSUPPORTED)                   \
    X(INVALID_BUFFER_SIZE, LIMIT)                       \
    X(INVALID_GLOBAL_WORK_SIZE, LIMIT)                  \
    X(INVALID_PROPERTY, UNSUPPORTED)

/* NVIDIA's driver returns -9999 after a kernel has accessed memory outside its buffers; nothing works after that. */
enum { NVIDIA_ILLEGAL_ACCESS = -9999, PLATFORM_NOT_FOUND_KHR = -1001 };

typedef struct error_row {
    cl_int error;
    tuff_status status;
    const char *name;
} error_row;

static const error_row errors[] = {{NVIDIA_ILLEGAL_ACCESS, TUFF_E_DEVICE_LOST, "illegal access by a kernel"},
                                   {PLATFORM_NOT_FOUND_KHR, TUFF_E_NO_DEVICE, "CL_PLATFORM_NOT_FOUND_KHR"},
#define X(name, status) {CL_##name, TUFF_E_##status, "CL_" #name},
                                   OPENCL_ERRORS(X)
#undef X
};

static const error_row *find_error(cl_int error)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return &errors[i];
    return NULL;
}

bool tuff__cl_is_known_error(cl_int error)
{
    return find_error(error) != NULL;
}

const char *tuff__cl_error_name(cl_int error)
{
    const error_row *row = find_error(error);
    return row ? row->name : "unknown error";
}

tuff_status tuff__cl_fail(cl_int error, const char *call)
{
    const error_row *row = find_error(error);
    return FAIL(row ? row->status : TUFF_E_UNSUPPORTED, "%s: %s (%d)", call, tuff__cl_error_name(error), (int)error);
}
