/* Random numbers, reproducible by their seed. */
#include "base/rng.h"

uint64_t tuff__rng_next(rng *self)
{
    uint64_t mixed = self->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

int tuff__rng_below(rng *self, int bound)
{
    return (int)((tuff__rng_next(self) >> 32) * (uint64_t)bound >> 32);
}

double tuff__rng_uniform(rng *self)
{
    return (double)(tuff__rng_next(self) >> 11) * 0x1p-53;
}
