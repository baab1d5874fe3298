/* The threads of the compile pool, their queue and its jobs. One mutex protects the queue and the state of jobs; the
   compiler runs without it. A job owns its launches, so a thread needs nothing from the search. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "autotune/compile_pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "autotune/lowered.h"
#include "base/log.h"
#include "exec/texts.h"

enum { MAX_THREADS = JOURNAL_PREFETCH };
/* How often a waiting thread wakes up to keep the device busy, or to give up a compiler. */
#define WAKE_INTERVAL UINT64_C(1000000)

int tuff__compile_pool_threads = -1;

typedef enum job_state { JOB_QUEUED, JOB_AT_WORK, JOB_DONE } job_state;

/* Owned by its task and slot until it is dropped. If it is dropped while being compiled, its thread frees it. */
struct compile_job {
    tuning_task *task;
    tune_config config;
    lowered_candidate *lowered; /* used by a thread while the job is at work */
    job_state state;
    bool is_dropped, is_claimed; /* is_claimed: its candidate reached its compile step */
    _Atomic uint64_t begun;    /* when the compiler got the current program; 0: it has none */
    uint64_t nanoseconds;
    program **programs;
    int program_count;
    tuff_status status;
    char message[TUFF_ERROR_SIZE];
    compile_job *next;
};

/* Candidates whose compiler hung without the search waiting for them. The search itself rejects the others. */
typedef struct hung_candidate {
    tuning_task *task;
    tune_config config;
} hung_candidate;

typedef struct worker {
    compile_pool *pool;
    int place; /* in the journal */
    pthread_t thread;
    compile_job *job; /* the job at work */
} worker;

struct compile_pool {
    tuning_session *session;
    tuff_device *device;
    mutex lock; /* protects all below, and jobs */
    pthread_cond_t changed;
    worker workers[MAX_THREADS];
    int count;
    compile_job *first;
    bool stop;
    uint64_t limit; /* for the compilation of one program, as last set */
    uint64_t compiled, unused, nanoseconds;
    hung_candidate hung[MAX_THREADS];
    int hung_count;
};

/* Must be called without the lock: programs take the device's. */
static void free_job(const compile_pool *self, compile_job *job)
{
    for (int i = 0; i < job->program_count; ++i)
        tuff__program_release(self->device, job->programs[i]);
    tuff__lowered_free(job->lowered);
    tuff__free(job->programs);
    tuff__free(job);
}

/* Whether the compiler has exceeded its time on a job. Lock held. */
static bool is_overdue(const compile_pool *self, const compile_job *job)
{
    const uint64_t begun = atomic_load(&job->begun);
    return begun > 0 && tuff__nanoseconds() - begun > self->limit;
}

static bool is_wanted(compile_pool *self, const compile_job *job)
{
    tuff__lock(&self->lock);
    const bool wanted = !job->is_dropped && !self->stop;
    tuff__unlock(&self->lock);
    return wanted;
}

/* kernel: a private copy. */
static tuff_status compile_copy(compile_pool *self, compile_job *job, const launch_list *list, launch *kernel)
{
    char name[KERNEL_NAME];
    assembly made;
    program *built = NULL;
    TRY(tuff__launch_assemble(list, kernel, name, &made));
    tuff_status status = TUFF_OK;
    if (is_wanted(self, job)) {
        const program_request request = tuff__launch_request(kernel, name, tuff__text_get(&made.source));
        status = tuff__program_prepare(self->device, &request, &job->begun, &built);
    }
    tuff__assembly_free(&made);
    if (built != NULL)
        job->programs[job->program_count++] = built;
    return status;
}

/* Compiles a copy of the launch: assembling notes in a launch which of its buffers share memory, and the candidate's
   run has to determine that for its own memory. */
static tuff_status compile_launch(compile_pool *self, compile_job *job, const launch_list *list, const launch *kernel)
{
    launch copy = *kernel;
    const size_t size = (size_t)copy.chain.value_count * sizeof *copy.chain.values;
    copy.chain.values = tuff__memdup(kernel->chain.values, size);
    if (copy.chain.values == NULL)
        return TUFF_E_OOM_HOST;
    const tuff_status status = compile_copy(self, job, list, &copy);
    tuff__chain_free(&copy.chain);
    return status;
}

static tuff_status compile_launches(compile_pool *self, compile_job *job)
{
    launch_list list = job->lowered->launches; /* buffers gets a copy, whose offsets are placeholders */
    list.buffers = tuff__memdup(list.buffers, (size_t)list.buffer_count * sizeof *list.buffers);
    job->programs = tuff__calloc((size_t)list.launch_count + 1, sizeof(program *));
    tuff_status status = list.buffers == NULL || job->programs == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
    if (status == TUFF_OK)
        tuff__plan_placeholders(&list);
    for (int i = 0; i < list.launch_count && status == TUFF_OK; ++i)
        if (list.launches[i].kind == LAUNCH_KERNEL && list.launches[i].groups > 0)
            status = compile_launch(self, job, &list, &list.launches[i]);
    tuff__free(list.buffers);
    return status;
}

/* Enters the candidate in the journal first, since its compiler may kill the process. */
static tuff_status compile_candidate(compile_pool *self, int place, compile_job *job)
{
    tuff_status status = tuff__session_enter_journal(job->task, place, JOURNAL_COMPILE_AHEAD, &job->config, true);
    if (status == TUFF_OK)
        status = compile_launches(self, job);
    tuff__journal_release_slot(self->session->journal, place);
    return status;
}

/* Returns the next job, or NULL at the end. Lock held. */
static compile_job *next_job(compile_pool *self, worker *by)
{
    while (!self->stop && self->first == NULL)
        (void)pthread_cond_wait(&self->changed, &self->lock);
    compile_job *job = self->stop ? NULL : self->first;
    by->job = job;
    if (job != NULL) {
        self->first = job->next;
        job->state = JOB_AT_WORK;
    }
    return job;
}

/* Lock held. */
static void finish_job(compile_pool *self, compile_job *job, tuff_status status, uint64_t nanoseconds)
{
    job->status = status;
    job->nanoseconds = nanoseconds;
    job->state = JOB_DONE;
    self->compiled++;
    self->nanoseconds += nanoseconds;
    /* The compiler exceeded its time and was given up. */
    if (status == TUFF_E_DEVICE_LOST && is_overdue(self, job) && !job->is_claimed && self->hung_count < MAX_THREADS)
        self->hung[self->hung_count++] = (hung_candidate){job->task, job->config};
    (void)pthread_cond_broadcast(&self->changed);
}

static void *run_worker(void *argument)
{
    worker *by = argument;
    compile_pool *self = by->pool;
    tuff__lock(&self->lock);
    for (compile_job *job; (job = next_job(self, by)) != NULL;) {
        tuff__unlock(&self->lock);
        const uint64_t begin = tuff__nanoseconds();
        const tuff_status status = compile_candidate(self, by->place, job);
        if (status != TUFF_OK)
            (void)snprintf(job->message, sizeof job->message, "%s", tuff_error());
        tuff__lock(&self->lock);
        by->job = NULL;
        finish_job(self, job, status, tuff__nanoseconds() - begin);
        if (job->is_dropped) {
            tuff__unlock(&self->lock);
            free_job(self, job);
            tuff__lock(&self->lock);
        }
    }
    tuff__unlock(&self->lock);
    return NULL;
}

static int wanted_threads(const tuning_session *session)
{
    if (session->measure_device == NULL || session->yield != NULL ||
        !tuff__device_compiles_in_parallel(session->measure_device))
        return 0;
    const long others = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    long wanted = tuff__compile_pool_threads;
    if (wanted < 0)
        wanted = tuff__session_is_on_gpu(session) ? others : 0;
    return wanted > MAX_THREADS ? MAX_THREADS : wanted > 0 ? (int)wanted : 0;
}

static void start_threads(compile_pool *self, int wanted)
{
    for (; self->count < wanted; ++self->count) {
        worker *one = &self->workers[self->count];
        *one = (worker){.pool = self, .place = 1 + self->count};
        if (tuff__thread_start(&one->thread, 0, run_worker, one) != 0)
            break;
    }
}

static void destroy_pool(compile_pool *self)
{
    tuff__mutex_condition_destroy(&self->lock, &self->changed);
    tuff__free(self);
}

void tuff__compile_pool_open(tuning_session *session)
{
    const int wanted = wanted_threads(session);
    compile_pool *self = wanted > 0 ? tuff__calloc(1, sizeof *self) : NULL;
    if (self == NULL)
        return;
    self->session = session;
    self->device = session->measure_device;
    self->limit = tuff__compile_timeout;
    if (tuff__mutex_condition_create(&self->lock, &self->changed) != 0) {
        tuff__free(self);
        return;
    }
    start_threads(self, wanted);
    if (self->count == 0)
        destroy_pool(self);
    else
        session->compile_pool = self;
}

int tuff__compile_pool_count(const compile_pool *self)
{
    return self == NULL ? 0 : self->count;
}

void tuff__compile_pool_expect(tuning_task *task, const search_candidate *candidate)
{
    compile_pool *self = task->session->compile_pool;
    compile_job *job = self == NULL ? NULL : tuff__calloc(1, sizeof *job);
    tuff__compile_pool_drop(task, candidate->slot);
    if (job == NULL)
        return;
    if (tuff__lowered_get(task, &candidate->config, &job->lowered) != TUFF_OK) { /* the compile step will report why */
        tuff__free(job);
        return;
    }
    job->task = task;
    job->config = candidate->config;
    task->pending_jobs[candidate->slot] = job;
    tuff__lock(&self->lock);
    compile_job **last = &self->first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = job;
    (void)pthread_cond_broadcast(&self->changed);
    tuff__unlock(&self->lock);
}

/* Lock held. */
static void leave_queue(compile_pool *self, const compile_job *job)
{
    compile_job **at = &self->first;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
}

void tuff__compile_pool_drop(tuning_task *task, int slot)
{
    compile_pool *self = task->session->compile_pool;
    compile_job *job = task->pending_jobs[slot];
    task->pending_jobs[slot] = NULL;
    if (job == NULL)
        return;
    tuff__lock(&self->lock);
    const job_state state = job->state;
    if (state == JOB_QUEUED)
        leave_queue(self, job);
    else
        self->unused += !job->is_claimed;
    job->is_dropped = true;
    tuff__unlock(&self->lock);
    if (state != JOB_AT_WORK)
        free_job(self, job);
}

/* Waits for a change, at most for the given time. Lock held. */
static void pause_for(compile_pool *self, uint64_t nanoseconds)
{
    const struct timespec until = tuff__time_after(nanoseconds);
    (void)pthread_cond_timedwait(&self->changed, &self->lock, &until);
}

/* Waits until the job is done; while_waiting is called without the lock. Lock held. */
static void wait_for(compile_pool *self, compile_job *job, void (*while_waiting)(tuning_task *task))
{
    while (job->state != JOB_DONE) {
        pause_for(self, while_waiting != NULL ? WAKE_INTERVAL : 20 * WAKE_INTERVAL);
        if (job->state == JOB_DONE)
            return;
        const bool overdue = is_overdue(self, job);
        tuff__unlock(&self->lock);
        if (overdue)
            (void)tuff__device_give_up_compiles(self->device);
        else if (while_waiting != NULL)
            while_waiting(job->task);
        tuff__lock(&self->lock);
    }
}

/* Whether the error is the candidate's fault or a lost device. After any other error the measuring thread compiles the
   candidate once more. */
static bool is_final(tuff_status status)
{
    return status == TUFF_E_COMPILE || status == TUFF_E_LIMIT || status == TUFF_E_UNSUPPORTED ||
           status == TUFF_E_DEVICE_LOST;
}

tuff_status tuff__compile_pool_await(tuning_task *task, int slot, void (*while_waiting)(tuning_task *task),
                                     uint64_t *nanoseconds, lowered_candidate **lowered)
{
    compile_pool *self = task->session->compile_pool;
    compile_job *job = task->pending_jobs[slot];
    *nanoseconds = 0;
    *lowered = NULL;
    if (job == NULL)
        return TUFF_OK;
    tuff__lock(&self->lock);
    self->limit = task->compile_limit;
    const bool is_queued = job->state == JOB_QUEUED;
    if (is_queued)
        leave_queue(self, job);
    if (!is_queued) {
        job->is_claimed = true;
        wait_for(self, job, while_waiting);
        *nanoseconds = job->nanoseconds;
    }
    tuff__unlock(&self->lock);
    *lowered = job->lowered;
    job->lowered = NULL;
    if (is_queued) {
        task->pending_jobs[slot] = NULL;
        free_job(self, job);
    } else if (is_final(job->status)) {
        return FAIL(job->status, "%s", job->message);
    }
    return TUFF_OK;
}

/* Waits until no thread is in a compiler, giving up compilers that take too long. Lock held. */
static void wait_until_idle(compile_pool *self)
{
    for (bool is_at_work = true; is_at_work;) {
        bool overdue = false;
        is_at_work = false;
        for (int i = 0; i < self->count; ++i) {
            const compile_job *job = self->workers[i].job;
            is_at_work |= job != NULL;
            overdue |= job != NULL && is_overdue(self, job);
        }
        if (overdue) {
            tuff__unlock(&self->lock);
            (void)tuff__device_give_up_compiles(self->device);
            tuff__lock(&self->lock);
        }
        if (is_at_work)
            pause_for(self, WAKE_INTERVAL);
    }
}

static void reject_hung(const compile_pool *self)
{
    for (int i = 0; i < self->hung_count; ++i) {
        self->session->lost = true;
        (void)FAIL(TUFF_E_DEVICE_LOST, "tune: a kernel compilation did not return");
        tuff__session_reject(self->hung[i].task, &self->hung[i].config, EVALUATION_HANG);
    }
}

void tuff__compile_pool_close(tuning_session *session)
{
    compile_pool *self = session->compile_pool;
    if (self == NULL)
        return;
    for (int i = 0; i < session->task_count; ++i)
        for (int k = 0; k < SEARCH_SLOTS; ++k)
            tuff__compile_pool_drop(&session->tasks[i], k);
    tuff__lock(&self->lock);
    self->stop = true;
    (void)pthread_cond_broadcast(&self->changed);
    wait_until_idle(self);
    tuff__unlock(&self->lock);
    for (int i = 0; i < self->count; ++i)
        (void)pthread_join(self->workers[i].thread, NULL);
    reject_hung(self);
    session->stats.compiles += self->unused;
    session->stats.prefetched += self->compiled;
    session->stats.prefetch_nanoseconds += self->nanoseconds;
    session->compile_pool = NULL;
    destroy_pool(self);
}
