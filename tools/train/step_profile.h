/* A few steps of a training with timestamps around their kernels, on request. They are steps like the others: the
   kernels and their results are the same. */
#ifndef TUFF_TOOLS_TRAIN_STEP_PROFILE_H
#define TUFF_TOOLS_TRAIN_STEP_PROFILE_H

#include "tools/profile/kernels.h"

typedef struct step_profile {
    bool wanted;
    int steps;            /* of the run so far; the first one pays for what is new and is not profiled */
    bool taken;           /* kernels is filled in, by step_profile_finish */
    int64_t last;         /* step that was profiled, and those before it */
    plan_profile kernels; /* freed by step_profile_free */
    char absence[256];    /* why there is none, where the device cannot */
} step_profile;

/* Runs the plan for step number `step`: tuff_plan_run, or tuff_plan_profile where it is time for that. */
tuff_status step_profile_run(step_profile *self, tuff_plan *plan, int64_t step);
/* Ends the profile, early where the run was shorter. */
void step_profile_finish(step_profile *self, const tuff_plan *plan);
void step_profile_free(step_profile *self);

#endif
