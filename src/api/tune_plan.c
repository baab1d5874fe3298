/* Connects a plan and the tuner: begins a session for the plan's graph, lowers and records the plan with the
   configurations that it chose, and replaces those that the driver refuses. In a build without the tuner untuned.c
   replaces this file. */
#include "base/log.h"
#include "api/launch_failure.h"
#include "worker/worker.h"

/* Frees the previous launches first, so that two sets of planned memory never exist at once. */
static tuff_status lower(const tuning_session *self, tuff_plan *plan, const tune_config *const *choices)
{
    tuff__launch_list_free(&plan->executable.launches);
    return tuff__lower(self->device, &plan->fusion, self->options, choices, &plan->executable.launches);
}

/* Lowers the plan with the chosen configurations; if it then needs more memory than its budget, with the defaults. */
static tuff_status lower_with_choices(tuning_session *self, tuff_plan *plan, const tune_config *const *choices)
{
    tuff_status status = lower(self, plan, choices);
    const uint64_t budget = self->options->memory_budget, peak = plan->executable.launches.peak;
    const bool fits = budget == 0 || peak <= budget;
    if (status == TUFF_E_OOM_HOST || (status == TUFF_OK && fits))
        return status;
    /* A manifest fixes the configurations: the plan either runs with them or not at all. */
    if (self->manifest != NULL)
        return status != TUFF_OK
                   ? status
                   : FAIL(TUFF_E_LIMIT,
                          "compile: with this manifest the plan needs %llu bytes, more than its budget of %llu",
                          (unsigned long long)peak, (unsigned long long)budget);
    tuff__log(TUFF_LOG_WARNING, "tune: the plan uses the default configurations: %s",
              status == TUFF_OK ? "with the tuned ones it would exceed its memory budget" : tuff_error());
    status = lower(self, plan, NULL);
    tuff__session_forget_choices(self);
    return status;
}

/* Lowers the plan with the choices, if there are any. A plan that is already lowered uses the defaults. */
static tuff_status apply_choices(tuning_session *self, tuff_plan *plan)
{
    const tune_config **choices;
    bool any;
    tuff_status status = tuff__session_collect_choices(self, &choices, &any);
    if (status == TUFF_OK && any)
        status = lower_with_choices(self, plan, choices);
    else if (status == TUFF_OK && plan->executable.launches.device == NULL)
        status = lower(self, plan, NULL);
    tuff__free(choices);
    return status;
}

/* Records the plan. The driver may refuse a candidate that was found elsewhere or under other conditions; such a
   candidate is given up, and the plan is lowered again. */
static tuff_status record_usable(tuning_session *self, tuff_plan *plan)
{
    const recording_options options = tuff__plan_recording_options(plan);
    for (;;) {
        const tuff_status status = tuff__executable_record(&plan->executable, &options);
        const int task = status == TUFF_E_COMPILE || status == TUFF_E_LIMIT || status == TUFF_E_UNSUPPORTED
                             ? plan->executable.failed_task
                             : -1;
        if (task < 0 || !tuff__session_reject_chosen(self, task, status))
            return status;
        tuff__executable_free(&plan->executable);
        TRY(apply_choices(self, plan));
    }
}

static tuff_status record_plan(tuning_session *self, tuff_plan *plan)
{
    const uint64_t begin = tuff__nanoseconds();
    const tuff_status status = record_usable(self, plan);
    self->plan_compile_nanoseconds = tuff__nanoseconds() - begin;
    return status;
}

/* Returns the number of keys that background tuning has to measure. */
static int count_keys_left(const tuning_session *self)
{
    int count = 0;
    for (int i = 0; i < self->task_count && tuff__tune_options(self->options)->background; ++i)
        count += self->tasks[i].tier > TIER_SAME;
    return count;
}

static tuff_status tune(tuning_session *self, tuff_plan *plan)
{
    TRY(tuff__session_open_stores(self));
    if (tuff__session_has_no_records(self) && !tuff__session_wants_measuring(self) && self->manifest == NULL &&
        !tuff__tune_options(self->options)->background) {
        self->stats.damaged_lines = tuff__session_count_damaged(self);
        plan->has_uncounted_keys = true;
        return TUFF_OK;
    }
    TRY(tuff__session_look_up_widely(self));
    self->stats.background_keys_left = count_keys_left(self);
    TRY(tuff__session_measure(self));
    if (self->lost && !self->had_own_device)
        return FAIL(TUFF_E_DEVICE_LOST,
                    "tune: the device was lost while running a candidate; that candidate will not be tried again");
    TRY(apply_choices(self, plan));
    TRY(record_plan(self, plan));
    return tuff__session_list_keys(self, &plan->keys);
}

/* With any other value of these options, the tasks differ from those that keys describe, or their configurations are
   fixed. */
static bool is_tunable(const tuff_compile_options *options)
{
    return options->family == TUFF_FAMILY_DEVICE && options->matmul_library == TUFF_MATMUL_OWN &&
           options->fuse == TUFF_FUSE_ALL;
}

tuff_status tuff__plan_list_keys(tuff_plan *plan)
{
    const tuff_compile_options defaults = {.fuse = TUFF_FUSE_ALL};
    tuning_session self = {.fusion = &plan->fusion, .options = &defaults, .device = plan->device, .log = -1};
    if (plan->keys.is_listed || !plan->is_tunable)
        return TUFF_OK;
    tuff_status status = tuff__session_find_keys(&self);
    if (status == TUFF_OK)
        status = tuff__session_list_keys(&self, &plan->keys);
    tuff__session_close_stores(&self);
    return status;
}

tuff_status tuff__plan_count_keys(const tuff_plan *plan, tuff_tune_stats *stats)
{
    const tuff_compile_options defaults = {.fuse = TUFF_FUSE_ALL};
    tuning_session self = {.fusion = &plan->fusion, .options = &defaults, .device = plan->device, .log = -1};
    const tuff_status status = tuff__session_find_keys(&self);
    stats->tasks = self.stats.tasks;
    stats->keys = stats->hits[TIER_DEFAULT] = stats->misses[TUFF_TUNE_MISS_UNKNOWN] = self.stats.keys;
    tuff__session_close_stores(&self);
    return status;
}

tuff_status tuff__tune(tuff_plan *plan, const tuff_compile_options *options)
{
    tuning_session self = {
        .fusion = &plan->fusion, .options = options, .device = plan->device, .log = -1, .begin = tuff__nanoseconds()};
    plan->is_tunable = is_tunable(options);
    plan->observer.launch_failed = tuff__report_refused_launch;
    if (tuff__tune_options(options)->manifest != NULL && !plan->is_tunable)
        return FAIL(TUFF_E_UNSUPPORTED,
                    "compile: a manifest needs the default kernel family, fusion and no matmul library");
    if (!plan->is_tunable ||
        (tuff__tune_options(options)->mode == TUFF_TUNE_OFF && tuff__tune_options(options)->manifest == NULL))
        return TUFF_OK;
    self.budget = tuff__tune_budget(tuff__tune_options(options));
    const measurer in_worker = {tuff__worker_measure, &plan->passes};
    self.survives_crashes = tuff__tune_options(options)->isolation == TUFF_ISOLATE_ON;
    self.external_measurer = self.survives_crashes ? &in_worker : NULL;
    const tuff_status status = tune(&self, plan);
    tuff__session_tidy(&self);
    tuff__session_close_stores(&self);
    /* Compiling the plan takes its time without tuning, too, so it is not counted. */
    self.stats.nanoseconds = tuff__nanoseconds() - self.begin - self.plan_compile_nanoseconds;
    plan->tuning = self.stats;
    return status;
}
