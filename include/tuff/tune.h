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
   A value that is none of these is ignored, with one warning to the log (tuff_set_log) in the life of a process. */
typedef enum tuff_tune_environment {
    TUFF_TUNE_ENVIRONMENT_DEFAULTS, /* the default: options that have their default value, 0 */
    TUFF_TUNE_ENVIRONMENT_NONE,     /* nothing */
    TUFF_TUNE_ENVIRONMENT_ALL       /* all of these options: for people who look for the cause of something */
} tuff_tune_environment;

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
/* Called after every candidate, from the thread that compiles, and while another process measures on the device, where
   TUFF_TUNE_WAIT=1 says to wait for that: key then says so. False stops tuning: the best found so far is used. */
typedef bool (*tuff_tune_callback)(void *user, const tuff_tune_progress *now);

/* What tuning did for a plan. */
typedef struct tuff_tune_stats {
    int tasks, keys; /* tasks that have anything to tune, and how many of them differ */
    int hits[7];     /* keys by where their candidate came from: a pin, the same environment, another driver,
                                 nearby dims, a seed, the portfolio, the default */
    int measured;    /* keys that were measured */
    int improved;    /* of them, those with a candidate better than the default by more than 1 % */
    int skipped;     /* keys that could not be measured: too large, or without time */
    uint64_t compiles, launches;
    uint64_t wrong, races, limits, slow, crashes, hangs;                  /* candidates rejected, by reason */
    uint64_t nanoseconds;                                                 /* spent tuning, looking up included */
    uint64_t compile_nanoseconds, sample_nanoseconds, verify_nanoseconds; /* of those */
    uint64_t damaged_lines;                                               /* of the cache */
    uint64_t lock_waits; /* times that another process measured on the device */
    int misses[4]; /* keys without a pin or a winner of the same environment: nothing is remembered, a seed alone, a
                      winner of other kernel texts, one that was rejected or cannot be used */
    uint64_t reserved[13];
} tuff_tune_stats;

#ifdef __cplusplus
}
#endif
#endif
