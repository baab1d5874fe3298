/* Journals of processes that were killed at any point, of machines that went down, of folders that cannot be written;
   and what the next process learns from them. */
#define _DEFAULT_SOURCE 1
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "journal_fixture.h"
#include "scratch_folder.h"
#include "base/rng.h"

/* Shared memory in which children and their parent record what they do. */
typedef struct board {
    _Atomic int begun, ending, started;
} board;

static void the_next_process_learns_of_it(void **state)
{
    (void)state;
    for (int phase = JOURNAL_COMPILE; phase < JOURNAL_PHASES; phase++) {
        die(JOURNAL_COMPILE, (journal_phase)phase, false);
        assert_int_equal(count_files(), 1);
        assert_counts(recover(), 1, 0, 0, 0);
        assert_int_equal(last.phase, phase);
        assert_string_equal(last.environment, "device x");
        assert_string_equal(last.op, "matmul 8x8");
        assert_string_equal(last.candidate, "map.local_size=4");
        assert_false(last.rebooted);
        assert_true(last.time > 1600000000);
        assert_counts(recover(), 0, 0, 0, 0);
        assert_int_equal(count_files(), 0);
    }
    assert_string_equal(tuff__journal_phase_text(JOURNAL_FIRST_RUN), "first-run");
    die(JOURNAL_COMPILE, JOURNAL_BENCH, true);
    assert_counts(recover(), 0, 1, 0, 0);
    assert_int_equal(count_files(), 0);
}

static void a_process_that_ends_well_leaves_nothing(void **state)
{
    (void)state;
    assert_counts(recover(), 0, 0, 0, 0);
    journal *first = open_journal(), *second = open_journal();
    assert_int_equal(count_files(), 2);
    assert_int_equal(tuff__journal_enter(first, JOURNAL_BENCH, "d", "o", "c", false), TUFF_OK);
    /* A process does not read its own journals, and they stay locked. */
    assert_counts(recover(), 0, 0, 0, 0);
    const pid_t child = fork();
    if (child == 0) {
        journal_counts found;
        check(tuff__journal_recover(scratch_folder(), note, NULL, &found) == TUFF_OK);
        check(found.alive == 2 && found.crashes == 0);
        _exit(0);
    }
    ended(child);
    tuff__journal_close(first);
    tuff__journal_close(second);
    tuff__journal_close(NULL);
    assert_int_equal(count_files(), 0);
}

/* Candidates of all slots are reported, whichever thread has them, except those that were finished. */
static void all_in_flight_are_told(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        journal *own;
        check(tuff__journal_open(scratch_folder(), &own) == TUFF_OK);
        for (int i = 1; i < JOURNAL_PLACES; i++)
            check(tuff__journal_acquire_slot(own, i, JOURNAL_COMPILE, "device x", "matmul 8x8", "map.local_size=4",
                                             true) == TUFF_OK);
        check(tuff__journal_enter(own, JOURNAL_BENCH, "device x", "matmul 8x8", "", false) == TUFF_OK);
        tuff__journal_release_slot(own, 2);
        (void)raise(SIGKILL);
    }
    killed(child);
    assert_counts(recover(), JOURNAL_PLACES - 1, 0, 0, 0);
    assert_int_equal(last.phase, JOURNAL_COMPILE);
    assert_int_equal(count_files(), 0);
}

/* No candidate in any slot is blamed, nor one that another thread enters before the process ends. */
static void who_abandons_blames_nobody(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        journal *own;
        check(tuff__journal_open(scratch_folder(), &own) == TUFF_OK);
        for (int i = 0; i < JOURNAL_PLACES; i++)
            check(tuff__journal_acquire_slot(own, i, JOURNAL_COMPILE_AHEAD, "d", "o", "c", true) == TUFF_OK);
        tuff__journal_abandon(own);
        check(tuff__journal_acquire_slot(own, 1, JOURNAL_COMPILE_AHEAD, "d", "o", "c", false) == TUFF_OK);
        _exit(0);
    }
    ended(child);
    assert_counts(recover(), 0, 0, 0, 0);
    assert_int_equal(count_files(), 0);
}

static void too_long_texts_are_refused(void **state)
{
    (void)state;
    static char op[JOURNAL_TEXTS];
    memset(op, 'o', sizeof op - 1);
    journal *own = open_journal();
    assert_int_equal(tuff__journal_enter(own, JOURNAL_BENCH, "d", op, "c", false), TUFF_E_LIMIT);
    assert_non_null(strstr(tuff_error(), "longer than"));
    op[sizeof op - 5] = 0;
    assert_int_equal(tuff__journal_enter(own, JOURNAL_BENCH, "d", op, "c", false), TUFF_OK);
    assert_int_equal(tuff__journal_enter(own, JOURNAL_BENCH, "dd", op, "c", false), TUFF_E_LIMIT);
    tuff__journal_close(own);
}

/* Tries one candidate after the other, each with texts that would show if two were mixed. */
static void work(board *on)
{
    journal *own;
    check(tuff__journal_open(scratch_folder(), &own) == TUFF_OK);
    on->started = 1;
    for (int i = 1;; i++) {
        char candidate[256], op[256], digits[16];
        memset(candidate, 'a' + i % 26, sizeof candidate);
        memset(op, 'a' + i % 26, sizeof op);
        candidate[8 + i % 200] = op[5 + i % 90] = 0;
        (void)snprintf(digits, sizeof digits, "%08d", i);
        memcpy(candidate, digits, 8);
        check(tuff__journal_enter(own, JOURNAL_COMPILE, "d", op, candidate, i % 64 == 0) == TUFF_OK);
        on->begun = i;
        tuff__journal_set_phase(own, JOURNAL_FIRST_RUN);
        on->ending = i;
        tuff__journal_leave(own);
    }
}

/* The candidate in flight of a killed process is reported, complete; no other is. */
static void no_kill_loses_a_crash(void **state)
{
    (void)state;
    enum { KILLS = 300 };
    rng from = {1};
    int crashes = 0, idle = 0;
    for (int i = 0; i < KILLS; i++) {
        board *on = share_memory(sizeof(board));
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            work(on);
        while (!on->started && i % 10)
            (void)usleep(50);
        (void)usleep((useconds_t)tuff__rng_below(&from, 1500));
        assert_int_equal(kill(child, SIGKILL), 0);
        killed(child);
        const journal_counts found = recover();
        assert_int_equal(found.damaged, 0);
        assert_int_equal(found.alive, 0);
        assert_in_range(found.crashes + found.idle, on->started, 1);
        const int begun = on->begun, ending = on->ending;
        if (begun > ending)
            assert_int_equal(found.crashes, 1);
        if (found.crashes) {
            const int step = atoi(last.candidate);
            assert_in_range(step, begun, begun + (begun == ending));
            const size_t length = 8 + (size_t)step % 200;
            assert_int_equal(strlen(last.candidate), length);
            assert_int_equal(strlen(last.op), 5 + step % 90);
            assert_int_equal(last.op[4], 'a' + step % 26);
            assert_true(length == 8 || last.candidate[length - 1] == 'a' + step % 26);
        }
        crashes += found.crashes;
        idle += found.idle;
        unshare_memory(on, sizeof *on);
    }
    /* A process killed before its journal was renamed may have left a temporary file. */
    print_message("%d kills: %d crashes, %d between candidates\n", KILLS, crashes, idle);
    assert_true(crashes > 30);
}

static void a_child_does_not_keep_its_parent_alive(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        journal *own;
        check(tuff__journal_open(scratch_folder(), &own) == TUFF_OK);
        check(tuff__journal_enter(own, JOURNAL_VERIFY, "d", "o", "c", false) == TUFF_OK);
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            (void)pause();
            _exit(0);
        }
        check(write(ends[1], &grandchild, sizeof grandchild) == (ssize_t)sizeof grandchild);
        (void)pause();
    }
    pid_t grandchild;
    assert_int_equal(read(ends[0], &grandchild, sizeof grandchild), sizeof grandchild);
    assert_counts(recover(), 0, 0, 1, 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    killed(child);
    assert_counts(recover(), 1, 0, 0, 0);
    assert_int_equal(kill(grandchild, SIGKILL), 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_machine_that_went_down_is_told_from_a_process(void **state)
{
    (void)state;
    const char *real = tuff__boot_id_path;
    static char path[512];
    (void)snprintf(path, sizeof path, "%s", scratch_path("boot"));
    scratch_write("boot", "first\n", 6);
    tuff__boot_id_path = path;
    die(JOURNAL_FIRST_RUN, JOURNAL_FIRST_RUN, false);
    die(JOURNAL_FIRST_RUN, JOURNAL_FIRST_RUN, true);
    scratch_write("boot", "second\n", 7);
    assert_counts(recover(), 1, 1, 0, 0);
    assert_true(last.rebooted);
    assert_int_equal(last.phase, JOURNAL_FIRST_RUN);
    /* A running process holds its lock, whatever the file says. */
    journal *own = open_journal();
    const pid_t child = fork();
    if (child == 0) {
        journal_counts found;
        scratch_write("boot", "third\n", 6);
        check(tuff__journal_recover(scratch_folder(), note, NULL, &found) == TUFF_OK);
        check(found.alive == 1);
        _exit(0);
    }
    ended(child);
    tuff__journal_close(own);
    /* Without a boot id a reboot cannot be detected. */
    tuff__boot_id_path = "/nowhere";
    die(JOURNAL_BENCH, JOURNAL_BENCH, false);
    assert_counts(recover(), 1, 0, 0, 0);
    assert_false(last.rebooted);
    tuff__boot_id_path = real;
}

static void without_locks_the_number_and_start_tell(void **state)
{
    (void)state;
    journal_owner here, other;
    tuff__journal_describe_owner(&here);
    assert_int_equal(here.pid, getpid());
    assert_true(here.start > 0);
    assert_true(here.boot[0] != 0);
    write_journal("lives.1.2", &here, false, JOURNAL_BENCH);
    assert_counts(recover(), 0, 0, 1, 0);
    /* The process id is in use again by another process. */
    other = here;
    other.start++;
    write_journal("lives.1.2", &other, false, JOURNAL_BENCH);
    assert_counts(recover(), 1, 0, 0, 0);
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    ended(child);
    other = here;
    other.pid = (uint64_t)child;
    write_journal("gone.1.2", &other, false, JOURNAL_BENCH);
    assert_counts(recover(), 1, 0, 0, 0);
    /* Nothing is known about processes of another host, unless the lock can be taken. */
    strcpy(other.host, "elsewhere");
    write_journal("far.1.2", &other, false, JOURNAL_BENCH);
    assert_counts(recover(), 0, 0, 1, 0);
    write_journal("far.1.2", &other, true, JOURNAL_BENCH);
    assert_counts(recover(), 1, 0, 0, 0);
    /* The boot id of another host does not show whether that machine crashed. */
    strcpy(other.boot, "another");
    write_journal("far.1.2", &other, true, JOURNAL_BENCH);
    assert_counts(recover(), 1, 0, 0, 0);
    assert_false(last.rebooted);
    other = here;
    strcpy(other.boot, "another");
    write_journal("before.1.2", &other, false, JOURNAL_BENCH);
    assert_counts(recover(), 1, 0, 0, 0);
    assert_true(last.rebooted);
    assert_int_equal(count_files(), 0);
}

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(the_next_process_learns_of_it),
        SCRATCH_TEST(a_process_that_ends_well_leaves_nothing),
        SCRATCH_TEST(all_in_flight_are_told),
        SCRATCH_TEST(who_abandons_blames_nobody),
        SCRATCH_TEST(too_long_texts_are_refused),
        SCRATCH_TEST(no_kill_loses_a_crash),
        SCRATCH_TEST(a_child_does_not_keep_its_parent_alive),
        SCRATCH_TEST(a_machine_that_went_down_is_told_from_a_process),
        SCRATCH_TEST(without_locks_the_number_and_start_tell),
    };
    /* Ends a hang. */
    (void)alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
