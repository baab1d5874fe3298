/* kernels.def as tables; each macro picks its rows. */
#include "kernels/tunables.h"

#include <string.h>

#include "tuff/graph.h"

#define FAMILY(code, name) \
    _Static_assert((int)FAMILY_##code == (int)TUFF_FAMILY_##code, "kernels.def and tuff_family differ: " #name);
#include "kernels/kernels.def"

const char *tuff__family_names(void)
{
#define FAMILY(code, name) "|" #name
    static const char names[] =
#include "kernels/kernels.def"
        ;
    return names + 1;
}

/* Values of the table's column `bits`. */
enum { BITS_ANY = false, BITS_SAME = true };

const tunable_info *tuff__tunable_info(tunable parameter)
{
    static const tunable_info all[] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most, bits) \
    {#kernel, #name, {opencl_cpu, vulkan_cpu, gpu}, least, most, BITS_##bits},
#include "kernels/kernels.def"
    };
    return &all[parameter];
}

static const former_name former_names[] = {
    {TUNABLE_fusion_split_k, "fusion", "pieces"},
    {TUNABLE_map_nontemporal_mib, "map", "stream_mebibytes"},
    {TUNABLE_row_register_prefetch_bytes, "row_register", "ahead_bytes"},
    {TUNABLE_attention_register_key_unroll, "attention_register", "keys_at_once"},
    {TUNABLE_attention_local_backward_prefetch, "attention_local", "backward_ahead"},
    {TUNABLE_matmul_gemv_span, "matmul_thin", "span"},
    {TUNABLE_matmul_gemv_step_k, "matmul_thin", "step_k"},
    {TUNABLE_matmul_gemv_local_size, "matmul_thin", "local_size"},
};
enum { FORMER_COUNT = sizeof former_names / sizeof *former_names };

const former_name *tuff__tunable_former_name(tunable parameter)
{
    for (int i = 0; i < FORMER_COUNT; i++)
        if (former_names[i].parameter == parameter)
            return &former_names[i];
    return NULL;
}

const char *tuff__kernel_former_name(const char *kernel)
{
    for (int i = 0; i < FORMER_COUNT; i++)
        if (strcmp(tuff__tunable_info(former_names[i].parameter)->kernel, kernel) == 0)
            return former_names[i].kernel;
    return kernel;
}

bool tuff__has_former_name(const char *source)
{
    for (int i = 0; i < FORMER_COUNT; i++) {
        const former_name *former = &former_names[i];
        const bool is_kernel = strcmp(tuff__tunable_info(former->parameter)->kernel, former->kernel) != 0;
        if (strstr(source, is_kernel ? former->kernel : former->name) != NULL)
            return true;
    }
    return false;
}

const tunable_exception *tuff__tunable_exceptions(int *count)
{
    static const tunable_exception all[] = {
#define FOR_VENDOR(vendor, kernel, name, value) {KERNELS_GPU, vendor, TUNABLE_##kernel##_##name, value},
#define FOR_LANES(lanes, kernel, name, value) {KERNELS_OPENCL_CPU, lanes, TUNABLE_##kernel##_##name, value},
#include "kernels/kernels.def"
    };
    *count = (int)(sizeof all / sizeof *all);
    return all;
}

int tuff__tunable_default(tunable parameter, kernel_device kind, unsigned variant)
{
    int count;
    const tunable_exception *all = tuff__tunable_exceptions(&count);
    for (int i = 0; i < count; i++)
        if (all[i].kind == kind && all[i].variant == variant && all[i].parameter == parameter)
            return all[i].value;
    return tuff__tunable_info(parameter)->values[kind];
}

bool tuff__tunable_is_choice(tunable parameter)
{
    enum { FEW = 6 };
    const tunable_info *info = tuff__tunable_info(parameter);
    return info->min == 0 && info->max < FEW;
}

bool tuff__tunable_is_loop(tunable parameter)
{
    const tunable_info *info = tuff__tunable_info(parameter);
    return strncmp(info->name, "tile_", 5) == 0 || strcmp(info->name, "packed_rows") == 0 ||
           strcmp(info->name, "rows") == 0;
}

bool tuff__tunable_accepts(tunable parameter, int value)
{
    int count;
    const tunable_info *info = tuff__tunable_info(parameter);
    const tunable_exception *all = tuff__tunable_exceptions(&count);
    bool found = (value & (value - 1)) == 0 || tuff__tunable_is_loop(parameter) || tuff__tunable_is_choice(parameter) ||
                 parameter == TUNABLE_matmul_register_vectors || parameter == TUNABLE_column_register_vectors;
    for (int kind = KERNELS_OPENCL_CPU; kind <= KERNELS_GPU; kind++)
        found = found || info->values[kind] == value;
    for (int i = 0; i < count; i++)
        found = found || (all[i].parameter == parameter && all[i].value == value);
    return found && value >= info->min && value <= info->max;
}
