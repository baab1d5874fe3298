/* x · w0, x · w1, ... whose w are neighbours in memory become one product, of which each is a slice. Columns of one
   matrix (each [rows, K], all transposed alike, or slices) give results side by side. Matrices of one shape that lie
   one after another are stacked into a batch. Elementwise ops that all products go through, each with a vector of its
   own (a bias) or with a common value, are applied to the joined product. */
#include <string.h>

#include "compile/rewrite/matmul_merge.h"

#define MAX_KEPT (256 << 10) /* bytes of parts that may be kept longer than they are needed */
#define MAX_VISITED 16       /* nodes visited to find what a vector is made of, at most */
#define MAX_SELECTED 4       /* parts of a concat between which a kernel can select without a copy */

/* Values [..., columns of part i] joined into one: [parts, ..., columns] if stacked, else [..., all columns]. */
typedef struct bundle {
    tuff_tensor *parts[MAX_MERGED];
    int count;
    int oldest; /* the lowest id of the products: older nodes depend on none of them */
    bool stacked;
    tuff_tensor *whole;
} bundle;

static int64_t columns_of(const tuff_tensor *part)
{
    return part->shape.extent[part->shape.rank - 1];
}

static tuff_shape joined_shape(const bundle *joined, tuff_shape part)
{
    tuff_shape shape = part;
    if (joined->stacked) {
        memmove(shape.extent + 1, shape.extent, (TUFF_MAX_RANK - 1) * sizeof *shape.extent);
        shape.extent[0] = joined->count;
        ++shape.rank;
        return shape;
    }
    shape.extent[shape.rank - 1] = 0;
    for (int i = 0; i < joined->count; ++i)
        shape.extent[shape.rank - 1] += columns_of(joined->parts[i]);
    return shape;
}

/* Whether a value varies only along its last axis. */
static bool is_vector(const tuff_tensor *x)
{
    return x->shape.rank > 0 && tuff_shape_count(x->shape) == x->shape.extent[x->shape.rank - 1];
}

/* Whether a value can be an operand of the joined op: it must not depend on a part. It has to be made, by views and
   elementwise ops alone, of nodes older than the products; at most *most such ops are visited. */
static bool is_independent(const bundle *joined, const node *at, int *most)
{
    if (tuff__op_is_source(at->op) || at->input_count == 0 || at->id < joined->oldest)
        return true;
    bool independent = (tuff__op_is_view(at->op) || tuff__op_is_elementwise(at->op)) && --*most >= 0;
    for (int i = 0; i < at->input_count && independent; ++i)
        independent = is_independent(joined, at->inputs[i]->node, most);
    return independent;
}

/* Joins the vectors that were expanded to the parts into one that is expanded to the whole; NULL if that is impossible
   without a copy. */
static tuff_tensor *join_vectors(const bundle *joined, tuff_tensor *const *operands, tuff_shape shape)
{
    tuff_tensor *vectors[MAX_MERGED];
    if (joined->count > MAX_SELECTED)
        return NULL;
    for (int i = 0; i < joined->count; ++i) {
        const node *at = operands[i]->node;
        const int64_t columns = columns_of(operands[i]);
        int most = MAX_VISITED;
        if (at->op != OP_EXPAND || !is_vector(at->inputs[0]) || columns_of(at->inputs[0]) != columns ||
            !is_independent(joined, at->inputs[0]->node, &most))
            return NULL;
        vectors[i] = tuff_reshape(at->inputs[0], joined->stacked ? TUFF_SHAPE(1, columns) : TUFF_SHAPE(columns));
    }
    tuff_tensor *all = tuff_concat(vectors, joined->count, 0);
    if (joined->stacked) {
        tuff_shape units = shape;
        for (int i = 1; i < units.rank - 1; ++i)
            units.extent[i] = 1;
        all = tuff_reshape(all, units);
    }
    return tuff_expand(all, shape);
}

/* Returns the scalar that was expanded to every part; NULL if there is none. */
static tuff_tensor *common_scalar(const bundle *joined, tuff_tensor *const *operands)
{
    tuff_tensor *scalar = NULL;
    for (int i = 0; i < joined->count; ++i) {
        const node *at = operands[i]->node;
        if (at->op != OP_EXPAND || tuff_shape_count(at->inputs[0]->shape) != 1 || (i > 0 && at->inputs[0] != scalar))
            return NULL;
        scalar = at->inputs[0];
    }
    return tuff_reshape(scalar, TUFF_SCALAR);
}

/* Joins the other operands of an op that all parts go through; NULL if that is impossible without a copy. */
static tuff_tensor *join_operands(const bundle *joined, tuff_tensor *const *operands, tuff_shape shape)
{
    bool same = joined->stacked;
    for (int i = 1; i < joined->count; ++i)
        same &= operands[i] == operands[0];
    tuff_tensor *common = same ? operands[0] : common_scalar(joined, operands);
    return common != NULL ? tuff_expand(common, shape) : join_vectors(joined, operands, shape);
}

/* Returns the index of the part among the inputs of its user; -1 if it occurs twice. */
static int position_of(const node *user, const tuff_tensor *part)
{
    int position = -1;
    for (int i = 0; i < user->input_count; ++i)
        if (user->inputs[i] == part)
            position = position < 0 ? i : -2;
    return position < 0 ? -1 : position;
}

/* Whether the only users of all parts do the same to them. *position is the part's index among their inputs. */
static bool users_agree(const rewriting *self, const bundle *joined, node **users, int *position)
{
    for (int i = 0; i < joined->count; ++i) {
        users[i] = tuff__only_user(self, joined->parts[i]->node);
        if (users[i] == NULL || self->is_output[users[i]->id])
            return false;
        const tuff_tensor *first = &users[0]->outputs[0], *value = &users[i]->outputs[0];
        const int at = position_of(users[i], joined->parts[i]);
        *position = i == 0 ? at : *position;
        const bool fits = at >= 0 && at == *position && users[i]->recomputation == users[0]->recomputation &&
                          users[i]->op == users[0]->op && users[i]->input_count == users[0]->input_count &&
                          value->dtype == first->dtype && value->shape.rank == first->shape.rank &&
                          value->shape.rank > 0 && value->shape.rank < TUFF_MAX_RANK &&
                          columns_of(value) == columns_of(joined->parts[i]);
        if (!fits || (users[i]->op != OP_RESHAPE && !tuff__op_is_elementwise(users[i]->op)))
            return false;
        for (int axis = 0; axis < value->shape.rank - 1; ++axis)
            if (value->shape.extent[axis] != first->shape.extent[axis])
                return false;
    }
    return true;
}

/* Applies the op that all parts go through next to the joined value; returns false if they go through different ones,
   or its operands cannot be joined. */
static bool apply_next_op(const rewriting *self, bundle *joined)
{
    node *users[MAX_MERGED] = {NULL};
    int position = 0;
    if (!users_agree(self, joined, users, &position))
        return false;
    const tuff_tensor *first = &users[0]->outputs[0];
    const tuff_shape shape = joined_shape(joined, first->shape);
    tuff_tensor *inputs[3] = {NULL}, *next;
    if (users[0]->input_count > 3)
        return false;
    for (int k = 0; k < users[0]->input_count; ++k) {
        tuff_tensor *operands[MAX_MERGED];
        for (int i = 0; i < joined->count; ++i)
            operands[i] = users[i]->inputs[k];
        inputs[k] = k == position ? joined->whole : join_operands(joined, operands, shape);
        if (inputs[k] == NULL)
            return false;
    }
    if (self->graph->status != TUFF_OK)
        return false;
    if (users[0]->op == OP_RESHAPE)
        next = tuff_reshape(joined->whole, shape);
    else
        next = tuff__node_create(self->graph, users[0]->op, first->dtype, shape, inputs, users[0]->input_count,
                                 &users[0]->attributes);
    joined->whole = next;
    for (int i = 0; i < joined->count; ++i)
        joined->parts[i] = &users[i]->outputs[0];
    return self->graph->status == TUFF_OK;
}

/* Replaces each part with a slice of the whole. */
static void replace_parts(rewriting *self, const bundle *joined)
{
    const tuff_shape whole = joined->whole->shape;
    const int axis = joined->stacked ? 0 : whole.rank - 1;
    int64_t start[TUFF_MAX_RANK] = {0}, stop[TUFF_MAX_RANK];
    memcpy(stop, whole.extent, sizeof stop);
    for (int i = 0; i < joined->count && self->graph->status == TUFF_OK; ++i) {
        const tuff_tensor *part = joined->parts[i];
        stop[axis] = start[axis] + (joined->stacked ? 1 : columns_of(part));
        self->replacement[part->node->id] = tuff_reshape(tuff_slice(joined->whole, start, stop, NULL), part->shape);
        start[axis] = stop[axis];
    }
}

/* Returns the bytes of memory traffic that separate products would save by having elementwise ops as their epilogues:
   after the joined product, another kernel has to read it again. Sets *kernels to the number of such kernels. */
static double bytes_after(const rewriting *self, const bundle *joined, int *kernels)
{
    double alone = 0, shared = 0;
    *kernels = 0;
    for (int i = 0; i < joined->count; ++i) {
        const node *at = joined->parts[i]->node;
        const double size = 4 * (double)tuff_shape_count(joined->parts[i]->shape);
        const node *user = tuff__only_user(self, at);
        if (user != NULL && user->op == OP_RESHAPE)
            user = tuff__only_user(self, user);
        if (user != NULL && tuff__op_is_elementwise(user->op)) {
            alone += 2 * size;
            ++*kernels;
        } else if (user == NULL && self->use_count[at->id] > 0 && tuff__op_is_elementwise(self->user[at->id]->op)) {
            shared = size;
        }
    }
    *kernels += *kernels == 0 && shared > 0;
    return alone > 0 ? alone : shared;
}

/* Returns the id of the last reader of the part, or of a view of it. */
static int last_reader(const rewriting *self, const tuff_tensor *part)
{
    int last = part->node->id;
    for (int i = last + 1; i < self->original_count; ++i) {
        const node *reader = self->graph->nodes[i];
        for (int k = 0; k < reader->input_count; ++k) {
            const node *at = reader->inputs[k]->node;
            while (at != part->node && tuff__op_is_view(at->op))
                at = at->inputs[0]->node;
            last = at == part->node ? i : last;
        }
    }
    return last;
}

/* Whether joining would keep parts with early readers alive for a part that is read again much later, in the backward
   pass. The gain would be paid for in memory, or with recomputing values made of the parts. */
static bool keeps_for_long(const rewriting *self, const bundle *joined)
{
    bool any_late = false;
    int64_t early = 0;
    for (int i = 0; i < joined->count; ++i) {
        const bool late = last_reader(self, joined->parts[i]) > joined->parts[i]->node->id + LATE_GAP;
        any_late |= late;
        early += late ? 0 : 4 * tuff_shape_count(joined->parts[i]->shape);
    }
    return any_late && early >= MAX_KEPT;
}

static bool is_profitable(const rewriting *self, const bundle *joined, const tuff_tensor *x)
{
    if (keeps_for_long(self, joined))
        return false;
    merge_cost cost = {.rows = x->shape.extent[0], .inner = x->shape.extent[1], .count = joined->count};
    int kernels = 0;
    for (int i = 0; i < joined->count; ++i)
        cost.columns[i] = columns_of(joined->parts[i]);
    cost.bytes_added = bytes_after(self, joined, &kernels);
    cost.launches_saved = joined->count - 1 - kernels;
    return tuff__merge_is_profitable(self, &cost);
}

/* Merges the matmuls. Returns false if this would not pay, or the joined weight has no legal form. */
static bool merge(rewriting *self, node **members, const factor *factors, int count, bool stacked)
{
    tuff_tensor *x = members[0]->inputs[0];
    const int64_t rows = x->shape.extent[0], inner = x->shape.extent[1];
    bundle joined = {.count = count, .oldest = members[0]->id, .stacked = stacked};
    for (int i = 0; i < count; ++i) {
        joined.parts[i] = &members[i]->outputs[0];
        joined.oldest = members[i]->id < joined.oldest ? members[i]->id : joined.oldest;
    }
    const tuff_shape shape = joined_shape(&joined, joined.parts[0]->shape);
    if (!tuff__shape_fits(shape) || (stacked && !tuff__shape_fits(TUFF_SHAPE(count, rows, inner))))
        return false;
    tuff_tensor *w = stacked ? tuff__join_stack(self, factors, count) : tuff__join_along(self, factors, count, 1);
    if (w != NULL && stacked)
        x = tuff_expand(x, TUFF_SHAPE(count, rows, inner));
    if (w == NULL || self->graph->status != TUFF_OK)
        return false;
    joined.whole = tuff__node_create(self->graph, OP_MATMUL, members[0]->outputs[0].dtype, shape,
                                     (tuff_tensor *[]){x, w}, 2, NULL);
    while (apply_next_op(self, &joined))
        continue;
    if (self->graph->status != TUFF_OK ||
        !tuff__pass_decides(self->passes, TUNABLE_fusion_columns, is_profitable(self, &joined, members[0]->inputs[0])))
        return false;
    replace_parts(self, &joined);
    return true;
}

/* Merges runs of neighbours among the matmuls that read the same x, as long as pays: a shorter run may go through more
   common ops afterwards. */
static void merge_readers(rewriting *self, node **members, factor *factors, int count)
{
    tuff__sort_factors(factors, members, count);
    for (int i = 0; i < count;) {
        const int side_by_side = tuff__run_along(factors + i, count - i, 1);
        const int stacked = tuff__run_of_stack(factors + i, count - i);
        int run = side_by_side >= stacked ? side_by_side : stacked;
        while (run > 1 && !merge(self, members + i, factors + i, run, side_by_side < stacked))
            --run;
        i += run;
    }
}

static bool is_candidate(const rewriting *self, const node *at, factor *out)
{
    return at->op == OP_MATMUL && at->outputs[0].shape.rank == 2 && !self->taken[at->id] && !self->is_output[at->id] &&
           self->use_count[at->id] > 0 && tuff__factor_of(at->inputs[1], out);
}

tuff_status tuff__merge_columns(rewriting *self)
{
    for (int i = 0; i < self->original_count; ++i) {
        node *members[MAX_FACTORS];
        factor factors[MAX_FACTORS];
        int count = 0;
        const node *first = self->graph->nodes[i];
        if (!is_candidate(self, first, &factors[0]))
            continue;
        for (int k = i; k < self->original_count && count < MAX_FACTORS; ++k) {
            node *at = self->graph->nodes[k];
            if (at->op == OP_MATMUL && at->inputs[0] == first->inputs[0] && at->recomputation == first->recomputation &&
                is_candidate(self, at, &factors[count])) {
                self->taken[k] = true; /* each matmul is considered only once */
                members[count++] = at;
            }
        }
        tuff__graph_set_origin(self->graph, first);
        if (count > 1)
            merge_readers(self, members, factors, count);
    }
    return self->graph->status;
}
