/* Information about processes from /proc. */
#define _DEFAULT_SOURCE 1
#include "processes.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static pid_t parent_of(pid_t child, char *state)
{
    char path[64], line[512];
    int parent = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    FILE *file = fopen(path, "r");
    const bool read = file && fgets(line, sizeof line, file);
    if (file)
        (void)fclose(file);
    const char *rest = read ? strrchr(line, ')') : NULL;
    return rest && sscanf(rest + 1, " %c %d", state, &parent) == 2 ? (pid_t)parent : 0;
}

static pid_t child_of(pid_t parent)
{
    DIR *all = opendir("/proc");
    pid_t found = 0;
    char state;
    assert_non_null(all);
    for (struct dirent *entry; (entry = readdir(all)) != NULL && found == 0;) {
        const pid_t one = (pid_t)atoi(entry->d_name);
        if (one > 0 && parent_of(one, &state) == parent)
            found = one;
    }
    (void)closedir(all);
    return found;
}

static bool is_running(pid_t one)
{
    char state = 'X';
    return parent_of(one, &state) != 0 && state != 'Z' && state != 'X';
}

pid_t await_child(pid_t parent)
{
    for (int i = 0; i < 3000; i++) {
        const pid_t child = child_of(parent);
        if (child != 0)
            return child;
        (void)usleep(10000);
    }
    fail_msg("no worker was started");
    return 0;
}

void expect_gone(pid_t one, int milliseconds)
{
    for (int i = 0; i < milliseconds / 5 && is_running(one); i++)
        (void)usleep(5000);
    assert_false(is_running(one));
}

int count_open_files(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(all);
    while (readdir(all))
        count++;
    (void)closedir(all);
    return count;
}

void expect_no_child(void)
{
    int status;
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}
