/* Another program as contestants of every work: --peer COMMAND starts it, and both sides talk in lines. "work SUITE
   NAME" makes it prepare and warm up, and is answered by "names A|B", its ways to do the work, or by "names" where
   it has none; "run INDEX COUNT" is answered by the seconds and the processor seconds of COUNT runs; "end" frees the
   work. A line that starts with "error" ends the benchmark with the rest of it. The end of its input ends the
   program. */
#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/bench.h"

typedef struct bench_peer {
    FILE *to, *from;
    pid_t process;
    char line[1024];
    bool busy; /* with a work */
} bench_peer;

typedef struct peer_contestant {
    bench_peer *peer;
    int index;
} peer_contestant;

static tuff_status ask(bench_peer *self, const char *format, ...) PRINTF_LIKE(2, 3);
static tuff_status ask(bench_peer *self, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(self->to, format, list);
    va_end(list);
    if (fflush(self->to) != 0 || !fgets(self->line, sizeof self->line, self->from))
        return FAIL(TUFF_E_IO, "--peer: the program ended");
    self->line[strcspn(self->line, "\n")] = 0;
    if (strncmp(self->line, "error", 5) == 0)
        return FAIL(TUFF_E_IO, "--peer: %s", self->line + strspn(self->line + 5, ": ") + 5);
    return TUFF_OK;
}

static void run_command(const char *command, int input, int output)
{
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static tuff_status start(bench_peer *self, const char *command)
{
    int to[2], from[2];
    if (pipe(to) != 0)
        return FAIL(TUFF_E_IO, "--peer: no pipe");
    if (pipe(from) != 0) {
        close(to[0]), close(to[1]);
        return FAIL(TUFF_E_IO, "--peer: no pipe");
    }
    self->process = fork();
    if (self->process == 0) {
        close(to[1]), close(from[0]);
        run_command(command, to[0], from[1]);
    }
    close(to[0]), close(from[1]);
    self->to = fdopen(to[1], "w");
    self->from = fdopen(from[0], "r");
    return self->process > 0 && self->to && self->from ? TUFF_OK : FAIL(TUFF_E_IO, "--peer: it does not start");
}

tuff_status bench_peer_start(bench *self)
{
    if (!self->peer_command)
        return TUFF_OK;
    self->peer = tuff__calloc(1, sizeof *self->peer);
    if (!self->peer)
        return TUFF_E_OOM_HOST;
    signal(SIGPIPE, SIG_IGN); /* a peer that ended is a message, not our end */
    TRY(start(self->peer, self->peer_command));
    return ask(self->peer, "hello\n");
}

void bench_peer_end(bench *self)
{
    if (!self->peer)
        return;
    if (self->peer->to)
        fclose(self->peer->to);
    if (self->peer->from)
        fclose(self->peer->from);
    if (self->peer->process > 0)
        waitpid(self->peer->process, NULL, 0);
    tuff__free(self->peer);
    self->peer = NULL;
}

static tuff_status peer_run(void *object, int count, bench_sample *sample)
{
    peer_contestant *self = object;
    TRY(ask(self->peer, "run %d %d\n", self->index, count));
    if (sscanf(self->peer->line, "%lf %lf", &sample->seconds, &sample->processor) != 2 || !(sample->seconds > 0))
        return FAIL(TUFF_E_FORMAT, "--peer: \"%s\" are no seconds", self->peer->line);
    return TUFF_OK;
}

static void peer_destroy(void *object)
{
    peer_contestant *self = object;
    if (self && self->peer->busy && ask(self->peer, "end\n") == TUFF_OK)
        self->peer->busy = false;
    tuff__free(self);
}

tuff_status bench_peer_add(bench *self, bench_work *work)
{
    bench_peer *peer = self->peer;
    if (!peer)
        return TUFF_OK;
    TRY(ask(peer, "work %s %s\n", work->suite, work->name));
    if (strncmp(peer->line, "names", 5) != 0)
        return FAIL(TUFF_E_FORMAT, "--peer: \"%s\" are no names", peer->line);
    char names[sizeof peer->line];
    snprintf(names, sizeof names, "%s", peer->line + 5 + strspn(peer->line + 5, " "));
    int index = 0;
    for (char *name = strtok(names, "|"); name; name = strtok(NULL, "|")) {
        bench_contestant *item = bench_add(work, BENCH_PEER, name);
        peer_contestant *made = item ? tuff__calloc(1, sizeof *made) : NULL;
        if (!made)
            return tuff__last_status();
        *made = (peer_contestant){.peer = peer, .index = index++};
        peer->busy = true;
        item->self = made;
        item->run = peer_run;
        item->destroy = peer_destroy;
    }
    return TUFF_OK;
}
