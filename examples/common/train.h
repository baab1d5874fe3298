/* A training run of an example: what its parts (plans, lines, saving, report) share. */
#ifndef TUFF_EXAMPLES_TRAIN_H
#define TUFF_EXAMPLES_TRAIN_H

#include <tuff/monitor.h>
#include <tuff/profile.h>

#include "build.h"
#include "options.h"

/* The values of a line of output. */
typedef struct example_line {
    int64_t step;
    double loss, metrics[EXAMPLE_MAX_METRICS]; /* means since the previous line */
    double validation_loss;                    /* NaN without a validation at this step */
    double validation_metrics[EXAMPLE_MAX_METRICS];
    double gradient_norm, learning_rate, loss_scale; /* of the last step */
    double recent, average;                          /* steps per second: since the previous line, overall */
} example_line;

typedef struct training {
    example_run run;
    const example_options *options;
    example_source source, held_out; /* training, validation */
    tuff_loader *loader;             /* NULL: batches are filled when needed */
    tuff_monitor *monitor;
    tuff_checkpoint_writer *writer;
    tuff_array *validation_counter;     /* i32: random numbers of a validation batch depend on it */
    tuff_array *sums, *validation_sums; /* f32: the loss, then the metrics, summed since the last line */
    int metric_count;
    const char *metric_names[EXAMPLE_MAX_METRICS];
    int64_t first_step; /* steps done before this run */
    int64_t saved_step; /* of the last checkpoint; 0: none yet */
    int64_t summed;     /* batches in sums */
    example_line *lines;
    int line_count, line_room;
    double progress_time, started, first_step_done, line_time, first_seconds,
        seconds; /* seconds excludes the first step */
    int64_t timed_steps;
    bool error_reported; /* an error message has already been printed */
    char data_text[96];  /* which data the run learns from, see example_data_describe */
} training;

/* Wall-clock time in seconds. */
double example_now(void);

/* Creates the optimizer and the plans. */
tuff_status training_plans_create(training *self);
void training_plans_destroy(training *self);
/* Describes a step: the launches, copies, tasks and matmuls of all its batches and the update, and the intermediates of
   both plans. Batches share what they compute from the weights alone, so that a step may launch fewer. */
tuff_status training_describe_step(const training *self, tuff_plan_info *out);
/* Returns the means over the batches since the last call, and clears the sums. */
tuff_status training_read_sums(tuff_array *sums, int metric_count, int64_t batches, double *loss, double *metrics);

/* Measures the line of the current step, prints it, logs it and keeps it for the report. */
tuff_status training_log_line(training *self);
tuff_status training_monitor_open(training *self);
/* Shows the step number on a terminal, a few times a second. Reads nothing from the device. */
void training_show_step(training *self);

/* Resumes from options->resume, if set. */
tuff_status training_resume(training *self);
/* Saves a checkpoint, if options->save is set; if is_best, also under the name of the best one. */
tuff_status training_save(training *self, bool is_best);

/* The final table on standard output, and the report options->report. */
void training_print_table(const training *self);
tuff_status training_report(training *self);

/* Runs one step: its batches and the update. */
tuff_status training_step(training *self);
/* Runs steps as commands on standard input request, until it ends (bench.c). */
tuff_status training_bench(training *self);

#endif
