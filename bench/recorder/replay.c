/* The evaluator that replays a recording. */
#include "bench/recorder/replay.h"

static tune_evaluation lower(void *state, const tune_config *candidate, candidate_info *out)
{
    replay *self = state;
    self->calls++;
    const tune_config reduced = recording_reduce(self->from, candidate);
    const recorded_point *found = recording_find(self->from, &reduced);
    self->lowered++;
    self->unrecorded += !found;
    if (!found || found->result == EVALUATION_INVALID) {
        (void)FAIL(TUFF_E_USAGE, "replay: the candidate was not recorded");
        return EVALUATION_INVALID;
    }
    *out = (candidate_info){found->program, found->group_items, self->from->defaults, found->cost};
    return EVALUATION_GOOD;
}

static tune_evaluation fail_contract(replay *self)
{
    self->broken++;
    (void)FAIL(TUFF_E_USAGE, "replay: calls in the wrong order");
    return EVALUATION_FAILED;
}

static tune_evaluation compile(void *state, const search_candidate *candidate)
{
    replay *self = state;
    self->calls++;
    const recorded_point *found = recording_find(self->from, &candidate->config);
    if (!found || candidate->slot < 0 || candidate->slot >= SEARCH_SLOTS || self->slots[candidate->slot].point)
        return fail_contract(self);
    if (found->result == EVALUATION_LIMITS || found->result == EVALUATION_COMPILE) {
        (void)FAIL(TUFF_E_COMPILE, "replay: the candidate did not compile when it was recorded");
        return found->result;
    }
    self->slots[candidate->slot].point = found;
    self->slots[candidate->slot].samples_taken = 0;
    return EVALUATION_GOOD;
}

/* Returns NULL if the slot holds another candidate. */
static const recorded_point *find_live(const replay *self, const search_candidate *candidate)
{
    const recorded_point *found = candidate->slot < 0 ? NULL : self->slots[candidate->slot].point;
    return found && found->program == candidate->program ? found : NULL;
}

static tune_evaluation sample(void *state, const search_candidate *candidate, int count, uint64_t limit,
                              uint64_t *nanoseconds)
{
    (void)limit;
    replay *self = state;
    self->calls++;
    const recorded_point *point = find_live(self, candidate);
    if (!point)
        return fail_contract(self);
    if (point->result != EVALUATION_GOOD) {
        (void)FAIL(TUFF_E_USAGE, "replay: %s", tuff__evaluation_text(point->result));
        return point->result;
    }
    for (int i = 0; i < count; i++) {
        const bool is_first = self->slots[candidate->slot].samples_taken++ == 0 || point->count < 2;
        nanoseconds[i] = point->nanoseconds[is_first ? 0 : 1 + tuff__rng_below(&self->random, point->count - 1)];
    }
    return EVALUATION_GOOD;
}

static tune_evaluation verify(void *state, const search_candidate *candidate, bool thorough)
{
    (void)thorough;
    replay *self = state;
    self->calls++;
    return find_live(self, candidate) ? EVALUATION_GOOD : fail_contract(self);
}

static void release(void *state, const search_candidate *candidate)
{
    replay *self = state;
    if (!find_live(self, candidate))
        self->broken++;
    else
        self->slots[candidate->slot].point = NULL;
}

static bool draw(void *state, rng *from, tune_config *out)
{
    const replay *self = state;
    int left = tuff__rng_below(from, self->drawn);
    for (int i = 0; i < self->from->count; i++)
        if (self->from->points[i].drawn && left-- == 0)
            *out = self->from->points[i].config;
    return true;
}

static bool is_over(void *state)
{
    const replay *self = state;
    return self->max_calls && self->calls >= self->max_calls;
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

int replay_live_count(const replay *self)
{
    int count = 0;
    for (int i = 0; i < SEARCH_SLOTS; i++)
        count += self->slots[i].point != NULL;
    return count;
}
