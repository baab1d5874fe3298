/* The program's side of a worker: starts it, sends calls, serves its callbacks, restarts it after a crash and blames
   the candidate that was in flight. Any error ends the worker, never the program. The worker's side is
   tools/tune/worker.c. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "worker/worker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/file/file.h"
#include "base/log.h"
#include "compile/rewrite/passes.h"
#include "graph/blob/blob.h"
#include "worker/ipc.h"
#include "autotune/crash_history.h"
#include "worker/worker_process.h"

#define SECOND UINT64_C(1000000000)
enum { MAX_STARTS = 3, MAX_STARTS_WAITING = 8, MAX_MESSAGE = 1 << 24 };

struct worker {
    tuning_session *session;
    tune_config passes;
    worker_host host;
    worker_process process;
    ipc_message in;
    tuff_tune_stats stats_before; /* statistics when the process was started */
    uint64_t timeout;       /* for a sign of life, in nanoseconds */
    bool has_cache;
    int starts;
    bool gave_up;
    mutex lock; /* guards the fields below */
    bool stop;
    int fd; /* socket of the process; -1 if there is none */
};

static bool is_stopped(worker *self)
{
    return self->host.is_stopped != NULL && self->host.is_stopped(self->host.self);
}

static void publish(worker *self)
{
    if (self->host.publish != NULL)
        self->host.publish(self->host.self);
}

static void unlock_device(worker *self)
{
    if (self->host.unlock_device != NULL)
        self->host.unlock_device(self->host.self);
}

static bool yield(worker *self, bool is_between)
{
    return self->host.yield == NULL || self->host.yield(self->host.self, is_between);
}

bool tuff__worker_is_running(const worker *self)
{
    return self->process.id != 0;
}

bool tuff__worker_gave_up(const worker *self)
{
    return self->gave_up;
}

void tuff__worker_interrupt(worker *self)
{
    tuff__lock(&self->lock);
    self->stop = true;
    if (self->fd >= 0)
        (void)shutdown(self->fd, SHUT_RDWR); /* wakes the thread that waits for the process, and the process too */
    tuff__unlock(&self->lock);
}

/* The socket is closed only after fd was reset under the lock, so that tuff__worker_interrupt never shuts down another
   file. */
static int reap(worker *self, uint64_t grace)
{
    tuff__lock(&self->lock);
    self->fd = -1;
    tuff__unlock(&self->lock);
    return tuff__worker_reap(&self->process, grace);
}

void tuff__worker_end(worker *self)
{
    const uint64_t in_order = 10 * SECOND, at_once = 2 * SECOND, begin = tuff__nanoseconds();
    if (!tuff__worker_is_running(self))
        return;
    const int fd = self->process.fd;
    bool goes_on = !is_stopped(self) && tuff__ipc_send(fd, IPC_END, NULL) == TUFF_OK;
    while (goes_on && tuff__nanoseconds() - begin < in_order)
        goes_on = tuff__ipc_receive(fd, MAX_MESSAGE, in_order, &self->in) == TUFF_OK;
    (void)reap(self, at_once);
}

static void read_stats(worker *self, byte_reader *from, tuff_tune_stats *out)
{
    size_t size;
    const void *found = tuff__get_bytes(from, &size);
    if (size != sizeof *out) {
        from->failed = true;
        return;
    }
    memcpy(out, found, sizeof *out);
    self->session->stats = self->stats_before;
    tuff__tune_stats_add(&self->session->stats, out);
}

static tuff_status reply(const worker *self, bool yes)
{
    text body = {0};
    tuff__put_u8(&body, yes);
    const tuff_status status = tuff__ipc_send(self->process.fd, IPC_REPLY, &body);
    tuff__text_free(&body);
    return status;
}

static tuff_status read_log(byte_reader *from)
{
    char line[TUFF_ERROR_SIZE * 2];
    const int level = tuff__get_below(from, TUFF_LOG_DEBUG + 1);
    tuff__get_text(from, line, sizeof line);
    TRY(tuff__reader_status(from, "the worker's message"));
    tuff__log((tuff_log_level)level, "%s", line);
    return TUFF_OK;
}

static tuff_status report_progress(const worker *self, byte_reader *from)
{
    char key[TUNE_KEY_SIZE], best[4096], rejection[256];
    tuff_tune_progress now = {.key = key, .best = best, .rejection = rejection};
    now.key_count = (int)tuff__get_u32(from);
    now.keys_done = (int)tuff__get_u32(from);
    now.seconds_left = tuff__get_double(from);
    tuff__get_text(from, key, sizeof key);
    tuff__get_text(from, best, sizeof best);
    now.default_nanoseconds = tuff__get_u64(from);
    now.best_nanoseconds = tuff__get_u64(from);
    now.candidates = (int)tuff__get_u32(from);
    now.rejected = (int)tuff__get_u32(from);
    tuff__get_text(from, rejection, sizeof rejection);
    TRY(tuff__reader_status(from, "the worker's progress"));
    const tuff_compile_options *options = self->session->options;
    if (tuff__tune_options(options)->progress != NULL &&
        !tuff__tune_options(options)->progress(tuff__tune_options(options)->user, &now))
        self->session->stopped = true;
    return reply(self, !self->session->stopped);
}

static tuff_status handle_yield(worker *self, byte_reader *from);

/* Receives messages, and returns the first that is not handled here. */
static tuff_status receive(worker *self, ipc_kind *kind)
{
    for (;;) {
        TRY(tuff__ipc_receive(self->process.fd, MAX_MESSAGE, self->timeout, &self->in));
        byte_reader from = tuff__ipc_reader(&self->in);
        *kind = self->in.kind;
        if (*kind == IPC_LOG)
            TRY(read_log(&from));
        else if (*kind == IPC_PROGRESS)
            TRY(report_progress(self, &from));
        else if (*kind == IPC_YIELD)
            TRY(handle_yield(self, &from));
        else if (*kind != IPC_ALIVE)
            return TUFF_OK;
    }
}

static tuff_status expect(worker *self, ipc_kind wanted, byte_reader *out)
{
    ipc_kind kind;
    TRY(receive(self, &kind));
    if (kind != wanted)
        return FAIL(TUFF_E_FORMAT, "unexpected message from the worker");
    *out = tuff__ipc_reader(&self->in);
    return TUFF_OK;
}

/* Handles YIELD: the program decides when the worker goes on, as between two steps of a tuner in this thread. */
static tuff_status handle_yield(worker *self, byte_reader *from)
{
    text body = {0};
    tuff_tune_stats now;
    const uint64_t before = self->session->begin;
    const bool is_between = tuff__get_bool(from);
    read_stats(self, from, &now);
    TRY(tuff__reader_status(from, "the worker's stats"));
    if (is_between)
        publish(self);
    tuff__put_u8(&body, yield(self, is_between));
    tuff__put_u64(&body, self->session->begin - before);
    const tuff_status status = tuff__ipc_send(self->process.fd, IPC_GO, &body);
    tuff__text_free(&body);
    return status;
}

static tuff_status call(worker *self, ipc_kind kind, const text *body, bool *out)
{
    byte_reader from;
    TRY(tuff__ipc_send(self->process.fd, kind, body));
    TRY(expect(self, IPC_REPLY, &from));
    *out = tuff__get_bool(&from);
    return tuff__reader_status(&from, "the worker's reply");
}

/* If the worker is gone this returns true: the next call will notice. */
bool tuff__worker_lock_device(worker *self)
{
    bool taken = true;
    return call(self, IPC_LOCK_DEVICE, NULL, &taken) != TUFF_OK || taken;
}

void tuff__worker_unlock_device(worker *self)
{
    (void)tuff__ipc_send(self->process.fd, IPC_UNLOCK_DEVICE, NULL);
}

void tuff__worker_compile(worker *self, const program_request *request)
{
    text body = {0};
    bool kept = false;
    if (!self->has_cache || strlen(request->text) > MAX_MESSAGE / 2)
        return;
    tuff__put_text(&body, request->name);
    tuff__put_text(&body, request->text);
    tuff__put_u32(&body, (uint32_t)request->buffer_count);
    tuff__put_u32(&body, (uint32_t)request->word_count);
    tuff__put_u32(&body, request->local_size);
    tuff__put_u32(&body, request->subgroup_size);
    if (call(self, IPC_COMPILE, &body, &kept) != TUFF_OK || !kept)
        tuff__log(TUFF_LOG_DEBUG, "tune: %s was not compiled in advance", request->name);
    tuff__text_free(&body);
}

static tuff_status write_job(worker *self, text *graph, text *out)
{
    const tuning_session *session = self->session;
    worker_job *job = tuff__calloc(1, sizeof *job);
    if (job == NULL)
        return TUFF_E_OOM_HOST;
    self->has_cache = tuff__cache_folder(job->cache, sizeof job->cache) == TUFF_OK;
    if (!self->has_cache)
        job->cache[0] = '\0';
    (void)snprintf(job->selector, sizeof job->selector, "%s", tuff__device_info(session->device)->selector);
    (void)snprintf(job->environment, sizeof job->environment, "%s", session->environment_text);
    job->options = *session->options;
    job->buffer_limit = session->fusion->buffer_limit;
    job->passes = self->passes;
    job->compile_timeout = tuff__compile_timeout;
    job->keys = tuff__worker_hash_keys(session);
    tuff_status status = tuff__graph_write(session->fusion->graph, graph);
    job->graph = tuff__text_get(graph);
    job->graph_size = graph->length;
    if (status == TUFF_OK) {
        tuff__worker_write_job(out, job);
        status = tuff__text_status(out);
    }
    tuff__free(job);
    return status;
}

static tuff_status send_job(worker *self)
{
    text graph = {0}, body = {0};
    byte_reader from;
    char failure[TUFF_ERROR_SIZE];
    tuff_status status = write_job(self, &graph, &body);
    tuff__text_free(&graph);
    if (status == TUFF_OK)
        status = tuff__ipc_send(self->process.fd, IPC_BEGIN, &body);
    tuff__text_free(&body);
    TRY(status);
    self->gave_up = true; /* if the worker hangs in the driver, the next one would too */
    TRY(expect(self, IPC_READY, &from));
    tuff__get_text(&from, failure, sizeof failure);
    TRY(tuff__reader_status(&from, "the worker's reply"));
    self->gave_up = false;
    return failure[0] == '\0' ? TUFF_OK : FAIL(TUFF_E_IO, "%s", failure);
}

static tuff_status handshake(worker *self)
{
    byte_reader from;
    char build[IPC_BUILD_SIZE], own[IPC_BUILD_SIZE];
    TRY(expect(self, IPC_HELLO, &from));
    tuff__get_text(&from, build, sizeof build);
    TRY(tuff__reader_status(&from, "the worker's greeting"));
    if (strcmp(build, tuff__ipc_build(own)) != 0)
        return FAIL(TUFF_E_FORMAT, "it is from a different build than this library (%s)", build);
    return send_job(self);
}

/* Publishes the socket, so that tuff__worker_interrupt can wake this thread from now on. Returns false if the worker
   was already interrupted. */
static bool publish_socket(worker *self)
{
    tuff__lock(&self->lock);
    const bool goes_on = !self->stop;
    if (goes_on)
        self->fd = self->process.fd;
    tuff__unlock(&self->lock);
    return goes_on;
}

static tuff_status start(worker *self, const char *file)
{
    self->process = (worker_process){.fd = -1};
    self->stats_before = self->session->stats;
    /* The worker sends ALIVE several times a second, but stops during a step that takes far too long. */
    self->timeout = tuff__worker_watchdog(30 * SECOND);
    self->starts++;
    tuff_status status = tuff__worker_spawn(file, &self->process);
    if (status == TUFF_OK)
        status = publish_socket(self) ? handshake(self) : FAIL(TUFF_E_TIMEOUT, "it was stopped");
    if (status != TUFF_OK)
        (void)reap(self, 0);
    return status;
}

static const char *consequence(const worker *self)
{
    return tuff__tune_options(self->session->options)->background ? "nothing is measured in the background"
                                                                  : "nothing is measured";
}

/* Devices that wrap the application's own objects cannot be opened by another process. */
tuff_status tuff__worker_start(worker *self)
{
    static atomic_flag has_warned = ATOMIC_FLAG_INIT;
    const bool is_requested = tuff__tune_options(self->session->options)->isolation == TUFF_ISOLATE_ON;
    char file[4096];
    if (strstr(tuff__device_info(self->session->device)->selector, ":wrapped") != NULL) {
        tuff__log(TUFF_LOG_WARNING, "tune: a worker process cannot open a device that the application created: %s",
                  consequence(self));
        return TUFF_OK;
    }
    if (!tuff__worker_find(file, sizeof file)) {
        if (is_requested || !atomic_flag_test_and_set(&has_warned))
            tuff__log(TUFF_LOG_WARNING, "tune: cannot find the worker program (%s): %s",
                      file[0] == '\0' ? "TUFF_WORKER is empty" : file, consequence(self));
        return TUFF_OK;
    }
    unlock_device(self);
    const tuff_status status = start(self, file);
    if (status == TUFF_OK || status == TUFF_E_OOM_HOST || is_stopped(self))
        return status == TUFF_E_OOM_HOST ? status : TUFF_OK;
    tuff__log(TUFF_LOG_WARNING, "tune: cannot use the worker %s: %s: %s", file, tuff_error(), consequence(self));
    return TUFF_OK;
}

/* A worker's choice for a key. */
typedef struct key_choice {
    bool was_measured;
    tune_tier tier;
    tune_config chosen;
} key_choice;

typedef struct report {
    tuff_status status;
    char error[TUFF_ERROR_SIZE];
    bool lost;
    tuff_tune_stats stats;
    key_choice *all; /* owned; of all tasks of the session, unless the device was lost */
} report;

static tuff_status read_choice(byte_reader *from, key_choice *out)
{
    char candidate[4096];
    out->was_measured = tuff__get_bool(from);
    out->tier = (tune_tier)tuff__get_below(from, TIER_DEFAULT + 1);
    tuff__get_text(from, candidate, sizeof candidate);
    return tuff__config_parse(candidate, &out->chosen);
}

static tuff_status read_report(worker *self, byte_reader *from, report *out)
{
    enum { MIN_BYTES = 1 + 4 };
    out->status = (tuff_status)tuff__get_u32(from);
    tuff__get_text(from, out->error, sizeof out->error);
    out->lost = tuff__get_bool(from);
    self->session->keys_done = (int)tuff__get_u32(from);
    read_stats(self, from, &out->stats);
    const int count = tuff__get_count(from, MIN_BYTES);
    out->all = tuff__calloc((size_t)count + 1, sizeof *out->all);
    if (out->all == NULL)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count; ++i)
        TRY(read_choice(from, &out->all[i]));
    TRY(tuff__reader_status(from, "the worker's results"));
    if (count != self->session->task_count && !out->lost)
        return FAIL(TUFF_E_FORMAT, "the worker's results are for %d keys", count);
    return TUFF_OK;
}

/* Sends a call to measure, whose body is freed, and receives the report. */
static tuff_status call_measure(worker *self, ipc_kind kind, text *body, report *out)
{
    byte_reader from;
    const tuff_status status = tuff__ipc_send(self->process.fd, kind, body);
    tuff__text_free(body);
    TRY(status);
    TRY(expect(self, IPC_MEASURED, &from));
    return read_report(self, &from, out);
}

static tuff_status call_measure_task(worker *self, const tuning_task *task, uint64_t budget, report *out)
{
    text body = {0};
    tuff__put_u32(&body, (uint32_t)(task - self->session->tasks));
    tuff__put_u64(&body, budget);
    tuff__put_u64(&body, self->session->remaining_budget);
    tuff__put_u32(&body, (uint32_t)self->session->keys_wanted);
    tuff__put_u32(&body, (uint32_t)self->session->keys_done);
    return call_measure(self, IPC_MEASURE, &body, out);
}

static tuff_status call_measure_all(worker *self, uint64_t budget, report *out)
{
    text body = {0};
    tuff__put_u64(&body, budget);
    return call_measure(self, IPC_MEASURE_ALL, &body, out);
}

/* The worker has the same tasks in the same order: BEGIN proved that. */
static void adopt_choice(const report *from, tuning_task *task)
{
    const key_choice *found = &from->all[task - task->session->tasks];
    task->chosen = found->chosen;
    task->tier = found->tier;
    task->was_measured |= found->was_measured;
}

static void log_worker_end(const char *subject, tuff_status why, int status)
{
    char how[64] = "ended";
    if (why == TUFF_E_TIMEOUT)
        (void)snprintf(how, sizeof how, "stopped responding");
    else if (status != -1 && WIFSIGNALED(status))
        (void)snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    else if (status != -1 && WIFEXITED(status))
        (void)snprintf(how, sizeof how, "exited with code %d", WEXITSTATUS(status));
    tuff__log(TUFF_LOG_WARNING, "tune: the worker %s while measuring %s; the candidate in progress is skipped", how,
              subject);
}

/* Handles a process that ended, or must be ended, during `work`: blames the candidate in flight, so that the next
   worker leaves it out. */
static tuff_status handle_death(worker *self, const char *work, tuff_status why)
{
    enum { CLOSING = 200000000 };
    tuning_session *session = self->session;
    int crashes;
    const int status = reap(self, why == TUFF_E_TIMEOUT ? 0 : CLOSING);
    unlock_device(self);
    if (is_stopped(self))
        return TUFF_OK;
    log_worker_end(work, why, status);
    TRY(tuff__crash_history_recover(session->store, session->environment_text, &crashes));
    session->stats.crashes += (uint64_t)crashes;
    return TUFF_OK;
}

/* Starts another process. If the most were started already, or nothing may be measured any more, there is none and
   gave_up is set. Looks up the keys again first, because this process does not know yet which candidates the worker
   itself rejected. */
static tuff_status restart(worker *self)
{
    const bool is_background = tuff__tune_options(self->session->options)->background;
    const bool may_start = self->starts < (is_background ? MAX_STARTS : MAX_STARTS_WAITING) && !is_stopped(self);
    TRY(tuff__session_refresh(self->session));
    if (!may_start || !tuff__session_may_measure(self->session)) {
        if (!is_stopped(self))
            tuff__log(TUFF_LOG_WARNING, "tune: %s stops after %d workers",
                      is_background ? "background tuning" : "measuring", self->starts);
        self->gave_up = true;
        return TUFF_OK;
    }
    TRY(tuff__worker_start(self));
    self->gave_up = !tuff__worker_is_running(self); /* do not risk measuring in this process after a crash */
    return TUFF_OK;
}

/* Replaces a worker whose device was lost because of a candidate, which has already been rejected. */
static tuff_status replace(worker *self)
{
    (void)reap(self, 0);
    unlock_device(self);
    return restart(self);
}

tuff_status tuff__worker_measure_task(worker *self, tuning_task *task, uint64_t budget)
{
    self->session->begin = tuff__nanoseconds();
    for (;;) {
        report found = {.all = NULL};
        const uint64_t spent = tuff__nanoseconds() - self->session->begin; /* by workers that died */
        const tuff_status status = call_measure_task(self, task, spent < budget ? budget - spent : 0, &found);
        if (status == TUFF_OK && !found.lost)
            adopt_choice(&found, task);
        tuff__free(found.all);
        if (status == TUFF_E_OOM_HOST)
            return status;
        if (status == TUFF_OK && found.lost)
            return replace(self);
        if (status == TUFF_OK)
            return found.status == TUFF_OK ? TUFF_OK : FAIL(found.status, "%s", found.error);
        TRY(handle_death(self, task->text, status));
        TRY(restart(self));
        if (self->gave_up || tuff__nanoseconds() - self->session->begin >= budget || !yield(self, true))
            return TUFF_OK;
        self->session->stats.measured -= self->session->stats.measured > 0; /* the same key will be measured again */
    }
}

static tuff_status adopt_report(tuning_session *session, const report *from)
{
    TRY(tuff__session_refresh(session));
    for (int i = 0; i < session->task_count; ++i) {
        adopt_choice(from, &session->tasks[i]);
        session->tasks[i].wants_measuring = false;
    }
    memcpy(session->stats.hits, from->stats.hits, sizeof session->stats.hits);
    memcpy(session->stats.misses, from->stats.misses, sizeof session->stats.misses);
    return TUFF_OK;
}

/* Sets *done if there is a report and it was taken over. */
static tuff_status measure_once(worker *self, uint64_t budget, bool *done)
{
    report found = {.all = NULL};
    tuff_status status = call_measure_all(self, budget, &found);
    *done = status == TUFF_OK && !found.lost;
    if (*done) {
        status = adopt_report(self->session, &found);
        if (found.status != TUFF_OK)
            tuff__log(TUFF_LOG_WARNING, "tune: measuring stopped: %s", found.error);
    } else if (status == TUFF_OK) {
        status = replace(self);
    } else if (status != TUFF_E_OOM_HOST) {
        status = handle_death(self, "the graph", status);
        if (status == TUFF_OK)
            status = restart(self);
    }
    tuff__free(found.all);
    return status;
}

static tuff_status measure_all(worker *self)
{
    tuning_session *session = self->session;
    bool done = false;
    TRY(tuff__worker_start(self));
    while (tuff__worker_is_running(self) && !done && !session->stopped) {
        const uint64_t spent = tuff__nanoseconds() - session->begin;
        if (spent >= session->budget)
            break;
        TRY(measure_once(self, session->budget - spent, &done));
    }
    /* Without a report, look up what workers stored before they ended. */
    return done || self->starts == 0 ? TUFF_OK : tuff__session_refresh(session);
}

tuff_status tuff__worker_create(tuning_session *session, const tune_config *passes, const worker_host *host,
                                worker **out)
{
    static const worker_host no_host;
    worker *self = tuff__calloc(1, sizeof *self);
    *out = NULL;
    if (self == NULL)
        return TUFF_E_OOM_HOST;
    if (tuff__mutex_create(&self->lock) != 0) {
        tuff__free(self);
        return FAIL(TUFF_E_OOM_HOST, "tune: cannot create a lock: out of memory");
    }
    self->session = session;
    self->passes = *passes;
    self->host = host == NULL ? no_host : *host;
    self->process.fd = self->fd = -1;
    *out = self;
    return TUFF_OK;
}

void tuff__worker_destroy(worker *self)
{
    if (self == NULL)
        return;
    tuff__worker_end(self);
    tuff__ipc_free(&self->in);
    tuff__mutex_destroy(&self->lock);
    tuff__free(self);
}

tuff_status tuff__worker_measure(void *state, tuning_session *session)
{
    const pass_choices *passes = state;
    worker *self;
    TRY(tuff__worker_create(session, &passes->chosen, NULL, &self));
    const tuff_status status = measure_all(self);
    tuff__worker_destroy(self);
    return status;
}
