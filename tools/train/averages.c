/* Copies an optimizer's averages of the weights to a set of parameters, with one small plan. */
#include "tools/train/averages.h"

#include "base/status.h"

/* Frozen parameters have no average and are the same in both sets. */
static void add_copies(tuff_graph *graph, tuff_optimizer *optimizer, tuff_parameters *parameters, tuff_parameters *into)
{
    tuff_tensor *steps = tuff_array_tensor(graph, tuff_optimizer_counter(optimizer));
    tuff_tensor *has_none = tuff_equal(steps, tuff_constant(graph, TUFF_I32, 0));
    for (int i = 0; i < tuff_parameters_count(parameters); i++) {
        tuff_array *average = tuff_optimizer_average(optimizer, i);
        if (!average)
            continue;
        tuff_tensor *weights = tuff_array_tensor(graph, tuff_parameters_at(parameters, i, NULL));
        tuff_assign(graph, tuff_parameters_at(into, i, NULL),
                    tuff_where(has_none, weights, tuff_array_tensor(graph, average)));
    }
}

tuff_status averages_open(averages *self, tuff_device *device, tuff_optimizer *optimizer, tuff_parameters *parameters,
                          tuff_parameters *into)
{
    tuff_graph *graph = tuff_graph_create(device);
    *self = (averages){.plan = NULL};
    if (!graph)
        return tuff_last_status();
    add_copies(graph, optimizer, parameters, into);
    self->plan = tuff_compile(graph, NULL);
    tuff_graph_destroy(graph);
    return self->plan ? TUFF_OK : tuff_last_status();
}

void averages_close(averages *self)
{
    tuff_plan_destroy(self->plan);
    self->plan = NULL;
}

tuff_status averages_update(averages *self)
{
    TRY(tuff_plan_run(self->plan));
    return tuff_plan_wait(self->plan);
}
