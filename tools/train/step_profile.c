/* A step runs even if the device has no timestamps. Only the first TIMED_BATCHES batches of a step are timed; the
   others are assumed to take as long. */
#include "tools/train/step_profile.h"

#include <stdio.h>
#include <string.h>

enum { FIRST = 1, COUNT = 5, TIMED_BATCHES = 4 };

static bool has_run(const tuff_plan *plan)
{
    tuff_plan_info info;
    return tuff_plan_describe(plan, &info) == TUFF_OK && info.run_nanoseconds > 0;
}

static void give_up(step_profile *self)
{
    (void)snprintf(self->missing_reason, sizeof self->missing_reason, "%s", tuff_error());
    self->wanted = self->with_lines = self->is_sampled = self->is_timed = false;
}

void step_profile_begin(step_profile *self, int64_t step, bool has_line)
{
    const int64_t index = self->steps++;
    self->is_sampled = self->wanted && index >= FIRST && index < FIRST + COUNT;
    self->is_timed = self->with_lines && index >= FIRST && has_line;
    memset(self->runs, 0, sizeof self->runs);
    memset(self->seconds, 0, sizeof self->seconds);
    if (!self->is_sampled)
        return;
    self->last = step;
    self->count++;
}

/* Adds the plan's last run. */
static tuff_status add_run(step_profile *self, const tuff_plan *plan, int which)
{
    tuff_plan_info info;
    if (self->is_sampled)
        TRY(profile_add_run(&self->plans[which], plan));
    TRY(tuff_plan_describe(plan, &info));
    for (int i = 0; i < info.task_count; i++) {
        tuff_task_info task;
        TRY(tuff_plan_task(plan, i, &task));
        self->seconds[which][task.phase] += (double)task.nanoseconds * 1e-9;
    }
    self->runs[which]++;
    return TUFF_OK;
}

tuff_status step_profile_run(step_profile *self, tuff_plan *plan, int which)
{
    if ((!self->is_sampled && !self->is_timed) || self->runs[which] == TIMED_BATCHES)
        return tuff_plan_run(plan);
    const tuff_status status = tuff_plan_profile(plan);
    if (status == TUFF_OK) {
        if (add_run(self, plan, which) != TUFF_OK)
            give_up(self);
        return TUFF_OK;
    }
    if (status != TUFF_E_UNSUPPORTED)
        return status;
    give_up(self);
    return has_run(plan) ? TUFF_OK : tuff_plan_run(plan);
}

/* Number of runs of a plan in a step. */
static int64_t runs_of_step(const step_profile *self, int which)
{
    return which == STEP_BATCH ? self->batches : 1;
}

bool step_profile_phases(const step_profile *self, double phases[PHASE_COUNT])
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        phases[phase] = 0;
    for (int which = 0; which < STEP_PLANS && self->is_timed; which++)
        for (int phase = 0; phase < PHASE_COUNT && self->runs[which] > 0; phase++)
            phases[phase] += self->seconds[which][phase] / self->runs[which] * (double)runs_of_step(self, which);
    return self->is_timed && self->runs[STEP_BATCH] > 0;
}

static tuff_status run_after_end(step_profile *self, tuff_plan *const plans[STEP_PLANS])
{
    self->is_after_end = self->is_sampled = true;
    for (self->count = 0; self->count < COUNT; self->count++)
        for (int which = 0; which < STEP_PLANS; which++)
            if (plans[which]) {
                TRY(tuff_plan_profile(plans[which]));
                TRY(add_run(self, plans[which], which));
            }
    return TUFF_OK;
}

static tuff_status finish(step_profile *self, tuff_plan *const plans[STEP_PLANS])
{
    if (self->count == 0)
        TRY(run_after_end(self, plans));
    for (int which = 0; which < STEP_PLANS; which++)
        if (plans[which]) {
            TRY(profile_finish(&self->plans[which], plans[which]));
            TRY(profile_add_times(&self->kernels, &self->plans[which], runs_of_step(self, which)));
        }
    return TUFF_OK;
}

void step_profile_finish(step_profile *self, tuff_plan *const plans[STEP_PLANS])
{
    if (!self->wanted || self->steps == 0)
        return;
    self->has_kernels = finish(self, plans) == TUFF_OK;
    if (!self->has_kernels)
        give_up(self);
}

void step_profile_free(step_profile *self)
{
    for (int which = 0; which < STEP_PLANS; which++)
        profile_free(&self->plans[which]);
    profile_free(&self->kernels);
    *self = (step_profile){.wanted = false};
}
