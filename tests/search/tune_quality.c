/* The quality of a search's results, on synthetic spaces that are as hard as recorded ones (synthetic_space.h), with a
   portfolio from the other devices of the family. TUFF_TUNE_SEEDS=n runs each search n times. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "synthetic_space.h"
#include "bench/recorder/replay.h"

enum { SPACES = SYNTHETIC_FAMILIES * SYNTHETIC_DEVICES };

static struct {
    recording all[SPACES]; /* ordered by family */
    uint64_t best[SPACES];
    tune_config portfolio[SPACES][SYNTHETIC_PORTFOLIO];
    int seeds;
} spaces;

static int make_spaces(void **state)
{
    (void)state;
    const char *seeds = getenv("TUFF_TUNE_SEEDS");
    spaces.seeds = seeds ? atoi(seeds) : 20;
    for (int i = 0; i < SPACES; i++) {
        synthetic_space(i / SYNTHETIC_DEVICES, i % SYNTHETIC_DEVICES, &spaces.all[i]);
        spaces.best[i] = recording_best(&spaces.all[i]);
    }
    for (int i = 0; i < SPACES; i++)
        synthetic_portfolio(&spaces.all[i - i % SYNTHETIC_DEVICES], SYNTHETIC_DEVICES, i % SYNTHETIC_DEVICES,
                            spaces.portfolio[i]);
    return 0;
}

static int free_spaces(void **state)
{
    (void)state;
    for (int i = 0; i < SPACES; i++)
        recording_free(&spaces.all[i]);
    return 0;
}

static uint64_t median_of(const recording *recorded, const tune_config *config)
{
    const recorded_point *found = recording_find(recorded, config);
    assert_non_null(found);
    return found->median;
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* The spaces are as synthetic_space.h describes them: few good points, a slow median, and devices that differ. */
static void the_spaces_are_hard(void **state)
{
    (void)state;
    double random_8 = 0, random_256 = 0;
    for (int i = 0; i < SPACES; i++) {
        const recording *recorded = &spaces.all[i];
        uint64_t *medians = malloc((size_t)recorded->count * sizeof *medians);
        assert_non_null(medians);
        for (int j = 0; j < recorded->count; j++)
            medians[j] = recorded->points[j].median;
        qsort(medians, (size_t)recorded->count, sizeof *medians, compare_times);
        int near = 0;
        while ((double)medians[near] < 1.05 * (double)medians[0])
            near++;
        const bool is_flat = i / SYNTHETIC_DEVICES == 2;
        assert_true(near < (is_flat ? 0.02 : 0.002) * recorded->count);
        assert_true((double)medians[recorded->count / 2] > (is_flat ? 1.3 : 2.3) * (double)medians[0]);
        free(medians);
        rng from = {(uint64_t)i};
        for (int trial = 0; trial < 50; trial++) {
            uint64_t best = UINT64_MAX;
            for (int n = 1; n <= 256; n++) {
                const uint64_t time = recorded->points[tuff__rng_below(&from, recorded->count)].median;
                best = time < best ? time : best;
                random_8 += n == 8 ? (double)spaces.best[i] / (double)best / (50 * SPACES) : 0;
            }
            random_256 += (double)spaces.best[i] / (double)best / (50 * SPACES);
        }
    }
    print_message("random points: %.3f of the best after 8, %.3f after 256\n", random_8, random_256);
    assert_true(random_8 < 0.70 && random_256 < 0.91);
}

typedef struct search_outcome {
    double share;  /* of the best of the space */
    double regret; /* against the best point that was timed */
    bool slower;   /* than the default */
    int tried;
    search_result result;
} search_outcome;

/* The best median of the points that a search compiled, which the evaluator below records. */
static evaluator inner;
static uint64_t best_tried;

static tune_evaluation note_compile(void *state, const search_candidate *candidate)
{
    const replay *self = state;
    const uint64_t time = median_of(self->from, &candidate->config);
    best_tried = time < best_tried ? time : best_tried;
    return inner.compile(state, candidate);
}

static search_outcome search_with(int index, const search_settings *settings, uint64_t seed)
{
    const recording *recorded = &spaces.all[index];
    replay device;
    inner = replay_begin(&device, recorded, seed * 31 + 7);
    evaluator by = inner;
    by.compile = note_compile;
    best_tried = UINT64_MAX;
    search *self;
    search_outcome out;
    assert_int_equal(tuff__search_begin(&by, settings, &self), TUFF_OK);
    assert_int_equal(tuff__search_step(self, 1 << 20), TUFF_OK);
    out.tried = tuff__search_progress(self).tried;
    assert_int_equal(tuff__search_finish(self, &out.result), TUFF_OK);
    tuff__search_end(self);
    assert_int_equal(device.broken, 0);
    assert_int_equal(replay_live_count(&device), 0);
    const double time = (double)median_of(recorded, &out.result.winner);
    out.share = (double)spaces.best[index] / time;
    out.regret = time / (double)best_tried - 1;
    out.slower = time > (double)median_of(recorded, &(tune_config){0});
    return out;
}

/* How many candidates searches compile ahead. */
static int prefetch;

/* Searches with the portfolio of the other devices. */
static search_outcome search_space(int index, int compiles, int patience, uint64_t seed)
{
    const search_settings settings = {.portfolio = spaces.portfolio[index],
                                      .portfolio_count = SYNTHETIC_PORTFOLIO,
                                      .patience = patience,
                                      .max_compiles = compiles,
                                      .prefetch = prefetch,
                                      .seed = seed * 977 + (uint64_t)index};
    return search_with(index, &settings, seed);
}

/* Shares are relative to the best of the whole space, so that a search that ends early gets no credit for it. */
static void check_compiles(int compiles, double least_mean, double least_worst)
{
    double mean = 0, worst = 1;
    for (int i = 0; i < SPACES; i++) {
        double sum = 0;
        for (int seed = 0; seed < spaces.seeds; seed++) {
            const search_outcome found = search_space(i, compiles, -1, (uint64_t)seed);
            assert_int_equal(found.tried, compiles);
            assert_false(found.slower);
            assert_true(found.result.is_final);
            sum += found.share;
        }
        sum /= spaces.seeds;
        mean += sum / SPACES;
        worst = sum < worst ? sum : worst;
    }
    print_message("%3d compiles: %.3f of the best, worst space %.3f\n", compiles, mean, worst);
    assert_true(mean >= least_mean);
    assert_true(worst >= least_worst);
}

static void eight_compiles_find_92_percent(void **state)
{
    (void)state;
    check_compiles(8, 0.92, 0);
}

static void thirty_two_compiles_find_95_percent(void **state)
{
    (void)state;
    check_compiles(32, 0.95, 0);
}

/* Candidates chosen before the latest results are known are hardly worse. */
static void candidates_compiled_ahead_cost_little(void **state)
{
    (void)state;
    prefetch = 3;
    check_compiles(32, 0.95, 0);
    check_compiles(128, 0.97, 0);
    prefetch = 0;
}

static void many_compiles_find_97_percent(void **state)
{
    (void)state;
    check_compiles(128, 0.97, 0);
    check_compiles(256, 0.97, 0.80);
}

static int compare_doubles(const void *a, const void *b)
{
    const double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* With the default patience: the effect of noise when a search chooses among the points that it timed. */
static void noise_costs_little(void **state)
{
    (void)state;
    const int count = SPACES * spaces.seeds;
    double *regrets = malloc((size_t)count * sizeof *regrets), mean = 0, share = 0, tried = 0;
    assert_non_null(regrets);
    for (int i = 0; i < count; i++) {
        const search_outcome found = search_space(i % SPACES, 256, 0, (uint64_t)(1000 + i));
        assert_int_equal(found.result.end, SEARCH_PATIENCE);
        assert_false(found.slower);
        regrets[i] = found.regret;
        mean += found.regret / count;
        share += found.share / count;
        tried += (double)found.tried / count;
    }
    qsort(regrets, (size_t)count, sizeof *regrets, compare_doubles);
    const double late = regrets[count * 95 / 100];
    print_message("regret: mean %.2f %%, 95th percentile %.2f %%; patience: %.3f of the best, %.1f compiles\n",
                  100 * mean, 100 * late, share, tried);
    free(regrets);
    assert_true(mean <= 0.005);
    assert_true(late <= 0.04);
}

/* Gets the three best points of a recording. */
static void find_leaders(const recording *recorded, tune_config leaders[3])
{
    uint64_t after = 0;
    for (int k = 0; k < 3; k++) {
        const recorded_point *best = NULL;
        for (int i = 0; i < recorded->count; i++)
            if (recorded->points[i].median > after && (!best || recorded->points[i].median < best->median))
                best = &recorded->points[i];
        leaders[k] = best->config;
        after = best->median;
    }
}

/* Another driver, simulated by another device: racing its winner and two runners-up against the default takes four
   compilations, and nothing slower than the default may win. Then they are seeds of a search of 16 compilations. */
static void winners_from_elsewhere_are_raced_again(void **state)
{
    (void)state;
    double raced = 0, seeded = 0;
    for (int i = 0; i < SPACES; i++) {
        const int other = i - i % SYNTHETIC_DEVICES + (i + 1) % SYNTHETIC_DEVICES;
        tune_config leaders[3];
        find_leaders(&spaces.all[other], leaders);
        for (int seed = 0; seed < spaces.seeds; seed++) {
            search_settings settings = {.cached = &leaders[0],
                                        .portfolio = &leaders[1],
                                        .portfolio_count = 2,
                                        .no_climb = true,
                                        .seed = (uint64_t)seed};
            const search_outcome race = search_with(i, &settings, (uint64_t)seed);
            assert_true(race.tried <= 4);
            assert_false(race.slower);
            assert_true(race.result.is_final);
            raced += race.share / SPACES / spaces.seeds;
            settings = (search_settings){.seeds = leaders, .seed_count = 3, .max_compiles = 16, .seed = (uint64_t)seed};
            const search_outcome found = search_with(i, &settings, (uint64_t)seed);
            assert_false(found.slower);
            seeded += found.share / SPACES / spaces.seeds;
        }
    }
    print_message("another device's best: %.3f of the best after 4 compiles, %.3f after 16\n", raced, seeded);
    assert_true(raced > 0.8 && seeded > 0.85);
}

static void one_seed_gives_one_search(void **state)
{
    (void)state;
    int differences = 0;
    for (int i = 0; i < SPACES; i++) {
        const search_outcome first = search_space(i, 40, -1, 5), again = search_space(i, 40, -1, 5);
        assert_memory_equal(&first.result.counts, &again.result.counts, sizeof first.result.counts);
        assert_memory_equal(first.result.nanoseconds, again.result.nanoseconds, sizeof first.result.nanoseconds);
        assert_true(tuff__config_equal(&first.result.winner, &again.result.winner));
        const search_outcome other = search_space(i, 40, -1, 6);
        differences += other.result.counts.lowered != first.result.counts.lowered;
    }
    assert_true(differences > SPACES / 2);
}

static void recordings_live_through_files(void **state)
{
    (void)state;
    const recording *recorded = &spaces.all[SPACES - 1];
    text lines = {0};
    recording_print_header(recorded, &lines);
    for (int i = 0; i < recorded->count; i++)
        recording_print_point(&recorded->points[i], &lines);
    recording_print_point(&(recorded_point){.program = 9, .result = EVALUATION_LIMITS}, &lines);
    assert_int_equal(tuff__text_status(&lines), TUFF_OK);
    recording again;
    /* The last line repeats the default. */
    assert_int_equal(recording_parse("made", lines.data, lines.length, &again), TUFF_E_USAGE);
    assert_non_null(strstr(tuff_error(), "occurs twice"));
    while (lines.data[lines.length - 2] != '\n')
        lines.length--;
    assert_int_equal(recording_parse("made", lines.data, lines.length - 1, &again), TUFF_OK);
    assert_int_equal(again.count, recorded->count);
    assert_string_equal(again.name, recorded->name);
    assert_string_equal(again.device, recorded->device);
    assert_true(tuff__config_equal(&again.defaults, &recorded->defaults));
    for (int i = 0; i < recorded->count; i++) {
        const recorded_point *here = &recorded->points[i], *there = &again.points[i];
        assert_true(tuff__config_equal(&here->config, &there->config));
        assert_int_equal(here->program, there->program);
        assert_int_equal(here->count, there->count);
        assert_memory_equal(here->nanoseconds, there->nanoseconds, (size_t)here->count * sizeof *here->nanoseconds);
        assert_int_equal(here->median, there->median);
    }
    recording_free(&again);
    tuff__text_free(&lines);
}

static void bad_recordings_are_refused(void **state)
{
    (void)state;
#define HEADER \
    "{\"t\":\"space\",\"v\":1,\"name\":\"n\",\"device\":\"d\",\"default\":\"map.local_size=4\",\"roofline\":0}\n"
    static const struct {
        const char *source;
        tuff_status status;
        const char *message;
    } cases[] = {
        {"", TUFF_E_FORMAT, "the default was not recorded"},
        {HEADER, TUFF_E_FORMAT, "the default was not recorded"},
        {"{}\n", TUFF_E_FORMAT, "made:1: the first line is not a header"},
        {"{\"t\":\"space\",\"v\":2}\n", TUFF_E_UNSUPPORTED, "version 2"},
        {"{\"t\":\"space\",\"v\":1,\"default\":\"map.size=4\"}\n", TUFF_E_UNSUPPORTED,
         "made:1: candidate: unknown tunable"},
        {HEADER "{\"t\":\"point\",\"c\":\"\",\"p\":1,\"ns\":[]}\n", TUFF_E_FORMAT, "made:2: 0 times"},
        {HEADER "{\"t\":\"point\",\"c\":\"\",\"p\":1,\"ns\":[\"1\"]}\n", TUFF_E_FORMAT, "not an integer"},
        {HEADER "{\"t\":\"point\",\"c\":\"\",\"p\":1,\"ns\":[-1]}\n", TUFF_E_FORMAT, "negative"},
        {HEADER "{\"t\":\"point\",\"c\":\"\",\"p\":1,\"why\":\"good\"}\n", TUFF_E_FORMAT, "expected times or"},
        {HEADER "{\"t\":\"point\",\"c\":\"\",\"p\":1}\n", TUFF_E_FORMAT, "expected times or"},
        {HEADER "{\"t\":\"point\",\"c\":\"\",\"ns\":[1]}\n", TUFF_E_FORMAT, "and a program"},
        {HEADER "{\"t\":\"point\",\"p\":1,\"ns\":[1]}\n", TUFF_E_FORMAT, "not a point with a candidate"},
        {HEADER "{\"t\":\"point\",\"c\":\"map.local_size=2\",\"p\":1,\"ns\":[1]}\n", TUFF_E_FORMAT, "the default"},
        {HEADER "{\"t\":\"point\",\"c\":\"\",\"p\":1,\"ns\":[1", TUFF_E_FORMAT, "made:2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recording out;
        assert_int_equal(recording_parse("made", cases[i].source, strlen(cases[i].source), &out), cases[i].status);
        assert_non_null(strstr(tuff_error(), cases[i].message));
        assert_null(out.points);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_spaces_are_hard),
        cmocka_unit_test(eight_compiles_find_92_percent),
        cmocka_unit_test(thirty_two_compiles_find_95_percent),
        cmocka_unit_test(many_compiles_find_97_percent),
        cmocka_unit_test(candidates_compiled_ahead_cost_little),
        cmocka_unit_test(noise_costs_little),
        cmocka_unit_test(winners_from_elsewhere_are_raced_again),
        cmocka_unit_test(one_seed_gives_one_search),
        cmocka_unit_test(recordings_live_through_files),
        cmocka_unit_test(bad_recordings_are_refused),
    };
    return cmocka_run_group_tests(tests, make_spaces, free_spaces);
}
