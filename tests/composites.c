/* Composites in narrow floats on every device found: values and gradients of one fused graph against the float64
   reference, within the first-order bound that it carries. In f32 the golden files hold them to independent numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/suite.h"
#include "tuff/nn.h"

/* Those that models are made of. */
static const char *const wanted[] = {"gelu_tanh", "swiglu",           "softmax",          "layer_norm",   "rms_norm",
                                     "linear",    "rope_interleaved", "attention_causal", "cross_entropy"};

static bool is_wanted(const char *name)
{
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (strcmp(name, wanted[i]) == 0)
            return true;
    return false;
}

static tuff_tensor *flatten(tuff_tensor *x)
{
    return tuff_reshape(x, TUFF_SHAPE(-1));
}

/* The composite whose index is the parameter, and the gradients of the sum of its squares, in one row. */
static tuff_tensor *build_with_gradients(const suite_case *of, tuff_graph *graph, tuff_tensor *const *x)
{
    static const int axes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    suite_case inner;
    tuff_tensor *with[SUITE_MAX_OPERANDS], *parts[SUITE_MAX_OPERANDS + 1], *gradients[SUITE_MAX_OPERANDS];
    int count = 0;
    assert_true(suite_composite_at(of->parameter, of->dtype, &inner));
    tuff_tensor *result = inner.build(&inner, graph, x);
    tuff_tensor *target = tuff_sum(tuff_mul(result, result), axes, tuff_tensor_shape(result).rank, false);
    for (int i = 0; i < of->operand_count; i++)
        if (of->operands[i].dtype == of->dtype)
            with[count++] = x[i];
    if (tuff_gradients(target, with, count, gradients) != TUFF_OK)
        return result;
    parts[0] = flatten(result);
    for (int i = 0; i < count; i++)
        parts[i + 1] = flatten(gradients[i]);
    return tuff_concat(parts, count + 1, 0);
}

static void run_device(tuff_device *device, const tuff_device_info *info)
{
    static const tuff_dtype dtypes[] = {TUFF_F16, TUFF_BF16};
    suite_result result = {0};
    suite_case of;
    for (int index = 0; suite_composite_at(index, TUFF_F16, &of); index++)
        for (size_t i = 0; is_wanted(of.name) && i < sizeof dtypes / sizeof dtypes[0]; i++) {
            suite_composite_at(index, dtypes[i], &of);
            of.parameter = index;
            of.build = build_with_gradients;
            suite_run_case(device, &of, NULL, &result);
        }
    assert_int_equal(result.case_count, 2 * sizeof wanted / sizeof wanted[0]);
    assert_true(result.element_count > 500);
    if (result.failure_count > 0)
        fail_msg("%s, %s: %lld failures; the first: %s", info->selector, info->name, (long long)result.failure_count,
                 result.failure);
}

static void composites_in_narrow_floats_are_within_their_bounds(void **state)
{
    (void)state;
    const char *chosen = getenv("TUFF_DEVICE");
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe(i, &info), TUFF_OK);
        if (chosen && chosen[0] && strcmp(chosen, info.selector) != 0)
            continue;
        tuff_device *device = tuff_device_open(info.selector);
        if (!device)
            fail_msg("%s: %s", info.selector, tuff_error());
        run_device(device, &info);
        tuff_device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composites_in_narrow_floats_are_within_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
