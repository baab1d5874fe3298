/* Compares a step with the reference device. Deviations are relative to the largest element of a tensor. Gradients may
   cancel to nearly zero, so a share of the norm of all gradients is tolerated as well.

   Some drawn configurations are ill-conditioned: a layer norm of almost equal numbers magnifies the rounding of its
   input. So where a deviation exceeds its tolerance, the reference repeats the step with every weight moved to a
   neighbouring float, and a multiple of what that changes is tolerated too. */
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
static const double change_tolerance = 5;   /* relative to the largest change by moved weights */
static const double most_change = 0.01;     /* of a tensor's largest element: no change excuses a larger deviation */

enum { MOVED_RUNS = 4 }; /* with weights moved */

typedef struct test_run {
    tuff_device *device;
    void *data;
    tuff_parameters *parameters, *frozen;
    example_test_step step;
} test_run;

/* Moves each element to the next larger or smaller float, at random. */
static tuff_status move_parameters(tuff_parameters *parameters, uint64_t stream)
{
    example_random random = example_random_stream(stream, (uint64_t)1 << 61);
    tuff_status status = TUFF_OK;
    for (int i = 0; i < tuff_parameters_count(parameters) && status == TUFF_OK; i++) {
        tuff_array *array = tuff_parameters_at(parameters, i, NULL);
        const size_t size = (size_t)tuff_array_size(array);
        float *values = malloc(size + 1);
        status = values ? tuff_array_read(array, values, size) : TUFF_E_OOM_HOST;
        for (size_t k = 0; k < size / sizeof *values && status == TUFF_OK; k++)
            values[k] = nextafterf(values[k], example_uniform(&random, -1, 1) < 0 ? -INFINITY : INFINITY);
        if (status == TUFF_OK)
            status = tuff_array_write(array, values, size);
        free(values);
    }
    return status;
}

/* Runs a step. If moved > 0, weights differ by rounding, each time differently. */
static tuff_status open_run(test_run *self, const example *model, const void *config, uint64_t seed, bool optimized,
                            int moved)
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
    tuff_status status = moved > 0 ? move_parameters(self->parameters, (uint64_t)moved) : TUFF_OK;
    if (status == TUFF_OK && moved > 0 && self->frozen)
        status = move_parameters(self->frozen, (uint64_t)moved);
    if (status != TUFF_OK)
        return status;
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
    status = example_test_step_create(&self->step, &source, &options, TUFF_PRECISION_F32);
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

/* What a run is compared with: the reference's values, and how rounding of the weights changes them. */
typedef struct expectation {
    test_run run, moved[MOVED_RUNS];
    int moved_count;
} expectation;

/* The deviation of an output that is tolerated because moved weights change it. */
static double find_change(const expectation *wanted, const char *name, const float *values, int64_t count)
{
    const double most = most_change * example_largest(values, count);
    double change = 0;
    for (int i = 0; i < wanted->moved_count && !isnan(change); i++) {
        int64_t same = 0;
        float *moved = example_test_step_read(&wanted->moved[i].step, name, false, &same);
        const double distance = moved && same == count ? example_distance(moved, values, count) : NAN;
        change = isfinite(distance) ? fmax(change, change_tolerance * distance) : NAN;
        free(moved);
    }
    return isnan(change) ? NAN : fmin(change, most);
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

static void compare_output(comparison *self, const test_run *got, const expectation *wanted, const char *name,
                           bool is_scalar, bool allows_change)
{
    int64_t count = 0, same = 0;
    float *a = example_test_step_read(&got->step, name, false, &count);
    float *b = example_test_step_read(&wanted->run.step, name, false, &same);
    double part = NAN;
    if (a && b && count == same) {
        const bool is_gradient = strncmp(name, "grad.", 5) == 0;
        const double rounding = is_scalar ? scalar_noise : 1e-7;
        const double noise = is_gradient ? 1e-7 + noise_tolerance * wanted->run.step.gradient_norm : rounding;
        const double change = allows_change ? find_change(wanted, name, b, count) : 0;
        part = example_distance(a, b, count) / (tolerance * example_largest(b, count) + noise + change);
    }
    add_deviation(self, part, name);
    free(a);
    free(b);
}

static void compare_weight(comparison *self, const test_run *got, const expectation *wanted, const char *name,
                           bool allows_change)
{
    const example_settings *settings = got->step.source.config;
    char gradient[80], label[96];
    int64_t count = 0, same = 0, third = 0;
    snprintf(gradient, sizeof gradient, "grad.%s", name);
    snprintf(label, sizeof label, "%s after a step", name);
    float *a = example_test_step_read(&got->step, name, true, &count);
    float *b = example_test_step_read(&wanted->run.step, name, true, &same);
    float *g = example_test_step_read(&wanted->run.step, gradient, false, &third);
    double part = NAN;
    if (a && b && g && count == same && count == third) {
        const double norm = wanted->run.step.gradient_norm;
        const double clip = settings->clip_norm > 0 && norm > 0 ? fmin(1, settings->clip_norm / norm) : 1;
        const double change = allows_change ? find_change(wanted, gradient, g, count) : 0;
        const double uncertain = tolerance * example_largest(g, count) + noise_tolerance * norm + change;
        const example_weight_tolerances tolerances = {
            .rate = settings->rate, .threshold = fmax(1e-5 / clip, 4 * uncertain), .close = 0.01, .far = 2.1};
        part = example_weight_distance(a, b, g, count, tolerances);
    }
    add_deviation(self, part, label);
    free(a);
    free(b);
    free(g);
}

static comparison compare(const test_run *got, const expectation *wanted, bool allows_change)
{
    comparison made = {0};
    tuff_plan_value value;
    const test_run *run = &wanted->run;
    for (int i = 0; i < tuff_plan_output_count(run->step.plan); i++)
        if (tuff_plan_output_at(run->step.plan, i, &value) == TUFF_OK)
            compare_output(&made, got, wanted, value.name, value.shape.rank == 0, allows_change);
    for (int i = 0; i < tuff_parameters_count(run->parameters); i++) {
        const char *name;
        tuff_parameters_at(run->parameters, i, &name);
        compare_weight(&made, got, wanted, name, allows_change);
    }
    return made;
}

static void print_config(const example *model, const void *config, uint64_t seed)
{
    printf("seed %" PRIu64 ":", seed);
    for (int i = 0; i < example_field_count(model); i++) {
        const example_field *field = example_field_at(model, i);
        const double value = example_field_value(field, config);
        if (value != example_field_value(field, model->small))
            printf(" %s=%.4g", field->name, value);
    }
    printf("\n");
    fflush(stdout);
}

/* Runs the reference with moved weights, unless that was done. */
static tuff_status move_weights(expectation *self, const example *model, const void *config, uint64_t seed)
{
    tuff_status status = TUFF_OK;
    while (self->moved_count < MOVED_RUNS && status == TUFF_OK) {
        test_run *moved = &self->moved[self->moved_count++];
        moved->device = self->run.device;
        status = open_run(moved, model, config, seed, true, self->moved_count);
    }
    return status;
}

static tuff_status test_form(const example *model, const void *config, uint64_t seed, bool optimized, test_run *tested,
                             expectation *wanted, bool *good)
{
    tuff_status status = open_run(tested, model, config, seed, optimized, 0);
    if (status != TUFF_OK)
        return status;
    comparison made = compare(tested, wanted, false);
    const bool allows_change = !(made.worst <= 1);
    if (allows_change) {
        status = move_weights(wanted, model, config, seed);
        if (status != TUFF_OK)
            return status;
        made = compare(tested, wanted, true);
    }
    *good = made.worst <= 1;
    printf("  %-9s %4d tensors, worst error %.3f of its tolerance%s: %s%s\n", optimized ? "optimized" : "baseline",
           made.compared, made.worst, allows_change && *good ? " (ill-conditioned)" : "", made.name,
           *good ? "" : "  FAILED");
    return TUFF_OK;
}

/* Compares both forms with one run of the reference. Returns how many exceed their tolerances. */
static int test_config(const example *model, const void *config, uint64_t seed, test_run *tested,
                       tuff_device *reference)
{
    expectation wanted = {.run.device = reference};
    int failures = 0;
    print_config(model, config, seed);
    tuff_status status = open_run(&wanted.run, model, config, seed, true, 0);
    for (int form = 0; form < 2 && status == TUFF_OK; form++) {
        bool good = false;
        status = test_form(model, config, seed, form == 1, tested, &wanted, &good);
        close_run(tested, model);
        failures += status == TUFF_OK && !good;
    }
    if (status != TUFF_OK) {
        printf("  FAILED: %s: %s\n", tuff_status_name(status), example_error());
        failures++;
    }
    for (int i = 0; i < wanted.moved_count; i++)
        close_run(&wanted.moved[i], model);
    close_run(&wanted.run, model);
    return failures;
}

int example_check(const example *model, const example_options *options)
{
    test_run tested = {.device = tuff_device_open(options->device)};
    tuff_device *reference = tested.device ? tuff_device_open("reference") : NULL;
    void *config = malloc(model->config_size);
    int failures = 0;
    if (!reference || !config) {
        fprintf(stderr, "%s: %s\n", model->name, reference ? "out of memory" : tuff_error());
        failures = 1;
    }
    for (int64_t i = 0; i < options->checks && config && reference; i++) {
        const uint64_t seed = (uint32_t)(options->seed + (uint64_t)i); /* --seed accepts each seed that is printed */
        example_random random = example_random_stream(seed, (uint64_t)1 << 60);
        const char *why = NULL;
        do {
            memcpy(config, model->small, model->config_size);
            model->draw_config(config, &random);
            why = model->check_config ? model->check_config(config) : NULL;
        } while (why);
        failures += test_config(model, config, seed, &tested, reference);
    }
    free(config);
    tuff_device_close(reference);
    tuff_device_close(tested.device);
    printf("%s: %s\n", model->name, failures ? "FAILED" : "all within tolerance");
    return failures > 0;
}
