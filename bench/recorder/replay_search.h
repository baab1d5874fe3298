/* Searches on recordings: the share of the best recorded speed that they reach. A search knows nothing of its own
   device: it begins with the candidates that a lookup would return from other devices. */
#ifndef TUFF_BENCH_RECORDER_REPLAY_SEARCH_H
#define TUFF_BENCH_RECORDER_REPLAY_SEARCH_H

#include "bench/recorder/portfolio.h"

enum { REPLAY_SEEDS = 8 };

/* The candidates that searches begin with. Zero-initialized: only the default. */
typedef struct replay_start {
    tune_config seeds[REPLAY_SEEDS], portfolio[PORTFOLIO_SIZE];
    int seed_count, portfolio_count;
} replay_start;

/* Counts over several calls of replay_search. */
typedef struct replay_counts {
    int64_t lowered, unrecorded; /* candidates lowered, and those of them that were not recorded */
    int64_t runs, slower;        /* searches, and those whose winner is slower than the default by more than 1 % */
    int64_t broken;              /* calls that break the evaluator's contract */
} replay_counts;

/* Returns the point with the given rank by median, 0 for the least; NULL if there are too few points. */
const recorded_point *recording_ranked(const recording *space, int rank);

/* Gets, for recording `index`, the winners of its task on other devices and the portfolio made without its device. */
tuff_status replay_start_without(const recordings *all, int index, replay_start *out);

/* Searches `runs` times, with different seeds and at most `compiles` candidates each. *share gets the mean of the best
   median divided by the winner's: 1 if every search finds the best. */
tuff_status replay_search(const recording *space, const replay_start *start, int compiles, int runs,
                          replay_counts *counts, double *share);

#endif
