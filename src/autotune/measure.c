/* Measures the keys of a session within its budget. Searches the most promising key, one slice at a time
   (search/budget.h), starting with its default, which shows how much time it takes. The races come last, and their
   results are recorded (record_results.c). evaluator.c does the work on a candidate. */
#include <limits.h>
#include <stdio.h>

#include "base/log.h"
#include "autotune/compile_pool.h"
#include "autotune/crash_history.h"
#include "autotune/session.h"
#include "search/budget.h"
#include "autotune/guard.h"

/* Candidates of a key before the next key may get its turn. */
enum { SLICE = 4 };
/* Most compilations when another driver's winner is raced again. */
enum { RACE_COMPILES = 4 };

static uint64_t elapsed(const tuning_session *self)
{
    return tuff__nanoseconds() - self->begin;
}

static bool report(void *user, const search_progress *now)
{
    tuning_task *task = user;
    tuning_session *self = task->session;
    if (self->yield != NULL)
        self->yield(self, true);
    if (tuff__tune_options(self->options)->progress == NULL || self->stopped)
        return !self->stopped;
    text best = {0};
    tuff__config_format(now->best, &best);
    const uint64_t spent = elapsed(self), left = spent < self->budget ? self->budget - spent : 0;
    const tuff_tune_progress progress = {.key_count = self->keys_wanted,
                                         .keys_done = self->keys_done,
                                         .seconds_left = (double)(left + self->remaining_budget) * 1e-9,
                                         .key = task->text,
                                         .best = tuff__text_get(&best),
                                         .default_nanoseconds = now->default_nanoseconds,
                                         .best_nanoseconds = now->best_nanoseconds,
                                         .candidates = now->tried,
                                         .rejected = task->rejected,
                                         .rejection = task->rejection};
    self->stopped = !tuff__tune_options(self->options)->progress(tuff__tune_options(self->options)->user, &progress);
    tuff__text_free(&best);
    return !self->stopped;
}

static bool report_progress(tuning_task *task)
{
    const search_progress now = tuff__search_progress(task->search);
    return report(task, &now);
}

static void log_candidate(void *user, const tune_config *config, tune_evaluation result, uint64_t nanoseconds,
                          int samples)
{
    tuning_task *task = user;
    task->session->stats.slow += result == EVALUATION_SLOW;
    if (result == EVALUATION_SPILLS)
        tuff__session_count_rejection(task, result);
    tuff__session_log_add(user, config, result, nanoseconds, samples);
}

/* Whether a configuration is in use until the search ends: found in less time, under another driver, or for other
   dims. */
static bool is_known(const tuning_task *task)
{
    return task->tier >= TIER_SAME && task->tier <= TIER_NEAREST && tuff__config_count(&task->chosen) > 0;
}

static tuff_status begin(tuning_task *task)
{
    const evaluator by = tuff__evaluator_for_task(task);
    const search_settings settings = {.seeds = task->seeds,
                                      .seed_count = task->seed_count,
                                      .portfolio = task->portfolio,
                                      .portfolio_count = task->portfolio_count,
                                      .cached = is_known(task) ? &task->chosen : NULL,
                                      .no_climb = task->is_race,
                                      .prefetch = tuff__compile_pool_count(task->session->compile_pool),
                                      .max_compiles = task->is_race ? RACE_COMPILES : 0,
                                      .patience =
                                          tuff__tune_options(task->session->options)->mode == TUFF_TUNE_MAX ? 48 : 0,
                                      .roofline = tuff__session_roofline(task),
                                      .seed = task->hash.low ^ tuff__tune_options(task->session->options)->seed,
                                      .tried = log_candidate,
                                      .progress = report,
                                      .rejected = tuff__session_reject,
                                      .user = task};
    return tuff__search_begin(&by, &settings, &task->search);
}

/* Counts a key once, and not if the session was stopped. */
static void count_key_done(tuning_task *task)
{
    if (task->session->stopped || task->is_done)
        return;
    task->session->keys_done++;
    task->is_done = true;
}

static void spend(tuning_session *self, tune_budget *budget, int key)
{
    tuning_task *task = &self->tasks[key];
    const search_progress now = tuff__search_progress(task->search);
    tuff__session_note_leader(task);
    if (now.end != SEARCH_GOES_ON)
        count_key_done(task);
    tuff__budget_note_slice(budget, key, elapsed(self), now.tried, now.best_nanoseconds, now.end != SEARCH_GOES_ON);
}

/* Times the default of a key, which gives the key its weight, then tries the listed candidates: only
   one if the key is minor. */
static tuff_status open_key(tuning_session *self, tune_budget *budget, int key)
{
    tuning_task *task = &self->tasks[key];
    TRY(begin(task));
    TRY(tuff__search_step(task->search, 1));
    const search_progress now = tuff__search_progress(task->search);
    if (now.default_nanoseconds > 0)
        tuff__budget_weigh(budget, key, task->calls, now.default_nanoseconds);
    if (task->is_default_bad && now.end == SEARCH_UNUSABLE)
        tuff__session_choose_fallback(task);
    if (tuff__budget_is_minor(budget, key))
        tuff__search_narrow(task->search, 2);
    return tuff__search_prime(task->search);
}

/* Searches slice by slice, always the most promising key: a short budget ends with the heavy keys of the graph rather
   than with the defaults of all. */
static tuff_status search_all(tuning_session *self, tune_budget *budget)
{
    for (int key = tuff__budget_next(budget); key >= 0 && !self->stopped && !self->lost;
         key = tuff__budget_next(budget)) {
        tuning_task *task = &self->tasks[key];
        if (task->search != NULL && elapsed(self) >= tuff__budget_race_begin(budget))
            break;
        TRY(task->search == NULL ? open_key(self, budget, key) : tuff__search_step(task->search, SLICE));
        spend(self, budget, key);
    }
    return TUFF_OK;
}

/* A result that no race confirmed may be noise: it becomes the start of a later search. The winner is what was in use,
   if that was timed faster than the default, else the default. */
static void discard_guess(const tuning_task *task, search_result *result)
{
    search_result cached;
    const bool keeps_known = tuff__search_cached(task->search, &cached) == CACHED_FASTER;
    const tune_config kept = keeps_known ? cached.winner : (tune_config){.set = {0}};
    if (tuff__config_count(&result->winner) > 0 && !tuff__config_equal(&result->winner, &kept)) {
        result->runners_up[0] = result->winner;
        result->runner_up_nanoseconds[0] = result->nanoseconds[1];
        result->runner_up_count = 1;
    }
    result->winner = kept;
    for (int i = 0; i < 3; ++i)
        result->nanoseconds[i] = keeps_known ? cached.nanoseconds[i] : result->default_nanoseconds;
}

/* Takes the result of a search. Without a winner the default runs, as it will at later starts. A plan in use is not
   changed for that. */
static void apply_result(tuning_task *task, const search_result *result)
{
    if (!result->is_final && task->session->yield != NULL)
        return;
    task->chosen = result->winner;
    if (!result->is_final && tuff__config_count(&result->winner) == 0)
        task->tier = TIER_DEFAULT;
}

/* Whether the search ended before it said anything about the configuration in use, which then stays, unrecorded. */
static bool is_undecided(const tuning_task *task, const search_result *result)
{
    search_result cached;
    return !result->is_final && is_known(task) && task->tier != TIER_SAME &&
           tuff__search_cached(task->search, &cached) == CACHED_UNTRIED;
}

static tuff_status finish(tuning_task *task)
{
    search_result result;
    if (task->session->yield != NULL)
        task->session->yield(task->session, true);
    TRY(tuff__search_finish(task->search, &result));
    /* Without a record every start would try again; a user who stopped this search may want that. */
    const bool was_tried = result.default_nanoseconds > 0 && result.end < SEARCH_UNUSABLE && !task->session->stopped &&
                           !is_undecided(task, &result);
    if (!result.is_final)
        discard_guess(task, &result);
    task->was_measured = result.is_final;
    /* A guess does not replace the result of a race here. */
    if (!result.is_final && was_tried && task->tier == TIER_SAME) {
        tuff__session_record_unchanged(task, &result);
    } else if (result.is_final || was_tried) {
        apply_result(task, &result);
        tuff__session_record_result(task, &result);
    }
    task->session->stats.improved += result.is_final && tuff__config_count(&result.winner) > 0;
    count_key_done(task);
    (void)report_progress(task);
    return TUFF_OK;
}

/* Runs the races, starting with the keys that matter most, since time may run out. */
static tuff_status finish_all(tuning_session *self, tune_budget *budget)
{
    for (int key = tuff__budget_next_race(budget); key >= 0; key = tuff__budget_next_race(budget)) {
        const uint64_t before = tuff__nanoseconds();
        TRY(finish(&self->tasks[key]));
        tuff__budget_note_race(budget, key, elapsed(self), tuff__nanoseconds() - before);
    }
    return TUFF_OK;
}

static int count_wanted(const tuning_session *self)
{
    int count = 0;
    for (int i = 0; i < self->task_count; ++i)
        count += self->tasks[i].wants_measuring;
    return count;
}

static void clear(tuning_task *task)
{
    tuff__search_end(task->search);
    task->search = NULL;
    tuff__evaluator_clear(task);
}

/* Whether its default was timed, without which nothing is known about a key. */
static bool is_measured(const tuning_task *task)
{
    return task->search != NULL && tuff__search_progress(task->search).default_nanoseconds > 0;
}

/* Ends all searches. Marks only those keys as to be measured for which the others left no memory; returns their
   number. */
static int requeue_out_of_memory(tuning_session *self)
{
    int count = 0;
    for (int i = 0; i < self->task_count; ++i) {
        tuning_task *task = &self->tasks[i];
        self->stats.skipped += task->wants_measuring && !task->lacks_memory && !is_measured(task);
        clear(task);
        task->wants_measuring = task->lacks_memory;
        task->lacks_memory = false;
        count += task->wants_measuring;
    }
    return count;
}

/* Estimates each key's share of the graph's time by the bytes that its tasks have to move. */
static void estimate_shares(const tuning_session *self, tune_budget *budget)
{
    for (int i = 0; i < self->task_count; ++i)
        if (self->tasks[i].wants_measuring)
            tuff__budget_expect(budget, i, 1 + (double)self->tasks[i].calls * self->tasks[i].weight);
}

/* Measures all wanted keys once. Only running out of memory or a failing evaluator ends the pass early. */
static tuff_status measure_once(tuning_session *self)
{
    tune_budget *budget;
    TRY(tuff__budget_create(self->budget, self->task_count, &budget));
    estimate_shares(self, budget);
    tuff_status status = search_all(self, budget);
    if (status == TUFF_OK)
        status = finish_all(self, budget);
    tuff__budget_destroy(budget);
    return status;
}

static tuff_status measure(tuning_session *self)
{
    /* Reserves 2 % of the budget for steps in progress, so that measuring usually ends within it. */
    self->limit = self->begin + self->budget - self->budget / 50;
    int before, remaining = count_wanted(self);
    do {
        TRY(measure_once(self));
        before = remaining;
        remaining = requeue_out_of_memory(self);
    } while (remaining > 0 && remaining < before && !self->stopped && !self->lost && elapsed(self) < self->budget);
    self->stats.skipped += remaining;
    return TUFF_OK;
}

tuff_status tuff__session_open_journal(tuning_session *self)
{
    char folder[FOLDER_SIZE];
    if (tuff__tune_folder(folder, sizeof folder) != TUFF_OK)
        folder[0] = '\0';
    TRY(tuff__journal_open(folder[0] == '\0' ? NULL : folder, &self->journal));
    if (tuff__journal_error(self->journal)[0] != '\0')
        tuff__log(TUFF_LOG_INFO, "tune: a candidate that crashes this process may be tried again: %s",
                  tuff__journal_error(self->journal));
    return TUFF_OK;
}

tuff_status tuff__session_open_device(tuning_session *self)
{
    TRY(tuff__session_open_journal(self));
    if (self->measure_device == NULL)
        tuff__session_open_own_device(self);
    tuff__compile_pool_open(self);
    tuff__session_log_open(self);
    return TUFF_OK;
}

void tuff__session_close_device(tuning_session *self)
{
    tuff__session_log_close(self);
    tuff__compile_pool_close(self);
    if (self->lost)
        tuff__session_disable_measuring();
    tuff__session_close_own_device(self);
    tuff__journal_close(self->journal);
    self->journal = NULL;
}

static tuff_status measure_wanted(tuning_session *self)
{
    const tuff_status status = measure(self);
    for (int i = 0; i < self->task_count; ++i)
        clear(&self->tasks[i]);
    return status;
}

tuff_status tuff__session_measure_one(tuning_task *task, uint64_t budget)
{
    tuning_session *self = task->session;
    for (int i = 0; i < self->task_count; ++i)
        self->tasks[i].wants_measuring = &self->tasks[i] == task;
    self->begin = tuff__nanoseconds();
    self->budget = budget;
    self->stats.measured++;
    return measure_wanted(self);
}

tuff_status tuff__session_measure_all(tuning_session *self)
{
    self->stats.measured = self->keys_wanted = count_wanted(self);
    return measure_wanted(self);
}

static tuff_status measure_in_process(tuning_session *self)
{
    tuff_status status = tuff__session_open_device(self);
    if (status == TUFF_OK && !self->lost)
        status = tuff__session_measure_all(self);
    tuff__session_close_device(self);
    return status;
}

tuff_status tuff__session_measure(tuning_session *self)
{
    file_lock lock;
    bool waited;
    if (count_wanted(self) == 0 || !tuff__session_may_measure(self) || !tuff__session_lock_device(self, &lock, &waited))
        return TUFF_OK;
    tuff_status status = waited ? tuff__session_refresh(self) : TUFF_OK;
    if (waited)
        self->begin = tuff__nanoseconds(); /* waiting does not count towards the budget */
    if (status == TUFF_OK && count_wanted(self) > 0)
        status = self->external_measurer != NULL ? self->external_measurer->measure(self->external_measurer->self, self)
                                                 : measure_in_process(self);
    tuff__file_unlock(&lock);
    if (status == TUFF_OK || status == TUFF_E_OOM_HOST)
        return status;
    tuff__log(TUFF_LOG_WARNING, "tune: measuring stopped: %s", tuff_error());
    return TUFF_OK;
}
