/* Composites in narrow floats on every device found: values and gradients of one fused graph against the float64
   reference, within the first-order error bound that it computes. For f32 the golden files compare them with
   independent results; cases that these lack are compared with plain C here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "small_plans.h"
#include "tools/verify/suite.h"
#include "tuff/nn.h"

/* Composites that models commonly use. */
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

/* Builds the composite whose index is the parameter, with the gradients of the sum of its squares, in one row. */
static tuff_tensor *build_with_gradients(const suite_case *one, tuff_graph *graph, tuff_tensor *const *x)
{
    static const int axes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    suite_case inner;
    tuff_tensor *wrt[SUITE_MAX_OPERANDS], *parts[SUITE_MAX_OPERANDS + 1], *gradients[SUITE_MAX_OPERANDS];
    int count = 0;
    assert_true(suite_composite_at(one->parameter, one->dtype, &inner));
    tuff_tensor *result = inner.build(&inner, graph, x);
    tuff_tensor *target = tuff_sum(tuff_mul(result, result), axes, tuff_tensor_shape(result).rank, false);
    for (int i = 0; i < one->operand_count; i++)
        if (one->operands[i].dtype == one->dtype)
            wrt[count++] = x[i];
    if (tuff_gradients(target, wrt, count, gradients) != TUFF_OK)
        return result;
    parts[0] = flatten(result);
    for (int i = 0; i < count; i++)
        parts[i + 1] = flatten(gradients[i]);
    return tuff_concat(parts, count + 1, 0);
}

/* Runs all cases on the reference device, and each case on one driver of every API. */
static void run_device(tuff_device *device, const tuff_device_info *info)
{
    static const tuff_dtype dtypes[] = {TUFF_F16, TUFF_BF16};
    const bool is_reference = tuff__device_is_reference(device);
    suite_result result = {0};
    suite_case one;
    int number = 0, drawn = 0;
    for (int index = 0; suite_composite_at(index, TUFF_F16, &one); index++)
        for (size_t i = 0; is_wanted(one.name) && i < sizeof dtypes / sizeof dtypes[0]; i++) {
            if (!is_reference && !is_drawn_for_device_per_api(device, number++))
                continue;
            suite_composite_at(index, dtypes[i], &one);
            one.parameter = index;
            drawn++;
            one.build = build_with_gradients;
            suite_run_case(device, &one, NULL, &result);
        }
    assert_int_equal(result.case_count, drawn);
    assert_true(!is_reference || drawn == 2 * sizeof wanted / sizeof wanted[0]);
    assert_true(result.element_count >= 10 * drawn);
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
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (chosen && chosen[0] && strcmp(chosen, info.selector) != 0)
            continue;
        tuff_device *device = tuff_device_open(info.selector);
        if (!device)
            fail_msg("%s: %s", info.selector, tuff_error());
        run_device(device, &info);
        tuff_device_close(device);
    }
}

enum { MANY = 4000 };

/* Returns a number from -3 to 3; some are 0. */
static float element(int i)
{
    return (float)(i % 601 - 300) / 100;
}

/* Returns a plan with the output y of the input x, which has run once. */
static tuff_plan *run_unary(tuff_graph *graph, tuff_tensor *y)
{
    float data[MANY];
    tuff_output(graph, "y", y);
    tuff_plan *plan = compile_plan(graph);
    for (int i = 0; i < MANY; i++)
        data[i] = element(i);
    assert_int_equal(tuff_plan_write(plan, "x", data, sizeof data), TUFF_OK);
    run_plan(plan);
    return plan;
}

static void define_activations(tuff_device *device)
{
    for (int form = 0; form < 3; form++) {
        float got[MANY];
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(MANY));
        tuff_tensor *y = form == 0 ? tuff_elu(x, 0.375) : form == 1 ? tuff_leaky_relu(x, 0.2) : tuff_clamp(x, -1, 2);
        tuff_plan *plan = run_unary(graph, y);
        assert_int_equal(tuff_plan_read(plan, "y", got, sizeof got), TUFF_OK);
        for (int i = 0; i < MANY; i++) {
            const double v = (double)element(i), below = form == 0 ? 0.375 * (exp(v) - 1) : 0.2 * v;
            const double expected = form == 2 ? fmin(fmax(v, -1), 2) : v > 0 ? v : below;
            assert_true(fabs((double)got[i] - expected) < 1e-6);
        }
        destroy_plan(plan, graph);
    }
}

static void activations_follow_their_definitions(void **state)
{
    (void)state;
    for_drawn_devices(define_activations);
}

/* Kept elements are scaled, so that the mean stays; with this many draws the fraction dropped is within 4 % of its
   expectation. */
static void drop(tuff_device *device)
{
    float got[MANY];
    int dropped = 0;
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(MANY));
    tuff_plan *plan = run_unary(graph, tuff_dropout(x, 0.2));
    assert_int_equal(tuff_plan_read(plan, "y", got, sizeof got), TUFF_OK);
    for (int i = 0; i < MANY; i++) {
        dropped += got[i] == 0 && element(i) != 0;
        assert_true(got[i] == 0 || fabsf(got[i] - element(i) / 0.8f) < 1e-5f);
    }
    assert_true(abs(dropped - MANY / 5) < MANY / 25);
    destroy_plan(plan, graph);
}

static void dropout_drops_its_share(void **state)
{
    (void)state;
    for_drawn_devices(drop);
}

/* rope gives the same result for a position that is known on the device only as for one known when the graph is
   built. */
static void turn(tuff_device *device)
{
    static const tuff_rope_pairs pairs[] = {TUFF_ROPE_INTERLEAVED, TUFF_ROPE_HALF};
    const int32_t position = 5;
    for (int i = 0; i < 2; i++) {
        float known[2 * 3 * 8], unknown[2 * 3 * 8];
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(1, 2, 3, 8));
        tuff_tensor *at = tuff_input(graph, "position", TUFF_I32, TUFF_SCALAR);
        tuff_output(graph, "known", tuff_rope(x, pairs[i], 100, 7, NULL));
        tuff_output(graph, "unknown", tuff_rope(x, pairs[i], 100, 2, at));
        tuff_plan *plan = compile_plan(graph);
        write_steps(plan, "x", 2 * 3 * 8, 11, 4);
        assert_int_equal(tuff_plan_write(plan, "position", &position, sizeof position), TUFF_OK);
        run_plan(plan);
        assert_int_equal(tuff_plan_read(plan, "known", known, sizeof known), TUFF_OK);
        assert_int_equal(tuff_plan_read(plan, "unknown", unknown, sizeof unknown), TUFF_OK);
        for (int k = 0; k < 2 * 3 * 8; k++)
            assert_true(fabsf(known[k] - unknown[k]) < 1e-5f);
        destroy_plan(plan, graph);
    }
}

static void a_position_of_the_device_is_one_of_the_host(void **state)
{
    (void)state;
    for_drawn_devices(turn);
}

/* For a row of -inf the softmax family only promises not to return a gradient; the gradient of the other row equals
   that of plain C. */
static void derive_soft_maxima(tuff_device *device)
{
    static const float x[2][3] = {{-INFINITY, -INFINITY, -INFINITY}, {1, 2, 3}}, w[2][3] = {{1, 2, 3}, {4, 0, -1}};
    for (int form = 0; form < 3; form++) {
        float got[2][3];
        tuff_graph *graph = tuff_graph_create(device);
        tuff_tensor *in = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2, 3)), *gradient;
        tuff_tensor *y = form == 0   ? tuff_softmax(in, 1)
                         : form == 1 ? tuff_log_softmax(in, 1)
                                     : tuff_logsumexp(in, 1, true);
        tuff_tensor *weighted = tuff_mul(y, tuff_input(graph, "w", TUFF_F32, TUFF_SHAPE(2, 3)));
        assert_int_equal(tuff_gradients(tuff_sum(weighted, (int[]){0, 1}, 2, false), &in, 1, &gradient), TUFF_OK);
        tuff_output(graph, "gradient", gradient);
        tuff_plan *plan = compile_plan(graph);
        assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
        assert_int_equal(tuff_plan_write(plan, "w", w, sizeof w), TUFF_OK);
        run_plan(plan);
        assert_int_equal(tuff_plan_read(plan, "gradient", got, sizeof got), TUFF_OK);
        const double sum = exp(1) + exp(2) + exp(3), along = (4 * exp(1) - exp(3)) / sum;
        for (int i = 0; i < 3; i++) {
            const double p = exp(i + 1) / sum, at = (double)w[1][i];
            const double expected = form == 0 ? p * (at - along) : form == 1 ? at - 3 * p : 3 * p;
            if (!(got[0][i] == 0) || !(fabs((double)got[1][i] - expected) < 1e-5))
                fail_msg("form %d, element %d: %g and %g, not 0 and %g", form, i, (double)got[0][i], (double)got[1][i],
                         expected);
        }
        destroy_plan(plan, graph);
    }
}

static void empty_rows_have_no_gradient(void **state)
{
    (void)state;
    for_drawn_devices(derive_soft_maxima);
}

/* The power and its gradient are in the range of f32, so that no intermediate result may overflow. */
static void derive_power(tuff_device *device)
{
    static const float x[] = {1e-5f, -2}, expected[2][2] = {{1e20f, 0.0625f}, {-4e25f, 0.125f}};
    static const char *const names[] = {"y", "gradient"};
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *in = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(2)), *gradient;
    tuff_tensor *y = tuff_pow_scalar(in, -4);
    assert_int_equal(tuff_gradients(tuff_sum(y, (int[]){0}, 1, false), &in, 1, &gradient), TUFF_OK);
    tuff_output(graph, names[0], y);
    tuff_output(graph, names[1], gradient);
    tuff_plan *plan = compile_plan(graph);
    assert_int_equal(tuff_plan_write(plan, "x", x, sizeof x), TUFF_OK);
    run_plan(plan);
    for (int k = 0; k < 2; k++) {
        float got[2];
        assert_int_equal(tuff_plan_read(plan, names[k], got, sizeof got), TUFF_OK);
        for (int i = 0; i < 2; i++)
            if (!(fabsf(got[i] / expected[k][i] - 1) < 1e-5f))
                fail_msg("%s: element %d is %g, not %g", names[k], i, (double)got[i], (double)expected[k][i]);
    }
    destroy_plan(plan, graph);
}

static void negative_powers_stay_in_range(void **state)
{
    (void)state;
    for_drawn_devices(derive_power);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composites_in_narrow_floats_are_within_their_bounds),
        cmocka_unit_test(activations_follow_their_definitions),
        cmocka_unit_test(dropout_drops_its_share),
        cmocka_unit_test(a_position_of_the_device_is_one_of_the_host),
        cmocka_unit_test(empty_rows_have_no_gradient),
        cmocka_unit_test(negative_powers_stay_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
