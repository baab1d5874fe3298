/* Records the space of one key: asks an evaluator about many candidates and writes down what they took.

   Which: those that are asked for; the default and its neighbours; random points; then the neighbours of the best, of
   the next best, and so on, so that the hill that a search climbs is in the table, and the whole space where it is
   small.

   How: candidates are compiled in batches of up to 15, and the live ones are timed in rounds, one run of each in turn
   with the default before and behind. A time is written down as its ratio to the mean of those two, times what the
   default took at first: so a burst of somebody else's work, which hits all of a round, is taken out, and drift is.
   Five times as many runs are made as times are kept, and those in the middle are. The first time of each is taken
   right behind the compiling, and kept whatever it is. What is several times slower than the default gets two runs, and
   its results are not looked at. At the end the best are compiled once more and timed against each other in one batch,
   with more runs; and again, while others come out on top.

   A recording that has points already keeps them: new times are made comparable through the default. The best of all
   are timed again whenever a recording is worked on. */
#ifndef TUFF_BENCH_RECORDER_RECORDER_H
#define TUFF_BENCH_RECORDER_RECORDER_H

#include "bench/recorder/recording.h"

enum { RECORDER_SAMPLES = 16 };

typedef struct recorder_settings {
    int points;               /* at most, with those already recorded; extra ones are added to that */
    int samples;              /* kept of a point, 2 to RECORDER_SAMPLES */
    double seconds;           /* no batch begins after so many */
    const tune_config *extra; /* measured too, borrowed; if one cannot be lowered, the nearest that can */
    int extra_count;
    uint64_t seed;
    bool (*is_stopped)(void); /* ends it as the seconds do; may be NULL */
} recorder_settings;

typedef struct recorder_counts {
    int known;       /* points that were there */
    int added;       /* measured now */
    int rejected;    /* those of them that were rejected */
    int not_lowered; /* candidates that could not be lowered */
    double drift;    /* the largest of a batch: 1.2, where it was 20 % slower */
} recorder_counts;

/* Adds to `into`, which has a name and perhaps points. TUFF_E_NUMERIC where the default is rejected; TUFF_E_DEVICE_LOST
   and whatever the evaluator failed with: nothing is added then. */
tuff_status recorder_run(const evaluator *by, const recorder_settings *settings, recording *into,
                         recorder_counts *counts);

#endif
