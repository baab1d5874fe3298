/* The elementwise ops of the float64 reference: each row of ops.def as functions in C double and in 64-bit integers,
   and its first-order error bound; then WHERE and CAST. */
#include <float.h>
#include <math.h>

#include "ops/evaluate.h"

/* The functions used in integer texts; kernels have the same in their preludes. Division by 0 gives 0. */
#define IDIV(x, y) ((y) == 0 ? 0 : (x) / (y))
#define IMAX(x, y) ((x) > (y) ? (x) : (y))
#define IMIN(x, y) ((x) < (y) ? (x) : (y))
#define ILESS(x, y) ((x) < (y))
#define IEQUAL(x, y) ((x) == (y))
/* Wraps the partial derivatives of a row. */
#define P(...)      \
    {               \
        __VA_ARGS__ \
    }

/* The columns of a row as functions. */
typedef double (*value_function)(double x, double y, double z);
typedef int64_t (*signed_function)(int64_t x, int64_t y);
typedef uint64_t (*unsigned_function)(uint64_t x, uint64_t y);
typedef void (*partials_function)(double x, double y, double z, double f, double *partials);
typedef double (*absolute_function)(double x);

#define SPECIAL(...)
#define ELEMENTWISE(code, name, inputs, kinds, text, integer_text, real, derivatives, gradients, cost, domain, ulps, \
                    absolute, low, high)                                                                             \
    static double value_of_##name(double x, double y, double z)                                                      \
    {                                                                                                                \
        (void)x, (void)y, (void)z;                                                                                   \
        return real;                                                                                                 \
    }                                                                                                                \
    static double absolute_of_##name(double x)                                                                       \
    {                                                                                                                \
        (void)x;                                                                                                     \
        return absolute;                                                                                             \
    }                                                                                                                \
    static void partials_of_##name(double x, double y, double z, double f, double *partials)                         \
    {                                                                                                                \
        (void)x, (void)y, (void)z, (void)f;                                                                          \
        const double values[3] = derivatives;                                                                        \
        for (int i = 0; i < 3; i++)                                                                                  \
            partials[i] = values[i];                                                                                 \
    }
#include "ops/ops.def"

/* Bools are not integers here: AND and OR are evaluated in double. */
#define IABS(x) ((x) < 0 ? -(x) : (x))
#define SPECIAL(...)
#define ELEMENTWISE(code, name, inputs, kinds, text, integer_text, ...) \
    static int64_t signed_##name(int64_t x, int64_t y)                  \
    {                                                                   \
        (void)x, (void)y;                                               \
        return integer_text;                                            \
    }
#include "ops/ops.def"
#undef IABS

#define IABS(x) (x)
#define SPECIAL(...)
#define ELEMENTWISE(code, name, inputs, kinds, text, integer_text, ...) \
    static uint64_t unsigned_##name(uint64_t x, uint64_t y)             \
    {                                                                   \
        (void)x, (void)y;                                               \
        return integer_text;                                            \
    }
#include "ops/ops.def"

static const struct {
    value_function value;
    signed_function signed_value;
    unsigned_function unsigned_value;
    partials_function partials;
    absolute_function absolute;
} functions[OP_COUNT] = {
#define SPECIAL(...)
#define ELEMENTWISE(code, name, ...) \
    [OP_##code] = {value_of_##name, signed_##name, unsigned_##name, partials_of_##name, absolute_of_##name},
#include "ops/ops.def"
};

/* Wraps around like 32-bit arithmetic in kernels. */
double tuff__wrap(tuff_dtype dtype, double value)
{
    if (dtype == TUFF_I32)
        return (double)(int32_t)(uint32_t)(int64_t)value;
    return dtype == TUFF_U32 ? (double)(uint32_t)(int64_t)value : value;
}

/* Returns element i of an operand; 0 if the op has no such operand. */
static double operand(const evaluation *e, int input, int64_t i)
{
    return input < e->input_count ? e->inputs[input][i] : 0;
}

/* Computes integers in 64 bits and then wraps them to 32, so that no intermediate overflow is undefined. */
static double integer_value(const evaluation *e, double x, double y)
{
    if (e->input_dtypes[0] == TUFF_U32) {
        uint64_t value = functions[e->op].unsigned_value((uint64_t)x, (uint64_t)y);
        return e->dtype == TUFF_BOOL ? (double)value : (double)(uint32_t)value;
    }
    int64_t value = functions[e->op].signed_value((int64_t)x, (int64_t)y);
    return e->dtype == TUFF_BOOL ? (double)value : (double)(int32_t)(uint32_t)value;
}

/* Whether errors of the operands may move the result of an op of DOMAIN_STEPS across a step; its error is then 1. */
static bool may_jump(const evaluation *e, double x, double y, double error_x, double error_y)
{
    const double error = error_x + error_y;
    const op_info *info = tuff__op_info(e->op);
    if (info->domain != DOMAIN_STEPS || !(error > 0))
        return false;
    if (e->op == OP_FINITE) /* its one operand is compared with infinity */
        return isfinite(x) && fabs(x) + error > FLT_MAX;
    if (info->kinds == OP_KIND_COMPARE)
        return fabs(x - y) <= error;
    return functions[e->op].value(x - error, y, 0) != functions[e->op].value(x + error, y, 0);
}

/* Returns the factor on the error bound of operands in deciding whether a result may jump. */
static double get_slack(const evaluation *e)
{
    return e->slack > 0 ? e->slack : 1;
}

/* Returns the first-order error of element i: the op's own rounding, and the errors of its operands times the partial
   derivatives. */
static double error_bound(const evaluation *e, int64_t i, double f)
{
    const double x = operand(e, 0, i), y = operand(e, 1, i), z = operand(e, 2, i);
    double errors[3] = {0, 0, 0}, partials[3];
    for (int input = 0; input < e->input_count; input++)
        errors[input] = e->input_errors[input][i];
    if (may_jump(e, x, y, get_slack(e) * errors[0], get_slack(e) * errors[1]))
        return 1;
    if ((e->op == OP_MAX || e->op == OP_MIN) && fabs(x - y) <= errors[0] + errors[1])
        return fmax(errors[0], errors[1]); /* either operand may be the result */
    /* Half an ulp in the table means an exact result: a sign, a selection, a whole number. */
    const double ulps = tuff__op_info(e->op)->ulps;
    double total = 0;
    if (tuff__dtype_is_float(e->dtype) && isfinite(f) && ulps > 0.5)
        total = ulps * UNIT * fabs(f) + functions[e->op].absolute(x);
    functions[e->op].partials(x, y, z, f, partials);
    for (int input = 0; input < e->input_count; input++)
        if (errors[input] != 0)
            total += isnan(partials[input]) ? INFINITY : fabs(partials[input]) * errors[input];
    return total;
}

/* Computes floats and bools in double, integers in 64 bits. */
tuff_status tuff__evaluate_elementwise(const evaluation *e, int64_t count)
{
    const bool integers = tuff__dtype_is_integer(e->input_dtypes[0]);
    for (int64_t i = 0; i < count; i++) {
        double x = operand(e, 0, i), y = operand(e, 1, i);
        e->value[i] = integers ? integer_value(e, x, y) : functions[e->op].value(x, y, operand(e, 2, i));
        if (e->error)
            e->error[i] = error_bound(e, i, e->value[i]);
    }
    return TUFF_OK;
}

/* An uncertain condition may select either branch. */
tuff_status tuff__evaluate_where(const evaluation *e, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int chosen = e->inputs[0][i] != 0 ? 1 : 2;
        e->value[i] = e->inputs[chosen][i];
        if (e->error) {
            bool uncertain = e->input_errors[0][i] > 0;
            e->error[i] = e->input_errors[chosen][i];
            if (uncertain)
                e->error[i] += fabs(e->inputs[1][i] - e->inputs[2][i]) + e->input_errors[3 - chosen][i];
        }
    }
    return TUFF_OK;
}

/* Between i32 and u32 the bits are kept, as in C; 8-bit integers saturate like everything else. */
static double cast_value(tuff_dtype from, tuff_dtype to, double value)
{
    if (tuff__dtype_is_integer(from) && (to == TUFF_I32 || to == TUFF_U32))
        return tuff__wrap(to, value);
    return tuff__dtype_is_float(from) && to == TUFF_F32 ? value : tuff__round_to(to, value);
}

/* Returns how far the result moves while the operand moves within its error, including the steps of a narrow dtype. */
static double cast_bound(const evaluation *e, double value, double result, double error)
{
    if (error == 0)
        return 0;
    double low = cast_value(e->input_dtypes[0], e->dtype, value - error);
    double high = cast_value(e->input_dtypes[0], e->dtype, value + error);
    double bound = fmax(fabs(high - result), fabs(result - low));
    return isnan(bound) ? error : bound;
}

tuff_status tuff__evaluate_cast(const evaluation *e, int64_t count)
{
    const bool is_step = !tuff__dtype_is_float(e->dtype);
    for (int64_t i = 0; i < count; i++) {
        double value = e->inputs[0][i];
        e->value[i] = cast_value(e->input_dtypes[0], e->dtype, value);
        if (e->error)
            e->error[i] = cast_bound(e, value, e->value[i], e->input_errors[0][i] * (is_step ? get_slack(e) : 1));
    }
    return TUFF_OK;
}
