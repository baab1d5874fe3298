/* A device without timestamps takes the step all the same. */
#include "tools/train/step_profile.h"

#include <stdio.h>

static bool was_run(const tuff_plan *plan)
{
    tuff_plan_info info;
    return tuff_plan_describe(plan, &info) == TUFF_OK && info.run_nanoseconds > 0;
}

static void give_up(step_profile *self)
{
    (void)snprintf(self->absence, sizeof self->absence, "%s", tuff_error());
    self->wanted = false;
}

tuff_status step_profile_run(step_profile *self, tuff_plan *plan, int64_t step)
{
    enum { FIRST = 1, COUNT = 5 };
    const int index = self->steps++;
    if (!self->wanted || index < FIRST || index >= FIRST + COUNT)
        return tuff_plan_run(plan);
    const tuff_status status = tuff_plan_profile(plan);
    if (status == TUFF_OK) {
        self->last = step;
        if (profile_add_run(&self->kernels, plan) != TUFF_OK)
            give_up(self);
        return TUFF_OK;
    }
    if (status != TUFF_E_UNSUPPORTED)
        return status;
    give_up(self);
    return was_run(plan) ? TUFF_OK : tuff_plan_run(plan);
}

void step_profile_finish(step_profile *self, const tuff_plan *plan)
{
    if (!self->wanted || self->kernels.runs == 0)
        return;
    self->taken = profile_finish(&self->kernels, plan) == TUFF_OK;
    if (!self->taken)
        give_up(self);
}

void step_profile_free(step_profile *self)
{
    profile_free(&self->kernels);
    *self = (step_profile){.wanted = false};
}
