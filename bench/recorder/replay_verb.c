/* tuff-recorder replay: reports how close searches come to the best candidates of recordings. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "bench/recorder/replay_search.h"
#include "bench/recorder/verbs.h"

enum { STEPS = 4 };

static const int compiles[STEPS] = {8, 32, 128, 256};

typedef struct replay_totals {
    replay_counts counts;
    double sums[STEPS], worst;
} replay_totals;

static void print_row(const char *name, const double *shares, const char *device)
{
    printf("%-32s", name);
    for (int i = 0; i < STEPS; i++)
        printf("  %.3f after %-3d", shares[i], compiles[i]);
    printf("  %s\n", device);
    (void)fflush(stdout);
}

static tuff_status replay_one(const recordings *all, int index, int runs, replay_totals *totals)
{
    replay_start start;
    double shares[STEPS];
    TRY(replay_start_without(all, index, &start));
    for (int i = 0; i < STEPS; i++) {
        TRY(replay_search(&all->items[index], &start, compiles[i], runs, &totals->counts, &shares[i]));
        totals->sums[i] += shares[i];
    }
    if (index == 0 || shares[STEPS - 1] < totals->worst)
        totals->worst = shares[STEPS - 1];
    print_row(all->items[index].name, shares, all->items[index].device);
    return TUFF_OK;
}

static tuff_status replay_all(const recordings *all, int runs)
{
    replay_totals totals = {.worst = 0};
    for (int i = 0; i < all->count; i++)
        TRY(replay_one(all, i, runs, &totals));
    for (int i = 0; i < STEPS; i++)
        totals.sums[i] /= all->count;
    print_row("mean", totals.sums, "all");
    printf("worst after %d: %.3f; %" PRId64 " of %" PRId64 " winners slower than the default; %.0f %% of the "
           "candidates were not recorded\n",
           compiles[STEPS - 1], totals.worst, totals.counts.slower, totals.counts.runs,
           100 * (double)totals.counts.unrecorded / (double)totals.counts.lowered);
    return TUFF_OK;
}

static int run(int count, char **arguments)
{
    const char *folder = NULL;
    int64_t runs = 10;
    recordings all;
    const cli_option options[] = {
        {"--runs", CLI_INTEGER, &runs, "N", "searches of each recording, with different seeds", 1, 1000, NULL},
    };
    const cli_end end = cli_parse(&recorder_replay, options, 1, count, arguments, &folder);
    if (end.now)
        return end.code;
    if (!folder)
        return cli_fail(&recorder_replay, EXIT_USAGE, "missing operand: the folder with the recordings");
    tuff_status status = recordings_read(folder, &all);
    if (status == TUFF_OK && all.count == 0)
        status = FAIL(TUFF_E_IO, "no recordings in %s", folder);
    if (status == TUFF_OK)
        status = replay_all(&all, (int)runs);
    recordings_free(&all);
    return status == TUFF_OK ? EXIT_DONE : cli_fail_library(&recorder_replay, folder);
}

const cli_verb recorder_replay = {
    .program = "tuff-recorder",
    .name = "replay",
    .operand = "FOLDER",
    .summary = "Searches each recording in a folder as if its device were unknown; prints how fast the winners are.",
    .about = "Each row shows the mean speed of the winners, relative to the best recorded candidate, after 8, 32, 128\n"
             "and 256 candidates. A search begins with the winners of the same task on other devices and with the\n"
             "portfolio made without its own device.",
    .run = run,
};
