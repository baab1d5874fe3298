/* The simulated clock of GPUs that are slower than predicted. The header has the contract. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "slow_gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include "device/state.h"
#include "slow_opencl.h"
#include "slow_vulkan.h"

enum { PROGRAMS = 1024 };

slow_gpu_state slow_gpu;
static const driver *real;
static const slow_api *api;

uint64_t slow_gpu_time(void)
{
    return (uint64_t)slow_gpu.now;
}

/* The ratios of programs, in the order in which they are first seen. */
static const driver_program *programs[PROGRAMS];
static int program_count;

static double ratio_of(const driver_program *of)
{
    static const double ratios[] = {2, 0.3, 1, 0.3, 1.5, 0.6, 2, 0.4};
    int at = 0;
    while (at < program_count && programs[at] != of)
        at++;
    assert_true(at < PROGRAMS);
    programs[at] = of;
    program_count = at == program_count ? at + 1 : program_count;
    return slow_gpu.is_uneven ? ratios[at % (int)(sizeof ratios / sizeof *ratios)] : 1;
}

double slow_gpu_group_time(const command *work)
{
    return work->seconds / (double)work->group_count * slow_gpu.slowness * ratio_of(work->program) * SECOND;
}

void slow_gpu_submit(double time)
{
    slow_gpu.busy = (slow_gpu.busy > slow_gpu.now ? slow_gpu.busy : slow_gpu.now) + time;
    slow_gpu.longest = time > slow_gpu.longest ? time : slow_gpu.longest;
    slow_gpu.submissions += time > 0;
    slow_gpu.is_dead |= time > 2 * SECOND && !slow_gpu.is_mild;
}

static tuff_status create_recording(driver_device *device, const command *commands, int count, bool timed,
                                    driver_recording **out)
{
    command *scaled = malloc((size_t)count * sizeof *scaled);
    memcpy(scaled, commands, (size_t)count * sizeof *scaled);
    for (int i = 0; i < count; i++) {
        scaled[i].seconds *= slow_gpu.work;
        const double group = scaled[i].seconds / (double)(scaled[i].group_count > 0 ? scaled[i].group_count : 1);
        slow_gpu.group = group > slow_gpu.group ? group : slow_gpu.group;
    }
    api->begin_recording(scaled, count);
    const tuff_status status = real->recording_create(device, scaled, count, timed, out);
    api->end_recording(status == TUFF_OK ? *out : NULL, scaled, count);
    free(scaled);
    return status;
}

tuff_device *slow_gpu_open(const char *name)
{
    const bool is_opencl = strcmp(name, "opencl") == 0;
    if (tuff_device_unavailable_reason(name))
        return NULL;
    api = is_opencl ? &slow_opencl : &slow_vulkan;
    slow_gpu = (slow_gpu_state){.now = SECOND, .slowness = 1, .work = 1};
    program_count = 0;
    api->install();
    tuff__predictor_clock = slow_gpu_time;
    tuff_device *device = tuff_device_open(is_opencl ? "opencl:pocl" : "vulkan:llvmpipe");
    if (!device) {
        api->restore();
        tuff__predictor_clock = tuff__nanoseconds;
        return NULL;
    }
    assert_int_not_equal(tuff__device_info(device)->device_class, TUFF_DEVICE_CPU);
    real = device->driver;
    device->driver_override = *real;
    device->driver_override.recording_create = create_recording;
    device->driver = &device->driver_override;
    return device;
}

time_predictor *slow_gpu_predictor(const tuff_device *device)
{
    return api->predictor(device->handle);
}

void slow_gpu_close(tuff_device *device)
{
    device->driver = real;
    tuff_device_close(device);
    api->restore();
    tuff__predictor_clock = tuff__nanoseconds;
}
