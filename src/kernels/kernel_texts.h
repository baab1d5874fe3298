/* The texts of the kernels, embedded in the library at build time: src/kernels/math.k and the bodies in
   src/kernels/bodies, cl/NAME.cl, shaders/NAME.glsl. A file added to one of these folders becomes a row at the next
   build. */
#ifndef TUFF_KERNELS_KERNEL_TEXTS_H
#define TUFF_KERNELS_KERNEL_TEXTS_H

/* name is the file name without its folder, "map.k" or "prelude.cl"; text is null-terminated. */
struct kernel_text {
    const char *name;
    const char *text;
};

/* tuff__kernel_text_count rows, sorted by folder and name, followed by a row of NULLs. */
extern const struct kernel_text tuff__kernel_texts[];
extern const int tuff__kernel_text_count;

#endif
