/* What tests of devices share: a loop over every device found, a cache folder of their own, and small kernels in both
   languages. */
#ifndef TUFF_TESTS_EACH_DEVICE_H
#define TUFF_TESTS_EACH_DEVICE_H

#include "device/device.h"

/* Makes a folder and sets TUFF_CACHE_DIR to it; removed by drop_cache. Groups of tests use them as set-up and
   tear-down. Into a fresh cache go the records of the self-tests from the folder that was named before: without them
   each device begins with a dozen programs, which no test but those of the self-test is about. An empty one has
   nothing. */
int use_fresh_cache(void **state);
int use_empty_cache(void **state);
int drop_cache(void **state);
const char *cache_folder(void);
/* TUFF_CACHE_DIR is a folder of that name in it from here on. */
void use_folder(const char *name);
/* Files of the cache folder whose names end with suffix; path of the last one found. */
int count_cache_files(const char *suffix, char *path, size_t size);
void forget_cache_files(const char *suffix);

/* Opens every device that tuff_device_count finds, one after the other, and fails where one does not open. */
void for_each_device(void (*test)(tuff_device *device));
/* The same without the reference device: those that take kernels. Skips the test where there is none, so that nothing
   may be held that the caller would release afterwards. */
void for_each_driver(void (*test)(tuff_device *device));
/* Called in place of a check that a device lacks something for, before the function that the loops above and below call
   returns. Where that was so for all devices, the loop skips the test. */
void leave_out_device(const char *reason);

/* Compiling programs is what takes the time, and all drivers of an API are given the same texts, so that a run draws
   what it tries on which device, and a few runs together try everything on each. TUFF_TEST_SEED repeats the draws of
   a run, which prints it; where it is not set, the seed is the time. TUFF_SUITE=thorough leaves nothing out. */
bool is_thorough(void);
uint64_t test_seed(void);
/* An environment variable as a number. */
uint64_t number_from(const char *variable, uint64_t otherwise);
/* One of the numbers below count, drawn for a number by the seed. Of count successive numbers, beginning with a
   multiple of count, each is given another one. Draws for different questions do not depend on each other, nor do those
   of two programs: a run has no slow driver in all of them. */
int drawn_turn(const char *question, int number, int count);
/* Whether an item is run on a device: each is drawn for one driver; all are where TUFF_DEVICE chooses a device. */
bool is_its_turn(const tuff_device *device, int number);
/* The same with one driver of every API: for what only one language has. */
bool is_its_turn_of_api(const tuff_device *device, int number);
/* Whether an item that is run on one driver only, of either API, is drawn for the device's API. */
bool is_turn_of_api(const tuff_device *device, int number);
/* What depends on devices little: one driver of each API, drawn for the program; all in a thorough run. Skips as
   for_each_driver does. for_drawn_devices: the reference as well. */
void for_drawn_drivers(void (*test)(tuff_device *device));
void for_drawn_devices(void (*test)(tuff_device *device));
/* The same with the last driver of each API, always: for tests of tuning, which must be done in time, and what drivers
   need long to compile. */
void for_each_api(void (*test)(tuff_device *device));
/* What depends on APIs little, too: the last driver of the API that is drawn for the number, of both in a thorough
   run. */
void for_api_in_turn(int number, void (*test)(tuff_device *device));

/* A kernel over one buffer of 32-bit words, 32 items a group: for each i < count, statement on x[i], in the common
   subset of both languages. OpenCL C: words are uint; so they are in GLSL. */
typedef struct test_kernel {
    program *program;
    char text[2048];
} test_kernel;
enum { TEST_GROUP = 32 };
program_request test_request(tuff_device *device, test_kernel *kernel, const char *name, const char *statement);
void make_kernel(tuff_device *device, test_kernel *kernel, const char *name, const char *statement);

/* A dispatch of kernel over the first count words of memory from byte offset on. */
command dispatch_over(tuff_device *device, const test_kernel *kernel, storage *memory, uint32_t count);
buffer_binding range_of(storage *memory, uint64_t offset, uint64_t size, bool written);

/* Records, submits times over, waits, destroys. */
void run_commands(command *commands, int count, tuff_device *device, int times);

storage *make_words(tuff_device *device, uint32_t count);
void write_words(tuff_device *device, storage *memory, const uint32_t *words, uint32_t count);
void read_words(tuff_device *device, storage *memory, uint32_t *words, uint32_t count);

#endif
