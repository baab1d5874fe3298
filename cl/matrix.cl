// In front of the texts of matrix units, behind prelude.cl: parts of 16 bytes, and where a lane stands.
#define PART uint4
#define ZERO_PART ((uint4)(0))
#define MAKE_PART(x, y, z, w) ((uint4)(x, y, z, w))
#define TILE_WORDS ((__local uint *)tiles)
#define RESULTS_IN_TILES 1
#define RESULT_DECLARATION float *const results = (__local float *)tiles
#define RESULTS(at) vload4(0, results + (at))
#define UNITS_SUBGROUP (lane / SUBGROUP_WIDTH)
#define UNITS_LANE (lane % SUBGROUP_WIDTH)

// Eight elements from i on, a multiple of eight; one element's bits, and where it lies.
#if MATRIX_BF16
#define MATRIX_BITS(x) BF16_BITS(x)
#else
#define MATRIX_BITS(x) F16_BITS(x)
#endif
#define LOAD_PART_16(b, i) (*(__global const uint4 *)((b) + (i)))
#define LOAD_BITS_16(b, i) ((uint)(b)[i])
#define LOAD_BITS_32(b, i) MATRIX_BITS((b)[i])
FUNCTION uint4 part_of_floats(float4 x, float4 y)
{
    return (uint4)(PACK16(MATRIX_BITS(x.x), MATRIX_BITS(x.y)), PACK16(MATRIX_BITS(x.z), MATRIX_BITS(x.w)),
                   PACK16(MATRIX_BITS(y.x), MATRIX_BITS(y.y)), PACK16(MATRIX_BITS(y.z), MATRIX_BITS(y.w)));
}
#define LOAD_PART_32(b, i)                                                                                            \
    part_of_floats(*(__global const float4 *)((b) + (i)), *(__global const float4 *)((b) + (i) + 4))
#define PART_ADDRESS(b, i) ((b) + (i))
