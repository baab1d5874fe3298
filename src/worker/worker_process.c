/* The worker's process: finds the program, spawns it with a socket, reaps it. Leaves the application's signal handlers
   and its other children alone: waits only for this process, by its pid. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "worker/worker_process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

extern char **environ;

const char *tuff__worker_own_path;

static bool is_program(const char *path)
{
    return path[0] != '\0' && access(path, X_OK) == 0;
}

/* Joins the folder of the shared library's file with a name. Returns false if the library is linked into a program, or
   if the result cannot be run. */
static bool find_next_to_library(const char *name, char *out, size_t size)
{
    Dl_info found;
    const char *file = dladdr((const void *)&tuff__worker_own_path, &found) != 0 ? found.dli_fname : NULL;
    const char *slash = file == NULL ? NULL : strrchr(file, '/');
    if (slash == NULL || strstr(slash, ".so") == NULL)
        return false;
    const int length = snprintf(out, size, "%.*s/%s", (int)(slash - file), file, name);
    return length > 0 && (size_t)length < size && is_program(out);
}

bool tuff__worker_find(char *out, size_t size)
{
    const char *override = secure_getenv("TUFF_WORKER");
    if (override != NULL) {
        (void)snprintf(out, size, "%s", override);
        return is_program(out);
    }
    if (tuff__worker_own_path != NULL) {
        (void)snprintf(out, size, "%s", tuff__worker_own_path);
        return is_program(out);
    }
    if (find_next_to_library(TUFF_TOOL_FROM_LIBRARY, out, size))
        return true;
    (void)snprintf(out, size, "%s", TUFF_TOOL_INSTALLED);
    return is_program(out);
}

/* Gives the process the default signal mask and handlers, whatever this thread blocks or the application ignores. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, every;
    (void)sigemptyset(&none);
    (void)sigfillset(&every);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    if (error == 0)
        error = posix_spawnattr_setsigdefault(attributes, &every);
    if (error == 0)
        error = posix_spawnattr_setpgroup(attributes, 0);
    return error != 0 ? error
                      : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                                 POSIX_SPAWN_SETPGROUP);
}

static int set_files(posix_spawn_file_actions_t *files, int fd)
{
    const int error = posix_spawn_file_actions_adddup2(files, fd, STDIN_FILENO);
    return error != 0 ? error : posix_spawn_file_actions_addopen(files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
}

static int spawn(const char *path, int fd, pid_t *out)
{
    char *const arguments[] = {(char *)path, (char *)"tune", (char *)"worker", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&files);
    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = set_files(&files, fd);
        if (error == 0)
            error = set_attributes(&attributes);
        if (error == 0)
            error = posix_spawn(out, path, &files, &attributes, arguments, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    return error;
}

tuff_status tuff__worker_spawn(const char *path, worker_process *out)
{
    int ends[2];
    const struct timeval timeout = {.tv_sec = 30};
    *out = (worker_process){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return FAIL(TUFF_E_IO, "cannot create a socket: %s", strerror(errno));
    (void)setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    const int error = spawn(path, ends[1], &out->id);
    (void)close(ends[1]);
    if (error == 0) {
        out->fd = ends[0];
        return TUFF_OK;
    }
    (void)close(ends[0]);
    out->id = 0;
    return FAIL(TUFF_E_IO, "cannot start %.300s: %s", path, strerror(error));
}

/* Polls the process; returns 0 while it runs. */
static pid_t poll_process(pid_t id, int *status)
{
    pid_t found;
    do
        found = waitpid(id, status, WNOHANG);
    while (found < 0 && errno == EINTR);
    return found;
}

int tuff__worker_reap(worker_process *self, uint64_t grace)
{
    enum { STEP = 2000000 };
    static const uint64_t patience = 5000000000;
    int status = -1;
    if (self->id == 0)
        return -1;
    (void)shutdown(self->fd, SHUT_RDWR);
    (void)close(self->fd);
    const uint64_t end = tuff__nanoseconds() + grace;
    pid_t found = poll_process(self->id, &status);
    for (; found == 0 && tuff__nanoseconds() < end; found = poll_process(self->id, &status))
        tuff__sleep(STEP);
    if (found == 0) {
        (void)kill(-self->id, SIGKILL);
        const uint64_t killed = tuff__nanoseconds();
        while ((found = poll_process(self->id, &status)) == 0 && tuff__nanoseconds() - killed < patience)
            tuff__sleep(STEP);
    }
    if (found == 0) /* it hangs in a driver, where a process cannot be killed */
        tuff__log(TUFF_LOG_WARNING, "tune: worker %d does not end", (int)self->id);
    *self = (worker_process){.fd = -1};
    return found > 0 ? status : -1;
}

uint64_t tuff__worker_watchdog(uint64_t default_limit)
{
    const char *setting = getenv("TUFF_TUNE_WATCHDOG");
    char *end;
    const double seconds = setting == NULL ? 0 : tuff__parse_number(setting, &end);
    return seconds > 0 && seconds < 1e6 ? (uint64_t)(seconds * 1e9) : default_limit;
}
