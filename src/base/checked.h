/* Arithmetic on sizes that may come from outside: each answers false where the result does not fit, and leaves *out. */
#ifndef TUFF_BASE_CHECKED_H
#define TUFF_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool tuff__add_size(size_t a, size_t b, size_t *out);
bool tuff__mul_size(size_t a, size_t b, size_t *out);
bool tuff__add_i64(int64_t a, int64_t b, int64_t *out);
bool tuff__mul_i64(int64_t a, int64_t b, int64_t *out);
/* Rounds up to a multiple of alignment (not 0). */
bool tuff__align_u64(uint64_t a, uint64_t alignment, uint64_t *out);

/* How many b, above 0, cover a, which is not negative. */
static inline int64_t tuff__divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
