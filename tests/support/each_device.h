/* Shared fixtures of tests that need devices: loops over the devices found, a cache folder of their own, and small
   kernels in both languages. */
#ifndef TUFF_TESTS_EACH_DEVICE_H
#define TUFF_TESTS_EACH_DEVICE_H

#include "device/device.h"

/* Set-up and tear-down of test groups: creates a cache folder and sets TUFF_CACHE_DIR to it; drop_cache removes it.
   use_fresh_cache takes the self-test records and the compiled programs of the previous cache folder, which all tests
   share, and drop_cache adds those that were compiled since: compiling takes most of the tests' time. use_empty_cache
   takes and adds nothing: for tests that replace what is compiled. */
int use_fresh_cache(void **state);
int use_empty_cache(void **state);
int drop_cache(void **state);
const char *cache_folder(void);
/* Sets TUFF_CACHE_DIR to the subfolder `name` of the cache folder from here on, which shares the compiled programs. */
void use_cache_subfolder(const char *name);
/* Counts the files of the cache folder whose names end with suffix; path gets the last one found. */
int count_cache_files(const char *suffix, char *path, size_t size);
void forget_cache_files(const char *suffix);

/* Opens every device that tuff_device_count reports, one after the other, and runs test on it. Fails if one does not
   open. */
void for_each_device(void (*test)(tuff_device *device));
/* The same for drivers only, that is, without the reference device. Skips the test if there is none, which jumps out of
   the caller: it must hold nothing that it would release afterwards. */
void for_each_driver(void (*test)(tuff_device *device));
/* Called instead of a check for which a device lacks something; the function that a for_each loop called then returns.
   If this happens on all devices, the loop skips the test. */
void leave_out_device(const char *reason);
/* Returns what the driver reports about a device, without what its self-test proved. */
tuff_device_info claims_of(const tuff_device *device);

/* Compiling kernels takes most of the time, and all drivers of an API get the same source texts. Each run therefore
   draws which cases it tries on which device, and a few runs together try everything on each. TUFF_TEST_SEED repeats
   the draws of a run, which prints its seed; the default seed is the time. TUFF_SUITE=thorough leaves nothing out. */
bool is_thorough(void);
uint64_t test_seed(void);
/* Returns an environment variable as a number, or otherwise if it is not set. */
uint64_t number_from(const char *variable, uint64_t otherwise);
/* Draws a number below count for `number` from the seed. Of count successive numbers, beginning with a multiple of
   count, each gets a different one. Draws for different questions are independent, and so are those of two programs, so
   that a slow driver is not drawn by all programs of a run. */
int drawn_turn(const char *question, int number, int count);
/* Whether an item runs on a device: each item is drawn for one driver; all run if TUFF_DEVICE selects a device. */
bool is_drawn_for_device(const tuff_device *device, int number);
/* The same, but of two successive items only one is drawn: for tables of cases that take long to compile. */
bool is_one_of_two_drawn(const tuff_device *device, int number);
/* As is_drawn_for_device, but each item is drawn for one driver of every API: for features that only one language
   has. */
bool is_drawn_for_device_per_api(const tuff_device *device, int number);
/* Whether an item that runs on a single driver of any API is drawn for the device's API. */
bool is_drawn_for_api(const tuff_device *device, int number);
/* For tests that hardly depend on the device: run on one driver, drawn per program, or on all in a thorough run. Skip
   as for_each_driver does. for_drawn_devices adds the reference. */
void for_drawn_drivers(void (*test)(tuff_device *device));
void for_drawn_devices(void (*test)(tuff_device *device));
/* The same, but on the last driver of each API: for tests of tuning, which must finish in time, and for kernels
   that drivers take long to compile. */
void for_each_api(void (*test)(tuff_device *device));
/* For tests that hardly depend on the API either: runs on the last driver of the API that is drawn for the number, or
   on all drivers in a thorough run. */
void for_drawn_api(int number, void (*test)(tuff_device *device));

/* A kernel over one buffer of 32-bit unsigned words, 32 work-items per group: runs statement on x[i] for each i <
   count. The statement is in the common subset of OpenCL C and GLSL. */
typedef struct test_kernel {
    program *program;
    char text[2048];
} test_kernel;
enum { TEST_GROUP = 32 };
program_request test_request(tuff_device *device, test_kernel *kernel, const char *name, const char *statement);
void make_kernel(tuff_device *device, test_kernel *kernel, const char *name, const char *statement);

/* Returns a dispatch of kernel over the first count words of memory. */
command dispatch_over(tuff_device *device, const test_kernel *kernel, storage *memory, uint32_t count);
buffer_binding buffer_range(storage *memory, uint64_t offset, uint64_t size, bool written);

/* Records the commands, submits them `times` times, waits, and destroys the recording. */
void run_commands(command *commands, int count, tuff_device *device, int times);

storage *make_words(tuff_device *device, uint32_t count);
void write_words(tuff_device *device, storage *memory, const uint32_t *words, uint32_t count);
void read_words(tuff_device *device, storage *memory, uint32_t *words, uint32_t count);

#endif
