/* Which device a verb takes of those of vendors, which fake drivers report. */
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
#include "tools/model/fastest.h"
#include "tools/verbs.h"

#if (!defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL) && (!defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN)
#include "device/state.h"
#include "fake_opencl.h"
#include "fake_vulkan.h"
#include "vendor_devices.h"

/* --precision of the verbs: matrix units multiply 16-bit values. A device that was named stays. */
static void sixteen_bits_prefer_matrix_units(void **state)
{
    (void)state;
    const struct {
        tuff_precision precision;
        const char *name, *expected;
    } cases[] = {{TUFF_PRECISION_F32, NULL, "opencl:2"},
                 {TUFF_PRECISION_F32, "auto", "opencl:2"},
                 {TUFF_PRECISION_F16, NULL, "vulkan:2"},
                 {TUFF_PRECISION_BF16, "auto", "vulkan:2"},
                 {TUFF_PRECISION_F16, "opencl:0", "opencl:0"}};
    (void)unsetenv("TUFF_DEVICE");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const model_options described = {.precision = cases[i].precision};
        const fastest_work work = {.described = &described};
        int code = 0;
        tuff_device *device = cli_open_device_for(&verb_train, cases[i].name, &work, &code);
        if (!device)
            fail_msg("%s", tuff_error());
        assert_string_equal(device->info.selector, cases[i].expected);
        tuff_device_close(device);
    }
    const model_options described = {.precision = TUFF_PRECISION_F16};
    int code = 0;
    assert_int_equal(setenv("TUFF_DEVICE", "opencl:0", 1), 0);
    tuff_device *device = cli_open_device_for(&verb_train, NULL, &(fastest_work){.described = &described}, &code);
    assert_int_equal(unsetenv("TUFF_DEVICE"), 0);
    assert_non_null(device);
    assert_string_equal(device->info.selector, "opencl:0");
    tuff_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sixteen_bits_prefer_matrix_units)};
    install_fake_opencl(opencl_devices, (int)(sizeof opencl_devices / sizeof *opencl_devices));
    install_fake_vulkan(vulkan_devices, (int)(sizeof vulkan_devices / sizeof *vulkan_devices));
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
