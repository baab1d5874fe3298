/* Candidates that spill: the driver found no registers for all that a work-item has, and keeps the rest in memory. As a
   rule that is slow, but not always: such a candidate is put aside, and has its turn when nothing better is left to
   try. It keeps nothing meanwhile but its place among the trials: the driver's cache and ours make its second
   compilation a cheap one. */
#include <inttypes.h>

#include "search/search_state.h"

/* Bytes of a work-item, 64 registers: a quarter of the 255 or 256 that a GPU gives it at most. So little beside none is
   a matter of a few instructions, which caches serve, and no reason to leave a candidate out. */
#define HARMLESS UINT64_C(256)
/* A candidate that spills more than so many times what others do is left out. */
enum { TIMES_OTHERS = 2 };

/* What was remembered won already. The default needs no word: when it is tried, there are no others. */
static bool is_exempt(const trial *of)
{
    return of->rank == RANK_CACHED;
}

/* The most that any spills of those whose times were worth taking to the end; *any: whether there is one beside the
   default, which alone says little about what others need. */
static uint64_t most_of_others(const search *self, bool *any)
{
    uint64_t most = 0;
    *any = false;
    for (int i = 0; i < self->trial_count; i++) {
        const trial *one = &self->trials[i];
        if (one->rejected || one->samples < FULL_SAMPLES)
            continue;
        *any = *any || i > 0;
        most = one->spilled > most ? one->spilled : most;
    }
    return most;
}

bool tuff__search_bears_spills(search *self, trial *of)
{
    bool any;
    if (of->spilled <= HARMLESS || is_exempt(of))
        return true;
    const uint64_t others = most_of_others(self, &any);
    if (!any || of->spilled <= TIMES_OTHERS * others)
        return true;
    (void)FAIL(TUFF_E_LIMIT,
               "tune: %" PRIu64 " bytes of a work-item's registers lie in memory, where others do with %" PRIu64,
               of->spilled, others);
    (void)tuff__search_accept(self, &of->who.config, VERDICT_SPILLS);
    of->rejected = true;
    tuff__search_release(self, of);
    return false;
}

bool tuff__search_put_aside(search *self, trial *of)
{
    if (self->best < 0 || of->had_turn || is_exempt(of) || of->spilled <= self->trials[self->best].spilled)
        return false;
    self->counts.demoted++;
    of->is_aside = true;
    tuff__search_release(self, of);
    return true;
}

int tuff__search_next_aside(const search *self)
{
    int least = -1;
    for (int i = 0; i < self->tried; i++) {
        const trial *one = &self->trials[i];
        if (one->is_aside && (least < 0 || one->spilled < self->trials[least].spilled))
            least = i;
    }
    return least;
}

void tuff__search_take_turn(search *self, int index)
{
    self->trials[index].is_aside = false;
    self->trials[index].had_turn = true;
}
