/* Every function of src/kernels/math.k on every device found, through the public interface: a graph of one op, over all
   exponents, edge values and a dense range, each element against C's double. The tolerances are in the tables below, in
   units of the last place. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "tuff.h"

/* Odd, so that vector kernels have a remainder. */
#define SAMPLE_COUNT ((1 << 18) + 5)

typedef struct function {
    const char *name;
    tuff_tensor *(*build)(tuff_tensor *x);
    double (*value)(double x);
    double ulps, absolute; /* either tolerance may be met */
    double low, high;      /* the range of the dense samples */
} function;

typedef struct function_of_two {
    const char *name;
    tuff_tensor *(*build)(tuff_tensor *x, tuff_tensor *y);
    double (*value)(double x, double y);
    double ulps;
} function_of_two;

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double divide(double x, double y)
{
    return x / y;
}

static const function functions[] = {
    {"exp", tuff_exp, exp, 4, 0, -104, 89},      {"exp2", tuff_exp2, exp2, 4, 0, -150, 128},
    {"expm1", tuff_expm1, expm1, 4, 0, -20, 89}, {"log", tuff_log, log, 4, 0, 0, 4},
    {"log2", tuff_log2, log2, 4, 0, 0, 4},       {"log1p", tuff_log1p, log1p, 4, 0, -1, 4},
    {"sqrt", tuff_sqrt, sqrt, 5, 0, 0, 100},     {"rsqrt", tuff_rsqrt, rsqrt, 3, 0, 0, 100},
    {"sin", tuff_sin, sin, 4, 1e-7, -1e5, 1e5},  {"cos", tuff_cos, cos, 4, 1e-7, -1e5, 1e5},
    {"tanh", tuff_tanh, tanh, 4, 0, -10, 10},    {"sigmoid", tuff_sigmoid, sigmoid, 4, 0, -104, 30},
    {"erf", tuff_erf, erf, 4, 0, -4.2, 4.2},     {"erfc", tuff_erfc, erfc, 8, 0, -5, 10.2},
};

static const function_of_two functions_of_two[] = {
    {"pow", tuff_pow, pow, 4},
    {"div", tuff_div, divide, 3},
};

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const float edges[] = {
    0.0f,       -0.0f,      1.0f,     -1.0f,      INFINITY, -INFINITY, NAN,      0.5f,    -0.5f,     2.0f,
    -2.0f,      3.0f,       -3.0f,    FLT_MIN,    -FLT_MIN, FLT_MAX,   -FLT_MAX, 1e-45f,  -1e-45f,   1.1754942e-38f,
    88.72283f,  88.72284f,  88.7229f, -87.33655f, -103.97f, -104.0f,   128.0f,   -126.0f, -149.0f,   -150.0f,
    1e-8f,      -1e-8f,     1e-30f,   9.0f,       10.05f,   10.06f,    -9.0f,    4.0f,    3.9f,      16777216.0f,
    33554432.f, 16777215.f, 1e10f,    -1e10f,     100.0f,   -100.0f,   1.5f,     -2.5f,   102943.0f, -102944.0f,
};

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns edge values first, then alternates between bit patterns spread over all of them, the dense range, and
   scaled-down ends of that range. */
static float sample(int i, double low, double high)
{
    if (i < COUNT_OF(edges))
        return edges[i];
    uint32_t spread = (uint32_t)i * 2654435769u;
    double fraction = spread / 4294967296.0;
    switch (i % 4) {
    case 0:
        return from_bits(spread);
    case 1:
        return (float)((i % 8 < 4 ? low : high) * exp(-20 * fraction));
    default:
        return (float)(low + (high - low) * fraction);
    }
}

static double ulp_of(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static bool is_within(float got, double value, double ulps, double absolute)
{
    double error = fabs(got - value);
    if (isnan(value))
        return isnan(got);
    if (value == 0)
        return got == 0 && !signbit(got) == !signbit(value);
    if (isinf(got)) /* rounding near the largest number may give either */
        return !signbit(got) == !signbit(value) && fabs(value) > FLT_MAX * (1 - ulps * FLT_EPSILON);
    if (fabs(value) > FLT_MAX)
        return fabs(value) < FLT_MAX * (1 + ulps * FLT_EPSILON) && error <= ulps * ulp_of(FLT_MAX);
    return error <= ulps * ulp_of(value) || error <= absolute;
}

static bool is_denormal(double x)
{
    return x != 0 && fabs(x) < FLT_MIN;
}

/* If a device flushes denormals, it may do so for arguments and results only. */
static bool may_flush(float got, double value)
{
    return is_denormal(value) && fabsf(got) <= FLT_MIN;
}

static float flushed(float x)
{
    return is_denormal(x) ? copysignf(0, x) : x;
}

static bool passes(const function *tested, float x, float got, bool has_denormals)
{
    double value = tested->value(x), other = tested->value(flushed(x));
    if (is_within(got, value, tested->ulps, tested->absolute))
        return true;
    return !has_denormals &&
           (may_flush(got, value) || (is_denormal(x) && is_within(got, other, tested->ulps, tested->absolute)));
}

static bool passes_of_two(const function_of_two *tested, float x, float y, float got, bool has_denormals)
{
    double value = tested->value(x, y);
    if (is_within(got, value, tested->ulps, 0))
        return true;
    return !has_denormals &&
           (may_flush(got, value) || ((is_denormal(x) || is_denormal(y)) &&
                                      is_within(got, tested->value(flushed(x), flushed(y)), tested->ulps, 0)));
}

static float *make_floats(void)
{
    float *floats = malloc(SAMPLE_COUNT * sizeof *floats);
    assert_non_null(floats);
    return floats;
}

/* Runs the graph, whose inputs are x and, unless NULL, y, and whose output is z. */
static void run_graph(tuff_graph *graph, const char *name, const float *x, const float *y, float *z)
{
    size_t size = SAMPLE_COUNT * sizeof *x;
    tuff_plan *plan = tuff_compile(graph, NULL);
    if (!plan || tuff_plan_write(plan, "x", x, size) != TUFF_OK ||
        (y && tuff_plan_write(plan, "y", y, size) != TUFF_OK) || tuff_plan_run(plan) != TUFF_OK ||
        tuff_plan_read(plan, "z", z, size) != TUFF_OK)
        fail_msg("%s: %s", name, tuff_error());
    tuff_plan_destroy(plan);
}

static void check_function(tuff_device *device, const function *tested, bool has_denormals)
{
    float *x = make_floats(), *z = make_floats();
    for (int i = 0; i < SAMPLE_COUNT; i++)
        x[i] = sample(i, tested->low, tested->high);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_output(graph, "z", tested->build(tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SAMPLE_COUNT))));
    run_graph(graph, tested->name, x, NULL, z);
    tuff_graph_destroy(graph);
    for (int i = 0; i < SAMPLE_COUNT; i++)
        if (!passes(tested, x[i], z[i], has_denormals))
            fail_msg("%s(%.9g) is %.9g, not %.9g", tested->name, (double)x[i], (double)z[i],
                     tested->value((double)x[i]));
    free(x);
    free(z);
}

/* Pairs of edge values, pairs of bit patterns, ordinary numbers, and powers of numbers close to 1. */
static void sample_of_two(int i, float *x, float *y)
{
    int edge_count = COUNT_OF(edges);
    uint32_t spread = (uint32_t)i * 2654435769u, other = (uint32_t)i * 2246822519u;
    double first = spread / 4294967296.0, second = other / 4294967296.0;
    if (i < edge_count * edge_count) {
        *x = edges[i / edge_count];
        *y = edges[i % edge_count];
    } else if (i % 4 == 0) {
        *x = from_bits(spread);
        *y = from_bits(other);
    } else if (i % 4 == 1) {
        *x = (float)(0.999 + 0.002 * first);
        *y = (float)(160000 * second - 80000);
    } else {
        *x = (float)exp(i % 4 == 2 ? 160 * first - 80 : 4 * first - 2);
        *y = (float)(i % 4 == 2 ? 6 * second - 3 : 60 * second - 30);
    }
}

static void check_function_of_two(tuff_device *device, const function_of_two *tested, bool has_denormals)
{
    float *x = make_floats(), *y = make_floats(), *z = make_floats();
    for (int i = 0; i < SAMPLE_COUNT; i++)
        sample_of_two(i, &x[i], &y[i]);
    tuff_graph *graph = tuff_graph_create(device);
    tuff_tensor *first = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(SAMPLE_COUNT));
    tuff_output(graph, "z", tested->build(first, tuff_input(graph, "y", TUFF_F32, TUFF_SHAPE(SAMPLE_COUNT))));
    run_graph(graph, tested->name, x, y, z);
    tuff_graph_destroy(graph);
    for (int i = 0; i < SAMPLE_COUNT; i++)
        if (!passes_of_two(tested, x[i], y[i], z[i], has_denormals))
            fail_msg("%s(%.9g, %.9g) is %.9g, not %.9g", tested->name, (double)x[i], (double)y[i], (double)z[i],
                     tested->value((double)x[i], (double)y[i]));
    free(x);
    free(y);
    free(z);
}

static bool keeps_denormals(tuff_device *device)
{
    tuff_device_info info;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    return info.device_class == TUFF_DEVICE_REFERENCE || info.proved_denormals;
}

static void check_functions(tuff_device *device)
{
    for (int i = 0; i < COUNT_OF(functions); i++)
        check_function(device, &functions[i], keeps_denormals(device));
}

static void check_functions_of_two(tuff_device *device)
{
    for (int i = 0; i < COUNT_OF(functions_of_two); i++)
        check_function_of_two(device, &functions_of_two[i], keeps_denormals(device));
}

static void functions_are_within_their_bars(void **state)
{
    (void)state;
    for_each_device(check_functions);
}

static void functions_of_two_are_within_their_bars(void **state)
{
    (void)state;
    for_each_device(check_functions_of_two);
}

/* For each function the correctly rounded result passes, and one just beyond the tolerance fails. */
static void a_planted_error_is_caught_for_each_function(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(functions); i++) {
        const function *tested = &functions[i];
        float x = 0.75f, right = (float)tested->value(x), wrong = right;
        for (int step = 0; step <= tested->ulps || fabs(wrong - tested->value(x)) <= tested->absolute; step++)
            wrong = nextafterf(wrong, INFINITY);
        assert_true(passes(tested, x, right, true));
        assert_false(passes(tested, x, wrong, true) || passes(tested, x, wrong, false));
        assert_false(passes(tested, x, NAN, false) || passes(tested, x, INFINITY, false) ||
                     passes(tested, NAN, 1, false));
        assert_false(passes(tested, x, 0, false));
    }
    const function *expm1_row = &functions[2];
    assert_true(passes(expm1_row, -0.0f, -0.0f, true));
    assert_false(passes(expm1_row, -0.0f, 0.0f, true));
    assert_true(passes(expm1_row, 1e-40f, 0, false));
    assert_false(passes(expm1_row, 1e-40f, 0, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_planted_error_is_caught_for_each_function),
        cmocka_unit_test(functions_are_within_their_bars),
        cmocka_unit_test(functions_of_two_are_within_their_bars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
