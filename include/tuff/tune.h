/* Tuning: which variant of a kernel, tiles, vectors and work-groups of which sizes are fastest on the device in front
   of you is measured when a graph is compiled, and remembered: the next start measures nothing. */
#ifndef TUFF_TUNE_H
#define TUFF_TUNE_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tuff_tune_mode {
    TUFF_TUNE_CACHED, /* the default: what is remembered is used, nothing is measured */
    TUFF_TUNE_OFF,    /* nothing is used but the values that the library has for the kind of device */
    TUFF_TUNE_QUICK,  /* measures what is not remembered: for 10 seconds */
    TUFF_TUNE_NORMAL, /* for 60 seconds, 120 on machines of less than 8 cores */
    TUFF_TUNE_MAX     /* for 10 minutes */
} tuff_tune_mode;

/* What environment variables may change of a program's options:
     TUFF_TUNE=off|cached|quick|normal|max   tune
     TUFF_TUNE_BUDGET_MS=n                   tune_milliseconds
     TUFF_TUNE_SEED=n                        tune_seed
     TUFF_TUNE_LOG=FILE, or - for the error stream   tune_log
     TUFF_DETERMINISTIC=0|1                  deterministic
     TUFF_TUNE_BACKGROUND=0|1                tune_background; no effect where it would be wrong use
     TUFF_TUNE_ISOLATE=auto|on|off           tune_isolate
   A value that is none of these is ignored, with one warning to the log (tuff_set_log) in the life of a process. */
typedef enum tuff_tune_environment {
    TUFF_TUNE_ENVIRONMENT_DEFAULTS, /* the default: options that have their default value, 0 */
    TUFF_TUNE_ENVIRONMENT_NONE,     /* nothing */
    TUFF_TUNE_ENVIRONMENT_ALL       /* all of these options: for people who look for the cause of something */
} tuff_tune_environment;

/* Where candidates are compiled and run: in the program, whose journal tells the next start what it died of, or in a
   helper, which is a process of its own that may die ("tuning in the background" below says which one, and what is the
   matter with children). A helper in the foreground gets the whole graph, measures as tuff_compile does, and is started
   again without the candidate that ended it, twice at most, within the same budget; arrays that it runs whole graphs
   with, to tell ways to fuse them, hold made-up numbers. */
typedef enum tuff_tune_isolation {
    TUFF_ISOLATE_AUTO, /* the default: tuff_compile measures in the program; in the background a helper does, or a
                          thread of the program's where there is none */
    TUFF_ISOLATE_ON,   /* a helper does both; where none can be had nothing is measured, and a warning says so */
    TUFF_ISOLATE_OFF   /* the program does both */
} tuff_tune_isolation;

/* How far tuning is; texts are valid during the call. */
typedef struct tuff_tune_progress {
    int key_count, keys_done;                       /* different tasks of the graph that are measured */
    double seconds_left;                            /* of the budget */
    const char *key;                                /* the task at hand, as `tuff cache show` names it */
    const char *best;                               /* its fastest candidate so far; "": the default */
    uint64_t default_nanoseconds, best_nanoseconds; /* of one run; 0: not known yet */
    int candidates, rejected;                       /* compiled, and found unusable, for this task */
    const char *rejection;                          /* why the last of those was; "" where none was */
    uint64_t reserved[8];
} tuff_tune_progress;
/* Called after every candidate, from the thread that compiles (with tune_background: from the thread that tunes, which
   must neither end the process nor touch the plan), and while another process measures on the device, where
   TUFF_TUNE_WAIT=1 says to wait for that: key then says so. False stops tuning: the best found so far is used. */
typedef bool (*tuff_tune_callback)(void *user, const tuff_tune_progress *now);

/* Tuning in the background (tuff_compile_options.tune_background).

   The plan is compiled by what is remembered, as with TUFF_TUNE_CACHED. Where that knows no winner for some of its
   keys, these are measured, one after the other, on a device that is opened for that: never on the program's. Nothing
   happens where the device cannot be opened a second time, as where an application's own was wrapped.

   Who measures. A helper, which is a process of its own: a kernel that its driver does not survive ends the helper,
   not the program. That candidate is never tried again, and the helper is started again, twice at most. One that
   shows no sign of life for 30 s, or none since a step began 60 s ago (TUFF_TUNE_WATCHDOG: other seconds, for both),
   is killed and counts as one that crashed. Two such candidates of a device within a day end all measuring on it for
   that day. The helper is the command-line tool of the same build: where TUFF_HELPER says, else in ../bin beside a
   shared library, else where the tool was installed; an empty TUFF_HELPER stands for none. It gets the graph, but no
   contents of arrays nor memory for them; it has none of the program's files but the error stream, is in a process
   group of its own, and ends when the program does, however that ends. It is a child of the program, which gets
   SIGCHLD for it and must leave waiting for it to the library; other children, and what the program does with
   signals, are not touched. Without a helper (none is installed, or one of another build) a thread of the plan's own
   measures, and a line to the log says so; tune_isolate says what else to do. What follows is the same for both: the
   thread is always there, and tells the helper when it may do what.

   When it measures. In steps: a candidate that is compiled, checked and timed, or the last race of a key. A step begins
   when for 500 ms nothing has used the plan's device, for whatever plan or array: no call gave it work, read, wrote or
   waited, and nothing is under way. What was submitted is under way until the program waited for it, by a read for
   instance: a program that runs plans and never waits is never measured beside. The step pauses as soon as the program
   uses the device again, between two of its launches or compilations at the latest, until the device was left alone for
   500 ms again. While the program is at work, which is until 10 s after it last used the device, a step that took t is
   followed by a rest of at least 19 t: at most 5 % of the time. After that step follows step. A program that runs one
   plan after the other without a pause is left alone for good. The budget of the mode counts steps, not rests. Nothing
   begins while another process, or thread, measures on the same silicon; that is looked at again, not waited for. A
   tuff_compile that wants to measure meanwhile finds the silicon taken, as by another process.

   What comes of it. Winners and what was rejected go to the cache as ever, key by key: a program that ends early has
   lost the key at hand. When keys have become better than what the plan runs with, the same thread makes ready the plan
   by the new choices: memory, kernels, recordings. It takes over in tuff_plan_run, before the run begins, if by then
   everything before was waited for; that costs the run about what freeing the old recording does (copies of weights in
   other orders are made again). There alone results may change in their last bits: never within a run, and never where
   tuff_plan_run is not called. tuff_tune_stats.swaps counts it, and tuff_plan_hash is another one. Inputs, outputs and
   arrays keep their values and places; strings that tuff_plan_task and tuff_plan_key gave are gone, and the nanoseconds
   of tasks that are others now are 0. Where the new plan cannot be made, for want of memory for instance, the old one
   stays. While it is made there is memory for both, but for what they can share: inputs, outputs, constants,
   temporaries.

   The thread ends when it has nothing left to do. tuff_plan_destroy ends it at once, and so does exit(), but for a
   compilation in its driver where it measures itself, which may take up to 30 s; the helper ends before it. It calls
   tuff_set_allocator's and tuff_set_log's functions, which must bear that, and takes no signals. */

/* What tuning did for a plan. */
typedef struct tuff_tune_stats {
    int tasks, keys; /* tasks that have anything to tune; how many of them differ, and how the graph is fused, where
                        anything is known of that or measured: of whole runs of it, with normal and max, and not in the
                        background */
    int hits[7];     /* keys by where their candidate came from: a pin, the same environment, another driver,
                                 nearby dims, a seed, the portfolio, the default */
    int measured;    /* keys that were measured */
    int improved;    /* of them, those with a candidate better than the default by more than 1 % */
    int skipped;     /* keys that could not be measured: too large, or without time */
    uint64_t compiles, launches;
    uint64_t wrong, races, limits, slow, crashes, hangs; /* candidates rejected, by reason: limits also what a compiler
                                                            refuses; slow: left after a sample; crashes: that earlier
                                                            processes died of, as this one found in their journals */
    uint64_t nanoseconds; /* spent tuning, looking up included; not on compiling the plan with what was found */
    uint64_t compile_nanoseconds, sample_nanoseconds, verify_nanoseconds; /* of those; compile: what the thread that
                                                                             measures compiled, or waited for */
    uint64_t damaged_lines;                                               /* of the cache */
    uint64_t lock_waits; /* times that another process measured on the device */
    int misses[4]; /* keys without a pin or a winner of the same environment: nothing is remembered, a seed alone, a
                      winner of other kernel texts, one that was rejected or cannot be used */
    int swaps;     /* with tune_background: runs that began with other kernels than the run before */
    int background_keys_left; /* keys that are yet to be measured, 1 at least until what was found is made ready; 0:
                                 tuning in the background is over, or never was */
    uint64_t spills; /* candidates rejected because far more of their registers lie in memory than of others': with
                        wrong and its neighbours. Another search may try them */
    uint64_t compiled_ahead; /* of compiles, those by other threads than the one that measures, on GPUs; some of them in
                                 vain, because the search ended or went elsewhere */
    uint64_t ahead_nanoseconds; /* that these threads spent on it, all together: no part of nanoseconds */
    uint64_t reserved[9];
} tuff_tune_stats;

#ifdef __cplusplus
}
#endif
#endif
