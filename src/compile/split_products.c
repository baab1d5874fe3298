/* Split-k: a product of too few tiles for all units of the device, but a long inner axis, becomes a batch of shorter
   products, one a piece of the axis, and their sum in the order of the pieces. */
#include "compile/siblings.h"

enum { MOST_PIECES = 64, LEAST_TERMS = 128, LEAST_SIDE = 8 };

/* x [..., m, k] as [..., pieces, m, k / pieces], y [..., k, n] as [..., pieces, k / pieces, n]: views. */
static tuff_tensor *cut(tuff_tensor *x, int axis, int64_t pieces)
{
    const tuff_shape shape = tuff__shape_cut(x->shape, axis, pieces, x->shape.extent[axis] / pieces);
    const int batch_axis = x->shape.rank - 2;
    int order[TUFF_MAX_RANK];
    for (int i = 0, from = 0; i < shape.rank; ++i) {
        from += from == axis;
        order[i] = i == batch_axis ? axis : from++;
    }
    return tuff_permute(tuff_reshape(x, shape), order);
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

tuff_status tuff__split_products(rewriting *with)
{
    for (int i = 0; i < with->original_count; ++i) {
        const node *at = with->graph->nodes[i];
        const int64_t pieces = at->op == OP_MATMUL ? best_count(with, at) : 1;
        if (pieces == 1 || !tuff__pass_decides(with->passes, TUNABLE_fusion_pieces, true))
            continue;
        const int axis = at->outputs[0].shape.rank - 2;
        with->graph->copy = at->copy;
        tuff_tensor *parts = tuff_matmul(cut(at->inputs[0], at->inputs[0]->shape.rank - 1, pieces),
                                         cut(at->inputs[1], at->inputs[1]->shape.rank - 2, pieces));
        with->now[i] = tuff_sum(parts, &axis, 1, false);
        TRY(with->graph->status);
    }
    return TUFF_OK;
}
