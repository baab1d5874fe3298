/* The primitive ops as data: what a row of ops.def says, and the attributes that a use of an op carries. Knows nothing
   of graphs or devices. */
#ifndef TUFF_OPS_OPS_H
#define TUFF_OPS_OPS_H

#include "base/status.h"
#include "tuff/device.h"

typedef enum op_code {
#define ELEMENTWISE(code, ...) OP_##code,
#define SPECIAL(code, ...) OP_##code,
#include "ops/ops.def"
#undef ELEMENTWISE
#undef SPECIAL
    OP_COUNT
} op_code;

/* What an op takes. OP_KIND_SPECIAL marks the rows that are not elementwise by table (WHERE and CAST among them). */
typedef enum op_kinds { OP_KIND_FLOATS, OP_KIND_NUMBERS, OP_KIND_BOOLS, OP_KIND_COMPARE, OP_KIND_SPECIAL } op_kinds;

typedef struct op_info {
    const char *name;
    int input_count; /* -1: any */
    op_kinds kinds;
    const char *value;         /* kernel text in x, y, z; NULL for specials */
    const char *integer_value; /* "0" where there is none */
    double ulps, low, high;
} op_info;

const op_info *tuff__op_info(op_code op);
/* Every elementwise op: the rows of the table, WHERE and CAST. */
bool tuff__op_is_elementwise(op_code op);
/* RESHAPE, PERMUTE, EXPAND, SLICE: what a strided view can say (a reshape perhaps). */
bool tuff__op_is_view(op_code op);
/* INPUT, ARRAY, CONSTANT: memory holds the value before anything runs. */
bool tuff__op_is_source(op_code op);
/* Exponentials, logarithms and the like: many times the cost of an addition. */
bool tuff__op_is_dear(op_code op);
/* Logarithms, roots, quotients: not for all numbers, or hardly to be told near some. */
bool tuff__op_is_partial(op_code op);
/* ATTENTION, what comes before it and its gradients. */
bool tuff__op_is_attention(op_code op);

bool tuff__dtype_is_float(tuff_dtype dtype);   /* f32, f16, bf16 */
bool tuff__dtype_is_integer(tuff_dtype dtype); /* i32, u32, i8, u8 */
/* The type kernels compute in: f32, i32, u32 or bool. */
tuff_dtype tuff__compute_dtype(tuff_dtype dtype);

/* What attention does beyond softmax(scale·q·k)·v: bits of op_attributes.options. */
enum {
    ATTENTION_BIAS = 1,      /* added to the scores */
    ATTENTION_DROPOUT = 2,   /* on what multiplies the values */
    ATTENTION_NO_SOFTMAX = 4 /* the scores themselves multiply the values */
};

/* What a use of an op carries besides inputs, dtype and shape of its result. */
typedef struct op_attributes {
    uint32_t axes;                /* SUM, REDUCE_MAX: bit i is axis i. Reduced axes stay, with extent 1 */
    int axis;                     /* CONCAT, IOTA, GATHER, SCATTER_ADD, CUMSUM */
    int order[TUFF_MAX_RANK];     /* PERMUTE */
    int64_t start[TUFF_MAX_RANK]; /* SLICE: first element; PAD: elements before; ATTENTION: [0] <= key - query <= [1] */
    int64_t step[TUFF_MAX_RANK];  /* SLICE: may be negative */
    double value;                 /* PAD: the fill; CONSTANT: a scalar's value; ATTENTION: the scale */
    const void *data;             /* CONSTANT: elements of its dtype, row-major; NULL: all are value */
    tuff_array *array;            /* ARRAY, ASSIGN */
    const char *name;             /* INPUT */
    uint32_t seed, ordinal;       /* RANDOM, ATTENTION with dropout */
    uint32_t options;             /* ATTENTION */
    double dropout;               /* ATTENTION: the probability, above 0 and below 1 */
} op_attributes;

/* Where an attention op's operands are among its inputs; -1 for what it has not. */
typedef struct attention_inputs {
    int q, k, v, lse, upstream, sums, bias, step;
} attention_inputs;
attention_inputs tuff__attention_inputs(op_code op, uint32_t options);

/* One use of an op for the reference evaluator: inputs in row-major double. input_errors and error may be NULL
   together; else they carry the first-order error bound: error[i] = ulps·2^-24·|f| + sum of |df/dx|·input_errors, sums
   adding gamma·sum|terms|, for results computed in f32. */
typedef struct evaluation {
    op_code op;
    const op_attributes *attributes;
    int input_count;
    const tuff_shape *input_shapes;
    const tuff_dtype *input_dtypes;
    const double *const *inputs;
    const double *const *input_errors;
    tuff_dtype dtype;
    tuff_shape shape;
    double *value;
    double *error;
    double slack; /* so many times its error may an operand be off where results jump; 0: once */
} evaluation;
/* Evaluates every op but INPUT, ARRAY and ASSIGN (whose elements the caller has). RANDOM's input is the step (i32). */
tuff_status tuff__evaluate(const evaluation *evaluation);

/* Elements of any dtype to double and back; to f16 and bf16 by rounding to nearest even, to integers truncating and
   saturating, NaN to 0. */
void tuff__to_double(tuff_dtype dtype, const void *data, int64_t count, double *out);
void tuff__from_double(tuff_dtype dtype, const double *values, int64_t count, void *out);
/* The value that a store as dtype keeps. f32 too: rounds. */
double tuff__round_to(tuff_dtype dtype, double value);

#endif
