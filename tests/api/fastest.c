/* Devices race with a program's own work: the fastest is opened and remembered for the same work on the same devices,
   and devices that cannot take part are skipped. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file/list.h"
#include "base/file/lock.h"
#if !defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL
#include "device/opencl/api.h"
#endif
#include "each_device.h"
#include "tuff.h"
#include "tunedb/folder.h"

typedef struct work {
    const char *refused; /* the selector that refuses to take part; "": all; NULL: none */
    const char *deadly;  /* the selector that kills the process; NULL: none */
    int entered, left;
} work;

static tuff_plan *setup(tuff_device *device, void *user, void **entry)
{
    work *self = user;
    tuff_device_info info;
    static const float numbers[64] = {1};
    self->entered++;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    if (self->deadly && strcmp(self->deadly, info.selector) == 0)
        (void)raise(SIGKILL);
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(graph);
    *entry = graph;
    if (self->refused && (self->refused[0] == '\0' || strcmp(self->refused, info.selector) == 0))
        return NULL;
    tuff_tensor *x = tuff_input(graph, "x", TUFF_F32, TUFF_SHAPE(8, 8));
    tuff_output(graph, "y", tuff_matmul(x, x));
    tuff_plan *plan = tuff_compile(graph, NULL);
    assert_non_null(plan);
    assert_int_equal(tuff_plan_write(plan, "x", numbers, sizeof numbers), TUFF_OK);
    return plan;
}

static void teardown(tuff_plan *plan, void *user, void *entry)
{
    work *self = user;
    self->left++;
    tuff_plan_destroy(plan);
    tuff_graph_destroy(entry);
}

static tuff_device_race_result hold(const char *name, const char *refused, bool wins, int *entered)
{
    work self = {.refused = refused};
    const tuff_device_race race = {.name = name, .setup = setup, .teardown = teardown, .user = &self};
    tuff_device_race_result result;
    tuff_device *device = tuff_device_open_fastest(&race, &result);
    assert_int_equal(self.entered, self.left);
    assert_true((device != NULL) == wins);
    if (device) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
        assert_string_equal(info.selector, result.selector);
    }
    tuff_device_close(device);
    *entered = self.entered;
    return result;
}

/* Counts the devices; skips the test if there are fewer than two. */
static int count_devices(char *first, size_t size)
{
    int count = 0;
    for (int i = 0; i < tuff_device_count(); i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (info.device_class == TUFF_DEVICE_REFERENCE)
            continue;
        if (count++ == 0)
            (void)snprintf(first, size, "%s", info.selector);
    }
    if (count < 2)
        skip();
    return count;
}

static void the_fastest_is_remembered(void **state)
{
    (void)state;
    char first[32];
    int entered;
    const int count = count_devices(first, sizeof first);
    const tuff_device_race_result now = hold("work", NULL, true, &entered);
    assert_int_equal(entered, count);
    assert_int_equal(now.candidate_count, count);
    assert_false(now.is_cached);
    assert_true(now.nanoseconds > 0 && now.runner_up_nanoseconds >= now.nanoseconds);
    assert_string_not_equal(now.selector, now.runner_up);
    const tuff_device_race_result again = hold("work", NULL, true, &entered);
    assert_int_equal(entered, 0);
    assert_true(again.is_cached);
    assert_string_equal(again.selector, now.selector);
    assert_string_equal(again.runner_up, now.runner_up);
    assert_int_equal(again.nanoseconds, now.nanoseconds);
    assert_false(hold("other work", NULL, true, &entered).is_cached);
}

/* Takes the lock of the hardware of the first device. */
static void lock_device(file_lock *out)
{
    tuff_device_info info;
    tune_environment parts;
    char place[FOLDER_SIZE];
    int i = 0;
    do
        assert_int_equal(tuff_device_describe_at(i++, &info), TUFF_OK);
    while (info.device_class == TUFF_DEVICE_REFERENCE);
    tuff__environment_from_info(&info, &parts);
    assert_true(tuff__tune_lock_path(&parts, place, sizeof place));
    assert_int_equal(tuff__file_lock(place, 0, out), TUFF_OK);
}

static void a_disturbed_race_is_not_remembered(void **state)
{
    (void)state;
    char first[32];
    int entered;
    file_lock others;
    const int count = count_devices(first, sizeof first);
    lock_device(&others);
    assert_true(hold("disturbed work", NULL, true, &entered).nanoseconds > 0);
    tuff__file_unlock(&others);
    assert_false(hold("disturbed work", NULL, true, &entered).is_cached);
    assert_int_equal(entered, count);
    assert_true(hold("disturbed work", NULL, true, &entered).is_cached);
}

static void who_cannot_is_left_out(void **state)
{
    (void)state;
    char first[32];
    int entered;
    const int count = count_devices(first, sizeof first);
    const tuff_device_race_result without = hold("not for the first", first, true, &entered);
    assert_int_equal(entered, count);
    assert_int_equal(without.candidate_count, count - 1);
    assert_string_not_equal(without.selector, first);
    assert_string_not_equal(without.runner_up, first);
    assert_int_equal(hold("for nobody", "", false, &entered).candidate_count, 0);
    assert_int_equal(entered, count);
}

static tuff_status damage_file(const char *name, void *state)
{
    char path[FOLDER_SIZE + 300];
    int *count = state;
    if (strncmp(name, "fastest-", 8) != 0)
        return TUFF_OK;
    char folder[FOLDER_SIZE];
    assert_int_equal(tuff__tune_folder(folder, sizeof folder), TUFF_OK);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs("9 9 nine\n", file);
    (void)fclose(file);
    ++*count;
    return TUFF_OK;
}

static void a_damaged_result_is_ignored(void **state)
{
    (void)state;
    char first[32], folder[FOLDER_SIZE];
    int entered, damaged = 0;
    if (count_devices(first, sizeof first) < 2)
        skip();
    (void)hold("work", NULL, true, &entered);
    assert_int_equal(tuff__tune_folder(folder, sizeof folder), TUFF_OK);
    assert_int_equal(tuff__file_list(folder, "", damage_file, &damaged), TUFF_OK);
    assert_true(damaged > 0);
    assert_false(hold("work", NULL, true, &entered).is_cached);
    assert_true(hold("work", NULL, true, &entered).is_cached);
}

#if (!defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL) && (!defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN)
/* Makes the first OpenCL device the stored winner of all races. */
static tuff_status make_winner(const char *name, void *state)
{
    char path[FOLDER_SIZE + 300], folder[FOLDER_SIZE];
    const tuff_device_info *info = state;
    tune_environment parts;
    if (strncmp(name, "fastest-", 8) != 0)
        return TUFF_OK;
    assert_int_equal(tuff__tune_folder(folder, sizeof folder), TUFF_OK);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    tuff__environment_from_info(info, &parts);
    (void)fprintf(file, "%lld 10 20 -\n%s\n", (long long)time(NULL), ENVIRONMENT_TEXT(&parts));
    (void)fclose(file);
    return TUFF_OK;
}

static cl_context CL_API_CALL create_nothing(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *devices,
                                             void(CL_CALLBACK *told)(const char *, const void *, size_t, void *),
                                             void *user, cl_int *error)
{
    (void)properties, (void)count, (void)devices, (void)told, (void)user;
    *error = CL_OUT_OF_HOST_MEMORY;
    return NULL;
}

/* All other devices take part in the new race. */
static void a_winner_that_does_not_open_is_replaced(void **state)
{
    (void)state;
    char first[32], folder[FOLDER_SIZE];
    int entered, vulkan = 0, count = 0;
    tuff_device_info info, opencl = {.selector = ""};
    (void)count_devices(first, sizeof first);
    for (int i = 0; i < tuff_device_count(); i++) {
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        vulkan += strncmp(info.selector, "vulkan", 6) == 0;
        if (strncmp(info.selector, "opencl", 6) == 0 && count++ == 0)
            opencl = info;
    }
    if (count == 0 || vulkan == 0)
        skip();
    (void)hold("work", NULL, true, &entered);
    assert_int_equal(tuff__tune_folder(folder, sizeof folder), TUFF_OK);
    assert_int_equal(tuff__file_list(folder, "", make_winner, &opencl), TUFF_OK);
    const tuff_device_race_result recalled = hold("work", NULL, true, &entered);
    assert_true(recalled.is_cached);
    assert_string_equal(recalled.selector, opencl.selector);
    __typeof__(tuff__cl.CreateContext) real = tuff__cl.CreateContext;
    tuff__cl.CreateContext = create_nothing;
    const tuff_device_race_result raced = hold("work", NULL, true, &entered);
    tuff__cl.CreateContext = real;
    assert_false(raced.is_cached);
    assert_int_equal(raced.candidate_count, vulkan);
    assert_int_equal(strncmp(raced.selector, "vulkan", 6), 0);
}
#endif

/* Runs in a process of its own, which is this program again. */
#define DEADLY "TUFF_TEST_DEADLY"
static int race_to_death(const char *selector)
{
    work self = {.deadly = selector};
    const tuff_device_race race = {.name = "deadly", .setup = setup, .teardown = teardown, .user = &self};
    tuff_device_close(tuff_device_open_fastest(&race, NULL));
    return 0;
}

static void run_and_crash(const char *selector)
{
    int status;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (setenv(DEADLY, selector, 1) == 0)
            (void)execl("/proc/self/exe", "fastest", (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_device_that_ends_processes_does_so_once(void **state)
{
    (void)state;
    char first[32];
    int entered, forgotten;
    const int count = count_devices(first, sizeof first);
    run_and_crash(first);
    const tuff_device_race_result without = hold("deadly", NULL, true, &entered);
    assert_int_equal(without.left_out, 1);
    assert_string_not_equal(without.selector, first);
    assert_int_equal(entered, count == 2 ? 0 : count - 1);
    assert_int_equal(hold("other deadly", NULL, true, &entered).left_out, 0);
    tuff_cache *cache = tuff_cache_open(NULL);
    assert_non_null(cache);
    assert_int_equal(tuff_cache_verify(cache, NULL, NULL, &(tuff_cache_verify_result){0}), TUFF_OK);
    assert_int_equal(tuff_cache_forget_rejected(cache, &forgotten), TUFF_OK);
    assert_int_equal(forgotten, 1);
    tuff_cache_close(cache);
    const tuff_device_race_result again = hold("deadly", NULL, true, &entered);
    assert_int_equal(again.left_out, 0);
    assert_false(again.is_cached);
    assert_int_equal(entered, count);
}

static void a_race_needs_its_parts(void **state)
{
    (void)state;
    assert_null(tuff_device_open_fastest(NULL, NULL));
    assert_null(tuff_device_open_fastest(&(tuff_device_race){.name = "work"}, NULL));
    assert_non_null(strstr(tuff_error(), "setup"));
}

int main(void)
{
    if (getenv(DEADLY))
        return race_to_death(getenv(DEADLY));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_is_remembered),
        cmocka_unit_test(a_disturbed_race_is_not_remembered),
        cmocka_unit_test(who_cannot_is_left_out),
        cmocka_unit_test(a_damaged_result_is_ignored),
#if (!defined(TUFF_WITH_OPENCL) || TUFF_WITH_OPENCL) && (!defined(TUFF_WITH_VULKAN) || TUFF_WITH_VULKAN)
        cmocka_unit_test(a_winner_that_does_not_open_is_replaced),
#endif
        cmocka_unit_test(a_device_that_ends_processes_does_so_once),
        cmocka_unit_test(a_race_needs_its_parts),
    };
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
