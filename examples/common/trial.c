/* Builds and runs steps of an example whose values can be inspected one by one. */
#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tuff_status add_gradients(const example_source *source, tuff_graph *graph, tuff_tensor *loss)
{
    const int count = tuff_parameters_count(source->parameters);
    tuff_tensor **tensors = calloc(2 * (size_t)count, sizeof *tensors);
    if (!tensors)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < count; i++)
        tensors[i] = tuff_array_tensor(graph, tuff_parameters_at(source->parameters, i, NULL));
    const tuff_status status = tuff_gradients(loss, tensors, count, tensors + count);
    for (int i = 0; i < count && status == TUFF_OK; i++) {
        const char *name;
        char output[80];
        tuff_parameters_at(source->parameters, i, &name);
        snprintf(output, sizeof output, "grad.%s", name);
        tuff_output(graph, output, tensors[count + i]);
    }
    free(tensors);
    return status;
}

tuff_status example_test_step_create(example_test_step *self, const example_source *source,
                                     const tuff_optimizer_options *optimizer, tuff_precision precision)
{
    example_build build;
    tuff_tensor *loss = NULL;
    tuff_optimizer_tensors made = {0};
    tuff_tune_options tuning;
    tuff_optimizer_options chosen = *optimizer;
    *self = (example_test_step){.source = *source};
    example_set_update_chooser(&self->source, &chosen);
    self->optimizer = tuff_optimizer_create(source->parameters, &chosen);
    const tuff_compile_options options = example_compile_options(source->optimized, precision, &tuning, false);
    tuff_graph *graph = self->optimizer
                            ? example_build_graph(source, tuff_optimizer_batch_counter(self->optimizer), &build, &loss)
                            : NULL;
    if (!graph)
        return tuff_last_status();
    tuff_output(graph, "loss", loss);
    for (int i = 0; i < build.metric_count; i++)
        tuff_output(graph, build.metric_names[i], build.metrics[i]);
    tuff_status status = add_gradients(source, graph, loss);
    if (status == TUFF_OK)
        status = tuff_optimizer_apply(self->optimizer, loss, &made);
    if (status == TUFF_OK) {
        tuff_output(graph, "grad_norm", made.gradient_norm);
        self->plan = tuff_compile(graph, &options);
        status = self->plan ? TUFF_OK : tuff_last_status();
    }
    tuff_graph_destroy(graph);
    return status;
}

void example_test_step_destroy(example_test_step *self)
{
    tuff_plan_destroy(self->plan);
    tuff_optimizer_destroy(self->optimizer);
    *self = (example_test_step){0};
}

tuff_status example_test_step_run(example_test_step *self)
{
    float loss = NAN, norm = NAN;
    tuff_status status = tuff_plan_run(self->plan);
    if (status == TUFF_OK)
        status = tuff_plan_read(self->plan, "loss", &loss, sizeof loss);
    if (status == TUFF_OK)
        status = tuff_plan_read(self->plan, "grad_norm", &norm, sizeof norm);
    self->loss = (double)loss;
    self->gradient_norm = (double)norm;
    return status;
}

/* Converts elements of four bytes or one to float in place; values has room for count floats. */
static bool to_floats(tuff_dtype dtype, float *values, int64_t count)
{
    if (dtype == TUFF_F32)
        return true;
    if (dtype != TUFF_I32 && dtype != TUFF_BOOL && dtype != TUFF_U8)
        return false;
    for (int64_t i = count - 1; i >= 0; i--)
        values[i] = dtype == TUFF_I32 ? (float)((const int32_t *)(const void *)values)[i]
                                      : (float)((const unsigned char *)(const void *)values)[i];
    return true;
}

float *example_test_step_read(const example_test_step *self, const char *name, bool is_parameter, int64_t *count)
{
    tuff_array *array = is_parameter ? tuff_parameters_find(self->source.parameters, name) : NULL;
    tuff_plan_value value = {.dtype = TUFF_F32};
    if (is_parameter) {
        if (!array)
            return NULL;
        value.shape = tuff_array_shape(array);
        value.size = tuff_array_size(array);
    } else if (tuff_plan_output_at(self->plan, tuff_plan_find_output(self->plan, name), &value) != TUFF_OK) {
        return NULL;
    }
    *count = tuff_shape_count(value.shape);
    float *values = malloc((size_t)*count * sizeof *values + 1);
    if (!values)
        return NULL;
    const tuff_status status = is_parameter ? tuff_array_read(array, values, (size_t)value.size)
                                            : tuff_plan_read(self->plan, name, values, (size_t)value.size);
    if (status == TUFF_OK && to_floats(value.dtype, values, *count))
        return values;
    free(values);
    return NULL;
}

double example_distance(const float *got, const float *wanted, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count && !isnan(worst); i++) {
        if (isinf(wanted[i]) && isinf(got[i]) && signbit(wanted[i]) == signbit(got[i]))
            continue;
        const double distance = fabs((double)got[i] - (double)wanted[i]);
        worst = isnan(distance) ? NAN : fmax(worst, distance);
    }
    return worst;
}

double example_largest(const float *values, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        if (fabs((double)values[i]) < 1e8) /* also false for NaN */
            most = fmax(most, fabs((double)values[i]));
    return most;
}

double example_weight_distance(const float *got, const float *wanted, const float *gradients, int64_t count,
                               example_weight_tolerances tolerances)
{
    double worst = 0;
    for (int64_t i = 0; i < count && !isnan(worst); i++) {
        const bool is_noise = fabs((double)gradients[i]) <= tolerances.threshold;
        const double allowed = is_noise ? tolerances.far * tolerances.rate : 1e-6 + tolerances.close * tolerances.rate;
        const double part = fabs((double)got[i] - (double)wanted[i]) / allowed;
        worst = isnan(part) ? NAN : fmax(worst, part);
    }
    return worst;
}
