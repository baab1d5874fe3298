/* Both sides of supervision. The process that works tells of itself through a pipe, several times a second, unless a
   step of the tuner takes far too long; it ends in order once nobody reads that. The other one opens no device. */
#define _POSIX_C_SOURCE 200809L
#include "tools/tune/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tune/guard.h"

#define CHILD "TUFF_TUNE_CHILD"
#define SPENT "TUFF_TUNE_CHILD_SPENT"
#define SECOND UINT64_C(1000000000)
enum { MAX_STARTS = 20, BEAT = 250 };

/* How long a step may take, and how long there may be no sign of life. */
static uint64_t watchdog(uint64_t baseline)
{
    const char *asked = getenv("TUFF_TUNE_WATCHDOG");
    const double seconds = asked ? strtod(asked, NULL) : 0;
    return seconds > 0 && seconds < 1e6 ? (uint64_t)(seconds * 1e9) : baseline;
}

static void *beat(void *argument)
{
    const int fd = *(const int *)argument;
    const uint64_t limit = watchdog(60 * SECOND);
    sigset_t pipes;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipes, NULL);
    for (;;) {
        const uint64_t begin = atomic_load(&tuff__tune_step_begin), now = tuff__nanoseconds();
        if ((begin == 0 || now < begin + limit) && write(fd, ".", 1) < 0 && errno != EINTR && errno != EAGAIN) {
            (void)kill(getpid(), SIGINT); /* as if somebody had asked for it */
            return NULL;
        }
        tuff__sleep(BEAT * UINT64_C(1000000));
    }
}

static uint64_t spent_before;

uint64_t supervised_before(void)
{
    return spent_before;
}

/* In the process that works. */
static bool begin_work(const char *number)
{
    static int fd;
    const char *spent = getenv(SPENT);
    pthread_t thread;
    fd = atoi(number);
    spent_before = spent ? strtoull(spent, NULL, 10) : 0;
    (void)unsetenv(CHILD);
    (void)unsetenv(SPENT);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    tuff__tune_is_supervised = true;
    if (pthread_create(&thread, NULL, beat, &fd) == 0)
        (void)pthread_detach(thread);
    return true;
}

typedef struct supervisor {
    const cli_verb *verb;
    char program[4096];
    char **arguments; /* with the program in front and NULL behind */
    pid_t child;
    int fd;                /* to read the child's signs of life from */
    uint64_t begin, spent; /* begin: of the first child; spent: milliseconds since, when this one started */
    bool was_asked_to_stop, was_killed;
} supervisor;

static bool find_program(supervisor *self)
{
    const ssize_t length = readlink("/proc/self/exe", self->program, sizeof self->program - 1);
    if (length <= 0)
        return false;
    self->program[length] = '\0';
    return true;
}

static void become(const supervisor *self, int fd)
{
    char number[16], spent[32];
    (void)snprintf(number, sizeof number, "%d", fd);
    (void)snprintf(spent, sizeof spent, "%llu", (unsigned long long)self->spent);
    (void)setpgid(0, 0); /* what a terminal sends at Ctrl-C comes once, from the one that watches */
    if (fcntl(fd, F_SETFD, 0) == 0 && setenv(CHILD, number, 1) == 0 && setenv(SPENT, spent, 1) == 0)
        (void)execv(self->program, self->arguments);
    _exit(127);
}

static bool start(supervisor *self)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    for (int i = 0; i < 2; i++)
        (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    (void)fflush(NULL);
    self->child = fork();
    if (self->child == 0)
        become(self, ends[1]);
    (void)close(ends[1]);
    self->fd = ends[0];
    self->was_killed = false;
    if (self->child < 0)
        (void)close(ends[0]);
    return self->child > 0;
}

static bool is_alive(const supervisor *self)
{
    char signs[64];
    bool any = false;
    while (read(self->fd, signs, sizeof signs) > 0)
        any = true;
    return any;
}

/* Waits for the end of the child, however it comes. */
static int watch(supervisor *self)
{
    const uint64_t patience = watchdog(15 * SECOND);
    uint64_t seen = tuff__nanoseconds();
    int status = 0;
    while (waitpid(self->child, &status, WNOHANG) == 0) {
        struct pollfd from = {.fd = self->fd, .events = POLLIN};
        const uint64_t before = tuff__nanoseconds();
        const int ready = poll(&from, 1, BEAT);
        if (is_alive(self))
            seen = tuff__nanoseconds();
        else if (ready > 0)
            tuff__sleep(20000000); /* it closed its end: it is about to end */
        /* Time in which this process was stopped itself does not count. */
        if (tuff__nanoseconds() - before > 4 * (uint64_t)BEAT * 1000000)
            seen = tuff__nanoseconds();
        if (cli_is_interrupted() && !self->was_asked_to_stop) {
            self->was_asked_to_stop = true;
            (void)kill(self->child, SIGINT);
        }
        if (tuff__nanoseconds() - seen > patience && !self->was_killed) {
            self->was_killed = true;
            (void)kill(self->child, SIGKILL);
        }
    }
    (void)close(self->fd);
    return status;
}

static int run(supervisor *self)
{
    cli_catch_interrupt();
    self->begin = tuff__nanoseconds();
    for (int starts = 1;; starts++) {
        self->spent = starts == 1 ? 0 : (tuff__nanoseconds() - self->begin) / UINT64_C(1000000);
        if (!start(self))
            return cli_fail(self->verb, EXIT_FAILED, "no process to work in: %s", strerror(errno));
        const int status = watch(self);
        const bool is_again = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_AGAIN;
        if (WIFEXITED(status) && !is_again)
            return WEXITSTATUS(status);
        if (self->was_asked_to_stop)
            return EXIT_FAILED;
        if (is_again)
            fprintf(stderr, "tuff %s: another process goes on\n", self->verb->name);
        else if (self->was_killed)
            fprintf(stderr, "tuff %s: the process that measured showed no sign of life: what it was at is left out\n",
                    self->verb->name);
        else
            fprintf(stderr, "tuff %s: the process that measured was ended by signal %d: what it was at is left out\n",
                    self->verb->name, WTERMSIG(status));
        if (starts == MAX_STARTS)
            return cli_fail(self->verb, EXIT_FAILED, "given up after %d starts", starts);
    }
}

static char **join(const supervisor *self, const char *const *words, int count, char **arguments)
{
    int word_count = 0;
    while (words[word_count])
        word_count++;
    char **all = tuff__calloc((size_t)(word_count + count) + 2, sizeof *all);
    if (!all)
        return NULL;
    all[0] = (char *)self->program;
    for (int i = 0; i < word_count; i++)
        all[1 + i] = (char *)words[i];
    for (int i = 0; i < count; i++)
        all[1 + word_count + i] = arguments[i];
    return all;
}

static isolation choose(isolation asked)
{
    const char *wanted = getenv("TUFF_TUNE_ISOLATE");
    if (asked == ISOLATE_AUTO && wanted && strcmp(wanted, "off") == 0)
        return ISOLATE_OFF;
    if (asked == ISOLATE_AUTO && wanted && strcmp(wanted, "on") != 0 && strcmp(wanted, "auto") != 0 && wanted[0])
        fprintf(stderr, "tuff: TUFF_TUNE_ISOLATE is on, off or auto, not \"%.40s\": it is not heeded\n", wanted);
    return asked;
}

bool is_supervised(void)
{
    return getenv(CHILD) != NULL;
}

bool supervise(const cli_verb *verb, isolation isolate, const char *const *words, int count, char **arguments,
               int *code)
{
    const char *number = getenv(CHILD);
    if (number)
        return begin_work(number);
    isolate = choose(isolate);
    if (isolate == ISOLATE_OFF)
        return true;
    supervisor self = {.verb = verb};
    if (!find_program(&self)) {
        if (isolate == ISOLATE_AUTO)
            return true;
        *code = cli_fail(verb, EXIT_FAILED, "the program's own file cannot be found: %s", strerror(errno));
        return false;
    }
    self.arguments = join(&self, words, count, arguments);
    *code = self.arguments ? run(&self) : cli_fail_library(verb, "starting a process");
    tuff__free(self.arguments);
    return false;
}
