/* The recorder. offer() lowers a candidate and appends it to the list if its program is new; the candidates at the end
   of the list that are not measured yet are then measured in batches. */
#include "bench/recorder/recorder.h"

#include <string.h>

#include "base/thread.h"

enum { BATCH = SEARCH_SLOTS - 1 };
/* Runs per kept time, not counting the first; more for the best candidates at the end. */
enum { RUNS_PER_TIME = 5, BEST_RUNS_PER_TIME = 12, MAX_RUNS = BEST_RUNS_PER_TIME * RECORDER_SAMPLES + 1 };
/* Time limit for the rounds of a batch. At least as many rounds as times are kept are always run. */
enum { MAX_SECONDS = 4 };
/* Final batches of the best candidates; the next one is run only if it has new leaders. */
enum { RACES = 3, RACERS = BATCH - 3 };
/* A candidate slower than this many times the default gets only two runs, and its results are not verified: a search
   would not verify them either. */
enum { SLOW = 4, FEW_RUNS = 2 };
/* Attempts to draw a random point that can be lowered and is new. */
enum { DRAWS = 200 };
/* The percentage of points that are drawn at random before the hill climb. */
enum { RANDOM_PERCENT = 55 };

/* Times of runs; the first is the run right after compilation. */
typedef struct runs {
    uint64_t times[MAX_RUNS];
    int count;
} runs;

typedef struct entry {
    tune_config config;
    uint64_t program;
    uint32_t group_items;
    double cost;
    tune_evaluation result;
    bool drawn, is_expanded, is_live, is_raced;
    int slot;
    runs raw;         /* in the current batch, normalized by the default's times */
    uint64_t pending; /* the time in this round, not normalized; 0 if there is none */
    uint64_t times[RECORDER_SAMPLES], median;
    int count;
} entry;

/* A candidate that was offered; program is 0 if it could not be lowered. */
typedef struct seen_choice {
    uint64_t hash, program;
} seen_choice;

typedef struct recorder {
    evaluator evaluator;
    recorder_settings settings;
    recording *into;
    recorder_counts *counts;
    tune_space space;
    tune_config defaults;
    rng random;
    seen_choice *seen;
    int seen_count, seen_capacity;
    entry *all; /* the first is the default */
    int count, capacity;
    int measured; /* entries from here on wait to be measured */
    uint64_t reference;
    uint64_t begin;
    tuff_status status;
} recorder;

static bool fail(recorder *self, tuff_status status)
{
    if (!self->status)
        self->status = status;
    return false;
}

static tuff_status evaluator_status(void)
{
    return tuff_last_status() ? tuff_last_status() : TUFF_E_DEVICE_LOST;
}

static bool has_time(const recorder *self)
{
    const recorder_settings *settings = &self->settings;
    return !self->status && !(settings->is_stopped && settings->is_stopped()) &&
           !(self->evaluator.is_over && self->evaluator.is_over(self->evaluator.state)) &&
           (double)(tuff__nanoseconds() - self->begin) < self->settings.seconds * 1e9;
}

static const seen_choice *find_seen(const recorder *self, uint64_t hash)
{
    for (int i = 0; i < self->seen_count; i++)
        if (self->seen[i].hash == hash)
            return &self->seen[i];
    return NULL;
}

static bool remember(recorder *self, uint64_t hash, uint64_t program)
{
    if (!GROW(self->seen, self->seen_count, self->seen_capacity))
        return fail(self, TUFF_E_OOM_HOST);
    self->seen[self->seen_count++] = (seen_choice){hash, program};
    return true;
}

static entry *find_program(const recorder *self, uint64_t program)
{
    for (int i = 0; i < self->count; i++)
        if (self->all[i].program == program)
            return &self->all[i];
    return NULL;
}

/* Removes tunables that lowering did not read or that have their default values, and adds those that it read to the
   space. */
static void trim(recorder *self, tune_config *candidate, const tune_config *used_tunables)
{
    (void)tuff__space_add_tunables(&self->space, used_tunables);
    for (int i = 0; i < TUNABLE_COUNT; i++) {
        const tunable one = (tunable)i;
        if (tuff__config_has(used_tunables, one) && !tuff__config_has(&self->defaults, one))
            tuff__config_set(&self->defaults, one, used_tunables->values[one]);
        if (tuff__config_has(candidate, one) &&
            (!tuff__config_has(used_tunables, one) || used_tunables->values[one] == candidate->values[one]))
            tuff__config_unset(candidate, one);
    }
}

static uint64_t add_candidate(recorder *self, const tune_config *candidate, const candidate_info *made, bool drawn)
{
    const uint64_t program = made->program ? made->program : 1;
    entry one = {
        .config = *candidate, .program = program, .group_items = made->group_items, .cost = made->cost, .drawn = drawn};
    trim(self, &one.config, &made->used_tunables);
    entry *same = find_program(self, program);
    if (same)
        same->drawn = same->drawn || drawn;
    if (!same && !GROW(self->all, self->count, self->capacity)) {
        (void)fail(self, TUFF_E_OOM_HOST);
        return 0;
    }
    if (!same)
        self->all[self->count++] = one;
    return program;
}

/* Lowers a candidate and appends it to the waiting ones if its program is new. Returns its program; 0 if it cannot be
   lowered. */
static uint64_t offer(recorder *self, const tune_config *candidate, bool drawn)
{
    const uint64_t hash = tuff__config_hash(candidate);
    const seen_choice *before = find_seen(self, hash);
    candidate_info made = {0};
    if (before)
        return before->program;
    const tune_evaluation result = self->evaluator.lower(self->evaluator.state, candidate, &made);
    if (result == EVALUATION_FAILED || result == EVALUATION_LOST)
        (void)fail(self, evaluator_status());
    self->counts->not_lowered += result != EVALUATION_GOOD;
    const uint64_t program = result == EVALUATION_GOOD ? add_candidate(self, candidate, &made, drawn) : 0;
    return remember(self, hash, program) ? program : 0;
}

static bool compile(recorder *self, entry *one, int slot)
{
    one->slot = slot;
    one->is_live = false;
    const search_candidate candidate = {one->config, one->program, one->group_items, slot};
    one->result = self->evaluator.compile(self->evaluator.state, &candidate);
    if (one->result == EVALUATION_FAILED || one->result == EVALUATION_LOST)
        return fail(self, evaluator_status());
    one->is_live = one->result == EVALUATION_GOOD;
    return one->is_live;
}

static void release(recorder *self, entry *one)
{
    const search_candidate candidate = {one->config, one->program, one->group_items, one->slot};
    if (one->is_live)
        self->evaluator.release(self->evaluator.state, &candidate);
    one->is_live = false;
}

/* Whether the evaluation is GOOD. Otherwise releases the candidate, and if the evaluator itself failed, ends the
   recording. */
static bool accept(recorder *self, entry *one, tune_evaluation result)
{
    if (result == EVALUATION_GOOD)
        return true;
    one->result = result;
    release(self, one);
    if (result == EVALUATION_FAILED || result == EVALUATION_LOST)
        (void)fail(self, evaluator_status());
    return false;
}

static bool sample(recorder *self, entry *one, uint64_t *time)
{
    const search_candidate candidate = {one->config, one->program, one->group_items, one->slot};
    tune_evaluation result = self->evaluator.sample(self->evaluator.state, &candidate, 1, 0, time);
    if (result == EVALUATION_GOOD && !*time)
        result = EVALUATION_TIMER;
    return accept(self, one, result);
}

static bool verify(recorder *self, entry *one)
{
    const search_candidate candidate = {one->config, one->program, one->group_items, one->slot};
    return accept(self, one, self->evaluator.verify(self->evaluator.state, &candidate, false));
}

static void note_run(runs *self, uint64_t time)
{
    if (self->count < MAX_RUNS)
        self->times[self->count++] = time;
}

/* Copies all times but the first to out in ascending order. Returns their number. */
static int sort_runs(const runs *self, uint64_t *out)
{
    int count = 0;
    for (int i = 1; i < self->count; i++) {
        int at = count++;
        for (; at > 0 && out[at - 1] > self->times[i]; at--)
            out[at] = out[at - 1];
        out[at] = self->times[i];
    }
    return count;
}

/* Copies the first time and the middle ones of the others, in their original order. Returns their number. */
static int select_times(const runs *self, int most, uint64_t *out)
{
    uint64_t sorted[MAX_RUNS] = {0};
    const int count = sort_runs(self, sorted), wanted = most - 1 < count ? most - 1 : count;
    const int low = (count - wanted) / 2;
    int kept = 0;
    for (int i = 0; i < self->count && kept < most; i++)
        if (i == 0 || (self->times[i] >= sorted[low] && self->times[i] <= sorted[low + wanted - 1]))
            out[kept++] = self->times[i];
    return kept;
}

/* Compiles the default and measures the reference time. */
static bool begin_default(recorder *self)
{
    entry *defaults = &self->all[0];
    uint64_t time;
    if (!compile(self, defaults, 0))
        return false;
    for (int i = 0; i <= RUNS_PER_TIME * self->settings.samples; i++) {
        if (!sample(self, defaults, &time) || (i == 0 && !verify(self, defaults)))
            return false;
        note_run(&defaults->raw, time);
    }
    if (!defaults->count)
        defaults->count = select_times(&defaults->raw, self->settings.samples, defaults->times);
    self->reference = defaults->median = recording_median(defaults->times, defaults->count);
    return true;
}

static bool is_slow(const recorder *self, const entry *one)
{
    return one->raw.times[one->raw.count - 1] > SLOW * self->reference;
}

static void run_round(recorder *self, entry **batch, int count, int round)
{
    for (int i = 0; i < count; i++) {
        entry *one = batch[(i + round) % count];
        one->pending = 0;
        if (one->is_live && (one->raw.count < FEW_RUNS || !is_slow(self, one)))
            (void)sample(self, one, &one->pending);
    }
}

static uint64_t scaled(const recorder *self, uint64_t time, double default_time)
{
    return (uint64_t)((double)time * (double)self->reference / default_time + 0.5);
}

static void compile_batch(recorder *self, entry **batch, int count)
{
    for (int i = 0; i < count; i++)
        batch[i]->raw.count = 0;
    for (int i = 0; i < count && (i == 0 || has_time(self)); i++) {
        entry *one = batch[i];
        uint64_t time, default_time;
        if (!compile(self, one, i + 1) || !sample(self, one, &time))
            continue;
        if (!sample(self, &self->all[0], &default_time)) {
            (void)fail(self, TUFF_E_NUMERIC);
            return;
        }
        note_run(&one->raw, scaled(self, time, (double)default_time));
        if (!is_slow(self, one) && !verify(self, one))
            one->raw.count = 0;
    }
}

/* Stores the times of the batch; a candidate for which there was no time keeps its earlier ones. */
static void finish_entry(const recorder *self, entry *one)
{
    if (one->result == EVALUATION_GOOD && one->raw.count < 2)
        return;
    one->count = one->result == EVALUATION_GOOD ? select_times(&one->raw, self->settings.samples, one->times) : 0;
    one->median = recording_median(one->times, one->count);
}

/* Runs each candidate once, between two runs of the default, whose mean is the default's time in this round. The
   default also has a run of its own that is recorded. */
static bool time_round(recorder *self, entry **batch, int count, int round, runs *default_times)
{
    entry *defaults = &self->all[0];
    uint64_t before, between, behind;
    if (!sample(self, defaults, &before) || !sample(self, defaults, &between))
        return fail(self, TUFF_E_NUMERIC);
    run_round(self, batch, count, round);
    if (self->status || !sample(self, defaults, &behind))
        return fail(self, TUFF_E_NUMERIC);
    const double default_time = ((double)before + (double)behind) / 2;
    note_run(default_times, (uint64_t)default_time);
    note_run(&defaults->raw, scaled(self, between, default_time));
    for (int i = 0; i < count; i++)
        if (batch[i]->is_live && batch[i]->pending)
            note_run(&batch[i]->raw, scaled(self, batch[i]->pending, default_time));
    return true;
}

static void note_drift(recorder *self, const runs *default_times)
{
    uint64_t sorted[MAX_RUNS] = {0};
    const int count = sort_runs(default_times, sorted);
    const double drift = count > 0 ? (double)sorted[count / 2] / (double)self->reference : 1;
    self->counts->drift = drift > self->counts->drift ? drift : self->counts->drift;
}

/* Compiles, verifies and times up to BATCH candidates. Returns false if the default or the evaluator fails. */
static bool measure_batch(recorder *self, entry **batch, int count, int runs_per_time)
{
    runs default_times = {.count = 0};
    self->all[0].raw.times[0] = self->all[0].times[0];
    self->all[0].raw.count = 1;
    compile_batch(self, batch, count);
    const uint64_t begin = tuff__nanoseconds(), most = (uint64_t)MAX_SECONDS * 1000000000;
    for (int round = 0; round < runs_per_time * self->settings.samples && !self->status; round++)
        if ((round >= self->settings.samples && tuff__nanoseconds() - begin > most) ||
            !time_round(self, batch, count, round, &default_times))
            break;
    for (int i = 0; i < count; i++) {
        release(self, batch[i]);
        finish_entry(self, batch[i]);
        self->counts->rejected += batch[i]->result != EVALUATION_GOOD;
    }
    finish_entry(self, &self->all[0]);
    note_drift(self, &default_times);
    return !self->status;
}

/* Measures the waiting candidates; drops those for which there is no time. */
static void measure_waiting(recorder *self)
{
    while (self->measured < self->count && has_time(self)) {
        entry *batch[BATCH];
        const int left = self->count - self->measured, count = left < BATCH ? left : BATCH;
        for (int i = 0; i < count; i++)
            batch[i] = &self->all[self->measured + i];
        if (!measure_batch(self, batch, count, RUNS_PER_TIME))
            return;
        self->measured += count;
        self->counts->added += count;
    }
    self->count = self->measured;
}

/* Offers the neighbours in all directions. Like a search, steps over points that have no kernel or the same one. */
static void offer_neighbours(recorder *self, int centre)
{
    self->all[centre].is_expanded = true;
    for (int move = 0; move < tuff__space_moves(&self->space); move++) {
        tune_config candidate = self->all[centre].config;
        uint64_t program = 0;
        while ((!program || program == self->all[centre].program) && !self->status &&
               tuff__space_move(&self->space, move, &candidate))
            program = offer(self, &candidate, false);
    }
}

static void offer_random(recorder *self, int until)
{
    for (int draws = 0; draws < DRAWS && self->count < until && !self->status; draws++) {
        const int before = self->count;
        tune_config candidate;
        tuff__space_random(&self->space, &self->random, &candidate);
        (void)offer(self, &candidate, true);
        draws = self->count > before ? 0 : draws;
    }
}

static bool is_full(const recorder *self)
{
    return self->measured >= self->settings.points || !has_time(self);
}

/* Measures the waiting candidates, up to the maximum number of points. */
static void measure_allowed(recorder *self)
{
    const int most = self->settings.points > self->measured ? self->settings.points : self->measured;
    self->count = self->count < most ? self->count : most;
    measure_waiting(self);
}

/* Returns the best candidate that is not expanded yet; -1 if there is none. */
static int best_centre(const recorder *self)
{
    int best = -1;
    for (int i = 0; i < self->measured; i++) {
        const entry *one = &self->all[i];
        if (one->result == EVALUATION_GOOD && !one->is_expanded && one->count > 0 &&
            (best < 0 || one->median < self->all[best].median))
            best = i;
    }
    return best;
}

static void climb(recorder *self)
{
    int centre;
    while (!is_full(self) && (centre = best_centre(self)) >= 0) {
        offer_neighbours(self, centre);
        measure_allowed(self);
    }
}

/* Returns the best candidate that is not in taken; NULL if all others are too slow to matter. */
static entry *next_best(const recorder *self, entry *const *taken, int count)
{
    entry *best = NULL;
    for (int i = 1; i < self->measured; i++) {
        entry *one = &self->all[i];
        bool is_free = one->result == EVALUATION_GOOD && one->count > 1 && one->median < 2 * self->reference;
        for (int k = 0; k < count; k++)
            is_free = is_free && taken[k] != one;
        if (is_free && (!best || one->median < best->median))
            best = one;
    }
    return best;
}

/* Measures the best candidates again, and then the new best ones, because the least of many noisy medians is too
   low. */
static void measure_best(recorder *self)
{
    bool is_open = true;
    for (int race = 0; race < RACES && is_open && !self->status; race++) {
        entry *batch[BATCH], *best;
        int count = 0;
        is_open = false;
        while (count < RACERS && (best = next_best(self, batch, count)) != NULL) {
            batch[count++] = best;
            is_open = is_open || (count <= RACERS / 3 && !best->is_raced);
        }
        for (int i = 0; i < count; i++)
            batch[i]->is_raced = true;
        if (is_open)
            (void)measure_batch(self, batch, count, BEST_RUNS_PER_TIME);
    }
}

static void measure_wanted(recorder *self)
{
    for (int i = 0; i < self->settings.extra_count && !self->status; i++) {
        tune_config candidate = self->settings.extra[i];
        if (offer(self, &candidate, false))
            continue;
        tuff__space_fit(&self->space, &candidate);
        (void)offer(self, &candidate, false);
    }
    measure_waiting(self);
}

static void measure_space(recorder *self)
{
    offer_neighbours(self, 0);
    offer_random(self, self->settings.points * RANDOM_PERCENT / 100);
    measure_allowed(self);
    climb(self);
    offer_random(self, self->settings.points);
    measure_allowed(self);
}

static void run(recorder *self)
{
    const tune_config defaults = {0};
    if (!offer(self, &defaults, true) || self->status || !begin_default(self)) {
        (void)fail(self, TUFF_E_NUMERIC);
        return;
    }
    if (self->measured == 0)
        self->measured = self->counts->added = 1;
    measure_wanted(self);
    if (!is_full(self))
        measure_space(self);
    measure_best(self);
}

/* Lowers the candidates of the recording to get their current programs; drops those that can no longer be lowered. */
static void load_known(recorder *self)
{
    for (int i = 0; i < self->into->count && !self->status; i++) {
        const recorded_point *one = &self->into->points[i];
        const int before = self->count;
        (void)offer(self, &one->config, one->drawn);
        if (self->count == before)
            continue;
        entry *made = &self->all[before];
        made->result = one->result;
        made->count = one->count < RECORDER_SAMPLES ? one->count : RECORDER_SAMPLES;
        for (int k = 0; k < made->count; k++)
            made->times[k] = one->nanoseconds[k];
        made->median = recording_median(made->times, made->count);
        self->counts->known++;
    }
    self->measured = self->count;
    if (self->count && (tuff__config_count(&self->all[0].config) || self->all[0].count < 2))
        (void)fail(self,
                   FAIL(TUFF_E_FORMAT,
                        "record: the first candidate of the recording is not the default, or has fewer than 2 times"));
}

/* Numbers the programs from 1, because their hashes are long. */
static tuff_status save_recording(const recorder *self)
{
    recording out;
    TRY(recording_begin(&out, self->into->name, self->into->device, &self->defaults, self->into->roofline));
    tuff_status status = TUFF_OK;
    for (int i = 0; i < self->measured; i++) {
        const entry *one = &self->all[i];
        if (!status && (one->result != EVALUATION_GOOD || one->count > 1))
            status = recording_add(&out, &(recorded_point){.config = one->config,
                                                           .program = (uint64_t)i + 1,
                                                           .group_items = one->group_items,
                                                           .cost = one->cost,
                                                           .result = one->result,
                                                           .drawn = one->drawn,
                                                           .count = one->result == EVALUATION_GOOD ? one->count : 0,
                                                           .nanoseconds = one->times});
    }
    if (status) {
        recording_free(&out);
        return status;
    }
    recording_free(self->into);
    *self->into = out;
    return TUFF_OK;
}

tuff_status recorder_run(const evaluator *evaluator_used, const recorder_settings *settings, recording *into,
                         recorder_counts *counts)
{
    recorder self = {.evaluator = *evaluator_used,
                     .settings = *settings,
                     .into = into,
                     .counts = counts,
                     .random = {settings->seed}};
    *counts = (recorder_counts){.drift = 1};
    if (settings->samples < 2 || settings->samples > RECORDER_SAMPLES)
        return FAIL(TUFF_E_USAGE, "record: samples must be from 2 to %d", RECORDER_SAMPLES);
    self.begin = tuff__nanoseconds();
    load_known(&self);
    if (!self.status)
        run(&self);
    for (int i = 0; i < self.count; i++)
        release(&self, &self.all[i]);
    if (!self.status)
        self.status = save_recording(&self);
    tuff__free(self.all);
    tuff__free(self.seen);
    return self.status;
}
