/* kernels.def as tables. */
#include "kernels/tunables.h"

#include <stddef.h>

const tunable_info *tuff__tunable_info(tunable of)
{
    static const tunable_info all[] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most) \
    {#kernel, #name, {opencl_cpu, vulkan_cpu, gpu}, least, most},
#define FOR_VENDOR(vendor, kernel, name, value)
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
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
#include "kernels/kernels.def"
#undef TUNABLE
#undef FOR_VENDOR
    };
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (exceptions[i].vendor == vendor && exceptions[i].of == of)
            return exceptions[i].value;
    return tuff__tunable_info(of)->values[KERNELS_GPU];
}
