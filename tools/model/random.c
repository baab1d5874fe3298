/* Counter-based random numbers: the finalizer of SplitMix64 (Steele, Lea, Flood 2014) over key and index, twice,
   because keys and indices are small numbers that differ in few bits. */
#include "tools/model/random.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

uint64_t random_bits(uint64_t key, uint64_t index)
{
    return tuff__mix64(key + tuff__mix64(index + UINT64_C(0x9e3779b97f4a7c15)));
}

uint64_t random_key_number(uint64_t seed, uint64_t number)
{
    return random_bits(tuff__mix64(seed + UINT64_C(0xd1b54a32d192ed03)), number);
}

uint64_t random_key(uint64_t seed, const char *name)
{
    uint64_t key = random_key_number(seed, 0);
    for (uint64_t i = 0; name[i]; i++)
        key = random_bits(key, (i << 8) | (unsigned char)name[i]);
    return key;
}

double random_uniform(uint64_t key, uint64_t index)
{
    return (double)(random_bits(key, index) >> 11) * 0x1p-53;
}

/* Box-Muller transform (1958). */
double random_normal(uint64_t key, uint64_t index)
{
    const double radius = sqrt(-2 * log1p(-random_uniform(key, 2 * index)));
    return radius * cos(6.283185307179586 * random_uniform(key, 2 * index + 1));
}

/* Values per block: loops with a constant trip count can be vectorized. */
enum { BLOCK = 64 };
#define LN_2 0.693147180559945309417
#define TWO_PI 6.28318530717958647692
/* Error bound, relative to the radius that the cosine is multiplied by: the truncation error of the series below is
   less than a fifth of it, and that of the C library's functions far less. */
#define SLACK 0x1p-40

/* Returns the natural logarithm of x > 0. With x = m 2^e and m from sqrt(1/2) to sqrt(2), it is 2 atanh((m - 1) / (m +
   1)) + e ln 2. An integer below 2^52 is converted to a double by putting it into the low bits of 2^52, which integer
   vector instructions can do on every machine. */
static double logarithm(double x)
{
    const uint64_t sqrt_half = UINT64_C(0x3fe6a09e667f3bcd), bias = 1023;
    uint64_t bits;
    double m, e;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t exponent = (bits - sqrt_half + (bias << 52)) >> 52;
    const uint64_t of_m = bits - ((exponent - bias) << 52), of_e = exponent | UINT64_C(0x4330000000000000);
    memcpy(&m, &of_m, sizeof m);
    memcpy(&e, &of_e, sizeof e);
    const double s = (m - 1) / (m + 1), z = s * s;
    const double high = 1.0 / 9 + z * (1.0 / 11 + z * (1.0 / 13 + z * (1.0 / 15)));
    const double series = 1 + z * (1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * high)));
    return (e - (0x1p52 + (double)bias)) * LN_2 + 2 * s * series;
}

/* Returns cos(2 pi part) for part from 0 to 1, as the Taylor series of the sine of at most a quarter turn either
   way. */
static double cosine_of_turn(double part)
{
    const double x = TWO_PI * (fabs(part - 0.5) - 0.25), z = x * x;
    const double high =
        -1.0 / 39916800 + z * (1.0 / 6227020800.0 + z * (-1.0 / 1307674368000.0 + z * (1.0 / 355687428096000.0)));
    return x * (1 + z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * high)))));
}

/* If the error bound leaves open which float is nearest, as for one value in some thousands, computes the value exactly
   as random_normal does. */
static void fill_block(uint64_t key, uint64_t first, double deviation, float *values)
{
    double ones[BLOCK], parts[BLOCK], squares[BLOCK], cosines[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        ones[i] = 1 - random_uniform(key, 2 * (first + (uint64_t)i));
        parts[i] = random_uniform(key, 2 * (first + (uint64_t)i) + 1);
    }
    for (int i = 0; i < BLOCK; i++)
        squares[i] = -2 * logarithm(ones[i]);
    for (int i = 0; i < BLOCK; i++)
        cosines[i] = cosine_of_turn(parts[i]);
    for (int i = 0; i < BLOCK; i++) {
        const double radius = deviation * sqrt(squares[i]), x = radius * cosines[i], slack = fabs(radius) * SLACK;
        const float low = (float)(x - slack), high = (float)(x + slack);
        values[i] = low == high ? low : (float)(deviation * random_normal(key, first + (uint64_t)i));
    }
}

void random_normals(uint64_t key, uint64_t first, double deviation, float *values, int64_t count)
{
    int64_t done = 0;
    for (; done + BLOCK <= count; done += BLOCK)
        fill_block(key, first + (uint64_t)done, deviation, values + done);
    for (; done < count; done++)
        values[done] = (float)(deviation * random_normal(key, first + (uint64_t)done));
}
