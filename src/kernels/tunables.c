/* kernels.def as tables. */
#include "kernels/tunables.h"

#include <stddef.h>

const tunable_info *tuff__tunable_info(tunable of)
{
    static const tunable_info all[] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most) \
    {#kernel, #name, {opencl_cpu, vulkan_cpu, gpu}, least, most},
#define FOR_VENDOR(vendor, kernel, name, value)
#define KEEPS_BITS(kernel, name)
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
#undef KEEPS_BITS
    };
    return &all[of];
}

int tuff__tunable_of_vendor(tunable of, unsigned vendor)
{
    static const struct {
        unsigned vendor;
        tunable of;
        int value;
    } exceptions[] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most)
#define FOR_VENDOR(vendor, kernel, name, value) {vendor, TUNABLE_##kernel##_##name, value},
#define KEEPS_BITS(kernel, name)
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
#undef KEEPS_BITS
    };
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (exceptions[i].vendor == vendor && exceptions[i].of == of)
            return exceptions[i].value;
    return tuff__tunable_info(of)->values[KERNELS_GPU];
}

bool tuff__tunable_keeps_bits(tunable of)
{
    static const bool keeps[TUNABLE_COUNT] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most)
#define FOR_VENDOR(vendor, kernel, name, value)
#define KEEPS_BITS(kernel, name) [TUNABLE_##kernel##_##name] = true,
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
#undef KEEPS_BITS
    };
    return keeps[of];
}
