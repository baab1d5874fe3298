// Matrix units of Intel's GPUs from OpenCL C (cl_intel_subgroup_matrix_multiply_accumulate): blocks of 8 by 8 by 16 in
// subgroups of 8, of 8 by 16 by 16 in subgroups of 16. matmul_cooperative.k explains the macros. Tests replace the
// instructions, which come first, to run the kernel elsewhere.
#if MATRIX_LANES == 16
#define LEFT_BLOCK short8
#else
#define LEFT_BLOCK int8
#endif
#define RIGHT_BLOCK int8
#define SUM_BLOCK float8
#ifndef DPAS
// The compiler knows that this is uniform over the subgroup, which block reads require of their addresses.
#undef UNITS_SUBGROUP
#define UNITS_SUBGROUP ((int)get_sub_group_id())
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
// Declared as in the extensions, because some versions of the compiler do not declare them.
float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(LEFT_BLOCK a, int8 b, float8 sum);
float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(LEFT_BLOCK a, int8 b, float8 sum);
uint8 __attribute__((overloadable)) intel_sub_group_block_read8(const __local uint *from);
ushort8 __attribute__((overloadable)) intel_sub_group_block_read_us8(const __local ushort *from);
#if MATRIX_BF16
#define DPAS(sum, a, b) sum = intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, sum)
#else
#define DPAS(sum, a, b) sum = intel_sub_group_f16_f16_matrix_mad_k16(a, b, sum)
#endif
// Read eight consecutive rows of words or half words, each spread over the lanes.
#define READ_WORDS(place) as_int8(intel_sub_group_block_read8((const __local uint *)((__local char *)tiles + (place))))
#define READ_HALVES(place)                                                                                            \
    as_short8(intel_sub_group_block_read_us8((const __local ushort *)((__local char *)tiles + (place))))
#endif

#define SIDES_WRITTEN_OUT 1
// Adds `ahead`, which is uniform, to the pointer first, so that the rest of the address is the same in all steps.
#undef BEHIND
#define BEHIND(b, at, ahead) ((b) + (ahead) + (at))
#if MATRIX_LANES == 8 && !A_K_CONTIGUOUS
#define A_LAYOUT PAIRS
#else
#define A_LAYOUT LINES
#endif
#define B_LAYOUT PAIRS
// A block is contiguous: eight lines of sixteen terms, or eight pairs of terms of MATRIX_LANES lines.
#define K_LINE_PLACES 32
#define P_PAIR_PLACES (4 * MATRIX_LANES)
#define K_PLACE(line, chunk, lines)                                                                                   \
    (((line) / 8 * (CHUNKS / 2) + (chunk) / 2) * 256 + (line) % 8 * 32 + (chunk) % 2 * 16)
#define K_TILE_PLACES(lines) ((lines) * CHUNKS * 16)
#define P_PLACE(line, term, lines)                                                                                    \
    (((line) / MATRIX_LANES * (CHUNKS / 2) + (term) / 16) * 32 * MATRIX_LANES + (term) % 16 / 2 * 4 * MATRIX_LANES +  \
     (line) % MATRIX_LANES * 4)
#define P_TILE_PLACES(lines) K_TILE_PLACES(lines)
#define UNIT_LANE (lane % MATRIX_LANES)
#define CLEAR_BLOCK(sum) sum = 0.0f
#if MATRIX_LANES == 16
#define LOAD_LEFT(to, tile, at, rows, step) to = READ_HALVES((tile) + (at) + K_PLACE(rows, (step) / 8, 0))
#elif A_LAYOUT == PAIRS
// A lane has a pair of terms of eight rows, which are contiguous.
#define LOAD_LEFT(to, tile, at, rows, step)                                                                           \
    to = *(__local const int8 *)((__local char *)tiles + (tile) + (at) + P_PLACE(rows, step, 0))
#else
#define LOAD_LEFT(to, tile, at, rows, step) to = READ_WORDS((tile) + (at) + K_PLACE(rows, (step) / 8, 0))
#endif
#define LOAD_RIGHT(to, tile, at, columns, step) to = READ_WORDS((tile) + (at) + P_PLACE(columns, step, 0))
#define LOAD_RIGHT_LINES LOAD_RIGHT
#define LOAD_RIGHT_TERMS LOAD_RIGHT
#if A_LAYOUT == PAIRS
#define LEFT_AT(row) (P_PLACE(row, 0, 0) + UNIT_LANE * 32)
#else
#define LEFT_AT(row) K_PLACE(row, 0, 0)
#endif
#define RIGHT_AT(column) P_PLACE(column, 0, 0)
#define MULTIPLY_ADD(sum, left, right) DPAS(sum, left, right)
#define STORE_BLOCK(sum, at, pitch)                                                                                   \
    results[(at) + UNIT_LANE] = (sum).s0;                                                                             \
    results[(at) + UNIT_LANE + (pitch)] = (sum).s1;                                                                   \
    results[(at) + UNIT_LANE + 2 * (pitch)] = (sum).s2;                                                               \
    results[(at) + UNIT_LANE + 3 * (pitch)] = (sum).s3;                                                               \
    results[(at) + UNIT_LANE + 4 * (pitch)] = (sum).s4;                                                               \
    results[(at) + UNIT_LANE + 5 * (pitch)] = (sum).s5;                                                               \
    results[(at) + UNIT_LANE + 6 * (pitch)] = (sum).s6;                                                               \
    results[(at) + UNIT_LANE + 7 * (pitch)] = (sum).s7
#define SCALE_BLOCK(sum, at)                                                                                          \
    sum *= (float8)(factors[at], factors[(at) + 1], factors[(at) + 2], factors[(at) + 3], factors[(at) + 4],          \
                    factors[(at) + 5], factors[(at) + 6], factors[(at) + 7])
