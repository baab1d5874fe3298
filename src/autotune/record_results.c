/* Writes the results of a session to its store: winners, leaders of unfinished searches, rejected candidates. Before
   that, enters candidates in the journal. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "autotune/crash_history.h"
#include "autotune/session.h"

static tune_record make_record(record_kind kind, const tuning_task *task, const text *name)
{
    tune_record out = tuff__record_make(kind, task->session->environment_text, task->text, tuff__text_get(name));
    out.kernel_hash = task->kernel_hash;
    return out;
}

static void count_rejection(tuff_tune_stats *stats, tune_evaluation why)
{
    switch (why) {
    case EVALUATION_WRONG:
        stats->wrong++;
        break;
    case EVALUATION_RACE:
        stats->races++;
        break;
    case EVALUATION_SPILLS:
        stats->spills++;
        break;
    case EVALUATION_HANG:
        stats->hangs++;
        break;
    default:
        stats->limits++;
    }
}

/* Whether the default's compiler was given up before the maximum time. The plan needs its default whatever the tuner
   does, so the next process tries it again. */
static bool is_given_up(const tuning_task *task, const tune_config *config)
{
    return tuff__config_count(config) == 0 && task->compile_limit < tuff__compile_timeout &&
           tuff__device_is_stuck(tuff__session_device(task->session));
}

/* A device lost or hung with a default may be another process's doing, so it is only a suspicion, as after a crash. */
static bool is_uncertain(const tune_config *config, tune_evaluation why)
{
    return tuff__config_count(config) == 0 && (why == EVALUATION_HANG || why == EVALUATION_LOST);
}

void tuff__session_count_rejection(tuning_task *task, tune_evaluation why)
{
    task->rejected++;
    snprintf(task->rejection, sizeof task->rejection, "%.40s: %.80s", tuff__evaluation_text(why), tuff_error());
    count_rejection(&task->session->stats, why);
}

void tuff__session_reject(void *user, const tune_config *config, tune_evaluation why)
{
    tuning_task *task = user;
    text name = {0};
    tuff__session_count_rejection(task, why);
    task->is_default_bad |= tuff__config_count(config) == 0 && (why == EVALUATION_WRONG || why == EVALUATION_RACE);
    if (is_given_up(task, config))
        return;
    tuff__config_format(config, &name);
    tune_record record = make_record(RECORD_REJECTION, task, &name);
    record.reason = is_uncertain(config, why) ? tuff__crash_history_reason(task->session->store, &record)
                                              : tuff__evaluation_text(why);
    const bool at_compile = why == EVALUATION_COMPILE || why == EVALUATION_LIMITS ||
                            tuff__device_is_stuck(tuff__session_device(task->session));
    record.phase = at_compile ? "compile" : "verify";
    if (tuff__text_status(&name) == TUFF_OK && tuff__store_add(task->session->store, &record) != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "tune: cannot record a rejected candidate: %s", tuff_error());
    tuff__text_free(&name);
}

tuff_status tuff__session_enter_journal(const tuning_task *task, int slot, journal_phase phase,
                                        const tune_config *config, bool durable)
{
    text name = {0};
    tuff__config_format(config, &name);
    tuff_status status = tuff__text_status(&name);
    if (status == TUFF_OK)
        status = tuff__journal_acquire_slot(task->session->journal, slot, phase, task->session->environment_text,
                                            task->text, tuff__text_get(&name), durable);
    tuff__text_free(&name);
    return status == TUFF_E_IO ? TUFF_OK : status;
}

static void add_winner(const tuning_task *task, const tune_record *record)
{
    if (tuff__store_add(task->session->store, record) != TUFF_OK)
        tuff__log(TUFF_LOG_WARNING, "tune: cannot record a winner: %s", tuff_error());
}

/* Makes a candidate the first runner-up, unless the record has it. */
static void add_runner_up(tune_record *record, const char *candidate)
{
    bool is_known = strcmp(record->candidate, candidate) == 0;
    for (int i = 0; i < RUNNERS_UP; ++i)
        is_known |= strcmp(record->runners_up[i], candidate) == 0;
    if (is_known)
        return;
    for (int i = RUNNERS_UP - 1; i > 0; --i)
        record->runners_up[i] = record->runners_up[i - 1];
    record->runners_up[0] = candidate;
}

void tuff__session_record_unchanged(const tuning_task *task, const search_result *found)
{
    text guess = {0};
    tune_record record = task->known;
    if (found->runner_up_count > 0) {
        tuff__config_format(&found->runners_up[0], &guess);
        if (tuff__text_status(&guess) == TUFF_OK)
            add_runner_up(&record, tuff__text_get(&guess));
    }
    record.budget_milliseconds = tuff__tune_budget(tuff__tune_options(task->session->options)) / 1000000;
    if (tuff__tune_options(task->session->options)->mode == TUFF_TUNE_MAX && strcmp(record.end, "patience") == 0)
        record.end = "";
    add_winner(task, &record);
    tuff__text_free(&guess);
}

static void record_result(const tuning_task *task, const search_result *found, const char *source)
{
    text names[1 + SEARCH_RUNNERS_UP] = {{0}};
    tuff__config_format(&found->winner, &names[0]);
    tune_record record = make_record(RECORD_WIN, task, &names[0]);
    for (int i = 0; i < found->runner_up_count && i < RUNNERS_UP; ++i) {
        tuff__config_format(&found->runners_up[i], &names[1 + i]);
        record.runners_up[i] = tuff__text_get(&names[1 + i]);
    }
    record.source = source;
    memcpy(record.nanoseconds, found->nanoseconds, sizeof record.nanoseconds);
    record.samples = (uint64_t)found->samples;
    record.cold = task->is_cold ? "w" : "";
    record.default_nanoseconds = found->default_nanoseconds;
    record.budget_milliseconds = tuff__tune_budget(tuff__tune_options(task->session->options)) / 1000000;
    record.end = tuff__search_end_text(found);
    record.timed = (uint64_t)found->timed;
    memcpy(record.spread, found->spread, sizeof record.spread);
    bool complete = true;
    for (int i = 0; i < 1 + SEARCH_RUNNERS_UP; ++i)
        complete &= tuff__text_status(&names[i]) == TUFF_OK;
    if (complete)
        add_winner(task, &record);
    for (int i = 0; i < 1 + SEARCH_RUNNERS_UP; ++i)
        tuff__text_free(&names[i]);
}

void tuff__session_record_result(tuning_task *task, const search_result *found)
{
    record_result(task, found, "live");
}

void tuff__session_note_leader(tuning_task *task)
{
    search_result found;
    if (task->tier == TIER_SAME || !tuff__search_leader(task->search, &found) ||
        tuff__config_equal(&found.winner, &task->noted_leader))
        return;
    task->noted_leader = found.winner;
    record_result(task, &found, "seed");
}

void tuff__tune_stats_add(tuff_tune_stats *to, const tuff_tune_stats *more)
{
    to->measured += more->measured;
    to->improved += more->improved;
    to->skipped += more->skipped;
    to->compiles += more->compiles;
    to->launches += more->launches;
    to->wrong += more->wrong;
    to->races += more->races;
    to->limits += more->limits;
    to->slow += more->slow;
    to->spills += more->spills;
    to->crashes += more->crashes;
    to->hangs += more->hangs;
    to->nanoseconds += more->nanoseconds;
    to->compile_nanoseconds += more->compile_nanoseconds;
    to->sample_nanoseconds += more->sample_nanoseconds;
    to->verify_nanoseconds += more->verify_nanoseconds;
    to->lock_waits += more->lock_waits;
    to->prefetched += more->prefetched;
    to->prefetch_nanoseconds += more->prefetch_nanoseconds;
}
