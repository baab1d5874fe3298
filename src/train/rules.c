/* Optimizers as descriptors: a rule is the names of its moments and the formula of its update, elementwise over whole
   slabs, so that a step is one dispatch whatever the number of tensors. Scalars of a step are made first, once. Another
   optimizer is an enumerator of tuff_optimizer_kind (include/tuff/train.h), and here its update and its row of `rules`:
   state, checkpoints and the check of options follow from the row. Read next: optimizer.c, which calls them. */
#include <math.h>

#include "train/rules.h"

/* A constant in the graph of another tensor. */
static tuff_tensor *number(tuff_tensor *beside, double value)
{
    return tuff_constant(tuff_tensor_graph(beside), TUFF_F32, value);
}

static tuff_tensor *scaled(tuff_tensor *x, double factor)
{
    return tuff_mul(x, number(x, factor));
}

/* factor for every element that decays, else 0. The slab begins with the parameters that decay. */
static tuff_tensor *decay_factor(const tuff_optimizer *optimizer, tuff_tensor *factor)
{
    const tuff_parameters *parameters = optimizer->parameters;
    if (optimizer->options.decay_all || parameters->decayed_total >= parameters->total)
        return factor;
    tuff_graph *graph = tuff_tensor_graph(factor);
    tuff_tensor *place = tuff_iota(graph, TUFF_SHAPE(parameters->total), 0);
    tuff_tensor *end = tuff_constant(graph, TUFF_I32, (double)parameters->decayed_total);
    return tuff_where(tuff_less(place, end), factor, number(factor, 0));
}

/* moment = beta · moment + (1 - beta) · sample */
static tuff_tensor *blend(tuff_tensor *moment, double beta, tuff_tensor *sample)
{
    return tuff_add(scaled(moment, beta), scaled(sample, 1 - beta));
}

/* 1 - beta^t for the first step t = 1: through expm1, because beta^t is near 1 at first. */
static tuff_tensor *bias_correction(double beta, tuff_tensor *t)
{
    return tuff_neg(tuff_expm1(scaled(t, log(beta))));
}

/* Loshchilov & Hutter 2019: decay is decoupled from the gradient, epsilon is outside of the root. */
static tuff_tensor *update_adamw(const tuff_optimizer *optimizer, tuff_tensor *weights, tuff_tensor *gradients,
                                 tuff_tensor **moments, tuff_tensor *rate, tuff_tensor *step)
{
    const tuff_optimizer_options *options = &optimizer->options;
    tuff_tensor *t = tuff_add(step, number(step, 1));
    tuff_tensor *first_correction = bias_correction(options->beta1, t);
    tuff_tensor *second_correction = bias_correction(options->beta2, t);
    tuff_tensor *step_size = tuff_div(rate, first_correction);
    moments[0] = blend(moments[0], options->beta1, gradients);
    moments[1] = blend(moments[1], options->beta2, tuff_mul(gradients, gradients));
    if (options->weight_decay > 0) {
        tuff_tensor *factor = decay_factor(optimizer, scaled(rate, options->weight_decay));
        weights = tuff_sub(weights, tuff_mul(factor, weights));
    }
    tuff_tensor *root = tuff_sqrt(tuff_div(moments[1], second_correction));
    tuff_tensor *change = tuff_div(moments[0], tuff_add(root, number(root, options->epsilon)));
    return tuff_sub(weights, tuff_mul(step_size, change));
}

/* Decay is added to the gradient (L2); momentum as in PyTorch: m = momentum · m + change. */
static tuff_tensor *update_sgd(const tuff_optimizer *optimizer, tuff_tensor *weights, tuff_tensor *gradients,
                               tuff_tensor **moments, tuff_tensor *rate, tuff_tensor *step)
{
    (void)step;
    const tuff_optimizer_options *options = &optimizer->options;
    tuff_tensor *change = gradients;
    if (options->weight_decay > 0) {
        tuff_tensor *factor = decay_factor(optimizer, number(weights, options->weight_decay));
        change = tuff_add(change, tuff_mul(factor, weights));
    }
    if (options->momentum > 0) {
        moments[0] = tuff_add(scaled(moments[0], options->momentum), change);
        change = options->nesterov ? tuff_add(change, scaled(moments[0], options->momentum)) : moments[0];
    }
    return tuff_sub(weights, tuff_mul(rate, change));
}

/* Plain SGD keeps no state but the step counter. */
static bool sgd_keeps_moments(const tuff_optimizer_options *options)
{
    return options->momentum > 0;
}

static const optimizer_rule rules[] = {
    [TUFF_ADAMW] = {.name = "adamw", .moments = {"m", "v"}, .update = update_adamw},
    [TUFF_SGD] = {.name = "sgd", .moments = {"m"}, .keeps_moments = sgd_keeps_moments, .update = update_sgd},
};

const optimizer_rule *tuff__optimizer_rule(int kind)
{
    const int count = (int)(sizeof rules / sizeof *rules);
    return kind >= 0 && kind < count && rules[kind].update ? &rules[kind] : NULL;
}
