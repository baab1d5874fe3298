/* What the tests of the Vulkan driver share: devices that are not what they are (memory, limits, version), two kernels,
   commands, and the Khronos validation layer, under which everything runs where it is installed. */
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
extern bool validated; /* the layer is there */
extern int validation_messages;
extern bool expects_messages; /* they are counted, but not printed */

/* What the driver is told of the device instead of the truth. */
typedef struct vulkan_lies {
    bool discrete;      /* memory is not reached by the host: staging */
    bool incoherent;    /* memory needs flushes */
    uint32_t groups[2]; /* limits of groups along x and y, 0: as they are */
    bool no_timestamps;
    bool old; /* Vulkan 1.1 without any feature */
} vulkan_lies;
extern vulkan_lies lies;

/* y[i] = 2 x[i] + 1. */
extern const char *const scale_text;
/* Every group adds one to its element: a group that runs twice or never is seen. */
extern const char *const tally_text;

/* Whether this build compiles GLSL, which nearly all tests need. */
extern const bool has_compiler;

/* Counts the devices, with the layer and the lies in place; 77 (skipped) where there are none, else 0. */
int vulkan_start(void);
/* vkDeviceWaitIdle, which the driver does not use. */
PFN_vkDeviceWaitIdle vulkan_wait_idle(void);
/* A test: the layer had nothing to say. */
void has_nothing_to_say(void **state);

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

/* Checks that several programs use. */
void check_writes_and_reads(driver_device *device);
void check_chain(driver_device *device);

#endif
#endif
