/* Emulation of matrix units on CPUs: see the header. */
#define _POSIX_C_SOURCE 200809L
#include "emulated_units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#endif

/* Lanes exchange data through `exchange`, with a barrier before and after; half(word, k) is half k of the words. */
static const char opencl_common[] =
    "#define EXCHANGED __local uint exchange[LOCAL_SIZE * 16] __attribute__((aligned(64)));\n"
    "#define HALF_OF(words, k) (MATRIX_BF16 ? as_float((uint)((__local const ushort *)(words))[k] << 16)               "
    "\\\n"
    "                                       : vload_half(k, (__local const half *)(words)))\n"
    "#define OWN (&exchange[LANE * 16])\n"
    "#define LANE_OF(l) (&exchange[((LANE) / MATRIX_LANES * MATRIX_LANES + (l)) * 16])\n";

/* mma.sync.m16n8k16, ldmatrix.x4, cp.async, shfl.sync.bfly and vote.sync.any of the PTX ISA. */
static const char opencl_nvidia[] = "#define WORD_AT(place) (*(__local uint *)((__local char *)tiles + (place)))\n"
                                    "#define HALF_AT(place) (*(__local ushort *)((__local char *)tiles + (place)))\n"
                                    "#define LDMATRIX(form, x, place) {                                                "
                                    "                             \\\n"
                                    "    OWN[0] = (uint)(place);                                                       "
                                    "                             \\\n"
                                    "    BARRIER();                                                                    "
                                    "                             \\\n"
                                    "    const uint e_l = LANE % 32u;                                                  "
                                    "                             \\\n"
                                    "    for (uint e_m = 0; e_m < 4u; e_m++)                                           "
                                    "                             \\\n"
                                    "        (x)[e_m] = sizeof(form) == 1 ? WORD_AT(LANE_OF(e_m * 8u + e_l / 4u)[0] + "
                                    "e_l % 4u * 4u)                \\\n"
                                    "                   : (uint)HALF_AT(LANE_OF(e_m * 8u + e_l % 4u * 2u)[0] + e_l / "
                                    "4u * 2u) |                     \\\n"
                                    "                         (uint)HALF_AT(LANE_OF(e_m * 8u + e_l % 4u * 2u + 1u)[0] "
                                    "+ e_l / 4u * 2u) << 16;       \\\n"
                                    "    BARRIER();                                                                    "
                                    "                             \\\n"
                                    "}\n"
                                    "#define MMA(sum, a, b) {                                                          "
                                    "                             \\\n"
                                    "    for (uint e_i = 0; e_i < 4u; e_i++) OWN[e_i] = (a)[e_i];                      "
                                    "                             \\\n"
                                    "    for (uint e_i = 0; e_i < 2u; e_i++) OWN[4u + e_i] = (b)[e_i];                 "
                                    "                             \\\n"
                                    "    BARRIER();                                                                    "
                                    "                             \\\n"
                                    "    for (uint e_d = 0; e_d < 4u; e_d++) {                                         "
                                    "                             \\\n"
                                    "        const uint e_row = LANE % 32u / 4u + e_d / 2u * 8u, e_column = LANE % 4u "
                                    "* 2u + e_d % 2u;              \\\n"
                                    "        for (uint e_k = 0; e_k < 16u; e_k++)                                      "
                                    "                             \\\n"
                                    "            (sum)[e_d] += HALF_OF(LANE_OF(e_row % 8u * 4u + e_k % 8u / 2u) + "
                                    "e_row / 8u + e_k / 8u * 2u, e_k % 2u) * \\\n"
                                    "                          HALF_OF(LANE_OF(e_column * 4u + e_k % 8u / 2u) + 4u + "
                                    "e_k / 8u, e_k % 2u);           \\\n"
                                    "    }                                                                             "
                                    "                             \\\n"
                                    "    BARRIER();                                                                    "
                                    "                             \\\n"
                                    "}\n"
                                    "#define COPY_PART(place, from) *(__local uint4 *)((__local char *)tiles + "
                                    "(place)) = *(__global const uint4 *)(from)\n"
                                    "#define COMMIT_COPIES()\n"
                                    "#define WAIT_FOR_COPIES(left)\n"
                                    "#define FROM_LANE(to, from, apart) {                                              "
                                    "                             \\\n"
                                    "    OWN[0] = as_uint(from);                                                       "
                                    "                             \\\n"
                                    "    BARRIER();                                                                    "
                                    "                             \\\n"
                                    "    (to) = as_float(LANE_OF(LANE % 32u ^ (apart))[0]);                            "
                                    "                             \\\n"
                                    "    BARRIER();                                                                    "
                                    "                             \\\n"
                                    "}\n"
                                    "#define IN_ANY_LANE(to, condition) {                                              "
                                    "                             \\\n"
                                    "    OWN[0] = (uint)(condition);                                                   "
                                    "                             \\\n"
                                    "    BARRIER();                                                                    "
                                    "                             \\\n"
                                    "    (to) = 0;                                                                     "
                                    "                             \\\n"
                                    "    for (uint e_l = 0; e_l < 32u; e_l++) (to) |= (int)LANE_OF(e_l)[0];            "
                                    "                             \\\n"
                                    "    BARRIER();                                                                    "
                                    "                             \\\n"
                                    "}\n";

/* wgmma.mma_async and its descriptors: the distance between blocks of 64 lines, of eight lines of terms or of eight
   terms of lines, and the span of bytes within which the address swizzles parts. Each lane reads the factors of its own
   sums. */
static const char opencl_wgmma[] =
    "#define SHARED_ADDRESS(place) ((uint)(place))\n#define E_FIELD(factor, at) ((uint)((factor) >> (at)&0x3fffu) * "
    "16u)\n"
    "#define E_AT(factor, turned, line, k) (E_FIELD(factor, 0) + (turned                                             "
    "\\\n"
    "    ? (line) / 64u * E_FIELD(factor, 16) + (k) / 8u * E_FIELD(factor, 32) + (k) % 8u * 128u + (line) % 64u * 2u  "
    "\\\n"
    "    : (line) / 8u * E_FIELD(factor, 32) + (line) % 8u * ((factor) >> 62 == 1 ? 128u : 64u) + (k) * 2u))\n"
    "#define E_EXCHANGED(factor, at) ((at) ^ ((at) >> 3 & ((factor) >> 62 == 1 ? 0x70u : 0x30u)))\n"
    "#define E_HALF(factor, turned, line, k) HALF_OF((__local const char *)tiles +                                    "
    "\\\n"
    "    E_EXCHANGED(factor, E_AT(factor, turned, line, k)), 0)\n"
    "#define WGMMA(sums, left, right)                                                                                 "
    "\\\n"
    "    for (uint e_d = 0; e_d < MATRIX_N / 2u; e_d++) {                                                             "
    "\\\n"
    "        const uint e_row = LANE % 128u / 32u * 16u + LANE % 32u / 4u + e_d % 4u / 2u * 8u;                       "
    "\\\n"
    "        const uint e_column = e_d / 4u * 8u + LANE % 4u * 2u + e_d % 2u;                                         "
    "\\\n"
    "        for (uint e_k = 0; e_k < 16u; e_k++)                                                                     "
    "\\\n"
    "            (sums)[e_d] += E_HALF(left, LEFT_TURNED[0] == '1', e_row, e_k) *                                     "
    "\\\n"
    "                           E_HALF(right, RIGHT_TURNED[0] == '1', e_column, e_k);                                 "
    "\\\n"
    "    }\n"
    "#define BEGIN_PRODUCTS()\n#define COMMIT_PRODUCTS()\n#define FINISH_PRODUCTS()\n#define SHOW_TILES()\n";

/* v_perm_b32 and v_mfma_f32_32x32x8 of AMD's CDNA ISA, and v_wmma_f32_16x16x16 (wave32) of the RDNA 3 ISA. */
#define OPENCL_PERM                                                                                                  \
    "uint e_byte(uint high, uint low, uint n) { return (n < 4u ? low >> 8u * n : high >> 8u * (n - 4u)) & 255u; }\n" \
    "#define __builtin_amdgcn_perm(a, b, s) (e_byte(a, b, (s) & 7u) | e_byte(a, b, (s) >> 8u & 7u) << 8u | \\\n"     \
    "    e_byte(a, b, (s) >> 16u & 7u) << 16u | e_byte(a, b, (s) >> 24u & 7u) << 24u)\n"

static const char opencl_amd[] =
    OPENCL_PERM "#define PUT_WORDS(type, at, x) *(__local type *)(OWN + (at)) = x\n"
                "#define MFMA(sum, a, b) {                                                            "
                "                          \\\n"
                "    PUT_WORDS(uint2, 0, a);                                                          "
                "                          \\\n"
                "    PUT_WORDS(uint2, 2, b);                                                          "
                "                          \\\n"
                "    BARRIER();                                                                       "
                "                          \\\n"
                "    for (uint e_d = 0; e_d < 16u; e_d++) {                                           "
                "                          \\\n"
                "        const uint e_row = e_d / 4u * 8u + LANE % 64u / 32u * 4u + e_d % 4u;         "
                "                          \\\n"
                "        for (uint e_k = 0; e_k < 8u; e_k++)                                          "
                "                          \\\n"
                "            ((float *)&(sum))[e_d] += HALF_OF(LANE_OF(e_row + e_k / 4u * 32u), e_k % "
                "4u) *                     \\\n"
                "                                      HALF_OF(LANE_OF(LANE % 32u + e_k / 4u * 32u) + "
                "2, e_k % 4u);             \\\n"
                "    }                                                                                "
                "                          \\\n"
                "    BARRIER();                                                                       "
                "                          \\\n"
                "}\n"
                "#define WMMA(sum, a, b) {                                                            "
                "                          \\\n"
                "    PUT_WORDS(uint8, 0, a);                                                          "
                "                          \\\n"
                "    PUT_WORDS(uint8, 8, b);                                                          "
                "                          \\\n"
                "    BARRIER();                                                                       "
                "                          \\\n"
                "    for (uint e_d = 0; e_d < 8u; e_d++)                                              "
                "                          \\\n"
                "        for (uint e_k = 0; e_k < 16u; e_k++)                                         "
                "                          \\\n"
                "            ((float *)&(sum))[e_d] += HALF_OF(LANE_OF(e_d * 2u + LANE % 32u / 16u), "
                "e_k) *                     \\\n"
                "                                      HALF_OF(LANE_OF(LANE % 16u) + 8, e_k);         "
                "                          \\\n"
                "    BARRIER();                                                                       "
                "                          \\\n"
                "}\n";

/* v_wmma_f32_16x16x16 (wave32) of the RDNA 4 ISA: each lane has half of the terms and eight successive rows of sums. */
#define OPENCL_GFX12                                                                                             \
    "#define __GFX12__ 1\n"                                                                                      \
    "#define WMMA(sum, a, b) {                                                                             \\\n" \
    "    *(__local uint4 *)OWN = a;                                                                        \\\n" \
    "    *(__local uint4 *)(OWN + 4) = b;                                                                  \\\n" \
    "    BARRIER();                                                                                        \\\n" \
    "    for (uint e_d = 0; e_d < 8u; e_d++)                                                               \\\n" \
    "        for (uint e_k = 0; e_k < 16u; e_k++)                                                          \\\n" \
    "            ((float *)&(sum))[e_d] +=                                                                 \\\n" \
    "                HALF_OF(LANE_OF(LANE % 32u / 16u * 8u + e_d + e_k / 8u * 16u), e_k % 8u) *            \\\n" \
    "                HALF_OF(LANE_OF(LANE % 16u + e_k / 8u * 16u) + 4, e_k % 8u);                          \\\n" \
    "    BARRIER();                                                                                        \\\n" \
    "}\n"
static const char opencl_gfx12[] = OPENCL_PERM OPENCL_GFX12;

/* cl_intel_subgroup_matrix_multiply_accumulate, and block reads of cl_intel_subgroup_local_block_io. */
static const char opencl_intel[] =
    "#define E_LANE (LANE % MATRIX_LANES)\n"
    "#define E_READ(type, place, n) ((__local const type *)((__local char *)tiles + (place)))[(n) * MATRIX_LANES + "
    "E_LANE]\n"
    "#define E_EIGHT(type, place) E_READ(type, place, 0), E_READ(type, place, 1), E_READ(type, place, 2),          \\\n"
    "    E_READ(type, place, 3), E_READ(type, place, 4), E_READ(type, place, 5), E_READ(type, place, 6), E_READ(type, "
    "place, 7)\n"
    "#define READ_WORDS(place) ((int8)(E_EIGHT(int, place)))\n"
    "#define READ_HALVES(place) ((short8)(E_EIGHT(short, place)))\n"
    "#define DPAS(sum, a, b) {                                                                                      "
    "\\\n"
    "    *(__local LEFT_BLOCK *)OWN = a;                                                                            "
    "\\\n"
    "    *(__local int8 *)(OWN + 8) = b;                                                                            "
    "\\\n"
    "    BARRIER();                                                                                                 "
    "\\\n"
    "    for (uint e_d = 0; e_d < 8u; e_d++)                                                                        "
    "\\\n"
    "        for (uint e_k = 0; e_k < 16u; e_k++)                                                                   "
    "\\\n"
    "            ((float *)&(sum))[e_d] +=                                                                          "
    "\\\n"
    "                (MATRIX_LANES == 16 ? HALF_OF(LANE_OF(e_k), e_d) : HALF_OF(LANE_OF(e_k / 2u) + e_d, e_k % 2u)) * "
    "\\\n"
    "                HALF_OF(LANE_OF(E_LANE) + 8u, e_k);                                                            "
    "\\\n"
    "    BARRIER();                                                                                                 "
    "\\\n"
    "}\n";

/* The functions of GLSL_KHR_cooperative_matrix and of GLSL_NV_cooperative_matrix, for matrices of a subgroup. A factor
   is represented by where it was loaded from, and each lane keeps some of a block's sums. Layout 0 means lines of rows,
   1 lines of columns; places and pitches are counted in elements of the memory, whose type need not be the matrix's. */
static const char glsl[] =
    "#undef LEFT_BLOCK\n#undef RIGHT_BLOCK\n#undef SUM_BLOCK\n#undef CLEAR_BLOCK\n#undef SUBGROUP_LANE\n"
    "#undef SUBGROUP_INDEX\n#define E_SUMS (MATRIX_M * MATRIX_N)\n"
    "#define E_OWN ((E_SUMS + MATRIX_LANES - 1) / MATRIX_LANES)\n"
    "struct factor { uint place, pitch; bool in_columns; };\n"
    "#define LEFT_BLOCK factor\n#define RIGHT_BLOCK factor\n#define SUM_BLOCK float[E_OWN]\n"
    "#define SUBGROUP_LANE (LANE % uint(MATRIX_LANES))\n#define SUBGROUP_INDEX (LANE / uint(MATRIX_LANES))\n"
    "#define EACH_SUM for (uint j = 0u, e = SUBGROUP_LANE; e < uint(E_SUMS); j++, e += uint(MATRIX_LANES))\n"
    "#define CLEAR_BLOCK(sum) EACH_SUM sum[j] = 0.0\n"
    "#define gl_CooperativeMatrixLayoutRowMajor 0\n#define gl_CooperativeMatrixLayoutColumnMajor 1\n"
    "#define E_PLACE(at, pitch, layout) (uint(at) + ((layout) == 1 ? e % MATRIX_N * uint(pitch) + e / MATRIX_N \\\n"
    "                                                              : e / MATRIX_N * uint(pitch) + e % MATRIX_N))\n"
    "#define E_LOAD_tiles(to, at, pitch, layout) to = factor(uint(at), uint(pitch), (layout) == 1)\n"
    "#define E_LOAD_factors(to, at, pitch, layout) EACH_SUM to[j] = factors[E_PLACE(at, pitch, layout)]\n"
    "#define coopMatLoad(to, memory, at, pitch, layout) E_LOAD_##memory(to, at, pitch, layout)\n"
    "#define coopMatStore(sum, memory, at, pitch, layout) EACH_SUM \\\n"
    "    memory[E_PLACE((at) * 4u, (pitch) * 4u, layout) / 4u][E_PLACE((at) * 4u, (pitch) * 4u, layout) % 4u] = \\\n"
    "        floatBitsToUint(sum[j])\n"
    "float factor_at(factor f, uint row, uint column)\n{\n"
    "    uint i = f.in_columns ? row : column, at = f.place + (f.in_columns ? column : row) * f.pitch + i / 8u;\n"
    "    uint two = tiles[at][i / 2u % 4u];\n    if (MATRIX_BF16 != 0)\n"
    "        return uintBitsToFloat(i % 2u == 0u ? two << 16 : two & 0xffff0000u);\n"
    "    return unpackHalf2x16(i % 2u == 0u ? two : two >> 16).x;\n}\n"
    "float[E_OWN] coopMatMulAdd(factor x, factor y, float[E_OWN] z)\n{\n"
    "    EACH_SUM\n        for (uint k = 0u; k < uint(MATRIX_K); k++)\n"
    "            z[j] += factor_at(x, e / MATRIX_N, k) * factor_at(y, k, e % MATRIX_N);\n    return z;\n}\n"
    "#define coopMatLoadNV(to, memory, at, pitch, in_columns) \\\n"
    "    coopMatLoad(to, memory, at, pitch, (in_columns) ? 1 : 0)\n"
    "#define coopMatStoreNV(sum, memory, at, pitch, in_columns) \\\n"
    "    coopMatStore(sum, memory, at, pitch, (in_columns) ? 1 : 0)\n"
    "#define coopMatMulAddNV(left, right, sum) coopMatMulAdd(left, right, sum)\n";

/* In GLSL, for groups that share units (GLSL_NV_cooperative_matrix2): tiles are in local memory, and each item keeps
   some of the sums. Elements of a whole operand are loaded without a check, those beyond the edges of a clamped one are
   zeros, and lines follow each other at the distance that the operand was described with. */
static const char glsl_groups[] =
    "#undef LEFT_TILE\n#undef RIGHT_TILE\n#undef SUM_TILE\n#undef CLEAR_TILE\n#undef MULTIPLY_ADD\n"
    "#undef EACH_ELEMENT\n#undef WHOLE_OPERAND\n#undef CLAMPED_OPERAND\n#undef CREATE_WHOLE\n#undef CREATE_CLAMPED\n"
    "#undef DESCRIBE\n#undef LOAD_LEFT\n#undef LOAD_RIGHT\n"
    "struct sums { float x[BLOCK_ROWS * BLOCK_COLUMNS / LOCAL_SIZE]; };\n"
    "struct operand { bool clamps; int outer, across, pitch; };\n"
    "shared float e_left[BLOCK_ROWS * STEP_K], e_right[STEP_K * BLOCK_COLUMNS];\n"
    "#define LEFT_TILE int\n#define RIGHT_TILE int\n#define SUM_TILE sums\n#define WHOLE_OPERAND operand\n"
    "#define CLAMPED_OPERAND operand\n#define CREATE_WHOLE false\n#define CREATE_CLAMPED true\n"
    "#define DESCRIBE(clamps, outer, across, within) operand(clamps, outer, across, within)\n"
    "#define EACH_SUM for (uint j = 0u, e = LANE; e < uint(BLOCK_ROWS * BLOCK_COLUMNS); j++, e += LOCAL_SIZE)\n"
    "#define CLEAR_TILE(sum) EACH_SUM sum.x[j] = 0.0\n"
    "#define EACH_ELEMENT(sum, function, a, b, c) EACH_SUM \\\n"
    "    function(e / uint(BLOCK_COLUMNS), e % uint(BLOCK_COLUMNS), sum.x[j], a, b, c)\n"
    "float e_number(uint two, int at)\n{\n    uint bits = at % 2 == 0 ? two & 0xffffu : two >> 16;\n"
    "    return MATRIX_BF16 != 0 ? uintBitsToFloat(bits << 16) : unpackHalf2x16(bits).x;\n}\n"
    "#define E_LOAD(tile, b, base, o, first, lines, second, width, x, y) { \\\n"
    "    BARRIER(); \\\n"
    "    for (int e = int(LANE); e < (lines) * (width); e += LOCAL_SIZE) { \\\n"
    "        const int x = e / (width), y = e % (width), e_line = (first) + x, e_at = (second) + y; \\\n"
    "        const int i = (base) + e_line * o.pitch + e_at; \\\n"
    "        tile = o.clamps && (e_line >= o.outer || e_at >= o.across) ? 0.0 \\\n"
    "             : e_number(b[i / 8][i % 8 / 2], i); \\\n"
    "    } \\\n"
    "    BARRIER(); }\n"
    "#if A_K_CONTIGUOUS\n#define LOAD_LEFT(to, o, k) \\\n"
    "    E_LOAD(e_left[m * STEP_K + t], A_BUFFER, a_base, o, first_row, BLOCK_ROWS, k, STEP_K, m, t)\n"
    "#else\n#define LOAD_LEFT(to, o, k) \\\n"
    "    E_LOAD(e_left[m * STEP_K + t], A_BUFFER, a_base, o, k, STEP_K, first_row, BLOCK_ROWS, t, m)\n#endif\n"
    "#if B_K_CONTIGUOUS\n#define LOAD_RIGHT(to, o, k) \\\n"
    "    E_LOAD(e_right[t * BLOCK_COLUMNS + n], B_BUFFER, b_base, o, first_column, BLOCK_COLUMNS, k, STEP_K, n, t)\n"
    "#else\n#define LOAD_RIGHT(to, o, k) \\\n"
    "    E_LOAD(e_right[t * BLOCK_COLUMNS + n], B_BUFFER, b_base, o, k, STEP_K, first_column, BLOCK_COLUMNS, t, "
    "n)\n#endif\n"
    "#define MULTIPLY_ADD(sum, left, right) EACH_SUM for (uint t = 0u; t < uint(STEP_K); t++) \\\n"
    "    sum.x[j] += e_left[e / uint(BLOCK_COLUMNS) * uint(STEP_K) + t] * \\\n"
    "                e_right[t * uint(BLOCK_COLUMNS) + e % uint(BLOCK_COLUMNS)]\n";

#define NEVER_TURNED             \
    {                            \
        "sizeof(form) == 1", "1" \
    }
#define OTHER_HALVES        \
    {                       \
        "n < 4u", "n >= 4u" \
    }

const units all_units[] = {
    {"mma.sync", opencl_nvidia, TUFF_MATRIX_NVIDIA, {16, 16, 16}, 32, false, NEVER_TURNED, false},
    {"wgmma", opencl_wgmma, TUFF_MATRIX_NVIDIA, {16, 16, 16}, 32, true, {"LEFT_TURNED[0] == '1'", "0"}, false},
    {"MFMA", opencl_amd, TUFF_MATRIX_MFMA, {32, 32, 16}, 64, false, OTHER_HALVES, false},
    {"WMMA", opencl_amd, TUFF_MATRIX_WMMA, {16, 16, 16}, 32, false, OTHER_HALVES, false},
    {"WMMA of RDNA 4", opencl_gfx12, TUFF_MATRIX_WMMA, {16, 16, 16}, 32, false, OTHER_HALVES, false},
    {"dpas of 8", opencl_intel, TUFF_MATRIX_INTEL, {8, 8, 16}, 8, false, {NULL}, false},
    {"dpas of 16", opencl_intel, TUFF_MATRIX_INTEL, {8, 16, 16}, 16, false, {NULL}, false},
    {"16x16x16", NULL, TUFF_MATRIX_KHR, {16, 16, 16}, 0, false, {NULL}, false},
    {"groups", NULL, TUFF_MATRIX_KHR, {16, 16, 16}, 0, false, {NULL}, true},
    {"8x16x16", NULL, TUFF_MATRIX_KHR, {8, 16, 16}, 0, false, {NULL}, false},
    {"16x8x8", NULL, TUFF_MATRIX_NV, {16, 8, 8}, 0, false, {NULL}, false},
    {"8x8x16", NULL, TUFF_MATRIX_NV, {8, 8, 16}, 0, false, {NULL}, false},
};
_Static_assert(sizeof all_units / sizeof *all_units == UNITS, "another number of units");

const driver *real_driver;
const units *emulated_units;
_Atomic int emulated;
bool emulates_wrongly;

/* Replaces the first occurrence of a part. Frees source if it was replaced; the caller frees the result. */
static char *replaced(char *source, const char *what, const char *with)
{
    const char *found = strstr(source, what);
    if (!found)
        return source;
    const size_t before = (size_t)(found - source), size = strlen(source) + strlen(with) + 1;
    char *made = malloc(size);
    assert_non_null(made);
    (void)snprintf(made, size, "%.*s%s%s", (int)before, source, with, found + strlen(what));
    free(source);
    return made;
}

static char *emulation_of(const char *source)
{
    char *changed = malloc(strlen(source) + 1);
    assert_non_null(changed);
    memcpy(changed, source, strlen(source) + 1);
    if (!emulated_units->instructions) {
        static const char *const unwanted[] = {
            "#extension GL_NV_cooperative_matrix",  "#extension GL_KHR_cooperative_matrix",
            "#extension GL_NV_cooperative_matrix2", "#extension GL_EXT_bfloat16",
            "#extension GL_KHR_memory_scope",       "#extension GL_EXT_shader_explicit_arithmetic_types_float16"};
        const char *own = strstr(source, "GL_NV_cooperative_matrix2") ? glsl_groups : glsl;
        const size_t room = strlen(own) + 16;
        char *main_function = malloc(room);
        assert_non_null(main_function);
        (void)snprintf(main_function, room, "%svoid main()", own);
        for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
            changed = replaced(changed, unwanted[i], "//");
        changed = replaced(changed, "void main()", main_function);
        free(main_function);
        return replaced(changed, "#define UNROLL [[unroll]]", "#define UNROLL");
    }
    /* A device with warpgroups also has NVIDIA's other units. */
    const char *others = emulated_units->on_warpgroups ? opencl_nvidia : "";
    const size_t size =
        strlen(others) + strlen(emulated_units->instructions) + sizeof opencl_common + strlen(changed) + 1;
    char *whole = malloc(size);
    assert_non_null(whole);
    (void)snprintf(whole, size, "%s%s%s%s", others, emulated_units->instructions, opencl_common, changed);
    free(changed);
    changed = replaced(whole, "    __local PART tiles", "    EXCHANGED\n    __local PART tiles");
    changed = replaced(changed, "    __local uint4 tiles", "    EXCHANGED\n    __local uint4 tiles");
    changed = replaced(changed, "__attribute__((intel_reqd_sub_group_size(MATRIX_N)))", "");
    /* Unrolled loops with barriers take long to compile. */
    changed = replaced(changed, "#define UNROLL _Pragma(\"unroll\")", "#define UNROLL");
    changed = replaced(changed, "__attribute__((intel_reqd_sub_group_size(SUBGROUP_WIDTH)))", "");
    return replaced(changed, "((int)get_sub_group_id())", "(lane / MATRIX_LANES)");
}

/* PoCL 3.1 miscompiles emulated gradients of attention with optimization, even on one thread; they are correct without
   it, and on Intel's runtime with it. */
static tuff_status create_program(driver_device *device, const program_request *request, blob *made,
                                  driver_program **out)
{
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
    if (emulated_units->instructions != NULL && device->is_pocl && strstr(request->text, "attention_backward")) {
        char kept[sizeof device->build_options];
        memcpy(kept, device->build_options, sizeof kept);
        (void)snprintf(device->build_options, sizeof kept, "%.*s -cl-opt-disable", (int)sizeof kept - 20, kept);
        const tuff_status status = real_driver->program_create(device, request, (blob){0}, made, out);
        memcpy(device->build_options, kept, sizeof kept);
        return status;
    }
#endif
    return real_driver->program_create(device, request, (blob){0}, made, out);
}

tuff_status create_emulated(driver_device *device, const program_request *request, blob cached, blob *made,
                            driver_program **out)
{
    program_request changed = *request;
    if (!strstr(request->text, "MATRIX_BF16"))
        return real_driver->program_create(device, request, cached, made, out);
    char *emulation = emulation_of(request->text);
    if (emulates_wrongly)
        emulation = replaced(emulation, emulated_units->wrong_emulation[0], emulated_units->wrong_emulation[1]);
    changed.text = emulation;
    changed.subgroup_size = 0;
    changed.registers = REGISTERS_DEFAULT;
    emulated++;
    const tuff_status status = create_program(device, &changed, made, out);
    free(emulation);
    return status;
}
