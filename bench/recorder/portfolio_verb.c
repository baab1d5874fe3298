/* tuff-recorder portfolio: makes the portfolios that are compiled in from recordings. */
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "bench/recorder/portfolio.h"
#include "bench/recorder/verbs.h"

enum { MAX_DEVICES = 32 };

typedef struct scores {
    const recordings *from;
    const char *devices[MAX_DEVICES];
    int device_count;
    double sum, baseline; /* scores of the portfolios and of the defaults, summed over families and devices */
    int count;
} scores;

static void find_devices(scores *self)
{
    for (int i = 0; i < self->from->count; i++) {
        bool is_new = self->device_count < MAX_DEVICES;
        for (int k = 0; k < self->device_count; k++)
            is_new = is_new && strcmp(self->devices[k], self->from->items[i].device) != 0;
        if (is_new)
            self->devices[self->device_count++] = self->from->items[i].device;
    }
}

/* Scores, on each device, the portfolio made from the other devices. */
static tuff_status score_family(const char *family, void *state)
{
    scores *self = state;
    for (int i = 0; i < self->device_count; i++) {
        tune_config others[PORTFOLIO_SIZE], all[PORTFOLIO_SIZE];
        char class[32];
        recording_class(&(recording){.device = self->devices[i]}, class, sizeof class);
        const int count = portfolio_make(self->from, family, class, self->devices[i], others);
        const int whole = portfolio_make(self->from, family, class, NULL, all);
        const double baseline = portfolio_score(self->from, family, self->devices[i], NULL, 0);
        if (count < 0 || whole < 0)
            return TUFF_E_OOM_HOST;
        if (baseline < 0)
            continue;
        const double found = portfolio_score(self->from, family, self->devices[i], others, count);
        printf("%-10s default %.3f, portfolio of the other devices %.3f, of all devices %.3f: %s\n", family, baseline,
               found, portfolio_score(self->from, family, self->devices[i], all, whole), self->devices[i]);
        self->baseline += baseline;
        self->sum += found;
        self->count++;
    }
    return TUFF_OK;
}

static tuff_status write_text(const recordings *from, const char *path)
{
    text out = {0};
    tuff_status status = portfolio_print(from, &out);
    if (!status && path)
        status = tuff__file_write(path, &(file_part){out.data, out.length}, 1, false, false);
    else if (!status)
        (void)fputs(tuff__text_get(&out), stdout);
    tuff__text_free(&out);
    return status;
}

static int make(const char *folder, const char *out)
{
    recordings from;
    scores self = {.from = &from};
    tuff_status status = recordings_read(folder, &from);
    if (!status && from.count == 0)
        status = FAIL(TUFF_E_IO, "no recordings in %s", folder);
    if (!status)
        status = write_text(&from, out);
    find_devices(&self);
    if (!status && out)
        status = portfolio_families(&from, score_family, &self);
    if (!status && self.count > 0)
        printf("%-10s default %.3f, portfolio of the other devices %.3f\n", "all", self.baseline / self.count,
               self.sum / self.count);
    recordings_free(&from);
    return status ? cli_fail_library(&recorder_portfolio, "the portfolio") : EXIT_DONE;
}

static int run(int count, char **arguments)
{
    const char *out = NULL, *folder = NULL;
    const cli_option options[] = {
        {"--out", CLI_TEXT, &out, "FILE", "write the portfolio to FILE and print scores; default: print the portfolio",
         0, 0, NULL},
    };
    const cli_end end = cli_parse(&recorder_portfolio, options, 1, count, arguments, &folder);
    if (end.now)
        return end.code;
    if (!folder)
        return cli_fail(&recorder_portfolio, EXIT_USAGE, "missing operand: the folder with the recordings");
    return make(folder, out);
}

const cli_verb recorder_portfolio = {
    .program = "tuff-recorder",
    .name = "portfolio",
    .operand = "FOLDER",
    .summary = "Finds, for each kernel family, the few candidates that do best on all recordings in a folder.",
    .about =
        "Writes src/search/portfolio.def. With --out it also prints, for each device, how fast the portfolio of the\n"
        "other devices is there, relative to the best recorded candidates.",
    .run = run,
};
