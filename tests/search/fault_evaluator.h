/* A simulated device with planted faults, for searches. Times follow a formula over the configuration, and a simulated
   clock shows what everything costs. Programs compute a small product on the host, into poisoned memory between
   canaries, so that the search has to detect faults from the results. */
#ifndef TESTS_FAULT_EVALUATOR_H
#define TESTS_FAULT_EVALUATOR_H

#include "search/search.h"

typedef enum fault {
    SOUND,
    FAULT_WRONG,   /* one wrong element */
    FAULT_RACES,   /* every other run has a wrong element */
    FAULT_PARTIAL, /* does not write the last row */
    FAULT_OUTSIDE, /* writes one element too many */
    FAULT_RAGGED,  /* wrong for other shapes only */
    FAULT_HANGS,
    FAULT_CRASHES,
    FAULT_LOSES, /* the device is lost */
    FAULT_LIMITS,
    FAULT_COMPILE,
    FAULT_ZERO, /* its timer returns 0 */
    FAULT_COUNT
} fault;

enum { FAULT_MATRIX = 8 };

typedef struct fault_device fault_device;

struct fault_device {
    /* Settings to make before the search; all zero: a device without faults, noise or costs. */
    double share[FAULT_COUNT]; /* fraction of the programs that have each fault; the default has only default_fault */
    fault default_fault;
    double faulty_speed; /* relative time of such programs; 0: unchanged */
    double others;       /* relative time of all programs but the default; 0: unchanged */
    double scatter;      /* relative standard deviation of times */
    double flatness;     /* 0: times vary by the formula, 1: all are equal */
    bool walled; /* small groups of tall tiles take less than half the time, but groups in between three times as long
                    */
    /* Returns the bytes that a program spills; NULL: unknown to the evaluator. */
    uint64_t (*spills)(const fault_device *self, const tune_config *what);
    double foresight; /* predicted times, 1: right, -1: reversed, 0: none */
    double second;    /* every other sample, at random, takes so many times as long; 0: none */
    double drift;     /* relative slowdown of the clock with each sample */
    int64_t step_at;  /* samples after which everything takes step_factor times as long; 0: never */
    double step_factor;
    double burst; /* every other block of 23 samples takes so many times as long, as if the device was shared; 0: none
                     */
    uint64_t compile_cost, deadline; /* nanoseconds */
    uint64_t budget;                 /* on the device's clock; 0: unlimited */
    bool no_hang_recovery;           /* a hang or crash loses the device */
    uint64_t seed;
    /* Results. */
    uint64_t clock;
    int64_t samples_taken, verified_sound, verified_faulty, passed_faulty, refused_sound;
    uint64_t compiled_log; /* hash of all that was compiled, in order */
    int compiled, hangs, broken;
    bool is_down;
    tune_config live[SEARCH_SLOTS];
    bool is_live[SEARCH_SLOTS], is_expected[SEARCH_SLOTS];
    int expected, expected_most; /* expected, and not compiled yet */
    int live_count, live_most;
    int runs;
    rng random;
    int32_t memory[FAULT_MATRIX * FAULT_MATRIX + 2 * FAULT_MATRIX]; /* canaries, the result, canaries */
};

evaluator fault_begin(fault_device *self);
fault fault_of(const fault_device *self, const tune_config *config);
/* Returns a configuration's time without noise or drift. */
uint64_t fault_time(const fault_device *self, const tune_config *config);

#endif
