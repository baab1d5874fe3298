/* Builders of matmul, and of gather and scatter_add, which address elements by data. NumPy's general forms (vectors,
   shared matrices, broadcast batches) are reduced here to the only form that nodes, kernels and gradients have:
   operands of equal rank with equal batch axes. */
#include "graph/builder.h"

/* Makes a vector a matrix: a row for the left operand, a column for the right one. */
static tuff_tensor *promote(tuff_tensor *x, bool as_row)
{
    if (!tuff__is_valid(x) || x->shape.rank != 1)
        return x;
    const int64_t extent = x->shape.extent[0];
    return tuff_reshape(x, as_row ? TUFF_SHAPE(1, extent) : TUFF_SHAPE(extent, 1));
}

/* Returns shape with its last two extents replaced. */
static tuff_shape matrix_shape(tuff_shape leading, int64_t rows, int64_t columns)
{
    leading.extent[leading.rank - 2] = rows;
    leading.extent[leading.rank - 1] = columns;
    return leading;
}

/* Merges the leading axes of x into the rows of one matrix, so that y, shared by all of them, stays one matrix and its
   gradient is one product. */
static tuff_tensor *multiply_shared(tuff_tensor *x, tuff_tensor *y)
{
    const int rank = x->shape.rank;
    const tuff_shape shape = tuff__with_extent(x->shape, rank - 1, y->shape.extent[1]);
    const int64_t inner = x->shape.extent[rank - 1];
    const int64_t rows = tuff_shape_count(x->shape) / inner;
    return tuff_reshape(tuff_matmul(tuff_reshape(x, TUFF_SHAPE(rows, inner)), y), shape);
}

/* Expands all batch axes; the gradient of EXPAND sums over the shared ones. */
static tuff_tensor *multiply_batches(tuff_tensor *x, tuff_tensor *y, tuff_shape shape)
{
    const int64_t rows = shape.extent[shape.rank - 2], columns = shape.extent[shape.rank - 1];
    const int64_t inner = x->shape.extent[x->shape.rank - 1];
    tuff_tensor *operands[2] = {tuff__expand_to(x, matrix_shape(shape, rows, inner)),
                                tuff__expand_to(y, matrix_shape(shape, inner, columns))};
    if (!tuff__is_valid(operands[0]) || !tuff__is_valid(operands[1]))
        return &x->graph->failed;
    return tuff__node_create(x->graph, OP_MATMUL, x->dtype, shape, operands, 2, NULL);
}

/* A product over no terms or with an empty result becomes a constant, so that kernels never see an empty matrix. */
static tuff_tensor *multiply(tuff_tensor *x, tuff_tensor *y)
{
    tuff_graph *graph = x->graph;
    const int x_rank = x->shape.rank, y_rank = y->shape.rank;
    const int64_t rows = x->shape.extent[x_rank - 2], inner = x->shape.extent[x_rank - 1];
    const int64_t columns = y->shape.extent[y_rank - 1];
    tuff_shape shape;
    if (inner != y->shape.extent[y_rank - 2])
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "matmul: %s x %s: inner extents %lld and %lld differ",
                                SHAPE_TEXT(x->shape), SHAPE_TEXT(y->shape), (long long)inner,
                                (long long)y->shape.extent[y_rank - 2]);
    if (!tuff__broadcast(matrix_shape(x->shape, 1, 1), matrix_shape(y->shape, 1, 1), &shape))
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "matmul: %s x %s: leading axes do not broadcast",
                                SHAPE_TEXT(x->shape), SHAPE_TEXT(y->shape));
    shape = matrix_shape(shape, rows, columns);
    const bool is_shared = x_rank > 2 && y_rank == 2;
    if (!tuff__shape_is_legal(graph, "matmul", shape) ||
        !tuff__shape_is_legal(graph, "matmul", matrix_shape(shape, rows, inner)) ||
        (!is_shared && !tuff__shape_is_legal(graph, "matmul", matrix_shape(shape, inner, columns))))
        return &graph->failed;
    if (inner == 0 || tuff_shape_count(shape) == 0)
        return tuff__full(graph, x->dtype, shape, 0);
    return is_shared ? multiply_shared(x, y) : multiply_batches(x, y, shape);
}

/* Removes the axes that `promote` added for vectors. */
static tuff_tensor *demote(tuff_tensor *product, bool x_was_vector, bool y_was_vector)
{
    if (!tuff__is_valid(product) || (!x_was_vector && !y_was_vector))
        return product;
    const uint32_t mask = ((uint32_t)x_was_vector | (uint32_t)y_was_vector << 1) << (product->shape.rank - 2);
    return tuff_reshape(product, tuff__without_axes(product->shape, mask));
}

/* A vector is promoted to a matrix with one row or one column; that axis is removed from the result. */
tuff_tensor *tuff_matmul(tuff_tensor *x, tuff_tensor *y)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("matmul", (tuff_tensor *[]){x, y}, 2, &failure);
    if (!graph)
        return failure;
    if (x->dtype != y->dtype || !tuff__dtype_is_float(x->dtype))
        return tuff__graph_fail(
            graph, TUFF_E_DTYPE, "matmul: %s %s x %s %s: expected the same dtype for both: f32, f16 or bf16",
            tuff_dtype_name(x->dtype), SHAPE_TEXT(x->shape), tuff_dtype_name(y->dtype), SHAPE_TEXT(y->shape));
    if (x->shape.rank == 0 || y->shape.rank == 0)
        return tuff__graph_fail(graph, TUFF_E_SHAPE, "matmul: %s x %s: a scalar has no inner axis",
                                SHAPE_TEXT(x->shape), SHAPE_TEXT(y->shape));
    tuff_tensor *left = promote(x, true), *right = promote(y, false);
    if (!tuff__is_valid(left) || !tuff__is_valid(right))
        return &graph->failed;
    return demote(multiply(left, right), x->shape.rank == 1, y->shape.rank == 1);
}

/* Makes the checks that gather and scatter_add share. Afterwards *axis is counted from the front. */
static bool indices_fit(const char *op, const tuff_tensor *x, const tuff_tensor *indices, int *axis)
{
    if (indices->dtype != TUFF_I32) {
        tuff__graph_fail(x->graph, TUFF_E_DTYPE, "%s: %s by %s %s: indices must be i32", op, SHAPE_TEXT(x->shape),
                         tuff_dtype_name(indices->dtype), SHAPE_TEXT(indices->shape));
        return false;
    }
    if (x->shape.rank != indices->shape.rank) {
        tuff__graph_fail(x->graph, TUFF_E_SHAPE, "%s: %s by %s: ranks %d and %d differ", op, SHAPE_TEXT(x->shape),
                         SHAPE_TEXT(indices->shape), x->shape.rank, indices->shape.rank);
        return false;
    }
    return tuff__resolve_axis(op, x, *axis, axis);
}

/* x and indices broadcast against each other on all axes except `axis`, where each keeps its own extent. */
tuff_tensor *tuff_gather(tuff_tensor *x, tuff_tensor *indices, int axis)
{
    tuff_tensor *failure;
    tuff_shape shape;
    tuff_graph *graph = tuff__check_operands("gather", (tuff_tensor *[]){x, indices}, 2, &failure);
    if (!graph || !indices_fit("gather", x, indices, &axis))
        return failure;
    if (!tuff__broadcast(tuff__with_extent(x->shape, axis, 1), indices->shape, &shape))
        return tuff__graph_fail(graph, TUFF_E_SHAPE,
                                "gather: %s by %s: the shapes do not broadcast on the axes other than %d",
                                SHAPE_TEXT(x->shape), SHAPE_TEXT(indices->shape), axis);
    const tuff_shape from = tuff__with_extent(shape, axis, x->shape.extent[axis]);
    if (!tuff__shape_is_legal(graph, "gather", shape) || !tuff__shape_is_legal(graph, "gather", from))
        return &graph->failed;
    tuff_tensor *operands[2] = {tuff__expand_to(x, from), tuff__expand_to(indices, shape)};
    if (graph->status != TUFF_OK)
        return &graph->failed;
    return tuff__node_create(graph, OP_GATHER, x->dtype, shape, operands, 2, &(op_attributes){.axis = axis});
}

/* Sets *shape to that of the addends: the shape of x, with the extent along axis that indices and source broadcast
   to. */
static bool infer_scatter_shape(const tuff_tensor *x, const tuff_tensor *indices, const tuff_tensor *source, int axis,
                                tuff_shape *shape)
{
    tuff_shape along;
    if (source->shape.rank == x->shape.rank && tuff__broadcast(indices->shape, source->shape, &along)) {
        *shape = tuff__with_extent(x->shape, axis, along.extent[axis]);
        if (tuff__broadcast(along, *shape, &along) && tuff_shape_equal(along, *shape))
            return tuff__shape_is_legal(x->graph, "scatter_add", *shape);
    }
    tuff__graph_fail(x->graph, TUFF_E_SHAPE,
                     "scatter_add: %s into %s by %s: the shapes do not match on the axes other than %d",
                     SHAPE_TEXT(source->shape), SHAPE_TEXT(x->shape), SHAPE_TEXT(indices->shape), axis);
    return false;
}

/* Expands indices and source to the shape of the addends. x has the result's shape and is never expanded. */
tuff_tensor *tuff_scatter_add(tuff_tensor *x, tuff_tensor *indices, tuff_tensor *source, int axis)
{
    tuff_tensor *failure;
    tuff_shape shape;
    tuff_graph *graph = tuff__check_operands("scatter_add", (tuff_tensor *[]){x, indices, source}, 3, &failure);
    if (!graph)
        return failure;
    if (x->dtype != source->dtype || !tuff__op_accepts(OP_SCATTER_ADD, x->dtype))
        return tuff__graph_fail(
            graph, TUFF_E_DTYPE,
            "scatter_add: %s %s into %s %s: expected the same dtype for both: f32, f16, bf16, i32 or u32",
            tuff_dtype_name(source->dtype), SHAPE_TEXT(source->shape), tuff_dtype_name(x->dtype), SHAPE_TEXT(x->shape));
    if (!indices_fit("scatter_add", x, indices, &axis) || !infer_scatter_shape(x, indices, source, axis, &shape))
        return &graph->failed;
    tuff_tensor *operands[3] = {x, tuff__expand_to(indices, shape), tuff__expand_to(source, shape)};
    if (graph->status != TUFF_OK)
        return &graph->failed;
    return tuff__node_create(graph, OP_SCATTER_ADD, x->dtype, x->shape, operands, 3, &(op_attributes){.axis = axis});
}
