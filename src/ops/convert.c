/* Conversion of elements of every dtype to double and back, and the rounding of a store. The only host code that knows
   the formats of f16 and bf16; kernels have their own conversions in the preludes, which must give the same bits. */
#include <math.h>
#include <string.h>

#include "ops/ops.h"

/* A binary floating-point format: number of fraction bits, least and greatest exponent of a normal number. */
typedef struct float_format {
    int fraction, min_exponent, max_exponent;
} float_format;

static const float_format half = {10, -14, 15}, brain = {7, -126, 127}, single = {23, -126, 127};

/* Rounds to nearest even in one step, denormals included; values beyond the greatest number become infinity. */
static double round_to_format(double value, const float_format *format)
{
    if (value == 0 || !isfinite(value))
        return value;
    int exponent = ilogb(value);
    if (exponent < format->min_exponent)
        exponent = format->min_exponent;
    int quantum = exponent - format->fraction;
    double rounded = ldexp(nearbyint(ldexp(value, -quantum)), quantum);
    return fabs(rounded) >= ldexp(1, format->max_exponent + 1) ? copysign(INFINITY, value) : rounded;
}

/* Truncates and clamps to [low, high]; NaN becomes 0. */
static double saturate(double value, double low, double high)
{
    if (isnan(value))
        return 0;
    return value <= low ? low : value >= high ? high : trunc(value);
}

/* f64 and i64 are dtypes of files and of the host. The bounds of i64 are the outermost doubles that it can
   represent. */
double tuff__round_to(tuff_dtype dtype, double value)
{
    switch (dtype) {
    case TUFF_F32:
        return round_to_format(value, &single);
    case TUFF_F16:
        return round_to_format(value, &half);
    case TUFF_BF16:
        return round_to_format(value, &brain);
    case TUFF_I32:
        return saturate(value, -2147483648.0, 2147483647.0);
    case TUFF_U32:
        return saturate(value, 0, 4294967295.0);
    case TUFF_I8:
        return saturate(value, -128, 127);
    case TUFF_U8:
        return saturate(value, 0, 255);
    case TUFF_BOOL:
        return value != 0;
    case TUFF_I64:
        return saturate(value, -9223372036854775808.0, 9223372036854774784.0);
    case TUFF_F64:
        break;
    }
    return value;
}

/* Returns 1.5 * 2^(52 + exponent). Added to a much smaller number, it leaves only multiples of 2^exponent. */
static double coarse_number(int exponent)
{
    const uint64_t bits = ((uint64_t)(exponent + 52 + 1023) << 52) | (UINT64_C(1) << 51);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

double tuff__round_on_grid(rounding_grid grid, double value)
{
    const int least = grid.bits == 11 ? -24 : -149; /* exponent of the last bit of subnormal numbers */
    const double scaled = value * grid.stretch;
    if (grid.bits == 0 || !(fabs(scaled) < 0x1p900))
        return value;
    uint64_t pattern;
    memcpy(&pattern, &scaled, sizeof pattern);
    const int exponent = (int)(pattern >> 52 & 0x7ff) - 1022; /* as frexp returns it */
    const double coarse = coarse_number(exponent - grid.bits > least ? exponent - grid.bits : least);
    return copysign(scaled + coarse - coarse, scaled) / grid.stretch;
}

/* Exponent 31 means infinity or NaN, exponent 0 a denormal, which has no hidden bit. */
static double half_to_double(uint16_t bits)
{
    int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* Rounds first, then encodes a number that the format can represent. */
static uint16_t half_from_double(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value))
        return sign | 0x7e00;
    double magnitude = fabs(round_to_format(value, &half));
    if (isinf(magnitude))
        return sign | 0x7c00;
    if (magnitude < ldexp(1, -14))
        return (uint16_t)(sign | (uint16_t)ldexp(magnitude, 24));
    int exponent = ilogb(magnitude);
    int fraction = (int)ldexp(magnitude, 10 - exponent) - 1024;
    return (uint16_t)(sign | ((exponent + 15) << 10) | fraction);
}

/* bf16 is the upper half of an f32: sign, 8 bits of exponent, 7 of fraction. */
static double brain_to_double(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return (double)value;
}

/* bf16 is the upper half of an f32. A NaN keeps a fraction bit; otherwise it would become infinity. */
static uint16_t brain_from_double(double value)
{
    float rounded = (float)round_to_format(value, &brain);
    uint32_t word;
    memcpy(&word, &rounded, sizeof word);
    return isnan(value) ? (uint16_t)((word >> 16) | 0x40) : (uint16_t)(word >> 16);
}

/* Copies each element, because data may be unaligned. */
#define READ_EACH(type, expression)                                           \
    for (int64_t i = 0; i < count; i++) {                                     \
        type element;                                                         \
        memcpy(&element, bytes + (size_t)i * sizeof element, sizeof element); \
        out[i] = (expression);                                                \
    }                                                                         \
    break

void tuff__to_double(tuff_dtype dtype, const void *data, int64_t count, double *out)
{
    const unsigned char *bytes = data;
    switch (dtype) {
    case TUFF_F32:
        READ_EACH(float, (double)element);
    case TUFF_F16:
        READ_EACH(uint16_t, half_to_double(element));
    case TUFF_BF16:
        READ_EACH(uint16_t, brain_to_double(element));
    case TUFF_I32:
        READ_EACH(int32_t, element);
    case TUFF_U32:
        READ_EACH(uint32_t, element);
    case TUFF_I8:
        READ_EACH(int8_t, element);
    case TUFF_U8:
        READ_EACH(uint8_t, element);
    case TUFF_BOOL:
        READ_EACH(uint8_t, element != 0);
    case TUFF_F64:
        READ_EACH(double, element);
    case TUFF_I64:
        READ_EACH(int64_t, (double)element);
    }
}

/* Integers are clamped before the conversion: out of range, C leaves it undefined. */
#define WRITE_EACH(type, expression)                                          \
    for (int64_t i = 0; i < count; i++) {                                     \
        double value = values[i];                                             \
        type element = (type)(expression);                                    \
        memcpy(bytes + (size_t)i * sizeof element, &element, sizeof element); \
    }                                                                         \
    break

void tuff__from_double(tuff_dtype dtype, const double *values, int64_t count, void *out)
{
    unsigned char *bytes = out;
    switch (dtype) {
    case TUFF_F32:
        WRITE_EACH(float, value);
    case TUFF_F16:
        WRITE_EACH(uint16_t, half_from_double(value));
    case TUFF_BF16:
        WRITE_EACH(uint16_t, brain_from_double(value));
    case TUFF_I32:
        WRITE_EACH(int32_t, tuff__round_to(dtype, value));
    case TUFF_U32:
        WRITE_EACH(uint32_t, tuff__round_to(dtype, value));
    case TUFF_I8:
        WRITE_EACH(int8_t, tuff__round_to(dtype, value));
    case TUFF_U8:
        WRITE_EACH(uint8_t, tuff__round_to(dtype, value));
    case TUFF_BOOL:
        WRITE_EACH(uint8_t, value != 0);
    case TUFF_F64:
        WRITE_EACH(double, value);
    case TUFF_I64:
        WRITE_EACH(int64_t, tuff__round_to(dtype, value));
    }
}
