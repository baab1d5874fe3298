// Follows prelude.glsl in kernels with vectors of 16-bit elements. Four of them are two words of the buffer's alias,
// accessed at once if vectors begin at multiples of four elements. Rounding is that of single elements.

// The prelude's F16_FROM_BITS, bit for bit, without its branch: glslang makes a branch of a choice unless both sides
// are names or constants, and the optimiser leaves it. SwiftShader searches a loop path by path, so each branch in it
// doubles the time and the memory of compiling it: 24 take seconds, the 32 of an unrolled matmul half an hour and
// gigabytes. This is not in the prelude because changing that would make the tuner's records of all kernels stale.
float F16_SELECTED(uint half_bits)
{
    uint magnitude = (half_bits & 0x7fffu) << 13;
    precise float small = float(half_bits & 0x3ffu) * 5.9604644775390625e-8;
    uint small_bits = floatBitsToUint(small);
    uint bits = magnitude + (magnitude >= 0x0f800000u ? 0x70000000u : 0x38000000u);
    bits = magnitude < 0x00800000u ? small_bits : bits;
    return uintBitsToFloat(bits | ((half_bits & 0x8000u) << 16));
}
#define F16_FROM_BITS(half_bits) F16_SELECTED(half_bits)

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
