/* The worker that tunes in the background for a program, and the effect on the program if the worker crashes, hangs,
   belongs to another build or is missing; and if the program is killed or destroys its plan. This program plays all
   these roles (faulty_worker.h). */
#define _DEFAULT_SOURCE 1
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
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

#include "background_fixture.h"
#include "base/thread.h"
#include "each_device.h"
#include "faulty_worker.h"
#include "processes.h"
#include "worker/worker_process.h"

static void compile(subject_plan *self, tuff_device *device, tuff_tune_isolation isolate)
{
    const tuff_compile_options options = {
        .tuning = &(tuff_tune_options){
            .mode = TUFF_TUNE_QUICK, .milliseconds = 4000, .background = true, .isolation = isolate}};
    plan_begin(self, device);
    if (!plan_compile(self, &options))
        fail_msg("%s", tuff_error());
    plan_write_x(self);
}

/* Nothing of the program is disturbed: its plan, files, children and signals stay as they were. */
static void measure_apart(tuff_device *device)
{
    subject_plan self;
    struct sigaction child, broken;
    begin_with_worker(NULL, "0");
    const int files = count_open_files();
    compile(&self, device, TUFF_ISOLATE_ON);
    const tuff_tune_stats stats = plan_await(&self);
    assert_true(stats.measured > 0 && stats.compiles > 0 && stats.launches > 0);
    plan_run(&self, 1);
    plan_run(&self, 2);
    assert_int_equal(sigaction(SIGCHLD, NULL, &child), 0);
    assert_int_equal(sigaction(SIGPIPE, NULL, &broken), 0);
    assert_true(child.sa_handler == SIG_DFL && broken.sa_handler == SIG_DFL);
    plan_end(&self);
    assert_int_equal(count_open_files(), files);
    expect_no_child();
    expect_logged("worker", 0);
}

static void a_worker_measures(void **state)
{
    (void)state;
    for_drawn_api(1, measure_apart);
}

/* The candidate is recorded as crashed, the worker is restarted, and the rest is tuned. */
static void crash_once(tuff_device *device)
{
    subject_plan self;
    begin_with_worker("crash", "1");
    compile(&self, device, TUFF_ISOLATE_ON);
    const tuff_tune_stats stats = plan_await(&self);
    expect_logged("was killed by signal 9", 1);
    expect_logged("this candidate is not tried again", 1);
    assert_int_equal(count_crashes(device), 1);
    assert_true(stats.crashes == 1 && stats.measured > 1);
    plan_run(&self, 1);
    plan_run(&self, 2);
    plan_end(&self);
    expect_no_child();
}

static void a_crash_costs_a_candidate(void **state)
{
    (void)state;
    for_drawn_api(0, crash_once);
}

/* A device's tuning ends after two within a day. */
static void crash_always(tuff_device *device)
{
    subject_plan self;
    begin_with_worker("crash", "9");
    compile(&self, device, TUFF_ISOLATE_AUTO);
    const tuff_tune_stats stats = plan_await(&self);
    expect_logged("was killed by signal 9", 2);
    expect_logged("background tuning stops", 1);
    assert_true(stats.crashes == 2 && count_crashes(device) == 2);
    plan_run(&self, 1);
    plan_end(&self);
    expect_no_child();
    forget_stores();
}

static void many_crashes_end_it(void **state)
{
    (void)state;
    for_drawn_api(0, crash_always);
}

static void hang_once(tuff_device *device)
{
    subject_plan self;
    begin_with_worker("hang", "1");
    set_variable("TUFF_TUNE_WATCHDOG", "2");
    compile(&self, device, TUFF_ISOLATE_ON);
    const tuff_tune_stats stats = plan_await(&self);
    set_variable("TUFF_TUNE_WATCHDOG", NULL);
    expect_logged("stopped responding", 1);
    assert_int_equal(count_crashes(device), 1);
    assert_true(stats.measured > 1);
    plan_run(&self, 1);
    plan_end(&self);
    expect_no_child();
}

static void what_hangs_is_ended(void **state)
{
    (void)state;
    for_drawn_api(1, hang_once);
}

/* An invalid worker: nothing is measured. */
static void do_without(tuff_device *device, const char *file, const char *fault, const char *says)
{
    for (int needed = 0; needed < 2; needed++) {
        subject_plan self;
        begin_with_worker(fault, "0");
        set_variable("TUFF_WORKER", file);
        compile(&self, device, needed ? TUFF_ISOLATE_ON : TUFF_ISOLATE_AUTO);
        const tuff_tune_stats stats = plan_await(&self);
        assert_true(stats.measured == 0 && stats.compiles == 0);
        expect_logged(says, 1);
        expect_logged("nothing is measured in the background", 1);
        plan_run(&self, 1);
        plan_end(&self);
        expect_no_child();
    }
}

static void find_none(tuff_device *device)
{
    set_variable("TUFF_TUNE_WATCHDOG", "2");
    do_without(device, own_program, "other", "is from a different build");
    do_without(device, own_program, "silent", "timeout waiting");
    do_without(device, own_program, "noisy", "invalid message");
    do_without(device, own_program, "refuse", "there is something else there");
    do_without(device, "/bin/true", NULL, "closed the connection");
    set_variable("TUFF_TUNE_WATCHDOG", NULL);
}

/* That it is not installed is logged once. */
static void miss_it(tuff_device *device)
{
    static bool was_told;
    for (int needed = 0; needed < 2; needed++) {
        subject_plan self;
        begin_with_worker(NULL, "0");
        set_variable("TUFF_WORKER", needed ? "" : "/etc/passwd");
        compile(&self, device, needed ? TUFF_ISOLATE_ON : TUFF_ISOLATE_AUTO);
        const tuff_tune_stats stats = plan_await(&self);
        assert_int_equal(stats.measured, 0);
        expect_logged("cannot find the worker program", needed || !was_told);
        was_told = true;
        plan_end(&self);
    }
}

/* If opening the device kills the worker, that is not tried again. */
static void crash_while_opening(tuff_device *device)
{
    subject_plan self;
    begin_with_worker("begin", "0");
    compile(&self, device, TUFF_ISOLATE_AUTO);
    const tuff_tune_stats stats = plan_await(&self);
    assert_true(stats.measured == 0 && stats.compiles == 0);
    expect_logged("nothing is measured in the background", 1);
    plan_run(&self, 1);
    plan_end(&self);
    expect_no_child();
}

static void what_ends_a_worker_is_not_tried(void **state)
{
    (void)state;
    for_drawn_api(1, crash_while_opening);
}

/* A few times, then no more. */
static void lose_devices(tuff_device *device)
{
    static const char *const faults[] = {"lost", "nonsense", "lacking"};
    for (int i = 0; i < 3; i++) {
        subject_plan self;
        begin_with_worker(faults[i], "0");
        compile(&self, device, TUFF_ISOLATE_AUTO);
        const tuff_tune_stats stats = plan_await(&self);
        assert_true(stats.compiles == 0);
        expect_logged("background tuning stops after 3 workers", 1);
        plan_run(&self, 1);
        plan_end(&self);
        expect_no_child();
    }
}

static void there_are_a_few_workers_at_most(void **state)
{
    (void)state;
    for_drawn_api(0, lose_devices);
}

static void without_a_worker_nothing_is_measured(void **state)
{
    (void)state;
    for_drawn_api(1, find_none);
    for_drawn_api(0, miss_it);
}

/* At any moment: at once, while the worker is started, opens its device, or measures. */
static void give_up_plans(tuff_device *device)
{
    enum { TIMES = 14 };
    const int files = count_open_files();
    begin_with_worker(NULL, "0");
    for (int i = 0; i < TIMES; i++) {
        subject_plan self;
        compile(&self, device, TUFF_ISOLATE_ON);
        tuff__sleep((uint64_t)(i * i) * 4 * MILLISECOND);
        const uint64_t begin = tuff__nanoseconds();
        plan_end(&self);
        assert_true(tuff__nanoseconds() - begin < 5000 * MILLISECOND);
        expect_no_child();
        assert_int_equal(count_open_files(), files);
    }
    subject_plan last;
    begin_with_worker(NULL, "0");
    compile(&last, device, TUFF_ISOLATE_OFF);
    expect_logged("TUFF_ISOLATE_OFF forbids", 1);
    plan_end(&last);
    assert_int_equal(count_crashes(device), 0);
}

static void plans_may_be_given_up(void **state)
{
    (void)state;
    for_drawn_api(1, give_up_plans);
}

/* Programs that handle their children in their own ways. */
static void ignore_children(tuff_device *device)
{
    subject_plan self;
    begin_with_worker("crash", "1");
    assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    compile(&self, device, TUFF_ISOLATE_ON);
    assert_true(plan_await(&self).measured > 1);
    plan_end(&self);
    assert_true(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
    expect_no_child();
}

static void children_may_be_ignored(void **state)
{
    (void)state;
    for_drawn_api(0, ignore_children);
}

static int run_as_program(const char *selector)
{
    static subject_plan self;
    tuff_device *device = tuff_device_open(selector);
    set_idle(2 * MILLISECOND);
    compile(&self, device, TUFF_ISOLATE_ON);
    (void)alarm(60); /* in case nobody kills it */
    (void)pause();
    return 0;
}

static pid_t start_program(tuff_device *device, int *pipe_ends)
{
    tuff_device_info info;
    assert_int_equal(tuff_device_describe(device, &info), TUFF_OK);
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        (void)close(pipe_ends[1]);
        return child;
    }
    (void)close(pipe_ends[0]);
    (void)execl(own_program, own_program, "program", info.selector, (char *)NULL);
    _exit(127);
}

/* The worker ends with its program, keeps none of its files open, and no candidate is blamed for that. */
static void kill_program(tuff_device *device)
{
    int status;
    begin_with_worker(NULL, "0");
    for (int i = 0; i < 5; i++) {
        int ends[2];
        const pid_t caller = start_program(device, ends), worker = await_child(caller);
        (void)usleep((useconds_t)(i * 150000));
        for (int k = 0; k < 200 && getpgid(worker) != worker; k++)
            (void)usleep(5000); /* it is visible before it begins */
        assert_int_equal(getpgid(worker), worker);
        assert_int_equal(kill(caller, SIGKILL), 0);
        assert_int_equal(waitpid(caller, &status, 0), caller);
        expect_gone(worker, 1500);
        struct pollfd from = {.fd = ends[0], .events = POLLIN};
        assert_int_equal(poll(&from, 1, 1000), 1);
        (void)close(ends[0]);
    }
    subject_plan last;
    compile(&last, device, TUFF_ISOLATE_OFF);
    plan_end(&last);
    assert_int_equal(count_crashes(device), 0);
}

static void a_worker_ends_with_its_program(void **state)
{
    (void)state;
    for_drawn_api(0, kill_program);
}

/* What a worker has started, such as a driver's compiler, is killed with it. */
static void the_children_of_a_worker_end_too(void **state)
{
    (void)state;
    char path[700], child[700];
    worker_process process;
    (void)snprintf(path, sizeof path, "%s/worker", cache_folder());
    (void)snprintf(child, sizeof child, "%s/child", cache_folder());
    FILE *script = fopen(path, "w");
    assert_non_null(script);
    assert_true(fprintf(script, "#!/bin/sh\nsleep 600 &\necho $! >'%s.new'\nmv '%s.new' '%s'\nwait\n", child, child,
                        child) > 0);
    assert_int_equal(fclose(script), 0);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(tuff__worker_spawn(path, &process), TUFF_OK);
    FILE *written = NULL;
    for (int i = 0; i < 3000 && !(written = fopen(child, "r")); i++)
        (void)usleep(10000);
    int id = 0;
    const bool found = written && fscanf(written, "%d", &id) == 1;
    (void)tuff__worker_reap(&process, 0);
    assert_true(found && id > 0);
    (void)fclose(written);
    expect_gone(id, 5000);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_measures),
        cmocka_unit_test(a_crash_costs_a_candidate),
        cmocka_unit_test(many_crashes_end_it),
        cmocka_unit_test(what_hangs_is_ended),
        cmocka_unit_test(children_may_be_ignored),
        cmocka_unit_test(plans_may_be_given_up),
        cmocka_unit_test(a_worker_ends_with_its_program),
        cmocka_unit_test(without_a_worker_nothing_is_measured),
        cmocka_unit_test(what_ends_a_worker_is_not_tried),
        cmocka_unit_test(the_children_of_a_worker_end_too),
        cmocka_unit_test(there_are_a_few_workers_at_most),
    };
    if (!find_own_program())
        return 77;
    if (is_worker(count, arguments))
        return run_faulty_worker();
    if (count == 3 && strcmp(arguments[1], "program") == 0)
        return run_as_program(arguments[2]);
    tuff_set_log(record_log_line, NULL);
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
