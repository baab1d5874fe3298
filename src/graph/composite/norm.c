/* Composites of layers: normalization, linear maps, embeddings, gathering and scattering of whole slices by a list of
   indices. Each is shaped to compile to few kernels: a norm is one row kernel with its gain and bias, a linear map one
   matmul whose epilogue adds the bias. */
#include <math.h>

#include "graph/builder.h"
#include "tuff/nn.h"

/* Sets axes to the last `trailing` axes of x. */
static bool get_trailing_axes(const char *op, const tuff_tensor *x, int trailing, int *axes)
{
    if (trailing < 1 || trailing > x->shape.rank) {
        tuff__graph_fail(x->graph, TUFF_E_SHAPE, "%s: %s has no %d trailing axes", op, SHAPE_TEXT(x->shape), trailing);
        return false;
    }
    for (int i = 0; i < trailing; i++)
        axes[i] = x->shape.rank - trailing + i;
    return true;
}

/* Whether a gain or bias is NULL or has the shape of x's trailing axes. */
static bool has_trailing_shape(const char *op, const char *role, tuff_tensor *x, tuff_tensor *operand, int trailing)
{
    tuff_tensor *failure;
    if (!operand)
        return true;
    if (!tuff__check_operands(op, (tuff_tensor *[]){x, operand}, 2, &failure))
        return false;
    bool fits = operand->shape.rank == trailing;
    for (int i = 0; fits && i < trailing; i++)
        fits = operand->shape.extent[i] == x->shape.extent[x->shape.rank - trailing + i];
    if (!fits)
        tuff__graph_fail(x->graph, TUFF_E_SHAPE, "%s: %s: the %s %s does not match the shape of the last %d axes", op,
                         SHAPE_TEXT(x->shape), role, SHAPE_TEXT(operand->shape), trailing);
    return fits;
}

/* Returns x / sqrt(mean of squares + eps) over axes. */
static tuff_tensor *divide_by_root_mean_square(tuff_tensor *x, const int *axes, int count, double eps)
{
    tuff_tensor *square = tuff_mean(tuff_mul(x, x), axes, count, true);
    return tuff_mul(x, tuff_rsqrt(tuff__shift(square, eps)));
}

/* Subtracts the mean before squaring: E[x²] - E[x]², which takes one pass, would cancel. */
static tuff_tensor *normalise(tuff_tensor *x, const int *axes, int count, double eps)
{
    return divide_by_root_mean_square(tuff_sub(x, tuff_mean(x, axes, count, true)), axes, count, eps);
}

/* Gain and bias broadcast along the leading axes. Either may be NULL. */
static tuff_tensor *scale_and_shift(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias)
{
    if (gain)
        x = tuff_mul(x, gain);
    return bias ? tuff_add(x, bias) : x;
}

/* Checks everything before building, so that an error names layer_norm and not one of its parts. */
tuff_tensor *tuff_layer_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, int trailing, double eps)
{
    int axes[TUFF_MAX_RANK];
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("layer_norm", &x, 1, &failure);
    if (!graph || !get_trailing_axes("layer_norm", x, trailing, axes) ||
        !has_trailing_shape("layer_norm", "gain", x, gain, trailing) ||
        !has_trailing_shape("layer_norm", "bias", x, bias, trailing))
        return failure;
    return scale_and_shift(normalise(x, axes, trailing, eps), gain, bias);
}

tuff_tensor *tuff_rms_norm(tuff_tensor *x, tuff_tensor *gain, int trailing, double eps)
{
    int axes[TUFF_MAX_RANK];
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("rms_norm", &x, 1, &failure);
    if (!graph || !get_trailing_axes("rms_norm", x, trailing, axes) ||
        !has_trailing_shape("rms_norm", "gain", x, gain, trailing))
        return failure;
    return scale_and_shift(divide_by_root_mean_square(x, axes, trailing, eps), gain, NULL);
}

/* Returns a list [M] as [1,..,M,..,1] with rank axes, with M at axis. NULL stays NULL. */
static tuff_tensor *reshape_along_axis(tuff_tensor *list, int axis, int rank)
{
    tuff_shape shape = {.rank = rank};
    if (!list)
        return NULL;
    for (int i = 0; i < rank; i++)
        shape.extent[i] = i == axis ? list->shape.extent[0] : 1;
    return tuff_reshape(list, shape);
}

/* Whether a gain or bias is NULL or has one number for each channel of x (axis 1). */
static bool has_channels(tuff_tensor *x, const char *role, tuff_tensor *operand)
{
    tuff_tensor *failure;
    if (!operand)
        return true;
    if (!tuff__check_operands("group_norm", (tuff_tensor *[]){x, operand}, 2, &failure))
        return false;
    if (operand->shape.rank == 1 && operand->shape.extent[0] == x->shape.extent[1])
        return true;
    tuff__graph_fail(x->graph, TUFF_E_SHAPE, "group_norm: %s: the %s %s must have one element for each channel",
                     SHAPE_TEXT(x->shape), role, SHAPE_TEXT(operand->shape));
    return false;
}

/* The channels of a group are adjacent, so a reshape makes each group one row. */
tuff_tensor *tuff_group_norm(tuff_tensor *x, tuff_tensor *gain, tuff_tensor *bias, int groups, double eps)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("group_norm", &x, 1, &failure);
    if (!graph)
        return failure;
    if (x->shape.rank < 2 || groups < 1 || x->shape.extent[1] % groups)
        return tuff__graph_fail(graph, TUFF_E_SHAPE,
                                "group_norm: %s: the channels (axis 1) cannot be divided into %d groups",
                                SHAPE_TEXT(x->shape), groups);
    if (!has_channels(x, "gain", gain) || !has_channels(x, "bias", bias))
        return &graph->failed;
    const int64_t each = x->shape.extent[1] / groups * tuff__count_axes(x->shape, 2, x->shape.rank);
    tuff_tensor *grouped = tuff_reshape(x, TUFF_SHAPE(x->shape.extent[0], groups, each));
    tuff_tensor *normalised = tuff_reshape(normalise(grouped, (int[]){2}, 1, eps), x->shape);
    const int rank = x->shape.rank;
    return scale_and_shift(normalised, reshape_along_axis(gain, 1, rank), reshape_along_axis(bias, 1, rank));
}

/* Merges leading axes around product and bias, so that both are one task over one matrix. */
tuff_tensor *tuff_linear(tuff_tensor *x, tuff_tensor *weight, tuff_tensor *bias)
{
    tuff_tensor *operands[3] = {x, weight, bias}, *failure;
    tuff_graph *graph = tuff__check_operands("linear", operands, bias ? 3 : 2, &failure);
    if (!graph)
        return failure;
    const int rank = x->shape.rank;
    if (rank < 1 || weight->shape.rank != 2 || x->shape.extent[rank - 1] != weight->shape.extent[0])
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "linear: %s x %s: expected [..., in] x [in, out]",
                                SHAPE_TEXT(x->shape), SHAPE_TEXT(weight->shape));
    if (bias && (bias->shape.rank != 1 || bias->shape.extent[0] != weight->shape.extent[1]))
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "linear: %s x %s: the bias %s must be [out]", SHAPE_TEXT(x->shape),
                                SHAPE_TEXT(weight->shape), SHAPE_TEXT(bias->shape));
    const int64_t rows = tuff__count_axes(x->shape, 0, rank - 1);
    tuff_tensor *product = tuff_matmul(tuff_reshape(x, TUFF_SHAPE(rows, weight->shape.extent[0])), weight);
    return tuff_reshape(bias ? tuff_add(product, bias) : product,
                        tuff__with_extent(x->shape, rank - 1, weight->shape.extent[1]));
}

/* Whether indices is a list: i32 of rank 1. */
static bool is_list(const char *op, const tuff_tensor *x, const tuff_tensor *indices)
{
    if (indices->dtype == TUFF_I32 && indices->shape.rank == 1)
        return true;
    tuff__graph_fail(x->graph, indices->dtype != TUFF_I32 ? TUFF_E_DTYPE : TUFF_E_SHAPE,
                     "%s: %s by %s %s: indices must be i32 with one axis", op, SHAPE_TEXT(x->shape),
                     tuff_dtype_name(indices->dtype), SHAPE_TEXT(indices->shape));
    return false;
}

/* The list broadcasts along all other axes of x. */
tuff_tensor *tuff_gather_rows(tuff_tensor *x, tuff_tensor *indices, int axis)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("gather_rows", (tuff_tensor *[]){x, indices}, 2, &failure);
    if (!graph || !is_list("gather_rows", x, indices) || !tuff__resolve_axis("gather_rows", x, axis, &axis))
        return failure;
    return tuff_gather(x, reshape_along_axis(indices, axis, x->shape.rank), axis);
}

tuff_tensor *tuff_scatter_add_rows(tuff_tensor *x, tuff_tensor *indices, tuff_tensor *source, int axis)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("scatter_add_rows", (tuff_tensor *[]){x, indices, source}, 3, &failure);
    if (!graph || !is_list("scatter_add_rows", x, indices) || !tuff__resolve_axis("scatter_add_rows", x, axis, &axis))
        return failure;
    return tuff_scatter_add(x, reshape_along_axis(indices, axis, x->shape.rank), source, axis);
}

/* Gathers by one flat list of rows, whatever the shape of the indices. */
tuff_tensor *tuff_embedding(tuff_tensor *table, tuff_tensor *indices)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("embedding", (tuff_tensor *[]){table, indices}, 2, &failure);
    if (!graph)
        return failure;
    if (table->shape.rank != 2 || indices->shape.rank >= TUFF_MAX_RANK)
        return tuff__graph_fail(graph, TUFF_E_SHAPE,
                                "embedding: %s by %s: expected a table [V, C] and indices of rank < %d",
                                SHAPE_TEXT(table->shape), SHAPE_TEXT(indices->shape), TUFF_MAX_RANK);
    tuff_shape shape = indices->shape;
    shape.extent[shape.rank++] = table->shape.extent[1];
    tuff_tensor *list = tuff_reshape(indices, TUFF_SHAPE(tuff_shape_count(indices->shape)));
    return tuff_reshape(tuff_gather_rows(table, list, 0), shape);
}
