/* A fused chain: what one kernel computes for each point of its domain, as single static assignments over affine
   addresses. Built by src/compile, written out as kernel text by emit.c.

   The domain is a small box of axes; each axis has a class: outer axes are spread over work-items, loop axes are walked
   inside one (the reduced axes), and for matmul the row and the column of the result are axes of their own. */
#ifndef TUFF_KERNELS_CHAIN_H
#define TUFF_KERNELS_CHAIN_H

#include "ops/ops.h"

/* offset + sum of coordinate·stride over the domain's axes, in elements. */
typedef struct affine {
    int64_t offset;
    int64_t stride[TUFF_MAX_RANK];
} affine;

typedef enum value_kind {
    VALUE_LOAD,     /* an element of a buffer at the address */
    VALUE_LOOKUP,   /* a buffer's element at address + args[0]·step; NaN or 0 where args[0] is outside 0 .. extent-1 */
    VALUE_CONSTANT, /* constant */
    VALUE_INDEX,    /* the address itself, i32 */
    VALUE_RANDOM,   /* tuff_random: the address is the counter, args[0] the step */
    VALUE_INSIDE,   /* bool: low <= address < high */
    VALUE_OP,       /* op of args */
    VALUE_RESULT    /* the result of reduction `index`, or the matmul's element */
} value_kind;

#define NO_VALUE (-1)

typedef struct chain_value {
    value_kind kind;
    tuff_dtype dtype; /* f32, i32, u32, bool */
    op_code op;
    tuff_dtype cast_to; /* CAST: the storage type whose rounding applies */
    int args[3];        /* indices of values */
    int guard;          /* LOAD, LOOKUP: read only where this bool holds (else address 0 is read); or NO_VALUE */
    int buffer;         /* index into the chain's buffers */
    affine address;
    int64_t low, high;    /* INSIDE */
    int64_t step, extent; /* LOOKUP */
    double constant;
    uint32_t seed, ordinal;
    int index;       /* RESULT */
    uint32_t varies; /* bit i: depends on axis i of the domain */
    int stage;       /* 1 + the highest stage of a reduction it depends on; 0: none */
} chain_value;

typedef struct chain_reduction {
    op_code op;      /* SUM or REDUCE_MAX */
    int input;       /* value reduced over the loop axes */
    int result;      /* the RESULT value */
    int stage;       /* the pass that computes it: the input's stage */
    bool in_columns; /* of a row walk: over the rows of an item instead of each row, added up in its output's memory */
} chain_reduction;

/* A store of a value. Where the value does not vary on the loop axes and the address does not, it happens once. */
typedef struct chain_output {
    int value, buffer;
    affine address;
    bool every_point; /* stored at every point of the domain, not once for the loop axes */
    bool in_columns;  /* the sums of columns that its value is */
} chain_output;

typedef enum axis_class { AXIS_OUTER, AXIS_LOOP, AXIS_ROW, AXIS_COLUMN } axis_class;

#define MAX_REDUCTIONS 8
#define MAX_OUTPUTS 12
#define MAX_EXTRA 2

/* A buffer the kernel sees. id is the compiler's number for it. element_offset and aligned are known after memory is
   planned. */
typedef struct chain_buffer {
    int id;
    tuff_dtype dtype; /* storage type */
    bool read, written;
    bool streamed;          /* stores need not stay in caches */
    int64_t element_offset; /* what the kernel adds to every address */
} chain_buffer;

/* What a matmul computes where it loads an operand: a value of the chain whose addresses walk the axes before `axis`
   like all others, and then the operand's own rows and columns in the place of the result's. */
typedef struct chain_producer {
    int begin, end; /* its values; none where the operand is read as it lies in memory */
    int value;      /* the element */
    int axis;       /* of its rows; columns are the next one */
    int64_t extent[2];
    bool turned; /* the body's vectors lie along its rows */
} chain_producer;

typedef struct fused_chain {
    int rank;
    int64_t extent[TUFF_MAX_RANK];
    axis_class classes[TUFF_MAX_RANK];
    chain_value *values;
    int value_count, value_capacity;
    chain_reduction reductions[MAX_REDUCTIONS];
    int reduction_count;
    int64_t item_rows; /* of a row walk with sums of columns: the rows of each; else 0 */
    chain_output outputs[MAX_OUTPUTS];
    int output_count;
    chain_buffer buffers[32];
    int buffer_count;
    affine
        extra[MAX_EXTRA]; /* where each operand's matrix of a batch starts (`$operands`); they limit how axes merge */
    int extra_count;
    const char *operand_names[2];  /* a body finds them in NAME_base */
    int operand_buffers[2];        /* matmul: the buffers of x and y; packing: of y and its copy */
    int64_t operand_strides[2][2]; /* matmul: strides of each operand's last two axes */
    chain_producer producers[2];   /* matmul: of each operand; its buffer and strides are then those of what it reads */
} fused_chain;

#define MAX_CHAIN_BUFFERS 32

/* Removes axes of extent 1 and merges neighbours of one class that every address walks as one. Row and column axes
   stay. */
void tuff__chain_collapse(fused_chain *chain);
/* Where the innermost axis is too short for vectors and the one around it has at least `enough` elements, they change
   places: only for walks that compute every point by itself. */
void tuff__chain_lengthen(fused_chain *chain, int64_t enough);
/* Fills in what each value varies on, and stages. */
void tuff__chain_analyse(fused_chain *chain);
/* Whether an operand is computed where it is loaded. */
bool tuff__is_produced(const fused_chain *chain, int operand);
/* Gives the operand the buffer and the strides that its producer reads: those of elements that walk both its rows and
   its columns rather than others. */
void tuff__chain_lead(fused_chain *chain, int operand);
/* The values and stores of buffer `from` become those of `to`. */
void tuff__chain_rename_buffer(fused_chain *chain, int from, int to);
/* Takes an operand's producer out of a matmul. */
void tuff__chain_drop_producer(fused_chain *chain, int operand);
/* Leaves out buffers that neither an operand nor a value nor a store is of. */
void tuff__chain_drop_buffers(fused_chain *chain);
void tuff__chain_free(fused_chain *chain);

#endif
