/* The options of tuff train, merged with the settings of the checkpoint that a run resumes from. */
#ifndef TUFF_TOOLS_TRAIN_OPTIONS_H
#define TUFF_TOOLS_TRAIN_OPTIONS_H

#include "tools/cli/cli.h"
#include "tools/train/run_settings.h"
#include "tools/tune/tuning.h"

typedef struct train_options {
    cli_strings data;
    run_settings settings;
    const char *device, *log, *csv, *tensorboard, *report, *save, *save_graph, *resume, *prompt;
    int64_t save_every, stop_after, log_every, sample, memory_budget, workers, keep;
    int64_t saved_accumulate; /* of the checkpoint that the run resumes from */
    int upload;             /* a tuff_upload */
    int form, fuse, matmul; /* form: an index, as in model_options */
    bool recompute, profile, plot, force_plot;
    tuning tune;
} train_options;

/* Fills *out from the command line and, with --resume, from the checkpoint. Free data with cli_texts_free in any
   case. */
cli_end train_options_read(const cli_verb *verb, int count, char **arguments, train_options *out);

#endif
