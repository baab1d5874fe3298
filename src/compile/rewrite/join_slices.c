/* Neighbouring parts of a concatenation that follow each other in one value (as the gradients of stacked tensors in a
   slab do) or in one storage (as parameters do) become one part: a view of that value or of an array over the storage,
   which costs one copy at most. */
#include "compile/rewrite/simplify.h"
#include "device/device.h"

/* Whether the elements of a slice are contiguous in its source; *begin is then the index of the first one. After the
   first axis that is longer than 1, no axis may be cut. */
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

static slice_range find_range(tuff_tensor *x)
{
    slice_range found = {.source = x, .count = tuff_shape_count(x->shape)};
    int64_t begin;
    for (;;) {
        const node *at = found.source->node;
        if (at->op == OP_SLICE && is_block(at, &begin))
            found.begin += begin;
        else if (at->op != OP_RESHAPE)
            return found;
        found.source = at->inputs[0];
    }
}

/* Whether `next` begins where a range of arrays ends. The range may begin after its first array's first element, but
   must end with the last element of its last array. */
static bool continues_range(const slice_range *range, const slice_range *next)
{
    const node *first = range->source->node, *other = next->source->node;
    if (next->source == range->source)
        return next->begin == range->begin + range->count;
    if (first->op != OP_ARRAY || other->op != OP_ARRAY || next->begin != 0)
        return false;
    const tuff_array *a = first->attributes.array, *b = other->attributes.array;
    const int64_t end = range->begin + range->count, size = (int64_t)tuff_dtype_size(a->dtype);
    return a->storage == b->storage && a->dtype == b->dtype && end >= tuff_shape_count(a->shape) &&
           b->offset == a->offset + (uint64_t)(end * size) && end + next->count <= INT32_MAX / 8 &&
           (uint64_t)((end + next->count) * size) <= tuff__device_info(a->device)->max_binding;
}

int tuff__slice_run(tuff_tensor *const *parts, int count, slice_range *out)
{
    int taken = 1;
    *out = find_range(parts[0]);
    for (; taken < count; ++taken) {
        const slice_range next = find_range(parts[taken]);
        if (next.count == 0 || !continues_range(out, &next))
            break;
        out->count += next.count;
    }
    return taken;
}
