/* The next plan: made ready by the background's thread, taken over by the program's at the beginning of a run. */
#include <string.h>

#include "base/log.h"
#include "run/background_parts.h"

bool tuff__background_is_other(const background *self)
{
    for (int i = 0; i < self->tuner->subject_count; ++i)
        if (!tuff__choice_equal(&self->tuner->subjects[i].chosen, &self->running[i]))
            return true;
    return false;
}

/* Before the program's device is asked for a program: gives way, and lets the helper or the bench compile it and keep
   its bytes, so that the device finds it on the disk. */
static tuff_status compile_ahead(void *state, const program_request *what)
{
    background *self = state;
    program *made;
    if (tuff__program_is_loaded(self->plan->device, what))
        return TUFF_OK;
    if (!tuff__background_give_way(self, false))
        return FAIL(TUFF_E_TIMEOUT, "tune: the plan is not made ready: its tuner was stopped");
    if (self->helper != NULL)
        tuff__helper_compile(self, what);
    if (self->tuner->bench == NULL)
        return TUFF_OK;
    TRY(tuff__program_get(self->tuner->bench, what, &made));
    tuff__programs_keep(self->tuner->bench, &made, 1, true, UINT64_MAX);
    tuff__program_release(self->tuner->bench, made);
    return TUFF_OK;
}

static void drop(tuff_plan *of)
{
    tuff__unrecord(of);
    tuff__launch_list_free(&of->made.lowered);
    tuff__plan_keys_free(of);
}

static tuff_status make_ready(background *self)
{
    tuff_plan *next = &self->next;
    const choice **choices;
    bool any;
    tuff_status status = tuff__tuner_choices(self->tuner, &choices, &any);
    if (status == TUFF_OK)
        status =
            tuff__lower_like(&self->plan->made.lowered, &next->fusion, &self->options, choices, &next->made.lowered);
    tuff__free(choices);
    TRY(status);
    const uint64_t budget = self->options.memory_budget;
    if (budget > 0 && next->made.lowered.peak > budget)
        return FAIL(TUFF_E_LIMIT, "tune: it would need %llu bytes of intermediates, more than it may",
                    (unsigned long long)next->made.lowered.peak);
    next->before_program = compile_ahead;
    next->before_state = self;
    TRY(tuff__record(next));
    return tuff__tuner_list_keys(self->tuner);
}

void tuff__background_revoke(background *self)
{
    tuff__lock(&self->lock);
    self->is_ready = false;
    tuff__unlock(&self->lock);
    drop(&self->next);
}

tuff_status tuff__background_offer(background *self)
{
    if (!tuff__background_is_other(self))
        return TUFF_OK;
    tuff__background_revoke(self);
    const tuff_status status = make_ready(self);
    self->offered = tuff__nanoseconds();
    if (status != TUFF_OK) {
        drop(&self->next);
        if (status != TUFF_E_OOM_HOST && !tuff__background_is_stopped(self))
            tuff__log(TUFF_LOG_WARNING, "tune: the plan stays as it is: %s", tuff_error());
        return status == TUFF_E_OOM_HOST ? status : TUFF_OK;
    }
    for (int i = 0; i < self->tuner->subject_count; ++i)
        self->running[i] = self->tuner->subjects[i].chosen;
    tuff__lock(&self->lock);
    self->is_ready = true;
    tuff__unlock(&self->lock);
    return TUFF_OK;
}

/* Times of the last profile, of launches that are what they were. */
static void keep_times(const tuff_plan *from, tuff_plan *to)
{
    for (int i = 0; i < to->made.command_count && i < from->made.command_count; ++i) {
        const task_record *before = &from->made.records[i];
        task_record *now = &to->made.records[i];
        const bool is_same =
            strcmp(before->label, now->label) == 0 && (before->source == NULL) == (now->source == NULL);
        if (is_same && (now->source == NULL || strcmp(before->source, now->source) == 0))
            now->nanoseconds = before->nanoseconds;
    }
}

/* The storages of inputs and outputs, and their order, are the same in both. */
static void put(made_plan made, tuff_plan *to)
{
    to->made = made;
    to->made.lowered.fusion = &to->fusion;
}

/* What takes over has made no copies yet: its `versions` say so. */
void tuff__background_swap(tuff_plan *plan)
{
    background *self = plan->background;
    if (self == NULL || tuff__device_rested(plan->device) == 0)
        return;
    tuff_plan old = {.device = plan->device};
    tuff__lock(&self->lock);
    const bool is_ready = self->is_ready;
    if (is_ready) {
        put(plan->made, &old);
        put(self->next.made, plan);
        put((made_plan){.lowered = {.fusion = NULL}}, &self->next);
        self->is_ready = false;
        self->swaps++;
    }
    tuff__unlock(&self->lock);
    if (!is_ready)
        return;
    keep_times(&old, plan);
    drop(&old);
}
