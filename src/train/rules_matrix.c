/* Rules that look at one tensor after the other: Adafactor, whose second moments of a matrix are a row and a column,
   and Muon, which makes the momentum of a matrix orthogonal. What is elementwise stays a whole slab. */
#include "train/rules.h"
#include "train/slab.h"
#include "train/state.h"

#include <math.h>

/* The tensor's part of a slab that is laid out as the piece. */
static tuff_tensor *part_of(const update *self, tuff_tensor *whole, const parameter *item, tuff_shape shape)
{
    return tuff__slab_part(whole, item->offset - self->piece->begin, shape);
}

static const parameter *item_at(const update *self, int place)
{
    const parameter *item = &self->optimizer->parameters->items[self->optimizer->parameters->order[place]];
    const bool within = item->offset >= self->piece->begin && item->offset < self->piece->end;
    return within && item->count > 0 ? item : NULL;
}

static tuff_tensor *sum_of_squares(tuff_tensor *x)
{
    const int all = 0;
    tuff_tensor *flat = tuff_reshape(x, TUFF_SHAPE(tuff_shape_count(tuff_tensor_shape(x))));
    return tuff_sum(tuff_mul(flat, flat), &all, 1, false);
}

static tuff_tensor *root_mean_square(tuff_tensor *x)
{
    return tuff_sqrt(tuff__times(sum_of_squares(x), 1 / (double)tuff_shape_count(tuff_tensor_shape(x))));
}

/* Rows and columns of the last two axes; of tensors of rank < 2 the whole. */
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
    return 2;
}

/* What Adafactor makes of a step: scalars, and the state as it grows. */
typedef struct adafactor {
    update *update;
    tuff_tensor *fresh, *kept; /* 1 - beta2 and beta2 */
    tuff_tensor *step_size;    /* min(r, 1 / sqrt t) */
    slab_builder factors, weights;
} adafactor;

static tuff_tensor *adafactor_blend(const adafactor *self, tuff_tensor *state, tuff_tensor *sample)
{
    return tuff_add(tuff_mul(state, self->kept), tuff_mul(sample, self->fresh));
}

/* The state's part at an offset of factors, blended with a sample of its shape; kept for the next step. */
static tuff_tensor *adafactor_state(adafactor *self, int64_t *offset, tuff_tensor *sample)
{
    const tuff_shape shape = tuff_tensor_shape(sample);
    const int64_t count = tuff_shape_count(shape);
    tuff_tensor *blended = adafactor_blend(self, tuff__slab_part(self->update->factors, *offset, shape), sample);
    tuff__slab_add(&self->factors, blended, *offset, count);
    *offset += (count + SLAB_ALIGNMENT - 1) / SLAB_ALIGNMENT * SLAB_ALIGNMENT;
    return blended;
}

static tuff_tensor *with_axis(tuff_tensor *x, int axis)
{
    tuff_shape shape = tuff_tensor_shape(x);
    for (int i = shape.rank++; i > axis; i--)
        shape.extent[i] = shape.extent[i - 1];
    shape.extent[axis] = 1;
    return tuff_reshape(x, shape);
}

/* The gradient divided by the root of its second moment. The root is taken of rows, relative to their mean, and of
   columns, not of their product, which would underflow where a gradient was always 0. */
static tuff_tensor *adafactor_direction(adafactor *self, tuff_tensor *gradient, int64_t offset)
{
    const int rank = tuff_tensor_shape(gradient).rank, last = rank - 1, before = rank - 2;
    tuff_tensor *squares =
        tuff_add(tuff_mul(gradient, gradient), tuff__f32(gradient, self->update->optimizer->options.epsilon));
    if (rank < 2)
        return tuff_mul(gradient, tuff_rsqrt(adafactor_state(self, &offset, squares)));
    tuff_tensor *row = adafactor_state(self, &offset, tuff_mean(squares, &last, 1, false));
    tuff_tensor *column = adafactor_state(self, &offset, tuff_mean(squares, &before, 1, false));
    tuff_tensor *relative = tuff_div(row, tuff_mean(row, &before, 1, true));
    return tuff_mul(tuff_mul(gradient, with_axis(tuff_rsqrt(relative), last)), with_axis(tuff_rsqrt(column), before));
}

static void adafactor_tensor(adafactor *self, const parameter *item, const region *at, int64_t offset)
{
    const update *of = self->update;
    tuff_tensor *weight = part_of(of, of->weights, item, item->shape);
    tuff_tensor *direction = adafactor_direction(self, part_of(of, of->gradients, item, item->shape), offset);
    tuff_tensor *one = tuff__f32(weight, 1);
    tuff_tensor *clipped = tuff_div(self->step_size, tuff_max(one, root_mean_square(direction)));
    tuff_tensor *size = tuff_mul(clipped, tuff_max(tuff__f32(weight, 1e-3), root_mean_square(weight)));
    const double decay = tuff__region_rate_decay(of->optimizer, at), factor = tuff__region_rate(of->optimizer, at);
    tuff_tensor *change = tuff_mul(tuff__times(size, factor), direction);
    tuff_tensor *kept = decay > 0 ? tuff_mul(weight, tuff_sub(one, tuff__times(of->rate, decay))) : weight;
    tuff__slab_add(&self->weights, tuff_sub(kept, change), item->offset - of->piece->begin, item->count);
}

static const region *region_of(const update *self, const parameter *item)
{
    const region *regions = self->optimizer->parameters->regions;
    int at = self->piece->region;
    while (at + 1 < self->piece->region_end && item->offset >= regions[at].end)
        at++;
    return &regions[at];
}

/* Shazeer & Stern 2018. The decay 1 - t^-0.8 forgets the zeros before the first step. */
tuff_tensor *tuff__update_adafactor(update *self)
{
    tuff_graph *graph = tuff_tensor_graph(self->weights);
    const parameter_slab *within = &self->optimizer->parameters->slabs[self->piece->slab];
    tuff_tensor *t = tuff_add(self->step, tuff__f32(self->step, 1));
    tuff_tensor *fresh = tuff_exp(tuff__times(tuff_log(t), -0.8));
    adafactor state = {.update = self,
                       .fresh = fresh,
                       .kept = tuff_sub(tuff__f32(t, 1), fresh),
                       .step_size = tuff_min(self->rate, tuff_rsqrt(t)),
                       .factors = {.graph = graph},
                       .weights = {.graph = graph}};
    int64_t offset = 0;
    for (int i = within->first; i < within->last; i++) {
        const parameter *item = item_at(self, i);
        if (!item)
            continue;
        adafactor_tensor(&state, item, region_of(self, item), offset);
        offset += tuff__factors_size(self->piece, item);
    }
    const int64_t total = tuff_shape_count(tuff_tensor_shape(self->factors));
    self->factors = tuff__slab_join(&state.factors, total);
    return tuff__slab_join(&state.weights, self->piece->end - self->piece->begin);
}

/* The orthogonal matrix nearest to x, about: a polynomial that takes all singular values, at most 1 at first, near 1.
   The smaller side comes first, so that the square matrices are small. */
static tuff_tensor *orthogonal(tuff_tensor *x)
{
    enum { STEPS = 5 };
    static const double a = 3.4445, b = -4.7750, c = 2.0315;
    const int turned[] = {1, 0};
    const tuff_shape shape = tuff_tensor_shape(x);
    const bool is_tall = shape.extent[0] > shape.extent[1];
    tuff_tensor *norm = tuff_sqrt(sum_of_squares(x));
    x = tuff_div(is_tall ? tuff_permute(x, turned) : x, tuff_add(norm, tuff__f32(x, 1e-7)));
    for (int i = 0; i < STEPS; i++) {
        tuff_tensor *square = tuff_matmul(x, tuff_permute(x, turned));
        tuff_tensor *factor = tuff_add(tuff__times(square, b), tuff__times(tuff_matmul(square, square), c));
        x = tuff_add(tuff__times(x, a), tuff_matmul(factor, x));
    }
    return is_tall ? tuff_permute(x, turned) : x;
}

/* Jordan 2024: the momentum and the update are elementwise, what lies between is done matrix by matrix. */
tuff_tensor *tuff__update_muon(update *self)
{
    tuff_graph *graph = tuff_tensor_graph(self->weights);
    const parameter_slab *within = &self->optimizer->parameters->slabs[self->piece->slab];
    const double momentum = self->optimizer->options.momentum;
    slab_builder changes = {.graph = graph};
    self->moments[0] = tuff_add(tuff__times(self->moments[0], momentum), self->gradients);
    tuff_tensor *ahead = tuff_add(self->gradients, tuff__times(self->moments[0], momentum));
    for (int i = within->first; i < within->last; i++) {
        const parameter *item = item_at(self, i);
        if (!item)
            continue;
        const int64_t rows = item->shape.extent[0], columns = item->count / rows;
        tuff_tensor *matrix = orthogonal(part_of(self, ahead, item, TUFF_SHAPE(rows, columns)));
        const double factor = sqrt(rows > columns ? (double)rows / (double)columns : 1);
        tuff__slab_add(&changes, factor != 1 ? tuff__times(matrix, factor) : matrix, item->offset - self->piece->begin,
                       item->count);
    }
    tuff_tensor *change = tuff__slab_join(&changes, self->piece->end - self->piece->begin);
    tuff_tensor *rate = tuff__by_region(self, self->rate, tuff__region_rate);
    return change ? tuff_sub(tuff__decoupled_decay(self), tuff_mul(rate, change)) : NULL;
}
