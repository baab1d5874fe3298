/* The files that a training run reads and writes. */
#ifndef TUFF_TOOLS_TRAIN_RUN_FILES_H
#define TUFF_TOOLS_TRAIN_RUN_FILES_H

#include "tools/train/options.h"

/* Fails if the run would overwrite a file that it reads, or one output with another. To be called when the options are
   merged with those of the checkpoint, which may name files too. */
cli_end run_files_check(const cli_verb *verb, const train_options *options);

#endif
