/* Tuning. A kernel has variants, and each variant has tile sizes, vector widths and work-group sizes. When a graph is
   compiled, the candidates can be measured on the device at hand, and the fastest one is cached (tuff/cache.h), so that
   the next start measures nothing.

   The options are in tuff_tune_options, to which tuff_compile_options.tuning points. tuff_plan_tune_stats
   (tuff/profile.h) reports what tuning did for a plan. */
#ifndef TUFF_TUNE_H
#define TUFF_TUNE_H

#include "tuff/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tuff_tune_mode {
    TUFF_TUNE_CACHED, /* the default: uses cached results and measures nothing */
    TUFF_TUNE_OFF,    /* ignores the cache and uses the library's default for the class of device */
    TUFF_TUNE_QUICK,  /* measures keys that are not cached, for at most 10 seconds */
    TUFF_TUNE_NORMAL, /* the same for at most 60 seconds, 120 on machines with fewer than 8 cores */
    TUFF_TUNE_MAX     /* the same for at most 10 minutes, and continues searches that had stopped improving */
} tuff_tune_mode;

/* Which fields of tuff_tune_options may be set by environment variables:
     TUFF_TUNE=off|cached|quick|normal|max           mode
     TUFF_TUNE_BUDGET_MS=n                           milliseconds
     TUFF_TUNE_SEED=n                                seed
     TUFF_TUNE_LOG=FILE, or - for the error stream   log
     TUFF_DETERMINISTIC=0|1                          deterministic
     TUFF_TUNE_BACKGROUND=0|1                        background; ignored if it cannot be combined with the rest
     TUFF_TUNE_ISOLATE=auto|on|off                   isolation
   Any other value is ignored, with one warning per process and variable in the log (tuff_set_log).

   How a graph is fused is not tuned. Whatever this enumeration says, TUFF_PASSES turns single rewrites of the graph
   off, to find the one that makes a result wrong: a list such as fusion.columns=0;fusion.maps=0. The names are columns,
   terms, gradients, split_k, column_sums, rows, maps, producers and recompute. */
typedef enum tuff_tune_environment {
    TUFF_TUNE_ENVIRONMENT_DEFAULTS, /* the default: only fields that the program left at 0 */
    TUFF_TUNE_ENVIRONMENT_NONE,     /* none */
    TUFF_TUNE_ENVIRONMENT_ALL       /* all of the above, whatever the program set; for debugging */
} tuff_tune_environment;

/* Where candidates are compiled and run: in this process (a journal lets the next start skip a candidate that crashed
   it), or in a worker process that may crash without harm. "Tuning in the background" below says which program the
   worker is and what it means for the program's own children. When tuff_compile uses a worker, the worker gets the
   graph and measures as tuff_compile would. If a candidate ends the worker, another one is started without that
   candidate: at most 8 workers in all, within the same budget. If no worker can be started, nothing is measured, with a
   warning in the log. */
typedef enum tuff_tune_isolation {
    TUFF_ISOLATE_AUTO, /* the default: tuff_compile measures in this process, background tuning in a worker */
    TUFF_ISOLATE_ON,   /* both in a worker */
    TUFF_ISOLATE_OFF   /* no worker: tuff_compile measures in this process; background tuning measures nothing, with a
                          warning in the log */
} tuff_tune_isolation;

/* The state of tuning, for a progress display. Strings are valid during the call. */
typedef struct tuff_tune_progress {
    int key_count, keys_done; /* keys to measure (groups of equal tasks), and how many of them are finished */
    double seconds_left;      /* of the budget */
    const char *key;          /* the key being measured, spelt as by `tuff cache show` */
    const char *best;         /* its fastest candidate so far; "": the default */
    uint64_t default_nanoseconds, best_nanoseconds; /* time of one run; 0: not measured yet */
    int candidates, rejected; /* for this key: candidates compiled, and candidates found unusable */
    const char *rejection;    /* why the last candidate was rejected; "" if none was */
    uint64_t reserved[8];
} tuff_tune_progress;
/* Called after every candidate by the thread that called tuff_compile; with background tuning by a thread of the
   library, where the callback must neither end the process nor touch the plan. Also called repeatedly while tuning
   waits for another process that measures on the same device (only with TUFF_TUNE_WAIT=1); `key` then says so.
   Returning false stops tuning, and the best candidates found so far are used. */
typedef bool (*tuff_tune_callback)(void *user, const tuff_tune_progress *progress);

/* How kernels are tuned. Set every field that you do not use to zero, the default of each. tuff_compile copies the
   struct and reads the strings before it returns, so both may be freed then. With `background`, `progress` and `user`
   must stay valid until the plan is destroyed. */
typedef struct tuff_tune_options {
    tuff_tune_mode mode;
    uint32_t milliseconds;       /* time limit for measuring; 0: the mode's limit */
    tuff_tune_callback progress; /* may be NULL */
    void *user;                  /* passed to progress */
    /* A file to which one line per candidate is appended; "-": the error stream; NULL: none. Fields are separated by
       tabs: seconds since tuning began, evaluation, nanoseconds of one run, samples, candidate, key, reason for
       rejection. */
    const char *log;
    uint32_t seed; /* seed of the random choices of searches: another seed gives another order of candidates */
    tuff_tune_environment environment; /* which of these fields the environment may set */
    /* A manifest written by tuff_plan_save_manifest or `tuff cache export --manifest`: every kernel runs with the
       candidate that it names, nothing is measured, and no other cached results are used. tuff_compile fails with
       TUFF_E_UNSUPPORTED, naming the key, if the manifest lacks a key, if a candidate cannot be used here, or if it was
       saved for other kernel texts than this version's; also with compile options that rule out tuning. NULL: none. */
    const char *manifest;
    /* Bytes of device memory that measuring may use besides the plan; never more than a quarter of the device's memory.
       Tasks that do not fit together are measured one after the other; a task that does not fit alone keeps its
       default. 0: 1 GiB on CPUs, 8 GiB elsewhere. */
    uint64_t memory;
    /* Makes results independent of measurements, here or elsewhere: nothing is measured, and of the cached candidates
       (pins, winners of the same environment) only those that add in the same order as the default are used. A manifest
       may override this: it is the same for everybody who has it. */
    bool deterministic;
    /* tuff_compile measures nothing; what `mode` and `milliseconds` request is measured later, while the program leaves
       the device idle (see below). tuff_compile fails with TUFF_E_USAGE unless `mode` is TUFF_TUNE_QUICK, NORMAL or
       MAX, and with `deterministic` or `manifest`. */
    bool background;
    tuff_tune_isolation isolation;
    uint32_t reserved[16];
} tuff_tune_options;

/* Tuning in the background (tuff_tune_options.background).

   The plan is compiled with the candidates in the cache, as with TUFF_TUNE_CACHED. Keys without a cached winner are
   then measured one after the other by a worker process, on a device that it opens itself, never on the program's.

   Who measures. Only the worker: a kernel that crashes its driver ends the worker, not the program. The candidate is
   never tried again, and the worker is restarted, at most twice. A worker that shows no sign of life for 30 s, or whose
   step takes longer than 60 s without one (TUFF_TUNE_WATCHDOG sets both, in seconds), is killed, which counts as a
   crash. After two crashing candidates on a device within 24 hours, nothing is measured on it until one of them is
   older. The worker is the command-line tool of the same build: the file that TUFF_WORKER names, else ../bin/tuff
   relative to a shared library, else the installed tool; an empty TUFF_WORKER means none. It receives the graph, but no
   array contents, and allocates no memory for them. It inherits no files but the error stream, has its own process
   group, and ends when the program ends, for whatever reason. It is a child of the program: the program receives
   SIGCHLD for it and must leave waiting for it to the library. Other children and the program's signal handling are not
   affected. Without a worker (not installed, from another build, TUFF_ISOLATE_OFF, or a wrapped device of the
   application, which no other process can open) nothing is measured, and a warning in the log says so. In the program,
   a thread of the plan tells the worker what it may do and when, and prepares its results for use; the thread measures
   nothing itself.

   When it measures. In steps: one candidate compiled, checked and timed, or the final race of a key. A step begins when
   the plan's device has been idle for 500 ms: no call from any plan or array gave it work, read, wrote or waited, and
   no submission is pending. A submission is pending until the program waited for it, for example by a read; while a
   program runs plans and never waits, nothing is measured. A step pauses as soon as the program uses the device, at the
   latest after the current launch or compilation, and continues once the device has been idle for 500 ms again. For 10
   s after the program last used the device, a step that took t is followed by a rest of at least 19 t, which limits
   measuring to 5 % of the time. After that, steps follow each other directly. A program that runs plans without a pause
   is never disturbed. The budget of the mode counts steps, not rests. No step begins while another process or thread
   measures on the same hardware; the library checks again later instead of waiting. A tuff_compile that wants to
   measure during a step finds the hardware in use, as if by another process.

   What happens to the results. Winners and rejected candidates are written to the cache key by key, so a program that
   ends early loses only the key being measured. When keys have improved on what the plan runs with, the thread prepares
   a new version of the plan: memory, kernels, recordings. It replaces the old one at the start of a tuff_plan_run,
   provided that all earlier work was waited for by then; that run pays for freeing the old recordings and for packing
   weights again. Results may change in their last bits at that point only, never within a run. tuff_tune_stats.swaps
   counts replacements, and tuff_plan_hash changes with each. Inputs, outputs and arrays keep their contents, indices
   and names; strings from tuff_plan_task and tuff_plan_key become invalid, and tasks that changed have no nanoseconds
   until the next tuff_plan_profile. If the new version cannot be made, for example for lack of memory, the old one
   stays. While it is being made, memory holds both versions, except for inputs, outputs, constants and temporaries,
   which they share.

   The thread ends when no keys are left. tuff_plan_destroy and exit() end the worker and the thread at once, except
   while the thread is inside the driver's compiler for the plan's new version. The thread calls the functions given to
   tuff_set_allocator and tuff_set_log, which must tolerate that, and blocks all signals. */

/* Source of a key's candidate: index of tuff_tune_stats.hits. */
typedef enum tuff_tune_hit {
    TUFF_TUNE_HIT_PIN,          /* a user's choice: a pin or a manifest */
    TUFF_TUNE_HIT_SAME,         /* measured in the same environment: this device with this driver */
    TUFF_TUNE_HIT_OTHER_DRIVER, /* measured on this device with another version of the driver */
    TUFF_TUNE_HIT_NEAREST,      /* measured here for the same task with nearby dimensions */
    TUFF_TUNE_HIT_SEED,         /* the default, with a cached candidate for a search to start from */
    TUFF_TUNE_HIT_PORTFOLIO,    /* the default, with built-in candidates for a search to start from */
    TUFF_TUNE_HIT_DEFAULT,      /* the default, and nothing to start a search from */
    TUFF_TUNE_HIT_COUNT
} tuff_tune_hit;

/* Why a key has neither a pin nor a winner of the same environment: index of tuff_tune_stats.misses. */
typedef enum tuff_tune_miss {
    TUFF_TUNE_MISS_UNKNOWN,       /* the cache has nothing */
    TUFF_TUNE_MISS_SEED,          /* only a seed, which has to be measured here before use */
    TUFF_TUNE_MISS_OTHER_KERNELS, /* the winner was measured with other kernel texts than this version's */
    TUFF_TUNE_MISS_UNUSABLE,      /* the winner has been rejected since, or cannot be used */
    TUFF_TUNE_MISS_COUNT
} tuff_tune_miss;

/* What tuning did for a plan. */
typedef struct tuff_tune_stats {
    int tasks;                        /* tasks with tunables */
    int keys;                         /* distinct tasks among them */
    int hits[TUFF_TUNE_HIT_COUNT];    /* keys by the source of their candidate */
    int misses[TUFF_TUNE_MISS_COUNT]; /* keys without a pin or a winner of the same environment, by reason */
    int measured;                     /* keys that were measured */
    int improved;                     /* measured keys whose winner beats the default by more than 1 % */
    int skipped;                      /* keys that could not be measured: too large, or no time left */
    uint64_t compiles, launches;      /* of candidates */
    /* Candidates rejected, by reason: */
    uint64_t wrong;   /* results differ from the default's */
    uint64_t races;   /* results differ between two runs */
    uint64_t limits;  /* a limit of the device is exceeded, or the compiler failed */
    uint64_t spills;  /* spilled registers that another candidate did not, or far more; another search may try them */
    uint64_t slow;    /* abandoned after one sample */
    uint64_t crashes; /* ended a worker or, according to the journal, an earlier process */
    uint64_t hangs;   /* did not finish in time */
    /* Time: */
    uint64_t nanoseconds;          /* spent on tuning, lookup included, without compiling the plan with the results */
    uint64_t compile_nanoseconds;  /* of these: compiling, or waiting for a compilation */
    uint64_t sample_nanoseconds;   /* of these: timing */
    uint64_t verify_nanoseconds;   /* of these: checking results */
    uint64_t prefetched;           /* those of compiles done in advance by other threads, on GPUs; some unused */
    uint64_t prefetch_nanoseconds; /* spent by those threads together; not part of nanoseconds */
    uint64_t damaged_lines;        /* of the cache's files */
    uint64_t lock_waits;           /* how often another process was measuring on the device */
    /* Background tuning: */
    int swaps;                /* runs that began with other kernels than the run before */
    int background_keys_left; /* keys not yet measured, at least 1 until the results are ready for use; 0: tuning has
                                 finished, or was not requested */
    uint64_t reserved[8];
} tuff_tune_stats;

#ifdef __cplusplus
}
#endif
#endif
