/* Shared fixtures of tests that need devices: see the header. */
#define _GNU_SOURCE 1 /* program_invocation_short_name */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "each_device.h"

static char folder[64], subfolder[600]; /* "": not in use */
static char shared[512];                /* the cache folder that was set before the first fresh one; "": none */

int use_empty_cache(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tuff-test-XXXXXX");
    return mkdtemp(folder) && setenv("TUFF_CACHE_DIR", folder, 1) == 0 ? 0 : -1;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

/* Copies what compiling and the self-test left in a cache folder into another one. Copies, because the cache refuses
   files that have a second link. A file that is cut short is just made again. */
static void copy_programs(const char *from, const char *to)
{
    static unsigned char bytes[1 << 20];
    DIR *directory = from[0] ? opendir(from) : NULL;
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        char path[1024];
        if (!ends_with(entry->d_name, ".program") && !ends_with(entry->d_name, ".device"))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", from, entry->d_name);
        FILE *file = fopen(path, "rb");
        const size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
        if (file)
            (void)fclose(file);
        (void)snprintf(path, sizeof path, "%s/%s", to, entry->d_name);
        file = size > 0 && size < sizeof bytes ? fopen(path, "wb") : NULL;
        if (!file)
            continue;
        (void)fwrite(bytes, 1, size, file);
        (void)fclose(file);
    }
    if (directory)
        (void)closedir(directory);
}

int use_fresh_cache(void **state)
{
    static bool is_known;
    const char *before = getenv("TUFF_CACHE_DIR");
    if (!is_known && before && strlen(before) < sizeof shared)
        strcpy(shared, before);
    is_known = true;
    if (use_empty_cache(state) != 0)
        return -1;
    copy_programs(shared, folder);
    return 0;
}

/* Removes an entry of a cache folder. Compiled programs that the shared cache lacks move there if it is on the same
   disk. */
static int remove_one(const char *path, const struct stat *status, int type, struct FTW *position)
{
    (void)status;
    (void)type;
    char to[1024];
    (void)snprintf(to, sizeof to, "%s/%s", shared, path + position->base);
    const bool is_kept = shared[0] && ends_with(path, ".program") && link(path, to) == 0;
    (void)is_kept; /* a program that is not shared is compiled again */
    return remove(path);
}

int drop_cache(void **state)
{
    (void)state;
    subfolder[0] = '\0';
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *cache_folder(void)
{
    return folder;
}

void use_cache_subfolder(const char *name)
{
    char before[600];
    strcpy(before, subfolder[0] ? subfolder : folder);
    (void)snprintf(subfolder, sizeof subfolder, "%s/%s", folder, name);
    assert_int_equal(setenv("TUFF_CACHE_DIR", subfolder, 1), 0);
    if (shared[0] && mkdir(subfolder, 0700) == 0)
        copy_programs(before, subfolder);
}

int count_cache_files(const char *suffix, char *path, size_t size)
{
    int count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        if (!ends_with(entry->d_name, suffix))
            continue;
        count++;
        if (path)
            snprintf(path, size, "%s/%s", folder, entry->d_name);
    }
    closedir(directory);
    return count;
}

void forget_cache_files(const char *suffix)
{
    char path[512];
    while (count_cache_files(suffix, path, sizeof path) > 0)
        assert_int_equal(unlink(path), 0);
}

/* The length of "opencl" in "opencl:0". */
static size_t api_length(const char *selector)
{
    return strcspn(selector, ":");
}

/* Counts the devices of a selector's API, and how many of them come before the selector's. */
static int count_of_api(const char *selector, int *before)
{
    int count = 0;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (strncmp(info.selector, selector, api_length(selector) + 1) != 0)
            continue;
        if (strcmp(info.selector, selector) == 0)
            *before = count;
        count++;
    }
    return count;
}

bool is_thorough(void)
{
    const char *suite = getenv("TUFF_SUITE");
    return suite && strcmp(suite, "thorough") == 0;
}

uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *value = getenv(variable);
    return value && value[0] ? strtoull(value, NULL, 10) : otherwise;
}

uint64_t test_seed(void)
{
    static uint64_t seed;
    static bool is_known;
    if (!is_known) {
        seed = number_from("TUFF_TEST_SEED", (uint64_t)time(NULL));
        is_known = true;
        print_message("TUFF_TEST_SEED=%" PRIu64 " repeats what this run draws\n", seed);
    }
    return seed;
}

int drawn_turn(const char *question, int number, int count)
{
    const int32_t block = number / count;
    uint64_t hash = tuff__hash64(question, strlen(question), test_seed());
    hash = tuff__hash64(program_invocation_short_name, strlen(program_invocation_short_name), hash);
    hash = tuff__hash64(&block, sizeof block, hash);
    return (int)(((uint64_t)(number % count) + hash % (uint64_t)count) % (uint64_t)count);
}

static bool is_last_driver_of_api(const char *selector)
{
    int before = 0;
    return count_of_api(selector, &before) == before + 1;
}

static bool is_device_chosen(void)
{
    const char *chosen = getenv("TUFF_DEVICE");
    return chosen && chosen[0];
}

/* Whether a number draws the device of a selector among those of its API. */
static bool is_drawn_driver_of_api(const char *selector, int number)
{
    char api[16];
    int before = 0;
    const int count = count_of_api(selector, &before);
    (void)snprintf(api, sizeof api, "%.*s", (int)api_length(selector), selector);
    return count == 0 || drawn_turn(api, number, count) == before;
}

/* Whether a number draws the device of a selector among all drivers. */
static bool is_drawn(const char *selector, int number)
{
    int count = 0, before = 0;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (info.device_class == TUFF_DEVICE_REFERENCE)
            continue;
        if (strcmp(info.selector, selector) == 0)
            before = count;
        count++;
    }
    return count == 0 || drawn_turn("driver", number, count) == before;
}

bool is_drawn_for_device(const tuff_device *device, int number)
{
    return is_thorough() || is_device_chosen() || is_drawn(tuff__device_info(device)->selector, number);
}

bool is_one_of_two_drawn(const tuff_device *device, int number)
{
    return is_drawn_for_device(device, number) &&
           (is_thorough() || is_device_chosen() || drawn_turn("one of two", number, 2) == 0);
}

bool is_drawn_for_device_per_api(const tuff_device *device, int number)
{
    return is_thorough() || is_device_chosen() || is_drawn_driver_of_api(tuff__device_info(device)->selector, number);
}

bool is_drawn_for_api(const tuff_device *device, int number)
{
    int before = 0;
    const int first = count_of_api("opencl:", &before), second = count_of_api("vulkan:", &before);
    const int own = strcmp(tuff__device_language(device), "GLSL") == 0;
    return is_thorough() || is_device_chosen() || first == 0 || second == 0 || drawn_turn("API", number, 2) == own;
}

typedef enum device_set { ALL_DEVICES, ALL_DRIVERS, DRAWN_DEVICES, DRAWN_DRIVERS, LAST_DRIVERS } device_set;

static bool is_left_out;

void leave_out_device(const char *reason)
{
    print_message("    left out: %s\n", reason);
    is_left_out = true;
}

tuff_device_info claims_of(const tuff_device *device)
{
    tuff_device_info claims;
    for (int i = 0; i < tuff_device_count(); i++)
        if (tuff_device_describe_at(i, &claims) == TUFF_OK &&
            strcmp(claims.selector, tuff__device_info(device)->selector) == 0)
            return claims;
    fail_msg("%s is no longer there", tuff__device_info(device)->selector);
    return (tuff_device_info){0};
}

/* Whether a device belongs to a set. All tests of a program draw the same driver, so that each test reuses the kernels
   that earlier ones compiled. */
static bool is_among(device_set which, const tuff_device_info *info)
{
    if (info->device_class == TUFF_DEVICE_REFERENCE)
        return which == ALL_DEVICES || which == DRAWN_DEVICES;
    if (which == DRAWN_DRIVERS || which == DRAWN_DEVICES)
        return is_drawn(info->selector, 0);
    return which != LAST_DRIVERS || is_last_driver_of_api(info->selector);
}

/* Runs test on each device of a set; if turn is not negative, only on the API that it draws. */
static void for_each(void (*test)(tuff_device *device), device_set which, int turn)
{
    int ran = 0;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (!is_among(which, &info))
            continue;
        print_message("  %s: %s\n", info.selector, info.name);
        tuff_device *device = tuff_device_open(info.selector);
        if (!device)
            fail_msg("%s: %s", info.selector, tuff_error());
        is_left_out = turn >= 0 && !is_drawn_for_api(device, turn);
        const clock_t begin = clock();
        if (!is_left_out)
            test(device);
        print_message("    %.1f s of processor time\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
        ran += !is_left_out;
        tuff_device_close(device);
    }
    if (ran == 0)
        skip();
}

void for_each_device(void (*test)(tuff_device *device))
{
    for_each(test, ALL_DEVICES, -1);
}

void for_each_driver(void (*test)(tuff_device *device))
{
    for_each(test, ALL_DRIVERS, -1);
}

void for_drawn_drivers(void (*test)(tuff_device *device))
{
    for_each(test, is_thorough() ? ALL_DRIVERS : DRAWN_DRIVERS, -1);
}

void for_drawn_devices(void (*test)(tuff_device *device))
{
    for_each(test, is_thorough() ? ALL_DEVICES : DRAWN_DEVICES, -1);
}

void for_each_api(void (*test)(tuff_device *device))
{
    for_each(test, is_thorough() ? ALL_DRIVERS : LAST_DRIVERS, -1);
}

void for_drawn_api(int number, void (*test)(tuff_device *device))
{
    for_each(test, is_thorough() ? ALL_DRIVERS : LAST_DRIVERS, number);
}

program_request test_request(tuff_device *device, test_kernel *kernel, const char *name, const char *statement)
{
    if (strcmp(tuff__device_language(device), "GLSL") == 0)
        snprintf(kernel->text, sizeof kernel->text,
                 "#version 450\nlayout(local_size_x = 32) in;\n"
                 "layout(std430, set = 0, binding = 0) buffer X { uint x[]; };\n"
                 "layout(push_constant) uniform P { uint count; uint base; };\n"
                 "void main()\n{\n"
                 "    uint group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x + base;\n"
                 "    uint i = group * 32u + gl_LocalInvocationID.x;\n"
                 "    if (i < count) { %s }\n}\n",
                 statement);
    else
        snprintf(kernel->text, sizeof kernel->text,
                 "__kernel __attribute__((reqd_work_group_size(32, 1, 1)))\n"
                 "void %s(__global uint *x, uint count, uint base)\n{\n"
                 "    uint group = (uint)get_group_id(0) + base;\n"
                 "    uint i = group * 32u + (uint)get_local_id(0);\n"
                 "    if (i < count) { %s }\n}\n",
                 name, statement);
    return (program_request){
        .name = name, .text = kernel->text, .buffer_count = 1, .word_count = 2, .local_size = TEST_GROUP};
}

void make_kernel(tuff_device *device, test_kernel *kernel, const char *name, const char *statement)
{
    program_request request = test_request(device, kernel, name, statement);
    if (tuff__program_get(device, &request, &kernel->program) != TUFF_OK)
        fail_msg("%s: %s", name, tuff_error());
}

buffer_binding buffer_range(storage *memory, uint64_t offset, uint64_t size, bool written)
{
    return (buffer_binding){tuff__storage_buffer(memory), offset, size, written};
}

command dispatch_over(tuff_device *device, const test_kernel *kernel, storage *memory, uint32_t count)
{
    (void)device;
    command dispatch = {.kind = COMMAND_DISPATCH,
                        .program = tuff__program_driver(kernel->program),
                        .group_count = (count + TEST_GROUP - 1) / TEST_GROUP,
                        .binding_count = 1,
                        .word_count = 2,
                        .words = {count, 0}};
    dispatch.bindings[0] = buffer_range(memory, 0, (uint64_t)count * 4, true);
    return dispatch;
}

void run_commands(command *commands, int count, tuff_device *device, int times)
{
    recording *recorded = NULL;
    if (tuff__recording_create(device, commands, count, false, false, &recorded) != TUFF_OK)
        fail_msg("%s", tuff_error());
    for (int i = 0; i < times; i++)
        if (tuff__submit(device, recorded) != TUFF_OK)
            fail_msg("%s", tuff_error());
    if (tuff__wait(device) != TUFF_OK)
        fail_msg("%s", tuff_error());
    tuff__recording_destroy(device, recorded);
}

storage *make_words(tuff_device *device, uint32_t count)
{
    storage *memory = NULL;
    if (tuff__storage_create(device, (uint64_t)count * 4, true, &memory) != TUFF_OK)
        fail_msg("%s", tuff_error());
    return memory;
}

void write_words(tuff_device *device, storage *memory, const uint32_t *words, uint32_t count)
{
    assert_int_equal(tuff__storage_write(device, memory, 0, words, (uint64_t)count * 4), TUFF_OK);
}

void read_words(tuff_device *device, storage *memory, uint32_t *words, uint32_t count)
{
    assert_int_equal(tuff__storage_read(device, memory, 0, words, (uint64_t)count * 4), TUFF_OK);
}
