/* A tuning session: the tuner of one graph, with a tuning_task for every key. session.c finds the keys and looks up
   what is remembered of them, measure.c spends the budget, evaluator.c works on candidates for the searches,
   compile_pool.c compiles ahead, records.c writes results. api/tune_plan.c begins sessions; worker/ measures one in
   another process. */
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

/* Measures all keys of a session that want it, within its budget: a worker, for example. */
typedef struct measurer {
    tuff_status (*measure)(void *self, struct tuning_session *session);
    void *self;
} measurer;

/* Candidates whose launches wait to be compiled. A search has at most SEARCH_PREFETCH waiting for their turn, and
   picked each from a few. */
enum { MAX_LOWERED = 32 };

/* So many candidates of a key may be refused by the driver before the plan takes the default. */
enum { MAX_REFUSED = 8 };

/* All tasks of one key. */
typedef struct tuning_task {
    struct tuning_session *session;
    tune_key key;
    char text[TUNE_KEY_SIZE];
    hash128 hash;
    char generator[GENERATOR_SIZE];
    int task;       /* one of them */
    uint64_t calls; /* how many there are */
    double weight;  /* of one of them, as tuff__launch_list_traffic says */
    tune_tier tier;
    int miss;          /* of tuff_tune_stats.misses; -1: none */
    bool was_measured; /* what is chosen won a race here and now */
    tune_config chosen;
    tune_config seeds[TUNE_SEEDS], portfolio[TUNE_SEEDS];
    int seed_count, portfolio_count;
    bool wants_measuring;
    tune_record known;                /* what is remembered of it here, where a search goes on */
    bool is_race;                     /* only what another driver found is measured, against the default */
    tune_config refused[MAX_REFUSED]; /* by the driver, when the plan was to run with them */
    int refused_count;
    bool is_pinned, was_told; /* was_told: a warning about the pin was logged */
    /* While it is measured: */
    test_buffers *test_buffers;
    search *search;
    candidate_run *slots[SEARCH_SLOTS];
    struct compile_job *pending_jobs[SEARCH_SLOTS]; /* what is compiled ahead for a slot; NULL: nothing is */
    bool has_run[SEARCH_SLOTS];
    int rejected;
    char rejection[128];
    tune_config noted;            /* the leader that was last recorded; none: nothing was */
    bool is_done;                 /* it is counted in keys_done */
    bool is_default_bad;          /* its results are wrong */
    bool lacks_room;              /* no memory for the default while other keys hold theirs */
    bool is_cold;                 /* the default was timed with its weights out of the caches */
    uint64_t default_nanoseconds; /* about; 0: not known yet */
    uint64_t default_compile;     /* nanoseconds that its programs took */
    uint64_t compile_limit;       /* that its last candidate was given */
} tuning_task;

typedef struct tuning_session {
    const struct fusion *fusion; /* whose tasks have keys; borrowed */
    const tuff_compile_options *options;
    tuff_device *device;
    tune_environment environment;
    char environment_text[ENVIRONMENT_SIZE];
    tune_stores stores;
    bool is_wide;      /* stores: those of other environments too */
    tune_store *store; /* the first of them: ours */
    tune_store *manifest;
    journal *journal; /* while there is measuring */
    int log;          /* a file that gets a line for every candidate; -1: none */
    tuning_task *tasks;
    int task_count, task_capacity;
    int *task_of; /* by task; -1: it has none */
    tuff_tune_stats stats;
    uint64_t begin, budget, limit; /* of the clock; limit: nothing may begin after */
    uint64_t opened;               /* when tuning began, for the log */
    uint64_t recording;            /* what compiling the plan with what was found took */
    uint64_t later;                /* of the whole budget, for what comes behind `budget` */
    uint64_t test_buffers_size;    /* of all tasks */
    int keys_wanted, keys_done;
    const measurer *apart; /* measures instead of this process; NULL: this process does */
    bool is_background;    /* the plan that it is for is in use */
    bool survives_crashes; /* a worker measures while a compilation waits: crashes are no reason to stop */
    /* Set in a worker that measures for a plan in use, else NULL. Returns when the device may be used, or with
       `stopped` set; adds the time that it waited to begin and limit. is_between: no step is under way. */
    void (*yield)(struct tuning_session *self, bool is_between);
    void *user;
    bool stopped, lost, had_bench;                  /* had_bench: what was lost is not the plan's device */
    tuff_device *bench;                             /* where candidates run: a device of their own, NULL: the plan's */
    cache_flush_pool pool;                          /* on the bench */
    bool has_pool;                                  /* or there can be none */
    struct lowered_candidate *lowered[MAX_LOWERED]; /* lowered.h; the most recently used first */
    int lowered_count;
    uint64_t lowerings;                /* of candidates, so far */
    struct compile_pool *compile_pool; /* threads that compile on the bench; NULL: there are none */
    const tuning_task *warmed;         /* whose candidates ran last */
    uint64_t slow_compiles[4];         /* the longest ones, in falling order */
    int compile_count;
    uint64_t compile_limit; /* of any candidate; 0: not known yet */
    double rate;            /* operations on f32 in a nanosecond, of the bench; 0: not measured, or in vain */
} tuning_session;

/* Nanoseconds that the bench needs for a task's multiply-adds at its peak rate; 0 if unknown. Known only for matmuls in
   f32, in which the peak is measured. */
uint64_t tuff__session_roofline(tuning_task *task);
/* The device that candidates run on. */
tuff_device *tuff__session_bench(const tuning_session *self);
/* Whether that is a GPU, so that compiling does not disturb it. */
bool tuff__session_is_on_gpu(const tuning_session *self);
/* Opens a device of its own for candidates, so that one that takes it down does not take the plan's with it; closes
   it. */
void tuff__session_open_bench(tuning_session *self);
void tuff__session_close_bench(tuning_session *self);
/* Notes how long a compilation took, from which the limit of later ones follows. */
void tuff__session_note_compile(tuning_session *self, uint64_t nanoseconds);
/* Sets how long the next compilation of the task may take: longer if its default took long, and as long as the budget
   allows it. */
void tuff__session_limit_compile(tuning_task *task);
/* The maximum; tests set a shorter time. */
extern uint64_t tuff__compile_timeout;
/* Whether anything may be measured: not after a candidate took the device down in this process, nor after that happened
   twice within a day in any process. Logs the reason once. */
bool tuff__session_may_measure(const tuning_session *self);
/* Takes the lock for measuring on the device, because processes that measure would disturb each other. If another
   process has it, waits with TUFF_TUNE_WAIT=1 (*waited: look up again what that one found), else returns false at once.
   True also if no lock file can be made. Release it with tuff__file_unlock. */
bool tuff__session_lock_device(tuning_session *self, file_lock *out, bool *waited);
/* The same without waiting: false if another process has it. */
bool tuff__session_try_lock_device(const tuning_session *self, file_lock *out);
/* Reads the stores again and looks the tasks up in them. */
tuff_status tuff__session_look_again(tuning_session *self);
/* From now on nothing is measured in this process. */
void tuff__session_turn_off(void);

/* Call this after measuring: compacts the store, and prunes the cache of programs to its limit. */
void tuff__session_tidy(const tuning_session *self);

/* The keys of the plan's tasks: tasks with their defaults, nothing looked up. */
tuff_status tuff__session_find(tuning_session *self);
/* Opens the stores; what was opened is closed by tuff__session_end. */
tuff_status tuff__session_open_stores(tuning_session *self);
/* Whether nothing is remembered of the device; whether this session may measure; the number of damaged lines in
   stores. */
bool tuff__session_knows_nothing(const tuning_session *self);
bool tuff__session_is_measuring(const tuning_session *self);
uint64_t tuff__session_count_damaged(const tuning_session *self);
/* Opens the stores, finds the keys, and what is remembered of them. */
tuff_status tuff__session_look_up(tuning_session *self);
/* The same with stores that are open; where something is missing, also by the stores of other environments. */
tuff_status tuff__session_look_up_widely(tuning_session *self);
void tuff__session_end(tuning_session *self);

/* The chosen configurations by task, NULL for the default. *any: whether one differs from the default. The caller frees
   *out, even after a failure. */
tuff_status tuff__session_choices(const tuning_session *self, const tune_config ***out, bool *any);
/* The keys and their chosen configurations. */
tuff_status tuff__session_list_keys(const tuning_session *self, plan_keys *out);
/* Sets all tasks back to their defaults. */
void tuff__session_forget_choices(tuning_session *self);
/* The driver refused a task's configuration: it gets the next best that is remembered, else its default. False if it
   had the default already, or if a manifest allows no other. */
bool tuff__session_give_up(tuning_session *self, int task, tuff_status why);
/* Only host memory can be lacking. */
tuff_status tuff__session_open_journal(tuning_session *self);
/* Measures the tasks that want it, within the budget. */
tuff_status tuff__session_measure(tuning_session *self);
/* The same in parts. Open what measuring needs, including a bench device if possible; measure one task to its end;
   close all. Status as of tuff__search_step. */
tuff_status tuff__session_open(tuning_session *self);
tuff_status tuff__session_measure_one(tuning_task *task, uint64_t budget);
/* All that want it; begin and budget are set. */
tuff_status tuff__session_measure_all(tuning_session *self);
void tuff__session_close(tuning_session *self);
/* The log of candidates (candidate_log.c), if the options name one. Failing to write it is only logged. */
void tuff__session_log_open(tuning_session *self);
void tuff__session_log_close(tuning_session *self);
void tuff__session_log_add(const tuning_task *task, const tune_config *config, tune_evaluation found,
                           uint64_t nanoseconds, int samples);
/* The evaluator of a task's candidates. */
evaluator tuff__evaluator_of(tuning_task *task);
/* Verifies a compiled candidate against the host alone. Its results replace those that were kept as right. */
tune_evaluation tuff__evaluator_alone(tuning_task *task, const search_candidate *candidate);
/* Plain configurations to replace a wrong default, ending with NULL: kernels without local memory, the same with short
   vectors, kernels as for a GPU. */
extern const char *const tuff__fallbacks[];
/* The default's results are wrong: chooses a fallback that gives right ones, if any does, and records it. */
void tuff__session_choose_fallback(tuning_task *task);
/* The default must not run and nothing else is known: chooses the first fallback. */
void tuff__session_avoid_default(tuning_task *task);
/* Recording (records.c). reject: as search_settings.rejected. */
void tuff__session_reject(void *user, const tune_config *config, tune_evaluation why);
/* Counts and reports a rejected candidate without recording it: another search may try it. */
void tuff__session_leave_out(tuning_task *task, tune_evaluation why);
void tuff__session_remember(tuning_task *task, const search_result *found);
/* Records the leader of a search that goes on as a seed for a later one, if it changed since the last call: if this
   process is stopped or killed, only the candidate at hand is lost. */
void tuff__session_note_leader(tuning_task *task);
/* Records that another search found nothing that is better beyond doubt. */
void tuff__session_remember_again(const tuning_task *task);
/* Adds the counters of work done. */
void tuff__tune_stats_add(tuff_tune_stats *to, const tuff_tune_stats *more);
/* Frees the task's runs, launches and test buffers. */
void tuff__evaluator_clear(tuning_task *task);

#endif
