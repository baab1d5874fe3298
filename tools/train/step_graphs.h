/* The graphs of a training step with more outputs than its report, or in several parts: see
   tuff_optimizer_accumulate. */
#ifndef TUFF_TOOLS_TRAIN_STEP_GRAPHS_H
#define TUFF_TOOLS_TRAIN_STEP_GRAPHS_H

#include "tools/train/batches.h"

/* Norms that a step outputs besides its report. */
typedef enum logged_norms { LOG_NO_NORMS, LOG_TENSOR_NORMS, LOG_GROUP_NORMS } logged_norms;

/* Like batches_graph, with further outputs: "scaling" f32 [2], the loss scale of the next step and the number of
   skipped steps; "norms" f32, if requested, the norm of the gradients before clipping for each parameter or group. NULL
   if the step cannot be built. */
tuff_graph *full_train_graph(tuff_device *device, const batches *source, language_model *model,
                             tuff_optimizer *optimizer, logged_norms norms);

/* Creates the graph of one part of a step. It has no outputs. */
tuff_graph *accumulate_graph(tuff_device *device, const batches *source, language_model *model,
                             tuff_optimizer *optimizer);
/* Creates the graph that ends a step of several parts. It has no inputs; outputs and failures as for
   full_train_graph. */
tuff_graph *update_graph(tuff_device *device, tuff_optimizer *optimizer, logged_norms norms);

#endif
