/* Random numbers that a seed repeats: SplitMix64 (Steele, Lea, Flood 2014). */
#ifndef TUFF_BASE_RNG_H
#define TUFF_BASE_RNG_H

#include <stdint.h>

typedef struct dice {
    uint64_t state; /* the seed, to begin with */
} dice;

uint64_t tuff__dice_roll(dice *self);
int tuff__dice_below(dice *self, int bound); /* 0 to bound - 1; bound is 1 or more */
double tuff__dice_share(dice *self);         /* in [0, 1) */

#endif
