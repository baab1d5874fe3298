/* Searches on a device whose programs are wrong, racy, incomplete, out of bounds, hanging or crashing, and faster for
   it; whose clocks drift and whose timers are wrong; and that is lost, or runs out of time, at any moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fault_evaluator.h"
#include "synthetic_space.h"
#include "bench/recorder/replay.h"

static const tune_config defaults;

enum { MAX_REPORTED = 4096 };

static struct {
    tune_config configs[MAX_REPORTED];
    tune_evaluation why[MAX_REPORTED];
    int count;
} reported;

static void report(void *user, const tune_config *config, tune_evaluation why)
{
    (void)user;
    assert_true(reported.count < MAX_REPORTED);
    assert_true(tuff_error()[0] != 0);
    for (int i = 0; i < reported.count; i++)
        assert_false(tuff__config_equal(&reported.configs[i], config));
    reported.configs[reported.count] = *config;
    reported.why[reported.count++] = why;
}

static search_result run(fault_device *device, const search_settings *settings)
{
    const evaluator by = fault_begin(device);
    search *self;
    search_result out;
    search_settings varied = *settings;
    varied.rejected = report;
    varied.prefetch = (int)(settings->seed % 4);
    reported.count = 0;
    assert_int_equal(tuff__search_begin(&by, &varied, &self), TUFF_OK);
    assert_int_equal(tuff__search_step(self, 1 << 20), TUFF_OK);
    const tune_config best = *tuff__search_progress(self).best;
    assert_int_equal(tuff__search_finish(self, &out), TUFF_OK);
    tuff__search_end(self);
    assert_int_equal(device->broken, 0);
    assert_int_equal(device->live_count + device->expected, 0);
    /* The best so far may be wrong for other shapes only; the winner must be right for all. */
    const fault has = fault_of(device, &best);
    assert_true(has == SOUND || has == FAULT_RAGGED || tuff__config_equal(&best, &defaults));
    return out;
}

static void assert_usable(const fault_device *device, const search_result *found)
{
    assert_int_equal(fault_of(device, &found->winner), SOUND);
    assert_true(fault_time(device, &found->winner) <= fault_time(device, &defaults));
}

static const struct {
    fault has;
    tune_evaluation why;
} kinds[] = {{FAULT_WRONG, EVALUATION_WRONG},   {FAULT_RACES, EVALUATION_RACE},    {FAULT_PARTIAL, EVALUATION_WRONG},
             {FAULT_OUTSIDE, EVALUATION_WRONG}, {FAULT_RAGGED, EVALUATION_WRONG},  {FAULT_HANGS, EVALUATION_HANG},
             {FAULT_CRASHES, EVALUATION_CRASH}, {FAULT_LIMITS, EVALUATION_LIMITS}, {FAULT_COMPILE, EVALUATION_COMPILE},
             {FAULT_ZERO, EVALUATION_TIMER}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Three in ten programs have the fault, and take a third of the time. */
static void no_fault_wins(void **state)
{
    (void)state;
    int64_t sound = 0, faulty = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t found_so = 0;
        for (uint64_t seed = 1; seed <= 40; seed++) {
            fault_device device = {.seed = seed, .faulty_speed = 0.33, .scatter = 0.01};
            device.share[kinds[kind].has] = 0.3;
            const search_result found = run(&device, &(search_settings){.seed = seed, .max_compiles = 60});
            assert_usable(&device, &found);
            for (int i = 0; i < found.runner_up_count; i++) {
                const fault has = fault_of(&device, &found.runners_up[i]);
                assert_true(has == SOUND || has == FAULT_RAGGED);
            }
            for (int i = 0; i < EVALUATION_COUNT; i++)
                assert_true(found.counts.rejected[i] == 0 || i == (int)kinds[kind].why || i == EVALUATION_SLOW ||
                            i == EVALUATION_INVALID);
            for (int i = 0; i < reported.count; i++) {
                assert_int_equal(reported.why[i], kinds[kind].why);
                assert_int_equal(fault_of(&device, &reported.configs[i]), kinds[kind].has);
            }
            found_so += found.counts.rejected[kinds[kind].why];
            assert_int_equal(device.passed_faulty, 0);
            assert_int_equal(device.refused_sound, 0);
            sound += device.verified_sound;
            faulty += device.verified_faulty;
        }
        assert_true(found_so > 40);
    }
    print_message("verified: %lld faulty, all refused; %lld sound, none refused\n", (long long)faulty,
                  (long long)sound);
    assert_true(sound > 1000 && faulty > 1000);
}

static void all_faults_at_once_leave_a_result(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        fault_device device = {.seed = seed, .faulty_speed = 0.33, .scatter = 0.02};
        for (int i = 0; i < KINDS; i++)
            device.share[kinds[i].has] = 0.08;
        const search_result found = run(&device, &(search_settings){.seed = seed, .max_compiles = 80, .patience = -1});
        assert_usable(&device, &found);
        assert_true(found.is_final);
        assert_true(found.nanoseconds[1] > 0);
    }
}

/* If the device does not recover, the result is the best found so far. */
static void a_lost_device_leaves_a_result(void **state)
{
    (void)state;
    static const fault ends[] = {FAULT_LOSES, FAULT_HANGS, FAULT_CRASHES};
    for (int i = 0; i < 3; i++) {
        int ended = 0;
        for (uint64_t seed = 1; seed <= 60; seed++) {
            fault_device device = {.seed = seed, .faulty_speed = 0.33, .no_hang_recovery = true};
            device.share[ends[i]] = 0.04;
            const search_result found =
                run(&device, &(search_settings){.seed = seed, .patience = -1, .max_compiles = 100});
            assert_usable(&device, &found);
            const bool is_lost = found.end == (ends[i] == FAULT_LOSES ? SEARCH_LOST : SEARCH_STOPPED);
            assert_true(is_lost == device.is_down);
            assert_true(is_lost != found.is_final);
            assert_int_equal(reported.count, is_lost);
            assert_true(!is_lost || fault_of(&device, &reported.configs[0]) == ends[i]);
            ended += is_lost;
        }
        assert_in_range(ended, 30, 60);
    }
}

/* If the default is faulty, nothing can be compared with it: it is the result, and must not be remembered. */
static void a_bad_default_ends_it(void **state)
{
    (void)state;
    for (int i = FAULT_WRONG; i < FAULT_COUNT; i++) {
        if (i == FAULT_RAGGED)
            continue;
        fault_device device = {.seed = 3, .default_fault = (fault)i};
        const search_result found = run(&device, &(search_settings){0});
        assert_int_equal(found.end, i == FAULT_LOSES ? SEARCH_LOST : SEARCH_UNUSABLE);
        assert_int_equal(tuff__config_count(&found.winner), 0);
        assert_int_equal(found.counts.compiled, 1);
        assert_false(found.is_final);
    }
}

static void hangs_do_not_overrun_the_budget(void **state)
{
    (void)state;
    int hangs = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        fault_device device = {.seed = seed,
                               .compile_cost = 60000000,
                               .deadline = 2000000000,
                               .budget = seed % 20 * 1000000000 + 500000000};
        device.share[FAULT_HANGS] = 0.1;
        const search_result found = run(&device, &(search_settings){.seed = seed, .patience = -1});
        assert_usable(&device, &found);
        const uint64_t over = device.clock > device.budget ? device.clock - device.budget : 0;
        assert_true(over <= 1000000000);
        hangs += device.hangs;
    }
    assert_true(hangs > 300);
}

/* The clock slows down by a third, or speeds up, at any moment. A gain holds in spite of it, since the default takes
   turns with the candidate; without one the race is repeated, and nothing slower than the default wins. */
static void a_step_of_the_clock_is_noticed(void **state)
{
    (void)state;
    int discarded = 0;
    for (int64_t at = 1; at <= 500; at++) {
        fault_device device = {.seed = 4, .scatter = 0.01, .step_at = at, .step_factor = at % 2 ? 1.33 : 0.7};
        const search_result found = run(&device, &(search_settings){.seed = (uint64_t)at, .max_compiles = 40});
        assert_usable(&device, &found);
        assert_true(found.is_final);
        device = (fault_device){.seed = 4,
                                .scatter = 0.01,
                                .step_at = at,
                                .step_factor = at % 2 ? 1.33 : 0.7,
                                .flatness = 1,
                                .others = 1.003};
        const search_result equal = run(&device, &(search_settings){.seed = (uint64_t)at, .max_compiles = 40});
        assert_usable(&device, &equal);
        assert_true(equal.is_final);
        discarded += equal.counts.discarded > 0;
    }
    print_message("%d of 500 races repeated\n", discarded);
    assert_in_range(discarded, 1, 250);
}

/* Everything takes longer from the first candidate on: this is detected, so that candidates are not taken for slow. */
static void a_slower_clock_hides_no_gain(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fault_device device = {.seed = seed, .scatter = 0.01, .step_at = 9, .step_factor = 2.2};
        const search_result found = run(&device, &(search_settings){.seed = seed, .max_compiles = 60, .patience = -1});
        assert_true((double)fault_time(&device, &found.winner) < 0.9 * (double)fault_time(&device, &defaults));
        assert_true(found.is_final);
    }
}

/* Also while clocks drift, a candidate may be faster in turns with the default. Without such a gain nothing is
   remembered. */
static void gains_are_found_while_clocks_drift(void **state)
{
    (void)state;
    int gains = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fault_device device = {.seed = seed, .scatter = 0.005, .drift = 0.02};
        search_result found = run(&device, &(search_settings){.seed = seed, .max_compiles = 30});
        assert_usable(&device, &found);
        gains += found.is_final;
        assert_true(found.is_final ? fault_time(&device, &found.winner) < fault_time(&device, &defaults)
                                   : found.counts.discarded == 2);
        device = (fault_device){.seed = seed, .scatter = 0.005, .drift = 0.02, .flatness = 1, .others = 1.003};
        found = run(&device, &(search_settings){.seed = seed, .max_compiles = 30});
        assert_false(found.is_final && tuff__config_count(&found.winner) > 0);
        /* A drift of a hundredth of that is not an error. */
        device = (fault_device){.seed = seed, .scatter = 0.005, .drift = 0.0002};
        found = run(&device, &(search_settings){.seed = seed, .max_compiles = 30});
        assert_usable(&device, &found);
        assert_true(found.is_final);
    }
    print_message("%d of 40 gains found\n", gains);
    assert_true(gains >= 35);
}

/* If a candidate seems faster than the device can be, its time is wrong. */
static void times_beyond_the_roof_are_not_believed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        fault_device device = {.seed = seed, .faulty_speed = 0.1};
        device.share[FAULT_RAGGED] = 0.3; /* right for this shape, and ten times as fast */
        const search_result found = run(&device, &(search_settings){.roofline = 900000, .max_compiles = 40});
        assert_true(found.counts.rejected[EVALUATION_TIMER] > 0);
        assert_true(found.nanoseconds[1] >= 450000);
        assert_int_equal(fault_of(&device, &found.winner), SOUND);
    }
}

/* Interrupted after any number of calls: the result is usable, and nothing leaks. */
static void it_can_be_interrupted_anywhere(void **state)
{
    (void)state;
    recording recorded;
    synthetic_space(2, 0, &recorded);
    const uint64_t before = recording_find(&recorded, &defaults)->median;
    int final = 0;
    for (int64_t calls = 1; calls <= 600; calls++) {
        replay device;
        evaluator by = replay_begin(&device, &recorded, (uint64_t)calls);
        device.max_calls = calls;
        search *self;
        search_result found;
        assert_int_equal(tuff__search_begin(&by, &(search_settings){.max_compiles = 30, .patience = -1}, &self),
                         TUFF_OK);
        assert_int_equal(tuff__search_step(self, 30), TUFF_OK);
        assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
        tuff__search_end(self);
        assert_true(recording_find(&recorded, &found.winner)->median <= before);
        assert_true(device.calls <= calls);
        assert_int_equal(found.end == SEARCH_STOPPED, !found.is_final);
        assert_int_equal(device.broken, 0);
        assert_int_equal(replay_live_count(&device), 0);
        final += found.is_final;
    }
    assert_in_range(final, 100, 500);
    recording_free(&recorded);
}

/* The search's time is up, but some is reserved for the race. */
static void a_stopped_search_is_raced_in_the_time_that_is_left(void **state)
{
    (void)state;
    fault_device device = {.seed = 5, .compile_cost = 50000000, .budget = 2000000000};
    const evaluator by = fault_begin(&device);
    search *self;
    search_result found;
    assert_int_equal(tuff__search_begin(&by, &(search_settings){.patience = -1}, &self), TUFF_OK);
    assert_int_equal(tuff__search_step(self, 1000), TUFF_OK);
    assert_int_equal(tuff__search_progress(self).end, SEARCH_STOPPED);
    device.budget += 1000000000;
    assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
    assert_true(found.is_final);
    assert_int_equal(found.end, SEARCH_STOPPED);
    assert_usable(&device, &found);
    tuff__search_end(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_fault_wins),
        cmocka_unit_test(all_faults_at_once_leave_a_result),
        cmocka_unit_test(a_lost_device_leaves_a_result),
        cmocka_unit_test(a_bad_default_ends_it),
        cmocka_unit_test(hangs_do_not_overrun_the_budget),
        cmocka_unit_test(a_step_of_the_clock_is_noticed),
        cmocka_unit_test(a_slower_clock_hides_no_gain),
        cmocka_unit_test(gains_are_found_while_clocks_drift),
        cmocka_unit_test(times_beyond_the_roof_are_not_believed),
        cmocka_unit_test(it_can_be_interrupted_anywhere),
        cmocka_unit_test(a_stopped_search_is_raced_in_the_time_that_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
