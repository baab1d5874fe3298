/* Arithmetic on sizes that may come from outside. Each function returns false, and leaves *out unchanged, if the result
   overflows. */
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

/* Returns a / b rounded up, for a >= 0 and b > 0; a + b - 1 must not overflow. */
static inline int64_t tuff__divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
