/* Candidates that spill registers do not run once one that does not spill was timed. If all spill, those that spill
   more than the best run last, those that spill far more than all others do not run, and nothing else is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fault_evaluator.h"

static const tune_config defaults;

static tune_config parse(const char *source)
{
    tune_config out;
    assert_int_equal(tuff__config_parse(source, &out), TUFF_OK);
    return out;
}

static int rows_of(const tune_config *config)
{
    return tuff__config_value(config, TUNABLE_matmul_register_tile_rows, 4);
}

/* Bytes spilled for each tile height, set by a test. */
static uint64_t spilled_by_rows[64];

static uint64_t by_rows(const fault_device *self, const tune_config *config)
{
    (void)self;
    return spilled_by_rows[rows_of(config)];
}

static uint64_t hash_of(const tune_config *config)
{
    rng from = {tuff__config_hash(config)};
    return (uint64_t)(1000 * tuff__rng_uniform(&from));
}

/* The tile heights that ran, in order, and their evaluations. */
static struct {
    int rows[64];
    tune_evaluation found[64];
    char error[256];
    int count, rejected, stop_at;
} seen;

static void note(void *user, const tune_config *config, tune_evaluation found, uint64_t nanoseconds, int samples)
{
    (void)user;
    assert_true(found != EVALUATION_SPILLS || (nanoseconds == 0 && samples == 0));
    if (found == EVALUATION_SPILLS)
        strncpy(seen.error, tuff_error(), sizeof seen.error - 1);
    if (seen.count < 64) {
        seen.rows[seen.count] = rows_of(config);
        seen.found[seen.count] = found;
    }
    seen.count++;
}

static void note_rejection(void *user, const tune_config *config, tune_evaluation why)
{
    (void)user;
    (void)config;
    (void)why;
    seen.rejected++;
}

static search_result run(fault_device *device, search_settings settings)
{
    const evaluator by = fault_begin(device);
    search *self;
    search_result out;
    memset(&seen, 0, sizeof seen);
    settings.tried = note;
    settings.rejected = note_rejection;
    assert_int_equal(tuff__search_begin(&by, &settings, &self), TUFF_OK);
    assert_int_equal(tuff__search_step(self, 1 << 20), TUFF_OK);
    const search_progress now = tuff__search_progress(self);
    assert_int_equal(now.tried, device->compiled);
    assert_int_equal(tuff__search_finish(self, &out), TUFF_OK);
    tuff__search_end(self);
    assert_int_equal(device->broken, 0);
    assert_int_equal(device->live_count + device->expected, 0);
    assert_true(device->live_most <= SEARCH_SLOTS);
    return out;
}

/* Returns a device without noise on which each of the configurations has a program; all take the same time. */
static fault_device flat_device(const tune_config *const *choices, int count)
{
    fault_device device = {.flatness = 1, .spills = by_rows};
    bool all;
    do {
        const evaluator by = fault_begin(&device);
        device.seed++;
        all = true;
        for (int i = 0; i < count; i++) {
            candidate_info made = {0};
            all = all && by.lower(&device, choices[i], &made) == EVALUATION_GOOD;
        }
    } while (!all);
    return device;
}

enum { LISTED = 3 };

/* Searches tiles of 8, 6 and 12 rows, in this order, after the default's 4, with these numbers of spilled bytes. */
static search_result run_listed(uint64_t eight, uint64_t six, uint64_t twelve)
{
    const tune_config portfolio[LISTED] = {parse("matmul_register.tile_rows=8"), parse("matmul_register.tile_rows=6"),
                                           parse("matmul_register.tile_rows=12")};
    const tune_config *const choices[LISTED] = {&portfolio[0], &portfolio[1], &portfolio[2]};
    fault_device device = flat_device(choices, LISTED);
    spilled_by_rows[8] = eight;
    spilled_by_rows[6] = six;
    spilled_by_rows[12] = twelve;
    return run(&device,
               (search_settings){.portfolio = portfolio, .portfolio_count = LISTED, .no_climb = true, .patience = -1});
}

static void expect_order(const int *rows, int count)
{
    assert_int_equal(seen.count, count);
    assert_memory_equal(seen.rows, rows, sizeof *rows * (size_t)count);
}

static void what_spills_needlessly_is_never_run(void **state)
{
    (void)state;
    memset(spilled_by_rows, 0, sizeof spilled_by_rows);
    search_result found = run_listed(4, 0, 257);
    expect_order((const int[]){4, 8, 6, 12}, 4);
    const tune_evaluation evaluations[] = {EVALUATION_GOOD, EVALUATION_SPILLS, EVALUATION_GOOD, EVALUATION_SPILLS};
    assert_memory_equal(seen.found, evaluations, sizeof evaluations);
    assert_non_null(strstr(seen.error, "257 bytes"));
    assert_string_equal(tuff__evaluation_text(EVALUATION_SPILLS), "spills");
    assert_int_equal(found.counts.rejected[EVALUATION_SPILLS], 2);
    assert_int_equal(found.counts.deferred, 0);
    assert_int_equal(found.counts.compiled, 4);
    assert_int_equal(found.timed, 2);
    assert_int_equal(seen.rejected, 0); /* another search may try it */
    /* The default spills too, but another candidate does not: those that wait are left out, compiled just once. */
    spilled_by_rows[4] = 32;
    found = run_listed(64, 0, 33);
    expect_order((const int[]){4, 6, 12, 8}, 4);
    const tune_evaluation later[] = {EVALUATION_GOOD, EVALUATION_GOOD, EVALUATION_SPILLS, EVALUATION_SPILLS};
    assert_memory_equal(seen.found, later, sizeof later);
    assert_int_equal(found.counts.deferred, 1);
    assert_int_equal(found.counts.compiled, 4);
    assert_int_equal(found.timed, 2);
}

static void if_all_spill_the_least_is_tried_first(void **state)
{
    (void)state;
    memset(spilled_by_rows, 0, sizeof spilled_by_rows);
    spilled_by_rows[4] = 32;
    search_result found = run_listed(128, 64, 16);
    expect_order((const int[]){4, 12, 6, 8}, 4);
    assert_int_equal(found.end, SEARCH_EXHAUSTED);
    assert_int_equal(found.counts.deferred, 2);
    assert_int_equal(found.counts.compiled, 6);
    assert_int_equal(found.counts.rejected[EVALUATION_SPILLS], 0);
    assert_int_equal(found.timed, 4);
    /* As much as the best is not more. */
    spilled_by_rows[4] = 64;
    found = run_listed(128, 64, 16);
    expect_order((const int[]){4, 6, 12, 8}, 4);
    assert_int_equal(found.counts.deferred, 1);
}

/* Before any candidate but the default is timed there is nothing to compare with: all of them wait, and each may be
   followed by one that spills at most twice as much. */
static void others_say_how_much_is_too_much(void **state)
{
    (void)state;
    memset(spilled_by_rows, 0, sizeof spilled_by_rows);
    spilled_by_rows[4] = 1;
    search_result found = run_listed(1201, 600, 300);
    expect_order((const int[]){4, 12, 6, 8}, 4);
    assert_int_equal(seen.found[1] + seen.found[2], EVALUATION_GOOD);
    assert_int_equal(seen.found[3], EVALUATION_SPILLS);
    assert_int_equal(found.counts.compiled, 6);
    found = run_listed(1200, 600, 300);
    assert_int_equal(seen.found[3], EVALUATION_GOOD);
    assert_int_equal(found.counts.rejected[EVALUATION_SPILLS], 0);
    /* Up to 256 bytes do no harm. */
    found = run_listed(1, 257, 256);
    expect_order((const int[]){4, 8, 6, 12}, 4);
    assert_int_equal(seen.found[2], EVALUATION_SPILLS);
    assert_int_equal(seen.found[3], EVALUATION_GOOD);
    assert_non_null(strstr(seen.error, "257 bytes"));
    /* The default counts as one of the others. */
    spilled_by_rows[4] = 200;
    found = run_listed(1, 400, 401);
    expect_order((const int[]){4, 8, 12, 6}, 4);
    assert_int_equal(seen.found[2], EVALUATION_SPILLS);
    assert_int_equal(seen.found[3], EVALUATION_GOOD);
}

/* Where all spill, these two never wait, however much they spill: all others are compared with the default, and the
   remembered winner has won before. If another does not spill, the remembered winner is left out like any. */
static void the_default_and_what_was_remembered_are_run(void **state)
{
    (void)state;
    memset(spilled_by_rows, 0, sizeof spilled_by_rows);
    spilled_by_rows[4] = 3000;
    spilled_by_rows[8] = 100000;
    const tune_config cached = parse("matmul_register.tile_rows=8"), portfolio = parse("matmul_register.tile_rows=6");
    const fault_device fresh = flat_device((const tune_config *const[]){&cached, &portfolio}, 2);
    fault_device device = fresh;
    const search_settings settings = {
        .cached = &cached, .portfolio = &portfolio, .portfolio_count = 1, .no_climb = true};
    search_result found = run(&device, settings);
    expect_order((const int[]){4, 8, 6}, 3);
    assert_int_equal(found.counts.deferred, 0);
    assert_int_equal(found.counts.rejected[EVALUATION_SPILLS], 0);
    assert_true(found.default_nanoseconds > 0 && found.is_final);
    spilled_by_rows[4] = 0;
    device = fresh;
    found = run(&device, settings);
    expect_order((const int[]){4, 8, 6}, 3);
    assert_int_equal(seen.found[1], EVALUATION_SPILLS);
    assert_int_equal(found.counts.rejected[EVALUATION_SPILLS], 1);
}

static uint64_t nothing(const fault_device *self, const tune_config *config)
{
    (void)self;
    (void)config;
    return 0;
}

static uint64_t all_alike(const fault_device *self, const tune_config *config)
{
    (void)self;
    (void)config;
    return 5000;
}

/* If spills are unknown, zero or equal everywhere, the search is the same. */
static void without_spills_nothing_changes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const search_settings settings = {.seed = seed, .max_compiles = 60, .prefetch = (int)seed % 4};
        fault_device devices[] = {
            {.seed = seed}, {.seed = seed, .spills = nothing}, {.seed = seed, .spills = all_alike}};
        const search_result expected = run(&devices[0], settings);
        for (int i = 1; i < 3; i++) {
            const search_result found = run(&devices[i], settings);
            assert_true(devices[i].compiled_log == devices[0].compiled_log);
            assert_true(tuff__config_equal(&found.winner, &expected.winner));
            assert_int_equal(found.counts.deferred, 0);
        }
    }
}

/* Between 1000 and 2000 bytes, the default least. */
static uint64_t all_spill(const fault_device *self, const tune_config *config)
{
    (void)self;
    return 1000 + (tuff__config_count(config) == 0 ? 0 : hash_of(config));
}

static uint64_t all_but_the_default(const fault_device *self, const tune_config *config)
{
    (void)self;
    return tuff__config_count(config) == 0 ? 0 : 1000 + hash_of(config);
}

/* As little as possible. */
static uint64_t default_spills_least(const fault_device *self, const tune_config *config)
{
    (void)self;
    return tuff__config_count(config) == 0 ? 1 : 1000 + hash_of(config);
}

static uint64_t best_time(const fault_device *device)
{
    candidate_info made = {0};
    fault_device copy = *device;
    const evaluator by = fault_begin(&copy);
    assert_int_equal(by.lower(&copy, &defaults, &made), EVALUATION_GOOD);
    tune_space space = {0};
    tuff__space_add_tunables(&space, &made.used_tunables);
    uint64_t best = UINT64_MAX;
    for (uint64_t i = 0; i < tuff__space_count(&space); i++) {
        tune_config config;
        tuff__space_at(&space, i, &config);
        if (by.lower(&copy, &config, &made) == EVALUATION_GOOD && fault_time(&copy, &config) < best)
            best = fault_time(&copy, &config);
    }
    return best;
}

/* Whole spaces in which every candidate spills, the default a little less or far less. */
static void where_all_spill_the_best_is_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fault_device device = {.seed = seed, .spills = seed % 2 ? all_spill : default_spills_least};
        const uint64_t best = best_time(&device);
        const search_result found = run(&device, (search_settings){.patience = -1, .seed = seed});
        assert_int_equal(found.end, SEARCH_EXHAUSTED);
        assert_true(found.counts.deferred > 0);
        assert_int_equal(found.counts.rejected[EVALUATION_SPILLS], 0);
        assert_true((double)fault_time(&device, &found.winner) <= 1.01 * (double)best);
    }
}

/* Whole spaces in which every candidate but the default spills: none of the others runs. */
static void where_only_the_default_does_not_spill_it_wins(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fault_device device = {.seed = seed, .spills = all_but_the_default};
        const search_result found = run(&device, (search_settings){.patience = -1, .seed = seed});
        assert_int_equal(found.end, SEARCH_EXHAUSTED);
        assert_int_equal(found.timed, 1);
        assert_int_equal(found.counts.deferred, 0);
        assert_int_equal(found.counts.compiled, found.counts.rejected[EVALUATION_SPILLS] + 1);
        assert_true(found.counts.compiled > 10);
        assert_true(tuff__config_equal(&found.winner, &defaults));
    }
}

/* The same if patience ends the climb: postponed candidates run then, and if one of them gains, the climb continues. */
static void patience_waits_for_what_was_put_aside(void **state)
{
    (void)state;
    int better = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fault_device device = {.seed = seed, .spills = default_spills_least};
        const search_result found = run(&device, (search_settings){.seed = seed});
        assert_int_equal(found.end, SEARCH_PATIENCE);
        better += 10 * fault_time(&device, &found.winner) < 8 * fault_time(&device, &defaults);
    }
    assert_true(better >= 30); /* the landscapes depend on the number of tunables */
    /* All take the same time, so that nothing gains: eight postponed candidates run. */
    for (uint64_t seed = 1; seed <= 10; seed++) {
        fault_device device = {.seed = seed, .flatness = 1, .spills = default_spills_least};
        const search_result found = run(&device, (search_settings){.seed = seed});
        assert_int_equal(found.end, SEARCH_PATIENCE);
        assert_true(found.counts.deferred >= 1);
        assert_in_range(found.counts.compiled, 17, 17 + 8);
        assert_int_equal(found.counts.compiled - 17, found.counts.deferred < 8 ? found.counts.deferred : 8);
    }
}

static uint64_t at_random(const fault_device *self, const tune_config *config)
{
    (void)self;
    const uint64_t hash = hash_of(config);
    return hash < 200 ? 1 : hash;
}

/* With faults, candidates compiled ahead, and a limit on compilations; at once or candidate by candidate. */
static void limits_hold_for_what_was_put_aside(void **state)
{
    (void)state;
    int deferred = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const search_settings settings = {
            .seed = seed, .prefetch = (int)seed % 4, .max_compiles = 40, .patience = seed % 2 ? 6 : -1};
        fault_device whole = {.seed = seed, .scatter = 0.01, .spills = at_random}, sliced;
        whole.share[FAULT_WRONG] = whole.share[FAULT_COMPILE] = whole.share[FAULT_ZERO] = 0.1;
        sliced = whole;
        const search_result found = run(&whole, settings);
        deferred += found.counts.deferred > 0;
        assert_true(found.end == SEARCH_COMPILES || (seed % 2 && found.end == SEARCH_PATIENCE));
        const evaluator by = fault_begin(&sliced);
        search *self;
        assert_int_equal(tuff__search_begin(&by, &settings, &self), TUFF_OK);
        for (int i = 0; !tuff__search_progress(self).end; i++) {
            assert_int_equal(sliced.compiled, i);
            assert_int_equal(tuff__search_step(self, 1), TUFF_OK);
        }
        assert_true(sliced.compiled <= 40);
        tuff__search_end(self);
        assert_int_equal(sliced.broken + sliced.live_count + sliced.expected, 0);
    }
    assert_true(deferred >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_spills_needlessly_is_never_run),
        cmocka_unit_test(if_all_spill_the_least_is_tried_first),
        cmocka_unit_test(others_say_how_much_is_too_much),
        cmocka_unit_test(the_default_and_what_was_remembered_are_run),
        cmocka_unit_test(without_spills_nothing_changes),
        cmocka_unit_test(where_all_spill_the_best_is_found),
        cmocka_unit_test(where_only_the_default_does_not_spill_it_wins),
        cmocka_unit_test(patience_waits_for_what_was_put_aside),
        cmocka_unit_test(limits_hold_for_what_was_put_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
