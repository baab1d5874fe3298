/* Validation during a training run: the mean loss over text that is never trained on, the best weights so far, and
   early stopping. */
#ifndef TUFF_TOOLS_TRAIN_VALIDATION_H
#define TUFF_TOOLS_TRAIN_VALIDATION_H

#include "tools/train/averages.h"
#include "tools/train/run_settings.h"
#include "tools/train/text.h"
#include "tuff/checkpoint.h"
#include "tuff/data.h"

typedef struct validation {
    corpus text; /* if read from a separate file */
    const corpus *held_out;
    const run_settings *settings;
    tuff_loader *loader;
    tuff_plan *plan;                    /* forward pass only */
    tuff_array *sums;                   /* f32 [2]: sum of losses, number of tokens */
    tuff_parameters *parameters, *best; /* of the model; best: a copy on the device */
    language_model averaged;            /* model with averaged weights; parameters NULL: validates the model itself */
    averages averages;
    int64_t context;
} validation;

/* Whether --validate names a file, not a fraction. "": neither. */
bool validation_reads_file(const char *source);
/* Opens the text for validation: a file, or a fraction such as "0.1" of the end of the training text, which is
   shortened by it. window: minimum number of bytes that remain for training. */
tuff_status validation_split(validation *self, const char *source, corpus *training, corpus *held_out, int64_t window);
/* Compiles the forward pass. settings (which holds the run's best loss and patience), model and optimizer must outlive
   self. If the optimizer keeps averages of the weights, these are validated, and the best weights are averages too. */
tuff_status validation_open(validation *self, tuff_device *device, language_model *model, tuff_optimizer *optimizer,
                            const corpus *held_out, const run_settings *settings, const tuff_compile_options *options);
void validation_close(validation *self);

/* Gets the best weights so far for a run that resumes from the checkpoint at path, after `step` steps. If they are not
   found, prints a message on standard error and clears the best loss in state. */
tuff_status validation_resume(validation *self, run_state *state, const char *path, int64_t step);
/* Whether a validation is due after `step` steps. */
bool validation_is_due(const validation *self, int64_t step);
/* Computes the mean loss over the held-out text, in nats per byte. */
tuff_status validation_loss(validation *self, double *loss);
/* Records the loss after `step` steps in state. If it is the lowest so far, sets *best and keeps the weights as the
   best. */
tuff_status validation_record(validation *self, run_state *state, int64_t step, double loss, bool *best);
/* Whether the loss has not improved in `patience` validations. */
bool validation_is_over(const validation *self);
/* Copies the best weights to the model, if there are any. */
tuff_status validation_restore(validation *self);

#endif
