/* Steps of a training with timestamps around their kernels, on request: a few at its beginning, and those that get a
   line. They are steps like the others: the kernels and their results are the same. */
#ifndef TUFF_TOOLS_TRAIN_STEP_PROFILE_H
#define TUFF_TOOLS_TRAIN_STEP_PROFILE_H

#include "tools/profile/kernels.h"

/* The plans that a step runs: one for each of its batches, and where there are several one that ends it. */
enum { STEP_BATCH, STEP_UPDATE, STEP_PLANS };

typedef struct step_profile {
    bool wanted;               /* kernels, of a few steps */
    bool with_lines;           /* phases, of steps with a line */
    int64_t batches;           /* of a step */
    int64_t steps;             /* of the run so far; the first one pays for what is new and is not profiled */
    bool is_sampled, is_timed; /* this step: it is one of the few, or has a line */
    int runs[STEP_PLANS];      /* of this step, with timestamps */
    double seconds[STEP_PLANS][PHASE_COUNT]; /* of these */
    plan_profile plans[STEP_PLANS];
    int count;            /* steps that kernels are of */
    bool taken;           /* kernels is filled in, by step_profile_finish */
    bool is_behind;       /* of steps behind the end of the training */
    int64_t last;         /* step that was profiled, and those before it */
    plan_profile kernels; /* of a whole step; freed by step_profile_free */
    char absence[256];    /* why there is none, where the device cannot */
} step_profile;

/* Before step number `step`, which gets a line or not. */
void step_profile_begin(step_profile *self, int64_t step, bool has_line);
/* Runs a plan of it, STEP_BATCH or STEP_UPDATE: tuff_plan_run, or tuff_plan_profile where it is time for that. */
tuff_status step_profile_run(step_profile *self, tuff_plan *plan, int which);
/* Seconds of the phases of this step, where it was timed; false where it was not. */
bool step_profile_phases(const step_profile *self, double phases[PHASE_COUNT]);
/* Ends the profile; plans by STEP_BATCH and STEP_UPDATE, which may be NULL. Where the training was too short for one,
   its last step is run a few times more, which changes weights that must be saved already. */
void step_profile_finish(step_profile *self, tuff_plan *const plans[STEP_PLANS]);
void step_profile_free(step_profile *self);

#endif
