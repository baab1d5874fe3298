/* Plans that are tuned while they are used, on a device of each API. The thread measures only while the program leaves
   the device idle; its winners are stored and take effect at the beginning of a run, and nothing in the plan is lost by
   that. It ends with the plan, with the process, or on request. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "background_fixture.h"
#include "base/thread.h"
#include "each_device.h"

#define AN_HOUR (3600000 * MILLISECOND)

static const tuff_compile_options in_background = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK,
                                                                                  .milliseconds = 4000,
                                                                                  .background = true}},
                                  longer = {.tuning = &(tuff_tune_options){
                                                .mode = TUFF_TUNE_QUICK, .milliseconds = 100000, .background = true}};

static void compile(subject_plan *self, tuff_device *device, const tuff_compile_options *options)
{
    plan_begin(self, device);
    if (!plan_compile(self, options))
        fail_msg("%s", tuff_error());
    plan_write_x(self);
}

static void read_hash(const subject_plan *self, uint64_t out[2])
{
    assert_int_equal(tuff_plan_hash(self->plan, out), TUFF_OK);
}

/* Time may run out before all keys are measured: it may take a few starts until all are known, each with twice as much
   time. */
static void measure_and_remember(tuff_device *device)
{
    subject_plan self;
    tuff_tune_stats stats;
    tuff_tune_options tuning = *in_background.tuning;
    const tuff_compile_options options = {.tuning = &tuning};
    int left = 1;
    forget_stores();
    set_idle(2 * MILLISECOND);
    for (int attempt = 0; attempt < 6 && left > 0; attempt++, tuning.milliseconds *= 2) {
        uint64_t before[2], after[2];
        compile(&self, device, &options);
        read_hash(&self, before);
        left = plan_stats(&self).background_keys_left;
        stats = plan_await(&self);
        assert_int_equal(stats.swaps, 0);
        assert_int_equal(stats.wrong + stats.races + stats.hangs + stats.crashes, 0);
        assert_true(attempt > 0 || (stats.measured > 0 && stats.compiles > 0));
        read_hash(&self, after);
        assert_memory_equal(before, after, sizeof before); /* only a run changes it */
        plan_run(&self, 1);
        stats = plan_stats(&self);
        read_hash(&self, after);
        assert_int_equal(stats.swaps, memcmp(before, after, sizeof before) != 0);
        plan_run(&self, 2);
        assert_int_equal(plan_stats(&self).swaps, stats.swaps);
        plan_end(&self);
    }
    assert_int_equal(left, 0);
    assert_int_equal(stats.hits[TUFF_TUNE_HIT_PIN] + stats.hits[TUFF_TUNE_HIT_SAME], stats.keys);
    assert_int_equal(stats.measured, 0);
    assert_true(stats.compiles == 0 && stats.launches == 0);
}

static void winners_are_remembered(void **state)
{
    (void)state;
    for_drawn_api(1, measure_and_remember);
}

/* Gets the results and the hash of a plan that is compiled with the stored winners. */
static void compile_anew(tuff_device *device, float scale, float *results, uint64_t hash[2])
{
    subject_plan self;
    compile(&self, device, NULL);
    plan_write_w(&self, scale);
    plan_run(&self, 1);
    plan_read(&self, results);
    read_hash(&self, hash);
    plan_end(&self);
}

static void expect_keys(const subject_plan *self)
{
    int found = 0;
    for (int i = 0; i < tuff_plan_key_count(self->plan); i++) {
        tuff_plan_key_info key;
        assert_int_equal(tuff_plan_key(self->plan, i, &key), TUFF_OK);
        assert_string_equal(key.origin, "same");
        found += strcmp(key.candidate, remembered_product) == 0 || strcmp(key.candidate, remembered_row) == 0;
    }
    assert_int_equal(found, 2);
}

/* Winners that another process found meanwhile: nothing is measured, and the plan uses them from its next run on. */
static void take_over(tuff_device *device)
{
    static float before[PLAN_RESULTS], after[PLAN_RESULTS], anew[PLAN_RESULTS];
    subject_plan self;
    uint64_t defaults[2], hash[2], anew_hash[2];
    tuff_plan_info info;
    forget_stores();
    set_idle(AN_HOUR);
    compile(&self, device, &in_background);
    read_hash(&self, defaults);
    plan_run(&self, 1);
    plan_read(&self, before);
    assert_int_equal(tuff_plan_profile(self.plan), TUFF_OK);
    plan_remember(&self);
    set_idle(2 * MILLISECOND);
    tuff_tune_stats stats = plan_await(&self);
    assert_int_equal(stats.measured, 0);
    assert_int_equal(stats.swaps, 0);
    plan_read(&self, after);
    assert_memory_equal(before, after, sizeof before);
    plan_run(&self, 3); /* the profile was a run, too */
    assert_int_equal(plan_stats(&self).swaps, 1);
    expect_keys(&self);
    plan_read(&self, after);
    compile_anew(device, 1, anew, anew_hash);
    read_hash(&self, hash);
    assert_memory_equal(after, anew, sizeof anew);
    assert_memory_equal(hash, anew_hash, sizeof hash);
    assert_memory_not_equal(hash, defaults, sizeof hash);
    plan_write_w(&self, -2); /* its copy in panels is made again */
    plan_run(&self, 4);
    assert_int_equal(tuff_plan_describe(self.plan, &info), TUFF_OK);
    assert_true(info.run_nanoseconds > 0);
    if (!tuff__device_takes_glsl(device)) /* there the product needs a copy of w */
        assert_true(info.constant_size >= sizeof(float) * PLAN_INNER * PLAN_COLUMNS);
    assert_int_equal(tuff_plan_profile(self.plan), TUFF_OK);
    plan_run(&self, 6);
    plan_end(&self);
}

static void what_is_found_takes_over(void **state)
{
    (void)state;
    for_drawn_api(2, take_over);
}

/* Winners do not take effect while a run is pending; the first run after it uses them. */
static void keep_while_under_way(tuff_device *device)
{
    subject_plan self;
    forget_stores();
    set_idle(AN_HOUR);
    compile(&self, device, &in_background);
    plan_remember(&self);
    set_idle(2 * MILLISECOND);
    plan_await(&self);
    tuff_array *other = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(4));
    tuff_graph *graph = tuff_graph_create(device);
    assert_non_null(other);
    tuff_assign(graph, other, tuff_add(tuff_array_tensor(graph, other), tuff_constant(graph, TUFF_F32, 1)));
    tuff_plan *raise = tuff_compile(graph, NULL);
    assert_non_null(raise);
    assert_int_equal(tuff_plan_run(raise), TUFF_OK);
    assert_int_equal(tuff_plan_run(self.plan), TUFF_OK);
    assert_int_equal(plan_stats(&self).swaps, 0);
    assert_int_equal(tuff_plan_wait(raise), TUFF_OK);
    plan_run(&self, 2);
    assert_int_equal(plan_stats(&self).swaps, 1);
    tuff_plan_destroy(raise);
    tuff_graph_destroy(graph);
    tuff_array_destroy(other);
    plan_end(&self);
}

static void runs_under_way_are_left_alone(void **state)
{
    (void)state;
    for_drawn_api(3, keep_while_under_way);
}

static void run_for(subject_plan *self, int *count, uint64_t nanoseconds)
{
    for (const uint64_t begin = tuff__nanoseconds(); tuff__nanoseconds() - begin < nanoseconds;)
        plan_run(self, ++*count);
}

/* While one run follows another nothing is measured, neither before the first candidate nor after it. */
static void yield(tuff_device *device)
{
    subject_plan self;
    int count = 0;
    forget_stores();
    set_idle(1500 * MILLISECOND);
    compile(&self, device, &longer);
    run_for(&self, &count, 2500 * MILLISECOND);
    tuff_tune_stats stats = plan_stats(&self);
    assert_true(stats.background_keys_left > 0);
    assert_true(stats.measured == 0 && stats.compiles == 0 && stats.launches == 0);
    set_idle(2 * MILLISECOND);
    while (plan_stats(&self).compiles == 0)
        tuff__sleep(MILLISECOND);
    set_idle(1500 * MILLISECOND);
    run_for(&self, &count, 1500 * MILLISECOND); /* a pending compilation ends */
    stats = plan_stats(&self);
    run_for(&self, &count, 1500 * MILLISECOND);
    const tuff_tune_stats later = plan_stats(&self);
    assert_true(later.background_keys_left > 0);
    assert_true(later.compiles == stats.compiles && later.launches == stats.launches);
    set_idle(2 * MILLISECOND);
    while (plan_stats(&self).compiles <= later.compiles && plan_stats(&self).background_keys_left > 0)
        tuff__sleep(MILLISECOND);
    plan_run(&self, ++count);
    plan_end(&self);
}

static void busy_programs_are_left_alone(void **state)
{
    (void)state;
    for_drawn_api(4, yield);
}

/* In a program with long enough but frequent pauses: when a step begins, all earlier steps have taken a twentieth of
   the time at most. */
static void keep_to_a_share(tuff_device *device)
{
    subject_plan self;
    uint64_t before = 0;
    int steps = 0, count = 0;
    forget_stores();
    set_idle(50 * MILLISECOND);
    compile(&self, device, &longer);
    const uint64_t begin = tuff__nanoseconds();
    while (steps < 3 && tuff__nanoseconds() - begin < 20000 * MILLISECOND) {
        plan_run(&self, ++count);
        tuff__sleep(150 * MILLISECOND);
        const tuff_tune_stats stats = plan_stats(&self);
        const uint64_t now = stats.compile_nanoseconds + stats.sample_nanoseconds + stats.verify_nanoseconds;
        if (now == before)
            continue;
        assert_true(before * 20 <= tuff__nanoseconds() - begin);
        before = now;
        steps++;
    }
    assert_true(steps > 0);
    plan_end(&self);
}

static void at_work_it_takes_a_share(void **state)
{
    (void)state;
    for_drawn_api(5, keep_to_a_share);
}

static void lock_out_worker(tuff_device *device)
{
    subject_plan self;
    file_lock lock;
    forget_stores();
    set_idle(2 * MILLISECOND);
    lock_device(device, &lock);
    compile(&self, device, &in_background);
    while (plan_stats(&self).lock_waits == 0)
        tuff__sleep(MILLISECOND);
    tuff__sleep(100 * MILLISECOND);
    const tuff_tune_stats stats = plan_stats(&self);
    assert_true(stats.background_keys_left > 0 && stats.compiles == 0 && stats.measured == 0);
    plan_run(&self, 1);
    tuff__file_unlock(&lock);
    assert_true(plan_await(&self).measured > 0);
    plan_run(&self, 2);
    plan_end(&self);
}

static void locks_of_others_are_respected(void **state)
{
    (void)state;
    for_drawn_api(6, lock_out_worker);
}

/* Ends at any moment: before the thread begins, while it begins, between candidates, while one is compiled or runs. */
static void end_early(tuff_device *device)
{
    enum { TIMES = 12 };
    const uint64_t begin = tuff__nanoseconds();
    forget_stores();
    set_idle(MILLISECOND);
    for (int i = 0; i < TIMES; i++) {
        subject_plan self;
        compile(&self, device, &in_background);
        tuff__sleep((uint64_t)(i * i) * 2 * MILLISECOND);
        plan_end(&self);
    }
    assert_true(tuff__nanoseconds() - begin < 300000 * MILLISECOND);
    subject_plan last;
    compile(&last, device, NULL);
    plan_run(&last, 1);
    plan_end(&last);
}

static void a_plan_may_end_at_any_time(void **state)
{
    (void)state;
    for_drawn_api(7, end_early);
}

/* Two plans of one process, and one that is compiled in the meantime. */
static void share_a_device(tuff_device *device)
{
    subject_plan first, second, third;
    forget_stores();
    set_idle(2 * MILLISECOND);
    compile(&first, device, &in_background);
    compile(&second, device, &in_background);
    compile(&third, device, NULL);
    plan_await(&first);
    plan_run(&third, 1);
    plan_await(&second);
    for (int i = 1; i < 3; i++) {
        plan_run(&first, i);
        plan_run(&second, i);
    }
    plan_end(&first);
    plan_end(&third);
    plan_end(&second);
}

static void several_plans_share_a_device(void **state)
{
    (void)state;
    for_drawn_api(8, share_a_device);
}

typedef struct listener {
    pthread_t thread;
    _Atomic int calls, foreign, stop_at;
} listener;

static bool record_progress(void *user, const tuff_tune_progress *now)
{
    listener *self = user;
    self->foreign += !pthread_equal(self->thread, pthread_self());
    if (now->keys_done > now->key_count || !now->key[0])
        return false;
    return ++self->calls < self->stop_at;
}

static void stop_by_callback(tuff_device *device)
{
    listener heard = {.thread = pthread_self(), .stop_at = 3};
    tuff_tune_options tuning = *longer.tuning;
    const tuff_compile_options options = {.tuning = &tuning};
    subject_plan self;
    tuning.progress = record_progress;
    tuning.user = &heard;
    forget_stores();
    set_idle(2 * MILLISECOND);
    compile(&self, device, &options);
    plan_await(&self);
    assert_int_equal(heard.calls, 3);
    assert_int_equal(heard.foreign, 3);
    plan_run(&self, 1);
    plan_end(&self);
}

static void the_callback_may_stop_it(void **state)
{
    (void)state;
    for_drawn_api(9, stop_by_callback);
}

static void expect_refused(tuff_device *device, tuff_tune_options tuning)
{
    subject_plan self;
    tuning.background = true;
    plan_begin(&self, device);
    assert_false(plan_compile(&self, &(tuff_compile_options){.tuning = &tuning}));
    assert_int_equal(tuff_last_status(), TUFF_E_USAGE);
    assert_non_null(strstr(tuff_error(), "background tuning"));
    plan_end(&self);
}

static tuff_tune_stats compile_only(tuff_device *device, const tuff_compile_options *options)
{
    subject_plan self;
    compile(&self, device, options);
    const tuff_tune_stats stats = plan_stats(&self);
    plan_end(&self);
    return stats;
}

static void set(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void pass_wrong_arguments(tuff_device *device)
{
    forget_stores();
    set_idle(AN_HOUR);
    expect_refused(device, (tuff_tune_options){.mode = TUFF_TUNE_CACHED});
    expect_refused(device, (tuff_tune_options){.mode = TUFF_TUNE_OFF});
    expect_refused(device, (tuff_tune_options){.mode = TUFF_TUNE_QUICK, .deterministic = true});
    expect_refused(device, (tuff_tune_options){.mode = TUFF_TUNE_QUICK, .manifest = "/nowhere"});
    set("TUFF_TUNE_BACKGROUND", "1");
    assert_int_equal(compile_only(device, NULL).background_keys_left, 0);
    const tuff_compile_options brief = {.tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .milliseconds = 1}};
    tuff_tune_stats stats = compile_only(device, &brief);
    assert_true(stats.background_keys_left > 0 && stats.measured == 0);
    set("TUFF_TUNE", "quick");
    stats = compile_only(device, NULL);
    assert_true(stats.background_keys_left > 0 && stats.measured == 0);
    set("TUFF_TUNE_BACKGROUND", NULL);
    set("TUFF_TUNE", NULL);
    set("TUFF_DETERMINISTIC", "1");
    stats = compile_only(device, &in_background);
    assert_true(stats.background_keys_left == 0 && stats.measured == 0);
    set("TUFF_DETERMINISTIC", NULL);
    const tuff_compile_options unfused = {.fuse = TUFF_FUSE_NONE,
                                          .tuning = &(tuff_tune_options){.mode = TUFF_TUNE_QUICK, .background = true}};
    assert_int_equal(compile_only(device, &unfused).background_keys_left, 0);
    assert_true(compile_only(device, &in_background).background_keys_left > 0);
}

static void wrong_use_is_refused(void **state)
{
    (void)state;
    for_each_api(pass_wrong_arguments);
}

static void the_reference_device_has_nothing_to_tune(void **state)
{
    (void)state;
    tuff_device *device = tuff_device_open("reference");
    assert_non_null(device);
    subject_plan self;
    compile(&self, device, &in_background);
    assert_int_equal(plan_stats(&self).background_keys_left, 0);
    plan_run(&self, 1);
    plan_end(&self);
    tuff_device_close(device);
}

/* Exits while something is measured, without destroying anything. */
static int run_child(const char *selector)
{
    static subject_plan self;
    tuff_device *device = tuff_device_open(selector);
    set_idle(MILLISECOND);
    compile(&self, device, &in_background);
    while (plan_stats(&self).compiles == 0 && plan_stats(&self).background_keys_left > 0)
        tuff__sleep(MILLISECOND);
    return 0;
}

static void exit_early(tuff_device *device)
{
    char line[1024], self[400];
    tuff_device_info info;
    forget_stores();
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    (void)snprintf(line, sizeof line, "'%s' child %s", self, info.selector);
    assert_int_equal(system(line), 0);
}

static void a_process_may_end_at_any_time(void **state)
{
    (void)state;
    for_drawn_api(11, exit_early);
}

/* Shows the library's warnings, which help to understand a failure. */
static void print_log(void *user, tuff_log_level level, const char *said)
{
    (void)user;
    if (level <= TUFF_LOG_WARNING)
        print_message("%s\n", said);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_use_is_refused),         cmocka_unit_test(the_reference_device_has_nothing_to_tune),
        cmocka_unit_test(what_is_found_takes_over),     cmocka_unit_test(runs_under_way_are_left_alone),
        cmocka_unit_test(winners_are_remembered),       cmocka_unit_test(locks_of_others_are_respected),
        cmocka_unit_test(busy_programs_are_left_alone), cmocka_unit_test(at_work_it_takes_a_share),
        cmocka_unit_test(the_callback_may_stop_it),     cmocka_unit_test(several_plans_share_a_device),
        cmocka_unit_test(a_plan_may_end_at_any_time),   cmocka_unit_test(a_process_may_end_at_any_time),
    };
    tuff_set_log(print_log, NULL);
    if (count == 3 && strcmp(arguments[1], "child") == 0)
        return run_child(arguments[2]);
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
