/* Matmuls that a library computes, and epilogues as separate passes, which libraries need: the product is stored to
   memory, and a map does the rest. That may also be faster if accumulators and epilogue do not fit into registers
   together. Libraries support one kind of matmul: f32 matrices whose rows, or columns, are contiguous and a constant
   stride apart. */
#include <string.h>

#include "compile/lower/lower_matmul.h"

#define MAX_ELEMENTS (INT64_C(1) << 31) /* libraries count in 32 bits */

/* One of the two strides of a matrix must be 1; the stride of an axis of extent 1 does not matter. */
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
    const affine *at = &chain->operand_bases[operand];
    *out = (library_matrix){.start = at->offset, .step = chain->rank > 2 ? at->stride[0] : 0};
    return !tuff__is_produced(chain, operand) && buffer->dtype == TUFF_F32 &&
           chain->buffers[chain->operand_buffers[operand]].dtype == TUFF_F32 && buffer->count < MAX_ELEMENTS &&
           at->offset >= 0 && out->step >= 0 && find_lines(rows, columns, chain->operand_strides[operand], out);
}

/* The task must store only the product, without an epilogue, row by row. */
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

bool tuff__has_epilogue(const fused_chain *chain)
{
    return chain->output_count != 1 || chain->values[chain->outputs[0].value].kind != VALUE_RESULT;
}

/* Returns the address of an element in contiguous memory. */
static affine contiguous_address(const fused_chain *chain)
{
    affine out = {.offset = 0};
    int64_t stride = 1;
    for (int i = chain->rank - 1; i >= 0; --i) {
        out.stride[i] = stride;
        stride *= chain->extent[i];
    }
    return out;
}

static bool belongs_to_producer(const fused_chain *chain, int value)
{
    bool found = false;
    for (int i = 0; i < 2; ++i)
        found |= tuff__is_produced(chain, i) && value >= chain->producers[i].begin && value < chain->producers[i].end;
    return found;
}

/* Reduces the chain to the product, stored in buffer `product`. */
static void keep_product(fused_chain *chain, int product)
{
    const chain_value none = tuff__chain_value(VALUE_CONSTANT, TUFF_F32);
    int result = 0;
    for (int i = 0; i < chain->value_count; ++i) {
        if (chain->values[i].kind == VALUE_RESULT)
            result = i;
        else if (!belongs_to_producer(chain, i))
            chain->values[i] = none;
    }
    for (int i = 0; i < chain->buffer_count; ++i)
        chain->buffers[i].written = false;
    chain->buffers[chain->buffer_count] = (chain_buffer){.id = product, .dtype = TUFF_F32, .written = true};
    chain->outputs[0] = (chain_output){
        .value = result, .buffer = chain->buffer_count++, .address = contiguous_address(chain), .every_point = true};
    chain->output_count = 1;
    tuff__chain_drop_buffers(chain);
}

/* Makes the chain a map that reads the product from buffer `product`. */
static void keep_epilogue(fused_chain *chain, int product)
{
    const affine address = contiguous_address(chain);
    for (int i = 0; i < 2; ++i)
        if (tuff__is_produced(chain, i))
            tuff__chain_drop_producer(chain, i);
    chain->buffers[chain->buffer_count] = (chain_buffer){.id = product, .dtype = TUFF_F32, .read = true};
    chain->operand_buffers[0] = chain->operand_buffers[1] = chain->buffer_count++;
    for (int i = 0; i < chain->value_count; ++i)
        if (chain->values[i].kind == VALUE_RESULT) {
            chain->values[i].kind = VALUE_LOAD;
            chain->values[i].buffer = chain->buffer_count - 1;
            chain->values[i].address = address;
        }
    for (int i = 0; i < chain->rank; ++i)
        chain->classes[i] = AXIS_OUTER;
    chain->operand_base_count = 0;
    tuff__chain_drop_buffers(chain);
    tuff__chain_collapse(chain);
    tuff__chain_analyse(chain);
}

tuff_status tuff__split_epilogue(launch_list *list, fused_chain *chain, fused_chain *epilogue)
{
    if (chain->buffer_count >= MAX_CHAIN_BUFFERS)
        return FAIL(TUFF_E_LIMIT, "compile: a matmul binds too many buffers to split off its epilogue");
    const int product = tuff__buffer_add(list, TUFF_F32, tuff__batch_count(chain, chain->rank));
    if (product < 0)
        return TUFF_E_OOM_HOST;
    TRY(tuff__chain_duplicate(chain, epilogue));
    keep_product(chain, product);
    keep_epilogue(epilogue, product);
    return TUFF_OK;
}
