/* Saves the starting parameters and the batches of a run to one safetensors file. */
#include "batches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tuff/io.h>

#include "build.h"
#include "parameters.h"

typedef struct batch_file {
    example_source source;
    tuff_file_tensor *tensors;
    char (*names)[96];
    int count;
    bool error_reported; /* an error message has already been printed */
} batch_file;

/* Adds a tensor filled with zeros and returns its values. NULL if out of memory. */
static void *add(batch_file *self, const char *kind, const char *name, tuff_dtype dtype, tuff_shape shape)
{
    const size_t size = (size_t)tuff_shape_count(shape) * tuff_dtype_size(dtype);
    void *values = calloc(1, size + 1);
    if (!values)
        return NULL;
    (void)snprintf(self->names[self->count], sizeof *self->names, "%s.%s", kind, name);
    self->tensors[self->count] = (tuff_file_tensor){
        .name = self->names[self->count], .dtype = dtype, .shape = shape, .data = values, .size = size};
    self->count++;
    return values;
}

static tuff_status add_parameters(batch_file *self)
{
    tuff_status status = TUFF_OK;
    for (int i = 0; i < tuff_parameters_count(self->source.parameters) && status == TUFF_OK; i++) {
        const char *name;
        tuff_array *array = tuff_parameters_at(self->source.parameters, i, &name);
        void *values = add(self, "param", name, TUFF_F32, tuff_array_shape(array));
        status = values ? tuff_array_read(array, values, (size_t)tuff_array_size(array)) : TUFF_E_OOM_HOST;
    }
    return status;
}

/* Fills batch `number`. Returns why the batch is invalid, or NULL. first: index of the first per-batch tensor. */
static const char *fill(batch_file *self, int first, int64_t number, int64_t batches)
{
    void *inputs[EXAMPLE_MAX_INPUTS] = {0};
    for (int i = first; i < self->count; i++) {
        const tuff_file_tensor *tensor = &self->tensors[i];
        inputs[i - first] = (char *)(uintptr_t)tensor->data + tensor->size / (uint64_t)batches * (uint64_t)number;
    }
    return example_fill_batch(&self->source, number, inputs);
}

/* Adds the fixed inputs, then the inputs of all batches. */
static tuff_status add_inputs(batch_file *self, int64_t batches, const char **why)
{
    const example *model = self->source.model;
    const int64_t B = ((const example_settings *)self->source.config)->batch;
    example_inputs list = {0};
    model->list_inputs(self->source.config, self->source.purpose, &list);
    for (int i = 0; i < list.count; i++) {
        const example_input_spec *spec = &list.specs[i];
        void *values = spec->is_fixed ? add(self, "input", spec->name, spec->dtype, spec->shape) : NULL;
        if (spec->is_fixed && !values)
            return TUFF_E_OOM_HOST;
        if (values && model->fill_fixed)
            model->fill_fixed(self->source.config, self->source.seed, i, values);
    }
    const int first = self->count;
    for (int i = 0; i < list.count; i++) {
        const example_input_spec *spec = &list.specs[i];
        tuff_shape shape = {.rank = spec->shape.rank + 2, .extent = {batches, B}};
        for (int k = 0; k < spec->shape.rank && k + 2 < TUFF_MAX_RANK; k++)
            shape.extent[k + 2] = spec->shape.extent[k];
        if (!spec->is_fixed && !add(self, "input", spec->name, spec->dtype, shape))
            return TUFF_E_OOM_HOST;
    }
    for (int64_t number = 0; number < batches && first < self->count && !*why; number++)
        *why = fill(self, first, number, batches);
    return *why ? TUFF_E_USAGE : TUFF_OK;
}

static tuff_status write(const batch_file *self, const char *path)
{
    const example *model = self->source.model;
    const char *keys[EXAMPLE_MAX_FIELDS + 2] = {"example", "seed"}, *texts[EXAMPLE_MAX_FIELDS + 2];
    char numbers[EXAMPLE_MAX_FIELDS + 2][32];
    int count = 2;
    texts[0] = model->name;
    texts[1] = numbers[1];
    (void)snprintf(numbers[1], sizeof numbers[1], "%" PRIu64, self->source.seed);
    for (int i = 0; i < example_field_count(model) && i < EXAMPLE_MAX_FIELDS; i++, count++) {
        const example_field *field = example_field_at(model, i);
        keys[count] = field->name;
        texts[count] = numbers[count];
        (void)snprintf(numbers[count], sizeof numbers[count], "%.17g", example_field_value(field, self->source.config));
    }
    return tuff_file_save(path, self->tensors, self->count, keys, texts, count);
}

/* Whether the host fills any input of a batch. */
static bool has_batches(const example_source *source)
{
    example_inputs list = {0};
    source->model->list_inputs(source->config, source->purpose, &list);
    for (int i = 0; i < list.count; i++)
        if (!list.specs[i].is_fixed)
            return true;
    return false;
}

static tuff_status open_data(batch_file *self, const example_options *options, const char **why)
{
    if (options->data && !has_batches(&self->source)) {
        *why = "--save-batches would not save the words of --data: the batches are drawn on the device; leave one out";
        return TUFF_E_USAGE;
    }
    return example_open_data(&self->source, options->data, &self->error_reported);
}

static tuff_status save(batch_file *self, const example_options *options, const char **why)
{
    const example_settings *settings = options->config;
    const example *model = self->source.model;
    const tuff_status opened = open_data(self, options, why);
    if (opened != TUFF_OK)
        return opened;
    self->source.parameters = example_parameters_make(model, options->config, self->source.device, options->seed, 0);
    if (!self->source.parameters)
        return example_creation_status();
    const size_t room = (size_t)tuff_parameters_count(self->source.parameters) + EXAMPLE_MAX_INPUTS;
    self->tensors = calloc(room, sizeof *self->tensors);
    self->names = calloc(room, sizeof *self->names);
    if (!self->tensors || !self->names)
        return TUFF_E_OOM_HOST;
    tuff_status status = add_parameters(self);
    if (status == TUFF_OK)
        status = add_inputs(self, settings->steps * example_batches_per_step(settings), why);
    return status == TUFF_OK ? write(self, options->save_batches) : status;
}

int example_save_batches(const example *model, const example_options *options)
{
    batch_file self = {.source = {.model = model,
                                  .config = options->config,
                                  .device = tuff_device_open(options->device),
                                  .seed = options->seed,
                                  .optimized = true,
                                  .purpose = EXAMPLE_TRAIN}};
    const char *why = NULL;
    const tuff_status status = self.source.device ? save(&self, options, &why) : tuff_last_status();
    if (status != TUFF_OK && !self.error_reported)
        fprintf(stderr, "%s: %s: %s\n", model->name, tuff_status_name(status), why ? why : tuff_error());
    for (int i = 0; i < self.count; i++)
        free((void *)(uintptr_t)self.tensors[i].data);
    free(self.tensors);
    free(self.names);
    if (self.source.data && model->close)
        model->close(self.source.data);
    tuff_parameters_destroy(self.source.parameters);
    tuff_device_close(self.source.device);
    return status != TUFF_OK;
}
