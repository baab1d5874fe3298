/* How well recorded spaces are searched: those of real kernels, tests/data/recordings/NAME.jsonl or all of the folder
   TUFF_TUNE_RECORDINGS (tools/recording.h has their form), and some that are made up and written first. Recordings of
   one name on several devices are each other's seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file_list.h"
#include "scratch_folder.h"
#include "synthetic_space.h"
#include "tools/replay.h"

enum { RECORDINGS_MOST = 64, SEEDS_MOST = 8, SEEDS_OF_EACH = 3, RUNS = 10, STEPS = 3 };

static const int compiles[STEPS] = {8, 32, 128};

typedef struct shelf {
    const char *folder;
    recording all[RECORDINGS_MOST];
    int count;
} shelf;

static tuff_status take(const char *name, void *state)
{
    shelf *self = state;
    char path[4096];
    const size_t length = strlen(name);
    if (length < 6 || strcmp(name + length - 6, ".jsonl") != 0 || self->count == RECORDINGS_MOST)
        return TUFF_OK;
    (void)snprintf(path, sizeof path, "%s/%s", self->folder, name);
    return recording_read(path, &self->all[self->count++]);
}

static void fill(shelf *self, const char *folder)
{
    *self = (shelf){.folder = folder};
    if (tuff__file_list(folder, "", take, self) != TUFF_OK)
        fail_msg("%s", tuff_error());
}

static void empty(shelf *self)
{
    for (int i = 0; i < self->count; i++)
        recording_free(&self->all[i]);
}

static bool is_among(const choice *all, int count, const choice *what)
{
    for (int i = 0; i < count; i++)
        if (tuff__choice_equal(&all[i], what))
            return true;
    return false;
}

static const recorded_point *next_best(const recording *of, const choice *taken, int count)
{
    const recorded_point *best = NULL;
    for (int i = 0; i < of->count; i++) {
        const recorded_point *one = &of->points[i];
        if (one->median && (!best || one->median < best->median) && !is_among(taken, count, &one->what))
            best = one;
    }
    return best;
}

/* The best of the recordings of the same name on other devices. */
static int find_seeds(const shelf *self, int but, choice *out)
{
    int count = 0;
    for (int i = 0; i < self->count; i++)
        for (int k = 0; k < SEEDS_OF_EACH && i != but && count < SEEDS_MOST; k++) {
            const recorded_point *best = next_best(&self->all[i], out, count);
            if (strcmp(self->all[i].name, self->all[but].name) == 0 && best)
                out[count++] = best->what;
        }
    return count;
}

/* The part of the best speed that searches reach, on average; none may answer what is slower than the default. */
static double search_one(const recording *of, const choice *seeds, int seed_count, int most)
{
    const uint64_t before = recording_find(of, &(choice){0})->median, best = recording_best(of);
    double sum = 0;
    for (uint64_t run = 0; run < RUNS; run++) {
        replay device;
        search *self;
        search_result found;
        const judge by = replay_begin(&device, of, run + 1);
        const search_settings settings = {
            .seeds = seeds, .seed_count = seed_count, .most_compiles = most, .patience = -1, .seed = run};
        assert_int_equal(tuff__search_begin(&by, &settings, &self), TUFF_OK);
        assert_int_equal(tuff__search_step(self, most), TUFF_OK);
        assert_int_equal(tuff__search_finish(self, &found), TUFF_OK);
        tuff__search_end(self);
        assert_int_equal(device.broken + replay_live(&device), 0);
        const uint64_t time = recording_find(of, &found.winner)->median;
        /* Recorded medians have noise of their own. */
        assert_true((double)time <= 1.01 * (double)before);
        sum += (double)best / (double)time;
    }
    return sum / RUNS;
}

/* Means over the recordings, of which there is at least one. */
static void search_all(const shelf *self, double means[STEPS])
{
    memset(means, 0, STEPS * sizeof *means);
    for (int i = 0; i < self->count; i++) {
        const recording *of = &self->all[i];
        choice seeds[SEEDS_MOST];
        const int count = find_seeds(self, i, seeds);
        double shares[STEPS];
        for (int k = 0; k < STEPS; k++) {
            shares[k] = search_one(of, seeds, count, compiles[k]);
            means[k] += shares[k] / self->count;
        }
        print_message("%s, %s: %d points, default %.3f; %.3f after %d, %.3f after %d, %.3f after %d\n", of->name,
                      of->device, of->count,
                      (double)recording_best(of) / (double)recording_find(of, &(choice){0})->median, shares[0],
                      compiles[0], shares[1], compiles[1], shares[2], compiles[2]);
    }
    print_message("all: %.3f, %.3f, %.3f\n", means[0], means[1], means[2]);
}

static void made_up_recordings_are_searched(void **state)
{
    (void)state;
    static shelf all;
    double means[STEPS];
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
    fill(&all, scratch_folder());
    assert_int_equal(all.count, 3);
    search_all(&all, means);
    empty(&all);
    assert_true(means[0] >= 0.92 && means[1] >= 0.95 && means[2] >= 0.97);
}

static void recordings_of_kernels_are_searched(void **state)
{
    (void)state;
    static shelf all;
    double means[STEPS];
    const char *folder = getenv("TUFF_TUNE_RECORDINGS");
    fill(&all, folder ? folder : TUFF_TEST_DATA "/recordings");
    if (all.count == 0) {
        print_message("no recordings in %s\n", all.folder);
        skip();
    }
    search_all(&all, means);
    empty(&all);
    assert_true(means[0] >= 0.92 && means[1] >= 0.95 && means[2] >= 0.97);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_up_recordings_are_searched, scratch_folder_make, scratch_folder_remove),
        cmocka_unit_test(recordings_of_kernels_are_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
