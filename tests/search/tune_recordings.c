/* How well recorded spaces are searched: those of real kernels in tests/data/recordings/NAME.jsonl, or all in the
   folder TUFF_TUNE_RECORDINGS (format: bench/recorder/recording.h), and synthetic ones that are written first. How a
   search runs on a recording: bench/recorder/replay_search.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_device.h"
#include "scratch_folder.h"
#include "synthetic_space.h"
#include "bench/recorder/replay_search.h"

enum { STEPS = 4 };

static const int compiles[STEPS] = {8, 32, 128, 256};
/* Required shares of the best speed. */
static const double asked_means[STEPS] = {0.92, 0.95, 0.97, 0.97}, asked_worst = 0.80;
/* Required of another driver's winner and runners-up, after 16 compilations: a little less than is reached. */
static const double reached_by_seeds = 0.945;
/* Required share of correctly ordered pairs: 0.5 is chance. */
static const double told_apart = 0.85;

static double search_one(const recording *space, const replay_start *start, int most, replay_counts *counts)
{
    double share = 0;
    if (replay_search(space, start, most, is_thorough() ? 10 : 5, counts, &share) != TUFF_OK)
        fail_msg("%s", tuff_error());
    assert_int_equal(counts->broken, 0);
    return share;
}

/* Computes the means over the recordings, of which there must be one; returns the worst result of the last step. */
static double search_all(const recordings *all, double means[STEPS])
{
    double worst = 1, random = 0;
    replay_counts counts = {0};
    memset(means, 0, STEPS * sizeof *means);
    for (int i = 0; i < all->count; i++) {
        const recording *recorded = &all->items[i];
        const replay_start nothing = {.seed_count = 0};
        replay_start from;
        double shares[STEPS];
        assert_int_equal(replay_start_without(all, i, &from), TUFF_OK);
        for (int k = 0; k < STEPS; k++) {
            shares[k] = search_one(recorded, &from, compiles[k], &counts);
            means[k] += shares[k] / all->count;
        }
        random += search_one(recorded, &nothing, compiles[1], &(replay_counts){0}) / all->count;
        worst = shares[STEPS - 1] < worst ? shares[STEPS - 1] : worst;
        print_message("%-32s %3d points, default %.3f; %.3f after 8, %.3f after 32, %.3f after 128 (%.22s)\n",
                      recorded->name, recorded->count,
                      (double)recording_best(recorded) / (double)recording_find(recorded, &(tune_config){0})->median,
                      shares[0], shares[1], shares[2], recorded->device);
    }
    print_message(
        "all: %.3f after 8, %.3f after 32, %.3f after 128, %.3f after 256, worst of these %.3f; without seeds "
        "and portfolio %.3f after 32; %.0f %% of the candidates were not recorded\n",
        means[0], means[1], means[2], means[3], worst, random,
        100 * (double)counts.unrecorded / (double)counts.lowered);
    return worst;
}

static void check_all(const recordings *all)
{
    double means[STEPS];
    const double worst = search_all(all, means);
    for (int k = 0; k < STEPS; k++)
        assert_true(means[k] >= asked_means[k]);
    assert_true(worst >= asked_worst);
}

static void made_up_recordings_are_searched(void **state)
{
    (void)state;
    recordings all;
    for (int device = 0; device < 3; device++) {
        recording recorded;
        text lines = {0};
        char name[32];
        synthetic_space(2, device, &recorded);
        recording_print_header(&recorded, &lines);
        for (int i = 0; i < recorded.count; i++)
            recording_print_point(&recorded.points[i], &lines);
        assert_int_equal(tuff__text_status(&lines), TUFF_OK);
        (void)snprintf(name, sizeof name, "%d.jsonl", device);
        scratch_write(name, lines.data, lines.length);
        tuff__text_free(&lines);
        recording_free(&recorded);
    }
    assert_int_equal(recordings_read(scratch_folder(), &all), TUFF_OK);
    assert_int_equal(all.count, 3);
    check_all(&all);
    recordings_free(&all);
}

static void read_all(recordings *all)
{
    const char *folder = getenv("TUFF_TUNE_RECORDINGS");
    if (recordings_read(folder ? folder : TUFF_TEST_DATA "/recordings", all) != TUFF_OK)
        fail_msg("%s", tuff_error());
    assert_true(all->count > 0);
}

static void recordings_of_kernels_are_searched(void **state)
{
    (void)state;
    recordings all;
    read_all(&all);
    check_all(&all);
    recordings_free(&all);
}

/* Counts pairs of sampled points that differ by a quarter or more, and those of them that the predicted cost orders
   correctly. */
static void count_pairs(const recording *recorded, int64_t *pairs, int64_t *right)
{
    for (int i = 0; i < recorded->count; i++)
        for (int k = 0; k < recorded->count; k++) {
            const recorded_point *fast = &recorded->points[i], *slow = &recorded->points[k];
            const bool counts = fast->drawn && slow->drawn && fast->median > 0 && fast->cost > 0 && slow->cost > 0 &&
                                (double)slow->median >= 1.25 * (double)fast->median && fast->cost != slow->cost;
            *pairs += counts;
            *right += counts && fast->cost < slow->cost;
        }
}

/* The predicted costs of recorded points correlate with their times. */
static void costs_tell_fast_from_slow(void **state)
{
    (void)state;
    recordings all;
    double sum = 0;
    int count = 0;
    read_all(&all);
    for (int i = 0; i < all.count; i++) {
        int64_t pairs = 0, right = 0;
        count_pairs(&all.items[i], &pairs, &right);
        sum += pairs > 0 ? (double)right / (double)pairs : 0;
        count += pairs > 0;
    }
    print_message("costs: %.3f of the pairs are in the right order, averaged over %d recordings\n", sum / count, count);
    assert_true(count > 0 && sum / count >= told_apart);
    recordings_free(&all);
}

/* Tries only what a record of one driver contains, its winner and three runners-up, on each other driver. */
static void a_tune_for_one_driver_serves_another(void **state)
{
    (void)state;
    enum { COMPILES = 16, OF_A_RECORD = 4 };
    recordings all;
    double sum = 0;
    int count = 0, reached = 0;
    read_all(&all);
    for (int i = 0; i < all.count; i++)
        for (int k = 0; k < all.count; k++) {
            if (i == k || strcmp(all.items[i].name, all.items[k].name) != 0)
                continue;
            replay_start from = {.seed_count = 0};
            for (int rank = 0; rank < OF_A_RECORD; rank++) {
                const recorded_point *best = recording_ranked(&all.items[k], rank);
                if (best != NULL && tuff__config_count(&best->config) > 0)
                    from.seeds[from.seed_count++] = best->config;
            }
            const double share = search_one(&all.items[i], &from, COMPILES, &(replay_counts){0});
            sum += share;
            reached += share >= 0.95;
            count++;
        }
    print_message("another driver's tune: %.3f of the best after %d compiles, 0.95 of it for %d of %d\n", sum / count,
                  COMPILES, reached, count);
    assert_true(sum / count >= reached_by_seeds);
    recordings_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_up_recordings_are_searched, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(recordings_of_kernels_are_searched),
        cmocka_unit_test(costs_tell_fast_from_slow),
        cmocka_unit_test(a_tune_for_one_driver_serves_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
