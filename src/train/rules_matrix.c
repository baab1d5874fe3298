/* Rules that work on one tensor at a time: Adafactor, whose second moments of a matrix are a row and a column, and
   Muon, which orthogonalizes the momentum of a matrix. Elementwise parts still work on whole slabs. */
#include "train/rules.h"
#include "train/slab.h"

#include <math.h>

static tuff_tensor *sum_of_squares(tuff_tensor *x)
{
    const int all = 0;
    tuff_tensor *flat = tuff_reshape(x, TUFF_SHAPE(tuff_shape_count(tuff_tensor_shape(x))));
    return tuff_sum(tuff_mul(flat, flat), &all, 1, false);
}

/* Multiplies by the inverse of the number of terms, which is a constant of the graph: a division costs more. */
static tuff_tensor *mean_along(tuff_tensor *x, int axis, bool keep)
{
    const int64_t terms = tuff_tensor_shape(x).extent[axis];
    return tuff__scaled(tuff_sum(x, &axis, 1, keep), 1 / (double)terms);
}

static tuff_tensor *root_mean_square(tuff_tensor *x)
{
    return tuff_sqrt(tuff__scaled(sum_of_squares(x), 1 / (double)tuff_shape_count(tuff_tensor_shape(x))));
}

/* The state is rows and columns of the last two axes; for tensors of rank < 2 it is the whole second moment. */
int tuff__adafactor_parts(const parameter *item, state_part *parts)
{
    const int rank = item->shape.rank;
    if (rank < 2) {
        parts[0] = (state_part){.name = "v", .shape = item->shape};
        return 1;
    }
    parts[0] = (state_part){.name = "row", .shape = item->shape};
    parts[1] = (state_part){.name = "column", .shape = item->shape};
    parts[0].shape.rank = parts[1].shape.rank = rank - 1;
    parts[1].shape.extent[rank - 2] = item->shape.extent[rank - 1];
    parts[1].is_common = rank == 2;
    return 2;
}

/* Values of an Adafactor step that are common to all tensors. */
typedef struct adafactor {
    update *update;
    tuff_tensor *fresh, *kept; /* 1 - beta2 and beta2 */
} adafactor;

/* Blends a sample into a part of the state, and returns the new value. */
static tuff_tensor *adafactor_state(const adafactor *self, int part, tuff_tensor *sample)
{
    tuff_tensor **state = &self->update->parts[part];
    *state = tuff_add(tuff_mul(*state, self->kept), tuff_mul(sample, self->fresh));
    return *state;
}

static tuff_tensor *with_axis(tuff_tensor *x, int axis)
{
    tuff_shape shape = tuff_tensor_shape(x);
    for (int i = shape.rank++; i > axis; i--)
        shape.extent[i] = shape.extent[i - 1];
    shape.extent[axis] = 1;
    return tuff_reshape(x, shape);
}

/* Returns the gradient divided by the root of its second moment. Takes the roots of rows (relative to their mean) and
   of columns separately: their product would underflow if a gradient was always 0. */
static tuff_tensor *adafactor_direction(const adafactor *self)
{
    tuff_tensor *gradient = self->update->gradients;
    const int rank = tuff_tensor_shape(gradient).rank, last = rank - 1, before = rank - 2;
    tuff_tensor *squares =
        tuff_add(tuff_mul(gradient, gradient), tuff__f32(gradient, self->update->optimizer->options.epsilon));
    if (rank < 2)
        return tuff_mul(gradient, tuff_rsqrt(adafactor_state(self, 0, squares)));
    tuff_tensor *row = adafactor_state(self, 0, mean_along(squares, last, false));
    tuff_tensor *column = adafactor_state(self, 1, mean_along(squares, before, false));
    tuff_tensor *relative = tuff_div(row, mean_along(row, before, true));
    return tuff_mul(tuff_mul(gradient, with_axis(tuff_rsqrt(relative), last)), with_axis(tuff_rsqrt(column), before));
}

/* Shazeer & Stern 2018. In the first step, the decay 1 - t^-0.8 is 0 and discards the zeros of the initial state. */
tuff_tensor *tuff__update_adafactor(update *self)
{
    tuff_tensor *t = tuff_add(self->step, tuff__f32(self->step, 1)), *one = tuff__f32(t, 1);
    tuff_tensor *fresh = tuff_exp(tuff__scaled(tuff_log(t), -0.8));
    const adafactor state = {.update = self, .fresh = fresh, .kept = tuff_sub(one, fresh)};
    const double decay = tuff__region_rate_decay(self->optimizer, self->region);
    tuff_tensor *direction = adafactor_direction(&state), *weights = self->weights;
    tuff_tensor *rate =
        tuff__scaled(tuff_min(self->rate, tuff_rsqrt(t)), tuff__region_rate(self->optimizer, self->region));
    /* The root mean square of the change is limited to 1, then made relative to that of the weights, which counts as at
       least 1e-3 so that weights of zero can leave it. */
    tuff_tensor *clipped = tuff_div(rate, tuff_max(one, root_mean_square(direction)));
    tuff_tensor *size = tuff_mul(clipped, tuff_max(tuff__f32(t, 1e-3), root_mean_square(weights)));
    if (decay > 0)
        weights = tuff_mul(weights, tuff_sub(one, tuff__scaled(self->rate, decay)));
    return tuff_sub(weights, tuff_mul(size, direction));
}

/* Approximates the orthogonal matrix nearest to x, by a polynomial that moves all singular values, at most 1 at first,
   near 1. The square matrices have the smaller extent of x. x is never transposed, so that the last product can be
   written in place. */
static tuff_tensor *orthogonal(tuff_tensor *x)
{
    enum { STEPS = 5 };
    static const double a = 3.4445, b = -4.7750, c = 2.0315;
    const int turned[] = {1, 0};
    const tuff_shape shape = tuff_tensor_shape(x);
    const bool is_tall = shape.extent[0] > shape.extent[1];
    tuff_tensor *norm = tuff_sqrt(sum_of_squares(x));
    x = tuff_div(x, tuff_add(norm, tuff__f32(x, 1e-7)));
    for (int i = 0; i < STEPS; i++) {
        tuff_tensor *other = tuff_permute(x, turned);
        tuff_tensor *square = is_tall ? tuff_matmul(other, x) : tuff_matmul(x, other);
        tuff_tensor *factor = tuff_add(tuff__scaled(square, b), tuff__scaled(tuff_matmul(square, square), c));
        x = tuff_add(tuff__scaled(x, a), is_tall ? tuff_matmul(x, factor) : tuff_matmul(factor, x));
    }
    return x;
}

/* Jordan 2024. Momentum and update are elementwise; the part in between works matrix by matrix. */
tuff_tensor *tuff__update_muon(update *self)
{
    tuff_graph *graph = tuff_tensor_graph(self->weights);
    const tuff_parameters *parameters = self->optimizer->parameters;
    const parameter_slab *slab = &parameters->slabs[self->slab_range->slab];
    const double momentum = self->optimizer->options.momentum;
    const bool inputs_first = self->optimizer->options.inputs_first;
    slab_builder changes = {.graph = graph};
    self->moments[0] = tuff_add(tuff__scaled(self->moments[0], momentum), self->gradients);
    tuff_tensor *ahead = tuff_add(self->gradients, tuff__scaled(self->moments[0], momentum));
    for (int i = slab->first; i < slab->last; i++) {
        const parameter *item = &parameters->items[parameters->order[i]];
        const int64_t at = item->offset - self->slab_range->begin;
        if (at < 0 || item->offset >= self->slab_range->end || item->count == 0)
            continue;
        const int64_t rows = item->shape.extent[0], columns = item->count / rows;
        tuff_tensor *matrix = orthogonal(tuff__slab_part(ahead, at, TUFF_SHAPE(rows, columns)));
        const double outputs = (double)(inputs_first ? columns : rows),
                     inputs = (double)(inputs_first ? rows : columns);
        /* Jordan's factor for matrices with more outputs than inputs; whether rows or columns are the outputs depends
           on the program's layout. */
        const double factor = sqrt(outputs > inputs ? outputs / inputs : 1);
        tuff__slab_add(&changes, factor != 1 ? tuff__scaled(matrix, factor) : matrix, at, item->count);
    }
    tuff_tensor *change = tuff__slab_join(&changes, self->slab_range->end - self->slab_range->begin);
    tuff_tensor *rate = tuff__scale_by_region(self, self->rate, tuff__region_rate);
    return change ? tuff_sub(tuff__decoupled_decay(self), tuff_mul(rate, change)) : NULL;
}
