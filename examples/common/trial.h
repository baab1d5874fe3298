/* A step of an example whose loss, values, gradients and new parameters can be read one by one: for the check against
   the reference device and for golden files. */
#ifndef TUFF_EXAMPLES_TRIAL_H
#define TUFF_EXAMPLES_TRIAL_H

#include "build.h"

typedef struct example_test_step {
    example_source source;
    tuff_optimizer *optimizer;
    tuff_plan *plan;
    double gradient_norm; /* of the last run, over all gradients, before clipping */
    double loss;
} example_test_step;

/* Compiles the step. source->purpose must be EXAMPLE_CHECK. The parameters, which the step updates, must outlive
   self. Outputs of the plan: "loss", the metrics, "grad_norm", "grad.NAME" of each parameter, and "out.NAME" of each
   value passed to example_named_output. Fixed inputs are not written. After a failure self may only be destroyed. */
tuff_status example_test_step_create(example_test_step *self, const example_source *source,
                                     const tuff_optimizer_options *optimizer, tuff_precision precision);
void example_test_step_destroy(example_test_step *self);
/* Runs one step with the inputs written to the plan, and sets loss and gradient_norm. */
tuff_status example_test_step_run(example_test_step *self);
/* Reads an output, or a parameter if is_parameter, as f32; indices and flags are converted. Sets *count to the number
   of elements. The caller frees the result; NULL on failure. */
float *example_test_step_read(const example_test_step *self, const char *name, bool is_parameter, int64_t *count);

/* The largest |got - wanted|. Equal infinities do not differ; NaN if any difference is NaN. */
double example_distance(const float *got, const float *wanted, int64_t count);
/* The largest |value| below 1e8, which excludes infinities and the large values that masks use instead. */
double example_largest(const float *values, int64_t count);

/* Tolerances for weights after some steps of Adam. Adam divides a gradient by its own size, so even a gradient of mere
   rounding noise moves a weight by up to the learning rate. */
typedef struct example_weight_tolerances {
    double rate;
    double threshold;  /* gradients above it are more than noise */
    double close, far; /* fraction of the rate: for weights with such gradients, and for others */
} example_weight_tolerances;
/* The largest deviation, as a fraction of the tolerance: 1e-6 + close · rate, or far · rate. Up to 1 is within
   tolerance. */
double example_weight_distance(const float *got, const float *wanted, const float *gradients, int64_t count,
                               example_weight_tolerances tolerances);

#endif
