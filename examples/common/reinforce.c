/* Schedules and the baseline for policies trained with REINFORCE; the hooks that a model uses are in the header. */
#include "reinforce.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GAIN, SQUARED_GAIN, PATIENCE = 10 };

/* Samples of the t-test: enough that the normal distribution can replace Student's. */
static const int64_t tested_samples = 640, first_tested_batch = 1000;

typedef struct schedules {
    int64_t epoch;
    double temperature, costs[5]; /* costs: of the last validations, latest first */
    int64_t validations, since_best;
} schedules;

void *reinforce_open(tuff_device *device, const void *config, uint64_t seed)
{
    schedules *made = calloc(1, sizeof *made);
    (void)device;
    (void)config;
    (void)seed;
    if (made)
        *made = (schedules){.epoch = -1, .temperature = REINFORCE_FIRST_TEMPERATURE};
    return made;
}

static tuff_status write_scalar(tuff_plan *plan, const char *name, double value)
{
    const float narrow = (float)value;
    return plan ? tuff_plan_write(plan, name, &narrow, sizeof narrow) : TUFF_OK;
}

static tuff_status write_temperature(const example_run *run)
{
    const schedules *self = run->data;
    const tuff_status status = write_scalar(run->plan, "temperature", self->temperature);
    return status == TUFF_OK ? write_scalar(run->validation, "temperature", self->temperature) : status;
}

void reinforce_optimizer(const void *config, tuff_optimizer_options *options)
{
    (void)config;
    if (options->total_steps > 1)
        options->total_steps--;
}

tuff_status reinforce_before_step(example_run *run)
{
    schedules *self = run->data;
    const example_settings *settings = run->settings;
    const int64_t length = settings->epoch_steps > 0 ? settings->epoch_steps : 1, epoch = run->step / length;
    if (epoch == self->epoch)
        return TUFF_OK;
    self->epoch = epoch;
    /* Epoch 1 has the first coefficient, the last epoch the last one. */
    const double pi = 3.14159265358979323846, last = fmax(1, (double)(settings->steps / length - 2));
    const double coefficient = 0.002 + 0.028 * 0.5 * (1 + cos(pi * ((double)epoch - 1) / last));
    return write_scalar(run->plan, "entropy_coef", coefficient);
}

static void adapt_temperature(schedules *self)
{
    const double *k = self->costs;
    if (self->validations < 5)
        return;
    const bool falls = (k[0] + k[1] + k[2]) / 3 < (k[3] + k[4]) / 2;
    self->temperature = falls ? fmax(0.15, 0.82 * self->temperature) : fmin(2.5, 1.18 * self->temperature);
}

static tuff_status replace_frozen(example_run *run)
{
    const int64_t B = run->settings->batch, batches = 1 + (tested_samples - 1) / B;
    double loss, metrics[EXAMPLE_MAX_METRICS];
    const tuff_status status = example_validate(run, first_tested_batch, batches, &loss, metrics);
    if (status != TUFF_OK)
        return status;
    const double count = (double)(batches * B), gain = metrics[GAIN];
    const double variance = (metrics[SQUARED_GAIN] - gain * gain) * count / (count - 1);
    if (gain <= 0 || gain * sqrt(count) <= 1.2816 * sqrt(fmax(variance, 0)))
        return TUFF_OK;
    run->frozen_step = run->step;
    return tuff_parameters_copy(run->frozen, run->parameters);
}

tuff_status reinforce_after_validation(example_run *run, bool *stop)
{
    schedules *self = run->data;
    for (int i = 4; i > 0; i--)
        self->costs[i] = self->costs[i - 1];
    self->costs[0] = run->validation_loss;
    self->validations++;
    self->since_best = run->validation_loss <= run->best_validation_loss ? 0 : self->since_best + 1;
    *stop = self->since_best >= PATIENCE;
    adapt_temperature(self);
    const tuff_status status = write_temperature(run);
    return status == TUFF_OK ? replace_frozen(run) : status;
}

void reinforce_write_state(const example_run *run, char *text, size_t size)
{
    const schedules *self = run->data;
    const double *k = self->costs;
    (void)snprintf(text, size, "%.17g %" PRId64 " %" PRId64 " %.17g %.17g %.17g %.17g %.17g", self->temperature,
                   self->validations, self->since_best, k[0], k[1], k[2], k[3], k[4]);
}

tuff_status reinforce_read_state(example_run *run, const char *text)
{
    schedules *self = run->data;
    double *k = self->costs;
    if (sscanf(text, "%lf %" SCNd64 " %" SCNd64 " %lf %lf %lf %lf %lf", &self->temperature, &self->validations,
               &self->since_best, &k[0], &k[1], &k[2], &k[3], &k[4]) != 8)
        return TUFF_E_FORMAT;
    return write_temperature(run);
}

void reinforce_add_gain(example_build *build, tuff_tensor *own, tuff_tensor *frozen)
{
    static const int batch[] = {0};
    tuff_tensor *gain = tuff_sub(frozen, own);
    example_add_metric(build, "gain", tuff_mean(gain, batch, 1, false));
    example_add_metric(build, "squared gain", tuff_mean(tuff_mul(gain, gain), batch, 1, false));
}

tuff_tensor *reinforce_sample(tuff_tensor *probabilities, tuff_tensor *mask, tuff_tensor *uniforms)
{
    tuff_graph *graph = tuff_tensor_graph(probabilities);
    tuff_tensor *sums = tuff_cumsum(probabilities, 1);
    /* Rounding may make the last sum differ from 1. */
    tuff_tensor *total = example_slice(sums, 1, tuff_tensor_shape(sums).extent[1] - 1, 1);
    tuff_tensor *exceeds = tuff_cast(tuff_less(tuff_mul(uniforms, total), sums), TUFF_F32);
    return tuff_argmax(tuff_where(mask, tuff_constant(graph, TUFF_F32, -1), exceeds), 1, false);
}

tuff_tensor *reinforce_loss(example_build *build, tuff_tensor *cost, tuff_tensor *baseline, tuff_tensor *logp,
                            tuff_tensor *entropy)
{
    static const int batch[] = {0};
    tuff_tensor *raw =
        example_named_output(build, tuff_sub(example_named_output(build, baseline, "baseline"), cost), "advantage_raw");
    tuff_tensor *deviation = tuff_add(tuff_std(raw, batch, 1, true, 1), tuff_constant(build->graph, TUFF_F32, 1e-8));
    tuff_tensor *centred = tuff_sub(raw, tuff_mean(raw, batch, 1, true));
    tuff_tensor *advantage = example_named_output(build, tuff_div(centred, deviation), "advantage");
    tuff_tensor *weighted = tuff_mul(advantage, example_named_output(build, logp, "logp"));
    tuff_tensor *mean_entropy = tuff_mean(example_named_output(build, entropy, "entropy"), batch, 1, false);
    tuff_tensor *of_policy = tuff_neg(tuff_mean(weighted, batch, 1, false));
    tuff_tensor *of_entropy = tuff_neg(tuff_mul(example_input(build, "entropy_coef"), mean_entropy));
    return tuff_add(example_named_output(build, of_policy, "loss_policy"),
                    example_named_output(build, of_entropy, "loss_entropy"));
}
