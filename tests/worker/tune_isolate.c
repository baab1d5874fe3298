/* tuff_compile with a worker that measures (TUFF_ISOLATE_ON): the outcome is the same as with measuring in the process,
   and no candidate ends the program. */
#define _DEFAULT_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "background_fixture.h"
#include "each_device.h"
#include "faulty_worker.h"
#include "processes.h"
#include "tune_fixture.h"

static tuff_tune_stats compile(subject_plan *self, tuff_device *device, tuff_tune_options tuning)
{
    tuning.isolation = TUFF_ISOLATE_ON;
    if (tuning.mode == TUFF_TUNE_CACHED)
        tuning.mode = TUFF_TUNE_QUICK;
    if (tuning.milliseconds == 0)
        tuning.milliseconds = 4000;
    plan_begin(self, device);
    if (!plan_compile(self, &(tuff_compile_options){.tuning = &tuning}))
        fail_msg("%s", tuff_error());
    plan_write_x(self);
    expect_no_child();
    return plan_stats(self);
}

static void run_and_end(subject_plan *self)
{
    plan_run(self, 1);
    plan_run(self, 2);
    plan_end(self);
}

static int count_origins(const subject_plan *self, const char *origin)
{
    int count = 0;
    tuff_plan_key_info key;
    for (int i = 0; i < tuff_plan_key_count(self->plan); i++) {
        assert_int_equal(tuff_plan_key(self->plan, i, &key), TUFF_OK);
        count += strcmp(key.origin, origin) == 0;
    }
    return count;
}

static bool count_calls(void *user, const tuff_tune_progress *now)
{
    int *calls = user;
    assert_true(now->key_count > 0 && now->key[0] != '\0');
    ++*calls;
    return true;
}

/* The second start finds everything. */
static void measure_apart(tuff_device *device)
{
    subject_plan self;
    int calls = 0;
    begin_with_worker(NULL, "0");
    const int files = count_open_files();
    const tuff_tune_stats first =
        compile(&self, device, (tuff_tune_options){.milliseconds = 60000, .progress = count_calls, .user = &calls});
    assert_true(first.measured == first.keys && first.keys > 1 && first.compiles > 0 && first.launches > 0);
    assert_true(calls > first.keys &&
                first.hits[TUFF_TUNE_HIT_DEFAULT] + first.hits[TUFF_TUNE_HIT_PORTFOLIO] == first.keys);
    expect_logged("worker", 0);
    run_and_end(&self);
    assert_int_equal(count_open_files(), files);

    const tuff_tune_stats second = compile(&self, device, (tuff_tune_options){.progress = NULL});
    assert_true(second.measured == 0 && second.compiles == 0 && second.launches == 0);
    assert_int_equal(second.hits[TUFF_TUNE_HIT_SAME], second.keys);
    assert_int_equal(count_origins(&self, "measured"), 0);
    run_and_end(&self);
}

static void a_worker_measures(void **state)
{
    (void)state;
    for_drawn_api(2, measure_apart);
}

static void crash_once(tuff_device *device)
{
    subject_plan self;
    begin_with_worker("crash", "1");
    const tuff_tune_stats stats = compile(&self, device, (tuff_tune_options){.progress = NULL});
    expect_logged("was killed by signal 9 while measuring the graph", 1);
    expect_logged("this candidate is not tried again", 1);
    assert_int_equal(count_crashes(device), 1);
    assert_true(stats.crashes == 1 && stats.measured > 1);
    run_and_end(&self);
}

static void a_crash_costs_a_candidate(void **state)
{
    (void)state;
    for_drawn_api(3, crash_once);
}

static void crash_always(tuff_device *device)
{
    subject_plan self;
    begin_with_worker("crash", "99");
    const tuff_tune_stats stats = compile(&self, device, (tuff_tune_options){.milliseconds = 90000});
    expect_logged("measuring stops after 8 workers", 1);
    assert_true(stats.crashes == 8 && count_crashes(device) == 8);
    run_and_end(&self);
    forget_stores();
}

static void many_crashes_end_it(void **state)
{
    (void)state;
    for_drawn_api(1, crash_always);
}

static void hang_once(tuff_device *device)
{
    subject_plan self;
    begin_with_worker("hang", "1");
    set_variable("TUFF_TUNE_WATCHDOG", "2");
    const tuff_tune_stats stats = compile(&self, device, (tuff_tune_options){.milliseconds = 6000});
    set_variable("TUFF_TUNE_WATCHDOG", NULL);
    expect_logged("stopped responding", 1);
    assert_int_equal(count_crashes(device), 1);
    assert_true(stats.measured > 0);
    run_and_end(&self);
}

static void what_hangs_is_ended(void **state)
{
    (void)state;
    for_drawn_api(0, hang_once);
}

/* Nothing is measured in the program instead. */
static void do_without(tuff_device *device)
{
    static const char *const faults[] = {"other", "silent", "noisy", "refuse", "begin", "lost", "nonsense", "lacking"};
    set_variable("TUFF_TUNE_WATCHDOG", "2");
    for (size_t i = 0; i <= sizeof faults / sizeof *faults; i++) {
        subject_plan self;
        const bool is_missing = i == sizeof faults / sizeof *faults;
        begin_with_worker(is_missing ? NULL : faults[i], "0");
        if (is_missing)
            set_variable("TUFF_WORKER", "");
        const tuff_tune_stats stats = compile(&self, device, (tuff_tune_options){.milliseconds = 20000});
        assert_int_equal(stats.compiles, 0);
        if (i < 5 || is_missing)
            expect_logged("nothing is measured", 1);
        else
            expect_logged("measuring stops after 8 workers", 1);
        run_and_end(&self);
    }
    set_variable("TUFF_TUNE_WATCHDOG", NULL);
}

static void without_a_worker_nothing_is_measured(void **state)
{
    (void)state;
    for_drawn_api(1, do_without);
}

static void a_driver_that_does_not_open_is_left(void **state)
{
    (void)state;
    subject_plan self;
    tuff_device *device = tuff_device_open("opencl");
    if (device == NULL)
        skip();
    begin_with_worker("stuck", "0");
    set_variable("TUFF_TUNE_WATCHDOG", "2");
    const tuff_tune_stats stats = compile(&self, device, (tuff_tune_options){.milliseconds = 20000});
    set_variable("TUFF_TUNE_WATCHDOG", NULL);
    assert_int_equal(stats.measured, 0);
    expect_logged("nothing is measured", 1);
    run_and_end(&self);
    tuff_device_close(device);
}

static bool stop_soon(void *user, const tuff_tune_progress *now)
{
    (void)now;
    return ++*(int *)user < 4;
}

/* Winners found until then are used. */
static void stop_it(tuff_device *device)
{
    subject_plan self;
    int calls = 0;
    begin_with_worker(NULL, "0");
    (void)compile(
        &self, device,
        (tuff_tune_options){.mode = TUFF_TUNE_MAX, .milliseconds = 300000, .progress = stop_soon, .user = &calls});
    assert_true(calls >= 4 && calls < 16);
    run_and_end(&self);
}

static void it_can_be_stopped(void **state)
{
    (void)state;
    for_drawn_api(0, stop_it);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_measures),
        cmocka_unit_test(a_crash_costs_a_candidate),
        cmocka_unit_test(many_crashes_end_it),
        cmocka_unit_test(what_hangs_is_ended),
        cmocka_unit_test(without_a_worker_nothing_is_measured),
        cmocka_unit_test(a_driver_that_does_not_open_is_left),
        cmocka_unit_test(it_can_be_stopped),
    };
    if (!find_own_program())
        return 77;
    if (is_worker(count, arguments))
        return run_faulty_worker();
    tuff_set_log(record_log_line, NULL);
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
