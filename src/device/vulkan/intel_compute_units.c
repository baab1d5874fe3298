/* The compute units of GPUs whose Vulkan drivers do not report them. Intel's are found by the marketing name, in vector
   engines (execution units), as Intel's OpenCL driver counts them, so that the cost model does not confuse integrated
   and discrete GPUs. All others get the same number. */
#include <string.h>

#include "device/vulkan/state.h"

enum { INTEGRATED_UNITS = 96, DISCRETE_UNITS = 256, OTHER_UNITS = 16 };

/* Parts of names; the first one that a name contains counts. From Intel's product pages (ark.intel.com). */
static const struct {
    const char *part;
    uint32_t units;
} intel[] = {
    {"A770", 512},
    {"A750", 448},
    {"A580", 384},
    {"A550M", 256},
    {"A730M", 384},
    {"A570M", 256},
    {"A530M", 192},
    {"A380", 128},
    {"A370M", 128},
    {"A350M", 96},
    {"A310", 96},
    {"A60", 256},
    {"A40", 128},
    {"A50", 128},
    {"A30M", 128},
    {"B580", 160},
    {"B570", 144},
    {"B50", 128},
    {"B60", 160},
    {"140V", 64},
    {"130V", 56},
    {"140T", 128},
    {"130T", 112},
    {"Max 1550", 1024},
    {"Max 1100", 448},
    {"Flex 170", 512},
    {"Flex 140", 128},
    {"Iris(R) Xe MAX", 96},
    {"Iris(R) Xe", 96},
    {"UHD Graphics 770", 32},
    {"UHD Graphics 730", 24},
    {"UHD Graphics 750", 32},
    {"HD Graphics 6", 24},
    {"HD Graphics 5", 24},
    {"Iris(R) Plus", 48},
    {"UHD", 32},
};

void tuff__vulkan_estimate_units(tuff_device_info *info)
{
    if (info->device_class == TUFF_DEVICE_CPU)
        return;
    const bool is_card = info->device_class == TUFF_DEVICE_GPU_DISCRETE;
    info->units_estimated = true;
    info->compute_units = info->vendor_id != VENDOR_INTEL ? OTHER_UNITS : is_card ? DISCRETE_UNITS : INTEGRATED_UNITS;
    for (size_t i = 0; i < sizeof intel / sizeof intel[0] && info->vendor_id == VENDOR_INTEL; i++)
        if (strstr(info->name, intel[i].part)) {
            info->compute_units = intel[i].units;
            return;
        }
}
