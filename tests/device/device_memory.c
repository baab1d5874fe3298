/* Running out of host memory: in a script of typical work on every device found, each allocation fails, alone and then
   with all later ones. The status must be the right one, no block may leak, and the script must run again
   afterwards. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/state.h"
#include "each_device.h"

/* fail_at: the number of the request that fails, from 1; 0: none. The self-test compiles on several threads; drivers'
   own threads never call these functions. */
static struct {
    _Atomic long blocks, requests;
    long fail_at;
    bool and_after;
} host;

static bool refuses(void)
{
    long request = ++host.requests;
    return host.fail_at > 0 && (request == host.fail_at || (host.and_after && request > host.fail_at));
}

static void *allocate(void *user, size_t size)
{
    (void)user;
    void *block = refuses() ? NULL : malloc(size);
    host.blocks += block != NULL;
    return block;
}

static void *reallocate(void *user, void *block, size_t size)
{
    (void)user;
    void *moved = refuses() ? NULL : realloc(block, size);
    host.blocks += !block && moved;
    return moved;
}

static void release(void *user, void *block)
{
    (void)user;
    host.blocks -= block != NULL;
    free(block);
}

enum { COUNT = 200 };

typedef struct script {
    tuff_device *device;
    tuff_array *array, *view;
    program *program;
    recording *recorded;
} script;

static tuff_status use_kernels(script *run)
{
    test_kernel kernel;
    program_request request = test_request(run->device, &kernel, "add_one", "x[i] += 1u;");
    TRY(tuff__program_get(run->device, &request, &run->program));
    kernel.program = run->program;
    command commands[2];
    commands[0] = commands[1] = dispatch_over(run->device, &kernel, run->array->storage, COUNT);
    TRY(tuff__recording_create(run->device, commands, 2, false, false, &run->recorded));
    return tuff__submit(run->device, run->recorded);
}

static tuff_status use_device(script *run)
{
    uint32_t words[COUNT], read[COUNT];
    bool kernels = !tuff__device_is_reference(run->device);
    for (uint32_t i = 0; i < COUNT; i++)
        words[i] = i * i;
    run->array = tuff_array_create(run->device, TUFF_U32, TUFF_SHAPE(COUNT));
    if (!run->array)
        return tuff_last_status();
    run->view = tuff_array_view(run->array, 10, TUFF_SHAPE(2, 5));
    if (!run->view)
        return tuff_last_status();
    TRY(tuff_array_write(run->array, words, sizeof words));
    if (kernels)
        TRY(use_kernels(run));
    TRY(tuff_array_write(run->view, words, 40));
    TRY(tuff_array_read(run->array, read, sizeof read));
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(read[i], i >= 10 && i < 20 ? words[i - 10] : words[i] + (kernels ? 2 : 0));
    return TUFF_OK;
}

static tuff_status run_script(const char *selector)
{
    script run = {.device = tuff_device_open(selector)};
    if (!run.device)
        return tuff_last_status();
    tuff_status status = use_device(&run);
    tuff__recording_destroy(run.device, run.recorded);
    tuff__program_release(run.device, run.program);
    tuff_array_destroy(run.view);
    tuff_array_destroy(run.array);
    tuff_device_close(run.device);
    return status;
}

static void fail_one(const char *selector, long request, bool and_after)
{
    long before = host.blocks;
    host.requests = 0;
    host.fail_at = request;
    host.and_after = and_after;
    tuff_status status = run_script(selector);
    host.fail_at = 0;
    if (status != TUFF_OK && status != TUFF_E_OOM_HOST)
        fail_msg("%s, request %ld: %s: %s", selector, request, tuff_status_name(status), tuff_error());
    if (host.blocks != before)
        fail_msg("%s, request %ld: %ld blocks left over", selector, request, host.blocks - before);
}

/* Makes every stride-th request fail once, and at each, or at every second one if stride is not 1, with all later
   ones. */
static void fail_requests(const char *selector, long stride)
{
    assert_int_equal(run_script(selector), TUFF_OK);
    host.requests = 0;
    assert_int_equal(run_script(selector), TUFF_OK);
    long total = host.requests;
    assert_true(total > 0);
    for (long request = 1 + drawn_turn("request", 0, (int)stride); request <= total; request += stride) {
        fail_one(selector, request, false);
        if (stride == 1 || request / stride % 2 == 0)
            fail_one(selector, request, true);
    }
    assert_int_equal(run_script(selector), TUFF_OK);
    print_message("  %s: %ld requests failed\n", selector, total);
}

/* On the reference, which is the last device, and on a drawn driver; on all in a thorough run. */
static void every_request_may_fail(void **state)
{
    (void)state;
    const int last = tuff_device_count() - 1, drawn = last > 0 ? drawn_turn("driver", 0, last) : 0;
    for (int i = 0; i <= last; i++) {
        tuff_device_info info;
        assert_int_equal(tuff_device_describe_at(i, &info), TUFF_OK);
        if (i == last || i == drawn || is_thorough())
            fail_requests(info.selector, 1);
    }
}

/* Without a cache the open runs the self-test, and programs are compiled from source: slow, but with the same requests
   for each probe, so that every eighth of them is enough, from a drawn one on. Several threads compile, and a program
   that failed alone is made again. */
static void every_request_of_a_first_open_may_fail(void **state)
{
    (void)state;
    assert_int_equal(setenv("TUFF_CACHE_DIR", "", 1), 0);
    tuff_device_info info;
    assert_int_equal(tuff_device_describe_at(0, &info), TUFF_OK);
    fail_requests(info.selector, is_thorough() ? 3 : 8);
    assert_int_equal(setenv("TUFF_CACHE_DIR", cache_folder(), 1), 0);
}

/* If opening "auto" runs out of memory, no other device is tried. */
static void memory_does_not_choose_the_device(void **state)
{
    (void)state;
    if (tuff_device_count() == 1)
        skip();
    for (long request = 1; request < 60; request++) {
        host.requests = 0;
        host.fail_at = request;
        host.and_after = false;
        tuff_device *device = tuff_device_open("auto");
        host.fail_at = 0;
        tuff_device_info info, defaults;
        if (device) {
            tuff_device *other = tuff_device_open("auto");
            assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
            assert_int_equal(tuff_device_describe(other, &defaults), TUFF_OK);
            assert_string_equal(info.selector, defaults.selector);
            tuff_device_close(other);
        } else {
            assert_int_equal(tuff_last_status(), TUFF_E_OOM_HOST);
        }
        tuff_device_close(device);
    }
}

int main(void)
{
    const tuff_allocator counting = {allocate, reallocate, release, NULL};
    tuff_set_allocator(&counting);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_may_fail),
        cmocka_unit_test(every_request_of_a_first_open_may_fail),
        cmocka_unit_test(memory_does_not_choose_the_device),
    };
    return cmocka_run_group_tests_name("device_memory", tests, use_empty_cache, drop_cache);
}
