/* What a training run tells of itself: the progress line on the error stream, the loss as a drawing above it, and the
   files that follow it. */
#ifndef TUFF_TOOLS_TRAIN_PROGRESS_H
#define TUFF_TOOLS_TRAIN_PROGRESS_H

#include <stdio.h>

#include "tools/train/history.h"
#include "tools/train/plot.h"

/* What the device reports of a step, in this order. */
typedef struct step_report {
    float loss, gradient_norm, learning_rate;
} step_report;

/* What it reports of loss scaling, in this order. */
typedef struct scaling_report {
    float loss_scale, skipped;
} scaling_report;

typedef enum plot_mode { PLOT_NONE, PLOT_ON_TERMINAL, PLOT_ALWAYS } plot_mode;

typedef struct progress {
    monitors files;
    history lines;       /* of this run */
    history validations; /* likewise: steps and losses */
    tuff_device *device;
    plot_mode plot;
    int plot_lines;             /* of the drawing that stands above the progress line; 0: there is none */
    int plots;                  /* drawn where there is no terminal */
    int64_t first, last, total; /* steps done at the beginning, to do in this run, of the schedule */
    int64_t tokens_per_step;
    int64_t fixed_interval; /* steps between lines; 0: about one line a second */
    int64_t interval;       /* in use */
    int64_t line_step;      /* of the last line */
    uint64_t begin, line_time;
    bool terminal;
    bool is_open;  /* the progress line has no end yet */
    double waited; /* seconds that steps waited for their batches so far; set before progress_line */
    bool has_phases;  /* likewise: the step was timed */
    double phases[3]; /* its seconds in kernels, by tuff_phase */
} progress;

/* Opens the files, as monitors_open does. Message and EXIT_FAILED where one cannot be written. */
int progress_open(progress *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step, const line_norms *norms);
/* Starts the clock. first steps are done, last is where the run ends. device and plot are members that the caller sets
   before. */
void progress_begin(progress *self, int64_t first, int64_t last, int64_t total, int64_t tokens_per_step,
                    int64_t interval);
/* Whether a line is due when step steps are done. */
bool progress_is_due(const progress *self, int64_t step);
/* Prints and logs the report of the last step. scaling: NULL where the loss is not scaled. norms: those that were named
   when the files were opened. */
void progress_line(progress *self, int64_t step, const step_report *report, const scaling_report *scaling,
                   const float *norms);
/* Prints and logs the loss of a validation after step; best: the lowest one so far, which this one is where is_best. */
void progress_validation(progress *self, int64_t step, double loss, double best, bool is_best);
/* Leaves the progress line, so that other text may follow. */
void progress_end(progress *self);
/* False, after a message, where the files lack records. */
bool progress_close(progress *self);

/* "1m02s" of nanoseconds; Returns buffer. */
const char *progress_time(double seconds, char *buffer, size_t size);
#define TIME_TEXT(seconds) progress_time((seconds), (char[32]){0}, 32)

#endif
