/* The files that record a training run: a log in JSON Lines, CSV, TensorBoard events. */
#ifndef TUFF_TOOLS_TRAIN_MONITORS_H
#define TUFF_TOOLS_TRAIN_MONITORS_H

#include "tools/cli/cli.h"

enum { MONITOR_LOG, MONITOR_CSV, MONITOR_EVENTS, MONITOR_COUNT };
enum { MONITOR_NAME_SIZE = 192 };

/* The numbers that a line reports about a step. */
typedef struct line_numbers {
    int64_t step;
    double loss, learning_rate, gradient_norm;
    double recent, average; /* tokens per second: since the previous line, and since the run began */
    double seconds;         /* since the run began */
    double waited;          /* seconds that steps waited for their batches */
    uint64_t memory_peak;   /* largest amount of device memory so far, in bytes */
    double loss_scale;      /* of the next step; 0 if the loss is not scaled */
    double skipped;         /* number of skipped steps so far */
    bool has_phases;        /* the step was timed */
    double phases[3];       /* seconds spent in kernels, by tuff_phase */
} line_numbers;

/* Norms that lines report besides these numbers: names of parameters or groups. */
typedef struct line_norms {
    const char *const *names;
    int count;
} line_norms;

typedef struct monitors {
    const cli_verb *verb;
    char (*norm_names)[MONITOR_NAME_SIZE];
    const char **names;   /* of all scalars */
    tuff_scalar *scalars; /* of a record; room for all */
    int count, norm_count;
    tuff_monitor *items[MONITOR_COUNT]; /* NULL if not requested */
    bool is_failing[MONITOR_COUNT];     /* the last record could not be written, which has been reported */
    bool has_failed;                    /* some record is missing */
} monitors;

/* Opens the files whose paths are not NULL. resumed: appends to existing files, after first_step. norms may be NULL. If
   a file cannot be written, prints a message and returns EXIT_FAILED. */
int monitors_open(monitors *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step, const line_norms *norms);
/* Writes a record to each file. norms has one value per name. A failure to write is reported once and the next record
   is tried again, because a training run is worth more than its log. begin_message, if not NULL, is called before a
   message. */
void monitors_write(monitors *self, const line_numbers *numbers, const float *norms, void (*begin_message)(void *user),
                    void *user);
/* Writes a record with the loss of a validation and the best one so far. */
void monitors_write_validation(monitors *self, int64_t step, double loss, double best,
                               void (*begin_message)(void *user), void *user);
/* Closes the files. Returns false, after a message, if records are missing. */
bool monitors_close(monitors *self);

#endif
