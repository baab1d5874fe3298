/* Compares random programs on a device with the float64 reference: every parameter and every moment of the optimizer
   after every step. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_CHECK_H
#define TUFF_TOOLS_VERIFY_PROGRAM_CHECK_H

#include "tools/verify/program_build.h"

/* The devices, and the programs that ran last, whose compiled kernels serve the others of their family. */
typedef struct program_context {
    tuff_device *device, *reference;
    struct kept_program *kept;
    uint64_t family;
} program_context;
void program_context_clear(program_context *context);

/* The reference's results for a program. */
typedef struct program_expectation program_expectation;
/* Computes them on the reference device. The recipe's variant is ignored. */
tuff_status program_expect(const program_recipe *recipe, tuff_device *reference, program_expectation **out);
void program_expectation_free(program_expectation *expectation); /* NULL is allowed */

/* Result of comparisons. */
typedef struct program_report {
    int64_t elements;
    int64_t wide;      /* elements whose rounding may be a large part of the tensor's largest element, in programs that
                          do not store 16 bits */
    int failures;      /* tensors with wrong elements, and programs that could not run */
    char failure[400]; /* the first failure as text, or empty */
} program_report;

/* Runs a program on the device and compares its results with those expected of the same program without its variant,
   apart from the variant's scale. Failing to compile or run is a failure too. If results are not within the tolerance,
   it is measured how far rounding moves those of the reference, and that is allowed too. */
void program_compare(program_context *context, const program_recipe *recipe, program_expectation *expected,
                     program_report *report);

/* The number of checks. The first compares with the reference. The others compare a changed program with the original,
   because the change keeps its results or changes them in a known way; a check that does not apply to a program passes.
   The last one, of gradients, does not involve the device. */
extern const int program_check_count;

/* A failed check, and the smallest program found that still fails it. */
typedef struct program_failure {
    const char *check;
    program_recipe recipe, smallest;
    program_report report, smallest_report;
} program_failure;

typedef struct program_totals {
    int64_t programs, other_checks, failed; /* programs checked, other checks, failures of both */
    int64_t elements, wide;
} program_totals;

/* Checks a program against the reference and, for every sixteenth seed, also runs one of the other checks in turn.
   Failing programs are simplified and passed to `failed`. */
void program_check_seed(program_context *context, uint64_t seed, program_totals *totals,
                        void (*failed)(void *user, const program_failure *failure), void *user);
/* The same for a given recipe and the check with this index. */
void program_check_one(program_context *context, const program_recipe *recipe, int check, program_totals *totals,
                       void (*failed)(void *user, const program_failure *failure), void *user);

/* Compares the gradient of every parameter with finite differences of the reference's loss (program_gradients.c): a
   wrong rule of autodiff would be the same on every device and so go unnoticed otherwise. */
void program_check_gradients(program_context *context, const program_recipe *recipe, program_report *report);

#endif
