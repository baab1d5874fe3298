/* Checked arithmetic in portable C: each check precedes the operation, so that nothing ever wraps. */
#include "base/checked.h"

bool tuff__add_size(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b)
        return false;
    *out = a + b;
    return true;
}

bool tuff__mul_size(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *out = a * b;
    return true;
}

bool tuff__add_i64(int64_t a, int64_t b, int64_t *out)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return false;
    *out = a + b;
    return true;
}

static bool product_fits(int64_t a, int64_t b)
{
    if (a > 0)
        return b > 0 ? a <= INT64_MAX / b : b >= INT64_MIN / a;
    if (b > 0)
        return a >= INT64_MIN / b;
    return a == 0 || b >= INT64_MAX / a;
}

bool tuff__mul_i64(int64_t a, int64_t b, int64_t *out)
{
    if (!product_fits(a, b))
        return false;
    *out = a * b;
    return true;
}

bool tuff__align_u64(uint64_t a, uint64_t alignment, uint64_t *out)
{
    uint64_t rest = a % alignment, missing = rest ? alignment - rest : 0;
    if (a > UINT64_MAX - missing)
        return false;
    *out = a + missing;
    return true;
}
