/* An application's own VkDevice: tuff computes on its queue and buffers, ordered by its semaphores and under its lock,
   does without features that it did not enable, refuses what it cannot use, and never destroys the application's
   objects. All under the validation layer. */
#define _POSIX_C_SOURCE 200809L
#include "vulkan_application.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "each_device.h"
#include "base/alloc.h"
#include "device/state.h"
#include "device/vulkan/state.h"
#include "failing_memory.h"
#include "small_plans.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

enum {
    COUNT = 1000,
    BYTES = 4 * COUNT,
    STORAGE = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT
};
#define THREE 0x40400000u /* bits of an f32 */
#define SEVEN 0x40e00000u
#define FIFTEEN 0x41700000u

static tuff_device *wrap(const application *app)
{
    tuff_device *device = tuff_device_wrap_vulkan(&app->handles);
    if (!device)
        fail_msg("%s", tuff_error());
    return device;
}

static tuff_array *import(tuff_device *device, const application_buffer *buffer, uint64_t offset, tuff_dtype dtype,
                          int64_t count)
{
    tuff_array *array = tuff_array_import_vulkan(device, &buffer->import, offset, dtype, TUFF_SHAPE(count));
    if (!array)
        fail_msg("%s", tuff_error());
    return array;
}

/* y = 2 x + 1 on two of the application's buffers. */
typedef struct work {
    tuff_device *device;
    application_buffer from, to;
    tuff_array *x, *y;
    tuff_graph *graph;
    tuff_plan *plan;
} work;

static work make_work(const application *app, tuff_device *device, tuff_dtype dtype)
{
    const int64_t count = BYTES / (int64_t)tuff_dtype_size(dtype);
    work self = {.device = device};
    self.from = create_application_buffer(app, BYTES, STORAGE);
    self.to = create_application_buffer(app, BYTES, STORAGE);
    self.x = import(device, &self.from, 0, dtype, count);
    self.y = import(device, &self.to, 0, dtype, count);
    self.graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_cast(tuff_array_tensor(self.graph, self.x), TUFF_F32);
    tuff_tensor *doubled = tuff_mul(x, tuff_constant(self.graph, TUFF_F32, 2));
    tuff_tensor *result = tuff_add(doubled, tuff_constant(self.graph, TUFF_F32, 1));
    (void)tuff_assign(self.graph, self.y, tuff_cast(result, dtype));
    self.plan = compile_plan(self.graph);
    return self;
}

static void destroy_work(const application *app, work *self)
{
    destroy_plan(self->plan, self->graph);
    tuff_array_destroy(self->x);
    tuff_array_destroy(self->y);
    destroy_application_buffer(app, &self->from);
    destroy_application_buffer(app, &self->to);
}

static void expect_words(const application_buffer *buffer, uint32_t word)
{
    for (int i = 0; i < COUNT; i++)
        if (buffer->words[i] != word)
            fail_msg("word %d is %#x, not %#x", i, buffer->words[i], word);
}

static void for_each_application(enabled_features enabled, void (*check)(application *app))
{
    for (int i = 0; i < application_device_count; i++) {
        application app = open_application(i, enabled);
        check(&app);
        close_application(&app);
        assert_int_equal(application_messages, 0);
    }
}

/* The application fills, tuff computes, the application copies, and the host signals the first semaphore last: no call
   blocks. */
static void compute_in_between(application *app)
{
    tuff_device *device = wrap(app);
    work self = make_work(app, device, TUFF_F32);
    application_buffer out = create_application_buffer(app, BYTES, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    VkSemaphore line = create_application_semaphore(app, true);
    const uint64_t number = semaphore_number(line);
    const int before = submissions;
    unlocked_submissions = locks = 0;
    for (uint64_t round = 0; round < 2; round++) {
        const uint64_t at = 10 * round;
        submit_work(app, &(application_work){.to = &self.from,
                                             .word = round ? SEVEN : THREE,
                                             .wait = line,
                                             .wait_value = at + 1,
                                             .signal = line,
                                             .signal_value = at + 2});
        assert_int_equal(tuff_vulkan_enqueue_wait(device, number, at + 2), TUFF_OK);
        run_plan(self.plan);
        assert_int_equal(tuff_vulkan_enqueue_signal(device, number, at + 3), TUFF_OK);
        submit_work(app, &(application_work){.from = &self.to,
                                             .to = &out,
                                             .wait = line,
                                             .wait_value = at + 3,
                                             .signal = line,
                                             .signal_value = at + 4});
        assert_true(semaphore_value(app, line) <= at);
        signal_from_host(app, line, at + 1);
        wait_on_host(app, line, at + 4);
        expect_words(&out, round ? FIFTEEN : SEVEN);
    }
    assert_true(submissions >= before + 6);
    assert_int_equal(unlocked_submissions, 0);
    assert_int_equal(locks, submissions - before);
    destroy_work(app, &self);
    tuff_device_close(device);
    destroy_application_semaphore(app, line);
    destroy_application_buffer(app, &out);
}

static void semaphores_order_the_work_of_both(void **state)
{
    (void)state;
    for_each_application(ENABLED_ALL, compute_in_between);
}

/* On one queue work runs in submission order, and the host reads and writes imported elements. */
static void share_the_queue(application *app)
{
    float values[COUNT];
    tuff_device *device = wrap(app);
    work self = make_work(app, device, TUFF_F32);
    submit_work(app, &(application_work){.to = &self.from, .word = THREE});
    run_plan(self.plan);
    assert_int_equal(tuff_array_read(self.y, values, sizeof values), TUFF_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(values[i] == 7);
    tuff_array *part = import(device, &self.from, 400, TUFF_F32, 10);
    const float some[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    assert_int_equal(tuff_array_write(part, some, sizeof some), TUFF_OK);
    run_plan(self.plan);
    assert_int_equal(tuff_array_read(self.y, values, sizeof values), TUFF_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(values[i] == (i >= 100 && i < 110 ? 2 * some[i - 100] + 1 : 7));
    tuff_array_destroy(part);
    destroy_work(app, &self);
    tuff_device_close(device);
}

static void one_queue_needs_no_semaphore(void **state)
{
    (void)state;
    for_each_application(ENABLED_APART, share_the_queue);
}

/* One of tuff's arrays, lent to the application: a host write that waits for the application's work by a semaphore
   comes after it. */
static void write_behind_application(application *app)
{
    uint32_t words[COUNT];
    tuff_buffer_handle handle;
    tuff_device *device = wrap(app);
    tuff_array *array = tuff_array_create(device, TUFF_U32, TUFF_SHAPE(COUNT));
    VkSemaphore line = create_application_semaphore(app, true);
    assert_non_null(array);
    assert_int_equal(tuff_array_unwrap(array, &handle), TUFF_OK);
    application_buffer lent = {.import = {.size = handle.size}};
    memcpy(&lent.handle, &handle.vulkan, sizeof lent.handle);
    submit_work(app, &(application_work){
                         .to = &lent, .word = 5, .wait = line, .wait_value = 1, .signal = line, .signal_value = 2});
    assert_int_equal(tuff_vulkan_enqueue_wait(device, semaphore_number(line), 2), TUFF_OK);
    tuff_array *part = tuff_array_view(array, 10, TUFF_SHAPE(4));
    const uint32_t four[4] = {1, 2, 3, 4};
    assert_int_equal(tuff_array_write(part, four, sizeof four), TUFF_OK);
    signal_from_host(app, line, 1);
    assert_int_equal(tuff_array_read(array, words, sizeof words), TUFF_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(words[i], i >= 10 && i < 14 ? i - 9 : 5);
    /* They share one queue: submission order is enough. */
    submit_work(app, &(application_work){
                         .to = &lent, .word = 6, .wait = line, .wait_value = 3, .signal = line, .signal_value = 4});
    assert_int_equal(tuff_array_write(part, four, sizeof four), TUFF_OK);
    signal_from_host(app, line, 3);
    assert_int_equal(tuff_array_read(array, words, sizeof words), TUFF_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(words[i], i >= 10 && i < 14 ? i - 9 : 6);
    tuff_array_destroy(array);
    tuff_array_destroy(part);
    tuff_device_close(device);
    destroy_application_semaphore(app, line);
}

static void lent_arrays_are_written_in_order(void **state)
{
    (void)state;
    for_each_application(ENABLED_TIMELINE, write_behind_application);
}

/* With nothing enabled, 16-bit elements are accessed as words, and only binary semaphores order work. */
static void do_without(application *app)
{
    tuff_device_info info;
    tuff_device *device = wrap(app);
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    assert_string_equal(info.selector, "vulkan:wrapped");
    assert_true(info.proved && info.proved_barrier);
    assert_false(info.narrow_storage || info.half_arithmetic || info.int64 || info.cooperative_matrix);
    VkSemaphore first = create_application_semaphore(app, false), second = create_application_semaphore(app, false);
    assert_int_equal(tuff_vulkan_enqueue_wait(device, semaphore_number(first), 1), TUFF_E_UNSUPPORTED);
    assert_non_null(strstr(tuff_error(), "timelineSemaphore"));
    assert_int_equal(tuff_vulkan_enqueue_signal(device, semaphore_number(first), 1), TUFF_E_UNSUPPORTED);
    work self = make_work(app, device, TUFF_F16);
    application_buffer out = create_application_buffer(app, BYTES, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    submit_work(app, &(application_work){.to = &self.from, .word = 0x42004200, .signal = first}); /* 3 and 3 as f16 */
    assert_int_equal(tuff_vulkan_enqueue_wait(device, semaphore_number(first), 0), TUFF_OK);
    run_plan(self.plan);
    assert_int_equal(tuff_vulkan_enqueue_signal(device, semaphore_number(second), 0), TUFF_OK);
    submit_work(app, &(application_work){.from = &self.to, .to = &out, .wait = second});
    wait_for_application(app);
    expect_words(&out, 0x47004700); /* 7 and 7 as f16 */
    destroy_work(app, &self);
    tuff_device_close(device);
    destroy_application_semaphore(app, first);
    destroy_application_semaphore(app, second);
    destroy_application_buffer(app, &out);
}

static void what_is_not_enabled_is_not_used(void **state)
{
    (void)state;
    for_each_application(ENABLED_NONE, do_without);
}

/* Kernels load and store narrow elements if only their storage is enabled. */
static void store_only(application *app)
{
    tuff_device_info info;
    tuff_device *device = wrap(app);
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    assert_false(info.half_arithmetic || info.int64);
    work self = make_work(app, device, TUFF_F16);
    submit_work(app, &(application_work){.to = &self.from, .word = 0x42004200});
    run_plan(self.plan);
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    expect_words(&self.to, 0x47004700);
    destroy_work(app, &self);
    tuff_device_close(device);
}

static void storage_is_enabled_alone(void **state)
{
    (void)state;
    for_each_application(ENABLED_STORAGE, store_only);
}

/* A wrapped device with all features enabled equals the one that tuff opens, whichever structures name the features. */
static void expect_same_features(application *app)
{
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info listed, info;
        tuff_device *device = wrap(app);
        assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
        assert_int_equal(tuff_device_describe_at(i, &listed), TUFF_OK);
        tuff_device_close(device);
        if (strncmp(listed.selector, "vulkan:", 7) != 0 || strcmp(listed.name, info.name) != 0)
            continue;
        assert_int_equal(info.int64, listed.int64);
        assert_int_equal(info.half_arithmetic, listed.half_arithmetic);
        assert_int_equal(info.narrow_storage, listed.narrow_storage);
        assert_string_equal(info.driver, listed.driver);
    }
}

/* Self-test results and programs are stored by identity: if the application does not report an extension or a version,
   and thereby a feature that it did enable, the device has another identity. */
static void expect_other_identity(application *app)
{
    tuff_vulkan_handles fewer = app->handles;
    vulkan_physical whole, part, again;
    tuff_device *device = wrap(app);
    const vulkan_api *calls = device->handle->vk;
    fewer.api_version = VK_API_VERSION_1_1;
    fewer.extension_count = 0;
    assert_int_equal(tuff__vulkan_examine(calls, app->physical, &app->handles, &whole), TUFF_OK);
    assert_int_equal(tuff__vulkan_examine(calls, app->physical, &app->handles, &again), TUFF_OK);
    assert_int_equal(tuff__vulkan_examine(calls, app->physical, &fewer, &part), TUFF_OK);
    char *texts[] = {tuff__vulkan_identity(&whole), tuff__vulkan_identity(&again), tuff__vulkan_identity(&part)};
    assert_string_equal(texts[0], texts[1]);
    assert_string_not_equal(texts[0], texts[2]);
    for (int i = 0; i < 3; i++)
        tuff__free(texts[i]);
    tuff_device_close(device);
}

static void what_is_enabled_is_used(void **state)
{
    (void)state;
    for_each_application(ENABLED_ALL, expect_same_features);
    for_each_application(ENABLED_APART, expect_same_features);
    for_each_application(ENABLED_ALL, expect_other_identity);
}

static void refuse(const tuff_vulkan_handles *handles, tuff_status status, const char *word)
{
    assert_null(tuff_device_wrap_vulkan(handles));
    assert_int_equal(tuff_last_status(), status);
    if (!strstr(tuff_error(), word))
        fail_msg("\"%s\" does not say \"%s\"", tuff_error(), word);
}

static void *find_nothing(void *instance, const char *name)
{
    (void)instance, (void)name;
    return NULL;
}

static void refuse_wrong_handles(application *app)
{
    const char *const names[] = {NULL};
    tuff_vulkan_handles handles = app->handles;
    void **const needed[] = {&handles.instance, &handles.physical_device, &handles.device, &handles.queue};
    for (int i = 0; i < 4; i++) {
        void *kept = *needed[i];
        *needed[i] = NULL;
        refuse(&handles, TUFF_E_USAGE, "must not be NULL");
        *needed[i] = kept;
    }
    handles.get_instance_proc = find_nothing;
    refuse(&handles, TUFF_E_NO_DEVICE, "it has no vk");
    handles = app->handles;
    handles.lock_queue = NULL;
    refuse(&handles, TUFF_E_USAGE, "unlock_queue");
    handles = app->handles;
    handles.extension_count = 1;
    refuse(&handles, TUFF_E_USAGE, "extensions is NULL");
    handles.extensions = names;
    refuse(&handles, TUFF_E_USAGE, "extensions[0]");
    handles = app->handles;
    handles.api_version = VK_API_VERSION_1_0;
    refuse(&handles, TUFF_E_UNSUPPORTED, "needs Vulkan 1.1, but the instance has version 1.0");
    handles.get_instance_proc = find_nothing; /* as of an instance that lacks functions */
    refuse(&handles, TUFF_E_UNSUPPORTED, "the instance has version 1.0");
    handles = app->handles;
    handles.queue_family = 31;
    refuse(&handles, TUFF_E_USAGE, "queue family 31");
}

static void refuse_buffer(tuff_device *device, const tuff_vulkan_buffer *buffer, uint64_t offset, tuff_dtype dtype,
                          int64_t count, tuff_status status)
{
    assert_null(tuff_array_import_vulkan(device, buffer, offset, dtype, TUFF_SHAPE(count)));
    assert_int_equal(tuff_last_status(), status);
}

static void refuse_wrong_buffers(application *app)
{
    tuff_device *device = wrap(app);
    application_buffer buffer = create_application_buffer(app, BYTES, STORAGE);
    const uint32_t flags[] = {VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, VK_BUFFER_USAGE_TRANSFER_SRC_BIT,
                              VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    for (int i = 0; i < 3; i++) {
        buffer.import.usage = (uint32_t)STORAGE & ~flags[i];
        refuse_buffer(device, &buffer.import, 0, TUFF_F32, 4, TUFF_E_USAGE);
        assert_non_null(strstr(tuff_error(), "lacks VK_BUFFER_USAGE_"));
    }
    buffer.import.usage = STORAGE;
    refuse_buffer(device, &buffer.import, 0, TUFF_F32, COUNT + 1, TUFF_E_USAGE);
    refuse_buffer(device, &buffer.import, 4, TUFF_F32, COUNT, TUFF_E_USAGE);
    refuse_buffer(device, &buffer.import, 2, TUFF_F32, 1, TUFF_E_USAGE);
    refuse_buffer(device, &buffer.import, UINT64_MAX - 3, TUFF_F32, 1, TUFF_E_USAGE);
    refuse_buffer(device, &buffer.import, 0, TUFF_F64, 1, TUFF_E_DTYPE);
    refuse_buffer(device, &buffer.import, 0, TUFF_F32, -1, TUFF_E_SHAPE);
    refuse_buffer(device, NULL, 0, TUFF_F32, 1, TUFF_E_USAGE);
    refuse_buffer(NULL, &buffer.import, 0, TUFF_F32, 1, TUFF_E_USAGE);
    tuff_vulkan_buffer wrong = buffer.import;
    wrong.size = 100 * BYTES; /* more than the memory that the buffer needs */
    refuse_buffer(device, &wrong, 0, TUFF_F32, 1, TUFF_E_USAGE);
    wrong.size = 0;
    refuse_buffer(device, &wrong, 0, TUFF_F32, 1, TUFF_E_USAGE);
    wrong.size = BYTES - 2; /* cuts off the last whole word */
    refuse_buffer(device, &wrong, BYTES - 4, TUFF_F16, 1, TUFF_E_USAGE);
    wrong.buffer = 0;
    refuse_buffer(device, &wrong, 0, TUFF_F32, 1, TUFF_E_USAGE);
    assert_null(tuff_array_import(device, &buffer, 0, TUFF_F32, TUFF_SHAPE(1)));
    assert_int_equal(tuff_last_status(), TUFF_E_UNSUPPORTED);
    assert_non_null(strstr(tuff_error(), "tuff_array_import_vulkan"));
    destroy_application_buffer(app, &buffer);
    tuff_device_close(device);
}

static void wrong_objects_are_refused(void **state)
{
    (void)state;
    for_each_application(ENABLED_ALL, refuse_wrong_handles);
    for_each_application(ENABLED_ALL, refuse_wrong_buffers);
}

static void count_backwards(application *app)
{
    tuff_device *device = wrap(app);
    VkSemaphore gate = create_application_semaphore(app, true), line = create_application_semaphore(app, true);
    const uint64_t number = semaphore_number(line);
    /* The first signal is still pending: its value is not reached yet. */
    assert_int_equal(tuff_vulkan_enqueue_wait(device, semaphore_number(gate), 1), TUFF_OK);
    assert_int_equal(tuff_vulkan_enqueue_signal(device, number, 7), TUFF_OK);
    assert_int_equal(tuff_vulkan_enqueue_signal(device, number, 7), TUFF_E_USAGE);
    assert_int_equal(tuff_vulkan_enqueue_signal(device, number, 5), TUFF_E_USAGE);
    assert_non_null(strstr(tuff_error(), "must be greater than 7"));
    assert_int_equal(tuff_vulkan_enqueue_signal(device, number, 8), TUFF_OK);
    signal_from_host(app, gate, 1);
    wait_on_host(app, line, 8);
    assert_int_equal(tuff_vulkan_enqueue_signal(device, number, 8), TUFF_E_USAGE);
    assert_int_equal(tuff_vulkan_enqueue_wait(device, number, 3), TUFF_OK); /* reached already */
    assert_int_equal(tuff_vulkan_enqueue_signal(device, number, 9), TUFF_OK);
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    assert_int_equal(semaphore_value(app, line), 9);
    assert_int_equal(tuff_vulkan_enqueue_wait(device, 0, 1), TUFF_E_USAGE);
    assert_int_equal(tuff_vulkan_enqueue_signal(NULL, number, 10), TUFF_E_USAGE);
    assert_int_equal(tuff_opencl_enqueue_wait(device, device), TUFF_E_UNSUPPORTED);
    tuff_device_close(device);
    destroy_application_semaphore(app, gate);
    destroy_application_semaphore(app, line);
}

static void timelines_never_go_back(void **state)
{
    (void)state;
    for_each_application(ENABLED_TIMELINE, count_backwards);
}

/* The handles are those that were wrapped; objects can be destroyed in any order that the headers allow. */
static void destroy_in_any_order(application *app)
{
    tuff_vulkan_handles handles;
    tuff_buffer_handle place;
    tuff_device_counters counters;
    tuff_device *device = wrap(app);
    application_buffer buffer = create_application_buffer(app, BYTES, STORAGE);
    tuff_array *array = import(device, &buffer, 400, TUFF_F32, 100), *view = tuff_array_view(array, 10, TUFF_SHAPE(5));
    assert_int_equal(tuff_device_unwrap_vulkan(device, &handles), TUFF_OK);
    assert_ptr_equal(handles.device, app->device);
    assert_ptr_equal(handles.queue, app->queue);
    assert_ptr_equal(handles.lock_user, app->handles.lock_user);
    assert_true(handles.queue_family == app->family && !handles.features && handles.extension_count == 0);
    assert_int_equal(tuff_array_unwrap(view, &place), TUFF_OK);
    assert_true(place.vulkan == buffer.import.buffer && place.offset == 440 && place.size == 20);
    assert_int_equal(tuff_device_counters_get(device, &counters), TUFF_OK);
    assert_int_equal(counters.bytes_allocated, 0);
    tuff_device *second = wrap(app); /* on the same queue */
    work self = make_work(app, second, TUFF_F32);
    run_plan(self.plan); /* only the calls below wait for it */
    destroy_work(app, &self);
    tuff_array_destroy(array);
    tuff_device_close(second);
    tuff_array_destroy(view);
    destroy_application_buffer(app, &buffer);
    tuff_device_close(device);
    /* The application's device still works. */
    buffer = create_application_buffer(app, BYTES, STORAGE);
    submit_work(app, &(application_work){.to = &buffer, .word = 9});
    wait_for_application(app);
    expect_words(&buffer, 9);
    destroy_application_buffer(app, &buffer);
}

static void applications_keep_their_objects(void **state)
{
    (void)state;
    for_each_application(ENABLED_ALL, destroy_in_any_order);
}

enum { THREADS = 2, RUNS = 20 };

static void *run_often(void *plan)
{
    for (int i = 0; i < RUNS; i++)
        if (tuff_plan_run(plan) != TUFF_OK)
            return plan;
    return NULL;
}

/* Two tuff devices on one of the application's queues, each in a thread, while the application submits, too; and a
   third on another VkDevice. */
static void share_in_threads(application *app)
{
    pthread_t threads[THREADS];
    work works[THREADS];
    application other = open_application(0, ENABLED_ALL);
    tuff_device *apart = wrap(&other);
    work third = make_work(&other, apart, TUFF_F32);
    for (int i = 0; i < THREADS; i++)
        works[i] = make_work(app, wrap(app), TUFF_F32);
    submit_work(app, &(application_work){.to = &works[0].from, .word = THREE});
    submit_work(app, &(application_work){.to = &works[1].from, .word = SEVEN});
    unlocked_submissions = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, works[i].plan), 0);
    run_plan(third.plan);
    application_buffer own = create_application_buffer(app, BYTES, STORAGE);
    for (int i = 0; i < RUNS; i++)
        submit_work(app, &(application_work){.to = &own, .word = (uint32_t)i});
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
        assert_int_equal(tuff_device_wait(works[i].device), TUFF_OK);
    }
    assert_int_equal(unlocked_submissions, 0);
    expect_words(&works[0].to, SEVEN);
    expect_words(&works[1].to, FIFTEEN);
    assert_int_equal(tuff_array_copy(works[0].x, third.x), TUFF_E_USAGE); /* on another device */
    wait_for_application(app);
    for (int i = 0; i < THREADS; i++) {
        destroy_work(app, &works[i]);
        tuff_device_close(works[i].device);
    }
    destroy_work(&other, &third);
    tuff_device_close(apart);
    destroy_application_buffer(app, &own);
    close_application(&other);
}

static void threads_and_devices_share_a_queue(void **state)
{
    (void)state;
    for_each_application(ENABLED_ALL, share_in_threads);
}

static void lose_the_device(application *app)
{
    VkSemaphore line = create_application_semaphore(app, true);
    tuff_device *device = wrap(app);
    work self = make_work(app, device, TUFF_F32);
    run_plan(self.plan);
    assert_int_equal(tuff_device_wait(device), TUFF_OK);
    loses_devices = true;
    unlocked_submissions = locks = submissions = 0;
    assert_int_equal(tuff_vulkan_enqueue_wait(device, semaphore_number(line), 1), TUFF_E_DEVICE_LOST);
    loses_devices = false;
    assert_int_equal(submissions, 1);
    assert_int_equal(locks, 1); /* and released */
    assert_int_equal(tuff_plan_run(self.plan), TUFF_E_DEVICE_LOST);
    assert_int_equal(tuff_vulkan_enqueue_signal(device, semaphore_number(line), 1), TUFF_E_DEVICE_LOST);
    assert_int_equal(submissions, 1);
    destroy_work(app, &self);
    tuff_device_close(device);
    destroy_application_semaphore(app, line);
}

static void a_lost_device_stays_lost(void **state)
{
    (void)state;
    for_each_application(ENABLED_ALL, lose_the_device);
}

static application *failing;
static application_buffer failing_buffer;
static VkSemaphore failing_line;

static bool share_all(void)
{
    const uint64_t number = semaphore_number(failing_line);
    tuff_device *device = tuff_device_wrap_vulkan(&failing->handles);
    tuff_array *array =
        device ? tuff_array_import_vulkan(device, &failing_buffer.import, 0, TUFF_F32, TUFF_SHAPE(COUNT)) : NULL;
    const bool good =
        array && tuff_vulkan_enqueue_signal(device, number, semaphore_value(failing, failing_line) + 1) == TUFF_OK &&
        tuff_vulkan_enqueue_wait(device, number, 1) == TUFF_OK && tuff_device_wait(device) == TUFF_OK;
    tuff_array_destroy(array);
    tuff_device_close(device);
    return good;
}

static void fail_memory(application *app)
{
    int failures = 0;
    failing = app;
    failing_buffer = create_application_buffer(app, BYTES, STORAGE);
    failing_line = create_application_semaphore(app, true);
    /* Some failing allocations have no effect: if a self-test record cannot be read, the self-test runs again. */
    for (bool hit = true; hit;) {
        failing_memory_begin(++failures, false);
        const bool good = share_all();
        assert_int_equal(failing_memory_live(), 0);
        hit = failing_memory_end();
        assert_true(good || (hit && tuff_last_status() == TUFF_E_OOM_HOST));
    }
    assert_true(failures > 5);
    destroy_application_buffer(app, &failing_buffer);
    destroy_application_semaphore(app, failing_line);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    for_each_application(ENABLED_ALL, fail_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(semaphores_order_the_work_of_both), cmocka_unit_test(one_queue_needs_no_semaphore),
        cmocka_unit_test(lent_arrays_are_written_in_order),  cmocka_unit_test(what_is_not_enabled_is_not_used),
        cmocka_unit_test(storage_is_enabled_alone),          cmocka_unit_test(what_is_enabled_is_used),
        cmocka_unit_test(wrong_objects_are_refused),         cmocka_unit_test(timelines_never_go_back),
        cmocka_unit_test(applications_keep_their_objects),   cmocka_unit_test(threads_and_devices_share_a_queue),
        cmocka_unit_test(a_lost_device_stays_lost),          cmocka_unit_test(memory_may_run_out),
    };
#if defined(TUFF_WITH_SHADERC) && !TUFF_WITH_SHADERC
    puts("built without a GLSL compiler");
    return 77;
#endif
    const int code = start_applications();
    puts(is_application_validated ? "under the validation layer" : "no validation layer is installed");
    return code ? code : cmocka_run_group_tests_name("vulkan_wrap", tests, use_empty_cache, drop_cache);
}

#else

int main(void)
{
    assert_null(tuff_device_wrap_vulkan(&(tuff_vulkan_handles){0}));
    return tuff_last_status() == TUFF_E_NO_DEVICE ? 0 : 1;
}

#endif
