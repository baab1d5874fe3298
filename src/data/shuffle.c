/* The order of an epoch, computed instead of stored: a permutation by a Feistel network, for sets of any size. */
#include "base/rng.h"
#include "data/loader.h"

/* Four rounds suffice if the round function is good (Luby and Rackoff 1988); two more cost little. */
enum { ROUNDS = 6 };

/* A bijection of 0 .. 4^half_bits - 1. */
static uint64_t permute(uint64_t key, uint64_t value, int half_bits)
{
    const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t next =
            left ^ (tuff__mix64(key + tuff__mix64(right + (round + 1) * UINT64_C(0x9e3779b97f4a7c15))) & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

/* Values outside of the set are permuted again (cycle walking), which makes this a bijection of the set. */
int64_t tuff_shuffled_index(uint64_t seed, int64_t epoch, int64_t index, int64_t count)
{
    if (index < 0 || index >= count)
        return -1;
    int half_bits = 1;
    /* The smallest power of four that is not below count, so that fewer than four values are tried on average. A set
       that needs all 64 bits is apart, because 1 cannot be shifted by 64. */
    while (half_bits < 31 && UINT64_C(1) << 2 * half_bits < (uint64_t)count)
        half_bits++;
    if (UINT64_C(1) << 2 * half_bits < (uint64_t)count)
        half_bits = 32;
    const uint64_t key = tuff__mix64(tuff__mix64(seed + UINT64_C(0x9e3779b97f4a7c15)) + (uint64_t)epoch);
    uint64_t value = (uint64_t)index;
    do
        value = permute(key, value, half_bits);
    while (value >= (uint64_t)count);
    return (int64_t)value;
}
