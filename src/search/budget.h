/* How a graph's tuning time is shared among its keys: it goes, slice by slice, to the key that promises most (Zheng and
   others 2020, Ansor, section 6). Promise is in proportion to a key's part of the graph's time: as measured, once its
   default was timed; as the caller expects it, before. So the heavy keys of a graph have had their candidates when a
   short time ends before the light ones were even met. It reads no clock: the caller says what was spent. Times are
   nanoseconds. */
#ifndef TUFF_SEARCH_BUDGET_H
#define TUFF_SEARCH_BUDGET_H

#include "base/status.h"

typedef struct tune_budget tune_budget;

/* whole: wall clock for everything. */
tuff_status tuff__budget_create(uint64_t whole, int keys, tune_budget **out);
void tuff__budget_destroy(tune_budget *self); /* NULL is allowed */

/* How much of the graph's time a key is expected to take, in a unit that is the same for all keys, such as bytes moved;
   what was measured of other keys says what a unit is worth. Keys without an expectation get no slice before they are
   weighed. */
void tuff__budget_expect(tune_budget *self, int key, double weight);
/* After the default of a key was timed; calls: how often the graph runs it. */
void tuff__budget_weigh(tune_budget *self, int key, uint64_t calls, uint64_t default_nanoseconds);
/* Whether a key is less than 0.5 % of the graph's time: it gets one candidate of the portfolio and no climb. By the
   keys that are weighed or expected: without expectations, weigh all of them before asking. */
bool tuff__budget_is_minor(const tune_budget *self, int key);

/* A slice was spent on a key. candidates: compiled for it until now; best_nanoseconds: its time now; ended: its search
   is over; elapsed: since the start of everything. */
void tuff__budget_spend(tune_budget *self, int key, uint64_t elapsed, int candidates, uint64_t best_nanoseconds,
                        bool ended);
/* The key for the next slice, of those that are not ended: the one with the largest
   weight x (0.2 recent gain + 0.8 best / candidates), of those that are weighed and not minor; or one that is only
   expected, by 0.8 x its expected weight: its default is to be timed. Where that fails, end it with
   tuff__budget_spend. -1 where there is none, or only time for the races is left. */
int tuff__budget_next(const tune_budget *self);

/* When races are to begin, since the start of everything: early enough for those of all weighed keys that were not
   raced, but not before half of the time. */
uint64_t tuff__budget_search_end(const tune_budget *self);
/* A key was raced in so much time: the estimate for the others learns from it. It gets no more slices. */
void tuff__budget_raced(tune_budget *self, int key, uint64_t elapsed, uint64_t nanoseconds);
/* The weighed key with the largest weight that was not raced: of what time is left, it needs it most. -1: none. */
int tuff__budget_next_race(const tune_budget *self);

#endif
