/* OpenCL functions that take the time of a slow GPU: kernels, flushes, events. slow_gpu.h says of which. */
#include "slow_opencl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"

enum { EVENTS = 4096, KERNELS = 16384 };

static opencl_api truth;

/* The commands of the recording in progress. */
static struct {
    const command *commands;
    int count, at;
} making;

static void begin_recording(const command *commands, int count)
{
    making.commands = commands;
    making.count = count;
    making.at = 0;
}

static void end_recording(driver_recording *made, const command *commands, int count)
{
    (void)made, (void)commands, (void)count;
    making.commands = NULL;
}

static struct {
    double collected; /* time of the launches since the last flush */
    cl_event last;    /* the event that was polled last; `asked`: polls in a row since the last launch */
    int asked;
} queue;

static struct {
    cl_event event;
    double end; /* negative: not submitted */
} events[EVENTS];
static int event_count;

/* The time of a group of each kernel; kernels are created in the order of the recording's commands. */
static struct {
    cl_kernel kernel;
    double time;
} kernels[KERNELS];
static int kernel_count;

static cl_kernel CL_API_CALL create_kernel(cl_program from, const char *name, cl_int *error)
{
    cl_kernel made = truth.CreateKernel(from, name, error);
    if (!making.commands)
        return made;
    while (making.at < making.count && making.commands[making.at].kind != COMMAND_DISPATCH)
        making.at++;
    assert_true(making.at < making.count && kernel_count < KERNELS);
    kernels[kernel_count].kernel = made;
    kernels[kernel_count++].time = slow_gpu_group_time(&making.commands[making.at++]);
    return made;
}

static double kernel_time(cl_kernel kernel)
{
    for (int i = kernel_count - 1; i >= 0; i--)
        if (kernels[i].kernel == kernel)
            return kernels[i].time;
    return 0;
}

static void note_event(const cl_event *event)
{
    if (!event)
        return;
    assert_true(event_count < EVENTS);
    events[event_count].event = *event;
    events[event_count++].end = -1;
}

static double *end_of_event(cl_event event)
{
    for (int i = event_count - 1; i >= 0; i--)
        if (events[i].event == event)
            return &events[i].end;
    return NULL;
}

static cl_int CL_API_CALL launch(cl_command_queue on, cl_kernel kernel, cl_uint axes, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint count, const cl_event *list,
                                 cl_event *event)
{
    queue.asked = 0;
    const cl_int error = truth.EnqueueNDRangeKernel(on, kernel, axes, offset, global, local, count, list, event);
    queue.collected += kernel_time(kernel) * (double)(*global / *local);
    note_event(event);
    return error;
}

static cl_int CL_API_CALL mark(cl_command_queue on, cl_uint count, const cl_event *list, cl_event *event)
{
    const cl_int error = truth.EnqueueMarkerWithWaitList(on, count, list, event);
    note_event(event);
    return error;
}

static cl_int CL_API_CALL flush(cl_command_queue on)
{
    slow_gpu_submit(queue.collected);
    queue.collected = 0;
    for (int i = 0; i < event_count; i++)
        if (events[i].end < 0)
            events[i].end = slow_gpu.busy;
    return truth.Flush(on);
}

/* Repeated polling counts as waiting: the clock advances to the event's end. */
static void pass_time(cl_event event, double end)
{
    enum { PATIENCE = 32 };
    queue.asked = event == queue.last ? queue.asked + 1 : 0;
    queue.last = event;
    if (queue.asked > PATIENCE && end > slow_gpu.now)
        slow_gpu.now = end;
}

static cl_int CL_API_CALL tell_event(cl_event event, cl_event_info question, size_t size, void *out, size_t *needed)
{
    const double *end = end_of_event(event);
    cl_int state = CL_RUNNING;
    if (end)
        pass_time(event, *end);
    if (slow_gpu.is_dead)
        state = CL_OUT_OF_RESOURCES;
    else if (!end || (*end >= 0 && *end <= slow_gpu.now))
        return truth.GetEventInfo(event, question, size, out, needed);
    memcpy(out, &state, sizeof state);
    return CL_SUCCESS;
}

/* A GPU's driver may deliver callbacks late, so that none should be requested. */
static cl_int CL_API_CALL refuse_callback(cl_event event, cl_int state,
                                          void(CL_CALLBACK *call)(cl_event, cl_int, void *), void *user)
{
    (void)event, (void)state, (void)call, (void)user;
    slow_gpu.callbacks++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    for (int i = 0; i < event_count; i++)
        if (events[i].event == event) {
            events[i] = events[--event_count];
            break;
        }
    return truth.ReleaseEvent(event);
}

static cl_int CL_API_CALL tell_device(cl_device_id id, cl_device_info question, size_t size, void *out, size_t *needed)
{
    const cl_int error = truth.GetDeviceInfo(id, question, size, out, needed);
    const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    const cl_uint one = 1;
    if (error == CL_SUCCESS && out && question == CL_DEVICE_TYPE)
        memcpy(out, &gpu, sizeof gpu);
    if (error == CL_SUCCESS && out && question == CL_DEVICE_MAX_COMPUTE_UNITS)
        memcpy(out, &one, sizeof one);
    return error;
}

/* Launches are counted one by one, so the driver has no command buffers. */
static void *CL_API_CALL find_nothing(cl_platform_id platform, const char *name)
{
    (void)platform, (void)name;
    return NULL;
}

static void install(void)
{
    truth = tuff__cl;
    tuff__cl.GetDeviceInfo = tell_device;
    tuff__cl.GetExtensionFunctionAddressForPlatform = find_nothing;
    tuff__cl.CreateKernel = create_kernel;
    tuff__cl.EnqueueNDRangeKernel = launch;
    tuff__cl.EnqueueMarkerWithWaitList = mark;
    tuff__cl.Flush = flush;
    tuff__cl.GetEventInfo = tell_event;
    tuff__cl.SetEventCallback = refuse_callback;
    tuff__cl.ReleaseEvent = release_event;
}

static void restore(void)
{
    tuff__cl = truth;
}

static time_predictor *predictor(driver_device *device)
{
    return &device->predictor;
}

const slow_api slow_opencl = {
    .install = install,
    .restore = restore,
    .begin_recording = begin_recording,
    .end_recording = end_recording,
    .predictor = predictor,
};
#else
const slow_api slow_opencl = {.install = NULL};
#endif
