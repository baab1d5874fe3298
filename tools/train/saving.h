/* The checkpoints of a training run: written beside the steps, some kept, the best one under a name of its own. */
#ifndef TUFF_TOOLS_TRAIN_SAVING_H
#define TUFF_TOOLS_TRAIN_SAVING_H

#include "tools/train/run_settings.h"
#include "tuff/checkpoint.h"

typedef struct saving {
    const char *path; /* NULL: nothing is saved */
    int64_t keep;     /* checkpoints of their own names; 0: none */
    language_model *model;
    tuff_optimizer *optimizer;
    tuff_checkpoint_writer *writer; /* NULL: saves are waited for */
    int64_t saved, begun, failed;   /* steps: of the checkpoint that is written, of the one under way, and of the one
                                     that failed last; -1 */
    bool is_best, lacks_best;       /* the one under way is the best one; a best one could not be saved since */
} saving;

/* Fails now rather than after the training: the folder must take a file, and the path, if not NULL, must not be a
   folder. option names it in the message. */
tuff_status saving_check_path(const char *option, const char *path);
/* model and optimizer must outlive it. beside: more is saved than the last step, so that a copy of the state is worth
   its memory. state: what the run begins with; the best checkpoint of a run that goes on is made where it lacks, at
   once or with the next save. */
tuff_status saving_open(saving *self, const char *path, int64_t keep, bool beside, const run_state *state,
                        language_model *model, tuff_optimizer *optimizer);
/* Begins to save the state after `step` steps, unless that is saved already; is_best: as the best one, too. best: the
   best weights so far, which are saved by themselves where their own checkpoint failed; NULL: there are none. */
tuff_status saving_begin(saving *self, const run_settings *settings, int64_t step, bool is_best, tuff_parameters *best);
/* Waits for the save under way, and returns its failure, that of step `failed`. To be called before saving_begin. */
tuff_status saving_wait(saving *self);
void saving_close(saving *self);

/* Whether the checkpoint at path has the step whose save failed last: then its other names are what is missing. */
bool saving_is_written(const saving *self);

/* Finds the file with the best weights of a run that goes on from the checkpoint at path with this state: beside it as
   PATH.best, or where path is FILE.prev or FILE.step-<n>, as FILE.best or FILE.step-<the best one>. TUFF_E_IO where
   there is none. */
tuff_status saving_find_best(const char *path, const run_state *state, char *out, size_t size);

#endif
