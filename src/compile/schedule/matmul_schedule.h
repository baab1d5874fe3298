/* How a matmul is divided: tiles in registers, blocks in local memory, operands that are read from packed copies, and
   the forms for few rows or columns. Fusion uses it to find what computing an operand's elements in place costs;
   lowering generates the kernels. */
#ifndef TUFF_COMPILE_SCHEDULE_MATMUL_SCHEDULE_H
#define TUFF_COMPILE_SCHEDULE_MATMUL_SCHEDULE_H

#include "compile/schedule/cost.h"
#include "compile/schedule/kernel_policy.h"
#include "graph/graph.h"
#include "kernels/chain.h"

/* A matmul as the tiles see it. */
typedef struct matmul_problem {
    int64_t rows, columns, inner, batches;
    bool packed[2];    /* of x and y: copied into panels */
    bool scattered[2]; /* of x and y: read from more pages than a core's TLB covers */
    int max_rows;      /* limit of a tile's rows, to avoid cache conflicts */
} matmul_problem;

/* What one item computes. */
typedef struct matmul_tile {
    int vec, rows, columns; /* columns: in vectors */
    uint32_t local_size;
} matmul_tile;

/* Returns the product of the first `rank` extents. */
int64_t tuff__batch_count(const fused_chain *chain, int rank);
matmul_problem tuff__matmul_problem(const fused_chain *chain, int64_t inner);
/* Whether an operand's elements change only between runs, so that a copy of it need not be made in every run. */
bool tuff__operand_is_steady(const tuff_graph *graph, const fused_chain *matmul, int operand);
/* Whether an operand is copied: the tunable `name` decides, or leaves it to `pays`. */
bool tuff__wants_copy(const kernel_policy *policy, tunable name, bool pays);
/* Decides which operands are packed, and fills in the other fields that depend on their layout in memory. */
void tuff__choose_packing(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain,
                          matmul_problem *problem);
matmul_tile tuff__choose_tile(const kernel_policy *policy, const matmul_problem *problem);

/* Blocks in local memory, one for each work-group. */
typedef struct matmul_blocks {
    int rows, columns, step_k, buffers, thread_rows, thread_columns;
    int band;    /* rows of blocks in a band, whose groups run together */
    int sharers; /* groups per processor that share the terms of the last blocks; 0: every block has its own group */
} matmul_blocks;

/* Bytes of local memory for one buffer. */
uint32_t tuff__block_bytes(const matmul_blocks *blocks);
/* Returns the rows of blocks in a band. */
int tuff__choose_band(const kernel_policy *policy);
matmul_blocks tuff__choose_blocks(const kernel_policy *policy, const matmul_problem *problem);
/* Returns how many blocks of these sides all products have. */
int64_t tuff__count_blocks(const matmul_problem *problem, int rows, int columns);
/* Returns how the blocks are distributed over groups. */
tile_shares tuff__share_blocks(const kernel_policy *policy, const matmul_problem *problem, const matmul_blocks *blocks);

/* Matmuls of few rows or few columns, on CPU devices whose items are scalar code. Reading the large operand dominates,
   so its layout decides which kernel streams it. */
typedef enum gemv_form {
    GEMV_NONE,
    GEMV_DOTS, /* inner products: terms are contiguous */
    GEMV_SPANS /* long spans of contiguous columns */
} gemv_form;

gemv_form tuff__gemv_form(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain,
                          int64_t inner);
/* Whether a full copy of y leaves the product in the same kernel, which adds terms in the same order: on GPUs, a copy
   with contiguous columns could move a thin product to gemv_local. */
bool tuff__copy_keeps_order(const kernel_policy *policy, const fused_chain *chain);
/* tuff__gemv_form for GPUs, whose groups share the terms of few columns. */
gemv_form tuff__gemv_local_form(const kernel_policy *policy, const fused_chain *chain, int64_t inner);
/* Chooses the rows and columns of an item that computes inner products. */
void tuff__choose_dots(const kernel_policy *policy, const fused_chain *chain, int64_t inner, int *tile_rows,
                       int *tile_columns);
/* Returns the vectors of columns of an item of GEMV_SPANS. */
int64_t tuff__gemv_span(const kernel_policy *policy, const fused_chain *chain, int vec);

/* Returns how many times a run computes each element of operand 0 or 1 if it has a producer, counted in vectors. A
   scalar weighs as much as twice the lanes of a vector, because nothing hides its latency. */
double tuff__operand_loads(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain, int operand,
                           int64_t inner);

#endif
