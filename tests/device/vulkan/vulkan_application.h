/* An application with its own Vulkan objects: an instance, with the validation layer if it is installed, devices with
   more or fewer features enabled, a locked queue, buffers, and timeline semaphores. None of its code is tuff's. */
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

/* The features that are enabled in a VkDevice. */
typedef enum enabled_features {
    ENABLED_ALL,      /* all that tuff uses, in the structures of versions 1.1 to 1.3 */
    ENABLED_APART,    /* the same in a structure per feature */
    ENABLED_STORAGE,  /* storage of 8 and 16-bit elements, but no arithmetic with them */
    ENABLED_TIMELINE, /* only timelineSemaphore */
    ENABLED_NONE,     /* and no extension; tuff gets Vulkan 1.1 as the version */
} enabled_features;

typedef struct application {
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    enabled_features enabled;
    VkCommandPool pool;
    tuff_vulkan_handles handles; /* with callbacks that lock `lock`, and the enabled features and extensions */
} application;

typedef struct application_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    uint32_t *words; /* mapped and coherent */
    tuff_vulkan_buffer import;
} application_buffer;

extern vulkan_api vk;                         /* the application's own functions */
extern int application_device_count;          /* physical devices that tuff supports */
extern bool is_application_validated;         /* whether the layer is installed */
extern int application_messages;              /* number of messages of the layer */
extern int submissions, unlocked_submissions; /* tuff's submissions; those without the application's lock */
extern int locks;                             /* number of times that tuff took the lock */
extern bool loses_devices;                    /* makes tuff's submissions return VK_ERROR_DEVICE_LOST */

/* Returns 77 if there is no Vulkan device, else 0. */
int start_applications(void);
application open_application(int index, enabled_features enabled);
/* Destroys the device; the layer reports any objects on it that are left. */
void close_application(application *self);

application_buffer create_application_buffer(const application *self, uint64_t size, VkBufferUsageFlags usage);
void destroy_application_buffer(const application *self, application_buffer *buffer);

VkSemaphore create_application_semaphore(const application *self, bool is_timeline);
/* Waits until the device is idle: after only a host wait for the semaphore's last value, the queue thread of lavapipe
   22.3 was seen to use a destroyed one. */
void destroy_application_semaphore(const application *self, VkSemaphore semaphore);
uint64_t semaphore_number(VkSemaphore semaphore); /* in the form that tuff takes */
void signal_from_host(const application *self, VkSemaphore semaphore, uint64_t value);
void wait_on_host(const application *self, VkSemaphore semaphore, uint64_t value);
uint64_t semaphore_value(const application *self, VkSemaphore semaphore);

/* Fills `to` with a word, or copies `from` to it, after waiting for one semaphore and before signalling another; 0:
   none. */
typedef struct application_work {
    const application_buffer *from, *to; /* from NULL: a fill */
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
