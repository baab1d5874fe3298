// The OpenCL C half of the kernel dialect: types, loads and stores of every storage type, and the intrinsics whose
// text differs between the languages. The assembler puts it in front of the maths and the body; shaders/prelude.glsl
// gives the same names the same meaning. VEC (1, 4, 8 or 16) and LOCAL_SIZE are defined before it.
#pragma OPENCL FP_CONTRACT OFF

#define FUNCTION static inline
#define precise
#define boolean int

#define GROUP ((uint)get_group_id(0) + group_base)
#define LANE ((uint)get_local_id(0))
#define PARAM(i) p[param_base + (uint)(i)]
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
// For bodies that ask for subgroups of a proved width, SUBGROUP_WIDTH: the lane's place in its subgroup, that one's in
// the group, and another lane's value.
#ifdef SUBGROUP_WIDTH
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#define SUBGROUP_LANE get_sub_group_local_id()
#define SUBGROUP_INDEX get_sub_group_id()
#define SHUFFLE(x, lane) sub_group_shuffle(x, (uint)(lane))
#define SUBGROUP __attribute__((intel_reqd_sub_group_size(SUBGROUP_WIDTH)))
// Kernels that keep many sums ask for the narrowest lanes there are, each of which then has the most registers.
#elif defined(NARROWEST_SUBGROUP) && defined(MANY_SUMS)
#define SUBGROUP __attribute__((intel_reqd_sub_group_size(NARROWEST_SUBGROUP)))
#else
#define SUBGROUP
#endif
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)

// x·y + z with one rounding or two, whichever is fast. Only for code that is right either way. CPU drivers built on
// Clang keep quiet about FP_FAST_FMAF, but tell what they compile for.
#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define MUL_ADD(x, y, z) fma(x, y, z)
#else
#define MUL_ADD(x, y, z) ((x) * (y) + (z))
#endif
// One step of Horner's rule with a scalar constant, in whatever width REAL has.
#define STEP(sum, x, constant) MUL_ADD(sum, x, MAKE_REAL(constant))
// FMA_1 and FMA_v are exact here; math.k builds them where the language gives no guarantee.
#define HAS_EXACT_FMA

#define SPLAT_1(x) (x)
#define ISPLAT_1(x) (x)
#define USPLAT_1(x) (x)
#define BSPLAT_1(x) (x)
#define BITS_1(x) as_uint(x)
#define FROM_BITS_1(x) as_float(x)
#define I_TO_U_1(x) as_uint(x)
#define U_TO_I_1(x) as_int(x)
#define I_TO_F_1(x) ((float)(x))
#define U_TO_F_1(x) ((float)(x))
#define TRUNCATE_TO_I_1(x) ((int)(x))
#define TRUNCATE_TO_U_1(x) ((uint)(x))
#define ABS_1(x) fabs(x)
#define FLOOR_1(x) floor(x)
#define SQRT_1(x) sqrt(x)
#define RSQRT_1(x) rsqrt(x)
#define FMA_1(x, y, z) fma(x, y, z)
#define LESS_1(x, y) ((x) < (y))
#define EQUAL_1(x, y) ((x) == (y))
#define ILESS_1(x, y) ((x) < (y))
#define IEQUAL_1(x, y) ((x) == (y))
#define ULESS_1(x, y) ((x) < (y))
#define UEQUAL_1(x, y) ((x) == (y))
#define AND_1(x, y) ((x) & (y))
#define OR_1(x, y) ((x) | (y))
#define NOT_1(x) (!(x))
#define ANY_1(x) (x)
#define MULTIPLY_HIGH_1(x, y) mul_hi(x, y)
#define ROTATE_1(x, left) rotate(x, (uint)(left))
#define IABS_1(x) as_int(abs(x))
#define SELECT_1(c, x, y) ((c) ? (x) : (y))
#define ISELECT_1(c, x, y) ((c) ? (x) : (y))
#define USELECT_1(c, x, y) ((c) ? (x) : (y))
#define BSELECT_1(c, x, y) ((c) ? (x) : (y))

// Scalars. f16 keeps NaN payloads as far as the device's conversions do; bf16 is the upper half of an f32.
FUNCTION uint F16_BITS(float x)
{
    ushort bits;
    vstore_half_rte(x, 0, (half *)&bits);
    return bits;
}

FUNCTION uint BF16_BITS(float x)
{
    uint bits = as_uint(x);
    uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint nan = (bits >> 16) | (((bits & 0xffffu) + 0xffffu) >> 16);
    return (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
}

#define PACK16(low, high) ((low) | ((high) << 16))

#define LOAD_f32(b, i) ((b)[i])
#define LOAD_i32(b, i) ((b)[i])
#define LOAD_u32(b, i) ((b)[i])
#define LOAD_f16(b, i) vload_half(i, (__global const half *)(b))
#define LOAD_bf16(b, i) as_float((uint)(b)[i] << 16)
#define LOAD_i8(b, i) ((int)(b)[i])
#define LOAD_u8(b, i) ((uint)(b)[i])
#define LOAD_bool(b, i) ((b)[i] != 0)

#define STORE_f32(b, i, x) ((b)[i] = (x))
#define STORE_i32(b, i, x) ((b)[i] = (x))
#define STORE_u32(b, i, x) ((b)[i] = (x))
#define STORE_f16(b, i, x) vstore_half_rte(x, i, (__global half *)(b))
#define STORE_bf16(b, i, x) ((b)[i] = (ushort)BF16_BITS(x))
#define STORE_i8(b, i, x) ((b)[i] = (char)(x))
#define STORE_u8(b, i, x) ((b)[i] = (uchar)(x))
#define STORE_bool(b, i, x) ((b)[i] = (uchar)((x) != 0))

// Asks for element i before its turn; it may lie behind the end.
#if defined(__has_builtin) && (defined(__x86_64__) || defined(__aarch64__))
#if __has_builtin(__builtin_prefetch)
#define PREFETCH(b, i) __builtin_prefetch((const void *)((size_t)(b) + sizeof *(b) * (size_t)(i)), 0, 2)
#endif
#endif
#ifndef PREFETCH
#define PREFETCH(b, i)
#endif

#if VEC > 1
#define JOIN_EXPANDED(a, b) a##b
#define JOIN(a, b) JOIN_EXPANDED(a, b)
#define vec JOIN(float, VEC)
#define ivec JOIN(int, VEC)
#define uvec JOIN(uint, VEC)
#define bvec JOIN(int, VEC)

#define SPLAT(x) ((vec)(x))
#define ISPLAT(x) ((ivec)(x))
#define USPLAT(x) ((uvec)(x))
#define BSPLAT(x) ((bvec)(-((x) != 0)))
#define SPLAT_v(x) SPLAT(x)
#define ISPLAT_v(x) ISPLAT(x)
#define USPLAT_v(x) USPLAT(x)
#define BSPLAT_v(x) BSPLAT(x)
#define BITS_v(x) JOIN(as_uint, VEC)(x)
#define FROM_BITS_v(x) JOIN(as_float, VEC)(x)
#define I_TO_U_v(x) JOIN(as_uint, VEC)(x)
#define U_TO_I_v(x) JOIN(as_int, VEC)(x)
#define I_TO_F_v(x) JOIN(convert_float, VEC)(x)
#define U_TO_F_v(x) JOIN(convert_float, VEC)(x)
#define TRUNCATE_TO_I_v(x) JOIN(convert_int, VEC)(x)
#define TRUNCATE_TO_U_v(x) JOIN(convert_uint, VEC)(x)
#define ABS_v(x) fabs(x)
#define FLOOR_v(x) floor(x)
#define SQRT_v(x) sqrt(x)
#define RSQRT_v(x) rsqrt(x)
#define FMA_v(x, y, z) fma(x, y, z)
#define LESS_v(x, y) ((x) < (y))
#define EQUAL_v(x, y) ((x) == (y))
#define ILESS_v(x, y) ((x) < (y))
#define IEQUAL_v(x, y) ((x) == (y))
#define ULESS_v(x, y) ((x) < (y))
#define UEQUAL_v(x, y) ((x) == (y))
#define AND_v(x, y) ((x) & (y))
#define OR_v(x, y) ((x) | (y))
#define NOT_v(x) (!(x))
#define ANY_v(x) any(x)
#define MULTIPLY_HIGH_v(x, y) mul_hi(x, y)
#define ROTATE_v(x, left) rotate(x, USPLAT(left))
#define IABS_v(x) JOIN(as_int, VEC)(abs(x))
#define SELECT_v(c, x, y) ((c) ? (x) : (y))
#define ISELECT_v(c, x, y) ((c) ? (x) : (y))
#define USELECT_v(c, x, y) ((c) ? (x) : (y))
#define BSELECT_v(c, x, y) ((c) ? (x) : (y))

// EACH_LANE lists F(f, 0, s0), F(f, 1, s1), ... for every lane; EACH_LANE_STATEMENT without the commas.
// Reductions fold halves, so that their order does not depend on the compiler. LARGER answers NaN where x or y is.
#define LARGER(x, y, as_int_n) (((x) < (y)) || ((as_int_n(y) & 0x7fffffff) > 0x7f800000) ? (y) : (x))
#define LARGER_n(x, y, as_int_n) ((((x) < (y)) | ((as_int_n(y) & 0x7fffffff) > 0x7f800000)) ? (y) : (x))
// The sum of 4 is a product with ones, because LLVM's form of plain additions crashes the interpreter oclgrind.
#define sum_of_4(x) dot(x, (float4)(1.0f))
FUNCTION float largest_of_4(float4 x)
{
    float2 halves = LARGER_n(x.lo, x.hi, as_int2);
    return LARGER(halves.x, halves.y, as_int);
}
#if VEC == 4
#define LANES_V ((int4)(0, 1, 2, 3))
#define EACH_LANE(F, f) \
    F(f, 0, s0), F(f, 1, s1), F(f, 2, s2), F(f, 3, s3)
#define EACH_LANE_STATEMENT(F, f) \
    F(f, 0, s0) F(f, 1, s1) F(f, 2, s2) F(f, 3, s3)
#define HSUM(x) sum_of_4(x)
#define HMAX(x) largest_of_4(x)
#elif VEC == 8
#define LANES_V ((int8)(0, 1, 2, 3, 4, 5, 6, 7))
#define EACH_LANE(F, f) \
    F(f, 0, s0), F(f, 1, s1), F(f, 2, s2), F(f, 3, s3), F(f, 4, s4), F(f, 5, s5), F(f, 6, s6), F(f, 7, s7)
#define EACH_LANE_STATEMENT(F, f) \
    F(f, 0, s0) F(f, 1, s1) F(f, 2, s2) F(f, 3, s3) F(f, 4, s4) F(f, 5, s5) F(f, 6, s6) F(f, 7, s7)
FUNCTION float HSUM(float8 x)
{
    return sum_of_4(x.lo + x.hi);
}
FUNCTION float HMAX(float8 x)
{
    return largest_of_4(LARGER_n(x.lo, x.hi, as_int4));
}
#else
#define LANES_V ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#define EACH_LANE(F, f) \
    F(f, 0, s0), F(f, 1, s1), F(f, 2, s2), F(f, 3, s3), F(f, 4, s4), F(f, 5, s5), F(f, 6, s6), F(f, 7, s7), \
    F(f, 8, s8), F(f, 9, s9), F(f, 10, sa), F(f, 11, sb), F(f, 12, sc), F(f, 13, sd), F(f, 14, se), F(f, 15, sf)
#define EACH_LANE_STATEMENT(F, f) \
    F(f, 0, s0) F(f, 1, s1) F(f, 2, s2) F(f, 3, s3) F(f, 4, s4) F(f, 5, s5) F(f, 6, s6) F(f, 7, s7) F(f, 8, s8) \
    F(f, 9, s9) F(f, 10, sa) F(f, 11, sb) F(f, 12, sc) F(f, 13, sd) F(f, 14, se) F(f, 15, sf)
FUNCTION float HSUM(float16 x)
{
    return sum_of_4((x.s0123 + x.s89ab) + (x.s4567 + x.scdef));
}
FUNCTION float HMAX(float16 x)
{
    float4 low = LARGER_n(x.s0123, x.s89ab, as_int4), high = LARGER_n(x.s4567, x.scdef, as_int4);
    return largest_of_4(LARGER_n(low, high, as_int4));
}
#endif

// CPU drivers were seen to take wide vloads and vstores apart; a vector type that asks for no more than its element's
// alignment stays whole.
#if VEC > 4
typedef JOIN(float, VEC) vector_of_float __attribute__((aligned(4)));
typedef JOIN(int, VEC) vector_of_int __attribute__((aligned(4)));
typedef JOIN(uint, VEC) vector_of_uint __attribute__((aligned(4)));
typedef JOIN(ushort, VEC) vector_of_ushort __attribute__((aligned(2)));
typedef JOIN(char, VEC) vector_of_char __attribute__((aligned(1)));
typedef JOIN(uchar, VEC) vector_of_uchar __attribute__((aligned(1)));
#define VLOAD(type, i, b) (*(__global const vector_of_##type *)((b) + (i)))
#define VSTORE(type, x, i, b) (*(__global vector_of_##type *)((b) + (i)) = (x))
#else
#define VLOAD(type, i, b) JOIN(vload, VEC)(0, (b) + (i))
#define VSTORE(type, x, i, b) JOIN(vstore, VEC)(x, 0, (b) + (i))
#endif
#define LOADV_f32(b, i) VLOAD(float, i, b)
#define LOADV_i32(b, i) VLOAD(int, i, b)
#define LOADV_u32(b, i) VLOAD(uint, i, b)
// CPU drivers built on Clang were seen to convert wide vectors element by element; Clang's own builtins do not.
#ifdef __has_builtin
#if __has_builtin(__builtin_convertvector) && VEC > 4
#define WIDEN_ushort(x) __builtin_convertvector(x, uvec)
#ifdef __F16C__
typedef __fp16 vector_of_half __attribute__((ext_vector_type(VEC), aligned(2)));
#define LOADV_f16(b, i) __builtin_convertvector(*(__global const vector_of_half *)((b) + (i)), vec)
#endif
#endif
#endif
#ifndef WIDEN_ushort
#define WIDEN_ushort(x) JOIN(convert_uint, VEC)(x)
#endif
#ifndef LOADV_f16
#define LOADV_f16(b, i) JOIN(vload_half, VEC)(0, (__global const half *)(b) + (i))
#endif
#define LOADV_bf16(b, i) JOIN(as_float, VEC)(WIDEN_ushort(VLOAD(ushort, i, b)) << 16)
#define LOADV_i8(b, i) JOIN(convert_int, VEC)(VLOAD(char, i, b))
#define LOADV_u8(b, i) JOIN(convert_uint, VEC)(VLOAD(uchar, i, b))
#define LOADV_bool(b, i) (JOIN(convert_int, VEC)(VLOAD(uchar, i, b)) != 0)

FUNCTION uvec bf16_bits_of_vector(vec x)
{
    uvec bits = BITS_v(x);
    uvec rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uvec nan = (bits >> 16) | (((bits & 0xffffu) + 0xffffu) >> 16);
    return (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
}

#define STOREV_f32(b, i, x) VSTORE(float, x, i, b)
#define STOREV_i32(b, i, x) VSTORE(int, x, i, b)
#define STOREV_u32(b, i, x) VSTORE(uint, x, i, b)
#define STOREV_f16(b, i, x) JOIN(JOIN(vstore_half, VEC), _rte)(x, 0, (__global half *)(b) + (i))
#define STOREV_bf16(b, i, x) VSTORE(ushort, JOIN(convert_ushort, VEC)(bf16_bits_of_vector(x)), i, b)
#define STOREV_i8(b, i, x) VSTORE(char, JOIN(convert_char, VEC)(x), i, b)
#define STOREV_u8(b, i, x) VSTORE(uchar, JOIN(convert_uchar, VEC)(x), i, b)
#define STOREV_bool(b, i, x) VSTORE(uchar, JOIN(convert_uchar, VEC)((x) & 1), i, b)

// None of the above asks for more than its element's alignment.
#define LOADU_f32(b, i) LOADV_f32(b, i)
#define LOADU_i32(b, i) LOADV_i32(b, i)
#define LOADU_u32(b, i) LOADV_u32(b, i)
#define LOADU_f16(b, i) LOADV_f16(b, i)
#define LOADU_bf16(b, i) LOADV_bf16(b, i)
#define LOADU_i8(b, i) LOADV_i8(b, i)
#define LOADU_u8(b, i) LOADV_u8(b, i)
#define LOADU_bool(b, i) LOADV_bool(b, i)
#define STOREU_f32(b, i, x) STOREV_f32(b, i, x)
#define STOREU_i32(b, i, x) STOREV_i32(b, i, x)
#define STOREU_u32(b, i, x) STOREV_u32(b, i, x)
#define STOREU_f16(b, i, x) STOREV_f16(b, i, x)
#define STOREU_bf16(b, i, x) STOREV_bf16(b, i, x)
#define STOREU_i8(b, i, x) STOREV_i8(b, i, x)
#define STOREU_u8(b, i, x) STOREV_u8(b, i, x)
#define STOREU_bool(b, i, x) STOREV_bool(b, i, x)

// Stores that pass the caches by, for results that are larger than these. Only after STREAM_END is what an item
// streamed sure to be seen by whoever hears that it ended. i is a multiple of VEC.
#ifdef STREAMS
#if VEC > 4 && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STREAM(type, b, base, i, x)                                                       \
    if (((size_t)((b) + (base)) & (sizeof(vec) - 1)) == 0)                                \
        __builtin_nontemporal_store(x, (__global JOIN(type, VEC) *)((b) + ((base) + i))); \
    else                                                                                  \
        VSTORE(type, x, (base) + i, b)
#endif
#if __has_builtin(__builtin_ia32_sfence)
#define STREAM_END() __builtin_ia32_sfence()
#endif
#endif
#ifndef STREAM
#define STREAM(type, b, base, i, x) VSTORE(type, x, (base) + i, b)
#endif
#define STREAM_f32(b, base, i, x) STREAM(float, b, base, i, x)
#define STREAM_i32(b, base, i, x) STREAM(int, b, base, i, x)
#define STREAM_u32(b, base, i, x) STREAM(uint, b, base, i, x)
#endif

// Strided and indexed access, functions of each storage type. In the vector forms of bool a true lane is -1.
#define STRIDED(load, lane, component) load(b, i + (lane) * s)
#define INDEXED(load, lane, component) load(b, at.component)
#define STRIDED_STORE(store, lane, component) store(b, i + (lane) * s, x.component);
#define LOAD_mask(b, i) (-LOAD_bool(b, i))
#define STRIDED_ACCESS(type, memory, vector, load, store)                        \
    FUNCTION vector LOADS_##type(__global const memory *b, int i, int s)         \
    {                                                                            \
        return (vector)(EACH_LANE(STRIDED, load));                               \
    }                                                                            \
    FUNCTION void STORES_##type(__global memory *b, int i, int s, vector x)      \
    {                                                                            \
        EACH_LANE_STATEMENT(STRIDED_STORE, store)                                \
    }                                                                            \
    FUNCTION vector LOADI_##type(__global const memory *b, ivec at)              \
    {                                                                            \
        return (vector)(EACH_LANE(INDEXED, load));                               \
    }
STRIDED_ACCESS(f32, float, vec, LOAD_f32, STORE_f32)
STRIDED_ACCESS(i32, int, ivec, LOAD_i32, STORE_i32)
STRIDED_ACCESS(u32, uint, uvec, LOAD_u32, STORE_u32)
STRIDED_ACCESS(f16, ushort, vec, LOAD_f16, STORE_f16)
STRIDED_ACCESS(bf16, ushort, vec, LOAD_bf16, STORE_bf16)
STRIDED_ACCESS(i8, char, ivec, LOAD_i8, STORE_i8)
STRIDED_ACCESS(u8, uchar, uvec, LOAD_u8, STORE_u8)
STRIDED_ACCESS(bool, uchar, bvec, LOAD_mask, STORE_bool)
#endif
#ifndef STREAM_END
#define STREAM_END()
#endif
