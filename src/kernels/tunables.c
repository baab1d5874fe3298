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

/* The column bits. */
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

int tuff__tunable_usual(tunable parameter, kernel_device kind, unsigned which)
{
    int count;
    const tunable_exception *all = tuff__tunable_exceptions(&count);
    for (int i = 0; i < count; i++)
        if (all[i].kind == kind && all[i].which == which && all[i].of == parameter)
            return all[i].value;
    return tuff__tunable_info(parameter)->values[kind];
}

bool tuff__tunable_is_kind(tunable parameter)
{
    enum { FEW = 6 };
    const tunable_info *info = tuff__tunable_info(parameter);
    return info->least == 0 && info->most < FEW;
}

bool tuff__tunable_is_loop(tunable parameter)
{
    const tunable_info *info = tuff__tunable_info(parameter);
    return strncmp(info->name, "tile_", 5) == 0 || strcmp(info->name, "packed_rows") == 0 ||
           strcmp(info->name, "rows") == 0;
}

bool tuff__tunable_takes(tunable parameter, int value)
{
    int count;
    const tunable_info *info = tuff__tunable_info(parameter);
    const tunable_exception *all = tuff__tunable_exceptions(&count);
    bool found = (value & (value - 1)) == 0 || tuff__tunable_is_loop(parameter) || tuff__tunable_is_kind(parameter) ||
                 strcmp(info->name, "vectors") == 0;
    for (int kind = KERNELS_OPENCL_CPU; kind <= KERNELS_GPU; kind++)
        found = found || info->values[kind] == value;
    for (int i = 0; i < count; i++)
        found = found || (all[i].of == parameter && all[i].value == value);
    return found && value >= info->least && value <= info->most;
}

bool tuff__tunable_keeps_bits(tunable parameter)
{
    return tuff__tunable_info(parameter)->keeps_bits;
}
