/* An application with Vulkan objects of its own: an instance under the validation layer where that is installed,
   devices with more or fewer features enabled, a locked queue, buffers, and timeline semaphores. Nothing of it is
   tuff's. */
#ifndef TUFF_TESTS_VULKAN_APPLICATION_H
#define TUFF_TESTS_VULKAN_APPLICATION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

#include "device/vulkan/api.h"
#include "tuff/interop.h"

/* What is enabled when a VkDevice is created. */
typedef enum enabled_features {
    ENABLED_ALL,      /* what tuff uses, by the structures of versions 1.1 to 1.3 */
    ENABLED_APART,    /* the same by a structure for each subject */
    ENABLED_STORAGE,  /* elements of 8 and 16 bits, but no arithmetic with them */
    ENABLED_TIMELINE, /* timelineSemaphore alone */
    ENABLED_NONE,     /* and no extension; tuff is told of Vulkan 1.1 */
} enabled_features;

typedef struct application {
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    enabled_features enabled;
    VkCommandPool pool;
    tuff_vulkan_handles handles; /* with callbacks that lock `lock`; features and extensions as they were enabled */
} application;

typedef struct application_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint32_t *words; /* mapped and coherent */
    tuff_vulkan_buffer import;
} application_buffer;

extern vulkan_api vk;                         /* the application's calls */
extern int application_device_count;          /* physical devices that can run tuff */
extern bool is_application_validated;         /* the layer is there */
extern int application_messages;              /* of the layer */
extern int submissions, unlocked_submissions; /* of tuff's; those without the application's lock */
extern int locks;                             /* taken by tuff */
extern bool loses_devices;                    /* from now on tuff's submissions answer VK_ERROR_DEVICE_LOST */

/* 77 where there is no Vulkan device, else 0. */
int start_applications(void);
application open_application(int index, enabled_features enabled);
/* Destroys the device: the layer tells of everything on it that is left. */
void close_application(application *self);

application_buffer create_application_buffer(const application *self, uint64_t size, VkBufferUsageFlags usage);
void destroy_application_buffer(const application *self, application_buffer *buffer);

VkSemaphore create_application_semaphore(const application *self, bool is_timeline);
/* When the device is idle: after a wait of the host for its last value, the thread of lavapipe 22.3's queue was seen to
   use one that had been destroyed. */
void destroy_application_semaphore(const application *self, VkSemaphore semaphore);
uint64_t semaphore_number(VkSemaphore semaphore); /* as tuff takes it */
void signal_from_host(const application *self, VkSemaphore semaphore, uint64_t value);
void wait_on_host(const application *self, VkSemaphore semaphore, uint64_t value);
uint64_t semaphore_value(const application *self, VkSemaphore semaphore);

/* Fills `to` with a word, or copies `from` to it, behind one semaphore and before another; 0: none. */
typedef struct application_work {
    const application_buffer *from, *to; /* from NULL: fill */
    uint32_t word;
    VkSemaphore wait, signal;
    uint64_t wait_value, signal_value; /* 0 for binary semaphores */
} application_work;
void submit_work(const application *self, const application_work *work);

void wait_for_application(const application *self); /* until its device is idle */

/* Takes and gives back the lock of the queue as the application's own threads do. */
void lock_application_queue(void);
void unlock_application_queue(void);

#endif
#endif
