/* Tolerances for each element. The unit is the largest element of its own tensor, so that an element that is never
   written cannot hide. Tensors that are zero up to rounding, such as the gradient of a key's bias, are measured by a
   millionth of the largest element of all tensors (more if values are clipped or stored as f16). There is no formula
   for rounding to 16 bits: the reference tries it (program_expect.c), and a multiple of the deviations it finds is
   allowed.

   Rules that are not continuous have their own formula, which says for each element how far an error of its
   gradient, known from the moments, moves it. A sign may flip only where the gradient is smaller than its error. */
#include "tools/verify/program_allow.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Relative to the largest element: f32 sums of these sizes are accurate to about 1e-6 each, and a step chains many. */
#define TOLERANCE 1e-4
/* Relative to the largest element of all tensors. */
#define FLOOR 1e-6
/* Relative to the norm, if values are clipped. */
#define CLIPPED_FLOOR 2e-7
/* Number of f16's smallest numbers by which a gradient may be off. */
#define SMALLEST_NUMBERS 16
/* Multiple of the deviations found on the grids. */
#define NOISE 5

/* Sums of a few hundred squares overflow beyond it. */
#define DIVERGED 1e18

bool program_has_diverged(const program_expectation *expected, int step)
{
    const step_values *values = &expected->steps[step];
    bool diverged = false;
    for (int i = 0; i < STEP_SCALARS; i++)
        diverged |= fabs(values->scalars[i]) >= DIVERGED;
    for (int64_t i = 0; i < expected->state.total; i++)
        diverged |= fabs(values->value[i]) >= DIVERGED;
    return diverged;
}

double program_step_tolerance(const program_expectation *expected, int step)
{
    /* The loss is log(1 + x) for a small x, and its gradient 1 / (1 + x) - 1. f32 rounds 1 + x, so both have an error
       of epsilon relative to the loss. */
    return TOLERANCE + (double)FLT_EPSILON / fmax(fabs(expected->steps[step].scalars[SCALAR_LOSS]), FLT_MIN);
}

bool program_resets_each_step(const program_recipe *recipe)
{
    /* Adam's step is a sign if a gradient is small. */
    static const bool turns[OPTIMIZER_COUNT] = {
        [OPTIMIZER_ADAMW] = true, [OPTIMIZER_LION] = true, [OPTIMIZER_ADAFACTOR] = true, [OPTIMIZER_MUON] = true};
    return program_precision(recipe) != TUFF_PRECISION_F32 || turns[program_choice(recipe, FIELD_OPTIMIZER)];
}

static const step_values *values_of(const comparison *self)
{
    return &self->expected->steps[self->step];
}

static const tensor_location *find(const comparison *self, int owner, state_kind kind)
{
    return program_find_tensor(&self->expected->state, owner, kind);
}

double program_largest(const comparison *self, const tensor_location *place)
{
    const step_values *values = values_of(self);
    double largest = 0;
    if (place->kind == STATE_AVERAGE)
        place = find(self, place->parameter, STATE_WEIGHTS);
    for (int64_t at = place->offset; at < place->offset + place->count; at++)
        largest = fmax(largest, fabs(values->value[at] - (place->kind == STATE_WEIGHTS ? values->begin[at] : 0)));
    return largest;
}

static double largest_of_all(const comparison *self, state_kind kind)
{
    double largest = 0;
    for (int i = 0; i < self->expected->state.count; i++)
        if (self->expected->state.tensors[i].kind == kind)
            largest = fmax(largest, program_largest(self, &self->expected->state.tensors[i]));
    return largest;
}

/* If gradient values are clipped, the largest of all are smaller than the values that small ones were computed from:
   the norm before that, but after its own clipping, bounds by how much. Elements below a five-hundredth of the largest
   of all tensors may be missing then. */
static double floor_of(const comparison *self)
{
    const tuff_optimizer_options *options = &self->expected->options;
    const double most = 1e4, norm = fabs(values_of(self)->scalars[SCALAR_NORM]);
    if (options->clip_value <= 0)
        return FLOOR;
    const double clipped = options->clip_norm > 0 ? fmin(norm, options->clip_norm) : norm;
    return fmax(FLOOR, CLIPPED_FLOOR * fmin(clipped / options->clip_value, most));
}

/* Error of tensors that depend on gradients linearly. unit: how far a gradient of 1 moves an element. Gradients that
   f16 stores are off by some of its smallest numbers, also where all grids happen to round to 0. */
static double linear_error(const comparison *self, const tensor_location *place, double unit)
{
    const int index = (int)(place - self->expected->state.tensors);
    const bool is_f16 = program_precision(self->recipe) == TUFF_PRECISION_F16;
    return self->tolerance * program_largest(self, place) + floor_of(self) * largest_of_all(self, place->kind) +
           NOISE * values_of(self)->noise[index] + (is_f16 ? SMALLEST_NUMBERS * 0x1p-24 * unit : 0);
}

static const double *gradient_of(const comparison *self, int owner)
{
    return values_of(self)->gradient + self->expected->gradient_offsets[owner];
}

static double largest_gradient(const comparison *self, int owner)
{
    const int64_t count = find(self, owner, STATE_WEIGHTS)->count;
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(gradient_of(self, owner)[i]));
    return largest;
}

/* The weight of a new gradient in the first moment. */
static double moment_share(const comparison *self, int owner)
{
    const tuff_optimizer_options *rule = &self->expected->options;
    return 1 - (self->expected->rules[owner] == TUFF_LION ? rule->beta2 : rule->beta1);
}

/* Error of a gradient: from the tolerance of the first moment, or from the gradient itself. */
static double gradient_error(const comparison *self, int owner)
{
    const tensor_location *first = find(self, owner, STATE_FIRST);
    double of_all = 0;
    if (first != NULL)
        return linear_error(self, first, moment_share(self, owner)) / moment_share(self, owner);
    for (int i = 0; i < self->expected->parameter_count; i++)
        of_all = fmax(of_all, largest_gradient(self, i));
    return self->tolerance * largest_gradient(self, owner) + floor_of(self) * of_all +
           NOISE * values_of(self)->gradient_noise[owner];
}

/* How far the error of a gradient moves a parameter: Adam divides by the root of the second moment. */
static double adam_error(const comparison *self, double second, double rate, double gradient)
{
    const tuff_optimizer_options *rule = &self->expected->options;
    const double root = sqrt(second / (1 - pow(rule->beta2, self->step + 1))) + rule->epsilon;
    const double share = (1 - rule->beta1) / (1 - pow(rule->beta1, self->step + 1));
    return 2 * rate * fmin(share * gradient / root, 1 / (1 - rule->beta1));
}

/* Lion takes the sign of a blend. If the error of a gradient may flip it, the element moves the other way. */
static double lion_error(const comparison *self, int64_t at, double rate, double gradient)
{
    const tuff_optimizer_options *rule = &self->expected->options;
    const double before = values_of(self)->begin[at], after = values_of(self)->value[at];
    const double sample = (after - rule->beta2 * before) / (1 - rule->beta2);
    const double blend = rule->beta1 * before + (1 - rule->beta1) * sample;
    const double rounding = 0x1p-20 * (fabs(before) + fabs(sample));
    return fabs(blend) <= gradient + rounding ? 2 * rate : 0;
}

/* Adafactor's decay after step t: the weights of a new square and of the old state. */
typedef struct decay_factors {
    double fresh, kept, epsilon;
} decay_factors;

static decay_factors decay_factors_of(const comparison *self)
{
    const double fresh = pow(self->step + 1, -0.8);
    return (decay_factors){.fresh = fresh, .kept = 1 - fresh, .epsilon = self->expected->options.epsilon};
}

/* A mean of squares, with an error in each root, is between these bounds. */
typedef struct interval {
    double low, high;
} interval;

static interval state_interval(const comparison *self, int64_t at, double gradient)
{
    const decay_factors decay = decay_factors_of(self);
    const double value = values_of(self)->value[at],
                 least = decay.kept * values_of(self)->begin[at] + decay.fresh * decay.epsilon;
    const double mean = fmax(0, value - least) / decay.fresh; /* of squares */
    const double off = decay.fresh * (2 * gradient * sqrt(mean) + gradient * gradient);
    return (interval){.low = fmax(value - off, least), .high = value + off};
}

/* Adafactor's scale for the directions of a parameter, without their clipping. */
static double adafactor_size(const comparison *self, const tensor_location *weights, double rate)
{
    const double *begin = values_of(self)->begin + weights->offset;
    double squares = 0;
    for (int64_t i = 0; i < weights->count; i++)
        squares += begin[i] * begin[i];
    return fmin(rate, self->expected->rate_factors[weights->parameter] / sqrt(self->step + 1)) *
           fmax(1e-3, sqrt(squares / (double)weights->count));
}

/* How far a direction g / sqrt(v) of a vector may be off, given the error of g; it increases with g. Sets
   *direction. */
static double vector_error(const comparison *self, const tensor_location *state, int64_t i, double gradient,
                           double error, double *direction)
{
    const decay_factors decay = decay_factors_of(self);
    const double others = decay.kept * values_of(self)->begin[state->offset + i] + decay.fresh * decay.epsilon;
    const double low = gradient - error, high = gradient + error;
    *direction = gradient / sqrt(others + decay.fresh * gradient * gradient);
    return fmax(high / sqrt(others + decay.fresh * high * high) - *direction,
                *direction - low / sqrt(others + decay.fresh * low * low));
}

/* Location of an element of a matrix, whose direction is g / sqrt(row / mean of rows * column). The square of g is
   always part of the means of its row and its column, which bounds the direction. */
typedef struct matrix_location {
    const tensor_location *rows, *columns;
    int64_t row_count, column_count; /* per matrix */
    int64_t row, column;             /* among those of all matrices */
    double mean;
    interval mean_interval; /* of the matrix's rows */
} matrix_location;

static double matrix_error(const comparison *self, const matrix_location *at, double gradient, double error,
                           double *direction)
{
    const double fresh = decay_factors_of(self).fresh, most = at->mean_interval.high;
    const int64_t row_at = at->rows->offset + at->row, column_at = at->columns->offset + at->column;
    const interval row = state_interval(self, row_at, error), column = state_interval(self, column_at, error);
    const double *value = values_of(self)->value, size = fabs(gradient);
    *direction = gradient / sqrt(value[row_at] / at->mean * value[column_at]);
    double high = (size + error) * sqrt(most / row.low / column.low);
    high = fmin(high, sqrt(most * (double)at->column_count / fresh / column.low));
    high = fmin(high, sqrt(most * (double)at->row_count / fresh / row.low));
    if (size < error)
        return fabs(*direction) + high;
    const double low = (size - error) * sqrt(at->mean_interval.low / row.high / column.high);
    return fmax(high - fabs(*direction), fabs(*direction) - low);
}

static void mean_of_rows(const comparison *self, matrix_location *at, int64_t matrix, double error)
{
    at->mean = at->mean_interval.low = at->mean_interval.high = 0;
    for (int64_t i = 0; i < at->row_count; i++) {
        const int64_t row = at->rows->offset + matrix * at->row_count + i;
        const interval one = state_interval(self, row, error);
        at->mean += values_of(self)->value[row] / (double)at->row_count;
        at->mean_interval.low += one.low / (double)at->row_count;
        at->mean_interval.high += one.high / (double)at->row_count;
    }
}

/* Whether a row of a table was never looked up: its gradient is exactly zero, without rounding. */
static bool is_untouched(const tensor_location *weights, const double *row, int64_t count)
{
    bool zero = strstr(weights->name, ".table") != NULL;
    for (int64_t i = 0; i < count && zero; i++)
        zero = row[i] == 0;
    return zero;
}

/* Fills most with the errors of the directions. Returns by which fraction an error of their root mean square may
   lengthen or shorten them all. *clipped: the factor by which clipping divides them. */
static double direction_errors(const comparison *self, const tensor_location *weights, double *most, double *clipped)
{
    const int rank = weights->shape.rank;
    const double *gradient = gradient_of(self, weights->parameter), error = gradient_error(self, weights->parameter);
    matrix_location at = {.rows = find(self, weights->parameter, STATE_ROW),
                          .columns = find(self, weights->parameter, STATE_COLUMN),
                          .row_count = rank < 2 ? 1 : weights->shape.extent[rank - 2],
                          .column_count = rank < 2 ? weights->count : weights->shape.extent[rank - 1]};
    const tensor_location *squares_of = find(self, weights->parameter, STATE_SECOND);
    double squares = 0, off = 0;
    for (int64_t i = 0; i < weights->count; i++) {
        const int64_t matrix = i / (at.row_count * at.column_count);
        double direction;
        at.row = i / at.column_count;
        at.column = matrix * at.column_count + i % at.column_count;
        if (rank >= 2 && i % (at.row_count * at.column_count) == 0)
            mean_of_rows(self, &at, matrix, error);
        const bool untouched = rank >= 2 && is_untouched(weights, gradient + at.row * at.column_count, at.column_count);
        most[i] = rank < 2 ? vector_error(self, squares_of, i, gradient[i], error, &direction)
                           : matrix_error(self, &at, gradient[i], untouched ? 0 : error, &direction);
        squares += direction * direction / (double)weights->count;
        off += most[i] * most[i] / (double)weights->count;
    }
    const double root = sqrt(squares);
    *clipped = fmax(1, root);
    return (fmax(1, root + sqrt(off)) - fmax(1, root - sqrt(off))) / *clipped;
}

static void adafactor_errors(const comparison *self, const tensor_location *weights, double rate, double *most)
{
    double clipped;
    const double size = adafactor_size(self, weights, rate);
    const double share = direction_errors(self, weights, most, &clipped);
    const double all = self->tolerance * program_largest(self, weights) + FLOOR * largest_of_all(self, STATE_WEIGHTS) +
                       share * program_largest(self, weights);
    for (int64_t i = 0; i < weights->count; i++)
        most[i] = all + size / clipped * most[i] * (1 + share);
}

static void weights_errors(const comparison *self, const tensor_location *weights, double *most)
{
    const int rule = self->expected->rules[weights->parameter];
    const step_values *values = values_of(self);
    const double rate =
        values->scalars[SCALAR_RATE] * (rule < 0 ? 0 : self->expected->rate_factors[weights->parameter]);
    const bool is_adam = rule == TUFF_ADAMW || rule == TUFF_ADAM;
    if (rule == TUFF_ADAFACTOR) {
        adafactor_errors(self, weights, rate, most);
        return;
    }
    const double all = rule < 0                       ? 0
                       : is_adam || rule == TUFF_LION ? self->tolerance * program_largest(self, weights) +
                                                            FLOOR * largest_of_all(self, STATE_WEIGHTS)
                                                      : linear_error(self, weights, rate);
    const double gradient = is_adam || rule == TUFF_LION ? gradient_error(self, weights->parameter) : 0;
    const tensor_location *first = find(self, weights->parameter, STATE_FIRST),
                          *second = find(self, weights->parameter, STATE_SECOND);
    for (int64_t i = 0; i < weights->count; i++) {
        most[i] = all;
        if (is_adam)
            most[i] += adam_error(self, values->value[second->offset + i], rate, gradient);
        if (rule == TUFF_LION)
            most[i] += lion_error(self, first->offset + i, rate, gradient);
    }
}

/* Error of second moments, which are of squares: (g + e)^2 - g^2 = 2 g e + e^2. */
static double squares_error(const comparison *self, const tensor_location *place)
{
    const double share = 1 - self->expected->options.beta2, gradient = gradient_error(self, place->parameter);
    return 2 * sqrt(share * program_largest(self, place)) * gradient + share * gradient * gradient;
}

void program_tolerances(const comparison *self, const tensor_location *place, double *most)
{
    const bool is_factor = place->kind == STATE_ROW || place->kind == STATE_COLUMN ||
                           (place->kind == STATE_SECOND && self->expected->rules[place->parameter] == TUFF_ADAFACTOR);
    double same = 0;
    if (place->kind == STATE_WEIGHTS || place->kind == STATE_AVERAGE)
        weights_errors(self, find(self, place->parameter, STATE_WEIGHTS), most);
    else if (place->kind == STATE_FIRST)
        same = linear_error(self, place, moment_share(self, place->parameter));
    else if (place->kind == STATE_SECOND && !is_factor)
        same = squares_error(self, place);
    const double gradient = is_factor ? gradient_error(self, place->parameter) : 0;
    for (int64_t i = 0; i < place->count; i++) {
        if (is_factor)
            most[i] = self->tolerance * values_of(self)->value[place->offset + i] +
                      state_interval(self, place->offset + i, gradient).high -
                      values_of(self)->value[place->offset + i];
        else if (place->kind != STATE_WEIGHTS && place->kind != STATE_AVERAGE)
            most[i] = same;
        most[i] *= self->steps_run;
    }
}

double program_scalar_tolerance(const comparison *self, step_scalar which)
{
    const step_values *values = values_of(self);
    const double value = fabs(values->scalars[which]),
                 bar = which == SCALAR_RATE ? 1e-5 : self->tolerance * self->steps_run;
    return bar * fmax(value, FLT_MIN) + NOISE * values->scalar_noise[which];
}
