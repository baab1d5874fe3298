/* The two graphs of a language model: a training step, and the next token. */
#ifndef TUFF_TOOLS_MODEL_GRAPHS_H
#define TUFF_TOOLS_MODEL_GRAPHS_H

#include "tools/model/model.h"

/* Builds a graph with the input windows, i32 [batch, context + 1], and the output report, f32 [3]: loss, norm of the
   gradients, learning rate. Each run is one step of the optimizer. Returns NULL if memory runs out; other errors stay
   in the graph. */
tuff_graph *train_graph(tuff_device *device, language_model *model, tuff_optimizer *optimizer, int64_t batch);

/* Builds the same in a graph whose step is set, from windows, i32 [batch, context + 1], that are part of it. */
void train_on_windows(tuff_graph *graph, language_model *model, tuff_optimizer *optimizer, tuff_tensor *windows);

/* Builds a graph with the inputs tokens, i32 [1, context], and position, an i32 scalar; its output logits, f32
   [vocabulary], are those of the token after that position. */
tuff_graph *sampler_graph(tuff_device *device, language_model *model);

#endif
