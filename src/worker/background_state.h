/* The state of background tuning, shared by its files: background.c has the thread, idle_gate.c decides when it may
   work, hot_swap.c prepares executables and swaps them in.

   Ownership: the plan belongs to the program's thread. The background thread reads the parts of it that never change
   (device, graph, fusion) and, while no executable is ready, the parts that only a swap changes (launches, keys). The
   next executable and the session belong to the background thread, except from the moment that the next executable is
   ready until it is swapped in or discarded. */
#ifndef TUFF_WORKER_BACKGROUND_STATE_H
#define TUFF_WORKER_BACKGROUND_STATE_H

#include "worker/background.h"
#include "worker/worker.h"
#include "autotune/session.h"

struct background {
    tuff_plan *plan; /* owned by the program */
    executable next; /* prepared by this thread, with its keys */
    plan_keys next_keys;
    tuff_compile_options options;
    tuff_tune_options tuning; /* target of options.tuning */
    char *log;                /* file name in tuning.log; owned */
    tuning_session tuning_session;
    worker *worker;       /* does the measuring */
    tune_config *running; /* per task: what the plan runs with, or will run with after the next swap */
    bool has_persistent_kernel; /* the plan's first executable has one */
    bool holds_turn;
    uint64_t work_began;    /* start of the current stretch of work */
    uint64_t work_time;     /* earlier work since the last rest, in nanoseconds */
    uint64_t rest_until;    /* end of the rest that is due while the program is active */
    uint64_t last_prepared; /* when a plan was last made ready, or measuring began */
    uint64_t spent;   /* nanoseconds of the budget that are used up */
    int keys_left;    /* keys still to be measured; at least 1 until the thread is done */

    pthread_t thread;
    bool exit_handler_renewed; /* the exit handler was registered again, after the compiler's own */
    bool is_joined;            /* guarded by the list's lock, like next_in_list */
    struct background *next_in_list;
    mutex lock; /* guards the fields below */
    pthread_cond_t changed;
    bool stop, is_ready;
    int swaps;
    tuff_tune_stats stats; /* snapshot of the session's statistics between two steps */
};

/* Makes the statistics so far visible to other threads. */
void tuff__background_publish(background *self);
/* Call this after an executable was recorded, which may have been the compiler's first use in this process: registers
   the exit handler once more. */
void tuff__background_register_exit_handler(background *self);
/* Whether the thread must end. */
bool tuff__background_is_stopped(background *self);
/* Sleeps for that long, or until the thread must end. */
void tuff__background_sleep(background *self, uint64_t nanoseconds);
/* See worker_host.yield. Takes the device's lock, which is kept until the thread has to wait. */
bool tuff__background_yield(background *self, bool is_between);
/* Releases the device's lock. */
void tuff__background_unlock_device(background *self);
/* Whether the tuner's choices differ from what the plan runs with. */
bool tuff__background_has_new_choices(const background *self);
/* Prepares the next executable from the tuner's choices, if they differ from what the plan runs with. The only error is
   TUFF_E_OOM_HOST; any other failure is logged as a warning. */
tuff_status tuff__background_prepare_swap(background *self);
/* See plan_observer.before_run. Swaps in the executable that is ready, unless work is still in flight on the device. */
void tuff__background_swap(void *state, tuff_plan *plan);
/* Frees an executable that is ready and was not swapped in. */
void tuff__background_discard_next(background *self);

#endif
