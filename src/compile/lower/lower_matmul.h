/* Between the files that lower matmuls: lower_matmul.c (which kernel, and tiles), lower_gemv.c (few rows or columns),
   lower_subgroup.c (lanes that share registers), lower_cooperative.c (matrix units), lower_library_gemm.c (libraries,
   and epilogues by themselves), lower_pack.c (copies of operands); matmul_launch.c has what they share. */
#ifndef TUFF_COMPILE_LOWER_LOWER_MATMUL_H
#define TUFF_COMPILE_LOWER_LOWER_MATMUL_H

#include "compile/lower/lower.h"
#include "compile/schedule/cost.h"
#include "compile/schedule/matmul_schedule.h"

/* Puts a packed copy in the place of an operand, 0 or 1: panels of `width` rows of x or columns of y. Its strides are
   then 1 along the panel and width along the terms; panels follow each other. vec: lanes of the copying kernel. */
tuff_status tuff__pack_operand(launch_list *list, int index, fused_chain *matmul, int operand, int64_t inner,
                               int64_t width, int vec);
/* The rest of a launch of pack_transpose, whose chain has its axes, operand 0 in buffer 0 and the copy in buffer 1:
   `lines` lines of `inner` terms, line_stride apart, become panels of `width`. */
tuff_status tuff__finish_transpose(const launch_list *list, launch *kernel, int vec, int64_t lines, int64_t inner,
                                   int64_t width, int64_t line_stride);
/* TUFF_E_LIMIT where no register file holds so many vectors of accumulators: such a kernel only takes long to
   compile. */
tuff_status tuff__check_accumulators(const launch_list *list, int vec, int64_t count);
/* The accumulators that an item keeps at a time, in vectors, and the steps of each. */
void tuff__set_tile(launch *kernel, int64_t rows, int64_t columns, double k);
/* `#define LOADV_B(i, row, column) LOADV_f32(b1, i)` and the like, for the macro LOADV_B; where a producer makes the
   elements, they are those of the row and the column instead, or of the other way round where it is turned. form: LOAD,
   LOADV, LOADU, or LOADI with columns. */
void tuff__define_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out);
/* `#define LOAD_A(i) LOAD_f32(b0, i)` and the like, for bodies that take no producers. */
void tuff__define_plain_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out);
/* A launch of the body for a matmul of `inner` terms, which takes the chain and leaves *chain empty; NULL where memory
   ran out. */
launch *tuff__matmul_launch(launch_list *list, const char *body, int index, fused_chain *chain, int64_t inner);
/* Whether a library computes what the chain asks for; fills in how. */
bool tuff__find_library_gemm(const launch_list *list, const fused_chain *chain, int64_t inner, library_product *out);
/* Whether every vector of an operand starts at a multiple of four elements; buffers of ours do. */
bool tuff__operand_is_aligned(const launch_list *list, const fused_chain *chain, int operand, int rank,
                              int64_t line_stride);
/* The same of multiples of any number. */
bool tuff__operand_is_aligned_to(const launch_list *list, const fused_chain *chain, int operand, int rank,
                                 int64_t line_stride, int64_t elements);

/* One kind of kernels of matmuls: the rows MATMUL of kernels.def, in the order in which they are tried. */
typedef struct matmul_form {
    tuff_family family; /* that asks for it; TUFF_FAMILY_DEVICE: it is tried for all of them */
    bool is_default;    /* tried where no family is asked for, too */
    /* Whether it computes this matmul. TUFF_E_UNSUPPORTED where its family was asked for and the device lacks what it
       needs. */
    tuff_status (*suits)(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits);
    /* Adds the launches. Leaves *chain empty where a launch took it. */
    tuff_status (*lower)(launch_list *list, int index, fused_chain *chain, int64_t inner);
} matmul_form;

#define MATMUL(name) extern const matmul_form tuff__matmul_##name;
#include "kernels/kernels.def"

/* Whether more is stored than the product itself. */
bool tuff__has_epilogue(const fused_chain *chain);
/* Splits a matmul's chain into the product, which is stored to memory of its own, and a map that reads it, the
   caller's. */
tuff_status tuff__split_epilogue(launch_list *list, fused_chain *chain, fused_chain *epilogue);

#endif
