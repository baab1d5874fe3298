/* Polling a fence reports the same as waiting for it: that the device is lost, or that it recovered. What a recording
   that did not end in time may still use is not destroyed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_device.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/state.h"
#include "device/vulkan/state.h"
#include "fake_vulkan.h"

static const fake_vulkan_device devices[] = {{.name = "Intel(R) Iris(R) Xe Graphics (TGL GT2)",
                                              .driver = "Intel open-source Mesa driver",
                                              .vendor = 0x8086,
                                              .id = 0x9a49,
                                              .type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                              .memory = (uint64_t)1 << 30,
                                              .maps_all = true,
                                              .width = 32,
                                              .least_width = 8,
                                              .most_width = 32}};

static void fences_tell_what_became_of_the_device(void **state)
{
    (void)state;
    storage *memory;
    recording *recorded;
    command fill = {.kind = COMMAND_FILL_ZERO, .binding_count = 1};
    tuff_device *device = tuff_device_open("vulkan:0");
    if (!device)
        fail_msg("%s", tuff_error());
    driver_device *handle = device->handle;
    tuff__device_set_timeout(device, 10000000);
    assert_int_equal(tuff__storage_create(device, 4096, false, &memory), TUFF_OK);
    fill.bindings[0] = (buffer_binding){tuff__storage_buffer(memory), 0, 4096, true};
    assert_int_equal(tuff__recording_create(device, &fill, 1, false, false, &recorded), TUFF_OK);
    fake_vulkan.hangs = true;
    assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    assert_int_equal(tuff__wait(device), TUFF_E_TIMEOUT);
    assert_false(tuff__vulkan_is_done(handle, handle->submitted));
    assert_true(handle->hung);
    fake_vulkan.hangs = false;
    assert_true(tuff__vulkan_is_done(handle, handle->submitted));
    assert_false(handle->hung);
    assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    fake_vulkan.is_lost = true;
    (void)tuff__vulkan_is_done(handle, handle->submitted);
    assert_true(handle->lost);
    fake_vulkan.is_lost = false;
    tuff__recording_destroy(device, recorded);
    tuff__storage_release(memory);
    tuff_device_close(device);
}

/* The next test leaks what a recording may still use, on purpose: LeakSanitizer ignores it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:programs_outlive_leaked_recordings\n";
}

static void programs_outlive_leaked_recordings(void **state)
{
    (void)state;
    test_kernel used, other;
    recording *recorded;
    tuff_device *device = tuff_device_open("vulkan:0");
    assert_non_null(device);
    driver_device *handle = device->handle;
    tuff__device_set_timeout(device, 10000000);
    storage *memory = make_words(device, 64);
    make_kernel(device, &used, "used", "x[i] += 1u;");
    make_kernel(device, &other, "other", "x[i] += 2u;");
    command dispatch = dispatch_over(device, &used, memory, 64);
    assert_int_equal(tuff__recording_create(device, &dispatch, 1, false, false, &recorded), TUFF_OK);
    fake_vulkan.hangs = true;
    assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    tuff__recording_destroy(device, recorded);
    assert_int_equal(handle->leaked_use, handle->submitted);
    handle->hung = false; /* as if an earlier submission had ended */
    const int destroyed = fake_vulkan.destroyed;
    tuff__program_release(device, used.program);
    assert_int_equal(fake_vulkan.destroyed, destroyed);
    fake_vulkan.hangs = false;
    tuff__program_release(device, other.program);
    assert_int_equal(fake_vulkan.destroyed, destroyed + 3); /* pipeline and layouts */
    tuff__storage_release(memory);
    const int destroyed_devices = fake_vulkan.devices;
    tuff_device_close(device);
    assert_int_equal(fake_vulkan.devices, destroyed_devices); /* it still has objects */
    tuff_device_close(tuff_device_open("vulkan:0"));
    assert_int_equal(fake_vulkan.devices, destroyed_devices + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fences_tell_what_became_of_the_device),
                                       cmocka_unit_test(programs_outlive_leaked_recordings)};
    install_fake_vulkan(devices, 1);
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
