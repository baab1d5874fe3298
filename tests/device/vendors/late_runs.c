/* Runs that take longer than the timeout of waits: later work waits for them, whatever its queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_device.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/state.h"
#include "failing_memory.h"
#include "fake_opencl.h"

static const fake_opencl_device devices[] = {{.platform = "ARM Platform",
                                              .platform_version = "OpenCL 3.0 v1.r38",
                                              .name = "Mali-G78",
                                              .version = "OpenCL 3.0 v1.r38",
                                              .language = "OpenCL C 3.0 v1.r38",
                                              .driver = "3.0",
                                              .extensions = "cl_khr_fp16",
                                              .vendor = 0x13b5,
                                              .units = 20,
                                              .unified = CL_TRUE,
                                              .memory = 1 << 30,
                                              .allocation = 1 << 30}};

/* A device with a short timeout, and two timed fills. */
typedef struct timed_fills {
    tuff_device *device;
    storage *memory;
    recording *recorded;
} timed_fills;

static timed_fills make_fills(void)
{
    timed_fills self = {.device = tuff_device_open("opencl:0")};
    if (!self.device)
        fail_msg("%s", tuff_error());
    tuff__device_set_timeout(self.device, 10000000);
    assert_int_equal(tuff__storage_create(self.device, 4096, true, &self.memory), TUFF_OK);
    command fills[2] = {{.kind = COMMAND_FILL_ZERO, .binding_count = 1}};
    fills[0].bindings[0] = (buffer_binding){tuff__storage_buffer(self.memory), 0, 4096, true};
    fills[1] = fills[0];
    assert_int_equal(tuff__recording_create(self.device, fills, 2, false, true, &self.recorded), TUFF_OK);
    return self;
}

static void drop_fills(const timed_fills *self)
{
    tuff__recording_destroy(self->device, self->recorded);
    tuff__storage_release(self->memory);
    tuff_device_close(self->device);
}

static void a_late_timed_run_is_waited_for(void **state)
{
    (void)state;
    uint32_t word = 0;
    const timed_fills fills = make_fills();
    fake_opencl.holds_timed = true;
    assert_int_equal(tuff__submit(fills.device, fills.recorded), TUFF_E_TIMEOUT);
    assert_int_equal(tuff__wait(fills.device), TUFF_E_TIMEOUT);
    assert_int_equal(tuff__storage_read(fills.device, fills.memory, 0, &word, 4), TUFF_E_TIMEOUT);
    assert_true(fills.device->handle->hung);
    fake_opencl.holds_timed = false;
    assert_int_equal(tuff__wait(fills.device), TUFF_OK);
    assert_false(fills.device->handle->hung);
    assert_int_equal(tuff__submit(fills.device, fills.recorded), TUFF_OK);
    drop_fills(&fills);
}

/* The commands before a failing one were already enqueued: the wait for them must not last until the timeout. */
static void a_timed_run_that_fails_half_way_ends(void **state)
{
    (void)state;
    const timed_fills fills = make_fills();
    fake_opencl.is_lazy = true;
    fake_opencl.failing = 3; /* after the wait's marker and the first fill */
    assert_int_equal(tuff__submit(fills.device, fills.recorded), TUFF_E_OOM_HOST);
    assert_int_equal(fake_opencl.failing, 0);
    assert_false(fills.device->handle->hung);
    assert_int_equal(tuff__submit(fills.device, fills.recorded), TUFF_OK);
    drop_fills(&fills);
    fake_opencl.is_lazy = false;
}

/* An application may have enqueued anything on a queue that it unwrapped. */
static void an_applications_work_is_waited_for_within_bounds(void **state)
{
    (void)state;
    static char bytes[2 << 20];
    tuff_opencl_handles handles;
    storage *memory;
    tuff_device *device = tuff_device_open("opencl:0");
    assert_non_null(device);
    tuff__device_set_timeout(device, 10000000);
    assert_int_equal(tuff__storage_create(device, sizeof bytes, true, &memory), TUFF_OK);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    assert_int_equal(tuff_device_unwrap_opencl(device, &handles), TUFF_OK);
    fake_opencl.hangs = true;
    assert_int_equal(tuff__storage_read(device, memory, 0, bytes, 4), TUFF_E_TIMEOUT);
    fake_opencl.hangs = false;
    assert_int_equal(tuff__wait(device), TUFF_OK);
    fake_opencl.hangs = true;
    assert_int_equal(tuff__storage_write(device, memory, 0, bytes, sizeof bytes), TUFF_E_TIMEOUT);
    fake_opencl.hangs = false;
    assert_int_equal(tuff__wait(device), TUFF_OK);
    fake_opencl.hangs = true;
    assert_int_equal(tuff__storage_write(device, memory, 0, bytes, 4), TUFF_OK); /* enqueued only */
    assert_int_equal(tuff__wait(device), TUFF_E_TIMEOUT);
    fake_opencl.hangs = false;
    assert_int_equal(tuff__wait(device), TUFF_OK);
    tuff__storage_release(memory);
    tuff_device_close(device);
}

/* Once a device hangs, destroying what it runs does not wait again, time after time. */
static void a_hung_device_does_not_delay_each_recording(void **state)
{
    (void)state;
    enum { COUNT = 5 };
    recording *recorded[COUNT];
    const timed_fills fills = make_fills();
    command fill = {.kind = COMMAND_FILL_ZERO, .binding_count = 1};
    fill.bindings[0] = (buffer_binding){tuff__storage_buffer(fills.memory), 0, 4096, true};
    fake_opencl.hangs = true;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(tuff__recording_create(fills.device, &fill, 1, false, false, &recorded[i]), TUFF_OK);
        assert_int_equal(tuff__submit(fills.device, recorded[i]), TUFF_OK);
    }
    const int before = fake_opencl.enqueued; /* each wait enqueues a marker */
    for (int i = 0; i < COUNT; i++)
        tuff__recording_destroy(fills.device, recorded[i]);
    assert_int_equal(fake_opencl.enqueued, before + 1);
    fake_opencl.hangs = false;
    assert_int_equal(tuff__wait(fills.device), TUFF_OK);
    drop_fills(&fills);
}

/* The next tests leak what a hung device may still use, on purpose: LeakSanitizer ignores it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:a_device_with_a_stuck_upload_is_not_released\nleak:a_staging_of_a_hung_device_is_kept\n";
}

/* Neither released, which might never return, nor waited for; and an upload on the other queue that is complete does
   not mean that the device goes on. */
static void a_staging_of_a_hung_device_is_kept(void **state)
{
    (void)state;
    const timed_fills fills = make_fills();
    staging *sent = NULL, *received = NULL;
    assert_int_equal(tuff__staging_create(fills.device, 4096, true, &sent), TUFF_OK);
    assert_int_equal(tuff__staging_create(fills.device, 4096, false, &received), TUFF_OK);
    assert_int_equal(tuff__staging_send(sent, 4096), TUFF_OK);
    fake_opencl.holds_timed = true;
    assert_int_equal(tuff__submit(fills.device, fills.recorded), TUFF_E_TIMEOUT);
    assert_int_equal(tuff__wait(fills.device), TUFF_E_TIMEOUT);
    const int before = fake_opencl.releases;
    tuff__staging_destroy(sent);
    assert_int_equal(fake_opencl.releases, before);
    assert_true(fills.device->handle->hung);
    assert_int_equal(tuff__staging_download(received, &(staging_transfer){.storage = fills.memory, .size = 4096}, 1),
                     TUFF_OK);
    tuff__device_set_timeout(fills.device, 2000000000);
    const uint64_t begin = tuff__nanoseconds();
    tuff__staging_destroy(received);
    assert_true(tuff__nanoseconds() - begin < 1000000000);
    assert_int_equal(fake_opencl.releases, before);
    fake_opencl.holds_timed = false;
    assert_int_equal(tuff__wait(fills.device), TUFF_OK);
    drop_fills(&fills);
}

/* The queue of an upload that did not end is not released, because that could block. */
static void a_device_with_a_stuck_upload_is_not_released(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("opencl:0");
    assert_non_null(device);
    tuff__device_set_timeout(device, 10000000);
    staging *batch = NULL;
    failing_memory_begin(0, false);
    assert_int_equal(tuff__staging_create(device, 4096, true, &batch), TUFF_OK);
    fake_opencl.hangs = true;
    assert_int_equal(tuff__staging_send(batch, 4096), TUFF_OK);
    tuff__staging_destroy(batch);
    assert_int_equal(failing_memory_live(), 0);
    (void)failing_memory_end();
    device->handle->hung = false; /* as after a wait for the other queue */
    const int before = fake_opencl.releases;
    tuff_device_close(device);
    assert_int_equal(fake_opencl.releases, before);
    fake_opencl.hangs = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hung_device_does_not_delay_each_recording),
        cmocka_unit_test(a_device_with_a_stuck_upload_is_not_released),
        cmocka_unit_test(a_staging_of_a_hung_device_is_kept),
        cmocka_unit_test(a_late_timed_run_is_waited_for),
        cmocka_unit_test(a_timed_run_that_fails_half_way_ends),
        cmocka_unit_test(an_applications_work_is_waited_for_within_bounds),
    };
    install_fake_opencl(devices, 1);
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
