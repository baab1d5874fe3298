/* A session's keys: finds the tasks of a graph and their keys, looks up what is cached for each (tunedb/lookup.h), and
   hands out the chosen configurations. measure.c continues from here if something is to be measured. */
#include "autotune/session.h"

#include <string.h>

#include "base/log.h"
#include "device/cache/program_cache.h"
#include "autotune/crash_history.h"
#include "autotune/lowered.h"
#include "search/portfolio.h"
#include "tunedb/tidy.h"

static tuning_task *find_task(const tuning_session *self, hash128 hash)
{
    for (int i = 0; i < self->task_count; ++i)
        if (tuff__is_same_hash(self->tasks[i].hash, hash))
            return &self->tasks[i];
    return NULL;
}

/* If lowering reads no tunable for a task, there is nothing to tune. */
static bool has_tunables(const tuning_session *self, int task, double *weight)
{
    const tune_config defaults = {.set = {0}};
    task_estimate made;
    if (tuff__estimate_task(self->device, self->fusion, self->options, task, &defaults, &made) != TUFF_OK)
        return false;
    *weight = made.traffic;
    return tuff__config_count(&made.used_tunables) > 0;
}

static tuff_status add_task(tuning_session *self, int task)
{
    tune_key key;
    self->task_index[task] = -1;
    const tuff_status status = tuff__task_key(self->fusion, task, &key);
    if (status != TUFF_OK)
        return status == TUFF_E_OOM_HOST ? status : TUFF_OK;
    const hash128 hash = tuff__key_hash(&key);
    tuning_task *same = find_task(self, hash);
    if (same == NULL) {
        double weight;
        if (!has_tunables(self, task, &weight))
            return TUFF_OK;
        if (!GROW(self->tasks, self->task_count, self->task_capacity))
            return TUFF_E_OOM_HOST;
        same = &self->tasks[self->task_count++];
        *same = (tuning_task){
            .session = self, .key = key, .hash = hash, .task = task, .weight = weight, .tier = TIER_DEFAULT};
        tuff__key_text(&key, same->text);
        tuff__kernel_hash(key.family, same->kernel_hash);
    }
    same->calls++;
    self->stats.tasks++;
    self->task_index[task] = (int)(same - self->tasks);
    return TUFF_OK;
}

static bool is_refused(const tuning_task *task, const tune_config *config)
{
    for (int i = 0; i < task->refused_count; ++i)
        if (tuff__config_equal(&task->refused[i], config))
            return true;
    return false;
}

/* Whether a cached candidate can be lowered here and now. */
static bool is_usable(const char *candidate, void *state)
{
    const tuning_task *task = state;
    tune_config config;
    task_estimate made;
    if (tuff__config_parse(candidate, &config) != TUFF_OK)
        return false;
    if (is_refused(task, &config)) {
        (void)FAIL(TUFF_E_COMPILE, "the driver rejected it");
        return false;
    }
    if (tuff__tune_options(task->session->options)->deterministic && task->session->manifest == NULL &&
        !tuff__config_keeps_bits(&config)) {
        (void)FAIL(TUFF_E_UNSUPPORTED,
                   "it may sum in a different order than the default, which deterministic mode forbids");
        return false;
    }
    if (tuff__config_count(&config) == 0)
        return true; /* the default was lowered to find the key */
    return tuff__estimate_task(task->session->device, task->session->fusion, task->session->options, task->task,
                               &config, &made) == TUFF_OK;
}

/* False for a session that leaves measuring to the background: that has a tuner of its own. */
bool tuff__session_wants_measuring(const tuning_session *self)
{
    return tuff__tune_options(self->options)->mode >= TUFF_TUNE_QUICK &&
           !tuff__tune_options(self->options)->deterministic && self->manifest == NULL &&
           tuff__tune_options(self->options)->background == self->is_background;
}

/* Sorts seeds by origin; of the portfolio, only those that lookup let through. */
static void sort_seeds(tuning_task *task, const tune_lookup_result *result, const char *const *portfolio,
                       int portfolio_count)
{
    task->seed_count = task->portfolio_count = 0;
    for (int i = 0; i < result->seed_count; ++i) {
        tune_config config;
        bool is_portfolio = false;
        for (int k = 0; k < portfolio_count; ++k)
            is_portfolio |= result->seeds[i] == portfolio[k];
        if (tuff__config_parse(result->seeds[i], &config) != TUFF_OK)
            continue;
        if (is_portfolio)
            task->portfolio[task->portfolio_count++] = config;
        else
            task->seeds[task->seed_count++] = config;
    }
}

static void add_seed(tuning_task *task, const char *candidate)
{
    tune_config config;
    if (candidate[0] != '\0' && task->seed_count < TUNE_SEEDS && tuff__config_parse(candidate, &config) == TUFF_OK)
        task->seeds[task->seed_count++] = config;
}

/* Restricts the search to a race of another driver's winner, and its next two, against the default. */
static void race_again(tuning_task *task, const tune_record *found)
{
    enum { RUNNERS = 2 };
    task->is_race = tuff__tune_options(task->session->options)->mode < TUFF_TUNE_MAX;
    if (!task->is_race)
        return;
    task->seed_count = task->portfolio_count = 0;
    add_seed(task, found->candidate);
    for (int i = 0; i < RUNNERS; ++i)
        add_seed(task, found->runners_up[i]);
}

/* Whether to continue an earlier search that ran out of time or patience: the first with at least twice the time, the
   second only in mode MAX. */
static bool is_worth_continuing(const tuning_session *self, const tune_lookup_result *result)
{
    const tune_record *win = result->record;
    if (result->tier != TIER_SAME || win == NULL)
        return false;
    if (strcmp(win->end, "patience") == 0)
        return tuff__tune_options(self->options)->mode == TUFF_TUNE_MAX;
    const uint64_t budget = tuff__tune_budget(tuff__tune_options(self->options)) / 1000000;
    return strcmp(win->end, "budget") == 0 && budget >= 2 * win->budget_milliseconds;
}

static void apply_lookup(tuning_task *task, const tune_lookup_result *result)
{
    if (result->tier == TIER_OTHER_DRIVER)
        race_again(task, result->record);
    if (result->tier != TIER_SAME || result->record == NULL)
        return;
    task->known = *result->record;
    for (int i = 0; i < RUNNERS_UP; ++i)
        add_seed(task, task->known.runners_up[i]);
}

static tuff_status look_up_task(tuning_session *self, tuning_task *task)
{
    const bool may_measure = tuff__session_wants_measuring(self);
    const char *const *portfolio = NULL;
    const int portfolio_count =
        may_measure ? tuff__portfolio_for_environment(&self->environment, task->key.family, &portfolio) : 0;
    const tune_lookup_request request = {.key = &task->key,
                                         .environment = &self->environment,
                                         .kernel_hash = task->kernel_hash,
                                         .manifest = self->manifest,
                                         .only_same = tuff__tune_options(self->options)->deterministic,
                                         .stores = (const tune_store *const *)self->stores.items,
                                         .store_count = self->stores.count,
                                         .portfolio = portfolio,
                                         .portfolio_count = portfolio_count,
                                         .is_usable = is_usable,
                                         .state = task};
    tune_lookup_result result;
    tuff__tune_lookup(&request, &result);
    const bool continues = may_measure && is_worth_continuing(self, &result);
    if (continues)
        tuff__tune_lookup_seeds(&request, &result);
    if (result.deviates)
        return FAIL(TUFF_E_UNSUPPORTED, "compile: %.300s: %s in %.200s", result.why[TIER_OVERRIDE], task->text,
                    tuff__tune_options(self->options)->manifest);
    task->tier = result.tier;
    self->stats.hits[result.tier]++;
    task->miss = (int)result.miss - (int)MISS_UNKNOWN;
    if (result.miss != MISS_NONE)
        self->stats.misses[task->miss]++;
    task->is_pinned = result.tier == TIER_OVERRIDE;
    if (tuff__config_parse(result.candidate, &task->chosen) != TUFF_OK)
        task->chosen = (tune_config){.set = {0}};
    sort_seeds(task, &result, portfolio, portfolio_count);
    task->is_race = false;
    apply_lookup(task, &result);
    if (result.ignores_pin && !task->was_warned)
        tuff__log(TUFF_LOG_WARNING, "tune: %.300s: %s", task->text, result.why[TIER_OVERRIDE]);
    task->was_warned |= result.why[TIER_OVERRIDE][0] != '\0';
    task->wants_measuring = continues || (may_measure && result.tier > TIER_SAME);
    if (result.tier > TIER_NEAREST)
        tuff__session_avoid_default(task);
    return TUFF_OK;
}

tuff_status tuff__session_find_keys(tuning_session *self)
{
    const int count = self->fusion->task_count;
    self->task_index = tuff__calloc((size_t)count + 1, sizeof *self->task_index);
    if (self->task_index == NULL)
        return TUFF_E_OOM_HOST;
    self->stats.tasks = 0;
    for (int i = 0; i < count; ++i)
        TRY(add_task(self, i));
    self->stats.keys = self->task_count;
    return TUFF_OK;
}

static tuff_status look_up_all(tuning_session *self)
{
    memset(self->stats.hits, 0, sizeof self->stats.hits);
    memset(self->stats.misses, 0, sizeof self->stats.misses);
    for (int i = 0; i < self->task_count; ++i)
        TRY(look_up_task(self, &self->tasks[i]));
    return TUFF_OK;
}

tuff_status tuff__session_list_keys(const tuning_session *self, plan_keys *out)
{
    TRY(tuff__plan_keys_create(out, self->task_count));
    for (int i = 0; i < self->task_count; ++i) {
        const tuning_task *task = &self->tasks[i];
        plan_key *key = &out->items[i];
        text candidate = {0};
        tuff__config_format(&task->chosen, &candidate);
        key->text = tuff__strdup(task->text);
        key->candidate = tuff__strdup(tuff__text_get(&candidate));
        const tuff_status status = tuff__text_status(&candidate);
        tuff__text_free(&candidate);
        if (status != TUFF_OK || key->text == NULL || key->candidate == NULL)
            return TUFF_E_OOM_HOST;
        const bool is_default = tuff__config_count(&task->chosen) == 0 && task->tier > TIER_NEAREST;
        key->origin = task->was_measured ? "measured" : tuff__tier_text(is_default ? TIER_DEFAULT : task->tier);
        key->task = task->task;
        key->calls = task->calls;
        memcpy(key->kernel_hash, task->kernel_hash, sizeof key->kernel_hash);
    }
    return TUFF_OK;
}

void tuff__session_forget_choices(tuning_session *self)
{
    for (int i = 0; i < self->task_count; ++i) {
        self->tasks[i].chosen = (tune_config){.set = {0}};
        self->tasks[i].tier = TIER_DEFAULT;
        self->tasks[i].was_measured = false;
    }
}

tuff_status tuff__session_collect_choices(const tuning_session *self, const tune_config ***out, bool *any)
{
    const int count = self->fusion->task_count;
    const tune_config **choices = tuff__calloc((size_t)count + 1, sizeof(tune_config *));
    *any = false;
    *out = choices;
    for (int i = 0; i < count && choices != NULL; ++i)
        if (self->task_index[i] >= 0 && tuff__config_count(&self->tasks[self->task_index[i]].chosen) > 0) {
            choices[i] = &self->tasks[self->task_index[i]].chosen;
            *any = true;
        }
    return choices == NULL ? TUFF_E_OOM_HOST : TUFF_OK;
}

bool tuff__session_has_no_records(const tuning_session *self)
{
    for (int i = 0; i < self->stores.count; ++i) {
        int at = 0;
        if (tuff__store_next(self->stores.items[i], &at) != NULL)
            return false;
    }
    return true;
}

static tuff_status open_stores(tuning_session *self, bool is_wide)
{
    tuff__tune_close_stores(&self->stores);
    self->store = NULL;
    self->is_wide = is_wide;
    TRY(tuff__tune_open_stores(self->environment_text, is_wide, &self->stores));
    self->store = self->stores.items[0];
    return TUFF_OK;
}

/* Opens the stores. Those of other drivers are included if this driver has no records, or if searches need seeds. */
static tuff_status gather(tuning_session *self)
{
    TRY(open_stores(self, tuff__session_wants_measuring(self)));
    if (!tuff__session_has_no_records(self) || self->is_wide || self->manifest != NULL)
        return TUFF_OK;
    return open_stores(self, true);
}

tuff_status tuff__session_refresh(tuning_session *self)
{
    TRY(gather(self));
    return look_up_all(self);
}

tuff_status tuff__session_open_stores(tuning_session *self)
{
    tuff__environment_from_info(tuff__device_info(self->device), &self->environment);
    tuff__environment_text(&self->environment, self->environment_text);
    if (tuff__tune_options(self->options)->manifest != NULL)
        TRY(tuff__store_load(tuff__tune_options(self->options)->manifest, &self->manifest));
    TRY(gather(self));
    int crashes;
    TRY(tuff__crash_history_recover(self->store, self->environment_text, &crashes));
    self->stats.crashes += (uint64_t)crashes;
    return TUFF_OK;
}

tuff_status tuff__session_look_up(tuning_session *self)
{
    TRY(tuff__session_open_stores(self));
    TRY(tuff__session_find_keys(self));
    return look_up_all(self);
}

/* Takes back what a lookup counted for a task that is looked up again. */
static void uncount(tuning_session *self, const tuning_task *task)
{
    self->stats.hits[task->tier]--;
    if (task->miss >= 0)
        self->stats.misses[task->miss]--;
}

bool tuff__session_reject_chosen(tuning_session *self, int task, tuff_status why)
{
    tuning_task *refused_task = self->task_index[task] >= 0 ? &self->tasks[self->task_index[task]] : NULL;
    if (refused_task == NULL || self->manifest != NULL || tuff__config_count(&refused_task->chosen) == 0)
        return false;
    tuff__log(TUFF_LOG_WARNING, "tune: cannot use the configuration found for %.300s: %s", refused_task->text,
              tuff_error());
    if (!refused_task->is_pinned)
        tuff__session_reject(refused_task, &refused_task->chosen,
                             why == TUFF_E_LIMIT ? EVALUATION_LIMITS : EVALUATION_COMPILE);
    if (refused_task->refused_count < MAX_REFUSED)
        refused_task->refused[refused_task->refused_count++] = refused_task->chosen;
    refused_task->was_measured = false;
    uncount(self, refused_task);
    if (look_up_task(self, refused_task) != TUFF_OK || refused_task->refused_count == MAX_REFUSED ||
        is_refused(refused_task, &refused_task->chosen))
        refused_task->chosen = (tune_config){.set = {0}};
    return true;
}

static bool lacks_winners(const tuning_session *self)
{
    for (int i = 0; i < self->task_count; ++i)
        if (self->tasks[i].tier > TIER_SAME)
            return true;
    return false;
}

uint64_t tuff__session_count_damaged(const tuning_session *self)
{
    uint64_t lines = 0;
    for (int i = 0; i < self->stores.count; ++i)
        lines += tuff__store_count(self->stores.items[i]).damaged;
    return lines;
}

tuff_status tuff__session_look_up_widely(tuning_session *self)
{
    TRY(tuff__session_find_keys(self));
    TRY(look_up_all(self));
    if (!self->is_wide && self->manifest == NULL && lacks_winners(self)) {
        TRY(open_stores(self, true));
        TRY(look_up_all(self));
    }
    self->stats.damaged_lines = tuff__session_count_damaged(self);
    return TUFF_OK;
}

static void drop_tasks(tuning_session *self)
{
    tuff__free(self->tasks);
    tuff__free(self->task_index);
    self->tasks = NULL;
    self->task_index = NULL;
    self->task_count = self->task_capacity = 0;
}

void tuff__session_tidy(const tuning_session *self)
{
    if (self->stats.measured > 0 && tuff__store_tidy(self->store, TIDY_LIMIT) != TUFF_OK)
        tuff__log(TUFF_LOG_INFO, "tune: cannot compact the cache: %s", tuff_error());
    if (self->stats.compiles > 0)
        tuff__program_cache_trim(CACHE_LIMIT);
}

void tuff__session_close_stores(tuning_session *self)
{
    for (int i = 0; i < self->task_count; ++i)
        tuff__lowered_clear(&self->tasks[i]);
    tuff__tune_close_stores(&self->stores);
    tuff__store_close(self->manifest);
    drop_tasks(self);
    self->manifest = self->store = NULL;
}
