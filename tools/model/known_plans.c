/* Compiles the plans of a model or a file, for inspection. */
#include "tools/model/known_plans.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/model/graph_data.h"
#include "tools/model/graphs.h"
#include "tools/model/random.h"

static tuff_status compile(model_plan *self, const char *name, tuff_graph *graph, const tuff_compile_options *options)
{
    self->name = name;
    self->graph = graph;
    self->plan = graph ? tuff_compile(graph, options) : NULL;
    return self->plan ? TUFF_OK : tuff_last_status();
}

static tuff_status create_plans(tuff_device *device, const model_options *described,
                                const tuff_compile_options *options, model_plans *out)
{
    const int64_t batch = described->batch;
    *out = (model_plans){.batch = batch, .count = MODEL_PLAN_COUNT};
    TRY(model_create(device, &described->model, &out->model));
    out->model.recompute = described->recompute;
    const tuff_optimizer_options rule = described->rule ? *described->rule : model_optimizer_options(1e-3, 1000);
    out->optimizer = tuff_optimizer_create(out->model.parameters, &rule);
    if (!out->optimizer)
        return tuff_last_status();
    TRY(compile(&out->items[MODEL_PLAN_TRAIN], "train", train_graph(device, &out->model, out->optimizer, batch),
                options));
    return compile(&out->items[MODEL_PLAN_GENERATE], "generate", sampler_graph(device, &out->model), options);
}

/* Merges the options of the command line and the file; what the command line names explicitly takes precedence. Without
   fusion the plan is a baseline, to which the file's limits do not apply. */
static tuff_compile_options merge(const model_options *described, const tuff_compile_options *requested,
                                  const tuff_graph_file_info *file, tuff_tune_options *tuning)
{
    tuff_compile_options out = *requested;
    const bool is_baseline = requested->fuse == TUFF_FUSE_NONE;
    if (!described->has_precision)
        out.precision = file->compile.precision;
    if (!described->has_matmul_precision)
        out.matmul_precision = file->compile.matmul_precision;
    if (!is_baseline) {
        out.fuse = file->compile.fuse;
        out.family = requested->family ? requested->family : file->compile.family;
        out.matmul_library = requested->matmul_library ? requested->matmul_library : file->compile.matmul_library;
        out.memory_budget = requested->memory_budget ? requested->memory_budget : file->compile.memory_budget;
        out.barrier_everywhere |= file->compile.barrier_everywhere;
    }
    *tuning = requested->tuning ? *requested->tuning : (tuff_tune_options){.mode = TUFF_TUNE_CACHED};
    tuning->deterministic |= file->deterministic && tuning->mode < TUFF_TUNE_QUICK;
    out.tuning = tuning;
    return out;
}

/* Makes the name printable ASCII that needs no escaping anywhere. */
static void name_file(model_plans *self, const char *name)
{
    (void)snprintf(self->file_name, sizeof self->file_name, "%s", name[0] ? name : "graph");
    for (char *at = self->file_name; *at; at++)
        if (*at < ' ' || *at > '~' || strchr("\"\\<>&", *at))
            *at = '_';
}

static tuff_status open_file(tuff_device *device, const model_options *described, const tuff_compile_options *options,
                             model_plans *out)
{
    tuff_graph_file_info file;
    tuff_tune_options tuning;
    *out = (model_plans){.is_file = true, .count = 1};
    tuff_graph *graph = tuff_graph_load(device, described->file, &file);
    if (!graph)
        return tuff_last_status();
    name_file(out, file.name);
    const tuff_compile_options merged = merge(described, options, &file, &tuning);
    out->file_precision = merged.precision;
    return compile(&out->items[0], out->file_name, graph, &merged);
}

tuff_status model_plans_open(tuff_device *device, const model_options *described, const tuff_compile_options *options,
                             model_plans *out)
{
    if (described->file)
        return open_file(device, described, options, out);
    return create_plans(device, described, options, out);
}

void model_plans_destroy(model_plans *self)
{
    for (int i = 0; i < MODEL_PLAN_COUNT; i++) {
        tuff_plan_destroy(self->items[i].plan);
        tuff_graph_destroy(self->items[i].graph);
    }
    tuff_optimizer_destroy(self->optimizer);
    model_destroy(&self->model);
    *self = (model_plans){0};
}

/* Writes a mix of tokens: if all were the same, the gradient of the embedding would fall into a single row. */
static tuff_status write_tokens(const model_plans *self, tuff_plan *plan, const char *name, int64_t count)
{
    const uint64_t vocabulary = (uint64_t)self->model.config.vocabulary;
    int32_t *tokens = tuff__calloc((size_t)count, sizeof *tokens);
    if (!tokens)
        return TUFF_E_OOM_HOST;
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(random_bits(random_key(1, "profile"), (uint64_t)i) % vocabulary);
    const tuff_status status = tuff_plan_write(plan, name, tokens, (size_t)count * sizeof *tokens);
    tuff__free(tokens);
    return status;
}

tuff_status model_plan_write(const model_plans *self, int index)
{
    const int64_t context = self->model.config.context;
    const int32_t last = (int32_t)context - 1;
    tuff_plan *plan = self->items[index].plan;
    if (self->is_file)
        return graph_data_write(self->items[index].graph, 1, plan);
    if (index == MODEL_PLAN_TRAIN)
        return write_tokens(self, plan, "windows", self->batch * (context + 1));
    TRY(write_tokens(self, plan, "tokens", context));
    return tuff_plan_write(plan, "position", &last, sizeof last);
}

/* Lists the arrays and names of all parameters; the caller frees both lists. */
static tuff_status list_parameters(tuff_parameters *parameters, tuff_array ***arrays, const char ***names)
{
    const size_t count = (size_t)tuff_parameters_count(parameters);
    *arrays = tuff__calloc(count + 1, sizeof(tuff_array *));
    *names = tuff__calloc(count + 1, sizeof(const char *));
    for (size_t i = 0; *arrays && *names && i < count; i++)
        (*arrays)[i] = tuff_parameters_at(parameters, (int)i, &(*names)[i]);
    return *arrays && *names ? TUFF_OK : TUFF_E_OOM_HOST;
}

tuff_status model_graph_save(const tuff_graph *graph, const char *name, tuff_parameters *parameters,
                             const tuff_compile_options *options, const char *path)
{
    tuff_array **arrays;
    const char **names;
    tuff_status status = list_parameters(parameters, &arrays, &names);
    if (status == TUFF_OK)
        status = tuff_graph_save(graph, path,
                                 &(tuff_graph_save_options){.name = name,
                                                            .compile = options,
                                                            .arrays = arrays,
                                                            .names = names,
                                                            .array_count = tuff_parameters_count(parameters)});
    tuff__free(arrays);
    tuff__free((void *)names);
    return status;
}
