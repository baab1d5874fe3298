/* The files that follow a training: a log in JSON Lines, CSV, TensorBoard's events. */
#ifndef TUFF_TOOLS_TRAIN_MONITORS_H
#define TUFF_TOOLS_TRAIN_MONITORS_H

#include "tools/cli/cli.h"

enum { MONITOR_LOG, MONITOR_CSV, MONITOR_EVENTS, MONITOR_COUNT };
enum { MONITOR_NAME_SIZE = 192 };

/* What a line tells of a step. */
typedef struct line_numbers {
    int64_t step;
    double loss, learning_rate, gradient_norm;
    double recent, average; /* tokens a second: since the line before, and since the run began */
    double seconds;         /* since the run began */
    double waited;          /* seconds that steps waited for their batches */
    uint64_t memory_peak;   /* bytes of device memory at most so far */
    double loss_scale;      /* of the next step; 0: the loss is not scaled */
    double skipped;         /* steps that were skipped so far */
    bool has_phases;        /* the step was timed */
    double phases[3];       /* its seconds in kernels, by tuff_phase */
} line_numbers;

/* Whose norms lines tell beside these numbers: names of parameters or groups. */
typedef struct line_norms {
    const char *const *names;
    int count;
} line_norms;

typedef struct monitors {
    const cli_verb *verb;
    char (*norm_names)[MONITOR_NAME_SIZE];
    const char **names;   /* of all scalars */
    tuff_scalar *scalars; /* of a record; room for as many */
    int count, norm_count;
    tuff_monitor *items[MONITOR_COUNT]; /* NULL: not asked for */
    bool is_failing[MONITOR_COUNT];     /* the last record could not be written, which was said */
    bool has_failed;                    /* some record is missing */
} monitors;

/* Opens the files whose paths are not NULL. resumed: goes on with what is there after first_step. norms: NULL: there
   are none. Message and EXIT_FAILED where one cannot be written. */
int monitors_open(monitors *self, const cli_verb *verb, const char *const paths[MONITOR_COUNT], bool resumed,
                  int64_t first_step, const line_norms *norms);
/* Writes a record to each; norms: as many as there are names. A file that takes no more is said once, and tried again
   with the next record: a training is worth more than its log. begin_message is called before a message, where not
   NULL. */
void monitors_write(monitors *self, const line_numbers *numbers, const float *norms, void (*begin_message)(void *user),
                    void *user);
/* The same for the loss of a validation, and the best one so far. */
void monitors_write_validation(monitors *self, int64_t step, double loss, double best,
                               void (*begin_message)(void *user), void *user);
/* False, after a message, where records are missing. */
bool monitors_close(monitors *self);

#endif
