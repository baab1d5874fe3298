/* Derives a target from a device's facts, the only place where that is done. Owns nothing. Read next: device.c, which
   keeps the target with the device. */
#include "device/target.h"

#include <limits.h>

#include "base/checked.h"

target tuff__device_target(const tuff_device *device)
{
    enum { MAX_GLSL_ARRAY_VECTORS = 16 }; /* lavapipe loses sums held in arrays of 24 vectors */
    const tuff_device_info *info = tuff__device_info(device);
    const bool glsl = tuff__device_takes_glsl(device), cpu = info->device_class == TUFF_DEVICE_CPU;
    return (target){.info = info,
                    .language = glsl ? KERNEL_GLSL : KERNEL_OPENCL_C,
                    .is_cpu = cpu,
                    .avoids_local_memory = cpu || info->local_is_global,
                    .items_are_lanes = glsl,
                    .binds_ranges = glsl,
                    .addresses_vectors = glsl,
                    .stores_narrow = !glsl || info->proved_narrow_storage,
                    .has_memory_hints = !glsl,
                    .has_fast_fma = !glsl,
                    .has_subgroup_matrices = info->cooperative_matrix != 0 && info->matrix_shape[0] > 0 &&
                                             info->matrix_shape[1] > 0 && info->matrix_shape[2] > 0 &&
                                             (info->matrix_lanes != 0 || info->proved_subgroup_size != 0),
                    /* NVIDIA's driver 580.159 crashes when it compiles attention with a bias and dropout for Vulkan. */
                    .has_dropout_on_units = !(glsl && info->vendor_id == VENDOR_NVIDIA),
                    .compiles_unrolled_fast = !(glsl && cpu),
                    .doubles_registers = !glsl && !cpu && info->vendor_id == VENDOR_INTEL,
                    .limits_registers = !glsl && !cpu && info->vendor_id == VENDOR_NVIDIA,
                    .has_fast_private_arrays = !(glsl && cpu),
                    .groups_keep_running = !glsl && cpu,
                    .max_array_vectors = glsl ? MAX_GLSL_ARRAY_VECTORS : INT_MAX};
}

int64_t tuff__processor_count(const tuff_device_info *info)
{
    /* An Intel core has 16 engines of 8 lanes (Xe-LP, Xe-HPG), or 8 engines of 16 lanes (Xe-HPC, Xe2); the narrowest
       subgroup has the lanes of an engine. Before Xe a core had 8 engines of 8 lanes, which counts as half a core. */
    enum { CORE_LANES = 128, NARROW = 8, WIDE = 16 };
    const bool is_gpu =
        info->device_class == TUFF_DEVICE_GPU_DISCRETE || info->device_class == TUFF_DEVICE_GPU_INTEGRATED;
    if (!is_gpu || info->vendor_id != VENDOR_INTEL)
        return info->compute_units;
    return tuff__divide_up(info->compute_units, CORE_LANES / (info->min_subgroup_size >= WIDE ? WIDE : NARROW));
}
