/* Builds the graphs of an example and writes their inputs. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

#include "parameters.h"

static tuff_shape with_batch(const example_input_spec *spec, int64_t batch)
{
    if (spec->is_fixed)
        return spec->shape;
    tuff_shape shape = {.rank = spec->shape.rank + 1, .extent = {batch}};
    for (int i = 0; i < spec->shape.rank && i + 1 < TUFF_MAX_RANK; i++)
        shape.extent[i + 1] = spec->shape.extent[i];
    return shape;
}

static void add_input(example_inputs *self, example_input_spec spec)
{
    if (self->count < EXAMPLE_MAX_INPUTS)
        self->specs[self->count++] = spec;
}

void example_add_input(example_inputs *self, const char *name, tuff_dtype dtype, tuff_shape shape)
{
    add_input(self, (example_input_spec){.name = name, .dtype = dtype, .shape = shape});
}

void example_add_fixed(example_inputs *self, const char *name, tuff_dtype dtype, tuff_shape shape)
{
    add_input(self, (example_input_spec){.name = name, .dtype = dtype, .shape = shape, .is_fixed = true});
}

/* Reports an unknown name as an error of the graph: two inputs of the same name are an error, whose message quotes
   it. */
static tuff_tensor *unknown(example_build *self, const char *kind, const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "unknown %s %s", kind, name);
    (void)tuff_input(self->graph, text, TUFF_F32, TUFF_SCALAR);
    return tuff_input(self->graph, text, TUFF_F32, TUFF_SCALAR);
}

tuff_tensor *example_parameter(example_build *self, const char *name, ...)
{
    char text[64];
    EXAMPLE_FORMAT(text, name);
    tuff_array *array = tuff_parameters_find(self->parameters, text);
    return array ? tuff_array_tensor(self->graph, array) : unknown(self, "parameter", text);
}

tuff_tensor *example_input(example_build *self, const char *name)
{
    example_inputs list = {0};
    self->model->list_inputs(self->config, self->purpose, &list);
    for (int i = 0; i < list.count; i++)
        if (strcmp(list.specs[i].name, name) == 0)
            return self->inputs[i];
    return unknown(self, "input", name);
}

tuff_tensor *example_named_output(example_build *self, tuff_tensor *value, const char *name, ...)
{
    char text[64] = "out.";
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(text + 4, sizeof text - 4, name, arguments);
    va_end(arguments);
    if (self->purpose == EXAMPLE_CHECK)
        tuff_output(self->graph, text, value);
    return value;
}

void example_add_metric(example_build *self, const char *name, tuff_tensor *value)
{
    if (self->metric_count == EXAMPLE_MAX_METRICS)
        return;
    self->metric_names[self->metric_count] = name;
    self->metrics[self->metric_count++] = value;
}

tuff_tensor *example_slice(tuff_tensor *x, int axis, int64_t first, int64_t count)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    int64_t start[TUFF_MAX_RANK] = {0}, stop[TUFF_MAX_RANK];
    memcpy(stop, shape.extent, sizeof stop);
    if (axis >= 0 && axis < shape.rank) {
        start[axis] = first;
        stop[axis] = first + count;
    }
    return tuff_slice(x, start, stop, NULL);
}

static const char name_of_one[] = "one";

tuff_tensor *example_copy(example_build *self, tuff_tensor *x)
{
    if (!self->one)
        self->one = tuff_input(self->graph, name_of_one, TUFF_F32, TUFF_SCALAR);
    return tuff_mul(x, self->one);
}

/* Writes 1 to the input that example_copy adds, if the plan has it. */
static tuff_status write_one(tuff_plan *plan)
{
    const float one = 1;
    tuff_plan_value value;
    for (int i = 0; i < tuff_plan_input_count(plan); i++)
        if (tuff_plan_input_at(plan, i, &value) == TUFF_OK && strcmp(value.name, name_of_one) == 0)
            return tuff_plan_write(plan, name_of_one, &one, sizeof one);
    return TUFF_OK;
}

double example_dropout_probability(const example_build *self)
{
    return self->purpose == EXAMPLE_VALIDATE ? 0 : ((const example_settings *)self->config)->dropout;
}

tuff_tensor *example_dropout(example_build *self, tuff_tensor *x)
{
    const double probability = example_dropout_probability(self);
    return probability > 0 ? tuff_dropout(x, probability) : x;
}

tuff_status example_open_data(example_source *source, const char *path, bool *error_reported)
{
    const example *model = source->model;
    if (path && model->open_file) {
        source->data = model->open_file(source->device, source->config, source->seed, path);
        *error_reported = !source->data;
        return source->data ? TUFF_OK : TUFF_E_IO;
    }
    if (!model->open)
        return TUFF_OK;
    source->data = model->open(source->device, source->config, source->seed);
    return source->data ? TUFF_OK : example_creation_status();
}

int64_t example_batches_per_step(const example_settings *settings)
{
    return settings->accumulate > 1 ? settings->accumulate : 1;
}

static example_build begin_build(const example_source *source, tuff_graph *graph)
{
    return (example_build){.graph = graph,
                           .config = source->config,
                           .optimized = source->optimized,
                           .purpose = source->purpose,
                           .batch = ((const example_settings *)source->config)->batch,
                           .data = source->data,
                           .parameters = source->parameters,
                           .frozen = source->frozen,
                           .model = source->model};
}

tuff_graph *example_build_graph(const example_source *source, tuff_array *counter, example_build *build,
                                tuff_tensor **loss)
{
    tuff_graph *graph = tuff_graph_create(source->device);
    if (!graph)
        return NULL;
    tuff_graph_seed(graph, (uint32_t)source->seed);
    if (counter)
        tuff_graph_step(graph, counter);
    *build = begin_build(source, graph);
    example_inputs list = {0};
    source->model->list_inputs(source->config, source->purpose, &list);
    for (int i = 0; i < list.count; i++)
        build->inputs[i] =
            tuff_input(graph, list.specs[i].name, list.specs[i].dtype, with_batch(&list.specs[i], build->batch));
    *loss = source->model->build(build);
    return graph;
}

tuff_compile_options example_compile_options(bool optimized, tuff_precision precision, tuff_tune_options *tuning,
                                             bool deterministic)
{
    *tuning = (tuff_tune_options){.mode = optimized ? TUFF_TUNE_CACHED : TUFF_TUNE_OFF, .deterministic = deterministic};
    return (tuff_compile_options){
        .fuse = optimized ? TUFF_FUSE_ALL : TUFF_FUSE_NONE, .precision = precision, .tuning = tuning};
}

tuff_optimizer_options example_optimizer_options(const example *model, const void *config, int64_t steps)
{
    const example_settings *settings = config;
    const int64_t epoch = settings->epoch_steps;
    tuff_optimizer_options options = {.kind = TUFF_ADAMW,
                                      .learning_rate = settings->rate,
                                      .beta1 = settings->beta1,
                                      .beta2 = settings->beta2,
                                      .epsilon = settings->epsilon,
                                      .weight_decay = settings->weight_decay,
                                      .decay_all = true,
                                      .clip_norm = settings->clip_norm,
                                      .accumulate = settings->accumulate > 1 ? (int32_t)settings->accumulate : 0,
                                      .schedule =
                                          settings->final_rate < 1 ? TUFF_SCHEDULE_COSINE : TUFF_SCHEDULE_CONSTANT,
                                      .warmup_steps = settings->warmup,
                                      .total_steps = epoch > 0 ? (steps + epoch - 1) / epoch : steps,
                                      .steps_per_epoch = epoch,
                                      .final_fraction = settings->final_rate < 1 ? settings->final_rate : 0};
    if (model->optimizer)
        model->optimizer(config, &options);
    return options;
}

static tuff_status choose(void *user, const tuff_update_choice *choice)
{
    const example_source *source = user;
    example_build build = begin_build(source, choice->graph);
    return source->model->choose(&build, choice);
}

void example_set_update_chooser(const example_source *source, tuff_optimizer_options *options)
{
    if (!source->model->choose)
        return;
    options->choose = choose;
    options->choose_user = (void *)(uintptr_t)source;
}

static size_t input_size(const example_input_spec *spec, int64_t batch)
{
    return (size_t)tuff_shape_count(with_batch(spec, batch)) * tuff_dtype_size(spec->dtype);
}

tuff_status example_write_fixed(const example_source *source, tuff_plan *plan)
{
    example_inputs list = {0};
    source->model->list_inputs(source->config, source->purpose, &list);
    tuff_status status = write_one(plan);
    for (int i = 0; i < list.count && status == TUFF_OK; i++) {
        if (!list.specs[i].is_fixed)
            continue;
        const size_t size = input_size(&list.specs[i], 0);
        void *values = calloc(1, size + 1);
        if (!values)
            return TUFF_E_OOM_HOST;
        if (source->model->fill_fixed)
            source->model->fill_fixed(source->config, source->seed, i, values);
        status = tuff_plan_write(plan, list.specs[i].name, values, size);
        free(values);
    }
    return status;
}

static _Thread_local const char *refused; /* why the thread's last batch was rejected */

const char *example_error(void)
{
    return refused ? refused : tuff_error();
}

const char *example_fill_batch(const example_source *source, int64_t number, void *const *inputs)
{
    const example_batch batch = {.config = source->config,
                                 .purpose = source->purpose,
                                 .data = source->data,
                                 .seed = source->seed,
                                 .number = number,
                                 .count = ((const example_settings *)source->config)->batch,
                                 .inputs = inputs};
    source->model->fill(&batch);
    return source->model->check_batch ? source->model->check_batch(&batch) : NULL;
}

tuff_status example_write_batch(const example_source *source, tuff_plan *plan, int64_t number)
{
    const int64_t batch = ((const example_settings *)source->config)->batch;
    example_inputs list = {0};
    void *values[EXAMPLE_MAX_INPUTS] = {0};
    const char *names[EXAMPLE_MAX_INPUTS];
    size_t sizes[EXAMPLE_MAX_INPUTS];
    int count = 0;
    tuff_status status = TUFF_OK;
    source->model->list_inputs(source->config, source->purpose, &list);
    for (int i = 0; i < list.count && status == TUFF_OK; i++) {
        if (list.specs[i].is_fixed)
            continue;
        names[count] = list.specs[i].name;
        sizes[count] = input_size(&list.specs[i], batch);
        values[count] = calloc(1, sizes[count] + 1);
        status = values[count] ? TUFF_OK : TUFF_E_OOM_HOST;
        count++;
    }
    refused = status == TUFF_OK && count > 0 ? example_fill_batch(source, number, values) : NULL;
    if (refused)
        status = TUFF_E_USAGE;
    for (int i = 0; i < count && status == TUFF_OK; i++)
        status = tuff_plan_write(plan, names[i], values[i], sizes[i]);
    for (int i = 0; i < count; i++)
        free(values[i]);
    return status;
}
