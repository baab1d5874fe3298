/* Splits long reductions, so that many work-items share them and no chain of additions grows long. Column sums are not
   split if the columns alone keep every core of a CPU busy: their kernel already adds in the same groups. Gradients of
   biases that batches or heads of an attention share are sums, too. */
#include <math.h>

#include "base/checked.h"
#include "compile/rewrite/simplify.h"
#include "compile/rewrite/view.h"
#include "compile/schedule/cost.h"

#define COLUMN_TERMS 128 /* terms that one item of a column adds */
#define ROW_TERMS 4096   /* terms that one item of a row adds if there are few rows */
#define FEW_ROWS 64
#define SCAN_TERMS 128
#define COLUMN_LANES 16 /* columns of one item, at most */
#define ITEMS_PER_CORE 8

static tuff_tensor *reduce(tuff_graph *graph, op_code op, tuff_tensor *x, uint32_t axes)
{
    op_attributes attributes = {.axes = 0};
    tuff_shape shape = x->shape;
    for (int i = 0; i < shape.rank; ++i)
        if ((axes >> i & 1) != 0 && shape.extent[i] != 1) {
            attributes.axes |= 1u << i;
            shape.extent[i] = 1;
        }
    return attributes.axes == 0 ? x : tuff__share_node(graph, op, x->dtype, shape, &x, 1, &attributes);
}

static tuff_tensor *reshape(tuff_graph *graph, tuff_tensor *x, tuff_shape shape)
{
    while (x->node != NULL && x->node->op == OP_RESHAPE)
        x = x->node->inputs[0];
    return tuff_shape_equal(x->shape, shape) ? x : tuff__share_node(graph, OP_RESHAPE, x->dtype, shape, &x, 1, NULL);
}

/* Splits an axis of x into two, pieces and terms of a piece. x is padded at the end with `fill` if the axis does not
   divide. */
static tuff_tensor *cut_axis(tuff_graph *graph, tuff_tensor *x, int axis, int64_t pieces, int64_t terms, double fill)
{
    tuff_shape shape = x->shape;
    const int64_t missing = pieces * terms - shape.extent[axis];
    if (missing > 0) {
        const op_attributes attributes = {.value = fill};
        shape.extent[axis] += missing;
        x = tuff__share_node(graph, OP_PAD, x->dtype, shape, &x, 1, &attributes);
        if (x->node == NULL)
            return x;
    }
    return reshape(graph, x, tuff__shape_cut(shape, axis, pieces, terms));
}

/* Returns the largest number of terms up to limit that divides extent; limit itself if only small numbers do. */
static int64_t terms_of_piece(int64_t extent, int64_t limit)
{
    for (int64_t terms = limit; terms >= limit / 8 && terms > 1; --terms)
        if (extent % terms == 0)
            return terms;
    return limit;
}

static double neutral_element(op_code op, tuff_dtype dtype)
{
    if (op == OP_SUM)
        return 0;
    if (dtype == TUFF_I32 || dtype == TUFF_I8)
        return -2147483648.0;
    return tuff__dtype_is_float(dtype) ? -HUGE_VAL : 0;
}

/* Reduces one axis, in several steps if it is longer than 2 · limit. */
static tuff_tensor *reduce_axis(tuff_graph *graph, op_code op, tuff_tensor *x, int axis, int64_t limit)
{
    const int64_t extent = x->shape.extent[axis];
    if (extent <= 2 * limit || x->shape.rank == TUFF_MAX_RANK)
        return reduce(graph, op, x, 1u << axis);
    const int64_t terms = terms_of_piece(extent, limit), pieces = (extent + terms - 1) / terms;
    tuff_tensor *cut = cut_axis(graph, x, axis, pieces, terms, neutral_element(op, x->dtype));
    if (cut->node == NULL)
        return cut;
    tuff_tensor *sums = reduce(graph, op, cut, 1u << (axis + 1));
    if (sums->node == NULL)
        return sums;
    tuff_shape shape = x->shape;
    shape.extent[axis] = pieces;
    sums = reshape(graph, sums, shape);
    return sums->node == NULL ? sums : reduce_axis(graph, op, sums, axis, limit);
}

static int64_t count_of(const tuff_tensor *x, uint32_t axes)
{
    int64_t count = 1;
    for (int i = 0; i < x->shape.rank; ++i)
        if ((axes >> i & 1) != 0)
            count *= x->shape.extent[i];
    return count;
}

/* Returns the reduced axes that are next to each other at the inner end, as a bit set. */
static uint32_t inner_axes(const tuff_tensor *x, uint32_t axes)
{
    uint32_t inner = 0;
    for (int i = tuff__innermost_axis(x->shape); i >= 0 && ((axes >> i & 1) != 0 || x->shape.extent[i] == 1); --i)
        inner |= axes & 1u << i;
    return inner;
}

/* Whether rows of this many terms stay whole: if the rows are many or short, and no longer than the loops that the
   driver allows. The limit is lower for integers, which are reduced one by one, possibly in a second pass after other
   reductions. */
static bool keeps_rows(const tuff_graph *graph, const tuff_tensor *x, int64_t rows, int64_t terms)
{
    enum { OF_INTEGERS = 4 };
    const int64_t limit = tuff__device_info(graph->device)->loop_limit;
    if (limit > 0 && terms > (x->dtype == TUFF_F32 ? limit : limit / OF_INTEGERS))
        return false;
    return rows >= FEW_ROWS || terms <= 2 * ROW_TERMS;
}

/* Returns the terms of a piece: the preferred number, or as many as the driver's loop limit allows. */
static int64_t within_limit(const tuff_graph *graph, int64_t terms)
{
    enum { SHARE = 8 };
    const int64_t limit = tuff__device_info(graph->device)->loop_limit;
    return limit == 0 || terms <= limit / SHARE ? terms : limit < 2 * SHARE ? 2 : limit / SHARE;
}

/* Reduces the inner axes. If the rows are few and long, the axes are reduced one by one, from the innermost on, in
   pieces. */
static tuff_tensor *reduce_rows(tuff_graph *graph, op_code op, tuff_tensor *x, uint32_t inner)
{
    const int64_t terms = count_of(x, inner), rows = tuff_shape_count(x->shape) / (terms == 0 ? 1 : terms);
    if (keeps_rows(graph, x, rows, terms))
        return reduce(graph, op, x, inner);
    for (int i = x->shape.rank - 1; i >= 0; --i)
        if ((inner >> i & 1) != 0 && x->node != NULL)
            x = reduce_axis(graph, op, x, i, within_limit(graph, ROW_TERMS));
    return x;
}

/* Whether the kept columns are enough work for all cores without cutting them. */
static bool has_enough_columns(const tuff_graph *graph, const tuff_tensor *x, uint32_t axes)
{
    const tuff_device_info *info = tuff__device_info(graph->device);
    const int64_t items = count_of(x, ~axes) / COLUMN_LANES, cores = info->compute_units;
    if (info->loop_limit > 0 && count_of(x, axes) > within_limit(graph, COLUMN_TERMS * COLUMN_TERMS))
        return false;
    return info->device_class == TUFF_DEVICE_CPU && items >= ITEMS_PER_CORE * cores &&
           count_of(x, axes) <= COLUMN_TERMS * COLUMN_TERMS;
}

tuff_tensor *tuff__split_reduction(tuff_graph *graph, op_code op, tuff_tensor *x, uint32_t axes)
{
    if (tuff_shape_count(x->shape) == 0)
        return reduce(graph, op, x, axes);
    const uint32_t inner = inner_axes(x, axes);
    if (inner != 0)
        x = reduce_rows(graph, op, x, inner);
    const uint32_t outer = axes & ~inner;
    if (x->node == NULL || outer == 0)
        return x;
    if (count_of(x, outer) <= 2 * COLUMN_TERMS || has_enough_columns(graph, x, outer))
        return reduce(graph, op, x, outer);
    for (int i = x->shape.rank - 1; i >= 0 && x->node != NULL; --i)
        if ((outer >> i & 1) != 0)
            x = reduce_axis(graph, op, x, i, COLUMN_TERMS);
    return x;
}

static tuff_tensor *scan(tuff_graph *graph, op_code op, tuff_tensor *x, int axis)
{
    const op_attributes attributes = {.axis = axis};
    return tuff__share_node(graph, op, x->dtype, x->shape, &x, 1, &attributes);
}

static tuff_tensor *slice_to(tuff_graph *graph, tuff_tensor *x, int axis, int64_t start, int64_t extent)
{
    op_attributes attributes = {.axis = 0};
    tuff_shape shape = x->shape;
    for (int i = 0; i < shape.rank; ++i)
        attributes.step[i] = 1;
    attributes.start[axis] = start;
    if (shape.extent[axis] == extent)
        return x;
    shape.extent[axis] = extent;
    return tuff__share_node(graph, OP_SLICE, x->dtype, shape, &x, 1, &attributes);
}

/* Returns, for each piece, the sum of all pieces before it: the cumulative sum of the pieces, shifted by one. */
static tuff_tensor *carries(tuff_graph *graph, op_code op, tuff_tensor *local, int axis, int64_t terms)
{
    tuff_tensor *last = slice_to(graph, local, axis + 1, terms - 1, 1);
    if (last->node == NULL)
        return last;
    tuff_shape flat = last->shape;
    for (int i = axis + 1; i + 1 < flat.rank; ++i)
        flat.extent[i] = flat.extent[i + 1];
    --flat.rank;
    flat.extent[flat.rank] = 0;
    tuff_tensor *flattened = reshape(graph, last, flat);
    tuff_tensor *totals = flattened->node == NULL ? flattened : tuff__split_scan(graph, op, flattened, axis);
    if (totals->node == NULL)
        return totals;
    op_attributes attributes = {.value = 0};
    attributes.start[axis] = 1;
    tuff_tensor *shifted = slice_to(graph, totals, axis, 0, flat.extent[axis] - 1);
    shifted = tuff__share_node(graph, OP_PAD, totals->dtype, totals->shape, &shifted, 1, &attributes);
    return shifted->node == NULL ? shifted : reshape(graph, shifted, last->shape);
}

tuff_tensor *tuff__split_scan(tuff_graph *graph, op_code op, tuff_tensor *x, int axis)
{
    const int64_t extent = x->shape.extent[axis], pieces = (extent + SCAN_TERMS - 1) / SCAN_TERMS;
    tuff_shape padded = x->shape;
    padded.extent[axis] = pieces * SCAN_TERMS;
    if (extent <= 2 * SCAN_TERMS || x->shape.rank == TUFF_MAX_RANK || tuff_shape_count(x->shape) == 0 ||
        !tuff__shape_fits(padded))
        return scan(graph, op, x, axis);
    tuff_tensor *cut = cut_axis(graph, x, axis, pieces, SCAN_TERMS, 0);
    tuff_tensor *local = cut->node == NULL ? cut : scan(graph, op, cut, axis + 1);
    tuff_tensor *carry = local->node == NULL ? local : carries(graph, op, local, axis, SCAN_TERMS);
    if (carry->node == NULL)
        return carry;
    tuff_tensor *spread = tuff__share_node(graph, OP_EXPAND, x->dtype, local->shape, &carry, 1, NULL);
    tuff_tensor *both[] = {local, spread};
    tuff_tensor *sum =
        spread->node == NULL ? spread : tuff__share_node(graph, OP_ADD, x->dtype, local->shape, both, 2, NULL);
    if (sum->node == NULL)
        return sum;
    return slice_to(graph, reshape(graph, sum, padded), axis, 0, extent);
}

enum { ITEMS_PER_UNIT = 4, BIAS_BLOCK = 32 /* approximate number of queries and of keys that an item handles */ };

typedef struct part_limits {
    tuff_shape bias;
    int64_t batches, heads, most; /* most: elements that the parts may have together */
    int64_t wanted;               /* number of work-items that keep the device busy */
} part_limits;

static int64_t items_of(const tuff_shape *bias)
{
    return bias->extent[0] * bias->extent[1] * tuff__divide_up(bias->extent[2], BIAS_BLOCK) *
           tuff__divide_up(bias->extent[3], BIAS_BLOCK);
}

/* Returns the bias shape with the fewest repetitions that gives enough items; if none does, the one with the most items
   that memory allows. */
static tuff_shape choose_parts(const part_limits *self)
{
    const int64_t choices[][2] = {{1, self->heads}, {self->batches, 1}, {self->batches, self->heads}};
    tuff_shape best = self->bias;
    for (int i = 0; i < 3 && items_of(&best) < self->wanted; ++i) {
        tuff_shape parts = self->bias;
        for (int axis = 0; axis < 2; ++axis)
            parts.extent[axis] = choices[i][axis] > parts.extent[axis] ? choices[i][axis] : parts.extent[axis];
        if (tuff_shape_count(parts) <= self->most && items_of(&parts) > items_of(&best))
            best = parts;
    }
    return best;
}

/* The gradient of a bias that batches or heads of an attention share is a sum over all of them. It has few work-items,
   each of which passes over everything: one per block of queries and keys if both share the bias. If these are too few
   for the device, the bias is repeated along the shared axes, so that each part of the gradient has items of its own,
   and the parts are added up. All gradients of an attention get the repeated bias, which is a view: the compiler
   recognizes by their equal inputs that they belong together. */
tuff_tensor *tuff__split_bias_gradient(tuff_graph *graph, const node *at, tuff_tensor **inputs)
{
    const tuff_tensor *value = &at->outputs[0];
    const attention_inputs names = tuff__attention_inputs(at->op, at->attributes.options);
    const target on = tuff__device_target(graph->device);
    const bool is_gradient = at->op == OP_ATTENTION_DQ || at->op == OP_ATTENTION_DK || at->op == OP_ATTENTION_DV ||
                             at->op == OP_ATTENTION_DB;
    if (!is_gradient || names.bias < 0 || tuff_shape_count(value->shape) == 0)
        return NULL;
    const tuff_shape bias = inputs[names.bias]->shape, *q = &inputs[names.q]->shape, *k = &inputs[names.k]->shape;
    const part_limits shared = {.bias = bias,
                                .batches = q->extent[0],
                                .heads = q->extent[2],
                                .most = tuff_shape_count(*q) + tuff_shape_count(*k),
                                .wanted = ITEMS_PER_UNIT * tuff__cost_parameters(&on).units};
    const tuff_shape parts = choose_parts(&shared);
    if (tuff_shape_equal(parts, bias))
        return NULL;
    tuff_tensor *repeated =
        tuff__share_node(graph, OP_EXPAND, inputs[names.bias]->dtype, parts, &inputs[names.bias], 1, NULL);
    if (repeated->node == NULL)
        return repeated;
    inputs[names.bias] = repeated;
    const bool sums = at->op == OP_ATTENTION_DB;
    tuff_tensor *made = tuff__share_node(graph, at->op, value->dtype, sums ? parts : value->shape, inputs,
                                         at->input_count, &at->attributes);
    uint32_t axes = 0;
    for (int axis = 0; axis < 2; ++axis)
        axes |= parts.extent[axis] != bias.extent[axis] ? 1u << axis : 0;
    return sums && made->node != NULL ? tuff__split_reduction(graph, OP_SUM, made, axes) : made;
}
