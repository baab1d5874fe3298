/* What a checkpoint of the tool says beside its tensors: the model, how it is trained, and how far the training is, so
   that it can go on to the same bits. */
#ifndef TUFF_TOOLS_TRAIN_RUN_SETTINGS_H
#define TUFF_TOOLS_TRAIN_RUN_SETTINGS_H

#include "tools/model/model.h"
#include "tools/train/optimizer_flags.h"

/* What changes during a run, beside tensors. */
typedef struct run_state {
    int64_t step;     /* steps done; -1: an older checkpoint, which does not say */
    char loader[192]; /* the loader's position; "": none */
    bool has_best;    /* a validation had a loss */
    double best_loss;
    int64_t best_step, without_gain; /* validations since the best one */
} run_state;

/* The next validation has the best loss: those so far are of another text, or their weights are gone. */
void run_state_forget_best(run_state *state);

typedef struct run_settings {
    model_config model;
    int64_t steps, batch, seed;
    double learning_rate;
    optimizer_flags optimizer;
    uint64_t text_hash;               /* of the training text */
    uint64_t held_out_hash;           /* of the file that `validate` names; 0: none */
    int precision, matmul_precision;  /* each a tuff_precision */
    bool resident;                    /* the device draws the windows */
    int log_norms; /* a choice: 1: the files that follow the run have norms of groups or parameters */
    char validate[512];               /* a file, or the fraction of the text that is held out; "": no validation */
    int64_t validate_every, patience; /* steps; validations without gain until the end, 0: none */
    run_state state;
} run_settings;

/* "f32", "f16" or "bf16" of a tuff_precision. */
const char *run_precision_name(int precision);
/* Reads the settings of a checkpoint; everything is checked. */
tuff_status run_settings_read(const char *path, run_settings *out);

/* The settings as metadata of a checkpoint. Free it whatever is returned. */
enum { RUN_METADATA_COUNT = 3 };
typedef struct run_metadata {
    const char *keys[RUN_METADATA_COUNT];
    char *texts[RUN_METADATA_COUNT];
} run_metadata;
tuff_status run_settings_metadata(const run_settings *settings, run_metadata *out);
void run_metadata_free(run_metadata *self);

#endif
