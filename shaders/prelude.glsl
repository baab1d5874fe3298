// The GLSL half of the kernel dialect: types, loads and stores of every storage type, and the intrinsics whose text
// differs between the languages. The assembler puts it between the buffer declarations and the maths; cl/prelude.cl
// gives the same names the same meaning. LOCAL_SIZE, and NARROW_STORAGE where the device has it, are defined before
// it.
#define FUNCTION
#define boolean bool
#define vec vec4
#define ivec ivec4
#define uvec uvec4
#define bvec bvec4

#define GROUP (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + group_base)
#define LANE gl_LocalInvocationID.x
// For bodies that ask for subgroups of a proved width, SUBGROUP_WIDTH: the lane's place in its subgroup, that one's in
// the group, and another lane's value.
#define SUBGROUP_LANE gl_SubgroupInvocationID
#if defined(SUBGROUP_WIDTH) && SUBGROUP_WIDTH < LOCAL_SIZE
#define SUBGROUP_INDEX gl_SubgroupID
#else
#define SUBGROUP_INDEX 0u
#endif
#define SHUFFLE(x, lane) subgroupShuffle(x, uint(lane))
#define PARAM(i) p[param_base + uint(i)]
#ifdef GL_EXT_control_flow_attributes
#define UNROLL [[unroll]]
#define ROLLED [[dont_unroll]]
#else
#define UNROLL
#define ROLLED
#endif
#define BARRIER() (memoryBarrierShared(), barrier())
#define STREAM_END()

// x·y + z with one rounding or two: for code that is right either way. Not fma(), which compilers that lack it were
// seen to take apart and reassociate, `precise` or not.
#define MUL_ADD(x, y, z) ((x) * (y) + (z))
// One step of Horner's rule with a scalar constant, in whatever width REAL has.
#define STEP(sum, x, constant) fma(sum, x, MAKE_REAL(constant))

#define SPLAT(x) vec4(x)
#define ISPLAT(x) ivec4(x)
#define USPLAT(x) uvec4(x)
#define BSPLAT(x) bvec4(x)
#define LANES_V ivec4(0, 1, 2, 3)

#define SPLAT_1(x) (x)
#define ISPLAT_1(x) (x)
#define USPLAT_1(x) (x)
#define BSPLAT_1(x) (x)
#define BITS_1(x) floatBitsToUint(x)
#define FROM_BITS_1(x) uintBitsToFloat(x)
#define I_TO_U_1(x) uint(x)
#define U_TO_I_1(x) int(x)
#define I_TO_F_1(x) float(x)
#define TRUNCATE_TO_I_1(x) int(x)
#define TRUNCATE_TO_U_1(x) uint(x)
#define ABS_1(x) abs(x)
#define FLOOR_1(x) floor(x)
#define SQRT_1(x) sqrt(x)
#define RSQRT_1(x) inversesqrt(x)
#define LESS_1(x, y) ((x) < (y))
#define EQUAL_1(x, y) ((x) == (y))
#define ILESS_1(x, y) ((x) < (y))
#define IEQUAL_1(x, y) ((x) == (y))
#define ULESS_1(x, y) ((x) < (y))
#define UEQUAL_1(x, y) ((x) == (y))
#define AND_1(x, y) ((x) && (y))
#define OR_1(x, y) ((x) || (y))
#define NOT_1(x) (!(x))
#define ROTATE_1(x, left) (((x) << (left)) | ((x) >> (32 - (left))))
#define IABS_1(x) abs(x)
#define ANY_1(x) (x)
#define SELECT_1(c, x, y) mix(y, x, c)
#define ISELECT_1(c, x, y) mix(y, x, c)
#define USELECT_1(c, x, y) mix(y, x, c)
#define BSELECT_1(c, x, y) mix(y, x, c)

#define SPLAT_v(x) vec4(x)
#define ISPLAT_v(x) ivec4(x)
#define USPLAT_v(x) uvec4(x)
#define BSPLAT_v(x) bvec4(x)
#define BITS_v(x) floatBitsToUint(x)
#define FROM_BITS_v(x) uintBitsToFloat(x)
#define I_TO_U_v(x) uvec4(x)
#define U_TO_I_v(x) ivec4(x)
#define I_TO_F_v(x) vec4(x)
#define TRUNCATE_TO_I_v(x) ivec4(x)
#define TRUNCATE_TO_U_v(x) uvec4(x)
#define ABS_v(x) abs(x)
#define FLOOR_v(x) floor(x)
#define SQRT_v(x) sqrt(x)
#define RSQRT_v(x) inversesqrt(x)
#define LESS_v(x, y) lessThan(x, y)
#define EQUAL_v(x, y) equal(x, y)
#define ILESS_v(x, y) lessThan(x, y)
#define IEQUAL_v(x, y) equal(x, y)
#define ULESS_v(x, y) lessThan(x, y)
#define UEQUAL_v(x, y) equal(x, y)
#define AND_v(x, y) mix(bvec4(false), y, x)
#define OR_v(x, y) mix(y, bvec4(true), x)
#define NOT_v(x) not(x)
#define ROTATE_v(x, left) (((x) << (left)) | ((x) >> (32 - (left))))
#define IABS_v(x) abs(x)
#define ANY_v(x) any(x)
#define SELECT_v(c, x, y) mix(y, x, c)
#define ISELECT_v(c, x, y) mix(y, x, c)
#define USELECT_v(c, x, y) mix(y, x, c)
#define BSELECT_v(c, x, y) mix(y, x, c)

// In two exact halves, so that one addition rounds: a driver's own conversion was seen to err above 2^31.
float U_TO_F_1(uint x)
{
    precise float sum = float(int(x >> 16)) * 65536.0 + float(int(x & 0xffffu));
    return sum;
}

vec4 U_TO_F_v(uvec4 x)
{
    precise vec4 sum = vec4(ivec4(x >> 16)) * 65536.0 + vec4(ivec4(x & 0xffffu));
    return sum;
}

// The upper 32 bits of a product.
uint MULTIPLY_HIGH_1(uint x, uint y)
{
    uint upper, lower;
    umulExtended(x, y, upper, lower);
    return upper;
}

uvec4 MULTIPLY_HIGH_v(uvec4 x, uvec4 y)
{
    uvec4 upper, lower;
    umulExtended(x, y, upper, lower);
    return upper;
}

float HSUM(vec4 x)
{
    precise vec2 halves = x.xy + x.zw;
    precise float sum = halves.x + halves.y;
    return sum;
}

// NaN where x or y is.
float larger_of(float x, float y)
{
    return x < y || (floatBitsToUint(y) & 0x7fffffffu) > 0x7f800000u ? y : x;
}

float HMAX(vec4 x)
{
    return larger_of(larger_of(x.x, x.z), larger_of(x.y, x.w));
}

// f16 and bf16 in integer code: the rounding of packHalf2x16 and the fate of denormals in it are the device's choice.
// Below 2^-14 adding one half leaves the multiple of 2^-24 in the low bits of the sum, rounded to nearest even.
uint F16_BITS(float x)
{
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    uint sign = (floatBitsToUint(x) >> 16) & 0x8000u;
    precise float shifted = uintBitsToFloat(bits) + 0.5;
    uint small = floatBitsToUint(shifted) - 0x3f000000u;
    uint normal = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    uint nan = 0x7c00u | ((bits >> 13) & 0x3ffu);
    nan |= uint(nan == 0x7c00u) << 9;
    uint magnitude = bits < 0x38800000u ? small : normal;
    magnitude = bits >= 0x477ff000u ? 0x7c00u : magnitude;
    return sign | (bits > 0x7f800000u ? nan : magnitude);
}

float F16_FROM_BITS(uint half_bits)
{
    uint magnitude = (half_bits & 0x7fffu) << 13;
    precise float small = float(half_bits & 0x3ffu) * 5.9604644775390625e-8;
    uint bits = magnitude + (magnitude >= 0x0f800000u ? 0x70000000u : 0x38000000u);
    bits = magnitude < 0x00800000u ? floatBitsToUint(small) : bits;
    return uintBitsToFloat(bits | ((half_bits & 0x8000u) << 16));
}

uint BF16_BITS(float x)
{
    uint bits = floatBitsToUint(x);
    uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint nan = (bits >> 16) | (((bits & 0xffffu) + 0xffffu) >> 16);
    return (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
}

#define PACK16(low, high) ((low) | ((high) << 16))

// The bits of element i of a narrow buffer: an array of the narrow type, or of the words that hold it.
#ifdef NARROW_STORAGE
#define BITS16(b, i) uint(b[i])
#define BITS8(b, i) uint(b[i])
#define SIGNED8(b, i) int(b[i])
#else
#define BITS16(b, i) bitfieldExtract(b[(i) >> 1], (int(i) & 1) << 4, 16)
#define BITS8(b, i) bitfieldExtract(b[(i) >> 2], (int(i) & 3) << 3, 8)
#define SIGNED8(b, i) bitfieldExtract(int(b[(i) >> 2]), (int(i) & 3) << 3, 8)
#endif

#define LOAD_f32(b, i) b[i]
#define LOAD_i32(b, i) b[i]
#define LOAD_u32(b, i) b[i]
#define LOAD_f16(b, i) F16_FROM_BITS(BITS16(b, i))
#define LOAD_bf16(b, i) uintBitsToFloat(BITS16(b, i) << 16)
#define LOAD_i8(b, i) SIGNED8(b, i)
#define LOAD_u8(b, i) BITS8(b, i)
#define LOAD_bool(b, i) (BITS8(b, i) != 0u)

#define STORE_f32(b, i, x) b[i] = (x)
#define STORE_i32(b, i, x) b[i] = (x)
#define STORE_u32(b, i, x) b[i] = (x)
#ifdef NARROW_STORAGE
#define STORE_f16(b, i, x) b[i] = uint16_t(F16_BITS(x))
#define STORE_bf16(b, i, x) b[i] = uint16_t(BF16_BITS(x))
#define STORE_i8(b, i, x) b[i] = int8_t(x)
#define STORE_u8(b, i, x) b[i] = uint8_t(x)
#define STORE_bool(b, i, x) b[i] = uint8_t((x) ? 1u : 0u)
#endif

// Vectors: four strided elements through one macro, since buffers cannot be passed to functions. 32-bit types have an
// alias of vec4 for aligned access. Arguments must be free of side effects.
#define STRIDED(type, load, b, i, s) \
    type(load(b, i), load(b, (i) + (s)), load(b, (i) + 2 * (s)), load(b, (i) + 3 * (s)))
#define INDEXED(type, load, b, at) type(load(b, (at).x), load(b, (at).y), load(b, (at).z), load(b, (at).w))
#define STRIDED_STORE(store, b, i, s, value)                                                 \
    {                                                                                        \
        store(b, i, (value).x);                                                              \
        store(b, (i) + (s), (value).y);                                                      \
        store(b, (i) + 2 * (s), (value).z);                                                  \
        store(b, (i) + 3 * (s), (value).w);                                                  \
    }

#define LOADS_f32(b, i, s) STRIDED(vec4, LOAD_f32, b, i, s)
#define LOADS_i32(b, i, s) STRIDED(ivec4, LOAD_i32, b, i, s)
#define LOADS_u32(b, i, s) STRIDED(uvec4, LOAD_u32, b, i, s)
#define LOADS_f16(b, i, s) STRIDED(vec4, LOAD_f16, b, i, s)
#define LOADS_bf16(b, i, s) STRIDED(vec4, LOAD_bf16, b, i, s)
#define LOADS_i8(b, i, s) STRIDED(ivec4, LOAD_i8, b, i, s)
#define LOADS_u8(b, i, s) STRIDED(uvec4, LOAD_u8, b, i, s)
#define LOADS_bool(b, i, s) STRIDED(bvec4, LOAD_bool, b, i, s)
#define LOADU_f32(b, i) LOADS_f32(b, i, 1)
#define LOADU_i32(b, i) LOADS_i32(b, i, 1)
#define LOADU_u32(b, i) LOADS_u32(b, i, 1)
#define LOADU_f16(b, i) LOADS_f16(b, i, 1)
#define LOADU_bf16(b, i) LOADS_bf16(b, i, 1)
#define LOADU_i8(b, i) LOADS_i8(b, i, 1)
#define LOADU_u8(b, i) LOADS_u8(b, i, 1)
#define LOADU_bool(b, i) LOADS_bool(b, i, 1)
#define LOADV_f32(b, i) b##_v[(i) >> 2]
#define LOADV_i32(b, i) b##_v[(i) >> 2]
#define LOADV_u32(b, i) b##_v[(i) >> 2]
#define LOADV_f16(b, i) LOADU_f16(b, i)
#define LOADV_bf16(b, i) LOADU_bf16(b, i)
#define LOADV_i8(b, i) LOADU_i8(b, i)
#define LOADV_u8(b, i) LOADU_u8(b, i)
#define LOADV_bool(b, i) LOADU_bool(b, i)
#define LOADI_f32(b, at) INDEXED(vec4, LOAD_f32, b, at)
#define LOADI_i32(b, at) INDEXED(ivec4, LOAD_i32, b, at)
#define LOADI_u32(b, at) INDEXED(uvec4, LOAD_u32, b, at)
#define LOADI_f16(b, at) INDEXED(vec4, LOAD_f16, b, at)
#define LOADI_bf16(b, at) INDEXED(vec4, LOAD_bf16, b, at)
#define LOADI_i8(b, at) INDEXED(ivec4, LOAD_i8, b, at)
#define LOADI_u8(b, at) INDEXED(uvec4, LOAD_u8, b, at)
#define LOADI_bool(b, at) INDEXED(bvec4, LOAD_bool, b, at)

#define STORES_f32(b, i, s, x) STRIDED_STORE(STORE_f32, b, i, s, x)
#define STORES_i32(b, i, s, x) STRIDED_STORE(STORE_i32, b, i, s, x)
#define STORES_u32(b, i, s, x) STRIDED_STORE(STORE_u32, b, i, s, x)
#define STOREU_f32(b, i, x) STORES_f32(b, i, 1, x)
#define STOREU_i32(b, i, x) STORES_i32(b, i, 1, x)
#define STOREU_u32(b, i, x) STORES_u32(b, i, 1, x)
#define STOREV_f32(b, i, x) b##_v[(i) >> 2] = (x)
#define STOREV_i32(b, i, x) b##_v[(i) >> 2] = (x)
#define STOREV_u32(b, i, x) b##_v[(i) >> 2] = (x)
#ifdef NARROW_STORAGE
#define STORES_f16(b, i, s, x) STRIDED_STORE(STORE_f16, b, i, s, x)
#define STORES_bf16(b, i, s, x) STRIDED_STORE(STORE_bf16, b, i, s, x)
#define STORES_i8(b, i, s, x) STRIDED_STORE(STORE_i8, b, i, s, x)
#define STORES_u8(b, i, s, x) STRIDED_STORE(STORE_u8, b, i, s, x)
#define STORES_bool(b, i, s, x) STRIDED_STORE(STORE_bool, b, i, s, x)
#define STOREU_f16(b, i, x) STORES_f16(b, i, 1, x)
#define STOREU_bf16(b, i, x) STORES_bf16(b, i, 1, x)
#define STOREU_i8(b, i, x) STORES_i8(b, i, 1, x)
#define STOREU_u8(b, i, x) STORES_u8(b, i, 1, x)
#define STOREU_bool(b, i, x) STORES_bool(b, i, 1, x)
#define STOREV_f16(b, i, x) STOREU_f16(b, i, x)
#define STOREV_bf16(b, i, x) STOREU_bf16(b, i, x)
#define STOREV_i8(b, i, x) STOREU_i8(b, i, x)
#define STOREV_u8(b, i, x) STOREU_u8(b, i, x)
#define STOREV_bool(b, i, x) STOREU_bool(b, i, x)
#endif
