/* A recording as a device that a search can ask. Compiling and timing cost nothing; times are the recorded ones: the
   first behind a compiling is the first that was recorded, later ones are drawn from the rest. What was not recorded is
   INVALID, and counted: the space that is searched is the recorded one. Where points are marked as drawn, random ones
   are drawn from those alone. */
#ifndef TUFF_BENCH_RECORDER_REPLAY_H
#define TUFF_BENCH_RECORDER_REPLAY_H

#include "bench/recorder/recording.h"

typedef struct replay {
    const recording *from;
    rng random;
    int drawn; /* points that are marked so */
    struct {
        const recorded_point *point; /* NULL: free */
        int samples_taken;
    } slots[SEARCH_SLOTS];
    int64_t calls;               /* of everything but is_over */
    int64_t lowered, unrecorded; /* lowerings, and those of them that were not recorded */
    int64_t max_calls;           /* is_over from then on; 0: never */
    int broken;                  /* calls that the contract of evaluator does not allow */
} replay;

/* The evaluator borrows the replay, which borrows the recording. */
evaluator replay_begin(replay *self, const recording *from, uint64_t seed);
int replay_live_count(const replay *self); /* compiled and not released */

#endif
