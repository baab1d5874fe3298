/* Shared by policies trained with REINFORCE: schedules that follow epochs and validations, and a frozen policy as the
   baseline, which a better policy replaces. A model uses these functions as its hooks; it must have fixed inputs
   "temperature" and "entropy_coef" of rank 0. */
#ifndef TUFF_EXAMPLES_REINFORCE_H
#define TUFF_EXAMPLES_REINFORCE_H

#include "example.h"

#define REINFORCE_FIRST_TEMPERATURE 2.5
#define REINFORCE_FIRST_ENTROPY 0.03

/* For example.open. The result is freed with free(). */
void *reinforce_open(tuff_device *device, const void *config, uint64_t seed);
/* For example.optimizer: the rate reaches its final value in the last epoch, not after it. */
void reinforce_optimizer(const void *config, tuff_optimizer_options *options);
/* For example.before_step: the entropy coefficient follows a cosine by epochs, from 0.03 to 0.002. */
tuff_status reinforce_before_step(example_run *run);
/* For example.after_validation: the temperature decreases while the cost does, else it increases; after 10 validations
   without a better cost the training ends. The current policy replaces the frozen one if it is cheaper on held-out
   batches that no other validation uses, by a one-sided paired t-test with p < 0.1. */
tuff_status reinforce_after_validation(example_run *run, bool *stop);
/* For example.write_state and example.read_state: the temperature and what it and the end depend on. */
void reinforce_write_state(const example_run *run, char *text, size_t size);
tuff_status reinforce_read_state(example_run *run, const char *text);
/* Adds the metrics "gain" and "squared gain", which the t-test reads, from the costs [B] of the current policy and the
   frozen one. Must precede any other metric. */
void reinforce_add_gain(example_build *build, tuff_tensor *own, tuff_tensor *frozen);

/* Samples a node: returns i32 [B], the first of n nodes that is not masked and whose cumulative probability exceeds the
   uniform random number. probabilities and mask (bool) are [B,n], uniforms [B,1] in [0, 1). */
tuff_tensor *reinforce_sample(tuff_tensor *probabilities, tuff_tensor *mask, tuff_tensor *uniforms);
/* Returns -mean(A · logp) - entropy_coef · mean(entropy), where A = (a - mean(a)) / (std(a) + 1e-8), a = baseline -
   cost and std is unbiased. All arguments are [B]; no gradient flows through the costs. Passes its parts to
   example_named_output. */
tuff_tensor *reinforce_loss(example_build *build, tuff_tensor *cost, tuff_tensor *baseline, tuff_tensor *logp,
                            tuff_tensor *entropy);

#endif
