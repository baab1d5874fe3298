/* A tuning session: the tuner of one graph, with a tuning_task for every key. session.c finds the keys and looks up
   what is cached for them, measure.c spends the budget, evaluator.c works on candidates for the searches,
   compile_pool.c compiles ahead, record_results.c writes results. api/tune_plan.c starts sessions; worker/ measures
   one in another process. */
#ifndef TUFF_AUTOTUNE_SESSION_H
#define TUFF_AUTOTUNE_SESSION_H

#include "base/file/lock.h"
#include "compile/task_key.h"
#include "measure/candidate_run.h"
#include "exec/tune_options.h"
#include "exec/plan.h"
#include "tunedb/environment.h"
#include "tunedb/folder.h"
#include "tunedb/kernel_hash.h"
#include "tunedb/journal.h"
#include "tunedb/lookup.h"
#include "search/search.h"

struct tuning_session;

/* Measures all keys of a session that need it, within its budget: a worker, for example. */
typedef struct measurer {
    tuff_status (*measure)(void *self, struct tuning_session *session);
    void *self;
} measurer;

/* Most candidates whose launches are kept until they are compiled. A search has at most SEARCH_PREFETCH candidates
   waiting, each picked from a few. */
enum { MAX_LOWERED = 32 };

/* Most candidates of a key that the driver may refuse before the plan takes the default. */
enum { MAX_REFUSED = 8 };

/* All tasks of one key. */
typedef struct tuning_task {
    struct tuning_session *session;
    tune_key key;
    char text[TUNE_KEY_SIZE];
    hash128 hash;
    char kernel_hash[KERNEL_HASH_SIZE];
    int task;       /* index of one of them */
    uint64_t calls; /* the number of tasks */
    double weight;  /* of one task, as computed by tuff__launch_list_traffic */
    tune_tier tier;
    int miss;          /* index into tuff_tune_stats.misses; -1: no miss */
    bool was_measured; /* the chosen configuration won a race in this session */
    tune_config chosen;
    tune_config seeds[TUNE_SEEDS], portfolio[TUNE_SEEDS];
    int seed_count, portfolio_count;
    bool wants_measuring;
    tune_record known;                /* the record of this key on this device, if the search continues from it */
    bool is_race;                     /* only what another driver found is measured, against the default */
    tune_config refused[MAX_REFUSED]; /* by the driver, when the plan was about to run with them */
    int refused_count;
    bool is_pinned, was_warned; /* was_warned: a warning about the pin was logged */
    /* Used while the key is measured: */
    test_buffers *test_buffers;
    search *search;
    candidate_run *slots[SEARCH_SLOTS];
    struct compile_job *pending_jobs[SEARCH_SLOTS]; /* compilations ahead, per slot; NULL: none */
    bool has_run[SEARCH_SLOTS];
    int rejected;
    char rejection[128];
    tune_config noted_leader;     /* the leader that was recorded last; the default: none */
    bool is_done;                 /* counted in keys_done */
    bool is_default_bad;          /* the default's results are wrong */
    bool lacks_memory;            /* too little memory to measure the default while other keys are measured */
    bool is_cold;                 /* the default was timed with its weights out of the caches */
    uint64_t default_nanoseconds; /* approximate; 0: not known yet */
    uint64_t default_compile;     /* nanoseconds that the default's programs took to compile */
    uint64_t compile_limit;       /* limit that its last candidate was given */
} tuning_task;

typedef struct tuning_session {
    const struct fusion *fusion; /* its tasks have keys; borrowed */
    const tuff_compile_options *options;
    tuff_device *device;
    tune_environment environment;
    char environment_text[ENVIRONMENT_SIZE];
    tune_stores stores;
    bool is_wide;      /* stores includes those of other environments */
    tune_store *store; /* stores.items[0], the user's */
    tune_store *manifest;
    journal *journal; /* open while measuring */
    int log;          /* descriptor of the log of candidates; -1: none */
    tuning_task *tasks;
    int task_count, task_capacity;
    int *task_index; /* index into tasks by task of the graph; -1: no key */
    tuff_tune_stats stats;
    uint64_t begin, budget, limit;     /* in nanoseconds; no step may begin after the time `limit` */
    uint64_t opened;                   /* when tuning began, for the log */
    uint64_t plan_compile_nanoseconds; /* time spent compiling the plan with the results */
    uint64_t remaining_budget;         /* part of the whole budget that remains after `budget` */
    uint64_t test_buffers_size;        /* bytes, for all tasks */
    int keys_wanted, keys_done;
    const measurer *external_measurer; /* measures instead of this process; NULL: this process does */
    bool is_background;                /* the plan that is tuned is in use */
    bool survives_crashes;             /* a worker measures while a compilation waits: crashes do not stop it */
    /* Set in a worker that measures for a plan in use, else NULL. Returns when the device may be used, or with
       `stopped` set; adds the time it waited to begin and limit. is_between: no step is in progress. */
    void (*yield)(struct tuning_session *self, bool is_between);
    void *user;
    bool stopped, lost, had_own_device;             /* had_own_device: the lost device is not the plan's */
    tuff_device *measure_device;                    /* the candidates' own device; NULL: they run on the plan's */
    cache_flush_pool pool;                          /* memory of the measuring device */
    bool has_pool;                                  /* pool is set up, or there can be none */
    struct lowered_candidate *lowered[MAX_LOWERED]; /* lowered.h; most recently used first */
    int lowered_count;
    uint64_t lowerings;                /* number of candidates lowered so far */
    struct compile_pool *compile_pool; /* threads that compile for it; NULL: none */
    uint64_t last_run;                 /* when a candidate last ran */
    uint64_t slow_compiles[4];         /* the longest ones, in descending order */
    int compile_count;
    uint64_t compile_limit; /* for any candidate; 0: not known yet */
    struct peak *operations; /* f32 operations of the measuring device; NULL: not needed yet, or has_no_peak */
    bool has_no_peak;        /* they cannot be measured */
} tuning_session;

/* Returns the nanoseconds that the measuring device needs for a task's multiply-adds at its peak rate; 0 if unknown.
   Known only for f32 matmuls, since the peak is measured in f32. */
uint64_t tuff__session_roofline(tuning_task *task);
/* Returns the device that candidates run on. */
tuff_device *tuff__session_device(const tuning_session *self);
/* Whether that device is a GPU, so that compiling does not disturb it. */
bool tuff__session_is_on_gpu(const tuning_session *self);
/* Raises the clocks of a GPU that was idle, for example while the host computed a reference: at low clocks, which
   candidate is faster may depend less on its operations, and more on the memory, than at the clocks of a program. Does
   nothing while an application uses the device. Fails, and sets `lost`, if the device is lost or does not respond. */
tuff_status tuff__session_warm_up(tuning_session *self);
/* Opens a separate device, so that a crashing candidate cannot affect the plan's. */
void tuff__session_open_own_device(tuning_session *self);
/* Closes it. */
void tuff__session_close_own_device(tuning_session *self);
/* Notes how long a compilation took. The limit for later ones is derived from that. */
void tuff__session_note_compile(tuning_session *self, uint64_t nanoseconds);
/* Sets how long the next compilation of the task may take: longer if its default took long or the budget allows it. */
void tuff__session_limit_compile(tuning_task *task);
/* The maximum of that limit; tests set a shorter time. */
extern uint64_t tuff__compile_timeout;
/* Whether anything may be measured: not after a candidate took the device down in this process, nor after that happened
   twice within a day in any process. Logs the reason once. */
bool tuff__session_may_measure(const tuning_session *self);
/* Takes the device's lock for measuring, because processes that measure would disturb each other. If another process
   holds it, waits if TUFF_TUNE_WAIT=1 (*waited: look up again what that process found), else returns false at once.
   Also returns true if no lock file can be created. Release the lock with tuff__file_unlock. */
bool tuff__session_lock_device(tuning_session *self, file_lock *out, bool *waited);
/* The same without waiting: returns false if another process holds the lock. */
bool tuff__session_try_lock_device(const tuning_session *self, file_lock *out);
/* Reads the stores again and looks up the tasks in them. */
tuff_status tuff__session_refresh(tuning_session *self);
/* Stops all measuring in this process from now on. */
void tuff__session_disable_measuring(void);

/* Call this after measuring: compacts the store, and trims the program cache to its limit. */
void tuff__session_tidy(const tuning_session *self);

/* Finds the keys of the plan's tasks. Tasks get their defaults; nothing is looked up. */
tuff_status tuff__session_find_keys(tuning_session *self);
/* Opens the stores; tuff__session_close_stores closes them. */
tuff_status tuff__session_open_stores(tuning_session *self);
/* Whether nothing is cached for the device; whether this session may measure; the number of damaged lines. */
bool tuff__session_has_no_records(const tuning_session *self);
bool tuff__session_wants_measuring(const tuning_session *self);
uint64_t tuff__session_count_damaged(const tuning_session *self);
/* Opens the stores, finds the keys, and looks them up. */
tuff_status tuff__session_look_up(tuning_session *self);
/* The same with stores that are open already. If a key has no winner here, searches those of other environments too. */
tuff_status tuff__session_look_up_widely(tuning_session *self);
void tuff__session_close_stores(tuning_session *self);

/* Returns the chosen configurations by task, NULL for the default. *any: whether one differs from the default. The
   caller frees *out, even after a failure. */
tuff_status tuff__session_collect_choices(const tuning_session *self, const tune_config ***out, bool *any);
/* Lists the keys and their chosen configurations. */
tuff_status tuff__session_list_keys(const tuning_session *self, plan_keys *out);
/* Resets all tasks to their defaults. */
void tuff__session_forget_choices(tuning_session *self);
/* Call this if the driver refused a task's configuration: the task gets the next best one in the cache, else its
   default. Returns false if it had the default already, or if a manifest allows no other. */
bool tuff__session_reject_chosen(tuning_session *self, int task, tuff_status why);
/* TUFF_E_OOM_HOST is the only error. */
tuff_status tuff__session_open_journal(tuning_session *self);
/* Enters a candidate in a slot of the journal; the threads of the compile pool may call this too. An entry that would
   not survive a crash of the machine is not worth giving up tuning, so TUFF_E_IO counts as success. */
tuff_status tuff__session_enter_journal(const tuning_task *task, int slot, journal_phase phase,
                                        const tune_config *config, bool durable);
/* Measures the tasks that need it, within the budget. */
tuff_status tuff__session_measure(tuning_session *self);
/* The same in parts: opens what measuring needs, including a measuring device if possible; measures one task to its
   end, with the status of tuff__search_step; closes everything. */
tuff_status tuff__session_open_device(tuning_session *self);
tuff_status tuff__session_measure_one(tuning_task *task, uint64_t budget);
/* Measures all tasks that need it; begin and budget must be set. */
tuff_status tuff__session_measure_all(tuning_session *self);
void tuff__session_close_device(tuning_session *self);
/* The log of candidates (candidate_log.c), if the options name one. Failure to write it is only logged. */
void tuff__session_log_open(tuning_session *self);
void tuff__session_log_close(tuning_session *self);
void tuff__session_log_add(const tuning_task *task, const tune_config *config, tune_evaluation found,
                           uint64_t nanoseconds, int samples);
/* Returns the evaluator of a task's candidates. */
evaluator tuff__evaluator_for_task(tuning_task *task);
/* Verifies a compiled candidate against the host alone. Its results replace those kept as the reference. */
tune_evaluation tuff__evaluator_verify_baseline(tuning_task *task, const search_candidate *candidate);
/* Plain configurations that may replace a wrong default, terminated by NULL: kernels without local memory, the same
   with short vectors, kernels as for a GPU. */
extern const char *const tuff__fallbacks[];
/* Call this if the default's results are wrong: chooses and records a fallback with correct results, if one exists. */
void tuff__session_choose_fallback(tuning_task *task);
/* Chooses the first fallback if the default must not run and nothing else is known. */
void tuff__session_avoid_default(tuning_task *task);
/* Recording (record_results.c). reject: as search_settings.rejected. */
void tuff__session_reject(void *user, const tune_config *config, tune_evaluation why);
/* Counts and reports a rejected candidate without recording it, so that another search may try it. */
void tuff__session_count_rejection(tuning_task *task, tune_evaluation why);
void tuff__session_record_result(tuning_task *task, const search_result *found);
/* Records the leader of an unfinished search as a seed for a later one, if it changed since the last call. If this
   process is stopped or killed, only the candidate being tried is lost. */
void tuff__session_note_leader(tuning_task *task);
/* Records that another search found nothing that is significantly better; its guess becomes a runner-up. */
void tuff__session_record_unchanged(const tuning_task *task, const search_result *found);
/* Adds the counters of work done in `more`. */
void tuff__tune_stats_add(tuff_tune_stats *to, const tuff_tune_stats *more);
/* Frees the task's runs, launches and test buffers. */
void tuff__evaluator_clear(tuning_task *task);

#endif
