/* On GPUs OpenCL's command buffers are used without a setting, if the driver has them and they compute the right
   values. The driver is a fake one, which runs the kernel of the trial. */
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
#include "device/state.h"
#include "fake_opencl.h"

static bool is_wrong; /* the device computes something else */
static int tallies;   /* launches of the other kernel */

static void run(const char *source, size_t items, const fake_argument *arguments)
{
    tallies += strstr(source, "void tally(") != NULL;
    if (!strstr(source, "void trial("))
        return;
    const cl_uint *from = (const cl_uint *)(const void *)arguments[0].bytes;
    cl_uint *to = (cl_uint *)(void *)arguments[1].bytes;
    for (size_t i = 0; i < items; i++)
        to[i] = from[255 - i] * 1664525u + arguments[2].word + is_wrong;
}

#define CARD                                                                                                 \
    .platform = "Intel(R) OpenCL Graphics", .platform_version = "OpenCL 3.0 ", .version = "OpenCL 3.0 NEO ", \
    .language = "OpenCL C 1.2 ", .vendor = 0x8086, .units = 512, .memory = 1 << 30, .allocation = 1 << 30, .runs = run
static const fake_opencl_device devices[] = {
    {.name = "Intel(R) Arc(TM) A770 Graphics",
     .driver = "24.39.31294",
     .extensions = "cl_khr_fp16 cl_khr_command_buffer",
     CARD},
    {.name = "Intel(R) Arc(TM) A750 Graphics", .driver = "24.39.31294", .extensions = "cl_khr_fp16", CARD},
};
enum { WITH, WITHOUT, COUNT };

enum { LAUNCHES = 38, RUNS = 2, PER_BLOCK = 16 };

/* Submits LAUNCHES launches RUNS times, and checks how many command buffers they take. */
static void check(int index, bool expected)
{
    command commands[LAUNCHES];
    test_kernel kernel;
    recording *recorded = NULL;
    tuff_device *device = tuff_device_open(index == WITH ? "opencl:0" : "opencl:1");
    if (!device)
        fail_msg("%s", tuff_error());
    assert_int_equal(tuff__device_info(device)->device_class, TUFF_DEVICE_GPU_DISCRETE);
    assert_int_equal(device->handle->command_buffers.create != NULL, expected);
    storage *memory = make_words(device, 1000);
    make_kernel(device, &kernel, "tally", "x[i] += 1u;");
    for (int i = 0; i < LAUNCHES; i++)
        commands[i] = dispatch_over(device, &kernel, memory, 1000);
    assert_int_equal(tuff__recording_create(device, commands, LAUNCHES, false, false, &recorded), TUFF_OK);
    fake_opencl.blocks = fake_opencl.launches = tallies = 0;
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(tuff__submit(device, recorded), TUFF_OK);
    assert_int_equal(tuff__wait(device), TUFF_OK);
    assert_int_equal(fake_opencl.blocks, expected ? RUNS * ((LAUNCHES + PER_BLOCK - 1) / PER_BLOCK) : 0);
    assert_int_equal(fake_opencl.launches, expected ? 0 : RUNS * LAUNCHES);
    assert_int_equal(tallies, RUNS * LAUNCHES);
    tuff__recording_destroy(device, recorded);
    tuff__program_release(device, kernel.program);
    tuff__storage_release(memory);
    tuff_device_close(device);
    assert_int_equal(fake_opencl.living_blocks, 0);
}

static void gpus_use_command_buffers(void **state)
{
    (void)state;
    unsetenv("TUFF_COMMAND_BUFFERS");
    check(WITH, true);
    check(WITHOUT, false);
    setenv("TUFF_COMMAND_BUFFERS", "0", 1);
    check(WITH, false);
    unsetenv("TUFF_COMMAND_BUFFERS");
}

static void a_gpu_that_computes_wrong_values_does_not(void **state)
{
    (void)state;
    unsetenv("TUFF_COMMAND_BUFFERS");
    is_wrong = true;
    check(WITH, false);
    is_wrong = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_use_command_buffers),
        cmocka_unit_test(a_gpu_that_computes_wrong_values_does_not),
    };
    install_fake_opencl(devices, COUNT);
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
