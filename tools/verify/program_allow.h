/* What the elements of a random program's state may be off by. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_ALLOW_H
#define TUFF_TOOLS_VERIFY_PROGRAM_ALLOW_H

#include "tools/verify/program_expect.h"

/* What is compared of a step. */
typedef struct comparison {
    const program_recipe *recipe;
    const program_expectation *expected;
    int step;
    double steps_run; /* since both had the same state */
    double bar;       /* of the largest element, each of these steps */
    program_report *report;
} comparison;

/* A cross entropy near 0 makes it larger. */
double program_bar(const program_expectation *expected, int step);
/* The largest element of a tensor, in which the others are measured: of weights and averages the largest change. */
double program_largest(const comparison *self, const tensor_location *place);
/* Fills most, one for each element of the tensor, but for the rounding of what is stored. */
void program_allow(const comparison *self, const tensor_location *place, double *most);
double program_allow_scalar(const comparison *self, step_scalar which);
/* Whether a step says nothing of the next one, because errors of the last bit may turn its direction. */
bool program_begins_anew(const program_recipe *recipe);

#endif
