/* Builds the graphs of a training step: in one part, or as accumulation and update. */
#include "tools/train/step_graphs.h"

static tuff_tensor *build_loss(tuff_graph *graph, const batches *source, language_model *model,
                               tuff_optimizer *optimizer)
{
    tuff_graph_step(graph, tuff_optimizer_batch_counter(optimizer));
    return model_loss(model, graph, batches_windows(source, graph), NULL);
}

static tuff_tensor *stack_scalars(tuff_tensor *const *scalars, int count)
{
    tuff_tensor *parts[3];
    for (int i = 0; i < count; i++)
        parts[i] = tuff_reshape(scalars[i], TUFF_SHAPE(1));
    return tuff_concat(parts, count, 0);
}

static void add_reports(tuff_graph *graph, const tuff_optimizer_tensors *made, logged_norms norms)
{
    tuff_tensor *const report[] = {made->loss, made->gradient_norm, made->learning_rate};
    tuff_tensor *const scaling[] = {made->loss_scale, tuff_cast(made->skipped, TUFF_F32)};
    tuff_output(graph, "report", stack_scalars(report, 3));
    tuff_output(graph, "scaling", stack_scalars(scaling, 2));
    if (norms != LOG_NO_NORMS)
        tuff_output(graph, "norms", norms == LOG_GROUP_NORMS ? made->group_norms : made->tensor_norms);
}

/* Returns the graph, or NULL on failure: an error of the update chooser, for instance, is not kept in the graph. */
static tuff_graph *finish(tuff_graph *graph, tuff_status status, const tuff_optimizer_tensors *made, logged_norms norms)
{
    if (status == TUFF_OK) {
        add_reports(graph, made, norms);
        return graph;
    }
    tuff_graph_destroy(graph);
    return NULL;
}

tuff_graph *full_train_graph(tuff_device *device, const batches *source, language_model *model,
                             tuff_optimizer *optimizer, logged_norms norms)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_optimizer_tensors made;
    if (!graph)
        return NULL;
    const tuff_status status = tuff_optimizer_apply(optimizer, build_loss(graph, source, model, optimizer), &made);
    return finish(graph, status, &made, norms);
}

tuff_graph *accumulate_graph(tuff_device *device, const batches *source, language_model *model,
                             tuff_optimizer *optimizer)
{
    tuff_graph *graph = tuff_graph_create(device);
    if (graph) /* errors are kept in the graph */
        (void)tuff_optimizer_accumulate(optimizer, build_loss(graph, source, model, optimizer));
    return graph;
}

tuff_graph *update_graph(tuff_device *device, tuff_optimizer *optimizer, logged_norms norms)
{
    tuff_graph *graph = tuff_graph_create(device);
    tuff_optimizer_tensors made;
    if (!graph)
        return NULL;
    const tuff_status status = tuff_optimizer_update(optimizer, graph, &made);
    return finish(graph, status, &made, norms);
}
