/* Running out of host memory in the thread that tunes a plan in the background, and when that is started: nothing
   crashes or leaks, and the plan's results stay correct, with the old winners or the new ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "background_fixture.h"
#include "base/status.h"
#include "base/thread.h"
#include "each_device.h"

#define AN_HOUR (3600000 * MILLISECOND)

/* Counts the allocations of either the main thread or the others; from a number on they fail, or only that one. */
static struct {
    _Atomic int64_t requests, failing, live;
    atomic_bool stays, counts_main;
} memory;
static _Thread_local bool is_main;

static bool fails(void)
{
    if (is_main != atomic_load(&memory.counts_main))
        return false;
    const int64_t number = atomic_fetch_add(&memory.requests, 1) + 1, failing = atomic_load(&memory.failing);
    return failing > 0 && (number == failing || (atomic_load(&memory.stays) && number > failing));
}

static void *allocate(void *user, size_t size)
{
    (void)user;
    void *block = fails() ? NULL : malloc(size);
    atomic_fetch_add(&memory.live, block != NULL);
    return block;
}

static void *reallocate(void *user, void *block, size_t size)
{
    (void)user;
    if (fails())
        return NULL;
    void *made = realloc(block, size);
    atomic_fetch_add(&memory.live, block == NULL && made != NULL);
    return made;
}

static void release(void *user, void *block)
{
    (void)user;
    atomic_fetch_sub(&memory.live, block != NULL);
    free(block);
}

static void arm(int64_t failing, bool stays, bool counts_main)
{
    atomic_store(&memory.failing, 0);
    atomic_store(&memory.counts_main, counts_main);
    atomic_store(&memory.stays, stays);
    atomic_store(&memory.requests, 0);
    atomic_store(&memory.failing, failing);
}

static int64_t disarm(void)
{
    const int64_t requests = atomic_load(&memory.requests);
    atomic_store(&memory.failing, 0);
    return requests;
}

static tuff_device *open_device(const char *selector)
{
    tuff_device *device = tuff_device_open(selector);
    if (!device)
        fail_msg("%s", tuff_error());
    return device;
}

/* Tunes a plan, with stored winners or by measuring. Returns the allocations of its thread. */
static int64_t tune_once(const char *selector, bool is_remembered, int64_t failing, bool stays)
{
    const tuff_compile_options options = {
        .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 150, .background = true}};
    const int64_t live = atomic_load(&memory.live);
    subject_plan self;
    forget_stores();
    set_idle(AN_HOUR);
    plan_begin(&self, open_device(selector));
    assert_true(plan_compile(&self, &options));
    plan_write_x(&self);
    plan_run(&self, 1);
    if (is_remembered)
        plan_remember(&self);
    arm(failing, stays, false);
    set_idle(MILLISECOND);
    plan_await(&self);
    plan_run(&self, 2);
    const tuff_tune_stats stats = plan_stats(&self);
    assert_true(failing > 0 || !is_remembered || stats.swaps == 1);
    plan_write_w(&self, -1);
    plan_run(&self, 3);
    plan_end(&self);
    const int64_t requests = disarm();
    tuff_device_close(self.device);
    assert_int_equal(atomic_load(&memory.live), live);
    return requests;
}

static void fail_everywhere(const char *selector, bool is_remembered, double growth)
{
    (void)tune_once(selector, is_remembered, 0, false); /* allocates what is kept from then on */
    const int64_t all = tune_once(selector, is_remembered, 0, false);
    print_message("    %lld requests\n", (long long)all);
    assert_true(all > 100);
    int reached = 0, rounds = 0;
    for (int64_t i = 1; i <= all; i = (int64_t)((double)i * growth) + 1, rounds++)
        reached += tune_once(selector, is_remembered, i, rounds % 2) >= i;
    /* The number of candidates that fit into the time, and so that of allocations, differs between runs. */
    assert_true(is_remembered ? reached == rounds : reached >= rounds / 2);
}

static const char *selector_of(tuff_device *device)
{
    static tuff_device_info info;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    return info.selector;
}

static void measure_without(tuff_device *device)
{
    fail_everywhere(selector_of(device), false, 1.6);
}

static void measuring_bears_it(void **state)
{
    (void)state;
    for_drawn_api(0, measure_without);
}

static void take_over_without(tuff_device *device)
{
    fail_everywhere(selector_of(device), true, 1.15);
}

static void taking_over_bears_it(void **state)
{
    (void)state;
    for_drawn_api(2, take_over_without);
}

/* The thread is not yet running: allocations of the program's own thread fail. */
static bool begin_once(tuff_device *device, int64_t failing, int64_t *requests)
{
    const tuff_compile_options options = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .background = true}};
    subject_plan self;
    plan_begin(&self, device);
    arm(failing, failing % 2, true);
    const bool made = plan_compile(&self, &options);
    *requests = disarm();
    if (!made)
        assert_int_equal(tuff_last_status(), TUFF_E_OOM_HOST);
    plan_end(&self);
    return made;
}

static void begin_without(tuff_device *device)
{
    int64_t all, some;
    int failures = 0;
    set_idle(AN_HOUR);
    forget_stores();
    assert_true(begin_once(device, 0, &all));
    assert_true(begin_once(device, 0, &all));
    /* The last allocations are those of the thread's start. */
    for (int64_t i = 1; i <= all; i = i > all - 40 ? i + 1 : (int64_t)((double)i * 1.15) + 1) {
        const int64_t live = atomic_load(&memory.live);
        failures += !begin_once(device, i > all ? all : i, &some);
        assert_true(atomic_load(&memory.live) <= live + 16); /* the device's pool keeps a few */
    }
    assert_true(failures > 20);
}

static void beginning_bears_it(void **state)
{
    (void)state;
    for_drawn_api(1, begin_without);
}

int main(void)
{
    static const tuff_allocator allocator = {allocate, reallocate, release, NULL};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beginning_bears_it),
        cmocka_unit_test(taking_over_bears_it),
        cmocka_unit_test(measuring_bears_it),
    };
    is_main = true;
    tuff_set_allocator(&allocator);
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
