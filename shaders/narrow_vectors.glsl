// Behind prelude.glsl in kernels that have vectors of 16-bit elements: four of them are two words of the alias b_v,
// read and written at once where vectors begin at multiples of four elements. Rounding is that of single elements.
vec4 F16_VECTOR(uvec2 words)
{
    return vec4(F16_FROM_BITS(words.x & 0xffffu), F16_FROM_BITS(words.x >> 16), F16_FROM_BITS(words.y & 0xffffu),
                F16_FROM_BITS(words.y >> 16));
}

vec4 BF16_VECTOR(uvec2 words)
{
    return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}

uvec2 F16_WORDS(vec4 x)
{
    return uvec2(PACK16(F16_BITS(x.x), F16_BITS(x.y)), PACK16(F16_BITS(x.z), F16_BITS(x.w)));
}

uvec2 BF16_WORDS(vec4 x)
{
    return uvec2(PACK16(BF16_BITS(x.x), BF16_BITS(x.y)), PACK16(BF16_BITS(x.z), BF16_BITS(x.w)));
}

#undef LOADV_f16
#undef LOADV_bf16
#define LOADV_f16(b, i) F16_VECTOR(b##_v[(i) >> 2])
#define LOADV_bf16(b, i) BF16_VECTOR(b##_v[(i) >> 2])
#ifdef NARROW_STORAGE
#undef STOREV_f16
#undef STOREV_bf16
#define STOREV_f16(b, i, x) b##_v[(i) >> 2] = F16_WORDS(x)
#define STOREV_bf16(b, i, x) b##_v[(i) >> 2] = BF16_WORDS(x)
#endif
