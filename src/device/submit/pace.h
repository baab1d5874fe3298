/* Submissions far below the time after which operating systems and drivers end a kernel and with it the device: two
   seconds with Windows and amdgpu. Commands carry the seconds that the cost model expects (command.seconds). How many
   times as long they take here is kept for each program, and for a device as a whole for programs that have not run;
   what submissions were seen to take corrects it. A driver collects commands until their predicted time reaches
   PACE_SECONDS, and splits a dispatch that is longer by its groups. */
#ifndef TUFF_DEVICE_SUBMIT_PACE_H
#define TUFF_DEVICE_SUBMIT_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Predicted seconds of one submission, at most. */
#define PACE_SECONDS 0.5
/* How many times as slow as the model a device may be that nothing is known of. */
#define PACE_CAUTION 100.0
/* How many times as slow one is ever taken for, and into how many parts a dispatch is split. */
#define MAX_PACE_SCALE (10 * PACE_CAUTION)
#define MAX_PACE_PARTS 1024

typedef struct pace {
    bool is_on;
    bool is_shared;   /* others submit to the queue too: what is measured may be their work as well */
    double scale;     /* of programs that have not run */
    uint64_t version; /* raised whenever a prediction changed */
    uint64_t seen;    /* when the last submission was seen to end; fresh: that was at its end, and not later */
    bool fresh;
} pace;

/* How many times as long as modelled a program's work takes; 0: it has not run. */
typedef double pace_scale;

/* A part of a submission: the scale of its program (NULL: it has none, as copies) and its modelled seconds. */
typedef struct pace_share {
    pace_scale *scale;
    double seconds;
} pace_share;

/* A submission under way. */
typedef struct pace_mark {
    const void *owner;        /* the recording whose end ends what is known of it */
    const pace_share *shares; /* not owned; NULL: only `own` */
    int count;
    pace_share own;
    uint64_t submitted;
    bool was_idle; /* the queue had nothing else to do then */
} pace_mark;

/* The clock, in nanoseconds; tests replace it. */
extern uint64_t (*tuff__pace_clock)(void);

void tuff__pace_begin(pace *self, bool is_on);
/* Predicted seconds of a share. */
double tuff__pace_predict(const pace *self, const pace_share *share);
/* Into how many parts a dispatch of so many groups is to be split: MAX_PACE_PARTS at most. */
uint64_t tuff__pace_parts(const pace *self, const pace_share *share, uint64_t groups);
/* Notes a submission; is_idle: nothing else was under way. */
void tuff__pace_submitted(const pace *self, pace_mark *mark, bool is_idle);
/* Its end was seen, after a wait for it or, where waited is false, some time later. In the order of submission. */
void tuff__pace_ended(pace *self, const pace_mark *mark, bool waited);

#endif
