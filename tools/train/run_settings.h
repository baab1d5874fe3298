/* The metadata of the tool's checkpoints: the model, how it is trained, and the progress of the training, so that it
   can be resumed with bit-identical results. */
#ifndef TUFF_TOOLS_TRAIN_RUN_SETTINGS_H
#define TUFF_TOOLS_TRAIN_RUN_SETTINGS_H

#include "tools/model/model.h"
#include "tools/train/optimizer_flags.h"

/* State that changes during a run, besides tensors. */
typedef struct run_state {
    int64_t step;     /* steps done; -1: unknown, in an older checkpoint */
    char loader[192]; /* the loader's position; "": none */
    bool has_best;    /* a validation has been done */
    double best_loss;
    int64_t best_step, without_gain; /* without_gain: validations since the best one */
} run_state;

/* Makes the next validation the best one: earlier losses are of another text, or their weights are gone. */
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
    int log_norms;                    /* a choice; 1: the log files have norms of groups or parameters */
    char validate[512];               /* file, or fraction of the text held out; "": no validation */
    int64_t validate_every, patience; /* in steps; validations without gain before the run ends, 0: never */
    run_state state;
} run_settings;

/* The name of a tuff_precision: "f32", "f16" or "bf16". */
const char *run_precision_name(int precision);
/* Reads the settings of a checkpoint and checks everything. */
tuff_status run_settings_read(const char *path, run_settings *out);

/* The settings as metadata of a checkpoint. Call run_metadata_free even after a failure. */
enum { RUN_METADATA_COUNT = 3 };
typedef struct run_metadata {
    const char *keys[RUN_METADATA_COUNT];
    char *texts[RUN_METADATA_COUNT];
} run_metadata;
tuff_status run_settings_metadata(const run_settings *settings, run_metadata *out);
void run_metadata_free(run_metadata *self);

#endif
