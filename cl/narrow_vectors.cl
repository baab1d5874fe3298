// OpenCL C requires of vstore_half's address no more than the alignment of an element. PoCL 3.1 stores eight and more
// elements with instructions that trap if the whole vector is not aligned, such as in a part of a concat. So they are
// stored by Clang's own conversion, which rounds to nearest even.
#ifdef __has_builtin
#if __has_builtin(__builtin_convertvector) && VEC > 4
#ifdef __F16C__
#undef STOREV_f16
#define STOREV_f16(b, i, x) (*(__global vector_of_half *)((b) + (i)) = __builtin_convertvector(x, vector_of_half))
#endif
#endif
#endif
