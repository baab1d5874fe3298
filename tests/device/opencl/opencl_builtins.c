/* Declarations in place of the header of drivers built on Clang: kernels compile with them, a program that calls a
   function which they lack compiles with the header, and one that is wrong fails with the driver's message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "tuff.h"

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "base/alloc.h"
#include "device/opencl/api.h"
#include "device/state.h"

static const char guard[] = "-D_OPENCL_H_=";
static opencl_api real;
static int with_header, without_header, refused;
static char logged[512];

static cl_int CL_API_CALL count_build(cl_program built, cl_uint count, const cl_device_id *devices, const char *options,
                                      void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    const bool has_guard = strstr(options, guard) != NULL;
    with_header += !has_guard;
    without_header += has_guard;
    if (has_guard && refused != CL_SUCCESS)
        return refused;
    return real.BuildProgram(built, count, devices, options, notify, user);
}

static void keep_line(void *user, tuff_log_level level, const char *line)
{
    (void)user;
    if (level == TUFF_LOG_INFO)
        snprintf(logged, sizeof logged, "%s", line);
}

static tuff_status compile(tuff_device *device, const char *statement)
{
    char source[512];
    snprintf(
        source, sizeof source,
        "__kernel void changed(__global float *x, uint base)\n{\n    const size_t i = get_global_id(0);\n    %s\n}\n",
        statement);
    const program_request request = {
        .name = "changed", .text = source, .buffer_count = 1, .word_count = 1, .local_size = 1};
    driver_program *compiled = NULL;
    with_header = without_header = 0;
    logged[0] = 0;
    const tuff_status status = device->driver->program_create(device->handle, &request, (blob){0}, NULL, &compiled);
    if (compiled)
        device->driver->program_destroy(device->handle, compiled);
    return status;
}

static void check_builds(tuff_device *device)
{
    if (strcmp(device->driver->name, "opencl") != 0 || !strstr(device->driver->build_options(device->handle), guard)) {
        leave_out_device("has no declarations in place of a header");
        return;
    }
    real = tuff__cl;
    tuff__cl.BuildProgram = count_build;
    tuff_set_log(keep_line, NULL);
    assert_int_equal(compile(device, "x[i] = fma(x[i], 2.0f, fabs(x[i]));"), TUFF_OK);
    assert_int_equal(without_header, 1);
    assert_int_equal(with_header, 0);
    assert_string_equal(logged, "");
    assert_int_equal(compile(device, "x[i] = lgamma(x[i]);"), TUFF_OK);
    assert_int_equal(with_header, 1);
    assert_non_null(strstr(logged, "header"));
    assert_non_null(strstr(logged, "lgamma"));
    assert_int_equal(compile(device, "x[i] = unknown;"), TUFF_E_COMPILE);
    assert_int_equal(with_header, 1);
    assert_non_null(strstr(tuff_error(), "unknown"));
    /* A driver to which the declarations mean nothing, and one that fails for another reason. */
    refused = CL_BUILD_PROGRAM_FAILURE;
    assert_int_equal(compile(device, "x[i] = fabs(x[i]);"), TUFF_OK);
    assert_int_equal(with_header, 1);
    refused = CL_OUT_OF_HOST_MEMORY;
    assert_int_equal(compile(device, "x[i] = fabs(x[i]);"), TUFF_E_OOM_HOST);
    assert_int_equal(with_header, 0);
    refused = CL_SUCCESS;
    tuff_set_log(NULL, NULL);
    tuff__cl = real;
}

static void functions_are_declared(void **state)
{
    (void)state;
    for_each_driver(check_builds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(functions_are_declared, use_empty_cache, drop_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 77;
}
#endif
