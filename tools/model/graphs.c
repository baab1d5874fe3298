/* The graphs around the model: for training and for sampling. */
#include "tools/model/graphs.h"

/* Adds one output with three numbers, so that a progress line needs only one read. */
static void add_report(tuff_graph *graph, tuff_tensor *loss, const tuff_optimizer_tensors *made)
{
    tuff_tensor *parts[] = {tuff_reshape(loss, TUFF_SHAPE(1)), tuff_reshape(made->gradient_norm, TUFF_SHAPE(1)),
                            tuff_reshape(made->learning_rate, TUFF_SHAPE(1))};
    tuff_output(graph, "report", tuff_concat(parts, 3, 0));
}

void train_on_windows(tuff_graph *graph, language_model *model, tuff_optimizer *optimizer, tuff_tensor *windows)
{
    tuff_optimizer_tensors made;
    tuff_tensor *loss = model_loss(model, graph, windows, NULL);
    if (tuff_optimizer_apply(optimizer, loss, &made) == TUFF_OK)
        add_report(graph, loss, &made);
}

tuff_graph *train_graph(tuff_device *device, language_model *model, tuff_optimizer *optimizer, int64_t batch)
{
    tuff_graph *graph = tuff_graph_create(device);
    if (!graph)
        return NULL;
    tuff_graph_step(graph, tuff_optimizer_counter(optimizer));
    train_on_windows(graph, model, optimizer,
                     tuff_input(graph, "windows", TUFF_I32, TUFF_SHAPE(batch, model->config.context + 1)));
    return graph;
}

tuff_graph *sampler_graph(tuff_device *device, language_model *model)
{
    tuff_graph *graph = tuff_graph_create(device);
    if (!graph)
        return NULL;
    tuff_tensor *tokens = tuff_input(graph, "tokens", TUFF_I32, TUFF_SHAPE(1, model->config.context));
    tuff_tensor *position = tuff_input(graph, "position", TUFF_I32, TUFF_SCALAR);
    tuff_output(graph, "logits", model_next_logits(model, graph, tokens, position));
    return graph;
}
