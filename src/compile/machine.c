/* The figures: see the header. */
#include "compile/machine.h"

#include <string.h>

machine tuff__machine_of(const tuff_device_info *info)
{
    const bool vulkan = strncmp(info->api, "Vulkan", 6) == 0;
    machine result = {.units = info->compute_units > 0 ? info->compute_units : 16};
    if (info->device_class == TUFF_DEVICE_CPU) {
        result.launch = vulkan ? 40e-6 : 5e-6;
        result.bandwidth = 15e9;
        result.cached = 60e9;
        result.cache_size = 1 << 20;
        result.rate = vulkan ? 10e9 : 80e9;
        result.units = info->compute_units > 0 ? info->compute_units : 2;
        result.tile_rows = 12;
        result.tile_columns = 32;
        return result;
    }
    result.launch = 5e-6;
    result.bandwidth = result.cached = 200e9;
    result.rate = 60e9;
    result.tile_rows = result.tile_columns = 64;
    return result;
}
