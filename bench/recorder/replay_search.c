/* Replays a search on recorded times, from the candidates that a lookup would return without this recording's device.
   */
#include "bench/recorder/replay_search.h"

#include <string.h>

#include "bench/recorder/replay.h"

static const tune_config defaults;

const recorded_point *recording_ranked(const recording *space, int rank)
{
    const recorded_point *best = NULL;
    for (int k = 0; k <= rank; k++) {
        const recorded_point *next = NULL;
        for (int i = 0; i < space->count; i++) {
            const recorded_point *one = &space->points[i];
            const bool is_behind = !best || one->median > best->median || (one->median == best->median && one > best);
            if (one->median > 0 && is_behind && one != best && (!next || one->median < next->median))
                next = one;
        }
        if (next == NULL)
            return NULL;
        best = next;
    }
    return best;
}

/* Skips winners that are the default: it needs no seed. */
static void add_seeds(const recordings *all, int index, replay_start *out)
{
    for (int i = 0; i < all->count && out->seed_count < REPLAY_SEEDS; i++) {
        const recorded_point *best = recording_ranked(&all->items[i], 0);
        if (i != index && strcmp(all->items[i].name, all->items[index].name) == 0 && best != NULL &&
            tuff__config_count(&best->config) > 0)
            out->seeds[out->seed_count++] = best->config;
    }
}

tuff_status replay_start_without(const recordings *all, int index, replay_start *out)
{
    char family[32], class[32];
    const recording *space = &all->items[index];
    *out = (replay_start){.seed_count = 0};
    add_seeds(all, index, out);
    recording_family(space, family, sizeof family);
    recording_class(space, class, sizeof class);
    const int count = portfolio_make(all, family, class, space->device, out->portfolio);
    if (count < 0)
        return TUFF_E_OOM_HOST;
    /* As many as a lookup returns. */
    out->portfolio_count = count < REPLAY_SEEDS - out->seed_count ? count : REPLAY_SEEDS - out->seed_count;
    return TUFF_OK;
}

static tuff_status search_once(const recording *space, const replay_start *start, int compiles, uint64_t seed,
                               replay_counts *counts, search_result *found)
{
    replay device;
    search *self = NULL;
    const evaluator evaluator_used = replay_begin(&device, space, seed + 1);
    const search_settings settings = {.portfolio = start->portfolio,
                                      .portfolio_count = start->portfolio_count,
                                      .seeds = start->seeds,
                                      .seed_count = start->seed_count,
                                      .max_compiles = compiles,
                                      .patience = -1,
                                      .seed = seed};
    TRY(tuff__search_begin(&evaluator_used, &settings, &self));
    tuff_status status = tuff__search_step(self, compiles);
    if (status == TUFF_OK)
        status = tuff__search_finish(self, found);
    tuff__search_end(self);
    counts->lowered += device.lowered;
    counts->unrecorded += device.unrecorded;
    counts->broken += device.broken + replay_live_count(&device);
    return status;
}

tuff_status replay_search(const recording *space, const replay_start *start, int compiles, int runs,
                          replay_counts *counts, double *share)
{
    const recorded_point *unchanged = recording_find(space, &defaults);
    double sum = 0;
    if (unchanged == NULL || unchanged->median == 0)
        return FAIL(TUFF_E_FORMAT, "%s on %s: the recording has no times of the default", space->name, space->device);
    for (int run = 0; run < runs; run++) {
        search_result found;
        TRY(search_once(space, start, compiles, (uint64_t)run, counts, &found));
        const double median = (double)recording_find(space, &found.winner)->median;
        counts->runs++;
        counts->slower += median > 1.01 * (double)unchanged->median;
        sum += (double)recording_best(space) / median;
    }
    *share = sum / runs;
    return TUFF_OK;
}
