/* Journals that are damaged, invalid, read by several processes at once, or cannot be written; file operations and
   allocations that fail. */
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

#include "base/file/file.h"
#include "failing_memory.h"
#include "faulty_files.h"
#include "journal_fixture.h"
#include "scratch_folder.h"
#include "base/rng.h"

enum { CHILDREN = 4, JOURNALS = 12 };

/* Shared memory in which readers count reports. */
typedef struct board {
    _Atomic int reported[JOURNALS];
    _Atomic bool go;
} board;

/* Any byte changed, any length: reported correctly, or counted as damaged; removed in any case, unless the owner seems
   to be alive. */
static void damage_is_noticed(void **state)
{
    (void)state;
    size_t size;
    char *whole = (char *)write_dead_journal(JOURNAL_BENCH, &size);
    int reported = 0, damaged = 0;
    for (size_t at = 0; at < JOURNAL_PAGE; at += at < 512 ? 1 : 13)
        for (int bit = 0; bit < 8; bit++) {
            whole[at] = (char)(whole[at] ^ 1 << bit);
            scratch_write("inflight/dead.1.2", whole, size);
            const journal_counts found = recover();
            if (found.crashes) {
                assert_string_equal(last.environment, "d");
                assert_string_equal(last.op, "o");
                assert_string_equal(last.candidate, "c");
            }
            assert_int_equal(access(scratch_path("inflight/dead.1.2"), F_OK) == 0, found.alive == 1);
            reported += found.crashes;
            damaged += found.damaged;
            whole[at] = (char)(whole[at] ^ 1 << bit);
            (void)unlink(scratch_path("inflight/dead.1.2"));
        }
    assert_true(damaged > 1000 && reported > 0 && reported < 100);
    for (size_t length = 0; length < size; length += 17) {
        scratch_write("inflight/dead.1.2", whole, length);
        assert_counts(recover(), 0, 0, 0, 1);
    }
    free(whole);
    assert_int_equal(count_files(), 0);
}

/* Several candidates of one process in flight: damaged ones count once, the others are reported. */
static void a_damaged_place_spoils_no_other(void **state)
{
    (void)state;
    size_t size;
    journal_slot *whole = write_dead_journal(JOURNAL_IDLE, &size);
    for (int i = 1; i < JOURNAL_PLACES; i++) {
        journal_page *page = &whole[i].page;
        page->phase = JOURNAL_COMPILE;
        page->time = (uint64_t)i;
        page->filled = 6;
        memcpy(page->texts, "d\0o\0", 4);
        page->texts[4] = (char)('0' + i);
        page->check = tuff__journal_check(page);
    }
    for (int bad = 0; bad < JOURNAL_PLACES; bad++) {
        whole[bad].page.texts[4] = 'x';
        scratch_write("inflight/dead.1.2", whole, size);
        const bool is_idle = bad == 0;
        assert_counts(recover(), JOURNAL_PREFETCH - !is_idle, 0, 0, !is_idle);
        /* All slots get the time of the last. */
        assert_int_equal(last.time, bad == JOURNAL_PREFETCH ? JOURNAL_PREFETCH - 1 : JOURNAL_PREFETCH);
        whole[bad].page.texts[4] = (char)('0' + bad);
    }
    free(whole);
    assert_int_equal(count_files(), 0);
}

/* A journal of an earlier version, whose files have one page. */
static void an_older_journal_is_read(void **state)
{
    (void)state;
    size_t size;
    journal_slot *whole = write_dead_journal(JOURNAL_BENCH, &size);
    memcpy(whole->page.magic, JOURNAL_MAGIC_SINGLE_PAGE, sizeof whole->page.magic);
    scratch_write("inflight/dead.1.2", whole, JOURNAL_PAGE);
    assert_counts(recover(), 0, 0, 0, 1);
    whole->page.size = JOURNAL_PAGE;
    scratch_write("inflight/dead.1.2", whole, JOURNAL_PAGE);
    assert_counts(recover(), 1, 0, 0, 0);
    assert_string_equal(last.candidate, "c");
    free(whole);
}

/* A file that is not one of tuff's journals is left alone, and does not block. */
static void strange_entries_are_left_alone(void **state)
{
    (void)state;
    const journal_owner dead = dead_owner();
    write_journal("real.1.2", &dead, true, JOURNAL_BENCH);
    write_journal("later.1.2", &dead, true, JOURNAL_BENCH);
    size_t size;
    char *page = scratch_read("inflight/later.1.2", &size);
    assert_non_null(page);
    page[7] = '3';
    scratch_write("inflight/later.1.2", page, size);
    free(page);
    assert_int_equal(mkfifo(scratch_path("inflight/fifo.1.2"), 0600), 0);
    assert_int_equal(mkdir(scratch_path("inflight/folder.1.2"), 0700), 0);
    assert_int_equal(symlink("real.1.2", scratch_path("inflight/link.1.2")), 0);
    scratch_write("inflight/x.1.2.tmp-1-2", "", 0);
    scratch_write("inflight/notes.txt", "", 0);
    scratch_write("inflight/notes.1.txt", "", 0);
    assert_counts(recover(), 1, 0, 1, 0);
    assert_int_equal(count_files(), 7);
    /* An old temporary file is removed. */
    const struct timeval then[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimes(scratch_path("inflight/x.1.2.tmp-1-2"), then), 0);
    assert_counts(recover(), 0, 0, 1, 0);
    assert_int_equal(count_files(), 6);
}

static file_operations real;
static journal_owner late;
static int reads;

/* The owner continues while its journal is read, and then dies. */
static ssize_t read_before_it_goes_on(int fd, void *data, size_t size, off_t offset)
{
    const ssize_t got = real.pread(fd, data, size, offset);
    if (reads++ == 0)
        write_journal("dead.1.2", &late, true, JOURNAL_FIRST_RUN);
    return got;
}

static void the_last_word_of_the_dead_counts(void **state)
{
    (void)state;
    late = dead_owner();
    write_journal("dead.1.2", &late, true, JOURNAL_IDLE);
    real = tuff__file;
    tuff__file.pread = read_before_it_goes_on;
    reads = 0;
    const journal_counts found = recover();
    tuff__file = real;
    assert_counts(found, 1, 0, 0, 0);
    assert_int_equal(last.phase, JOURNAL_FIRST_RUN);
}

static tuff_status count_crash(const journal_crash *crash, void *state)
{
    board *on = state;
    (void)usleep(200);
    on->reported[atoi(crash->op)]++;
    return TUFF_OK;
}

/* Leaves dead journals of JOURNALS processes, each with its number as op. */
static void leave_journals(void)
{
    const journal_owner dead = dead_owner();
    for (int i = 0; i < JOURNALS; i++) {
        char name[32], path[64];
        (void)snprintf(name, sizeof name, "dead.%d.2", i);
        (void)snprintf(path, sizeof path, "inflight/%s", name);
        write_journal(name, &dead, true, JOURNAL_BENCH);
        size_t size;
        journal_page *page = (journal_page *)(void *)scratch_read(path, &size);
        assert_non_null(page);
        memset(page->texts, 0, sizeof page->texts);
        page->texts[0] = 'd';
        page->filled = (uint32_t)(snprintf(page->texts + 2, 8, "%d", i) + 1 + 2 + 1);
        page->check = tuff__journal_check(page);
        scratch_write(path, page, size);
        free(page);
    }
}

/* Several readers at once, some of them killed: each crash is reported by one of them, or left for the next. */
static void racing_readers_lose_none(void **state)
{
    (void)state;
    rng from = {5};
    int twice = 0;
    for (int round = 0; round < 30; round++) {
        board *on = share_memory(sizeof(board));
        pid_t children[CHILDREN];
        leave_journals();
        for (int i = 0; i < CHILDREN; i++) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] == 0) {
                journal_counts found;
                while (!on->go)
                    (void)usleep(20);
                check(tuff__journal_recover(scratch_folder(), count_crash, on, &found) == TUFF_OK);
                check(found.damaged == 0);
                _exit(0);
            }
        }
        on->go = true;
        (void)usleep((useconds_t)tuff__rng_below(&from, 3000));
        const int victims = round % 3 ? CHILDREN : 0;
        for (int i = 0; i < victims; i++)
            (void)kill(children[i], SIGKILL);
        for (int i = 0; i < CHILDREN; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        }
        journal_counts found;
        assert_int_equal(tuff__journal_recover(scratch_folder(), count_crash, on, &found), TUFF_OK);
        for (int i = 0; i < JOURNALS; i++) {
            /* Reported again only if a reader was killed between reporting and removing it. */
            assert_in_range(on->reported[i], 1, victims ? CHILDREN + 1 : 1);
            twice += on->reported[i] > 1;
        }
        assert_int_equal(count_files(), 0);
        unshare_memory(on, sizeof *on);
    }
    print_message("%d of %d were reported more than once\n", twice, 30 * JOURNALS);
}

static tuff_status refuse(const journal_crash *crash, void *state)
{
    (void)crash, (void)state;
    return tuff__fail(TUFF_E_IO, "the store is full");
}

/* A crash that the callback could not store is kept for the next start. */
static void a_visitor_may_fail(void **state)
{
    (void)state;
    journal_counts found;
    die(JOURNAL_VERIFY, JOURNAL_VERIFY, false);
    assert_int_equal(tuff__journal_recover(scratch_folder(), refuse, NULL, &found), TUFF_E_IO);
    assert_string_equal(tuff_error(), "the store is full");
    assert_counts(recover(), 1, 0, 0, 0);
}

static void assert_no_journal(const char *folder, const char *why)
{
    journal *own;
    journal_counts found;
    assert_int_equal(tuff__journal_open(folder, &own), TUFF_OK);
    assert_non_null(strstr(tuff__journal_error(own), "no journal: "));
    assert_non_null(strstr(tuff__journal_error(own), why));
    assert_int_equal(tuff__journal_enter(own, JOURNAL_BENCH, "d", "o", "c", true), TUFF_OK);
    tuff__journal_set_phase(own, JOURNAL_VERIFY);
    tuff__journal_leave(own);
    tuff__journal_close(own);
    assert_int_equal(tuff__journal_recover(folder, note, NULL, &found), TUFF_OK);
    assert_int_equal(found.crashes + found.alive + found.damaged, 0);
}

static void where_nothing_can_be_written_there_is_no_journal(void **state)
{
    (void)state;
    static char long_name[JOURNAL_PATH + 1];
    memset(long_name, 'x', sizeof long_name - 1);
    assert_no_journal(long_name, "too long");
    assert_no_journal("/proc", "inflight");
    scratch_write("file", "", 0);
    assert_no_journal(scratch_path("file"), "inflight");
    assert_no_journal(scratch_path("missing"), "inflight");
    assert_int_equal(mkdir(scratch_path("open"), 0755), 0);
    assert_int_equal(mkdir(scratch_path("open/inflight"), 0755), 0);
    assert_int_equal(chmod(scratch_path("open/inflight"), 0777), 0);
    assert_no_journal(scratch_path("open"), "not a folder owned by this user");
    /* A link to elsewhere: nothing there is touched. */
    assert_int_equal(mkdir(scratch_path("link"), 0755), 0);
    assert_int_equal(mkdir(scratch_path("elsewhere"), 0755), 0);
    scratch_write("elsewhere/dead.1.2", "", 0);
    assert_int_equal(symlink("../elsewhere", scratch_path("link/inflight")), 0);
    assert_no_journal(scratch_path("link"), "not a folder");
    assert_int_equal(access(scratch_path("elsewhere/dead.1.2"), F_OK), 0);
    if (geteuid() != 0) {
        assert_int_equal(mkdir(scratch_path("closed"), 0500), 0);
        assert_no_journal(scratch_path("closed"), "inflight");
    }
}

/* Whichever file operation fails, once or from then on: there is a journal or none, no descriptor stays open, and no
   file is left behind. */
static void every_failing_operation_is_survived(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_EIO, FAULT_ENOSPC, FAULT_EINTR, FAULT_SHORT};
    int without = 0;
    for (int kind = 0; kind < 4; kind++)
        for (int sticky = 0; sticky < 2; sticky++) {
            bool hit = true;
            for (int failing = 1; hit; failing++) {
                journal *own;
                journal_counts found;
                faulty_files_begin(kinds[kind], failing, sticky);
                assert_int_equal(tuff__journal_open(scratch_folder(), &own), TUFF_OK);
                const bool kept = !tuff__journal_error(own)[0];
                (void)tuff__journal_enter(own, JOURNAL_BENCH, "d", "o", "c", true);
                tuff__journal_close(own);
                assert_int_equal(tuff__journal_recover(scratch_folder(), note, NULL, &found), TUFF_OK);
                assert_int_equal(faulty_files_open(), 0);
                hit = faulty_files_end();
                clear_files();
                assert_true(kept || hit);
                without += !kept;
            }
        }
    assert_true(without > 8);
}

static void without_memory_there_is_a_status(void **state)
{
    (void)state;
    die(JOURNAL_BENCH, JOURNAL_BENCH, false);
    int64_t failing = 1;
    for (bool hit = true; hit; failing++) {
        journal *own = NULL;
        journal_counts found;
        memset(&last, 0, sizeof last);
        failing_memory_begin(failing, true);
        const tuff_status opened = tuff__journal_open(scratch_folder(), &own);
        tuff__journal_close(own);
        const tuff_status reported = tuff__journal_recover(scratch_folder(), refuse, NULL, &found);
        hit = failing_memory_end();
        assert_true(opened == TUFF_OK || (hit && opened == TUFF_E_OOM_HOST));
        assert_true(reported == TUFF_E_IO || (hit && reported == TUFF_E_OOM_HOST));
        assert_true(!hit || reported == TUFF_E_OOM_HOST || opened == TUFF_E_OOM_HOST);
    }
    assert_true(failing > 4);
    assert_counts(recover(), 1, 0, 0, 0);
}

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(damage_is_noticed),
        SCRATCH_TEST(a_damaged_place_spoils_no_other),
        SCRATCH_TEST(an_older_journal_is_read),
        SCRATCH_TEST(strange_entries_are_left_alone),
        SCRATCH_TEST(the_last_word_of_the_dead_counts),
        SCRATCH_TEST(racing_readers_lose_none),
        SCRATCH_TEST(a_visitor_may_fail),
        SCRATCH_TEST(where_nothing_can_be_written_there_is_no_journal),
        SCRATCH_TEST(every_failing_operation_is_survived),
        SCRATCH_TEST(without_memory_there_is_a_status),
    };
    /* Ends a hang. */
    (void)alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
