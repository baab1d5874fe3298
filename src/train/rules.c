/* Optimizers as descriptors: a rule is the names of its state and the formula of its update. Those in this file are
   elementwise over whole slabs, so that a step is one dispatch whatever the number of tensors; rules_matrix.c has those
   that need one tensor at a time. Scalars of a step are computed once. A new optimizer is an enumerator of
   tuff_optimizer_kind (include/tuff/train.h), and here its update and its row of `rules`; state, checkpoints and the
   check of options follow from the row. Read next: step.c, which calls them. */
#include <math.h>

#include "train/rules.h"

tuff_tensor *tuff__f32(tuff_tensor *like, double value)
{
    return tuff_constant(tuff_tensor_graph(like), TUFF_F32, value);
}

tuff_tensor *tuff__scaled(tuff_tensor *x, double factor)
{
    return tuff_mul(x, tuff__f32(x, factor));
}

/* Returns x itself for the factor 1, and a constant 0 for 0. */
static tuff_tensor *scaled_or_constant(tuff_tensor *x, double factor)
{
    return factor == 1 ? x : factor == 0 ? tuff__f32(x, 0) : tuff__scaled(x, factor);
}

/* Nests selections, from the last region to the first. Neighbours with the same value need none, so that a model with
   one group computes no selection at all. */
tuff_tensor *tuff__select_by_region(const update *self, tuff_tensor *const *values)
{
    const region *regions = self->optimizer->parameters->regions;
    const int first = self->slab_range->region;
    int at = self->slab_range->region_end - 1;
    tuff_tensor *value = values[at - first], *result = value, *position = NULL;
    for (at--; at >= first; at--) {
        if (values[at - first] == value)
            continue;
        value = values[at - first];
        tuff_graph *graph = tuff_tensor_graph(value);
        const int64_t end = regions[at].end - self->slab_range->begin;
        if (!position)
            position = tuff_iota(graph, TUFF_SHAPE(self->slab_range->end - self->slab_range->begin), 0);
        tuff_tensor *is_before_end = tuff_less(position, tuff_constant(graph, TUFF_I32, (double)end));
        result = tuff_where(is_before_end, value, result);
    }
    return result;
}

/* Equal factors share one tensor, by which tuff__select_by_region recognizes them. */
tuff_tensor *tuff__scale_by_region(const update *self, tuff_tensor *scalar, region_factor factor)
{
    const region *regions = self->optimizer->parameters->regions + self->slab_range->region;
    const int count = self->slab_range->region_end - self->slab_range->region;
    tuff_tensor *values[SLAB_RANGE_REGIONS_MAX];
    for (int i = 0; i < count; i++) {
        const double share = factor(self->optimizer, &regions[i]);
        const bool same = i > 0 && share == factor(self->optimizer, &regions[i - 1]);
        values[i] = same ? values[i - 1] : scaled_or_constant(scalar, share);
    }
    return tuff__select_by_region(self, values);
}

double tuff__region_rate(const tuff_optimizer *optimizer, const region *at)
{
    return optimizer->groups[at->group].rate_factor;
}

/* By default only matrices decay: biases and the gains of norms have no reason to be small. */
static double region_decay(const tuff_optimizer *optimizer, const region *at)
{
    return at->has_matrices || optimizer->options.decay_all ? optimizer->groups[at->group].weight_decay : 0;
}

double tuff__region_rate_decay(const tuff_optimizer *optimizer, const region *at)
{
    return tuff__region_rate(optimizer, at) * region_decay(optimizer, at);
}

/* Known when the graph is built, so that no kernel multiplies by a decay of 0. */
static bool decays(const update *self)
{
    for (int i = self->slab_range->region; i < self->slab_range->region_end; i++)
        if (region_decay(self->optimizer, &self->optimizer->parameters->regions[i]) > 0)
            return true;
    return false;
}

/* Loshchilov & Hutter 2019: the decay acts on the weights directly, and does not pass through the moments. */
tuff_tensor *tuff__decoupled_decay(const update *self)
{
    if (!decays(self))
        return self->weights;
    tuff_tensor *factor = tuff__scale_by_region(self, self->rate, tuff__region_rate_decay);
    return tuff_sub(self->weights, tuff_mul(factor, self->weights));
}

/* Returns the gradient plus that of an L2 penalty (weight decay). */
static tuff_tensor *decayed_gradient(const update *self)
{
    if (!decays(self))
        return self->gradients;
    tuff_tensor *factor = tuff__scale_by_region(self, tuff__f32(self->weights, 1), region_decay);
    return tuff_add(self->gradients, tuff_mul(factor, self->weights));
}

/* Returns beta · moment + (1 - beta) · sample. */
static tuff_tensor *blend(tuff_tensor *moment, double beta, tuff_tensor *sample)
{
    return tuff_add(tuff__scaled(moment, beta), tuff__scaled(sample, 1 - beta));
}

/* Returns 1 - beta^t; t is 1 in the first step. Uses expm1, because beta^t is near 1 at first. */
static tuff_tensor *bias_correction(double beta, tuff_tensor *t)
{
    return tuff_neg(tuff_expm1(tuff__scaled(t, log(beta))));
}

/* Kingma & Ba 2015, with epsilon outside the root. */
static tuff_tensor *adam_step(update *self, tuff_tensor *weights, tuff_tensor *gradients)
{
    const tuff_optimizer_options *options = &self->optimizer->options;
    tuff_tensor **moments = self->moments, *step = self->step;
    tuff_tensor *t = tuff_add(step, tuff__f32(step, 1));
    tuff_tensor *first_correction = bias_correction(options->beta1, t);
    tuff_tensor *second_correction = bias_correction(options->beta2, t);
    tuff_tensor *step_size = tuff_div(self->rate, first_correction);
    moments[0] = blend(moments[0], options->beta1, gradients);
    moments[1] = blend(moments[1], options->beta2, tuff_mul(gradients, gradients));
    tuff_tensor *root = tuff_sqrt(tuff_div(moments[1], second_correction));
    tuff_tensor *change = tuff_div(moments[0], tuff_add(root, tuff__f32(root, options->epsilon)));
    return tuff_sub(weights, tuff_mul(tuff__scale_by_region(self, step_size, tuff__region_rate), change));
}

static tuff_tensor *update_adamw(update *self)
{
    return adam_step(self, tuff__decoupled_decay(self), self->gradients);
}

static tuff_tensor *update_adam(update *self)
{
    return adam_step(self, self->weights, decayed_gradient(self));
}

/* Momentum as in PyTorch: m = momentum · m + change. */
static tuff_tensor *update_sgd(update *self)
{
    const tuff_optimizer_options *options = &self->optimizer->options;
    tuff_tensor *change = decayed_gradient(self);
    if (options->momentum > 0) {
        self->moments[0] = tuff_add(tuff__scaled(self->moments[0], options->momentum), change);
        change =
            options->nesterov ? tuff_add(change, tuff__scaled(self->moments[0], options->momentum)) : self->moments[0];
    }
    return tuff_sub(self->weights, tuff_mul(tuff__scale_by_region(self, self->rate, tuff__region_rate), change));
}

/* Plain SGD keeps no state but the step counter. */
static bool sgd_keeps_moments(const tuff_optimizer_options *options)
{
    return options->momentum > 0;
}

/* The sign of 0 is 0. */
static tuff_tensor *sign(tuff_tensor *x)
{
    tuff_tensor *zero = tuff__f32(x, 0);
    return tuff_where(tuff_less(zero, x), tuff__f32(x, 1), tuff_where(tuff_less(x, zero), tuff__f32(x, -1), zero));
}

/* Chen et al. 2023: the sign of one blend, while the moment keeps another. */
static tuff_tensor *update_lion(update *self)
{
    const tuff_optimizer_options *options = &self->optimizer->options;
    tuff_tensor *change = sign(blend(self->moments[0], options->beta1, self->gradients));
    self->moments[0] = blend(self->moments[0], options->beta2, self->gradients);
    return tuff_sub(tuff__decoupled_decay(self),
                    tuff_mul(tuff__scale_by_region(self, self->rate, tuff__region_rate), change));
}

static const optimizer_rule rules[TUFF_OPTIMIZER_COUNT] = {
    [TUFF_ADAMW] = {.name = "adamw", .moments = {"m", "v"}, .update = update_adamw},
    [TUFF_SGD] = {.name = "sgd", .moments = {"m"}, .keeps_moments = sgd_keeps_moments, .update = update_sgd},
    [TUFF_ADAM] = {.name = "adam", .moments = {"m", "v"}, .update = update_adam},
    [TUFF_LION] = {.name = "lion", .moments = {"m"}, .update = update_lion, .beta2 = 0.99},
    [TUFF_ADAFACTOR] = {.name = "adafactor",
                        .state_parts = tuff__adafactor_parts,
                        .update = tuff__update_adafactor,
                        .epsilon = 1e-30},
    [TUFF_MUON] = {.name = "muon",
                   .moments = {"m"},
                   .update = tuff__update_muon,
                   .fallback = &rules[TUFF_ADAMW],
                   .momentum = 0.95},
};

const optimizer_rule *tuff__optimizer_rule(int kind)
{
    return kind >= 0 && kind < TUFF_OPTIMIZER_COUNT && rules[kind].update ? &rules[kind] : NULL;
}
