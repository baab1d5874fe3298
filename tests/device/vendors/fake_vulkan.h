/* A Vulkan loader without drivers: its devices answer as those of vendors do, and compute nothing. Memory is the
   host's, pipelines are made of whatever is SPIR-V, submissions end at once. */
#ifndef TUFF_TESTS_FAKE_VULKAN_H
#define TUFF_TESTS_FAKE_VULKAN_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

/* Blocks of matrix units: rows, columns, inner; factors f16, sums f32. */
typedef struct fake_matrix {
    uint32_t m, n, k;
} fake_matrix;

typedef struct fake_vulkan_device {
    const char *name, *driver;
    uint32_t vendor, id;
    VkPhysicalDeviceType type;
    uint64_t memory, host_memory; /* bytes of heaps; host_memory 0: there is one heap for both */
    uint64_t largest;             /* of a buffer's range that kernels see; 0: 4 GiB - 1 */
    bool maps_all;                /* the host reaches the device's own memory */
    bool is_incoherent;           /* through caches that have to be told */
    bool has_budget;
    uint32_t width, least_width, most_width; /* of subgroups; the latter two 0: none can be required */
    uint32_t bindings;                       /* storage buffers of a kernel; 0: very many */
    uint32_t multiprocessors;                /* VK_NV_shader_sm_builtins */
    uint32_t engines, arrays, units;         /* VK_AMD_shader_core_properties */
    bool keeps_denormals;                    /* where it is declared */
    bool is_portability;
    const fake_matrix *khr, *nv; /* up to one with m 0 */
} fake_vulkan_device;

/* What the loader was asked for, and how it is to go wrong. */
typedef struct fake_vulkan_state {
    bool hangs;             /* fences are never signalled */
    bool is_lost;           /* fences tell it */
    uint64_t budget, usage; /* of the device's own memory */
    uint64_t room;          /* bytes that vkAllocateMemory still has of it */
    uint32_t width;         /* that the last pipeline requires; 0: none */
    uint32_t type;          /* of the last allocation */
    int destroyed;          /* objects */
    int copies;             /* vkCmdCopyBuffer */
    bool is_fresh;          /* the caches were invalidated, and not flushed since */
    int flushes, stale;     /* all, and those without that */
    int shared, aliased;    /* variables of the last module that share a binding; those declared to be aliased */
    uint32_t modes[8];      /* execution modes of the last shader module, 0 behind them */
} fake_vulkan_state;
extern fake_vulkan_state fake_vulkan;

/* Has the driver load this. The devices must stay. */
void install_fake_vulkan(const fake_vulkan_device *devices, int count);

#endif
