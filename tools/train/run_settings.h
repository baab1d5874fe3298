/* What a checkpoint of the tool says beside its tensors: the model, and how it is trained, so that training can go
   on to the same bits. */
#ifndef TUFF_TOOLS_TRAIN_RUN_SETTINGS_H
#define TUFF_TOOLS_TRAIN_RUN_SETTINGS_H

#include "tools/model/model.h"
#include "tools/train/optimizer_flags.h"

typedef struct run_settings {
    model_config model;
    int64_t steps, batch, seed;
    double learning_rate;
    optimizer_flags optimizer;
    uint64_t text_hash; /* of the training text */
} run_settings;

/* Reads the settings of a checkpoint; everything is checked. */
tuff_status run_settings_read(const char *path, run_settings *out);

/* Saves model and optimizer with the settings. */
tuff_status run_settings_save(const char *path, const run_settings *settings, language_model *model,
                              tuff_optimizer *optimizer);

#endif
