/* Random programs on a device, held against the float64 reference: every parameter and every moment of the optimizer
   after every step. */
#ifndef TUFF_TOOLS_VERIFY_PROGRAM_CHECK_H
#define TUFF_TOOLS_VERIFY_PROGRAM_CHECK_H

#include "tools/verify/program_build.h"

/* The devices, and the last programs that ran: what is compiled for one serves those of its family. */
typedef struct program_bench {
    tuff_device *device, *reference;
    struct kept_program *kept;
    uint64_t family;
} program_bench;
void program_bench_clear(program_bench *bench);

/* What the reference makes of a program. */
typedef struct program_expectation program_expectation;
/* reference: the reference device. The recipe's variant has no part in it. */
tuff_status program_expect(const program_recipe *recipe, tuff_device *reference, program_expectation **out);
void program_expectation_free(program_expectation *expectation); /* NULL is allowed */

/* What comparisons found. */
typedef struct program_report {
    int64_t elements;
    int64_t wide;      /* of them, those where rounding may be a large part of the tensor's largest element, though the
                          program stores no 16 bits */
    int failures;      /* tensors with an element that is off, and programs that could not be run */
    char failure[400]; /* the first, in words; empty where there is none */
} program_report;

/* Runs a program on the device, whose results are to be those expected of the same program without its variant, but for
   the scale. What cannot be compiled or run is a failure too. */
void program_try(program_bench *bench, const program_recipe *recipe, const program_expectation *expected,
                 program_report *report);

/* What can be checked of a program. */
typedef struct program_kind_of_check {
    const char *name;
    void (*check)(program_bench *bench, const program_recipe *recipe, program_report *report);
} program_kind_of_check;
/* The first compares with the reference. The others need none, because a change of the program leaves its results as
   they are, or says how they change: these compare with the program as it was; one that does not hold for a program
   passes it. The last, slopes, has no part of the device. */
extern const program_kind_of_check program_checks[];
extern const int program_check_count;

/* A check that failed, and the smallest program found for which it still fails. */
typedef struct program_failure {
    const char *check;
    program_recipe recipe, smallest;
    program_report found, smallest_found;
} program_failure;

typedef struct program_totals {
    int64_t programs, others, failed; /* programs, checks besides, and how many of both failed */
    int64_t elements, wide;
} program_totals;

/* Checks a program against the reference and, of every sixteenth seed, one of the other checks, by turns. Failures are
   made smaller and told. */
void program_check_seed(program_bench *bench, uint64_t seed, program_totals *totals,
                        void (*failed)(void *user, const program_failure *failure), void *user);
/* The same for a recipe and a check, by its position. */
void program_check_one(program_bench *bench, const program_recipe *recipe, int check, program_totals *totals,
                       void (*failed)(void *user, const program_failure *failure), void *user);

/* Slopes of the loss by every parameter (program_slopes.c): differences of the reference's loss, so that a rule of
   autodiff that is wrong does not stay hidden where every device is given it. */
void program_check_slopes(program_bench *bench, const program_recipe *recipe, program_report *report);

#endif
