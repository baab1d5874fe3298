/* Random numbers that depend only on their key and index: for initial weights, batches, samples. There is no state to
   save. */
#ifndef TUFF_TOOLS_MODEL_RANDOM_H
#define TUFF_TOOLS_MODEL_RANDOM_H

#include <stdint.h>

/* Makes a key from a seed and a name or a number. */
uint64_t random_key(uint64_t seed, const char *name);
uint64_t random_key_number(uint64_t seed, uint64_t number);

/* Returns 64 random bits. */
uint64_t random_bits(uint64_t key, uint64_t index);
/* Returns a number uniform in [0, 1). */
double random_uniform(uint64_t key, uint64_t index);
/* Returns a normally distributed number with mean 0 and variance 1. */
double random_normal(uint64_t key, uint64_t index);
/* Sets values[i] = (float)(deviation * random_normal(key, first + i)), with the same bits, in a quarter of the time. */
void random_normals(uint64_t key, uint64_t first, double deviation, float *values, int64_t count);

#endif
