/* Replaces the description of a device by that of a GPU with matrix units. */
#include "gpu_description.h"

void describe_as_gpu(tuff_device *device)
{
    tuff_device_info as = *tuff__device_info(device);
    as.device_class = TUFF_DEVICE_GPU_DISCRETE;
    as.local_is_global = false;
    as.vendor_id = 0;
    as.compute_units = 32;
    as.max_group_size = 1024;
    as.local_memory_size = 65536;
    as.vector_width = 1;
    as.loop_limit = 0;
    as.max_binding = (uint64_t)1 << 30;
    as.subgroup_size = as.proved_subgroup_size = 32;
    as.exchange_form = TUFF_EXCHANGE_NONE, as.exchange_lanes = 0; /* the driver's subgroups may have another width */
    as.subgroup_shuffle = as.narrow_storage = as.proved_narrow_storage = true;
    as.cooperative_matrix = tuff__device_takes_glsl(device) ? TUFF_MATRIX_KHR : TUFF_MATRIX_NVIDIA;
    as.matrix_shape[0] = as.matrix_shape[1] = as.matrix_shape[2] = 16;
    as.matrix_lanes = 32;
    as.matrix_bf16 = true;
    tuff__device_override_info(device, &as);
}
