// Eight neighbouring 16-bit elements at a multiple of eight: one access of 16 bytes, as two vectors of four. Follows
// narrow_vectors.glsl.
#define LOADP_WORDS(convert, words_at, low, high) \
    {                                             \
        const uvec4 words = words_at;             \
        low = convert(words.xy);                  \
        high = convert(words.zw);                 \
    }
#define LOADP_f16(b, i, low, high) LOADP_WORDS(F16_VECTOR, b##_q[(i) >> 3], low, high)
#define LOADP_bf16(b, i, low, high) LOADP_WORDS(BF16_VECTOR, b##_q[(i) >> 3], low, high)
