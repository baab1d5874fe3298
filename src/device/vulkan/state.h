/* What the files of the Vulkan driver share: the objects behind driver.h's handles, and the functions between files.
   Work is numbered: every vkQueueSubmit gets the next ticket, tickets finish in order, and an object remembers the last
   ticket that uses it. */
#ifndef TUFF_DEVICE_VULKAN_STATE_H
#define TUFF_DEVICE_VULKAN_STATE_H

#include "device/driver.h"
#include "device/vulkan/api.h"

#define MAX_DEVICE_EXTENSIONS 8
#define MAX_IN_FLIGHT 32
#define STAGING_SLOTS 8
#define STAGING_SLOT_SIZE (2u << 20)

/* Which form of matrix units the device offers for blocks of 16 by 16 by 16, f16 with sums in f32: 1 NV's, 2 KHR's, 0
   none. khr and nv: which extensions it has. */
uint32_t tuff__vulkan_find_matrices(VkPhysicalDevice handle, bool khr, bool nv, uint32_t shape[3]);

/* A queue of a device, by its family and its place in that. The queue that computes is the first one of its family. */
typedef struct vulkan_upload_queue {
    uint32_t family, index;
    bool is_second; /* false: the device has no other queue than the one that computes, and this is it */
} vulkan_upload_queue;

/* Where uploads go that run beside kernels: to a family of transfers alone, which is a copy engine, else to a second
   queue of the family that computes. */
vulkan_upload_queue tuff__vulkan_choose_upload_queue(const VkQueueFamilyProperties *families, uint32_t count,
                                                     uint32_t compute_family);

/* A physical device as examined: the properties and features structures point at each other and must not be moved. */
typedef struct vulkan_physical {
    VkPhysicalDevice handle;
    uint32_t version; /* the lower of the device's and ours, without the patch */
    uint32_t queue_family, timestamp_bits;
    vulkan_upload_queue upload; /* what copies go through beside the queue that computes */
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceProperties2 properties;
    VkPhysicalDeviceIDProperties id;
    VkPhysicalDeviceMaintenance3Properties maintenance3;
    VkPhysicalDeviceMaintenance4Properties maintenance4;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup_sizes;
    VkPhysicalDeviceFloatControlsProperties float_controls;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors;
    VkPhysicalDeviceShaderCorePropertiesAMD compute_units;
    /* Exactly the features that tuff uses and the device has: what vkCreateDevice gets. */
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDevice16BitStorageFeatures storage16;
    VkPhysicalDevice8BitStorageFeatures storage8;
    VkPhysicalDeviceShaderFloat16Int8Features arithmetic;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_control;
    VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices; /* or KHR's, which looks the same */
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables; /* not asked for on CPUs */
    uint32_t cooperative_matrix, matrix_shape[3];                        /* as tuff_device_info says */
    const char *extensions[MAX_DEVICE_EXTENSIONS];
    uint32_t extension_count;
} vulkan_physical;

typedef struct vulkan_memory {
    VkDeviceMemory handle;
    uint64_t size;
    void *mapped; /* NULL where the host cannot reach it */
    bool coherent;
} vulkan_memory;

struct driver_buffer {
    VkBuffer handle;
    vulkan_memory memory;
    uint64_t size, last_use;
};

typedef struct vulkan_staging {
    driver_buffer buffer; /* STAGING_SLOTS slots; no handle until the first use */
    VkCommandBuffer commands[STAGING_SLOTS];
    uint64_t tickets[STAGING_SLOTS];
    uint32_t next;
} vulkan_staging;

struct driver_device {
    vulkan_physical physical;
    VkDevice handle;
    VkQueue queue, upload_queue;
    VkCommandPool commands, upload_commands;
    VkFence fences[MAX_IN_FLIGHT]; /* of ticket t: fences[t % MAX_IN_FLIGHT], made at its first use */
    uint64_t submitted, finished;  /* tickets */
    uint64_t wait_limit;           /* nanoseconds without progress until TUFF_E_TIMEOUT */
    uint32_t segment_size;         /* commands of a recording that are submitted together */
    bool lost;
    _Atomic bool hung;  /* also read where programs are made, beside other calls */
    bool keeps_uploads; /* one did not end in time: the device is never destroyed */
    bool mapped;        /* buffers live where host and device both reach them */
    bool tells_spills;  /* pipelines are made with statistics */
    vulkan_staging staging;
    char *identity;
};

struct driver_program {
    VkDescriptorSetLayout set_layout; /* none without buffers */
    VkPipelineLayout layout;
    VkPipeline pipeline;
    uint32_t buffer_count, word_count;
    bool has_statistics;
};

struct driver_recording {
    VkCommandBuffer *segments; /* each is a submission of its own */
    uint32_t segment_count, segment_size;
    uint32_t command_count;
    VkDescriptorPool pool;
    VkQueryPool queries;     /* two for each command; none where not timed */
    driver_buffer **buffers; /* every buffer that is used, once */
    uint32_t buffer_count;
    uint64_t last_use;
};

/* physical.c */
tuff_status tuff__vulkan_examine(VkPhysicalDevice handle, vulkan_physical *physical);
/* True where the device can run tuff: Vulkan 1.1 and a queue family that computes. */
bool tuff__vulkan_is_usable(VkPhysicalDevice handle);
void tuff__vulkan_describe(const vulkan_physical *physical, tuff_device_info *info);
/* Bytes of the largest buffer. */
uint64_t tuff__vulkan_max_allocation(const vulkan_physical *physical);
/* The device's exact name for cache keys; NULL where memory ran out. */
char *tuff__vulkan_identity(const vulkan_physical *physical);

/* queue.c */
tuff_status tuff__vulkan_submit(driver_device *device, VkCommandBuffer commands, uint64_t *ticket);
/* The same behind what signals the semaphore, which is not signalled any more then; none: behind nothing else. */
tuff_status tuff__vulkan_submit_behind(driver_device *device, VkCommandBuffer commands, VkSemaphore before,
                                       uint64_t *ticket);
/* Submits to the queue of uploads; work there has no ticket. */
tuff_status tuff__vulkan_submit_upload(driver_device *device, VkCommandBuffer commands, VkSemaphore signal,
                                       VkFence fence);
/* Whether an upload has signalled its fence. Fails where the device was lost. */
tuff_status tuff__vulkan_is_uploaded(driver_device *device, VkFence fence, bool *done);
/* tuff__vulkan_settle for an upload. */
bool tuff__vulkan_settle_upload(driver_device *device, VkFence fence);
tuff_status tuff__vulkan_wait_until(driver_device *device, uint64_t ticket);
/* True when work up to ticket is done, without waiting. */
bool tuff__vulkan_is_done(driver_device *device, uint64_t ticket);
/* Waits before destruction. False where the work may still run: what it uses must be left alone for ever. */
bool tuff__vulkan_settle(driver_device *device, uint64_t ticket);
/* Begins a command buffer, ordered after all work submitted earlier; ends it, its writes visible to the host. */
tuff_status tuff__vulkan_begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage);
tuff_status tuff__vulkan_end(VkCommandBuffer commands);
/* Makes writes of the stages `from` (compute, transfer) visible to all that follows. */
void tuff__vulkan_barrier(VkCommandBuffer commands, VkPipelineStageFlags from);

/* memory.c */
/* Creates a buffer for storage and copies. host: the memory must be mapped. shared: uploads use it too. */
tuff_status tuff__vulkan_buffer_create(driver_device *device, uint64_t size, bool host, bool shared,
                                       driver_buffer *buffer);
void tuff__vulkan_buffer_release(driver_device *device, driver_buffer *buffer); /* a buffer of zeros is allowed */
/* Copies between host memory and a mapped buffer that no submission uses. */
tuff_status tuff__vulkan_poke(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                              uint64_t size);
tuff_status tuff__vulkan_peek(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data, uint64_t size);
/* Makes what the host wrote to a mapped range visible to later submissions; and what finished ones wrote, to the host.
   */
tuff_status tuff__vulkan_flush(driver_device *device, const driver_buffer *buffer, uint64_t offset, uint64_t size);
tuff_status tuff__vulkan_invalidate(driver_device *device, const driver_buffer *buffer, uint64_t offset, uint64_t size);

/* glsl.c */
/* Compiles GLSL to SPIR-V for Vulkan 1.1. TUFF_E_UNSUPPORTED where tuff was built without a compiler, TUFF_E_IO where
   its module cannot be opened. */
tuff_status tuff__vulkan_compile(const program_request *request, blob *spirv);

/* spirv.c */
/* Replaces finished SPIR-V by the same with the declarations of float behaviour that the device knows. */
tuff_status tuff__vulkan_declare_floats(const vulkan_physical *physical, blob *spirv);

/* The driver's slots, by file. */
tuff_status tuff__vulkan_new_buffer(driver_device *device, uint64_t size, driver_buffer **buffer);
void tuff__vulkan_drop_buffer(driver_device *device, driver_buffer *buffer);
void tuff__vulkan_buffer_unwrap(const driver_buffer *buffer, tuff_buffer_handle *handle);
tuff_status tuff__vulkan_write(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                               uint64_t size);
tuff_status tuff__vulkan_read(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data, uint64_t size);
tuff_status tuff__vulkan_copy(driver_device *device, driver_buffer *from, uint64_t from_offset, driver_buffer *to,
                              uint64_t to_offset, uint64_t size);
tuff_status tuff__vulkan_staging_create(driver_device *device, uint64_t size, bool sends, driver_staging **staging,
                                        void **memory);
void tuff__vulkan_staging_destroy(driver_device *device, driver_staging *staging);
tuff_status tuff__vulkan_staging_copy(driver_device *device, driver_staging *staging, const staged_copy *copies,
                                      int count, bool upload);
tuff_status tuff__vulkan_staging_send(driver_device *device, driver_staging *staging, uint64_t size);
tuff_status tuff__vulkan_staging_poll(driver_device *device, driver_staging *staging, bool *done);
tuff_status tuff__vulkan_new_program(driver_device *device, const program_request *request, blob cached, blob *made,
                                     driver_program **program);
void tuff__vulkan_drop_program(driver_device *device, driver_program *program);
void tuff__vulkan_tell_spills(driver_device *device);
tuff_status tuff__vulkan_spilled_bytes(driver_device *device, driver_program *program, uint64_t *out);
tuff_status tuff__vulkan_record(driver_device *device, const command *commands, int count, bool timed,
                                driver_recording **recording);
void tuff__vulkan_drop_recording(driver_device *device, driver_recording *recording);
tuff_status tuff__vulkan_replay(driver_device *device, driver_recording *recording);
tuff_status tuff__vulkan_timestamps(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
tuff_status tuff__vulkan_start_times(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
#endif
