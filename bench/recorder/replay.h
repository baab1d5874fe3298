/* An evaluator that replays a recording. Compiling and timing take no time: the first time after compilation is the
   first recorded one, later ones are drawn from the others. Candidates that were not recorded are INVALID and counted,
   so only the recorded space is searched. If points are marked as drawn, random candidates are drawn from those only.
   */
#ifndef TUFF_BENCH_RECORDER_REPLAY_H
#define TUFF_BENCH_RECORDER_REPLAY_H

#include "bench/recorder/recording.h"

typedef struct replay {
    const recording *from;
    rng random;
    int drawn; /* number of points marked as drawn */
    struct {
        const recorded_point *point; /* NULL: free */
        int samples_taken;
    } slots[SEARCH_SLOTS];
    int64_t calls;               /* of all functions except is_over */
    int64_t lowered, unrecorded; /* candidates lowered, and those of them that were not recorded */
    int64_t max_calls;           /* is_over returns true from then on; 0: never */
    int broken;                  /* calls that break the evaluator's contract */
} replay;

/* The evaluator borrows the replay, which borrows the recording. */
evaluator replay_begin(replay *self, const recording *from, uint64_t seed);
int replay_live_count(const replay *self); /* candidates compiled and not released */

#endif
