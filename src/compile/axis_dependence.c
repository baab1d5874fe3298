/* Axis dependence: finds out, by a rule for each op, which axes of a task's values must keep the same extent and
   places. Such axes form one class (union-find). */
#include "compile/axis_dependence.h"

static int find_root(const subgraph *self, int axis)
{
    while (self->axes[axis].parent != axis)
        axis = self->axes[axis].parent;
    return axis;
}

int tuff__axis_class(const subgraph *self, const node *at, int axis)
{
    return find_root(self, self->position[at->id] * TUFF_MAX_RANK + axis);
}

static axis_state *class_of(subgraph *self, const node *at, int axis)
{
    return &self->axes[tuff__axis_class(self, at, axis)];
}

/* Joins the classes of two axes. Axes of different extents cannot be joined: both are fixed. */
static void unite(subgraph *self, const node *a, int axis_a, const node *b, int axis_b)
{
    const int first = tuff__axis_class(self, a, axis_a), second = tuff__axis_class(self, b, axis_b);
    axis_state *kept = &self->axes[first], *joined = &self->axes[second];
    if (first == second)
        return;
    if (kept->extent != joined->extent) {
        kept->fixed = joined->fixed = true;
        return;
    }
    joined->parent = first;
    kept->fixed |= joined->fixed;
    kept->whole |= joined->whole;
}

static void fix_axes(subgraph *self, const node *at)
{
    for (int i = 0; i < at->outputs[0].shape.rank; ++i)
        class_of(self, at, i)->fixed = true;
}

static void fix_all(subgraph *self, const node *at)
{
    fix_axes(self, at);
    for (int i = 0; i < at->input_count; ++i)
        fix_axes(self, at->inputs[i]->node);
}

/* Joins the inputs' axes with the output's in order, except axes of extent 1 that are broadcast or reduced. */
static void unite_in_order(subgraph *self, const node *at)
{
    for (int k = 0; k < at->input_count; ++k)
        for (int i = 0; i < at->outputs[0].shape.rank; ++i)
            if (at->inputs[k]->shape.extent[i] == at->outputs[0].shape.extent[i])
                unite(self, at, i, at->inputs[k]->node, i);
}

static void unite_reduced(subgraph *self, const node *at)
{
    for (int i = 0; i < at->inputs[0]->shape.rank; ++i)
        if (at->attributes.axes >> i & 1)
            class_of(self, at->inputs[0]->node, i)->whole = true;
    unite_in_order(self, at);
}

static void unite_scanned(subgraph *self, const node *at)
{
    class_of(self, at, at->attributes.axis)->whole = true;
    unite_in_order(self, at);
}

static void unite_permuted(subgraph *self, const node *at)
{
    for (int i = 0; i < at->outputs[0].shape.rank; ++i)
        unite(self, at, i, at->inputs[0]->node, at->attributes.order[i]);
}

static void unite_moved(subgraph *self, const node *at)
{
    const tuff_shape *from = &at->inputs[0]->shape, *to = &at->outputs[0].shape;
    for (int i = 0; i < to->rank; ++i) {
        const bool is_whole = from->extent[i] == to->extent[i] && at->attributes.start[i] == 0 &&
                              (at->op == OP_PAD || at->attributes.step[i] == 1);
        if (is_whole)
            unite(self, at, i, at->inputs[0]->node, i);
        else
            class_of(self, at, i)->fixed = class_of(self, at->inputs[0]->node, i)->fixed = true;
    }
}

/* Joins all axes but the unfolded one, which is fixed, as are the two axes that it becomes. */
static void unite_unfolded(subgraph *self, const node *at)
{
    const node *from = at->inputs[0]->node;
    const int along = at->attributes.axis;
    for (int i = 0; i < from->outputs[0].shape.rank; ++i)
        if (i != along)
            unite(self, at, i < along ? i : i + 1, from, i);
    class_of(self, from, along)->fixed = class_of(self, at, along)->fixed = class_of(self, at, along + 1)->fixed = true;
}

static void unite_joined(subgraph *self, const node *at)
{
    for (int k = 0; k < at->input_count; ++k)
        for (int i = 0; i < at->outputs[0].shape.rank; ++i) {
            if (i != at->attributes.axis)
                unite(self, at, i, at->inputs[k]->node, i);
            else
                class_of(self, at, i)->fixed = class_of(self, at->inputs[k]->node, i)->fixed = true;
        }
}

static void unite_product(subgraph *self, const node *at)
{
    const int rank = at->outputs[0].shape.rank;
    const node *x = at->inputs[0]->node, *y = at->inputs[1]->node;
    for (int i = 0; i < rank - 2; ++i)
        for (int k = 0; k < 2; ++k)
            if (at->inputs[k]->shape.extent[i] == at->outputs[0].shape.extent[i])
                unite(self, at, i, at->inputs[k]->node, i);
    unite(self, at, rank - 2, x, rank - 2);
    unite(self, at, rank - 1, y, rank - 1);
    unite(self, x, rank - 1, y, rank - 2);
    class_of(self, x, rank - 1)->whole = true;
}

/* The axis of x in which elements are looked up must be whole; along the others, an element comes from its own line of
   x. Indices may be broadcast along an axis. */
static void unite_gathered(subgraph *self, const node *at)
{
    const int along = at->attributes.axis;
    for (int i = 0; i < at->outputs[0].shape.rank; ++i)
        for (int k = 0; k < 2; ++k)
            if (at->inputs[k]->shape.extent[i] == at->outputs[0].shape.extent[i] && (i != along || k == 1))
                unite(self, at, i, at->inputs[k]->node, i);
    class_of(self, at->inputs[0]->node, along)->whole = true;
}

/* As in unite_gathered, everything that is added to an element lies in its own line of the source. */
static void unite_scattered(subgraph *self, const node *at)
{
    const int along = at->attributes.axis;
    const node *indices = at->inputs[1]->node, *source = at->inputs[2]->node;
    for (int i = 0; i < at->outputs[0].shape.rank; ++i) {
        unite(self, at, i, at->inputs[0]->node, i);
        if (i != along)
            unite(self, at, i, source, i);
        if (indices->outputs[0].shape.extent[i] == source->outputs[0].shape.extent[i])
            unite(self, source, i, indices, i);
    }
    class_of(self, at, along)->whole = class_of(self, source, along)->whole = true;
}

/* A bias and its gradient have the axes of the scores (batches, heads, queries, keys) or extent 1. An axis that is
   summed into a gradient must be whole. */
static void unite_bias(subgraph *self, const node *bias, const node *q, const node *k, bool is_gradient)
{
    const int axes[] = {0, 2, 1, 1};
    for (int i = 0; i < 4; ++i) {
        const node *like = i == 3 ? k : q;
        if (bias->outputs[0].shape.extent[i] == like->outputs[0].shape.extent[axes[i]])
            unite(self, bias, i, like, axes[i]);
        else if (is_gradient)
            class_of(self, like, axes[i])->whole = true;
    }
    class_of(self, bias, 1)->fixed = true;
}

/* A query's place decides which keys it sees, so that only batches are independent. Heads come in groups, and kernels
   depend on the width of a head: both axes are fixed. */
static void unite_attention(subgraph *self, const node *reader)
{
    const attention_inputs at = tuff__attention_inputs(reader->op, reader->attributes.options);
    const int longest[] = {at.q, at.lse, at.upstream, at.sums};
    const node *q = reader->inputs[at.q]->node, *k = reader->inputs[at.k]->node;
    for (int i = 0; i < reader->input_count; ++i)
        if (reader->inputs[i]->shape.rank == 4 && reader->inputs[i]->shape.extent[0] == q->outputs[0].shape.extent[0])
            unite(self, q, 0, reader->inputs[i]->node, 0);
    for (int i = 0; i < 4; ++i)
        if (longest[i] >= 0) {
            unite(self, q, 0, reader->inputs[longest[i]]->node, 0);
            unite(self, q, 1, reader->inputs[longest[i]]->node, 1);
        }
    if (at.v >= 0)
        unite(self, k, 1, reader->inputs[at.v]->node, 1);
    const bool is_key = reader->op == OP_ATTENTION_DK || reader->op == OP_ATTENTION_DV,
               is_bias = reader->op == OP_ATTENTION_DB;
    if (at.bias >= 0)
        unite_bias(self, reader->inputs[at.bias]->node, q, k, false);
    if (is_bias)
        unite_bias(self, reader, q, k, true);
    if (!is_bias) {
        unite(self, reader, 0, q, 0);
        unite(self, reader, 1, is_key ? k : q, 1);
    }
    class_of(self, q, 1)->whole = class_of(self, k, 1)->whole = true;
    for (int i = 0; i < reader->input_count; ++i)
        for (int axis = 2; axis < reader->inputs[i]->shape.rank && i != at.bias; ++axis)
            class_of(self, reader->inputs[i]->node, axis)->fixed = true;
    for (int axis = 2; axis < reader->outputs[0].shape.rank && !is_bias; ++axis)
        class_of(self, reader, axis)->fixed = true;
}

static void add_product(subgraph *self, int result, const node *factors, int first, int last)
{
    axis_product made = {.result = result};
    for (int i = first; i <= last; ++i)
        if (factors->outputs[0].shape.extent[i] != 1)
            made.factors[made.count++] = tuff__axis_class(self, factors, i);
    self->products[self->product_count++] = made;
}

/* Relates a run of axes to the run into which a reshape turns it. */
static void unite_run(subgraph *self, const node *from, const int old[2], const node *to, const int new[2])
{
    if (old[0] == old[1] && new[0] == new[1]) {
        unite(self, from, old[0], to, new[0]);
    } else if (old[0] == old[1]) {
        add_product(self, tuff__axis_class(self, from, old[0]), to, new[0], new[1]);
    } else if (new[0] == new[1]) {
        add_product(self, tuff__axis_class(self, to, new[0]), from, old[0], old[1]);
    } else {
        for (int i = old[0]; i <= old[1]; ++i)
            class_of(self, from, i)->fixed = true;
        for (int i = new[0]; i <= new[1]; ++i)
            class_of(self, to, i)->fixed = true;
    }
}

/* Returns the first axis from `axis` on whose extent is not 1. */
static int skip_units(const tuff_shape *shape, int axis)
{
    while (axis < shape->rank && shape->extent[axis] == 1)
        ++axis;
    return axis;
}

static void unite_reshaped(subgraph *self, const node *at)
{
    const node *from = at->inputs[0]->node;
    const tuff_shape *old = &from->outputs[0].shape, *new = &at->outputs[0].shape;
    int i = skip_units(old, 0), k = skip_units(new, 0);
    if (tuff_shape_count(*old) == 0) { /* any extents would have this product if one of them is 0 */
        fix_all(self, at);
        return;
    }
    while (i < old->rank && k < new->rank) {
        int run_old[2] = {i, i}, run_new[2] = {k, k};
        int64_t count_old = old->extent[i], count_new = new->extent[k];
        while (count_old != count_new) {
            if (count_old < count_new)
                count_old *= old->extent[run_old[1] = skip_units(old, run_old[1] + 1)];
            else
                count_new *= new->extent[run_new[1] = skip_units(new, run_new[1] + 1)];
        }
        unite_run(self, from, run_old, at, run_new);
        i = skip_units(old, run_old[1] + 1);
        k = skip_units(new, run_new[1] + 1);
    }
}

/* Elements depend on their place along the op's axis, which must be whole. */
static void mark_along(subgraph *self, const node *at)
{
    class_of(self, at, at->attributes.axis)->whole = true;
}

/* Elements depend on their place along every axis. */
static void mark_all(subgraph *self, const node *at)
{
    for (int i = 0; i < at->outputs[0].shape.rank; ++i)
        class_of(self, at, i)->whole = true;
}

static void fix_data(subgraph *self, const node *at)
{
    if (at->attributes.data != NULL)
        fix_axes(self, at);
}

/* Applies the rule in column `axes` of ops.def. */
static void unite_node(subgraph *self, const node *at)
{
    static void (*const rules[])(subgraph *, const node *) = {
        [AXES_IN_ORDER] = unite_in_order,   [AXES_REDUCED] = unite_reduced,
        [AXES_SCANNED] = unite_scanned,     [AXES_PERMUTED] = unite_permuted,
        [AXES_RESHAPED] = unite_reshaped,   [AXES_MOVED] = unite_moved,
        [AXES_JOINED] = unite_joined,       [AXES_CONTRACTED] = unite_product,
        [AXES_GATHERED] = unite_gathered,   [AXES_SCATTERED] = unite_scattered,
        [AXES_ATTENTION] = unite_attention, [AXES_COUNTED] = mark_along,
        [AXES_UNFOLDED] = unite_unfolded,   [AXES_DRAWN] = mark_all,
        [AXES_CONSTANT] = fix_data,         [AXES_FIXED] = fix_all};
    rules[tuff__op_info(at->op)->axes](self, at);
}

/* Propagates constraints: if the result of a product is fixed or whole, so are its factors, and an axis that is the
   result of two different products is fixed. Returns whether anything changed. */
static bool propagate(subgraph *self, int index)
{
    axis_product *product = &self->products[index];
    axis_state *result = &self->axes[product->result = find_root(self, product->result)];
    bool changed = false;
    for (int i = 0; i < product->count; ++i) {
        axis_state *factor = &self->axes[product->factors[i] = find_root(self, product->factors[i])];
        changed |= (result->fixed && !factor->fixed) || (result->whole && !factor->whole);
        factor->fixed |= result->fixed;
        factor->whole |= result->whole;
    }
    if (result->product < 0)
        result->product = index;
    const axis_product *same = &self->products[result->product];
    bool is_same = same->count == product->count;
    for (int i = 0; i < product->count && is_same; ++i)
        is_same = find_root(self, same->factors[i]) == product->factors[i];
    if (!is_same && !result->fixed)
        changed = result->fixed = true;
    return changed;
}

void tuff__find_axes(subgraph *self)
{
    for (int i = 0; i < self->node_count; ++i)
        for (int k = 0; k < TUFF_MAX_RANK; ++k) {
            const tuff_shape *shape = &self->nodes[i]->outputs[0].shape;
            const int64_t extent = k < shape->rank ? shape->extent[k] : 1;
            self->axes[i * TUFF_MAX_RANK + k] = (axis_state){.parent = i * TUFF_MAX_RANK + k,
                                                             .extent = extent,
                                                             .new_extent = extent,
                                                             .fixed = extent <= 1,
                                                             .product = -1};
        }
    for (int i = 0; i < self->node_count; ++i)
        if (!self->read[i])
            unite_node(self, self->nodes[i]);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < self->product_count; ++i)
            changed |= propagate(self, i);
    }
}
