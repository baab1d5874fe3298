/* Shared by the files that lower attention: its operands, and how they become parameters and macros of a launch. */
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

/* Returns the id of the task's root with this op, or -1. */
int tuff__attention_root(const struct task *task, op_code op);
/* Sets *out to the buffer for the log-sum-exps, the root's or a new one; to -1 without softmax. */
tuff_status tuff__attention_find_lse(const attention *job, int *out);
/* Appends parameters of the body. */
void tuff__attention_add_parameters(launch *kernel, const int64_t *values, int count);
/* Appends what the options need, at the end of a body's parameters: the address of the bias (4), that of the step,
   seed, ordinal, and the threshold and scale of dropout. Defines BIAS, DROPOUT and SOFTMAX, and the macros that read
   bias and step. */
void tuff__attention_add_options(const attention *job, launch *kernel, text *defines);
/* Appends four parameters and defines the macros LOAD_X and LOADV_X and, if `written`, STORE_X and STOREV_X, where X is
   `letter`. If the id is -1, appends the parameters alone, as do the functions for contiguous buffers and results. */
void tuff__attention_add_rows(const launch_list *list, launch *kernel, const attention_rows *operand,
                              const char *letter, bool written, text *defines);
/* Whether an operand can be loaded in parts of eight elements: each row consists of whole parts and is aligned to
   them. */
bool tuff__attention_can_load_parts(const launch_list *list, const attention_rows *operand);
/* For an operand that tuff__attention_add_rows added: defines the macros that load a part of eight factors, 16 bytes in
   16 bits each, and the bits of one factor, and X_PARTS: whether it can be loaded in parts. */
void tuff__attention_add_parts(const launch_list *list, launch *kernel, const attention_rows *operand,
                               const char *letter, text *defines);
/* Appends the one parameter of a contiguous buffer of lines of that width, and defines its macros. */
void tuff__attention_add_contiguous(const launch_list *list, launch *kernel, int id, int64_t width, const char *letter,
                                    bool written, text *defines);
/* Appends the four parameters of a result that the kernel computes, and defines its macros. */
void tuff__attention_add_result(const attention *job, launch *kernel, int id, const char *letter, text *defines);
/* The same for the gradient of the bias, and the extents of its first three axes. */
void tuff__attention_add_bias_result(const attention *job, launch *kernel, int id, text *defines);
/* Notes that a launch reads nothing of a scratch buffer but what it stored itself. */
void tuff__attention_store_only(launch *kernel, int id);
/* The keys that a query sees, as distances from its own position. Clamped to the extents, because kernels compute with
   32 bits. */
typedef struct attention_band {
    int64_t first, last;
} attention_band;

attention_band tuff__attention_band(const attention *job);
/* Returns the multiply-adds of one product over the pairs of queries and keys in the band. */
double tuff__attention_pairs(const attention *job);
/* Appends what the bodies for work-groups begin with: extents, the band, queries, keys and values. */
void tuff__attention_add_operands(const attention *job, launch *kernel, int64_t blocks, int64_t parts, int64_t items,
                                  text *defines);
enum { MAX_SPLITS = 32, MAX_COPIES = 1 << 26 /* elements of all copies of a result */ };

/* Returns how many groups of so many lanes occupy all processors. */
int64_t tuff__attention_groups_to_fill(const kernel_policy *policy, int64_t group_lanes);
/* Returns `splits`, or fewer, down to 1, if each has a copy of so many elements that all of them are too large. */
int64_t tuff__attention_limit_splits(int64_t splits, int64_t elements);

/* The groups of the forward pass that share the keys of a block of queries, and what they store for attention_join. */
typedef struct key_splits {
    int64_t count, first_key, keys; /* count: 1 if nothing is shared; keys: of each */
    attention_rows results;         /* of all splits, as further batches; without an id if only lse is computed */
    int lse;                        /* a buffer: the bases and sums of weights of all splits, or, if nothing is
                                       shared, the log-sum-exps; -1 without softmax */
    bool in_log2;                   /* the bases are in units of log2 */
} key_splits;

/* Divides the keys that any query sees, in whole panels, into `asked` parts. If that is 0, they are divided if `items`
   groups of so many lanes leave processors idle, into parts that are long enough to outweigh the second launch. */
key_splits tuff__attention_split_keys(const attention *job, int64_t panel_keys, int64_t group_lanes, int64_t items,
                                      int64_t asked);
/* Adds the memory of the splits, or of the log-sum-exps if they are not among the results. */
tuff_status tuff__attention_add_split_buffers(const attention *job, key_splits *splits);
/* Appends what follows the operands of the forward bodies for work-groups: the result, the log-sum-exps, the options,
   and which keys a split has. */
void tuff__attention_add_forward_results(const attention *job, launch *made, const key_splits *splits, text *defines);
/* Adds the launch that combines the splits, if there are several. */
tuff_status tuff__attention_join_splits(const attention *job, const key_splits *splits);

/* Whether the forward pass can run on matrix units: the device's self-test proved them, operands have 16 bits or may be
   rounded to them, and there are enough queries and keys, unless the family is requested. The second function adds its
   launches. */
bool tuff__attention_suits_units(const attention *job);
tuff_status tuff__lower_attention_cooperative(const attention *job);
/* Adds the launches for devices with local memory. */
tuff_status tuff__lower_attention_local(const attention *job);

/* What one launch of the backward pass stores (ids or -1), and how its work is divided. */
typedef struct attention_backward {
    int dq, dk, dv, db;
    int copies;     /* a scratch buffer that stands in for dq, or -1 */
    int64_t owners; /* batches and heads of the results */
    int64_t blocks, parts, splits;
    int queries, keys, width, vectors; /* of tiles; vectors: columns of a lane's gradient, in vectors */
} attention_backward;

/* Appends what the bodies of the backward pass for work-groups begin with, and what follows their dq: the other
   gradients, the options, and the division of the work. */
void tuff__attention_add_backward_operands(const attention *job, launch *kernel, int64_t blocks, int64_t parts,
                                           int64_t items, text *defines);
void tuff__attention_add_gradients(const attention *job, launch *kernel, const attention_backward *work,
                                   int64_t copy_stride, text *defines);

/* A group on matrix units: the queries of a panel, its keys, the widths of tiles, and its lanes; the shape of a block
   and the lanes of a subgroup; how many blocks of keys a subgroup has, and how many subgroups divide the columns of the
   gradients of the same keys. */
typedef struct attention_units {
    int queries, keys, depth, width, lanes;
    int shape[3], subgroup_lanes, key_blocks, column_splits;
    bool knows_sums;    /* kernels know which sums a lane holds */
    bool terms_in_turn; /* tiles of queries and of upstream gradients use the same memory in turn */
} attention_units;

/* Whether the gradients of queries, keys and values are computed on matrix units; fills in their groups. */
bool tuff__attention_backward_suits_units(const attention *job, attention_units *out);
/* Adds that launch. dq goes to the copies, if these have an id; the caller adds the copies up. */
tuff_status tuff__launch_attention_backward(const attention *job, const attention_backward *work,
                                            const attention_units *units, const attention_rows *copies);

#endif
