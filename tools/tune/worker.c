/* tuff tune worker: measures for a program (src/worker/worker.h), with which it talks over a socket that is its
   standard input. It may end with the program at any moment; what it has written to the cache by then stays. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/log.h"
#include "base/thread.h"
#include "graph/blob/blob.h"
#include "worker/ipc.h"
#include "worker/worker.h"
#include "worker/worker_process.h"
#include "tools/tune/verbs.h"
#include "autotune/guard.h"

#define SECOND UINT64_C(1000000000)
#define MAX_JOB ((size_t)1 << 31)
enum { HEARTBEAT = 250, SOCKET = STDIN_FILENO };

/* Shared between the threads of this process; all other state belongs to the main thread. */
static struct {
    mutex sending;
    pid_t parent;
    atomic_bool is_waiting; /* for a message; the program expects no sign of life then */
    _Atomic(journal *) journal;
} shared = {.sending = MUTEX_INITIALIZER};

typedef struct server {
    worker_job job;
    ipc_message in;
    tuff_device *device; /* the tuner's bench; owned by the session once that is set up */
    tuff_graph *graph;
    struct fusion fusion;
    pass_choices passes;
    tuning_session session;
    file_lock device_lock;
} server;

/* Exits at once. Candidates that are in flight when the program ends are not to blame, so the journal is removed. */
static _Noreturn void exit_now(void)
{
    journal *open = atomic_load(&shared.journal);
    if (open)
        tuff__journal_abandon(open);
    _exit(EXIT_DONE);
}

static void exit_on_signal(int number)
{
    (void)number;
    exit_now();
}

static tuff_status send_message(ipc_kind kind, const text *body)
{
    tuff__lock(&shared.sending);
    const tuff_status status = tuff__ipc_send(SOCKET, kind, body);
    tuff__unlock(&shared.sending);
    return status;
}

static void send_and_free(ipc_kind kind, text *body)
{
    const tuff_status status = send_message(kind, body);
    tuff__text_free(body);
    if (status == TUFF_E_IO)
        exit_now();
    if (status != TUFF_OK)
        _exit(EXIT_FAILED);
}

static void reply(bool yes)
{
    text body = {0};
    tuff__put_u8(&body, yes);
    send_and_free(IPC_REPLY, &body);
}

static void forward_log(void *user, tuff_log_level level, const char *line)
{
    text body = {0};
    (void)user;
    tuff__put_u32(&body, level);
    tuff__put_text(&body, line);
    (void)send_message(IPC_LOG, &body);
    tuff__text_free(&body);
}

/* Sends ALIVE while the main thread is working, and exits when the program has ended. */
static void *watch(void *argument)
{
    const uint64_t limit = tuff__worker_watchdog(60 * SECOND);
    (void)argument;
    for (;;) {
        struct pollfd from = {.fd = SOCKET, .events = POLLRDHUP};
        if (poll(&from, 1, HEARTBEAT) > 0 || getppid() != shared.parent)
            exit_now();
        const uint64_t begin = atomic_load(&tuff__tune_step_begin), now = tuff__nanoseconds();
        if (!atomic_load(&shared.is_waiting) && (begin == 0 || now < begin + limit) &&
            send_message(IPC_ALIVE, NULL) != TUFF_OK)
            exit_now();
    }
    return NULL;
}

/* Closes everything inherited from the program except its socket and stderr, and arranges to exit when the program
   ends. */
static bool detach_from_parent(void)
{
    struct sigaction ending = {.sa_handler = exit_on_signal};
    pthread_t thread;
    const long most = sysconf(_SC_OPEN_MAX);
    for (int fd = STDERR_FILENO + 1; fd < (most > 0 && most < 65536 ? (int)most : 65536); fd++)
        (void)close(fd);
    shared.parent = getppid();
    (void)sigaction(SIGTERM, &ending, NULL);
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != shared.parent || pthread_create(&thread, NULL, watch, NULL) != 0)
        return false;
    (void)pthread_detach(thread);
    return true;
}

static void receive(server *self)
{
    atomic_store(&shared.is_waiting, true);
    const tuff_status status = tuff__ipc_receive(SOCKET, MAX_JOB, UINT64_MAX, &self->in);
    atomic_store(&shared.is_waiting, false);
    if (status != TUFF_OK)
        exit_now();
}

static void lock_device(server *self)
{
    if (self->device_lock.fd < 0)
        reply(tuff__session_try_lock_device(&self->session, &self->device_lock));
    else
        reply(true);
}

static void unlock_device(server *self)
{
    tuff__file_unlock(&self->device_lock);
    self->device_lock.fd = -1;
}

/* Handles the messages that may come at any time; returns false for others. */
static bool serve_device_lock(server *self)
{
    if (self->in.kind == IPC_LOCK_DEVICE)
        lock_device(self);
    else if (self->in.kind == IPC_UNLOCK_DEVICE)
        unlock_device(self);
    else
        return false;
    return true;
}

/* Waits for the reply to the message that was just sent. */
static byte_reader await(server *self, ipc_kind wanted)
{
    do
        receive(self);
    while (serve_device_lock(self));
    if (self->in.kind != wanted)
        exit_now();
    return tuff__ipc_reader(&self->in);
}

static void yield(tuning_session *session, bool is_between)
{
    server *self = session->user;
    text body = {0};
    tuff__put_u8(&body, is_between);
    tuff__put_bytes(&body, &session->stats, sizeof session->stats);
    send_and_free(IPC_YIELD, &body);
    byte_reader from = await(self, IPC_GO);
    session->stopped |= !tuff__get_bool(&from);
    const uint64_t waited = tuff__get_u64(&from);
    if (waited > 0) {
        session->begin += waited;
        session->limit += waited;
    }
}

static bool send_progress(void *user, const tuff_tune_progress *now)
{
    text body = {0};
    tuff__put_u32(&body, (uint32_t)now->key_count);
    tuff__put_u32(&body, (uint32_t)now->keys_done);
    tuff__put_double(&body, now->seconds_left);
    tuff__put_text(&body, now->key);
    tuff__put_text(&body, now->best);
    tuff__put_u64(&body, now->default_nanoseconds);
    tuff__put_u64(&body, now->best_nanoseconds);
    tuff__put_u32(&body, (uint32_t)now->candidates);
    tuff__put_u32(&body, (uint32_t)now->rejected);
    tuff__put_text(&body, now->rejection);
    send_and_free(IPC_PROGRESS, &body);
    byte_reader from = await(user, IPC_REPLY);
    return tuff__get_bool(&from);
}

static tuff_status open_device(server *self)
{
    tune_environment device_environment;
    tuff__compile_timeout = self->job.compile_timeout;
    if (setenv("TUFF_CACHE_DIR", self->job.cache, 1) != 0)
        return TUFF_E_OOM_HOST;
    self->device = tuff__device_open_limited(self->job.selector, tuff__compile_timeout);
    if (!self->device)
        return tuff_last_status();
    tuff__environment_from_info(tuff__device_info(self->device), &device_environment);
    if (strcmp(ENVIRONMENT_TEXT(&device_environment), self->job.environment) != 0)
        return FAIL(TUFF_E_UNSUPPORTED, "%s is a different device in the worker process", self->job.selector);
    return TUFF_OK;
}

/* Rebuilds the program's plan and checks that it has the same keys. */
static tuff_status look_up_keys(server *self)
{
    tuning_session *session = &self->session;
    self->passes.chosen = self->job.passes;
    TRY(tuff__fuse(self->graph, session->options, self->job.buffer_limit, &self->passes, &self->fusion));
    TRY(tuff__session_look_up(session));
    if (!tuff__is_same_hash(tuff__worker_hash_keys(session), self->job.keys))
        return FAIL(TUFF_E_FORMAT, "the plan has different keys in the worker process");
    return TUFF_OK;
}

static tuff_status find_keys(server *self)
{
    tuning_session *session = &self->session;
    const tuff_compile_options *options = &self->job.options;
    TRY(tuff__graph_read(self->device, self->job.graph, self->job.graph_size, &self->graph));
    self->job.tuning.progress = self->job.tuning.progress ? send_progress : NULL;
    self->job.tuning.user = self;
    *session = (tuning_session){.fusion = &self->fusion,
                                .options = options,
                                .device = self->device,
                                .measure_device = self->device,
                                .had_own_device = true,
                                .log = -1,
                                .is_background = self->job.tuning.background,
                                .survives_crashes = !self->job.tuning.background,
                                .yield = self->job.tuning.background ? yield : NULL,
                                .user = self};
    TRY(look_up_keys(self));
    TRY(tuff__session_open_device(session));
    atomic_store(&shared.journal, session->journal);
    return TUFF_OK;
}

static tuff_status begin(server *self)
{
    byte_reader from = tuff__ipc_reader(&self->in);
    TRY(tuff__worker_read_job(&from, &self->job));
    /* Opening a device is a step too: the driver may hang in it. */
    atomic_store(&tuff__tune_step_begin, tuff__nanoseconds());
    const tuff_status status = open_device(self);
    atomic_store(&tuff__tune_step_begin, 0);
    return status == TUFF_OK ? find_keys(self) : status;
}

static int reply_to_begin(server *self)
{
    text body = {0};
    const tuff_status status = begin(self);
    tuff__put_text(&body, status == TUFF_OK ? "" : tuff_error());
    send_and_free(IPC_READY, &body);
    return status == TUFF_OK ? EXIT_DONE : EXIT_FAILED;
}

static void write_choice(text *out, const tuning_task *task)
{
    text chosen = {0};
    tuff__config_format(&task->chosen, &chosen);
    tuff__put_u8(out, task->was_measured);
    tuff__put_u32(out, task->tier);
    tuff__put_text(out, tuff__text_get(&chosen));
    tuff__text_free(&chosen);
}

static void reply_measured(const tuning_session *session, tuff_status status)
{
    text body = {0};
    tuff__put_u32(&body, status);
    tuff__put_text(&body, status == TUFF_OK ? "" : tuff_error());
    tuff__put_u8(&body, session->lost);
    tuff__put_u32(&body, (uint32_t)session->keys_done);
    tuff__put_bytes(&body, &session->stats, sizeof session->stats);
    tuff__put_u32(&body, (uint32_t)session->task_count);
    for (int i = 0; i < session->task_count; i++)
        write_choice(&body, &session->tasks[i]);
    send_and_free(IPC_MEASURED, &body);
}

static void measure(server *self)
{
    tuning_session *session = &self->session;
    byte_reader from = tuff__ipc_reader(&self->in);
    const int index = tuff__get_below(&from, (uint64_t)session->task_count);
    const uint64_t budget = tuff__get_u64(&from);
    session->remaining_budget = tuff__get_u64(&from);
    session->keys_wanted = (int)tuff__get_u32(&from);
    session->keys_done = (int)tuff__get_u32(&from);
    if (from.failed)
        exit_now();
    reply_measured(session, tuff__session_measure_one(&session->tasks[index], budget));
}

static void measure_all(server *self)
{
    tuning_session *session = &self->session;
    byte_reader from = tuff__ipc_reader(&self->in);
    session->budget = tuff__get_u64(&from);
    session->begin = tuff__nanoseconds();
    if (from.failed)
        exit_now();
    reply_measured(session, tuff__session_measure_all(session));
}

/* Compiles a program into the cache, where the program that is served finds it. */
static void compile(server *self)
{
    enum { NAME_SIZE = 256 };
    byte_reader from = tuff__ipc_reader(&self->in);
    program *made;
    size_t size;
    char name[NAME_SIZE];
    tuff__get_text(&from, name, sizeof name);
    const char *found = tuff__get_bytes(&from, &size);
    text kernel = {0};
    tuff__text_add_bytes(&kernel, found, size);
    program_request request = {.name = name, .text = tuff__text_get(&kernel)};
    request.buffer_count = (int)tuff__get_u32(&from);
    request.word_count = (int)tuff__get_u32(&from);
    request.local_size = tuff__get_u32(&from);
    request.subgroup_size = tuff__get_u32(&from);
    const bool good = !from.failed && !kernel.failed && tuff__program_get(self->device, &request, &made) == TUFF_OK;
    if (good) {
        tuff__programs_store(self->device, &made, 1, true, UINT64_MAX);
        tuff__program_release(self->device, made);
    }
    tuff__text_free(&kernel);
    reply(good);
}

static void end(server *self)
{
    tuning_session *session = &self->session;
    unlock_device(self);
    tuff__fusion_free(&self->fusion);
    tuff_graph_destroy(self->graph);
    atomic_store(&shared.journal, NULL);
    if (session->measure_device)
        tuff__session_close_device(session);
    else
        tuff_device_close(self->device);
    if (session->store)
        tuff__session_tidy(session);
    tuff__session_close_stores(session);
    tuff__ipc_free(&self->in);
    tuff_set_log(NULL, NULL);
}

static void serve(server *self)
{
    for (receive(self); self->in.kind != IPC_END; receive(self)) {
        if (serve_device_lock(self))
            continue;
        if (self->in.kind == IPC_MEASURE)
            measure(self);
        else if (self->in.kind == IPC_MEASURE_ALL)
            measure_all(self);
        else if (self->in.kind == IPC_COMPILE)
            compile(self);
        else
            exit_now();
    }
}

static int work(server *self)
{
    text body = {0};
    char build[IPC_BUILD_SIZE];
    tuff_set_log(forward_log, NULL);
    tuff__put_text(&body, tuff__ipc_build(build));
    send_and_free(IPC_HELLO, &body);
    receive(self);
    if (self->in.kind != IPC_BEGIN)
        return EXIT_FAILED;
    const int code = reply_to_begin(self);
    if (code == EXIT_DONE)
        serve(self);
    end(self);
    return code;
}

static int run(int count, char **arguments)
{
    int kind;
    socklen_t size = sizeof kind;
    (void)arguments;
    if (count > 0 || getsockopt(SOCKET, SOL_SOCKET, SO_TYPE, &kind, &size) != 0)
        return cli_fail(&tune_verb_worker, EXIT_USAGE,
                        "for internal use: programs start it to tune in another process");
    server *self = tuff__calloc(1, sizeof *self);
    if (!self || !detach_from_parent())
        return EXIT_FAILED;
    self->device_lock.fd = -1;
    const int code = work(self);
    tuff__free(self);
    return code;
}

const cli_verb tune_verb_worker = {.name = "tune worker", .run = run};
