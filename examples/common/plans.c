/* The plans of a training run: one step, or the two parts of a step that accumulates, and a validation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

/* Adds the loss and the metrics to sums on the device, so that the host reads them only at lines of output. */
static void add_to_sums(example_build *build, tuff_tensor *loss, tuff_array *sums)
{
    tuff_tensor *parts[1 + EXAMPLE_MAX_METRICS];
    parts[0] = tuff_reshape(loss, TUFF_SHAPE(1));
    for (int i = 0; i < build->metric_count; i++)
        parts[1 + i] = tuff_reshape(build->metrics[i], TUFF_SHAPE(1));
    tuff_tensor *now = tuff_concat(parts, 1 + build->metric_count, 0);
    tuff_assign(build->graph, sums, tuff_add(tuff_array_tensor(build->graph, sums), now));
}

static tuff_status make_sums(training *self, const example_build *build, tuff_array **sums)
{
    self->metric_count = build->metric_count;
    memcpy(self->metric_names, build->metric_names, sizeof self->metric_names);
    *sums = tuff_array_create(self->run.device, TUFF_F32, TUFF_SHAPE(1 + build->metric_count));
    return *sums ? TUFF_OK : tuff_last_status();
}

/* Saves a graph for the command-line tool: `tuff tune warm F` fills a cache for this program. */
static tuff_status save_graph(const training *self, const tuff_graph *graph, const tuff_compile_options *compile,
                              const char *name, const char *ending)
{
    const char *file = self->options->save_graph;
    const size_t length = strlen(file) + strlen(ending) + 1;
    const int count = tuff_parameters_count(self->run.parameters);
    char *path = malloc(length);
    tuff_array **arrays = malloc((size_t)count * sizeof(tuff_array *));
    const char **names = malloc((size_t)count * sizeof *names);
    tuff_status status = path && arrays && names ? TUFF_OK : TUFF_E_OOM_HOST;
    for (int i = 0; i < count && status == TUFF_OK; i++)
        arrays[i] = tuff_parameters_at(self->run.parameters, i, &names[i]);
    if (status == TUFF_OK) {
        (void)snprintf(path, length, "%s%s", file, ending);
        const tuff_graph_save_options options = {
            .name = name, .compile = compile, .arrays = arrays, .names = names, .array_count = count};
        status = tuff_graph_save(graph, path, &options);
    }
    free(path);
    free(arrays);
    free((void *)names);
    return status;
}

/* Compiles a graph. ending: suffix of its file for --save-graph; NULL: the graph is not saved. */
static tuff_status compile(const training *self, tuff_graph *graph, const char *name, const char *ending,
                           tuff_plan **out)
{
    tuff_tune_options tuning;
    tuff_compile_options options =
        example_compile_options(self->run.optimized, self->options->precision, &tuning, self->options->deterministic);
    options.matmul_precision = self->options->matmul_precision;
    if (self->run.optimized)
        tuning.mode = self->options->tune;
    const tuff_status status =
        self->options->save_graph && ending ? save_graph(self, graph, &options, name, ending) : TUFF_OK;
    if (status != TUFF_OK)
        return status;
    *out = tuff_compile(graph, &options);
    return *out ? TUFF_OK : tuff_last_status();
}

static void add_outputs(tuff_graph *graph, const tuff_optimizer_tensors *made)
{
    tuff_output(graph, "gradient_norm", made->gradient_norm);
    tuff_output(graph, "learning_rate", made->learning_rate);
    tuff_output(graph, "loss_scale", made->loss_scale);
}

static tuff_status make_step(training *self)
{
    example_build build;
    tuff_tensor *loss = NULL;
    tuff_optimizer_tensors made = {0};
    const bool parts = self->run.settings->accumulate > 1;
    tuff_graph *graph =
        example_build_graph(&self->source, tuff_optimizer_batch_counter(self->run.optimizer), &build, &loss);
    if (!graph)
        return tuff_last_status();
    tuff_status status = make_sums(self, &build, &self->sums);
    if (status == TUFF_OK) {
        add_to_sums(&build, loss, self->sums);
        if (!self->run.optimized && self->run.model->baseline_reads_loss)
            tuff_output(graph, "loss", loss);
        status = parts ? tuff_optimizer_accumulate(self->run.optimizer, loss)
                       : tuff_optimizer_apply(self->run.optimizer, loss, &made);
    }
    if (status == TUFF_OK && !parts)
        add_outputs(graph, &made);
    if (status == TUFF_OK)
        status = compile(self, graph, parts ? "batch" : "train", "", &self->run.plan);
    tuff_graph_destroy(graph);
    return status;
}

static tuff_status make_update(training *self)
{
    tuff_optimizer_tensors made = {0};
    tuff_graph *graph = tuff_graph_create(self->run.device);
    if (!graph)
        return tuff_last_status();
    tuff_status status = tuff_optimizer_update(self->run.optimizer, graph, &made);
    if (status == TUFF_OK) {
        add_outputs(graph, &made);
        status = compile(self, graph, "update", ".update", &self->run.update);
    }
    tuff_graph_destroy(graph);
    return status;
}

static tuff_status make_validation(training *self)
{
    example_build build;
    tuff_tensor *loss = NULL;
    self->validation_counter = tuff_array_create(self->run.device, TUFF_I32, TUFF_SCALAR);
    tuff_graph *graph =
        self->validation_counter ? example_build_graph(&self->held_out, self->validation_counter, &build, &loss) : NULL;
    if (!graph)
        return tuff_last_status();
    tuff_status status = make_sums(self, &build, &self->validation_sums);
    if (status == TUFF_OK) {
        add_to_sums(&build, loss, self->validation_sums);
        status = compile(self, graph, "validation", NULL, &self->run.validation);
    }
    if (status == TUFF_OK)
        status = example_write_fixed(&self->held_out, self->run.validation);
    tuff_graph_destroy(graph);
    return status;
}

tuff_status training_plans_create(training *self)
{
    /* The usual 65536 is too large for the first gradients of vision_bdh, which would skip steps. */
    const tuff_loss_scaling scaling = {.initial = 4096};
    tuff_optimizer_options options =
        example_optimizer_options(self->run.model, self->run.config, self->run.settings->steps);
    if (self->options->precision == TUFF_PRECISION_F16)
        options.loss_scaling = &scaling;
    example_set_update_chooser(&self->source, &options);
    self->run.optimizer = tuff_optimizer_create(self->run.parameters, &options);
    tuff_status status = self->run.optimizer ? make_step(self) : tuff_last_status();
    if (status == TUFF_OK && self->run.settings->accumulate > 1)
        status = make_update(self);
    if (status == TUFF_OK && (self->options->validate_every > 0 || self->run.model->is_evaluated))
        status = make_validation(self);
    return status == TUFF_OK ? example_write_fixed(&self->source, self->run.plan) : status;
}

tuff_status training_describe_step(const training *self, tuff_plan_info *out)
{
    const int parts = (int)example_batches_per_step(self->run.settings);
    tuff_plan_info update = {0};
    tuff_status status = tuff_plan_describe(self->run.plan, out);
    if (status == TUFF_OK && self->run.update)
        status = tuff_plan_describe(self->run.update, &update);
    out->dispatch_count = parts * out->dispatch_count + update.dispatch_count;
    out->copy_count = parts * out->copy_count + update.copy_count;
    out->task_count = parts * out->task_count + update.task_count;
    out->matmul_count = parts * out->matmul_count + update.matmul_count;
    out->memory_peak += update.memory_peak;
    return status;
}

void training_plans_destroy(training *self)
{
    tuff_plan_destroy(self->run.plan);
    tuff_plan_destroy(self->run.validation);
    tuff_plan_destroy(self->run.update);
    tuff_array_destroy(self->validation_counter);
    tuff_array_destroy(self->sums);
    tuff_array_destroy(self->validation_sums);
    tuff_optimizer_destroy(self->run.optimizer);
}

tuff_status training_read_sums(tuff_array *sums, int metric_count, int64_t batches, double *loss, double *metrics)
{
    float values[1 + EXAMPLE_MAX_METRICS];
    const size_t size = (size_t)(1 + metric_count) * sizeof *values;
    const tuff_status status = tuff_array_read(sums, values, size);
    if (status != TUFF_OK)
        return status;
    *loss = batches > 0 ? (double)values[0] / (double)batches : NAN;
    for (int i = 0; i < metric_count; i++)
        metrics[i] = batches > 0 ? (double)values[1 + i] / (double)batches : NAN;
    memset(values, 0, sizeof values);
    return tuff_array_write(sums, values, size);
}
