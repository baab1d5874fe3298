/* The next executable of a plan: prepared by the background thread, swapped in by the program's thread at the beginning
   of a run. The plan's buffers stay in place, so the program does not notice the swap. */
#include <string.h>

#include "base/log.h"
#include "worker/background_state.h"

bool tuff__background_has_new_choices(const background *self)
{
    for (int i = 0; i < self->tuning_session.task_count; ++i)
        if (!tuff__config_equal(&self->tuning_session.tasks[i].chosen, &self->running[i]))
            return true;
    return false;
}

/* Called before the program's device compiles a program: yields, then lets the worker compile it into the cache, so
   that the device finds it on disk. */
static tuff_status compile_ahead(void *state, const program_request *request)
{
    background *self = state;
    if (tuff__program_is_loaded(self->plan->device, request))
        return TUFF_OK;
    if (!tuff__background_yield(self, false))
        return FAIL(TUFF_E_TIMEOUT, "tune: the tuned plan was not finished: tuning was stopped");
    if (tuff__worker_is_running(self->worker))
        tuff__worker_compile(self->worker, request);
    return TUFF_OK;
}

static void free_executable(executable *made, plan_keys *keys)
{
    tuff__executable_free(made);
    tuff__plan_keys_free(keys);
}

static tuff_status prepare_next(background *self)
{
    executable *next = &self->next;
    recording_options recorded = tuff__plan_recording_options(self->plan);
    recorded.before_program = compile_ahead;
    recorded.state = self;
    const tune_config **choices;
    bool has_choices;
    tuff_status status = tuff__session_collect_choices(&self->tuning_session, &choices, &has_choices);
    if (status == TUFF_OK)
        status = tuff__relower(&self->plan->executable.launches, &self->plan->fusion, &self->options, choices,
                               &next->launches);
    tuff__free(choices);
    TRY(status);
    const uint64_t budget = self->options.memory_budget;
    if (budget > 0 && next->launches.peak > budget)
        return FAIL(TUFF_E_LIMIT, "tune: the tuned plan needs %llu bytes of intermediates, more than its memory budget",
                    (unsigned long long)next->launches.peak);
    const tuff_status recorded_status = tuff__executable_record(next, &recorded);
    tuff__background_register_exit_handler(self);
    TRY(recorded_status);
    return tuff__session_list_keys(&self->tuning_session, &self->next_keys);
}

void tuff__background_discard_next(background *self)
{
    tuff__lock(&self->lock);
    self->is_ready = false;
    tuff__unlock(&self->lock);
    free_executable(&self->next, &self->next_keys);
}

tuff_status tuff__background_prepare_swap(background *self)
{
    if (!tuff__background_has_new_choices(self))
        return TUFF_OK;
    tuff__background_discard_next(self);
    const tuff_status status = prepare_next(self);
    self->last_prepared = tuff__nanoseconds();
    if (status != TUFF_OK) {
        free_executable(&self->next, &self->next_keys);
        if (status != TUFF_E_OOM_HOST && !tuff__background_is_stopped(self))
            tuff__log(TUFF_LOG_WARNING, "tune: the plan is not updated: %s", tuff_error());
        return status == TUFF_E_OOM_HOST ? status : TUFF_OK;
    }
    for (int i = 0; i < self->tuning_session.task_count; ++i)
        self->running[i] = self->tuning_session.tasks[i].chosen;
    tuff__lock(&self->lock);
    self->is_ready = true;
    tuff__unlock(&self->lock);
    return TUFF_OK;
}

/* Keeps the times of the last profile for launches that have not changed. */
static void copy_times(const executable *before, executable *now)
{
    for (int i = 0; i < now->command_count && i < before->command_count; ++i) {
        const task_record *old = &before->records[i];
        task_record *made = &now->records[i];
        const bool is_same = strcmp(old->label, made->label) == 0 && (old->source == NULL) == (made->source == NULL);
        if (is_same && (made->source == NULL || strcmp(old->source, made->source) == 0))
            made->nanoseconds = old->nanoseconds;
    }
}

/* The storages of inputs and outputs, and their order, are the same in both executables. The copies that the new one
   keeps between runs are not made yet, as its `versions` say. */
void tuff__background_swap(void *state, tuff_plan *plan)
{
    background *self = state;
    if (tuff__device_idle_time(plan->device) == 0)
        return;
    executable old = {.parameters = NULL};
    plan_keys old_keys = {.items = NULL};
    tuff__lock(&self->lock);
    const bool is_ready = self->is_ready;
    if (is_ready) {
        old = plan->executable;
        old_keys = plan->keys;
        plan->executable = self->next;
        plan->keys = self->next_keys;
        self->next = (executable){.parameters = NULL};
        self->next_keys = (plan_keys){.items = NULL};
        self->is_ready = false;
        self->swaps++;
    }
    tuff__unlock(&self->lock);
    if (!is_ready)
        return;
    copy_times(&old, &plan->executable);
    free_executable(&old, &old_keys);
}
