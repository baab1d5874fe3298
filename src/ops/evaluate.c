/* The front of the float64 reference evaluator: one use of an op, values and error bounds. Elementwise rows of ops.def
   and sources are here; walks over layouts, reductions and contractions are in the evaluate_*.c beside it. */
#include <math.h>

#include "ops/evaluate.h"

static void convert_constant(const evaluation *e, int64_t count)
{
    if (e->attributes->data) {
        tuff__to_double(e->dtype, e->attributes->data, count, e->value);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        e->value[i] = e->attributes->value;
}

/* The index along the axis, from the row-major position: every inner block of elements has the same one. */
static void fill_iota(const evaluation *e, int64_t count)
{
    int64_t inner = 1;
    for (int axis = e->attributes->axis + 1; axis < e->shape.rank; axis++)
        inner *= e->shape.extent[axis];
    int64_t extent = e->shape.extent[e->attributes->axis];
    for (int64_t i = 0; i < count; i++)
        e->value[i] = (double)(i / inner % extent);
}

static uint32_t rotate(uint32_t x, int by)
{
    return (x << by) | (x >> (32 - by));
}

/* Threefry-2x32 with 20 rounds (Salmon et al. 2011): the first word of the block. */
static uint32_t threefry(uint32_t key0, uint32_t key1, uint32_t counter0, uint32_t counter1)
{
    static const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t key[3] = {key0, key1, 0x1bd11bdau ^ key0 ^ key1};
    uint32_t x = counter0 + key[0], y = counter1 + key[1];
    for (int round = 0; round < 20; round++) {
        x += y;
        y = rotate(y, rotations[round % 8]) ^ x;
        if (round % 4 == 3) {
            uint32_t injection = (uint32_t)round / 4 + 1;
            x += key[injection % 3];
            y += key[(injection + 1) % 3] + injection;
        }
    }
    return x;
}

/* 24 bits of the block's first word: what f32 holds exactly in [0, 1). */
double tuff__draw(const op_attributes *of, int64_t index, double step)
{
    return (double)(threefry(of->seed, of->ordinal, (uint32_t)index, (uint32_t)(int32_t)step) >> 8) / 16777216.0;
}

static void draw_random(const evaluation *e, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        e->value[i] = tuff__draw(e->attributes, i, e->inputs[0][0]);
}

void tuff__evaluate_source(const evaluation *e, int64_t count)
{
    if (e->op == OP_CONSTANT)
        convert_constant(e, count);
    else if (e->op == OP_IOTA)
        fill_iota(e, count);
    else
        draw_random(e, count);
    for (int64_t i = 0; e->error && i < count; i++)
        e->error[i] = 0;
}

/* The ops that allocate or whose cost is more than a pass over their result. */
static tuff_status evaluate_reduction(const evaluation *e, int64_t count)
{
    switch (e->op) {
    case OP_SUM:
        return tuff__evaluate_sum(e, count);
    case OP_REDUCE_MAX:
        tuff__evaluate_reduce_max(e, count);
        return TUFF_OK;
    case OP_MATMUL:
        tuff__evaluate_matmul(e);
        return TUFF_OK;
    case OP_GATHER:
        tuff__evaluate_gather(e, count);
        return TUFF_OK;
    case OP_SCATTER_ADD:
        return tuff__evaluate_scatter_add(e, count);
    case OP_CUMSUM:
        tuff__evaluate_cumsum(e, count);
        return TUFF_OK;
    case OP_ATTENTION_LSE:
    case OP_ATTENTION:
    case OP_ATTENTION_DQ:
    case OP_ATTENTION_DK:
    case OP_ATTENTION_DV:
    case OP_ATTENTION_DB:
        return tuff__evaluate_attention(e, count);
    default:
        return FAIL(TUFF_E_USAGE, "%s: has no value of its own", tuff__op_info(e->op)->name);
    }
}

static tuff_status evaluate_any(const evaluation *e, int64_t count)
{
    switch (e->op) {
    case OP_WHERE:
        tuff__evaluate_where(e, count);
        return TUFF_OK;
    case OP_CAST:
        tuff__evaluate_cast(e, count);
        return TUFF_OK;
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_EXPAND:
    case OP_SLICE:
    case OP_PAD:
    case OP_CONCAT:
        tuff__evaluate_view(e);
        return TUFF_OK;
    case OP_CONSTANT:
    case OP_IOTA:
    case OP_RANDOM:
        tuff__evaluate_source(e, count);
        return TUFF_OK;
    default:
        if (!tuff__op_is_elementwise(e->op))
            return evaluate_reduction(e, count);
        tuff__evaluate_elementwise(e, count);
        return TUFF_OK;
    }
}

tuff_status tuff__evaluate(const evaluation *e)
{
    int64_t count = tuff_shape_count(e->shape);
    if (count <= 0)
        return count == 0 ? TUFF_OK : FAIL(TUFF_E_LIMIT, "%s: too many elements", tuff__op_info(e->op)->name);
    TRY(evaluate_any(e, count));
    /* The formulas of the bounds meet infinities: a result that is not finite must come out as it is, a finite one
       whose bound is no number may come out as anything. */
    for (int64_t i = 0; e->error && i < count; i++)
        if (isnan(e->error[i]) || !isfinite(e->value[i]))
            e->error[i] = isfinite(e->value[i]) ? INFINITY : 0;
    return TUFF_OK;
}
