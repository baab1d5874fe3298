/* Records the space of one key: measures many candidates with an evaluator and records their times.

   Which candidates: the requested ones; the default and its neighbours; random points; then the neighbours of the best
   candidate, of the next best, and so on, so that the recording has the hill that a search climbs, and all of a small
   space.

   How: candidates are compiled in batches of up to 15. The live ones are timed in rounds of one run each, with a run of
   the default before and after. The recorded time is the measured one, divided by the mean of those two runs and
   multiplied by the default's reference time: this cancels drift and bursts of other load, which slow down a whole
   round. Five times as many runs are made as times are kept; the middle ones are kept. The first time of each candidate
   is taken right after compilation and always kept. A candidate several times slower than the default gets only two
   runs, and its results are not verified. At the end the best candidates are compiled again and timed in one batch with
   more runs; this is repeated while other candidates take the lead.

   If a recording already has points, they are kept: new times are made comparable through the default. The best
   candidates are timed again each time a recording is extended. */
#ifndef TUFF_BENCH_RECORDER_RECORDER_H
#define TUFF_BENCH_RECORDER_RECORDER_H

#include "bench/recorder/recording.h"

enum { RECORDER_SAMPLES = 16 };

typedef struct recorder_settings {
    int points;               /* at most, including those already recorded; extra ones may exceed it */
    int samples;              /* times kept per point, 2 to RECORDER_SAMPLES */
    double seconds;           /* no batch begins after this time */
    const tune_config *extra; /* measured too; borrowed. If one cannot be lowered, the nearest that can */
    int extra_count;
    uint64_t seed;
    bool (*is_stopped)(void); /* stops the recording as the time limit does; may be NULL */
} recorder_settings;

typedef struct recorder_counts {
    int known;       /* points that the recording already had */
    int added;       /* newly measured points */
    int rejected;    /* those of them that were rejected */
    int not_lowered; /* candidates that could not be lowered */
    double drift;    /* the largest of all batches: 1.2 if the default was 20 % slower */
} recorder_counts;

/* Adds points to `into`, which has a name and may have points. Fails with TUFF_E_NUMERIC if the default is rejected, or
   with the evaluator's error; nothing is added then. */
tuff_status recorder_run(const evaluator *evaluator_used, const recorder_settings *settings, recording *into,
                         recorder_counts *counts);

#endif
