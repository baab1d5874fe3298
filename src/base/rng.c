/* Random numbers, reproducible by their seed. */
#include "base/rng.h"

uint64_t tuff__mix64(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t tuff__rng_next(rng *self)
{
    return tuff__mix64(self->state += UINT64_C(0x9e3779b97f4a7c15));
}

int tuff__rng_below(rng *self, int bound)
{
    return (int)((tuff__rng_next(self) >> 32) * (uint64_t)bound >> 32);
}

double tuff__rng_uniform(rng *self)
{
    return (double)(tuff__rng_next(self) >> 11) * 0x1p-53;
}
