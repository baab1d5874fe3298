/* Neighbouring parts of a concatenation that lie behind each other in one value, as the gradients of stacked tensors do
   in a slab, are one part: a view of that value, and one copy at most. */
#include "compile/rewrite/simplify.h"

/* Where a slice lies in its source, if its elements are neighbours there: no axis behind the first long one is cut. */
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

static slice_range range_of(tuff_tensor *x)
{
    slice_range found = {.of = x, .count = tuff_shape_count(x->shape)};
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

int tuff__slice_run(tuff_tensor *const *parts, int count, slice_range *out)
{
    int taken = 1;
    *out = range_of(parts[0]);
    for (; taken < count; ++taken) {
        const slice_range next = range_of(parts[taken]);
        if (next.of != out->of || next.begin != out->begin + out->count || next.count == 0)
            break;
        out->count += next.count;
    }
    return taken;
}
