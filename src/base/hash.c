/* XXH3 from the header of the xxHash library, compiled in, so that nothing has to be linked. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash.h"

hash128 tuff__hash(const void *data, size_t size)
{
    XXH128_hash_t hash = XXH3_128bits(data, size);
    return (hash128){.low = hash.low64, .high = hash.high64};
}

bool tuff__is_same_hash(hash128 a, hash128 b)
{
    return a.low == b.low && a.high == b.high;
}

uint64_t tuff__hash64(const void *data, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size, seed);
}
