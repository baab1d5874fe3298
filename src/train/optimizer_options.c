/* Options of an optimizer: fills in defaults and checks everything that a program may get wrong. */
#include "train/optimizer_options.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "train/rules.h"

/* A field that is 0 gets its default. */
static double or_default(double value, double standard)
{
    return value != 0 ? value : standard;
}

static bool is_positive(double value)
{
    return value > 0 && isfinite(value);
}

static bool is_at_least_zero(double value)
{
    return value >= 0 && isfinite(value);
}

/* Written so that NaN fails every check. */
static tuff_status check_numbers(const tuff_optimizer_options *o)
{
    if (!is_positive(o->learning_rate) || !is_positive(o->elementwise_rate))
        return FAIL(TUFF_E_USAGE, "optimizer: the learning rate %g is not a positive number",
                    is_positive(o->learning_rate) ? o->elementwise_rate : o->learning_rate);
    if (!(o->beta1 > 0 && o->beta1 < 1 && o->beta2 > 0 && o->beta2 < 1))
        return FAIL(TUFF_E_USAGE, "optimizer: beta1 %g and beta2 %g must be above 0 and below 1", o->beta1, o->beta2);
    /* Kernels compute in f32, and some devices flush denormals to 0, which would give 0 / 0 for a gradient that was
       always 0. */
    if (!(o->epsilon >= (double)FLT_MIN && o->epsilon <= (double)FLT_MAX))
        return FAIL(TUFF_E_USAGE, "optimizer: epsilon %g must be between %g and %g", o->epsilon, (double)FLT_MIN,
                    (double)FLT_MAX);
    if (!(o->momentum >= 0 && o->momentum < 1))
        return FAIL(TUFF_E_USAGE, "optimizer: the momentum %g must be at least 0 and below 1", o->momentum);
    if (!is_at_least_zero(o->weight_decay))
        return FAIL(TUFF_E_USAGE, "optimizer: weight_decay must be finite and at least 0, got %g", o->weight_decay);
    if (!is_at_least_zero(o->clip_norm) || !is_at_least_zero(o->clip_value))
        return FAIL(TUFF_E_USAGE, "optimizer: %s must be finite and at least 0, got %g",
                    is_at_least_zero(o->clip_norm) ? "clip_value" : "clip_norm",
                    is_at_least_zero(o->clip_norm) ? o->clip_value : o->clip_norm);
    if (!(o->average_decay >= 0 && o->average_decay < 1))
        return FAIL(TUFF_E_USAGE, "optimizer: average_decay %g must be at least 0 and below 1", o->average_decay);
    if (o->accumulate < 0 || o->accumulate > 1 << 20)
        return FAIL(TUFF_E_LIMIT, "optimizer: accumulate %" PRId32 " must be between 0 and %d", o->accumulate, 1 << 20);
    return TUFF_OK;
}

/* Whether the schedule depends on total_steps. */
static bool has_end(const tuff_optimizer_options *o)
{
    return o->schedule == TUFF_SCHEDULE_LINEAR || o->schedule == TUFF_SCHEDULE_COSINE ||
           o->schedule == TUFF_SCHEDULE_ONE_CYCLE;
}

/* The counter of batches is an i32, too. Computes in double, since the product of the three may exceed 63 bits. */
static tuff_status check_batches(const tuff_optimizer_options *o)
{
    const double epoch = o->steps_per_epoch > 0 ? (double)o->steps_per_epoch : 1,
                 parts = o->accumulate > 1 ? (double)o->accumulate : 1,
                 batches = (double)o->total_steps * epoch * parts;
    if (has_end(o) && batches > (double)INT32_MAX)
        return FAIL(TUFF_E_LIMIT, "optimizer: %.0f steps of %.0f batches each are %.0f batches, more than %" PRId32,
                    (double)o->total_steps * epoch, parts, batches, INT32_MAX);
    return TUFF_OK;
}

/* Steps are counted in i32 and enter the schedule as f32, which holds integers up to 2^24 exactly. */
static tuff_status check_schedule(const tuff_optimizer_options *o)
{
    const int64_t limit = 1 << 24;
    const tuff_schedule schedule = o->schedule;
    if (o->warmup_steps < 0 || o->warmup_steps > limit || o->total_steps < 0 || o->total_steps > limit)
        return FAIL(TUFF_E_LIMIT, "optimizer: warmup_steps %lld and total_steps %lld must be between 0 and %lld",
                    (long long)o->warmup_steps, (long long)o->total_steps, (long long)limit);
    if (o->steps_per_epoch < 0 || o->steps_per_epoch > limit)
        return FAIL(TUFF_E_LIMIT, "optimizer: steps_per_epoch %lld must be between 0 and %lld",
                    (long long)o->steps_per_epoch, (long long)limit);
    if ((int)schedule < 0 || schedule > TUFF_SCHEDULE_PROGRAM)
        return FAIL(TUFF_E_USAGE, "optimizer: unknown schedule %d", (int)schedule);
    if (has_end(o) && o->total_steps == 0)
        return FAIL(TUFF_E_USAGE, "optimizer: the schedule needs total_steps");
    if (has_end(o) && o->warmup_steps >= o->total_steps)
        return FAIL(TUFF_E_USAGE, "optimizer: %lld %s of warm-up must be fewer than the %lld in total",
                    (long long)o->warmup_steps, o->steps_per_epoch > 0 ? "epochs" : "steps", (long long)o->total_steps);
    if (!(o->final_fraction >= 0 && o->final_fraction <= 1))
        return FAIL(TUFF_E_USAGE, "optimizer: final_fraction %g must be between 0 and 1", o->final_fraction);
    return check_batches(o);
}

static tuff_status check_loss_scaling(const tuff_loss_scaling *o)
{
    if (!(o->low >= (double)FLT_MIN && o->low <= o->initial && o->initial <= o->high && o->high <= 0x1p126))
        return FAIL(TUFF_E_USAGE,
                    "loss scaling: the scale %g must be between %g and %g, and these between 2^-126 and 2^126",
                    o->initial, o->low, o->high);
    if (!(o->growth >= 1 && isfinite(o->growth) && o->backoff > 0 && o->backoff <= 1))
        return FAIL(TUFF_E_USAGE, "loss scaling: growth %g must be at least 1, backoff %g above 0 and at most 1",
                    o->growth, o->backoff);
    if (o->interval < 1 || o->interval > 1 << 24 || o->skip_limit < 1 || o->skip_limit > 1 << 24)
        return FAIL(TUFF_E_USAGE, "loss scaling: interval %lld and skip_limit %lld must be between 1 and %d",
                    (long long)o->interval, (long long)o->skip_limit, 1 << 24);
    return TUFF_OK;
}

/* The defaults of PyTorch's GradScaler: 2^16, factors 2 and 1/2, 2000 steps; the limits of the scale are added. */
static tuff_status complete_loss_scaling(tuff_optimizer *self)
{
    tuff_loss_scaling *o = &self->loss_scaling;
    if (!self->options.loss_scaling)
        return TUFF_OK;
    *o = *self->options.loss_scaling;
    o->initial = or_default(o->initial, 0x1p16);
    o->growth = or_default(o->growth, 2);
    o->backoff = or_default(o->backoff, 0.5);
    o->interval = o->interval ? o->interval : 2000;
    o->low = or_default(o->low, 0x1p-14);
    o->high = or_default(o->high, 0x1p24);
    o->skip_limit = o->skip_limit ? o->skip_limit : 32;
    self->options.loss_scaling = o;
    return check_loss_scaling(o);
}

/* Groups without options get the defaults. Weight decay 0 means the optimizer's own, so a negative one means none. */
static tuff_status complete_groups(tuff_optimizer *self)
{
    const tuff_optimizer_options *o = &self->options;
    const int count = self->parameters->group_count;
    if (o->group_count < 0 || o->group_count > count || (o->group_count > 0 && !o->groups))
        return FAIL(TUFF_E_USAGE, "optimizer: options for %d groups, but the parameters have %d", (int)o->group_count,
                    count);
    for (int i = 0; i < count; i++) {
        tuff_parameter_group *group = &self->groups[i];
        if (o->groups && i < o->group_count)
            *group = o->groups[i];
        group->rate_factor = or_default(group->rate_factor, 1);
        group->weight_decay = group->weight_decay < 0 ? 0 : or_default(group->weight_decay, o->weight_decay);
        if (!is_positive(group->rate_factor) || !is_at_least_zero(group->weight_decay) ||
            !is_at_least_zero(group->clip_norm))
            return FAIL(TUFF_E_USAGE,
                        "optimizer: group %d: rate_factor %g must be positive, weight_decay %g finite, and clip_norm "
                        "%g at least 0",
                        i, group->rate_factor, group->weight_decay, group->clip_norm);
    }
    self->options.groups = self->groups;
    self->options.group_count = count;
    return TUFF_OK;
}

/* In this order, because defaults depend on each other: the rule's come before general ones, and the elementwise rate
   is by default the learning rate. */
tuff_status tuff__complete_options(tuff_optimizer *self, const tuff_optimizer_options *given)
{
    tuff_optimizer_options *out = &self->options;
    *out = given ? *given : (tuff_optimizer_options){0};
    self->rule = tuff__optimizer_rule((int)out->kind);
    if (!self->rule)
        return FAIL(TUFF_E_USAGE, "optimizer: unknown kind %d", (int)out->kind);
    out->learning_rate = or_default(out->learning_rate, 1e-3);
    out->elementwise_rate = or_default(out->elementwise_rate, out->learning_rate);
    out->beta1 = or_default(out->beta1, or_default(self->rule->beta1, 0.9));
    out->beta2 = or_default(out->beta2, or_default(self->rule->beta2, 0.999));
    out->epsilon = or_default(out->epsilon, or_default(self->rule->epsilon, 1e-8));
    out->momentum = or_default(out->momentum, self->rule->momentum);
    if (out->schedule == TUFF_SCHEDULE_DEFAULT)
        out->schedule = out->total_steps > 0 ? TUFF_SCHEDULE_COSINE : TUFF_SCHEDULE_CONSTANT;
    TRY(check_numbers(out));
    TRY(check_schedule(out));
    TRY(complete_loss_scaling(self));
    return complete_groups(self);
}
