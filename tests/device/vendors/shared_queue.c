/* An application's Vulkan queue: runs never wait on the host, however many submissions are in flight, because the
   application may signal what they wait for only afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "tuff.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/state.h"
#include "device/vulkan/state.h"
#include "fake_queues.h"
#include "fake_vulkan.h"

enum { FILLS = 80, RUNS = 3 };

static const fake_vulkan_device devices[] = {{.name = "AMD Radeon RX 7900 XT (RADV NAVI31)",
                                              .driver = "radv",
                                              .vendor = 0x1002,
                                              .id = 0x744c,
                                              .type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                              .memory = (uint64_t)1 << 30,
                                              .host_memory = (uint64_t)1 << 30,
                                              .width = 64}};

static void *find(void *instance, const char *name)
{
    void *found = NULL;
    const PFN_vkVoidFunction function = tuff__vk.vkGetInstanceProcAddr((VkInstance)instance, name);
    memcpy(&found, &function, sizeof found);
    return found;
}

static tuff_device *wrap(void)
{
    static char instance;
    const VkDeviceQueueCreateInfo queues = {.queueCount = 1};
    const VkDeviceCreateInfo info = {.queueCreateInfoCount = 1, .pQueueCreateInfos = &queues};
    VkQueue queue = NULL;
    (void)tuff_device_count(); /* loads Vulkan */
    fake_note_families(&info);
    fake_get_queue(NULL, 0, 0, &queue);
    tuff_device *device = tuff_device_wrap_vulkan(&(tuff_vulkan_handles){.instance = &instance,
                                                                         .physical_device = (void *)(uintptr_t)devices,
                                                                         .device = (void *)(uintptr_t)devices,
                                                                         .queue = queue,
                                                                         .get_instance_proc = find});
    if (!device)
        fail_msg("%s", tuff_error());
    return device;
}

/* Fills that take a submission each, until the device was measured. */
static recording *record_fills(tuff_device *device, storage *memory)
{
    recording *recorded = NULL;
    command fills[FILLS];
    for (int i = 0; i < FILLS; i++)
        fills[i] = (command){.kind = COMMAND_FILL_ZERO,
                             .binding_count = 1,
                             .bindings = {buffer_range(memory, 0, 4096, true)},
                             .seconds = 0.6 * MAX_SUBMISSION_SECONDS / INITIAL_TIME_SCALE};
    assert_int_equal(tuff__recording_create(device, fills, FILLS, false, false, &recorded), TUFF_OK);
    return recorded;
}

static void runs_on_a_shared_queue_do_not_wait(void **state)
{
    (void)state;
    VkSemaphore semaphore;
    storage *memory;
    tuff_device *device = wrap();
    driver_device *handle = device->handle;
    tuff__device_set_timeout(device, 10000000);
    assert_int_equal(tuff__storage_create(device, 4096, false, &memory), TUFF_OK);
    recording *recorded = record_fills(device, memory);
    assert_int_equal(
        handle->vk->vkCreateSemaphore(handle->handle, &(VkSemaphoreCreateInfo){.flags = 0}, NULL, &semaphore),
        VK_SUCCESS);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    for (int round = 0; round < 2; round++) {
        const int before = fake_vulkan.submissions;
        fake_vulkan.hangs = true;
        assert_int_equal(tuff_vulkan_enqueue_wait(device, (uint64_t)semaphore, 0), TUFF_OK);
        for (int i = 0; i < RUNS; i++)
            if (tuff__submit(device, recorded) != TUFF_OK)
                fail_msg("run %d: %s", i, tuff_error());
        assert_int_equal(tuff_vulkan_enqueue_signal(device, (uint64_t)semaphore, 0), TUFF_OK);
        assert_int_equal(fake_vulkan.submissions - before, RUNS * FILLS + 2);
        assert_int_equal(handle->submitted - handle->finished, RUNS * FILLS + 2);
        assert_int_equal(tuff__wait(device), TUFF_E_TIMEOUT);
        fake_vulkan.hangs = false;
        assert_int_equal(tuff__wait(device), TUFF_OK);
        assert_int_equal(handle->finished, handle->submitted);
        handle->predictor.scale = INITIAL_TIME_SCALE; /* as before these were measured */
    }
    assert_int_equal(fake_vulkan.misused_fences, 0);
    handle->vk->vkDestroySemaphore(handle->handle, semaphore, NULL);
    tuff__recording_destroy(device, recorded);
    tuff__storage_release(memory);
    tuff_device_close(device);
}

static int submissions_of(tuff_device *device, recording *recorded)
{
    const int before = fake_vulkan.submissions;
    assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    return fake_vulkan.submissions - before;
}

static void predict_anew(tuff_device *device, double scale)
{
    device->handle->predictor.scale = scale;
    device->handle->predictor.version++;
}

/* A better partition is used at once, and the one in flight is kept until it has ended. */
static void a_new_partition_does_not_wait(void **state)
{
    (void)state;
    storage *memory;
    tuff_device *device = wrap();
    tuff__device_set_timeout(device, 10000000);
    assert_int_equal(tuff__storage_create(device, 4096, false, &memory), TUFF_OK);
    recording *recorded = record_fills(device, memory);
    fake_vulkan.hangs = true;
    assert_int_equal(submissions_of(device, recorded), FILLS);
    const int destroyed = fake_vulkan.destroyed;
    predict_anew(device, 1);
    const int few = submissions_of(device, recorded);
    assert_true(few <= FILLS / 20);
    predict_anew(device, INITIAL_TIME_SCALE);
    assert_int_equal(submissions_of(device, recorded), few); /* for a third one, the first must have ended */
    assert_int_equal(fake_vulkan.destroyed, destroyed);
    fake_vulkan.hangs = false;
    assert_int_equal(tuff__wait(device), TUFF_OK);
    predict_anew(device, INITIAL_TIME_SCALE);
    assert_int_equal(submissions_of(device, recorded), FILLS);
    assert_true(fake_vulkan.destroyed > destroyed);
    tuff__recording_destroy(device, recorded);
    tuff__storage_release(memory);
    tuff_device_close(device);
}

/* The device measures what the host cannot see. */
static void a_slow_shared_device_is_noticed(void **state)
{
    (void)state;
    enum { WORDS = 1024 };
    test_kernel kernel;
    recording *recorded = NULL;
    tuff_device *device = wrap();
    const time_predictor *predictor = &device->handle->predictor;
    storage *memory = make_words(device, WORDS);
    make_kernel(device, &kernel, "slow", "x[i] += 1u;");
    command dispatch = dispatch_over(device, &kernel, memory, WORDS);
    dispatch.seconds = 0.8 * MAX_SUBMISSION_SECONDS / INITIAL_TIME_SCALE;
    assert_int_equal(tuff__recording_create(device, &dispatch, 1, false, false, &recorded), TUFF_OK);
    /* Without ticks a long time says nothing: others may have used the queue. */
    fake_vulkan.lacks_ticks = true;
    fake_vulkan.ticks = 3 * 400000000;
    assert_int_equal(submissions_of(device, recorded), 1);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    assert_true(predictor->scale <= INITIAL_TIME_SCALE);
    tuff__recording_destroy(device, recorded);
    predict_anew(device, INITIAL_TIME_SCALE);
    tuff__program_release(device, kernel.program);
    make_kernel(device, &kernel, "slower", "x[i] += 2u;");
    dispatch.program = dispatch_over(device, &kernel, memory, WORDS).program;
    assert_int_equal(tuff__recording_create(device, &dispatch, 1, false, false, &recorded), TUFF_OK);
    fake_vulkan.lacks_ticks = false;
    assert_int_equal(submissions_of(device, recorded), 1);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    assert_true(predictor->scale > 2.9 * INITIAL_TIME_SCALE && predictor->scale < 3.1 * INITIAL_TIME_SCALE);
    assert_int_equal(submissions_of(device, recorded), 3);
    fake_vulkan.ticks = 0;
    assert_int_equal(tuff__wait(device), TUFF_OK);
    tuff__recording_destroy(device, recorded);
    tuff__program_release(device, kernel.program);
    tuff__storage_release(memory);
    tuff_device_close(device);
}

/* Nobody else holds up a queue of tuff's own, and a program that never waits must not queue up work without end. */
static void runs_on_an_own_queue_are_limited(void **state)
{
    (void)state;
    storage *memory;
    tuff_device *device = tuff_device_open("vulkan:0");
    assert_non_null(device);
    tuff__device_set_timeout(device, 10000000);
    assert_int_equal(tuff__storage_create(device, 4096, false, &memory), TUFF_OK);
    recording *recorded = record_fills(device, memory);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    const int before = fake_vulkan.submissions;
    fake_vulkan.hangs = true;
    assert_int_equal(tuff__submit(device, recorded), TUFF_E_TIMEOUT);
    assert_int_equal(fake_vulkan.submissions - before, MAX_IN_FLIGHT);
    fake_vulkan.hangs = false;
    assert_int_equal(tuff__wait(device), TUFF_OK);
    tuff__recording_destroy(device, recorded);
    tuff__storage_release(memory);
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_on_a_shared_queue_do_not_wait),
        cmocka_unit_test(a_new_partition_does_not_wait),
        cmocka_unit_test(a_slow_shared_device_is_noticed),
        cmocka_unit_test(runs_on_an_own_queue_are_limited),
    };
    install_fake_vulkan(devices, 1);
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
