/* How a graph's tuning time is shared among its keys: slice by slice, to the key that promises the largest gain (Zheng
   and others 2020, Ansor, section 6). The promise is in proportion to the key's share of the graph's time: the measured
   share once its default was timed, before that the caller's estimate. If time is short, the heavy keys therefore get
   their candidates, and light ones perhaps none. Reads no clock: the caller reports what was spent, in nanoseconds. */
#ifndef TUFF_SEARCH_BUDGET_H
#define TUFF_SEARCH_BUDGET_H

#include "base/status.h"

typedef struct tune_budget tune_budget;

/* whole: wall clock for everything. */
tuff_status tuff__budget_create(uint64_t whole, int keys, tune_budget **out);
void tuff__budget_destroy(tune_budget *self); /* NULL is allowed */

/* The share of the graph's time that a key is expected to take, in any unit that is the same for all keys, such as
   bytes moved; keys that were measured convert it to time. A key without an expectation gets no slice before it is
   weighed. */
void tuff__budget_expect(tune_budget *self, int key, double weight);
/* After the default of a key was timed; calls: how often the graph runs it. */
void tuff__budget_weigh(tune_budget *self, int key, uint64_t calls, uint64_t default_nanoseconds);
/* Whether a key takes less than 0.5 % of the graph's time, so that it gets one candidate of the portfolio and no climb.
   Counts keys that are weighed or expected: without expectations, weigh all keys first. */
bool tuff__budget_is_minor(const tune_budget *self, int key);

/* A slice was spent on a key. candidates: compiled for it until now; best_nanoseconds: its time now; ended: its search
   is over; elapsed: since the start of everything. */
void tuff__budget_spend(tune_budget *self, int key, uint64_t elapsed, int candidates, uint64_t best_nanoseconds,
                        bool ended);
/* The key for the next slice: of the weighed keys that are neither minor nor ended, the one with the largest weight x
   (0.2 recent gain + 0.8 best / candidates). A key that is only expected counts as 0.8 x its expected weight; if it is
   returned, time its default, and if that fails, end it with tuff__budget_spend. -1: there is none, or only the time
   for the races is left. */
int tuff__budget_next(const tune_budget *self);

/* When the races should begin, counted from the start: early enough for all weighed keys that were not raced yet, but
   not before half of the time is spent. */
uint64_t tuff__budget_search_end(const tune_budget *self);
/* A key's race took so much time, which updates the estimate for the other races. The key gets no more slices. */
void tuff__budget_raced(tune_budget *self, int key, uint64_t elapsed, uint64_t nanoseconds);
/* The heaviest weighed key that was not raced yet; -1: none. */
int tuff__budget_next_race(const tune_budget *self);

#endif
