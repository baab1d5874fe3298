/* Predicts how long submissions take, to keep them far below the time after which operating systems and drivers kill a
   kernel and with it the device: two seconds with Windows and amdgpu. Commands carry the cost model's estimate in
   seconds (command.seconds). How many times longer they take in fact is kept for each program, and for the device as a
   whole for programs that have not run yet; measured submissions correct both. A driver collects commands until their
   predicted time reaches MAX_SUBMISSION_SECONDS, and splits a longer dispatch by its groups. */
#ifndef TUFF_DEVICE_SUBMIT_PREDICTOR_H
#define TUFF_DEVICE_SUBMIT_PREDICTOR_H

#include <stdbool.h>
#include <stdint.h>

/* The most predicted seconds of one submission. */
#define MAX_SUBMISSION_SECONDS 0.5
/* How many times slower than the model an unknown device is assumed to be. */
#define INITIAL_TIME_SCALE 100.0
/* The most times slower that a device is ever assumed to be, and the most parts of a dispatch. */
#define MAX_TIME_SCALE (10 * INITIAL_TIME_SCALE)
#define MAX_DISPATCH_PARTS 1024

typedef struct time_predictor {
    bool is_on;
    bool is_shared;         /* others submit to the queue too: what the host measures may include their work */
    double scale;           /* for programs that have not run */
    uint64_t version;       /* raised whenever a prediction changes */
    uint64_t last_end;      /* when the last submission was seen to end */
    bool is_last_end_exact; /* that was seen at once, not later */
} time_predictor;

/* How many times longer than modelled a program's work takes; 0: it has not run. */
typedef double time_scale;

/* A part of a submission: the scale of its program (NULL: none, as for copies) and its modelled seconds. */
typedef struct work_share {
    time_scale *scale;
    double seconds;
} work_share;

/* A submission in flight. */
typedef struct submission_record {
    const void *owner;        /* the recording; when it is destroyed, this record is cleared */
    const work_share *shares; /* not owned; NULL: there is only `own` */
    int count;
    work_share own;
    uint64_t submitted;
    bool was_idle; /* the queue had nothing else to do at that time */
} submission_record;

/* The clock, in nanoseconds; tests replace it. */
extern uint64_t (*tuff__predictor_clock)(void);

void tuff__predictor_init(time_predictor *self, bool is_on);
/* Returns the predicted seconds of a share. */
double tuff__predictor_seconds(const time_predictor *self, const work_share *share);
/* Returns into how many parts to split a dispatch of that many groups: MAX_DISPATCH_PARTS at most. */
uint64_t tuff__predictor_parts(const time_predictor *self, const work_share *share, uint64_t groups);
/* Records a submission; is_idle: nothing else was in flight. */
void tuff__predictor_submitted(const time_predictor *self, submission_record *submission, bool is_idle);
/* Records the end of a submission, seen by waiting for it or, if waited is false, some time later. Called in the order
   of submission. */
void tuff__predictor_ended(time_predictor *self, const submission_record *submission, bool waited);
/* Records the end of a submission whose duration the device itself measured. */
void tuff__predictor_measured(time_predictor *self, const submission_record *submission, double seconds);

#endif
