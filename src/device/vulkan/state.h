/* What the files of the Vulkan driver share: the objects behind driver.h's handles, and the functions between files.
   Work is numbered: every vkQueueSubmit gets the next ticket, tickets finish in order, and an object remembers the last
   ticket that uses it. */
#ifndef TUFF_DEVICE_VULKAN_STATE_H
#define TUFF_DEVICE_VULKAN_STATE_H

#include <stdatomic.h>

#include "base/hash.h"
#include "device/driver.h"
#include "device/submit/predictor.h"
#include "device/vulkan/api.h"

#define MAX_DEVICE_EXTENSIONS 12
/* The most submissions in flight; on a queue shared with an application a run must not wait, so the ring of submissions
   grows there, up to the second number. */
#define MAX_IN_FLIGHT 32
#define MAX_IN_FLIGHT_SHARED (UINT64_C(1) << 16)
#define STAGING_SLOTS 8
#define STAGING_SLOT_SIZE (2u << 20)

/* The extensions for matrix units that a device has. */
typedef struct matrix_extensions {
    bool khr, nv, bfloat16, nv2;
} matrix_extensions;

/* What a device offers of them, as far as the GLSL compiler of this build knows it. */
typedef struct vulkan_matrices {
    uint32_t form, shape[3];                /* a tuff_matrix_units; the largest blocks of f16 with sums in f32 */
    bool bf16;                              /* also multiplies blocks of bf16 of that shape */
    uint32_t group_sizes, group_sizes_bf16; /* as in tuff_device_info */
} vulkan_matrices;

void tuff__vulkan_find_matrices(const vulkan_api *vk, VkPhysicalDevice handle, matrix_extensions has,
                                vulkan_matrices *out);

/* A queue of a device, by its family and its index in the family. The compute queue is the first one of its family. */
typedef struct vulkan_upload_queue {
    uint32_t family, index;
    bool is_separate; /* false: this is the compute queue, because the device has no other */
} vulkan_upload_queue;

/* Chooses the queue for uploads that run concurrently with kernels: one of a transfer-only family, which is a copy
   engine, else a second queue of the compute family. */
vulkan_upload_queue tuff__vulkan_choose_upload_queue(const VkQueueFamilyProperties *families, uint32_t count,
                                                     uint32_t compute_family);

/* A physical device and what was queried about it. The properties and features structures point at each other and must
   not be moved. */
typedef struct vulkan_physical {
    const vulkan_api *vk; /* the table of the device's instance */
    VkPhysicalDevice handle;
    uint32_t version; /* the lower of the device's version and tuff's, without the patch */
    uint32_t queue_family, timestamp_bits;
    vulkan_upload_queue upload; /* for copies concurrent with the compute queue */
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
    /* Exactly the features that tuff uses and the device has: what vkCreateDevice gets. For an application's device,
       without those that the application did not enable. */
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDevice16BitStorageFeatures storage16;
    VkPhysicalDevice8BitStorageFeatures storage8;
    VkPhysicalDeviceShaderFloat16Int8Features arithmetic;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_control;
    VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices; /* or KHR's, which has the same layout */
    bfloat16_features_khr bfloat16;                       /* queried only if matrix units use it */
    cooperative_2_features_nv groups;                     /* the same */
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline;                  /* for applications' semaphores */
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables; /* not queried on CPUs */
    vulkan_matrices units;
    bool has_matrices;                                                   /* of any block size */
    bool has_budget;                                                     /* VK_EXT_memory_budget */
    const char *extensions[MAX_DEVICE_EXTENSIONS];
    uint32_t extension_count;
    char disabled[512]; /* names of features that the device has but its application did not enable */
} vulkan_physical;

typedef struct vulkan_memory {
    VkDeviceMemory handle;
    uint64_t size;
    void *mapped; /* NULL if the host cannot reach it */
    bool coherent;
} vulkan_memory;

struct driver_buffer {
    VkBuffer handle;
    vulkan_memory memory;
    uint64_t size, last_use;
    bool is_imported; /* the application's: has no memory here, and is not destroyed */
    bool is_shared;   /* an application may use it as well, in work without tickets */
};

/* A semaphore to wait for or to signal. */
typedef struct vulkan_semaphore {
    VkSemaphore handle;
    uint64_t value; /* of a timeline semaphore; 0: a binary semaphore */
} vulkan_semaphore;

/* A submission in flight. */
typedef struct vulkan_submission {
    VkFence fence; /* created at first use */
    vulkan_semaphore signal;
    submission_record record; /* its predicted time */
    VkQueryPool times;        /* with the ticks at its begin and end; VK_NULL_HANDLE: they are not measured */
    uint32_t query;           /* the first of the two */
} vulkan_submission;

typedef struct vulkan_staging {
    driver_buffer buffer; /* STAGING_SLOTS slots; no handle until the first use */
    VkCommandBuffer commands[STAGING_SLOTS];
    uint64_t tickets[STAGING_SLOTS];
    uint32_t next;
} vulkan_staging;

/* The cache of compiled pipelines. Threads that create pipelines share it. */
typedef struct vulkan_pipelines {
    VkPipelineCache handle;                    /* VK_NULL_HANDLE: none */
    char key[160];                             /* of its file in the cache folder */
    size_t saved_size;                         /* of the cache's data, when they were last loaded or saved; 0: never */
    hash128 known_file;                        /* of the last data in the file that the cache contains entirely */
    bool is_full;                              /* the data exceed their limit: they are not saved any more */
    _Atomic uint32_t created, created_at_save; /* pipelines */
    _Atomic bool is_saving;
} vulkan_pipelines;

struct driver_device {
    const vulkan_api *vk; /* tuff__vk or application_vk */
    vulkan_physical physical;
    bool is_wrapped;                 /* application_vk and application are set, and the VkDevice is not destroyed */
    vulkan_api application_vk;       /* loaded by the application's vkGetInstanceProcAddr */
    tuff_vulkan_handles application; /* without extensions and features, which are valid only during the call */
    VkDevice handle;
    VkQueue queue, upload_queue;
    VkCommandPool commands, upload_commands;
    vulkan_submission *submissions; /* a ring: that of ticket t is at t % submission_capacity */
    uint64_t submission_capacity;
    uint64_t submitted, finished; /* tickets */
    uint64_t leaked_use;          /* last ticket of a recording that was leaked; 0: none was */
    time_predictor predictor;
    VkCommandBuffer
        entry_barrier;   /* a barrier after an application's work; NULL until the first wait for a semaphore */
    uint64_t wait_limit; /* nanoseconds without progress until TUFF_E_TIMEOUT */
    int segment_size;    /* most parts of a recording in one submission */
    bool lost;
    const char *lost_in;       /* the function that first reported the loss */
    _Atomic bool hung;         /* also read while programs are made, concurrently with other calls */
    bool has_stuck_upload;     /* an upload did not end in time: nothing of the device is destroyed */
    bool has_leaks; /* objects were leaked, so the VkDevice is not destroyed: their memory would go with it */
    bool mapped;    /* buffers are allocated in host-visible device memory */
    bool reads_through_copies; /* reads go through copies: a card's memory is slow to read across the bus */
    bool collects_statistics;  /* pipelines are created with statistics */
    bool optimizes;            /* pipelines are created without the flag that disables optimization */
    vulkan_staging staging;
    vulkan_pipelines pipelines;
    char *identity;
};

struct driver_program {
    VkDescriptorSetLayout set_layout; /* VK_NULL_HANDLE without buffers */
    VkPipelineLayout layout;
    VkPipeline pipeline;
    uint32_t buffer_count, word_count;
    bool has_statistics;
    time_scale scale;
};

/* Some groups of a dispatch, or a whole command of another kind. */
typedef struct vulkan_part {
    uint32_t command;
    uint64_t base, end; /* groups */
    bool is_first, is_last;
} vulkan_part;

/* Parts that are submitted together. */
typedef struct vulkan_segment {
    VkCommandBuffer commands;
    int first, end;
} vulkan_segment;

/* A recording partitioned into parts and segments. */
typedef struct vulkan_partition {
    vulkan_part *parts;
    work_share *shares; /* one per part */
    int part_count, part_capacity, share_capacity;
    vulkan_segment *segments;
    int segment_count, segment_capacity;
    VkQueryPool times; /* on shared queues: two per segment; VK_NULL_HANDLE: none */
} vulkan_partition;

struct driver_recording {
    vulkan_partition partition;
    vulkan_partition retired; /* the one before, which may still be in flight; empty: none */
    uint64_t retired_use;     /* its last ticket */
    command *commands; /* if the recording may have to be partitioned again; else NULL */
    uint64_t version;  /* of the device's predictor, when a new partition was last considered */
    uint32_t command_count;
    VkDescriptorSet *sets; /* one per command, VK_NULL_HANDLE for those without buffers; NULL if none has buffers */
    VkDescriptorPool pool;
    VkQueryPool queries;     /* two per command; VK_NULL_HANDLE if not timed */
    driver_buffer **buffers; /* every buffer in use, once */
    uint32_t buffer_count;
    uint64_t last_use;
};

/* partition.c */
/* Partitions commands into parts and segments, which do not have command buffers yet. */
tuff_status tuff__vulkan_partition(const driver_device *device, const command *commands, uint32_t count,
                                   vulkan_partition *out);
void tuff__vulkan_partition_free(vulkan_partition *self);
/* Whether another partition of the same commands may ever be better. */
bool tuff__vulkan_may_repartition(const driver_device *device, const vulkan_partition *partition,
                                  uint32_t command_count);
/* Whether another partition would be better by the present measurements. *fresh is that one, freed by the caller. */
tuff_status tuff__vulkan_repartition(const driver_device *device, driver_recording *recording, vulkan_partition *fresh,
                                     bool *is_better);

/* physical.c */
/* application: the handles of an application's device, with the queue family and all that was enabled; NULL for a
   device that tuff will open. */
tuff_status tuff__vulkan_examine(const vulkan_api *vk, VkPhysicalDevice handle, const tuff_vulkan_handles *application,
                                 vulkan_physical *physical);
/* Whether tuff can use the device: it has Vulkan 1.1 and a queue family with compute. */
bool tuff__vulkan_is_usable(VkPhysicalDevice handle);
void tuff__vulkan_describe(const vulkan_physical *physical, tuff_device_info *info);
/* Returns the size of the largest buffer in bytes. */
uint64_t tuff__vulkan_max_allocation(const vulkan_physical *physical);
/* Returns how many more bytes of a heap (-1: no heap) this process may use; 0: the driver does not say. */
uint64_t tuff__vulkan_available_memory(const vulkan_physical *physical, int heap);
/* Whether the host can reach all of the device's own memory. */
bool tuff__vulkan_is_host_visible(const vulkan_physical *physical);
/* Returns the device's exact name for cache keys; NULL if memory runs out. */
char *tuff__vulkan_identity(const vulkan_physical *physical);

/* enabled.c */
/* Clears the features that are off in the chain of structures, as vkCreateDevice got it, and records their names. */
void tuff__vulkan_restrict_features(vulkan_physical *physical, const void *chain);
/* Adds the device's usable features to its identity: the same device, opened by tuff or wrapped with fewer features,
   has other self-test results and other programs. */
struct text;
void tuff__vulkan_append_features(const vulkan_physical *physical, struct text *out);
bool tuff__vulkan_has_enabled(const tuff_vulkan_handles *application, const char *extension);

/* open.c */
/* Sets up the rest of a device besides handles, queues and properties: sizes, pools, identity. */
tuff_status tuff__vulkan_prepare(driver_device *device);
void tuff__vulkan_close(driver_device *device);

/* intel_compute_units.c */
/* Estimates compute_units from the device's name. */
void tuff__vulkan_estimate_units(tuff_device_info *info);

/* queue.c */
tuff_status tuff__vulkan_create_ring(driver_device *device);
void tuff__vulkan_destroy_ring(driver_device *device);
/* Returns the submission of a ticket that is in flight or the next one. */
vulkan_submission *tuff__vulkan_submission(const driver_device *device, uint64_t ticket);
/* tuff__vulkan_check, which also records the loss of the device. */
tuff_status tuff__vulkan_check_device(driver_device *device, VkResult result, const char *function);
/* Returns TUFF_E_DEVICE_LOST if the device was lost. */
tuff_status tuff__vulkan_check_lost(const driver_device *device);
tuff_status tuff__vulkan_submit(driver_device *device, VkCommandBuffer commands, uint64_t *ticket);
/* Submits commands that wait for one semaphore and signal another one; each may be NULL, and so may the commands. */
tuff_status tuff__vulkan_submit_with_semaphores(driver_device *device, VkCommandBuffer commands,
                                                const vulkan_semaphore *wait, const vulkan_semaphore *signal,
                                                uint64_t *ticket);
/* Submits to the upload queue; work there has no ticket. */
tuff_status tuff__vulkan_submit_upload(driver_device *device, VkCommandBuffer commands, VkSemaphore signal,
                                       VkFence fence);
/* Whether an upload has signalled its fence. Fails if the device was lost. */
tuff_status tuff__vulkan_is_uploaded(driver_device *device, VkFence fence, bool *done);
/* tuff__vulkan_settle for an upload. */
bool tuff__vulkan_settle_upload(driver_device *device, VkFence fence);
/* Records the predicted time of the last ticket; is_idle: nothing was in flight before. times and query as in
   vulkan_submission. */
void tuff__vulkan_record_submission(driver_device *device, submission_record submission, bool is_idle,
                                    VkQueryPool times, uint32_t query);
/* Returns the time between two ticks. */
uint64_t tuff__vulkan_nanoseconds(const vulkan_physical *physical, uint64_t begin, uint64_t end);
void tuff__vulkan_forget_submissions(driver_device *device, const driver_recording *recording);
tuff_status tuff__vulkan_wait_until(driver_device *device, uint64_t ticket);
/* Whether work up to ticket is done; does not wait. */
bool tuff__vulkan_is_done(driver_device *device, uint64_t ticket);
/* Waits for work before its objects are destroyed. Returns false if it may still run: the objects must then be
   leaked. */
bool tuff__vulkan_settle(driver_device *device, uint64_t ticket);
tuff_status tuff__vulkan_allocate_commands(const driver_device *device, VkCommandPool pool, uint32_t count,
                                           VkCommandBuffer *out);
/* tuff__vulkan_begin begins a command buffer, ordered after all work submitted earlier; tuff__vulkan_end ends it, with
   its writes visible to the host. */
tuff_status tuff__vulkan_begin(const driver_device *device, VkCommandBuffer commands, VkCommandBufferUsageFlags usage);
tuff_status tuff__vulkan_end(const driver_device *device, VkCommandBuffer commands);
/* Makes writes of the stages `from` (compute, transfer) visible to all later commands. */
void tuff__vulkan_barrier(const driver_device *device, VkCommandBuffer commands, VkPipelineStageFlags from);

/* memory.c */
/* Where a buffer goes: into the device's memory, within its budget; into any memory that the device can use; into
   memory mapped by the host. */
typedef enum vulkan_memory_kind { MEMORY_DEVICE, MEMORY_ANYWHERE, MEMORY_HOST } vulkan_memory_kind;
/* Creates a buffer for storage and copies. shared: uploads use it too. */
tuff_status tuff__vulkan_buffer_create(driver_device *device, uint64_t size, vulkan_memory_kind kind, bool shared,
                                       driver_buffer *buffer);
void tuff__vulkan_buffer_release(driver_device *device, driver_buffer *buffer); /* a zeroed buffer is allowed */
/* Copies between host memory and a mapped buffer that no submission uses. */
tuff_status tuff__vulkan_write_mapped(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                                      uint64_t size);
tuff_status tuff__vulkan_read_mapped(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                                     uint64_t size);
/* Make the host's writes to a mapped range visible to later submissions, and the writes of finished ones to the
   host. */
tuff_status tuff__vulkan_flush(driver_device *device, const driver_buffer *buffer, uint64_t offset, uint64_t size);
tuff_status tuff__vulkan_invalidate(driver_device *device, const driver_buffer *buffer, uint64_t offset, uint64_t size);

/* glsl.c */
/* Compiles GLSL to SPIR-V for Vulkan 1.1. TUFF_E_UNSUPPORTED if tuff was built without a compiler, TUFF_E_IO if its
   module cannot be opened. */
tuff_status tuff__vulkan_compile(const program_request *request, blob *spirv);

/* pipeline_cache.c */
/* Loads the pipelines of earlier processes. Failures leave the device without a cache. */
void tuff__vulkan_open_pipelines(driver_device *device);
/* Called after each creation of a pipeline, by any thread: saves them from time to time. */
void tuff__vulkan_count_pipeline(driver_device *device);
/* Saves the pipelines, unless the device was lost, and destroys the cache. */
void tuff__vulkan_close_pipelines(driver_device *device);

/* spirv.c */
/* Adds to finished SPIR-V the declarations of float behaviour that the device supports. */
tuff_status tuff__vulkan_declare_floats(const vulkan_physical *physical, blob *spirv);
/* Declares in finished SPIR-V that variables of one binding are the same memory. */
tuff_status tuff__vulkan_declare_aliases(blob *spirv);

/* The driver's slots, by file. */
tuff_status tuff__vulkan_wrap(const void *handles, tuff_device_info *info, driver_device **device);
tuff_status tuff__vulkan_import(driver_device *device, const void *handle, uint64_t *size, driver_buffer **buffer);
tuff_status tuff__vulkan_enqueue_wait(driver_device *device, const driver_signal *signal);
tuff_status tuff__vulkan_enqueue_signal(driver_device *device, driver_signal *signal);
tuff_status tuff__vulkan_new_buffer(driver_device *device, uint64_t size, driver_buffer **buffer);
tuff_status tuff__vulkan_new_buffer_anywhere(driver_device *device, uint64_t size, driver_buffer **buffer);
void tuff__vulkan_drop_buffer(driver_device *device, driver_buffer *buffer);
void tuff__vulkan_buffer_unwrap(driver_buffer *buffer, tuff_buffer_handle *handle);
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
void tuff__vulkan_collect_spill_statistics(driver_device *device);
tuff_status tuff__vulkan_spilled_bytes(driver_device *device, driver_program *program, uint64_t *out);
tuff_status tuff__vulkan_record(driver_device *device, const command *commands, int count, bool timed,
                                driver_recording **recording);
void tuff__vulkan_drop_recording(driver_device *device, driver_recording *recording);
tuff_status tuff__vulkan_replay(driver_device *device, driver_recording *recording);
tuff_status tuff__vulkan_timestamps(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
tuff_status tuff__vulkan_start_times(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
#endif
