/* Writes the self-test's products in GLSL to files, one for each dtype, transposed or not, and size of group:
   matrix_probes FOLDER. The script of this name compiles them. */
#include <stdint.h>
#include <stdio.h>

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN
#include "device/probes.h"

/* Keeps the compiler from warning about the other probes. */
static const char *const unused[] = {
    barrier_opencl, barrier_glsl, floats_opencl, floats_glsl,      narrow_opencl,          narrow_glsl,
    half_opencl,    half_glsl,    int64_opencl,  int64_glsl,       subgroup_opencl,        subgroup_glsl,
    shuffle_opencl, shuffle_glsl, matrix_nvidia, matrix_warpgroup, warpgroup_instructions, matrix_mfma,
    matrix_wmma,    matrix_intel, matrix_nv_glsl};

/* Returns whether the text was written. */
static int write_probe(const char *folder, const char *name, int bf16, int transposed, int items)
{
    static const unsigned subgroup_shape[] = {16, 16, 16}, group_shape[] = {60, 52, 40};
    const unsigned *shape = items > 0 ? group_shape : subgroup_shape;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s-%d-%d-%d.comp", folder, name, bf16, transposed, items);
    FILE *out = fopen(path, "w");
    if (!out)
        return 0;
    const int written = fprintf(
        out,
        "#version 450\n#define MATRIX_M %uu\n#define MATRIX_N %uu\n#define MATRIX_K %uu\n#define MATRIX_BF16 %d\n"
        "#define MATRIX_TRANSPOSED %d\n#define GROUP_SIZE %du\n%s",
        shape[0], shape[1], shape[2], bf16, transposed, items, items > 0 ? matrix_group_glsl : matrix_khr_glsl);
    return fclose(out) == 0 && written > 0;
}

int main(int count, char **arguments)
{
    if (count != 2 || !unused[0])
        return 2;
    for (int i = 0; i < 12; i++)
        if (!write_probe(arguments[1], i < 4 ? "subgroup" : "group", i % 2, i / 2 % 2, i < 4 ? 0 : i < 8 ? 128 : 256))
            return 1;
    return 0;
}
#else
int main(void)
{
    return 77;
}
#endif
