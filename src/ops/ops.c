/* What ops.def says, as a table, and the questions that everyone asks of ops and dtypes. */
#include "ops/ops.h"

#define FLOATS OP_KIND_FLOATS
#define NUMBERS OP_KIND_NUMBERS
#define BOOLS OP_KIND_BOOLS
#define COMPARE OP_KIND_COMPARE

static const op_info table[OP_COUNT] = {
#define ELEMENTWISE(code, op_name, inputs, op_kind, text, integer_text, partials, gradients, error_ulps, from, to) \
    [OP_##code] = {.name = #op_name,                                                                               \
                   .input_count = (inputs),                                                                        \
                   .kinds = (op_kind),                                                                             \
                   .value = #text,                                                                                 \
                   .integer_value = #integer_text,                                                                 \
                   .ulps = (error_ulps),                                                                           \
                   .low = (from),                                                                                  \
                   .high = (to)},
#define SPECIAL(code, op_name, inputs) \
    [OP_##code] = {.name = #op_name, .input_count = (inputs), .kinds = OP_KIND_SPECIAL, .integer_value = "0"},
#include "ops/ops.def"
#undef ELEMENTWISE
#undef SPECIAL
};

const op_info *tuff__op_info(op_code op)
{
    return &table[op];
}

bool tuff__op_is_elementwise(op_code op)
{
    return table[op].kinds != OP_KIND_SPECIAL || op == OP_WHERE || op == OP_CAST;
}

bool tuff__op_is_view(op_code op)
{
    return op == OP_RESHAPE || op == OP_PERMUTE || op == OP_EXPAND || op == OP_SLICE;
}

bool tuff__op_is_source(op_code op)
{
    return op == OP_INPUT || op == OP_ARRAY || op == OP_CONSTANT;
}

bool tuff__op_is_dear(op_code op)
{
    return (op >= OP_EXP && op <= OP_ERFC) || op == OP_POW;
}

bool tuff__op_is_partial(op_code op)
{
    const op_info *of = tuff__op_info(op);
    return of->ulps > 0 && of->low > -1;
}

bool tuff__op_is_attention(op_code op)
{
    return op >= OP_ATTENTION_LSE && op <= OP_ATTENTION_DB;
}

attention_inputs tuff__attention_inputs(op_code op, uint32_t options)
{
    const bool softmax = (options & ATTENTION_NO_SOFTMAX) == 0, backward = op >= OP_ATTENTION_DQ;
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
