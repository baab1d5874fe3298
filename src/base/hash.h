/* XXH3 hashes of 128 and 64 bits (xxHash). */
#ifndef TUFF_BASE_HASH_H
#define TUFF_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hash128 {
    uint64_t low, high;
} hash128;

hash128 tuff__hash(const void *data, size_t size);
bool tuff__is_same_hash(hash128 a, hash128 b);
uint64_t tuff__hash64(const void *data, size_t size, uint64_t seed);

#endif
