/* A made-up device with made-up faults, for searches: times follow a formula over the choice, a clock of its own tells
   what everything costs, and programs compute a small product on the host, into poisoned memory between canaries, so
   that what is wrong with them is found by looking, not by being told. */
#ifndef TESTS_FAULT_EVALUATOR_H
#define TESTS_FAULT_EVALUATOR_H

#include "search/search.h"

typedef enum fault {
    SOUND,
    FAULT_WRONG,   /* one element */
    FAULT_RACES,   /* every other run has one wrong */
    FAULT_PARTIAL, /* leaves out the last row */
    FAULT_OUTSIDE, /* writes one element too many */
    FAULT_RAGGED,  /* wrong for other shapes only */
    FAULT_HANGS,
    FAULT_CRASHES,
    FAULT_LOSES, /* the device */
    FAULT_LIMITS,
    FAULT_COMPILE,
    FAULT_ZERO, /* its timer says 0 */
    FAULT_COUNT
} fault;

enum { FAULT_MATRIX = 8 };

typedef struct fault_device fault_device;

struct fault_device {
    /* To be set before the search: zero is a device without faults, noise or costs. */
    double share[FAULT_COUNT]; /* of the programs that have each fault; the default is sound but for default_fault */
    fault default_fault;
    double faulty_speed; /* such a program takes so much of the time; 0: all of it */
    double others;       /* all but the default take so much of their time; 0: all of it */
    double scatter;      /* of times, one standard deviation */
    double flatness;     /* 0: times vary as the formula has it, 1: all take the same */
    bool walled; /* small groups of tall tiles take less than half, but the groups between do three times as long */
    /* Bytes that a program spills; NULL: the evaluator cannot tell. */
    uint64_t (*spills)(const fault_device *self, const tune_config *what);
    double foresight; /* lowering foresees times, 1: rightly, -1: the slower, the sooner; 0: not */
    double second;    /* every other sample, at random, takes so many times as long; 0: none */
    double drift;     /* by which the clock slows down with each sample */
    int64_t step_at;  /* samples after which everything takes step_factor times as long; 0: never */
    double step_factor;
    double burst; /* every other 23 samples somebody else is at work: all take so many times as long; 0: nobody is */
    uint64_t compile_cost, deadline; /* nanoseconds */
    uint64_t budget;                 /* of the device's clock; 0: no end */
    bool no_hang_recovery;           /* after a hang or crash it is over */
    uint64_t seed;
    /* What happened. */
    uint64_t clock;
    int64_t samples_taken, verified_sound, verified_faulty, passed_faulty, refused_sound;
    uint64_t compiled_log; /* a hash of all that was compiled, in order */
    int compiled, hangs, broken;
    bool is_down;
    tune_config live[SEARCH_SLOTS];
    bool is_live[SEARCH_SLOTS], is_expected[SEARCH_SLOTS];
    int expected, expected_most; /* and not compiled yet */
    int live_count, live_most;
    int runs;
    rng random;
    int32_t memory[FAULT_MATRIX * FAULT_MATRIX + 2 * FAULT_MATRIX]; /* canaries, the result, canaries */
};

evaluator fault_begin(fault_device *self);
fault fault_of(const fault_device *self, const tune_config *config);
/* Its time without noise or drift. */
uint64_t fault_time(const fault_device *self, const tune_config *config);

#endif
