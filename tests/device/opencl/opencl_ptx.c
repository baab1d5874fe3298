/* What NVIDIA's compiler needs, on a CPU's driver that is made to look like NVIDIA's. Instructions that OpenCL's target
   lacks pass the compiler as comments in its PTX, and are turned back into instructions for the target that has them;
   an option limits the registers of a kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "device/state.h"
#include "each_device.h"
#include "opencl_replaced.h"
#include "tuff.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
static const char text[] = "/* //@ */ __kernel void half_of_it(__global float *x, uint base)\n"
                           "{\n    x[get_global_id(0)] *= 0.5f;\n}\n";
static const char *ptx;
static char built[256];
static bool refuses, has_no_binary;
static cl_device_id asked_for;

enum { DEVICES = 3 };

/* Returns sizes and texts like a driver: the space must suffice for all devices of the context, of which tuff's is the
   last. */
static cl_int CL_API_CALL tell_ptx(cl_program asked, cl_program_info parameter, size_t size, void *out,
                                   size_t *needed)
{
    static char others[DEVICES];
    const size_t sizes[DEVICES] = {100, 200, has_no_binary ? 0 : strlen(ptx)};
    cl_device_id ids[DEVICES] = {(cl_device_id)(void *)&others[0], (cl_device_id)(void *)&others[1], asked_for};
    const cl_uint count = DEVICES;
    const void *answer = parameter == CL_PROGRAM_NUM_DEVICES ? (const void *)&count
                         : parameter == CL_PROGRAM_DEVICES   ? (const void *)ids
                                                             : (const void *)sizes;
    const size_t length = parameter == CL_PROGRAM_NUM_DEVICES ? sizeof count
                          : parameter == CL_PROGRAM_DEVICES   ? sizeof ids
                                                              : sizeof sizes;
    (void)asked;
    (void)needed;
    if (size < length)
        return CL_INVALID_VALUE;
    if (parameter != CL_PROGRAM_BINARIES) {
        memcpy(out, answer, length);
        return CL_SUCCESS;
    }
    unsigned char **binaries = out;
    assert_null(binaries[0]);
    assert_null(binaries[1]);
    memcpy(binaries[2], ptx, sizes[2]);
    return CL_SUCCESS;
}

/* Stores the PTX that it gets, and builds the program from source. */
static cl_program CL_API_CALL build_ptx(cl_context context, cl_uint count, const cl_device_id *devices,
                                        const size_t *lengths, const unsigned char **binaries, cl_int *status,
                                        cl_int *error)
{
    const char *source = text;
    (void)count;
    (void)devices;
    assert_true(lengths[0] < sizeof built);
    memcpy(built, binaries[0], lengths[0]);
    built[lengths[0]] = 0;
    *status = *error = refuses ? CL_INVALID_BINARY : CL_SUCCESS;
    return refuses ? NULL : tuff__cl.CreateProgramWithSource(context, 1, &source, NULL, error);
}

/* Compiles the text with a driver that returns this binary; built stays empty if the program is not built again. */
static tuff_status compile(tuff_device *device, const char *binary, blob *made)
{
    const program_request request = {
        .name = "half_of_it", .text = text, .buffer_count = 1, .word_count = 1, .local_size = 1};
    driver_program *compiled = NULL;
    ptx = binary;
    built[0] = 0;
    const tuff_status status = device->driver->program_create(device->handle, &request, (blob){0}, made, &compiled);
    if (compiled)
        device->driver->program_destroy(device->handle, compiled);
    return status;
}

static void hidden_instructions_are_shown(void **state)
{
    (void)state;
    blob made = {0};
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    const opencl_api real = tuff__cl;
    tuff__cl.GetProgramInfo = tell_ptx;
    tuff__cl.CreateProgramWithBinary = build_ptx;
    device->handle->makes_ptx = true;
    asked_for = device->handle->id;
    assert_int_equal(compile(device, ".version 9.0\n.target sm_90, texmode\n//@first;\n{ second; //@third;\n}", &made),
                     TUFF_OK);
    assert_string_equal(built, ".version 9.0\n.target sm_90a, texmode\nfirst;\n{ second; third;\n}");
    assert_true(made.size > 0); /* the binary to store is that of the program built last */
    tuff__free(made.data);
    /* No instructions to restore, and a target at the very end. */
    assert_int_equal(compile(device, ".target sm_90\n// none: //", NULL), TUFF_OK);
    assert_string_equal(built, "");
    assert_int_equal(compile(device, "//@x\n.target sm_", NULL), TUFF_OK);
    assert_string_equal(built, "x\n.target sm_a");
    refuses = true;
    assert_int_not_equal(compile(device, ".target sm_90\n//@wgmma;", NULL), TUFF_OK);
    assert_non_null(strstr(tuff_error(), "clCreateProgramWithBinary"));
    has_no_binary = true; /* without the instructions, results would be wrong */
    assert_int_equal(compile(device, ".target sm_90\n//@wgmma;", NULL), TUFF_E_COMPILE);
    has_no_binary = false;
    device->handle->makes_ptx = false;
    assert_int_equal(compile(device, ".target sm_90\n//@wgmma;", NULL), TUFF_OK);
    assert_string_equal(built, "");
    tuff__cl = real;
    tuff_device_close(device);
}

static const char limit[] = " -cl-nv-maxrregcount=128";
static opencl_api real_api;
static int limited_builds, plain_builds;
static bool refuses_limit;

/* Builds without the limit, which a CPU's driver does not know, or refuses it. */
static cl_int CL_API_CALL build_limited(cl_program built_program, cl_uint count, const cl_device_id *devices,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    char plain[512];
    const char *found = strstr(options, limit);
    assert_true(strlen(options) < sizeof plain);
    if (!found) {
        ++plain_builds;
        return real_api.BuildProgram(built_program, count, devices, options, notify, user);
    }
    ++limited_builds;
    if (refuses_limit)
        return CL_INVALID_BUILD_OPTIONS;
    const size_t before = (size_t)(found - options);
    memcpy(plain, options, before);
    strcpy(plain + before, found + sizeof limit - 1);
    return real_api.BuildProgram(built_program, count, devices, plain, notify, user);
}

/* Compiles the text and counts the builds. */
static void expect_builds(tuff_device *device, register_count registers, int limited, int plain)
{
    const program_request request = {.name = "half_of_it",
                                     .text = text,
                                     .buffer_count = 1,
                                     .word_count = 1,
                                     .local_size = 1,
                                     .registers = registers};
    driver_program *compiled = NULL;
    limited_builds = plain_builds = 0;
    assert_int_equal(device->driver->program_create(device->handle, &request, (blob){0}, NULL, &compiled), TUFF_OK);
    device->driver->program_destroy(device->handle, compiled);
    assert_int_equal(limited_builds, limited);
    assert_int_equal(plain_builds, plain);
}

static void registers_are_limited_if_the_driver_can(void **state)
{
    (void)state;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    real_api = tuff__cl;
    tuff__cl.BuildProgram = build_limited;
    assert_false(device->handle->limits_registers);
    expect_builds(device, REGISTERS_FEW, 0, 1);
    device->handle->limits_registers = true;
    expect_builds(device, REGISTERS_FEW, 1, 0);
    expect_builds(device, REGISTERS_DEFAULT, 0, 1);
    refuses_limit = true;
    expect_builds(device, REGISTERS_FEW, 1, 1);
    expect_builds(device, REGISTERS_FEW, 0, 1); /* it is not asked again */
    tuff__cl = real_api;
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hidden_instructions_are_shown, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(registers_are_limited_if_the_driver_can, use_empty_cache, drop_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
