/* Random numbers, reproducible by their seed: SplitMix64 (Steele, Lea, Flood 2014). */
#ifndef TUFF_BASE_RNG_H
#define TUFF_BASE_RNG_H

#include <stdint.h>

typedef struct rng {
    uint64_t state; /* initially the seed */
} rng;

/* The finalizer of SplitMix64: a bijection that mixes all bits. */
uint64_t tuff__mix64(uint64_t x);
uint64_t tuff__rng_next(rng *self);
int tuff__rng_below(rng *self, int bound); /* 0 to bound - 1; bound is at least 1 */
double tuff__rng_uniform(rng *self);       /* in [0, 1) */

#endif
