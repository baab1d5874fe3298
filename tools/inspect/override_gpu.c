/* Pretends that a device is another GPU: see the header. */
#include "tools/inspect/override_gpu.h"

#include <string.h>

#include "device/device.h"

typedef struct vendor_facts {
    uint32_t id, width;
    uint32_t units[2]; /* form of matrix units in OpenCL C and in GLSL; each vendor has both */
    uint32_t opencl_shape[3], lanes, glsl_shape[3];
} vendor_facts;

static const vendor_facts vendors[] = {
    {0},
    {0x8086, 16, {TUFF_MATRIX_INTEL, TUFF_MATRIX_KHR}, {8, 8, 16}, 8, {8, 8, 16}},
    {0x1002, 32, {TUFF_MATRIX_WMMA, TUFF_MATRIX_KHR}, {16, 16, 16}, 32, {16, 16, 16}},
    {0x10de, 32, {TUFF_MATRIX_NVIDIA, TUFF_MATRIX_NV}, {16, 16, 16}, 32, {16, 16, 16}},
    {0x8086, 16, {TUFF_MATRIX_INTEL, TUFF_MATRIX_KHR}, {8, 16, 16}, 16, {8, 16, 16}},
    {0x1002, 64, {TUFF_MATRIX_MFMA, TUFF_MATRIX_KHR}, {32, 32, 16}, 64, {16, 16, 16}},
    {0x10de, 32, {TUFF_MATRIX_NVIDIA, TUFF_MATRIX_KHR}, {16, 16, 16}, 32, {16, 16, 16}},
};

void override_gpu(tuff_device *device, int vendor)
{
    enum { NVIDIA = 0x10de, INTEL = 0x8086, HOPPER = 6 }; /* the latter is a choice of --as */
    enum { PROCESSORS = 32, CORE_LANES = 128 };           /* Intel counts engines, of which each has some lanes */
    enum { GROUP_SIZES = 128 + 256 };
    if (vendor == 0 || tuff__device_is_reference(device))
        return;
    const vendor_facts *facts = &vendors[vendor];
    const bool glsl = tuff__device_takes_glsl(device);
    tuff_device_info fake = *tuff__device_info(device);
    fake.device_class = TUFF_DEVICE_GPU_DISCRETE;
    fake.vendor_id = facts->id;
    fake.compute_units = PROCESSORS;
    if (facts->id == INTEL) {
        fake.min_subgroup_size = facts->lanes;
        fake.max_subgroup_size = 32;
        fake.compute_units *= CORE_LANES / facts->lanes;
    }
    fake.local_is_global = false;
    fake.max_group_size = 256;
    fake.local_memory_size = facts->id == NVIDIA ? 49152 : 65536;
    fake.proved_subgroup_size = fake.subgroup_size = facts->width;
    fake.subgroup_shuffle = true;
    fake.exchange_form = glsl || facts->id == INTEL ? TUFF_EXCHANGE_KHR
                         : facts->id == NVIDIA      ? TUFF_EXCHANGE_NVIDIA
                                                    : TUFF_EXCHANGE_AMD;
    fake.exchange_lanes = facts->width;
    fake.cooperative_matrix = facts->units[glsl];
    memcpy(fake.matrix_shape, glsl ? facts->glsl_shape : facts->opencl_shape, sizeof fake.matrix_shape);
    fake.matrix_lanes = glsl ? 0 : facts->lanes;
    fake.matrix_bf16 = facts->units[glsl] != TUFF_MATRIX_NV;
    fake.matrix_warpgroup = vendor == HOPPER && !glsl;
    fake.matrix_group_sizes = fake.matrix_group_sizes_bf16 = vendor == HOPPER && glsl ? GROUP_SIZES : 0;
    tuff__device_override_info(device, &fake);
}
