/* Compares a step with the reference device. Deviations are relative to the largest element of a tensor. Gradients may
   cancel to nearly zero, so a share of the norm of all gradients is tolerated as well. */
#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parameters.h"
#include "trial.h"

static const double tolerance = 2e-5;       /* relative to a tensor's largest element */
static const double noise_tolerance = 2e-6; /* relative to the norm of all gradients */
static const double scalar_noise = 4e-6;    /* absolute, for losses and other rank-0 values, whose terms may cancel */
static const double weight_noise = 0.2;     /* noise on constant parameters, so that zeros and ones hide no errors */

typedef struct test_run {
    tuff_device *device;
    void *data;
    tuff_parameters *parameters, *frozen;
    example_test_step step;
} test_run;

static tuff_status open_run(test_run *self, const example *model, const void *config, uint64_t seed, bool optimized)
{
    if (model->open) {
        self->data = model->open(self->device, config, seed);
        if (!self->data)
            return example_creation_status();
    }
    self->parameters = example_parameters_make(model, config, self->device, seed, weight_noise);
    if (model->has_frozen)
        self->frozen = example_parameters_make(model, config, self->device, seed + 1, weight_noise);
    if (!self->parameters || (model->has_frozen && !self->frozen))
        return example_creation_status();
    const example_source source = {.model = model,
                                   .config = config,
                                   .device = self->device,
                                   .parameters = self->parameters,
                                   .frozen = self->frozen,
                                   .data = self->data,
                                   .seed = seed,
                                   .optimized = optimized,
                                   .purpose = EXAMPLE_CHECK};
    tuff_optimizer_options options = example_optimizer_options(model, config, 1);
    options.schedule = TUFF_SCHEDULE_CONSTANT;
    options.warmup_steps = 0;
    options.accumulate = 0;
    tuff_status status = example_test_step_create(&self->step, &source, &options, TUFF_PRECISION_F32);
    if (status == TUFF_OK)
        status = example_write_fixed(&source, self->step.plan);
    if (status == TUFF_OK)
        status = example_write_batch(&source, self->step.plan, 0);
    return status == TUFF_OK ? example_test_step_run(&self->step) : status;
}

static void close_run(test_run *self, const example *model)
{
    example_test_step_destroy(&self->step);
    if (model->close && self->data)
        model->close(self->data);
    tuff_parameters_destroy(self->parameters);
    tuff_parameters_destroy(self->frozen);
    *self = (test_run){.device = self->device};
}

/* Worst deviation of a comparison so far, as a fraction of the tolerance, and the tensor it occurred in. */
typedef struct comparison {
    double worst;
    char name[96];
    int compared;
} comparison;

static void add_deviation(comparison *self, double part, const char *name)
{
    self->compared++;
    if (!(part <= self->worst) && !isnan(self->worst)) {
        self->worst = part;
        snprintf(self->name, sizeof self->name, "%s", name);
    }
}

static void compare_output(comparison *self, const test_run *got, const test_run *wanted, const char *name,
                           bool is_scalar)
{
    int64_t count = 0, same = 0;
    float *a = example_test_step_read(&got->step, name, false, &count);
    float *b = example_test_step_read(&wanted->step, name, false, &same);
    double part = NAN;
    if (a && b && count == same) {
        const bool is_gradient = strncmp(name, "grad.", 5) == 0;
        const double rounding = is_scalar ? scalar_noise : 1e-7;
        const double noise = is_gradient ? 1e-7 + noise_tolerance * wanted->step.gradient_norm : rounding;
        part = example_distance(a, b, count) / (tolerance * example_largest(b, count) + noise);
    }
    add_deviation(self, part, name);
    free(a);
    free(b);
}

static void compare_weight(comparison *self, const test_run *got, const test_run *wanted, const char *name)
{
    const example_settings *settings = got->step.source.config;
    char gradient[80], label[96];
    int64_t count = 0, same = 0, third = 0;
    snprintf(gradient, sizeof gradient, "grad.%s", name);
    snprintf(label, sizeof label, "%s after a step", name);
    float *a = example_test_step_read(&got->step, name, true, &count);
    float *b = example_test_step_read(&wanted->step, name, true, &same);
    float *g = example_test_step_read(&wanted->step, gradient, false, &third);
    double part = NAN;
    if (a && b && g && count == same && count == third) {
        const double norm = wanted->step.gradient_norm;
        const double clip = settings->clip_norm > 0 && norm > 0 ? fmin(1, settings->clip_norm / norm) : 1;
        const double uncertain = tolerance * example_largest(g, count) + noise_tolerance * norm;
        const example_weight_tolerances tolerances = {
            .rate = settings->rate, .threshold = fmax(1e-5 / clip, 4 * uncertain), .close = 0.01, .far = 2.1};
        part = example_weight_distance(a, b, g, count, tolerances);
    }
    add_deviation(self, part, label);
    free(a);
    free(b);
    free(g);
}

static comparison compare(const test_run *got, const test_run *wanted)
{
    comparison made = {0};
    tuff_plan_value value;
    for (int i = 0; i < tuff_plan_output_count(wanted->step.plan); i++)
        if (tuff_plan_output_at(wanted->step.plan, i, &value) == TUFF_OK)
            compare_output(&made, got, wanted, value.name, value.shape.rank == 0);
    for (int i = 0; i < tuff_parameters_count(wanted->parameters); i++) {
        const char *name;
        tuff_parameters_at(wanted->parameters, i, &name);
        compare_weight(&made, got, wanted, name);
    }
    return made;
}

static void print_config(const example *model, const void *config, uint64_t seed)
{
    printf("seed %" PRIu64 ":", seed);
    for (int i = 0; i < example_field_count(model); i++) {
        const char *name = example_field_at(model, i)->name;
        double value = 0, defaults = 0;
        example_get(model, config, name, &value);
        example_get(model, model->small, name, &defaults);
        if (value != defaults)
            printf(" %s=%.4g", name, value);
    }
    printf("\n");
    fflush(stdout);
}

/* Compares both forms with one run of the reference. Returns how many exceed their tolerances. */
static int test_config(const example *model, const void *config, uint64_t seed, test_run *tested, test_run *reference)
{
    int failures = 0;
    print_config(model, config, seed);
    tuff_status status = open_run(reference, model, config, seed, true);
    for (int form = 0; form < 2 && status == TUFF_OK; form++) {
        status = open_run(tested, model, config, seed, form == 1);
        if (status == TUFF_OK) {
            const comparison made = compare(tested, reference);
            const bool good = made.worst <= 1;
            printf("  %-9s %4d tensors, worst error %.3f of its tolerance: %s%s\n", form ? "optimized" : "baseline",
                   made.compared, made.worst, made.name, good ? "" : "  FAILED");
            failures += !good;
        }
        close_run(tested, model);
    }
    if (status != TUFF_OK) {
        printf("  FAILED: %s: %s\n", tuff_status_name(status), example_error());
        failures++;
    }
    close_run(reference, model);
    return failures;
}

int example_check(const example *model, const example_options *options)
{
    test_run tested = {.device = tuff_device_open(options->device)};
    test_run reference = {.device = tested.device ? tuff_device_open("reference") : NULL};
    void *config = malloc(model->config_size);
    int failures = 0;
    if (!reference.device || !config) {
        fprintf(stderr, "%s: %s\n", model->name, tuff_error());
        failures = 1;
    }
    for (int64_t i = 0; i < options->checks && config && reference.device; i++) {
        const uint64_t seed = (uint32_t)(options->seed + (uint64_t)i); /* --seed accepts each seed that is printed */
        example_random random = example_random_stream(seed, (uint64_t)1 << 60);
        const char *why = NULL;
        do {
            memcpy(config, model->small, model->config_size);
            model->draw_config(config, &random);
            why = model->check_config ? model->check_config(config) : NULL;
        } while (why);
        failures += test_config(model, config, seed, &tested, &reference);
    }
    free(config);
    tuff_device_close(reference.device);
    tuff_device_close(tested.device);
    printf("%s: %s\n", model->name, failures ? "FAILED" : "all within tolerance");
    return failures > 0;
}
