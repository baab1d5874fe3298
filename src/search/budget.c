/* The tuning time of a graph, shared among its keys: see budget.h for the rules. autotune/measure.c spends it. */
#include "search/budget.h"

#include <assert.h>

#include "base/alloc.h"

static const double minor_share = 0.005, recent_share = 0.2;
/* The ratio of a race's time to its estimate that is assumed until races were measured: if the clocks drift, a race
   may run twice. */
static const double default_error = 2.5;
/* Of a race: runs in all (of the winner, its rivals and the default); the same with one rival at most; nanoseconds of
   the shortest measured run, as shorter ones are repeated; nanoseconds of overhead. */
enum { RACE_RUNS = 180, MINOR_RACE_RUNS = 60, MIN_RUN = 200000, RACE_OVERHEAD = 20000000 };

typedef struct budget_key {
    double weight;   /* calls x the default's time */
    double expected; /* the caller's estimate of weight, in its own units; 0: none */
    uint64_t default_nanoseconds, best_nanoseconds;
    int candidates;
    double gain; /* of the latest slice, per candidate, as a fraction of the default's time */
    bool weighed, ended, raced;
} budget_key;

struct tune_budget {
    uint64_t whole, elapsed;
    int count;
    double raced, estimated; /* nanoseconds that races took, and were estimated to take */
    budget_key *keys;
};

tuff_status tuff__budget_create(uint64_t whole, int keys, tune_budget **out)
{
    *out = NULL;
    tune_budget *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return TUFF_E_OOM_HOST;
    *self = (tune_budget){.whole = whole, .count = keys};
    self->keys = tuff__calloc((size_t)keys + 1, sizeof *self->keys);
    if (!self->keys) {
        tuff__free(self);
        return TUFF_E_OOM_HOST;
    }
    *out = self;
    return TUFF_OK;
}

void tuff__budget_destroy(tune_budget *self)
{
    if (self)
        tuff__free(self->keys);
    tuff__free(self);
}

static budget_key *key_at(const tune_budget *self, int key)
{
    assert(key >= 0 && key < self->count);
    return &self->keys[key];
}

void tuff__budget_expect(tune_budget *self, int key, double weight)
{
    key_at(self, key)->expected = weight;
}

void tuff__budget_weigh(tune_budget *self, int key, uint64_t calls, uint64_t default_nanoseconds)
{
    budget_key *one = key_at(self, key);
    one->weight = (double)calls * (double)default_nanoseconds;
    one->default_nanoseconds = one->best_nanoseconds = default_nanoseconds;
    one->candidates = 1;
    one->weighed = true;
}

/* Returns the weight of one unit of expectation, from the keys for which both are known. */
static double unit_of(const tune_budget *self)
{
    double measured = 0, expected = 0;
    for (int i = 0; i < self->count; i++)
        if (self->keys[i].weighed && self->keys[i].expected > 0) {
            measured += self->keys[i].weight;
            expected += self->keys[i].expected;
        }
    return expected > 0 && measured > 0 ? measured / expected : 1;
}

/* A key that ended without a weight has a default that does not run. */
static double weight_of(const budget_key *key, double unit)
{
    return key->weighed ? key->weight : key->ended ? 0 : unit * key->expected;
}

static double least_weight(const tune_budget *self, double unit)
{
    double sum = 0;
    for (int i = 0; i < self->count; i++)
        sum += weight_of(&self->keys[i], unit);
    return minor_share * sum;
}

bool tuff__budget_is_minor(const tune_budget *self, int key)
{
    const double unit = unit_of(self);
    return weight_of(key_at(self, key), unit) < least_weight(self, unit);
}

void tuff__budget_note_slice(tune_budget *self, int key, uint64_t elapsed, int candidates, uint64_t best_nanoseconds,
                             bool ended)
{
    budget_key *one = key_at(self, key);
    const int added = candidates - one->candidates;
    const double before = (double)one->best_nanoseconds, now = (double)best_nanoseconds;
    one->gain = 0;
    if (added > 0 && now < before && one->default_nanoseconds)
        one->gain = (before - now) / (double)one->default_nanoseconds / added;
    one->best_nanoseconds = best_nanoseconds;
    one->candidates = candidates;
    one->ended = ended;
    self->elapsed = elapsed;
}

/* What the next candidate of a key may gain for the graph. The first one is the default, which gains nothing, but no
   other can be tried without it. */
static double expected_gain(const budget_key *key, double unit)
{
    if (!key->weighed)
        return weight_of(key, unit) * (1 - recent_share);
    const double best = key->default_nanoseconds ? (double)key->best_nanoseconds / (double)key->default_nanoseconds : 0;
    const double hope = best / (key->candidates > 0 ? key->candidates : 1);
    return key->weight * (recent_share * key->gain + (1 - recent_share) * hope);
}

static bool may_get_slice(const budget_key *key, double least)
{
    return !key->ended && !key->raced && (key->weighed ? key->weight >= least : key->expected > 0);
}

int tuff__budget_next(const tune_budget *self)
{
    if (self->elapsed >= tuff__budget_race_begin(self))
        return -1;
    const double unit = unit_of(self), least = least_weight(self, unit);
    int best = -1;
    for (int i = 0; i < self->count; i++)
        if (may_get_slice(&self->keys[i], least) &&
            (best < 0 || expected_gain(&self->keys[i], unit) > expected_gain(&self->keys[best], unit)))
            best = i;
    return best;
}

static double estimate_race(const tune_budget *self, int key)
{
    const budget_key *one = key_at(self, key);
    const double run = (double)(one->best_nanoseconds > MIN_RUN ? one->best_nanoseconds : MIN_RUN);
    return RACE_OVERHEAD + (tuff__budget_is_minor(self, key) ? MINOR_RACE_RUNS : RACE_RUNS) * run;
}

uint64_t tuff__budget_race_begin(const tune_budget *self)
{
    const double error = self->estimated > 0 ? self->raced / self->estimated : default_error;
    double races = 0;
    for (int i = 0; i < self->count; i++)
        if (self->keys[i].weighed && !self->keys[i].raced)
            races += error * estimate_race(self, i);
    const uint64_t half = self->whole / 2;
    return races < (double)half ? self->whole - (uint64_t)races : self->whole - half;
}

void tuff__budget_note_race(tune_budget *self, int key, uint64_t elapsed, uint64_t nanoseconds)
{
    budget_key *one = key_at(self, key);
    self->raced += (double)nanoseconds;
    self->estimated += estimate_race(self, key);
    one->raced = true;
    self->elapsed = elapsed;
}

int tuff__budget_next_race(const tune_budget *self)
{
    int best = -1;
    for (int i = 0; i < self->count; i++) {
        const budget_key *one = &self->keys[i];
        if (one->weighed && !one->raced && (best < 0 || one->weight > self->keys[best].weight))
            best = i;
    }
    return best;
}
