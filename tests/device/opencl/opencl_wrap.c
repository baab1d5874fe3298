/* An application's own OpenCL objects: tuff works on its context, queue and buffers, leaves them to it, and refuses
   what it cannot use. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "opencl_faults.h"

enum { COUNT = 1000 };

/* What an application has made for itself, through the same table. */
typedef struct application {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue, unordered, foreign;
    cl_context other;
    cl_mem buffer;
} application;

static cl_context make_context(const application *app)
{
    cl_int error = CL_SUCCESS;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)app->platform, 0};
    cl_context context = tuff__cl.CreateContext(properties, 1, &app->id, NULL, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    return context;
}

static application make_application(cl_platform_id platform, cl_device_id id)
{
    cl_int error = CL_SUCCESS;
    application app = {.platform = platform, .id = id};
    app.context = make_context(&app);
    app.other = make_context(&app);
    app.queue = tuff__cl.CreateCommandQueue(app.context, id, 0, &error);
    assert_int_equal(error, CL_SUCCESS);
    app.foreign = tuff__cl.CreateCommandQueue(app.other, id, 0, &error);
    assert_int_equal(error, CL_SUCCESS);
    /* Not every driver has such queues. */
    app.unordered = tuff__cl.CreateCommandQueue(app.context, id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
    app.buffer = tuff__cl.CreateBuffer(app.context, CL_MEM_READ_WRITE, COUNT * 4, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    return app;
}

static void drop_application(const application *app)
{
    tuff__cl.ReleaseMemObject(app->buffer);
    if (app->unordered)
        tuff__cl.ReleaseCommandQueue(app->unordered);
    tuff__cl.ReleaseCommandQueue(app->foreign);
    tuff__cl.ReleaseCommandQueue(app->queue);
    tuff__cl.ReleaseContext(app->other);
    tuff__cl.ReleaseContext(app->context);
}

/* The application writes, tuff computes on a part, the application reads. */
static void share_a_buffer(const application *app, tuff_device *device)
{
    uint32_t words[COUNT], part[100];
    test_kernel kernel;
    for (uint32_t i = 0; i < COUNT; i++)
        words[i] = i;
    assert_int_equal(
        tuff__cl.EnqueueWriteBuffer(app->queue, app->buffer, CL_TRUE, 0, sizeof words, words, 0, NULL, NULL),
        CL_SUCCESS);
    tuff_array *whole = tuff_array_import(device, app->buffer, 0, TUFF_U32, TUFF_SHAPE(COUNT));
    tuff_array *some = tuff_array_import(device, app->buffer, 400, TUFF_U32, TUFF_SHAPE(10, 10));
    assert_non_null(whole);
    assert_non_null(some);
    assert_int_equal(tuff_array_read(some, part, sizeof part), TUFF_OK);
    assert_memory_equal(part, words + 100, sizeof part);
    make_kernel(device, &kernel, "plus_seven", "x[i] += 7u;");
    command dispatch = dispatch_over(device, &kernel, whole->storage, COUNT);
    run_commands(&dispatch, 1, device, 3);
    tuff_array_destroy(whole);
    assert_int_equal(tuff_array_write(some, part, sizeof part), TUFF_OK);
    tuff_array_destroy(some);
    tuff__program_release(device, kernel.program);
    assert_int_equal(
        tuff__cl.EnqueueReadBuffer(app->queue, app->buffer, CL_TRUE, 0, sizeof words, words, 0, NULL, NULL),
        CL_SUCCESS);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(words[i], i >= 100 && i < 200 ? i : i + 21);
}

static void refuse_wrong_buffers(const application *app, tuff_device *device)
{
    cl_int error = CL_SUCCESS;
    cl_mem foreign = tuff__cl.CreateBuffer(app->other, CL_MEM_READ_WRITE, 4096, NULL, &error);
    cl_mem read_only = tuff__cl.CreateBuffer(app->context, CL_MEM_READ_ONLY, 4096, NULL, &error);
    assert_null(tuff_array_import(device, foreign, 0, TUFF_F32, TUFF_SHAPE(4)));
    assert_int_equal(tuff__last_status(), TUFF_E_USAGE);
    assert_null(tuff_array_import(device, read_only, 0, TUFF_F32, TUFF_SHAPE(4)));
    assert_int_equal(tuff__last_status(), TUFF_E_USAGE);
    assert_null(tuff_array_import(device, app->buffer, 0, TUFF_F32, TUFF_SHAPE(COUNT + 1)));
    assert_int_equal(tuff__last_status(), TUFF_E_USAGE);
    assert_null(tuff_array_import(device, app->buffer, 2, TUFF_F32, TUFF_SHAPE(1)));
    assert_null(tuff_array_import(device, app->buffer, UINT64_MAX - 3, TUFF_F32, TUFF_SHAPE(1)));
    assert_null(tuff_array_import(device, app->buffer, 0, TUFF_F64, TUFF_SHAPE(1)));
    tuff__cl.ReleaseMemObject(foreign);
    tuff__cl.ReleaseMemObject(read_only);
}

static void use_application(const application *app)
{
    tuff_device_info info;
    tuff_device_counters counters;
    tuff_device *device = tuff_device_wrap_opencl(app->context, app->id, app->queue);
    if (!device)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff_device_information(device, &info), TUFF_OK);
    assert_string_equal(info.selector, "opencl:wrapped");
    assert_true(info.proved && info.proved_barrier && info.max_group_size > 0);
    print_message("  %s\n", info.name);
    share_a_buffer(app, device);
    refuse_wrong_buffers(app, device);
    assert_int_equal(tuff_device_count_work(device, &counters), TUFF_OK);
    assert_int_equal(counters.bytes_allocated, 0);
    tuff_device_close(device);
    assert_null(tuff_device_wrap_opencl(app->context, app->id, app->foreign));
    assert_int_equal(tuff__last_status(), TUFF_E_USAGE);
    if (app->unordered) {
        assert_null(tuff_device_wrap_opencl(app->context, app->id, app->unordered));
        assert_int_equal(tuff__last_status(), TUFF_E_UNSUPPORTED);
    }
}

/* Every call about the application's objects fails in turn; what it made stays as it was. */
static void fail_calls(const application *app)
{
    const int sites[] = {SITE_RetainContext, SITE_RetainCommandQueue, SITE_RetainMemObject, SITE_GetCommandQueueInfo,
                         SITE_GetMemObjectInfo};
    int before = faults.alive;
    for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++)
        for (int call = 1; call <= 4; call++) {
            arm(sites[i], call, 1, CL_OUT_OF_HOST_MEMORY);
            tuff_device *device = tuff_device_wrap_opencl(app->context, app->id, app->queue);
            tuff_array *array = device ? tuff_array_import(device, app->buffer, 0, TUFF_U32, TUFF_SHAPE(COUNT)) : NULL;
            assert_int_equal(array == NULL, faults.hits > 0);
            if (!array)
                assert_int_equal(tuff__last_status(), TUFF_E_OOM_HOST);
            tuff_array_destroy(array);
            tuff_device_close(device);
            assert_int_equal(faults.alive, before);
        }
    disarm();
}

static void for_each_application(void (*test)(const application *app))
{
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    if (tuff_device_absence("opencl"))
        skip();
    install_faults();
    disarm();
    assert_int_equal(tuff__cl.GetPlatformIDs(16, platforms, &platform_count), CL_SUCCESS);
    for (cl_uint i = 0; i < platform_count; i++) {
        cl_device_id id;
        cl_uint count = 0;
        if (tuff__cl.GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &id, &count) != CL_SUCCESS || count == 0)
            continue;
        application app = make_application(platforms[i], id);
        test(&app);
        drop_application(&app);
        assert_int_equal(faults.alive, 0);
        assert_int_equal(faults.null_handles, 0);
    }
    remove_faults();
}

static void applications_share_their_objects(void **state)
{
    (void)state;
    for_each_application(use_application);
}

static void calls_about_them_may_fail(void **state)
{
    (void)state;
    for_each_application(fail_calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(applications_share_their_objects),
        cmocka_unit_test(calls_about_them_may_fail),
    };
    return cmocka_run_group_tests_name("opencl_wrap", tests, use_fresh_cache, drop_cache);
}
#else
static void opencl_is_absent(void **state)
{
    int something = 0;
    (void)state;
    assert_null(tuff_device_wrap_opencl(&something, &something, &something));
    assert_int_equal(tuff__last_status(), TUFF_E_NO_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(opencl_is_absent)};
    return cmocka_run_group_tests_name("opencl_wrap", tests, NULL, NULL);
}
#endif
