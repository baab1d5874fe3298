/* What a training run tells of itself: the progress line on the error stream and the log in JSON Lines. */
#ifndef TUFF_TOOLS_TRAIN_PROGRESS_H
#define TUFF_TOOLS_TRAIN_PROGRESS_H

#include <stdio.h>

#include "tools/cli/cli.h"

/* What the device reports of a step, in this order. */
typedef struct step_report {
    float loss, gradient_norm, learning_rate;
} step_report;

typedef struct progress {
    FILE *log; /* NULL: none */
    const char *log_path;
    int64_t first, last, total; /* steps done at the beginning, to do in this run, of the schedule */
    int64_t tokens_per_step;
    int64_t fixed_interval; /* steps between lines; 0: about one line a second */
    int64_t interval;       /* in use */
    int64_t line_step;      /* of the last line */
    uint64_t begin, line_time;
    bool terminal;
    double waited; /* seconds that steps waited for their batches so far; set before progress_line */
} progress;

/* Opens the log (appending where append is set); path may be NULL. Message and EXIT_FAILED where it cannot be
   written. */
int progress_open(progress *self, const cli_verb *verb, const char *path, bool append);
/* Starts the clock. first steps are done, last is where the run ends. */
void progress_begin(progress *self, int64_t first, int64_t last, int64_t total, int64_t tokens_per_step,
                    int64_t interval);
/* Whether a line is due when step steps are done. */
bool progress_is_due(const progress *self, int64_t step);
/* Prints and logs the report of the last step. Returns false where the log could not be written. */
bool progress_line(progress *self, int64_t step, const step_report *report);
/* Prints and logs the loss of a validation after step; best: the lowest one so far, which this one is where is_best.
   Returns false where the log could not be written. */
bool progress_validation(progress *self, int64_t step, double loss, double best, bool is_best);
/* Leaves the progress line, so that other text may follow. */
void progress_end(progress *self);
void progress_close(progress *self);

/* "1m02s" of nanoseconds; Returns buffer. */
const char *progress_time(double seconds, char *buffer, size_t size);
#define TIME_TEXT(seconds) progress_time((seconds), (char[32]){0}, 32)

#endif
