/* Builders of the elementwise ops: one public function for each row of ops.def, plus WHERE and CAST. Operands are
   broadcast to one shape and converted to one dtype here, so that elementwise nodes have inputs of exactly their own
   shape. A new row needs no code in this file. Read next: ops.def for the meaning of the rows, gradients.c for their
   derivatives. */
#include <stdio.h>

#include "graph/builder.h"

/* The dtypes that an op accepts, for messages. */
static const char *kinds_text(op_kinds kinds)
{
    return kinds == OP_KIND_FLOATS  ? "f32, f16 or bf16"
           : kinds == OP_KIND_BOOLS ? "bool"
                                    : "f32, f16, bf16, i32 or u32";
}

/* Formats operands for messages, like "f32 [2,3] x f16 [3]"; truncated to the buffer. */
static const char *operands_text(tuff_tensor *const *operands, int count, char *buffer, size_t size)
{
    text list = {0};
    for (int i = 0; i < count; i++)
        tuff__text_add(&list, "%s%s %s", i ? " x " : "", tuff_dtype_name(operands[i]->dtype),
                       SHAPE_TEXT(operands[i]->shape));
    (void)snprintf(buffer, size, "%s", tuff__text_get(&list));
    tuff__text_free(&list);
    return buffer;
}

#define OPERANDS_TEXT(operands, count) operands_text((operands), (count), (char[384]){0}, 384)

/* Expands all operands to the shape that they broadcast to. */
static bool broadcast_all(const char *op, tuff_graph *graph, tuff_tensor **operands, int count, tuff_shape *shape)
{
    *shape = operands[0]->shape;
    for (int i = 1; i < count; i++)
        if (!tuff__broadcast(*shape, operands[i]->shape, shape)) {
            tuff__graph_fail(graph, TUFF_E_SHAPE, "%s: %s: the shapes do not broadcast", op,
                             OPERANDS_TEXT(operands, count));
            return false;
        }
    if (!tuff__shape_is_legal(graph, op, *shape))
        return false;
    for (int i = 0; i < count; i++)
        operands[i] = tuff__expand_to(operands[i], *shape);
    return graph->status == TUFF_OK;
}

/* Gives all operands one dtype: constant scalars take that of the others. Runs twice, since operand 0 may itself change
   in the first pass. */
static bool unify_all_dtypes(const char *op, tuff_graph *graph, tuff_tensor **operands, int count)
{
    for (int i = 1; i < count; i++)
        tuff__unify_dtypes(&operands[0], &operands[i]);
    for (int i = 1; i < count; i++)
        tuff__unify_dtypes(&operands[0], &operands[i]);
    for (int i = 1; i < count && graph->status == TUFF_OK; i++)
        if (operands[i]->dtype != operands[0]->dtype)
            tuff__graph_fail(graph, TUFF_E_DTYPE, "%s: %s: the dtypes differ: cast one of them", op,
                             OPERANDS_TEXT(operands, count));
    return graph->status == TUFF_OK;
}

/* Builds any row: checks that the operands belong to one graph, and gives them one dtype, which the row must accept,
   and one shape. */
static tuff_tensor *elementwise(op_code op, tuff_tensor **operands, int count)
{
    const op_info *info = tuff__op_info(op);
    tuff_tensor *failure;
    tuff_shape shape;
    tuff_graph *graph = tuff__check_operands(info->name, operands, count, &failure);
    if (!graph || !unify_all_dtypes(info->name, graph, operands, count))
        return failure;
    const tuff_dtype dtype = operands[0]->dtype;
    if (!tuff__op_accepts(op, dtype))
        return tuff__graph_fail(graph, TUFF_E_DTYPE, "%s: %s: expected %s", info->name, OPERANDS_TEXT(operands, count),
                                kinds_text(info->kinds));
    if (!broadcast_all(info->name, graph, operands, count, &shape))
        return &graph->failed;
    return tuff__node_create(graph, op, info->kinds == OP_KIND_COMPARE ? TUFF_BOOL : dtype, shape, operands, count,
                             NULL);
}

/* Defines a public builder for each row, by its number of operands. */
#define BUILDER_1(code, name)                                   \
    tuff_tensor *tuff_##name(tuff_tensor *x)                    \
    {                                                           \
        return elementwise(OP_##code, (tuff_tensor *[]){x}, 1); \
    }
#define BUILDER_2(code, name)                                      \
    tuff_tensor *tuff_##name(tuff_tensor *x, tuff_tensor *y)       \
    {                                                              \
        return elementwise(OP_##code, (tuff_tensor *[]){x, y}, 2); \
    }
#define BUILDER_3(code, name)                                                \
    tuff_tensor *tuff_##name(tuff_tensor *x, tuff_tensor *y, tuff_tensor *z) \
    {                                                                        \
        return elementwise(OP_##code, (tuff_tensor *[]){x, y, z}, 3);        \
    }
#define ELEMENTWISE(code, name, inputs, ...) BUILDER_##inputs(code, name)
#define SPECIAL(...)
#include "ops/ops.def"

/* WHERE is not a row of the table: its operands have two dtypes, and it computes nothing. */
tuff_tensor *tuff_where(tuff_tensor *condition, tuff_tensor *x, tuff_tensor *y)
{
    tuff_tensor *operands[3] = {condition, x, y}, *failure;
    tuff_shape shape;
    tuff_graph *graph = tuff__check_operands("where", operands, 3, &failure);
    if (!graph)
        return failure;
    if (condition->dtype != TUFF_BOOL)
        return tuff__graph_fail(graph, TUFF_E_DTYPE, "where: %s: the condition must be bool",
                                OPERANDS_TEXT(operands, 3));
    if (!unify_all_dtypes("where", graph, operands + 1, 2) || !broadcast_all("where", graph, operands, 3, &shape))
        return &graph->failed;
    return tuff__node_create(graph, OP_WHERE, operands[1]->dtype, shape, operands, 3, NULL);
}

/* A cast to the same dtype adds no node: values are rounded when they are stored, not by a second cast. */
tuff_tensor *tuff_cast(tuff_tensor *x, tuff_dtype dtype)
{
    tuff_tensor *failure;
    tuff_graph *graph = tuff__check_operands("cast", &x, 1, &failure);
    if (!graph || !tuff__dtype_is_legal(graph, "cast", dtype))
        return failure;
    return x->dtype == dtype ? x : tuff__node_create(graph, OP_CAST, dtype, x->shape, &x, 1, NULL);
}

tuff_tensor *tuff__scale(tuff_tensor *x, double factor)
{
    return tuff__is_valid(x) && factor != 1 ? tuff_mul(x, tuff__scalar(x, factor)) : x;
}

tuff_tensor *tuff__shift(tuff_tensor *x, double term)
{
    return tuff__is_valid(x) && term != 0 ? tuff_add(x, tuff__scalar(x, term)) : x;
}
