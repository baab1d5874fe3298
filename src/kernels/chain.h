/* A fused chain: the loop nest of one kernel, that is, a domain of axes and the values that are computed at each of its
   points, in static single assignment form with affine addresses. Built by src/compile, written out as kernel text by
   emit.c.

   The domain is a small box of axes, each of one class: outer axes are distributed over work-items, loop axes are
   loops inside one (the reduced axes), and for a matmul the row and the column of the result are axes of their own. */
#ifndef TUFF_KERNELS_CHAIN_H
#define TUFF_KERNELS_CHAIN_H

#include "ops/ops.h"

/* offset + sum of coordinate * stride over the domain's axes, in elements. */
typedef struct affine {
    int64_t offset;
    int64_t stride[TUFF_MAX_RANK];
} affine;

typedef enum value_kind {
    VALUE_LOAD,     /* the buffer's element at the address */
    VALUE_LOOKUP,   /* the buffer's element at address + args[0] * step; NaN or 0 unless 0 <= args[0] < extent */
    VALUE_CONSTANT, /* constant */
    VALUE_INDEX,    /* the address itself, i32 */
    VALUE_RANDOM,   /* tuff_random: the address is the counter, args[0] the step */
    VALUE_INSIDE,   /* bool: low <= address < high */
    VALUE_OP,       /* op applied to args */
    VALUE_RESULT    /* the result of reduction `index`, or the matmul's element */
} value_kind;

#define NO_VALUE (-1)

static inline bool tuff__value_has_address(value_kind kind)
{
    return kind != VALUE_CONSTANT && kind != VALUE_OP && kind != VALUE_RESULT;
}

typedef struct chain_value {
    value_kind kind;
    tuff_dtype dtype; /* f32, i32, u32 or bool */
    op_code op;
    tuff_dtype cast_to; /* CAST: the storage type to which the value is rounded */
    int args[3];        /* indices of values */
    int guard;          /* LOAD, LOOKUP: bool; if false, the buffer's beginning is read instead. NO_VALUE: none */
    int buffer;         /* index into the chain's buffers */
    affine address;
    int64_t low, high;    /* INSIDE */
    int64_t step, extent; /* LOOKUP */
    double constant;
    uint32_t seed, ordinal;
    int index;       /* RESULT */
    uint32_t varies; /* bit i: depends on axis i of the domain */
    int stage;       /* 1 + the highest stage of the reductions it depends on; 0 if none */
} chain_value;

typedef struct chain_reduction {
    op_code op;      /* SUM or REDUCE_MAX */
    int input;       /* the value that is reduced over the loop axes */
    int result;      /* the RESULT value */
    int stage;       /* the pass that computes it: the stage of the input */
    bool in_columns; /* in rows: reduced over an item's rows, not along each row; accumulated in the output */
} chain_reduction;

/* A store of a value. If neither the value nor the address varies along the loop axes, it happens once, after them. */
typedef struct chain_output {
    int value, buffer;
    affine address;
    bool every_point; /* stored at every point of the domain rather than once for the loop axes */
    bool in_columns;  /* its value is an in_columns reduction */
} chain_output;

typedef enum axis_class { AXIS_OUTER, AXIS_LOOP, AXIS_ROW, AXIS_COLUMN } axis_class;

#define MAX_REDUCTIONS 8
#define MAX_OUTPUTS 12
#define MAX_OPERAND_BASES 2
#define MAX_CHAIN_BUFFERS 32

/* A buffer of the kernel. id is the compiler's number for it. element_offset is known once memory is planned. */
typedef struct chain_buffer {
    int id;
    tuff_dtype dtype; /* storage type */
    bool read, written;
    bool streamed;          /* stores may bypass the caches */
    int64_t element_offset; /* added to every address in the kernel */
} chain_buffer;

/* The computation of a matmul operand where it is loaded: a value of the chain. Its addresses have strides along the
   axes before `axis` like all others, followed by the operand's own rows and columns instead of the result's. */
typedef struct chain_producer {
    int begin, end; /* range of its values; empty if the operand is read directly from memory */
    int value;      /* the element */
    int axis;       /* axis of its rows; the next one is that of its columns */
    int64_t extent[2];
    bool transposed; /* the body's vectors lie along its rows */
} chain_producer;

typedef struct fused_chain {
    int rank;
    int64_t extent[TUFF_MAX_RANK];
    axis_class classes[TUFF_MAX_RANK];
    chain_value *values;
    int value_count, value_capacity;
    chain_reduction reductions[MAX_REDUCTIONS];
    int reduction_count;
    int64_t item_rows; /* rows with column sums: rows of each work-item; else 0 */
    chain_output outputs[MAX_OUTPUTS];
    int output_count;
    chain_buffer buffers[MAX_CHAIN_BUFFERS];
    int buffer_count;
    affine operand_bases[MAX_OPERAND_BASES]; /* start of each operand's matrix within a batch (`$operands`); limits how
                                                axes merge */
    int operand_base_count;
    const char *operand_names[2];  /* a body finds the start in NAME_base */
    int operand_buffers[2];        /* matmul: the buffers of x and y; packing: of y and its copy */
    int64_t operand_strides[2][2]; /* matmul: strides of each operand's last two axes */
    tuff_dtype factor_precision;   /* matmul: what f32 operands may be rounded to */
    chain_producer producers[2];   /* matmul: one per operand, whose buffer and strides are then those of what the
                                      producer reads */
} fused_chain;

/* Returns a value without arguments, guard and buffer. */
chain_value tuff__chain_value(value_kind kind, tuff_dtype dtype);
/* Appends a value. Returns its index; NO_VALUE if memory ran out. */
int tuff__chain_append(fused_chain *chain, chain_value value);
/* Copies a chain, with room for one more value. The caller frees the copy. */
tuff_status tuff__chain_duplicate(const fused_chain *chain, fused_chain *out);
/* Removes axes of extent 1, and merges neighbouring axes of one class along which every address advances as along one.
   Row and column axes remain as they are. */
void tuff__chain_collapse(fused_chain *chain);
/* If the innermost axis has fewer than min_extent elements and the axis around it has at least as many, swaps the two,
   so that vectors lie along the longer one. Only for kernels that compute every point independently. */
void tuff__chain_swap_inner_axes(fused_chain *chain, int64_t min_extent);
/* Computes which axes each value varies along, and the stages. */
void tuff__chain_analyse(fused_chain *chain);
/* Returns the number of passes of an analysed chain: 1 + the highest stage of what is reduced or stored at every
   point. */
int tuff__chain_pass_count(const fused_chain *chain);
/* Whether an address moves by multiples of so many elements along every axis but this one. */
bool tuff__strides_are_multiples(const fused_chain *chain, const affine *address, int except_axis, int elements);
/* Whether vectors of so many elements, which begin at multiples of them along an axis, do so at every address, too. */
bool tuff__keeps_to_multiples(const fused_chain *chain, const affine *address, int axis, int elements);
/* Whether the operand is computed where it is loaded. */
bool tuff__is_produced(const fused_chain *chain, int operand);
/* Sets the operand's buffer and strides to those of a load of its producer, preferably one whose address varies along
   both the rows and the columns. */
void tuff__chain_set_operand_from_producer(fused_chain *chain, int operand);
/* Replaces buffer `from` by `to` in all values and stores. */
void tuff__chain_rename_buffer(fused_chain *chain, int from, int to);
/* Removes an operand's producer from a matmul. */
void tuff__chain_drop_producer(fused_chain *chain, int operand);
/* Removes buffers that no operand, value or store uses. */
void tuff__chain_drop_buffers(fused_chain *chain);
void tuff__chain_free(fused_chain *chain);

#endif
