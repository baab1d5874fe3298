/* The graphs of a training step with loss scaling, or in parts: see tuff_optimizer_accumulate. */
#ifndef TUFF_TOOLS_TRAIN_STEP_GRAPHS_H
#define TUFF_TOOLS_TRAIN_STEP_GRAPHS_H

#include "tools/train/batches.h"

/* As batches_graph, with an output more: scaling f32 [2], the loss scale of the next step and the number of skipped
   ones. */
tuff_graph *scaled_train_graph(tuff_device *device, const batches *source, language_model *model,
                               tuff_optimizer *optimizer);

/* No outputs: a part of a step. */
tuff_graph *accumulate_graph(tuff_device *device, const batches *source, language_model *model,
                             tuff_optimizer *optimizer);
/* What ends a step of parts: no inputs, outputs report and scaling. */
tuff_graph *update_graph(tuff_device *device, tuff_optimizer *optimizer);

#endif
