/* An application's own OpenCL objects: tuff uses its context, queue and buffers, never destroys them, and refuses those
   that it cannot use. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/library.h"
#include "each_device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "opencl_faults.h"

enum { COUNT = 1000 };

/* Objects that an application created itself, through the same table. */
typedef struct application {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue, unordered, foreign;
    cl_context other;
    cl_mem buffer;
} application;

static tuff_opencl_handles handles_of(const application *app, cl_command_queue queue)
{
    return (tuff_opencl_handles){.context = app->context, .device_id = app->id, .queue = queue};
}

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
    /* Not every driver supports such queues. */
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
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_null(tuff_array_import(device, read_only, 0, TUFF_F32, TUFF_SHAPE(4)));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_null(tuff_array_import(device, app->buffer, 0, TUFF_F32, TUFF_SHAPE(COUNT + 1)));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_null(tuff_array_import(device, app->buffer, 2, TUFF_F32, TUFF_SHAPE(1)));
    assert_null(tuff_array_import(device, app->buffer, UINT64_MAX - 3, TUFF_F32, TUFF_SHAPE(1)));
    assert_null(tuff_array_import(device, app->buffer, 0, TUFF_F64, TUFF_SHAPE(1)));
    tuff__cl.ReleaseMemObject(foreign);
    tuff__cl.ReleaseMemObject(read_only);
}

/* The handles are those that were wrapped. */
static void expect_the_same_handles(const application *app, tuff_device *device)
{
    tuff_opencl_handles handles = {0};
    tuff_vulkan_handles others;
    tuff_buffer_handle buffer = {0};
    assert_int_equal(tuff_device_unwrap_opencl(device, &handles), TUFF_OK);
    assert_ptr_equal(handles.context, app->context);
    assert_ptr_equal(handles.device_id, app->id);
    assert_ptr_equal(handles.queue, app->queue);
    assert_int_equal(tuff_device_unwrap_vulkan(device, &others), TUFF_E_UNSUPPORTED);
    tuff_array *part = tuff_array_import(device, app->buffer, 400, TUFF_U32, TUFF_SHAPE(10, 10));
    assert_non_null(part);
    assert_int_equal(tuff_array_unwrap(part, &buffer), TUFF_OK);
    assert_ptr_equal(buffer.opencl, app->buffer);
    assert_true(buffer.vulkan == 0 && buffer.offset == 400 && buffer.size == 400);
    tuff_array_destroy(part);
}

/* The application's commands on tuff's queue and buffer run after the work that tuff enqueued before, and before what
   it enqueues later. */
static void write_between_runs(tuff_device *device)
{
    uint32_t words[COUNT], part[100];
    tuff_opencl_handles handles;
    tuff_buffer_handle buffer;
    test_kernel kernel;
    tuff_array *array = tuff_array_create(device, TUFF_U32, TUFF_SHAPE(COUNT));
    tuff_array *view = tuff_array_view(array, 200, TUFF_SHAPE(100));
    assert_non_null(view);
    assert_int_equal(tuff_device_unwrap_opencl(device, &handles), TUFF_OK);
    assert_int_equal(tuff_array_unwrap(view, &buffer), TUFF_OK);
    assert_true(buffer.opencl != NULL && buffer.offset == 800 && buffer.size == sizeof part);
    make_kernel(device, &kernel, "plus_seven", "x[i] += 7u;");
    command dispatch = dispatch_over(device, &kernel, array->storage, COUNT);
    run_commands(&dispatch, 1, device, 1);
    for (uint32_t i = 0; i < 100; i++)
        part[i] = 1000 + i;
    const uint64_t version = tuff_array_version(array);
    assert_int_equal(tuff__cl.EnqueueWriteBuffer(handles.queue, buffer.opencl, CL_TRUE, buffer.offset, buffer.size,
                                                 part, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(tuff_array_touch(view), TUFF_OK);
    assert_true(tuff_array_version(array) > version);
    run_commands(&dispatch, 1, device, 1);
    assert_int_equal(tuff_array_read(array, words, sizeof words), TUFF_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(words[i], i >= 200 && i < 300 ? 1000 + (i - 200) + 7 : 14);
    tuff_array_destroy(array);
    tuff_array_destroy(view);
    tuff__program_release(device, kernel.program);
}

static void use_application(const application *app)
{
    tuff_device_info info;
    tuff_device_counters counters;
    tuff_opencl_handles handles = handles_of(app, app->queue);
    tuff_device *device = tuff_device_wrap_opencl(&handles);
    if (!device)
        fail_msg("%s", tuff_error());
    expect_the_same_handles(app, device);
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    assert_string_equal(info.selector, "opencl:wrapped");
    assert_true(info.proved && info.proved_barrier && info.max_group_size > 0);
    print_message("  %s\n", info.name);
    share_a_buffer(app, device);
    refuse_wrong_buffers(app, device);
    assert_int_equal(tuff_device_counters_get(device, &counters), TUFF_OK);
    assert_int_equal(counters.bytes_allocated, 0);
    tuff_device_close(device);
    handles.queue = app->foreign;
    assert_null(tuff_device_wrap_opencl(&handles));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    if (app->unordered) {
        handles.queue = app->unordered;
        assert_null(tuff_device_wrap_opencl(&handles));
        assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
    }
}

/* Each call about the application's objects fails in turn; its objects stay unchanged. */
static void fail_calls(const application *app)
{
    const int sites[] = {SITE_RetainContext, SITE_RetainCommandQueue, SITE_RetainMemObject, SITE_GetCommandQueueInfo,
                         SITE_GetMemObjectInfo};
    const tuff_opencl_handles handles = handles_of(app, app->queue);
    int before = faults.alive;
    for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++)
        for (int call = 1; call <= 4; call++) {
            arm(sites[i], call, 1, CL_OUT_OF_HOST_MEMORY);
            tuff_device *device = tuff_device_wrap_opencl(&handles);
            tuff_array *array = device ? tuff_array_import(device, app->buffer, 0, TUFF_U32, TUFF_SHAPE(COUNT)) : NULL;
            assert_int_equal(array == NULL, faults.hits > 0);
            if (!array)
                assert_int_equal(tuff_last_status(), TUFF_E_OOM_HOST);
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
    if (tuff_device_unavailable_reason("opencl"))
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

/* tuff itself never calls these functions. */
typedef struct user_event_calls {
    cl_event(CL_API_CALL *create)(cl_context context, cl_int *error);
    cl_int(CL_API_CALL *set)(cl_event event, cl_int status);
} user_event_calls;

static user_event_calls load_user_events(void)
{
    static const char *const names[] = {"libOpenCL.so.1"};
    user_event_calls calls;
    void *library = tuff__library_open(names, 1);
    assert_non_null(library);
    void *create = tuff__library_symbol(library, "clCreateUserEvent");
    void *set = tuff__library_symbol(library, "clSetUserEventStatus");
    assert_true(create && set);
    memcpy(&calls.create, &create, sizeof create);
    memcpy(&calls.set, &set, sizeof set);
    return calls;
}

static cl_event create_gate(const user_event_calls *calls, cl_context context)
{
    cl_int error = CL_SUCCESS;
    cl_event gate = calls->create(context, &error);
    assert_int_equal(error, CL_SUCCESS);
    faults.alive++;
    return gate;
}

static bool is_complete(cl_event event)
{
    cl_int state = CL_QUEUED;
    assert_int_equal(tuff__cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
                     CL_SUCCESS);
    return state == CL_COMPLETE;
}

static cl_int write_after(cl_command_queue queue, cl_mem buffer, const uint32_t *words, cl_event gate, cl_event *end)
{
    const cl_int error =
        tuff__cl.EnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, COUNT * sizeof *words, words, 1, &gate, end);
    return error == CL_SUCCESS ? tuff__cl.Flush(queue) : error;
}

static cl_int read_after(cl_command_queue queue, cl_mem buffer, uint32_t *words, cl_event gate, cl_event *end)
{
    const cl_int error =
        tuff__cl.EnqueueReadBuffer(queue, buffer, CL_FALSE, 0, COUNT * sizeof *words, words, 1, &gate, end);
    return error == CL_SUCCESS ? tuff__cl.Flush(queue) : error;
}

/* The application writes on a queue of its own, tuff copies, and the application reads. All of it waits for an event
   that is set once everything is enqueued, so that no call blocks. */
static void follow_events(const application *app, tuff_device *device)
{
    static uint32_t words[COUNT], back[COUNT];
    cl_int error = CL_SUCCESS;
    const user_event_calls user = load_user_events();
    cl_command_queue own = tuff__cl.CreateCommandQueue(app->context, app->id, 0, &error);
    cl_mem copy = tuff__cl.CreateBuffer(app->context, CL_MEM_READ_WRITE, sizeof words, NULL, &error);
    tuff_array *from = tuff_array_import(device, app->buffer, 0, TUFF_U32, TUFF_SHAPE(COUNT));
    tuff_array *to = tuff_array_import(device, copy, 0, TUFF_U32, TUFF_SHAPE(COUNT));
    cl_event gate = create_gate(&user, app->context), written = NULL, read = NULL;
    void *copied = NULL;
    assert_true(own && copy && from && to);
    for (uint32_t i = 0; i < COUNT; i++)
        words[i] = i * 3;
    assert_int_equal(write_after(own, app->buffer, words, gate, &written), CL_SUCCESS);
    assert_int_equal(tuff_opencl_enqueue_wait(device, written), TUFF_OK);
    assert_int_equal(tuff_array_copy(to, from), TUFF_OK);
    assert_int_equal(tuff_opencl_enqueue_signal(device, &copied), TUFF_OK);
    assert_int_equal(read_after(own, copy, back, copied, &read), CL_SUCCESS);
    assert_false(is_complete(copied));
    assert_int_equal(user.set(gate, CL_COMPLETE), CL_SUCCESS);
    assert_int_equal(tuff__cl.WaitForEvents(1, &read), CL_SUCCESS);
    assert_memory_equal(words, back, sizeof words);
    assert_true(is_complete(copied));
    tuff_array_destroy(from);
    tuff_array_destroy(to);
    const cl_event events[] = {gate, written, copied, read};
    for (int i = 0; i < 4; i++)
        tuff__cl.ReleaseEvent(events[i]);
    tuff__cl.ReleaseMemObject(copy);
    tuff__cl.ReleaseCommandQueue(own);
}

static void refuse_wrong_events(const application *app, tuff_device *device)
{
    const user_event_calls user = load_user_events();
    const int sites[] = {SITE_EnqueueMarkerWithWaitList, SITE_Flush};
    cl_event foreign = create_gate(&user, app->other), own = create_gate(&user, app->context);
    void *event = &foreign;
    assert_int_equal(user.set(own, CL_COMPLETE), CL_SUCCESS);
    assert_int_equal(tuff_opencl_enqueue_wait(device, foreign), TUFF_E_USAGE);
    assert_int_equal(tuff_opencl_enqueue_wait(device, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_opencl_enqueue_signal(device, NULL), TUFF_E_USAGE);
    assert_int_equal(tuff_opencl_enqueue_signal(NULL, &event), TUFF_E_USAGE);
    assert_int_equal(tuff_vulkan_enqueue_wait(device, 1, 1), TUFF_E_UNSUPPORTED);
    assert_null(tuff_array_import_vulkan(device, &(tuff_vulkan_buffer){.buffer = 1}, 0, TUFF_F32, TUFF_SHAPE(1)));
    assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
    for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
        arm(sites[i], 1, 1, CL_OUT_OF_HOST_MEMORY);
        assert_int_equal(tuff_opencl_enqueue_signal(device, &event), TUFF_E_OOM_HOST);
        assert_ptr_equal(event, &foreign);
        arm(sites[i], 1, 1, CL_OUT_OF_HOST_MEMORY);
        assert_int_equal(tuff_opencl_enqueue_wait(device, own), TUFF_E_OOM_HOST);
    }
    disarm();
    tuff__cl.ReleaseEvent(foreign);
    tuff__cl.ReleaseEvent(own);
}

static void order_by_events(const application *app)
{
    const tuff_opencl_handles handles = handles_of(app, app->queue);
    tuff_device *device = tuff_device_wrap_opencl(&handles);
    assert_non_null(device);
    follow_events(app, device);
    refuse_wrong_events(app, device);
    tuff_device_close(device);
}

static void lend_handles(const application *app)
{
    const tuff_opencl_handles handles = handles_of(app, app->queue);
    tuff_device *device = tuff_device_wrap_opencl(&handles);
    assert_non_null(device);
    write_between_runs(device);
    tuff_device_close(device);
}

static void lend_of_opened(tuff_device *device)
{
    if (strncmp(tuff__device_info(device)->selector, "opencl:", 7) == 0)
        write_between_runs(device);
}

static void events_order_the_work_of_both(void **state)
{
    (void)state;
    for_each_application(order_by_events);
}

static void devices_lend_their_handles(void **state)
{
    (void)state;
    for_each_application(lend_handles);
    for_each_driver(lend_of_opened);
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
        cmocka_unit_test(events_order_the_work_of_both),
        cmocka_unit_test(devices_lend_their_handles),
        cmocka_unit_test(calls_about_them_may_fail),
    };
    return cmocka_run_group_tests_name("opencl_wrap", tests, use_empty_cache, drop_cache);
}
#else
static void opencl_is_absent(void **state)
{
    int something = 0;
    (void)state;
    assert_null(tuff_device_wrap_opencl(
        &(tuff_opencl_handles){.context = &something, .device_id = &something, .queue = &something}));
    assert_int_equal(tuff_last_status(), TUFF_E_NO_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(opencl_is_absent)};
    return cmocka_run_group_tests_name("opencl_wrap", tests, NULL, NULL);
}
#endif
