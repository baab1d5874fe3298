/* Every primitive op on every device found, in every dtype it takes, element by element against the float64 reference.
   tools/verify/suite.c defines the cases and the tolerances; this test requires that nothing fails, and that the suite
   would detect failures. TUFF_DEVICE selects one device; TUFF_SUITE=thorough leaves nothing out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "each_device.h"
#include "tools/verify/suite.h"

/* A log line about a kernel that calls a function which src/device/opencl/builtins.c does not declare. There is none
   for a program from the cache, so only a build folder whose tests never ran shows all of them. */
static char undeclared[512];

static void keep_undeclared(void *user, tuff_log_level level, const char *line)
{
    (void)user;
    (void)level;
    if (strstr(line, "compiled with the OpenCL driver's header"))
        snprintf(undeclared, sizeof undeclared, "%s", line);
}

/* Whether TUFF_DEVICE, if it is set, selects the device. */
static bool is_wanted(const tuff_device_info *info)
{
    const char *chosen = getenv("TUFF_DEVICE");
    return !chosen || !chosen[0] || strcmp(chosen, info->selector) == 0;
}

/* Gradients of attention take drivers longest to compile, and tests/kernels/attention.c tests more shapes: in a short
   run a single key, windows, views, biases and all variants at once are enough. */
static bool is_shape_elsewhere(op_code op, int index)
{
    static const int own[] = {4, 5, 6, 8, 11, 14, 18};
    if (op != OP_ATTENTION_DQ && op != OP_ATTENTION_DK && op != OP_ATTENTION_DV)
        return false;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (index == own[i])
            return false;
    return true;
}

/* Unfused, a case has the same kernels as fused, except for views and for ops of several steps, whose maps become
   separate kernels: there the dtype only matters for sums. */
static bool is_other_unfused(const suite_case *one, int index)
{
    if (one->op == OP_SUM || one->op == OP_CUMSUM || one->op == OP_IOTA) /* iota has no f32 */
        return true;
    return one->dtype == TUFF_F32 && (!tuff__op_is_attention(one->op) || index == 1 || one->view != VIEW_NONE);
}

/* Whether a short run includes a case: each op's first case and a quarter of the others, each on one driver. The
   reference device compiles no programs and leaves nothing out. */
static bool is_wanted_case(const tuff_device *device, const suite_case *one, int index, bool is_first)
{
    if (is_thorough() || tuff__device_is_reference(device))
        return true;
    if (is_first)
        return is_drawn_for_device(device, (int)one->op);
    const int number = index + (int)one->op + (int)one->dtype;
    if (tuff__op_is_attention(one->op) && is_shape_elsewhere(one->op, index))
        return false;
    return drawn_turn("cases", number, 4) == 0 && is_drawn_for_device(device, number);
}

/* Runs one op in all dtypes and prints the first failure of each. Returns the number of failed elements. */
static int64_t run_op(tuff_device *device, op_code op, const suite_options *options, int *cases)
{
    const bool leaves_out = !is_thorough() && !tuff__device_is_reference(device);
    const bool is_fused = options->compile.fuse == TUFF_FUSE_ALL;
    bool is_first = true;
    int64_t failures = 0;
    for (tuff_dtype dtype = TUFF_F32; dtype <= TUFF_BOOL; dtype++) {
        suite_result result = {.op = op, .dtype = dtype};
        suite_case one;
        for (int index = 0; suite_case_at(op, dtype, index, &one); index++) {
            if (leaves_out &&
                (!suite_is_in_short_suite(op, dtype, index) || (!is_fused && !is_other_unfused(&one, index))))
                continue;
            if (is_wanted_case(device, &one, index, is_first))
                suite_run_case(device, &one, options, &result);
            is_first = false;
        }
        *cases += result.case_count;
        failures += result.failure_count;
        if (result.failure_count > 0)
            print_message("%lld failures of %lld: %s\n", (long long)result.failure_count,
                          (long long)result.element_count, result.failure);
    }
    return failures;
}

static void run_device(const tuff_device_info *info, const suite_options *options, int cases[OP_COUNT])
{
    tuff_device *device = tuff_device_open(info->selector);
    if (!device)
        fail_msg("%s: %s", info->selector, tuff_error());
    int64_t failures = 0;
    for (op_code op = 0; op < OP_COUNT; op++) {
        /* An elementwise op alone in its graph has the same kernel, fused or not. */
        if (options->compile.fuse == TUFF_FUSE_NONE && tuff__op_is_elementwise(op))
            cases[op]++;
        else
            failures += run_op(device, op, options, &cases[op]);
    }
    tuff_device_close(device);
    if (failures > 0)
        fail_msg("%s, %s: %lld elements exceed the tolerance", info->selector, info->name, (long long)failures);
}

/* Each op must have a case on the reference, and one on a driver if there is one. */
static void each_device(const suite_options *options)
{
    int cases[2][OP_COUNT] = {{0}}, tried[2] = {0};
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (!is_wanted(&info))
            continue;
        const int is_driver = info.device_class != TUFF_DEVICE_REFERENCE;
        print_message("%s: %s\n", info.selector, info.name);
        const clock_t begin = clock();
        run_device(&info, options, cases[is_driver]);
        print_message("    %.1f s of processor time\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
        tried[is_driver]++;
    }
    assert_true(tried[0] + tried[1] > 0);
    assert_string_equal(undeclared, "");
    for (int is_driver = 0; is_driver < 2; is_driver++)
        for (op_code op = 0; op < OP_COUNT && tried[is_driver] > 0; op++)
            if (cases[is_driver][op] == 0)
                fail_msg("%s has no case on the %s", tuff__op_info(op)->name, is_driver ? "drivers" : "reference");
}

static void every_op_is_within_its_bars(void **state)
{
    (void)state;
    each_device(&(suite_options){.seed = 1});
}

/* Without fusion views become separate tasks with other kernels. */
static void every_op_is_within_its_bars_unfused(void **state)
{
    (void)state;
    each_device(&(suite_options){.compile = {.fuse = TUFF_FUSE_NONE}, .seed = 2});
}

static suite_case first_case(op_code op, tuff_dtype dtype)
{
    suite_case one;
    assert_true(suite_case_at(op, dtype, 0, &one));
    return one;
}

static void results_beyond_their_bars_are_seen(void **state)
{
    (void)state;
    const double ulp = ldexp(1, -23);
    suite_case one = first_case(OP_ADD, TUFF_F32);
    assert_true(suite_error_ratio(&one, TUFF_F32, true, 1 + ulp, 1, ulp / 2) <= 1);
    assert_false(suite_error_ratio(&one, TUFF_F32, true, 1 + 2 * ulp, 1, ulp / 2) <= 1);
    assert_false(suite_error_ratio(&one, TUFF_F32, true, NAN, 1, ulp / 2) <= 1);
    assert_false(suite_error_ratio(&one, TUFF_F32, true, 1, NAN, 0) <= 1);
    assert_false(suite_error_ratio(&one, TUFF_F32, true, INFINITY, 1e38, 1e31) <= 1);
    assert_false(suite_error_ratio(&one, TUFF_F32, true, INFINITY, -INFINITY, 0) <= 1);
    assert_true(suite_error_ratio(&one, TUFF_F32, true, INFINITY, 1e39, 1e32) <= 1);
    assert_true(suite_error_ratio(&one, TUFF_F32, false, 0, 1e-39, 0) <= 1);
    assert_false(suite_error_ratio(&one, TUFF_F32, true, 0, 1e-39, 0) <= 1);
    one = first_case(OP_SUM, TUFF_F16);
    assert_true(suite_error_ratio(&one, TUFF_F16, true, 2048, 2049, 0.01) <= 1);
    assert_false(suite_error_ratio(&one, TUFF_F16, true, 2046, 2049, 0.01) <= 1);
    one = first_case(OP_PERMUTE, TUFF_F32);
    assert_false(suite_error_ratio(&one, TUFF_F32, true, 0, -0.0, 0) <= 1);
    assert_false(suite_error_ratio(&one, TUFF_F32, false, 0, 1e-45, 0) <= 1);
    one = first_case(OP_ADD, TUFF_I32);
    assert_false(suite_error_ratio(&one, TUFF_I32, true, 7, 8, 0) <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_beyond_their_bars_are_seen),
        cmocka_unit_test(every_op_is_within_its_bars),
        cmocka_unit_test(every_op_is_within_its_bars_unfused),
    };
    tuff_set_log(keep_undeclared, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
