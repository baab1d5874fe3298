/* What a driver reports about a pipeline that it compiled: how much of a work-item's registers it spills to memory.
   Drivers choose their own statistics and names for them (VK_KHR_pipeline_executable_properties leaves both to
   them). */
#include <string.h>

#include "base/alloc.h"
#include "device/vulkan/state.h"

/* How a number is converted to bytes per work-item. */
typedef enum statistic_unit {
    BYTES_OF_ITEM,
    BYTES_OF_SUBGROUP,
    BYTES_IN_HALVES, /* per item: the sum of both 32-bit halves of the number */
    REGISTERS        /* instructions that move one 32-bit register each, or about that */
} statistic_unit;

/* The first entry that a pipeline's statistics contain counts: sizes before instruction counts. All of these include
   arrays that do not fit into registers, which cost the same; none includes AMD's scalar registers that are spilled to
   vector registers. Mesa's names are those of its shader_stats.xml files (src/amd, src/intel, src/broadcom, src/asahi,
   src/freedreno, src/panfrost) and, before these existed, of the drivers' GetPipelineExecutableStatisticsKHR; a
   "thread" of Intel and Broadcom is a subgroup. RADV's unit was checked: with an array of 400 floats it reports 102,400
   for subgroups of 64. */
static const struct {
    const char *name;
    statistic_unit unit;
} spills[] = {
    {"Scratch size", BYTES_OF_SUBGROUP},                         /* RADV: "private memory in bytes per subgroup" */
    {"scratchMemUsageInBytes", BYTES_OF_ITEM},                   /* AMDVLK: the private segment of its LLVM */
    {"Scratch Memory Size", BYTES_OF_SUBGROUP},                  /* ANV, HASVK: per thread, from 1 KiB on */
    {"Local Memory Size", BYTES_IN_HALVES},                      /* NVIDIA: the ends of a thread's local window */
    {"SLM size", BYTES_OF_ITEM},                                 /* NVK: "shader local (scratch) memory" */
    {"SLM Size", BYTES_OF_ITEM},                                 /* NVK of Mesa 23.3 */
    {"Spill Size", BYTES_OF_SUBGROUP},                           /* V3DV: size of a thread's spill buffer */
    {"Scratch", BYTES_OF_ITEM},                                  /* Honeykrisp: "per thread", which is an item */
    {"Scratch memory usage per shader instance", BYTES_OF_ITEM}, /* Qualcomm, which does not document the unit */
    {"STP Count", REGISTERS},                                    /* Turnip: stores to private memory */
    {"Spills", REGISTERS},                                       /* PanVK */
};
enum { SPILL_STATISTIC_COUNT = sizeof spills / sizeof *spills };

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

static bool is_integer(VkPipelineExecutableStatisticFormatKHR format)
{
    return format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR ||
           format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR;
}

/* Returns 0 if the statistics have none of the names. */
static uint64_t find_spill_bytes(const VkPipelineExecutableStatisticKHR *statistics, uint32_t count,
                                 uint32_t subgroup_size)
{
    for (int i = 0; i < SPILL_STATISTIC_COUNT; i++)
        for (uint32_t k = 0; k < count; k++)
            if (is_integer(statistics[k].format) && strcmp(statistics[k].name, spills[i].name) == 0)
                return bytes_of(spills[i].unit, statistics[k].value.u64, subgroup_size);
    return 0;
}

static tuff_status query_executable(driver_device *device, const driver_program *program, uint32_t index,
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
        *out = find_spill_bytes(statistics, count, subgroup_size);
    tuff__free(statistics);
    return status;
}

void tuff__vulkan_collect_spill_statistics(driver_device *device)
{
    device->collects_statistics = device->physical.executables.pipelineExecutableInfo;
}

/* A pipeline may consist of several executables: the one that spills most counts. */
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
        status = query_executable(device, program, i, executables[i].subgroupSize, &bytes);
        *out = bytes > *out ? bytes : *out;
    }
    tuff__free(executables);
    return status;
}
