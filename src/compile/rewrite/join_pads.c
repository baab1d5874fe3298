/* Gradients of neighbouring slices arrive as a sum of padded pieces. If the pieces follow each other and fill the whole
   axis, the sum is their concatenation, into which each piece can be written directly. (-0 + 0 is 0, whereas the piece
   keeps -0. No NaN is lost: each element still comes from one piece.) */
#include "compile/rewrite/simplify.h"

#define MAX_PIECES 8

typedef struct pieces {
    tuff_tensor *pads[MAX_PIECES];
    int count, axis;
} pieces;

/* Returns the only axis along which the pad adds elements; -1 if there is none or more than one, or if it pads with
   values other than 0. */
static int padded_axis(const node *pad)
{
    const tuff_shape *inner = &pad->inputs[0]->shape, *outer = &pad->outputs[0].shape;
    int axis = -1;
    if (pad->attributes.value != 0)
        return -1;
    for (int i = 0; i < outer->rank; ++i)
        if (inner->extent[i] != outer->extent[i]) {
            if (axis >= 0)
                return -1;
            axis = i;
        }
    return axis;
}

static bool collect(tuff_tensor *x, pieces *out)
{
    const node *at = x->node;
    if (at->op == OP_ADD && tuff_shape_equal(at->inputs[0]->shape, x->shape) &&
        tuff_shape_equal(at->inputs[1]->shape, x->shape))
        return collect(at->inputs[0], out) && collect(at->inputs[1], out);
    if (at->op != OP_PAD || out->count == MAX_PIECES)
        return false;
    const int axis = padded_axis(at);
    if (axis < 0 || (out->count > 0 && axis != out->axis))
        return false;
    out->axis = axis;
    out->pads[out->count++] = x;
    return true;
}

static int64_t start_of(const tuff_tensor *pad, int axis)
{
    return pad->node->attributes.start[axis];
}

static int64_t end_of(const tuff_tensor *pad, int axis)
{
    return start_of(pad, axis) + pad->node->inputs[0]->shape.extent[axis];
}

static void sort(pieces *found)
{
    for (int i = 1; i < found->count; ++i)
        for (int k = i; k > 0 && start_of(found->pads[k], found->axis) < start_of(found->pads[k - 1], found->axis);
             --k) {
            tuff_tensor *earlier = found->pads[k];
            found->pads[k] = found->pads[k - 1];
            found->pads[k - 1] = earlier;
        }
}

int tuff__join_pads(tuff_tensor *x, tuff_tensor *y, tuff_tensor **parts, int *axis)
{
    pieces found = {.count = 0};
    if (!tuff_shape_equal(x->shape, y->shape) || !collect(x, &found) || !collect(y, &found))
        return 0;
    sort(&found);
    int64_t end = 0;
    for (int i = 0; i < found.count; ++i) {
        if (start_of(found.pads[i], found.axis) != end)
            return 0;
        end = end_of(found.pads[i], found.axis);
        parts[i] = found.pads[i]->node->inputs[0];
    }
    *axis = found.axis;
    return end == x->shape.extent[found.axis] ? found.count : 0;
}
