/* Neighbouring parts of a concatenation that lie behind each other in one value, as the gradients of stacked tensors do
   in a slab, are one part: a view of that value, and one copy at most. */
#include "compile/rewrite/simplify.h"

/* count elements of a value in row-major order, from `begin` on. */
typedef struct range {
    tuff_tensor *of;
    int64_t begin, count;
} range;

/* Where a slice lies in its source, if its elements are neighbours there: no axis behind the first longer one is
   cut. */
static bool is_block(const node *slice, int64_t *begin)
{
    const tuff_shape *inner = &slice->inputs[0]->shape, *outer = &slice->outputs[0].shape;
    int64_t stride = 1;
    bool is_whole = true;
    *begin = 0;
    for (int i = outer->rank - 1; i >= 0; --i) {
        if ((outer->extent[i] != 1 && slice->attributes.step[i] != 1) || (outer->extent[i] != 1 && !is_whole))
            return false;
        *begin += slice->attributes.start[i] * stride;
        stride *= inner->extent[i];
        is_whole = is_whole && outer->extent[i] == inner->extent[i];
    }
    return true;
}

static range range_of(tuff_tensor *x)
{
    range found = {.of = x, .count = tuff_shape_count(x->shape)};
    int64_t begin;
    for (;;) {
        const node *at = found.of->node;
        if (at->op == OP_SLICE && is_block(at, &begin))
            found.begin += begin;
        else if (at->op != OP_RESHAPE)
            return found;
        found.of = at->inputs[0];
    }
}

/* The range in the shape of a part. */
static tuff_tensor *view_of(tuff_graph *graph, const range *found, tuff_shape shape)
{
    const int64_t all = tuff_shape_count(found->of->shape);
    tuff_tensor *x = found->of;
    if (found->count != all) {
        const op_attributes attributes = {.start = {found->begin}, .step = {1}};
        x = tuff__share_node(graph, OP_RESHAPE, x->dtype, TUFF_SHAPE(all), &x, 1, NULL);
        x = tuff__share_node(graph, OP_SLICE, x->dtype, TUFF_SHAPE(found->count), &x, 1, &attributes);
    }
    return tuff__share_node(graph, OP_RESHAPE, x->dtype, shape, &x, 1, NULL);
}

int tuff__join_slices(tuff_graph *graph, tuff_tensor **parts, int count, int axis)
{
    int kept = 0;
    for (int i = 0; i < axis; ++i)
        if (parts[0]->shape.extent[i] != 1)
            return count;
    for (int i = 0; i < count; ++kept) {
        const int first = i;
        range joined = range_of(parts[i]);
        tuff_shape shape = parts[i]->shape;
        for (++i; i < count; ++i) {
            const range next = range_of(parts[i]);
            if (next.of != joined.of || next.begin != joined.begin + joined.count || next.count == 0)
                break;
            joined.count += next.count;
            shape.extent[axis] += parts[i]->shape.extent[axis];
        }
        parts[kept] = i == first + 1 ? parts[first] : view_of(graph, &joined, shape);
        if (parts[kept]->node == NULL) {
            parts[0] = parts[kept];
            return 1;
        }
    }
    return kept;
}
