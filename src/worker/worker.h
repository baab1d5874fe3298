/* Measuring in another process, the worker: what a driver does not survive ends that process and never the program.
   This is the program's side: it starts the worker (tools/tune/worker.c), tells it which keys of a graph to measure,
   and takes over what it found. The one mechanism of isolation: compilations with TUFF_TUNE_ISOLATE=on, `tuff tune
   warm` and tuning in the background use it. */
#ifndef TUFF_WORKER_WORKER_H
#define TUFF_WORKER_WORKER_H

#include "base/bytes.h"
#include "device/driver.h"
#include "autotune/session.h"

typedef struct worker worker;

/* Who waits for a worker. All functions may be NULL: a compilation that waits has nothing else to do. */
typedef struct worker_host {
    /* Between two steps of the worker: returns once it may use the device, with the time that took added to the tuner's
       clocks; false: it is to stop. is_between: no candidate is under way. */
    bool (*yield)(void *self, bool is_between);
    /* What was done so far can be shown. */
    void (*publish)(void *self);
    bool (*is_stopped)(void *self);
    /* The worker that held the device's lock is gone, or another is to be started. */
    void (*unlock_device)(void *self);
    void *self;
} worker_host;

/* What a worker is to do. Texts are where the message is. */
typedef struct worker_job {
    char cache[FOLDER_SIZE]; /* "": none */
    char selector[128], environment[ENVIRONMENT_SIZE], log[FOLDER_SIZE];
    tuff_compile_options options;
    tuff_tune_options tuning; /* of a job that was read: what options.tuning points at. progress is set, to nothing
                                 of use, where the program wants to hear */
    int buffer_limit;         /* as the graph was fused with */
    tune_config passes;       /* likewise */
    uint64_t compile_patience;
    hash128 keys; /* tuff__worker_keys of the program's */
    const void *graph;
    size_t graph_size;
} worker_job;

/* Of all tasks' keys, in their order. */
hash128 tuff__worker_keys(const tuning_session *session);
void tuff__worker_put_job(text *out, const worker_job *job);
/* TUFF_E_FORMAT where it is none. */
tuff_status tuff__worker_take_job(byte_reader *from, worker_job *out);

/* For a tuner that has looked up its keys. passes: how its graph was rewritten. All are borrowed. */
tuff_status tuff__worker_create(tuning_session *session, const tune_config *passes, const worker_host *host,
                                worker **out);
/* Ends the process. NULL is allowed. */
void tuff__worker_destroy(worker *self);

/* Starts a process where one can be had; else nothing but a message. Only host memory can be lacking. */
tuff_status tuff__worker_start(worker *self);
/* Ends it, in order where the program goes on. */
void tuff__worker_end(worker *self);
bool tuff__worker_is_running(const worker *self);
/* Whether no process is started any more: enough were, or one did not come back from opening the device. */
bool tuff__worker_gave_up(const worker *self);
/* From another thread: whoever waits for the process stops waiting. */
void tuff__worker_interrupt(worker *self);

/* The lock of the device is the worker's, as of now; false where another process has it. */
bool tuff__worker_lock_device(worker *self);
void tuff__worker_unlock_device(worker *self);
/* A program into the cache folder; a failure is only logged. */
void tuff__worker_compile(worker *self, const program_request *request);
/* As tuff__session_measure_one. A worker that dies of it is started again, twice at most. */
tuff_status tuff__worker_measure_task(worker *self, tuning_task *task, uint64_t budget);
/* As tuff__session_measure_all where the device is locked: a measurer's `measure` for a compilation that waits, self is
   its pass_choices. Without a worker nothing is measured, and a warning says so. Only host memory can be lacking. */
tuff_status tuff__worker_measure(void *self, tuning_session *session);

#endif
