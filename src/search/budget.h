/* How the tuning time of a graph is shared among its keys: each slice goes to the key that promises the largest gain
   (Zheng et al. 2020, Ansor, section 6). The promise is proportional to the key's share of the graph's time: the
   measured share once its default was timed, the caller's estimate before that. If time is short, the heavy keys
   therefore get their candidates, and light ones may get none. Reads no clock: the caller reports the nanoseconds
   spent. */
#ifndef TUFF_SEARCH_BUDGET_H
#define TUFF_SEARCH_BUDGET_H

#include "base/status.h"

typedef struct tune_budget tune_budget;

/* whole: wall-clock time for everything. */
tuff_status tuff__budget_create(uint64_t whole, int keys, tune_budget **out);
void tuff__budget_destroy(tune_budget *self); /* NULL is allowed */

/* Sets the share of the graph's time that a key is expected to take, in any unit that is the same for all keys, such as
   bytes moved; measured keys convert it to time. A key without an expectation gets no slice before it is weighed. */
void tuff__budget_expect(tune_budget *self, int key, double weight);
/* Call this after the default of a key was timed. calls: how often the graph runs it. */
void tuff__budget_weigh(tune_budget *self, int key, uint64_t calls, uint64_t default_nanoseconds);
/* Whether a key takes less than 0.5 % of the graph's time; such a key gets one candidate of the portfolio and no climb.
   Counts keys that are weighed or expected: without expectations, weigh all keys first. */
bool tuff__budget_is_minor(const tune_budget *self, int key);

/* Call this after a slice was spent on a key. candidates: those compiled for it so far; best_nanoseconds: its current
   time; ended: its search is over; elapsed: time since the start of everything. */
void tuff__budget_note_slice(tune_budget *self, int key, uint64_t elapsed, int candidates, uint64_t best_nanoseconds,
                             bool ended);
/* Returns the key for the next slice: of the weighed keys that are neither minor nor ended, the one with the largest
   weight x (0.2 recent gain + 0.8 best / candidates). A key that is only expected counts as 0.8 x its expected weight;
   if it is returned, time its default, and if that fails, end it with tuff__budget_note_slice. -1: there is no key, or
   only the time for the races is left. */
int tuff__budget_next(const tune_budget *self);

/* Returns when the races should begin, counted from the start: early enough for all weighed keys that have not been
   raced, but not before half of the time is spent. */
uint64_t tuff__budget_race_begin(const tune_budget *self);
/* Call this after a key's race, with the time it took, which updates the estimate for others. The key gets no more
   slices. */
void tuff__budget_note_race(tune_budget *self, int key, uint64_t elapsed, uint64_t nanoseconds);
/* Returns the heaviest weighed key that has not been raced; -1: none. */
int tuff__budget_next_race(const tune_budget *self);

#endif
