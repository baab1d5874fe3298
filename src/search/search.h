/* The search for the best candidate of one key: the default, what an earlier run found, seeds, a portfolio, then hill
   climbing with random points in between; at the end a race of the best, default included. It knows no device: an evaluator
   lowers, compiles, times and verifies, and may as well be a table of recorded times.

   A search is stepped: a few candidates of one key, then of another, as search/budget.h says. What was found so far is
   usable at any time, whatever failed. One thread at a time uses a search. */
#ifndef TUFF_SEARCH_SEARCH_H
#define TUFF_SEARCH_SEARCH_H

#include "search/space.h"

/* What an evaluator says of a candidate. Texts are those of records. */
#define EVALUATION_MAP(X)                                                            \
    X(GOOD, "good")                                                                  \
    X(INVALID, "invalid") /* lower: no kernel can be made of it */                   \
    X(BARRED, "barred")   /* lower: it was rejected in an earlier run */             \
    X(LIMITS, "limits")   /* it needs more than the device has */                    \
    X(ROOM, "room")       /* memory for it is lacking now: says nothing of it */     \
    X(COMPILE, "compile") /* the driver refused it */                                \
    X(WRONG, "wrong")     /* its results are, or it wrote where it may not */        \
    X(RACE, "race")       /* its results differ from run to run */                   \
    X(SPILLS, "spills")   /* far more of its registers lie in memory than others' */ \
    X(SLOW, "slow")       /* so much slower than the best that timing it is waste */ \
    X(TIMER, "timer")     /* no time that can be believed */                         \
    X(CRASH, "crash")     /* a worker process ended */                               \
    X(HANG, "hang")       /* no end by the deadline */                               \
    X(LOST, "lost")       /* the device is gone: the search ends */                  \
    X(FAILED, "failed")   /* the evaluator could not, and says nothing of the candidate: the search ends */

typedef enum tune_evaluation {
#define X(name, text) EVALUATION_##name,
    EVALUATION_MAP(X)
#undef X
        EVALUATION_COUNT
} tune_evaluation;
const char *tuff__evaluation_text(tune_evaluation reason);

/* What lowering a candidate shows, without a compiler. */
typedef struct candidate_info {
    uint64_t program;      /* equal programs, equal numbers: only the first of them is compiled */
    uint32_t group_items;  /* of a work-group, all dimensions; of equals, the least wins */
    tune_config consulted; /* the tunables that were asked for, with the values they have by default */
    double cost;           /* the less, the sooner it is tried; of one task and device; 0: not known */
} candidate_info;

enum { SEARCH_SLOTS = 16, SEARCH_PREFETCH = 6 };

/* A candidate as the evaluator sees it. */
typedef struct search_candidate {
    tune_config config;
    uint64_t program;
    uint32_t group_items;
    int slot; /* 0 to SEARCH_SLOTS - 1, its own from expect or compile to release: the place of what was compiled */
} search_candidate;

/* All calls come from the thread that steps the search. An evaluation other than GOOD is explained by tuff_error(). After
   HANG and CRASH the search goes on, unless is_over says that the evaluator can not. */
typedef struct evaluator {
    void *state;
    /* What lowering makes is kept until compile, as long as there is room for it. */
    tune_evaluation (*lower)(void *state, const tune_config *config, candidate_info *out);
    /* May be NULL. What lower was asked for is not going to be tried, as far as is known: it need not be kept. */
    void (*forget)(void *state, const tune_config *config);
    /* What is compiled here is kept until release; where it fails there is no release. */
    tune_evaluation (*compile)(void *state, const search_candidate *candidate);
    /* May be NULL. Bytes of registers that a work-item of what was compiled keeps in memory; 0: none, or not known.
       What spills more than the best is tried last, what spills far more than all others not at all. */
    uint64_t (*spilled)(void *state, const search_candidate *candidate);
    /* May be NULL. Who will be compiled soon, in its slot: another thread may begin. compile follows, or release. */
    void (*expect)(void *state, const search_candidate *candidate);
    /* count times of one run each. limit, where not 0: beyond it a run need not be finished, SLOW will do. */
    tune_evaluation (*sample)(void *state, const search_candidate *candidate, int count, uint64_t limit,
                              uint64_t *nanoseconds);
    /* Compares results with the baseline's; of the default: those with the host's. thorough: other shapes too, once
       for the winner. */
    tune_evaluation (*verify)(void *state, const search_candidate *candidate, bool thorough);
    void (*release)(void *state, const search_candidate *candidate);
    /* May be NULL: then a point of the space. A random choice; false: there is none. For evaluators of few points. */
    bool (*draw)(void *state, rng *from, tune_config *out);
    /* Whether to stop at once: out of time, interrupted, or no longer able to. Asked between all other calls. */
    bool (*is_over)(void *state);
} evaluator;

typedef struct search_counts {
    uint64_t lowered, duplicates; /* duplicates: of a program that was tried */
    uint64_t compiled, samples, verified;
    uint64_t demoted; /* put aside because they spill; compiled once more when they had their turn */
    uint64_t rejected[EVALUATION_COUNT];
    uint64_t races, discarded; /* discarded: because clocks drifted meanwhile */
} search_counts;

typedef enum search_stage { SEARCH_DEFAULT, SEARCH_CACHED, SEARCH_SEEDS, SEARCH_PORTFOLIO, SEARCH_CLIMB } search_stage;

typedef enum search_end {
    SEARCH_GOES_ON,
    SEARCH_EXHAUSTED, /* nothing is left to try */
    SEARCH_PATIENCE,  /* too many candidates without a gain */
    SEARCH_ROOFLINE,  /* as fast as the device allows */
    SEARCH_COMPILES,  /* as many as were allowed */
    SEARCH_STOPPED,   /* is_over, or the progress callback */
    SEARCH_UNUSABLE,  /* the default itself is rejected: there is nothing to compare with */
    SEARCH_LOST,      /* the device */
    SEARCH_FAILED     /* the evaluator, or memory */
} search_end;

typedef struct search_progress {
    search_stage stage;
    search_end end;
    const tune_config *best;      /* verified, or the default */
    uint64_t default_nanoseconds; /* 0: not timed yet */
    uint64_t best_nanoseconds;
    int tried;      /* candidates compiled, default included; twice where they were put aside in between */
    int since_gain; /* of the climb's, since the best became better by more than 1 % */
    search_counts counts;
} search_progress;

/* Zero is valid: no portfolio, no seeds, the usual patience. */
typedef struct search_settings {
    const tune_config *portfolio, *seeds; /* borrowed by begin alone */
    int portfolio_count, seed_count;
    const tune_config *cached; /* the winner of an earlier run, or NULL; borrowed like those */
    bool no_climb;             /* only what is listed */
    int prefetch;              /* candidates that are expected beyond the one that is tried, at most SEARCH_PREFETCH */
    int patience;      /* candidates in a row without a gain of 1 % that end the climb; 0: 16, negative: any number */
    int most_compiles; /* 0: any number */
    uint64_t roofline; /* nanoseconds that the device would need at its peak; 0: not known */
    uint64_t seed;
    /* After every candidate and every round of a race; false stops. */
    bool (*progress)(void *user, const search_progress *now);
    /* For every candidate that was compiled, or would not: its median time, 0 where it has none, and of how many
       samples. Before progress. */
    void (*tried)(void *user, const tune_config *config, tune_evaluation found, uint64_t nanoseconds, int samples);
    /* For every candidate that is never to be tried again; tuff_error() says more. */
    void (*rejected)(void *user, const tune_config *config, tune_evaluation why);
    void *user;
} search_settings;

enum { SEARCH_RUNNERS_UP = 3 };

typedef struct search_result {
    tune_config winner;      /* the default where nothing is surely better */
    uint64_t nanoseconds[3]; /* its quartiles in the race */
    int samples;
    uint64_t default_nanoseconds; /* in the same race */
    tune_config runners_up[SEARCH_RUNNERS_UP];
    uint64_t runner_up_nanoseconds[SEARCH_RUNNERS_UP];
    int runner_up_count;
    int timed;          /* candidates that have a time, those that were left early among them */
    uint64_t spread[5]; /* of their times: least, quartiles, most */
    bool is_final;      /* raced to the end and steady: worth remembering. Else the best guess that is safe to use. */
    search_end end;
    search_counts counts;
} search_result;

/* As records say it: "budget" where more time might find more, "patience"; "" where nothing is left to try. */
const char *tuff__search_end_text(const search_result *result);

typedef struct search search;

tuff_status tuff__search_begin(const evaluator *by, const search_settings *settings, search **out);
/* Compiles up to so many candidates; fewer where the search ends. Once it has ended this does nothing. TUFF_OK unless
   the end is SEARCH_FAILED. */
tuff_status tuff__search_step(search *self, int compiles);
/* The same for all of the listed ones: default, cached, seeds, portfolio. */
tuff_status tuff__search_prime(search *self);
/* Nothing from now on but what is listed, up to so many candidates in all: for keys that a climb is too dear for. */
void tuff__search_narrow(search *self, int most_compiles);
search_progress tuff__search_progress(const search *self); /* .best is valid until the next call */
/* What leads the default, verified but not raced: winner and its time. False where the default leads. */
bool tuff__search_leader(const search *self, search_result *out);
/* Races the best. Also of a search that goes on, and again after more steps; of one that was stopped where is_over no
   longer says so, as when time was kept for the race. The result is filled whatever fails; a status is given like that
   of step. */
tuff_status tuff__search_finish(search *self, search_result *out);
void tuff__search_end(search *self); /* releases what is compiled; NULL is allowed */

#endif
