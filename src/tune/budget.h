/* How a graph's tuning time is shared among its keys: each gets its default timed first, then the portfolio; what is
   left goes, slice by slice, to the key that promises most (Zheng and others 2020, Ansor, section 6). It reads no
   clock: the caller says what was spent. Times are nanoseconds. */
#ifndef TUFF_TUNE_BUDGET_H
#define TUFF_TUNE_BUDGET_H

#include "base/status.h"

typedef struct tune_budget tune_budget;

/* whole: wall clock for everything. */
tuff_status tuff__budget_create(uint64_t whole, int keys, tune_budget **out);
void tuff__budget_destroy(tune_budget *self); /* NULL is allowed */

/* After the default of a key was timed; calls: how often the graph runs it. */
void tuff__budget_weigh(tune_budget *self, int key, uint64_t calls, uint64_t default_nanoseconds);
/* Whether a key is less than 0.5 % of the graph's time: it gets one candidate of the portfolio and no climb. By the
   keys weighed so far, so weigh all of them before asking. */
bool tuff__budget_is_minor(const tune_budget *self, int key);

/* A slice was spent on a key. candidates: compiled for it until now; best_nanoseconds: its time now; ended: its search
   is over; elapsed: since the start of everything. */
void tuff__budget_spend(tune_budget *self, int key, uint64_t elapsed, int candidates, uint64_t best_nanoseconds,
                        bool ended);
/* The key for the next slice, of those that are weighed, not minor and not ended: the one with the largest
   weight x (0.2 recent gain + 0.8 best / candidates). -1 where there is none, or only time for the races is left. */
int tuff__budget_next(const tune_budget *self);

/* When races are to begin, since the start of everything: early enough for those of all weighed keys that were not
   raced, but not before half of the time. */
uint64_t tuff__budget_search_end(const tune_budget *self);
/* A key was raced in so much time: the estimate for the others learns from it. It gets no more slices. */
void tuff__budget_raced(tune_budget *self, int key, uint64_t elapsed, uint64_t nanoseconds);
/* The weighed key with the largest weight that was not raced: of what time is left, it needs it most. -1: none. */
int tuff__budget_next_race(const tune_budget *self);

#endif
