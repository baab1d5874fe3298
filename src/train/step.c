/* The part of a graph that turns a loss into an update. Gradients are gathered into slabs in the layout of the
   parameters (the compiler writes them directly to their place), so that norm, clipping and update are a few dispatches
   over whole slabs. A step is one graph, or two: one plan accumulates gradients, with which the other begins. */
#include "graph/graph.h"
#include "train/masks.h"
#include "train/rules.h"
#include "train/scaling.h"
#include "train/slab.h"

typedef struct step {
    tuff_optimizer *optimizer;
    tuff_graph *graph;
    tuff_phase phase;     /* the graph's phase before */
    tuff_tensor **slabs;  /* gradients of each slab's range, times the loss scale; NULL if all of it is frozen */
    tuff_tensor *unscale; /* factor that removes the loss scale; NULL: 1 */
    tuff_tensor *skip;    /* bool, whether to skip the step; NULL: never */
    tuff_tensor *done, *rate;
    tuff_tensor *squares[TUFF_MAX_GROUPS]; /* sums of squares per group; if only the total is needed, in the first */
    tuff_tensor *factors[TUFF_MAX_GROUPS]; /* factor of a group's gradients; NULL: 1 */
    tuff_tensor **masks;                   /* by parameter, from tuff__choose_masks; NULL: all are updated */
} step;

static bool clips_groups(const tuff_optimizer *self)
{
    for (int i = 0; i < self->options.group_count; i++)
        if (self->groups[i].clip_norm > 0)
            return true;
    return false;
}

/* Sums by group are more launches, so they are made only if something needs them. Otherwise all gradients count as one
   group. */
static int norm_group_count(const tuff_optimizer *self)
{
    return clips_groups(self) || self->options.tensor_norms ? self->options.group_count : 1;
}

/* Returns the gradients of a slab's range as one tensor, in the order of elements. NULL if out of memory. */
static tuff_tensor *gradient_slab(const step *self, int index, tuff_tensor *const *gradients)
{
    const tuff_parameters *parameters = self->optimizer->parameters;
    const gradient_range *range = &self->optimizer->gradient_ranges[index];
    slab_builder made = {.graph = self->graph};
    for (int i = parameters->slabs[index].first; i < parameters->slabs[index].last; i++) {
        const parameter *item = &parameters->items[parameters->order[i]];
        if (tuff__is_trained(self->optimizer, item))
            tuff__slab_add(&made, gradients[parameters->order[i]], item->offset - range->begin, item->count);
    }
    return tuff__slab_join(&made, range->end - range->begin);
}

static bool has_gradients(const tuff_optimizer *self, int slab_index)
{
    return self->gradient_ranges[slab_index].end > self->gradient_ranges[slab_index].begin;
}

/* Returns the loss, scaled as it must be before gradients are taken. */
static tuff_tensor *scaled_loss(const tuff_optimizer *optimizer, tuff_tensor *loss)
{
    tuff_graph *graph = tuff_tensor_graph(loss);
    if (optimizer->options.accumulate > 1)
        loss = tuff__scaled(loss, 1.0 / optimizer->options.accumulate);
    return optimizer->scale ? tuff_mul(loss, tuff_array_tensor(graph, optimizer->scale)) : loss;
}

/* Builds the gradients of the loss with respect to all parameters that are not frozen. `wrt` must have room for twice
   the number of parameters. */
static tuff_status build_gradients_into(step *self, tuff_tensor *loss, tuff_tensor **wrt)
{
    const tuff_parameters *parameters = self->optimizer->parameters;
    tuff_tensor **gradients = wrt + parameters->count;
    int count = 0;
    for (int i = 0; i < parameters->count; i++)
        if (tuff__is_trained(self->optimizer, &parameters->items[i]))
            wrt[count++] = tuff_array_tensor(self->graph, parameters->items[i].array);
    TRY(tuff_gradients(scaled_loss(self->optimizer, loss), wrt, count, gradients));
    for (int i = parameters->count - 1; i >= 0; i--) /* from indices among the trained to indices among all */
        if (tuff__is_trained(self->optimizer, &parameters->items[i]))
            gradients[i] = gradients[--count];
    for (int i = 0; i < parameters->slab_count; i++) {
        if (!has_gradients(self->optimizer, i))
            continue;
        self->slabs[i] = gradient_slab(self, i, gradients);
        if (!self->slabs[i])
            return TUFF_E_OOM_HOST;
    }
    return TUFF_OK;
}

static tuff_status build_gradients(step *self, tuff_tensor *loss)
{
    tuff_tensor **buffer = tuff__calloc(2 * (size_t)self->optimizer->parameters->count, sizeof *buffer);
    if (!buffer)
        return TUFF_E_OOM_HOST;
    const tuff_status status = build_gradients_into(self, loss, buffer);
    tuff__free(buffer);
    return status;
}

static tuff_tensor *unscaled(const step *self, tuff_tensor *x)
{
    return self->unscale ? tuff_mul(x, self->unscale) : x;
}

/* Adds a term to *sum, which is NULL before the first. */
static void add_to(tuff_tensor **sum, tuff_tensor *term)
{
    *sum = *sum ? tuff_add(*sum, term) : term;
}

/* Computes sums of squares, of all gradients or per group, in two stages: the first has an independent row for every
   chunk. Groups begin at whole chunks. */
static void sum_squares(step *self)
{
    const tuff_optimizer *optimizer = self->optimizer;
    const tuff_parameters *parameters = optimizer->parameters;
    const int last = 1, first = 0, groups = norm_group_count(optimizer);
    for (int i = 0; i < parameters->slab_count; i++) {
        const gradient_range *range = &optimizer->gradient_ranges[i];
        if (!has_gradients(optimizer, i))
            continue;
        const int64_t chunks = (range->end - range->begin) / SLAB_CHUNK;
        tuff_tensor *rows = unscaled(self, tuff_reshape(self->slabs[i], TUFF_SHAPE(chunks, SLAB_CHUNK)));
        tuff_tensor *sums = tuff_sum(tuff_mul(rows, rows), &last, 1, false);
        if (groups == 1)
            add_to(&self->squares[0], tuff_sum(sums, &first, 1, false));
        for (int k = parameters->slabs[i].region; k < parameters->slabs[i].region_end && groups > 1; k++) {
            const region *at = &parameters->regions[k];
            int64_t end = at->end; /* regions of a group are adjacent and end at a whole chunk */
            while (k + 1 < parameters->slabs[i].region_end && parameters->regions[k + 1].group == at->group)
                end = parameters->regions[++k].end;
            if (!optimizer->groups[at->group].frozen && end > at->begin)
                add_to(&self->squares[at->group],
                       tuff_sum(tuff__slab_part(sums, (at->begin - range->begin) / SLAB_CHUNK,
                                                TUFF_SHAPE((end - at->begin) / SLAB_CHUNK)),
                                &first, 1, false));
        }
    }
}

/* The epsilon avoids dividing by a norm of 0. The factor is 1 if the norm is small enough. */
static tuff_tensor *clip_factor(double limit, tuff_tensor *norm)
{
    tuff_tensor *factor = tuff_div(tuff__f32(norm, limit), tuff_add(norm, tuff__f32(norm, 1e-6)));
    return tuff_min(factor, tuff__f32(norm, 1));
}

static tuff_tensor *product(tuff_tensor *x, tuff_tensor *y)
{
    return !x ? y : !y ? x : tuff_mul(x, y);
}

/* Sets the factors of all groups' gradients. Returns the norm of all gradients before clipping. */
static tuff_tensor *clip_norms(step *self)
{
    const tuff_optimizer *optimizer = self->optimizer;
    tuff_tensor *before = NULL, *after = NULL, *total_factor = NULL;
    for (int i = 0; i < norm_group_count(optimizer); i++) {
        tuff_tensor *squares = self->squares[i];
        if (!squares)
            continue;
        add_to(&before, squares);
        if (optimizer->groups[i].clip_norm > 0) {
            self->factors[i] = clip_factor(optimizer->groups[i].clip_norm, tuff_sqrt(squares));
            squares = tuff_mul(squares, tuff_mul(self->factors[i], self->factors[i]));
        }
        add_to(&after, squares);
    }
    tuff_tensor *norm = tuff_sqrt(before);
    if (optimizer->options.clip_norm > 0)
        total_factor = clip_factor(optimizer->options.clip_norm, after == before ? norm : tuff_sqrt(after));
    for (int i = 0; i < optimizer->options.group_count; i++)
        self->factors[i] = product(product(self->factors[i], total_factor), self->unscale);
    return norm;
}

/* After the norms: limits apply to what the rule sees. */
static tuff_tensor *clip_values(const step *self, tuff_tensor *gradients)
{
    const double limit = self->optimizer->options.clip_value;
    if (limit <= 0)
        return gradients;
    return tuff_max(tuff_min(gradients, tuff__f32(gradients, limit)), tuff__f32(gradients, -limit));
}

/* Returns the gradients of a slab range for its rule: unscaled and clipped. */
static tuff_tensor *slab_range_gradients(const step *self, const update *made)
{
    const gradient_range *range = &self->optimizer->gradient_ranges[made->slab_range->slab];
    const region *regions = self->optimizer->parameters->regions + made->slab_range->region;
    tuff_tensor *gradients =
        tuff__slab_part(self->slabs[made->slab_range->slab], made->slab_range->begin - range->begin,
                        TUFF_SHAPE(made->slab_range->end - made->slab_range->begin));
    tuff_tensor *values[SLAB_RANGE_REGIONS_MAX];
    for (int i = 0; i < made->slab_range->region_end - made->slab_range->region; i++) {
        tuff_tensor *const *factor = &self->factors[regions[i].group];
        const bool same = i > 0 && regions[i].group == regions[i - 1].group;
        values[i] = same ? values[i - 1] : *factor ? *factor : tuff_constant(self->graph, TUFF_F32, 1);
    }
    if (self->factors[regions[0].group] || clips_groups(self->optimizer))
        gradients =
            tuff_mul(gradients, clips_groups(self->optimizer) ? tuff__select_by_region(made, values) : values[0]);
    return clip_values(self, gradients);
}

/* Assigns the new elements, or the old ones bit for bit if the step is skipped. */
static void assign(const step *self, tuff_array *array, tuff_tensor *before, tuff_tensor *after)
{
    tuff_assign(self->graph, array, self->skip ? tuff_where(self->skip, before, after) : after);
}

/* Returns the new elements where the mask is true, else the old ones. */
static tuff_tensor *apply_mask(tuff_tensor *mask, tuff_tensor *before, tuff_tensor *after)
{
    return mask ? tuff_where(mask, after, before) : after;
}

/* With zero_masked, the mask applies to gradients only: sets *mask to NULL, so that assignments are not masked. */
static tuff_tensor *mask_gradients(const step *self, tuff_tensor **mask, tuff_tensor *gradients)
{
    if (!*mask || !self->optimizer->options.zero_masked)
        return gradients;
    gradients = tuff_where(*mask, gradients, tuff__f32(gradients, 0));
    *mask = NULL;
    return gradients;
}

/* In the first step there is no average to blend with. */
static void assign_average(const step *self, tuff_array *into, tuff_tensor *weights, tuff_tensor *mask)
{
    const double decay = self->optimizer->options.average_decay;
    tuff_tensor *average = tuff_array_tensor(self->graph, into);
    tuff_tensor *blended = tuff_add(tuff__scaled(average, decay), tuff__scaled(weights, 1 - decay));
    tuff_tensor *is_first = tuff_equal(self->done, tuff__f32(self->done, 0));
    assign(self, into, average, tuff_where(is_first, weights, apply_mask(mask, average, blended)));
}

/* Reads parameters and moments before assigning any of them: a plan assigns at its end. */
static tuff_status update_slab(const step *self, update *made)
{
    const slab_range *range = made->slab_range;
    tuff_tensor *moments[MOMENTS_MAX] = {NULL};
    for (int i = 0; i < MOMENTS_MAX && range->moments[i]; i++)
        moments[i] = made->moments[i] = tuff_array_tensor(self->graph, range->moments[i]);
    tuff_tensor *weights = made->weights = tuff_array_tensor(self->graph, range->weights), *mask = NULL;
    if (self->masks)
        TRY(tuff__slab_range_mask(self->optimizer, range, self->masks, &mask));
    made->gradients = mask_gradients(self, &mask, slab_range_gradients(self, made));
    tuff_tensor *after = range->rule->update(made);
    if (!after)
        return TUFF_E_OOM_HOST;
    after = apply_mask(mask, weights, after);
    assign(self, range->weights, weights, after);
    for (int i = 0; i < MOMENTS_MAX && range->moments[i]; i++)
        assign(self, range->moments[i], moments[i], apply_mask(mask, moments[i], made->moments[i]));
    if (range->average)
        assign_average(self, range->average, after, mask);
    return TUFF_OK;
}

static void assign_parts(const step *self, int index, tuff_tensor *const *before, tuff_tensor *const *after,
                         tuff_tensor *mask)
{
    const parameter *item = &self->optimizer->parameters->items[index];
    tuff_array *const *states = &self->optimizer->parts[index * STATE_PARTS_MAX];
    state_part parts[STATE_PARTS_MAX];
    const int count = self->optimizer->rule->state_parts(item, parts);
    for (int i = 0; i < count && states[i]; i++) {
        tuff_tensor *part_mask =
            parts[i].is_common ? tuff__any_row_mask(mask) : tuff__broadcast_row_mask(mask, parts[i].shape.rank);
        assign(self, states[i], before[i], apply_mask(part_mask, before[i], after[i]));
    }
}

/* A rule with state_parts updates each parameter by itself. */
static tuff_status update_parameter(const step *self, update *made, int index)
{
    const parameter *item = &self->optimizer->parameters->items[index];
    tuff_array *const *states = &self->optimizer->parts[index * STATE_PARTS_MAX];
    tuff_tensor *parts[STATE_PARTS_MAX] = {NULL}, *mask = self->masks ? self->masks[index] : NULL;
    for (int i = 0; i < STATE_PARTS_MAX && states[i]; i++)
        parts[i] = made->parts[i] = tuff_array_tensor(self->graph, states[i]);
    made->region = &self->optimizer->parameters->regions[item->region];
    tuff_tensor *weights = made->weights = tuff_array_tensor(self->graph, item->array);
    tuff_tensor *factor = self->factors[item->group];
    made->gradients = tuff__slab_part(self->slabs[item->slab],
                                      item->offset - self->optimizer->gradient_ranges[item->slab].begin, item->shape);
    tuff_tensor *by_row = tuff__broadcast_row_mask(mask, item->shape.rank);
    made->gradients = mask_gradients(self, &by_row, clip_values(self, product(made->gradients, factor)));
    mask = by_row ? mask : NULL;
    tuff_tensor *after = made->slab_range->rule->update(made);
    if (!after)
        return TUFF_E_OOM_HOST;
    after = apply_mask(by_row, weights, after);
    assign(self, item->array, weights, after);
    assign_parts(self, index, parts, made->parts, mask);
    if (self->optimizer->averages)
        assign_average(self, self->optimizer->averages[index], after, by_row);
    return TUFF_OK;
}

static tuff_status update_slab_range(const step *self, const slab_range *range)
{
    const tuff_optimizer *optimizer = self->optimizer;
    const tuff_parameters *parameters = optimizer->parameters;
    update made = {.optimizer = optimizer, .slab_range = range, .step = self->done, .rate = self->rate};
    if (range->rule != optimizer->rule && optimizer->options.elementwise_rate != optimizer->options.learning_rate)
        made.rate = tuff__scaled(made.rate, optimizer->options.elementwise_rate / optimizer->options.learning_rate);
    if (!range->rule->state_parts)
        return update_slab(self, &made);
    for (int i = parameters->slabs[range->slab].first; i < parameters->slabs[range->slab].last; i++) {
        const parameter *item = &parameters->items[parameters->order[i]];
        if (item->offset >= range->begin && item->offset < range->end && item->count > 0)
            TRY(update_parameter(self, &made, parameters->order[i]));
    }
    return TUFF_OK;
}

/* A skipped step is no step, but its batch was used: also_skipped is for the counter of batches. */
static void increment(const step *self, tuff_array *counter, bool also_skipped)
{
    tuff_tensor *count = tuff_array_tensor(self->graph, counter);
    tuff_tensor *next = tuff_add(count, tuff_constant(self->graph, TUFF_I32, 1));
    if (also_skipped)
        tuff_assign(self->graph, counter, next);
    else
        assign(self, counter, count, next);
}

/* Returns [count] with the roots of the scalars; 0 for NULL. */
static tuff_tensor *join_norms(const step *self, tuff_tensor *const *squares, int count)
{
    slab_builder made = {.graph = self->graph};
    for (int i = 0; i < count; i++)
        if (squares[i])
            tuff__slab_add(&made, tuff_sqrt(squares[i]), i, 1);
    return tuff__slab_join(&made, count);
}

/* Returns a parameter's unscaled gradient, in any shape with the same number of elements. */
static tuff_tensor *parameter_gradient(const step *self, const parameter *item, tuff_shape shape)
{
    const int64_t at = item->offset - self->optimizer->gradient_ranges[item->slab].begin;
    if (item->count == 0)
        return tuff_expand(tuff_constant(self->graph, TUFF_F32, 0), shape);
    return unscaled(self, tuff__slab_part(self->slabs[item->slab], at, shape));
}

static tuff_status choose_masks(step *self, const tuff_optimizer_tensors *made)
{
    const tuff_optimizer *optimizer = self->optimizer;
    const tuff_parameters *parameters = optimizer->parameters;
    if (!optimizer->options.choose)
        return TUFF_OK;
    tuff_tensor **gradients = tuff__calloc((size_t)parameters->count, sizeof *gradients);
    if (!gradients)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < parameters->count; i++)
        if (tuff__is_trained(optimizer, &parameters->items[i]))
            gradients[i] = parameter_gradient(self, &parameters->items[i], parameters->items[i].shape);
    const tuff_status status = tuff__choose_masks(optimizer, self->graph, made, gradients, &self->masks);
    tuff__free(gradients);
    return status;
}

static tuff_status list_norms(const step *self, tuff_optimizer_tensors *made)
{
    const tuff_parameters *parameters = self->optimizer->parameters;
    const int first = 0;
    tuff_tensor **squares = tuff__calloc((size_t)parameters->count, sizeof *squares);
    if (!squares)
        return TUFF_E_OOM_HOST;
    for (int i = 0; i < parameters->count; i++) {
        const parameter *item = &parameters->items[i];
        if (!tuff__is_trained(self->optimizer, item) || item->count == 0)
            continue;
        tuff_tensor *part = parameter_gradient(self, item, TUFF_SHAPE(item->count));
        squares[i] = tuff_sum(tuff_mul(part, part), &first, 1, false);
    }
    made->tensor_norms = join_norms(self, squares, parameters->count);
    made->group_norms = join_norms(self, self->squares, self->optimizer->options.group_count);
    tuff__free(squares);
    return made->tensor_norms && made->group_norms ? TUFF_OK : TUFF_E_OOM_HOST;
}

/* Looks at the gradients before anything else uses them: one element that is not finite skips the whole step. */
static void begin_scaling(step *self, tuff_optimizer_tensors *made)
{
    tuff_optimizer *optimizer = self->optimizer;
    made->loss_scale = tuff_constant(self->graph, TUFF_F32, 1);
    made->skipped = made->skipped_in_row = tuff_constant(self->graph, TUFF_I32, 0);
    if (!optimizer->scale)
        return;
    self->unscale = tuff_div(tuff_constant(self->graph, TUFF_F32, 1), tuff_array_tensor(self->graph, optimizer->scale));
    self->skip = tuff__any_not_finite(self->graph, self->slabs, optimizer->parameters->slab_count);
    tuff__update_loss_scale(optimizer, self->skip, made);
}

/* Builds everything after the gradients. */
static tuff_status build_update(step *self, tuff_optimizer_tensors *made)
{
    tuff_optimizer *optimizer = self->optimizer;
    tuff_graph *graph = self->graph;
    (void)tuff_graph_phase(graph, TUFF_PHASE_OPTIMIZER);
    begin_scaling(self, made);
    sum_squares(self);
    made->gradient_norm = clip_norms(self);
    tuff_tensor *counter = tuff_array_tensor(graph, optimizer->counter);
    self->done = tuff_cast(counter, TUFF_F32);
    self->rate = optimizer->rate ? tuff_array_tensor(graph, optimizer->rate)
                                 : tuff__learning_rate(&optimizer->options, counter, self->done);
    made->learning_rate = self->rate;
    if (optimizer->options.tensor_norms)
        TRY(list_norms(self, made));
    TRY(choose_masks(self, made));
    for (int i = 0; i < optimizer->slab_range_count; i++)
        TRY(update_slab_range(self, &optimizer->slab_ranges[i]));
    increment(self, optimizer->counter, false);
    return TUFF_OK;
}

static tuff_status begin_step(step *self, tuff_optimizer *optimizer, tuff_graph *graph)
{
    *self = (step){.optimizer = optimizer, .graph = graph};
    self->slabs = tuff__calloc((size_t)optimizer->parameters->slab_count, sizeof *self->slabs);
    if (!self->slabs)
        return TUFF_E_OOM_HOST;
    self->phase = tuff_graph_phase(graph, TUFF_PHASE_BACKWARD);
    return TUFF_OK;
}

/* Returns status, or the graph's error if building succeeded: the graph keeps its own errors. */
static tuff_status end_step(step *self, tuff_status status)
{
    tuff__free(self->slabs);
    tuff__free(self->masks);
    (void)tuff_graph_phase(self->graph, self->phase);
    if (status != TUFF_OK && tuff_graph_status(self->graph) == TUFF_OK)
        tuff__graph_fail(self->graph, status, "%s", tuff_error()); /* part of a step must not be compiled */
    TRY(status);
    if (tuff_graph_status(self->graph) != TUFF_OK)
        return FAIL(tuff_graph_status(self->graph), "%s", tuff_graph_error(self->graph));
    return TUFF_OK;
}

static tuff_status check_arguments(const tuff_optimizer *optimizer, const void *graph, bool accumulates)
{
    if (!optimizer || !graph)
        return FAIL(TUFF_E_USAGE, "optimizer: the %s is NULL", optimizer ? "loss or graph" : "optimizer");
    if (accumulates != (optimizer->options.accumulate > 1))
        return FAIL(TUFF_E_USAGE, "optimizer: with accumulate %d, a step must be built with %s",
                    (int)optimizer->options.accumulate,
                    accumulates ? "tuff_optimizer_apply" : "tuff_optimizer_accumulate and tuff_optimizer_update");
    return TUFF_OK;
}

tuff_status tuff_optimizer_apply(tuff_optimizer *optimizer, tuff_tensor *loss, tuff_optimizer_tensors *tensors)
{
    step self;
    tuff_optimizer_tensors made = {.loss = loss};
    TRY(check_arguments(optimizer, loss ? tuff_tensor_graph(loss) : NULL, false));
    TRY(begin_step(&self, optimizer, tuff_tensor_graph(loss)));
    tuff_status status = build_gradients(&self, loss);
    if (status == TUFF_OK)
        status = build_update(&self, &made);
    if (status == TUFF_OK && optimizer->batches)
        increment(&self, optimizer->batches, true);
    TRY(end_step(&self, status));
    if (tensors)
        *tensors = made;
    return TUFF_OK;
}

/* The first batch of a step overwrites the sums, the others add to them. */
static void accumulate_all(const step *self, tuff_tensor *loss)
{
    tuff_optimizer *optimizer = self->optimizer;
    tuff_tensor *batches = tuff_array_tensor(self->graph, optimizer->batches);
    tuff_tensor *batches_per_step = tuff_constant(self->graph, TUFF_I32, optimizer->options.accumulate);
    /* The first batch of the step that this one belongs to. Computed on the device, so that one recording serves all
       batches. */
    tuff_tensor *step_start = tuff_mul(tuff_div(batches, batches_per_step), batches_per_step);
    tuff_tensor *is_first = tuff_equal(batches, step_start);
    for (int i = 0; i < optimizer->parameters->slab_count; i++) {
        tuff_array *into = optimizer->gradient_ranges[i].accumulated;
        if (!into)
            continue;
        tuff_tensor *sum = tuff_add(tuff_array_tensor(self->graph, into), self->slabs[i]);
        tuff_assign(self->graph, into, tuff_where(is_first, self->slabs[i], sum));
    }
    tuff_tensor *share = tuff__scaled(loss, 1.0 / optimizer->options.accumulate);
    tuff_tensor *sum = tuff_add(tuff_array_tensor(self->graph, optimizer->loss), share);
    tuff_assign(self->graph, optimizer->loss, tuff_where(is_first, share, sum));
    increment(self, optimizer->batches, true);
}

tuff_status tuff_optimizer_accumulate(tuff_optimizer *optimizer, tuff_tensor *loss)
{
    step self;
    TRY(check_arguments(optimizer, loss ? tuff_tensor_graph(loss) : NULL, true));
    TRY(begin_step(&self, optimizer, tuff_tensor_graph(loss)));
    const tuff_status status = build_gradients(&self, loss);
    if (status == TUFF_OK)
        accumulate_all(&self, loss);
    return end_step(&self, status);
}

tuff_status tuff_optimizer_update(tuff_optimizer *optimizer, tuff_graph *graph, tuff_optimizer_tensors *tensors)
{
    step self;
    TRY(check_arguments(optimizer, graph, true));
    tuff_optimizer_tensors made = {.loss = tuff_array_tensor(graph, optimizer->loss)};
    TRY(begin_step(&self, optimizer, graph));
    for (int i = 0; i < optimizer->parameters->slab_count; i++)
        if (optimizer->gradient_ranges[i].accumulated)
            self.slabs[i] = tuff_array_tensor(graph, optimizer->gradient_ranges[i].accumulated);
    TRY(end_step(&self, build_update(&self, &made)));
    if (tensors)
        *tensors = made;
    return TUFF_OK;
}
