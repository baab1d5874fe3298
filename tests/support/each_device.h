/* What tests of devices share: a loop over every device found, a cache folder of their own, and small kernels in both
   languages. */
#ifndef TUFF_TESTS_EACH_DEVICE_H
#define TUFF_TESTS_EACH_DEVICE_H

#include "device/device.h"

/* Makes an empty folder and sets TUFF_CACHE_DIR to it; removed by drop_cache. Groups of tests use them as set-up and
   tear-down. */
int use_fresh_cache(void **state);
int drop_cache(void **state);
const char *cache_folder(void);
/* TUFF_CACHE_DIR is a folder of that name in it from here on. */
void use_folder(const char *name);
/* Files of the cache folder whose names end with suffix; path of the last one found. */
int count_cache_files(const char *suffix, char *path, size_t size);
void forget_cache_files(const char *suffix);

/* Opens every device that tuff_device_count finds, one after the other, and fails where one does not open. */
void for_each_device(void (*test)(tuff_device *device));
/* The same without the reference device: those that take kernels. */
void for_each_driver(void (*test)(tuff_device *device));
/* Whether nothing is to be left out for the time it takes: TUFF_SUITE=thorough. */
bool is_thorough(void);
/* Compiling programs is what takes the time, and all drivers of an API are given the same texts: so the items of long
   lists take turns over them. Whether this one is the device's; all are in a thorough run, where TUFF_DEVICE chooses a
   device, and where its API has no other. */
bool is_its_turn(const tuff_device *device, int number);
/* The same over the APIs, for what one driver of each runs: whether it is the device's. */
bool is_turn_of_api(const tuff_device *device, int number);
/* What depends on devices little: one driver of each API, or all in a thorough run. */
void for_each_api(void (*test)(tuff_device *device));
/* What depends on APIs little, too: one driver of the API whose turn it is by the number, of both in a thorough run. */
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
