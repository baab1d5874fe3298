/* The race at the end of a search: the best candidates and the default run in turns, so that changes of the clocks
   affect all of them alike. A candidate replaces the default only if it is significantly faster: in the race by the
   confidence intervals of the medians, then once more alone against the default, with fresh samples and a sign test
   over the rounds. */
#include <math.h>

#include "search/search_state.h"
#include "search/times.h"

enum { RACERS = 8, MIN_ROUNDS = 10, MAX_ROUNDS = 20, EARLY_ROUNDS = 3, RETIMED_ROUNDS = 9 };
/* Candidates slower than admit_ratio times the best do not enter; those slower than drop_ratio times leave the race. */
static const double admit_ratio = 1.25, drop_ratio = 1.5;
/* By what fraction the winner's time relative to the default's may change after the race, unless the default was so
   slow that it left early. If the default wins, this goes for its time: a change of the clocks may then have hidden a
   gain. */
static const double max_drift = 0.05;
/* The fraction by which a winner must beat the default; provisional_gain is for guesses without a complete race. */
static const double min_gain = 0.01, provisional_gain = 0.05;

/* Standard deviations of a fair coin by which a winner must lead the default in rounds won. */
static const double min_lead_deviations = 2;

typedef struct racer {
    candidate *candidate;
    bool is_in; /* still running, or finished */
    int count;
    uint64_t times[MAX_ROUNDS], quartiles[3];
    double spread;
} racer;

typedef struct race {
    racer racers[RACERS]; /* the first is the default */
    int count;
} race;

static void add_racer(race *contest, candidate *one)
{
    for (int i = 0; i < contest->count; i++)
        if (contest->racers[i].candidate == one)
            return;
    if (contest->count < RACERS && !one->rejected)
        contest->racers[contest->count++] = (racer){.candidate = one, .is_in = true};
}

/* Returns the fastest fully sampled candidate that is not in the race yet; NULL if none is near enough. */
static candidate *next_best(search *self, const race *contest)
{
    candidate *best = NULL;
    const double limit = admit_ratio * (double)self->candidates[self->best].nanoseconds;
    for (int i = 0; i < self->candidate_count; i++) {
        candidate *one = &self->candidates[i];
        bool is_free = !one->rejected && one->samples >= FULL_SAMPLES && (double)one->nanoseconds <= limit;
        for (int j = 0; j < contest->count; j++)
            is_free = is_free && contest->racers[j].candidate != one;
        if (is_free && (!best || one->nanoseconds < best->nanoseconds))
            best = one;
    }
    return best;
}

static bool is_runnable(search *self, candidate *one)
{
    return tuff__search_compile(self, one) && tuff__search_verify(self, one, false);
}

static void add_cached(search *self, race *contest)
{
    for (int i = 0; i < self->candidate_count; i++) {
        candidate *one = &self->candidates[i];
        if (one->rank == RANK_CACHED && !one->rejected && one->samples >= FULL_SAMPLES && is_runnable(self, one))
            add_racer(contest, one);
    }
}

/* Chooses racers that are compiled and verified. Others give up their slots for them. */
static bool choose_racers(search *self, race *contest)
{
    *contest = (race){0};
    add_racer(contest, &self->candidates[0]);
    add_racer(contest, &self->candidates[self->best]);
    add_cached(self, contest);
    for (candidate *next; contest->count < RACERS && (next = next_best(self, contest));)
        if (is_runnable(self, next))
            add_racer(contest, next);
        else if (self->end)
            return false;
    for (int i = 0; i < contest->count; i++)
        contest->racers[i].is_in = tuff__search_compile(self, contest->racers[i].candidate);
    return !self->end && contest->racers[0].is_in;
}

static bool run_once(search *self, racer *one, bool counts)
{
    uint64_t time;
    one->is_in = one->candidate->compiled && tuff__search_sample(self, one->candidate, 1, 0, &time);
    if (!one->is_in || !counts)
        return one->is_in;
    one->times[one->count++] = time;
    tuff__times_quartiles(one->times, one->count, one->quartiles);
    one->spread = tuff__times_spread(one->quartiles, one->count);
    return true;
}

/* Returns the fastest racer that has a time. */
static racer *fastest(race *contest)
{
    racer *best = NULL;
    for (int i = 0; i < contest->count; i++) {
        racer *one = &contest->racers[i];
        if (one->count && !one->candidate->rejected && (!best || one->quartiles[1] < best->quartiles[1]))
            best = one;
    }
    return best;
}

/* Returns the largest difference between two medians that their confidence intervals explain. */
static double combined_spread(const racer *a, const racer *b)
{
    return sqrt(a->spread * a->spread + b->spread * b->spread);
}

static bool are_within(const racer *a, const racer *b, double bands)
{
    const double first = (double)a->quartiles[1], second = (double)b->quartiles[1];
    const double least = first < second ? first : second, band = combined_spread(a, b);
    return fabs(first - second) <= bands * (band > min_gain * least ? band : min_gain * least);
}

/* Whether two medians may be equal. */
static bool are_tied(const racer *a, const racer *b)
{
    return are_within(a, b, 1);
}

/* Drops slow candidates. Returns whether more rounds could change the result. */
static bool thin_out(race *contest, int rounds)
{
    const racer *best = fastest(contest);
    bool is_open = rounds < MIN_ROUNDS;
    for (int i = 0; best && i < contest->count; i++) {
        racer *one = &contest->racers[i];
        if (rounds >= EARLY_ROUNDS && (double)one->quartiles[1] > drop_ratio * (double)best->quartiles[1])
            one->is_in = false;
        is_open = is_open || (one != best && one->is_in && are_tied(one, best));
    }
    return is_open;
}

/* Takes one sample of each racer per round, starting with a different one each time. A first round that does not count
   raises the clocks. Returns false if the search ended or the default failed. */
static bool run_rounds(search *self, race *contest)
{
    for (int round = -1; round < MAX_ROUNDS; round++) {
        for (int i = 0; i < contest->count; i++) {
            racer *one = &contest->racers[(i + round + 1) % contest->count];
            if (one->is_in)
                (void)run_once(self, one, round >= 0);
            if (self->end || contest->racers[0].candidate->rejected)
                return false;
        }
        if (!tuff__search_goes_on(self))
            return false;
        if (round >= 0 && !thin_out(contest, round + 1))
            return true;
    }
    return true;
}

/* The order among equals: origin, then fewer work-items, then time. */
static bool is_preferred(const racer *a, const racer *b)
{
    const candidate *first = a->candidate, *second = b->candidate;
    if (first->rank != second->rank)
        return first->rank < second->rank;
    if (first->handle.group_items != second->handle.group_items)
        return first->handle.group_items < second->handle.group_items;
    return a->quartiles[1] < b->quartiles[1];
}

/* Returns the winner: the default, unless another racer with a time is faster by `gain`. */
static racer *choose(race *contest, double gain)
{
    racer *best = fastest(contest), *defaults = &contest->racers[0], *winner = best;
    for (int i = 0; i < contest->count; i++) {
        racer *one = &contest->racers[i];
        if (one->count && !one->candidate->rejected && are_tied(one, best) && is_preferred(one, winner))
            winner = one;
    }
    const bool gains = (double)winner->quartiles[1] < (1 - gain) * (double)defaults->quartiles[1];
    return gains && !are_tied(winner, defaults) ? winner : defaults;
}

/* Whether a was faster in significantly more of the rounds that both ran than chance gives to equals. If a core has two
   speeds, because others use it too, the medians of equals may be far apart, since each is one of the two. */
static bool is_clearly_faster(const racer *a, const racer *b)
{
    int lead = 0;
    for (int i = 0; i < a->count && i < b->count; i++)
        lead += (a->times[i] < b->times[i]) - (a->times[i] > b->times[i]);
    return lead >= min_lead_deviations * sqrt((double)a->count);
}

/* Whether a time, relative to the other's unless that is NULL, changed by more than max_drift and than the spreads
   explain. */
static bool has_drifted(const racer *before, const racer *before_by, const racer *after, const racer *after_by)
{
    const racer *const parts[] = {before, before_by, after, after_by};
    double medians[4], noise = 0;
    for (int i = 0; i < 4; i++) {
        medians[i] = parts[i] ? (double)parts[i]->quartiles[1] : 1;
        noise += parts[i] ? pow(parts[i]->spread / medians[i], 2) : 0;
    }
    const double change = fabs(medians[2] / medians[3] / (medians[0] / medians[1]) - 1);
    return change > max_drift && change > sqrt(noise);
}

typedef enum outcome { CONFIRMED, DRIFTED, NOT_FASTER, ENDED } outcome;

/* Times the winner once more, alone against the default: the least of several medians underestimates the truth. */
static outcome confirm(search *self, race *contest, const racer *winner)
{
    racer defaults = {.candidate = contest->racers[0].candidate, .is_in = true},
          again = {.candidate = winner->candidate, .is_in = true};
    const bool is_default = defaults.candidate == again.candidate;
    bool is_open = true;
    for (int round = 1; is_open && round <= MAX_ROUNDS; round++) {
        racer *const turns[] = {round % 2 ? &again : &defaults, round % 2 ? &defaults : &again};
        for (int i = 0; i < 2; i++)
            if ((!is_default || turns[i] == &again) && !run_once(self, turns[i], true))
                return self->end || defaults.candidate->rejected ? ENDED : NOT_FASTER;
        if (!tuff__search_goes_on(self))
            return ENDED;
        /* Ending at the first look that is good enough would favour luck, so an early end takes twice the margin. */
        is_open = round < RETIMED_ROUNDS ||
                  (!is_default && (are_within(&again, &defaults, 2) || !is_clearly_faster(&again, &defaults)));
    }
    racer *raced = &contest->racers[0];
    if (is_default ? has_drifted(winner, NULL, &again, NULL)
                   : raced->count >= MIN_ROUNDS && has_drifted(winner, raced, &again, &defaults))
        return DRIFTED;
    /* A default that left the race early has too few times there: an interrupted one among them would decide. */
    if (raced->count < defaults.count)
        *raced = defaults;
    const bool gains = again.quartiles[1] < defaults.quartiles[1] && !are_tied(&again, &defaults) &&
                       is_clearly_faster(&again, &defaults);
    return is_default || gains ? CONFIRMED : NOT_FASTER;
}

static void copy_racer(const racer *from, search_result *out)
{
    out->winner = from->candidate->handle.config;
    out->samples = from->count;
    for (int i = 0; i < 3; i++)
        out->nanoseconds[i] = from->quartiles[i];
}

/* Keeps the fastest ones in order; of equally fast ones the first added comes first. */
static void add_runner_up(search_result *out, const candidate *one, uint64_t nanoseconds)
{
    int at = out->runner_up_count;
    while (at > 0 && out->runner_up_nanoseconds[at - 1] > nanoseconds)
        at--;
    if (at == SEARCH_RUNNERS_UP)
        return;
    out->runner_up_count += out->runner_up_count < SEARCH_RUNNERS_UP;
    for (int i = out->runner_up_count - 1; i > at; i--) {
        out->runners_up[i] = out->runners_up[i - 1];
        out->runner_up_nanoseconds[i] = out->runner_up_nanoseconds[i - 1];
    }
    out->runners_up[at] = one->handle.config;
    out->runner_up_nanoseconds[at] = nanoseconds;
}

/* Lists the next best after the winner. The default need not be listed. */
static void list_runners_up(const race *contest, const racer *winner, search_result *out)
{
    out->runner_up_count = 0;
    for (const racer *one = contest->racers + 1; one < contest->racers + contest->count; one++)
        if (one != winner && one->count && !one->candidate->rejected)
            add_runner_up(out, one->candidate, one->quartiles[1]);
}

/* Decides a completed race. A winner that fails its last checks gives way to the next. */
static outcome decide(search *self, race *contest, search_result *out)
{
    for (;;) {
        const racer *winner = choose(contest, min_gain), *defaults = &contest->racers[0];
        if (winner != defaults && !tuff__search_verify(self, winner->candidate, true)) {
            if (self->end)
                return ENDED;
            continue;
        }
        outcome found = confirm(self, contest, winner);
        if (found == ENDED || found == DRIFTED)
            return found;
        if (winner->candidate->rejected)
            continue;
        if (found == NOT_FASTER)
            winner = defaults;
        copy_racer(winner, out);
        out->default_nanoseconds = defaults->quartiles[1];
        list_runners_up(contest, winner, out);
        return CONFIRMED;
    }
}

/* Copies the times of the search instead of a race's. */
static void copy_candidate(const candidate *from, const candidate *defaults, search_result *out)
{
    out->winner = from->handle.config;
    out->samples = from->samples;
    out->nanoseconds[0] = out->nanoseconds[1] = out->nanoseconds[2] = from->nanoseconds;
    out->default_nanoseconds = defaults->nanoseconds;
}

/* Without a complete race: takes the best by known times if it was verified and leads by a margin, else the default. */
static void guess(const search *self, search_result *out)
{
    if (self->best < 0)
        return;
    const candidate *best = &self->candidates[self->best], *defaults = &self->candidates[0];
    const double bar = (1 - provisional_gain) * (double)defaults->nanoseconds;
    const bool gains = best->verified && !best->rejected && (double)best->nanoseconds < bar;
    const candidate *winner = gains ? best : defaults;
    copy_candidate(winner, defaults, out);
    out->is_final = false;
}

bool tuff__search_leader(const search *self, search_result *out)
{
    *out = (search_result){.end = SEARCH_STOPPED};
    if (self->best < 1)
        return false;
    const candidate *leader = &self->candidates[self->best], *defaults = &self->candidates[0];
    copy_candidate(leader, defaults, out);
    return leader->verified && !leader->rejected && leader->nanoseconds < defaults->nanoseconds;
}

cached_state tuff__search_cached(const search *self, search_result *out)
{
    *out = (search_result){.end = SEARCH_STOPPED};
    for (int i = 1; i < self->tried; i++) {
        const candidate *one = &self->candidates[i], *defaults = &self->candidates[0];
        if (one->rank != RANK_CACHED)
            continue;
        copy_candidate(one, defaults, out);
        if (one->rejected || (one->samples > 0 && one->nanoseconds >= defaults->nanoseconds))
            return CACHED_REFUTED;
        /* If not, the search was stopped in between. */
        return one->samples >= FULL_SAMPLES && one->verified ? CACHED_FASTER : CACHED_UNTRIED;
    }
    return CACHED_UNTRIED;
}

/* Fills in the distribution of all candidates' times; if there are very many, of the first ones. */
static void fill_spread(const search *self, search_result *out)
{
    enum { MAX_STEP_TIMES = 1024 };
    uint64_t times[MAX_STEP_TIMES];
    int count = 0;
    for (int i = 0; count < MAX_STEP_TIMES && i < self->candidate_count; i++)
        if (self->candidates[i].samples > 0 && !self->candidates[i].rejected)
            times[count++] = self->candidates[i].nanoseconds;
    tuff__times_sort(times, count);
    out->timed = count;
    for (int i = 0; i < 5 && count > 0; i++)
        out->spread[i] = times[(count - 1) * i / 4];
}

/* Lists the fastest verified candidates other than the default. */
static void list_tried(const search *self, search_result *out)
{
    for (const candidate *one = self->candidates + 1; one < self->candidates + self->candidate_count; one++)
        if (one->verified && !one->rejected)
            add_runner_up(out, one, one->nanoseconds);
}

static bool is_worth_racing(search *self)
{
    if (self->end == SEARCH_STOPPED && !(self->evaluator.is_over && self->evaluator.is_over(self->evaluator.state)))
        return self->best >= 0;
    return self->best >= 0 && self->end != SEARCH_STOPPED && self->end < SEARCH_UNUSABLE;
}

static void run_races(search *self, search_result *out)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        race contest;
        if (!choose_racers(self, &contest))
            return;
        self->counts.races++;
        if (!run_rounds(self, &contest))
            return;
        const outcome found = decide(self, &contest, out);
        out->is_final = found == CONFIRMED;
        if (found != DRIFTED)
            return;
        self->counts.discarded++;
    }
}

tuff_status tuff__search_finish(search *self, search_result *out)
{
    *out = (search_result){0};
    guess(self, out);
    const bool is_worth = is_worth_racing(self);
    if (is_worth && self->best == 0 && fabs(self->drift - 1) <= max_drift) {
        /* Nothing seemed faster while the clocks were steady, so a race could only find luck. */
        out->is_final = true;
        list_tried(self, out);
    } else if (is_worth) {
        const search_stop before = self->end;
        self->end = SEARCH_GOES_ON;
        run_races(self, out);
        if (self->candidates[0].rejected && !self->end)
            self->end = SEARCH_UNUSABLE;
        if (self->candidates[self->best].rejected)
            self->best = 0;
        if (!out->is_final)
            guess(self, out);
        if (!self->end)
            self->end = before;
    }
    fill_spread(self, out);
    out->end = self->end;
    out->no_climb = self->settings.no_climb;
    out->counts = self->counts;
    return self->end == SEARCH_FAILED ? self->status : TUFF_OK;
}
