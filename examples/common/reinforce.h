/* What policies trained by REINFORCE share: schedules that follow epochs and validations, and a frozen policy as the
   baseline, which is replaced by a better one. A model uses these functions as its hooks; it has fixed inputs
   "temperature" and "entropy_coef" of rank 0. */
#ifndef TUFF_EXAMPLES_REINFORCE_H
#define TUFF_EXAMPLES_REINFORCE_H

#include "example.h"

#define REINFORCE_FIRST_TEMPERATURE 2.5
#define REINFORCE_FIRST_ENTROPY 0.03

/* As example.open; free closes it. */
void *reinforce_open(tuff_device *device, const void *config, uint64_t seed);
/* As example.optimizer: the rate has its last value in the last epoch, not behind it. */
void reinforce_optimizer(const void *config, tuff_optimizer_options *options);
/* As example.before_step: the coefficient of the entropy, a cosine from 0.03 to 0.002 by epochs. */
tuff_status reinforce_before_step(example_run *run);
/* As example.validated: the temperature falls where the cost does, and rises where not; without a better cost for 10
   validations the training ends. The frozen policy is replaced where the present one is cheaper on held-out batches
   that no other validation sees, by a one-sided paired t-test with p < 0.1. */
tuff_status reinforce_validated(example_run *run, bool *stop);
/* Metrics "gain" and "squared gain", which the test needs, from costs [B] of the present policy and of the frozen one.
   Before any other metric. */
void reinforce_add_gain(example_build *build, tuff_tensor *own, tuff_tensor *frozen);

/* i32 [B]: the first of n nodes that is not masked and whose cumulative probability exceeds the uniform. probabilities
   and mask (bool) are [B,n], uniforms [B,1] in [0, 1). */
tuff_tensor *reinforce_sample(tuff_tensor *probabilities, tuff_tensor *mask, tuff_tensor *uniforms);
/* -mean(A · logp) - entropy_coef · mean(entropy), where A = (baseline - cost, less its mean) / (its unbiased standard
   deviation + 1e-8); all are [B], and no gradient flows through costs. Shows its parts. */
tuff_tensor *reinforce_loss(example_build *build, tuff_tensor *cost, tuff_tensor *baseline, tuff_tensor *logp,
                            tuff_tensor *entropy);

#endif
