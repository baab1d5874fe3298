/* CLBlast as a contestant, on the OpenCL device that tuff runs on, through a context and a queue of its own. The
   library is opened at run time; its absence is said and no error. */
#include <string.h>

#include "tools/bench.h"

#if TUFF_WITH_OPENCL
#include "base/alloc.h"
#include "base/library.h"
#include "device/opencl/api.h"

/* clblast_c.h: the values of its enumerations are fixed. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef int clblast_sgemm(int layout, int a_form, int b_form, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                          size_t a_start, size_t a_stride, cl_mem b, size_t b_start, size_t b_stride, float beta,
                          cl_mem c, size_t c_start, size_t c_stride, cl_command_queue *queue, cl_event *event);
typedef int clblast_sgemv(int layout, int form, size_t m, size_t n, float alpha, cl_mem a, size_t a_start,
                          size_t a_stride, cl_mem x, size_t x_start, size_t x_step, float beta, cl_mem y,
                          size_t y_start, size_t y_step, cl_command_queue *queue, cl_event *event);

typedef struct clblast {
    clblast_sgemm *sgemm;
    clblast_sgemv *sgemv;
} clblast;

typedef struct clblast_product {
    bench_product of;
    cl_context context;
    cl_command_queue queue;
    cl_mem a, b, c;
} clblast_product;

static const clblast *find_clblast(void)
{
    static const char *const names[] = {"libclblast.so.1"};
    static clblast found;
    static bool tried;
    if (!tried) {
        void *library = tuff__library_open(names, 1);
        tried = true;
        *(void **)&found.sgemm = tuff__library_symbol(library, "CLBlastSgemm");
        *(void **)&found.sgemv = tuff__library_symbol(library, "CLBlastSgemv");
    }
    return found.sgemm && found.sgemv ? &found : NULL;
}

static bool is_opencl(const bench *self)
{
    return strncmp(self->info.selector, "opencl", 6) == 0;
}

const char *bench_clblast_absence(const bench *self)
{
    if (!is_opencl(self))
        return "CLBlast: on OpenCL devices only";
    return find_clblast() ? NULL : "CLBlast: libclblast.so.1 does not open (Debian: libclblast1)";
}

/* The device that tuff opened, found again by what it says of itself: equal ones serve equally. */
static bool find_device(const tuff_device_info *wanted, cl_device_id *out)
{
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    if (tuff__cl.GetPlatformIDs(16, platforms, &platform_count) != CL_SUCCESS)
        return false;
    for (cl_uint i = 0; i < platform_count && i < 16; i++) {
        cl_device_id ids[16];
        cl_uint count = 0;
        tuff_device_info info;
        if (tuff__cl.GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 16, ids, &count) != CL_SUCCESS)
            continue;
        for (cl_uint k = 0; k < count && k < 16; k++) {
            *out = ids[k];
            if (tuff__cl_describe_device(platforms[i], ids[k], &info) == TUFF_OK &&
                strcmp(info.name, wanted->name) == 0 && strcmp(info.driver, wanted->driver) == 0)
                return true;
        }
    }
    return false;
}

static tuff_status fail(const char *call, int error)
{
    return FAIL(TUFF_E_UNSUPPORTED, "CLBlast: %s answers %d", call, error);
}

static tuff_status clblast_run(void *self, int count, bench_sample *sample)
{
    clblast_product *p = self;
    const clblast *library = find_clblast();
    const size_t m = (size_t)p->of.m, n = (size_t)p->of.n, k = (size_t)p->of.k;
    const bool at = p->of.a_transposed, bt = p->of.b_transposed;
    float first;
    (void)sample;
    for (int i = 0; i < count; i++) {
        const int error =
            m == 1 ? library->sgemv(ROW_MAJOR, bt ? NO_TRANSPOSE : TRANSPOSE, bt ? n : k, bt ? k : n, 1, p->b, 0,
                                    bt ? k : n, p->a, 0, 1, 0, p->c, 0, 1, &p->queue, NULL)
                   : library->sgemm(ROW_MAJOR, at ? TRANSPOSE : NO_TRANSPOSE, bt ? TRANSPOSE : NO_TRANSPOSE, m, n, k, 1,
                                    p->a, 0, at ? m : k, p->b, 0, bt ? k : n, 0, p->c, 0, n, &p->queue, NULL);
        if (error != 0)
            return fail(m == 1 ? "CLBlastSgemv" : "CLBlastSgemm", error);
    }
    /* A read of one element is the wait. */
    const cl_int error = tuff__cl.EnqueueReadBuffer(p->queue, p->c, CL_TRUE, 0, sizeof first, &first, 0, NULL, NULL);
    return error == CL_SUCCESS ? TUFF_OK : fail("clEnqueueReadBuffer", error);
}

static tuff_status clblast_read(void *self, float *values, int64_t count)
{
    clblast_product *p = self;
    const size_t size = (size_t)count * sizeof *values;
    const cl_int error = tuff__cl.EnqueueReadBuffer(p->queue, p->c, CL_TRUE, 0, size, values, 0, NULL, NULL);
    return error == CL_SUCCESS ? TUFF_OK : fail("clEnqueueReadBuffer", error);
}

static void clblast_destroy(void *self)
{
    clblast_product *p = self;
    cl_mem const buffers[] = {p ? p->a : NULL, p ? p->b : NULL, p ? p->c : NULL};
    for (int i = 0; i < 3; i++)
        if (buffers[i])
            tuff__cl.ReleaseMemObject(buffers[i]);
    if (p && p->queue)
        tuff__cl.ReleaseCommandQueue(p->queue);
    if (p && p->context)
        tuff__cl.ReleaseContext(p->context);
    tuff__free(p);
}

static tuff_status make_buffer(clblast_product *p, int64_t count, uint32_t seed, cl_mem *out)
{
    cl_int error = CL_SUCCESS;
    const size_t size = (size_t)count * sizeof(float);
    *out = tuff__cl.CreateBuffer(p->context, CL_MEM_READ_WRITE, size, NULL, &error);
    if (error != CL_SUCCESS)
        return fail("clCreateBuffer", error);
    float *values = tuff__alloc(size);
    if (!values)
        return TUFF_E_OOM_HOST;
    bench_fill(values, count, seed);
    error = tuff__cl.EnqueueWriteBuffer(p->queue, *out, CL_TRUE, 0, size, values, 0, NULL, NULL);
    tuff__free(values);
    return error == CL_SUCCESS ? TUFF_OK : fail("clEnqueueWriteBuffer", error);
}

static tuff_status make(clblast_product *p, const tuff_device_info *info)
{
    cl_device_id id = NULL;
    cl_int error = CL_SUCCESS;
    if (!find_device(info, &id))
        return FAIL(TUFF_E_NO_DEVICE, "CLBlast: the device %s was not found again", info->name);
    p->context = tuff__cl.CreateContext(NULL, 1, &id, NULL, NULL, &error);
    if (error != CL_SUCCESS)
        return fail("clCreateContext", error);
    p->queue = tuff__cl.CreateCommandQueue(p->context, id, 0, &error);
    if (error != CL_SUCCESS)
        return fail("clCreateCommandQueue", error);
    TRY(make_buffer(p, p->of.m * p->of.k, 1, &p->a));
    TRY(make_buffer(p, p->of.k * p->of.n, 2, &p->b));
    return make_buffer(p, p->of.m * p->of.n, 3, &p->c);
}

tuff_status bench_clblast_add(bench *self, bench_work *work, const bench_product *of)
{
    if (bench_clblast_absence(self))
        return TUFF_OK;
    bench_contestant *item = bench_add(work, BENCH_PEER, "CLBlast");
    clblast_product *made = item ? tuff__calloc(1, sizeof *made) : NULL;
    if (!made)
        return tuff__last_status();
    item->self = made;
    item->run = clblast_run;
    item->read = clblast_read;
    item->destroy = clblast_destroy;
    made->of = *of;
    return make(made, &self->info);
}
#else
const char *bench_clblast_absence(const bench *self)
{
    (void)self;
    return "CLBlast: built without OpenCL";
}

tuff_status bench_clblast_add(bench *self, bench_work *work, const bench_product *of)
{
    (void)self, (void)work, (void)of;
    return TUFF_OK;
}
#endif
