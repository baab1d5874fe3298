/* Validation during a training run: the mean loss over text that is never trained on, the best weights so far, and the
   end of a training that no longer gains. */
#ifndef TUFF_TOOLS_TRAIN_VALIDATION_H
#define TUFF_TOOLS_TRAIN_VALIDATION_H

#include "tools/train/averages.h"
#include "tools/train/run_settings.h"
#include "tools/train/text.h"
#include "tuff/checkpoint.h"
#include "tuff/data.h"

typedef struct validation {
    corpus text; /* where it is a file of its own */
    const corpus *held_out;
    const run_settings *settings;
    tuff_loader *loader;
    tuff_plan *plan;                    /* forward only */
    tuff_array *sums;                   /* f32 [2]: losses, tokens */
    tuff_parameters *parameters, *best; /* the model's; best: a copy on the device */
    language_model averaged;            /* of the averages of weights; no parameters: the model itself is measured */
    averages averages;
    int64_t context;
} validation;

/* Opens the text of a validation: "0.1", the last tenth of the training text, which becomes shorter by that, or a file.
   window: bytes that both need at least. */
tuff_status validation_split(validation *self, const char *from, corpus *training, corpus *held_out, int64_t window);
/* Compiles the forward pass. settings, whose best loss and patience are the run's, model and optimizer must outlive it.
   optimizer: where it keeps averages of the weights, these are measured, and the best ones are of them; may be NULL. */
tuff_status validation_open(validation *self, tuff_device *device, language_model *model, tuff_optimizer *optimizer,
                            const corpus *held_out, const run_settings *settings, const tuff_compile_options *options);
void validation_close(validation *self);

/* Reads the best weights so far of a run that goes on from the checkpoint at path, after `step` steps. Where they are
   not found it says so on the error stream, and state has no best loss any more. */
tuff_status validation_resume(validation *self, run_state *state, const char *path, int64_t step);
/* Whether it is due after so many steps. */
bool validation_is_due(const validation *self, int64_t step);
/* The mean loss over the held-out text, in nats a byte. */
tuff_status validation_loss(validation *self, double *loss);
/* Notes the loss after `step` steps in state; the weights become the best ones where it is the lowest so far, which it
   returns in *best. */
tuff_status validation_record(validation *self, run_state *state, int64_t step, double loss, bool *best);
/* Whether the losses have not fallen for `patience` validations. */
bool validation_is_over(const validation *self);
/* The model gets its best weights. */
tuff_status validation_restore(validation *self);

#endif
