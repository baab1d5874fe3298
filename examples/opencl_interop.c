/* tuff on an application's own OpenCL device. A kernel of the application writes a matrix x, tuff computes gelu(x w +
   b) in the application's buffers, and the kernel reads the result. The application works on one queue and tuff on
   another; events order the work on the device, and the host waits only once, at the end, to check the numbers.

   Usage: build/examples/opencl_interop [PART OF A PLATFORM'S NAME]

   With a single in-order queue, no events would be needed. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interop_model.h"

static const char source[] =
    "__kernel void apply(__global const float *from, __global float *to, float scale, float step)\n"
    "{\n"
    "    size_t i = get_global_id(0);\n"
    "    to[i] = (scale == 0.0f ? 0.0f : scale * from[i]) + step * (float)(i % 17);\n"
    "}\n";

typedef struct application {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue own, shared; /* shared: the queue that tuff works on */
    cl_program program;
    cl_kernel kernel;
    cl_mem x, y, result;
} application;

static void choose_platform(application *self, const char *part)
{
    cl_platform_id all[16];
    cl_uint count = 0;
    need(clGetPlatformIDs(16, all, &count) == CL_SUCCESS, "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16 && self->id == NULL; i++) {
        char name[256] = "";
        (void)clGetPlatformInfo(all[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if ((part == NULL || strstr(name, part)) &&
            clGetDeviceIDs(all[i], CL_DEVICE_TYPE_ALL, 1, &self->id, NULL) == CL_SUCCESS) {
            printf("%s\n", name);
            self->platform = all[i];
        }
    }
    need(self->id != NULL, "no platform of that name has a device");
}

static cl_mem create_buffer(const application *self, int count)
{
    cl_int error;
    cl_mem buffer = clCreateBuffer(self->context, CL_MEM_READ_WRITE, sizeof(float) * (size_t)count, NULL, &error);
    need(error == CL_SUCCESS, "clCreateBuffer");
    return buffer;
}

static cl_command_queue create_queue(const application *self)
{
    cl_int error;
    cl_command_queue queue = clCreateCommandQueue(self->context, self->id, 0, &error);
    need(error == CL_SUCCESS, "clCreateCommandQueue");
    return queue;
}

static void open_application(application *self)
{
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)self->platform, 0};
    const char *text = source;
    cl_int error;
    self->context = clCreateContext(properties, 1, &self->id, NULL, NULL, &error);
    need(error == CL_SUCCESS, "clCreateContext");
    self->own = create_queue(self);
    self->shared = create_queue(self);
    self->program = clCreateProgramWithSource(self->context, 1, &text, NULL, &error);
    need(error == CL_SUCCESS, "clCreateProgramWithSource");
    need(clBuildProgram(self->program, 1, &self->id, "", NULL, NULL) == CL_SUCCESS, "clBuildProgram");
    self->kernel = clCreateKernel(self->program, "apply", &error);
    need(error == CL_SUCCESS, "clCreateKernel");
    self->x = create_buffer(self, ROWS * INNER);
    self->y = create_buffer(self, ROWS * COLUMNS);
    self->result = create_buffer(self, ROWS * COLUMNS);
}

static void close_application(application *self)
{
    const cl_mem buffers[] = {self->x, self->y, self->result};
    for (int i = 0; i < 3; i++)
        (void)clReleaseMemObject(buffers[i]);
    (void)clReleaseKernel(self->kernel);
    (void)clReleaseProgram(self->program);
    (void)clReleaseCommandQueue(self->shared);
    (void)clReleaseCommandQueue(self->own);
    (void)clReleaseContext(self->context);
}

/* Enqueues to = scale * from + step * (i % 17), to run after wait_event unless it is NULL. Returns an event for
   its completion. The queue is flushed, so that other queues may wait for the event. */
static cl_event enqueue_step(application *self, cl_mem from, cl_mem to, int count, const cl_float factors[2],
                             cl_event wait_event)
{
    const size_t items = (size_t)count;
    cl_event end = NULL;
    bool good = clSetKernelArg(self->kernel, 0, sizeof(cl_mem), &from) == CL_SUCCESS &&
                clSetKernelArg(self->kernel, 1, sizeof(cl_mem), &to) == CL_SUCCESS;
    for (cl_uint i = 0; i < 2; i++)
        good = good && clSetKernelArg(self->kernel, 2 + i, sizeof *factors, &factors[i]) == CL_SUCCESS;
    need(good, "clSetKernelArg");
    need(clEnqueueNDRangeKernel(self->own, self->kernel, 1, NULL, &items, NULL, wait_event ? 1 : 0,
                                wait_event ? &wait_event : NULL, &end) == CL_SUCCESS,
         "clEnqueueNDRangeKernel");
    need(clFlush(self->own) == CL_SUCCESS, "clFlush");
    return end;
}

/* tuff's part */

static tuff_array *import(tuff_device *device, cl_mem buffer, tuff_shape shape)
{
    tuff_array *array = tuff_array_import(device, buffer, 0, TUFF_F32, shape);
    need(array != NULL, "tuff_array_import");
    return array;
}

static double run(application *self, tuff_device *device)
{
    static float result[ROWS * COLUMNS];
    void *computed = NULL;
    tuff_array *x = import(device, self->x, TUFF_SHAPE(ROWS, INNER));
    tuff_array *y = import(device, self->y, TUFF_SHAPE(ROWS, COLUMNS));
    tuff_graph *graph = tuff_graph_create(device);
    tuff_plan *plan = compile(graph, x, y);

    cl_event written = enqueue_step(self, self->y, self->x, ROWS * INNER, (cl_float[]){0, 0.125f}, NULL);
    need(tuff_opencl_enqueue_wait(device, written) == TUFF_OK, "tuff_opencl_enqueue_wait");
    need(tuff_plan_run(plan) == TUFF_OK, "tuff_plan_run");
    need(tuff_opencl_enqueue_signal(device, &computed) == TUFF_OK, "tuff_opencl_enqueue_signal");
    cl_event end = enqueue_step(self, self->y, self->result, ROWS * COLUMNS, (cl_float[]){2, 1}, computed);

    need(clEnqueueReadBuffer(self->own, self->result, CL_TRUE, 0, sizeof result, result, 1, &end, NULL) == CL_SUCCESS,
         "clEnqueueReadBuffer");
    const cl_event events[] = {written, computed, end};
    for (int i = 0; i < 3; i++)
        (void)clReleaseEvent(events[i]);
    tuff_plan_destroy(plan);
    tuff_graph_destroy(graph);
    tuff_array_destroy(x);
    tuff_array_destroy(y);
    return check(result);
}

int main(int count, char **arguments)
{
    application self = {0};
    fill_weights();
    choose_platform(&self, count > 1 ? arguments[1] : NULL);
    open_application(&self);
    const tuff_opencl_handles handles = {.context = self.context, .device_id = self.id, .queue = self.shared};
    tuff_device *device = tuff_device_wrap_opencl(&handles);
    need(device != NULL, "tuff_device_wrap_opencl");
    const double worst = run(&self, device);
    tuff_device_close(device);
    close_application(&self);
    return report(worst);
}
