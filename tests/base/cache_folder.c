/* The cache folder is used only if nobody else can write to it; whatever is put in its place, no foreign file is read,
   and nothing hangs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file/file.h"
#include "faulty_files.h"
#include "scratch_folder.h"

static char chosen[1024];

/* Sets the three variables; NULL unsets one. */
static void environment(const char *own, const char *shared, const char *home)
{
    const char *const names[] = {"TUFF_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}, *const values[] = {own, shared, home};
    for (size_t i = 0; i < 3; i++)
        if (values[i])
            (void)setenv(names[i], values[i], 1);
        else
            (void)unsetenv(names[i]);
}

static tuff_status choose(void)
{
    chosen[0] = 0;
    return tuff__cache_folder(chosen, sizeof chosen);
}

static void assert_refused(const char *reason)
{
    assert_int_equal(choose(), TUFF_E_IO);
    if (!strstr(tuff_error(), reason))
        fail_msg("\"%s\" does not say \"%s\"", tuff_error(), reason);
}

/* Returns an absolute path below the scratch folder. */
static const char *absolute(const char *name)
{
    static char paths[4][4096];
    static int turn;
    char *path = paths[turn++ % 4];
    assert_non_null(realpath(scratch_folder(), path));
    size_t used = strlen(path);
    (void)snprintf(path + used, sizeof paths[0] - used, "/%s", name);
    return path;
}

static void make(const char *name, mode_t mode)
{
    assert_int_equal(mkdir(absolute(name), mode), 0);
    assert_int_equal(chmod(absolute(name), mode), 0);
}

static mode_t mode_of(const char *path)
{
    struct stat found;
    assert_int_equal(lstat(path, &found), 0);
    return found.st_mode & 07777;
}

static void the_variables_are_asked_in_order(void **state)
{
    (void)state;
    make("home", 0755);
    environment(absolute("own"), absolute("shared"), absolute("home"));
    assert_int_equal(choose(), TUFF_OK);
    assert_string_equal(chosen, absolute("own"));
    environment(NULL, absolute("shared"), absolute("home"));
    assert_int_equal(choose(), TUFF_OK);
    assert_string_equal(chosen, absolute("shared/tuff"));
    environment(NULL, NULL, absolute("home"));
    assert_int_equal(choose(), TUFF_OK);
    assert_string_equal(chosen, absolute("home/.cache/tuff"));
    environment(NULL, "relative", absolute("home/"));
    assert_int_equal(choose(), TUFF_OK);
    assert_string_equal(chosen, absolute("home/.cache/tuff"));
    assert_string_equal(scratch_list(), "home own shared ");
}

static void missing_folders_are_made_for_us_alone(void **state)
{
    (void)state;
    mode_t before = umask(0);
    environment(absolute("a/b/c///"), NULL, NULL);
    assert_int_equal(choose(), TUFF_OK);
    (void)umask(before);
    assert_string_equal(chosen, absolute("a/b/c"));
    assert_int_equal(mode_of(absolute("a")), 0700);
    assert_int_equal(mode_of(absolute("a/b")), 0700);
    assert_int_equal(mode_of(absolute("a/b/c")), 0700);
    assert_int_equal(choose(), TUFF_OK);
}

static void a_home_may_be_a_symbolic_link(void **state)
{
    (void)state;
    make("home", 0700);
    assert_int_equal(symlink("home", scratch_path("link")), 0);
    environment(NULL, NULL, absolute("link"));
    assert_int_equal(choose(), TUFF_OK);
    assert_int_equal(mode_of(absolute("home/.cache/tuff")), 0700);
}

static void without_a_usable_home_there_is_none(void **state)
{
    (void)state;
    environment("", absolute("shared"), absolute("home"));
    assert_refused("TUFF_CACHE_DIR is empty");
    environment(NULL, NULL, NULL);
    assert_refused("HOME");
    environment(NULL, NULL, "");
    assert_refused("HOME");
    environment(NULL, NULL, "relative");
    assert_refused("HOME");
    environment(NULL, NULL, absolute("missing"));
    assert_refused("No such file");
    char wide[5000];
    memset(wide, 'a', sizeof wide);
    wide[0] = '/';
    wide[sizeof wide - 1] = 0;
    environment(wide, NULL, NULL);
    assert_refused("longer than");
    environment(NULL, NULL, wide);
    assert_refused("longer than");
    assert_string_equal(scratch_list(), "");
}

static void folders_that_others_can_write_to_are_refused(void **state)
{
    (void)state;
    static const mode_t bad[] = {0777, 01777, 0770, 0707, 0720, 0702}, good[] = {0700, 0755, 0750, 0711};
    environment(absolute("own"), NULL, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        make("own", bad[i]);
        assert_refused("users other than this one could write");
        assert_int_equal(rmdir(absolute("own")), 0);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        make("own", good[i]);
        assert_int_equal(choose(), TUFF_OK);
        assert_int_equal(rmdir(absolute("own")), 0);
    }
}

static void what_is_no_folder_is_refused(void **state)
{
    (void)state;
    make("target", 0700);
    assert_int_equal(symlink("target", scratch_path("link")), 0);
    assert_int_equal(symlink("nowhere", scratch_path("dangling")), 0);
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    scratch_write("file", "x", 1);
    const char *const names[] = {"link", "link/", "dangling", "fifo", "file"};
    for (size_t i = 0; i < 5; i++) {
        environment(absolute(names[i]), NULL, NULL);
        assert_refused("is not a folder");
    }
    environment(absolute("file/below"), NULL, NULL);
    assert_refused("Not a directory");
    environment("/dev/null", NULL, NULL);
    assert_refused("is not a folder");
}

static void every_failure_of_making_it_is_reported(void **state)
{
    (void)state;
    make("home", 0700);
    environment(NULL, NULL, absolute("home"));
    static const fault_kind kinds[] = {FAULT_EIO, FAULT_ENOSPC, FAULT_EINTR};
    for (size_t i = 0; i < 3; i++)
        for (int k = 1;; k++) {
            (void)rmdir(absolute("home/.cache/tuff"));
            (void)rmdir(absolute("home/.cache"));
            faulty_files_begin(kinds[i], k, true);
            tuff_status status = choose();
            if (!faulty_files_end()) {
                assert_int_equal(status, TUFF_OK);
                assert_true(k >= 4);
                break;
            }
            assert_int_equal(status, TUFF_E_IO);
        }
}

/* Returns the result of tuff__cache_folder after change, in a child process. */
static tuff_status choose_in_child(void (*change)(void))
{
    pid_t child = fork();
    if (child == 0) {
        change();
        _exit((int)choose());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (tuff_status)WEXITSTATUS(status);
}

#define SOMEBODY 65534

static void run_as_set_uid(void)
{
    if (setresuid(SOMEBODY, 0, 0))
        _exit(77);
}

static void run_as_set_gid(void)
{
    if (setresgid(SOMEBODY, 0, 0))
        _exit(77);
}

static void stay(void) {}

static void other_users_have_no_part_in_it(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    environment(absolute("own"), NULL, NULL);
    assert_int_equal(choose_in_child(stay), TUFF_OK);
    assert_int_equal(choose_in_child(run_as_set_uid), TUFF_E_IO);
    assert_int_equal(choose_in_child(run_as_set_gid), TUFF_E_IO);
    assert_int_equal(chown(absolute("own"), SOMEBODY, SOMEBODY), 0);
    assert_refused("users other than this one could write");
    make("home", 0700);
    assert_int_equal(chown(absolute("home"), SOMEBODY, SOMEBODY), 0);
    environment(NULL, NULL, absolute("home"));
    assert_refused("belongs to another user");
    assert_int_equal(access(absolute("home/.cache"), F_OK), -1);
    /* The link is ours, but the folder that it points to is not. */
    assert_int_equal(symlink("home", scratch_path("link")), 0);
    environment(NULL, NULL, absolute("link"));
    assert_refused("belongs to another user");
}

static tuff_status read_entry(const char *name)
{
    void *data = NULL;
    size_t size = 0;
    faulty_files_begin(FAULT_NONE, 0, false);
    tuff_status status = tuff__cache_read(scratch_path(name), 1 << 20, &data, &size);
    assert_int_equal(faulty_files_open(), 0);
    faulty_files_end();
    if (status == TUFF_OK)
        assert_memory_equal(data, "entry", 6);
    tuff__free(data);
    return status;
}

static void entries_that_others_could_have_written_are_not_read(void **state)
{
    (void)state;
    scratch_write("good", "entry", 5);
    assert_int_equal(read_entry("good"), TUFF_OK);
    static const mode_t bad[] = {0666, 0620, 0602};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(chmod(scratch_path("good"), bad[i]), 0);
        assert_int_equal(read_entry("good"), TUFF_E_IO);
    }
    assert_int_equal(chmod(scratch_path("good"), 0644), 0);
    assert_int_equal(read_entry("good"), TUFF_OK);
    assert_int_equal(symlink("good", scratch_path("link")), 0);
    assert_int_equal(symlink("/dev/zero", scratch_path("zero")), 0);
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    assert_int_equal(mkdir(scratch_path("folder"), 0700), 0);
    static const char *const names[] = {"link", "zero", "fifo", "folder", "missing"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(read_entry(names[i]), TUFF_E_IO);
    assert_int_equal(link(scratch_path("good"), scratch_path("second")), 0);
    assert_int_equal(read_entry("good"), TUFF_E_IO);
    assert_int_equal(unlink(scratch_path("second")), 0);
    assert_int_equal(read_entry("good"), TUFF_OK);
    if (geteuid() == 0) {
        assert_int_equal(chown(scratch_path("good"), SOMEBODY, SOMEBODY), 0);
        assert_int_equal(read_entry("good"), TUFF_E_IO);
    }
}

static void a_huge_entry_costs_nothing(void **state)
{
    (void)state;
    scratch_write("sparse", "", 0);
    assert_int_equal(truncate(scratch_path("sparse"), (off_t)10 << 30), 0);
    assert_int_equal(read_entry("sparse"), TUFF_E_LIMIT);
}

static file_operations real;

/* Another process clears the cache between the creation of the temporary file and its renaming. */
static int rename_too_late(const char *from, const char *to)
{
    assert_int_equal(unlink(from), 0);
    assert_int_equal(rmdir(absolute("own")), 0);
    return real.rename(from, to);
}

static void a_folder_that_goes_away_is_an_error(void **state)
{
    (void)state;
    make("own", 0700);
    real = tuff__file;
    tuff__file.rename = rename_too_late;
    tuff_status status = tuff__file_write(absolute("own/entry"), &(file_part){"entry", 5}, 1, false, false);
    tuff__file = real;
    assert_int_equal(status, TUFF_E_IO);
    assert_string_equal(scratch_list(), "");
}

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, scratch_folder_make, scratch_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(the_variables_are_asked_in_order),
        SCRATCH_TEST(missing_folders_are_made_for_us_alone),
        SCRATCH_TEST(a_home_may_be_a_symbolic_link),
        SCRATCH_TEST(without_a_usable_home_there_is_none),
        SCRATCH_TEST(folders_that_others_can_write_to_are_refused),
        SCRATCH_TEST(what_is_no_folder_is_refused),
        SCRATCH_TEST(every_failure_of_making_it_is_reported),
        SCRATCH_TEST(other_users_have_no_part_in_it),
        SCRATCH_TEST(entries_that_others_could_have_written_are_not_read),
        SCRATCH_TEST(a_huge_entry_costs_nothing),
        SCRATCH_TEST(a_folder_that_goes_away_is_an_error),
    };
    /* Ends a hang. */
    (void)alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
