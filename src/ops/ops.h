/* The primitive ops as data: the columns of ops.def, the attributes that a use of an op carries, and the front of the
   float64 reference. Knows nothing of graphs or devices. Read ops.def first, then evaluate.h for the reference. */
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

/* Dtypes that an op accepts: of the operands of elementwise rows, of the result of the others. Computation is in
   floats, i32, u32 and bool; i8 and u8 are storage only. */
typedef enum op_kinds {
    OP_KIND_FLOATS,  /* f32, f16, bf16 */
    OP_KIND_NUMBERS, /* floats, i32, u32 */
    OP_KIND_BOOLS,
    OP_KIND_COMPARE, /* numbers; the result is bool */
    OP_KIND_ANY,
    OP_KIND_I32,
    OP_KIND_F32
} op_kinds;

/* How kernels compute an op. The first four are computed inside the chains that read them; of the last six all but
   ASSIGN are computed by a kernel of their own, which writes the result to memory. */
typedef enum op_pattern {
    PATTERN_ELEMENTWISE, /* element i of the result from element i of each operand */
    PATTERN_VIEW,        /* a strided view of its operand, as far as strides can express it */
    PATTERN_INDEXED,     /* an expression in the index of the element */
    PATTERN_SOURCE,      /* in memory before anything runs */
    PATTERN_REDUCTION,
    PATTERN_SCAN,
    PATTERN_MATMUL,
    PATTERN_SCATTER,
    PATTERN_ATTENTION,
    PATTERN_ASSIGN
} op_pattern;

/* What an operand must be so that the kernel of an op can read it. */
typedef enum op_operands {
    OPERANDS_VALUES,  /* anything: it is computed where it is read */
    OPERANDS_MEMORY,  /* strided views of memory */
    OPERANDS_FACTORS, /* strided views of memory, perhaps behind a cast from f16 or bf16 to f32 */
    OPERANDS_ROWS,    /* strided views of memory; those of rank 4 with elements of a row side by side */
    OPERANDS_TABLE    /* the first a strided view of memory, the others anything */
} op_operands;

/* Which axes of the result depend on which axes of the operands. */
typedef enum op_axes {
    AXES_IN_ORDER,   /* axis i on axis i, where the extents are equal */
    AXES_REDUCED,    /* in order; the whole of the axes in attributes.axes is needed */
    AXES_SCANNED,    /* in order; the whole of attributes.axis is needed */
    AXES_PERMUTED,   /* axis i on attributes.order[i] */
    AXES_RESHAPED,   /* runs of axes with equal products of extents on each other */
    AXES_MOVED,      /* in order, where attributes.start and step leave an axis whole */
    AXES_JOINED,     /* in order but for attributes.axis */
    AXES_CONTRACTED, /* rows on those of the first operand, columns on those of the second, whole axes in between */
    AXES_GATHERED,   /* in order; of the first operand the whole of attributes.axis is needed */
    AXES_SCATTERED,  /* in order; the whole of attributes.axis is needed */
    AXES_ATTENTION,
    AXES_COUNTED,  /* no operands: the value is the index along attributes.axis */
    AXES_UNFOLDED, /* in order, one more behind attributes.axis, which moves */
    AXES_DRAWN,    /* the value depends on the index along each axis */
    AXES_CONSTANT, /* data has elements for all of them, one number for none */
    AXES_FIXED     /* nothing is known */
} op_axes;

/* The attribute by which two uses of an op on equal operands differ. */
typedef enum op_attribute {
    ATTRIBUTE_NONE,
    ATTRIBUTE_NAME,
    ATTRIBUTE_ARRAY,
    ATTRIBUTE_DATA, /* data, or value where that is NULL */
    ATTRIBUTE_AXES,
    ATTRIBUTE_AXIS,
    ATTRIBUTE_ORDER,
    ATTRIBUTE_STEPS,  /* start and step */
    ATTRIBUTE_BEFORE, /* start: elements before */
    ATTRIBUTE_WINDOWS /* axis, step[0] and step[1] */
} op_attribute;

/* Arithmetic for one element, in ascending order. */
typedef enum op_cost { COST_FREE, COST_CHEAP, COST_DIVISION, COST_EXPENSIVE } op_cost;

typedef enum op_domain {
    DOMAIN_ALL,
    DOMAIN_PARTIAL, /* undefined for some operands, or ill-conditioned near some: logarithms, roots, quotients */
    DOMAIN_STEPS    /* the result jumps */
} op_domain;

typedef struct op_info {
    const char *name;
    int input_count; /* -1: any */
    op_kinds kinds;
    op_pattern pattern;
    op_operands operands;
    op_axes axes;
    op_attribute attribute;
    op_cost cost;
    op_domain domain;
    const char *text;         /* of kernels, in x, y, z; NULL for all but the elementwise rows */
    const char *integer_text; /* "0" where there is none */
    double ulps, low, high;
} op_info;

const op_info *tuff__op_info(op_code op);
/* True for the elementwise rows of the table, whose builders, kernels and references are their columns. */
bool tuff__op_has_text(op_code op);
/* True where kinds of the op include dtype. */
bool tuff__op_accepts(op_code op, tuff_dtype dtype);
/* Every elementwise op: the rows of the table, WHERE and CAST. */
bool tuff__op_is_elementwise(op_code op);
/* RESHAPE, PERMUTE, EXPAND, SLICE, UNFOLD: expressible as a strided view (a reshape not always). */
bool tuff__op_is_view(op_code op);
/* INPUT, ARRAY, CONSTANT: memory holds the value before anything runs. */
bool tuff__op_is_source(op_code op);
/* Computed by a kernel of its own, which writes the result to memory: reductions, scans, matmul, scatter, attention. */
bool tuff__op_is_materialized(op_code op);
/* Exponentials, logarithms and the like, and random numbers: many times the cost of an addition. */
bool tuff__op_is_expensive(op_code op);
/* Logarithms, roots, quotients: undefined for some operands, or ill-conditioned near some. */
bool tuff__op_is_partial(op_code op);
/* ATTENTION, the log-sum-exp before it and its gradients. */
bool tuff__op_is_attention(op_code op);
/* The gradients of ATTENTION. */
bool tuff__op_is_attention_gradient(op_code op);

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

/* Of an ARRAY node: the array is the graph's own, in its arena. */
enum { ARRAY_OF_GRAPH = 1 };

/* What a use of an op carries besides inputs, dtype and shape of its result. */
typedef struct op_attributes {
    uint32_t axes;                /* SUM, REDUCE_MAX: bit i is axis i. Reduced axes stay, with extent 1 */
    int axis;                     /* of the ops whose column attributes says AXIS */
    int order[TUFF_MAX_RANK];     /* PERMUTE */
    int64_t start[TUFF_MAX_RANK]; /* SLICE: first element; PAD: elements before; ATTENTION: [0] <= key - query <= [1] */
    int64_t step[TUFF_MAX_RANK];  /* SLICE: may be negative; UNFOLD: [0] from window to window, [1] inside of one */
    double value;                 /* PAD: the fill; CONSTANT: a scalar's value; ATTENTION: the scale */
    const void *data;             /* CONSTANT: elements of its dtype, row-major; NULL: all are value */
    tuff_array *array;            /* ARRAY, ASSIGN */
    const char *name;             /* INPUT */
    uint32_t seed, ordinal;       /* RANDOM, ATTENTION with dropout */
    uint32_t options;             /* ATTENTION; ARRAY: ARRAY_OF_GRAPH */
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
    double factor_rounding; /* the share of each weight of attention that rounding it may change; 0: it is f32 */
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
