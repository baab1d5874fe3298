/* How a graph's tuning time is shared among its keys: each gets the default and the portfolio first; what is left goes,
   slice by slice, to the key that promises most. It reads no clock: the caller says what was spent. */
#ifndef TUFF_TUNE_BUDGET_H
#define TUFF_TUNE_BUDGET_H

#include "base/status.h"

typedef struct tune_budget tune_budget;

/* whole: nanoseconds of wall clock for everything. */
tuff_status tuff__budget_create(uint64_t whole, int keys, tune_budget **out);
void tuff__budget_destroy(tune_budget *self); /* NULL is allowed */

/* After the default of a key was timed; calls: how often the graph runs it. */
void tuff__budget_weigh(tune_budget *self, int key, uint64_t calls, uint64_t default_nanoseconds);
/* Whether a key is less than 0.5 % of the graph's time, by the keys weighed so far: it gets one candidate of the
   portfolio and no climb. */
bool tuff__budget_is_minor(const tune_budget *self, int key);

/* A slice was spent on a key: candidates compiled in all until now, its best time now, and whether its search ended.
   elapsed: since the start of everything. */
void tuff__budget_spend(tune_budget *self, int key, uint64_t elapsed, int candidates, uint64_t best_nanoseconds,
                        bool ended);
/* The key for the next slice: the largest weight x (0.2 recent gain + 0.8 best / candidates) of those that are weighed,
   not minor and not ended. -1 where there is none, or only the time for the races is left. */
int tuff__budget_next(const tune_budget *self);

/* When races have to begin, since the start of everything: what races of the unfinished keys are believed to take is
   left then. And when nothing may go on: whole. */
uint64_t tuff__budget_search_end(const tune_budget *self);
/* A key was raced, in so much time; later estimates know. */
void tuff__budget_raced(tune_budget *self, int key, uint64_t elapsed, uint64_t nanoseconds);

#endif
