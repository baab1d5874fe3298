/* The checkpoints of a training run: written in the background, some kept, the best one also under its own name. */
#ifndef TUFF_TOOLS_TRAIN_SAVING_H
#define TUFF_TOOLS_TRAIN_SAVING_H

#include "tools/train/run_settings.h"
#include "tuff/checkpoint.h"

typedef struct save_state {
    const char *path; /* NULL: nothing is saved */
    int64_t keep;     /* number of FILE.step-<n> checkpoints; 0: none */
    language_model *model;
    tuff_optimizer *optimizer;
    tuff_checkpoint_writer *writer; /* NULL: saving is synchronous */
    int64_t saved, begun, failed;   /* steps: last one saved, in progress, last one that failed; -1: none */
    bool is_best, lacks_best;       /* the one in progress is the best; FILE.best is not up to date */
} save_state;

/* Checks the path before the training rather than after: its folder must accept a file, and the path must not be a
   folder. path may be NULL. option names it in the message. */
tuff_status saving_check_path(const char *option, const char *path);
/* model and optimizer must outlive self. async: there will be more saves than the last, so that a copy of the state is
   worth its memory. state: the run's initial state; if a resumed run lacks its best checkpoint, that is created at once
   or with the next save. */
tuff_status saving_open(save_state *self, const char *path, int64_t keep, bool async, const run_state *state,
                        language_model *model, tuff_optimizer *optimizer);
/* Starts to save the state after `step` steps, unless that is saved already; if is_best, also as the best one. best:
   the best weights so far, which are saved separately if their own checkpoint failed; NULL: none. */
tuff_status saving_begin(save_state *self, const run_settings *settings, int64_t step, bool is_best,
                         tuff_parameters *best);
/* Waits for the save in progress and returns its status; after a failure, `failed` is its step. To be called before
   saving_begin. */
tuff_status saving_wait(save_state *self);
void saving_close(save_state *self);

/* Whether the checkpoint at path is of the step whose save failed last; if so, only its other names are missing. */
bool saving_is_written(const save_state *self);

/* Finds the file with the best weights for a run that resumes from the checkpoint at path with this state: PATH.best,
   or if path is FILE.prev or FILE.step-<n>, FILE.best or FILE.step-<best step>. TUFF_E_IO if there is none. */
tuff_status saving_find_best(const char *path, const run_state *state, char *out, size_t size);

#endif
