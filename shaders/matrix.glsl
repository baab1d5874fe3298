// Matrix units of Vulkan (VK_KHR_cooperative_matrix, VK_NV_cooperative_matrix); follows prelude.glsl. Only
// KHR's multiply bf16.
// matmul_cooperative.k explains the macros. Places in local memory are parts of 16 bytes.
#define AS_MEMORY 0
#define LINES 1
#define PAIRS 2
#define A_LAYOUT AS_MEMORY
#define B_LAYOUT AS_MEMORY
#define PART uvec4
#define TILES_ALIGNED
#define ZERO_PART uvec4(0u)
#define MAKE_PART(x, y, z, w) uvec4(x, y, z, w)
#define PLACES 1
#define TILE_PART(place) tiles[place]
#define TILE_WORD(place) tiles[place].x
#define UNROLL_STEPS UNROLL
#define UNITS_SUBGROUP int(SUBGROUP_INDEX)
#define UNITS_LANE int(SUBGROUP_LANE)
// Lines are padded by a part, so that they begin in different banks.
#define K_PLACE(line, chunk, lines) ((line) * (CHUNKS + 1) + (chunk))
#define K_TILE_PLACES(lines) ((lines) * (CHUNKS + 1))
#define L_PLACE(term, chunk, lines) ((term) * ((lines) / 8 + 1) + (chunk))
#define L_TILE_PLACES(lines) (STEP_K * ((lines) / 8 + 1))
#define RESULT_VECTOR(at) uintBitsToFloat(tiles[(at) / 4])
#define RESULT_ELEMENT(at) uintBitsToFloat(tiles[(at) / 4][(at) % 4])

// AT converts an element's index to what LOAD_PART takes: a number of 16-byte units.
#define AT_16(i) uint((i) / 8)
#define AT_32(i) uint((i) / 4)
#define LOAD_PART_16(b, at, ahead) b##_q[(at) + (ahead)]
#define LOAD_BITS_16(b, i) BITS16(b, i)
#if MATRIX_BF16
#define MATRIX_BITS(x) BF16_BITS(x)
#define FACTOR_TYPE bfloat16_t
#else
#define MATRIX_BITS(x) F16_BITS(x)
#define FACTOR_TYPE float16_t
#endif
#define LOAD_BITS_32(b, i) MATRIX_BITS((b)[i])
uvec4 part_of_floats(vec4 x, vec4 y)
{
    return uvec4(PACK16(MATRIX_BITS(x.x), MATRIX_BITS(x.y)), PACK16(MATRIX_BITS(x.z), MATRIX_BITS(x.w)),
                 PACK16(MATRIX_BITS(y.x), MATRIX_BITS(y.y)), PACK16(MATRIX_BITS(y.z), MATRIX_BITS(y.w)));
}
#define LOAD_PART_32(b, at, ahead)                                                                                    \
    part_of_floats(uintBitsToFloat(b##_q[(at) + (ahead)]), uintBitsToFloat(b##_q[(at) + (ahead) + 1u]))

#ifdef COOPERATIVE_KHR
#define LEFT_BLOCK coopmat<FACTOR_TYPE, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define RIGHT_BLOCK coopmat<FACTOR_TYPE, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define SUM_BLOCK coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define LOAD_BLOCK(to, place, pitch, in_columns)                                                                      \
    coopMatLoad(to, tiles, uint(place), uint(pitch),                                                                  \
                in_columns ? gl_CooperativeMatrixLayoutColumnMajor : gl_CooperativeMatrixLayoutRowMajor)
#define STORE_BLOCK(sum, at, pitch)                                                                                   \
    coopMatStore(sum, tiles, uint(at) / 4u, uint(pitch) / 4u, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_FACTORS(to, at)                                                                                          \
    coopMatLoad(to, factors, at, uint(FACTOR_PITCH), gl_CooperativeMatrixLayoutRowMajor)
#define MULTIPLY_ADD(sum, left, right) sum = coopMatMulAdd(left, right, sum)
#else
#define LEFT_BLOCK fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_M, MATRIX_K>
#define RIGHT_BLOCK fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_K, MATRIX_N>
#define SUM_BLOCK fcoopmatNV<32, gl_ScopeSubgroup, MATRIX_M, MATRIX_N>
#define LOAD_BLOCK(to, place, pitch, in_columns) coopMatLoadNV(to, tiles, uint(place), uint(pitch), in_columns)
#define STORE_BLOCK(sum, at, pitch) coopMatStoreNV(sum, tiles, uint(at) / 4u, uint(pitch) / 4u, false)
#define LOAD_FACTORS(to, at) coopMatLoadNV(to, factors, at, uint(FACTOR_PITCH), false)
#define MULTIPLY_ADD(sum, left, right) sum = coopMatMulAddNV(left, right, sum)
#endif
#define CLEAR_BLOCK(sum) sum = SUM_BLOCK(0.0)
#if A_K_CONTIGUOUS
#define LEFT_AT(row) K_PLACE(row, 0, BLOCK_ROWS)
#define LOAD_LEFT(to, tile, at, rows, step)                                                                           \
    LOAD_BLOCK(to, (tile) + (at) + K_PLACE(rows, (step) / 8, BLOCK_ROWS), CHUNKS + 1, false)
#else
#define LEFT_AT(row) ((row) / 8)
#define LOAD_LEFT(to, tile, at, rows, step)                                                                           \
    LOAD_BLOCK(to, (tile) + (at) + L_PLACE(step, (rows) / 8, BLOCK_ROWS), BLOCK_ROWS / 8 + 1, true)
#endif
#define LOAD_RIGHT_LINES(to, tile, at, columns, step)                                                                 \
    LOAD_BLOCK(to, (tile) + (at) + K_PLACE(columns, (step) / 8, BLOCK_COLUMNS), CHUNKS + 1, true)
#define LOAD_RIGHT_TERMS(to, tile, at, columns, step)                                                                 \
    LOAD_BLOCK(to, (tile) + (at) + L_PLACE(step, (columns) / 8, BLOCK_COLUMNS), BLOCK_COLUMNS / 8 + 1, false)
#if B_K_CONTIGUOUS
#define RIGHT_AT(column) K_PLACE(column, 0, BLOCK_COLUMNS)
#define LOAD_RIGHT LOAD_RIGHT_LINES
#else
#define RIGHT_AT(column) ((column) / 8)
#define LOAD_RIGHT LOAD_RIGHT_TERMS
#endif
// Multiplies each row of sums by one of the body's `factors`. A row has as many equal factors as a block has columns,
// because only a load knows which of a block's sums a lane holds.
#define FACTOR_PITCH MATRIX_N
#define SCALE_BLOCK(sum, at)                                                                                          \
    {                                                                                                                 \
        SUM_BLOCK by;                                                                                                 \
        LOAD_FACTORS(by, uint((at) * FACTOR_PITCH));                                                                  \
        for (int z = 0; z < sum.length(); z++)                                                                        \
            sum[z] = sum[z] * by[z];                                                                                  \
    }
