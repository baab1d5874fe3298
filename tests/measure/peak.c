/* The peak rate of a GPU whose clocks are low at first, by fake times of runs: it is the rate after they have risen,
   and a GPU that was idle is warmed up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"
#include "measure/peak.h"

enum { LOW = 8000000, HIGH = 1000000 }; /* times of a run in ns, at low and at high clocks */

static const driver *real;
static double run_time;

static tuff_status run_nothing(driver_device *device, driver_recording *recorded)
{
    (void)device;
    (void)recorded;
    return TUFF_OK;
}

/* Each run is a little faster than the one before. */
static tuff_status slow_at_first(driver_device *device, driver_recording *recorded, uint64_t *nanoseconds)
{
    (void)device;
    (void)recorded;
    run_time = run_time * 0.995 > HIGH ? run_time * 0.995 : HIGH;
    *nanoseconds = (uint64_t)run_time;
    return TUFF_OK;
}

/* Returns the time of a run at the measured rate, in ns. */
static double time_at_rate(tuff_device *device, peak_kind kind)
{
    peak *loop;
    double rate;
    run_time = LOW;
    assert_int_equal(tuff__peak_rate(device, kind, &rate), TUFF_OK);
    assert_int_equal(tuff__peak_create(device, kind, &loop), TUFF_OK);
    const double work = tuff__peak_work(loop);
    tuff__peak_destroy(loop);
    return work / rate * 1e9;
}

/* Makes the device a GPU that was idle; the driver that it had is in `real`. */
static void make_idle_gpu(tuff_device *device, driver *idle)
{
    real = device->driver;
    *idle = *real;
    idle->submit = run_nothing;
    idle->timestamps = slow_at_first;
    device->driver = idle;
    device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
}

static void check_rate(tuff_device *device)
{
    const tuff_device_info info = device->info;
    driver idle;
    make_idle_gpu(device, &idle);
    for (int kind = PEAK_OPERATIONS; kind <= PEAK_BYTES; kind++) {
        device->info.device_class = TUFF_DEVICE_GPU_DISCRETE;
        const double as_gpu = time_at_rate(device, (peak_kind)kind);
        assert_true(as_gpu > HIGH * 0.99 && as_gpu < HIGH * 1.01);
        device->info.device_class = TUFF_DEVICE_CPU; /* takes only a few runs */
        const double as_cpu = time_at_rate(device, (peak_kind)kind);
        assert_true(as_cpu > LOW * 0.9 && as_cpu < LOW);
    }
    device->driver = real;
    device->info = info;
}

static void a_gpu_is_measured_at_high_clocks(void **state)
{
    (void)state;
    for_drawn_drivers(check_rate);
}

/* Once the rate is known, a GPU that was idle runs until it is as fast again, and one that is not idle runs once. */
static void check_warm_up(tuff_device *device)
{
    const tuff_device_info info = device->info;
    driver idle;
    peak *loop;
    assert_int_equal(tuff__peak_create(device, PEAK_OPERATIONS, &loop), TUFF_OK);
    make_idle_gpu(device, &idle);
    run_time = LOW;
    assert_true(tuff__peak_measured(loop) == 0);
    assert_int_equal(tuff__peak_warm(loop, PEAK_LONGEST_WARM_UP), TUFF_OK);
    const double rate = tuff__peak_measured(loop);
    assert_true(tuff__peak_work(loop) / rate * 1e9 < HIGH * 1.01);
    run_time = LOW;
    assert_int_equal(tuff__peak_warm(loop, PEAK_LONGEST_WARM_UP), TUFF_OK);
    assert_true(run_time < HIGH * 1.11 && run_time > HIGH * 1.05);
    assert_true(tuff__peak_measured(loop) == rate);
    const double before = run_time;
    assert_int_equal(tuff__peak_warm(loop, PEAK_LONGEST_WARM_UP), TUFF_OK);
    assert_true(run_time < before && run_time > before * 0.99);
    device->driver = real;
    device->info = info;
    tuff__peak_destroy(loop);
}

static void an_idle_gpu_is_warmed_up(void **state)
{
    (void)state;
    for_drawn_drivers(check_warm_up);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_gpu_is_measured_at_high_clocks),
                                       cmocka_unit_test(an_idle_gpu_is_warmed_up)};
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
