/* The graphs of a training step that tells more than its report, or in parts: see tuff_optimizer_accumulate. */
#ifndef TUFF_TOOLS_TRAIN_STEP_GRAPHS_H
#define TUFF_TOOLS_TRAIN_STEP_GRAPHS_H

#include "tools/train/batches.h"

/* Outputs of a step beside its report. */
typedef enum logged_norms { LOG_NO_NORMS, LOG_TENSOR_NORMS, LOG_GROUP_NORMS } logged_norms;

/* As batches_graph, with outputs more: scaling f32 [2], the loss scale of the next step and the number of skipped ones;
   norms f32, one for each parameter or group, of the gradients before clipping, where they are asked for. NULL where
   the step cannot be built. */
tuff_graph *full_train_graph(tuff_device *device, const batches *source, language_model *model,
                             tuff_optimizer *optimizer, logged_norms norms);

/* No outputs: a part of a step. */
tuff_graph *accumulate_graph(tuff_device *device, const batches *source, language_model *model,
                             tuff_optimizer *optimizer);
/* What ends a step of parts: no inputs, outputs and failures as of full_train_graph. */
tuff_graph *update_graph(tuff_device *device, tuff_optimizer *optimizer, logged_norms norms);

#endif
