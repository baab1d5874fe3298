/* Runs some steps of a training with timestamps around their kernels, on request: a few at its beginning, and those
   that get a line. The kernels and their results are the same as in other steps. */
#ifndef TUFF_TOOLS_TRAIN_STEP_PROFILE_H
#define TUFF_TOOLS_TRAIN_STEP_PROFILE_H

#include "tools/profile/kernels.h"

/* The plans of a step: one for each of its batches, and if there are several, one that ends it. */
enum { STEP_BATCH, STEP_UPDATE, STEP_PLANS };

typedef struct step_profile {
    bool wanted;               /* profile the kernels of a few steps */
    bool with_lines;           /* time the phases of steps that get a line */
    int64_t batches;           /* per step */
    int64_t steps;             /* of the run so far; the first is not profiled, because it includes one-time work */
    bool is_sampled, is_timed; /* this step is one of the few; it gets a line */
    int runs[STEP_PLANS];      /* with timestamps, in this step */
    double seconds[STEP_PLANS][PHASE_COUNT]; /* of these runs */
    plan_profile plans[STEP_PLANS];
    int count;                /* number of steps profiled */
    bool has_kernels;         /* kernels is valid, set by step_profile_finish */
    bool is_after_end;        /* the steps profiled were run after the end of the training */
    int64_t last;             /* last step profiled */
    plan_profile kernels;     /* of a whole step; freed by step_profile_free */
    char missing_reason[256]; /* why there is no profile, if the device cannot do it */
} step_profile;

/* To be called before step number `step`. has_line: the step will get a line. */
void step_profile_begin(step_profile *self, int64_t step, bool has_line);
/* Runs a plan of the step, STEP_BATCH or STEP_UPDATE, with tuff_plan_run or, if it is to be timed,
   tuff_plan_profile. */
tuff_status step_profile_run(step_profile *self, tuff_plan *plan, int which);
/* Gets the seconds of this step by phase. Returns false if it was not timed. */
bool step_profile_phases(const step_profile *self, double phases[PHASE_COUNT]);
/* Ends the profile. plans is indexed by STEP_BATCH and STEP_UPDATE; entries may be NULL. If the training was too short
   to profile, its last step is run a few more times, which changes the weights: they must be saved already. */
void step_profile_finish(step_profile *self, tuff_plan *const plans[STEP_PLANS]);
void step_profile_free(step_profile *self);

#endif
