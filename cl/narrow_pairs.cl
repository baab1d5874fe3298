// Eight neighbouring 16-bit elements at a multiple of eight: one access of 16 bytes, as two vectors of four.
FUNCTION float4 F16_VECTOR(ushort4 bits)
{
    return vload_half4(0, (const half *)&bits);
}

FUNCTION float4 BF16_VECTOR(ushort4 bits)
{
    return as_float4(convert_uint4(bits) << 16);
}

#define LOADP_BITS(convert, b, i, low, high)                              \
    {                                                                     \
        const ushort8 bits = *(__global const ushort8 *)((b) + (i));      \
        low = convert(bits.lo);                                           \
        high = convert(bits.hi);                                          \
    }
#define LOADP_f16(b, i, low, high) LOADP_BITS(F16_VECTOR, b, i, low, high)
#define LOADP_bf16(b, i, low, high) LOADP_BITS(BF16_VECTOR, b, i, low, high)
