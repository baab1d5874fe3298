/* How a graph's tuning time is shared among keys, alone and with searches of simulated devices that share a clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_memory.h"
#include "fault_evaluator.h"
#include "search/budget.h"

#define SECOND UINT64_C(1000000000)

static tune_budget *make(uint64_t whole, int keys)
{
    tune_budget *self;
    assert_int_equal(tuff__budget_create(whole, keys, &self), TUFF_OK);
    return self;
}

static void the_heaviest_goes_first(void **state)
{
    (void)state;
    tune_budget *self = make(60 * SECOND, 4);
    assert_int_equal(tuff__budget_next(self), -1);
    tuff__budget_weigh(self, 0, 1, 1000000);
    tuff__budget_weigh(self, 1, 3, 1000000);
    tuff__budget_weigh(self, 2, 1, 2000000);
    tuff__budget_weigh(self, 3, 1, 20000);
    assert_true(tuff__budget_is_minor(self, 3));
    assert_false(tuff__budget_is_minor(self, 0));
    assert_int_equal(tuff__budget_next(self), 1);
    /* Four candidates later its expected gain is a fifth of that. */
    tuff__budget_note_slice(self, 1, SECOND, 5, 1000000, false);
    assert_int_equal(tuff__budget_next(self), 2);
    tuff__budget_note_slice(self, 2, 2 * SECOND, 5, 2000000, false);
    assert_int_equal(tuff__budget_next(self), 0);
    tuff__budget_note_slice(self, 0, 3 * SECOND, 5, 1000000, false);
    assert_int_equal(tuff__budget_next(self), 1);
    /* Recent gains count more: 2 x (0.2 x 0.2 + 0.8 x 0.6 / 7) against 3 x 0.8 / 25 and 0.8 / 5. */
    tuff__budget_note_slice(self, 1, 4 * SECOND, 25, 1000000, false);
    tuff__budget_note_slice(self, 2, 5 * SECOND, 7, 1200000, false);
    assert_int_equal(tuff__budget_next(self), 2);
    /* That ends with the gains: 2 x 0.8 x 0.6 / 9. */
    tuff__budget_note_slice(self, 2, 6 * SECOND, 9, 1200000, false);
    assert_int_equal(tuff__budget_next(self), 0);
    tuff__budget_note_slice(self, 0, 7 * SECOND, 6, 900000, true);
    tuff__budget_note_slice(self, 2, 7 * SECOND, 10, 900000, true);
    assert_int_equal(tuff__budget_next(self), 1);
    tuff__budget_note_slice(self, 1, 8 * SECOND, 26, 900000, true);
    assert_int_equal(tuff__budget_next(self), -1);
    tuff__budget_destroy(self);
}

/* Until they are timed, keys are weighted by their predicted time, scaled by that of the timed ones. */
static void what_is_expected_to_be_heavy_is_timed_first(void **state)
{
    (void)state;
    tune_budget *self = make(60 * SECOND, 5);
    const double expected[] = {2, 8, 4, 0.01, 6};
    for (int i = 0; i < 5; i++)
        tuff__budget_expect(self, i, expected[i]);
    assert_true(tuff__budget_is_minor(self, 3));
    assert_false(tuff__budget_is_minor(self, 0));
    assert_int_equal(tuff__budget_next(self), 1);
    tuff__budget_weigh(self, 1, 1, 8000000);
    tuff__budget_note_slice(self, 1, SECOND, 1, 8000000, false);
    /* Its candidates come before lighter keys' defaults: 0.8 x 8 against 0.8 x 6. */
    assert_int_equal(tuff__budget_next(self), 1);
    tuff__budget_note_slice(self, 1, 2 * SECOND, 5, 8000000, false);
    assert_int_equal(tuff__budget_next(self), 4);
    /* A key that cannot run gets no more time, and is ignored. */
    tuff__budget_note_slice(self, 4, 3 * SECOND, 0, 0, true);
    assert_int_equal(tuff__budget_next(self), 2);
    /* A quarter of the prediction: 0.8 x 1 against 0.8 x 8 / 5, and then 0.8 x 1 / 5 against 9 / 12 x 0.8 x 2. */
    tuff__budget_weigh(self, 2, 1, 1000000);
    tuff__budget_note_slice(self, 2, 4 * SECOND, 1, 1000000, false);
    assert_int_equal(tuff__budget_next(self), 1);
    tuff__budget_note_slice(self, 1, 5 * SECOND, 9, 8000000, true);
    assert_int_equal(tuff__budget_next(self), 0);
    tuff__budget_weigh(self, 0, 1, 1500000);
    tuff__budget_note_slice(self, 0, 6 * SECOND, 1, 1500000, true);
    tuff__budget_note_slice(self, 2, 7 * SECOND, 5, 1000000, true);
    /* The light key's default comes last, and is not followed by a climb. */
    assert_int_equal(tuff__budget_next(self), 3);
    tuff__budget_weigh(self, 3, 1, 10000);
    tuff__budget_note_slice(self, 3, 8 * SECOND, 1, 10000, false);
    assert_int_equal(tuff__budget_next(self), -1);
    tuff__budget_destroy(self);
}

static void time_is_kept_for_the_races(void **state)
{
    (void)state;
    tune_budget *self = make(10 * SECOND, 2);
    assert_true(tuff__budget_race_begin(self) == 10 * SECOND);
    tuff__budget_weigh(self, 0, 2, 1000000);
    const uint64_t one = tuff__budget_race_begin(self);
    assert_in_range(one, 9 * SECOND + SECOND / 2, 10 * SECOND - SECOND / 10);
    tuff__budget_weigh(self, 1, 1, 1000000);
    assert_true(10 * SECOND - tuff__budget_race_begin(self) == 2 * (10 * SECOND - one));
    tuff__budget_note_slice(self, 0, tuff__budget_race_begin(self) - 1, 9, 1000000, false);
    assert_true(tuff__budget_next(self) >= 0);
    tuff__budget_note_slice(self, 0, tuff__budget_race_begin(self), 10, 1000000, false);
    assert_int_equal(tuff__budget_next(self), -1);
    assert_int_equal(tuff__budget_next_race(self), 0);
    /* Races take three times as long as predicted: the remaining time is for the other key. */
    const uint64_t believed = 10 * SECOND - one;
    tuff__budget_note_race(self, 0, 9 * SECOND, 3 * believed);
    assert_in_range(10 * SECOND - tuff__budget_race_begin(self), 3 * believed - 9, 3 * believed + 9);
    assert_int_equal(tuff__budget_next_race(self), 1);
    tuff__budget_note_race(self, 1, 9 * SECOND, 1);
    assert_int_equal(tuff__budget_next_race(self), -1);
    tuff__budget_destroy(self);
    /* Long kernels in a short time: half of it is for the search. */
    self = make(2 * SECOND, 1);
    tuff__budget_weigh(self, 0, 1, SECOND);
    assert_true(tuff__budget_race_begin(self) == SECOND);
    tuff__budget_destroy(self);
}

static void without_memory_there_is_none(void **state)
{
    (void)state;
    for (int failing = 1; failing <= 2; failing++) {
        tune_budget *self;
        failing_memory_begin(failing, true);
        assert_int_equal(tuff__budget_create(SECOND, 3, &self), TUFF_E_OOM_HOST);
        assert_null(self);
        assert_true(failing_memory_end());
    }
    tuff__budget_destroy(NULL);
}

enum { KEYS = 14 };

typedef struct graph {
    fault_device devices[KEYS];
    evaluator evaluators[KEYS];
    search *searches[KEYS];
    search_result results[KEYS];
    uint64_t calls[KEYS], clock, whole;
    int slices[KEYS];
} graph;

/* Each device has its own clock: time that passes on one passes for all. */
static void pass(graph *self, int key, uint64_t before)
{
    self->clock += self->devices[key].clock - before;
}

/* Limits the device's budget. Returns its clock. */
static uint64_t lend(graph *self, int key, uint64_t until)
{
    fault_device *device = &self->devices[key];
    device->budget = device->clock + (until > self->clock ? until - self->clock : 1);
    return device->clock;
}

static void begin_graph(graph *self, uint64_t whole, uint64_t seed)
{
    *self = (graph){.whole = whole};
    rng from = {seed};
    for (int i = 0; i < KEYS; i++) {
        self->devices[i] = (fault_device){
            .seed = seed * 100 + (uint64_t)i, .scatter = 0.01, .compile_cost = 60000000, .deadline = 2 * SECOND};
        self->devices[i].share[FAULT_HANGS] = 0.02;
        self->devices[i].share[FAULT_WRONG] = 0.05;
        self->calls[i] = i < 3 ? 1 : UINT64_C(1) << (1 + tuff__rng_below(&from, 9));
        self->evaluators[i] = fault_begin(&self->devices[i]);
        const search_settings settings = {.seed = seed + (uint64_t)i, .patience = 48};
        assert_int_equal(tuff__search_begin(&self->evaluators[i], &settings, &self->searches[i]), TUFF_OK);
    }
}

static void spend(graph *self, tune_budget *on, int key, int compiles, uint64_t until)
{
    const uint64_t before = lend(self, key, until);
    assert_int_equal(tuff__search_step(self->searches[key], compiles), TUFF_OK);
    pass(self, key, before);
    const search_progress now = tuff__search_progress(self->searches[key]);
    if (on && self->slices[key] == 0 && now.default_nanoseconds > 0)
        tuff__budget_weigh(on, key, self->calls[key], now.default_nanoseconds);
    if (on)
        tuff__budget_note_slice(on, key, self->clock, now.tried, now.best_nanoseconds, now.end != SEARCH_GOES_ON);
    self->slices[key]++;
}

static void finish(graph *self, tune_budget *on, int key)
{
    const uint64_t before = lend(self, key, self->whole), clock = self->clock;
    assert_int_equal(tuff__search_finish(self->searches[key], &self->results[key]), TUFF_OK);
    pass(self, key, before);
    if (on)
        tuff__budget_note_race(on, key, self->clock, self->clock - clock);
    tuff__search_end(self->searches[key]);
    self->searches[key] = NULL;
    assert_int_equal(self->devices[key].broken, 0);
}

/* Ends the searches of keys that were not raced. */
static void end_searches(graph *self)
{
    for (int i = 0; i < KEYS; i++)
        tuff__search_end(self->searches[i]);
}

/* Returns the graph's time with the winners relative to that with the defaults. */
static double time_of(const graph *self)
{
    static const tune_config nothing_set;
    double winners = 0, defaults = 0;
    for (int i = 0; i < KEYS; i++) {
        const fault_device *device = &self->devices[i];
        const uint64_t now = fault_time(device, &self->results[i].winner), before = fault_time(device, &nothing_set);
        assert_true(now <= before);
        assert_int_equal(fault_of(device, &self->results[i].winner), SOUND);
        winners += (double)self->calls[i] * (double)now;
        defaults += (double)self->calls[i] * (double)before;
    }
    return winners / defaults;
}

static double tune_shared(graph *self, uint64_t whole, uint64_t seed)
{
    begin_graph(self, whole, seed);
    tune_budget *on = make(whole, KEYS);
    for (int i = 0; i < KEYS; i++)
        spend(self, on, i, 1, whole);
    for (int key; (key = tuff__budget_next(on)) >= 0;) {
        assert_false(tuff__budget_is_minor(on, key));
        spend(self, on, key, 4, tuff__budget_race_begin(on));
    }
    for (int key; (key = tuff__budget_next_race(on)) >= 0;)
        finish(self, on, key);
    end_searches(self);
    tuff__budget_destroy(on);
    return time_of(self);
}

/* Tunes keys as their turn comes, with predictions that are off by a factor of two or more. */
static double tune_expected(graph *self, uint64_t whole, uint64_t seed)
{
    static const tune_config defaults;
    begin_graph(self, whole, seed);
    rng from = {seed + 1000};
    tune_budget *on = make(whole, KEYS);
    for (int i = 0; i < KEYS; i++) {
        const double error = 0.4 + 0.2 * tuff__rng_below(&from, 11);
        const double weight = (double)self->calls[i] * (double)fault_time(&self->devices[i], &defaults);
        tuff__budget_expect(on, i, error * weight);
    }
    for (int key; (key = tuff__budget_next(on)) >= 0;)
        spend(self, on, key, self->slices[key] ? 4 : 1, tuff__budget_race_begin(on));
    for (int key; (key = tuff__budget_next_race(on)) >= 0;)
        finish(self, on, key);
    end_searches(self);
    tuff__budget_destroy(on);
    return time_of(self);
}

/* Gives all keys the same time, whatever their weight. */
static double tune_evenly(graph *self, uint64_t whole, uint64_t seed)
{
    begin_graph(self, whole, seed);
    const uint64_t until = whole - whole / 6;
    for (int round = 0; self->clock < until && round < 1000; round++)
        for (int i = 0; i < KEYS && self->clock < until; i++)
            spend(self, NULL, i, round ? 4 : 1, until);
    for (int i = 0; i < KEYS; i++)
        finish(self, NULL, i);
    return time_of(self);
}

static void shares_beat_even_ones_and_keep_to_the_time(void **state)
{
    (void)state;
    static graph shared, even;
    for (uint64_t seconds = 10; seconds <= 60; seconds += 25) {
        double sum_shared = 0, sum_even = 0;
        int heavy = 0, light = 0, final = 0;
        for (uint64_t seed = 1; seed <= 40; seed++) {
            const uint64_t whole = seconds * SECOND;
            sum_shared += tune_shared(&shared, whole, seed) / 40;
            sum_even += tune_evenly(&even, whole, seed) / 40;
            assert_true(shared.clock <= whole + SECOND);
            for (int i = 0; i < KEYS; i++) {
                heavy += shared.calls[i] >= 128 ? shared.slices[i] - 1 : 0;
                light += shared.calls[i] <= 4 ? shared.slices[i] - 1 : 0;
                final += shared.results[i].is_final;
            }
        }
        print_message(
            "%2d s: %.3f of the defaults' time, %.3f with even shares; %.1f %% of keys were raced to the end\n",
            (int)seconds, sum_shared, sum_even, 100.0 * final / (40 * KEYS));
        assert_true(sum_shared < sum_even);
        /* There are fewer heavy keys; with enough time their searches end, and the others get their turn. */
        assert_true(heavy > (seconds == 10 ? 10 : 2) * light);
        assert_true(final > 0.9 * 40 * KEYS);
    }
}

/* Compares the graph's time with keys ordered by prediction, and with all defaults timed first. */
static void heavy_keys_have_a_short_time(void **state)
{
    (void)state;
    static graph expected, shared;
    for (uint64_t seconds = 1; seconds <= 27; seconds *= 3) {
        double sum_expected = 0, sum_shared = 0;
        for (uint64_t seed = 1; seed <= 40; seed++) {
            const uint64_t whole = seconds * SECOND;
            sum_expected += tune_expected(&expected, whole, seed) / 40;
            sum_shared += tune_shared(&shared, whole, seed) / 40;
            assert_true(expected.clock <= whole + SECOND);
        }
        print_message("%2d s: %.3f of the defaults' time, %.3f if all defaults are timed first\n", (int)seconds,
                      sum_expected, sum_shared);
        assert_true(sum_expected < sum_shared + (seconds <= 3 ? -0.02 : 0.005));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heaviest_goes_first),
        cmocka_unit_test(what_is_expected_to_be_heavy_is_timed_first),
        cmocka_unit_test(time_is_kept_for_the_races),
        cmocka_unit_test(without_memory_there_is_none),
        cmocka_unit_test(shares_beat_even_ones_and_keep_to_the_time),
        cmocka_unit_test(heavy_keys_have_a_short_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
