/* The optimizer: its options, its state, and the part of the graph that turns a loss into an update. Gradients are
   gathered in a slab like the parameters' (the compiler writes them there in the first place), so that norm, clipping
   and update are a few dispatches over whole slabs. What tells one algorithm from another is its row in rules.c;
   nothing here depends on the kind. The slab is laid out by parameters.c, the rate of a step is schedule.c's. */
#include <float.h>
#include <math.h>

#include "train/rules.h"

/* A field that is 0 has its default. */
static double or_default(double value, double standard)
{
    return value != 0 ? value : standard;
}

/* Written so that NaN fails every test. */
static tuff_status check_numbers(const tuff_optimizer_options *o)
{
    if (!(o->learning_rate > 0 && isfinite(o->learning_rate)))
        return FAIL(TUFF_E_USAGE, "optimizer: the learning rate %g is not a positive number", o->learning_rate);
    if (!(o->beta1 > 0 && o->beta1 < 1 && o->beta2 > 0 && o->beta2 < 1))
        return FAIL(TUFF_E_USAGE, "optimizer: the betas %g and %g must lie between 0 and 1", o->beta1, o->beta2);
    /* Kernels compute in f32, and some devices take denormals for 0: 0 / 0 where a gradient was always 0. */
    if (!(o->epsilon >= (double)FLT_MIN && o->epsilon <= (double)FLT_MAX))
        return FAIL(TUFF_E_USAGE, "optimizer: epsilon %g is not a normal f32, from %g to %g", o->epsilon,
                    (double)FLT_MIN, (double)FLT_MAX);
    if (!(o->momentum >= 0 && o->momentum < 1))
        return FAIL(TUFF_E_USAGE, "optimizer: the momentum %g must be at least 0 and below 1", o->momentum);
    if (!(o->weight_decay >= 0 && isfinite(o->weight_decay)))
        return FAIL(TUFF_E_USAGE, "optimizer: weight_decay must be finite and at least 0, got %g", o->weight_decay);
    if (!(o->clip_norm >= 0 && isfinite(o->clip_norm)))
        return FAIL(TUFF_E_USAGE, "optimizer: clip_norm must be finite and at least 0, got %g", o->clip_norm);
    return TUFF_OK;
}

/* Steps are counted in i32 and enter the schedule as f32, which holds whole numbers to 2^24. */
static tuff_status check_schedule(const tuff_optimizer_options *o)
{
    const int64_t limit = 1 << 24;
    if (o->warmup_steps < 0 || o->warmup_steps > limit || o->total_steps < 0 || o->total_steps > limit)
        return FAIL(TUFF_E_LIMIT, "optimizer: %lld steps of warm-up, %lld in all: both must lie between 0 and %lld",
                    (long long)o->warmup_steps, (long long)o->total_steps, (long long)limit);
    if (o->total_steps > 0 && o->warmup_steps >= o->total_steps)
        return FAIL(TUFF_E_USAGE, "optimizer: %lld steps of warm-up leave none of %lld", (long long)o->warmup_steps,
                    (long long)o->total_steps);
    if (!(o->final_fraction >= 0 && o->final_fraction <= 1))
        return FAIL(TUFF_E_USAGE, "optimizer: the final fraction %g must lie between 0 and 1", o->final_fraction);
    return TUFF_OK;
}

static tuff_status complete_options(const tuff_optimizer_options *given, tuff_optimizer_options *out)
{
    *out = given ? *given : (tuff_optimizer_options){0};
    if (!tuff__optimizer_rule((int)out->kind))
        return FAIL(TUFF_E_USAGE, "optimizer: there is no kind %d", (int)out->kind);
    out->learning_rate = or_default(out->learning_rate, 1e-3);
    out->beta1 = or_default(out->beta1, 0.9);
    out->beta2 = or_default(out->beta2, 0.999);
    out->epsilon = or_default(out->epsilon, 1e-8);
    TRY(check_numbers(out));
    return check_schedule(out);
}

/* Moments and counter are zero at first, as arrays are. After a failure the caller destroys what was made. */
static tuff_status make_state(tuff_optimizer *self)
{
    tuff_device *device = self->parameters->device;
    const optimizer_rule *rule = self->rule;
    const bool keeps_moments = !rule->keeps_moments || rule->keeps_moments(&self->options);
    for (int i = 0; keeps_moments && i < MOMENTS_MAX && rule->moments[i]; i++) {
        self->moments[i] = tuff_array_create(device, TUFF_F32, TUFF_SHAPE(self->parameters->total));
        if (!self->moments[i])
            return tuff_last_status();
    }
    self->counter = tuff_array_create(device, TUFF_I32, TUFF_SCALAR);
    return self->counter ? TUFF_OK : tuff_last_status();
}

tuff_optimizer *tuff_optimizer_create(tuff_parameters *parameters, const tuff_optimizer_options *options)
{
    tuff_optimizer_options complete;
    if (!parameters) {
        FAIL(TUFF_E_USAGE, "optimizer: the parameters are NULL");
        return NULL;
    }
    if (complete_options(options, &complete) != TUFF_OK)
        return NULL;
    tuff_optimizer *self = tuff__calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->rule = tuff__optimizer_rule((int)complete.kind);
    self->parameters = parameters;
    self->options = complete;
    if (make_state(self) != TUFF_OK) {
        tuff_optimizer_destroy(self);
        return NULL;
    }
    return self;
}

void tuff_optimizer_destroy(tuff_optimizer *optimizer)
{
    if (!optimizer)
        return;
    for (int i = 0; i < MOMENTS_MAX; i++)
        tuff_array_destroy(optimizer->moments[i]);
    tuff_array_destroy(optimizer->counter);
    tuff__free(optimizer);
}

tuff_array *tuff_optimizer_counter(tuff_optimizer *optimizer)
{
    return optimizer ? optimizer->counter : NULL;
}

/* Adds zeros up to the element where the next part begins. */
static int fill_gap(tuff_graph *graph, tuff_tensor **parts, int count, int64_t from, int64_t to)
{
    if (to > from)
        parts[count++] = tuff_expand(tuff_constant(graph, TUFF_F32, 0), TUFF_SHAPE(to - from));
    return count;
}

/* The gradients, in the order of the slab, as one tensor [total]. parts has room for 2 · count + 1. */
static tuff_tensor *gradient_slab(const tuff_parameters *parameters, tuff_tensor *loss, tuff_tensor **gradients,
                                  tuff_tensor **parts)
{
    tuff_graph *graph = tuff_tensor_graph(loss);
    int count = 0;
    int64_t end = 0;
    for (int i = 0; i < parameters->count; i++) {
        const parameter *item = &parameters->items[parameters->order[i]];
        if (item->count == 0)
            continue;
        count = fill_gap(graph, parts, count, end, item->offset);
        parts[count++] = tuff_reshape(gradients[parameters->order[i]], TUFF_SHAPE(item->count));
        end = item->offset + item->count;
    }
    count = fill_gap(graph, parts, count, end, parameters->total);
    return tuff_concat(parts, count, 0);
}

/* The gradients of the loss by all parameters, as a slab; NULL with the thread's error set where that failed. */
static tuff_tensor *derive(tuff_parameters *parameters, tuff_tensor *loss)
{
    const size_t count = (size_t)parameters->count;
    tuff_graph *graph = tuff_tensor_graph(loss);
    tuff_tensor **room = tuff__calloc(4 * count + 1, sizeof *room);
    if (!room)
        return NULL;
    tuff_tensor **weights = room, **gradients = room + count, **parts = room + 2 * count;
    for (int i = 0; i < parameters->count; i++)
        weights[i] = tuff_array_tensor(graph, parameters->items[i].array);
    tuff_tensor *slab = NULL;
    if (tuff_gradients(loss, weights, parameters->count, gradients) == TUFF_OK)
        slab = gradient_slab(parameters, loss, gradients, parts);
    tuff__free(room);
    return slab;
}

/* In two stages, so that the first has a row for every chunk to work on side by side. */
static tuff_tensor *norm_of(tuff_tensor *slab, int64_t total)
{
    const int last = 1, first = 0;
    tuff_tensor *rows = tuff_reshape(slab, TUFF_SHAPE(total / SLAB_CHUNK, SLAB_CHUNK));
    tuff_tensor *sums = tuff_sum(tuff_mul(rows, rows), &last, 1, false);
    return tuff_sqrt(tuff_sum(sums, &first, 1, false));
}

/* The epsilon keeps a norm of 0 from dividing by 0; with it the factor is 1 wherever the norm is small enough. */
static tuff_tensor *clip(const tuff_optimizer *optimizer, tuff_tensor *slab, tuff_tensor *norm)
{
    tuff_graph *graph = tuff_tensor_graph(slab);
    if (optimizer->options.clip_norm <= 0)
        return slab;
    tuff_tensor *limit = tuff_constant(graph, TUFF_F32, optimizer->options.clip_norm);
    tuff_tensor *factor = tuff_div(limit, tuff_add(norm, tuff_constant(graph, TUFF_F32, 1e-6)));
    return tuff_mul(slab, tuff_min(factor, tuff_constant(graph, TUFF_F32, 1)));
}

/* Parameters and moments are read before any of them is assigned: a plan assigns at its end. */
static void assign_all(tuff_optimizer *optimizer, tuff_tensor *gradients, tuff_tensor *rate, tuff_tensor *step)
{
    tuff_graph *graph = tuff_tensor_graph(gradients);
    tuff_tensor *moments[MOMENTS_MAX] = {NULL};
    for (int i = 0; i < MOMENTS_MAX && optimizer->moments[i]; i++)
        moments[i] = tuff_array_tensor(graph, optimizer->moments[i]);
    tuff_tensor *weights = tuff_array_tensor(graph, optimizer->parameters->slab);
    weights = optimizer->rule->update(optimizer, weights, gradients, moments, rate, step);
    tuff_assign(graph, optimizer->parameters->slab, weights);
    for (int i = 0; i < MOMENTS_MAX && optimizer->moments[i]; i++)
        tuff_assign(graph, optimizer->moments[i], moments[i]);
}

static tuff_status apply(tuff_optimizer *optimizer, tuff_tensor *loss, tuff_optimizer_tensors *made)
{
    tuff_graph *graph = tuff_tensor_graph(loss);
    tuff_tensor *gradients = derive(optimizer->parameters, loss);
    if (!gradients)
        return tuff_last_status();
    (void)tuff_graph_phase(graph, TUFF_PHASE_OPTIMIZER);
    tuff_tensor *counter = tuff_array_tensor(graph, optimizer->counter);
    tuff_tensor *step = tuff_cast(counter, TUFF_F32);
    tuff_tensor *norm = norm_of(gradients, optimizer->parameters->total);
    tuff_tensor *rate = tuff__learning_rate(&optimizer->options, step);
    assign_all(optimizer, clip(optimizer, gradients, norm), rate, step);
    tuff_assign(graph, optimizer->counter, tuff_add(counter, tuff_constant(graph, TUFF_I32, 1)));
    if (tuff_graph_status(graph) != TUFF_OK)
        return FAIL(tuff_graph_status(graph), "%s", tuff_graph_error(graph));
    if (made)
        *made = (tuff_optimizer_tensors){.gradient_norm = norm, .learning_rate = rate};
    return TUFF_OK;
}

tuff_status tuff_optimizer_apply(tuff_optimizer *optimizer, tuff_tensor *loss, tuff_optimizer_tensors *made)
{
    if (!optimizer || !loss || !tuff_tensor_graph(loss))
        return FAIL(TUFF_E_USAGE, "optimizer: the %s is NULL", optimizer ? "loss" : "optimizer");
    tuff_graph *graph = tuff_tensor_graph(loss);
    const tuff_phase before = tuff_graph_phase(graph, TUFF_PHASE_BACKWARD);
    const tuff_status status = apply(optimizer, loss, made);
    (void)tuff_graph_phase(graph, before);
    return status;
}
