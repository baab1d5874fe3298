/* The search for the best configuration of one key. It tries the default, the winner of an earlier run, seeds and the
   portfolio; then it climbs: neighbours of the best candidates, mixed with random points. Finally the best candidates
   race against the default. It knows no device: an evaluator lowers, compiles, times and verifies candidates, and may
   just as well be a table of recorded times.

   A search is stepped: a few candidates of one key, then some of another (search/budget.h decides). The result so far
   can be used at any time, whatever failed. Only one thread may use a search at a time. search_state.h says what each
   file does. */
#ifndef TUFF_SEARCH_SEARCH_H
#define TUFF_SEARCH_SEARCH_H

#include "search/space.h"

/* How a candidate was evaluated. Records contain these texts. */
#define EVALUATION_MAP(X)                                                      \
    X(GOOD, "good")                                                            \
    X(INVALID, "invalid")   /* lower: it cannot be lowered */                  \
    X(REJECTED, "rejected") /* lower: it was rejected in an earlier run */     \
    X(LIMITS, "limits")     /* it needs more than the device has */            \
    X(NO_MEMORY, "room")    /* no memory for it now; no fault of its own */    \
    X(COMPILE, "compile")   /* the driver refused it */                        \
    X(WRONG, "wrong")       /* wrong results, or writes outside its buffers */ \
    X(RACE, "race")         /* its results differ from run to run */           \
    X(SPILLS, "spills")     /* spills registers that others do not */          \
    X(SLOW, "slow")         /* too slow to be worth timing in full */          \
    X(TIMER, "timer")       /* its measured time is not credible */            \
    X(CRASH, "crash")       /* a worker process ended */                       \
    X(HANG, "hang")         /* it did not end by the deadline */               \
    X(LOST, "lost")         /* the device is gone: the search ends */          \
    X(FAILED, "failed")     /* the evaluator failed, through no fault of the candidate: the search ends */

typedef enum tune_evaluation {
#define X(name, text) EVALUATION_##name,
    EVALUATION_MAP(X)
#undef X
        EVALUATION_COUNT
} tune_evaluation;
const char *tuff__evaluation_text(tune_evaluation reason);

/* What is known about a candidate after lowering, without compiling. */
typedef struct candidate_info {
    uint64_t program;      /* equal for equal programs; only the first of them is compiled */
    uint32_t group_items;  /* work-items of a group; among equally fast candidates the fewest win */
    tune_config used_tunables; /* the tunables that lowering read, with their default values */
    double cost;           /* an estimate for ordering candidates of one task on one device; 0: unknown */
} candidate_info;

enum { SEARCH_SLOTS = 16, SEARCH_PREFETCH = 6 };

/* A candidate as the evaluator sees it. */
typedef struct search_candidate {
    tune_config config;
    uint64_t program;
    uint32_t group_items;
    int slot; /* 0 to SEARCH_SLOTS - 1, exclusive from expect or compile to release; the evaluator's place for its
                 run */
} search_candidate;

/* All calls come from the thread that steps the search. If an evaluation is not GOOD, tuff_error() says why. After HANG
   and CRASH the search continues unless is_over returns true. */
typedef struct evaluator {
    void *state;
    /* Lowers a configuration. The result is kept until compile, as long as there is room. */
    tune_evaluation (*lower)(void *state, const tune_config *config, candidate_info *out);
    /* May be NULL. A configuration that was lowered will probably not be tried, so its result need not be kept. */
    void (*forget)(void *state, const tune_config *config);
    /* The compiled candidate is kept until release; after a failure there is no release. */
    tune_evaluation (*compile)(void *state, const search_candidate *candidate);
    /* May be NULL. Returns the bytes of registers that a work-item spills to memory; 0: none, or unknown. Candidates
       that spill are not run if one that does not was timed. If the default spills too, those that spill more than the
       best are tried last, those that spill far more than all others not at all. */
    uint64_t (*spilled)(void *state, const search_candidate *candidate);
    /* May be NULL. Announces a candidate that will soon be compiled in its slot, so that another thread may start on
       it. compile or release follows. */
    void (*expect)(void *state, const search_candidate *candidate);
    /* Measures count runs. If limit is not 0, a run that takes longer may be given up; the evaluation is then SLOW. */
    tune_evaluation (*sample)(void *state, const search_candidate *candidate, int count, uint64_t limit,
                              uint64_t *nanoseconds);
    /* Compares the candidate's results with the default's, and the default's with the host's. thorough: with other
       extents too; done once, for the winner. */
    tune_evaluation (*verify)(void *state, const search_candidate *candidate, bool thorough);
    void (*release)(void *state, const search_candidate *candidate);
    /* Draws a random configuration; false: there is none. For evaluators that know only some points; if NULL, a point
       of the space is drawn. */
    bool (*draw)(void *state, rng *from, tune_config *out);
    /* Whether to stop at once: out of time, interrupted, or the device is lost. Called between all other calls. */
    bool (*is_over)(void *state);
} evaluator;

typedef struct search_counts {
    uint64_t lowered, duplicates; /* duplicates: lowered to a program that was tried before */
    uint64_t compiled, samples, verified;
    uint64_t deferred; /* tried later, because they spill: compiled again when their turn comes */
    uint64_t rejected[EVALUATION_COUNT];
    uint64_t races, discarded; /* discarded: because the clocks changed during the race */
} search_counts;

typedef enum search_stop {
    SEARCH_GOES_ON,
    SEARCH_EXHAUSTED, /* nothing is left to try */
    SEARCH_PATIENCE,  /* too many candidates without a gain */
    SEARCH_ROOFLINE,  /* as fast as the device allows */
    SEARCH_COMPILES,  /* the compilation limit was reached */
    SEARCH_STOPPED,   /* by is_over or the progress callback */
    SEARCH_UNUSABLE,  /* the default itself was rejected, so there is nothing to compare with */
    SEARCH_LOST,      /* the device was lost */
    SEARCH_FAILED     /* the evaluator failed, or memory ran out */
} search_stop;

typedef struct search_progress {
    search_stop end;
    const tune_config *best;      /* verified, or the default */
    uint64_t default_nanoseconds; /* 0: not timed yet */
    uint64_t best_nanoseconds;
    int tried;      /* candidates compiled, including the default; deferred ones count twice */
    int since_gain; /* candidates of the climb since the best improved by more than 1 % */
    search_counts counts;
} search_progress;

/* Zero is valid: no portfolio, no seeds, the default patience. */
typedef struct search_settings {
    const tune_config *portfolio, *seeds; /* read by tuff__search_begin only */
    int portfolio_count, seed_count;
    const tune_config *cached; /* the winner of an earlier run, or NULL; read by tuff__search_begin only */
    bool no_climb;             /* try listed candidates only */
    int prefetch;              /* candidates announced by expect beyond the current one, at most SEARCH_PREFETCH */
    int patience;      /* the climb ends after so many candidates in a row without a gain of 1 %; 0: 16, negative:
                          never */
    int max_compiles;  /* 0: any number */
    uint64_t roofline; /* nanoseconds that the device would need at its peak rate; 0: unknown */
    uint64_t seed;
    /* Called after every candidate and every round of a race; returning false stops. */
    bool (*progress)(void *user, const search_progress *now);
    /* Called for every candidate that was compiled, or failed to, before progress: its median time (0: none) and the
       number of samples. */
    void (*tried)(void *user, const tune_config *config, tune_evaluation result, uint64_t nanoseconds, int samples);
    /* Called for every candidate that must never be tried again; tuff_error() says why. */
    void (*rejected)(void *user, const tune_config *config, tune_evaluation why);
    void *user;
} search_settings;

enum { SEARCH_RUNNERS_UP = 3 };

typedef struct search_result {
    tune_config winner;      /* the default unless another one is significantly faster */
    uint64_t nanoseconds[3]; /* its quartiles in the race */
    int samples;
    uint64_t default_nanoseconds; /* in the same race */
    tune_config runners_up[SEARCH_RUNNERS_UP];
    uint64_t runner_up_nanoseconds[SEARCH_RUNNERS_UP];
    int runner_up_count;
    int timed;          /* candidates with a time, including those that were cut early */
    uint64_t spread[5]; /* of those times: minimum, quartiles, maximum */
    bool no_climb;      /* only listed candidates were tried */
    bool is_final;      /* the race was completed, and its outcome holds: worth caching. Else it is a safe guess */
    search_stop end;
    search_counts counts;
} search_result;

/* Returns the text for a record: "budget" if more time might find more, "patience", or "" if nothing is left to try. */
const char *tuff__search_end_text(const search_result *result);

typedef struct search search;

tuff_status tuff__search_begin(const evaluator *by, const search_settings *settings, search **out);
/* Compiles up to the given number of candidates, fewer if the search ends; does nothing after its end. Returns TUFF_OK
   unless the end is SEARCH_FAILED. */
tuff_status tuff__search_step(search *self, int compiles);
/* The same for all listed candidates: default, cached, seeds, portfolio. */
tuff_status tuff__search_prime(search *self);
/* Restricts the search to listed candidates, at most max_compiles in all: for keys that are not worth a climb. */
void tuff__search_narrow(search *self, int max_compiles);
search_progress tuff__search_progress(const search *self); /* .best is valid until the next call */
/* Returns the best candidate and its time, verified but not raced. False if the default is the best. */
bool tuff__search_leader(const search *self, search_result *out);
/* What a search knows about settings.cached. */
typedef enum cached_state { CACHED_UNTRIED, CACHED_FASTER, CACHED_REFUTED } cached_state;
/* Returns whether settings.cached is verified and faster than the default, by their times before any race. If it is,
   *out has it and its time. */
cached_state tuff__search_cached(const search *self, search_result *out);
/* Races the best candidates. May be called before the search has ended, and again after more steps. A search that was
   stopped is raced if is_over returns false again, for example because time was reserved for the race. *out is filled
   in even on failure; the status is as for tuff__search_step. */
tuff_status tuff__search_finish(search *self, search_result *out);
void tuff__search_end(search *self); /* releases what is compiled; NULL is allowed */

#endif
