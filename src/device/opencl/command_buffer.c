/* Command buffers (cl_khr_command_buffer): launches that are recorded once and then enqueued by one call. Only launches
   are recorded, because the calls that record copies have other parameters in newer versions of the extension.

   CPU drivers have no launch to save: PoCL 3.1 and Intel's runtime take 1.3 to 1.7 times as long to enqueue a command
   buffer as to enqueue its launches one by one. So command buffers are used on other devices, after a trial has shown
   that they compute what their launches do; TUFF_COMMAND_BUFFERS=1 tries them on every device. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "device/opencl/api.h"

/* From the extension's header, which older systems lack. */
enum {
    COMMAND_BUFFER_CAPABILITIES = 0x12A9,
    REQUIRED_QUEUE_PROPERTIES = 0x12AA,
    COMMAND_BUFFER_FLAGS = 0x1293,
    CAN_BE_PENDING_TWICE = 1 << 2,
    MAY_BE_PENDING_TWICE = 1 << 0
};

static bool is_wanted(const driver_device *device)
{
    const char *setting = getenv("TUFF_COMMAND_BUFFERS");
    return setting != NULL ? strcmp(setting, "0") != 0 : !device->is_cpu;
}

/* Whether the driver offers command buffers that can be enqueued again before they have run, for plain queues. */
static bool is_offered(const driver_device *device)
{
    cl_bitfield capabilities = 0, required = 0;
    char *extensions = tuff__cl_read_extensions(device->id);
    const bool listed = extensions != NULL && tuff__cl_has_extension(extensions, "cl_khr_command_buffer");
    tuff__free(extensions);
    return listed &&
           tuff__cl.GetDeviceInfo(device->id, COMMAND_BUFFER_CAPABILITIES, sizeof capabilities, &capabilities, NULL) ==
               CL_SUCCESS &&
           tuff__cl.GetDeviceInfo(device->id, REQUIRED_QUEUE_PROPERTIES, sizeof required, &required, NULL) ==
               CL_SUCCESS &&
           (capabilities & CAN_BE_PENDING_TWICE) != 0 && required == 0;
}

static bool find_call(const driver_device *device, const char *name, void *slot, size_t size)
{
    void *found = tuff__cl.GetExtensionFunctionAddressForPlatform(device->platform, name);
    memcpy(slot, &found, size);
    return found != NULL;
}

static bool find_calls(const driver_device *device, command_buffer_api *calls)
{
#define FIND(slot, name) find_call(device, name, &calls->slot, sizeof calls->slot)
    return FIND(create, "clCreateCommandBufferKHR") && FIND(add_launch, "clCommandNDRangeKernelKHR") &&
           FIND(finalize, "clFinalizeCommandBufferKHR") && FIND(enqueue, "clEnqueueCommandBufferKHR") &&
           FIND(release, "clReleaseCommandBufferKHR");
#undef FIND
}

command_buffer *tuff__cl_command_buffer_create(driver_device *device)
{
    const cl_ulong properties[] = {COMMAND_BUFFER_FLAGS, MAY_BE_PENDING_TWICE, 0};
    cl_int error = CL_SUCCESS;
    command_buffer *made = device->command_buffers.create(1, &device->queue, properties, &error);
    return error == CL_SUCCESS ? made : NULL;
}

bool tuff__cl_command_buffer_add(const driver_device *device, command_buffer *buffer, cl_kernel kernel,
                                 size_t global_size, size_t local_size)
{
    return device->command_buffers.add_launch(buffer, NULL, NULL, kernel, 1, NULL, &global_size, &local_size, 0, NULL,
                                              NULL, NULL) == CL_SUCCESS;
}

bool tuff__cl_command_buffer_finalize(const driver_device *device, command_buffer *buffer)
{
    return device->command_buffers.finalize(buffer) == CL_SUCCESS;
}

cl_int tuff__cl_command_buffer_enqueue(const driver_device *device, command_buffer *buffer, cl_event *event)
{
    return device->command_buffers.enqueue(0, NULL, buffer, 0, NULL, event);
}

void tuff__cl_command_buffer_destroy(const driver_device *device, command_buffer *buffer)
{
    if (buffer != NULL)
        (void)device->command_buffers.release(buffer);
}

/* A trial: each launch reads what other groups of the one before wrote, and its arguments differ. */
enum { TRIAL_LAUNCHES = 6, TRIAL_ITEMS = 256, TRIAL_GROUP = 16, TRIAL_RUNS = 2 };
static const char trial_text[] = "__kernel void trial(__global const uint *from, __global uint *to, uint number)\n"
                                 "{\n"
                                 "    uint i = get_global_id(0);\n"
                                 "    to[i] = from[255u - i] * 1664525u + number;\n"
                                 "}\n";

typedef struct trial {
    cl_program program;
    cl_mem memory[2];
    cl_kernel kernels[TRIAL_LAUNCHES];
    command_buffer *buffer;
} trial;

static void fill(cl_uint *words)
{
    for (cl_uint i = 0; i < TRIAL_ITEMS; i++)
        words[i] = i;
}

static tuff_status make_kernel(const trial *self, int index, cl_kernel *out)
{
    const cl_uint number = (cl_uint)index;
    cl_int error = CL_SUCCESS;
    *out = tuff__cl.CreateKernel(self->program, "trial", &error);
    if (error != CL_SUCCESS)
        return tuff__cl_fail(error, "clCreateKernel");
    CL_TRY(SetKernelArg, (*out, 0, sizeof(cl_mem), &self->memory[index % 2]));
    CL_TRY(SetKernelArg, (*out, 1, sizeof(cl_mem), &self->memory[1 - index % 2]));
    CL_TRY(SetKernelArg, (*out, 2, sizeof number, &number));
    return TUFF_OK;
}

static tuff_status prepare_trial(driver_device *device, trial *self)
{
    const char *text = trial_text;
    cl_int error = CL_SUCCESS;
    cl_uint words[TRIAL_ITEMS];
    fill(words);
    for (int i = 0; i < 2; i++) {
        self->memory[i] = tuff__cl.CreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof words,
                                                words, &error);
        if (error != CL_SUCCESS)
            return tuff__cl_fail(error, "clCreateBuffer");
    }
    self->program = tuff__cl.CreateProgramWithSource(device->context, 1, &text, NULL, &error);
    if (error != CL_SUCCESS)
        return tuff__cl_fail(error, "clCreateProgramWithSource");
    CL_TRY(BuildProgram, (self->program, 1, &device->id, "", NULL, NULL));
    self->buffer = tuff__cl_command_buffer_create(device);
    bool recorded = self->buffer != NULL;
    for (int i = 0; i < TRIAL_LAUNCHES && recorded; i++) {
        TRY(make_kernel(self, i, &self->kernels[i]));
        recorded = tuff__cl_command_buffer_add(device, self->buffer, self->kernels[i], TRIAL_ITEMS, TRIAL_GROUP);
    }
    recorded = recorded && tuff__cl_command_buffer_finalize(device, self->buffer);
    return recorded ? TUFF_OK : FAIL(TUFF_E_UNSUPPORTED, "launches cannot be recorded");
}

/* Enqueues the command buffer twice without waiting in between. */
static tuff_status run_trial(driver_device *device, const trial *self, cl_uint *got)
{
    cl_event events[TRIAL_RUNS] = {NULL};
    cl_int error = CL_SUCCESS;
    for (int i = 0; i < TRIAL_RUNS && error == CL_SUCCESS; i++)
        error = tuff__cl_command_buffer_enqueue(device, self->buffer, &events[i]);
    tuff_status status = error == CL_SUCCESS ? TUFF_OK : tuff__cl_fail(error, "clEnqueueCommandBufferKHR");
    if (status == TUFF_OK && (error = tuff__cl.Flush(device->queue)) != CL_SUCCESS)
        status = tuff__cl_fail(error, "clFlush");
    if (status == TUFF_OK)
        status = tuff__cl_wait_event(device, events[TRIAL_RUNS - 1]);
    for (int i = 0; i < TRIAL_RUNS; i++)
        if (events[i] != NULL && !device->hung)
            tuff__cl.ReleaseEvent(events[i]);
    if (status != TUFF_OK)
        return status;
    CL_TRY(EnqueueReadBuffer, (device->queue, self->memory[TRIAL_LAUNCHES % 2], CL_TRUE, 0, TRIAL_ITEMS * sizeof *got,
                               got, 0, NULL, NULL));
    return TUFF_OK;
}

static bool is_correct(const cl_uint *got)
{
    cl_uint from[TRIAL_ITEMS], to[TRIAL_ITEMS];
    fill(from);
    for (cl_uint at = 0; at < TRIAL_RUNS * TRIAL_LAUNCHES; at++) {
        for (int i = 0; i < TRIAL_ITEMS; i++)
            to[i] = from[TRIAL_ITEMS - 1 - i] * 1664525u + at % TRIAL_LAUNCHES;
        memcpy(from, to, sizeof from);
    }
    return memcmp(from, got, sizeof from) == 0;
}

/* If the device hangs, a release may never return, so the objects are leaked. */
static void destroy_trial(const driver_device *device, const trial *self)
{
    if (device->hung)
        return;
    tuff__cl_command_buffer_destroy(device, self->buffer);
    for (int i = 0; i < TRIAL_LAUNCHES; i++)
        if (self->kernels[i] != NULL)
            tuff__cl.ReleaseKernel(self->kernels[i]);
    if (self->program != NULL)
        tuff__cl.ReleaseProgram(self->program);
    for (int i = 0; i < 2; i++)
        if (self->memory[i] != NULL)
            tuff__cl.ReleaseMemObject(self->memory[i]);
}

tuff_status tuff__cl_find_command_buffers(driver_device *device)
{
    trial self = {.program = NULL};
    cl_uint got[TRIAL_ITEMS];
    if (!is_wanted(device) || !is_offered(device) || !find_calls(device, &device->command_buffers)) {
        device->command_buffers = (command_buffer_api){.create = NULL};
        return TUFF_OK;
    }
    saved_error before;
    tuff__error_save(&before);
    tuff_status status = prepare_trial(device, &self);
    if (status == TUFF_OK)
        status = run_trial(device, &self, got);
    const bool correct = status == TUFF_OK && is_correct(got);
    destroy_trial(device, &self);
    if (correct)
        return TUFF_OK;
    tuff__log(TUFF_LOG_WARNING, "opencl: command buffers are not used: %s",
              status == TUFF_OK ? "their launches computed wrong values" : tuff_error());
    device->command_buffers = (command_buffer_api){.create = NULL};
    if (device->hung || status == TUFF_E_DEVICE_LOST)
        return status;
    tuff__error_restore(&before);
    return TUFF_OK;
}

bool tuff__cl_has_command_buffers(driver_device *device)
{
    return device->command_buffers.create != NULL;
}
