// Matrix units of AMD's GPUs from OpenCL C, by clang's builtins: MFMA of 32 by 32 by 8, two of which make a block, on
// gfx90a and newer accelerators (subgroups of 64); WMMA of 16 by 16 by 16 on gfx11 and gfx12 (subgroups of 32).
// matmul_cooperative.k explains the macros. Tests replace the instructions, to run the kernel elsewhere.
#define A_LAYOUT LINES
#define B_LAYOUT LINES
// Lines of terms, padded by a part, so that neighbouring lines begin in different banks.
#define K_LINE_PLACES (16 * CHUNKS + 16)
#define K_PLACE(line, chunk, lines) ((line) * K_LINE_PLACES + 16 * (chunk))
#define K_TILE_PLACES(lines) ((lines) * K_LINE_PLACES)
#define UNIT_LANE (lane % MATRIX_LANES)
// One instruction each; compilers make two of the general versions in matrix_tiles.cl.
#ifndef LOW_HALVES
#define LOW_HALVES(one, other) __builtin_amdgcn_perm(other, one, 0x05040100u)
#define HIGH_HALVES(one, other) __builtin_amdgcn_perm(other, one, 0x07060302u)
#endif
#define CLEAR_BLOCK(sum) sum = 0.0f

#if MATRIX_LANES == 64
// A lane has eight terms of a line, four for each instruction; the other half of the lanes has the next eight. Terms
// are permuted in the same way in both factors, so that each meets its counterpart.
#ifndef MFMA
#if MATRIX_BF16
#define MFMA(sum, a, b) sum = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(as_short4(a), as_short4(b), sum, 0, 0, 0)
#else
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define MFMA(sum, a, b) sum = __builtin_amdgcn_mfma_f32_32x32x8f16(as_half4(a), as_half4(b), sum, 0, 0, 0)
#endif
#endif
#define LEFT_BLOCK uint4
#define RIGHT_BLOCK uint4
#define SUM_BLOCK float16
#define LEFT_AT(row) K_PLACE((row) + UNIT_LANE % 32, UNIT_LANE / 32, 0)
#define LOAD_LEFT(to, tile, at, rows, step) to = TILE_PART((tile) + (at) + K_PLACE(rows, (step) / 8, 0))
#define MULTIPLY_ADD(sum, left, right)                                                                                \
    MFMA(sum, (left).lo, (right).lo);                                                                                 \
    MFMA(sum, (left).hi, (right).hi)
#define STORE_FOUR(sums, at, pitch, first)                                                                            \
    results[(at) + (first) * (pitch)] = (sums).x;                                                                     \
    results[(at) + ((first) + 1) * (pitch)] = (sums).y;                                                               \
    results[(at) + ((first) + 2) * (pitch)] = (sums).z;                                                               \
    results[(at) + ((first) + 3) * (pitch)] = (sums).w
#define STORE_BLOCK(sum, at, pitch) STORE_LANE(sum, (at) + UNIT_LANE / 32 * 4 * (pitch) + UNIT_LANE % 32, pitch)
#define STORE_LANE(sum, at, pitch)                                                                                    \
    STORE_FOUR((sum).s0123, at, pitch, 0);                                                                            \
    STORE_FOUR((sum).s4567, at, pitch, 8);                                                                            \
    STORE_FOUR((sum).s89ab, at, pitch, 16);                                                                           \
    STORE_FOUR((sum).scdef, at, pitch, 24)
#define FOUR_FACTORS(at) ((float4)(factors[at], factors[(at) + 1], factors[(at) + 2], factors[(at) + 3]))
#define SCALE_BLOCK(sum, at) SCALE_LANE(sum, (at) + UNIT_LANE / 32 * 4)
#define SCALE_LANE(sum, at)                                                                                           \
    (sum).s0123 *= FOUR_FACTORS(at);                                                                                  \
    (sum).s4567 *= FOUR_FACTORS((at) + 8);                                                                            \
    (sum).s89ab *= FOUR_FACTORS((at) + 16);                                                                           \
    (sum).scdef *= FOUR_FACTORS((at) + 24)
#else
#ifdef __GFX12__
// A lane has eight terms of a line, and the other half of the lanes has the next eight. Its sums are neighbouring rows.
#define FACTOR uint4
#define AS_HALVES(x) as_half8(x)
#define AS_SHORTS(x) as_short8(x)
#define WMMA_NAME(types) __builtin_amdgcn_wmma_f32_16x16x16_##types##_w32_gfx12
#define FIRST_CHUNK (UNIT_LANE / 16)
#define LOAD_LEFT(to, tile, at, rows, step) to = TILE_PART((tile) + (at) + K_PLACE(rows, (step) / 8, 0))
#define SUM_ROW(z, half) ((half) * 8 + (z))
#else
// A lane has all terms of a line, and so has a lane of the other half. Its sums are every second row.
#define FACTOR uint8
#define AS_HALVES(x) as_half16(x)
#define AS_SHORTS(x) as_short16(x)
#define WMMA_NAME(types) __builtin_amdgcn_wmma_f32_16x16x16_##types##_w32
#define FIRST_CHUNK 0
#define LOAD_LEFT(to, tile, at, rows, step)                                                                           \
    (to).lo = TILE_PART((tile) + (at) + K_PLACE(rows, (step) / 8, 0));                                                \
    (to).hi = TILE_PART((tile) + (at) + K_PLACE(rows, (step) / 8 + 1, 0))
#define SUM_ROW(z, half) (2 * (z) + (half))
#endif
#ifndef WMMA
#if MATRIX_BF16
#define WMMA(sum, a, b) sum = WMMA_NAME(bf16)(AS_SHORTS(a), AS_SHORTS(b), sum)
#else
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define WMMA(sum, a, b) sum = WMMA_NAME(f16)(AS_HALVES(a), AS_HALVES(b), sum)
#endif
#endif
// If unrolled, the loads of all steps would be made first, for which there are not enough registers.
#undef UNROLL_STEPS
#define UNROLL_STEPS ROLLED
#define LEFT_BLOCK FACTOR
#define RIGHT_BLOCK FACTOR
#define SUM_BLOCK float8
#define LEFT_AT(row) K_PLACE((row) + UNIT_LANE % 16, FIRST_CHUNK, 0)
#define MULTIPLY_ADD(sum, left, right) WMMA(sum, left, right)
#define STORE_SUM(sum, at, pitch, z)                                                                                  \
    results[(at) + SUM_ROW(z, UNIT_LANE / 16) * (pitch) + UNIT_LANE % 16] = (sum).s##z
#define STORE_BLOCK(sum, at, pitch)                                                                                   \
    STORE_SUM(sum, at, pitch, 0);                                                                                     \
    STORE_SUM(sum, at, pitch, 1);                                                                                     \
    STORE_SUM(sum, at, pitch, 2);                                                                                     \
    STORE_SUM(sum, at, pitch, 3);                                                                                     \
    STORE_SUM(sum, at, pitch, 4);                                                                                     \
    STORE_SUM(sum, at, pitch, 5);                                                                                     \
    STORE_SUM(sum, at, pitch, 6);                                                                                     \
    STORE_SUM(sum, at, pitch, 7)
#define SCALE_SUM(sum, at, z) (sum).s##z *= factors[(at) + SUM_ROW(z, UNIT_LANE / 16)]
#define SCALE_BLOCK(sum, at)                                                                                          \
    SCALE_SUM(sum, at, 0);                                                                                            \
    SCALE_SUM(sum, at, 1);                                                                                            \
    SCALE_SUM(sum, at, 2);                                                                                            \
    SCALE_SUM(sum, at, 3);                                                                                            \
    SCALE_SUM(sum, at, 4);                                                                                            \
    SCALE_SUM(sum, at, 5);                                                                                            \
    SCALE_SUM(sum, at, 6);                                                                                            \
    SCALE_SUM(sum, at, 7)
#endif
#define RIGHT_AT(column) LEFT_AT(column)
#define LOAD_RIGHT(to, tile, at, columns, step) LOAD_LEFT(to, tile, at, columns, step)
#define LOAD_RIGHT_LINES LOAD_RIGHT
#define LOAD_RIGHT_TERMS LOAD_RIGHT
