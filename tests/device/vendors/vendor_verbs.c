/* What the tool does on the devices of vendors, which fake drivers report: `tuff devices --json`, and which device a
   verb takes. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

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

static int64_t json_number(const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);
    if (!json_is_integer(value))
        fail_msg("%s: \"%s\" is missing or no number", json_string_value(json_object_get(row, "selector")), name);
    return json_integer_value(value);
}

static bool json_flag(const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);
    if (!json_is_boolean(value))
        fail_msg("%s: \"%s\" is missing or no flag", json_string_value(json_object_get(row, "selector")), name);
    return json_is_true(value);
}

/* Runs `tuff devices --json` and parses what it prints. */
static json_t *list_as_json(void)
{
    char option[] = "--json", *arguments[] = {option, NULL};
    json_error_t fault;
    FILE *printed = tmpfile();
    assert_non_null(printed);
    fflush(stdout);
    const int output = dup(1);
    assert_true(dup2(fileno(printed), 1) == 1);
    const int code = verb_devices.run(1, arguments);
    fflush(stdout);
    assert_true(dup2(output, 1) == 1);
    close(output);
    assert_true(code == EXIT_DONE || code == EXIT_FAILED);
    rewind(printed);
    json_t *list = json_loadf(printed, 0, &fault);
    if (!list)
        fail_msg("tuff devices --json: line %d: %s", fault.line, fault.text);
    fclose(printed);
    return list;
}

static void devices_are_described_as_json(void **state)
{
    (void)state;
    static const char *const watchdogs[] = {"unknown", "present", "none"};
    json_t *list = list_as_json();
    int found = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i), *shape = json_object_get(row, "matrix_shape");
        if (strcmp(json_string_value(json_object_get(row, "selector")), "reference") == 0)
            continue;
        tuff_device *device = tuff_device_open(json_string_value(json_object_get(row, "selector")));
        assert_non_null(device);
        const tuff_device_info *info = &device->info;
        assert_string_equal(json_string_value(json_object_get(row, "name")), info->name);
        assert_string_equal(json_string_value(json_object_get(row, "watchdog")), watchdogs[info->watchdog]);
        assert_int_equal(json_number(row, "vector_width"), info->vector_width);
        assert_int_equal(json_number(row, "matrix_lanes"), info->matrix_lanes);
        assert_int_equal(json_number(row, "cooperative_matrix"), info->cooperative_matrix);
        assert_int_equal(json_flag(row, "matrix_bf16"), info->matrix_bf16);
        assert_int_equal(json_array_size(shape), 3);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(json_integer_value(json_array_get(shape, k)), info->matrix_shape[k]);
        found++;
        tuff_device_close(device);
    }
    assert_int_equal(found,
                     sizeof opencl_devices / sizeof *opencl_devices + sizeof vulkan_devices / sizeof *vulkan_devices);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sixteen_bits_prefer_matrix_units),
                                       cmocka_unit_test(devices_are_described_as_json)};
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
