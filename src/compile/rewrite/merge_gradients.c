/* The gradients of weights that shared an operand are products x' · y0, x' · y1, ... which share it again. If they
   follow each other in a slab, they become one product, which is written to the slab as a whole. The y are computed
   side by side for it. */
#include "compile/rewrite/matmul_merge.h"

/* Neighbouring parts of a concat of vectors that are products or, if `transposed` is set, transposed products. */
typedef struct run_of_parts {
    node *products[MAX_MERGED];
    int count;
    bool transposed;
} run_of_parts;

/* Returns the matmul whose elements make up the part, row by row or (*transposed) column by column; NULL if there is
   none. */
static node *find_product(const rewriting *self, const tuff_tensor *part, bool *transposed)
{
    node *at = part->node;
    *transposed = false;
    if (at->op != OP_RESHAPE || tuff__only_user(self, at) == NULL)
        return NULL;
    at = at->inputs[0]->node;
    if (at->op == OP_PERMUTE && at->outputs[0].shape.rank == 2 && tuff__only_user(self, at) != NULL) {
        *transposed = true;
        at = at->inputs[0]->node;
    }
    const bool found = at->op == OP_MATMUL && at->outputs[0].shape.rank == 2 && tuff__only_user(self, at) != NULL;
    return found ? at : NULL;
}

static bool continues(const run_of_parts *run, const node *product, bool transposed)
{
    const node *first = run->products[0];
    if (run->count == MAX_MERGED || transposed != run->transposed || product->inputs[0] != first->inputs[0] ||
        product->recomputation != first->recomputation)
        return false;
    for (int i = 0; i < run->count; ++i)
        if (product->inputs[1] == run->products[i]->inputs[1])
            return false;
    return transposed || tuff_shape_equal(product->outputs[0].shape, first->outputs[0].shape);
}

/* Whether the operands of the joined product and its result are allowed as tensors. */
static bool fits(const run_of_parts *run)
{
    const tuff_shape *x = &run->products[0]->inputs[0]->shape;
    const int64_t rows = x->extent[0], inner = x->extent[1];
    int64_t columns = 0;
    for (int i = 0; i < run->count; ++i)
        columns += run->products[i]->outputs[0].shape.extent[1];
    return tuff__shape_fits(TUFF_SHAPE(inner, columns)) && tuff__shape_fits(TUFF_SHAPE(rows, columns)) &&
           (run->transposed || tuff__shape_fits(TUFF_SHAPE(run->count, rows, inner)));
}

static run_of_parts find_run(const rewriting *self, const node *concat, int first)
{
    run_of_parts run = {.count = 0};
    for (int i = first; i < concat->input_count; ++i) {
        bool transposed;
        node *product = find_product(self, concat->inputs[i], &transposed);
        if (product == NULL || (run.count > 0 && !continues(&run, product, transposed)))
            break;
        run.transposed = transposed;
        run.products[run.count++] = product;
        if (!fits(&run)) {
            --run.count;
            break;
        }
    }
    return run;
}

/* Whether joining pays. All y but one have to wait in memory for the joined product; a product of its own would read
   each while it is still in a cache. */
static bool is_profitable(const rewriting *self, const run_of_parts *run)
{
    const tuff_shape *x = &run->products[0]->inputs[0]->shape;
    merge_cost cost = {.rows = x->extent[0], .inner = x->extent[1], .count = run->count};
    tuff_tensor *y[MAX_MERGED];
    double copies = 0, waiting = 0;
    for (int i = 0; i < run->count; ++i) {
        y[i] = run->products[i]->inputs[1];
        cost.columns[i] = y[i]->shape.extent[1];
        copies += 8 * (double)tuff_shape_count(y[i]->shape);
        waiting += i > 0 ? 4 * (double)tuff_shape_count(y[i]->shape) : 0;
    }
    const bool free_of_copies = tuff__concat_is_free(self, y, run->count, run->transposed ? 1 : 0);
    cost.launches_saved = run->count - 1 - !free_of_copies;
    cost.bytes_added = waiting + (free_of_copies ? 0 : copies);
    return tuff__merge_is_profitable(self, &cost);
}

/* Returns the product of x with all y, as the vector that replaces the parts. */
static tuff_tensor *join(rewriting *self, const run_of_parts *run)
{
    tuff_tensor *x = run->products[0]->inputs[0], *y[MAX_MERGED];
    const tuff_tensor *first = &run->products[0]->outputs[0];
    const int64_t rows = x->shape.extent[0], inner = x->shape.extent[1], columns = first->shape.extent[1];
    const int turn[] = {1, 0};
    for (int i = 0; i < run->count; ++i)
        y[i] = run->products[i]->inputs[1];
    tuff__graph_set_origin(self->graph, run->products[0]);
    tuff_tensor *right = tuff__concat_as_view(self, y, run->count, run->transposed ? 1 : 0);
    if (self->graph->status != TUFF_OK)
        return right;
    tuff_shape shape = TUFF_SHAPE(rows, right->shape.extent[1]);
    if (!run->transposed) {
        shape = TUFF_SHAPE(run->count, rows, columns);
        x = tuff_expand(x, TUFF_SHAPE(run->count, rows, inner));
        right = tuff_reshape(right, TUFF_SHAPE(run->count, inner, columns));
    }
    if (self->graph->status != TUFF_OK)
        return right;
    tuff_tensor *product =
        tuff__node_create(self->graph, OP_MATMUL, first->dtype, shape, (tuff_tensor *[]){x, right}, 2, NULL);
    return tuff_reshape(run->transposed ? tuff_permute(product, turn) : product, TUFF_SHAPE(-1));
}

static void merge_parts(rewriting *self, node *concat)
{
    int count = 0;
    for (int i = 0; i < concat->input_count && self->graph->status == TUFF_OK;) {
        const run_of_parts run = find_run(self, concat, i);
        const bool joined =
            run.count > 1 && tuff__pass_decides(self->passes, TUNABLE_fusion_gradients, is_profitable(self, &run));
        const int taken = joined ? run.count : 1;
        concat->inputs[count] = joined ? join(self, &run) : concat->inputs[i];
        ++count;
        i += taken;
    }
    if (self->graph->status == TUFF_OK)
        concat->input_count = count;
}

tuff_status tuff__merge_gradients(rewriting *self)
{
    for (int i = 0; i < self->original_count; ++i) {
        node *at = self->graph->nodes[i];
        if (at->op == OP_CONCAT && at->outputs[0].shape.rank == 1)
            merge_parts(self, at);
    }
    return self->graph->status;
}
