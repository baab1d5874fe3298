/* Pooling: reductions over windows of an image. Windows that do not overlap are a reshape, others a view (UNFOLD). */
#include <math.h>

#include "graph/builder.h"
#include "tuff/nn.h"

/* Sets *out to the options with defaults filled in. Returns NULL with *failure set if x does not fit them. */
static tuff_graph *read_options(const char *op, tuff_tensor *x, const tuff_pool2d_options *options,
                                tuff_pool2d_options *out, tuff_tensor **failure)
{
    tuff_graph *graph = tuff__check_float_operand(op, x, failure);
    if (!graph)
        return NULL;
    if (!options)
        tuff__graph_fail(graph, TUFF_E_USAGE, "%s: the options are NULL, but the size of a window is required", op);
    else if (x->shape.rank != 4 || tuff_shape_count(x->shape) == 0)
        tuff__graph_fail(graph, TUFF_E_SHAPE, "%s: %s: expected images [N,C,H,W] that are not empty", op,
                         SHAPE_TEXT(x->shape));
    if (graph->status != TUFF_OK)
        return NULL;
    *out = *options;
    for (int i = 0; i < 2; i++) {
        out->stride[i] = out->stride[i] ? out->stride[i] : out->size[i];
        const int64_t extent = x->shape.extent[2 + i], size = out->size[i], padding = out->padding[i];
        if (size >= 1 && out->stride[i] >= 1 && padding >= 0 && padding < size && padding <= INT32_MAX / 4 &&
            size <= extent + 2 * padding)
            continue;
        tuff__graph_fail(
            graph, TUFF_E_SHAPE,
            "%s: %s: windows of %lld %s with stride %lld and padding %lld: size and stride must be at least 1, "
            "the padding at least 0 and smaller than a window, and a window not larger than the padded image",
            op, SHAPE_TEXT(x->shape), (long long)size, i ? "columns" : "rows", (long long)out->stride[i],
            (long long)padding);
        return NULL;
    }
    return graph;
}

/* Returns x [N,C,H,W], padded with fill, as [N,C,PH,PW,OH,OW]. */
static tuff_tensor *extract_windows(tuff_tensor *x, const tuff_pool2d_options *options, double fill)
{
    const int64_t padding[] = {0, 0, options->padding[0], options->padding[1]};
    x = tuff_pad(x, padding, padding, fill);
    x = tuff_unfold(x, 2, options->size[0], options->stride[0], 1);
    x = tuff_unfold(x, 4, options->size[1], options->stride[1], 1);
    return tuff_permute(x, (int[]){0, 1, 3, 5, 2, 4});
}

tuff_tensor *tuff_max_pool2d(tuff_tensor *x, const tuff_pool2d_options *options)
{
    tuff_tensor *failure;
    tuff_pool2d_options pool;
    if (!read_options("max_pool2d", x, options, &pool, &failure))
        return failure;
    return tuff_reduce_max(extract_windows(x, &pool, -INFINITY), (int[]){2, 3}, 2, false);
}

/* Divides by the number of elements: a constant, or one number per window if only elements of the image count. */
tuff_tensor *tuff_avg_pool2d(tuff_tensor *x, const tuff_pool2d_options *options)
{
    tuff_tensor *failure;
    tuff_pool2d_options pool;
    tuff_graph *graph = read_options("avg_pool2d", x, options, &pool, &failure);
    if (!graph)
        return failure;
    tuff_tensor *sum = tuff_sum(extract_windows(x, &pool, 0), (int[]){2, 3}, 2, false);
    if (!pool.without_padding || (pool.padding[0] == 0 && pool.padding[1] == 0))
        return tuff__is_valid(sum) ? tuff__scale(sum, 1.0 / (double)pool.size[0] / (double)pool.size[1]) : sum;
    const tuff_shape image = TUFF_SHAPE(1, 1, x->shape.extent[2], x->shape.extent[3]);
    tuff_tensor *count =
        tuff_sum(extract_windows(tuff__full(graph, x->dtype, image, 1), &pool, 0), (int[]){2, 3}, 2, false);
    return tuff_div(sum, count);
}
