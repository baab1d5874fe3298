/* Builds and changes chains; simplifies their domain, so that kernels iterate over as few axes as the addresses
   allow. */
#include "kernels/chain.h"

#include <string.h>

#include "base/alloc.h"

chain_value tuff__chain_value(value_kind kind, tuff_dtype dtype)
{
    return (chain_value){
        .kind = kind, .dtype = dtype, .args = {NO_VALUE, NO_VALUE, NO_VALUE}, .guard = NO_VALUE, .buffer = -1};
}

int tuff__chain_append(fused_chain *chain, chain_value value)
{
    if (!GROW(chain->values, chain->value_count, chain->value_capacity))
        return NO_VALUE;
    chain->values[chain->value_count++] = value;
    return chain->value_count - 1;
}

tuff_status tuff__chain_duplicate(const fused_chain *chain, fused_chain *out)
{
    *out = *chain;
    out->value_capacity = chain->value_count + 1;
    out->values = tuff__calloc((size_t)out->value_capacity, sizeof *out->values);
    if (out->values == NULL)
        return TUFF_E_OOM_HOST;
    memcpy(out->values, chain->values, (size_t)chain->value_count * sizeof *out->values);
    return TUFF_OK;
}

typedef void (*address_visitor)(affine *address, const int *arguments, void *state);

/* Calls visit for every address of the chain. */
static void visit_addresses(fused_chain *chain, address_visitor visit, const int *arguments, void *state)
{
    for (int i = 0; i < chain->value_count; ++i)
        if (tuff__value_has_address(chain->values[i].kind))
            visit(&chain->values[i].address, arguments, state);
    for (int i = 0; i < chain->output_count; ++i)
        visit(&chain->outputs[i].address, arguments, state);
    for (int i = 0; i < chain->operand_base_count; ++i)
        visit(&chain->operand_bases[i], arguments, state);
}

/* arguments: the axis that may merge with the next one. */
static void can_merge(affine *address, const int *arguments, void *state)
{
    const fused_chain *chain = ((void **)state)[0];
    bool *possible = ((void **)state)[1];
    const int axis = arguments[0];
    *possible &= address->stride[axis] == address->stride[axis + 1] * chain->extent[axis + 1];
}

static void remove_axis(affine *address, const int *arguments, void *state)
{
    (void)state;
    for (int i = arguments[0]; i + 1 < TUFF_MAX_RANK; ++i)
        address->stride[i] = address->stride[i + 1];
    address->stride[TUFF_MAX_RANK - 1] = 0;
}

static void drop_axis(fused_chain *chain, int axis)
{
    visit_addresses(chain, remove_axis, &axis, NULL);
    for (int i = axis; i + 1 < chain->rank; ++i) {
        chain->extent[i] = chain->extent[i + 1];
        chain->classes[i] = chain->classes[i + 1];
    }
    for (int i = 0; i < 2; ++i)
        chain->producers[i].axis -= chain->producers[i].axis > axis;
    --chain->rank;
}

static bool merges_with_next(fused_chain *chain, int axis)
{
    if (chain->classes[axis] != chain->classes[axis + 1] || chain->classes[axis] >= AXIS_ROW)
        return false;
    if (chain->extent[axis] * chain->extent[axis + 1] > INT32_MAX)
        return false;
    bool possible = true;
    void *state[] = {chain, &possible};
    visit_addresses(chain, can_merge, &axis, state);
    return possible;
}

void tuff__chain_collapse(fused_chain *chain)
{
    for (int i = chain->rank - 1; i >= 0; --i)
        if (chain->extent[i] == 1 && chain->classes[i] < AXIS_ROW)
            drop_axis(chain, i);
    for (int i = chain->rank - 2; i >= 0; --i)
        if (merges_with_next(chain, i)) {
            chain->extent[i + 1] *= chain->extent[i];
            drop_axis(chain, i);
        }
}

/* arguments: the axis to be swapped with the next one. */
static void swap_axes(affine *address, const int *arguments, void *state)
{
    (void)state;
    int64_t *stride = address->stride + arguments[0];
    const int64_t first = stride[0];
    stride[0] = stride[1];
    stride[1] = first;
}

void tuff__chain_swap_inner_axes(fused_chain *chain, int64_t min_extent)
{
    const int axis = chain->rank - 2;
    if (axis < 0 || chain->extent[axis + 1] >= min_extent || chain->extent[axis] < min_extent ||
        chain->classes[axis] != chain->classes[axis + 1])
        return;
    visit_addresses(chain, swap_axes, &axis, NULL);
    const int64_t inner = chain->extent[axis + 1];
    chain->extent[axis + 1] = chain->extent[axis];
    chain->extent[axis] = inner;
    tuff__chain_analyse(chain);
}

static void analyse(fused_chain *chain, chain_value *value)
{
    value->varies = 0;
    value->stage = 0;
    if (tuff__value_has_address(value->kind))
        for (int i = 0; i < chain->rank; ++i)
            if (value->address.stride[i] != 0 && chain->extent[i] > 1)
                value->varies |= 1u << i;
    const int sources[] = {value->args[0], value->args[1], value->args[2], value->guard};
    for (int i = 0; i < 4; ++i) {
        if (sources[i] == NO_VALUE)
            continue;
        const chain_value *source = &chain->values[sources[i]];
        value->varies |= source->varies;
        value->stage = source->stage > value->stage ? source->stage : value->stage;
    }
    if (value->kind != VALUE_RESULT)
        return;
    for (int i = 0; i < chain->rank; ++i)
        if (chain->classes[i] != AXIS_LOOP)
            value->varies |= 1u << i;
    if (chain->reduction_count > 0)
        value->stage = chain->reductions[value->index].stage + 1;
}

void tuff__chain_analyse(fused_chain *chain)
{
    for (int i = 0; i < chain->value_count; ++i) {
        analyse(chain, &chain->values[i]);
        for (int k = 0; k < chain->reduction_count; ++k)
            if (chain->reductions[k].input == i)
                chain->reductions[k].stage = chain->values[i].stage;
    }
}

int tuff__chain_pass_count(const fused_chain *chain)
{
    int last = 0;
    for (int i = 0; i < chain->reduction_count; ++i)
        last = chain->reductions[i].stage > last ? chain->reductions[i].stage : last;
    for (int i = 0; i < chain->output_count; ++i) {
        const chain_output *output = &chain->outputs[i];
        if (output->every_point && output->value != NO_VALUE && chain->values[output->value].stage > last)
            last = chain->values[output->value].stage;
    }
    return last + 1;
}

bool tuff__strides_are_multiples(const fused_chain *chain, const affine *address, int except_axis, int elements)
{
    bool multiples = true;
    for (int i = 0; i < chain->rank; ++i)
        multiples &= i == except_axis || chain->extent[i] <= 1 || address->stride[i] % elements == 0;
    return multiples;
}

bool tuff__keeps_to_multiples(const fused_chain *chain, const affine *address, int axis, int elements)
{
    return address->stride[axis] != 1 ||
           (address->offset % elements == 0 && tuff__strides_are_multiples(chain, address, axis, elements));
}

bool tuff__is_produced(const fused_chain *chain, int operand)
{
    return chain->producers[operand].end > 0;
}

void tuff__chain_set_operand_from_producer(fused_chain *chain, int operand)
{
    const chain_producer *producer = &chain->producers[operand];
    bool found = false;
    for (int i = producer->begin; i < producer->end; ++i) {
        const chain_value *value = &chain->values[i];
        const int64_t *strides = value->address.stride + producer->axis;
        const bool whole = value->kind == VALUE_LOAD && strides[0] != 0 && strides[1] != 0;
        if (value->buffer < 0 || (found && !whole))
            continue;
        found = true;
        chain->operand_buffers[operand] = value->buffer;
        if (whole) {
            memcpy(chain->operand_strides[operand], strides, sizeof chain->operand_strides[operand]);
            return;
        }
    }
}

void tuff__chain_rename_buffer(fused_chain *chain, int from, int to)
{
    for (int i = 0; i < chain->value_count; ++i)
        if (chain->values[i].buffer == from)
            chain->values[i].buffer = to;
    for (int i = 0; i < chain->output_count; ++i)
        if (chain->outputs[i].buffer == from)
            chain->outputs[i].buffer = to;
}

static bool is_used(const fused_chain *chain, int buffer)
{
    bool used = chain->operand_buffers[0] == buffer || chain->operand_buffers[1] == buffer;
    for (int i = 0; i < chain->value_count; ++i)
        used |= chain->values[i].buffer == buffer;
    for (int i = 0; i < chain->output_count; ++i)
        used |= chain->outputs[i].buffer == buffer;
    return used;
}

void tuff__chain_drop_producer(fused_chain *chain, int operand)
{
    const chain_value none = tuff__chain_value(VALUE_CONSTANT, TUFF_F32);
    for (int i = chain->producers[operand].begin; i < chain->producers[operand].end; ++i)
        chain->values[i] = none;
    chain->producers[operand] = (chain_producer){.end = 0};
}

void tuff__chain_drop_buffers(fused_chain *chain)
{
    int kept = 0;
    for (int i = 0; i < chain->buffer_count; ++i) {
        if (!is_used(chain, i))
            continue;
        chain->buffers[kept] = chain->buffers[i];
        tuff__chain_rename_buffer(chain, i, kept);
        for (int k = 0; k < 2; ++k)
            if (chain->operand_buffers[k] == i)
                chain->operand_buffers[k] = kept;
        ++kept;
    }
    chain->buffer_count = kept;
}

void tuff__chain_free(fused_chain *chain)
{
    tuff__free(chain->values);
    *chain = (fused_chain){.rank = 0};
}
