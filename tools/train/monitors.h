/* The files that follow a training: a log in JSON Lines, CSV, TensorBoard's events. */
#ifndef TUFF_TOOLS_TRAIN_MONITORS_H
#define TUFF_TOOLS_TRAIN_MONITORS_H

#include "tools/cli/cli.h"

enum { MONITOR_LOG, MONITOR_CSV, MONITOR_EVENTS, MONITOR_COUNT };

/* What only some lines tell: with --profile seconds of the step in kernels, by phase; with loss scaling the scale and
   the steps skipped so far. */
typedef struct line_extras {
    bool has_phases, has_scale;
    double phases[3]; /* by tuff_phase */
    double loss_scale, skipped_steps;
} line_extras;

/* What a line tells of a step. */
typedef struct line_numbers {
    int64_t step;
    double loss, learning_rate, gradient_norm;
    double recent, average; /* tokens a second: since the line before, and since the run began */
    double seconds;         /* since the run began */
    double waited;          /* seconds that steps waited for their batches */
    uint64_t memory_peak;   /* bytes of device memory at most so far */
    line_extras extras;
} line_numbers;

typedef struct monitors {
    const cli_verb *verb;
    tuff_monitor *items[MONITOR_COUNT]; /* NULL: not asked for */
    bool is_failing[MONITOR_COUNT];     /* the last record could not be written, which was said */
    bool has_failed;                    /* some record is missing */
} monitors;

/* Opens the files whose paths are not NULL. resumed: goes on with what is there after first_step. Message and
   EXIT_FAILED where one cannot be written. */
int monitors_open(monitors *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step);
/* Writes a record to each. A file that takes no more is said once, and tried again with the next record: a training is
   worth more than its log. begin_message is called before a message, where not NULL. */
void monitors_write(monitors *self, const line_numbers *numbers, void (*begin_message)(void *user), void *user);
/* The same for the loss of a validation, and the best one so far. */
void monitors_write_validation(monitors *self, int64_t step, double loss, double best,
                               void (*begin_message)(void *user), void *user);
/* False, after a message, where records are missing. */
bool monitors_close(monitors *self);

#endif
