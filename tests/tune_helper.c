/* The helper that tunes in the background for a program, and what becomes of the program: where it crashes, hangs, is
   of another build or not there; where the program is killed or gives its plan up. This program is all of them: called
   with "tune helper" it is a helper, with TUFF_TEST_FAULT an ill one. */
#define _DEFAULT_SOURCE 1
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "background_fixture.h"
#include "base/thread.h"
#include "each_device.h"
#include "processes.h"
#include "run/wire.h"
#include "tools/verbs.h"
#include "tune/folder.h"
#include "tune/journal_parts.h"
#include "tune/lookup.h"
#include "tune_fixture.h"

static char own[500];

static void set(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

/* The ill helpers. */

/* True while a candidate that is not the default is under way in this process. */
static bool is_at_candidate(void)
{
    static char folder[FOLDER_SIZE], name[JOURNAL_NAME], path[JOURNAL_PATH];
    journal_owner owner;
    journal_page page;
    tuff__journal_owner(&owner);
    tuff__journal_name(&owner, name, sizeof name);
    if (tuff__tune_folder(folder, sizeof folder) != TUFF_OK || tuff__journal_path(folder, name, path) != TUFF_OK)
        return false;
    FILE *file = fopen(path, "rb");
    const bool read = file && fread(&page, sizeof page, 1, file) == 1;
    if (file)
        (void)fclose(file);
    if (!read || page.phase == JOURNAL_IDLE || page.check != tuff__journal_check(&page))
        return false;
    const char *op = page.texts + strlen(page.texts) + 1;
    return op[strlen(op) + 1] != '\0';
}

/* At the first candidate, as often as TUFF_TEST_TIMES files of that name and a number can be made. */
static void *fall_ill(void *argument)
{
    const int number = *(const int *)argument;
    const char *mark = getenv("TUFF_TEST_MARK");
    char path[600];
    for (; !is_at_candidate();)
        (void)usleep(300);
    for (int i = 0, times = atoi(getenv("TUFF_TEST_TIMES")); i < times; i++) {
        (void)snprintf(path, sizeof path, "%s.%d", mark, i);
        const int made = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (made < 0)
            continue;
        (void)close(made);
        (void)kill(getpid(), number);
        for (;;)
            (void)pause();
    }
    return NULL;
}

static void say_text(wire_kind kind, const char *what)
{
    text body = {0};
    tuff__put_text(&body, what);
    (void)tuff__wire_send(STDIN_FILENO, kind, &body);
    tuff__text_free(&body);
}

static void say_lost(void)
{
    const tuff_tune_stats stats = {.measured = 1};
    text body = {0};
    tuff__put_u32(&body, TUFF_OK);
    tuff__put_text(&body, "");
    tuff__put_u8(&body, true);
    tuff__put_u32(&body, 1);
    tuff__put_u8(&body, false);
    tuff__put_u32(&body, TIER_DEFAULT);
    tuff__put_text(&body, "");
    tuff__put_bytes(&body, &stats, sizeof stats);
    (void)tuff__wire_send(STDIN_FILENO, WIRE_MEASURED, &body);
    tuff__text_free(&body);
}

/* Answers as a helper does, but its device is lost with every key; or it makes no sense; or it ends as it begins. */
static int play_helper(const char *fault)
{
    char build[WIRE_BUILD_SIZE];
    wire_message in = {0};
    text yes = {0};
    tuff__put_u8(&yes, true);
    say_text(WIRE_HELLO, tuff__wire_build(build));
    while (tuff__wire_receive(STDIN_FILENO, (size_t)1 << 30, UINT64_MAX, &in) == TUFF_OK && in.kind != WIRE_END)
        if (in.kind == WIRE_BEGIN && strcmp(fault, "begin") == 0)
            (void)kill(getpid(), SIGKILL);
        else if (in.kind == WIRE_BEGIN)
            say_text(WIRE_READY, strcmp(fault, "refuse") == 0 ? "there is something else there" : "");
        else if (in.kind == WIRE_TAKE)
            (void)tuff__wire_send(STDIN_FILENO, WIRE_ANSWER, &yes);
        else if (in.kind == WIRE_MEASURE && strcmp(fault, "lost") == 0)
            say_lost();
        else if (in.kind == WIRE_MEASURE)
            say_text(WIRE_MEASURED, "nothing of what was asked for");
    tuff__text_free(&yes);
    tuff__wire_free(&in);
    return 0;
}

static int be_helper(void)
{
    static int number;
    pthread_t thread;
    const char *fault = getenv("TUFF_TEST_FAULT");
    if (fault && strcmp(fault, "other") == 0) {
        say_text(WIRE_HELLO, "0.0.1 of long ago");
        (void)pause();
    }
    if (fault && strcmp(fault, "silent") == 0)
        (void)pause();
    if (fault && strchr("blnr", fault[0]) && strcmp(fault, "noisy") != 0)
        return play_helper(fault);
    if (fault && strcmp(fault, "noisy") == 0)
        for (;;)
            if (write(STDIN_FILENO, "what is this to mean?", 21) < 0)
                return 1;
    number = !fault ? 0 : strcmp(fault, "crash") == 0 ? SIGKILL : strcmp(fault, "hang") == 0 ? SIGSTOP : 0;
    if (number != 0 && pthread_create(&thread, NULL, fall_ill, &number) == 0)
        (void)pthread_detach(thread);
    return verb_tune_helper(0, NULL);
}

/* What was said to the log. */
static struct {
    mutex lock;
    char lines[32][600];
    int count;
} heard = {.lock = MUTEX_INITIALIZER};

static void hear(void *user, tuff_log_level level, const char *line)
{
    (void)user;
    tuff__lock(&heard.lock);
    if (level <= TUFF_LOG_INFO && heard.count < 32)
        (void)snprintf(heard.lines[heard.count++], sizeof *heard.lines, "%s", line);
    tuff__unlock(&heard.lock);
}

static int count_heard(const char *what)
{
    int count = 0;
    tuff__lock(&heard.lock);
    for (int i = 0; i < heard.count; i++)
        count += strstr(heard.lines[i], what) != NULL;
    tuff__unlock(&heard.lock);
    return count;
}

static void expect_heard(const char *what, int times)
{
    const int count = count_heard(what);
    if (count == times)
        return;
    for (int i = 0; i < heard.count; i++)
        print_message("    heard: %s\n", heard.lines[i]);
    fail_msg("\"%s\" was said %d times, not %d", what, count, times);
}

static void remove_marks(void)
{
    char line[700];
    (void)snprintf(line, sizeof line, "rm -f '%s/mark'.*", cache_folder());
    assert_int_equal(system(line), 0);
}

static void begin_with(const char *fault, const char *times)
{
    char mark[600];
    forget_stores();
    set_idle(2 * MILLISECOND);
    heard.count = 0;
    (void)snprintf(mark, sizeof mark, "%s/mark", cache_folder());
    remove_marks();
    set("TUFF_HELPER", own);
    set("TUFF_TEST_FAULT", fault);
    set("TUFF_TEST_MARK", mark);
    set("TUFF_TEST_TIMES", times);
}

static void compile(subject_plan *self, tuff_device *device, tuff_tune_isolation isolate)
{
    const tuff_compile_options options = {
        .tune = TUFF_TUNE_QUICK, .tune_milliseconds = 4000, .tune_background = true, .tune_isolate = isolate};
    plan_begin(self, device);
    if (!plan_compile(self, &options))
        fail_msg("%s", tuff_error());
    plan_write_x(self);
}

static int count_strikes(tuff_device *device)
{
    char environment[ENVIRONMENT_SIZE];
    tune_store *store = open_device_store(device, environment);
    int at = 0, count = 0;
    for (const tune_record *one; (one = tuff__store_next(store, &at)) != NULL;)
        count += one->kind == RECORD_BAD && strcmp(one->reason, "crash") == 0;
    tuff__store_close(store);
    return count;
}

/* Of the program nothing is in the way: plan, files, children and signals are as they were. */
static void measure_apart(tuff_device *device)
{
    subject_plan self;
    struct sigaction child, broken;
    begin_with(NULL, "0");
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
    expect_heard("helper", 0);
}

static void a_helper_measures(void **state)
{
    (void)state;
    for_each_api(measure_apart);
}

/* The candidate is struck, the helper started again, and the rest is tuned. */
static void crash_once(tuff_device *device)
{
    subject_plan self;
    begin_with("crash", "1");
    compile(&self, device, TUFF_ISOLATE_ON);
    const tuff_tune_stats stats = plan_await(&self);
    expect_heard("was ended by signal 9", 1);
    expect_heard("it is not tried again", 1);
    assert_int_equal(count_strikes(device), 1);
    assert_true(stats.crashes == 1 && stats.measured > 1);
    plan_run(&self, 1);
    plan_run(&self, 2);
    plan_end(&self);
    expect_no_child();
}

static void a_crash_costs_a_candidate(void **state)
{
    (void)state;
    for_each_api(crash_once);
}

/* Two within a day are enough for a device. */
static void crash_always(tuff_device *device)
{
    subject_plan self;
    begin_with("crash", "9");
    compile(&self, device, TUFF_ISOLATE_AUTO);
    const tuff_tune_stats stats = plan_await(&self);
    expect_heard("was ended by signal 9", 2);
    expect_heard("tuning in the background ends", 1);
    assert_true(stats.crashes == 2 && count_strikes(device) == 2);
    plan_run(&self, 1);
    plan_end(&self);
    expect_no_child();
    forget_stores();
}

static void many_crashes_end_it(void **state)
{
    (void)state;
    for_each_api(crash_always);
}

static void hang_once(tuff_device *device)
{
    subject_plan self;
    begin_with("hang", "1");
    set("TUFF_TUNE_WATCHDOG", "2");
    compile(&self, device, TUFF_ISOLATE_ON);
    const tuff_tune_stats stats = plan_await(&self);
    set("TUFF_TUNE_WATCHDOG", NULL);
    expect_heard("showed no sign of life", 1);
    assert_int_equal(count_strikes(device), 1);
    assert_true(stats.measured > 1);
    plan_run(&self, 1);
    plan_end(&self);
    expect_no_child();
}

static void what_hangs_is_ended(void **state)
{
    (void)state;
    for_each_api(hang_once);
}

/* A helper that is none: the program's thread does it, or, where that is not wanted, nobody. */
static void do_without(tuff_device *device, const char *file, const char *fault, const char *says)
{
    for (int needed = 0; needed < 2; needed++) {
        subject_plan self;
        begin_with(fault, "0");
        set("TUFF_HELPER", file);
        compile(&self, device, needed ? TUFF_ISOLATE_ON : TUFF_ISOLATE_AUTO);
        const tuff_tune_stats stats = plan_await(&self);
        assert_true(needed ? stats.measured == 0 && stats.compiles == 0 : stats.measured > 0);
        expect_heard(says, 1);
        expect_heard(needed ? "nothing is measured in the background" : "a thread of this process measures instead", 1);
        plan_run(&self, 1);
        plan_end(&self);
        expect_no_child();
    }
}

static void find_none(tuff_device *device)
{
    set("TUFF_TUNE_WATCHDOG", "2");
    do_without(device, own, "other", "is of another build");
    do_without(device, own, "silent", "does not answer");
    do_without(device, own, "noisy", "is no message");
    do_without(device, own, "refuse", "there is something else there");
    do_without(device, "/bin/true", NULL, "has closed its end");
    set("TUFF_TUNE_WATCHDOG", NULL);
}

/* That it is not installed is said once. */
static void miss_it(tuff_device *device)
{
    static bool was_told;
    for (int needed = 0; needed < 2; needed++) {
        subject_plan self;
        begin_with(NULL, "0");
        set("TUFF_HELPER", needed ? "" : "/etc/passwd");
        compile(&self, device, needed ? TUFF_ISOLATE_ON : TUFF_ISOLATE_AUTO);
        const tuff_tune_stats stats = plan_await(&self);
        assert_true(needed ? stats.measured == 0 : stats.measured > 0);
        expect_heard("there is no helper", needed || !was_told);
        was_told = true;
        plan_end(&self);
    }
}

/* What ends a helper at its beginning would end the program too. */
static void begin_badly(tuff_device *device)
{
    subject_plan self;
    begin_with("begin", "0");
    compile(&self, device, TUFF_ISOLATE_AUTO);
    const tuff_tune_stats stats = plan_await(&self);
    assert_true(stats.measured == 0 && stats.compiles == 0);
    expect_heard("nothing is measured in the background", 1);
    plan_run(&self, 1);
    plan_end(&self);
    expect_no_child();
}

static void what_ends_a_helper_is_not_tried(void **state)
{
    (void)state;
    for_each_api(begin_badly);
}

/* A few times, then no more. */
static void lose_devices(tuff_device *device)
{
    static const char *const faults[] = {"lost", "nonsense"};
    for (int i = 0; i < 2; i++) {
        subject_plan self;
        begin_with(faults[i], "0");
        compile(&self, device, TUFF_ISOLATE_AUTO);
        const tuff_tune_stats stats = plan_await(&self);
        assert_true(stats.compiles == 0);
        expect_heard("tuning in the background ends after 3 helpers", 1);
        plan_run(&self, 1);
        plan_end(&self);
        expect_no_child();
    }
}

static void there_are_a_few_helpers_at_most(void **state)
{
    (void)state;
    for_each_api(lose_devices);
}

static void without_a_helper_a_thread_measures(void **state)
{
    (void)state;
    for_each_api(find_none);
    for_each_api(miss_it);
}

/* At any moment, and at once: while it is started, opens its device, measures. */
static void give_up_plans(tuff_device *device)
{
    enum { TIMES = 14 };
    const int files = count_open_files();
    begin_with(NULL, "0");
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
    begin_with(NULL, "0");
    compile(&last, device, TUFF_ISOLATE_OFF);
    plan_end(&last);
    assert_int_equal(count_strikes(device), 0);
}

static void plans_may_be_given_up(void **state)
{
    (void)state;
    for_each_api(give_up_plans);
}

/* Programs that look after their children in ways of their own. */
static void ignore_children(tuff_device *device)
{
    subject_plan self;
    begin_with("crash", "1");
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
    for_each_api(ignore_children);
}

static int be_program(const char *selector)
{
    static subject_plan self;
    tuff_device *device = tuff_device_open(selector);
    set_idle(2 * MILLISECOND);
    compile(&self, device, TUFF_ISOLATE_ON);
    (void)alarm(60); /* where nobody comes to kill it */
    (void)pause();
    return 0;
}

static pid_t start_program(tuff_device *device, int *pipe_ends)
{
    tuff_device_info info;
    assert_int_equal(tuff_device_information(device, &info), TUFF_OK);
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        (void)close(pipe_ends[1]);
        return child;
    }
    (void)close(pipe_ends[0]);
    (void)execl(own, own, "program", info.selector, (char *)NULL);
    _exit(127);
}

/* The helper ends with its program, keeps nothing of it open, and nobody is blamed for that. */
static void kill_program(tuff_device *device)
{
    int status;
    begin_with(NULL, "0");
    for (int i = 0; i < 5; i++) {
        int ends[2];
        const pid_t caller = start_program(device, ends), helper = await_child(caller);
        (void)usleep((useconds_t)(i * 150000));
        for (int k = 0; k < 200 && getpgid(helper) != helper; k++)
            (void)usleep(5000); /* it is seen before it begins */
        assert_int_equal(getpgid(helper), helper);
        assert_int_equal(kill(caller, SIGKILL), 0);
        assert_int_equal(waitpid(caller, &status, 0), caller);
        expect_gone(helper, 1500);
        struct pollfd from = {.fd = ends[0], .events = POLLIN};
        assert_int_equal(poll(&from, 1, 1000), 1);
        (void)close(ends[0]);
    }
    subject_plan last;
    compile(&last, device, TUFF_ISOLATE_OFF);
    plan_end(&last);
    assert_int_equal(count_strikes(device), 0);
}

static void a_helper_ends_with_its_program(void **state)
{
    (void)state;
    for_each_api(kill_program);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_helper_measures),
        cmocka_unit_test(a_crash_costs_a_candidate),
        cmocka_unit_test(many_crashes_end_it),
        cmocka_unit_test(what_hangs_is_ended),
        cmocka_unit_test(children_may_be_ignored),
        cmocka_unit_test(plans_may_be_given_up),
        cmocka_unit_test(a_helper_ends_with_its_program),
        cmocka_unit_test(without_a_helper_a_thread_measures),
        cmocka_unit_test(what_ends_a_helper_is_not_tried),
        cmocka_unit_test(there_are_a_few_helpers_at_most),
    };
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return 77;
    if (count == 3 && strcmp(arguments[1], "tune") == 0)
        return be_helper();
    if (count == 3 && strcmp(arguments[1], "program") == 0)
        return be_program(arguments[2]);
    tuff_set_log(hear, NULL);
    return cmocka_run_group_tests(tests, use_fresh_cache, drop_cache);
}
