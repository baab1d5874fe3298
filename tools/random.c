/* Counter-based random numbers: the finalizer of SplitMix64 (Steele, Lea, Flood 2014) over key and index, twice,
   because keys and indices are small numbers that differ in few bits. */
#include "tools/random.h"

#include <math.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t random_bits(uint64_t key, uint64_t index)
{
    return mix(key + mix(index + UINT64_C(0x9e3779b97f4a7c15)));
}

uint64_t random_key_number(uint64_t seed, uint64_t number)
{
    return random_bits(mix(seed + UINT64_C(0xd1b54a32d192ed03)), number);
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

/* Box and Muller 1958. */
double random_normal(uint64_t key, uint64_t index)
{
    const double radius = sqrt(-2 * log1p(-random_uniform(key, 2 * index)));
    return radius * cos(6.283185307179586 * random_uniform(key, 2 * index + 1));
}
