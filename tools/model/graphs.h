/* The two graphs of a language model: a step of training, and the next token. */
#ifndef TUFF_TOOLS_MODEL_GRAPHS_H
#define TUFF_TOOLS_MODEL_GRAPHS_H

#include "tools/model/model.h"

/* Input windows i32 [batch, context + 1]; output report f32 [3]: loss, norm of the gradients, learning rate. A run
   is a step of the optimizer. NULL where memory ran out; other errors stay in the graph. */
tuff_graph *train_graph(tuff_device *device, language_model *model, tuff_optimizer *optimizer, int64_t batch);

/* The same in a graph whose step is set, of windows i32 [batch, context + 1] that are in it. */
void train_on_windows(tuff_graph *graph, language_model *model, tuff_optimizer *optimizer, tuff_tensor *windows);

/* Inputs tokens i32 [1, context] and position, an i32 scalar; output logits f32 [vocabulary], of what follows there. */
tuff_graph *sampler_graph(tuff_device *device, language_model *model);

#endif
