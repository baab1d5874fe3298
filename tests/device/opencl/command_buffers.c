/* OpenCL's command buffers: launches are enqueued by them where the driver offers them and they are wanted, with the
   same results, and one by one where the driver refuses, computes something else, or a submission would take too
   long. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#include "device/state.h"

enum { WORDS = 1000, STEPS_PER_BLOCK = 16 };

/* The driver's functions, calls of them, and how they are to fail from the given call on (counted from 1; 0: never). */
static opencl_api truth;
static struct {
    command_buffer_api real;
    const char *missing;    /* function that the driver lacks */
    cl_command_queue queue; /* that was created last */
    int made, enqueued, launches, alive;
    int refused_creation, refused_launch, refused_finalize, refused_enqueue, empty_enqueue;
    cl_int error;
} calls;

static bool is_due(int from, int count)
{
    return from > 0 && count >= from;
}

static command_buffer *CL_API_CALL create(cl_uint queue_count, const cl_command_queue *queues,
                                          const cl_ulong *properties, cl_int *error)
{
    if (is_due(calls.refused_creation, ++calls.made)) {
        *error = calls.error;
        return NULL;
    }
    calls.alive++;
    return calls.real.create(queue_count, queues, properties, error);
}

static cl_int CL_API_CALL add_launch(command_buffer *buffer, cl_command_queue queue, const cl_ulong *properties,
                                     cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                                     const size_t *global_size, const size_t *local_size, cl_uint wait_count,
                                     const cl_uint *waits, cl_uint *point, void **handle)
{
    if (is_due(calls.refused_launch, calls.made))
        return calls.error;
    return calls.real.add_launch(buffer, queue, properties, kernel, dimensions, offset, global_size, local_size,
                                 wait_count, waits, point, handle);
}

static cl_int CL_API_CALL finalize(command_buffer *buffer)
{
    return is_due(calls.refused_finalize, calls.made) ? calls.error : calls.real.finalize(buffer);
}

static cl_int CL_API_CALL enqueue(cl_uint queue_count, cl_command_queue *queues, command_buffer *buffer,
                                  cl_uint wait_count, const cl_event *waits, cl_event *event)
{
    calls.enqueued++;
    if (is_due(calls.refused_enqueue, calls.enqueued))
        return calls.error;
    if (!is_due(calls.empty_enqueue, calls.enqueued))
        return calls.real.enqueue(queue_count, queues, buffer, wait_count, waits, event);
    return truth.EnqueueMarkerWithWaitList(calls.queue, 0, NULL, event); /* computes nothing */
}

static cl_int CL_API_CALL release(command_buffer *buffer)
{
    calls.alive--;
    return calls.real.release(buffer);
}

static void *CL_API_CALL find(cl_platform_id platform, const char *name)
{
    void *found = truth.GetExtensionFunctionAddressForPlatform(platform, name), *by = NULL;
#define REPLACE(slot, function)                                   \
    if (strcmp(name, function) == 0) {                            \
        __typeof__(calls.real.slot) own = slot;                   \
        memcpy(&calls.real.slot, &found, sizeof calls.real.slot); \
        memcpy(&by, &own, sizeof by);                             \
    }
    REPLACE(create, "clCreateCommandBufferKHR")
    REPLACE(add_launch, "clCommandNDRangeKernelKHR")
    REPLACE(finalize, "clFinalizeCommandBufferKHR")
    REPLACE(enqueue, "clEnqueueCommandBufferKHR")
    REPLACE(release, "clReleaseCommandBufferKHR")
#undef REPLACE
    return calls.missing && strcmp(name, calls.missing) == 0 ? NULL : by;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint axes, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint count, const cl_event *list,
                                 cl_event *event)
{
    calls.launches++;
    return truth.EnqueueNDRangeKernel(queue, kernel, axes, offset, global, local, count, list, event);
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id id,
                                                 cl_command_queue_properties properties, cl_int *error)
{
    calls.queue = truth.CreateCommandQueue(context, id, properties, error);
    return calls.queue;
}

static int replace_calls(void **state)
{
    use_fresh_cache(state);
    (void)tuff_device_count(); /* loads OpenCL */
    truth = tuff__cl;
    setenv("TUFF_COMMAND_BUFFERS", "1", 1);
    return 0;
}

static int restore_calls(void **state)
{
    tuff__cl = truth;
    unsetenv("TUFF_COMMAND_BUFFERS");
    return drop_cache(state);
}

/* Opens a device whose calls are replaced; the self-test ran before. Returns NULL if it is not one of OpenCL's with
   command buffers. */
static tuff_device *open_replaced(const char *selector)
{
    tuff__cl = truth;
    tuff_device *device = strncmp(selector, "opencl", strlen("opencl")) == 0 ? tuff_device_open(selector) : NULL;
    tuff_device_close(device); /* its self-test is on record now */
    if (device == NULL)
        return NULL;
    tuff__cl.GetExtensionFunctionAddressForPlatform = find;
    tuff__cl.EnqueueNDRangeKernel = launch;
    tuff__cl.CreateCommandQueue = create_queue;
    device = tuff_device_open(selector);
    if (device == NULL)
        fail_msg("%s: %s", selector, tuff_error());
    return device;
}

/* What the steps of run_steps do to a word, in C and in kernels. */
static uint32_t expected_word(uint32_t i, int steps)
{
    uint32_t x = i;
    for (int step = 0; step < steps; step++)
        x = step % 2 == 0 ? x * 3 + 1 : x ^ (i + 5);
    return x;
}

/* Submits a chain of launches twice, without waiting in between, and checks the result. The command at `filled`, if
   that is not negative, fills a word that nothing reads. seconds: the predicted time of each. Returns the status of the
   submissions. */
static tuff_status run_steps(tuff_device *device, int steps, int filled, double seconds)
{
    enum { MOST = 40 };
    static uint32_t words[WORDS];
    command commands[MOST];
    test_kernel even, odd;
    recording *recorded = NULL;
    storage *memory = make_words(device, WORDS), *other = make_words(device, 1);
    const buffer_binding hole = buffer_range(other, 0, 4, true);
    make_kernel(device, &even, "even", "x[i] = x[i] * 3u + 1u;");
    make_kernel(device, &odd, "odd", "x[i] ^= i + 5u;");
    for (int i = 0, at = 0; i < steps; i++) {
        commands[i] = i == filled ? (command){.kind = COMMAND_FILL_ZERO, .binding_count = 1, .bindings = {hole}}
                                  : dispatch_over(device, at++ % 2 == 0 ? &even : &odd, memory, WORDS);
        commands[i].seconds = i == filled ? 0 : seconds;
    }
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i;
    write_words(device, memory, words, WORDS);
    assert_int_equal(tuff__recording_create(device, commands, steps, false, false, &recorded), TUFF_OK);
    tuff_status status = TUFF_OK;
    for (int i = 0; i < 2 && status == TUFF_OK; i++)
        status = tuff__submit(device, recorded);
    if (status == TUFF_OK) {
        const int launches = filled < 0 ? steps : steps - 1;
        assert_int_equal(launches % 2, 0); /* so that both submissions begin with the even kernel */
        read_words(device, memory, words, WORDS);
        for (uint32_t i = 0; i < WORDS; i++)
            if (words[i] != expected_word(i, 2 * launches))
                fail_msg("word %u is %u, expected %u", i, words[i], expected_word(i, 2 * launches));
    }
    tuff__recording_destroy(device, recorded);
    tuff__program_release(device, even.program);
    tuff__program_release(device, odd.program);
    tuff__storage_release(memory);
    tuff__storage_release(other);
    return status;
}

/* Runs test on each OpenCL device that offers command buffers; skips if there is none. */
static void for_each_offering(void (*test)(const char *selector))
{
    int tried = 0;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        memset(&calls, 0, sizeof calls);
        tuff_device *device = open_replaced(info.selector);
        const bool offers = device != NULL && device->handle->command_buffers.create != NULL;
        tuff_device_close(device);
        memset(&calls, 0, sizeof calls);
        if (!offers)
            continue;
        print_message("  %s: %s\n", info.selector, info.name);
        test(info.selector);
        assert_int_equal(calls.alive, 0);
        tried++;
    }
    if (tried == 0)
        skip();
}

static tuff_device *open_counted(const char *selector)
{
    tuff_device *device = open_replaced(selector);
    assert_non_null(device);
    calls.made = calls.enqueued = calls.launches = 0;
    return device;
}

static void check_blocks(const char *selector)
{
    enum { STEPS = 38, WITH_FILL = 39, FILLED = 20 };
    tuff_device *device = open_counted(selector);
    assert_int_equal(run_steps(device, STEPS, -1, 0), TUFF_OK);
    assert_int_equal(calls.enqueued, 2 * 3);
    assert_int_equal(calls.launches, 0);
    /* The block with the fill has 15 launches. */
    calls.enqueued = 0;
    assert_int_equal(run_steps(device, WITH_FILL, FILLED, 0), TUFF_OK);
    assert_int_equal(calls.enqueued, 2 * 2);
    assert_int_equal(calls.launches, 2 * 15);
    tuff_device_close(device);
}

static void launches_are_enqueued_together(void **state)
{
    (void)state;
    for_each_offering(check_blocks);
}

static void check_setting(const char *selector)
{
    static const struct {
        const char *setting;
        bool is_used;
    } tried[] = {{"0", false}, {"1", true}, {NULL, false}}; /* the devices here are CPUs */
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        if (tried[i].setting != NULL)
            setenv("TUFF_COMMAND_BUFFERS", tried[i].setting, 1);
        else
            unsetenv("TUFF_COMMAND_BUFFERS");
        tuff_device *device = open_counted(selector);
        if (tuff__device_info(device)->device_class == TUFF_DEVICE_CPU || tried[i].setting != NULL)
            assert_int_equal(device->handle->command_buffers.create != NULL, tried[i].is_used);
        tuff_device_close(device);
    }
    setenv("TUFF_COMMAND_BUFFERS", "1", 1);
}

static void a_setting_decides(void **state)
{
    (void)state;
    for_each_offering(check_setting);
}

/* What a recording cannot do by command buffers, it does by launches. */
static void check_refusals(const char *selector)
{
    enum { STEPS = 38 };
    int *const refusals[] = {&calls.refused_creation, &calls.refused_launch, &calls.refused_finalize,
                             &calls.refused_enqueue};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        tuff_device *device = open_counted(selector);
        calls.error = CL_OUT_OF_HOST_MEMORY;
        *refusals[i] = 2; /* the first block is enqueued, at least once */
        assert_int_equal(run_steps(device, STEPS, -1, 0), TUFF_OK);
        assert_true(calls.enqueued > 0);
        assert_true(calls.launches >= STEPS - STEPS_PER_BLOCK);
        *refusals[i] = 0;
        tuff_device_close(device);
    }
    tuff_device *device = open_counted(selector);
    calls.error = CL_DEVICE_NOT_AVAILABLE;
    calls.refused_enqueue = 1;
    assert_int_equal(run_steps(device, STEPS, -1, 0), TUFF_E_DEVICE_LOST);
    assert_int_equal(calls.launches, 0);
    calls.refused_enqueue = 0;
    tuff_device_close(device);
}

static void refused_blocks_are_launched_one_by_one(void **state)
{
    (void)state;
    for_each_offering(check_refusals);
}

/* A driver whose command buffers do not work is used without them. */
static void check_trial(const char *selector)
{
    enum { STEPS = 38 };
    int *const faults[] = {&calls.refused_creation, &calls.refused_launch, &calls.refused_finalize,
                           &calls.refused_enqueue, &calls.empty_enqueue};
    for (size_t i = 0; i <= sizeof faults / sizeof *faults; i++) {
        const bool is_missing = i == sizeof faults / sizeof *faults;
        calls.error = CL_INVALID_OPERATION;
        calls.missing = is_missing ? "clFinalizeCommandBufferKHR" : NULL;
        calls.made = calls.enqueued = 0;
        if (!is_missing)
            *faults[i] = 1;
        tuff_device *device = open_replaced(selector);
        assert_true(device->handle->command_buffers.create == NULL);
        calls.launches = 0;
        assert_int_equal(run_steps(device, STEPS, -1, 0), TUFF_OK);
        assert_int_equal(calls.launches, 2 * STEPS);
        tuff_device_close(device);
        if (!is_missing)
            *faults[i] = 0;
    }
    calls.missing = NULL;
}

static void command_buffers_that_compute_wrong_values_are_not_used(void **state)
{
    (void)state;
    for_each_offering(check_trial);
}

/* Where submissions must be short, a block that would take too long is launched in shorter ones. */
static void check_submission_length(const char *selector)
{
    enum { STEPS = 32 };
    tuff_device *device = open_counted(selector);
    device->handle->predictor.is_on = true;
    assert_int_equal(run_steps(device, STEPS, -1, MAX_SUBMISSION_SECONDS / STEPS_PER_BLOCK / 4 / INITIAL_TIME_SCALE),
                     TUFF_OK);
    assert_int_equal(calls.enqueued, 2 * 2);
    calls.enqueued = calls.launches = 0;
    tuff__predictor_init(&device->handle->predictor, true);
    assert_int_equal(run_steps(device, STEPS, -1, MAX_SUBMISSION_SECONDS / 2 / INITIAL_TIME_SCALE), TUFF_OK);
    assert_true(calls.enqueued < 2 * 2);
    assert_true(calls.launches >= STEPS);
    tuff_device_close(device);
}

static void long_blocks_are_launched_in_parts(void **state)
{
    (void)state;
    for_each_offering(check_submission_length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_are_enqueued_together),
        cmocka_unit_test(a_setting_decides),
        cmocka_unit_test(refused_blocks_are_launched_one_by_one),
        cmocka_unit_test(command_buffers_that_compute_wrong_values_are_not_used),
        cmocka_unit_test(long_blocks_are_launched_in_parts),
    };
    return cmocka_run_group_tests(tests, replace_calls, restore_calls);
}
#else
static void a_build_without_opencl(void **state)
{
    (void)state;
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_build_without_opencl)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
