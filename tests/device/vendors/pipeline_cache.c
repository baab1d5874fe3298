/* Pipelines that a Vulkan driver compiled are kept for later processes: on a fake driver that counts what it compiles.
   Closing and opening the device stands for the next process, because nothing else of a pipeline stays. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "each_device.h"

#if (!defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN) && (!defined(TUFF_WITH_SHADERC) || TUFF_WITH_SHADERC)
#include "base/alloc.h"
#include "device/cache/program_cache.h"
#include "device/state.h"
#include "device/vulkan/state.h"
#include "fake_vulkan.h"
#include "faulty_files.h"
#include "tuff/interop.h"

/* On the last one two pipelines exceed the limit of the file, 64 MiB, and one does not. */
#define PHONE                                                                 \
    .name = "Mali-G78", .driver = "Mali", .vendor = 0x13b5, .id = 0x92020010, \
    .type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, .memory = (uint64_t)1 << 30, .maps_all = true, .width = 16
static const fake_vulkan_device devices[] = {{PHONE, .pipeline_size = 1000},
                                             {PHONE, .pipeline_size = 1000, .version = 1},
                                             {PHONE, .version = 2},
                                             {PHONE, .pipeline_size = 40 << 20, .version = 3}};
enum { MALI, MALI_OF_NEW_DRIVER, WITHOUT_DATA, WITH_LARGE_PIPELINES };

static char messages[4096]; /* about caches */

static void record_message(void *user, tuff_log_level level, const char *message)
{
    (void)user, (void)level;
    const size_t length = strlen(messages);
    if (strstr(message, "cache"))
        snprintf(messages + length, sizeof messages - length, "%s\n", message);
}

/* Opens a device and forgets the counts of its self-test. */
static tuff_device *open_fake(int index)
{
    char selector[32];
    snprintf(selector, sizeof selector, "vulkan:%d", index);
    messages[0] = 0;
    tuff_device *device = tuff_device_open(selector);
    if (!device)
        fail_msg("%s: %s", selector, tuff_error());
    fake_vulkan.compiled = fake_vulkan.reused = 0;
    return device;
}

static void make_program(tuff_device *device, int number)
{
    char statement[64];
    test_kernel kernel;
    snprintf(statement, sizeof statement, "x[i] = i + %du;", number);
    make_kernel(device, &kernel, "add", statement);
    tuff__program_release(device, kernel.program);
}

/* Makes programs of these numbers; expects how many of them are compiled. */
static void make_programs(tuff_device *device, int from, int to, int compiled)
{
    const int before = fake_vulkan.compiled, reused = fake_vulkan.reused;
    for (int i = from; i < to; i++)
        make_program(device, i);
    assert_int_equal(fake_vulkan.compiled - before, compiled);
    assert_int_equal(fake_vulkan.reused - reused, to - from - compiled);
}

static void use_device(int index, int from, int to, int compiled)
{
    const int caches = fake_vulkan.caches;
    tuff_device *device = open_fake(index);
    make_programs(device, from, to, compiled);
    tuff_device_close(device);
    assert_int_equal(fake_vulkan.caches, caches);
    assert_int_equal(fake_vulkan.foreign, 0);
}

static int count_files(void)
{
    return count_cache_files(".pipelines", NULL, 0);
}

static struct stat file_status(void)
{
    char path[512];
    struct stat status;
    assert_int_equal(count_cache_files(".pipelines", path, sizeof path), 1);
    assert_int_equal(stat(path, &status), 0);
    return status;
}

/* Each test begins without a file, after the self-tests. */
static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        tuff_device_close(tuff_device_open((const char *[]){"vulkan:0", "vulkan:1", "vulkan:2", "vulkan:3"}[i]));
    forget_cache_files(".pipelines");
    fake_vulkan.merges = fake_vulkan.foreign = 0;
    tuff_set_log(record_message, NULL);
    return 0;
}

static void pipelines_are_compiled_once(void **state)
{
    (void)state;
    use_device(MALI, 0, 5, 5);
    assert_int_equal(file_status().st_mode & 0777, 0600);
    const ino_t file = file_status().st_ino;
    use_device(MALI, 0, 5, 0);
    assert_int_equal(file_status().st_ino, file); /* nothing was new: it was not written again */
    use_device(MALI, 3, 7, 2);
    use_device(MALI, 0, 7, 0);
    assert_int_equal(fake_vulkan.merges, 0); /* no other process wrote the file */
}

/* A driver that is updated, or another driver for the same card: each has a file. */
static void each_driver_has_its_own(void **state)
{
    (void)state;
    use_device(MALI, 0, 5, 5);
    use_device(MALI_OF_NEW_DRIVER, 0, 5, 5);
    assert_int_equal(count_files(), 2);
    use_device(MALI, 0, 5, 0);
    use_device(MALI_OF_NEW_DRIVER, 0, 5, 0);
}

static void change_byte(long at)
{
    char path[512];
    assert_int_equal(count_cache_files(".pipelines", path, sizeof path), 1);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 4, file), EOF);
    assert_int_equal(fclose(file), 0);
}

static void a_damaged_file_is_refused_and_replaced(void **state)
{
    (void)state;
    use_device(MALI, 0, 5, 5);
    const long size = (long)file_status().st_size, places[] = {0, 8, 24, 45, size / 2, size - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        change_byte(places[i]);
        use_device(MALI, 0, 5, 5);
        assert_non_null(strstr(messages, "ignoring cache entry"));
        use_device(MALI, 0, 5, 0);
        assert_string_equal(messages, "");
    }
    char path[512];
    assert_int_equal(count_cache_files(".pipelines", path, sizeof path), 1);
    assert_int_equal(truncate(path, size - 1000), 0);
    use_device(MALI, 0, 5, 5);
    assert_non_null(strstr(messages, "ignoring cache entry"));
    use_device(MALI, 0, 5, 0);
}

/* Stores data under the device's key, intact as a file. */
static void store_data(const void *data, size_t size)
{
    tuff_device *device = open_fake(MALI);
    assert_true(tuff__program_cache_store((cache_key){"pipelines", device->handle->pipelines.key},
                                          (blob){(void *)(uintptr_t)data, size}));
    tuff_device_close(device);
}

/* A header consists of its size, a version, vendor, device, and the UUID, which is 0 here except for its first byte.
   Data that are not this driver's never reach it. */
static void data_of_another_driver_are_refused_and_replaced(void **state)
{
    (void)state;
    static const uint32_t good[64] = {32, 1, 0x13b5, 0x92020010};
    const uint32_t wrong[][2] = {{0, 31}, {0, 257}, {1, 2}, {2, 0x10de}, {3, 7}, {4, 1}, {7, 1u << 31}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint32_t changed[64];
        memcpy(changed, good, sizeof good);
        changed[wrong[i][0]] = wrong[i][1];
        store_data(changed, sizeof changed);
        use_device(MALI, 0, 5, 5);
        assert_non_null(strstr(messages, "another driver made them"));
        use_device(MALI, 0, 5, 0);
        assert_string_equal(messages, "");
    }
    store_data(good, 31);
    use_device(MALI, 0, 5, 5);
    assert_non_null(strstr(messages, "another driver made them"));
    store_data(good, 32); /* a header without pipelines is harmless */
    use_device(MALI, 0, 5, 5);
    assert_string_equal(messages, "");
}

static void two_devices_keep_the_pipelines_of_both(void **state)
{
    (void)state;
    tuff_device *first = open_fake(MALI), *second = open_fake(MALI);
    make_programs(first, 0, 5, 5);
    make_programs(second, 3, 9, 6);
    tuff_device_close(first);
    tuff_device_close(second);
    assert_int_equal(fake_vulkan.merges, 1);
    use_device(MALI, 0, 9, 0);
    /* What was merged into the file is merged again as long as the device lives, because its own cache lacks it. */
    first = open_fake(MALI), second = open_fake(MALI);
    make_programs(first, 20, 25, 5);
    tuff_device_close(first);
    make_programs(second, 30, 46, 16); /* saves */
    make_programs(second, 46, 50, 4);
    tuff_device_close(second);
    use_device(MALI, 0, 9, 0);
    use_device(MALI, 20, 25, 0);
    use_device(MALI, 30, 50, 0);
}

/* A process that is killed loses at most 15 pipelines, or a quarter of what it saved. */
static void pipelines_are_saved_before_the_end(void **state)
{
    (void)state;
    tuff_device *killed = open_fake(MALI);
    make_programs(killed, 0, 15, 15);
    assert_int_equal(count_files(), 0);
    make_programs(killed, 15, 100, 85);
    use_device(MALI, 0, 80, 0);
    tuff_device_close(killed);
    use_device(MALI, 0, 100, 0);
}

/* Ends a child process before each operation on files of a save. */
static void a_killed_save_leaves_the_old_file(void **state)
{
    (void)state;
    use_device(MALI, 0, 5, 5);
    const struct stat before = file_status();
    int ended = 0;
    for (int operation = 1; ended == 0; operation++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            tuff_device *device = open_fake(MALI);
            for (int i = 5; i < 12; i++)
                make_program(device, i);
            faulty_files_begin(FAULT_EXIT, operation, false);
            tuff_device_close(device);
            (void)faulty_files_end();
            _exit(1);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        ended = WEXITSTATUS(status);
        if (ended == 0 && file_status().st_ino == before.st_ino)
            assert_int_equal(file_status().st_size, before.st_size);
        assert_true(operation < 100);
        use_device(MALI, 0, 5, 0);
    }
    use_device(MALI, 0, 12, 0);
}

static void a_driver_without_data_leaves_no_file(void **state)
{
    (void)state;
    use_device(WITHOUT_DATA, 0, 20, 20);
    use_device(WITHOUT_DATA, 0, 20, 20);
    assert_int_equal(count_files(), 0);
}

static void there_is_none_without_a_folder(void **state)
{
    (void)state;
    tuff_device *device = open_fake(MALI);
    assert_true(tuff__device_has_pipeline_cache(device));
    make_programs(device, 0, 5, 5);
    const char *const settings[] = {"", "/dev/null/nowhere"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(setenv("TUFF_CACHE_DIR", settings[i], 1), 0);
        tuff_device *off = open_fake(MALI);
        assert_false(tuff__device_has_pipeline_cache(off));
        assert_int_equal(fake_vulkan.caches, 1);
        make_programs(off, 0, 20, 20);
        tuff_device_close(off);
    }
    tuff_device_close(device); /* it was turned off meanwhile */
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
    assert_int_equal(count_files(), 0);
}

/* Each operation on files that a save needs fails, as in a folder that cannot be written to. */
static void a_folder_that_cannot_be_written_is_read(void **state)
{
    (void)state;
    use_device(MALI, 0, 5, 5);
    const struct stat before = file_status();
    tuff_device *device = open_fake(MALI);
    make_programs(device, 0, 15, 10);
    faulty_files_begin(FAULT_EIO, 1, true);
    make_programs(device, 15, 40, 25);
    tuff_device_close(device);
    assert_true(faulty_files_end());
    assert_int_equal(file_status().st_ino, before.st_ino);
    use_device(MALI, 0, 5, 0);
    use_device(MALI, 5, 40, 35);
}

static void failures_of_the_driver_are_no_errors(void **state)
{
    (void)state;
    use_device(MALI, 0, 5, 5);
    fake_vulkan.refuses_data = true;
    use_device(MALI, 0, 6, 6);
    fake_vulkan.refuses_data = false;
    fake_vulkan.refuses_caches = true;
    tuff_device *device = open_fake(MALI);
    assert_false(tuff__device_has_pipeline_cache(device));
    assert_non_null(strstr(messages, "no pipelines are cached"));
    make_programs(device, 0, 20, 20);
    fake_vulkan.refuses_caches = false;
    tuff_device_close(device);
    use_device(MALI, 0, 6, 0);
    /* Another thread adds pipelines between the two calls that read the data: once, and then always. */
    device = open_fake(MALI);
    make_programs(device, 6, 8, 2);
    fake_vulkan.short_sizes = 2;
    tuff_device_close(device);
    use_device(MALI, 6, 8, 0);
    device = open_fake(MALI);
    make_programs(device, 8, 10, 2);
    fake_vulkan.short_sizes = 1000;
    tuff_device_close(device);
    fake_vulkan.short_sizes = 0;
    use_device(MALI, 0, 10, 2);
}

static void a_file_that_grows_too_large_is_begun_anew(void **state)
{
    (void)state;
    use_device(WITH_LARGE_PIPELINES, 0, 1, 1);
    use_device(WITH_LARGE_PIPELINES, 0, 1, 0);
    use_device(WITH_LARGE_PIPELINES, 0, 2, 1);
    assert_non_null(strstr(messages, "begun anew"));
    assert_int_equal(count_files(), 0);
    use_device(WITH_LARGE_PIPELINES, 1, 2, 1);
    use_device(WITH_LARGE_PIPELINES, 1, 2, 0);
}

/* Threads of their own compile, and save in between. */
static void threads_share_it(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    static test_kernel kernels[COUNT];
    program_request requests[COUNT];
    program *made[COUNT] = {NULL};
    tuff_device *device = open_fake(MALI);
    for (int i = 0; i < COUNT; i++) {
        char statement[64];
        snprintf(statement, sizeof statement, "x[i] = i + %du;", i);
        requests[i] = test_request(device, &kernels[i], "add", statement);
    }
    tuff__programs_prepare(device, requests, COUNT, made);
    for (int i = 0; i < COUNT; i++) {
        assert_non_null(made[i]);
        tuff__program_release(device, made[i]);
    }
    assert_int_equal(fake_vulkan.compiled, COUNT);
    assert_int_equal(count_files(), 1);
    tuff_device_close(device);
    use_device(MALI, 0, COUNT, 0);
}

/* An application's own VkDevice: a VkPipelineCache of its own, and the file of its driver. */
static void a_wrapped_device_has_its_own(void **state)
{
    (void)state;
    tuff_vulkan_handles handles;
    tuff_device *owner = open_fake(MALI);
    assert_int_equal(tuff_device_unwrap_vulkan(owner, &handles), TUFF_OK);
    tuff_device *wrapped = tuff_device_wrap_vulkan(&handles);
    if (!wrapped)
        fail_msg("%s", tuff_error());
    assert_true(tuff__device_has_pipeline_cache(wrapped));
    assert_int_equal(fake_vulkan.caches, 2);
    fake_vulkan.compiled = fake_vulkan.reused = 0;
    make_programs(wrapped, 0, 5, 5);
    make_programs(owner, 4, 6, 2);
    tuff_device_close(wrapped);
    tuff_device_close(owner);
    use_device(MALI, 0, 6, 0);
}

/* The tuner's limit for compiled programs holds for pipelines too. */
static void old_pipelines_make_way(void **state)
{
    (void)state;
    use_device(MALI, 0, 5, 5);
    tuff__program_cache_trim(1 << 30);
    assert_int_equal(count_files(), 1);
    tuff__program_cache_trim(0);
    assert_int_equal(count_files(), 0);
    use_device(MALI, 0, 5, 5);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pipelines_are_compiled_once),
        TEST(each_driver_has_its_own),
        TEST(a_damaged_file_is_refused_and_replaced),
        TEST(data_of_another_driver_are_refused_and_replaced),
        TEST(two_devices_keep_the_pipelines_of_both),
        TEST(pipelines_are_saved_before_the_end),
        TEST(a_killed_save_leaves_the_old_file),
        TEST(a_driver_without_data_leaves_no_file),
        TEST(there_is_none_without_a_folder),
        TEST(a_folder_that_cannot_be_written_is_read),
        TEST(failures_of_the_driver_are_no_errors),
        TEST(a_file_that_grows_too_large_is_begun_anew),
        TEST(threads_share_it),
        TEST(a_wrapped_device_has_its_own),
        TEST(old_pipelines_make_way),
    };
    install_fake_vulkan(devices, (int)(sizeof devices / sizeof *devices));
    return cmocka_run_group_tests(tests, use_empty_cache, drop_cache);
}
#else
int main(void)
{
    return 77;
}
#endif
