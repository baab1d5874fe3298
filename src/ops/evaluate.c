/* Entry point of the float64 reference: tuff__evaluate computes one use of an op, values and error bounds, with the
   function that the op's row in ops.def names. Ops without operands are here; the others are in evaluate_elementwise.c
   (rows with text, WHERE, CAST), evaluate_movement.c, evaluate_reduce.c (all sums) and evaluate_attention.c. */
#include <math.h>

#include "ops/evaluate.h"

/* Sets errors to 0, for exact values. */
static tuff_status clear_errors(const evaluation *e, int64_t count)
{
    for (int64_t i = 0; e->error && i < count; i++)
        e->error[i] = 0;
    return TUFF_OK;
}

tuff_status tuff__evaluate_constant(const evaluation *e, int64_t count)
{
    if (e->attributes->data)
        tuff__to_double(e->dtype, e->attributes->data, count, e->value);
    for (int64_t i = 0; !e->attributes->data && i < count; i++)
        e->value[i] = e->attributes->value;
    return clear_errors(e, count);
}

/* Computes the index along the axis from the row-major position; it is the same within every inner block of
   elements. */
tuff_status tuff__evaluate_iota(const evaluation *e, int64_t count)
{
    const int64_t inner = tuff__count_axes(e->shape, e->attributes->axis + 1, e->shape.rank);
    const int64_t extent = e->shape.extent[e->attributes->axis];
    for (int64_t i = 0; i < count; i++)
        e->value[i] = (double)(i / inner % extent);
    return clear_errors(e, count);
}

static uint32_t rotate(uint32_t x, int by)
{
    return (x << by) | (x >> (32 - by));
}

/* Returns the first word of a block of Threefry-2x32 with 20 rounds (Salmon et al. 2011). */
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

/* Uses 24 bits of the block's first word: as many as f32 can represent exactly in [0, 1). */
double tuff__random_uniform(const op_attributes *attributes, int64_t index, double step)
{
    const uint32_t word = threefry(attributes->seed, attributes->ordinal, (uint32_t)index, (uint32_t)(int32_t)step);
    return (double)(word >> 8) / 16777216.0;
}

tuff_status tuff__evaluate_random(const evaluation *e, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        e->value[i] = tuff__random_uniform(e->attributes, i, e->inputs[0][0]);
    return clear_errors(e, count);
}

/* INPUT, ARRAY and ASSIGN: the caller has their elements. */
tuff_status tuff__evaluate_none(const evaluation *e, int64_t count)
{
    (void)count;
    return FAIL(TUFF_E_USAGE, "%s: cannot be evaluated", tuff__op_info(e->op)->name);
}

static const evaluator evaluators[OP_COUNT] = {
#define ELEMENTWISE(code, ...) [OP_##code] = tuff__evaluate_elementwise,
#define SPECIAL(code, name, inputs, kinds, pattern, operands, axes, attributes, cost, evaluate, ...) \
    [OP_##code] = tuff__evaluate_##evaluate,
#include "ops/ops.def"
};

tuff_status tuff__evaluate(const evaluation *e)
{
    int64_t count = tuff_shape_count(e->shape);
    if (count <= 0)
        return count == 0 ? TUFF_OK : FAIL(TUFF_E_LIMIT, "%s: too many elements", tuff__op_info(e->op)->name);
    TRY(evaluators[e->op](e, count));
    /* Infinities break the formulas of the bounds. A result that is not finite must be reproduced exactly; a finite one
       whose bound is NaN may be anything. */
    for (int64_t i = 0; e->error && i < count; i++)
        if (isnan(e->error[i]) || !isfinite(e->value[i]))
            e->error[i] = isfinite(e->value[i]) ? INFINITY : 0;
    return TUFF_OK;
}
