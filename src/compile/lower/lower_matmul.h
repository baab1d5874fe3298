/* Shared by the files that lower matmuls: lower_matmul.c (choice of the kernel, and tiles), lower_gemv.c (few rows or
   columns), lower_subgroup.c (lanes that share registers), lower_cooperative.c (matrix units), lower_library_gemm.c
   (libraries, and epilogues as separate kernels), lower_pack.c (copies of operands) and matmul_launch.c (helpers). */
#ifndef TUFF_COMPILE_LOWER_LOWER_MATMUL_H
#define TUFF_COMPILE_LOWER_LOWER_MATMUL_H

#include "compile/lower/lower.h"
#include "compile/schedule/cost.h"
#include "compile/schedule/matmul_schedule.h"

/* Replaces operand 0 or 1 with a packed copy: panels of `width` rows of x or columns of y. Its strides are 1 along the
   panel and `width` along the terms; panels follow each other. vec: lanes of the copying kernel. */
tuff_status tuff__pack_operand(launch_list *list, int index, fused_chain *matmul, int operand, int64_t inner,
                               int64_t width, int vec);
/* Completes a launch of pack_transpose, whose chain has its axes, operand 0 in buffer 0 and the copy in buffer 1:
   `lines` lines of `inner` terms, line_stride apart, become panels of `width`. */
tuff_status tuff__finish_transpose(const launch_list *list, launch *kernel, int vec, int64_t lines, int64_t inner,
                                   int64_t width, int64_t line_stride);
/* Fails with TUFF_E_LIMIT if no register file holds that many vectors of accumulators: such a kernel would only take
   long to compile. */
tuff_status tuff__check_accumulators(const launch_list *list, int vec, int64_t count);
/* Sets the accumulators that an item keeps at a time, in vectors, and the steps of each. */
void tuff__set_tile(launch *kernel, int64_t rows, int64_t columns, double k);
/* Defines a macro that loads elements of an operand, such as `#define LOADV_B(i, row, column) LOADV_f32(b1, i)` for
   LOADV_B. If the operand has a producer, the macro computes the elements at `row` and `column` instead; a transposed
   producer swaps the two. form: LOAD, LOADV, LOADU, or LOADI with columns. */
void tuff__define_load(const fused_chain *chain, int operand, const char *macro, const char *form, text *out);
/* Defines a macro that loads eight neighbouring elements of 16 bits at a multiple of eight into two vectors, such as
   `#define LOADP_B(i, low, high) LOADP_f16(b1, i, low, high)`. */
void tuff__define_pair_load(const fused_chain *chain, int operand, const char *macro, text *out);
/* Adds a launch of the body for a matmul of `inner` terms. It takes the chain and leaves *chain empty. Returns NULL if
   out of memory. */
launch *tuff__matmul_launch(launch_list *list, const char *body, int index, fused_chain *chain, int64_t inner);
/* Whether a library can compute the chain; fills in the call. */
bool tuff__find_library_gemm(const launch_list *list, const fused_chain *chain, int64_t inner, library_product *out);
/* Whether every vector of an operand starts at a multiple of four elements. The plan's own buffers do. */
bool tuff__operand_is_aligned(const launch_list *list, const fused_chain *chain, int operand, int rank,
                              int64_t line_stride);
/* The same for multiples of any number of elements. */
bool tuff__operand_is_aligned_to(const launch_list *list, const fused_chain *chain, int operand, int rank,
                                 int64_t line_stride, int64_t elements);

/* Matrix units. PART: 16-bit elements in 16 bytes. PIECE_PITCH: elements in a line of sums in local memory, on their
   way out, including padding. */
enum { PART = 8, PIECE_PITCH = 32 + 8 };

/* Returns the 16-bit dtype that factors are rounded to, or f32 if there is none: that of all of them, or `precision` if
   each is f32, which may be rounded to it, or has that dtype. */
tuff_dtype tuff__factor_dtype(const tuff_dtype *dtypes, int count, tuff_dtype precision);
/* Makes a launch use the units, in subgroups of so many lanes. */
void tuff__use_units(launch *kernel, const tuff_device_info *info, int lanes);

/* Whether the device's units multiply factors of the dtype. */
static inline bool tuff__units_multiply(const tuff_device_info *info, tuff_dtype dtype)
{
    return dtype == TUFF_F16 || (dtype == TUFF_BF16 && info->matrix_bf16);
}

/* Returns the lanes of a subgroup that multiplies a block. */
static inline int tuff__unit_lanes(const tuff_device_info *info)
{
    return (int)(info->matrix_lanes > 0 ? info->matrix_lanes : info->proved_subgroup_size);
}

/* Whether the text for these units pads the lines of tiles. */
static inline bool tuff__units_pad(const tuff_device_info *info)
{
    return info->cooperative_matrix != TUFF_MATRIX_NVIDIA && info->cooperative_matrix != TUFF_MATRIX_INTEL;
}

/* A kind of matmul kernel: a row MATMUL of kernels.def. They are tried in the order of these rows. */
typedef struct matmul_form {
    tuff_family family; /* family that requests it; TUFF_FAMILY_DEVICE: tried for all of them */
    bool is_default;    /* tried even if no family is requested */
    /* Sets *suits to whether the form can compute this matmul. Fails with TUFF_E_UNSUPPORTED if its family was
       requested and the device lacks a feature it needs. */
    tuff_status (*suits)(const launch_list *list, const fused_chain *chain, int64_t inner, bool *suits);
    /* Adds the launches. Leaves *chain empty if a launch took it. */
    tuff_status (*lower)(launch_list *list, int index, fused_chain *chain, int64_t inner);
} matmul_form;

#define MATMUL(name) extern const matmul_form tuff__matmul_##name;
#include "kernels/kernels.def"

/* Whether the task stores more than the product itself. */
bool tuff__has_epilogue(const fused_chain *chain);
/* Splits a matmul's chain into the product, which is stored to scratch memory, and a map that reads it, owned by the
   caller. */
tuff_status tuff__split_epilogue(launch_list *list, fused_chain *chain, fused_chain *epilogue);

#endif
