/* A step of an example whose loss, values, gradients and new parameters are looked at one by one: for the check against
   the reference device and for golden files. */
#ifndef TUFF_EXAMPLES_TRIAL_H
#define TUFF_EXAMPLES_TRIAL_H

#include "build.h"

typedef struct example_trial {
    example_source source;
    tuff_optimizer *optimizer;
    tuff_plan *plan;
    double gradient_norm; /* of the run before, over all gradients before clipping */
    double loss;
} example_trial;

/* Compiles the step. source->purpose is EXAMPLE_CHECK; its parameters, which the step updates, outlive the trial.
   Outputs of the plan: "loss", "grad_norm", "grad.NAME" of each parameter, and what the model shows, "out.NAME". Fixed
   inputs are not written yet. After a failure the trial may only be destroyed. */
tuff_status example_trial_create(example_trial *self, const example_source *source,
                                 const tuff_optimizer_options *optimizer, tuff_precision precision);
void example_trial_destroy(example_trial *self);
/* One step, with the inputs that were written to the plan. Reads loss and gradient_norm. */
tuff_status example_trial_run(example_trial *self);
/* An output, or a parameter where is_parameter is set, as f32 (indices and flags are converted). The caller frees it;
   NULL on failure. *count is set to the number of elements. */
float *example_trial_read(const example_trial *self, const char *name, bool is_parameter, int64_t *count);

/* The largest |got - wanted|, infinities being equal to themselves; NaN where either is NaN. */
double example_distance(const float *got, const float *wanted, int64_t count);
double example_largest(const float *values, int64_t count); /* |value|, of those that are finite */

/* How far weights may be off after some steps of Adam, which divides a gradient by its own size, so that it makes steps
   of up to the rate of mere rounding noise. */
typedef struct example_weight_bars {
    double rate;
    double threshold;  /* a gradient that counts as more than noise */
    double close, far; /* of the rate: for weights with such gradients, and for others */
} example_weight_bars;
/* The largest deviation as a part of what is allowed: 1e-6 + close · rate, or far · rate: at most 1 is good. */
double example_weight_distance(const float *got, const float *wanted, const float *gradients, int64_t count,
                               example_weight_bars bars);

#endif
