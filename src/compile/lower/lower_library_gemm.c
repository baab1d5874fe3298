/* Matmuls that a library computes. It knows one kind: f32 matrices whose rows, or columns, are contiguous and apart by
   one stride. */
#include "compile/lower/lower_matmul.h"

#define MAX_ELEMENTS (INT64_C(1) << 31) /* libraries count in 32 bits */

/* One of the two strides of a matrix must be 1; where an extent is 1 its stride means nothing. */
static bool find_lines(int64_t rows, int64_t columns, const int64_t *stride, library_matrix *out)
{
    const bool along = columns == 1 || stride[1] == 1, across = rows == 1 || stride[0] == 1;
    out->transposed = !along;
    if (!along && !across)
        return false;
    const int64_t width = along ? columns : rows, count = along ? rows : columns;
    out->line = count == 1 ? width : stride[along ? 0 : 1];
    return out->line >= width;
}

static bool find_operand(const launch_list *list, const fused_chain *chain, int operand, int64_t rows, int64_t columns,
                         library_matrix *out)
{
    const memory_buffer *buffer = &list->buffers[chain->buffers[chain->operand_buffers[operand]].id];
    const affine *at = &chain->extra[operand];
    *out = (library_matrix){.start = at->offset, .step = chain->rank > 2 ? at->stride[0] : 0};
    return !tuff__is_produced(chain, operand) && buffer->dtype == TUFF_F32 &&
           chain->buffers[chain->operand_buffers[operand]].dtype == TUFF_F32 && buffer->count < MAX_ELEMENTS &&
           at->offset >= 0 && out->step >= 0 && find_lines(rows, columns, chain->operand_strides[operand], out);
}

/* The task must store the product alone, without an epilogue, row by row. */
static bool find_result(const launch_list *list, const fused_chain *chain, int64_t rows, int64_t columns,
                        library_matrix *out)
{
    const chain_output *stored = &chain->outputs[0];
    const chain_buffer *buffer = &chain->buffers[stored->buffer];
    const int row = chain->rank - 2;
    if (chain->output_count != 1 || chain->values[stored->value].kind != VALUE_RESULT || buffer->dtype != TUFF_F32 ||
        list->buffers[buffer->id].dtype != TUFF_F32 || list->buffers[buffer->id].count >= MAX_ELEMENTS)
        return false;
    *out = (library_matrix){.start = stored->address.offset, .step = row > 0 ? stored->address.stride[0] : 0};
    return out->start >= 0 && out->step >= 0 && find_lines(rows, columns, stored->address.stride + row, out) &&
           !out->transposed;
}

bool tuff__find_library_gemm(const launch_list *list, const fused_chain *chain, int64_t inner, library_product *out)
{
    if (chain->rank > 3)
        return false;
    const int64_t rows = chain->extent[chain->rank - 2], columns = chain->extent[chain->rank - 1];
    *out = (library_product){
        .rows = rows, .columns = columns, .inner = inner, .batches = chain->rank > 2 ? chain->extent[0] : 1};
    return rows > 0 && columns > 0 && inner > 0 && out->batches > 0 &&
           find_operand(list, chain, 0, rows, inner, &out->matrices[0]) &&
           find_operand(list, chain, 1, inner, columns, &out->matrices[1]) &&
           find_result(list, chain, rows, columns, &out->matrices[2]);
}
