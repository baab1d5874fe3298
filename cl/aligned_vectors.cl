// For kernels of GPUs, where, as in GLSL, LOADV and STOREV access vectors at multiples of four elements. vload4
// promises no more than the alignment of an element, and compilers have been seen to split it into single loads.
// Vectors with less alignment are loaded with LOADU.
#if VEC == 4
#define ALIGNED(type, b, i) (*(__global const type##4 *)((b) + (i)))
#define ALIGNED_STORE(type, b, i, x) (*(__global type##4 *)((b) + (i)) = (x))
FUNCTION float4 halves_of_bits(ushort4 bits)
{
    return vload_half4(0, (const half *)&bits);
}

FUNCTION ushort4 bits_of_halves(float4 x)
{
    ushort4 bits;
    vstore_half4_rte(x, 0, (half *)&bits);
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
#define LOADU_f16(b, i) vload_half4(0, (__global const half *)(b) + (i))
#define LOADU_bf16(b, i) as_float4(convert_uint4(VLOAD(ushort, i, b)) << 16)
#define STOREU_f32(b, i, x) VSTORE(float, x, i, b)
#define STOREU_i32(b, i, x) VSTORE(int, x, i, b)
#define STOREU_u32(b, i, x) VSTORE(uint, x, i, b)
#define STOREU_f16(b, i, x) vstore_half4_rte(x, 0, (__global half *)(b) + (i))
#define STOREU_bf16(b, i, x) VSTORE(ushort, convert_ushort4(bf16_bits_of_vector(x)), i, b)
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
#define LOADV_bf16(b, i) as_float4(convert_uint4(ALIGNED(ushort, b, i)) << 16)
#define STOREV_f32(b, i, x) ALIGNED_STORE(float, b, i, x)
#define STOREV_i32(b, i, x) ALIGNED_STORE(int, b, i, x)
#define STOREV_u32(b, i, x) ALIGNED_STORE(uint, b, i, x)
#define STOREV_f16(b, i, x) ALIGNED_STORE(ushort, b, i, bits_of_halves(x))
#define STOREV_bf16(b, i, x) ALIGNED_STORE(ushort, b, i, convert_ushort4(bf16_bits_of_vector(x)))
#endif
