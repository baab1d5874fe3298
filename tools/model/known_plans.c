/* Compiles the plans of a model for a look at them. */
#include "tools/model/known_plans.h"

#include "base/alloc.h"
#include "tools/model/graphs.h"

static tuff_status compile(known_plan *self, const char *name, tuff_graph *graph, const tuff_compile_options *options)
{
    self->name = name;
    self->graph = graph;
    self->plan = graph ? tuff_compile(graph, options) : NULL;
    return self->plan ? TUFF_OK : tuff__last_status();
}

tuff_status known_plans_create(tuff_device *device, const model_config *config, int64_t batch, bool recompute,
                               const tuff_compile_options *options, known_plans *out)
{
    *out = (known_plans){.batch = batch};
    TRY(model_create(device, config, &out->model));
    out->model.recompute = recompute;
    const tuff_optimizer_options rule = model_optimizer_options(1e-3, 1000);
    out->optimizer = tuff_optimizer_create(out->model.parameters, &rule);
    if (!out->optimizer)
        return tuff__last_status();
    TRY(compile(&out->items[KNOWN_TRAIN], "train", train_graph(device, &out->model, out->optimizer, batch),
                options));
    return compile(&out->items[KNOWN_GENERATE], "generate", sampler_graph(device, &out->model), options);
}

void known_plans_destroy(known_plans *self)
{
    for (int i = 0; i < KNOWN_COUNT; i++) {
        tuff_plan_destroy(self->items[i].plan);
        tuff_graph_destroy(self->items[i].graph);
    }
    tuff_optimizer_destroy(self->optimizer);
    model_destroy(&self->model);
    *self = (known_plans){0};
}

static tuff_status write_zeros(tuff_plan *plan, const char *name, int64_t count)
{
    int32_t *zeros = tuff__calloc((size_t)count, sizeof *zeros);
    if (!zeros)
        return TUFF_E_OOM_HOST;
    const tuff_status status = tuff_plan_write(plan, name, zeros, (size_t)count * sizeof *zeros);
    tuff__free(zeros);
    return status;
}

tuff_status known_plan_write(const known_plans *self, int index)
{
    const int64_t context = self->model.config.context;
    tuff_plan *plan = self->items[index].plan;
    if (index == KNOWN_TRAIN)
        return write_zeros(plan, "windows", self->batch * (context + 1));
    TRY(write_zeros(plan, "tokens", context));
    return write_zeros(plan, "position", 1);
}
