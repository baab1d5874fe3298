/* What the files of the Vulkan driver share: the objects behind driver.h's handles, and the functions between files.
   Work is numbered: every vkQueueSubmit gets the next ticket, tickets finish in order, and an object remembers the last
   ticket that uses it. */
#ifndef TUFF_DEVICE_VULKAN_STATE_H
#define TUFF_DEVICE_VULKAN_STATE_H

#include "device/driver.h"
#include "device/submit/pace.h"
#include "device/vulkan/api.h"

#define MAX_DEVICE_EXTENSIONS 12
#define MAX_IN_FLIGHT 32
#define STAGING_SLOTS 8
#define STAGING_SLOT_SIZE (2u << 20)

/* Which form of matrix units the device offers for blocks of f16 with sums in f32 (a tuff_matrix_units), and the shape
   of its largest blocks. khr and nv: which extensions it has. */
uint32_t tuff__vulkan_find_matrices(const vulkan_api *vk, VkPhysicalDevice handle, bool khr, bool nv,
                                    uint32_t shape[3]);

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
    const vulkan_api *vk; /* what its instance is called by */
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
    /* Exactly the features that tuff uses and the device has: what vkCreateDevice gets, or, of an application's device,
       what is left of that where the application did not enable everything. */
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDevice16BitStorageFeatures storage16;
    VkPhysicalDevice8BitStorageFeatures storage8;
    VkPhysicalDeviceShaderFloat16Int8Features arithmetic;
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_control;
    VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices; /* or KHR's, which looks the same */
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline;                  /* for the semaphores of applications */
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables; /* not asked for on CPUs */
    uint32_t cooperative_matrix, matrix_shape[3];                        /* as tuff_device_info says */
    bool has_matrices;                                                   /* of any size */
    bool has_budget;                                                     /* VK_EXT_memory_budget */
    const char *extensions[MAX_DEVICE_EXTENSIONS];
    uint32_t extension_count;
    char disabled[256]; /* names of features that the device has and its application did not enable */
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
    bool is_imported; /* the application's: without memory here, and not destroyed */
    bool is_shared;   /* an application may use it as well: its work has no tickets */
};

/* A semaphore to wait for or to signal. */
typedef struct vulkan_semaphore {
    VkSemaphore handle;
    uint64_t value; /* of a timeline semaphore; 0: a binary one */
} vulkan_semaphore;

typedef struct vulkan_staging {
    driver_buffer buffer; /* STAGING_SLOTS slots; no handle until the first use */
    VkCommandBuffer commands[STAGING_SLOTS];
    uint64_t tickets[STAGING_SLOTS];
    uint32_t next;
} vulkan_staging;

struct driver_device {
    const vulkan_api *vk; /* tuff__vk or application_vk */
    vulkan_physical physical;
    bool is_wrapped;                 /* what follows is set, and the VkDevice is not destroyed */
    vulkan_api application_vk;       /* by the application's vkGetInstanceProcAddr */
    tuff_vulkan_handles application; /* without extensions and features, which were the call's */
    VkDevice handle;
    VkQueue queue, upload_queue;
    VkCommandPool commands, upload_commands;
    VkFence fences[MAX_IN_FLIGHT];           /* of ticket t: fences[t % MAX_IN_FLIGHT], made at its first use */
    uint64_t submitted, finished;            /* tickets */
    vulkan_semaphore signals[MAX_IN_FLIGHT]; /* what the submission of ticket t signals: signals[t % MAX_IN_FLIGHT] */
    pace_mark marks[MAX_IN_FLIGHT];          /* likewise, of what each is to take */
    pace pace;
    VkCommandBuffer entry; /* a barrier behind an application's work; none until the first wait for a semaphore */
    uint64_t wait_limit;   /* nanoseconds without progress until TUFF_E_TIMEOUT */
    int segment_size;      /* commands of a recording that are submitted together, at most */
    bool lost;
    const char *lost_in; /* the function that told so first */
    _Atomic bool hung;  /* also read where programs are made, beside other calls */
    bool keeps_uploads; /* one did not end in time: the device is never destroyed */
    bool mapped;        /* buffers live where host and device both reach them */
    bool reads_copies;  /* the host reads them slowly: a card's memory across the bus */
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
    pace_scale scale;
};

/* Some groups of a dispatch, or the whole of a command. */
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

/* A recording cut up. */
typedef struct vulkan_cut {
    vulkan_part *parts;
    pace_share *shares; /* one a part */
    int part_count, part_capacity, share_capacity;
    vulkan_segment *segments;
    int segment_count, segment_capacity;
} vulkan_cut;

struct driver_recording {
    vulkan_cut cut;
    command *commands; /* where it may have to be cut otherwise; else NULL */
    uint64_t version;  /* of the device's pace, when that was looked at */
    uint32_t command_count;
    VkDescriptorSet *sets; /* one a command, none where that has no buffers; NULL where none has */
    VkDescriptorPool pool;
    VkQueryPool queries;     /* two for each command; none where not timed */
    driver_buffer **buffers; /* every buffer that is used, once */
    uint32_t buffer_count;
    uint64_t last_use;
};

/* cut.c */
/* Cuts commands into parts and segments, whose command buffers are still missing. */
tuff_status tuff__vulkan_cut(const driver_device *device, const command *commands, uint32_t count, vulkan_cut *out);
void tuff__vulkan_cut_free(vulkan_cut *self);
/* Whether another cut than this one, of so many commands, may ever be better. */
bool tuff__vulkan_may_cut_again(const driver_device *device, const vulkan_cut *cut, uint32_t command_count);
/* Whether another cut would be better by what is known now. *fresh, freed by the caller: that one. */
tuff_status tuff__vulkan_cut_again(const driver_device *device, driver_recording *recording, vulkan_cut *fresh,
                                   bool *is_better);

/* physical.c */
/* application: whose device it is, with the queue family and all that was enabled; NULL: one that tuff will open. */
tuff_status tuff__vulkan_examine(const vulkan_api *vk, VkPhysicalDevice handle, const tuff_vulkan_handles *application,
                                 vulkan_physical *physical);
/* True where the device can run tuff: Vulkan 1.1 and a queue family that computes. */
bool tuff__vulkan_is_usable(VkPhysicalDevice handle);
void tuff__vulkan_describe(const vulkan_physical *physical, tuff_device_info *info);
/* Bytes of the largest buffer. */
uint64_t tuff__vulkan_max_allocation(const vulkan_physical *physical);
/* Bytes of a heap (-1: of none) that this process may still have; 0: the driver does not tell. */
uint64_t tuff__vulkan_available(const vulkan_physical *physical, int heap);
/* Whether the host reaches all of the device's own memory. */
bool tuff__vulkan_is_reached(const vulkan_physical *physical);
/* The device's exact name for cache keys; NULL where memory ran out. */
char *tuff__vulkan_identity(const vulkan_physical *physical);

/* enabled.c */
/* Clears the features that are not on in the chain of structures, as vkCreateDevice got it, and notes their names. */
void tuff__vulkan_keep_enabled(vulkan_physical *physical, const void *chain);
/* Adds to a device's identity what of it is used here: the same device opened, or wrapped with less, answers other
   things to the self-test and gets other programs. */
struct text;
void tuff__vulkan_add_usable(const vulkan_physical *physical, struct text *out);
bool tuff__vulkan_has_enabled(const tuff_vulkan_handles *application, const char *extension);

/* open.c */
/* What a device needs beside its handles, queues and properties: sizes, pools, identity. */
tuff_status tuff__vulkan_prepare(driver_device *device);
void tuff__vulkan_close(driver_device *device);

/* units.c */
/* Fills in compute_units by the device's name. */
void tuff__vulkan_estimate_units(tuff_device_info *info);

/* queue.c */
/* tuff__vulkan_check, which also notes what an answer of the driver means for the device as a whole. */
tuff_status tuff__vulkan_check_device(driver_device *device, VkResult result, const char *function);
/* TUFF_E_DEVICE_LOST where the device was lost. */
tuff_status tuff__vulkan_check_lost(const driver_device *device);
tuff_status tuff__vulkan_submit(driver_device *device, VkCommandBuffer commands, uint64_t *ticket);
/* The same behind what signals one semaphore, and signalling another one; each may be NULL, as may the commands. */
tuff_status tuff__vulkan_submit_between(driver_device *device, VkCommandBuffer commands, const vulkan_semaphore *wait,
                                        const vulkan_semaphore *signal, uint64_t *ticket);
/* Submits to the queue of uploads; work there has no ticket. */
tuff_status tuff__vulkan_submit_upload(driver_device *device, VkCommandBuffer commands, VkSemaphore signal,
                                       VkFence fence);
/* Whether an upload has signalled its fence. Fails where the device was lost. */
tuff_status tuff__vulkan_is_uploaded(driver_device *device, VkFence fence, bool *done);
/* tuff__vulkan_settle for an upload. */
bool tuff__vulkan_settle_upload(driver_device *device, VkFence fence);
/* Notes what the last ticket is to take; is_idle: nothing was under way before. */
void tuff__vulkan_mark(driver_device *device, pace_mark mark, bool is_idle);
void tuff__vulkan_unmark(driver_device *device, const vulkan_cut *cut);
tuff_status tuff__vulkan_wait_until(driver_device *device, uint64_t ticket);
/* True when work up to ticket is done, without waiting. */
bool tuff__vulkan_is_done(driver_device *device, uint64_t ticket);
/* Waits before destruction. False where the work may still run: what it uses must be left alone for ever. */
bool tuff__vulkan_settle(driver_device *device, uint64_t ticket);
/* Begins a command buffer, ordered after all work submitted earlier; ends it, its writes visible to the host. */
tuff_status tuff__vulkan_begin(const driver_device *device, VkCommandBuffer commands, VkCommandBufferUsageFlags usage);
tuff_status tuff__vulkan_end(const driver_device *device, VkCommandBuffer commands);
/* Makes writes of the stages `from` (compute, transfer) visible to all that follows. */
void tuff__vulkan_barrier(const driver_device *device, VkCommandBuffer commands, VkPipelineStageFlags from);

/* memory.c */
/* Where a buffer is to be: on the device, as far as its budget goes; anywhere that it can use; mapped by the host. */
typedef enum vulkan_memory_kind { MEMORY_DEVICE, MEMORY_ANYWHERE, MEMORY_HOST } vulkan_memory_kind;
/* Creates a buffer for storage and copies. shared: uploads use it too. */
tuff_status tuff__vulkan_buffer_create(driver_device *device, uint64_t size, vulkan_memory_kind kind, bool shared,
                                       driver_buffer *buffer);
void tuff__vulkan_buffer_release(driver_device *device, driver_buffer *buffer); /* a buffer of zeros is allowed */
/* Copies between host memory and a mapped buffer that no submission uses. */
tuff_status tuff__vulkan_write_mapped(driver_device *device, driver_buffer *buffer, uint64_t offset, const void *data,
                                      uint64_t size);
tuff_status tuff__vulkan_read_mapped(driver_device *device, driver_buffer *buffer, uint64_t offset, void *data,
                                     uint64_t size);
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
/* Likewise with variables of one binding declared to be the same memory. */
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
void tuff__vulkan_tell_spills(driver_device *device);
tuff_status tuff__vulkan_spilled_bytes(driver_device *device, driver_program *program, uint64_t *out);
tuff_status tuff__vulkan_record(driver_device *device, const command *commands, int count, bool timed,
                                driver_recording **recording);
void tuff__vulkan_drop_recording(driver_device *device, driver_recording *recording);
tuff_status tuff__vulkan_replay(driver_device *device, driver_recording *recording);
tuff_status tuff__vulkan_timestamps(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
tuff_status tuff__vulkan_start_times(driver_device *device, driver_recording *recording, uint64_t *nanoseconds);
#endif
