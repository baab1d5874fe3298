/* Replaces the table of OpenCL calls by wrappers that count calls, fail the armed one, keep track of living objects and
   refuse null handles. Included by opencl.c only. */
#ifndef TUFF_TESTS_OPENCL_FAULTS_H
#define TUFF_TESTS_OPENCL_FAULTS_H

#include <stdatomic.h>

#include "device/opencl/api.h"

/* Calls that return an error and create nothing. X(name, parameters, arguments). */
#define PLAIN_CALLS(X)                                                                                               \
    X(GetPlatformIDs, (cl_uint a, cl_platform_id * b, cl_uint * c), (a, b, c))                                       \
    X(GetPlatformInfo, (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))        \
    X(GetDeviceIDs, (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id * d, cl_uint * e), (a, b, c, d, e)) \
    X(GetDeviceInfo, (cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))              \
    X(EnqueueMigrateMemObjects,                                                                                      \
      (cl_command_queue a, cl_uint b, const cl_mem *c, cl_mem_migration_flags d, cl_uint e, const cl_event *f,       \
       cl_event *g),                                                                                                 \
      (a, b, c, d, e, f, g))                                                                                         \
    X(EnqueueWriteBuffer,                                                                                            \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g, const cl_event *h,     \
       cl_event *i),                                                                                                 \
      (a, b, c, d, e, f, g, h, i))                                                                                   \
    X(EnqueueReadBuffer,                                                                                             \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g, const cl_event *h,           \
       cl_event *i),                                                                                                 \
      (a, b, c, d, e, f, g, h, i))                                                                                   \
    X(EnqueueCopyBuffer,                                                                                             \
      (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, cl_uint g, const cl_event *h,           \
       cl_event *i),                                                                                                 \
      (a, b, c, d, e, f, g, h, i))                                                                                   \
    X(EnqueueFillBuffer,                                                                                             \
      (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, cl_uint g, const cl_event *h,      \
       cl_event *i),                                                                                                 \
      (a, b, c, d, e, f, g, h, i))                                                                                   \
    X(EnqueueUnmapMemObject, (cl_command_queue a, cl_mem b, void *c, cl_uint d, const cl_event *e, cl_event *f),     \
      (a, b, c, d, e, f))                                                                                            \
    X(EnqueueNDRangeKernel,                                                                                          \
      (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e, const size_t *f, cl_uint g,     \
       const cl_event *h, cl_event *i),                                                                              \
      (a, b, c, d, e, f, g, h, i))                                                                                   \
    X(EnqueueMarkerWithWaitList, (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d))      \
    X(BuildProgram,                                                                                                  \
      (cl_program a, cl_uint b, const cl_device_id *c, const char *d, void(CL_CALLBACK * e)(cl_program, void *),     \
       void *f),                                                                                                     \
      (a, b, c, d, e, f))                                                                                            \
    X(GetProgramBuildInfo, (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f),    \
      (a, b, c, d, e, f))                                                                                            \
    X(GetProgramInfo, (cl_program a, cl_program_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))              \
    X(SetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d))                                 \
    X(GetKernelWorkGroupInfo,                                                                                        \
      (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, void *e, size_t *f), (a, b, c, d, e, f))  \
    X(GetEventInfo, (cl_event a, cl_event_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                    \
    X(GetEventProfilingInfo, (cl_event a, cl_profiling_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))       \
    X(SetMemObjectDestructorCallback, (cl_mem a, void(CL_CALLBACK * b)(cl_mem, void *), void *c), (a, b, c))         \
    X(WaitForEvents, (cl_uint a, const cl_event *b), (a, b))                                                         \
    X(Flush, (cl_command_queue a), (a))

/* Calls about an application's own objects, and events.
   X(name, parameters, arguments, change of the count of living objects on success). */
#define WRAP_CALLS(X)                                                                                   \
    X(RetainContext, (cl_context a), (a), 1)                                                            \
    X(RetainCommandQueue, (cl_command_queue a), (a), 1)                                                 \
    X(RetainMemObject, (cl_mem a), (a), 1)                                                              \
    X(RetainEvent, (cl_event a), (a), 1)                                                                \
    X(GetCommandQueueInfo, (cl_command_queue a, cl_command_queue_info b, size_t c, void *d, size_t *e), \
      (a, b, c, d, e), 0)                                                                               \
    X(GetMemObjectInfo, (cl_mem a, cl_mem_info b, size_t c, void *d, size_t *e), (a, b, c, d, e), 0)

/* Calls that create an object and return an error through their last parameter.
   X(name, object, parameters, arguments). */
#define MAKERS(X)                                                                                                     \
    X(CreateContext, cl_context,                                                                                      \
      (const cl_context_properties *a, cl_uint b, const cl_device_id *c,                                              \
       void(CL_CALLBACK * d)(const char *, const void *, size_t, void *), void *e, cl_int *error),                    \
      (a, b, c, d, e, error))                                                                                         \
    X(CreateCommandQueue, cl_command_queue,                                                                           \
      (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int * error), (a, b, c, error))                \
    X(CreateBuffer, cl_mem, (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *error), (a, b, c, d, error))    \
    X(CreateProgramWithSource, cl_program, (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *error), \
      (a, b, c, d, error))                                                                                            \
    X(CreateProgramWithBinary, cl_program,                                                                            \
      (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e, cl_int *f,           \
       cl_int *error),                                                                                                \
      (a, b, c, d, e, f, error))                                                                                      \
    X(CreateKernel, cl_kernel, (cl_program a, const char *b, cl_int *error), (a, b, error))

#define RELEASERS(X)                         \
    X(ReleaseContext, cl_context)            \
    X(ReleaseCommandQueue, cl_command_queue) \
    X(ReleaseMemObject, cl_mem)              \
    X(ReleaseProgram, cl_program)            \
    X(ReleaseKernel, cl_kernel)              \
    X(ReleaseEvent, cl_event)

enum fault_site {
#define X(name, ...) SITE_##name,
    PLAIN_CALLS(X) WRAP_CALLS(X) MAKERS(X) RELEASERS(X)
#undef X
        SITE_EnqueueMapBuffer,
    SITE_COUNT
};

static const char *const site_names[SITE_COUNT] = {
#define X(name, ...) "cl" #name,
    PLAIN_CALLS(X) WRAP_CALLS(X) MAKERS(X) RELEASERS(X)
#undef X
        "clEnqueueMapBuffer",
};

/* calls: number of calls of each function since the last reset. From call armed_call (from 1) of armed_site on,
   armed_count calls return armed_error. alive: objects and events created minus those released. */
static struct {
    opencl_api real;
    atomic_int calls[SITE_COUNT]; /* atomic, because the thread that waits in the driver calls, too */
    int armed_site, armed_call, armed_count;
    cl_int armed_error;
    atomic_int hits, alive, null_handles;
} faults = {.armed_site = -1};

static bool fails(enum fault_site site)
{
    int call = ++faults.calls[site];
    if ((int)site != faults.armed_site || call < faults.armed_call || call >= faults.armed_call + faults.armed_count)
        return false;
    faults.hits++;
    return true;
}

/* Calls with an event as their last parameter create an object if the caller passes a pointer. */
static void count_event(const cl_event *event)
{
    if (event && *event)
        faults.alive++;
}

#define EVENT_OF_EnqueueMigrateMemObjects count_event(g)
#define EVENT_OF_EnqueueWriteBuffer count_event(i)
#define EVENT_OF_EnqueueReadBuffer count_event(i)
#define EVENT_OF_EnqueueCopyBuffer count_event(i)
#define EVENT_OF_EnqueueFillBuffer count_event(i)
#define EVENT_OF_EnqueueUnmapMemObject count_event(f)
#define EVENT_OF_EnqueueNDRangeKernel count_event(i)
#define EVENT_OF_EnqueueMarkerWithWaitList count_event(d)
#define EVENT_OF_GetPlatformIDs (void)0
#define EVENT_OF_GetPlatformInfo (void)0
#define EVENT_OF_GetDeviceIDs (void)0
#define EVENT_OF_GetDeviceInfo (void)0
#define EVENT_OF_BuildProgram (void)0
#define EVENT_OF_GetProgramBuildInfo (void)0
#define EVENT_OF_GetProgramInfo (void)0
#define EVENT_OF_SetKernelArg (void)0
#define EVENT_OF_GetKernelWorkGroupInfo (void)0
#define EVENT_OF_GetEventInfo (void)0
#define EVENT_OF_GetEventProfilingInfo (void)0
#define EVENT_OF_SetMemObjectDestructorCallback (void)0
#define EVENT_OF_WaitForEvents (void)0
#define EVENT_OF_Flush (void)0

#define X(name, parameters, arguments)                 \
    static cl_int CL_API_CALL faulty_##name parameters \
    {                                                  \
        if (fails(SITE_##name))                        \
            return faults.armed_error;                 \
        cl_int status = faults.real.name arguments;    \
        if (status == CL_SUCCESS)                      \
            EVENT_OF_##name;                           \
        return status;                                 \
    }
PLAIN_CALLS(X)
#undef X

#define X(name, parameters, arguments, adds)             \
    static cl_int CL_API_CALL faulty_##name parameters   \
    {                                                    \
        if (fails(SITE_##name))                          \
            return faults.armed_error;                   \
        cl_int status = faults.real.name arguments;      \
        faults.alive += status == CL_SUCCESS ? adds : 0; \
        return status;                                   \
    }
WRAP_CALLS(X)
#undef X

static void *CL_API_CALL faulty_EnqueueMapBuffer(cl_command_queue a, cl_mem b, cl_bool c, cl_map_flags d, size_t e,
                                                 size_t f, cl_uint g, const cl_event *h, cl_event *i, cl_int *error)
{
    if (fails(SITE_EnqueueMapBuffer)) {
        *error = faults.armed_error;
        return NULL;
    }
    return faults.real.EnqueueMapBuffer(a, b, c, d, e, f, g, h, i, error);
}

#define X(name, object, parameters, arguments)         \
    static object CL_API_CALL faulty_##name parameters \
    {                                                  \
        if (fails(SITE_##name)) {                      \
            *error = faults.armed_error;               \
            return NULL;                               \
        }                                              \
        object made = faults.real.name arguments;      \
        faults.alive += made != NULL ? 1 : 0;          \
        return made;                                   \
    }
MAKERS(X)
#undef X

/* A failing release still releases the object: the caller could not do more. */
#define X(name, object)                               \
    static cl_int CL_API_CALL faulty_##name(object a) \
    {                                                 \
        bool failed = fails(SITE_##name);             \
        if (!a) {                                     \
            faults.null_handles++;                    \
            return CL_INVALID_VALUE;                  \
        }                                             \
        faults.alive--;                               \
        cl_int status = faults.real.name(a);          \
        return failed ? faults.armed_error : status;  \
    }
RELEASERS(X)
#undef X

static void install_faults(void)
{
    faults.real = tuff__cl;
#define X(name, ...) tuff__cl.name = faulty_##name;
    PLAIN_CALLS(X)
    WRAP_CALLS(X)
    MAKERS(X) RELEASERS(X)
#undef X
        tuff__cl.EnqueueMapBuffer = faulty_EnqueueMapBuffer;
}

static void remove_faults(void)
{
    tuff__cl = faults.real;
}

/* Resets the counts and arms a call; it and the following ones fail, count in all. */
static void arm(int site, int call, int count, cl_int error)
{
    for (int i = 0; i < SITE_COUNT; i++)
        faults.calls[i] = 0;
    faults.armed_site = site;
    faults.armed_call = call;
    faults.armed_count = count;
    faults.armed_error = error;
    faults.hits = 0;
}

static void disarm(void)
{
    arm(-1, 0, 0, CL_SUCCESS);
}

#endif
