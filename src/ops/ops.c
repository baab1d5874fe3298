/* ops.def as a table of op_info, the predicates on its columns that all stages share, and those on dtypes. Read next:
   evaluate.c for the reference, src/graph/gradients.c for the gradients. */
#include "ops/ops.h"

static const op_info table[OP_COUNT] = {
#define ELEMENTWISE(code, op_name, inputs, op_kinds, kernel_text, kernel_integers, value, partials, gradients, \
                    op_cost, op_domain, error_ulps, absolute, from, to)                                        \
    [OP_##code] = {.name = #op_name,                                                                           \
                   .input_count = (inputs),                                                                    \
                   .kinds = OP_KIND_##op_kinds,                                                                \
                   .pattern = PATTERN_ELEMENTWISE,                                                             \
                   .operands = OPERANDS_VALUES,                                                                \
                   .axes = AXES_IN_ORDER,                                                                      \
                   .attribute = ATTRIBUTE_NONE,                                                                \
                   .cost = COST_##op_cost,                                                                     \
                   .domain = DOMAIN_##op_domain,                                                               \
                   .text = #kernel_text,                                                                       \
                   .integer_text = #kernel_integers,                                                           \
                   .ulps = (error_ulps),                                                                       \
                   .low = (from),                                                                              \
                   .high = (to)},
#define SPECIAL(code, op_name, inputs, op_kinds, op_pattern, op_operands, op_axes, op_attribute, op_cost, ...) \
    [OP_##code] = {.name = #op_name,                                                                           \
                   .input_count = (inputs),                                                                    \
                   .kinds = OP_KIND_##op_kinds,                                                                \
                   .pattern = PATTERN_##op_pattern,                                                            \
                   .operands = OPERANDS_##op_operands,                                                         \
                   .axes = AXES_##op_axes,                                                                     \
                   .attribute = ATTRIBUTE_##op_attribute,                                                      \
                   .cost = COST_##op_cost,                                                                     \
                   .domain = DOMAIN_ALL,                                                                       \
                   .integer_text = "0"},
#include "ops/ops.def"
};

const op_info *tuff__op_info(op_code op)
{
    return &table[op];
}

bool tuff__op_has_text(op_code op)
{
    return table[op].text != NULL;
}

bool tuff__op_accepts(op_code op, tuff_dtype dtype)
{
    const bool is_number = tuff__dtype_is_float(dtype) || dtype == TUFF_I32 || dtype == TUFF_U32;
    switch (table[op].kinds) {
    case OP_KIND_FLOATS:
        return tuff__dtype_is_float(dtype);
    case OP_KIND_NUMBERS:
    case OP_KIND_COMPARE:
        return is_number;
    case OP_KIND_BOOLS:
        return dtype == TUFF_BOOL;
    case OP_KIND_I32:
        return dtype == TUFF_I32;
    case OP_KIND_F32:
        return dtype == TUFF_F32;
    case OP_KIND_ANY:
        break;
    }
    return true;
}

bool tuff__op_is_elementwise(op_code op)
{
    return table[op].pattern == PATTERN_ELEMENTWISE;
}

bool tuff__op_is_view(op_code op)
{
    return table[op].pattern == PATTERN_VIEW;
}

bool tuff__op_is_source(op_code op)
{
    return table[op].pattern == PATTERN_SOURCE;
}

bool tuff__op_is_materialized(op_code op)
{
    switch (table[op].pattern) {
    case PATTERN_REDUCTION:
    case PATTERN_SCAN:
    case PATTERN_MATMUL:
    case PATTERN_SCATTER:
    case PATTERN_ATTENTION:
        return true;
    default:
        return false;
    }
}

bool tuff__op_is_expensive(op_code op)
{
    return table[op].cost == COST_EXPENSIVE;
}

bool tuff__op_is_partial(op_code op)
{
    return table[op].domain == DOMAIN_PARTIAL;
}

bool tuff__op_is_attention(op_code op)
{
    return table[op].pattern == PATTERN_ATTENTION;
}

bool tuff__op_is_attention_gradient(op_code op)
{
    return tuff__op_is_attention(op) && op != OP_ATTENTION_LSE && op != OP_ATTENTION;
}

/* Numbers the operands that are present; absent ones take no number. */
attention_inputs tuff__attention_inputs(op_code op, uint32_t options)
{
    const bool softmax = (options & ATTENTION_NO_SOFTMAX) == 0, backward = tuff__op_is_attention_gradient(op);
    attention_inputs at = {.q = 0, .k = 1, .v = -1, .lse = -1, .upstream = -1, .sums = -1, .bias = -1, .step = -1};
    int count = 2;
    if (op != OP_ATTENTION_LSE)
        at.v = count++;
    if (op != OP_ATTENTION_LSE && softmax)
        at.lse = count++;
    if (backward)
        at.upstream = count++;
    if (backward && softmax)
        at.sums = count++;
    if (options & ATTENTION_BIAS)
        at.bias = count++;
    if (op != OP_ATTENTION_LSE && (options & ATTENTION_DROPOUT))
        at.step = count++;
    return at;
}

bool tuff__dtype_is_float(tuff_dtype dtype)
{
    return dtype == TUFF_F32 || dtype == TUFF_F16 || dtype == TUFF_BF16;
}

bool tuff__dtype_is_integer(tuff_dtype dtype)
{
    return dtype == TUFF_I32 || dtype == TUFF_U32 || dtype == TUFF_I8 || dtype == TUFF_U8;
}

tuff_dtype tuff__compute_dtype(tuff_dtype dtype)
{
    switch (dtype) {
    case TUFF_F16:
    case TUFF_BF16:
        return TUFF_F32;
    case TUFF_I8:
        return TUFF_I32;
    case TUFF_U8:
        return TUFF_U32;
    default:
        return dtype;
    }
}

int64_t tuff__count_axes(tuff_shape shape, int begin, int end)
{
    int64_t count = 1;
    for (int axis = begin; axis < end; axis++)
        count *= shape.extent[axis];
    return count;
}
