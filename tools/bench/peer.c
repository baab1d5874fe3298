/* Another program as implementations of every work: --peer COMMAND starts it, and both sides exchange lines. "work
   SUITE NAME" makes it prepare and warm up; it replies "names A|B", its ways of doing the work, or just "names" if it
   has none. "run INDEX COUNT" is answered by the seconds and the processor seconds of COUNT runs; "end" frees the work.
   A reply that starts with "error" ends the benchmark with the rest of the line as the message. The program ends at the
   end of its input. */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/bench/bench.h"

typedef struct bench_peer {
    FILE *to, *from;
    pid_t process;
    char line[1024];
    int implementations; /* of the current work; destroying the last one ends the work */
} bench_peer;

typedef struct peer_implementation {
    bench_peer *peer;
    int index;
} peer_implementation;

static tuff_status send_request(bench_peer *self, const char *format, ...) PRINTF_LIKE(2, 3);
static tuff_status send_request(bench_peer *self, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(self->to, format, list);
    va_end(list);
    if (fflush(self->to) != 0 || !fgets(self->line, sizeof self->line, self->from))
        return FAIL(TUFF_E_IO, "--peer: the program exited");
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

/* Closes an end of a pipe on exec: a peer started later must not inherit it, or this peer never sees the end of its
   input. */
static void keep_from_children(int end)
{
    fcntl(end, F_SETFD, FD_CLOEXEC);
}

static tuff_status start(bench_peer *self, const char *command)
{
    int to[2], from[2];
    if (pipe(to) != 0)
        return FAIL(TUFF_E_IO, "--peer: cannot create a pipe");
    if (pipe(from) != 0) {
        close(to[0]), close(to[1]);
        return FAIL(TUFF_E_IO, "--peer: cannot create a pipe");
    }
    keep_from_children(to[1]);
    keep_from_children(from[0]);
    self->process = fork();
    if (self->process == 0) {
        close(to[1]), close(from[0]);
        run_command(command, to[0], from[1]);
    }
    close(to[0]), close(from[1]);
    self->to = fdopen(to[1], "w");
    self->from = fdopen(from[0], "r");
    return self->process > 0 && self->to && self->from ? TUFF_OK : FAIL(TUFF_E_IO, "--peer: cannot start the program");
}

tuff_status bench_peers_start(bench *self)
{
    const int count = self->peer_commands.count;
    self->peers = tuff__calloc((size_t)count + 1, sizeof *self->peers);
    if (!self->peers)
        return TUFF_E_OOM_HOST;
    signal(SIGPIPE, SIG_IGN); /* a write to a peer that ended fails instead of killing this process */
    while (self->peer_count < count) {
        const int index = self->peer_count++;
        TRY(start(&self->peers[index], self->peer_commands.items[index]));
    }
    for (int i = 0; i < count; i++)
        TRY(send_request(&self->peers[i], "hello\n"));
    return TUFF_OK;
}

static void end_peer(bench_peer *self)
{
    if (self->to)
        fclose(self->to);
    if (self->from)
        fclose(self->from);
    if (self->process > 0)
        waitpid(self->process, NULL, 0);
}

void bench_peers_end(bench *self)
{
    for (int i = 0; i < self->peer_count; i++)
        end_peer(&self->peers[i]);
    tuff__free(self->peers);
    self->peers = NULL;
    self->peer_count = 0;
}

static tuff_status peer_run(void *object, int count, bench_sample *sample)
{
    peer_implementation *self = object;
    TRY(send_request(self->peer, "run %d %d\n", self->index, count));
    if (sscanf(self->peer->line, "%lf %lf", &sample->seconds, &sample->processor) != 2 || !(sample->seconds > 0))
        return FAIL(TUFF_E_FORMAT, "--peer: expected seconds, got \"%s\"", self->peer->line);
    return TUFF_OK;
}

static void peer_destroy(void *object)
{
    peer_implementation *self = object;
    if (self && --self->peer->implementations == 0)
        (void)send_request(self->peer, "end\n"); /* if this fails, the next request to the peer fails too */
    tuff__free(self);
}

static tuff_status add_peer(bench_peer *peer, bench_work *work)
{
    char names[sizeof peer->line];
    int index = 0;
    TRY(send_request(peer, "work %s %s\n", work->suite, work->name));
    if (strncmp(peer->line, "names", 5) != 0)
        return FAIL(TUFF_E_FORMAT, "--peer: expected names, got \"%s\"", peer->line);
    snprintf(names, sizeof names, "%s", peer->line + 5 + strspn(peer->line + 5, " "));
    for (char *name = strtok(names, "|"); name; name = strtok(NULL, "|")) {
        bench_implementation *item = bench_add(work, BENCH_PEER, name);
        peer_implementation *made = item ? tuff__calloc(1, sizeof *made) : NULL;
        if (!made)
            return tuff_last_status();
        *made = (peer_implementation){.peer = peer, .index = index++};
        peer->implementations++;
        item->self = made;
        item->run = peer_run;
        item->destroy = peer_destroy;
    }
    return TUFF_OK;
}

tuff_status bench_peers_add(bench *self, bench_work *work)
{
    for (int i = 0; i < self->peer_count; i++)
        TRY(add_peer(&self->peers[i], work));
    return TUFF_OK;
}
