// Follows prelude.cl and precedes the text of a device's matrix units: parts of 16 bytes, and the position of a lane.
#define AS_MEMORY 0
#define LINES 1
#define PAIRS 2
#define PART uint4
#define TILES_ALIGNED
#define ZERO_PART ((uint4)(0))
#define MAKE_PART(x, y, z, w) ((uint4)(x, y, z, w))
#define results ((__local float *)tiles)
#define FOUR_RESULTS(at) (*(__local const float4 *)(results + (at)))
#if VEC == 8
#define RESULT_VECTOR(at) ((float8)(FOUR_RESULTS(at), FOUR_RESULTS((at) + 4)))
#else
#define RESULT_VECTOR(at) FOUR_RESULTS(at)
#endif
#define RESULT_ELEMENT(at) results[at]
// SCALE_BLOCK multiplies each row of sums by one of the body's `factors`, from place `at` on.
#define FACTOR_PITCH 1
#define UNITS_SUBGROUP (lane / MATRIX_LANES)
#define UNITS_LANE (lane % MATRIX_LANES)

// The bits of x, rounded to the 16-bit dtype of the factors.
#if MATRIX_BF16
#define MATRIX_BITS(x) BF16_BITS(x)
#else
#define MATRIX_BITS(x) F16_BITS(x)
#endif
// AT converts an element's index for LOAD_PART, which loads eight elements: to bytes for 16-bit elements, for which 32
// bits suffice; for others it remains an index. LOAD_BITS loads one element.
#define AT_16(i) ((uint)(i) * 2u)
#define AT_32(i) ((uint)(i))
#define BEHIND(b, at, ahead) ((b) + ((at) + (ahead)))
#define PART_ADDRESS(b, at, ahead) BEHIND((__global const char *)(b), at, ahead)
#define LOAD_PART_16(b, at, ahead) (*(__global const uint4 *)PART_ADDRESS(b, at, ahead))
#define LOAD_BITS_16(b, i) ((uint)(b)[i])
#define LOAD_BITS_32(b, i) MATRIX_BITS((b)[i])
FUNCTION uint4 part_of_floats(float4 x, float4 y)
{
    return (uint4)(PACK16(MATRIX_BITS(x.x), MATRIX_BITS(x.y)), PACK16(MATRIX_BITS(x.z), MATRIX_BITS(x.w)),
                   PACK16(MATRIX_BITS(y.x), MATRIX_BITS(y.y)), PACK16(MATRIX_BITS(y.z), MATRIX_BITS(y.w)));
}
#define LOAD_PART_32(b, at, ahead)                                                                                    \
    part_of_floats(*(__global const float4 *)BEHIND(b, at, ahead), *(__global const float4 *)BEHIND(b, (at) + 4, ahead))
// Places in a tile are bytes, as addresses are.
#define PLACES 16
#define TILE_PART(place) (*(__local uint4 *)((__local char *)tiles + (place)))
#define TILE_WORD(place) (*(__local uint *)((__local char *)tiles + (place)))
#define TILE_TWO_WORDS(place) (*(__local uint2 *)((__local char *)tiles + (place)))
#define MAKE_TWO_WORDS(x, y) ((uint2)(x, y))
#define UNROLL_STEPS UNROLL
