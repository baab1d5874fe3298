/* Tolerances for the elements of a random program's state. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_ALLOW_H
#define TUFF_TOOLS_VERIFY_PROGRAM_ALLOW_H

#include "tools/verify/program_expect.h"

/* A comparison of a step with the reference. */
typedef struct comparison {
    const program_recipe *recipe;
    program_expectation *expected;
    int step;
    double steps_run; /* since both had the same state */
    double tolerance; /* per step, relative to the largest element */
    program_report *report;
} comparison;

/* Tolerance of a step. A cross-entropy close to 0 increases it. */
double program_step_tolerance(const program_expectation *expected, int step);
/* Whether the training has diverged so far, by the end of a step, that f32 cannot hold the squares of what is expected:
   there is nothing to compare from then on. */
bool program_has_diverged(const program_expectation *expected, int step);
/* The largest element of a tensor, which is the unit of its tolerances; for weights and averages, the largest
   change. */
double program_largest(const comparison *self, const tensor_location *place);
/* Fills most with the tolerance of each element, without the rounding of stored values. */
void program_tolerances(const comparison *self, const tensor_location *place, double *most);
double program_scalar_tolerance(const comparison *self, step_scalar which);
/* Whether a step must start from the reference's state, because errors of the last bit may flip its direction. */
bool program_resets_each_step(const program_recipe *recipe);

#endif
