/* A training run of an example: what its parts (plans, lines, saving, report) share. */
#ifndef TUFF_EXAMPLES_TRAIN_H
#define TUFF_EXAMPLES_TRAIN_H

#include <tuff/monitor.h>
#include <tuff/profile.h>

#include "build.h"
#include "options.h"

/* What is known at a line of output. */
typedef struct example_line {
    int64_t step;
    double loss, metrics[EXAMPLE_MAX_METRICS]; /* means since the line before */
    double validation_loss;                    /* NaN where there was none at this step */
    double validation_metrics[EXAMPLE_MAX_METRICS];
    double gradient_norm, learning_rate, loss_scale; /* of the last step */
    double recent, average;                          /* steps per second: since the line before, of the run */
} example_line;

typedef struct training {
    example_run run;
    const example_options *options;
    example_source source, held_out; /* of training and validation */
    tuff_loader *loader;             /* NULL: batches are filled when they are needed */
    tuff_monitor *monitor;
    tuff_checkpoint_writer *writer;
    tuff_array *sums, *validation_sums; /* f32: the loss, then the metrics, added up since the last line */
    int metric_count;
    const char *metric_names[EXAMPLE_MAX_METRICS];
    int64_t first_step; /* done before this run */
    int64_t summed;     /* batches in sums */
    example_line *lines;
    int line_count, line_room;
    double progress_time, started, first_step_done, line_time, first_seconds,
        seconds; /* seconds: behind the first step */
    int64_t timed_steps;
    bool explained; /* a failure has its own line on the error stream already */
} training;

/* Seconds by some clock. */
double example_now(void);

/* Optimizer and plans. */
tuff_status training_plans_create(training *self);
void training_plans_destroy(training *self);
/* The means of what was summed up since the last call, and begins anew. */
tuff_status training_read_sums(tuff_array *sums, int metric_count, int64_t batches, double *loss, double *metrics);

/* The line of the present step is measured, printed, logged and kept. */
tuff_status training_line(training *self);
tuff_status training_monitor_open(training *self);
/* Shows the number of the step on a terminal, a few times a second; reads nothing from the device. */
void training_progress(training *self);

/* Goes on from options->resume, where there is one. */
tuff_status training_resume(training *self);
/* Saves where options->save is set. is_best: also under the name of the best one. */
tuff_status training_save(training *self, bool is_best);

/* The final table, on standard output, and the page of options->report. */
void training_print_table(const training *self);
tuff_status training_report(training *self);

/* A step: its batches, and the update. */
tuff_status training_step(training *self);
/* Steps at commands on standard input (bench.c), until it ends. */
tuff_status training_bench(training *self);

/* A whole run. Returns the exit code. */
int example_train(const example *model, const example_options *options);

#endif
