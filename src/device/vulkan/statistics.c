/* What a driver tells of a pipeline that it compiled: how much of a work-item's registers it keeps in memory. Drivers
   give their statistics names of their own (VK_KHR_pipeline_executable_properties leaves both to them). */
#include <string.h>

#include "base/alloc.h"
#include "device/vulkan/state.h"

/* How a number becomes bytes of a work-item. */
typedef enum statistic_unit {
    BYTES_OF_ITEM,
    BYTES_OF_SUBGROUP,
    BYTES_IN_HALVES, /* of an item: the sum of both 32-bit halves of the number */
    REGISTERS        /* instructions that move one register of 32 bits, or about so much */
} statistic_unit;

/* Of a pipeline's statistics the first that is listed here counts: sizes before numbers of instructions. All of these
   count arrays that cannot lie in registers as well, which cost the same; none counts AMD's scalar registers, which are
   spilled to vector registers. Mesa's names are those of its shader_stats.xml files (src/amd, src/intel, src/broadcom,
   src/asahi, src/freedreno, src/panfrost) and of the drivers' GetPipelineExecutableStatisticsKHR before there were
   such; a "thread" of Intel's and Broadcom's is a subgroup. RADV's was looked at: an array of 400 floats makes 102,400
   of it in subgroups of 64. */
static const struct {
    const char *name;
    statistic_unit unit;
} spills[] = {
    {"Scratch size", BYTES_OF_SUBGROUP},                         /* RADV: "private memory in bytes per subgroup" */
    {"scratchMemUsageInBytes", BYTES_OF_ITEM},                   /* AMDVLK: the private segment of its LLVM */
    {"Scratch Memory Size", BYTES_OF_SUBGROUP},                  /* ANV, HASVK: of a thread, from 1 KiB on */
    {"Local Memory Size", BYTES_IN_HALVES},                      /* NVIDIA: the ends of a thread's local window */
    {"SLM size", BYTES_OF_ITEM},                                 /* NVK: "shader local (scratch) memory" */
    {"SLM Size", BYTES_OF_ITEM},                                 /* NVK of Mesa 23.3 */
    {"Spill Size", BYTES_OF_SUBGROUP},                           /* V3DV: of the spill buffer of a thread */
    {"Scratch", BYTES_OF_ITEM},                                  /* Honeykrisp: "per thread", which is an item */
    {"Scratch memory usage per shader instance", BYTES_OF_ITEM}, /* Qualcomm, which does not tell the unit */
    {"STP Count", REGISTERS},                                    /* Turnip: stores to private memory */
    {"Spills", REGISTERS},                                       /* PanVK */
};
enum { SPILLS = sizeof spills / sizeof *spills };

static uint64_t bytes_of(statistic_unit unit, uint64_t number, uint32_t subgroup_size)
{
    switch (unit) {
    case BYTES_OF_SUBGROUP:
        return number / (subgroup_size ? subgroup_size : 1);
    case BYTES_IN_HALVES:
        return (number >> 32) + (number & UINT32_MAX);
    case REGISTERS:
        return 4 * number;
    default:
        return number;
    }
}

static bool is_whole(VkPipelineExecutableStatisticFormatKHR format)
{
    return format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR ||
           format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR;
}

/* 0 where none of the names is there. */
static uint64_t bytes_among(const VkPipelineExecutableStatisticKHR *statistics, uint32_t count, uint32_t subgroup_size)
{
    for (int i = 0; i < SPILLS; i++)
        for (uint32_t k = 0; k < count; k++)
            if (is_whole(statistics[k].format) && strcmp(statistics[k].name, spills[i].name) == 0)
                return bytes_of(spills[i].unit, statistics[k].value.u64, subgroup_size);
    return 0;
}

static tuff_status count_executable(driver_device *device, const driver_program *program, uint32_t index,
                                    uint32_t subgroup_size, uint64_t *out)
{
    const VkPipelineExecutableInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                              .pipeline = program->pipeline,
                                              .executableIndex = index};
    uint32_t count = 0;
    TRY(VULKAN(device->vk, executable_statistics, device->handle, &info, &count, NULL));
    VkPipelineExecutableStatisticKHR *statistics = tuff__calloc(count + 1u, sizeof *statistics);
    if (!statistics)
        return TUFF_E_OOM_HOST;
    for (uint32_t i = 0; i < count; i++)
        statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    const tuff_status status = VULKAN(device->vk, executable_statistics, device->handle, &info, &count, statistics);
    if (status == TUFF_OK)
        *out = bytes_among(statistics, count, subgroup_size);
    tuff__free(statistics);
    return status;
}

void tuff__vulkan_tell_spills(driver_device *device)
{
    device->tells_spills = device->physical.executables.pipelineExecutableInfo;
}

/* A pipeline may consist of several executables: the most of them counts. */
tuff_status tuff__vulkan_spilled_bytes(driver_device *device, driver_program *program, uint64_t *out)
{
    *out = 0;
    if (!program->has_statistics)
        return TUFF_OK;
    const VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = program->pipeline};
    uint32_t count = 0;
    TRY(VULKAN(device->vk, executable_properties, device->handle, &info, &count, NULL));
    VkPipelineExecutablePropertiesKHR *executables = tuff__calloc(count + 1u, sizeof *executables);
    if (!executables)
        return TUFF_E_OOM_HOST;
    for (uint32_t i = 0; i < count; i++)
        executables[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    tuff_status status = VULKAN(device->vk, executable_properties, device->handle, &info, &count, executables);
    for (uint32_t i = 0; i < count && status == TUFF_OK; i++) {
        uint64_t bytes = 0;
        status = count_executable(device, program, i, executables[i].subgroupSize, &bytes);
        *out = bytes > *out ? bytes : *out;
    }
    tuff__free(executables);
    return status;
}
