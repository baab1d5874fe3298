/* Reading refuses everything but regular files and reports every failure; writing leaves either the old file or the
   complete new one, whatever fails and wherever the process dies. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
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
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "base/file/list.h"
#include "base/file/lock.h"
#include "failing_memory.h"
#include "faulty_files.h"
#include "scratch_folder.h"

#define OLD "the old file"
static const file_part parts[] = {{"first ", 6}, {NULL, 0}, {"second", 6}};
#define NEW "first second"
/* Number of operations of a durable write that keeps the previous file: see flushes_come_in_the_right_order. */
#define WRITE_OPERATIONS 16
/* The operation that checks that the file still has its name once it is locked. */
#define LINK_COUNT_OPERATION 4

static bool holds(const char *name, const char *expected)
{
    size_t size = 0;
    char *found = scratch_read(name, &size);
    bool same = found && size == strlen(expected) && memcmp(found, expected, size) == 0;
    free(found);
    return same;
}

static void write_old_file(void)
{
    (void)unlink(scratch_path("x.prev"));
    scratch_write("x", OLD, strlen(OLD));
}

static tuff_status write_new(void)
{
    return tuff__file_write(scratch_path("x"), parts, 3, true, true);
}

static void a_file_is_read_whole(void **state)
{
    (void)state;
    void *data;
    size_t size;
    scratch_write("x", "a\0b", 3);
    assert_int_equal(tuff__file_read(scratch_path("x"), 3, &data, &size), TUFF_OK);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "a\0b", 4);
    tuff__free(data);
    assert_int_equal(tuff__file_read(scratch_path("x"), 2, &data, &size), TUFF_E_LIMIT);
    scratch_write("empty", "", 0);
    assert_int_equal(tuff__file_read(scratch_path("empty"), 0, &data, &size), TUFF_OK);
    assert_int_equal(size, 0);
    tuff__free(data);
}

/* A FIFO without a writer and a terminal would block; /dev/zero would never end. */
static void what_is_no_plain_file_is_not_read(void **state)
{
    (void)state;
    void *data;
    size_t size;
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    const char *const paths[] = {scratch_path("fifo"), scratch_folder(), "/dev/zero", scratch_path("missing"), ""};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        faulty_files_begin(FAULT_NONE, 0, false);
        assert_int_equal(tuff__file_read(paths[i], UINT64_MAX, &data, &size), TUFF_E_IO);
        assert_int_equal(faulty_files_open(), 0);
        faulty_files_end();
        assert_non_null(strstr(tuff_error(), paths[i]));
    }
}

static ssize_t read_end(int fd, void *data, size_t size)
{
    (void)fd, (void)data, (void)size;
    return 0;
}

static void a_file_that_shrinks_while_it_is_read_is_an_error(void **state)
{
    (void)state;
    void *data;
    size_t size;
    file_operations real = tuff__file;
    scratch_write("x", OLD, strlen(OLD));
    tuff__file.read = read_end;
    tuff_status status = tuff__file_read(scratch_path("x"), 100, &data, &size);
    tuff__file = real;
    assert_int_equal(status, TUFF_E_IO);
    assert_non_null(strstr(tuff_error(), "ended 12 bytes early"));
}

/* The operations are open, fstat, read and close; a failing close has no effect. */
static bool reading_must_fail(fault_kind kind, int k, bool sticky)
{
    if (kind == FAULT_EIO)
        return k < 4;
    if (kind == FAULT_EINTR)
        return sticky && k < 4;
    return kind == FAULT_EMPTY && (sticky ? k <= 3 : k == 3);
}

static void every_failure_of_reading_is_reported(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_EIO, FAULT_EINTR, FAULT_SHORT, FAULT_EMPTY};
    scratch_write("x", OLD, strlen(OLD));
    for (size_t i = 0; i < 8; i++)
        for (int k = 1; k <= 5; k++) {
            bool sticky = i % 2;
            void *data = NULL;
            size_t size = 0;
            faulty_files_begin(kinds[i / 2], k, sticky);
            tuff_status status = tuff__file_read(scratch_path("x"), 100, &data, &size);
            assert_int_equal(faulty_files_open(), 0);
            faulty_files_end();
            assert_int_equal(status, reading_must_fail(kinds[i / 2], k, sticky) ? TUFF_E_IO : TUFF_OK);
            if (status == TUFF_OK)
                assert_string_equal(data, OLD);
            tuff__free(data);
        }
}

static void writing_replaces_and_keeps_the_previous(void **state)
{
    (void)state;
    const char *path = scratch_path("x");
    assert_int_equal(tuff__file_write(path, parts, 1, true, true), TUFF_OK);
    assert_string_equal(scratch_list(), "x ");
    assert_int_equal(write_new(), TUFF_OK);
    assert_true(holds("x", NEW) && holds("x.prev", "first "));
    assert_int_equal(write_new(), TUFF_OK);
    assert_true(holds("x", NEW) && holds("x.prev", NEW));
    assert_string_equal(scratch_list(), "x x.prev ");
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(tuff__file_write(path, parts, 0, false, false), TUFF_OK);
    assert_true(holds("x", "") && holds("x.prev", NEW));
}

/* The bytes must reach the disk before the name does, and the name before success is reported. */
static void flushes_come_in_the_right_order(void **state)
{
    (void)state;
    write_old_file();
    faulty_files_begin(FAULT_NONE, 0, false);
    assert_int_equal(write_new(), TUFF_OK);
    assert_string_equal(faulty_files_log(), "toxswwsfolmumfcc");
    faulty_files_begin(FAULT_NONE, 0, false);
    assert_int_equal(tuff__file_write(scratch_path("x"), parts, 3, false, false), TUFF_OK);
    assert_string_equal(faulty_files_log(), "towwscm");
    faulty_files_end();
}

/* Checks the files after a write with a failed operation. */
static void check_after_fault(tuff_status status, fault_kind kind, bool sticky)
{
    const char *where = faulty_files_hit();
    bool cleaned = !(sticky && kind != FAULT_SHORT && kind != FAULT_EMPTY);
    if (status == TUFF_OK) {
        assert_true(holds("x", NEW) && holds("x.prev", OLD));
        assert_string_equal(scratch_list(), "x x.prev ");
        return;
    }
    assert_int_equal(status, TUFF_E_IO);
    /* Only the last flush of the folder comes after the new file is in place. */
    assert_true(holds("x", OLD) || (strcmp(where, "fsync") == 0 && holds("x", NEW) && holds("x.prev", OLD)));
    if (cleaned)
        assert_null(strstr(scratch_list(), ".tmp-"));
}

/* Whether the write must succeed although an operation failed once. */
static bool is_harmless(fault_kind kind, bool sticky, int k)
{
    const char *where = faulty_files_hit();
    if (kind == FAULT_SHORT || (kind == FAULT_EINTR && !sticky))
        return true;
    if (kind == FAULT_EMPTY)
        return strcmp(where, "write") != 0 && !sticky;
    /* Locks, which not every file system supports, the removal of a name that may be gone, and the closing of files
       that are on the disk already. */
    return (!sticky && (strcmp(where, "unlink") == 0 || strcmp(where, "flock") == 0 || k == LINK_COUNT_OPERATION)) ||
           k >= WRITE_OPERATIONS - 1;
}

static void the_old_file_survives_every_failure_of_writing(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_EIO, FAULT_ENOSPC, FAULT_EINTR, FAULT_SHORT, FAULT_EMPTY};
    for (size_t i = 0; i < 10; i++) {
        fault_kind kind = kinds[i / 2];
        bool sticky = i % 2;
        for (int k = 1;; k++) {
            write_old_file();
            faulty_files_begin(kind, k, sticky);
            tuff_status status = write_new();
            assert_int_equal(faulty_files_open(), 0);
            bool hit = faulty_files_end();
            check_after_fault(status, kind, sticky);
            if (!hit) {
                assert_int_equal(status, TUFF_OK);
                assert_true(k > WRITE_OPERATIONS);
                break;
            }
            if (is_harmless(kind, sticky, k))
                assert_int_equal(status, TUFF_OK);
            else if (kind == FAULT_EIO || kind == FAULT_ENOSPC)
                assert_int_equal(status, TUFF_E_IO);
            /* Leftovers of failures that also affected the cleanup. */
            while (sticky && strstr(scratch_list(), ".tmp-")) {
                assert_int_equal(scratch_folder_remove(NULL), 0);
                assert_int_equal(mkdir(scratch_folder(), 0700), 0);
            }
        }
    }
}

/* Runs write_new in a process that exits before operation k. Returns whether it got that far. */
static bool write_and_die(int k)
{
    pid_t child = fork();
    if (child == 0) {
        faulty_files_begin(FAULT_EXIT, k, false);
        _exit(write_new() == TUFF_OK ? 7 : 8);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 8);
    return WEXITSTATUS(status) == 0;
}

static int count_temporaries(void)
{
    int count = 0;
    for (const char *at = scratch_list(); (at = strstr(at, ".tmp-")); at++)
        count++;
    return count;
}

static void a_process_that_dies_leaves_the_old_or_the_new_file(void **state)
{
    (void)state;
    int deaths = 0, most = 0;
    for (int k = 1;; k++, deaths++) {
        write_old_file();
        if (!write_and_die(k))
            break;
        assert_true(holds("x", OLD) || holds("x", NEW));
        /* The next write succeeds and removes the leftovers, even if x and x.prev may be one file now. */
        most = count_temporaries() > most ? count_temporaries() : most;
        assert_int_equal(write_new(), TUFF_OK);
        assert_true(holds("x", NEW));
        assert_int_equal(count_temporaries(), 0);
    }
    assert_int_equal(deaths, WRITE_OPERATIONS);
    assert_int_equal(most, 2);
}

/* Only files that tuff__file_write named and nobody has locked are removed: the file of a running writer, those of
   other paths and users' own files stay. */
static void only_leftovers_are_removed(void **state)
{
    (void)state;
    static const char *const others[] = {"x.tmp-1", "x.tmp-1-0123456789abcde", "x.tmp-1-0123456789abcdef0",
                                         "x.tmp-note-0123456789abcdef", "xx.tmp-1-0123456789abcdef"};
    write_old_file();
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        scratch_write(others[i], "other", 5);
    assert_int_equal(mkfifo(scratch_path("x.tmp-2-0123456789abcdef"), 0600), 0);
    scratch_write("x.tmp-3-0123456789abcdef", "leftover", 8);
    assert_int_equal(link(scratch_path("x"), scratch_path("x.tmp-4-0123456789abcdef")), 0);
    scratch_write("x.tmp-5-0123456789abcdef", "alive", 5);
    const int fd = open(scratch_path("x.tmp-5-0123456789abcdef"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(write_new(), TUFF_OK);
    assert_int_equal(access(scratch_path("x.tmp-2-0123456789abcdef"), F_OK), 0);
    assert_int_equal(access(scratch_path("x.tmp-3-0123456789abcdef"), F_OK), -1);
    assert_int_equal(access(scratch_path("x.tmp-4-0123456789abcdef"), F_OK), -1);
    assert_true(holds("x.tmp-5-0123456789abcdef", "alive"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_true(holds(others[i], "other"));
    (void)close(fd);
    assert_int_equal(write_new(), TUFF_OK);
    assert_int_equal(access(scratch_path("x.tmp-5-0123456789abcdef"), F_OK), -1);
    assert_true(holds("x", NEW) && holds("x.prev", NEW));
}

/* A file that cannot be locked may belong to another process. */
static int lock_code;

static int no_lock(int fd, int operation)
{
    (void)fd, (void)operation;
    errno = lock_code;
    return -1;
}

static void without_locks_nothing_is_removed(void **state)
{
    (void)state;
    file_operations real = tuff__file;
    write_old_file();
    scratch_write("x.tmp-3-0123456789abcdef", "leftover", 8);
    lock_code = ENOLCK;
    tuff__file.flock = no_lock;
    const tuff_status status = write_new();
    tuff__file = real;
    assert_int_equal(status, TUFF_OK);
    assert_true(holds("x", NEW) && holds("x.prev", OLD) && holds("x.tmp-3-0123456789abcdef", "leftover"));
}

static int link_code;

static int no_link(const char *from, const char *to)
{
    (void)from, (void)to;
    errno = link_code;
    return -1;
}

static void file_systems_without_links_get_a_copy(void **state)
{
    (void)state;
    file_operations real = tuff__file;
    static const int codes[] = {EPERM, EOPNOTSUPP, ENOSYS, EMLINK, EACCES};
    for (size_t i = 0; i < 5; i++) {
        write_old_file();
        link_code = codes[i];
        tuff__file.link = no_link;
        tuff_status status = write_new();
        tuff__file = real;
        if (codes[i] == EACCES) {
            assert_int_equal(status, TUFF_E_IO);
            assert_true(holds("x", OLD));
            assert_string_equal(scratch_list(), "x ");
        } else {
            assert_int_equal(status, TUFF_OK);
            assert_true(holds("x", NEW) && holds("x.prev", OLD));
            assert_string_equal(scratch_list(), "x x.prev ");
        }
    }
}

static file_operations genuine;
static int collisions;

/* Whether a file is created without following or overwriting anything that an attacker may have put there. */
static bool creates_safely(int flags, mode_t mode)
{
    return (flags & O_EXCL) && (flags & O_NOFOLLOW) && (flags & O_CLOEXEC) && mode == 0600;
}

static int collide(const char *path, int flags, mode_t mode)
{
    assert_true(!strstr(path, ".tmp-") || creates_safely(flags, mode));
    if (strstr(path, ".tmp-") && collisions-- > 0) {
        errno = EEXIST;
        return -1;
    }
    return genuine.open(path, flags, mode);
}

static void names_of_temporary_files_that_exist_are_passed_over(void **state)
{
    (void)state;
    write_old_file();
    genuine = tuff__file;
    tuff__file.open = collide;
    collisions = 3;
    assert_int_equal(write_new(), TUFF_OK);
    collisions = 1000;
    assert_int_equal(write_new(), TUFF_E_IO);
    tuff__file = genuine;
    assert_true(collisions > 900);
    assert_true(holds("x", NEW));
}

/* A write that the file system truncated silently must not replace the old file. */
static int shrunken_fstat(int fd, struct stat *out)
{
    int result = genuine.fstat(fd, out);
    out->st_size -= 1;
    return result;
}

static void the_size_is_checked_before_the_old_file_goes(void **state)
{
    (void)state;
    write_old_file();
    genuine = tuff__file;
    tuff__file.fstat = shrunken_fstat;
    tuff_status status = write_new();
    tuff__file = genuine;
    assert_int_equal(status, TUFF_E_IO);
    assert_true(holds("x", OLD));
    assert_string_equal(scratch_list(), "x ");
}

static int removals;

static void remove_temporary(void)
{
    const char *found = strstr(scratch_list(), "x.tmp-");
    char name[64] = "";
    assert_non_null(found);
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(found, " "), found);
    assert_int_equal(unlink(scratch_path(name)), 0);
    removals--;
}

/* A child that was forked while the lock was held does not keep it. */
static void unlocking_ends_the_lock_of_children_too(void **state)
{
    (void)state;
    file_lock held, again;
    assert_int_equal(tuff__file_lock(scratch_path("x.lock"), 0, &held), TUFF_OK);
    const pid_t child = fork();
    if (child == 0)
        for (;;)
            (void)pause();
    tuff__file_unlock(&held);
    const tuff_status status = tuff__file_lock(scratch_path("x.lock"), 0, &again);
    tuff__file_unlock(&again);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(status, TUFF_OK);
}

/* Simulates another writer's cleanup between the creation of a file and its lock. */
static int flock_late(int fd, int operation)
{
    if (removals > 0)
        remove_temporary();
    return genuine.flock(fd, operation);
}

static int rename_late(const char *from, const char *to)
{
    if (removals > 0 && strstr(to, ".prev")) {
        removals--;
        assert_int_equal(genuine.unlink(from), 0);
    }
    return genuine.rename(from, to);
}

static void what_another_writer_removes_is_made_again(void **state)
{
    (void)state;
    write_old_file();
    genuine = tuff__file;
    tuff__file.flock = flock_late;
    tuff__file.rename = rename_late;
    removals = 3;
    const tuff_status locked = write_new();
    tuff__file.flock = genuine.flock;
    removals = 3;
    const tuff_status linked = write_new();
    const int left = removals;
    removals = 1000;
    const tuff_status endless = write_new();
    tuff__file = genuine;
    assert_int_equal(locked, TUFF_OK);
    assert_int_equal(linked, TUFF_OK);
    assert_int_equal(left, 0);
    assert_int_equal(endless, TUFF_E_IO);
    assert_true(holds("x", NEW) && holds("x.prev", NEW));
    assert_string_equal(scratch_list(), "x x.prev ");
}

static void processes_may_write_one_path(void **state)
{
    (void)state;
    enum { PROCESSES = 3, WRITES = 100 };
    pid_t children[PROCESSES];
    write_old_file();
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        for (int k = 0; children[i] == 0 && k < WRITES; k++)
            if (write_new() != TUFF_OK)
                _exit(1);
        if (children[i] == 0)
            _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_true(holds("x", NEW) && holds("x.prev", NEW));
    assert_string_equal(scratch_list(), "x x.prev ");
}

static int fsync_code;

static int fsync_folder_fails(int fd)
{
    struct stat found;
    if (genuine.fstat(fd, &found) == 0 && S_ISDIR(found.st_mode)) {
        errno = fsync_code;
        return -1;
    }
    return genuine.fsync(fd);
}

static void only_folders_that_cannot_be_flushed_are_excused(void **state)
{
    (void)state;
    write_old_file();
    genuine = tuff__file;
    tuff__file.fsync = fsync_folder_fails;
    fsync_code = EINVAL;
    tuff_status excused = write_new();
    fsync_code = EIO;
    tuff_status failed = write_new();
    tuff__file = genuine;
    assert_int_equal(excused, TUFF_OK);
    assert_int_equal(failed, TUFF_E_IO);
    assert_true(holds("x", NEW));
}

static void what_is_no_plain_file_is_not_replaced(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    assert_int_equal(mkdir(scratch_path("folder"), 0700), 0);
    const char *const paths[] = {scratch_path("fifo"), scratch_path("folder"), "/dev/null", scratch_path("no/folder"),
                                 ""};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_int_equal(tuff__file_write(paths[i], parts, 3, true, true), TUFF_E_IO);
    assert_string_equal(scratch_list(), "fifo folder ");
}

static void a_symbolic_link_is_replaced_and_its_target_is_not(void **state)
{
    (void)state;
    scratch_write("target", OLD, strlen(OLD));
    assert_int_equal(symlink("target", scratch_path("x")), 0);
    assert_int_equal(write_new(), TUFF_OK);
    assert_true(holds("x", NEW) && holds("target", OLD) && holds("x.prev", OLD));
}

static void a_path_without_a_folder_works(void **state)
{
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch_folder()), 0);
    tuff_status status = tuff__file_write("x", parts, 3, true, true);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, TUFF_OK);
    assert_true(holds("x", NEW));
}

static void memory_may_run_out_while_reading_and_writing(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        write_old_file();
        void *data = NULL;
        size_t size = 0;
        failing_memory_begin(k, false);
        faulty_files_begin(FAULT_NONE, 0, false);
        tuff_status status = write_new();
        if (status == TUFF_OK)
            status = tuff__file_read(scratch_path("x"), 100, &data, &size);
        tuff__free(data);
        assert_int_equal(faulty_files_open(), 0);
        faulty_files_end();
        assert_int_equal(failing_memory_live(), 0);
        bool hit = failing_memory_end();
        assert_int_equal(status, hit ? TUFF_E_OOM_HOST : TUFF_OK);
        assert_null(strstr(scratch_list(), ".tmp-"));
        if (!hit) {
            assert_in_range(k, 5, 20);
            break;
        }
    }
}

/* Replaces readdir of libc: after the first two names it fails. */
static bool folders_fail;
static int names_read;

struct dirent *readdir(DIR *folder)
{
    static struct dirent *(*real)(DIR *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    if (!folders_fail || names_read++ < 2)
        return real(folder);
    errno = EIO;
    return NULL;
}

static tuff_status count_name(const char *name, void *state)
{
    (void)name;
    ++*(int *)state;
    return TUFF_OK;
}

static void a_folder_that_cannot_be_read_to_its_end_is_an_error(void **state)
{
    (void)state;
    int count = 0;
    for (int i = 0; i < 4; i++)
        scratch_write((const char *[]){"a", "b", "c", "d"}[i], "", 0);
    folders_fail = true;
    const tuff_status status = tuff__file_list(scratch_folder(), "", count_name, &count);
    folders_fail = false;
    assert_int_equal(status, TUFF_E_IO);
    assert_non_null(strstr(tuff_error(), scratch_folder()));
    assert_int_equal(count, 0);
    errno = EIO;
    assert_int_equal(tuff__file_list(scratch_folder(), "", count_name, &count), TUFF_OK);
    assert_true(count >= 4);
}

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_file_is_read_whole),
        SCRATCH_TEST(what_is_no_plain_file_is_not_read),
        SCRATCH_TEST(a_file_that_shrinks_while_it_is_read_is_an_error),
        SCRATCH_TEST(every_failure_of_reading_is_reported),
        SCRATCH_TEST(writing_replaces_and_keeps_the_previous),
        SCRATCH_TEST(flushes_come_in_the_right_order),
        SCRATCH_TEST(the_old_file_survives_every_failure_of_writing),
        SCRATCH_TEST(a_process_that_dies_leaves_the_old_or_the_new_file),
        SCRATCH_TEST(only_leftovers_are_removed),
        SCRATCH_TEST(unlocking_ends_the_lock_of_children_too),
        SCRATCH_TEST(without_locks_nothing_is_removed),
        SCRATCH_TEST(file_systems_without_links_get_a_copy),
        SCRATCH_TEST(names_of_temporary_files_that_exist_are_passed_over),
        SCRATCH_TEST(the_size_is_checked_before_the_old_file_goes),
        SCRATCH_TEST(what_another_writer_removes_is_made_again),
        SCRATCH_TEST(processes_may_write_one_path),
        SCRATCH_TEST(only_folders_that_cannot_be_flushed_are_excused),
        SCRATCH_TEST(what_is_no_plain_file_is_not_replaced),
        SCRATCH_TEST(a_symbolic_link_is_replaced_and_its_target_is_not),
        SCRATCH_TEST(a_path_without_a_folder_works),
        SCRATCH_TEST(memory_may_run_out_while_reading_and_writing),
        SCRATCH_TEST(a_folder_that_cannot_be_read_to_its_end_is_an_error),
    };
    (void)alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
