/* What the files that lower attention share: its operands, and how they become parameters and macros of a launch. */
#ifndef TUFF_COMPILE_LOWER_LOWER_ATTENTION_H
#define TUFF_COMPILE_LOWER_LOWER_ATTENTION_H

#include "compile/lower/lower.h"

/* A tensor [B,T,H,D], or [B,T,H], as a kernel addresses it. */
typedef struct attention_rows {
    int id; /* of the memory buffer */
    int64_t offset, batch, row, head;
    int64_t count, heads, width; /* rows of a batch, heads of a row, elements of a head's row */
} attention_rows;

/* What all launches of one attention share. */
typedef struct attention {
    launch_list *list;
    int index;
    const struct task *task;
    attention_rows q, k, v, lse, upstream, sums; /* without softmax there are no lse and sums: their id is -1 */
    int64_t batches;
    int vec;
} attention;

/* The id of the task's root that has this op, or -1. */
int tuff__attention_root(const struct task *task, op_code op);
/* The next of the body's parameters. */
void tuff__attention_parameters(launch *kernel, const int64_t *values, int count);
/* A float as the integer parameter that holds its bits. */
int64_t tuff__attention_float(double value);
/* Adds what the options need, at the end of a body's parameters: the address of the bias (4), the step's, seed,
   ordinal, the threshold and the factor of dropout; the macros BIAS, DROPOUT and SOFTMAX, and those that read bias and
   step. */
void tuff__attention_options(const attention *job, launch *to, text *defines);
/* Four parameters, and the macros LOAD_X, LOADV_X, and where it is written STORE_X and STOREV_X. */
void tuff__attention_rows(const launch_list *list, launch *kernel, const attention_rows *operand, const char *letter,
                          bool written, text *defines);
/* Like tuff__attention_rows for a tensor that is only read; an id of -1: the parameters alone. */
void tuff__attention_operand(const attention *job, launch *to, const attention_rows *operand, const char *letter,
                             text *defines);
/* Whether rows of an operand are whole parts of eight elements, and all of them may be loaded in parts. */
bool tuff__attention_in_parts(const launch_list *list, const attention_rows *operand);
/* Of an operand that tuff__attention_rows added: the macros that load parts of 16 bytes, eight 16-bit factors, and the
   bits of one, and whether all of it may be loaded in parts. */
void tuff__attention_parts(const launch_list *list, launch *kernel, const attention_rows *operand, const char *letter,
                           text *defines);
/* A contiguous buffer of lines of that width: one parameter. An id of -1: the parameter alone. */
void tuff__attention_whole(const launch_list *list, launch *kernel, int id, int64_t width, const char *letter,
                           bool written, text *defines);
/* A result that the kernel computes into: four parameters, and the macros. An id of -1: the parameters alone. */
void tuff__attention_result(const attention *job, launch *to, int id, const char *letter, text *defines);
/* The gradient of the bias, likewise, and the extents of its first three axes. */
void tuff__attention_bias_result(const attention *job, launch *to, int id, text *defines);
/* Keys that a query sees, as distances from its own position, within those that there are: kernels compute with 32
   bits. */
typedef struct attention_band {
    int64_t first, last;
} attention_band;

attention_band tuff__attention_band(const attention *job);
/* Multiply-adds of one product over the pairs of queries and keys that the band lets through. */
double tuff__attention_pairs(const attention *job);
/* What bodies of groups begin with: extents, the band, queries, keys and values. */
void tuff__attention_operands(const attention *job, launch *made, int64_t blocks, int64_t parts, int64_t items,
                              text *defines);
/* On matrix units: whether the device has proved them, operands have 16 bits or may be rounded to them, and there are
   blocks enough; the launch of the forward pass. */
bool tuff__attention_suits_units(const attention *job);
tuff_status tuff__lower_attention_cooperative(const attention *job);
/* What f16 or bf16 all factors have, those of gradients with upstream, or may be rounded to; f32 where they differ or
   may not. */
tuff_dtype tuff__attention_factor_dtype(const attention *job);
/* The launches of devices with local memory. */
tuff_status tuff__lower_attention_local(const attention *job);

/* What one launch of the backward pass stores, ids or -1, and how its work is parted. */
typedef struct attention_backward {
    int dq, dk, dv, db;
    int copies;     /* a scratch buffer that stands in for dq, or -1 */
    int64_t owners; /* batches and heads of what is stored */
    int64_t blocks, parts, splits;
    int queries, keys, width, vectors; /* of tiles; vectors of columns of a lane's gradient */
} attention_backward;

/* A group on matrix units: queries of a panel, its keys, and widths of tiles. */
typedef struct attention_units {
    int queries, keys, depth, width, lanes;
} attention_units;

/* Whether the gradients of queries, keys and values are computed on matrix units, by such groups. */
bool tuff__attention_backward_units(const attention *job, attention_units *out);
/* Their launch. dq goes to the copies, unless they have no id: the caller has them added up. */
tuff_status tuff__launch_attention_backward(const attention *job, const attention_backward *use,
                                            const attention_units *units, const attention_rows *copies);

#endif
