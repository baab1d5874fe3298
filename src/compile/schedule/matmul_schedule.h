/* How a matmul is cut up on devices that keep tiles in registers: the tile, which operands are read from packed copies,
   and the forms for few rows or columns. Fusion asks what an operand's elements cost to compute in place, lowering
   writes the kernels. */
#ifndef TUFF_COMPILE_SCHEDULE_MATMUL_SCHEDULE_H
#define TUFF_COMPILE_SCHEDULE_MATMUL_SCHEDULE_H

#include "compile/schedule/kernel_policy.h"
#include "graph/graph.h"
#include "kernels/chain.h"

/* A matmul as the tiles see it. */
typedef struct matmul_problem {
    int64_t rows, columns, inner, batches;
    bool packed[2];    /* x, y: in panels */
    bool scattered[2]; /* read from more pages than a core keeps at hand */
    int max_rows;      /* of a tile, for the cache's sake */
} matmul_problem;

/* What one item computes. */
typedef struct matmul_tile {
    int vec, rows, columns; /* columns: vectors of them */
    uint32_t local_size;
} matmul_tile;

/* The product of the first rank extents. */
int64_t tuff__batch_count(const fused_chain *chain, int rank);
matmul_problem tuff__matmul_problem(const fused_chain *chain, int64_t inner);
/* Whether an operand's elements change only between runs: then a copy of it is made once, and not in every run. */
bool tuff__operand_is_steady(const tuff_graph *graph, const fused_chain *matmul, int operand);
/* Whether an operand is copied: as the configuration says by that tunable, else as pays says. */
bool tuff__wants_copy(const kernel_policy *policy, tunable name, bool pays);
/* Fills in which operands are packed, and what else of the problem follows from how they lie in memory. */
void tuff__choose_packing(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain,
                          matmul_problem *problem);
matmul_tile tuff__choose_tile(const kernel_policy *policy, const matmul_problem *problem);

/* Blocks in local memory, of the lanes of a group. */
typedef struct matmul_blocks {
    int rows, columns, step_k, buffers, thread_rows, thread_columns;
    int band; /* blocks of rows that groups which run together belong to */
} matmul_blocks;

/* Bytes of local memory of a buffer. */
uint32_t tuff__block_bytes(const matmul_blocks *blocks);
matmul_blocks tuff__choose_blocks(const kernel_policy *policy, const matmul_problem *problem);

/* Matmuls of few rows or few columns, on CPU devices whose items are scalar code: bound by the reading of the large
   operand, so that its layout decides which kernel streams it. */
typedef enum gemv_form {
    GEMV_NONE,
    GEMV_DOTS, /* inner products: terms lie side by side */
    GEMV_SPANS /* long stretches of columns that lie side by side */
} gemv_form;

gemv_form tuff__gemv_form(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain,
                          int64_t inner);
/* Whether a whole copy of y leaves the product in the kernel that it would be in, which adds terms in the same order:
   with copied columns a thin product of GPUs may be one of gemv_local. */
bool tuff__copy_keeps_order(const kernel_policy *policy, const fused_chain *chain);
/* tuff__gemv_form on GPUs, whose groups share the terms of few columns. */
gemv_form tuff__gemv_local_form(const kernel_policy *policy, const fused_chain *chain, int64_t inner);
/* The rows and columns of an item of inner products. */
void tuff__choose_dots(const kernel_policy *policy, const fused_chain *chain, int64_t inner, int *tile_rows,
                       int *tile_columns);
/* The vectors of columns of an item of spans. */
int64_t tuff__gemv_span(const kernel_policy *policy, const fused_chain *chain, int vec);

/* How often a run computes each element of an operand, 0 or 1, that is made by a producer: per vector of elements, so
   that scalars count as many times as the device's vectors have lanes, and twice: nothing else hides them. */
double tuff__operand_loads(const kernel_policy *policy, const tuff_graph *graph, const fused_chain *chain, int operand,
                           int64_t inner);

#endif
