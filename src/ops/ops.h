/* The primitive ops as data: the columns of ops.def, the attributes that a use of an op carries, and the interface of
   the float64 reference. Knows nothing of graphs or devices. Read ops.def first, then evaluate.h for the reference. */
#ifndef TUFF_OPS_OPS_H
#define TUFF_OPS_OPS_H

#include "base/status.h"
#include "tuff/device.h"

typedef enum op_code {
#define ELEMENTWISE(code, ...) OP_##code,
#define SPECIAL(code, ...) OP_##code,
#include "ops/ops.def"
    OP_COUNT
} op_code;

/* Dtypes that an op accepts: those of the operands for elementwise rows, that of the result for the others. Kernels
   compute in floats, i32, u32 and bool; i8 and u8 are storage only. */
typedef enum op_kinds {
    OP_KIND_FLOATS,  /* f32, f16, bf16 */
    OP_KIND_NUMBERS, /* floats, i32, u32 */
    OP_KIND_BOOLS,
    OP_KIND_COMPARE, /* numbers; the result is bool */
    OP_KIND_ANY,
    OP_KIND_I32,
    OP_KIND_F32
} op_kinds;

/* How kernels compute an op. Ops with one of the first four patterns are computed inside the chains that read them. Of
   the last six, all but ASSIGN are computed by a kernel of their own, which writes the result to memory. */
typedef enum op_pattern {
    PATTERN_ELEMENTWISE, /* element i of the result depends on element i of each operand */
    PATTERN_VIEW,        /* a strided view of its operand, if strides can express it */
    PATTERN_INDEXED,     /* an expression of the element's index */
    PATTERN_SOURCE,      /* in memory before anything runs */
    PATTERN_REDUCTION,
    PATTERN_SCAN,
    PATTERN_MATMUL,
    PATTERN_SCATTER,
    PATTERN_ATTENTION,
    PATTERN_ASSIGN
} op_pattern;

/* What an operand must be so that the op's kernel can read it. */
typedef enum op_operands {
    OPERANDS_VALUES,  /* anything: it is computed inside the kernel */
    OPERANDS_MEMORY,  /* strided views of memory */
    OPERANDS_FACTORS, /* strided views of memory, possibly with a cast from f16 or bf16 to f32 */
    OPERANDS_ROWS,    /* strided views of memory; those of rank 4 with contiguous rows */
    OPERANDS_TABLE    /* the first must be a strided view of memory, the others may be anything */
} op_operands;

/* Which axes of the result depend on which axes of the operands. */
typedef enum op_axes {
    AXES_IN_ORDER,   /* axis i on axis i, if the extents are equal */
    AXES_REDUCED,    /* in order; the axes in attributes.axes are needed completely */
    AXES_SCANNED,    /* in order; attributes.axis is needed completely */
    AXES_PERMUTED,   /* axis i on attributes.order[i] */
    AXES_RESHAPED,   /* runs of axes whose products of extents are equal, on each other */
    AXES_MOVED,      /* in order, if attributes.start and step keep the whole axis */
    AXES_JOINED,     /* in order, except for attributes.axis */
    AXES_CONTRACTED, /* rows on those of the first operand, columns on those of the second; whole inner axes */
    AXES_GATHERED,   /* in order; attributes.axis of the first operand is needed completely */
    AXES_SCATTERED,  /* in order; attributes.axis is needed completely */
    AXES_ATTENTION,
    AXES_COUNTED,  /* no operands: the value is the index along attributes.axis */
    AXES_UNFOLDED, /* in order, with one axis added after attributes.axis, whose positions shift */
    AXES_DRAWN,    /* the value depends on the index along each axis */
    AXES_CONSTANT, /* if data is set, its elements depend on all axes; a single number on none */
    AXES_FIXED     /* unknown */
} op_axes;

/* The attribute in which two uses of an op on equal operands differ. */
typedef enum op_attribute {
    ATTRIBUTE_NONE,
    ATTRIBUTE_NAME,
    ATTRIBUTE_ARRAY,
    ATTRIBUTE_DATA, /* data, or value if that is NULL */
    ATTRIBUTE_AXES,
    ATTRIBUTE_AXIS,
    ATTRIBUTE_ORDER,
    ATTRIBUTE_STEPS,  /* start and step */
    ATTRIBUTE_BEFORE, /* start: number of elements before */
    ATTRIBUTE_WINDOWS /* axis, step[0] and step[1] */
} op_attribute;

/* Arithmetic cost of one element, in ascending order. */
typedef enum op_cost { COST_FREE, COST_CHEAP, COST_DIVISION, COST_EXPENSIVE } op_cost;

typedef enum op_domain {
    DOMAIN_ALL,
    DOMAIN_PARTIAL, /* undefined for some operands, or ill-conditioned near them: logarithms, roots, quotients */
    DOMAIN_STEPS    /* the result is discontinuous */
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
    const char *text;         /* kernel text, in x, y, z; NULL except for elementwise rows */
    const char *integer_text; /* "0": none */
    double ulps, low, high;
} op_info;

const op_info *tuff__op_info(op_code op);
/* Whether the op is an elementwise row of the table, with builder, kernel and reference given by its columns. */
bool tuff__op_has_text(op_code op);
/* Whether the kinds of the op include dtype. */
bool tuff__op_accepts(op_code op, tuff_dtype dtype);
/* Whether the op is elementwise: such a row of the table, WHERE or CAST. */
bool tuff__op_is_elementwise(op_code op);
/* RESHAPE, PERMUTE, EXPAND, SLICE, UNFOLD: can be expressed as a strided view (a reshape not always). */
bool tuff__op_is_view(op_code op);
/* INPUT, ARRAY, CONSTANT: the value is in memory before anything runs. */
bool tuff__op_is_source(op_code op);
/* Whether the op has a kernel of its own, which writes the result to memory: reductions, scans, matmul, scatter,
   attention. */
bool tuff__op_is_materialized(op_code op);
/* Exponentials, logarithms and the like, and random numbers: they cost many times as much as an addition. */
bool tuff__op_is_expensive(op_code op);
/* Logarithms, roots, quotients: undefined for some operands, or ill-conditioned near them. */
bool tuff__op_is_partial(op_code op);
/* ATTENTION, the log-sum-exp before it, and its gradients. */
bool tuff__op_is_attention(op_code op);
/* The gradients of ATTENTION. */
bool tuff__op_is_attention_gradient(op_code op);

bool tuff__dtype_is_float(tuff_dtype dtype);   /* f32, f16, bf16 */
bool tuff__dtype_is_integer(tuff_dtype dtype); /* i32, u32, i8, u8 */
/* Returns the dtype that kernels compute in: f32, i32, u32 or bool. */
tuff_dtype tuff__compute_dtype(tuff_dtype dtype);

/* Features of attention beyond softmax(scale·q·k)·v: bits of op_attributes.options. */
enum {
    ATTENTION_BIAS = 1,      /* added to the scores */
    ATTENTION_DROPOUT = 2,   /* applied to the weights of the values */
    ATTENTION_NO_SOFTMAX = 4 /* the scores themselves are the weights of the values */
};

/* An option of ARRAY nodes: the array belongs to the graph and lies in its arena. */
enum { ARRAY_OF_GRAPH = 1 };

/* Returns the product of the extents of axes begin to end - 1. */
int64_t tuff__count_axes(tuff_shape shape, int begin, int end);

/* Attributes of a use of an op, besides its inputs and the dtype and shape of its result. */
typedef struct op_attributes {
    uint32_t axes;                /* SUM, REDUCE_MAX: bit i is axis i. Reduced axes remain, with extent 1 */
    int axis;                     /* for ops whose column attributes is AXIS */
    int order[TUFF_MAX_RANK];     /* PERMUTE */
    int64_t start[TUFF_MAX_RANK]; /* SLICE: first element; PAD: elements before; ATTENTION: [0] <= key - query <= [1] */
    int64_t step[TUFF_MAX_RANK];  /* SLICE: may be negative; UNFOLD: [0] between windows, [1] within a window */
    double value;                 /* PAD: the fill; CONSTANT: the value of a scalar; ATTENTION: the scale */
    const void *data;             /* CONSTANT: elements of its dtype, row-major; NULL: all are value */
    tuff_array *array;            /* ARRAY, ASSIGN */
    const char *name;             /* INPUT */
    uint32_t seed, ordinal;       /* RANDOM, ATTENTION with dropout */
    uint32_t options;             /* ATTENTION; ARRAY: ARRAY_OF_GRAPH */
    double dropout;               /* ATTENTION: the probability, above 0 and below 1 */
} op_attributes;

/* Positions of an attention op's operands among its inputs; -1: it has no such operand. */
typedef struct attention_inputs {
    int q, k, v, lse, upstream, sums, bias, step;
} attention_inputs;
attention_inputs tuff__attention_inputs(op_code op, uint32_t options);

/* Numbers whose significand has `bits` bits; 0: all of a double. Values are multiplied by stretch, from 1 to 2, before
   they are rounded, and divided by it afterwards. 11 bits imply the smallest number of f16; nothing overflows. */
typedef struct rounding_grid {
    int bits;
    double stretch;
} rounding_grid;
double tuff__round_on_grid(rounding_grid grid, double value);

/* One use of an op, for the reference evaluator, with inputs in row-major double. Either both or none of input_errors
   and error may be NULL. If set, they carry the first-order error bound of results computed in f32: error[i] =
   ulps·2^-24·|f| + sum of |df/dx|·input_errors; sums add gamma·sum|terms|. */
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
    double slack; /* factor on the errors of operands in deciding whether a discontinuous result may jump; 0: 1 */
    double factor_rounding; /* relative error from rounding each weight of attention; 0: weights are f32 */
    rounding_grid inner_grid; /* to which attention rounds its scores, weights and their derivatives */
} evaluation;
/* Evaluates every op but INPUT, ARRAY and ASSIGN, whose elements the caller has. RANDOM's input is the step (i32). */
tuff_status tuff__evaluate(const evaluation *evaluation);

/* Convert elements of any dtype to double and back. Conversion to f16 and bf16 rounds to nearest even; conversion to
   integers truncates and saturates, and NaN becomes 0. */
void tuff__to_double(tuff_dtype dtype, const void *data, int64_t count, double *out);
void tuff__from_double(tuff_dtype dtype, const double *values, int64_t count, void *out);
/* Returns the value that remains after a store as dtype; rounds for f32, too. */
double tuff__round_to(tuff_dtype dtype, double value);

#endif
