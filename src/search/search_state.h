/* The state of a search, shared by its files: search.c runs the steps (compile, time and verify a candidate; stop when
   due), search_picks.c chooses the next candidate, search_race.c decides between the best ones at the end. */
#ifndef TUFF_SEARCH_SEARCH_STATE_H
#define TUFF_SEARCH_SEARCH_STATE_H

#include "base/alloc.h"
#include "search/search.h"

enum { FULL_SAMPLES = 8 };

/* The origin of a candidate, which decides between equally fast ones: the lower rank wins. */
enum { RANK_CACHED, RANK_DEFAULT, RANK_PORTFOLIO, RANK_FOUND = 1 << 20 };

/* A candidate that was picked, whether it was tried or still waits for that. */
typedef struct candidate {
    search_candidate handle; /* its slot is -1 while it is neither announced nor compiled */
    uint64_t nanoseconds;    /* the median, scaled to the clocks at the beginning */
    int samples;             /* fewer than FULL_SAMPLES: it was cut as too slow */
    int rank;
    int listed, move; /* its index in the list, and the single move that led to it; -1: none */
    uint64_t hash;    /* of the configuration before trimming */
    double cost;      /* candidate_info.cost */
    uint64_t spilled; /* as reported when it was last compiled */
    bool compiled, verified, rejected;
    bool is_deferred, had_turn; /* deferred because it spills; its turn has come */
} candidate;

/* A configuration that was lowered, and its program; 0: lowering failed. */
typedef struct seen_config {
    uint64_t hash, program;
} seen_config;

/* One or two moves of tuff__space_move(); second is -1 if there is only one. */
typedef struct step {
    short first, second;
} step;

/* The untried moves from a centre, in random order, single ones first. */
typedef struct frontier {
    int centre; /* a candidate, -1: none */
    step *steps;
    int next, singles, count, capacity;
} frontier;

enum { FRONTIERS = 2 };

struct search {
    evaluator evaluator;
    search_settings settings;
    tune_config *listed; /* default, cached, seeds, portfolio */
    int *ranks;
    int listed_count, next_listed;
    rng random;
    tune_space space;
    seen_config *seen;
    int seen_count, seen_capacity;
    uint64_t enumerated;   /* points of a small space enumerated so far */
    candidate *candidates; /* the first is the default; those from `tried` on wait */
    int candidate_count, candidate_capacity;
    bool is_exhausted;       /* nothing is left to pick */
    int slots[SEARCH_SLOTS]; /* candidates, -1: free */
    int best;                /* a candidate, -1: none yet */
    frontier frontiers[FRONTIERS];
    int turn;                /* counts picks of neighbours */
    int last_move;           /* the single move that led to the best one; -1: none */
    double drift;            /* the default's current time relative to its first: 1.1 is 10 % slower */
    int since_drift;         /* candidates since the drift was measured */
    uint64_t gain_reference; /* nanoseconds of the best when it last became 1 % better */
    int tried, since_gain, near_roofline;
    int compiled_again; /* deferred candidates whose turn came */
    search_stop end;
    tune_evaluation result; /* the last evaluation on the current candidate that was not GOOD */
    tuff_status status;
    search_counts counts;
};

/* Whether the search has ended; queries is_over. */
bool tuff__search_is_over(search *self);
/* Whether the search goes on; queries the progress callback. */
bool tuff__search_goes_on(search *self);
/* Counts and reports an evaluation, and ends the search if necessary. Returns whether the evaluation is GOOD. */
bool tuff__search_accept(search *self, const tune_config *config, tune_evaluation result);
/* Ends the search as SEARCH_FAILED. */
void tuff__search_fail(search *self, tuff_status status);

/* Picks and lowers the next untried candidate. Returns false if there is none or the search has ended. */
bool tuff__search_pick(search *self, candidate *out);

/* Compiles a candidate, into a slot of its own, unless that was done. */
bool tuff__search_compile(search *self, candidate *one);
bool tuff__search_verify(search *self, candidate *one, bool thorough);
/* Takes samples, unscaled, that are plausible. Returns false if the candidate was rejected or the search ended. */
bool tuff__search_sample(search *self, candidate *one, int count, uint64_t limit, uint64_t *times);
/* Returns the fastest candidate with a full number of samples that was not rejected, except `without`; -1: none. */
int tuff__search_fastest(const search *self, int without);

#endif
