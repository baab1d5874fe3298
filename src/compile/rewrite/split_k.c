/* Split-k: a product of too few tiles for all units of the device, but a long inner axis, becomes a batch of shorter
   products, one a piece of the axis, and their sum in the order of the pieces. */
#include "compile/rewrite/matmul_merge.h"
#include "compile/schedule/cost.h"

enum { MAX_SPLIT = 64, MIN_TERMS = 128, MIN_SIDE = 8 };

/* x [..., m, k] as [..., pieces, m, k / pieces], y [..., k, n] as [..., pieces, k / pieces, n]: views. */
static tuff_tensor *cut(tuff_tensor *x, int axis, int64_t split_k)
{
    const tuff_shape shape = tuff__shape_cut(x->shape, axis, split_k, x->shape.extent[axis] / split_k);
    const int batch_axis = x->shape.rank - 2;
    int order[TUFF_MAX_RANK];
    for (int i = 0, from = 0; i < shape.rank; ++i) {
        from += from == axis;
        order[i] = i == batch_axis ? axis : from++;
    }
    return tuff_permute(tuff_reshape(x, shape), order);
}

/* The number of parts that takes least time; 1 where none is clearly better than the whole. */
static int64_t best_count(const rewriting *self, const node *at)
{
    const tuff_shape *shape = &at->outputs[0].shape, *x = &at->inputs[0]->shape;
    const int64_t rows = shape->extent[shape->rank - 2], columns = shape->extent[shape->rank - 1];
    const int64_t inner = x->extent[x->rank - 1];
    if (rows < MIN_SIDE || columns < MIN_SIDE || shape->rank == TUFF_MAX_RANK)
        return 1;
    const int64_t batches = tuff_shape_count(*shape) / (rows * columns);
    double least = 0.8 * tuff__cost_split_matmul(&self->target, batches, rows, columns, inner, 1);
    int64_t best = 1;
    for (int64_t split_k = 2; split_k <= MAX_SPLIT && inner / split_k >= MIN_TERMS; ++split_k) {
        const double seconds = tuff__cost_split_matmul(&self->target, batches, rows, columns, inner, split_k);
        if (inner % split_k != 0 || seconds >= least)
            continue;
        least = seconds;
        best = split_k;
    }
    return best;
}

tuff_status tuff__split_k(rewriting *self)
{
    for (int i = 0; i < self->original_count; ++i) {
        const node *at = self->graph->nodes[i];
        const int64_t split_k = at->op == OP_MATMUL ? best_count(self, at) : 1;
        if (split_k == 1 || !tuff__pass_decides(self->passes, TUNABLE_fusion_pieces, true))
            continue;
        const int axis = at->outputs[0].shape.rank - 2;
        self->graph->copy = at->copy;
        tuff_tensor *parts = tuff_matmul(cut(at->inputs[0], at->inputs[0]->shape.rank - 1, split_k),
                                         cut(at->inputs[1], at->inputs[1]->shape.rank - 2, split_k));
        self->now[i] = tuff_sum(parts, &axis, 1, false);
        TRY(self->graph->status);
    }
    return TUFF_OK;
}
