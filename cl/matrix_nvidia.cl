// Matrix units of NVIDIA's GPUs from OpenCL C, as PTX: mma.sync of 16 by 8 by 16, of which two make a block, with
// ldmatrix and cp.async (all of them sm_80 and newer). matmul_cooperative.k says what each macro is for. The first ones
// are the instructions, which tests replace to run the kernel elsewhere.
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
#endif

#define A_LAYOUT AS_MEMORY
#define B_LAYOUT AS_MEMORY
// The 16-byte parts of a line are exchanged by the line's bits, so that ldmatrix meets no bank twice.
#define SWIZZLE(line, part, width)                                                                                    \
    (16 * ((line) * (width) +                                                                                         \
           ((part) ^ ((line) >> ((width) >= 8 ? 0 : (width) == 4 ? 1 : 2) & ((width) >= 8 ? 7 : (width) - 1)))))
#define K_PLACE(line, chunk, lines) SWIZZLE(line, chunk, CHUNKS)
#define K_TILE_PLACES(lines) (16 * (lines) * CHUNKS)
#define L_PLACE(term, chunk, lines) SWIZZLE(term, chunk, (lines) / 8)
#define L_TILE_PLACES(lines) K_TILE_PLACES(lines)

typedef struct words4 {
    uint x[4];
} words4;
typedef struct sums8 {
    float x[8]; // four of the first eight columns, four of the others
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
