/* Sums of products y0 · v0 + y1 · v1 + ... whose v are rows of one matrix in memory, as in the gradient of an operand
   that matmuls shared, become one product of [y0 y1 ...] with that matrix. The y are computed straight into [y0 y1
   ...]. Other terms of the sum are added afterwards. */
#include "compile/rewrite/matmul_merge.h"

#define MAX_TERMS 16

/* The terms of a sum: products, and others. */
typedef struct terms {
    node *products[MAX_FACTORS];
    factor factors[MAX_FACTORS];
    tuff_tensor *others[MAX_TERMS];
    int product_count, other_count;
    int copy;      /* number of the recomputation to which all belong */
    bool complete; /* there was room for all terms */
} terms;

static bool is_product(const rewriting *self, const node *at, int copy, factor *out)
{
    return at->op == OP_MATMUL && at->recomputation == copy && at->outputs[0].shape.rank == 2 &&
           tuff__only_user(self, at) != NULL && tuff__factor_of(at->inputs[1], out);
}

static void add_term(const rewriting *self, tuff_tensor *term, terms *out)
{
    node *at = term->node;
    if (at->op == OP_ADD && tuff__only_user(self, at) != NULL) {
        add_term(self, at->inputs[0], out);
        add_term(self, at->inputs[1], out);
        return;
    }
    if (at->op == OP_RESHAPE && tuff__only_user(self, at) != NULL)
        at = at->inputs[0]->node;
    if (out->product_count < MAX_FACTORS && is_product(self, at, out->copy, &out->factors[out->product_count]))
        out->products[out->product_count++] = at;
    else if (out->other_count < MAX_TERMS)
        out->others[out->other_count++] = term;
    else
        out->complete = false;
}

/* Whether the value is the last addition of a sum, which is not part of a longer one. */
static bool is_whole_sum(const rewriting *self, const node *at)
{
    const node *user = tuff__only_user(self, at);
    return at->op == OP_ADD && self->use_count[at->id] + self->is_output[at->id] > 0 &&
           (user == NULL || user->op != OP_ADD);
}

/* Whether joining pays. Each product but one saves a read and a write of the partial sum. Only half of this traffic is
   counted, because kernels hide part of it behind their arithmetic. */
static bool pays(const rewriting *self, node *const *products, tuff_tensor *const *y, int count)
{
    const tuff_tensor *result = &products[0]->outputs[0];
    const double pass = 4 * (double)tuff_shape_count(result->shape);
    merge_cost cost = {.rows = result->shape.extent[0], .count = count, .along_inner = true};
    double copies = 0;
    for (int i = 0; i < count; ++i) {
        copies += 8 * (double)tuff_shape_count(y[i]->shape);
        cost.inner += y[i]->shape.extent[1];
    }
    const bool free_of_copies = tuff__concat_is_free(self, y, count, 1);
    cost.launches_saved = count - 1 - !free_of_copies;
    cost.bytes_added = (free_of_copies ? 0 : copies) - pass * (count - 1);
    return tuff__merge_is_profitable(self, &cost);
}

static tuff_tensor *joined_product(rewriting *self, node *const *products, const factor *factors, int count)
{
    tuff_tensor *y[MAX_MERGED], *v;
    int64_t inner = 0;
    for (int i = 0; i < count; ++i) {
        y[i] = products[i]->inputs[0];
        inner += y[i]->shape.extent[1];
    }
    if (!tuff__shape_fits(TUFF_SHAPE(y[0]->shape.extent[0], inner)) ||
        !tuff__pass_decides(self->passes, TUNABLE_fusion_terms, pays(self, products, y, count)) ||
        (v = tuff__join_along(self, factors, count, 0)) == NULL)
        return NULL;
    const tuff_tensor *result = &products[0]->outputs[0];
    tuff_tensor *left = tuff__concat_as_view(self, y, count, 1);
    if (self->graph->status != TUFF_OK)
        return NULL;
    return tuff__node_create(self->graph, OP_MATMUL, result->dtype, result->shape, (tuff_tensor *[]){left, v}, 2, NULL);
}

static tuff_tensor *add_to_sum(tuff_tensor *sum, tuff_tensor *term, tuff_shape shape)
{
    tuff_tensor *formed = tuff_reshape(term, shape);
    return sum == NULL ? formed : tuff_add(sum, formed);
}

/* Joins neighbours among the products and adds all products to *sum. Returns false if none were joined. */
static bool join_products(rewriting *self, terms *all, tuff_shape shape, tuff_tensor **sum)
{
    bool any = false;
    tuff__sort_factors(all->factors, all->products, all->product_count);
    for (int i = 0; i < all->product_count;) {
        const int run = tuff__run_along(all->factors + i, all->product_count - i, 0);
        tuff_tensor *joined = run > 1 ? joined_product(self, all->products + i, all->factors + i, run) : NULL;
        any |= joined != NULL;
        for (int k = 0; k < run && joined == NULL; ++k)
            *sum = add_to_sum(*sum, &all->products[i + k]->outputs[0], shape);
        if (joined != NULL)
            *sum = add_to_sum(*sum, joined, shape);
        i += run;
    }
    return any;
}

tuff_status tuff__merge_terms(rewriting *self)
{
    for (int i = 0; i < self->original_count; ++i) {
        node *at = self->graph->nodes[i];
        terms found = {.complete = true, .copy = at->recomputation};
        tuff_tensor *sum = NULL;
        if (!is_whole_sum(self, at) || at->outputs[0].dtype != TUFF_F32)
            continue;
        tuff__graph_set_origin(self->graph, at);
        add_term(self, at->inputs[0], &found);
        add_term(self, at->inputs[1], &found);
        if (!found.complete || found.product_count < 2 || !join_products(self, &found, at->outputs[0].shape, &sum))
            continue;
        for (int k = 0; k < found.other_count; ++k)
            sum = add_to_sum(sum, found.others[k], at->outputs[0].shape);
        self->replacement[i] = sum;
    }
    return self->graph->status;
}
