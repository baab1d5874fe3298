/* Processes of the tool that tune a small model and are killed: at any moment, after which the next start works and no
   record is lost; with a worker, which is restarted if a signal ended it or it hangs; and many at once, of which one
   measures at a time. TUFF_TEST_KILLS is the number of kills of the first kind (200 for a full run). */
#define _DEFAULT_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
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
#include "base/thread.h"
#include "each_device.h"
#include "base/rng.h"
#include "tunedb/folder.h"

static const char *device;
static bool has_device;
static char tool_path[600], log_path[600];

#define NEED_DEVICE() \
    if (!has_device)  \
    skip()

/* Starts the tool on a small model; with isolate "on" a worker measures. */
static pid_t start(const char *isolate, const char *seconds)
{
    char *const arguments[] = {tool_path,
                               "tune",
                               "warm",
                               "--device",
                               (char *)device,
                               "--layers",
                               "1",
                               "--heads",
                               "2",
                               "--width",
                               "16",
                               "--context",
                               "16",
                               "--batch",
                               "2",
                               "--tune-budget",
                               (char *)seconds,
                               "--isolate",
                               (char *)isolate,
                               "--json",
                               NULL};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    const int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(log, 1);
    (void)dup2(log, 2);
    (void)execv(tool_path, arguments);
    _exit(127);
}

static void show_log(void)
{
    char line[300];
    FILE *log = fopen(log_path, "r");
    while (log && fgets(line, sizeof line, log))
        print_message("    %s", line);
    if (log)
        (void)fclose(log);
}

static void expect_done(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        show_log();
        fail_msg("status %x", (unsigned)status);
    }
}

static void empty_log(void)
{
    (void)remove(log_path);
}

typedef struct holdings {
    int wins, bads;
    int tuned, measured; /* winners that are not seeds: of all keys, of all lines */
    uint64_t damaged, lines;
} holdings;

static bool is_measured_winner(const tune_record *one)
{
    return one->kind == RECORD_WIN && !tuff__record_is_seed(one);
}

static int count_measured(const char *path)
{
    char line[4096];
    arena texts = {0};
    int count = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        tune_record one;
        line_state found;
        assert_int_equal(tuff__record_read(line, strcspn(line, "\n"), &texts, &one, &found), TUFF_OK);
        count += found == LINE_GOOD && is_measured_winner(&one);
    }
    if (file)
        (void)fclose(file);
    tuff__arena_free(&texts);
    return count;
}

static tuff_status add_holdings(const char *path, bool is_shipped, void *state)
{
    holdings *out = state;
    tune_store *store;
    int at = 0;
    if (is_shipped)
        return TUFF_OK;
    assert_int_equal(tuff__store_open(path, &store), TUFF_OK);
    for (const tune_record *one; (one = tuff__store_next(store, &at)) != NULL;) {
        out->wins += one->kind == RECORD_WIN;
        out->bads += one->kind == RECORD_REJECTION;
        out->tuned += is_measured_winner(one);
    }
    out->measured += count_measured(path);
    out->damaged += tuff__store_count(store).damaged;
    out->lines += tuff__store_count(store).lines;
    tuff__store_close(store);
    return TUFF_OK;
}

static holdings count_holdings(void)
{
    holdings out = {0};
    (void)tuff__tune_visit_stores(add_holdings, &out);
    return out;
}

static void use_cache_subfolder_with_log(const char *name)
{
    use_cache_subfolder(name);
    (void)snprintf(log_path, sizeof log_path, "%s.%s.log", cache_folder(), name);
    empty_log();
}

/* Tunes undisturbed, once or as often as it takes until so many keys are known. */
static void finish(int wins)
{
    for (int i = 0; i < 8 && (i == 0 || count_holdings().wins < wins); i++)
        expect_done(start("on", "3"));
}

static tuff_status forget_one(const char *path, bool is_shipped, void *state)
{
    (void)state;
    if (!is_shipped)
        assert_int_equal(remove(path), 0);
    return TUFF_OK;
}

static void forget(void)
{
    (void)tuff__tune_visit_stores(forget_one, NULL);
}

/* Returns the only child of a process; 0 if it has none yet. */
static pid_t child_of(pid_t parent)
{
    char path[64], line[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *list = fopen(path, "r");
    if (!list)
        return -1;
    if (!fgets(line, sizeof line, list))
        line[0] = 0;
    (void)fclose(list);
    return (pid_t)atoi(line);
}

/* Kills the tool and, just before it, its worker if there is one, so that neither can record the other's death. */
static void kill_both(pid_t parent)
{
    const pid_t worker = child_of(parent);
    if (worker > 0)
        (void)kill(worker, SIGKILL);
    (void)kill(parent, SIGKILL);
}

static void kills_lose_nothing(void **state)
{
    (void)state;
    const char *asked = getenv("TUFF_TEST_KILLS");
    const int kills = asked ? atoi(asked) : 3;
    rng from = {7};
    int most_bads = 0, most_wins = 0, early = 0;
    holdings last = {0};
    NEED_DEVICE();
    use_cache_subfolder_with_log("kills");
    for (int i = 0; i < kills; i++) {
        const pid_t child = start("on", "2");
        int status;
        (void)usleep(50000 + (useconds_t)tuff__rng_below(&from, 3500000));
        kill_both(child);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) { /* nothing was left to tune */
            assert_int_equal(WEXITSTATUS(status), 0);
            early++;
        }
        const holdings now = count_holdings();
        /* Written records remain, and a start blames one candidate at most, besides those that it rejected itself. */
        assert_true(now.wins >= last.wins && now.bads >= last.bads);
        assert_true(now.damaged <= (uint64_t)i + 1);
        most_bads = now.bads > most_bads ? now.bads : most_bads;
        most_wins = now.wins > most_wins ? now.wins : most_wins;
        last = now;
        if (WIFEXITED(status)) {
            forget();
            last = (holdings){0};
        }
    }
    finish(most_wins > 2 ? most_wins : 2);
    const holdings now = count_holdings();
    print_message("%d kills (%d of processes that were done): %d keys known afterwards, %d before; %d candidates left "
                  "out, %d lines torn\n",
                  kills, early, now.wins, most_wins, most_bads, (int)now.damaged);
    assert_true(now.wins >= 2 && now.wins >= most_wins);
}

static pid_t await_child(pid_t parent)
{
    for (int i = 0; i < 500; i++) {
        const pid_t child = child_of(parent);
        if (child != 0)
            return child;
        (void)usleep(20000);
    }
    return 0;
}

static bool log_contains(const char *subject)
{
    char line[400];
    bool found = false;
    FILE *log = fopen(log_path, "r");
    while (log && fgets(line, sizeof line, log))
        found = found || strstr(line, subject);
    if (log)
        (void)fclose(log);
    return found;
}

/* The worker's candidate is skipped; the rest is measured. */
static void a_worker_is_started_again(int signal_number, const char *says)
{
    const pid_t parent = start("on", "3");
    const pid_t child = await_child(parent);
    if (child < 0) {
        expect_done(parent);
        skip();
    }
    assert_true(child > 0);
    (void)usleep(1200000);
    assert_int_equal(kill(child, signal_number), 0);
    expect_done(parent);
    assert_true(log_contains(says));
    assert_true(log_contains("\"generate\""));
}

static void what_a_signal_ended_goes_on(void **state)
{
    (void)state;
    NEED_DEVICE();
    use_cache_subfolder_with_log("signal");
    a_worker_is_started_again(SIGKILL, "killed by signal 9");
}

static void what_stands_still_is_ended(void **state)
{
    (void)state;
    NEED_DEVICE();
    use_cache_subfolder_with_log("still");
    assert_int_equal(setenv("TUFF_TUNE_WATCHDOG", "3", 1), 0);
    a_worker_is_started_again(SIGSTOP, "stopped responding");
    assert_int_equal(unsetenv("TUFF_TUNE_WATCHDOG"), 0);
}

/* Ctrl-C reaches the worker process, and finished results are kept. */
static void an_interrupt_is_passed_on(void **state)
{
    (void)state;
    int status;
    NEED_DEVICE();
    use_cache_subfolder_with_log("interrupt");
    const pid_t parent = start("on", "300");
    assert_true(await_child(parent) != 0);
    (void)usleep(1500000);
    const uint64_t begin = tuff__nanoseconds();
    assert_int_equal(kill(parent, SIGINT), 0);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_true(tuff__nanoseconds() - begin < UINT64_C(60000000000));
}

/* While another process measures (here this one), the tool says so and waits, until it is interrupted. */
static void who_waits_can_be_stopped(void **state)
{
    (void)state;
    char path[FOLDER_SIZE + 32];
    int status;
    file_lock lock;
    NEED_DEVICE();
    use_cache_subfolder_with_log("waiting");
    assert_int_equal(tuff__tune_folder(path, FOLDER_SIZE), TUFF_OK);
    strcat(path, "/cpu.tune.lock");
    assert_int_equal(tuff__file_lock(path, 0, &lock), TUFF_OK);
    const pid_t child = start("off", "300");
    for (int i = 0; i < 100 && !log_contains("waiting for another process"); i++)
        (void)usleep(100000);
    const bool waits = log_contains("waiting for another process");
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    tuff__file_unlock(&lock);
    if (!waits) /* the locks of GPUs have other names */
        skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_int_equal(count_holdings().wins, 0);
}

/* Several at once in an empty cache: none fails, no line is lost or torn. */
static void many_tune_at_once(void **state)
{
    (void)state;
    enum { MANY = 3 };
    pid_t children[MANY];
    NEED_DEVICE();
    use_cache_subfolder_with_log("many");
    for (int i = 0; i < MANY; i++)
        children[i] = start("off", "2");
    for (int i = 0; i < MANY; i++)
        expect_done(children[i]);
    const holdings now = count_holdings();
    print_message("%d processes: %d keys known, %d lines, %d damaged, %d keys measured\n", MANY, now.wins,
                  (int)now.lines, (int)now.damaged, now.measured);
    assert_int_equal(now.damaged, 0);
    assert_int_equal(now.measured, now.tuned); /* no process measured what another one had found */
    assert_true(now.wins > 0);
}

static int find_tool(void **state)
{
    const char *build = getenv("TUFF_BUILD");
    if (!build)
        build = "..";
    (void)snprintf(tool_path, sizeof tool_path, "%s/tuff", build);
    if (use_fresh_cache(state) != 0)
        return 1;
    /* Only the tool opens drivers, because this process forks. */
    use_cache_subfolder_with_log("first");
    int status;
    const pid_t first = start("off", "0.2");
    assert_int_equal(waitpid(first, &status, 0), first);
    has_device = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!has_device)
        show_log();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kills_lose_nothing),         cmocka_unit_test(what_a_signal_ended_goes_on),
        cmocka_unit_test(what_stands_still_is_ended), cmocka_unit_test(an_interrupt_is_passed_on),
        cmocka_unit_test(who_waits_can_be_stopped),   cmocka_unit_test(many_tune_at_once),
    };
    device = getenv("TUFF_TEST_DEVICE");
    device = device ? device : "auto";
    (void)alarm(3000);
    return cmocka_run_group_tests(tests, find_tool, drop_cache);
}
