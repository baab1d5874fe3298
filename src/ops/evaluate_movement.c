/* Movement in the float64 reference: views, padding and concatenation iterate over two layouts at once; gather and
   scatter compute the position of each element. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/evaluate.h"

layout tuff__row_major(tuff_shape shape)
{
    layout result = {0};
    int64_t stride = 1;
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        result.stride[axis] = stride;
        stride *= shape.extent[axis];
    }
    return result;
}

/* Counts like an odometer over all axes but the last; the positions move along, so that no index is multiplied out. */
void tuff__for_each_run(tuff_shape shape, const layout *a, const layout *b, run_visitor visit, void *user)
{
    int64_t index[TUFF_MAX_RANK] = {0}, place_a = a->offset, place_b = b->offset;
    const int last = shape.rank - 1;
    if (tuff_shape_count(shape) == 0)
        return;
    if (last < 0) {
        visit(user, place_a, place_b, 1, 0, 0);
        return;
    }
    for (;;) {
        visit(user, place_a, place_b, shape.extent[last], a->stride[last], b->stride[last]);
        int axis = last - 1;
        for (; axis >= 0; axis--) {
            place_a += a->stride[axis];
            place_b += b->stride[axis];
            if (++index[axis] < shape.extent[axis])
                break;
            place_a -= a->stride[axis] * shape.extent[axis];
            place_b -= b->stride[axis] * shape.extent[axis];
            index[axis] = 0;
        }
        if (axis < 0)
            return;
    }
}

/* The state of copy_run. */
typedef struct copy_context {
    const double *from;
    double *to;
} copy_context;

/* Contiguous runs, which are most of a model's movement, use memcpy. */
static void copy_run(void *user, int64_t a, int64_t b, int64_t count, int64_t step_a, int64_t step_b)
{
    const copy_context *copy = user;
    const double *from = copy->from + a;
    double *to = copy->to + b;
    if (step_a == 1 && step_b == 1) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i * step_b] = from[i * step_a];
}

/* Copies values and, if requested, errors. */
static void copy_elements(const evaluation *e, int input, tuff_shape shape, const layout *from, const layout *to)
{
    tuff__for_each_run(shape, from, to, copy_run, &(copy_context){e->inputs[input], e->value});
    if (e->error)
        tuff__for_each_run(shape, from, to, copy_run, &(copy_context){e->input_errors[input], e->error});
}

/* Copies each part into the result, further along the axis. */
tuff_status tuff__evaluate_concat(const evaluation *e, int64_t count)
{
    (void)count;
    layout to = tuff__row_major(e->shape);
    for (int input = 0; input < e->input_count; input++) {
        layout from = tuff__row_major(e->input_shapes[input]);
        copy_elements(e, input, e->input_shapes[input], &from, &to);
        to.offset += e->input_shapes[input].extent[e->attributes->axis] * to.stride[e->attributes->axis];
    }
    return TUFF_OK;
}

/* Writes the fill first, then the input over it. */
tuff_status tuff__evaluate_pad(const evaluation *e, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        e->value[i] = e->attributes->value;
    for (int64_t i = 0; e->error && i < count; i++)
        e->error[i] = 0;
    layout from = tuff__row_major(e->input_shapes[0]), to = tuff__row_major(e->shape);
    for (int axis = 0; axis < e->shape.rank; axis++)
        to.offset += e->attributes->start[axis] * to.stride[axis];
    copy_elements(e, 0, e->input_shapes[0], &from, &to);
    return TUFF_OK;
}

/* Splits one axis into two: between windows, and within a window. */
static layout windows_layout(const evaluation *e, const layout *input)
{
    layout result = *input;
    const int along = e->attributes->axis;
    for (int axis = along + 1; axis < e->shape.rank; axis++)
        result.stride[axis] = input->stride[axis - 1];
    result.stride[along] *= e->attributes->step[0];
    result.stride[along + 1] *= e->attributes->step[1];
    return result;
}

/* Returns the layout of a view's result in terms of its input's elements. */
static layout view_layout(const evaluation *e)
{
    const layout input = tuff__row_major(e->op == OP_RESHAPE ? e->shape : e->input_shapes[0]);
    layout result = input;
    if (e->op == OP_UNFOLD)
        return windows_layout(e, &input);
    for (int axis = 0; axis < e->shape.rank; axis++) {
        if (e->op == OP_PERMUTE)
            result.stride[axis] = input.stride[e->attributes->order[axis]];
        else if (e->op == OP_EXPAND && e->input_shapes[0].extent[axis] != e->shape.extent[axis])
            result.stride[axis] = 0;
        else if (e->op == OP_SLICE) {
            result.offset += e->attributes->start[axis] * input.stride[axis];
            result.stride[axis] = e->attributes->step[axis] * input.stride[axis];
        }
    }
    return result;
}

tuff_status tuff__evaluate_view(const evaluation *e, int64_t count)
{
    (void)count;
    layout from = view_layout(e), to = tuff__row_major(e->shape);
    copy_elements(e, 0, e->shape, &from, &to);
    return TUFF_OK;
}

/* Returns the position in x of element i of shape, with index along axis; -1 if index is out of range. */
static int64_t indexed_place(tuff_shape shape, tuff_shape x, int axis, int64_t i, double index)
{
    const int64_t inner = tuff__count_axes(shape, axis + 1, shape.rank);
    if (!(index >= 0 && index < (double)x.extent[axis]))
        return -1;
    int64_t outer = i / (inner * shape.extent[axis]);
    return (outer * x.extent[axis] + (int64_t)index) * inner + i % inner;
}

/* Indices are doubles here; an index outside of the axis, or NaN, gathers the value that tuff/ops.h specifies. */
tuff_status tuff__evaluate_gather(const evaluation *e, int64_t count)
{
    const double outside = tuff__dtype_is_float(e->dtype) ? NAN : 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t place = indexed_place(e->shape, e->input_shapes[0], e->attributes->axis, i, e->inputs[1][i]);
        e->value[i] = place < 0 ? outside : e->inputs[0][place];
        if (e->error)
            e->error[i] = place < 0 ? 0 : e->input_errors[0][place];
    }
    return TUFF_OK;
}

/* Adds every term's magnitude and error to its element and counts the terms, for the bound. */
static void scatter_bounds(const evaluation *e, double *magnitude, double *terms, int64_t source_count)
{
    for (int64_t i = 0; i < source_count; i++) {
        int64_t place = indexed_place(e->input_shapes[1], e->shape, e->attributes->axis, i, e->inputs[1][i]);
        if (place < 0)
            continue;
        magnitude[place] += fabs(e->inputs[2][i]);
        e->error[place] += e->input_errors[2][i];
        terms[place] += 1;
    }
}

/* Adds in index order, as kernels must; the bound counts the terms added to each element. */
tuff_status tuff__evaluate_scatter_add(const evaluation *e, int64_t count)
{
    const int64_t source_count = tuff_shape_count(e->input_shapes[1]);
    memcpy(e->value, e->inputs[0], (size_t)count * sizeof *e->value);
    for (int64_t i = 0; i < source_count; i++) {
        int64_t place = indexed_place(e->input_shapes[1], e->shape, e->attributes->axis, i, e->inputs[1][i]);
        if (place >= 0)
            e->value[place] = tuff__wrap(e->dtype, e->value[place] + e->inputs[2][i]);
    }
    if (!e->error)
        return TUFF_OK;
    double *magnitude = tuff__calloc((size_t)count * 2, sizeof *magnitude);
    if (!magnitude)
        return TUFF_E_OOM_HOST;
    memcpy(e->error, e->input_errors[0], (size_t)count * sizeof *e->error);
    scatter_bounds(e, magnitude, magnitude + count, source_count);
    for (int64_t i = 0; i < count; i++)
        if (magnitude[count + i] > 0)
            e->error[i] += tuff__dtype_is_float(e->dtype)
                               ? tuff__gamma(magnitude[count + i]) * (magnitude[i] + fabs(e->inputs[0][i]))
                               : 0;
    tuff__free(magnitude);
    return TUFF_OK;
}
