/* Between the files of the tuner: tuner.c finds keys and what is remembered of them, tuner_measure.c spends the budget,
   judge.c tells searches about candidates, ahead.c compiles those that are expected, subjects.c hands keys
   to tools, background.c tunes plans that are in use. */
#ifndef TUFF_AUTOTUNE_SESSION_H
#define TUFF_AUTOTUNE_SESSION_H

#include "base/file/lock.h"
#include "compile/task_key.h"
#include "measure/candidate_run.h"
#include "autotune/options.h"
#include "exec/plan.h"
#include "tunedb/environment.h"
#include "tunedb/folder.h"
#include "tunedb/kernel_hash.h"
#include "tunedb/journal.h"
#include "tunedb/lookup.h"
#include "search/search.h"

struct tuner;

/* Who measures all keys of a session that want it, within its budget. */
typedef struct measurer {
    tuff_status (*measure)(void *self, struct tuner *session);
    void *self;
} measurer;

/* Candidates of a key that a plan tries to be made with before it takes the default. */
enum { REFUSED = 8 };

/* All tasks of one key. */
typedef struct subject {
    struct tuner *of;
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
    choice chosen;
    choice seeds[TUNE_SEEDS], portfolio[TUNE_SEEDS];
    int seed_count, portfolio_count;
    bool wants_measuring;
    tune_record known;       /* what is remembered of it here, where a search goes on */
    bool is_race;            /* between what another driver found and the default */
    choice refused[REFUSED]; /* by the driver, when the plan was to run with them */
    int refused_count;
    bool is_pinned, was_told; /* was_told: what the pin is worth */
    /* While it is measured: */
    ground *ground;
    search *search;
    trial *slots[SEARCH_SLOTS];
    struct ahead_job *coming[SEARCH_SLOTS]; /* what is compiled ahead for a slot; NULL: nothing is */
    bool has_run[SEARCH_SLOTS];
    int rejected;
    char rejection[128];
    choice noted;                 /* what led when that was last written down; none: nothing was */
    bool is_done;                 /* it is counted in keys_done */
    bool is_default_bad;          /* its results are wrong */
    bool lacks_room;              /* memory for the default, beside what other keys have of it */
    bool is_cold;                 /* the default was timed with its weights out of the caches */
    uint64_t default_nanoseconds; /* about; 0: not known yet */
    uint64_t default_compile;     /* nanoseconds that its programs took */
    uint64_t compile_limit;       /* that its last candidate was given */
} subject;

typedef struct tuner {
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
    subject *subjects;
    int subject_count, subject_capacity;
    int *subject_of; /* by task; -1: it has none */
    tuff_tune_stats stats;
    uint64_t begin, budget, limit; /* of the clock; limit: nothing may begin after */
    uint64_t opened;               /* when tuning began, for the log */
    uint64_t recording;            /* what compiling the plan with what was found took */
    uint64_t later;                /* of the whole budget, for what comes behind `budget` */
    uint64_t ground_size;          /* of all subjects */
    int keys_wanted, keys_done;
    const measurer *apart; /* who measures instead of this process; NULL: nobody */
    bool is_background;    /* the plan that it is for is in use */
    bool survives_crashes; /* a worker measures while a compilation waits: crashes are no reason to stop */
    /* In a worker that measures for a plan in use, else NULL: returns once the device may be used, or with stopped set;
       what waiting took is added to begin and limit. is_between: no step is under way. */
    void (*give_way)(struct tuner *self, bool is_between);
    void *user;
    bool stopped, lost, had_bench; /* had_bench: what was lost is not the plan's device */
    tuff_device *bench;            /* where candidates run: a device of their own, NULL: the plan's */
    program **kept;                /* on the bench, until that is closed */
    int kept_count;
    cold_pool pool;            /* on the bench */
    bool has_pool;             /* or there can be none */
    struct ahead *ahead;       /* threads that compile on the bench; NULL: there are none */
    const subject *warmed;     /* whose candidates ran last */
    uint64_t slow_compiles[4]; /* the longest ones, in falling order */
    int compile_count;
    uint64_t compile_limit; /* of any candidate; 0: not known yet */
    double rate;            /* operations on f32 in a nanosecond, of the bench; 0: not measured, or in vain */
} tuner;

/* Nanoseconds that the bench needs for the multiplying of a task alone, at its peak; 0 where that is not known. Only
   products of f32 are counted this way: the peak is of those. */
uint64_t tuff__tuner_roofline(subject *of);
/* The device that candidates run on. */
tuff_device *tuff__tuner_bench(const tuner *self);
/* Whether that is no CPU, nor anything whose processors compile as well. */
bool tuff__tuner_is_on_gpu(const tuner *self);
/* Opens one of its own, so that a candidate that takes it down takes nothing else with it; and closes it. */
void tuff__tuner_open_bench(tuner *self);
void tuff__tuner_close_bench(tuner *self);
/* Takes over the array and its programs, NULL among them, so that candidates on the bench find them compiled. */
void tuff__tuner_keep_programs(tuner *self, program **programs, int count);
/* A compilation took so long: how long later ones may take follows from that. */
void tuff__tuner_note_compile(tuner *self, uint64_t nanoseconds);
/* Sets how long the next compilation of the subject may take: longer where its default took long, and while there is
   time for it. */
void tuff__tuner_limit_compile(subject *of);
/* At most so long; tests put a shorter time here. */
extern uint64_t tuff__compile_patience;
/* Whether anything may be measured: not after a candidate took the device down in this process, nor where candidates
   did so twice within a day. Says why not, once. */
bool tuff__tuner_may_measure(const tuner *self);
/* Makes this the process that measures on the device's silicon: on a CPU its drivers would disturb each other. Where
   another process is that, waits with TUFF_TUNE_WAIT=1 (*waited: what that one found is yet to be looked up); else
   returns false at once. True too where there are no locks to be had. The lock ends with tuff__file_unlock. */
bool tuff__tuner_take_device(tuner *self, file_lock *out, bool *waited);
/* The same at once: false where another has it. */
bool tuff__tuner_try_device(const tuner *self, file_lock *out);
/* Reads the stores once more, and what they know of the subjects. */
tuff_status tuff__tuner_look_again(tuner *self);
/* Nothing is measured any more in this process. */
void tuff__tuner_turn_off(void);

/* Behind measuring: compacts the store, and keeps the programs in the cache within their limit. */
void tuff__tuner_tidy(const tuner *self);

/* The keys of the plan's tasks: subjects with their defaults, nothing looked up. */
tuff_status tuff__tuner_find(tuner *self);
/* Opens the stores; what was opened is closed by tuff__tuner_end. */
tuff_status tuff__tuner_open_stores(tuner *self);
/* Whether nothing at all is remembered of the device; whether this tuner is to measure; damaged lines of the stores. */
bool tuff__tuner_knows_nothing(const tuner *self);
bool tuff__tuner_is_measuring(const tuner *self);
uint64_t tuff__tuner_count_damaged(const tuner *self);
/* Opens the stores, finds the keys, and what is remembered of them. */
tuff_status tuff__tuner_look_up(tuner *self);
/* The same with stores that are open, and with what other drivers found where something is missing. */
tuff_status tuff__tuner_look_up_widely(tuner *self);
void tuff__tuner_end(tuner *self);
/* Asks what is remembered of one subject, of all; forgets them. */
tuff_status tuff__tuner_ask(tuner *self, subject *of);
tuff_status tuff__tuner_ask_all(tuner *self);
void tuff__tuner_forget(tuner *self);

/* What was chosen, by task; NULL where that is the default. any: whether something else is. The caller frees *out,
   after a failure too. */
tuff_status tuff__tuner_choices(const tuner *self, const choice ***out, bool *any);
/* What the keys are, and what they run with. */
tuff_status tuff__tuner_list_keys(const tuner *self, plan_keys *out);
/* All tasks have their defaults again. */
void tuff__tuner_forget_choices(tuner *self);
/* The driver refuses what a task was to run with: it gets the next best that is remembered, or its default. False where
   it had that already, or by a manifest no other. */
bool tuff__tuner_give_up(tuner *self, int task, tuff_status why);
/* Only host memory can be lacking. */
tuff_status tuff__tuner_open_journal(tuner *self);
/* Measures the subjects that want it, within the budget. */
tuff_status tuff__tuner_measure(tuner *self);
/* The same in parts: what measuring needs, a bench among it if one can be had; one subject, to its end; and away with
   that. Status as of tuff__search_step. */
tuff_status tuff__tuner_open(tuner *self);
tuff_status tuff__tuner_measure_one(subject *of, uint64_t budget);
/* All that want it; begin and budget are set. */
tuff_status tuff__tuner_measure_all(tuner *self);
void tuff__tuner_close(tuner *self);
/* Calls the progress callback while a candidate of the subject takes long; false: it said to stop. */
bool tuff__tuner_shows_progress(subject *of);
/* The log of candidates (tuner_log.c): opened where the options name one; what cannot be written
   is a warning. */
void tuff__tuner_log_open(tuner *self);
void tuff__tuner_log_close(tuner *self);
void tuff__tuner_log_add(const subject *of, const choice *what, verdict found, uint64_t nanoseconds, int samples);
/* Between judges. What a failure says about a candidate; bytes that more of them may take; whether an earlier run
   rejected one; to tell the journal what comes, so that a process that starts after a crash knows whom to blame, and
   that it is over. */
verdict tuff__judge_verdict(tuner *of, tuff_status status);
uint64_t tuff__judge_room(const tuner *of);
bool tuff__judge_bars(const subject *of, const choice *what);
tuff_status tuff__judge_announce(const subject *of, const contender *who, journal_phase phase, bool durable);
void tuff__judge_leave(const tuner *of);
/* The judge of a subject's candidates. */
judge tuff__judge_of(subject *of);
/* What the host says of a candidate that was compiled, whatever was kept as right: it is then. */
verdict tuff__judge_alone(subject *of, const contender *who);
/* Candidates in place of a default, from less to more careful: an item to itself, without local memory; with short
   vectors; a GPU's kernels. NULL ends them. */
extern const char *const tuff__fallbacks[];
/* Where the default's results are wrong: takes what is right instead, if anything is, and remembers it. */
void tuff__tuner_take_safer(subject *of);
/* Where nothing is known but that the default is not to be run: chooses what is next. */
void tuff__tuner_avoid_default(subject *of);
/* What is written down (tuner_records.c). reject: as search_settings.rejected. */
void tuff__tuner_reject(void *user, const choice *what, verdict why);
/* Counts and tells the same of a candidate that another search may try. */
void tuff__tuner_leave_out(subject *of, verdict why);
void tuff__tuner_remember(subject *of, const search_result *found);
/* Writes what leads a search that goes on as where a later one begins, where that is other than when it was asked last:
   whoever stops or kills this one loses no more than it had in hand. */
void tuff__tuner_note_leader(subject *of);
/* That more time found nothing that is sure. */
void tuff__tuner_remember_again(const subject *of);
/* Adds what counts work done. */
void tuff__tune_stats_add(tuff_tune_stats *to, const tuff_tune_stats *more);
/* Frees what its trials held. */
void tuff__judge_clear(subject *of);

#endif
