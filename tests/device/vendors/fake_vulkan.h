/* A Vulkan loader without drivers: its devices report the same as those of vendors, and compute nothing. Memory is the
   host's, any SPIR-V makes a pipeline, submissions end at once. */
#ifndef TUFF_TESTS_FAKE_VULKAN_H
#define TUFF_TESTS_FAKE_VULKAN_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

/* Shapes of matrix units: rows, columns, inner; the type of factors, as Vulkan numbers it (0: f16); sums f32. */
typedef struct fake_matrix {
    uint32_t m, n, k, type;
} fake_matrix;

/* An entry of VK_NV_cooperative_matrix2: granularity, type of factors, items of a group; sums f32. */
typedef struct fake_group {
    uint32_t m, n, k, type, items;
    bool is_subgroup; /* the matrix is a subgroup's, not the group's */
} fake_group;

typedef struct fake_vulkan_device {
    const char *name, *driver;
    uint32_t vendor, id;
    VkPhysicalDeviceType type;
    uint64_t memory, host_memory; /* bytes of the heaps; host_memory 0: one heap for both */
    uint64_t largest;             /* largest buffer range that a kernel can bind; 0: 4 GiB - 1 */
    bool maps_all;                /* the host can map all device memory */
    bool is_incoherent;           /* cached memory needs flushes and invalidations; there is also uncached memory */
    bool has_budget;
    uint32_t width, least_width, most_width; /* subgroup widths; least and most 0: none can be required */
    bool only_shuffles;                      /* of the operations of subgroups */
    uint32_t bindings;                       /* storage buffers per kernel; 0: very many */
    uint32_t multiprocessors;                /* VK_NV_shader_sm_builtins */
    uint32_t engines, arrays, units;         /* VK_AMD_shader_core_properties */
    bool keeps_denormals;                    /* if a module declares it */
    bool is_portability;
    const fake_matrix *khr, *nv; /* lists that end with m 0 */
    bool has_bfloat16;           /* VK_KHR_shader_bfloat16, with matrix units */
    const fake_group *groups;    /* the same */
    uint32_t largest_group, largest_side;
    uint32_t pipeline_size;      /* of a pipeline in the data of a cache, from 8; 0: the data are only a header */
    uint32_t version;            /* of the driver, which keeps no pipelines of other versions */
    uint32_t queues;             /* of family 0, for everything; 0: one */
    uint32_t transfer_queues;    /* of family 1, only for transfers; 0: there is no such family */
} fake_vulkan_device;

typedef struct fake_submission {
    uint32_t family, index;        /* of the queue */
    uint32_t pool_family;          /* of the command buffer's pool; UINT32_MAX: no commands were submitted */
    int copies, shared;            /* calls of vkCmdCopyBuffer, and how many of their buffers both families share */
    VkPipelineStageFlags stages;   /* of all barriers */
    VkSemaphore waited, signalled; /* VK_NULL_HANDLE: none */
} fake_submission;

/* Calls that the loader received, and how it is to fail. */
typedef struct fake_vulkan_state {
    bool hangs;             /* fences are never signalled */
    bool is_lost;           /* fences return VK_ERROR_DEVICE_LOST */
    uint64_t budget, usage; /* of the device's own memory */
    uint64_t room;          /* bytes of it that vkAllocateMemory has left */
    bool refuses_maps;      /* of the memory allocated last, if it is the device's own */
    uint32_t width;         /* required subgroup width of the last pipeline; 0: none */
    uint32_t type;          /* memory type of the last allocation */
    char extensions[512];   /* enabled on the last VkDevice, with a space after each */
    bool enables_bfloat16;  /* so were both features of matrix units that multiply bf16 */
    bool enables_groups;    /* and those of VK_NV_cooperative_matrix2 that kernels use, and no others */
    int destroyed;          /* destroyed objects */
    int devices;            /* destroyed VkDevices */
    int copies;             /* calls of vkCmdCopyBuffer */
    bool is_fresh;          /* the caches were invalidated and not flushed since */
    int flushes, stale;     /* all flushes, and those without a prior invalidation */
    int shared, aliased;    /* variables of the last module that share a binding; those declared as aliased */
    uint32_t modes[8];      /* execution modes of the last shader module, ended by 0 */
    int compiled, reused;   /* pipelines that were compiled, and those that a VkPipelineCache had */
    int caches, merges;     /* living VkPipelineCaches; calls of vkMergePipelineCaches */
    int foreign;            /* VkPipelineCaches created with data of another driver */
    bool refuses_caches;    /* vkCreatePipelineCache fails */
    bool refuses_data;      /* the same, if it gets data */
    int submissions;        /* calls of vkQueueSubmit */
    fake_submission last;   /* of these */
    uint64_t ticks;         /* between each timestamp and the one before; 1 ns each */
    bool lacks_ticks;       /* timestamps are not available */
    int misused_fences;     /* submitted or reset although their submission never ended */
    int short_sizes;        /* so many queries of the size of a cache's data return less, as if it grew then */
} fake_vulkan_state;
extern fake_vulkan_state fake_vulkan;

/* Makes the driver load this table. devices must outlive its use. */
void install_fake_vulkan(const fake_vulkan_device *devices, int count);

#endif
