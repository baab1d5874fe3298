/* kernels.def as tables. */
#include "kernels/tunables.h"

#include <string.h>

const tunable_info *tuff__tunable_info(tunable of)
{
    static const tunable_info all[] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most) \
    {#kernel, #name, {opencl_cpu, vulkan_cpu, gpu}, least, most},
#define FOR_VENDOR(vendor, kernel, name, value)
#define FOR_LANES(lanes, kernel, name, value)
#define KEEPS_BITS(kernel, name)
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
#undef FOR_LANES
#undef KEEPS_BITS
    };
    return &all[of];
}

const tunable_exception *tuff__tunable_exceptions(int *count)
{
    static const tunable_exception all[] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most)
#define FOR_VENDOR(vendor, kernel, name, value) {KERNELS_GPU, vendor, TUNABLE_##kernel##_##name, value},
#define FOR_LANES(lanes, kernel, name, value) {KERNELS_OPENCL_CPU, lanes, TUNABLE_##kernel##_##name, value},
#define KEEPS_BITS(kernel, name)
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
#undef FOR_LANES
#undef KEEPS_BITS
    };
    *count = (int)(sizeof all / sizeof *all);
    return all;
}

int tuff__tunable_usual(tunable of, kernel_device kind, unsigned which)
{
    int count;
    const tunable_exception *all = tuff__tunable_exceptions(&count);
    for (int i = 0; i < count; i++)
        if (all[i].kind == kind && all[i].which == which && all[i].of == of)
            return all[i].value;
    return tuff__tunable_info(of)->values[kind];
}

bool tuff__tunable_is_kind(tunable of)
{
    enum { FEW = 6 };
    const tunable_info *info = tuff__tunable_info(of);
    return info->least == 0 && info->most < FEW;
}

bool tuff__tunable_is_loop(tunable of)
{
    const tunable_info *info = tuff__tunable_info(of);
    return strncmp(info->name, "tile_", 5) == 0 || strcmp(info->name, "packed_rows") == 0 ||
           strcmp(info->name, "rows") == 0;
}

bool tuff__tunable_takes(tunable of, int value)
{
    int count;
    const tunable_info *info = tuff__tunable_info(of);
    const tunable_exception *all = tuff__tunable_exceptions(&count);
    bool found = (value & (value - 1)) == 0 || tuff__tunable_is_loop(of) || tuff__tunable_is_kind(of) ||
                 strcmp(info->name, "vectors") == 0;
    for (int kind = KERNELS_OPENCL_CPU; kind <= KERNELS_GPU; kind++)
        found = found || info->values[kind] == value;
    for (int i = 0; i < count; i++)
        found = found || (all[i].of == of && all[i].value == value);
    return found && value >= info->least && value <= info->most;
}

bool tuff__tunable_keeps_bits(tunable of)
{
    static const bool keeps[TUNABLE_COUNT] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most)
#define FOR_VENDOR(vendor, kernel, name, value)
#define FOR_LANES(lanes, kernel, name, value)
#define KEEPS_BITS(kernel, name) [TUNABLE_##kernel##_##name] = true,
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
#undef FOR_LANES
#undef KEEPS_BITS
    };
    return keeps[of];
}
