/* The output of a training run: the progress line on standard error, the loss plot above it, and the log files. */
#ifndef TUFF_TOOLS_TRAIN_PROGRESS_H
#define TUFF_TOOLS_TRAIN_PROGRESS_H

#include <stdio.h>

#include "tools/train/history.h"
#include "tools/train/plot.h"

/* The report of a step, in the order of the device's output. */
typedef struct step_report {
    float loss, gradient_norm, learning_rate;
} step_report;

/* The state of loss scaling, in the order of the device's output. */
typedef struct scaling_report {
    float loss_scale, skipped;
} scaling_report;

typedef enum plot_mode { PLOT_NONE, PLOT_ON_TERMINAL, PLOT_ALWAYS } plot_mode;

typedef struct progress {
    monitors files;
    history lines;       /* of this run */
    history validations; /* steps and losses of validations in this run */
    tuff_device *device;
    plot_mode plot;
    int plot_lines;             /* height of the drawing above the progress line; 0: none */
    int plots;                  /* drawn so far; spaces them if there is no terminal */
    int64_t first, last, total; /* steps: done before this run, at its end, of the schedule */
    int64_t tokens_per_step;
    int64_t fixed_interval; /* steps between lines; 0: about one line per second */
    int64_t interval;       /* current one */
    int64_t line_step;      /* step of the last line */
    uint64_t begin, line_time;
    bool terminal;
    bool is_open;     /* the progress line has not been ended */
    double waited;    /* total seconds that steps waited for batches; set before progress_line */
    bool has_phases;  /* the step was timed; set before progress_line */
    double phases[3]; /* seconds in kernels, by tuff_phase */
} progress;

/* Opens the files, as monitors_open does. EXIT_FAILED with a message if one cannot be written. */
int progress_open(progress *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step, const line_norms *norms);
/* Starts the clock. first: steps done already; last: the step at which the run ends. The caller sets device and plot
   before. */
void progress_begin(progress *self, int64_t first, int64_t last, int64_t total, int64_t tokens_per_step,
                    int64_t interval);
/* Whether a line is due after `step` steps. The last step always has one. */
bool progress_is_due(const progress *self, int64_t step);
/* Prints and logs the report of the last step. scaling: NULL if the loss is not scaled. norms: the values of the norms
   named when the files were opened. */
void progress_line(progress *self, int64_t step, const step_report *report, const scaling_report *scaling,
                   const float *norms);
/* Prints and logs the loss of a validation after `step` steps. best: the lowest so far; is_best: this is the one. */
void progress_validation(progress *self, int64_t step, double loss, double best, bool is_best);
/* Ends the progress line, so that other text may follow. */
void progress_end(progress *self);
/* Closes the files. Returns false, after a message, if records are missing. */
bool progress_close(progress *self);

/* Formats seconds as "1m02s". Returns buffer. */
const char *progress_time(double seconds, char *buffer, size_t size);
#define TIME_TEXT(seconds) progress_time((seconds), (char[32]){0}, 32)

#endif
