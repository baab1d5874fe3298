/* The arithmetic of strided views, with NumPy's rules for which reshapes need no copy. */
#include "compile/rewrite/view.h"

#include <string.h>

tuff_shape tuff__shape_cut(tuff_shape shape, int axis, int64_t pieces, int64_t terms)
{
    for (int i = shape.rank++; i > axis + 1; --i)
        shape.extent[i] = shape.extent[i - 1];
    shape.extent[axis] = pieces;
    shape.extent[axis + 1] = terms;
    return shape;
}

int tuff__innermost_axis(tuff_shape shape)
{
    int axis = shape.rank - 1;
    while (axis >= 0 && shape.extent[axis] == 1)
        --axis;
    return axis;
}

view tuff__view_contiguous(tuff_shape shape)
{
    view result = {.rank = shape.rank};
    int64_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; --i) {
        result.extent[i] = shape.extent[i];
        result.stride[i] = stride;
        stride *= shape.extent[i];
    }
    return result;
}

view tuff__view_ordered(tuff_shape shape, const int *order)
{
    view result = tuff__view_contiguous(shape);
    int64_t stride = 1;
    for (int i = shape.rank - 1; i >= 0; --i) {
        result.stride[order[i]] = stride;
        stride *= shape.extent[order[i]];
    }
    return result;
}

/* Splits one run of old axes, whose innermost stride is given, into the new axes first .. last, from the innermost
   out. */
static void split_run(const tuff_shape *shape, int first, int last, int64_t stride, view *out)
{
    for (int i = last; i >= first; --i) {
        out->stride[i] = stride;
        stride *= shape->extent[i];
    }
}

/* Whether the axes first .. last follow each other in memory as a single axis would. */
static bool is_run(const view *axes, int first, int last)
{
    for (int i = first; i < last; ++i)
        if (axes->stride[i] != axes->stride[i + 1] * axes->extent[i + 1])
            return false;
    return true;
}

/* Returns a view without its axes of extent 1. */
static view without_units(const view *old)
{
    view result = {.rank = 0, .offset = old->offset};
    for (int i = 0; i < old->rank; ++i) {
        if (old->extent[i] == 1)
            continue;
        result.extent[result.rank] = old->extent[i];
        result.stride[result.rank++] = old->stride[i];
    }
    return result;
}

static bool reshape(view *layout, const tuff_shape *shape)
{
    view out = {.rank = shape->rank, .offset = layout->offset};
    memcpy(out.extent, shape->extent, sizeof out.extent);
    const view old = without_units(layout);
    for (int i = 0; i < layout->rank; ++i)
        if (layout->extent[i] == 0) {
            *layout = tuff__view_contiguous(*shape);
            return true;
        }
    int old_first = 0, new_first = 0;
    while (old_first < old.rank) {
        while (new_first < shape->rank && shape->extent[new_first] == 1)
            out.stride[new_first++] = 0;
        int old_last = old_first, new_last = new_first;
        int64_t old_count = old.extent[old_last], new_count = shape->extent[new_last];
        while (old_count != new_count) {
            if (old_count < new_count)
                old_count *= old.extent[++old_last];
            else
                new_count *= shape->extent[++new_last];
        }
        if (!is_run(&old, old_first, old_last))
            return false;
        split_run(shape, new_first, new_last, old.stride[old_last], &out);
        old_first = old_last + 1;
        new_first = new_last + 1;
    }
    *layout = out;
    return true;
}

/* Splits one axis into windows and the elements of a window. */
static void unfold(view *layout, const path *step)
{
    const view old = *layout;
    layout->rank = step->shape.rank;
    for (int i = 0; i < step->shape.rank; ++i) {
        layout->extent[i] = step->shape.extent[i];
        layout->stride[i] = old.stride[i <= step->axis ? i : i - 1];
    }
    layout->stride[step->axis] *= step->step[0];
    layout->stride[step->axis + 1] *= step->step[1];
}

bool tuff__view_apply(view *layout, const path *step)
{
    if (step->kind == STEP_RESHAPE)
        return reshape(layout, &step->shape);
    if (step->kind == STEP_UNFOLD) {
        unfold(layout, step);
        return true;
    }
    view out = {.rank = step->shape.rank, .offset = layout->offset};
    for (int i = 0; i < out.rank; ++i) {
        out.extent[i] = step->shape.extent[i];
        switch (step->kind) {
        case STEP_PERMUTE:
            out.stride[i] = layout->stride[step->order[i]];
            break;
        case STEP_EXPAND:
            out.stride[i] = layout->extent[i] == out.extent[i] ? layout->stride[i] : 0;
            break;
        case STEP_SLICE:
            out.stride[i] = layout->stride[i] * step->step[i];
            out.offset += layout->stride[i] * step->start[i];
            break;
        default:
            out.stride[i] = layout->stride[i];
            out.offset -= layout->stride[i] * step->start[i];
        }
    }
    *layout = out;
    return true;
}

bool tuff__view_along(view *layout, const path *inner, const path **failed)
{
    for (const path *step = inner; step != NULL; step = step->outer)
        if (!tuff__view_apply(layout, step)) {
            if (failed != NULL)
                *failed = step;
            return false;
        }
    return true;
}

int64_t tuff__view_span(const view *layout)
{
    int64_t last = 0;
    for (int i = 0; i < layout->rank; ++i) {
        if (layout->extent[i] == 0)
            return 0;
        last += (layout->extent[i] - 1) * layout->stride[i];
    }
    return last + 1;
}

bool tuff__view_equal(const view *a, const view *b)
{
    if (a->rank != b->rank || a->offset != b->offset)
        return false;
    for (int i = 0; i < a->rank; ++i)
        if (a->extent[i] != b->extent[i] || (a->extent[i] > 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

path tuff__path_reshape(tuff_shape shape, const path *outer)
{
    return (path){.kind = STEP_RESHAPE, .shape = shape, .outer = outer};
}

path tuff__path_of(const node *movement, const path *outer)
{
    static const step_kind kinds[OP_COUNT] = {
        [OP_RESHAPE] = STEP_RESHAPE, [OP_PERMUTE] = STEP_PERMUTE, [OP_EXPAND] = STEP_EXPAND,
        [OP_SLICE] = STEP_SLICE,     [OP_PAD] = STEP_PAD,         [OP_UNFOLD] = STEP_UNFOLD};
    path step = {.kind = kinds[movement->op], .shape = movement->outputs[0].shape, .outer = outer};
    step.source = movement->inputs[0]->node;
    step.axis = movement->attributes.axis;
    memcpy(step.order, movement->attributes.order, sizeof step.order);
    memcpy(step.start, movement->attributes.start, sizeof step.start);
    memcpy(step.step, movement->attributes.step, sizeof step.step);
    return step;
}

path tuff__path_of_part(const node *concat, int index, const path *outer)
{
    path step = {.kind = STEP_PAD, .shape = concat->outputs[0].shape, .outer = outer};
    step.source = concat->inputs[index]->node;
    for (int i = 0; i < index; ++i)
        step.start[concat->attributes.axis] += concat->inputs[i]->shape.extent[concat->attributes.axis];
    return step;
}
