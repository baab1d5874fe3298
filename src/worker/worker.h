/* Measuring in another process, the worker, so that a crash of the driver ends that process and not the program. This
   is the program's side: it starts the worker (tools/tune/worker.c), sends it the keys of a graph to measure, and takes
   over the results. It is the only mechanism of isolation; compilations with TUFF_TUNE_ISOLATE=on, `tuff tune warm`,
   `tuff cache retune --now` and background tuning all use it. */
#ifndef TUFF_WORKER_WORKER_H
#define TUFF_WORKER_WORKER_H

#include "base/bytes.h"
#include "device/driver.h"
#include "autotune/session.h"

typedef struct worker worker;
struct background;

/* Callbacks to the caller that waits for a worker. Each may be NULL; a compilation that just waits needs none. */
typedef struct worker_host {
    /* Called between two steps of the worker. Returns when the worker may use the device, after adding the time that it
       waited to the session's deadlines; returns false if the worker must stop. is_between: no candidate is in
       progress. */
    bool (*yield)(struct background *self, bool is_between);
    /* The session's statistics changed. */
    void (*publish)(struct background *self);
    bool (*is_stopped)(struct background *self);
    /* The worker that held the device's lock is gone, or is about to be replaced. */
    void (*unlock_device)(struct background *self);
    struct background *self;
} worker_host;

/* A worker's task, as the message BEGIN carries it. Pointers of a received job point into the message. */
typedef struct worker_job {
    char cache[FOLDER_SIZE]; /* cache folder; "" if there is none */
    char selector[128], environment[ENVIRONMENT_SIZE], log[FOLDER_SIZE];
    tuff_compile_options options;
    tuff_tune_options tuning; /* in a received job, the target of options.tuning. progress is a placeholder
                                 that is set if the program wants progress reports */
    int buffer_limit;         /* that the graph was fused with */
    tune_config passes;       /* pass choices that the graph was rewritten with */
    uint64_t compile_timeout;
    hash128 keys; /* the program's tuff__worker_hash_keys */
    const void *graph;
    size_t graph_size;
} worker_job;

/* Hashes the keys of all tasks, in their order. */
hash128 tuff__worker_hash_keys(const tuning_session *session);
void tuff__worker_write_job(text *out, const worker_job *job);
/* Parses a job. TUFF_E_FORMAT if it is invalid. */
tuff_status tuff__worker_read_job(byte_reader *from, worker_job *out);

/* Creates a worker for a session that has looked up its keys, without starting a process. passes: the pass choices that
   the graph was rewritten with, which are copied. session and host->self are borrowed. */
tuff_status tuff__worker_create(tuning_session *session, const tune_config *passes, const worker_host *host,
                                worker **out);
/* Ends the process and frees the worker. NULL is allowed. */
void tuff__worker_destroy(worker *self);

/* Starts a process, or logs why it cannot. The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__worker_start(worker *self);
/* Ends the process, asking it to end first if it responds. */
void tuff__worker_end(worker *self);
bool tuff__worker_is_running(const worker *self);
/* Whether no process will be started any more: too many died, or one hung when it opened the device. */
bool tuff__worker_gave_up(const worker *self);
/* Called from another thread: makes the thread that waits for the process stop waiting. */
void tuff__worker_interrupt(worker *self);

/* Has the worker take the device's lock; returns false if another process holds it. */
bool tuff__worker_lock_device(worker *self);
void tuff__worker_unlock_device(worker *self);
/* Has the worker compile a program into the cache folder. A failure is only logged. */
void tuff__worker_compile(worker *self, const program_request *request);
/* Like tuff__session_measure_one, in the worker. A worker that dies is restarted, at most twice. */
tuff_status tuff__worker_measure_task(worker *self, tuning_task *task, uint64_t budget);
/* Like tuff__session_measure_all, with the device locked: the `measure` callback of a measurer for a compilation that
   waits. self is the compilation's pass_choices. If there is no worker, nothing is measured and a warning is logged.
   The only error is TUFF_E_OOM_HOST. */
tuff_status tuff__worker_measure(void *self, tuning_session *session);

#endif
