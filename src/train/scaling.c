/* Dynamic loss scaling on the device; the host reads the results with the loss. Infinities and NaN are recognized by
   their bits and counted in integers, so that neither compiler options nor the order of a sum matter. */
#include "train/scaling.h"
#include "train/rules.h"

#include <inttypes.h>

enum { COUNT_GOOD, COUNT_SKIPPED, COUNT_IN_ROW, COUNTS };

/* Sums in two stages, like norms, so that the compiler can read the slab once for both. */
static tuff_tensor *count_finite(tuff_tensor *elements)
{
    const int last = 1, first = 0;
    const int64_t total = tuff_tensor_shape(elements).extent[0];
    tuff_tensor *rows = tuff_reshape(elements, TUFF_SHAPE(total / SLAB_CHUNK, SLAB_CHUNK));
    tuff_tensor *sums = tuff_sum(tuff_cast(tuff_is_finite(rows), TUFF_I32), &last, 1, false);
    return tuff_sum(sums, &first, 1, false);
}

tuff_tensor *tuff__any_not_finite(tuff_graph *graph, tuff_tensor *const *slabs, int count)
{
    tuff_tensor *any = NULL;
    for (int i = 0; i < count; i++) {
        if (!slabs[i])
            continue;
        tuff_tensor *total = tuff_constant(graph, TUFF_I32, (double)tuff_tensor_shape(slabs[i]).extent[0]);
        tuff_tensor *is_not_finite = tuff_less(count_finite(slabs[i]), total);
        any = any ? tuff_or(any, is_not_finite) : is_not_finite;
    }
    return any;
}

static tuff_tensor *i32_constant(tuff_tensor *like, int64_t value)
{
    return tuff_constant(tuff_tensor_graph(like), TUFF_I32, (double)value);
}

static tuff_tensor *count_at(tuff_tensor *counts, int index)
{
    const int64_t start = index, stop = index + 1;
    return tuff_reshape(tuff_slice(counts, &start, &stop, NULL), TUFF_SCALAR);
}

/* The device decides by selections whether the step is skipped, so the host never waits for a decision. */
void tuff__update_loss_scale(const tuff_optimizer *optimizer, tuff_tensor *skip, tuff_optimizer_tensors *made)
{
    const tuff_loss_scaling *options = &optimizer->loss_scaling;
    tuff_graph *graph = tuff_tensor_graph(skip);
    tuff_tensor *scale = tuff_array_tensor(graph, optimizer->scale);
    tuff_tensor *counts = tuff_array_tensor(graph, optimizer->scale_counts);
    tuff_tensor *zero = i32_constant(counts, 0), *one = i32_constant(counts, 1);
    tuff_tensor *good = tuff_add(count_at(counts, COUNT_GOOD), one);
    tuff_tensor *full = tuff_less(i32_constant(counts, options->interval - 1), good);
    tuff_tensor *grown = tuff_where(full, tuff__scaled(scale, options->growth), scale);
    scale = tuff_where(skip, tuff__scaled(scale, options->backoff), grown);
    scale = tuff_max(tuff__f32(scale, options->low), tuff_min(tuff__f32(scale, options->high), scale));
    tuff_tensor *in_row = count_at(counts, COUNT_IN_ROW), *limit = i32_constant(counts, options->skip_limit);
    tuff_tensor *longer = tuff_min(limit, tuff_add(in_row, one));
    tuff_tensor *kept = tuff_where(tuff_less(in_row, limit), zero, in_row); /* kept until the program sees it */
    tuff_tensor *next[COUNTS] = {
        [COUNT_GOOD] = tuff_where(tuff_or(skip, full), zero, good),
        [COUNT_SKIPPED] = tuff_add(count_at(counts, COUNT_SKIPPED), tuff_where(skip, one, zero)),
        [COUNT_IN_ROW] = tuff_where(skip, longer, kept),
    };
    tuff_tensor *parts[COUNTS];
    for (int i = 0; i < COUNTS; i++)
        parts[i] = tuff_reshape(next[i], TUFF_SHAPE(1));
    made->loss_scale = tuff_assign(graph, optimizer->scale, scale);
    tuff_assign(graph, optimizer->scale_counts, tuff_concat(parts, COUNTS, 0));
    made->skipped = next[COUNT_SKIPPED];
    made->skipped_in_row = next[COUNT_IN_ROW];
}

/* Resets the count that it reports, so that one series of skipped steps is one error. */
tuff_status tuff_optimizer_check(tuff_optimizer *optimizer)
{
    int32_t counts[COUNTS];
    float scale;
    if (!optimizer)
        return FAIL(TUFF_E_USAGE, "optimizer: the optimizer is NULL");
    if (!optimizer->scale)
        return TUFF_OK;
    TRY(tuff_array_read(optimizer->scale_counts, counts, sizeof counts));
    if (counts[COUNT_IN_ROW] < optimizer->loss_scaling.skip_limit)
        return TUFF_OK;
    TRY(tuff_array_read(optimizer->scale, &scale, sizeof scale));
    const int32_t in_row = counts[COUNT_IN_ROW];
    counts[COUNT_IN_ROW] = 0;
    TRY(tuff_array_write(optimizer->scale_counts, counts, sizeof counts));
    return FAIL(TUFF_E_NUMERIC,
                "loss scaling: %" PRId32 " steps in a row had gradients that are not finite, %" PRId32
                " in all; the scale is %g: lower the learning rate, or look for NaN in the data",
                in_row, counts[COUNT_SKIPPED], (double)scale);
}
