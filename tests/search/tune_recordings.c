/* How well recorded spaces are searched: those of real kernels, tests/data/recordings/NAME.jsonl or all of the folder
   TUFF_TUNE_RECORDINGS (tools/recording.h has their form), and some that are made up and written first. A search knows
   nothing of its own device: it begins with what a lookup would offer of the others, the winner of each for the same
   task as seeds, and the portfolio that is made without the device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scratch_folder.h"
#include "synthetic_space.h"
#include "tools/portfolio.h"
#include "tools/replay.h"

enum { SEEDS_MOST = 8, RUNS = 10, STEPS = 4 };

static const int compiles[STEPS] = {8, 32, 128, 256};
/* What is asked of a search. */
static const double asked_means[STEPS] = {0.92, 0.95, 0.97, 0.97}, asked_worst = 0.80;
/* Of a tune for one driver on another, after 16 compiles: a little less than is reached. */
static const double reached_by_seeds = 0.945;
/* Of pairs: 0.5 is luck. */
static const double told_apart = 0.85;

/* What searches begin with. */
typedef struct start {
    choice seeds[SEEDS_MOST], portfolio[PORTFOLIO_SIZE];
    int seed_count, portfolio_count;
} start;

typedef struct tally {
    int64_t asked, unrecorded; /* choices, and those of them that the tables do not have */
    int64_t runs, slower;      /* searches, and those whose answer's median is above the default's */
} tally;

static const choice usual;

/* The best but so many; NULL where there are not as many. The default is no seed. */
static const recorded_point *best_but(const recording *of, int better)
{
    const recorded_point *best = NULL;
    for (int rank = 0; rank <= better; rank++) {
        const recorded_point *next = NULL;
        for (int i = 0; i < of->count; i++) {
            const recorded_point *one = &of->points[i];
            const bool is_behind = !best || one->median > best->median || (one->median == best->median && one > best);
            if (one->median > 0 && is_behind && one != best && (!next || one->median < next->median))
                next = one;
        }
        if (next == NULL)
            return NULL;
        best = next;
    }
    return best;
}

/* The winners of the same task on other devices, then their next best ones. */
static void add_seeds(const recordings *all, int but, int of_each, int most, start *out)
{
    for (int rank = 0; rank < of_each; rank++)
        for (int i = 0; i < all->count; i++) {
            const recorded_point *best = best_but(&all->items[i], rank);
            if (i != but && strcmp(all->items[i].name, all->items[but].name) == 0 && best != NULL &&
                tuff__choice_count(&best->what) > 0 && out->seed_count < most)
                out->seeds[out->seed_count++] = best->what;
        }
}

/* As many as a lookup offers. */
static void add_portfolio(const recordings *all, int but, start *out)
{
    char family[32], class[32];
    recording_family(&all->items[but], family, sizeof family);
    recording_class(&all->items[but], class, sizeof class);
    const int count = portfolio_make(all, family, class, all->items[but].device, out->portfolio);
    assert_true(count >= 0);
    out->portfolio_count = count < SEEDS_MOST - out->seed_count ? count : SEEDS_MOST - out->seed_count;
}

/* The part of the best speed that searches reach, on average; none may answer what is slower than the default. */
static double search_one(const recording *of, const start *from, int most, tally *counts)
{
    const uint64_t before = recording_find(of, &usual)->median, best = recording_best(of);
    double sum = 0;
    for (uint64_t run = 0; run < RUNS; run++) {
        replay device;
        search *self;
        search_result found;
        const judge by = replay_begin(&device, of, run + 1);
        const search_settings settings = {.portfolio = from->portfolio,
                                          .portfolio_count = from->portfolio_count,
                                          .seeds = from->seeds,
                                          .seed_count = from->seed_count,
                                          .most_compiles = most,
                                          .patience = -1,
                                          .seed = run};
        assert_int_equal(tuff__search_begin(&by, &settings, &self), TUFF_OK);
        assert_int_equal(tuff__search_step(self, most), TUFF_OK);
        assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
        tuff__search_end(self);
        assert_int_equal(device.broken + replay_live(&device), 0);
        const uint64_t time = recording_find(of, &found.winner)->median;
        counts->runs++;
        counts->slower += (double)time > 1.01 * (double)before;
        sum += (double)best / (double)time;
        counts->asked += device.asked;
        counts->unrecorded += device.unrecorded;
    }
    return sum / RUNS;
}

/* Means over the recordings, of which there is at least one; and the worst of the last step. */
static double search_all(const recordings *all, double means[STEPS])
{
    double worst = 1, random = 0;
    tally counts = {0};
    memset(means, 0, STEPS * sizeof *means);
    for (int i = 0; i < all->count; i++) {
        const recording *of = &all->items[i];
        const start nothing = {.seed_count = 0};
        start from = nothing;
        double shares[STEPS];
        add_seeds(all, i, 1, SEEDS_MOST, &from);
        add_portfolio(all, i, &from);
        for (int k = 0; k < STEPS; k++) {
            shares[k] = search_one(of, &from, compiles[k], &counts);
            means[k] += shares[k] / all->count;
        }
        random += search_one(of, &nothing, compiles[1], &(tally){0}) / all->count;
        worst = shares[STEPS - 1] < worst ? shares[STEPS - 1] : worst;
        print_message("%-32s %3d points, default %.3f; %.3f after 8, %.3f after 32, %.3f after 128 (%.22s)\n", of->name,
                      of->count, (double)recording_best(of) / (double)recording_find(of, &usual)->median, shares[0],
                      shares[1], shares[2], of->device);
    }
    print_message(
        "all: %.3f after 8, %.3f after 32, %.3f after 128, %.3f after 256, worst of these %.3f; without seeds "
        "and portfolio %.3f after 32; %.0f %% of the choices were not recorded\n",
        means[0], means[1], means[2], means[3], worst, random, 100 * (double)counts.unrecorded / (double)counts.asked);
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
        recording of;
        text lines = {0};
        char name[32];
        synthetic_space(2, device, &of);
        recording_print_header(&of, &lines);
        for (int i = 0; i < of.count; i++)
            recording_print_point(&of.points[i], &lines);
        assert_int_equal(tuff__text_status(&lines), TUFF_OK);
        (void)snprintf(name, sizeof name, "%d.jsonl", device);
        scratch_write(name, lines.data, lines.length);
        tuff__text_free(&lines);
        recording_free(&of);
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

/* Pairs of drawn points that differ by a quarter or more, and how many of them the lesser cost names the faster. */
static void count_pairs(const recording *of, int64_t *pairs, int64_t *right)
{
    for (int i = 0; i < of->count; i++)
        for (int k = 0; k < of->count; k++) {
            const recorded_point *fast = &of->points[i], *slow = &of->points[k];
            const bool counts = fast->drawn && slow->drawn && fast->median > 0 && fast->cost > 0 && slow->cost > 0 &&
                                (double)slow->median >= 1.25 * (double)fast->median && fast->cost != slow->cost;
            *pairs += counts;
            *right += counts && fast->cost < slow->cost;
        }
}

/* What lowering foresaw of each recorded point is no noise. */
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
    print_message("costs: %.3f of the pairs are in the right order, on the mean of %d recordings\n", sum / count,
                  count);
    assert_true(count > 0 && sum / count >= told_apart);
    recordings_free(&all);
}

/* What a record of one driver has, its winner and three runners-up, and nothing else, on each other driver. */
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
            start from = {.seed_count = 0};
            for (int rank = 0; rank < OF_A_RECORD; rank++) {
                const recorded_point *best = best_but(&all.items[k], rank);
                if (best != NULL && tuff__choice_count(&best->what) > 0)
                    from.seeds[from.seed_count++] = best->what;
            }
            const double share = search_one(&all.items[i], &from, COMPILES, &(tally){0});
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
