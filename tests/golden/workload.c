/* Compares training examples with golden files that PyTorch wrote: see workload.h. */
#include "workload.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/common/parameters.h"
#include "examples/common/trial.h"
#include "golden_common.h"

typedef struct check {
    const workload *row;
    const tuff_file *file;
    void *config;
    example_test_step trial;
    int compared, failures;
    double out, gradient, loss, weight; /* the largest deviations, each relative to its tensor's largest element */
} check;

static const char *variant_of(const check *self)
{
    return self->row->variant ? self->row->variant : "";
}

/* Counts a comparison. part: the deviation relative to the tolerance. */
static void count_comparison(check *self, const char *name, double part)
{
    self->compared++;
    if (part <= 1)
        return;
    printf("    %s: %.3g times the tolerance\n", name, part);
    self->failures++;
}

/* Counts a failure after which nothing can be compared. Returns false. */
static bool broken(check *self, const char *what, const char *why)
{
    printf("    %s: %s\n", what, why);
    self->compared++;
    self->failures++;
    return false;
}

static bool configure(check *self)
{
    const example *model = self->row->model;
    bool is_known = true;
    self->config = malloc(model->config_size);
    if (!self->config)
        return broken(self, "configuration", "out of memory");
    memcpy(self->config, model->small, model->config_size);
    for (int i = 0; i < example_field_count(model); i++) {
        const char *name = example_field_at(model, i)->name, *text = tuff_file_metadata(self->file, name);
        char *end = NULL;
        const double value = text ? strtod(text, &end) : 0;
        if (text && end != text && *end == 0)
            is_known &= example_set(model, self->config, name, value);
    }
    for (int i = 0; i < 4 && self->row->numbers[i].name; i++)
        is_known &= example_set(model, self->config, self->row->numbers[i].name, self->row->numbers[i].value);
    if (self->row->configure)
        is_known &= self->row->configure(self->file, self->config);
    const char *why = !is_known             ? "the model lacks a setting"
                      : model->check_config ? model->check_config(self->config)
                                            : NULL;
    return !why || broken(self, "configuration", why);
}

static bool write_parameters(check *self, tuff_parameters *parameters)
{
    for (int i = 0; i < tuff_parameters_count(parameters); i++) {
        const char *name;
        tuff_array *array = tuff_parameters_at(parameters, i, &name);
        tuff_file_tensor tensor;
        if (!golden_find(self->file, "param.", name, &tensor))
            return broken(self, name, "the file has no such parameter");
        if (!tuff_shape_equal(tensor.shape, tuff_array_shape(array)))
            return broken(self, name, "the parameter has another shape in the file");
        if (tuff_array_write(array, tensor.data, (size_t)tensor.size) != TUFF_OK)
            return broken(self, name, tuff_error());
    }
    return true;
}

/* Gets the values of an input, from the row or the file. */
static bool make_input(check *self, const tuff_plan_value *value, void *made)
{
    tuff_file_tensor tensor;
    if (strcmp(value->name, "one") == 0) { /* an input of example_copy */
        if (value->size != sizeof(float))
            return broken(self, value->name, "is no single number");
        *(float *)made = 1;
        return true;
    }
    if (self->row->bind && self->row->bind(self->file, self->config, value->name, made, (size_t)value->size))
        return true;
    if (!golden_find(self->file, "input.", value->name, &tensor))
        return broken(self, value->name, "the file has no such input");
    if (tensor.dtype != value->dtype || tensor.size != value->size)
        return broken(self, value->name, "the input has another dtype or size in the file");
    memcpy(made, tensor.data, (size_t)value->size);
    return true;
}

static bool write_inputs(check *self)
{
    tuff_plan *plan = self->trial.plan;
    bool written = true;
    for (int i = 0; written && i < tuff_plan_input_count(plan); i++) {
        tuff_plan_value value;
        if (tuff_plan_input_at(plan, i, &value) != TUFF_OK)
            return broken(self, "inputs", tuff_error());
        void *made = calloc(1, (size_t)value.size + 1);
        if (!made)
            return broken(self, value.name, "out of memory");
        written = make_input(self, &value, made);
        if (written && tuff_plan_write(plan, value.name, made, (size_t)value.size) != TUFF_OK)
            written = broken(self, value.name, tuff_error());
        free(made);
    }
    return written;
}

/* Returns a tensor of the file as f32, which the caller frees; NULL if it is missing, or out of memory. */
static float *wanted_values(const check *self, const char *prefix, const char *name, int64_t *count)
{
    tuff_file_tensor tensor;
    if (!golden_find(self->file, prefix, name, &tensor))
        return NULL;
    *count = golden_count(&tensor);
    float *values = malloc((size_t)*count * sizeof *values + 1);
    for (int64_t i = 0; values && i < *count; i++)
        values[i] = (float)golden_element(&tensor, i);
    return values;
}

static double scalar_of(const check *self, const char *name, int64_t index)
{
    tuff_file_tensor tensor;
    if (!golden_find(self->file, self->row->prefix, name, &tensor) || index >= golden_count(&tensor))
        return NAN;
    return golden_element(&tensor, index);
}

static void compare_scalar(check *self, const char *name, int64_t step, double got, double wanted, double bar)
{
    char label[96];
    snprintf(label, sizeof label, "%s of step %lld", name, (long long)step);
    count_comparison(self, label, fabs(got - wanted) / (bar * fabs(wanted)));
    self->loss = fmax(self->loss, fabs(got - wanted) / fabs(wanted));
}

/* Finds the output to compare with a tensor of the file: "out.x" for out.x, "out.greedy.x" for greedy.x if the row says
   so; empty if there is none. */
static void find_output(const check *self, const char *name, char *output, size_t room)
{
    const workload *row = self->row;
    const size_t length = strlen(row->prefix);
    const char *also = row->also;
    output[0] = 0;
    if (strncmp(name, row->prefix, length) == 0 && strncmp(name + length, "out.", 4) == 0)
        snprintf(output, room, "%s", strcmp(name + length, "out.loss") == 0 ? "loss" : name + length);
    else if (also && strncmp(name, also, strlen(also)) == 0)
        snprintf(output, room, "out.%s", name);
}

/* The model must output every value of the forward pass that the file has, within its tolerance. */
static void compare_outputs(check *self)
{
    for (int i = 0; i < tuff_file_count(self->file); i++) {
        tuff_file_tensor tensor;
        char name[96];
        name[0] = 0;
        if (tuff_file_tensor_at(self->file, i, &tensor) == TUFF_OK)
            find_output(self, tensor.name, name, sizeof name);
        if (name[0] == 0)
            continue;
        int64_t count = 0, same = 0;
        float *wanted = wanted_values(self, "", tensor.name, &same);
        float *got = example_test_step_read(&self->trial, name, false, &count);
        const double bar = strcmp(name, "loss") == 0 ? self->row->bars.loss : self->row->bars.out;
        const bool is_exact = tensor.dtype != TUFF_F32;
        const double distance = got && wanted && count == same ? example_distance(got, wanted, count) : NAN;
        const double largest = wanted ? example_largest(wanted, same) : 0;
        count_comparison(self, name,
                         is_exact ? (distance > 0 ? INFINITY : distance) : distance / fmax(bar * largest, 1e-30));
        if (!is_exact && distance > 0)
            self->out = fmax(self->out, distance / largest);
        free(got);
        free(wanted);
    }
}

/* Whether name ends with one of the comma-separated endings; NULL: none. */
static bool ends_with(const char *name, const char *endings)
{
    const size_t length = strlen(name);
    for (const char *at = endings; at && *at;) {
        const size_t wanted = strcspn(at, ",");
        if (length >= wanted && strncmp(name + length - wanted, at, wanted) == 0)
            return true;
        at += wanted + (at[wanted] == ',');
    }
    return false;
}

/* Gets the range of a parameter's elements whose gradient is zero; first equals last if there are none. */
static void zero_range(const check *self, const char *name, int64_t count, int64_t *first, int64_t *last)
{
    const workload *row = self->row;
    const bool any = ends_with(name, row->zero_endings);
    *first = any ? count / row->zero_parts * row->zero_part : 0;
    *last = any ? *first + count / row->zero_parts : 0;
}

static void compare_gradient(check *self, const char *name)
{
    char output[96], prefix[64];
    int64_t count = 0, same = 0, first = 0, last = 0;
    snprintf(output, sizeof output, "grad.%s", name);
    snprintf(prefix, sizeof prefix, "%sgrad.", self->row->prefix);
    float *got = example_test_step_read(&self->trial, output, false, &count);
    float *wanted = wanted_values(self, prefix, name, &same);
    if (!got || !wanted || count != same) {
        count_comparison(self, output, NAN);
    } else {
        zero_range(self, name, count, &first, &last);
        const double allowed = fmax(self->row->bars.gradient * example_largest(wanted, count), 1e-30);
        const double noise = self->row->bars.noise * scalar_of(self, "grad_norm", 0);
        count_comparison(self, output, example_distance(got, wanted, first) / allowed);
        count_comparison(self, output, example_distance(got + last, wanted + last, count - last) / allowed);
        self->gradient = fmax(self->gradient, fmax(example_distance(got, wanted, first),
                                                   example_distance(got + last, wanted + last, count - last)) /
                                                  fmax(example_largest(wanted, count), 1e-30));
        if (last > first)
            count_comparison(self, output, example_largest(got + first, last - first) / noise);
    }
    free(got);
    free(wanted);
}

/* Returns the largest deviation of the weights that have gradients above the threshold. */
static double moved_distance(const check *self, const float *got, const float *wanted, const float *gradients,
                             int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++)
        if (fabs((double)gradients[i]) > self->row->bars.threshold)
            worst = fmax(worst, fabs((double)got[i] - (double)wanted[i]));
    return worst;
}

/* Returns the largest deviation of weights that only decay, relative to the tolerance of 1e-6 of the weight. */
static double decayed_distance(const float *got, const float *wanted, const float *gradients, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++)
        if (gradients[i] == 0)
            worst = fmax(worst, fabs((double)got[i] - (double)wanted[i]) / (1e-6 * fabs((double)wanted[i]) + 1e-12));
    return worst;
}

static void compare_weight(check *self, const char *name, int step)
{
    const workload_bars *bars = &self->row->bars;
    char prefix[64], label[96], gradients[64];
    int64_t count = 0, same = 0, third = 0, first = 0, last = 0;
    snprintf(prefix, sizeof prefix, "%sstep%d%s.", self->row->prefix, step, variant_of(self));
    snprintf(label, sizeof label, "%s after %d", name, step);
    snprintf(gradients, sizeof gradients, "%sgrad.", self->row->prefix);
    float *got = example_test_step_read(&self->trial, name, true, &count);
    float *wanted = wanted_values(self, prefix, name, &same), *g = wanted_values(self, gradients, name, &third);
    const example_weight_tolerances allowed = {.rate = ((const example_settings *)self->config)->rate,
                                               .threshold = bars->threshold,
                                               .close = step == 1 ? bars->close1 : bars->close10,
                                               .far = step == 1 ? bars->far1 : bars->far10};
    if (!got || !wanted || !g || count != same || count != third) {
        count_comparison(self, label, NAN);
    } else {
        zero_range(self, name, count, &first, &last);
        count_comparison(self, label, example_weight_distance(got, wanted, g, first, allowed));
        count_comparison(self, label,
                         example_weight_distance(got + last, wanted + last, g + last, count - last, allowed));
        if (ends_with(name, self->row->decaying_endings))
            count_comparison(self, label, decayed_distance(got, wanted, g, count));
        self->weight = fmax(self->weight,
                            moved_distance(self, got, wanted, g, count) / fmax(example_largest(wanted, count), 1e-30));
    }
    free(got);
    free(wanted);
    free(g);
}

static void for_each_parameter(check *self, int step)
{
    tuff_parameters *parameters = self->trial.source.parameters;
    for (int i = 0; i < tuff_parameters_count(parameters); i++) {
        const char *name;
        tuff_parameters_at(parameters, i, &name);
        if (step == 0)
            compare_gradient(self, name);
        else
            compare_weight(self, name, step);
    }
}

static bool has_steps(const check *self, int step)
{
    char prefix[64];
    const char *name;
    tuff_file_tensor tensor;
    snprintf(prefix, sizeof prefix, "%sstep%d%s.", self->row->prefix, step, variant_of(self));
    tuff_parameters_at(self->trial.source.parameters, 0, &name);
    return golden_find(self->file, prefix, name, &tensor);
}

/* Runs as many steps as the file has losses, at least one. */
static bool run_steps(check *self)
{
    tuff_file_tensor losses;
    char losses_name[64], norms_name[64];
    snprintf(losses_name, sizeof losses_name, "losses%s", variant_of(self));
    snprintf(norms_name, sizeof norms_name, "grad_norms%s", variant_of(self));
    const int64_t steps = golden_find(self->file, self->row->prefix, losses_name, &losses) ? golden_count(&losses) : 1;
    for (int64_t step = 0; step < steps; step++) {
        if (example_test_step_run(&self->trial) != TUFF_OK)
            return broken(self, "step", tuff_error());
        if (steps > 1)
            compare_scalar(self, "loss", step, self->trial.loss, scalar_of(self, losses_name, step),
                           self->row->bars.loss);
        const double norm = scalar_of(self, norms_name, step);
        if (!isnan(norm))
            compare_scalar(self, "grad_norm", step, self->trial.gradient_norm, norm, self->row->bars.norm);
        if (step == 0) {
            compare_scalar(self, "grad_norm", 0, self->trial.gradient_norm, scalar_of(self, "grad_norm", 0),
                           self->row->bars.norm);
            compare_outputs(self);
            if (!self->row->forward_only)
                for_each_parameter(self, 0);
        }
        if (self->row->compare)
            count_comparison(self, "the choice", self->row->compare(self->file, self->config, &self->trial, step));
        if (has_steps(self, (int)step + 1))
            for_each_parameter(self, (int)step + 1);
    }
    return true;
}

/* Runs the steps on the file's parameters. */
static bool check_steps(check *self, tuff_device *device, tuff_parameters *parameters, bool optimized)
{
    const example *model = self->row->model;
    tuff_parameters *frozen = model->has_frozen ? tuff_parameters_clone(parameters) : NULL;
    void *data = model->open ? model->open(device, self->config, 1) : NULL;
    const example_source source = {.model = model,
                                   .config = self->config,
                                   .device = device,
                                   .parameters = parameters,
                                   .frozen = frozen,
                                   .data = data,
                                   .optimized = optimized,
                                   .purpose = EXAMPLE_CHECK};
    tuff_optimizer_options options = example_optimizer_options(model, self->config, 1);
    options.schedule = TUFF_SCHEDULE_CONSTANT;
    options.warmup_steps = 0;
    options.accumulate = 0;
    bool done = false;
    if (example_test_step_create(&self->trial, &source, &options, TUFF_PRECISION_F32) != TUFF_OK) {
        (void)broken(self, "compilation", tuff_error());
    } else {
        done = write_inputs(self) && run_steps(self);
        example_test_step_destroy(&self->trial);
    }
    if (model->close && data)
        model->close(data);
    tuff_parameters_destroy(frozen);
    return done;
}

workload_counts workload_check(const workload *row, const tuff_file *file, tuff_device *device, bool optimized)
{
    check self = {.row = row, .file = file};
    if (configure(&self)) {
        tuff_parameters *parameters = example_parameters_make(row->model, self.config, device, 1, 0);
        if (!parameters)
            (void)broken(&self, "parameters", tuff_error());
        else if (write_parameters(&self, parameters))
            (void)check_steps(&self, device, parameters, optimized);
        tuff_parameters_destroy(parameters);
    }
    free(self.config);
    printf("    %s %s%s, %s: %d quantities, %d beyond their bars; of the largest: outputs %.1e, losses %.1e, "
           "gradients %.1e, weights %.1e\n",
           row->file, row->prefix, variant_of(&self), optimized ? "optimized" : "baseline", self.compared,
           self.failures, self.out, self.loss, self.gradient, self.weight);
    return (workload_counts){.compared = self.compared, .failed = self.failures};
}
