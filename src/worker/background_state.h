/* The state of background tuning, shared by its files: background.c has the thread, idle_gate.c decides when it may
   work, hot_swap.c prepares executables and swaps them in.

   Ownership: the plan belongs to the program's thread. The background thread reads those parts of it that never change
   (device, graph, fusion), and, while no executable is ready, those that only a swap changes (launches, keys). The next
   executable and the session belong to the background thread, except between the moment when the next executable is
   ready and when it was taken or revoked. */
#ifndef TUFF_WORKER_BACKGROUND_STATE_H
#define TUFF_WORKER_BACKGROUND_STATE_H

#include "worker/background.h"
#include "worker/worker.h"
#include "autotune/session.h"

struct background {
    tuff_plan *plan; /* the program's */
    executable next; /* made ready here, with its keys */
    plan_keys next_keys;
    tuff_compile_options options;
    tuff_tune_options tuning; /* what options.tuning points at */
    char *log;                /* of the options; owned */
    tuning_session tuning_session;
    worker *worker;       /* that measures */
    tune_config *running; /* by task: what the plan runs with, or will when it takes over */
    bool holds_turn;
    uint64_t began;   /* when the stretch of work at hand did */
    uint64_t worked;  /* before that, since the last rest */
    uint64_t rested;  /* until then it rests, while the program is at work */
    uint64_t offered; /* when a plan was last made ready, or measuring began */
    uint64_t spent;   /* of the budget */
    int left;         /* keys that are yet to be measured; 1 at least until all is over */

    pthread_t thread;
    bool is_behind; /* the end of the process finds its thread before it takes the compiler down */
    bool is_joined; /* guarded by the list's lock, like next_one */
    struct background *next_one;
    mutex lock; /* of what follows */
    pthread_cond_t changed;
    bool stop, is_ready;
    int swaps;
    tuff_tune_stats stats; /* as the tuner's were between its last two steps */
};

/* Shows what was done so far to those who ask. */
void tuff__background_publish(background *self);
/* The program's device may have compiled in this thread for the first time. */
void tuff__background_register_end(background *self);
/* Whether the thread is to end. */
bool tuff__background_is_stopped(background *self);
/* Sleeps so long, or until it is to end. */
void tuff__background_sleep(background *self, uint64_t nanoseconds);
/* As worker_host.yield. Takes the device's lock, which is kept until it has to wait. */
bool tuff__background_yield(background *self, bool is_between);
/* Others may have it. */
void tuff__background_unlock_device(background *self);
/* Whether the tuner chose otherwise than the plan runs. */
bool tuff__background_is_other(const background *self);
/* Makes the next plan ready by what the tuner chose, where the plan does not run with that already. Only host memory
   can be lacking; what else is in the way is a warning. */
tuff_status tuff__background_offer(background *self);
/* As plan_observer.before_run: what was made ready takes over, unless something is still under way on the device. */
void tuff__background_swap(void *state, tuff_plan *plan);
/* Frees what was made ready and not taken. */
void tuff__background_revoke(background *self);

#endif
