/* The steps of a search: compiles a candidate, times it in stages, verifies it if it would become the best, and stops
   when nothing is left, patience or the budget has run out, or the device allows no more. Slow candidates get few
   samples; only verified ones become the best. Candidates that spill registers are left out, or deferred if all do. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "search/search_state.h"
#include "search/times.h"

enum { DEFAULT_PATIENCE = 16 };
/* Turns without a gain that deferred candidates get when patience has run out; those that spill least go first. */
enum { DEFERRED_TURNS = 8 };
/* Bytes that a work-item may spill where all candidates do: 64 registers, a quarter of the 255 or 256 that a GPU gives
   it at most. That costs only a few instructions, which caches serve. */
#define HARMLESS_SPILL UINT64_C(256)
/* A candidate that spills more than this many times what others do is left out. */
enum { MAX_SPILL_RATIO = 2 };
/* Candidates between two checks of the clocks. */
enum { DRIFT_INTERVAL = 8 };
/* How often the best must be timed within 10 % of the roofline before the search ends. */
enum { ROOFLINE_CHECKS = 2 };

/* Samples are taken in stages; after each, a candidate that is slower than `cut` times the best is dropped. */
static const struct stage {
    int count;
    double cut;
} stages[] = {{1, 2}, {2, 1.25}, {FULL_SAMPLES - 3, 0}, {0, 0}};

const char *tuff__evaluation_text(tune_evaluation reason)
{
    static const char *const texts[] = {
#define X(name, text) text,
        EVALUATION_MAP(X)
#undef X
    };
    return (unsigned)reason < EVALUATION_COUNT ? texts[reason] : "unknown";
}

void tuff__search_fail(search *self, tuff_status status)
{
    self->end = SEARCH_FAILED;
    self->status = status;
}

bool tuff__search_is_over(search *self)
{
    if (!self->end && self->evaluator.is_over && self->evaluator.is_over(self->evaluator.state))
        self->end = SEARCH_STOPPED;
    return self->end != SEARCH_GOES_ON;
}

/* Evaluations that do not reject a candidate for good: in a later search, for example, the others may spill more. */
static bool is_temporary(tune_evaluation result)
{
    return result == EVALUATION_INVALID || result == EVALUATION_REJECTED || result == EVALUATION_SPILLS ||
           result == EVALUATION_SLOW || result == EVALUATION_TIMER || result == EVALUATION_NO_MEMORY ||
           result == EVALUATION_FAILED;
}

bool tuff__search_accept(search *self, const tune_config *config, tune_evaluation result)
{
    if (result == EVALUATION_GOOD)
        return true;
    assert((unsigned)result < EVALUATION_COUNT);
    self->counts.rejected[result]++;
    self->result = result;
    if (result == EVALUATION_FAILED)
        tuff__search_fail(self, tuff_last_status() ? tuff_last_status() : TUFF_E_USAGE);
    if (result == EVALUATION_LOST)
        self->end = SEARCH_LOST;
    if (!is_temporary(result) && self->settings.rejected)
        self->settings.rejected(self->settings.user, config, result);
    return false;
}

static void release(search *self, candidate *one)
{
    if (one->handle.slot < 0)
        return;
    self->evaluator.release(self->evaluator.state, &one->handle);
    self->slots[one->handle.slot] = -1;
    one->handle.slot = -1;
    one->compiled = false;
}

/* Returns a free slot, or takes that of the slowest candidate tried, except the default and the best. */
static int take_slot(search *self)
{
    candidate *slowest = NULL;
    for (int i = 0; i < SEARCH_SLOTS; i++) {
        if (self->slots[i] < 0)
            return i;
        candidate *one = &self->candidates[self->slots[i]];
        if (self->slots[i] != 0 && self->slots[i] != self->best && self->slots[i] < self->tried &&
            (!slowest || one->nanoseconds > slowest->nanoseconds))
            slowest = one;
    }
    assert(slowest);
    const int slot = slowest->handle.slot;
    release(self, slowest);
    return slot;
}

static void assign_slot(search *self, candidate *one)
{
    if (one->handle.slot < 0) {
        one->handle.slot = take_slot(self);
        self->slots[one->handle.slot] = (int)(one - self->candidates);
    }
}

bool tuff__search_compile(search *self, candidate *one)
{
    if (one->compiled)
        return true;
    if (tuff__search_is_over(self))
        return false;
    assign_slot(self, one);
    self->counts.compiled++;
    one->compiled =
        tuff__search_accept(self, &one->handle.config, self->evaluator.compile(self->evaluator.state, &one->handle));
    one->rejected = !one->compiled;
    if (!one->compiled) {
        self->slots[one->handle.slot] = -1;
        one->handle.slot = -1;
    } else if (self->evaluator.spilled) {
        one->spilled = self->evaluator.spilled(self->evaluator.state, &one->handle);
    }
    return one->compiled;
}

static void drop(search *self, candidate *one)
{
    one->rejected = true;
    release(self, one);
}

bool tuff__search_verify(search *self, candidate *one, bool thorough)
{
    if ((one->verified && !thorough) || one->rejected)
        return !one->rejected;
    if (tuff__search_is_over(self))
        return false;
    self->counts.verified++;
    const tune_evaluation result = self->evaluator.verify(self->evaluator.state, &one->handle, thorough);
    one->verified = tuff__search_accept(self, &one->handle.config, result);
    if (!one->verified)
        drop(self, one);
    return one->verified;
}

/* If the default is faster than the peak allows, the measured peak is wrong. */
static void discard_wrong_roofline(search *self, const candidate *one, const uint64_t *times, int count)
{
    if (one == &self->candidates[0] && tuff__times_median(times, count) < self->settings.roofline)
        self->settings.roofline = 0;
}

/* Returns false for times of 0, and for times that the device's peak does not allow. */
static bool are_believable(const search *self, const uint64_t *times, int count)
{
    for (int i = 0; i < count; i++)
        if (!times[i] || times[i] < self->settings.roofline / 2)
            return false;
    return true;
}

bool tuff__search_sample(search *self, candidate *one, int count, uint64_t limit, uint64_t *times)
{
    tune_evaluation result = EVALUATION_TIMER;
    for (int attempt = 0; attempt < 2 && result == EVALUATION_TIMER; attempt++) {
        if (tuff__search_is_over(self))
            return false;
        result = self->evaluator.sample(self->evaluator.state, &one->handle, count, limit, times);
        self->counts.samples += result == EVALUATION_GOOD ? (uint64_t)count : 0;
        if (result == EVALUATION_GOOD)
            discard_wrong_roofline(self, one, times, count);
        if (result == EVALUATION_GOOD && !are_believable(self, times, count))
            result = EVALUATION_TIMER;
    }
    const bool is_good = tuff__search_accept(self, &one->handle.config, result);
    if (!is_good)
        drop(self, one);
    return is_good;
}

int tuff__search_fastest(const search *self, int without)
{
    int least = -1;
    for (int i = 0; i < self->candidate_count; i++) {
        const candidate *one = &self->candidates[i];
        if (i != without && !one->rejected && one->samples >= FULL_SAMPLES &&
            (least < 0 || one->nanoseconds < self->candidates[least].nanoseconds))
            least = i;
    }
    return least;
}

/* Candidates that spill: the driver found too few registers for a work-item, and keeps the rest in memory. They are
   left out as soon as a candidate that does not spill was timed, which the default, the first one, usually is. Only
   where the default spills too, those that spill more than the best are deferred until nothing better is left to try.
   Meanwhile a deferred candidate keeps nothing but its place among the candidates: the driver's cache and tuff's make
   the second compilation cheap. */

/* The least and the most that a candidate spills, of those that were timed to the end. */
typedef struct spill_range {
    uint64_t least, most; /* UINT64_MAX and 0: none was timed */
    bool has_others;      /* besides the default, which alone says little about how much others need */
} spill_range;

static spill_range timed_spills(const search *self)
{
    spill_range out = {.least = UINT64_MAX};
    for (int i = 0; i < self->candidate_count; i++) {
        const candidate *one = &self->candidates[i];
        if (one->rejected || one->samples < FULL_SAMPLES)
            continue;
        out.has_others = out.has_others || i > 0;
        out.least = one->spilled < out.least ? one->spilled : out.least;
        out.most = one->spilled > out.most ? one->spilled : out.most;
    }
    return out;
}

/* A cached winner has proved itself among candidates that all spill. The default needs no exemption: when it is tried,
   there are no others. */
static bool is_exempt(const candidate *one)
{
    return one->rank == RANK_CACHED;
}

/* Returns false, and drops the candidate, if it spills and another does not, or if it spills far more than others.
   Nothing is known before it is compiled. */
static bool check_spills(search *self, candidate *one)
{
    const spill_range others = timed_spills(self);
    const bool is_needless = one->spilled > 0 && others.least == 0;
    const bool is_excessive = one->spilled > HARMLESS_SPILL && others.has_others && !is_exempt(one) &&
                              one->spilled > MAX_SPILL_RATIO * others.most;
    if (!is_needless && !is_excessive)
        return true;
    (void)FAIL(TUFF_E_LIMIT, "tune: spills %" PRIu64 " bytes of a work-item's registers to memory, %s %" PRIu64,
               one->spilled, is_needless ? "another candidate" : "other candidates at most",
               is_needless ? others.least : others.most);
    (void)tuff__search_accept(self, &one->handle.config, EVALUATION_SPILLS);
    drop(self, one);
    return false;
}

/* Defers and releases a compiled candidate that spills more than the best and has not had its turn. Returns true if
   so. */
static bool defer(search *self, candidate *one)
{
    if (self->best < 0 || one->had_turn || is_exempt(one) || one->spilled <= self->candidates[self->best].spilled)
        return false;
    self->counts.deferred++;
    one->is_deferred = true;
    release(self, one);
    return true;
}

/* Returns the deferred candidate that spills least; -1: none. */
static int next_deferred(const search *self)
{
    int least = -1;
    for (int i = 0; i < self->tried; i++) {
        const candidate *one = &self->candidates[i];
        if (one->is_deferred && (least < 0 || one->spilled < self->candidates[least].spilled))
            least = i;
    }
    return least;
}

static void resume_deferred(search *self, int index)
{
    self->candidates[index].is_deferred = false;
    self->candidates[index].had_turn = true;
}

/* Takes samples in stages; returns false if the candidate was rejected, or cut as too slow. */
static bool time_candidate(search *self, candidate *one)
{
    const uint64_t best = self->best < 0 ? 0 : self->candidates[self->best].nanoseconds;
    const double now = (double)best * self->drift;
    uint64_t times[FULL_SAMPLES];
    for (int i = 0; stages[i].count > 0; i++) {
        if (!tuff__search_sample(self, one, stages[i].count, (uint64_t)(stages[0].cut * now), times + one->samples))
            return false;
        one->samples += stages[i].count;
        const double median = (double)tuff__times_median(times, one->samples);
        one->nanoseconds = (uint64_t)(median / self->drift);
        if (best && stages[i].cut > 0 && median > stages[i].cut * now) {
            self->counts.rejected[EVALUATION_SLOW]++;
            self->result = EVALUATION_SLOW;
            return false;
        }
    }
    return true;
}

static bool is_fastest(const search *self, const candidate *one)
{
    return self->best < 0 || one->nanoseconds < self->candidates[self->best].nanoseconds;
}

/* Updates the best and, for patience, the number of candidates since it last improved by 1 %. */
static void update_best(search *self, int index)
{
    const uint64_t time = self->candidates[index].nanoseconds;
    const bool is_better = is_fastest(self, &self->candidates[index]);
    if (is_better) {
        self->best = index;
        self->last_move = self->candidates[index].move;
        self->near_roofline = 0;
    }
    self->since_gain++;
    if (is_better && (double)time < 0.99 * (double)self->gain_reference) {
        self->since_gain = 0;
        self->gain_reference = time;
    }
}

/* A candidate whose evaluation was ended by something else was not tried. */
static void report_candidate(search *self, const candidate *one, bool good)
{
    const search_settings *to = &self->settings;
    if (to->tried && (good || self->result != EVALUATION_GOOD))
        to->tried(to->user, &one->handle.config, good ? EVALUATION_GOOD : self->result,
                  one->samples ? one->nanoseconds : 0, one->samples);
}

/* Compiles a candidate; returns false if it is not to be run, or not now. */
static bool prepare(search *self, candidate *one)
{
    if (!check_spills(self, one))
        return false;
    self->compiled_again += one->had_turn;
    return tuff__search_compile(self, one) && check_spills(self, one) && !defer(self, one);
}

/* Compiles, times and verifies a candidate. */
static void try_one(search *self, int index)
{
    candidate *one = &self->candidates[index];
    self->since_drift++;
    self->result = EVALUATION_GOOD;
    bool good = prepare(self, one) && time_candidate(self, one);
    /* The default is verified too, since all others are compared with it. */
    if (good && is_fastest(self, one))
        good = tuff__search_verify(self, one, false);
    report_candidate(self, one, good);
    if (good) {
        update_best(self, index);
    } else {
        self->since_gain++;
        release(self, one);
    }
    if (index == 0 && !good && !self->end)
        self->end = SEARCH_UNUSABLE;
}

/* Called if the best failed when it ran again. */
static void reset_best(search *self)
{
    if (self->best == 0 && !self->end)
        self->end = SEARCH_UNUSABLE;
    self->best = 0;
    self->gain_reference = self->candidates[0].nanoseconds;
}

/* Times the default again. A change of more than 5 % means that the clocks have changed, and later times are scaled by
   it. The reference stays the default's first time: if it moved with the results, each lucky time would excuse the
   next. */
static void update_drift(search *self)
{
    if (self->best < 0 || self->since_drift == 0)
        return;
    self->since_drift = 0;
    uint64_t times[3];
    candidate *defaults = &self->candidates[0];
    if (!tuff__search_sample(self, defaults, 3, 0, times)) {
        if (defaults->rejected && !self->end)
            self->end = SEARCH_UNUSABLE;
        return;
    }
    const double now = (double)tuff__times_median(times, 3) / (double)defaults->nanoseconds;
    if (now > 1.05 * self->drift || now < 0.95 * self->drift)
        self->drift = now;
}

/* Times the best again at each look, since a single sample may be lucky. */
static void check_roofline(search *self)
{
    const double roof = 1.1 * (double)self->settings.roofline;
    uint64_t times[3];
    while (!self->end && self->near_roofline < ROOFLINE_CHECKS) {
        candidate *best = &self->candidates[self->best];
        if ((double)best->nanoseconds > roof)
            return;
        if (!tuff__search_sample(self, best, 3, 0, times)) {
            if (best->rejected)
                reset_best(self);
            return;
        }
        if ((double)tuff__times_median(times, 3) > roof)
            return;
        if (++self->near_roofline == ROOFLINE_CHECKS)
            self->end = SEARCH_ROOFLINE;
    }
}

/* Whether the next candidate is a listed one; if none is waiting, whether it may be one. */
static bool is_priming(const search *self)
{
    if (self->tried < self->candidate_count)
        return self->candidates[self->tried].listed >= 0;
    return !self->is_exhausted && self->next_listed < self->listed_count;
}

static int compiles_of(const search *self)
{
    return self->tried + self->compiled_again;
}

/* Whether the climb is over and deferred candidates had the given number of turns. Listed candidates do not count. */
static bool is_patience_over(const search *self, int turns)
{
    const int patience = self->settings.patience ? self->settings.patience : DEFAULT_PATIENCE;
    return patience > 0 && !is_priming(self) && self->since_gain >= patience + turns;
}

bool tuff__search_goes_on(search *self)
{
    const search_settings *settings = &self->settings;
    const search_progress now = tuff__search_progress(self);
    if (settings->progress && !settings->progress(settings->user, &now) && !self->end)
        self->end = SEARCH_STOPPED;
    return !self->end;
}

static void stop_if_due(search *self)
{
    const search_settings *settings = &self->settings;
    const int turns = is_patience_over(self, 0) && next_deferred(self) >= 0 ? DEFERRED_TURNS : 0;
    if (!self->end && settings->roofline && !self->near_roofline)
        check_roofline(self);
    if (!self->end && settings->max_compiles && compiles_of(self) >= settings->max_compiles)
        self->end = SEARCH_COMPILES;
    if (!self->end && is_patience_over(self, turns))
        self->end = SEARCH_PATIENCE;
    (void)tuff__search_goes_on(self);
}

/* Picks one more candidate. */
static bool queue_pick(search *self)
{
    candidate next;
    const int most = self->settings.max_compiles;
    if (self->is_exhausted || (most && self->candidate_count + self->compiled_again >= most) ||
        !tuff__search_pick(self, &next))
        return false;
    if (!GROW(self->candidates, self->candidate_count, self->candidate_capacity)) {
        tuff__search_fail(self, TUFF_E_OOM_HOST);
        return false;
    }
    self->candidates[self->candidate_count++] = next;
    return true;
}

/* Queues the next candidate and announces those after it. Nothing is queued after a default that was not tried. */
static void fill_queue(search *self)
{
    const int wanted = self->settings.prefetch < SEARCH_PREFETCH ? self->settings.prefetch : SEARCH_PREFETCH;
    while (!self->end && self->candidate_count - self->tried <= (self->tried ? wanted : 0)) {
        if (!queue_pick(self)) {
            self->is_exhausted = true;
            return;
        }
        candidate *one = &self->candidates[self->candidate_count - 1];
        if (self->candidate_count - self->tried > 1 && self->evaluator.expect) {
            assign_slot(self, one);
            self->evaluator.expect(self->evaluator.state, &one->handle);
        }
    }
}

/* Returns the next candidate, or a deferred one if nothing else is left or patience has run out. -1: none. */
static int take_next(search *self)
{
    const bool is_late = is_patience_over(self, 0);
    if (!is_late)
        fill_queue(self);
    if (self->end)
        return -1;
    if (!is_late && self->tried < self->candidate_count)
        return self->tried++;
    const int index = next_deferred(self);
    if (index >= 0)
        resume_deferred(self, index);
    return index;
}

static void advance(search *self)
{
    if (self->since_drift >= DRIFT_INTERVAL)
        update_drift(self);
    const int index = take_next(self);
    if (!self->end && index < 0)
        self->end = SEARCH_EXHAUSTED;
    if (self->end)
        return;
    try_one(self, index);
    /* Listed candidates do not use up patience. */
    if (is_priming(self))
        self->since_gain = 0;
    stop_if_due(self);
}

static tuff_status status_of(const search *self)
{
    return self->end == SEARCH_FAILED ? self->status : TUFF_OK;
}

tuff_status tuff__search_step(search *self, int compiles)
{
    if (!self->end)
        update_drift(self);
    for (const int before = compiles_of(self); !self->end && compiles_of(self) - before < compiles;)
        advance(self);
    return status_of(self);
}

tuff_status tuff__search_prime(search *self)
{
    /* None of the remaining listed candidates may be lowerable, so fill the queue before each check. */
    for (fill_queue(self); !self->end && is_priming(self); fill_queue(self))
        advance(self);
    return status_of(self);
}

void tuff__search_narrow(search *self, int max_compiles)
{
    self->settings.no_climb = true;
    self->settings.max_compiles = max_compiles;
}

search_progress tuff__search_progress(const search *self)
{
    static const tune_config defaults;
    const candidate *best = self->best < 0 ? NULL : &self->candidates[self->best];
    return (search_progress){
        .end = self->end,
        .best = best ? &best->handle.config : &defaults,
        .default_nanoseconds = best ? self->candidates[0].nanoseconds : 0,
        .best_nanoseconds = best ? best->nanoseconds : 0,
        .tried = compiles_of(self),
        .since_gain = self->since_gain,
        .counts = self->counts,
    };
}

static void list(search *self, const tune_config *config, int count, int rank)
{
    for (int i = 0; i < count; i++) {
        self->ranks[self->listed_count] = rank == RANK_PORTFOLIO ? rank + i : rank;
        self->listed[self->listed_count++] = config[i];
    }
}

/* Makes the list of everything that is tried before the climb, the default first. */
static bool make_list(search *self, const search_settings *settings)
{
    const tune_config defaults = {0};
    const size_t count = 2 + (size_t)settings->portfolio_count + (size_t)settings->seed_count;
    self->listed = tuff__calloc(count, sizeof *self->listed);
    self->ranks = tuff__calloc(count, sizeof *self->ranks);
    if (!self->listed || !self->ranks)
        return false;
    list(self, &defaults, 1, RANK_DEFAULT);
    list(self, settings->cached, settings->cached ? 1 : 0, RANK_CACHED);
    list(self, settings->seeds, settings->seed_count, RANK_FOUND);
    list(self, settings->portfolio, settings->portfolio_count, RANK_PORTFOLIO);
    return true;
}

tuff_status tuff__search_begin(const evaluator *by, const search_settings *settings, search **out)
{
    *out = NULL;
    search *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return TUFF_E_OOM_HOST;
    *self = (search){.evaluator = *by, .settings = *settings, .random = {settings->seed}, .best = -1, .drift = 1};
    self->gain_reference = UINT64_MAX;
    self->last_move = -1;
    for (int i = 0; i < SEARCH_SLOTS; i++)
        self->slots[i] = -1;
    for (int i = 0; i < FRONTIERS; i++)
        self->frontiers[i].centre = -1;
    if (!make_list(self, settings)) {
        tuff__search_end(self);
        return TUFF_E_OOM_HOST;
    }
    *out = self;
    return TUFF_OK;
}

void tuff__search_end(search *self)
{
    if (!self)
        return;
    for (int i = 0; i < self->candidate_count; i++)
        release(self, &self->candidates[i]);
    for (int i = 0; i < FRONTIERS; i++)
        tuff__free(self->frontiers[i].steps);
    tuff__free(self->candidates);
    tuff__free(self->seen);
    tuff__free(self->listed);
    tuff__free(self->ranks);
    tuff__free(self);
}

const char *tuff__search_end_text(const search_result *result)
{
    if (!result->is_final || (result->no_climb && result->end == SEARCH_EXHAUSTED) || result->end == SEARCH_STOPPED ||
        result->end == SEARCH_GOES_ON || result->end == SEARCH_COMPILES)
        return "budget";
    return result->end == SEARCH_PATIENCE ? "patience" : "";
}
