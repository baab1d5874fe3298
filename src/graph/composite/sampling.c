/* Random indices into a data set, drawn on the device. */
#include "graph/builder.h"
#include "tuff/data.h"
#include "tuff/ops.h"

/* tuff_random has 24 random bits, which are exact in f32. 24 bits of one number and 7 of another make an integer below
   2^31, of which integer ops compute the remainder by count. */
tuff_tensor *tuff_random_index(tuff_graph *graph, tuff_shape shape, int64_t count)
{
    tuff_tensor *failure;
    if (!tuff__check_graph("random_index", graph, &failure))
        return failure;
    if (count < 1 || count > INT32_MAX)
        return tuff__graph_fail(graph, TUFF_E_USAGE, "random_index: the count must be between 1 and %d, got %lld",
                                INT32_MAX, (long long)count);
    tuff_tensor *high = tuff_cast(tuff__scale(tuff_random(graph, shape), 0x1p24), TUFF_I32);
    tuff_tensor *low = tuff_cast(tuff__scale(tuff_random(graph, shape), 0x1p7), TUFF_I32);
    tuff_tensor *bits = tuff_add(tuff__scale(high, 0x1p7), low);
    tuff_tensor *limit = tuff_constant(graph, TUFF_I32, (double)count);
    return tuff_sub(bits, tuff_mul(tuff_div(bits, limit), limit));
}
