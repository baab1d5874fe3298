// Matrix units of NVIDIA's GPUs from OpenCL C, as PTX: mma.sync of 16 by 8 by 16, two of which make a block, with
// ldmatrix and cp.async (all of them sm_80 and newer); with MATRIX_WARPGROUP, wgmma of 64 by MATRIX_N by 16 (sm_90a).
// matmul_cooperative.k explains the macros. Tests replace the instructions, which come first, to run the kernel
// elsewhere. Instructions that sm_90 lacks are written as PTX comments, which src/device/opencl/program.c turns into
// instructions, because OpenCL has no option to select sm_90a.
#ifndef MMA
#define SHARED_ADDRESS(place) ((uint)(size_t)tiles + (uint)(place))
#define LDMATRIX(form, x, place)                                                                                      \
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0,%1,%2,%3}, [%4];"                          \
                     : "=r"((x)[0]), "=r"((x)[1]), "=r"((x)[2]), "=r"((x)[3]) : "r"(SHARED_ADDRESS(place)) : "memory")
#if MATRIX_BF16
#define MMA_TYPES "bf16.bf16"
#else
#define MMA_TYPES "f16.f16"
#endif
#define MMA(sum, a, b)                                                                                                \
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPES ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "         \
            "{%0,%1,%2,%3};"                                                                                          \
            : "+f"((sum)[0]), "+f"((sum)[1]), "+f"((sum)[2]), "+f"((sum)[3])                                          \
            : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#define COPY_PART(place, from)                                                                                        \
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SHARED_ADDRESS(place)), "l"(from) : "memory")
#define COMMIT_COPIES() __asm__ volatile("cp.async.commit_group;" ::: "memory")
#define WAIT_FOR_COPIES(left) __asm__ volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")
#define WGMMA_OF(size, registers, factors, sums, left, right)                                                         \
    __asm__ volatile("{\n\t.reg .pred adds;\n\tsetp.eq.u32 adds, 0, 0;\n\t"                                           \
                     "//@wgmma.mma_async.sync.aligned.m64n" size "k16.f32." MMA_TYPES " {" registers "}, " factors     \
                     ", adds, 1, 1, " LEFT_TURNED ", " RIGHT_TURNED ";\n\t}"                                         \
                     : sums : "l"(left), "l"(right))
#define BEGIN_PRODUCTS() __asm__ volatile("//@wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT_PRODUCTS() __asm__ volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory")
#define FINISH_PRODUCTS() __asm__ volatile("//@wgmma.wait_group.sync.aligned 0;" ::: "memory")
#define SHOW_TILES() __asm__ volatile("//@fence.proxy.async.shared::cta;" ::: "memory")
#endif

#define A_LAYOUT AS_MEMORY
#define B_LAYOUT AS_MEMORY
// By default, OpenCL's local memory begins 16 bytes after a multiple of 128. cp.async, which delivers 32 bytes at a
// time, then writes to two lines of 128 bytes instead of one, and a matmul takes one and a half times as long.
#undef TILES_ALIGNED
#if MATRIX_WARPGROUP
#define TILES_ALIGNED __attribute__((aligned(1024)))
#else
#define TILES_ALIGNED __attribute__((aligned(128)))
#endif
// Swizzles the 16-byte parts of a line by the bits of the line's number, so that ldmatrix has no bank conflicts.
#define SWIZZLE(line, part, width)                                                                                    \
    (16 * ((line) * (width) +                                                                                         \
           ((part) ^ ((line) >> ((width) >= 8 ? 0 : (width) == 4 ? 1 : 2) & ((width) >= 8 ? 7 : (width) - 1)))))
#define K_PLACE(line, chunk, lines) SWIZZLE(line, chunk, CHUNKS)
#define K_TILE_PLACES(lines) (16 * (lines) * CHUNKS)
#if MATRIX_WARPGROUP
// A subgroup is a warpgroup, four warps with 16 rows each. Factors stay in local memory, and descriptors say how they
// lie: as lines of terms, swizzled as above, or as terms of 64 lines, 128 bytes each, where the next 64 lines follow
// all terms of a step. Parts of every eighth line, or term, are not moved by the swizzle.
#define L_PLACE(term, chunk, lines) ((chunk) / 8 * (128 * STEP_K) + SWIZZLE(term, (chunk) % 8, 8))
#define L_TILE_PLACES(lines) K_TILE_PLACES(lines)
typedef struct warpgroup_sums {
    float x[MATRIX_N / 2]; // for each eight columns: two in a row, and two eight rows below
} warpgroup_sums;
#define LEFT_BLOCK ulong
#define RIGHT_BLOCK ulong
#define SUM_BLOCK warpgroup_sums
#define CLEAR_BLOCK(sum)                                                                                              \
    UNROLL for (int z = 0; z < MATRIX_N / 2; z++)                                                                     \
        (sum).x[z] = 0.0f
#define LEFT_AT(row) (row)
#define RIGHT_AT(column) (column)
// A descriptor: where a factor begins, how far apart 64 lines are, and how far eight lines of terms or eight terms of
// lines; and the swizzle, within 128 bytes (1) or 64 (2).
#define FACTOR(place, lines_apart, eight_apart, exchange)                                                             \
    ((ulong)((SHARED_ADDRESS(place) & 0x3ffffu) / 16u) | (ulong)((lines_apart) / 16) << 16 |                          \
     (ulong)((eight_apart) / 16) << 32 | (ulong)(exchange) << 62)
#define FACTOR_OF_LINES(tile, line, step)                                                                             \
    FACTOR((tile) + ((line) * STEP_K + (step)) * 2, 16, 16 * STEP_K, STEP_K == 64 ? 1 : 2)
#define FACTOR_OF_TERMS(tile, line, step)                                                                             \
    FACTOR((tile) + (line) / 64 * (128 * STEP_K) + (step) * 128, 128 * STEP_K, 1024, 1)
#if A_K_CONTIGUOUS
#define LEFT_TURNED "0"
#define LOAD_LEFT(to, tile, at, rows, step) (to) = FACTOR_OF_LINES(tile, (at) + (rows), step)
#else
#define LEFT_TURNED "1"
#define LOAD_LEFT(to, tile, at, rows, step) (to) = FACTOR_OF_TERMS(tile, (at) + (rows), step)
#endif
#if B_K_CONTIGUOUS
#define RIGHT_TURNED "0"
#define LOAD_RIGHT(to, tile, at, columns, step) (to) = FACTOR_OF_LINES(tile, (at) + (columns), step)
#else
#define RIGHT_TURNED "1"
#define LOAD_RIGHT(to, tile, at, columns, step) (to) = FACTOR_OF_TERMS(tile, (at) + (columns), step)
#endif
#define REGISTERS_32                                                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                          \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_64                                                                                                  \
    REGISTERS_32 ", "                                                                                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUM_REGISTER(s, i) "+f"((s)[i])
#define SUM_REGISTERS_8(s, i)                                                                                         \
    SUM_REGISTER(s, i), SUM_REGISTER(s, i + 1), SUM_REGISTER(s, i + 2), SUM_REGISTER(s, i + 3),                       \
        SUM_REGISTER(s, i + 4), SUM_REGISTER(s, i + 5), SUM_REGISTER(s, i + 6), SUM_REGISTER(s, i + 7)
#define SUM_REGISTERS_32(s, i)                                                                                        \
    SUM_REGISTERS_8(s, i), SUM_REGISTERS_8(s, i + 8), SUM_REGISTERS_8(s, i + 16), SUM_REGISTERS_8(s, i + 24)
#define SUM_REGISTERS_64(s) SUM_REGISTERS_32(s, 0), SUM_REGISTERS_32(s, 32)
#ifndef WGMMA
#if MATRIX_N == 64
#define WGMMA(sums, left, right) WGMMA_OF("64", REGISTERS_32, "%32, %33", SUM_REGISTERS_32(sums, 0), left, right)
#else
#define WGMMA(sums, left, right) WGMMA_OF("128", REGISTERS_64, "%64, %65", SUM_REGISTERS_64(sums), left, right)
#endif
#endif
#define MULTIPLY_ADD(sum, left, right) WGMMA((sum).x, left, right)
// Sums leave in pieces of 32 columns, two sums at a time, without bank conflicts.
#define PIECE_COLUMNS 32
#define PIECE_PAD 8
#define STORE_PIECE(sums, piece, at, pitch)                                                                           \
    UNROLL for (int z = 0; z < PIECE_COLUMNS / 2; z += 2)                                                             \
        *(__local float2 *)(results + (at) +                                                                          \
                            (UNITS_LANE / 32 * 16 + UNITS_LANE % 32 / 4 + z % 4 / 2 * 8) * (pitch) +                  \
                            UNITS_LANE % 4 * 2 + z / 4 * 8) =                                                         \
            (float2)(SUM_OF(sums, piece, z), SUM_OF(sums, piece, z + 1));
#define PIECES_OF_BLOCK (MATRIX_N / PIECE_COLUMNS)
#define SUM_OF(sums, piece, z)                                                                                        \
    (sums)[(piece) / PIECES_OF_BLOCK].x[(piece) % PIECES_OF_BLOCK * (PIECE_COLUMNS / 2) + (z)]
#else
#define L_PLACE(term, chunk, lines) SWIZZLE(term, chunk, (lines) / 8)
#define L_TILE_PLACES(lines) K_TILE_PLACES(lines)

typedef struct words4 {
    uint x[4];
} words4;
typedef struct sums8 {
    float x[8]; // four of the first eight columns, then four of the others
} sums8;
#define LEFT_BLOCK words4
#define RIGHT_BLOCK words4
#define SUM_BLOCK sums8
#define CLEAR_BLOCK(sum)                                                                                              \
    UNROLL for (int z = 0; z < 8; z++)                                                                                \
        (sum).x[z] = 0.0f
#define UNIT_LANE (lane % 32)
#define LEFT_AT(row) (row)
#define RIGHT_AT(column) (column)
#if A_K_CONTIGUOUS
#define LOAD_LEFT(to, tile, at, rows, step)                                                                           \
    LDMATRIX("", (to).x,                                                                                              \
             (tile) + K_PLACE((at) + (rows) + UNIT_LANE % 16, (step) / 8 + UNIT_LANE / 16, BLOCK_ROWS))
#else
#define LOAD_LEFT(to, tile, at, rows, step)                                                                           \
    LDMATRIX(".trans", (to).x,                                                                                        \
             (tile) + L_PLACE((step) + UNIT_LANE % 8 + UNIT_LANE / 16 * 8, ((at) + (rows)) / 8 + UNIT_LANE / 8 % 2,   \
                              BLOCK_ROWS))
#endif
#define LOAD_RIGHT_LINES(to, tile, at, columns, step)                                                                  \
    LDMATRIX("", (to).x,                                                                                              \
             (tile) + K_PLACE((at) + (columns) + UNIT_LANE % 8 + UNIT_LANE / 16 * 8,                                  \
                              (step) / 8 + UNIT_LANE / 8 % 2, BLOCK_COLUMNS))
#define LOAD_RIGHT_TERMS(to, tile, at, columns, step)                                                                  \
    LDMATRIX(".trans", (to).x,                                                                                        \
             (tile) + L_PLACE((step) + UNIT_LANE % 16, ((at) + (columns)) / 8 + UNIT_LANE / 16, BLOCK_COLUMNS))
#if B_K_CONTIGUOUS
#define LOAD_RIGHT LOAD_RIGHT_LINES
#else
#define LOAD_RIGHT LOAD_RIGHT_TERMS
#endif
#define MULTIPLY_ADD(sum, left, right)                                                                                \
    MMA((sum).x, (left).x, (right).x);                                                                                \
    MMA((sum).x + 4, (left).x, (right).x + 2)
#define STORE_BLOCK(sum, at, pitch)                                                                                   \
    UNROLL for (int z = 0; z < 8; z++)                                                                                \
        results[(at) + (UNIT_LANE / 4 + z % 4 / 2 * 8) * (pitch) + UNIT_LANE % 4 * 2 + z % 2 + z / 4 * 8] = (sum).x[z]
#define SCALE_BLOCK(sum, at)                                                                                           \
    UNROLL for (int z = 0; z < 8; z++)                                                                                \
        (sum).x[z] *= factors[(at) + UNIT_LANE / 4 + z % 4 / 2 * 8]
#endif
