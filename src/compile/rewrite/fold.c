/* Constant folding with the float64 reference: values that depend only on shapes and constants are computed once,
   exactly, on the host, and are the same on every device. */
#include <math.h>
#include <string.h>

#include "compile/rewrite/simplify.h"

#define FOLD_LIMIT (1 << 20) /* bytes of a folded constant */

static double *values_of(const tuff_tensor *x);

/* Computes the elements of a view from those of the value that it views. */
static double *evaluate_view(const tuff_tensor *x)
{
    const tuff_tensor *inner = x->node->inputs[0];
    double *from = values_of(inner);
    const int64_t count = tuff_shape_count(x->shape);
    double *out = tuff__alloc((size_t)(count == 0 ? 1 : count) * sizeof *out);
    const double *inputs[] = {from};
    const evaluation view = {.op = x->node->op,
                             .attributes = &x->node->attributes,
                             .input_count = 1,
                             .input_shapes = &inner->shape,
                             .input_dtypes = &inner->dtype,
                             .inputs = inputs,
                             .dtype = x->dtype,
                             .shape = x->shape,
                             .value = out};
    if (from == NULL || out == NULL || tuff__evaluate(&view) != TUFF_OK) {
        tuff__free(out);
        out = NULL;
    }
    tuff__free(from);
    return out;
}

/* Returns the elements of a constant under views; NULL if memory ran out. */
static double *values_of(const tuff_tensor *x)
{
    if (x->node->op != OP_CONSTANT)
        return evaluate_view(x);
    const int64_t count = tuff_shape_count(x->shape);
    double *out = tuff__alloc((size_t)(count == 0 ? 1 : count) * sizeof *out);
    if (out == NULL)
        return NULL;
    if (x->node->attributes.data != NULL)
        tuff__to_double(x->dtype, x->node->attributes.data, count, out);
    else
        for (int64_t i = 0; i < count; ++i)
            out[i] = x->node->attributes.value;
    return out;
}

static tuff_tensor *make_scalar(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, double value)
{
    const op_attributes attributes = {.value = value};
    tuff_shape ones = shape;
    tuff_tensor *scalar = tuff__share_node(graph, OP_CONSTANT, dtype, TUFF_SCALAR, NULL, 0, &attributes);
    if (shape.rank == 0 || scalar->node == NULL)
        return scalar;
    for (int i = 0; i < shape.rank; ++i)
        ones.extent[i] = 1;
    tuff_tensor *unit = tuff__share_node(graph, OP_RESHAPE, dtype, ones, &scalar, 1, NULL);
    if (unit->node == NULL || tuff_shape_equal(ones, shape))
        return unit;
    return tuff__share_node(graph, OP_EXPAND, dtype, shape, &unit, 1, NULL);
}

/* Rounds a value as ops pass it on: floats to f32. CAST alone rounds to narrower floats, and has already done so. */
static double round_for_ops(tuff_dtype dtype, double value)
{
    return tuff__round_to(tuff__dtype_is_float(dtype) ? TUFF_F32 : dtype, value);
}

/* Whether constants of this dtype can hold the values exactly as ops pass them on. */
static bool are_exact(tuff_dtype dtype, const double *values, int64_t count)
{
    bool exact = true;
    for (int64_t i = 0; i < count && exact; ++i) {
        const double kept = round_for_ops(dtype, values[i]);
        exact = isnan(kept) || tuff__round_to(dtype, kept) == kept;
    }
    return exact;
}

/* Returns a constant with these elements: a scalar seen through views if all are equal, bit for bit. Returns NULL if
   its dtype would round them, or memory ran out. */
static tuff_tensor *make_constant(tuff_graph *graph, tuff_dtype dtype, tuff_shape shape, const double *values)
{
    const int64_t count = tuff_shape_count(shape);
    bool equal = count > 0;
    for (int64_t i = 1; i < count && equal; ++i)
        equal = memcmp(&values[i], &values[0], sizeof *values) == 0;
    if (equal)
        return make_scalar(graph, dtype, shape, round_for_ops(dtype, values[0]));
    if (!are_exact(dtype, values, count))
        return NULL;
    void *data = tuff__arena_alloc(&graph->arena, (size_t)(count == 0 ? 1 : count) * tuff_dtype_size(dtype));
    if (data == NULL)
        return NULL;
    tuff__from_double(dtype, values, count, data);
    const op_attributes attributes = {.data = data};
    return tuff__share_node(graph, OP_CONSTANT, dtype, shape, NULL, 0, &attributes);
}

/* Whether the constant and all views through which it is seen have few elements: folding computes each of them. */
static bool are_small(const tuff_tensor *x)
{
    for (; tuff_shape_count(x->shape) <= FOLD_LIMIT; x = x->node->inputs[0])
        if (!tuff__op_is_view(x->node->op))
            return true;
    return false;
}

static bool can_fold(op_code op, tuff_dtype dtype, tuff_shape shape, tuff_tensor *const *inputs, int input_count)
{
    if (input_count < 1 || input_count > 3 || op == OP_ASSIGN || op == OP_RANDOM || op == OP_CONCAT ||
        tuff__op_is_attention(op))
        return false;
    if (tuff_shape_count(shape) * (int64_t)tuff_dtype_size(dtype) > FOLD_LIMIT)
        return false;
    for (int i = 0; i < input_count; ++i)
        if (tuff__skip_views(inputs[i]->node)->op != OP_CONSTANT || !are_small(inputs[i]))
            return false;
    return true;
}

/* Whether an op is elementwise and all its inputs are scalars seen through views. Its result is one as well, whatever
   its shape. */
static bool all_scalars(op_code op, tuff_tensor *const *inputs, int input_count)
{
    bool scalars = tuff__op_is_elementwise(op) && input_count > 0;
    for (int i = 0; i < input_count && scalars; ++i)
        scalars = tuff__is_scalar_constant(tuff__skip_views(inputs[i]->node));
    return scalars;
}

static tuff_tensor *evaluate_scalars(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape,
                                     tuff_tensor *const *inputs, int input_count, const op_attributes *attributes)
{
    double numbers[3], result;
    const double *operands[3] = {&numbers[0], &numbers[1], &numbers[2]};
    tuff_shape shapes[3] = {{.rank = 0}, {.rank = 0}, {.rank = 0}};
    tuff_dtype dtypes[3];
    for (int i = 0; i < input_count; ++i) {
        numbers[i] = tuff__skip_views(inputs[i]->node)->attributes.value;
        dtypes[i] = inputs[i]->dtype;
    }
    const evaluation scalar = {.op = op,
                               .attributes = attributes,
                               .input_count = input_count,
                               .input_shapes = shapes,
                               .input_dtypes = dtypes,
                               .inputs = operands,
                               .dtype = dtype,
                               .shape = TUFF_SCALAR,
                               .value = &result};
    if (tuff__evaluate(&scalar) != TUFF_OK)
        return NULL;
    return make_scalar(graph, dtype, shape, round_for_ops(dtype, result));
}

tuff_tensor *tuff__fold(tuff_graph *graph, op_code op, tuff_dtype dtype, tuff_shape shape, tuff_tensor *const *inputs,
                        int input_count, const op_attributes *attributes)
{
    if (all_scalars(op, inputs, input_count))
        return evaluate_scalars(graph, op, dtype, shape, inputs, input_count, attributes);
    if (!can_fold(op, dtype, shape, inputs, input_count))
        return NULL;
    double *values[3] = {NULL, NULL, NULL}, *out = NULL;
    tuff_shape shapes[3];
    tuff_dtype dtypes[3];
    bool whole = true;
    for (int i = 0; i < input_count; ++i) {
        values[i] = values_of(inputs[i]);
        whole &= values[i] != NULL;
        shapes[i] = inputs[i]->shape;
        dtypes[i] = inputs[i]->dtype;
    }
    const int64_t count = tuff_shape_count(shape);
    out = tuff__alloc((size_t)(count == 0 ? 1 : count) * sizeof *out);
    const evaluation all = {.op = op,
                            .attributes = attributes,
                            .input_count = input_count,
                            .input_shapes = shapes,
                            .input_dtypes = dtypes,
                            .inputs = (const double *const *)values,
                            .dtype = dtype,
                            .shape = shape,
                            .value = out};
    tuff_tensor *result = NULL;
    if (whole && out != NULL && tuff__evaluate(&all) == TUFF_OK)
        result = make_constant(graph, dtype, shape, out);
    for (int i = 0; i < 3; ++i)
        tuff__free(values[i]);
    tuff__free(out);
    return result;
}
