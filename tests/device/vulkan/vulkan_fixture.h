/* Fixtures for tests of the Vulkan driver: devices with faked memory, limits and versions, two kernels, commands, and
   the Khronos validation layer, under which everything runs if it is installed. */
#ifndef TUFF_TESTS_VULKAN_FIXTURE_H
#define TUFF_TESTS_VULKAN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/driver.h"

#if !defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN

#include "base/alloc.h"
#include "base/thread.h"
#include "device/vulkan/state.h"

#define ok(call)                                     \
    do {                                             \
        if ((call) != TUFF_OK)                       \
            fail_msg("%s: %s", #call, tuff_error()); \
    } while (0)

extern const driver *const vulkan;
extern int device_count;
extern bool validated; /* whether the layer is installed */
extern int validation_messages;
extern bool expects_messages; /* messages are counted, but not printed */

/* Properties of the device that are reported wrongly to the driver. */
typedef struct vulkan_lies {
    bool discrete;      /* the host cannot access device memory: staging is used */
    bool incoherent;    /* memory needs flushes */
    uint32_t groups[2]; /* limits of groups along x and y; 0: unchanged */
    bool no_timestamps;
    bool old; /* Vulkan 1.1 without features */
} vulkan_lies;
extern vulkan_lies lies;

/* y[i] = 2 x[i] + 1. */
extern const char *const scale_text;
/* Every group adds one to its element, which shows groups that run twice or never. */
extern const char *const tally_text;

/* Whether this build compiles GLSL, which nearly all tests need. */
extern const bool has_compiler;

/* Loads the driver with the layer and the lies installed, and counts the devices. Returns 77 (skipped) if there are
   none, else 0. */
int vulkan_start(void);
/* Returns vkDeviceWaitIdle, which the driver itself does not use. */
PFN_vkDeviceWaitIdle vulkan_wait_idle(void);
/* A test that fails if the layer reported anything. */
void no_validation_messages(void **state);

driver_device *open_device(int index);
driver_buffer *create_buffer(driver_device *device, uint64_t size);
driver_program *create_program(driver_device *device, const char *text, int buffers, uint32_t local_size);
driver_recording *record(driver_device *device, const command *commands, int count, bool timed);
command scale(driver_program *program, driver_buffer *from, driver_buffer *to, uint32_t count);
command tally(driver_program *program, driver_buffer *buffer, uint32_t count);
command copy(driver_buffer *from, uint64_t from_offset, driver_buffer *to, uint64_t to_offset, uint64_t size);
command fill(driver_buffer *buffer, uint64_t offset, uint64_t size);
/* Runs a check on every device, with host-visible memory and with staging. */
void on_every_device(void (*check)(driver_device *device));

/* Checks that several programs share. */
void check_writes_and_reads(driver_device *device);
void check_chain(driver_device *device);

#endif
#endif
