/* A search step by step: which candidates it tries in which order, when it stops, what it prefers, and its state after
   every failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_memory.h"
#include "fault_evaluator.h"
#include "search/times.h"

static const tune_config defaults;

static tune_config parse(const char *source)
{
    tune_config out;
    assert_int_equal(tuff__config_parse(source, &out), TUFF_OK);
    return out;
}

static const char *text_of(const tune_config *config)
{
    static char buffers[2][1024];
    static int turn;
    char *buffer = buffers[turn++ % 2];
    text out = {0};
    tuff__config_format(config, &out);
    assert_true(out.length < sizeof buffers[0]);
    memcpy(buffer, tuff__text_get(&out), out.length + 1);
    tuff__text_free(&out);
    return buffer;
}

static search *begin(const evaluator *by, const search_settings *settings)
{
    search *self;
    assert_int_equal(tuff__search_begin(by, settings, &self), TUFF_OK);
    return self;
}

static search_result run(fault_device *device, const search_settings *settings)
{
    const evaluator by = fault_begin(device);
    search *self = begin(&by, settings);
    search_result out;
    assert_int_equal(tuff__search_step(self, 1 << 20), TUFF_OK);
    assert_int_equal(tuff__search_finish(self, &out), TUFF_OK);
    tuff__search_end(self);
    assert_int_equal(device->broken, 0);
    assert_int_equal(device->live_count + device->expected, 0);
    return out;
}

static void statistics_are_those_of_the_book(void **state)
{
    (void)state;
    uint64_t quartiles[3];
    tuff__times_quartiles((uint64_t[]){5}, 1, quartiles);
    assert_true(quartiles[0] == 5 && quartiles[1] == 5 && quartiles[2] == 5);
    tuff__times_quartiles((uint64_t[]){40, 10, 30, 20}, 4, quartiles);
    assert_true(quartiles[0] == 17 && quartiles[1] == 25 && quartiles[2] == 32);
    tuff__times_quartiles((uint64_t[]){9, 1, 5, 3, 7}, 5, quartiles);
    assert_true(quartiles[0] == 3 && quartiles[1] == 5 && quartiles[2] == 7);
    assert_true(tuff__times_median((uint64_t[]){UINT64_MAX, 0, UINT64_MAX}, 3) == UINT64_MAX);
    assert_true(tuff__times_median((uint64_t[]){UINT64_MAX, UINT64_MAX - 2}, 2) == UINT64_MAX - 1);
    assert_true(tuff__times_spread((uint64_t[]){100, 110, 120}, 4) == 1.57 * 20 / 2);
}

/* Candidates of the lists come first, in order, each once. */
static struct {
    char compiled[4096];
    int count, stop_at;
} seen;

static bool note(void *user, const search_progress *now)
{
    (void)user;
    (void)now;
    seen.count++;
    return seen.count != seen.stop_at;
}

static evaluator inner;

static tune_evaluation note_compile(void *state, const search_candidate *candidate)
{
    strcat(strcat(seen.compiled, text_of(&candidate->config)), " ");
    return inner.compile(state, candidate);
}

static void the_list_is_tried_in_order(void **state)
{
    (void)state;
    fault_device device = {.seed = 3};
    inner = fault_begin(&device);
    evaluator by = inner;
    by.compile = note_compile;
    memset(&seen, 0, sizeof seen);
    /* One that lowering does not read, one that equals the default, one that occurs twice. */
    const tune_config cached = parse("map.local_size=8;matmul_gemv.step_k=4");
    const tune_config portfolio[] = {parse("matmul_register.local_size=64"), parse("matmul_register.tile_rows=8"),
                                     parse("matmul_gemv.step_k=4"),
                                     parse("matmul_register.tile_rows=8;map.local_size=2")};
    const tune_config seeds[] = {parse("row_register.parts=4")};
    search *self = begin(&by, &(search_settings){.cached = &cached,
                                                 .portfolio = portfolio,
                                                 .portfolio_count = 4,
                                                 .seeds = seeds,
                                                 .seed_count = 1,
                                                 .progress = note,
                                                 .no_climb = true});
    search_progress now = tuff__search_progress(self);
    assert_true(now.end == SEARCH_GOES_ON && now.tried == 0);
    assert_true(tuff__config_equal(now.best, &defaults));
    assert_int_equal(tuff__search_prime(self), TUFF_OK);
    assert_string_equal(seen.compiled, " matmul_gemv.step_k=4 row_register.parts=4 matmul_register.tile_rows=8 ");
    now = tuff__search_progress(self);
    assert_int_equal(now.end, SEARCH_GOES_ON);
    assert_int_equal(now.tried, 4);
    assert_int_equal(now.counts.duplicates, 3);
    assert_int_equal(tuff__search_step(self, 5), TUFF_OK);
    assert_int_equal(tuff__search_progress(self).end, SEARCH_EXHAUSTED);
    assert_int_equal(seen.count, 4);
    /* Neighbours of these were not tried, so a search with more time may find more. */
    search_result found;
    assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
    assert_true(found.is_final);
    assert_string_equal(tuff__search_end_text(&found), "budget");
    tuff__search_end(self);
    assert_int_equal(device.live_count, 0);
}

/* Every point of a small space that makes a kernel is compiled once, and the best of them wins, whether predictions are
   right or not. */
static void a_small_space_is_searched_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fault_device device = {.seed = seed, .foresight = (double)(seed % 3) - 1};
        const search_result found = run(&device, &(search_settings){.patience = -1, .seed = seed});
        assert_int_equal(found.end, SEARCH_EXHAUSTED);
        candidate_info made = {0};
        const evaluator by = fault_begin(&device);
        assert_int_equal(by.lower(&device, &defaults, &made), EVALUATION_GOOD);
        tune_space space = {0};
        tuff__space_add_tunables(&space, &made.used_tunables);
        uint64_t valid = 0, best = UINT64_MAX;
        for (uint64_t i = 0; i < tuff__space_count(&space); i++) {
            tune_config config;
            tuff__space_at(&space, i, &config);
            if (by.lower(&device, &config, &made) != EVALUATION_GOOD)
                continue;
            valid++;
            best = fault_time(&device, &config) < best ? fault_time(&device, &config) : best;
        }
        assert_int_equal(found.counts.rejected[EVALUATION_INVALID] + valid, tuff__space_count(&space));
        assert_int_equal(found.counts.compiled, valid);
        /* A candidate that was not the cheapest is lowered again when it is drawn again. */
        if (device.foresight == 0)
            assert_int_equal(found.counts.lowered, tuff__space_count(&space));
        assert_true((double)fault_time(&device, &found.winner) <= 1.01 * (double)best);
        assert_true(device.live_most <= SEARCH_SLOTS);
    }
}

/* Right predictions find good candidates sooner; reversed ones later, but they are still found. */
static void what_is_foreseen_goes_first(void **state)
{
    (void)state;
    enum { SEEDS = 100 };
    double means[3] = {0};
    for (int foresight = -1; foresight <= 1; foresight++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            fault_device device = {.seed = seed, .foresight = foresight};
            const search_settings settings = {.max_compiles = 16, .patience = -1, .seed = seed};
            means[foresight + 1] += (double)run(&device, &settings).nanoseconds[1] / SEEDS;
        }
    print_message("after 16 compiles: %.0f us with reversed predictions, %.0f us without predictions, %.0f us with "
                  "correct ones\n",
                  means[0] * 1e-3, means[1] * 1e-3, means[2] * 1e-3);
    assert_true(means[2] < 0.95 * means[1]);
    assert_true(means[0] < 1.6 * means[1]);
}

static void searches_stop_when_it_is_time(void **state)
{
    (void)state;
    fault_device device = {.seed = 2, .flatness = 1};
    /* All take the same time: the default stays, without a race. */
    search_result found = run(&device, &(search_settings){0});
    assert_int_equal(found.end, SEARCH_PATIENCE);
    assert_int_equal(found.counts.compiled, 17);
    assert_int_equal(found.counts.races, 0);
    assert_true(found.is_final && tuff__config_count(&found.winner) == 0);
    device = (fault_device){.seed = 2, .flatness = 1};
    found = run(&device, &(search_settings){.patience = 5});
    assert_int_equal(found.counts.compiled, 6);
    device = (fault_device){.seed = 2};
    found = run(&device, &(search_settings){.max_compiles = 23, .patience = -1});
    assert_int_equal(found.end, SEARCH_COMPILES);
    assert_int_equal(found.counts.compiled, 23);
    /* The best candidate takes about 1 ms. */
    device = (fault_device){.seed = 2};
    found = run(&device, &(search_settings){.roofline = 1200000, .patience = -1});
    assert_int_equal(found.end, SEARCH_ROOFLINE);
    assert_true(found.nanoseconds[1] <= 1320000 && found.is_final);
    device = (fault_device){.seed = 2, .compile_cost = 50000000, .budget = 1000000000};
    found = run(&device, &(search_settings){.patience = -1});
    assert_int_equal(found.end, SEARCH_STOPPED);
    assert_false(found.is_final);
    assert_true(device.clock < 1100000000);
}

static bool can_be_lowered(fault_device *device, const tune_config *config)
{
    const evaluator by = fault_begin(device);
    candidate_info made = {0};
    return by.lower(device, config, &made) == EVALUATION_GOOD;
}

/* Everything else is slower than the default, by less than the noise: the default stays, whatever the records say. The
   last device shares its cores with other work. */
static void noise_does_not_replace_the_default(void **state)
{
    (void)state;
    const tune_config portfolio[] = {parse("matmul_register.tile_rows=8"), parse("matmul_register.tile_rows=6")};
    static const double scatter[] = {0.005, 0.02, 0.1, 0.005}, second[] = {0, 0, 0, 1.9};
    static const int most[] = {0, 2, 10, 40}, most_final[] = {0, 0, 2, 4}, least[] = {200, 200, 180, 150};
    enum { SEEDS = 200 };
    for (int level = 0; level < 4; level++) {
        int replaced = 0, remembered = 0, final = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            fault_device device = {
                .seed = seed, .flatness = 1, .others = 1.003, .scatter = scatter[level], .second = second[level]};
            const search_settings settings = {
                .portfolio = portfolio, .portfolio_count = 2, .cached = &portfolio[1], .seed = seed};
            const search_result found = run(&device, &settings);
            replaced += tuff__config_count(&found.winner) != 0;
            remembered += found.is_final && tuff__config_count(&found.winner) != 0;
            final += found.is_final;
        }
        print_message("%.1f %% noise, second speed %.1f: %d of %d replaced, %d remembered, %d final\n",
                      100 * scatter[level], second[level], replaced, SEEDS, remembered, final);
        assert_true(replaced <= most[level] && remembered <= most_final[level] && final >= least[level]);
    }
}

/* All are twice as fast as the default: the remembered one is preferred, then the order of the portfolio, then the
   smallest group. */
static void equals_are_decided_by_where_they_come_from(void **state)
{
    (void)state;
    const tune_config portfolio[] = {parse("matmul_register.tile_rows=8"), parse("matmul_register.tile_rows=6")};
    const tune_config cached = parse("matmul_register.tile_rows=12");
    const tune_config seeds[] = {parse("matmul_register.local_size=32"), parse("matmul_register.local_size=16")};
    int cases[3] = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        fault_device device = {.seed = seed, .flatness = 1, .scatter = 0.005, .others = 0.5};
        search_settings settings = {.portfolio = portfolio,
                                    .portfolio_count = 2,
                                    .seeds = seeds,
                                    .seed_count = 2,
                                    .cached = &cached,
                                    .no_climb = true};
        const search_result first = run(&device, &settings);
        if (can_be_lowered(&device, &cached) && ++cases[0])
            assert_string_equal(text_of(&first.winner), text_of(&cached));
        settings.cached = NULL;
        const search_result second = run(&device, &settings);
        if (can_be_lowered(&device, &portfolio[0]) && ++cases[1])
            assert_string_equal(text_of(&second.winner), text_of(&portfolio[0]));
        settings.portfolio_count = 0;
        const search_result third = run(&device, &settings);
        if (can_be_lowered(&device, &seeds[1]) && ++cases[2])
            assert_string_equal(text_of(&third.winner), text_of(&seeds[1]));
    }
    assert_true(cases[0] > 30 && cases[1] > 30 && cases[2] > 30);
}

/* Twice as fast as the default, which drops out after three rounds: 8 samples each before the race, one warm-up each, 3
   and 10 rounds, 9 to confirm. */
static void a_clear_race_is_short(void **state)
{
    (void)state;
    const tune_config portfolio = parse("matmul_register.tile_rows=8");
    fault_device device = {.seed = 1, .flatness = 1, .others = 0.5};
    while (!can_be_lowered(&device, &portfolio))
        device.seed++;
    const search_result found =
        run(&device, &(search_settings){.portfolio = &portfolio, .portfolio_count = 1, .no_climb = true});
    assert_string_equal(text_of(&found.winner), "matmul_register.tile_rows=8");
    assert_int_equal(found.samples, 10);
    assert_int_equal(found.counts.samples, 2 * 8 + 2 + 3 + 10 + 2 * 9);
    assert_int_equal(found.counts.verified, 3);
}

/* The time that a search reports for its best is not far below the true one, however often other work disturbed it. */
static bool is_believable(void *user, const search_progress *now)
{
    const fault_device *device = user;
    assert_true((double)now->best_nanoseconds > 0.3 * (double)fault_time(device, now->best));
    return true;
}

static void bursts_are_no_excuse(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fault_device device = {.seed = seed, .burst = 2.5, .scatter = 0.02};
        const search_result found =
            run(&device,
                &(search_settings){
                    .max_compiles = 120, .patience = -1, .seed = seed, .progress = is_believable, .user = &device});
        assert_true(found.spread[0] > 0);
    }
}

/* A valley that cannot be reached from the default by moves is found by random points. */
static void random_points_cross_walls(void **state)
{
    (void)state;
    int crossed = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fault_device device = {.seed = seed, .walled = true};
        const search_result found = run(&device, &(search_settings){.seed = seed, .max_compiles = 80, .patience = -1});
        crossed += tuff__config_value(&found.winner, TUNABLE_matmul_register_local_size, 64) < 16;
    }
    assert_true(crossed >= 38);
}

/* Runners-up follow the winner, ordered by time; neither it nor the default is among them. */
static void runners_up_are_the_next(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fault_device device = {.seed = seed, .scatter = 0.01};
        const search_result found = run(&device, &(search_settings){.seed = seed, .max_compiles = 60, .patience = -1});
        assert_true(found.is_final);
        assert_int_equal(found.runner_up_count, SEARCH_RUNNERS_UP);
        assert_true(found.nanoseconds[0] <= found.nanoseconds[1] && found.nanoseconds[1] <= found.nanoseconds[2]);
        assert_in_range(found.samples, 10, 20);
        assert_true((double)found.nanoseconds[1] < 0.99 * (double)found.default_nanoseconds);
        for (int i = 0; i < SEARCH_RUNNERS_UP; i++) {
            assert_false(tuff__config_equal(&found.runners_up[i], &found.winner));
            assert_false(tuff__config_equal(&found.runners_up[i], &defaults));
            assert_true(i == 0 || found.runner_up_nanoseconds[i] >= found.runner_up_nanoseconds[i - 1]);
        }
    }
}

/* In steps of one candidate or all at once: without noise the candidates and the winner are the same. */
static void a_search_can_be_resumed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const search_settings settings = {.seed = seed, .max_compiles = 50, .patience = -1};
        fault_device whole = {.seed = seed}, sliced = {.seed = seed};
        const search_result expected = run(&whole, &settings);
        const evaluator by = fault_begin(&sliced);
        search *self = begin(&by, &settings);
        search_result found;
        for (int i = 0; i < 50; i++) {
            assert_int_equal(tuff__search_progress(self).tried, i);
            assert_int_equal(tuff__search_step(self, 1), TUFF_OK);
        }
        assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
        tuff__search_end(self);
        assert_string_equal(text_of(&found.winner), text_of(&expected.winner));
        assert_true(found.counts.lowered == expected.counts.lowered);
        assert_int_equal(whole.compiled, sliced.compiled);
        assert_true(whole.compiled_log == sliced.compiled_log);
        sliced = (fault_device){.seed = seed};
        run(&sliced, &(search_settings){.seed = seed + 1000, .max_compiles = 50, .patience = -1});
        assert_true(whole.compiled_log != sliced.compiled_log);
    }
}

/* As many candidates as requested are announced before they are compiled; each is then compiled or released. */
static void candidates_can_be_expected(void **state)
{
    (void)state;
    const tune_config portfolio[] = {parse("matmul_register.tile_rows=8"), parse("matmul_register.tile_rows=6")};
    for (int ahead = 0; ahead <= SEARCH_PREFETCH + 2; ahead++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            fault_device device = {.seed = seed, .scatter = 0.01};
            device.share[FAULT_WRONG] = device.share[FAULT_COMPILE] = 0.1;
            const search_settings settings = {.portfolio = portfolio,
                                              .portfolio_count = 2,
                                              .seed = seed,
                                              .prefetch = ahead,
                                              .patience = -1,
                                              .max_compiles = seed % 2 ? 0 : 40};
            const evaluator by = fault_begin(&device);
            search *self = begin(&by, &settings);
            search_result found;
            assert_int_equal(tuff__search_prime(self), TUFF_OK);
            const int primed = tuff__search_progress(self).tried;
            assert_true(primed <= 3);
            assert_int_equal(tuff__search_step(self, 40 - primed), TUFF_OK);
            assert_int_equal(tuff__search_progress(self).tried, 40);
            assert_int_equal(tuff__search_progress(self).end, seed % 2 ? SEARCH_GOES_ON : SEARCH_COMPILES);
            assert_int_equal(device.compiled, 40);
            assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
            assert_true(found.is_final);
            tuff__search_end(self);
            /* The next candidate is among them until it is compiled. */
            const int most = ahead < SEARCH_PREFETCH ? ahead : SEARCH_PREFETCH;
            assert_int_equal(device.expected_most, most ? most + 1 : 0);
            assert_int_equal(device.broken + device.live_count + device.expected, 0);
        }
}

/* Whether what was in use beats the default is known once it was tried, verified and timed in full. */
static void what_is_in_use_is_judged(void **state)
{
    (void)state;
    int faster = 0, refuted = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fault_device device = {.seed = seed};
        device.share[FAULT_WRONG] = 0.3;
        const evaluator by = fault_begin(&device);
        const tune_config cached = parse(seed % 2 ? "matmul_register.tile_rows=8" : "matmul_gemv.step_k=4");
        candidate_info made;
        if (by.lower(by.state, &cached, &made) != EVALUATION_GOOD)
            continue;
        search *self = begin(&by, &(search_settings){.cached = &cached, .patience = -1});
        search_result found;
        assert_int_equal(tuff__search_cached(self, &found), CACHED_UNTRIED);
        assert_int_equal(tuff__search_step(self, 1), TUFF_OK);
        assert_int_equal(tuff__search_cached(self, &found), CACHED_UNTRIED);
        assert_int_equal(tuff__search_step(self, 1), TUFF_OK);
        const uint64_t time = fault_time(&device, &cached), before = fault_time(&device, &defaults);
        const bool is_good = time < before && fault_of(&device, &cached) == SOUND;
        for (int more = 0; more < 2; more++) {
            assert_int_equal(tuff__search_cached(self, &found), is_good ? CACHED_FASTER : CACHED_REFUTED);
            if (is_good) {
                assert_true(tuff__config_equal(&found.winner, &cached));
                assert_true(found.nanoseconds[1] == time && found.default_nanoseconds == before);
            }
            assert_int_equal(tuff__search_step(self, 30), TUFF_OK);
        }
        faster += is_good;
        refuted += !is_good;
        tuff__search_end(self);
    }
    assert_true(faster > 3 && refuted > 3);
    fault_device device = {.seed = 1};
    const evaluator by = fault_begin(&device);
    search *none = begin(&by, &(search_settings){.patience = -1});
    search_result found;
    assert_int_equal(tuff__search_step(none, 30), TUFF_OK);
    assert_int_equal(tuff__search_cached(none, &found), CACHED_UNTRIED);
    tuff__search_end(none);
}

/* A race in between does not end a search, and a later race includes all candidates found until then. */
static void a_search_goes_on_behind_a_race(void **state)
{
    (void)state;
    fault_device device = {.seed = 11, .scatter = 0.01};
    const evaluator by = fault_begin(&device);
    search *self = begin(&by, &(search_settings){.patience = -1});
    uint64_t last = UINT64_MAX;
    for (int i = 0; i < 6; i++) {
        search_result found;
        assert_int_equal(tuff__search_step(self, 20), TUFF_OK);
        assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
        assert_int_equal(found.end, SEARCH_GOES_ON);
        assert_true(found.is_final);
        assert_true((double)fault_time(&device, &found.winner) <= 1.02 * (double)last);
        last = fault_time(&device, &found.winner);
    }
    tuff__search_end(self);
    assert_int_equal(device.broken, 0);
    assert_int_equal(device.live_count, 0);
}

/* Stopped by the callback after any number of candidates: no further candidate, and a usable result. */
static void a_callback_can_stop_it(void **state)
{
    (void)state;
    for (int stop = 1; stop <= 40; stop++) {
        memset(&seen, 0, sizeof seen);
        seen.stop_at = stop;
        fault_device device = {.seed = 5, .scatter = 0.01};
        const evaluator by = fault_begin(&device);
        search *self = begin(&by, &(search_settings){.progress = note, .patience = -1, .prefetch = stop % 4});
        assert_int_equal(tuff__search_step(self, 100), TUFF_OK);
        assert_int_equal(seen.count, stop);
        assert_int_equal(device.compiled, stop);
        assert_int_equal(tuff__search_progress(self).end, SEARCH_STOPPED);
        search_result found;
        assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
        assert_int_equal(found.end, SEARCH_STOPPED);
        assert_true(fault_time(&device, &found.winner) <= fault_time(&device, &defaults));
        tuff__search_end(self);
        assert_int_equal(device.live_count, 0);
    }
}

/* Stopped by the callback after any round of its race: no further round, and the leader is known. */
static void a_race_can_be_stopped(void **state)
{
    (void)state;
    bool was_final = false;
    for (int rounds = 1; rounds <= 100 && !was_final; rounds++) {
        memset(&seen, 0, sizeof seen);
        fault_device device = {.seed = 5, .scatter = 0.01};
        const evaluator by = fault_begin(&device);
        search *self = begin(&by, &(search_settings){.progress = note, .patience = -1});
        search_result found, leader;
        assert_false(tuff__search_leader(self, &leader));
        assert_int_equal(tuff__search_step(self, 60), TUFF_OK);
        assert_true(tuff__search_leader(self, &leader));
        assert_true(tuff__config_equal(&leader.winner, tuff__search_progress(self).best));
        assert_true(leader.nanoseconds[1] < leader.default_nanoseconds);
        const int before = seen.count;
        seen.stop_at = before + rounds;
        assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
        was_final = found.is_final;
        assert_true(was_final ? rounds > 10 && seen.count < seen.stop_at : found.end == SEARCH_STOPPED);
        assert_true(was_final || seen.count == seen.stop_at);
        assert_true(fault_time(&device, &found.winner) <= fault_time(&device, &defaults));
        assert_true(tuff__search_leader(self, &leader));
        tuff__search_end(self);
        assert_int_equal(device.live_count, 0);
    }
    assert_true(was_final);
}

/* Whichever allocation fails: an error status, a usable result, no leak. */
static void without_memory_there_is_still_a_result(void **state)
{
    (void)state;
    int64_t failing = 1;
    for (bool failed = true; failed; failing++) {
        fault_device device = {.seed = 5};
        const evaluator by = fault_begin(&device);
        const tune_config portfolio[] = {parse("matmul_register.tile_rows=8")};
        const search_settings settings = {
            .portfolio = portfolio, .portfolio_count = 1, .max_compiles = 60, .prefetch = 3};
        search_result found = {0};
        search *self;
        failing_memory_begin(failing, failing % 2);
        tuff_status status = tuff__search_begin(&by, &settings, &self);
        if (!status)
            status = tuff__search_step(self, 60);
        if (self)
            assert_int_equal(tuff__search_finish(self, &found), status);
        tuff__search_end(self);
        failed = failing_memory_end();
        assert_int_equal(status, failed ? TUFF_E_OOM_HOST : TUFF_OK);
        assert_int_equal(found.end == SEARCH_FAILED, failed && self);
        assert_true(fault_time(&device, &found.winner) <= fault_time(&device, &defaults));
        assert_int_equal(device.live_count, 0);
        assert_int_equal(device.broken, 0);
    }
    assert_true(failing > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_those_of_the_book),
        cmocka_unit_test(the_list_is_tried_in_order),
        cmocka_unit_test(a_small_space_is_searched_whole),
        cmocka_unit_test(what_is_foreseen_goes_first),
        cmocka_unit_test(searches_stop_when_it_is_time),
        cmocka_unit_test(noise_does_not_replace_the_default),
        cmocka_unit_test(equals_are_decided_by_where_they_come_from),
        cmocka_unit_test(a_clear_race_is_short),
        cmocka_unit_test(bursts_are_no_excuse),
        cmocka_unit_test(random_points_cross_walls),
        cmocka_unit_test(runners_up_are_the_next),
        cmocka_unit_test(a_search_can_be_resumed),
        cmocka_unit_test(candidates_can_be_expected),
        cmocka_unit_test(what_is_in_use_is_judged),
        cmocka_unit_test(a_search_goes_on_behind_a_race),
        cmocka_unit_test(a_callback_can_stop_it),
        cmocka_unit_test(a_race_can_be_stopped),
        cmocka_unit_test(without_memory_there_is_still_a_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
