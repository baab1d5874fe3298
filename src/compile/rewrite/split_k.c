/* Split-k: a product with a long inner axis becomes a batch of shorter products, one for each piece of the axis, and
   their sum in the order of the pieces, if it has too few tiles for all units of the device, or its operands do not
   stay in a core's cache. The same is done if the inner axis is longer than the loops that the driver allows. */
#include <math.h>

#include "base/checked.h"
#include "compile/rewrite/matmul_merge.h"
#include "compile/schedule/cost.h"
#include "compile/schedule/kernel_policy.h"

enum { MAX_SPLIT = 64, MIN_TERMS = 128, MIN_SIDE = 8 };

/* The inner axis in pieces of `terms` terms each, the last one padded with zeros. */
typedef struct inner_split {
    int64_t pieces, terms;
} inner_split;

/* Returns x [..., m, k] as [..., pieces, m, terms], or y [..., k, n] as [..., pieces, terms, n]: a view, unless it has
   to be padded. */
static tuff_tensor *cut(tuff_tensor *x, int axis, const inner_split *split)
{
    const int64_t before[TUFF_MAX_RANK] = {0};
    int64_t after[TUFF_MAX_RANK] = {0};
    after[axis] = split->pieces * split->terms - x->shape.extent[axis];
    const tuff_shape shape = tuff__shape_cut(x->shape, axis, split->pieces, split->terms);
    const int batch_axis = x->shape.rank - 2;
    int order[TUFF_MAX_RANK];
    for (int i = 0, from = 0; i < shape.rank; ++i) {
        from += from == axis;
        order[i] = i == batch_axis ? axis : from++;
    }
    if (after[axis] > 0)
        x = tuff_pad(x, before, after, 0);
    return tuff_permute(tuff_reshape(x, shape), order);
}

/* Returns pieces short enough for the loops of every kernel, of equal length if the axis has a divisor of about the
   right size. */
static inner_split split_by_limit(int64_t inner, int64_t limit)
{
    enum { SHARE = 4, MIN_SHARE = 32, ALIGNED = 16 };
    const int64_t most = limit / SHARE > 0 ? limit / SHARE : 1;
    for (int64_t terms = most; terms > limit / MIN_SHARE; --terms)
        if (inner % terms == 0)
            return (inner_split){inner / terms, terms};
    const int64_t fair = tuff__divide_up(inner, tuff__divide_up(inner, most));
    const int64_t terms = most < ALIGNED ? fair : tuff__divide_up(fair, ALIGNED) * ALIGNED;
    return (inner_split){tuff__divide_up(inner, terms), terms};
}

/* Whether elements along an axis are adjacent in memory, judged by the views between x and the value that has
   memory. */
static bool is_adjacent(const tuff_tensor *x, int axis)
{
    const node *from = x->node;
    int last = x->shape.rank - 1;
    for (; from->op == OP_PERMUTE || from->op == OP_EXPAND || from->op == OP_SLICE || from->op == OP_CAST ||
           from->op == OP_RESHAPE;
         from = from->inputs[0]->node) {
        const tuff_shape *outer = &from->outputs[0].shape, *inner = &from->inputs[0]->shape;
        const int less = outer->rank - inner->rank;
        if (from->op == OP_PERMUTE) {
            axis = from->attributes.order[axis];
        } else if (from->op == OP_RESHAPE) { /* only axes in front of the last two may change */
            for (int i = last - 1; i <= last; ++i)
                if (axis < last - 1 || i < less || inner->extent[i - less] != outer->extent[i])
                    return axis == last;
            axis -= less;
        }
        last = inner->rank - 1;
    }
    return axis == last;
}

/* Whether the terms of x lie apart in memory, as in the gradient of a weight, and no copy of x can be kept between
   runs. */
static bool is_read_at_strides(const tuff_tensor *x)
{
    const node *from = tuff__skip_views(x->node);
    return from->op != OP_ARRAY && from->op != OP_CONSTANT && !is_adjacent(x, x->shape.rank - 1);
}

/* Returns the number of columns that a work-group computes of a product with few rows: fewer if the terms of y are
   adjacent, so that it computes dot products. With more rows than a lane has accumulators for, products of this layout
   are computed in tiles. */
static int columns_of_group(const rewriting *self, const tuff_tensor *y, int64_t rows)
{
    enum { OF_DOTS = 4, OF_SPANS = 32, MAX_ROWS_OF_DOTS = 4 };
    if (!is_adjacent(y, y->shape.rank - 2))
        return OF_SPANS;
    return rows <= MAX_ROWS_OF_DOTS ? OF_DOTS : (int)tuff__cost_parameters(&self->target).tile_columns;
}

/* Returns the number of parts for a product with few rows, which on a GPU takes as long as reading y: the fewest with
   which all processors read at once, or as many as there may be if none are enough; 1 if there is less to read than
   another launch costs. */
static int64_t count_for_reading(const rewriting *self, int64_t groups, int64_t columns, int64_t inner)
{
    enum { GROUPS_OF_UNIT = 4, MIN_TERMS_OF_PART = 256, MIN_ELEMENTS = 1 << 22 };
    const int64_t wanted = GROUPS_OF_UNIT * tuff__cost_parameters(&self->target).units;
    int64_t best = 1;
    if (self->target.avoids_local_memory || groups == 0 || columns * inner < MIN_ELEMENTS)
        return 1;
    for (int64_t split_k = 2; split_k <= MAX_SPLIT && inner / split_k >= MIN_TERMS_OF_PART && groups * best < wanted;
         ++split_k)
        if (inner % split_k == 0)
            best = split_k;
    return best;
}

/* Whether a factor has another type than f32 in memory. */
static bool is_narrow(const tuff_tensor *x)
{
    const node *at = tuff__skip_views(x->node);
    return at->outputs[0].dtype != TUFF_F32 || (at->op == OP_CAST && at->inputs[0]->dtype != TUFF_F32);
}

/* Whether the product may be computed in blocks whose terms groups share (lower_matmul.c): on GPUs, unless it is left
   to matrix units or to another family. */
static bool may_share_terms(const rewriting *self, const node *at)
{
    const tuff_compile_options *options = self->options;
    const bool on_units = options->precision != TUFF_PRECISION_F32 || options->matmul_precision != TUFF_PRECISION_F32 ||
                          is_narrow(at->inputs[0]) || is_narrow(at->inputs[1]);
    return !self->target.avoids_local_memory && !tuff__is_deterministic(options) &&
           options->matmul_library == TUFF_MATMUL_OWN &&
           (options->family == TUFF_FAMILY_DEVICE || options->family == TUFF_FAMILY_LOCAL) &&
           !(on_units && self->target.has_subgroup_matrices);
}

/* Returns the seconds of a product of which groups share the last tiles; INFINITY if they would not. */
static double seconds_of_sharing(const rewriting *self, const matmul_batch *product)
{
    const cost_parameters cost = tuff__cost_parameters(&self->target);
    const int64_t tiles = product->batches * tuff__divide_up(product->rows, cost.tile_rows) *
                          tuff__divide_up(product->columns, cost.tile_columns);
    const int64_t sums = cost.tile_rows * cost.tile_columns;
    const tile_shares shares = tuff__share_tiles(tiles, product->inner, SHARERS_OF_UNIT * cost.units);
    const double tile_seconds = 2.0 * (double)(sums * product->inner) / cost.rate;
    return shares.sharers == 0 ? INFINITY : tuff__cost_shared_tiles(&self->target, &shares, tiles, sums, tile_seconds);
}

/* Returns the number of parts that takes least time; 1 if none is clearly better than the whole, or if lowering finds a
   clearly better way to occupy all units: no whole number of parts may do so. */
static int64_t best_count(const rewriting *self, const node *at)
{
    const tuff_shape *shape = &at->outputs[0].shape, *x = &at->inputs[0]->shape;
    const int64_t rows = shape->extent[shape->rank - 2], columns = shape->extent[shape->rank - 1];
    const int64_t inner = x->extent[x->rank - 1];
    if (rows < 1 || columns < MIN_SIDE || shape->rank == TUFF_MAX_RANK)
        return 1;
    const int64_t batches = tuff_shape_count(*shape) / (rows * columns);
    if (rows < MIN_SIDE)
        return count_for_reading(self, batches * tuff__divide_up(columns, columns_of_group(self, at->inputs[1], rows)),
                                 columns, inner);
    matmul_batch product = {.batches = batches,
                            .rows = rows,
                            .columns = columns,
                            .inner = inner,
                            .has_strides = is_read_at_strides(at->inputs[0])};
    const double sharing = may_share_terms(self, at) ? seconds_of_sharing(self, &product) : INFINITY;
    double least = 0.8 * tuff__cost_split_matmul(&self->target, &product, 1);
    int64_t best = 1;
    for (int64_t split_k = 2; split_k <= MAX_SPLIT && inner / split_k >= MIN_TERMS; ++split_k) {
        const double seconds = tuff__cost_split_matmul(&self->target, &product, split_k);
        if (inner % split_k != 0 || seconds >= least)
            continue;
        least = seconds;
        best = split_k;
    }
    return sharing < 0.9 * least ? 1 : best;
}

/* Whether the padded operands and all partial results are tensors of a legal size. */
static bool fits(const node *at, const inner_split *split)
{
    tuff_shape x = at->inputs[0]->shape, y = at->inputs[1]->shape, parts = at->outputs[0].shape;
    x.extent[x.rank - 1] = y.extent[y.rank - 2] = split->pieces * split->terms;
    parts.extent[parts.rank - 1] *= split->pieces;
    return tuff__shape_fits(x) && tuff__shape_fits(y) && tuff__shape_fits(parts);
}

/* Chooses how to split a product; with one piece it stays whole. Inner axes close to the driver's loop limit are split
   too: a loop of that length is too long next to the kernel's other loops. */
static inner_split choose_split(const rewriting *self, const node *at)
{
    enum { MARGIN = 8 };
    const tuff_shape *x = &at->inputs[0]->shape;
    const int64_t inner = x->extent[x->rank - 1], limit = self->target.info->loop_limit;
    const inner_split whole = {1, inner};
    if (limit > 0 && inner > limit - limit / MARGIN)
        return at->outputs[0].shape.rank == TUFF_MAX_RANK ? whole : split_by_limit(inner, limit);
    const int64_t pieces = best_count(self, at);
    const bool wanted = pieces > 1 && tuff__pass_decides(self->passes, TUNABLE_fusion_split_k, true);
    return wanted ? (inner_split){pieces, inner / pieces} : whole;
}

tuff_status tuff__split_k(rewriting *self)
{
    for (int i = 0; i < self->original_count; ++i) {
        const node *at = self->graph->nodes[i];
        const inner_split split = at->op == OP_MATMUL ? choose_split(self, at) : (inner_split){1, 0};
        if (split.pieces <= 1 || !fits(at, &split))
            continue;
        const int axis = at->outputs[0].shape.rank - 2;
        tuff__graph_set_origin(self->graph, at);
        tuff_tensor *parts = tuff_matmul(cut(at->inputs[0], at->inputs[0]->shape.rank - 1, &split),
                                         cut(at->inputs[1], at->inputs[1]->shape.rank - 2, &split));
        self->replacement[i] = tuff_sum(parts, &axis, 1, false);
        TRY(self->graph->status);
    }
    return TUFF_OK;
}
