/* Between the files that lower matmuls: lower_matmul.c (tiles), lower_thin.c (few rows), lower_subgroup.c
   (lanes that share registers), lower_pack.c (copies of operands), lower_apart.c (products without their epilogues). */
#ifndef TUFF_COMPILE_LOWER_MATMUL_H
#define TUFF_COMPILE_LOWER_MATMUL_H

#include "compile/lower.h"

/* Puts a packed copy in the place of an operand, 0 or 1: panels of `width` rows of x or columns of y. Its strides are
   then 1 along the panel and width along the terms; panels follow each other. vec: lanes of the copying kernel. */
tuff_status tuff__pack_operand(lowered *with, int index, fused_chain *matmul, int operand, int64_t inner, int64_t width,
                               int vec);
/* The rest of a launch of pack_transpose, whose chain has its axes, operand 0 in buffer 0 and the copy in buffer 1:
   `lines` lines of `inner` terms, line_stride apart, become panels of `width`. */
tuff_status tuff__finish_transpose(const lowered *with, launch *of, int vec, int64_t lines, int64_t inner,
                                   int64_t width, int64_t line_stride);
/* Whether an operand's elements change only between runs: then a copy of it is made once, and not in every run. */
bool tuff__operand_is_steady(const struct fusion *fusion, const fused_chain *matmul, int operand);

/* TUFF_E_LIMIT: so many vectors of sums are more than any register file holds and only keep compilers busy. */
tuff_status tuff__check_sums(const lowered *with, int vec, int64_t count);
/* The parameters that a body names, none of them an address. */
void tuff__set_fixed(launch *of, const int64_t *values, int count);
/* `#define LOADV_B(i, row, column) LOADV_f32(b1, i)` and the like, for the macro LOADV_B; where a producer makes the
   elements, they are those of the row and the column instead, or of the other way round where it is turned. form: LOAD,
   LOADV, LOADU, or LOADI with columns. */
void tuff__define_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out);
/* `#define LOAD_A(i) LOAD_f32(b0, i)` and the like, for bodies that take no producers. */
void tuff__define_plain_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out);
/* Moves a launch's tunables into it. */
tuff_status tuff__keep_defines(launch *of, text *defines);
/* The product of the first rank extents. */
int64_t tuff__batch_count(const fused_chain *chain, int rank);
/* A launch of the body for a matmul of `inner` terms, which takes the chain; NULL where memory ran out: the chain is
   freed. */
launch *tuff__matmul_launch(lowered *with, const char *body, int index, fused_chain *chain, int64_t inner);
/* Whether a library computes what the chain asks for; fills in how. */
bool tuff__find_product(const lowered *with, const fused_chain *chain, int64_t inner, library_product *out);
/* Whether every vector of an operand starts at a multiple of four elements; buffers of ours do. */
bool tuff__operand_is_aligned(const lowered *with, const fused_chain *chain, int operand, int rank,
                              int64_t line_stride);

/* The launch of a matmul whose lanes share registers; takes the chain. TUFF_E_UNSUPPORTED where the device was not
   proved to let them. */
tuff_status tuff__lower_subgroup(lowered *with, int index, fused_chain *chain, int64_t inner);

/* The launch on matrix units, of operands that are f16 in memory; takes the chain where *taken, and where it fails.
   TUFF_E_UNSUPPORTED where the device was not proved to have them. */
tuff_status tuff__lower_cooperative(lowered *with, int index, fused_chain *chain, int64_t inner, bool *taken);

/* How often a run computes each element of an operand, 0 or 1, that is made by a producer: per vector of elements, so
   that scalars count as many times as the device's vectors have lanes, and twice: nothing else hides them. */
double tuff__operand_loads(const lowered *with, const fused_chain *chain, int operand, int64_t inner);
/* The same where the matmul has few rows or columns; 0 where the tiles are better. */
double tuff__thin_loads(const lowered *with, const fused_chain *chain, int operand, int64_t inner);

/* Whether more is stored than the product itself. */
bool tuff__has_epilogue(const fused_chain *chain);
/* Launches of the product and of a map that reads it; takes the chain. */
tuff_status tuff__lower_apart(lowered *with, int index, fused_chain *chain);

/* A launch without local memory for a matmul of few rows, or of few columns; false in *taken where the tiles are
   better. */
tuff_status tuff__lower_thin(lowered *with, launch *of, int64_t inner, bool *taken);

#endif
