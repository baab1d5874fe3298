/* The tuning options of verbs, the progress line and the summary. */
#include "tools/tune/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "api/controls.h"

static void end_line(tuning *self)
{
    if (self->is_line_open)
        fputc('\n', stderr);
    self->is_line_open = false;
}

static void print_line(tuning *self, const tuff_tune_progress *now)
{
    const double before = (double)now->default_nanoseconds * 1e-6, after = (double)now->best_nanoseconds * 1e-6;
    fprintf(stderr, "%s%d/%d keys  %.0f s left  %.70s: ", self->is_terminal ? "\r\033[K" : "", now->keys_done,
            now->key_count, now->seconds_left, now->key);
    if (after > 0 && now->best[0] == '\0')
        fprintf(stderr, "%.3f ms  ", before);
    else if (after > 0)
        fprintf(stderr, "%.2fx unconfirmed (%.3f->%.3f ms)  ", before / after, before, after);
    fprintf(stderr, "%d cand, %d rejected", now->candidates, now->rejected);
    if (now->rejected > 0)
        fprintf(stderr, " (%.60s)", now->rejection);
    fputs(self->is_terminal ? "" : "\n", stderr);
    self->is_line_open = self->is_terminal;
}

static int find_lead(const tuning *self, uint64_t hash)
{
    int index = 0;
    while (index < self->lead_count && self->leads[index] != hash)
        index++;
    return index;
}

/* Notes whether a candidate leads. That is not a gain before the race: tuning_end reports how many leads the race did
   not confirm. */
static void note_lead(tuning *self, const tuff_tune_progress *now)
{
    const uint64_t hash = tuff__hash64(now->key, strlen(now->key), 0);
    const int index = find_lead(self, hash);
    const bool leads = now->best[0] != '\0', is_noted = index < self->lead_count;
    if (leads && !is_noted && self->lead_count < TUNING_LEADS)
        self->leads[self->lead_count++] = hash;
    else if (!leads && is_noted)
        self->leads[index] = self->leads[--self->lead_count];
}

/* Counts the keys of the plan that run with their defaults although a candidate led. */
static int count_unconfirmed(const tuning *self, tuff_plan *plan)
{
    int unconfirmed = 0;
    tuff_plan_key_info key;
    const int count = self->lead_count > 0 ? tuff_plan_key_count(plan) : 0;
    for (int i = 0; i < count; i++)
        if (tuff_plan_key(plan, i, &key) == TUFF_OK && key.candidate[0] == '\0')
            unconfirmed += find_lead(self, tuff__hash64(key.key, strlen(key.key), 0)) < self->lead_count;
    return unconfirmed;
}

/* Progress callback. On a terminal each candidate overwrites the line; elsewhere each key gets one line, when its
   tuning starts. */
static bool show_progress(void *user, const tuff_tune_progress *now)
{
    tuning *self = user;
    note_lead(self, now);
    if (self->is_terminal || strncmp(self->key, now->key, sizeof self->key - 1) != 0)
        print_line(self, now);
    snprintf(self->key, sizeof self->key, "%s", now->key);
    return !cli_is_interrupted();
}

/* Lets the plan be tuned in the background, without a progress line, which would mix with the verb's own output. */
static void tune_in_background(tuning *self, const tuff_tune_options *effective)
{
    self->options.background = true;
    self->options.progress = NULL;
    if (effective->mode >= TUFF_TUNE_QUICK || !self->mode_given)
        self->options.mode = effective->mode >= TUFF_TUNE_QUICK ? effective->mode : TUFF_TUNE_QUICK;
}

void tuning_isolate(tuning *self)
{
    const char *environment = getenv("TUFF_TUNE_ISOLATE");
    if (self->isolate == TUFF_ISOLATE_AUTO && (environment == NULL || environment[0] == '\0'))
        self->isolate = TUFF_ISOLATE_ON;
}

void tuning_apply(tuning *self, tuff_compile_options *out)
{
    self->is_terminal = cli_is_terminal();
    self->options = (tuff_tune_options){.mode = (tuff_tune_mode)self->mode,
                                        .deterministic = self->deterministic,
                                        .manifest = self->manifest,
                                        .milliseconds = (uint32_t)(self->seconds * 1000),
                                        .isolation = (tuff_tune_isolation)self->isolate,
                                        .progress = show_progress,
                                        .user = self};
    /* --tune cached was given explicitly, so $TUFF_TUNE must not change it */
    if (self->mode_given && self->mode == TUFF_TUNE_CACHED)
        self->options.environment = TUFF_TUNE_ENVIRONMENT_NONE;
    out->tuning = &self->options;
    tuff_tune_options effective = self->options;
    tuff__controls_apply(&effective);
    self->background |=
        effective.background && effective.mode >= TUFF_TUNE_QUICK && !effective.deterministic && !self->manifest;
    if (self->background)
        tune_in_background(self, &effective);
    else if (effective.mode >= TUFF_TUNE_QUICK)
        cli_catch_interrupt();
}

static bool save_manifest(const tuning *self, tuff_plan *plan)
{
    if (self->save_manifest == NULL || plan == NULL || tuff_plan_save_manifest(plan, self->save_manifest) == TUFF_OK)
        return true;
    fprintf(stderr, "tuff: --save-manifest: %s\n", tuff_error());
    return false;
}

bool tuning_end(tuning *self, tuff_plan *plan)
{
    tuff_tune_stats stats;
    end_line(self);
    if (plan == NULL || tuff_plan_tune_stats(plan, &stats) != TUFF_OK)
        return save_manifest(self, plan);
    if (stats.keys == stats.hits[TUFF_TUNE_HIT_DEFAULT] && stats.measured == 0 &&
        (!self->background || stats.keys == 0))
        return save_manifest(self, plan); /* nothing was known, and no tuning was requested */
    const int known = stats.hits[TUFF_TUNE_HIT_PIN] + stats.hits[TUFF_TUNE_HIT_SAME];
    const int unconfirmed = count_unconfirmed(self, plan);
    fprintf(stderr, "tuned: %d of %d keys known, %d measured, %d improved, ", known, stats.keys, stats.measured,
            stats.improved);
    if (unconfirmed > 0)
        fprintf(stderr, "%d with a fast candidate that was not confirmed, ", unconfirmed);
    fprintf(stderr, "%d left out; ", stats.skipped);
    fprintf(stderr,
            "%llu candidates, %llu rejected; %.3f s (compiling %.1f, "
            "timing %.1f, checking %.1f)\n",
            (unsigned long long)stats.compiles,
            (unsigned long long)(stats.wrong + stats.races + stats.limits + stats.spills + stats.crashes + stats.hangs),
            (double)stats.nanoseconds * 1e-9, (double)stats.compile_nanoseconds * 1e-9,
            (double)stats.sample_nanoseconds * 1e-9, (double)stats.verify_nanoseconds * 1e-9);
    if (self->background)
        fprintf(stderr, "tuned in the background: the plan was replaced %d times, %d keys are left\n", stats.swaps,
                stats.background_keys_left);
    return save_manifest(self, plan);
}
