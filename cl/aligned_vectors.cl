// For kernels of GPUs, where, as in GLSL, LOADV and STOREV access vectors at multiples of VEC elements. vload4
// promises no more than the alignment of an element, and compilers have been seen to split it into single loads.
// Vectors with less alignment are loaded with LOADU.
#if VEC == 4 || VEC == 8
// Lanes of kernels with MANY_VALUES keep several vectors in registers. Where Intel's subgroups have at least 16 lanes,
// the compiler was seen to choose 32, which leaves a lane 64 registers, and to spill; in narrower ones it does not.
#if defined(MANY_VALUES) && defined(NARROWEST_SUBGROUP) && !defined(SUBGROUP_WIDTH)
#if NARROWEST_SUBGROUP >= 16
#undef SUBGROUP
#define SUBGROUP __attribute__((intel_reqd_sub_group_size(NARROWEST_SUBGROUP)))
#endif
#endif
#define ALIGNED(type, b, i) (*(__global const JOIN(type, VEC) *)((b) + (i)))
#define ALIGNED_STORE(type, b, i, x) (*(__global JOIN(type, VEC) *)((b) + (i)) = (x))
FUNCTION vec halves_of_bits(JOIN(ushort, VEC) bits)
{
    return JOIN(vload_half, VEC)(0, (const half *)&bits);
}

FUNCTION JOIN(ushort, VEC) bits_of_halves(vec x)
{
    JOIN(ushort, VEC) bits;
    JOIN(JOIN(vstore_half, VEC), _rte)(x, 0, (half *)&bits);
    return bits;
}

#undef LOADU_f32
#undef LOADU_i32
#undef LOADU_u32
#undef LOADU_f16
#undef LOADU_bf16
#undef STOREU_f32
#undef STOREU_i32
#undef STOREU_u32
#undef STOREU_f16
#undef STOREU_bf16
#define LOADU_f32(b, i) VLOAD(float, i, b)
#define LOADU_i32(b, i) VLOAD(int, i, b)
#define LOADU_u32(b, i) VLOAD(uint, i, b)
#define LOADU_f16(b, i) JOIN(vload_half, VEC)(0, (__global const half *)(b) + (i))
#define LOADU_bf16(b, i) JOIN(as_float, VEC)(JOIN(convert_uint, VEC)(VLOAD(ushort, i, b)) << 16)
#define STOREU_f32(b, i, x) VSTORE(float, x, i, b)
#define STOREU_i32(b, i, x) VSTORE(int, x, i, b)
#define STOREU_u32(b, i, x) VSTORE(uint, x, i, b)
#define STOREU_f16(b, i, x) JOIN(JOIN(vstore_half, VEC), _rte)(x, 0, (__global half *)(b) + (i))
#define STOREU_bf16(b, i, x) VSTORE(ushort, JOIN(convert_ushort, VEC)(bf16_bits_of_vector(x)), i, b)
#undef LOADV_f32
#undef LOADV_i32
#undef LOADV_u32
#undef LOADV_f16
#undef LOADV_bf16
#undef STOREV_f32
#undef STOREV_i32
#undef STOREV_u32
#undef STOREV_f16
#undef STOREV_bf16
#define LOADV_f32(b, i) ALIGNED(float, b, i)
#define LOADV_i32(b, i) ALIGNED(int, b, i)
#define LOADV_u32(b, i) ALIGNED(uint, b, i)
#define LOADV_f16(b, i) halves_of_bits(ALIGNED(ushort, b, i))
#define LOADV_bf16(b, i) JOIN(as_float, VEC)(JOIN(convert_uint, VEC)(ALIGNED(ushort, b, i)) << 16)
#define STOREV_f32(b, i, x) ALIGNED_STORE(float, b, i, x)
#define STOREV_i32(b, i, x) ALIGNED_STORE(int, b, i, x)
#define STOREV_u32(b, i, x) ALIGNED_STORE(uint, b, i, x)
#define STOREV_f16(b, i, x) ALIGNED_STORE(ushort, b, i, bits_of_halves(x))
#define STOREV_bf16(b, i, x) ALIGNED_STORE(ushort, b, i, JOIN(convert_ushort, VEC)(bf16_bits_of_vector(x)))
#endif
