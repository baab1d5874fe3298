/* A recording as a judge. */
#include "bench/recorder/replay.h"

static verdict lower(void *state, const tune_config *candidate, candidate_info *out)
{
    replay *self = state;
    self->calls++;
    const tune_config reduced = recording_reduce(self->from, candidate);
    const recorded_point *found = recording_find(self->from, &reduced);
    self->asked++;
    self->unrecorded += !found;
    if (!found || found->found == VERDICT_INVALID) {
        (void)FAIL(TUFF_E_USAGE, "replay: not recorded");
        return VERDICT_INVALID;
    }
    *out = (candidate_info){found->program, found->group_items, self->from->usual, found->cost};
    return VERDICT_GOOD;
}

static verdict broken(replay *self)
{
    self->broken++;
    (void)FAIL(TUFF_E_USAGE, "replay: a call out of order");
    return VERDICT_FAILED;
}

static verdict compile(void *state, const search_candidate *who)
{
    replay *self = state;
    self->calls++;
    const recorded_point *found = recording_find(self->from, &who->config);
    if (!found || who->slot < 0 || who->slot >= SEARCH_SLOTS || self->slots[who->slot].point)
        return broken(self);
    if (found->found == VERDICT_LIMITS || found->found == VERDICT_COMPILE) {
        (void)FAIL(TUFF_E_COMPILE, "replay: it did not compile");
        return found->found;
    }
    self->slots[who->slot].point = found;
    self->slots[who->slot].taken = 0;
    return VERDICT_GOOD;
}

/* NULL where the candidate is not the one in its slot. */
static const recorded_point *find_live(const replay *self, const search_candidate *who)
{
    const recorded_point *found = who->slot < 0 ? NULL : self->slots[who->slot].point;
    return found && found->program == who->program ? found : NULL;
}

static verdict sample(void *state, const search_candidate *who, int count, uint64_t limit, uint64_t *nanoseconds)
{
    (void)limit;
    replay *self = state;
    self->calls++;
    const recorded_point *point = find_live(self, who);
    if (!point)
        return broken(self);
    if (point->found != VERDICT_GOOD) {
        (void)FAIL(TUFF_E_USAGE, "replay: %s", tuff__verdict_text(point->found));
        return point->found;
    }
    for (int i = 0; i < count; i++) {
        const bool is_first = self->slots[who->slot].taken++ == 0 || point->count < 2;
        nanoseconds[i] = point->nanoseconds[is_first ? 0 : 1 + tuff__rng_below(&self->random, point->count - 1)];
    }
    return VERDICT_GOOD;
}

static verdict verify(void *state, const search_candidate *who, bool thorough)
{
    (void)thorough;
    replay *self = state;
    self->calls++;
    return find_live(self, who) ? VERDICT_GOOD : broken(self);
}

static void release(void *state, const search_candidate *who)
{
    replay *self = state;
    if (!find_live(self, who))
        self->broken++;
    else
        self->slots[who->slot].point = NULL;
}

static bool draw(void *state, rng *from, tune_config *out)
{
    const replay *self = state;
    int left = tuff__rng_below(from, self->drawn);
    for (int i = 0; i < self->from->count; i++)
        if (self->from->points[i].drawn && left-- == 0)
            *out = self->from->points[i].what;
    return true;
}

static bool is_over(void *state)
{
    const replay *self = state;
    return self->calls_most && self->calls >= self->calls_most;
}

evaluator replay_begin(replay *self, const recording *from, uint64_t seed)
{
    *self = (replay){.from = from, .random = {seed}};
    for (int i = 0; i < from->count; i++)
        self->drawn += from->points[i].drawn;
    return (evaluator){.state = self,
                       .lower = lower,
                       .compile = compile,
                       .sample = sample,
                       .verify = verify,
                       .release = release,
                       .draw = self->drawn ? draw : NULL,
                       .is_over = is_over};
}

int replay_live(const replay *self)
{
    int count = 0;
    for (int i = 0; i < SEARCH_SLOTS; i++)
        count += self->slots[i].point != NULL;
    return count;
}
