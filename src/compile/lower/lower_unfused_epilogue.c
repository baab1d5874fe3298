/* Unfused epilogues: the product is stored to memory of its own, and a map does the rest. Faster where accumulators and
   epilogue do not fit the registers together, or where a library computes the product. */
#include <string.h>

#include "compile/lower/lower_matmul.h"

bool tuff__has_epilogue(const fused_chain *chain)
{
    return chain->output_count != 1 || chain->values[chain->outputs[0].value].kind != VALUE_RESULT;
}

/* The address of an element in contiguous memory. */
static affine in_order(const fused_chain *chain)
{
    affine out = {.offset = 0};
    int64_t stride = 1;
    for (int i = chain->rank - 1; i >= 0; --i) {
        out.stride[i] = stride;
        stride *= chain->extent[i];
    }
    return out;
}

static tuff_status copy_chain(const fused_chain *from, fused_chain *out)
{
    *out = *from;
    out->value_capacity = from->value_count + 1;
    out->values = tuff__calloc((size_t)out->value_capacity, sizeof *out->values);
    if (out->values == NULL)
        return TUFF_E_OOM_HOST;
    memcpy(out->values, from->values, (size_t)from->value_count * sizeof *out->values);
    return TUFF_OK;
}

static bool is_of_producer(const fused_chain *chain, int value)
{
    bool found = false;
    for (int i = 0; i < 2; ++i)
        found |= tuff__is_produced(chain, i) && value >= chain->producers[i].begin && value < chain->producers[i].end;
    return found;
}

/* Reduces the chain to the product, stored in buffer `product`. */
static void keep_product(fused_chain *chain, int product)
{
    const chain_value none = {
        .kind = VALUE_CONSTANT, .args = {NO_VALUE, NO_VALUE, NO_VALUE}, .guard = NO_VALUE, .buffer = -1};
    int result = 0;
    for (int i = 0; i < chain->value_count; ++i) {
        if (chain->values[i].kind == VALUE_RESULT)
            result = i;
        else if (!is_of_producer(chain, i))
            chain->values[i] = none;
    }
    for (int i = 0; i < chain->buffer_count; ++i)
        chain->buffers[i].written = false;
    chain->buffers[chain->buffer_count] = (chain_buffer){.id = product, .dtype = TUFF_F32, .written = true};
    chain->outputs[0] = (chain_output){
        .value = result, .buffer = chain->buffer_count++, .address = in_order(chain), .every_point = true};
    chain->output_count = 1;
    tuff__chain_drop_buffers(chain);
}

/* Makes the chain a map that reads the product from buffer `product`. */
static void keep_epilogue(fused_chain *chain, int product)
{
    const affine address = in_order(chain);
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
    chain->extra_count = 0;
    tuff__chain_drop_buffers(chain);
    tuff__chain_collapse(chain);
    tuff__chain_analyse(chain);
}

tuff_status tuff__split_epilogue(launch_list *list, fused_chain *chain, fused_chain *epilogue)
{
    if (chain->buffer_count >= MAX_CHAIN_BUFFERS)
        return FAIL(TUFF_E_LIMIT, "compile: too many buffers for a product of its own");
    const int product = tuff__buffer_add(list, TUFF_F32, tuff__batch_count(chain, chain->rank));
    if (product < 0)
        return TUFF_E_OOM_HOST;
    TRY(copy_chain(chain, epilogue));
    keep_product(chain, product);
    keep_epilogue(epilogue, product);
    return TUFF_OK;
}
