/* The parameters of a model: listed, created on a device, and initialized. */
#include "parameters.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(example_parameters *self, example_parameter_spec spec, const char *format, va_list arguments)
{
    if (self->count == self->room) {
        const int room = self->room > 0 ? 2 * self->room : 64;
        example_parameter_spec *more = realloc(self->specs, (size_t)room * sizeof *more);
        if (!more) {
            self->failed = true;
            return 0;
        }
        self->specs = more;
        self->room = room;
    }
    vsnprintf(spec.name, sizeof spec.name, format, arguments);
    self->specs[self->count] = spec;
    return self->count++;
}

int example_add_parameter(example_parameters *self, tuff_shape shape, example_init_kind kind, double scale,
                          const char *name, ...)
{
    va_list arguments;
    va_start(arguments, name);
    const example_parameter_spec spec = {.shape = shape, .kind = kind, .scale = scale, .copy_of = -1};
    const int index = add(self, spec, name, arguments);
    va_end(arguments);
    return index;
}

int example_add_parameter_copy(example_parameters *self, int original, const char *name, ...)
{
    if (original < 0 || original >= self->count)
        return 0;
    va_list arguments;
    va_start(arguments, name);
    example_parameter_spec spec = self->specs[original];
    spec.copy_of = original;
    const int index = add(self, spec, name, arguments);
    va_end(arguments);
    return index;
}

static tuff_parameters *create(tuff_device *device, const example_parameters *list)
{
    tuff_parameter_spec *specs = calloc((size_t)list->count, sizeof *specs);
    tuff_parameters *made = NULL;
    for (int i = 0; specs && i < list->count; i++)
        specs[i] = (tuff_parameter_spec){.name = list->specs[i].name, .shape = list->specs[i].shape};
    if (specs && !list->failed)
        made = tuff_parameters_create(device, specs, list->count);
    free(specs);
    return made;
}

static void draw(const example_parameter_spec *spec, uint64_t seed, uint64_t stream, double noise, float *values)
{
    example_random random = example_random_stream(seed, stream);
    const int64_t count = tuff_shape_count(spec->shape);
    for (int64_t i = 0; i < count; i++) {
        double value = spec->scale;
        if (spec->kind == EXAMPLE_NORMAL)
            value = spec->scale * example_normal(&random);
        else if (spec->kind == EXAMPLE_UNIFORM)
            value = example_uniform(&random, -spec->scale, spec->scale);
        else if (noise > 0)
            value += noise * example_normal(&random);
        values[i] = (float)value;
    }
}

static tuff_status initialize(tuff_parameters *parameters, const example_parameters *list, uint64_t seed, double noise)
{
    tuff_status status = TUFF_OK;
    for (int i = 0; i < list->count && status == TUFF_OK; i++) {
        const example_parameter_spec *spec = &list->specs[i];
        const size_t size = (size_t)tuff_shape_count(spec->shape) * sizeof(float);
        /* Parameters and batches use different random streams. With noise, copies get values of their own. */
        const bool is_copy = spec->copy_of >= 0 && noise <= 0;
        const uint64_t stream = ((uint64_t)1 << 62) + (uint64_t)(is_copy ? spec->copy_of : i);
        float *values = malloc(size + 1);
        if (!values)
            return TUFF_E_OOM_HOST;
        draw(spec, seed, stream, noise, values);
        status = tuff_array_write(tuff_parameters_at(parameters, i, NULL), values, size);
        free(values);
    }
    return status;
}

tuff_parameters *example_parameters_make(const example *model, const void *config, tuff_device *device, uint64_t seed,
                                         double noise)
{
    example_parameters list = {0};
    model->list_parameters(config, &list);
    tuff_parameters *made = create(device, &list);
    if (made && initialize(made, &list, seed, noise) != TUFF_OK) {
        tuff_parameters_destroy(made);
        made = NULL;
    }
    free(list.specs);
    return made;
}

tuff_status example_creation_status(void)
{
    const tuff_status status = tuff_last_status();
    return status == TUFF_OK ? TUFF_E_OOM_HOST : status;
}
