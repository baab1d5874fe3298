/* The k largest elements of rows, composed of reductions. Each row is cut into blocks, and in each block every
   element's rank is counted: the number of elements that precede it in order. The first k elements of each block make
   the next, shorter row, until one block is left. Blocks have 4 k elements, so rows shrink to a quarter each time, and
   ranks take 4 k comparisons per element. All of this is sums of integers: exact, in loops no longer than a block. k
   rounds of argmax would take 2 k passes over a row, one after another. */
#include <math.h>

#include "base/checked.h"
#include "graph/builder.h"
#include "tuff/nn.h"

enum { MIN_BLOCK = 64 };

/* The rows that remain, and the positions of their elements in the original rows. */
typedef struct candidates {
    tuff_tensor *elements;  /* [R, n] */
    tuff_tensor *positions; /* [R, n] i32 */
} candidates;

/* Returns a fill value that precedes no element of the dtype if it is placed after all of them. */
static double lowest_value(tuff_dtype dtype)
{
    return dtype == TUFF_I32 ? (double)INT32_MIN : dtype == TUFF_U32 ? 0 : -INFINITY;
}

/* Returns rows [R, n] as blocks [R, blocks, block], with the last one filled up. */
static tuff_tensor *split_into_blocks(tuff_tensor *rows, int64_t block, double fill)
{
    if (!tuff__is_valid(rows))
        return rows;
    const int64_t count = rows->shape.extent[0], extent = rows->shape.extent[1],
                  blocks = tuff__divide_up(extent, block);
    rows = tuff_pad(rows, (int64_t[]){0, 0}, (int64_t[]){0, blocks * block - extent}, fill);
    return tuff_reshape(rows, TUFF_SHAPE(count, blocks, block));
}

/* [R, B, n] -> [R, B, n] i32: for each element, the number of elements of its block that precede it in order. Equal
   elements are ordered by position. A NaN precedes all numbers: it counts as an infinity at a position before the
   block. */
static tuff_tensor *compute_ranks(tuff_tensor *x)
{
    const tuff_shape shape = x->shape;
    const int64_t *e = shape.extent;
    tuff_tensor *order = tuff_iota(x->graph, shape, 2);
    if (tuff__dtype_is_float(x->dtype)) {
        tuff_tensor *is_number = tuff_equal(x, x);
        order = tuff_where(is_number, order, tuff_sub(order, tuff_constant(x->graph, TUFF_I32, (double)e[2])));
        x = tuff_where(is_number, x, tuff__scalar(x, INFINITY));
    }
    const tuff_shape each = TUFF_SHAPE(e[0], e[1], e[2], 1), others = TUFF_SHAPE(e[0], e[1], 1, e[2]);
    tuff_tensor *element = tuff_reshape(x, each), *other = tuff_reshape(x, others);
    tuff_tensor *is_earlier = tuff_less(tuff_reshape(order, others), tuff_reshape(order, each));
    tuff_tensor *is_before = tuff_or(tuff_less(element, other), tuff_and(tuff_equal(element, other), is_earlier));
    return tuff_sum(tuff_cast(is_before, TUFF_I32), (int[]){3}, 1, false);
}

/* [R, B, n] ranks -> [R, B, k] i32: the place in its block of the element with each rank below k. */
static tuff_tensor *positions_of_ranks(tuff_tensor *rank, int64_t k)
{
    if (!tuff__is_valid(rank))
        return rank;
    const int64_t *e = rank->shape.extent;
    tuff_tensor *wanted = tuff_iota(rank->graph, TUFF_SHAPE(1, 1, k, 1), 2);
    tuff_tensor *place = tuff_iota(rank->graph, TUFF_SHAPE(1, 1, 1, e[2]), 3);
    tuff_tensor *has_rank = tuff_equal(tuff_reshape(rank, TUFF_SHAPE(e[0], e[1], 1, e[2])), wanted);
    return tuff_sum(tuff_where(has_rank, place, tuff_constant(rank->graph, TUFF_I32, 0)), (int[]){3}, 1, false);
}

/* [R, B, n] -> [R, B, k] i32: the places of the first k elements of each block. Handles the blocks in parts, so that no
   tensor of comparisons has more than `limit` elements. */
static tuff_tensor *first_positions(tuff_tensor *x, int64_t k, int64_t limit)
{
    tuff_graph *graph = x->graph;
    const int64_t *e = x->shape.extent, blocks = e[0] * e[1], max_blocks = limit / (e[2] * e[2]);
    if (blocks <= max_blocks)
        return positions_of_ranks(compute_ranks(x), k);
    const int64_t count = tuff__divide_up(blocks, max_blocks), size = tuff__divide_up(blocks, count);
    tuff_tensor *flat = tuff_reshape(x, TUFF_SHAPE(1, blocks, e[2]));
    tuff_tensor **parts = tuff__arena_alloc(&graph->arena, (size_t)count * sizeof *parts);
    if (parts == NULL)
        return tuff__graph_out_of_memory(graph);
    int made = 0;
    for (int64_t start = 0; start < blocks && graph->status == TUFF_OK; start += size) {
        const int64_t stop = start + size < blocks ? start + size : blocks;
        tuff_tensor *part = tuff__slice_axis(flat, 1, start, stop, 1);
        parts[made++] = tuff__is_valid(part) ? positions_of_ranks(compute_ranks(part), k) : part;
    }
    return tuff_reshape(tuff_concat(parts, made, 1), TUFF_SHAPE(e[0], e[1], k));
}

/* Returns the first k elements of all blocks, side by side. */
static candidates keep_first_of_blocks(const candidates *rows, int64_t block, int64_t k, int64_t limit)
{
    tuff_tensor *elements = split_into_blocks(rows->elements, block, lowest_value(rows->elements->dtype));
    tuff_tensor *positions = split_into_blocks(rows->positions, block, 0);
    if (!tuff__is_valid(elements) || !tuff__is_valid(positions))
        return *rows;
    tuff_tensor *place = first_positions(elements, k, limit);
    const tuff_shape shape = TUFF_SHAPE(elements->shape.extent[0], elements->shape.extent[1] * k);
    return (candidates){.elements = tuff_reshape(tuff_gather(elements, place, 2), shape),
                        .positions = tuff_reshape(tuff_gather(positions, place, 2), shape)};
}

/* All elements of a block are compared with each other, so the square of its extent must not exceed limit. */
tuff_tensor *tuff__top_k_positions(tuff_tensor *rows, int64_t k, int64_t limit)
{
    tuff_graph *graph = rows->graph;
    const int64_t block = 4 * k > MIN_BLOCK ? 4 * k : MIN_BLOCK, extent = rows->shape.extent[1];
    const int64_t side = extent < block ? extent : block;
    if (side > limit / side)
        return tuff__graph_fail(graph, TUFF_E_LIMIT,
                                "top_k: %s: k = %lld needs %lld x %lld comparisons at once, more than %lld: use a "
                                "smaller k or shorter rows",
                                SHAPE_TEXT(rows->shape), (long long)k, (long long)side, (long long)side,
                                (long long)limit);
    candidates remaining = {.elements = rows, .positions = tuff_iota(graph, rows->shape, 1)};
    int64_t length = extent;
    while (graph->status == TUFF_OK && (length > 2 * block || length > limit / length)) {
        remaining = keep_first_of_blocks(&remaining, block, k, limit);
        length = tuff__divide_up(length, block) * k;
    }
    if (graph->status == TUFF_OK)
        remaining = keep_first_of_blocks(&remaining, length, k, limit);
    return graph->status == TUFF_OK ? remaining.positions : &graph->failed;
}

tuff_tensor *tuff_top_k(tuff_tensor *x, int64_t k, int axis, tuff_tensor **indices)
{
    tuff_tensor *failure, *unused;
    tuff_graph *graph = tuff__check_operands("top_k", &x, 1, &failure);
    indices = indices ? indices : &unused;
    *indices = failure;
    if (!graph || !tuff__resolve_axis("top_k", x, axis, &axis))
        return failure;
    if (!tuff__op_accepts(OP_REDUCE_MAX, x->dtype))
        return tuff__graph_fail(graph, TUFF_E_DTYPE, "top_k: %s %s: expected f32, f16, bf16, i32 or u32",
                                tuff_dtype_name(x->dtype), SHAPE_TEXT(x->shape));
    const int last = x->shape.rank - 1;
    const int64_t extent = x->shape.extent[axis];
    if (k < 1 || k > extent)
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "top_k: %s: axis %d: k must be between 1 and %lld, got %lld",
                                SHAPE_TEXT(x->shape), axis, (long long)extent, (long long)k);
    tuff_tensor *rows = tuff__swap_axes(x, axis, last);
    if (!tuff__is_valid(rows))
        return rows;
    const tuff_shape shape = tuff__with_extent(rows->shape, last, k);
    rows = tuff_reshape(rows, TUFF_SHAPE(tuff_shape_count(x->shape) / extent, extent));
    tuff_tensor *chosen = tuff_reshape(tuff__is_valid(rows) ? tuff__top_k_positions(rows, k, INT32_MAX) : rows, shape);
    if (!tuff__is_valid(chosen))
        return chosen;
    *indices = tuff__swap_axes(chosen, axis, last);
    return tuff_gather(x, *indices, axis);
}
