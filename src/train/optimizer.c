/* The optimizer's state: which rule updates which run of which slab, and the arrays kept for it. Optimizers differ only
   in their row in rules.c; nothing here depends on the kind. parameters.c lays out the slabs; step.c builds the
   graph. */
#include "train/optimizer_options.h"
#include "train/rules.h"
#include "train/state.h"

bool tuff__is_trained(const tuff_optimizer *optimizer, const parameter *item)
{
    return !optimizer->groups[item->group].frozen;
}

static const optimizer_rule *rule_of(const tuff_optimizer *self, const region *at)
{
    const bool per_matrix = at->has_matrices && !self->groups[at->group].elementwise;
    return per_matrix || !self->rule->fallback ? self->rule : self->rule->fallback;
}

/* Merges adjacent regions with the same rule into one slab range, to have as few dispatches as the rules allow. */
static tuff_status add_region(tuff_optimizer *self, int index)
{
    const region *at = &self->parameters->regions[index];
    const optimizer_rule *rule = rule_of(self, at);
    slab_range *last = self->slab_range_count > 0 ? &self->slab_ranges[self->slab_range_count - 1] : NULL;
    if (last && last->slab == at->slab && last->end == at->begin && last->rule == rule) {
        last->end = at->end;
        last->region_end = index + 1;
        return TUFF_OK;
    }
    if (!GROW(self->slab_ranges, self->slab_range_count, self->slab_range_capacity))
        return TUFF_E_OOM_HOST;
    self->slab_ranges[self->slab_range_count++] = (slab_range){
        .rule = rule, .slab = at->slab, .region = index, .region_end = index + 1, .begin = at->begin, .end = at->end};
    return TUFF_OK;
}

/* Frozen regions belong to no slab range. The gradients of a slab reach from its first region that is trained to its
   last. */
static tuff_status make_slab_ranges(tuff_optimizer *self)
{
    const tuff_parameters *parameters = self->parameters;
    self->gradient_ranges = tuff__calloc((size_t)parameters->slab_count, sizeof *self->gradient_ranges);
    if (!self->gradient_ranges)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < parameters->region_count; i++) {
        const region *at = &parameters->regions[i];
        gradient_range *range = &self->gradient_ranges[at->slab];
        if (self->groups[at->group].frozen || at->begin == at->end)
            continue;
        if (range->end == 0)
            range->begin = at->begin;
        range->end = at->end;
        TRY(add_region(self, i));
    }
    return self->slab_range_count > 0 ? TUFF_OK : FAIL(TUFF_E_USAGE, "optimizer: all parameters are frozen");
}

static tuff_status make_array(const tuff_optimizer *self, tuff_dtype dtype, tuff_shape shape, tuff_array **out)
{
    *out = tuff_array_create(self->parameters->device, dtype, shape);
    return *out ? TUFF_OK : tuff_last_status();
}

static tuff_status make_scalar(const tuff_optimizer *self, double value, tuff_array **out)
{
    const float first = (float)value;
    TRY(make_array(self, TUFF_F32, TUFF_SCALAR, out));
    return tuff_array_write(*out, &first, sizeof first);
}

/* Returns the number of elements of a slab range's state_parts. */
static int64_t factors_total(const tuff_optimizer *self, const slab_range *range)
{
    int64_t total = 0;
    const tuff_parameters *parameters = self->parameters;
    for (int i = parameters->slabs[range->slab].first; i < parameters->slabs[range->slab].last; i++)
        total += tuff__factors_size(range, &parameters->items[parameters->order[i]]);
    return total > 0 ? total : SLAB_ALIGNMENT;
}

/* Moments need no initialization: new arrays are zero. */
static tuff_status make_slab_range_arrays(tuff_optimizer *self, slab_range *range)
{
    const optimizer_rule *rule = range->rule;
    const parameter_slab *slab = &self->parameters->slabs[range->slab];
    const tuff_shape shape = TUFF_SHAPE(range->end - range->begin);
    const bool keeps_moments = !rule->keeps_moments || rule->keeps_moments(&self->options);
    range->owns_weights = range->begin > 0 || range->end < slab->total;
    range->weights = range->owns_weights ? tuff_array_view(slab->array, range->begin, shape) : slab->array;
    if (!range->weights)
        return tuff_last_status();
    for (int i = 0; keeps_moments && i < MOMENTS_MAX && rule->moments[i]; i++)
        TRY(make_array(self, TUFF_F32, shape, &range->moments[i]));
    if (rule->state_parts)
        TRY(make_array(self, TUFF_F32, TUFF_SHAPE(factors_total(self, range)), &range->factors));
    return self->options.average_decay > 0 ? make_array(self, TUFF_F32, shape, &range->average) : TUFF_OK;
}

static tuff_status make_averages(tuff_optimizer *self)
{
    const tuff_parameters *parameters = self->parameters;
    if (self->options.average_decay <= 0)
        return TUFF_OK;
    self->averages = tuff__calloc((size_t)parameters->count, sizeof(tuff_array *));
    if (!self->averages)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < parameters->count; i++) {
        const slab_range *range = tuff__find_slab_range(self, &parameters->items[i]);
        if (!range)
            continue;
        self->averages[i] =
            tuff_array_view(range->average, parameters->items[i].offset - range->begin, parameters->items[i].shape);
        if (!self->averages[i])
            return tuff_last_status();
    }
    return TUFF_OK;
}

static tuff_status make_parts(tuff_optimizer *self)
{
    const tuff_parameters *parameters = self->parameters;
    if (!self->rule->state_parts)
        return TUFF_OK;
    self->parts = tuff__calloc((size_t)parameters->count * STATE_PARTS_MAX, sizeof(tuff_array *));
    if (!self->parts)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < parameters->count; i++) {
        state_part parts[STATE_PARTS_MAX];
        const slab_range *range = tuff__find_slab_range(self, &parameters->items[i]);
        if (!range || parameters->items[i].count == 0)
            continue;
        int64_t offset = tuff__factors_offset(self, range, i);
        const int count = range->rule->state_parts(&parameters->items[i], parts);
        for (int k = 0; k < count; k++) {
            tuff_array **view = &self->parts[i * STATE_PARTS_MAX + k];
            *view = tuff_array_view(range->factors, offset, parts[k].shape);
            if (!*view)
                return tuff_last_status();
            offset += tuff__aligned_count(parts[k].shape);
        }
    }
    return TUFF_OK;
}

/* Creates the counters and the values that are carried from step to step. */
static tuff_status make_scalars(tuff_optimizer *self)
{
    const tuff_optimizer_options *options = &self->options;
    TRY(make_array(self, TUFF_I32, TUFF_SCALAR, &self->counter));
    if (options->schedule == TUFF_SCHEDULE_PROGRAM)
        TRY(make_scalar(self, options->learning_rate, &self->rate));
    /* Accumulating and skipping make batches and steps different numbers. Otherwise one counter serves for both. */
    if (options->accumulate > 1 || options->loss_scaling)
        TRY(make_array(self, TUFF_I32, TUFF_SCALAR, &self->batches));
    if (options->loss_scaling) {
        TRY(make_scalar(self, options->loss_scaling->initial, &self->scale));
        TRY(make_array(self, TUFF_I32, TUFF_SHAPE(3), &self->scale_counts));
    }
    if (options->accumulate <= 1)
        return TUFF_OK;
    for (int i = 0; i < self->parameters->slab_count; i++) {
        gradient_range *range = &self->gradient_ranges[i];
        if (range->end > range->begin)
            TRY(make_array(self, TUFF_F32, TUFF_SHAPE(range->end - range->begin), &range->accumulated));
    }
    return make_scalar(self, 0, &self->loss);
}

static tuff_status make_state(tuff_optimizer *self, const tuff_optimizer_options *options)
{
    TRY(tuff__complete_options(self, options));
    TRY(make_slab_ranges(self));
    for (int i = 0; i < self->slab_range_count; i++)
        TRY(make_slab_range_arrays(self, &self->slab_ranges[i]));
    TRY(make_averages(self));
    TRY(make_parts(self));
    return make_scalars(self);
}

tuff_optimizer *tuff_optimizer_create(tuff_parameters *parameters, const tuff_optimizer_options *options)
{
    if (!parameters) {
        FAIL(TUFF_E_USAGE, "optimizer: the parameters are NULL");
        return NULL;
    }
    tuff_optimizer *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->parameters = parameters;
    if (make_state(self, options) != TUFF_OK) {
        tuff_optimizer_destroy(self);
        return NULL;
    }
    return self;
}

/* The view of the weights is owned; the slab itself, which is used if the range is all of it, belongs to the
   parameters. */
static void destroy_slab_range(slab_range *range)
{
    for (int i = 0; i < MOMENTS_MAX; i++)
        tuff_array_destroy(range->moments[i]);
    tuff_array_destroy(range->factors);
    tuff_array_destroy(range->average);
    if (range->owns_weights)
        tuff_array_destroy(range->weights);
}

/* Uses the parameters, which must still exist. Views go before the arrays in which they lie. */
void tuff_optimizer_destroy(tuff_optimizer *optimizer)
{
    if (!optimizer)
        return;
    for (int i = 0; i < optimizer->parameters->count && optimizer->averages; i++)
        tuff_array_destroy(optimizer->averages[i]);
    for (int i = 0; i < optimizer->parameters->count * STATE_PARTS_MAX && optimizer->parts; i++)
        tuff_array_destroy(optimizer->parts[i]);
    for (int i = 0; i < optimizer->slab_range_count; i++)
        destroy_slab_range(&optimizer->slab_ranges[i]);
    for (int i = 0; i < optimizer->parameters->slab_count && optimizer->gradient_ranges; i++)
        tuff_array_destroy(optimizer->gradient_ranges[i].accumulated);
    tuff_array_destroy(optimizer->counter);
    tuff_array_destroy(optimizer->batches);
    tuff_array_destroy(optimizer->rate);
    tuff_array_destroy(optimizer->loss);
    tuff_array_destroy(optimizer->scale);
    tuff_array_destroy(optimizer->scale_counts);
    tuff__free(optimizer->averages);
    tuff__free(optimizer->parts);
    tuff__free(optimizer->slab_ranges);
    tuff__free(optimizer->gradient_ranges);
    tuff__free(optimizer);
}

tuff_array *tuff_optimizer_counter(tuff_optimizer *optimizer)
{
    return optimizer ? optimizer->counter : NULL;
}

tuff_array *tuff_optimizer_batch_counter(tuff_optimizer *optimizer)
{
    return optimizer && optimizer->batches ? optimizer->batches : tuff_optimizer_counter(optimizer);
}

tuff_array *tuff_optimizer_rate(tuff_optimizer *optimizer)
{
    return optimizer ? optimizer->rate : NULL;
}

tuff_array *tuff_optimizer_average(tuff_optimizer *optimizer, int index)
{
    return optimizer && optimizer->averages && index >= 0 && index < optimizer->parameters->count
               ? optimizer->averages[index]
               : NULL;
}
