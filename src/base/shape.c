/* Properties of dtypes and shapes, and the version. */
#include "base/checked.h"
#include "tuff/base.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [TUFF_F32] = {"f32", 4}, [TUFF_F16] = {"f16", 2}, [TUFF_BF16] = {"bf16", 2}, [TUFF_I32] = {"i32", 4},
    [TUFF_U32] = {"u32", 4}, [TUFF_I8] = {"i8", 1},   [TUFF_U8] = {"u8", 1},     [TUFF_BOOL] = {"bool", 1},
    [TUFF_F64] = {"f64", 8}, [TUFF_I64] = {"i64", 8},
};

static bool dtype_is_known(tuff_dtype dtype)
{
    return (size_t)dtype < sizeof dtypes / sizeof dtypes[0];
}

size_t tuff_dtype_size(tuff_dtype dtype)
{
    return dtype_is_known(dtype) ? dtypes[dtype].size : 0;
}

const char *tuff_dtype_name(tuff_dtype dtype)
{
    return dtype_is_known(dtype) ? dtypes[dtype].name : "unknown";
}

/* Returns 0 for a zero extent only if the other extents are valid and their product fits, so that no view of such a
   shape can overflow later. */
int64_t tuff_shape_count(tuff_shape shape)
{
    if (shape.rank < 0 || shape.rank > TUFF_MAX_RANK)
        return -1;
    int64_t count = 1;
    bool empty = false;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.extent[i] < 0)
            return -1;
        empty = empty || shape.extent[i] == 0;
        if (shape.extent[i] != 0 && !tuff__mul_i64(count, shape.extent[i], &count))
            return -1;
    }
    return empty ? 0 : count;
}

bool tuff_shape_equal(tuff_shape a, tuff_shape b)
{
    if (a.rank != b.rank || a.rank > TUFF_MAX_RANK)
        return false;
    for (int i = 0; i < a.rank; i++)
        if (a.extent[i] != b.extent[i])
            return false;
    return true;
}

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *tuff_version(void)
{
    return VERSION_TEXT(TUFF_VERSION_MAJOR, TUFF_VERSION_MINOR, TUFF_VERSION_PATCH);
}
