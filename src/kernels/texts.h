/* The texts of the kernels, embedded in the library at build time: src/kernels/NAME.k, cl/NAME.cl, shaders/NAME.glsl.
   A new file in one of these folders is a new row after the next build. */
#ifndef TUFF_KERNELS_TEXTS_H
#define TUFF_KERNELS_TEXTS_H

/* name is the file's name without its folder, "map.k" or "prelude.cl"; text ends in a zero byte. */
struct kernel_text {
    const char *name;
    const char *text;
};

/* tuff__kernel_text_count rows, sorted by folder and name; one row of NULLs follows. */
extern const struct kernel_text tuff__kernel_texts[];
extern const int tuff__kernel_text_count;

#endif
