/* Split-k: a product of too few tiles for all units of the device, but a long inner axis, becomes a batch of shorter
   products, one a piece of the axis, and their sum in the order of the pieces. So does one whose inner axis is longer
   than the loops that the driver allows. */
#include "compile/lower.h"
#include "compile/siblings.h"

enum { MOST_PIECES = 64, LEAST_TERMS = 128, LEAST_SIDE = 8 };

/* The inner axis in pieces of so many terms each, the last one filled up with zeros. */
typedef struct cutting {
    int64_t pieces, terms;
} cutting;

/* x [..., m, k] as [..., pieces, m, terms], y [..., k, n] as [..., pieces, terms, n]: views, unless it is filled up. */
static tuff_tensor *cut(tuff_tensor *x, int axis, const cutting *by)
{
    const int64_t none[TUFF_MAX_RANK] = {0};
    int64_t missing[TUFF_MAX_RANK] = {0};
    missing[axis] = by->pieces * by->terms - x->shape.extent[axis];
    const tuff_shape shape = tuff__shape_cut(x->shape, axis, by->pieces, by->terms);
    const int batch_axis = x->shape.rank - 2;
    int order[TUFF_MAX_RANK];
    for (int i = 0, from = 0; i < shape.rank; ++i) {
        from += from == axis;
        order[i] = i == batch_axis ? axis : from++;
    }
    if (missing[axis] > 0)
        x = tuff_pad(x, none, missing, 0);
    return tuff_permute(tuff_reshape(x, shape), order);
}

/* Pieces that every kernel's loops can walk, of equal length where a divisor of the axis is near. */
static cutting cut_by_limit(int64_t inner, int64_t limit)
{
    enum { SHARE = 4, LEAST_SHARE = 32, ALIGNED = 16 };
    const int64_t most = limit / SHARE > 0 ? limit / SHARE : 1;
    for (int64_t terms = most; terms > limit / LEAST_SHARE; --terms)
        if (inner % terms == 0)
            return (cutting){inner / terms, terms};
    const int64_t fair = tuff__divide_up(inner, tuff__divide_up(inner, most));
    const int64_t terms = most < ALIGNED ? fair : tuff__divide_up(fair, ALIGNED) * ALIGNED;
    return (cutting){tuff__divide_up(inner, terms), terms};
}

/* The number of pieces that takes least time; 1 where none is clearly better than the whole. */
static int64_t best_count(const rewriting *with, const node *at)
{
    const tuff_shape *shape = &at->outputs[0].shape, *x = &at->inputs[0]->shape;
    const int64_t rows = shape->extent[shape->rank - 2], columns = shape->extent[shape->rank - 1];
    const int64_t inner = x->extent[x->rank - 1];
    if (rows < LEAST_SIDE || columns < LEAST_SIDE || shape->rank == TUFF_MAX_RANK)
        return 1;
    const int64_t batches = tuff_shape_count(*shape) / (rows * columns);
    double least = 0.8 * tuff__product_seconds(with, batches, rows, columns, inner, 1);
    int64_t best = 1;
    for (int64_t pieces = 2; pieces <= MOST_PIECES && inner / pieces >= LEAST_TERMS; ++pieces) {
        const double seconds = tuff__product_seconds(with, batches, rows, columns, inner, pieces);
        if (inner % pieces != 0 || seconds >= least)
            continue;
        least = seconds;
        best = pieces;
    }
    return best;
}

/* One piece: the product stays whole. A loop of the limit is too long where others stand beside it. */
static cutting choose(const rewriting *with, const node *at)
{
    enum { MARGIN = 8 };
    const tuff_shape *x = &at->inputs[0]->shape;
    const int64_t inner = x->extent[x->rank - 1], limit = with->info->loop_limit;
    const cutting whole = {1, inner};
    if (limit > 0 && inner > limit - limit / MARGIN)
        return at->outputs[0].shape.rank == TUFF_MAX_RANK ? whole : cut_by_limit(inner, limit);
    const int64_t pieces = best_count(with, at);
    const bool wanted = pieces > 1 && tuff__pass_decides(with->passes, TUNABLE_fusion_pieces, true);
    return wanted ? (cutting){pieces, inner / pieces} : whole;
}

tuff_status tuff__split_products(rewriting *with)
{
    for (int i = 0; i < with->original_count; ++i) {
        const node *at = with->graph->nodes[i];
        const cutting by = at->op == OP_MATMUL ? choose(with, at) : (cutting){1, 0};
        if (by.pieces <= 1)
            continue;
        const int axis = at->outputs[0].shape.rank - 2;
        with->graph->copy = at->copy;
        tuff_tensor *parts = tuff_matmul(cut(at->inputs[0], at->inputs[0]->shape.rank - 1, &by),
                                         cut(at->inputs[1], at->inputs[1]->shape.rank - 2, &by));
        with->now[i] = tuff_sum(parts, &axis, 1, false);
        TRY(with->graph->status);
    }
    return TUFF_OK;
}
