/* The tuner's store: what is written is found again. Damage, concurrent and killed processes, full disks and invalid
   files lose only the records that they hit. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/file/lock.h"
#include "each_device.h"
#include "failing_memory.h"
#include "faulty_files.h"
#include "scratch_folder.h"
#include "tunedb/tidy.h"

static const char environment[] = "opencl; platform PoCL; device of a test";

static tune_record win_of(const char *op, const char *candidate, uint64_t samples)
{
    return (tune_record){.kind = RECORD_WIN,
                         .environment = tuff__hash_text(environment),
                         .key = tuff__hash_text(op),
                         .op = op,
                         .kernel_hash = "c31e",
                         .candidate = candidate,
                         .nanoseconds = {1000, 1100, 1300},
                         .samples = samples,
                         .default_nanoseconds = 2000,
                         .runners_up = {"tile_rows=4", "tile_rows=6", ""},
                         .cold = "w",
                         .end = "",
                         .budget_milliseconds = 3100,
                         .source = "live",
                         .library = "0.1.0",
                         .reason = "",
                         .phase = "",
                         .time = 1800000000};
}

static tune_record bad_of(const char *op, const char *candidate)
{
    tune_record record = win_of(op, candidate, 0);
    record.kind = RECORD_REJECTION;
    record.reason = "wrong";
    record.phase = "verify";
    return record;
}

static tune_record pin_of(const char *op, const char *candidate)
{
    tune_record record = bad_of(op, candidate);
    record.kind = RECORD_PIN;
    record.reason = "user";
    return record;
}

static tune_store *open_store(const char *path)
{
    tune_store *store = NULL;
    assert_int_equal(tuff__store_open(path, &store), TUFF_OK);
    return store;
}

static void add(tune_store *store, tune_record record)
{
    assert_int_equal(tuff__store_add(store, &record), TUFF_OK);
}

/* Six records under three keys; k0 has two wins. */
static void fill(const char *path)
{
    tune_store *store = open_store(path);
    tune_record described = tuff__empty_record;
    described.kind = RECORD_ENVIRONMENT;
    described.environment = tuff__hash_text(environment);
    described.op = environment;
    add(store, described);
    add(store, win_of("k0", "a=1", 20));
    add(store, win_of("k0", "a=2", 20));
    add(store, win_of("k1", "b=\"quoted\\\"", 20));
    add(store, bad_of("k1", "b=3"));
    add(store, pin_of("k2", "c=4"));
    assert_string_equal(tuff__store_error(store), "");
    tuff__store_close(store);
}

static const char *candidate_of(const tune_record *record)
{
    return record ? record->candidate : "";
}

static const char *win(const tune_store *store, const char *op)
{
    return candidate_of(tuff__store_winner(store, tuff__hash_text(environment), tuff__hash_text(op), NULL));
}

static bool is_bad(const tune_store *store, const char *op, const char *candidate)
{
    return tuff__store_rejection(store, tuff__hash_text(environment), tuff__hash_text(op), candidate, NULL) != NULL;
}

static int count_records(const tune_store *store)
{
    int at = 0, count = 0;
    while (tuff__store_next(store, &at))
        count++;
    return count;
}

static void records_come_back(void **state)
{
    (void)state;
    const char *path = scratch_path("device.jsonl");
    fill(path);
    tune_store *store = open_store(path);
    assert_string_equal(win(store, "k0"), "a=2");
    assert_string_equal(win(store, "k1"), "b=\"quoted\\\"");
    assert_string_equal(win(store, "k2"), "");
    assert_true(is_bad(store, "k1", "b=3"));
    assert_false(is_bad(store, "k1", "b=4"));
    assert_string_equal(candidate_of(tuff__store_pin(store, tuff__hash_text(environment), tuff__hash_text("k2"))),
                        "c=4");
    assert_null(tuff__store_winner(store, tuff__hash_text("another device"), tuff__hash_text("k0"), NULL));
    const tune_record *one = tuff__store_winner(store, tuff__hash_text(environment), tuff__hash_text("k0"), NULL),
                      wanted = win_of("k0", "a=2", 20);
    assert_memory_equal(one->nanoseconds, wanted.nanoseconds, sizeof wanted.nanoseconds);
    assert_int_equal(one->samples, 20);
    assert_int_equal(one->default_nanoseconds, 2000);
    assert_string_equal(one->runners_up[1], "tile_rows=6");
    assert_string_equal(one->runners_up[2], "");
    assert_int_equal(one->time, 1800000000);
    const store_counts counts = tuff__store_count(store);
    assert_true(counts.lines == 6 && counts.superseded == 1 && counts.damaged == 0 && counts.unknown == 0);
    assert_int_equal(count_records(store), 5);
    assert_string_equal(tuff__store_environment(store, tuff__hash_text(environment)), environment);
    assert_null(tuff__store_environment(store, tuff__hash_text("k0")));
    tuff__store_close(store);
}

/* A local measurement is replaced by later local measurements only, however few samples they have. */
static void what_is_foreign_replaces_nothing(void **state)
{
    (void)state;
    tune_store *store = open_store(NULL);
    tune_record seed = win_of("k", "a=0", 20);
    seed.source = "seed";
    add(store, seed);
    add(store, win_of("k", "a=1", 8));
    assert_string_equal(win(store, "k"), "a=1");
    add(store, seed);
    assert_string_equal(win(store, "k"), "a=1");
    tune_record imported = win_of("k", "a=3", 100), changed = win_of("k", "a=4", 5);
    imported.source = "import";
    changed.kernel_hash = "another text";
    add(store, imported);
    assert_string_equal(win(store, "k"), "a=1");
    add(store, win_of("k", "a=5", 20));
    add(store, win_of("k", "", 3));
    assert_string_equal(win(store, "k"), "");
    add(store, changed);
    assert_string_equal(win(store, "k"), "a=4");
    tuff__store_close(store);
}

/* Checks that all records found were written. */
static void expect_nothing_wrong(const tune_store *store)
{
    const char *first = win(store, "k0"), *second = win(store, "k1");
    const char *pin = candidate_of(tuff__store_pin(store, tuff__hash_text(environment), tuff__hash_text("k2")));
    assert_true(!first[0] || strcmp(first, "a=1") == 0 || strcmp(first, "a=2") == 0);
    assert_true(!second[0] || strcmp(second, "b=\"quoted\\\"") == 0);
    assert_true(!pin[0] || strcmp(pin, "c=4") == 0);
    assert_true(count_records(store) < 6);
}

static void every_flipped_byte_is_found(void **state)
{
    (void)state;
    static const unsigned char flips[] = {0x01, 0x20, 0x80, 0xff};
    fill(scratch_path("device.jsonl"));
    size_t size = 0;
    char *bytes = scratch_read("device.jsonl", &size);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        for (size_t k = 0; k < sizeof flips; k++) {
            bytes[i] = (char)(bytes[i] ^ flips[k]);
            scratch_write("damaged.jsonl", bytes, size);
            bytes[i] = (char)(bytes[i] ^ flips[k]);
            tune_store *store = open_store(scratch_path("damaged.jsonl"));
            const store_counts counts = tuff__store_count(store);
            assert_true(counts.damaged >= 1 && counts.damaged <= 2);
            expect_nothing_wrong(store);
            tuff__store_close(store);
        }
    free(bytes);
}

static void a_torn_end_costs_one_line(void **state)
{
    (void)state;
    fill(scratch_path("device.jsonl"));
    size_t size = 0;
    char *bytes = scratch_read("device.jsonl", &size);
    for (size_t i = 0; i <= size; i++) {
        scratch_write("torn.jsonl", bytes, i);
        tune_store *store = open_store(scratch_path("torn.jsonl"));
        const uint64_t lines = tuff__store_count(store).lines;
        expect_nothing_wrong(store);
        assert_true(tuff__store_count(store).damaged <= 1);
        add(store, win_of("new", "n=1", 20));
        tuff__store_close(store);
        store = open_store(scratch_path("torn.jsonl"));
        assert_string_equal(win(store, "new"), "n=1");
        assert_int_equal(tuff__store_count(store).lines, lines + 1);
        tuff__store_close(store);
    }
    free(bytes);
}

static void strange_lines_are_passed_over(void **state)
{
    (void)state;
    static const char *const bodies[] = {"{\"t\":\"later\",\"x\":[1,2]}",
                                         "{\"t\":\"win\"}",
                                         "{}",
                                         "[]",
                                         "{\"t\":3}",
                                         "{\"t\":\"pin\",\"k\":\"00\",\"op\":\"k\",\"c\":\"c=1\"}"};
    text lines = {0};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        tuff__text_add(&lines, "%08x %s\n", (unsigned)tuff__crc32(bodies[i], strlen(bodies[i])), bodies[i]);
    tuff__text_add(&lines, "\n\nno line at all\n");
    scratch_write("strange.jsonl", tuff__text_get(&lines), lines.length);
    tuff__text_free(&lines);
    tune_store *store = open_store(scratch_path("strange.jsonl"));
    const store_counts counts = tuff__store_count(store);
    assert_int_equal(counts.lines, 7);
    assert_int_equal(counts.unknown, 3); /* those without a kind may be from a later version */
    assert_int_equal(counts.damaged, 4);
    assert_int_equal(count_records(store), 0);
    add(store, win_of("k", "a=1", 20));
    assert_int_equal(tuff__store_compact(store, NULL, NULL), TUFF_OK);
    /* Lines that no version writes are dropped; one with a correct check may be a record of a later version. */
    assert_int_equal(tuff__store_count(store).damaged, 3);
    assert_int_equal(tuff__store_count(store).unknown, 3);
    assert_string_equal(win(store, "k"), "a=1");
    tuff__store_close(store);
}

enum { PROCESSES = 8, RECORDS = 250 };

static void append_many(const char *path, int process)
{
    tune_store *store = NULL;
    if (tuff__store_open(path, &store) != TUFF_OK)
        _exit(2);
    for (int i = 0; i < RECORDS; i++) {
        char op[32];
        snprintf(op, sizeof op, "p%d.%d", process, i);
        const tune_record record = win_of(op, op, 20);
        if (tuff__store_add(store, &record) != TUFF_OK || tuff__store_error(store)[0])
            _exit(3);
    }
    _exit(0);
}

/* Rewrites the file repeatedly while the others append. */
static void compact_often(const char *path)
{
    for (int i = 0; i < 50; i++) {
        tune_store *store = NULL;
        const struct timespec pause = {0, 1000000};
        if (tuff__store_open(path, &store) != TUFF_OK || tuff__store_compact(store, NULL, NULL) != TUFF_OK)
            _exit(4);
        tuff__store_close(store);
        nanosleep(&pause, NULL);
    }
    _exit(0);
}

static void append_together(const char *path, int compacting)
{
    int status;
    for (int i = 0; i < PROCESSES + compacting; i++)
        if (fork() == 0) {
            if (i < PROCESSES)
                append_many(path, i);
            compact_often(path);
        }
    for (int i = 0; i < PROCESSES + compacting; i++) {
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    tune_store *store = open_store(path);
    /* A process that waited too long for the lock has a shard, whose lines may have been moved to the file since. */
    if (compacting)
        assert_int_equal(tuff__store_compact(store, NULL, NULL), TUFF_OK);
    assert_int_equal(tuff__store_count(store).lines, PROCESSES * RECORDS);
    assert_int_equal(tuff__store_count(store).damaged, 0);
    for (int i = 0; i < PROCESSES * RECORDS; i++) {
        char op[32];
        snprintf(op, sizeof op, "p%d.%d", i / RECORDS, i % RECORDS);
        assert_string_equal(win(store, op), op);
    }
    tuff__store_close(store);
}

/* Reports each record that is written, and continues until it is killed. */
static void append_until_killed(const char *path, int round, int progress_pipe)
{
    tune_store *store = NULL;
    if (tuff__store_open(path, &store) != TUFF_OK)
        _exit(2);
    for (int i = 0;; i++) {
        char op[32];
        snprintf(op, sizeof op, "r%d.%d", round, i);
        const tune_record record = win_of(op, op, 20);
        if (tuff__store_add(store, &record) != TUFF_OK || write(progress_pipe, &i, sizeof i) != (ssize_t)sizeof i)
            _exit(3);
    }
}

/* Kills a writer in the middle of its work. Returns the number of the last record that it reported as written, or
   -1. */
static int kill_one(const char *path, int round)
{
    int ends[2], last = -1;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]); /* so that it ends when nobody reads any more */
        append_until_killed(path, round, ends[1]);
    }
    close(ends[1]);
    /* Waits for the first report, so that a slow start is not all that is interrupted. */
    const bool spoke = read(ends[0], &last, sizeof last) == (ssize_t)sizeof last;
    const struct timespec pause = {0, round * 97001L % 3000000};
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i; read(ends[0], &i, sizeof i) == (ssize_t)sizeof i;)
        last = i;
    close(ends[0]);
    assert_true(spoke);
    return last;
}

static void killed_writers_lose_nothing(void **state)
{
    (void)state;
    enum { FEW = 10, FILES = 40, ROUNDS = 20 };
    const int files = is_thorough() ? FILES : FEW;
    uint64_t lines = 0, damaged = 0;
    for (int file = 0; file < files; file++) {
        char name[32];
        int last[ROUNDS];
        snprintf(name, sizeof name, "killed%d.jsonl", file);
        for (int round = 0; round < ROUNDS; round++)
            last[round] = kill_one(scratch_path(name), round);
        tune_store *store = open_store(scratch_path(name));
        const store_counts counts = tuff__store_count(store);
        lines += counts.lines;
        damaged += counts.damaged;
        for (int round = 0; round < ROUNDS; round++)
            for (int i = 0; i <= last[round]; i++) {
                char op[32];
                snprintf(op, sizeof op, "r%d.%d", round, i);
                assert_string_equal(win(store, op), op);
            }
        tuff__store_close(store);
    }
    assert_true(damaged <= (uint64_t)files * ROUNDS);
    print_message("%d kills, %llu lines, %llu torn, no other line lost\n", files * ROUNDS, (unsigned long long)lines,
                  (unsigned long long)damaged);
}

static void processes_lose_nothing(void **state)
{
    (void)state;
    append_together(scratch_path("shared.jsonl"), 0);
}

static void processes_lose_nothing_to_compaction(void **state)
{
    (void)state;
    append_together(scratch_path("shared.jsonl"), 2);
    assert_string_equal(scratch_list(), "shared.jsonl shared.jsonl.lock ");
}

static void write_beside_a_lock(const char *path)
{
    tune_store *store = NULL;
    if (tuff__store_open(path, &store) != TUFF_OK)
        _exit(2);
    const tune_record record = win_of("aside", "s=1", 20);
    _exit(tuff__store_add(store, &record) == TUFF_OK && !tuff__store_error(store)[0] ? 0 : 3);
}

/* A process that cannot get the lock writes to a file of its own, which all read, and which compaction merges. */
static void a_held_lock_makes_a_shard(void **state)
{
    (void)state;
    const char *path = scratch_path("device.jsonl");
    file_lock held;
    int status;
    fill(path);
    assert_int_equal(tuff__file_lock(scratch_path("device.jsonl.lock"), 0, &held), TUFF_OK);
    if (fork() == 0)
        write_beside_a_lock(path);
    assert_true(wait(&status) > 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tune_store *store = open_store(path);
    assert_int_equal(tuff__store_count(store).shards, 1);
    assert_string_equal(win(store, "aside"), "s=1");
    assert_int_equal(tuff__store_compact(store, NULL, NULL), TUFF_E_TIMEOUT);
    assert_string_equal(win(store, "aside"), "s=1");
    tuff__file_unlock(&held);
    assert_int_equal(tuff__store_compact(store, NULL, NULL), TUFF_OK);
    assert_int_equal(tuff__store_count(store).shards, 0);
    assert_int_equal(tuff__store_count(store).superseded, 0);
    assert_string_equal(win(store, "aside"), "s=1");
    assert_string_equal(win(store, "k0"), "a=2");
    assert_string_equal(scratch_list(), "device.jsonl device.jsonl.lock ");
    tuff__store_close(store);
}

/* Records are ordered by time, not by file. */
static void a_shard_replaces_nothing_newer(void **state)
{
    (void)state;
    tune_record newer = win_of("k", "a=2", 20), older = win_of("k", "a=1", 20), newest = win_of("l", "a=3", 20);
    tune_store *store = open_store(scratch_path("device.jsonl.host.1.2"));
    older.time -= 10;
    newest.time += 10;
    add(store, older);
    add(store, newest);
    tuff__store_close(store);
    store = open_store(scratch_path("device.jsonl"));
    add(store, newer);
    add(store, win_of("l", "a=4", 20));
    tuff__store_close(store);
    store = open_store(scratch_path("device.jsonl"));
    assert_string_equal(win(store, "k"), "a=2");
    assert_string_equal(win(store, "l"), "a=3");
    tuff__store_close(store);
}

static bool drops_k1(const tune_record *record, void *state)
{
    (void)state;
    return strcmp(record->op, "k1") == 0;
}

static void compaction_drops_what_it_is_told(void **state)
{
    (void)state;
    const char *path = scratch_path("device.jsonl");
    fill(path);
    tune_store *store = open_store(path), *other = open_store(path);
    add(other, win_of("later", "l=1", 20));
    assert_int_equal(tuff__store_compact(store, drops_k1, NULL), TUFF_OK);
    assert_string_equal(win(store, "k0"), "a=2");
    assert_string_equal(win(store, "k1"), "");
    assert_false(is_bad(store, "k1", "b=3"));
    assert_string_equal(win(store, "later"), "l=1");
    add(other, win_of("last", "l=2", 20));
    tuff__store_close(other);
    tuff__store_close(store);
    store = open_store(path);
    assert_string_equal(win(store, "last"), "l=2");
    tuff__store_close(store);
}

/* Tidying a store removes the leftovers of a killed compaction, superseded records, and records beyond the limit. */
static void stores_are_kept_small(void **state)
{
    (void)state;
    const char *path = scratch_path("device.jsonl");
    fill(path);
    tune_store *store = open_store(path);
    assert_int_equal(tuff__store_tidy(store, TIDY_LIMIT), TUFF_OK);
    assert_int_equal(tuff__store_count(store).superseded, 1);
    scratch_write("device.jsonl.tmp-1-0123456789abcdef", "half", 4);
    for (uint64_t i = 0; i < 20; i++) {
        char op[32];
        snprintf(op, sizeof op, "t%d", (int)i);
        tune_record record = win_of(op, "a=1", 20);
        record.time += i;
        add(store, record);
    }
    const uint64_t limit = tuff__store_count(store).bytes / 2;
    assert_int_equal(tuff__store_tidy(store, limit), TUFF_OK);
    assert_in_range(tuff__store_count(store).bytes, limit / 2, limit);
    assert_string_equal(win(store, "t0"), "");
    assert_string_equal(win(store, "t19"), "a=1");
    assert_string_equal(candidate_of(tuff__store_pin(store, tuff__hash_text(environment), tuff__hash_text("k2"))),
                        "c=4");
    assert_string_equal(scratch_list(), "device.jsonl device.jsonl.lock ");
    tuff__store_close(store);
}

/* A folder, a FIFO, a link and a file that others may write are left alone; the store is then in memory. */
static void strange_files_are_left_alone(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch_path("folder.jsonl"), 0700), 0);
    assert_int_equal(mkfifo(scratch_path("fifo.jsonl"), 0600), 0);
    assert_int_equal(symlink("target.jsonl", scratch_path("link.jsonl")), 0);
    scratch_write("open.jsonl", "", 0);
    assert_int_equal(chmod(scratch_path("open.jsonl"), 0666), 0);
    static const char *const names[] = {"folder.jsonl", "fifo.jsonl", "link.jsonl", "open.jsonl", "none/at.jsonl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tune_store *store = open_store(scratch_path(names[i]));
        add(store, win_of("k", "a=1", 20));
        assert_string_equal(win(store, "k"), "a=1");
        assert_true(tuff__store_error(store)[0]);
        assert_int_not_equal(tuff__store_compact(store, NULL, NULL), TUFF_OK);
        assert_string_equal(win(store, "k"), "a=1");
        tuff__store_close(store);
    }
    size_t size = 1;
    free(scratch_read("open.jsonl", &size));
    assert_int_equal(size, 0);
    assert_null(scratch_read("target.jsonl", &size));
}

/* Everything that a process does with a store; every record must be found in memory, whatever happens to files. */
static void work(const char *path)
{
    tune_store *store = open_store(path);
    add(store, win_of("w", "w=1", 20));
    add(store, bad_of("w", "w=2"));
    (void)tuff__store_compact(store, NULL, NULL);
    tuff__store_close(store);
}

static void every_file_operation_may_fail(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_EIO, FAULT_ENOSPC, FAULT_EINTR, FAULT_SHORT, FAULT_EMPTY};
    const char *path = scratch_path("device.jsonl");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int sticky = 0; sticky < 2; sticky++)
            for (int failing = 1;; failing++) {
                unlink(path);
                fill(path);
                faulty_files_begin(kinds[k], failing, sticky);
                work(path);
                const int open = faulty_files_open();
                const bool hit = faulty_files_end();
                assert_int_equal(open, 0);
                tune_store *store = open_store(path);
                assert_string_equal(win(store, "k0"), "a=2");
                assert_string_equal(win(store, "k1"), "b=\"quoted\\\"");
                tuff__store_close(store);
                if (!hit)
                    break;
            }
}

static int have_no_locks(int fd, int operation)
{
    (void)fd, (void)operation;
    errno = ENOLCK;
    return -1;
}

/* A rejection is on the disk when the call returns, because the machine may crash next; also in a shard if locks are
   not available. */
static void what_was_rejected_is_on_the_disk(void **state)
{
    (void)state;
    const char *path = scratch_path("device.jsonl");
    fill(path);
    for (int is_alone = 0; is_alone < 2; is_alone++) {
        tune_store *store = open_store(path);
        faulty_files_begin(FAULT_NONE, 0, false);
        if (is_alone)
            tuff__file.flock = have_no_locks;
        add(store, bad_of("k3", is_alone ? "d=2" : "d=1"));
        /* The file's bytes are flushed first, then its name, for which its folder is opened. */
        const char *last = strrchr(faulty_files_log(), 'w');
        const bool is_flushed = last && strncmp(last, "wfof", 4) == 0;
        faulty_files_end();
        assert_true(is_flushed);
        assert_int_equal(tuff__store_count(store).shards, 0);
        tuff__store_close(store);
        store = open_store(path);
        assert_int_equal(tuff__store_count(store).shards, is_alone);
        tuff__store_close(store);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const char *path = scratch_path("device.jsonl");
    for (int sticky = 0; sticky < 2; sticky++)
        for (long failing = 1;; failing++) {
            tune_store *store = NULL;
            unlink(path);
            fill(path);
            failing_memory_begin(failing, sticky);
            tuff_status status = tuff__store_open(path, &store);
            const tune_record record = win_of("m", "m=1", 20);
            if (status == TUFF_OK)
                status = tuff__store_add(store, &record);
            if (status == TUFF_OK)
                status = tuff__store_compact(store, NULL, NULL);
            tuff__store_close(store);
            const bool hit = failing_memory_end();
            assert_int_equal(status, hit ? TUFF_E_OOM_HOST : TUFF_OK);
            if (!hit)
                break;
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_come_back),
        TEST(what_is_foreign_replaces_nothing),
        TEST(every_flipped_byte_is_found),
        TEST(a_torn_end_costs_one_line),
        TEST(strange_lines_are_passed_over),
        TEST(processes_lose_nothing),
        TEST(processes_lose_nothing_to_compaction),
        TEST(killed_writers_lose_nothing),
        TEST(a_held_lock_makes_a_shard),
        TEST(a_shard_replaces_nothing_newer),
        TEST(compaction_drops_what_it_is_told),
        TEST(stores_are_kept_small),
        TEST(strange_files_are_left_alone),
        TEST(every_file_operation_may_fail),
        TEST(what_was_rejected_is_on_the_disk),
        TEST(every_allocation_may_fail),
    };
    (void)alarm(600); /* ends a hang */
    return cmocka_run_group_tests_name("tune_store", tests, NULL, NULL);
}
