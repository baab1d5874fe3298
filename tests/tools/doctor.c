/* tuff doctor: wrong results of a driver are told and fail it; measured rates are judged by what is predicted for the
   device; 16 bits are measured where a device has them. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/driver.h"
#include "device/state.h"
#include "each_device.h"
#include "emulated_units.h"
#include "opencl_replaced.h"
#include "tools/doctor/speed.h"
#include "tools/verbs.h"

static void rates_far_below_the_prediction_are_slow(void **state)
{
    (void)state;
    assert_int_equal(doctor_judge(100, 100), DOCTOR_AS_PREDICTED);
    assert_int_equal(doctor_judge(1000, 100), DOCTOR_AS_PREDICTED);
    assert_int_equal(doctor_judge(51, 100), DOCTOR_AS_PREDICTED);
    assert_int_equal(doctor_judge(49, 100), DOCTOR_SLOW);
    assert_int_equal(doctor_judge(0, 100), DOCTOR_UNKNOWN);
    assert_int_equal(doctor_judge(100, 0), DOCTOR_UNKNOWN);
}

static tuff_device_info card(uint32_t vendor, const char *name, const char *api, tuff_matrix_units form)
{
    tuff_device_info info = {.device_class = TUFF_DEVICE_GPU_DISCRETE, .vendor_id = vendor, .cooperative_matrix = form};
    snprintf(info.name, sizeof info.name, "%s", name);
    snprintf(info.api, sizeof info.api, "%s", api);
    info.matrix_bf16 = form != TUFF_MATRIX_NONE && form != TUFF_MATRIX_NV;
    return info;
}

static tuff_device_info h100(void)
{
    tuff_device_info info = card(VENDOR_NVIDIA, "NVIDIA H100 80GB HBM3", "OpenCL 3.0", TUFF_MATRIX_NVIDIA);
    info.matrix_warpgroup = 1;
    return info;
}

/* What an H100 and an H200 reached: bench/results. */
static const doctor_speed measured_h100 = {
    .operations = 60.5e12,
    .bytes = 2.7e12,
    .launch = 7e-6,
    .submission = 20e-6,
    .rates = {[DOCTOR_MATMUL] = 43.2e12,
              [DOCTOR_MATMUL_F16] = 520e12,
              [DOCTOR_MATMUL_BF16] = 520e12,
              [DOCTOR_ATTENTION] = 27e12,
              [DOCTOR_ATTENTION_F16] = 167e12,
              [DOCTOR_ROW] = 2.4e12},
    .sizes = {.matmul = 4096, .row = 4096, .batch = 4, .heads = 16, .length = 2048},
};

/* Returns the number of lines of the report with this part; *slow gets how many of them say SLOW, and *told how many
   the report counts. */
static int lines_with(const doctor_speed *speed, const tuff_device_info *info, const char *part, int *slow, int *told)
{
    const doctor_prediction predicted = doctor_predict(info);
    text out = {0};
    char *rest = NULL;
    int found = 0;
    *slow = 0;
    *told = doctor_write_speed(speed, &predicted, &out);
    assert_int_equal(tuff__text_status(&out), TUFF_OK);
    for (char *line = strtok_r(out.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, part)) {
            found++;
            *slow += strstr(line, ": SLOW") != NULL;
        }
    tuff__text_free(&out);
    return found;
}

static void each_slow_result_is_told(void **state)
{
    (void)state;
    static const char *const parts[DOCTOR_WORKS] = {"matmul 4096", "the same, f16", "the same, bf16",
                                                    "attention T", "the same, f16", "1 x 4096"};
    const tuff_device_info info = h100();
    int slow, told;
    assert_int_equal(lines_with(&measured_h100, &info, "", &slow, &told), DOCTOR_WORKS + 3);
    assert_int_equal(slow, 0);
    assert_int_equal(told, 0);
    for (int i = 0; i < DOCTOR_WORKS; i++) {
        doctor_speed speed = measured_h100;
        speed.rates[i] *= 0.06; /* for matrix units, about 3 % of their peak */
        assert_true(lines_with(&speed, &info, parts[i], &slow, &told) >= 1);
        assert_int_equal(slow, 1);
        assert_int_equal(told, 1);
        speed.rates[i] = 0; /* not measured: no line */
        assert_int_equal(lines_with(&speed, &info, ": SLOW", &slow, &told), 0);
    }
}

/* The units of a card in whose Vulkan driver they are slower are judged by that; an RTX A1000 is no A100. */
static void predictions_differ_by_vendor_and_units(void **state)
{
    (void)state;
    tuff_device_info info = h100();
    const doctor_prediction hopper = doctor_predict(&info);
    info = card(VENDOR_NVIDIA, "NVIDIA H200", "Vulkan 1.4", TUFF_MATRIX_NV);
    const doctor_prediction vulkan = doctor_predict(&info);
    info = card(VENDOR_NVIDIA, "NVIDIA A100-SXM4-40GB", "OpenCL 3.0", TUFF_MATRIX_NVIDIA);
    const doctor_prediction a100 = doctor_predict(&info);
    info = card(VENDOR_NVIDIA, "NVIDIA RTX A1000", "OpenCL 3.0", TUFF_MATRIX_NVIDIA);
    const doctor_prediction a1000 = doctor_predict(&info);
    info = card(VENDOR_AMD, "gfx942:sramecc+:xnack-", "OpenCL 2.0", TUFF_MATRIX_MFMA);
    const doctor_prediction cdna = doctor_predict(&info);
    info = card(VENDOR_AMD, "gfx1100", "OpenCL 2.0", TUFF_MATRIX_WMMA);
    const doctor_prediction rdna3 = doctor_predict(&info);
    info = card(VENDOR_AMD, "gfx1030", "OpenCL 2.0", TUFF_MATRIX_NONE);
    const doctor_prediction rdna = doctor_predict(&info);
    info = card(VENDOR_INTEL, "Intel(R) Arc(TM) A770 Graphics", "OpenCL 3.0", TUFF_MATRIX_INTEL);
    const doctor_prediction intel = doctor_predict(&info);
    info = card(VENDOR_INTEL, "Intel(R) UHD Graphics", "OpenCL 3.0", TUFF_MATRIX_NONE);
    const doctor_prediction without = doctor_predict(&info);

    assert_true(hopper.matmul_f16 > 10 && hopper.matmul_f16 < 14);
    assert_true(vulkan.matmul_f16 > 3 && vulkan.matmul_f16 < 5); /* 180 / 42.6 was measured */
    assert_true(vulkan.matmul_bf16 < 1);                         /* not on units */
    assert_true(a100.matmul_f16 > 5 && a1000.matmul_f16 < 2 && a1000.matmul_f16 > 1);
    assert_true(cdna.matmul < rdna.matmul && rdna.matmul < intel.matmul);
    assert_true(cdna.attention < rdna.attention && rdna.attention < intel.attention);
    assert_true(rdna3.matmul > 1.9 * rdna.matmul); /* only its compiler pairs the instructions of kernels */
    assert_true(cdna.matmul_f16 > 4 && intel.matmul_bf16 > 4 && rdna3.matmul_f16 > 1 && rdna3.matmul_f16 < 2);
    assert_true(without.matmul == intel.matmul && without.matmul_f16 <= 1 && without.attention_f16 <= 1);
}

static const doctor_sizes tiny = {.matmul = 64, .row = 256, .batch = 1, .heads = 1, .length = 32};

static void check_without_16_bits(tuff_device *device)
{
    char failure[256];
    doctor_speed speed;
    int slow, told;
    const tuff_device_info before = device->info;
    device->info.half_arithmetic = false;
    device->info.cooperative_matrix = TUFF_MATRIX_NONE;
    doctor_measure(device, 0.01, &tiny, &speed, failure, sizeof failure);
    assert_string_equal(failure, "");
    assert_int_equal(lines_with(&speed, &device->info, "the same", &slow, &told), 0);
    assert_int_equal(lines_with(&speed, &device->info, "f32", &slow, &told), 4);
    device->info = before;
}

static void sixteen_bits_are_left_out_without_units_and_arithmetic(void **state)
{
    (void)state;
    for_drawn_drivers(check_without_16_bits);
}

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
/* Units that are emulated on a CPU take far longer than f32, as units would that some driver emulates. */
static void slow_units_are_told(void **state)
{
    (void)state;
    char failure[256];
    doctor_speed speed;
    int slow, told;
    tuff_device *device = open_replaceable();
    if (!device)
        skip();
    const tuff_device_info info = device->info;
    const driver *before = device->driver;
    driver emulating = *before;
    real_driver = before;
    emulated_units = &all_units[0];
    emulated = 0;
    emulating.program_create = create_emulated;
    device->driver = &emulating;
    device->info.cooperative_matrix = emulated_units->form;
    memcpy(device->info.matrix_shape, emulated_units->shape, sizeof emulated_units->shape);
    device->info.matrix_lanes = emulated_units->lanes;
    device->info.matrix_bf16 = true;
    doctor_measure(device, 0.01, &tiny, &speed, failure, sizeof failure);
    assert_string_equal(failure, "");
    assert_true(emulated >= 3);
    assert_int_equal(lines_with(&speed, &device->info, "the same, f16", &slow, &told), 2);
    assert_true(slow >= 1);
    assert_int_equal(lines_with(&speed, &device->info, "the same, bf16", &slow, &told), 1);
    assert_int_equal(slow, 1);
    device->driver = before;
    device->info = info;
    tuff_device_close(device);
}

static opencl_api truth;
static int reads;

static cl_int CL_API_CALL read_wrong(cl_command_queue queue, cl_mem memory, cl_bool blocks, size_t offset, size_t size,
                                     void *data, cl_uint count, const cl_event *list, cl_event *event)
{
    const cl_int error = truth.EnqueueReadBuffer(queue, memory, blocks, offset, size, data, count, list, event);
    for (size_t i = 0; i < size; i += 4)
        ((uint8_t *)data)[i] ^= 0x81;
    reads++;
    return error;
}

static void wrong_results_are_told(void **state)
{
    (void)state;
    char device[] = "--device", opencl[] = "opencl", seconds[] = "--seconds", one[] = "1";
    char *arguments[] = {device, opencl, seconds, one};
    tuff_device *tried = open_replaceable();
    if (!tried)
        skip();
    tuff_device_close(tried);
    truth = tuff__cl;
    tuff__cl.EnqueueReadBuffer = read_wrong;
    const int code = verb_doctor.run(4, arguments);
    tuff__cl = truth;
    assert_true(reads > 0);
    assert_int_equal(code, EXIT_FAILED);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_far_below_the_prediction_are_slow),
        cmocka_unit_test(each_slow_result_is_told),
        cmocka_unit_test(predictions_differ_by_vendor_and_units),
        cmocka_unit_test_setup_teardown(sixteen_bits_are_left_out_without_units_and_arithmetic, use_fresh_cache,
                                        drop_cache),
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
        cmocka_unit_test_setup_teardown(slow_units_are_told, use_empty_cache, drop_cache),
        cmocka_unit_test_setup_teardown(wrong_results_are_told, use_empty_cache, drop_cache),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
