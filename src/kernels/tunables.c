/* kernels.def as tables. */
#include "kernels/tunables.h"

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
