/* kernels.def as a table. */
#include "kernels/tunables.h"

const tunable_info *tuff__tunable_info(tunable of)
{
    static const tunable_info all[] = {
#define TUNABLE(kernel, name, opencl_cpu, vulkan_cpu, gpu, least, most) \
    {#kernel, #name, {opencl_cpu, vulkan_cpu, gpu}, least, most},
#include "kernels/kernels.def"
#undef TUNABLE
    };
    return &all[of];
}
