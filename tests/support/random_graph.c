/* Random graphs: see the header. A pool of tensors grows op by op; each entry keeps a bound on its elements. */
#include "random_graph.h"

#include <math.h>
#include <stddef.h>

#include "differential.h"
#include "tools/model/random.h"

#define POOL 40
#define MAX_ELEMENTS 3000
#define LARGEST 6.0

typedef struct generator {
    tuff_graph *graph;
    uint64_t key, drawn;
    tuff_tensor *pool[POOL], *inputs[POOL];
    double size[POOL]; /* bound on the elements' absolute values */
    bool read[POOL];
    int count, input_count;
    bool smooth; /* gradients will be taken: no kinks */
    bool has_images;
} generator;

static int64_t pick(generator *random, int64_t count)
{
    return (int64_t)(random_bits(random->key, random->drawn++) % (uint64_t)count);
}

static bool chance(generator *random, int percent)
{
    return pick(random, 100) < percent;
}

static tuff_tensor *add_to_pool(generator *random, tuff_tensor *made, double size)
{
    if (size > LARGEST) {
        made = chance(random, 50) ? tuff_mul(made, tuff_constant(random->graph, TUFF_F32, 1 / size)) : tuff_sin(made);
        size = 1;
    }
    if (random->count < POOL && tuff_shape_count(tuff_tensor_shape(made)) <= MAX_ELEMENTS) {
        random->pool[random->count] = made;
        random->size[random->count++] = size;
    }
    return made;
}

/* Returns an extent that is hard for kernels: one, a prime, or one more than a vector. */
static int64_t some_extent(generator *random)
{
    static const int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33};
    return extents[pick(random, (int64_t)(sizeof extents / sizeof extents[0]))];
}

static tuff_shape some_shape(generator *random, int rank)
{
    tuff_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        shape.extent[i] = some_extent(random);
        while (tuff_shape_count((tuff_shape){
                   i + 1, {shape.extent[0], shape.extent[1], shape.extent[2], shape.extent[3]}}) > MAX_ELEMENTS)
            shape.extent[i] = (shape.extent[i] + 1) / 2;
    }
    return shape;
}

static tuff_tensor *new_input(generator *random, tuff_shape shape)
{
    tuff_tensor *made = float_input(random->graph, shape);
    if (random->input_count < POOL)
        random->inputs[random->input_count++] = made;
    return made;
}

/* Prefers later tensors, so that chains grow long. */
static int some_index(generator *random)
{
    const int64_t a = pick(random, random->count), b = pick(random, random->count);
    const int index = (int)(a > b ? a : b);
    random->read[index] = true;
    return index;
}

static void add_unary(generator *random)
{
    static tuff_tensor *(*const bounded[])(tuff_tensor *) = {tuff_tanh, tuff_sigmoid, tuff_sin, tuff_cos, tuff_erf};
    static tuff_tensor *(*const linear[])(tuff_tensor *) = {tuff_neg, tuff_gelu, tuff_silu, tuff_gelu_tanh};
    static tuff_tensor *(*const kinked[])(tuff_tensor *) = {tuff_abs, tuff_relu};
    const int at = some_index(random);
    tuff_tensor *x = random->pool[at], *one = tuff_constant(random->graph, TUFF_F32, 1);
    switch (pick(random, 6)) {
    case 0:
        add_to_pool(random, bounded[pick(random, 5)](x), 1);
        break;
    case 1:
        add_to_pool(random, linear[pick(random, 4)](x), random->size[at]);
        break;
    case 2:
        add_to_pool(random, random->smooth ? tuff_erfc(x) : kinked[pick(random, 2)](x), fmax(random->size[at], 2));
        break;
    case 3:
        add_to_pool(random, tuff_sqrt(tuff_fma(x, x, one)), random->size[at] + 1);
        break;
    case 4:
        add_to_pool(random, tuff_exp(tuff_sin(x)), exp(1));
        break;
    default:
        add_to_pool(random, tuff_log1p(tuff_mul(x, x)), random->size[at]);
    }
}

/* Returns a partner of x's shape, of a shape that broadcasts to it, or of a shape that x broadcasts to. */
static tuff_tensor *some_partner(generator *random, tuff_tensor *x, double *size)
{
    tuff_shape shape = tuff_tensor_shape(x);
    *size = 1;
    for (int tries = 0; tries < 4; tries++) {
        const int at = some_index(random);
        if (tuff_shape_equal(tuff_tensor_shape(random->pool[at]), shape)) {
            *size = random->size[at];
            return random->pool[at];
        }
    }
    for (int i = 0; i < shape.rank; i++)
        if (chance(random, 40))
            shape.extent[i] = 1;
    return new_input(random, shape);
}

static void add_binary(generator *random)
{
    const int at = some_index(random);
    tuff_tensor *x = random->pool[at], *one = tuff_constant(random->graph, TUFF_F32, 1);
    double size;
    tuff_tensor *y = some_partner(random, x, &size);
    switch (pick(random, random->smooth ? 4 : 7)) {
    case 0:
        add_to_pool(random, tuff_add(x, y), random->size[at] + size);
        break;
    case 1:
        add_to_pool(random, tuff_sub(x, y), random->size[at] + size);
        break;
    case 2:
        add_to_pool(random, tuff_mul(x, y), random->size[at] * size);
        break;
    case 3:
        add_to_pool(random, tuff_div(x, tuff_fma(y, y, one)), random->size[at]);
        break;
    case 4:
        add_to_pool(random, tuff_max(x, y), fmax(random->size[at], size));
        break;
    case 5:
        add_to_pool(random, tuff_min(x, y), fmax(random->size[at], size));
        break;
    default:
        add_to_pool(
            random,
            tuff_where(tuff_less(new_input(random, tuff_tensor_shape(y)), tuff_constant(random->graph, TUFF_F32, 0)), x,
                       y),
            fmax(random->size[at], size));
    }
}

static void add_reduction(generator *random)
{
    const int at = some_index(random);
    tuff_tensor *x = random->pool[at];
    const tuff_shape shape = tuff_tensor_shape(x);
    const bool keep = chance(random, 60);
    int axes[TUFF_MAX_RANK], count = 0;
    for (int i = 0; i < shape.rank; i++)
        if (chance(random, 50))
            axes[count++] = i;
    if (count == 0)
        return;
    tuff_tensor *made;
    switch (pick(random, random->smooth ? 2 : 4)) {
    case 0:
        made = tuff_mean(x, axes, count, keep);
        break;
    case 1:
        made = tuff_mean(tuff_mul(x, x), axes, count, keep);
        break;
    case 2:
        made = tuff_reduce_max(x, axes, count, keep);
        break;
    default:
        made = tuff_reduce_min(x, axes, count, keep);
    }
    made = add_to_pool(random, made, fmax(random->size[at], random->size[at] * random->size[at]));
    if (keep && chance(random, 70))
        add_to_pool(random, tuff_sub(x, made), 2 * LARGEST);
}

static void add_normalisation(generator *random)
{
    const int at = some_index(random);
    tuff_tensor *x = random->pool[at];
    const tuff_shape shape = tuff_tensor_shape(x);
    if (shape.rank == 0)
        return;
    const int axis = (int)pick(random, shape.rank);
    const tuff_shape last = TUFF_SHAPE(shape.extent[shape.rank - 1]);
    switch (pick(random, 5)) {
    case 0:
        add_to_pool(random, tuff_softmax(x, axis), 1);
        break;
    case 1:
        add_to_pool(random, tuff_log_softmax(x, axis), LARGEST);
        break;
    case 2:
        add_to_pool(random, tuff_layer_norm(x, new_input(random, last), new_input(random, last), 1, 0.1), LARGEST);
        break;
    case 3:
        add_to_pool(random, tuff_rms_norm(x, NULL, 1, 0.1), LARGEST);
        break;
    default:
        add_to_pool(random, tuff_cumsum(tuff_mul(x, tuff_constant(random->graph, TUFF_F32, 0.125)), axis), LARGEST);
    }
}

static tuff_tensor *sliced(generator *random, tuff_tensor *x)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    int64_t start[TUFF_MAX_RANK], stop[TUFF_MAX_RANK], step[TUFF_MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        const int64_t first = pick(random, shape.extent[i]), last = first + pick(random, shape.extent[i] - first);
        const bool backwards = chance(random, 40);
        step[i] = 1 + (chance(random, 30) ? pick(random, 3) : 0);
        start[i] = backwards ? last : first;
        stop[i] = backwards ? first - 1 : last + 1;
        step[i] = backwards ? -step[i] : step[i];
    }
    return tuff_slice(x, start, stop, step);
}

static tuff_tensor *padded(generator *random, tuff_tensor *x)
{
    int64_t before[TUFF_MAX_RANK], after[TUFF_MAX_RANK];
    for (int i = 0; i < tuff_tensor_shape(x).rank; i++) {
        before[i] = pick(random, 3);
        after[i] = pick(random, 3);
    }
    return tuff_pad(x, before, after, chance(random, 50) ? 0 : 0.5);
}

static tuff_tensor *permuted(generator *random, tuff_tensor *x)
{
    const int rank = tuff_tensor_shape(x).rank;
    int order[TUFF_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        const int k = (int)pick(random, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    return tuff_permute(x, order);
}

/* Merges an axis with the next, splits one, or flattens all. */
static tuff_tensor *reshaped(generator *random, tuff_tensor *x)
{
    const tuff_shape from = tuff_tensor_shape(x);
    tuff_shape to = {.rank = 0};
    const int axis = from.rank > 1 ? (int)pick(random, from.rank - 1) : 0;
    if (from.rank < 2 || chance(random, 20))
        return tuff_reshape(x, TUFF_SHAPE(-1));
    for (int i = 0; i < from.rank; i++)
        if (i == axis + 1)
            to.extent[to.rank - 1] *= from.extent[i];
        else
            to.extent[to.rank++] = from.extent[i];
    for (int64_t factor = 2; factor < 5 && to.rank < 5 && chance(random, 50); factor++)
        if (to.extent[to.rank - 1] % factor == 0) {
            to.extent[to.rank - 1] /= factor;
            to.extent[to.rank++] = factor;
        }
    return tuff_reshape(x, to);
}

static void add_movement(generator *random)
{
    const int at = some_index(random);
    tuff_tensor *x = random->pool[at];
    switch (pick(random, 4)) {
    case 0:
        add_to_pool(random, sliced(random, x), random->size[at]);
        break;
    case 1:
        add_to_pool(random, padded(random, x), fmax(random->size[at], 0.5));
        break;
    case 2:
        add_to_pool(random, permuted(random, x), random->size[at]);
        break;
    default:
        add_to_pool(random, reshaped(random, x), random->size[at]);
    }
}

static void add_concat(generator *random)
{
    const int at = some_index(random), part_count = 2 + (int)pick(random, 3);
    tuff_tensor *parts[4] = {random->pool[at]};
    const tuff_shape shape = tuff_tensor_shape(parts[0]);
    double size = random->size[at];
    if (shape.rank == 0)
        return;
    for (int i = 1; i < part_count; i++) {
        double other;
        parts[i] = some_partner(random, parts[0], &other);
        if (!tuff_shape_equal(tuff_tensor_shape(parts[i]), shape))
            parts[i] = tuff_expand(parts[i], shape);
        size = fmax(size, other);
    }
    add_to_pool(random, tuff_concat(parts, part_count, (int)pick(random, shape.rank)), size);
}

/* Applies an op that a product may fuse into the load of its operand. */
static tuff_tensor *prepared(generator *random, tuff_tensor *x)
{
    const tuff_shape shape = tuff_tensor_shape(x);
    switch (pick(random, 7)) {
    case 0:
        return tuff_mul(x, tuff_constant(random->graph, TUFF_F32, 0.75));
    case 1:
        return tuff_mul(x, tuff_sigmoid(new_input(random, shape)));
    case 2:
        return tuff_sin(tuff_mul(x, new_input(random, TUFF_SHAPE(shape.extent[shape.rank - 1]))));
    case 3:
        return tuff_mul(x, tuff_cast(ranged_input(random->graph, TUFF_F16, TUFF_SHAPE(1), 0.25, 1), TUFF_F32));
    default:
        return x;
    }
}

static void add_matmul(generator *random)
{
    const int at = some_index(random);
    tuff_tensor *x = random->pool[at];
    const tuff_shape shape = tuff_tensor_shape(x);
    if (shape.rank < 2)
        return;
    const int64_t k = shape.extent[shape.rank - 1], n = some_extent(random);
    tuff_tensor *y = chance(random, 50)
                         ? prepared(random, new_input(random, TUFF_SHAPE(k, n)))
                         : tuff_permute(prepared(random, new_input(random, TUFF_SHAPE(n, k))), (int[]){1, 0});
    x = prepared(random, x);
    add_to_pool(random, tuff_matmul(x, y), random->size[at] * (double)k);
}

static void add_lookup(generator *random)
{
    const int at = some_index(random);
    tuff_tensor *x = random->pool[at];
    const tuff_shape shape = tuff_tensor_shape(x);
    if (shape.rank == 0)
        return;
    const int axis = (int)pick(random, shape.rank);
    tuff_shape rows = shape;
    const int64_t count = some_extent(random);
    tuff_tensor *indices =
        ranged_input(random->graph, TUFF_I32, TUFF_SHAPE(count), 0, (double)(shape.extent[axis] - 1));
    if (chance(random, 50)) {
        add_to_pool(random, tuff_gather_rows(x, indices, axis), random->size[at]);
        return;
    }
    rows.extent[axis] = count;
    if (tuff_shape_count(rows) <= MAX_ELEMENTS)
        add_to_pool(random, tuff_scatter_add_rows(x, indices, new_input(random, rows), axis),
                    random->size[at] + (double)count);
}

/* Adds products of one value with slices of one matrix, adjacent or overlapping: separate, with a vector each, or added
   up. The slices are columns, or transposed rows. */
static void add_siblings(generator *random)
{
    const int at = some_index(random), count = 2 + (int)pick(random, 2);
    tuff_tensor *x = random->pool[at], *sum = NULL;
    const tuff_shape shape = tuff_tensor_shape(x);
    if (shape.rank < 2)
        return;
    const int64_t k = shape.extent[shape.rank - 1], n = some_extent(random),
                  step = chance(random, 70) ? n : (n + 1) / 2;
    const int64_t columns = (count - 1) * step + n;
    const bool transposed = chance(random, 40), adds = chance(random, 50), biased = chance(random, 50);
    const double size = random->size[at] * (double)k;
    tuff_tensor *matrix = new_input(random, transposed ? TUFF_SHAPE(columns, k) : TUFF_SHAPE(k, columns));
    for (int i = 0; i < count; i++) {
        const int64_t first = i * step, start[] = {transposed ? first : 0, transposed ? 0 : first};
        const int64_t stop[] = {transposed ? first + n : k, transposed ? k : first + n};
        tuff_tensor *y = tuff_slice(matrix, start, stop, NULL);
        y = tuff_matmul(x, transposed ? tuff_permute(y, (int[]){1, 0}) : y);
        if (biased)
            y = tuff_add(y, chance(random, 80) || sum == NULL ? new_input(random, TUFF_SHAPE(n))
                                                              : tuff_mean(sum, (int[]){0}, 1, true));
        sum = sum == NULL || !adds ? y : tuff_add(sum, y);
        if (!adds)
            add_to_pool(random, y, size + 1);
    }
    if (adds)
        add_to_pool(random, sum, count * (size + 1));
}

/* Adds a concat along a new last or first axis, of values unchanged or reversed. */
static void add_stack(generator *random)
{
    const int at = some_index(random), count = 2 + (int)pick(random, 2);
    const tuff_shape shape = tuff_tensor_shape(random->pool[at]);
    tuff_shape column = shape;
    tuff_tensor *parts[3];
    double size = random->size[at];
    if (shape.rank == 0 || shape.rank > 4)
        return;
    column.extent[column.rank++] = 1;
    for (int i = 0; i < count; i++) {
        double other = random->size[at];
        parts[i] = i == 0 || chance(random, 20) ? random->pool[at] : some_partner(random, random->pool[at], &other);
        if (!tuff_shape_equal(tuff_tensor_shape(parts[i]), shape))
            parts[i] = tuff_expand(parts[i], shape);
        size = fmax(size, other);
        parts[i] = tuff_reshape(parts[i], column);
    }
    add_to_pool(random, tuff_concat(parts, count, shape.rank), size);
}

static tuff_tensor *attention_operand(generator *random, tuff_shape shape)
{
    for (int i = 0; i < 3; i++) {
        const int at = some_index(random);
        if (tuff_shape_count(tuff_tensor_shape(random->pool[at])) == tuff_shape_count(shape) && random->size[at] <= 2)
            return tuff_reshape(random->pool[at], shape);
    }
    tuff_tensor *made = chance(random, 50) ? tuff_sin(new_input(random, shape)) : new_input(random, shape);
    add_to_pool(random, made, 1);
    return made;
}

static void add_attention(generator *random)
{
    const int64_t heads = 1 + pick(random, 2), length = some_extent(random), width = some_extent(random);
    const tuff_shape shape = TUFF_SHAPE(1 + pick(random, 2), length, heads, width);
    if (tuff_shape_count(shape) > MAX_ELEMENTS)
        return;
    tuff_tensor *q = attention_operand(random, shape), *k = attention_operand(random, shape),
                *v = attention_operand(random, shape);
    add_to_pool(random, tuff_attention(q, k, v, &(tuff_attention_options){.causal = chance(random, 50)}), 2);
}

/* Reshapes a value into images, whatever its axes mean: all axes after the third become columns. */
static tuff_tensor *as_images(generator *random, int *at)
{
    *at = some_index(random);
    tuff_tensor *x = random->pool[*at];
    const tuff_shape shape = tuff_tensor_shape(x);
    const int64_t count = tuff_shape_count(shape);
    const int64_t channels = shape.rank > 1 ? shape.extent[0] : 1, rows = shape.rank > 2 ? shape.extent[1] : 1;
    return count == 0 ? NULL : tuff_reshape(x, TUFF_SHAPE(1, channels, rows, count / channels / rows));
}

static void add_convolution(generator *random)
{
    int at;
    tuff_tensor *x = as_images(random, &at);
    if (x == NULL)
        return;
    const tuff_shape shape = tuff_tensor_shape(x);
    const bool grouped = chance(random, 20);
    const int64_t channels = shape.extent[1], kernels = grouped ? channels : some_extent(random);
    const int64_t rows = 1 + pick(random, 3), columns = 1 + pick(random, 4);
    const tuff_conv2d_options options = {.stride = {1 + pick(random, 2), 1 + pick(random, 3)},
                                         .dilation = {1, 1 + pick(random, 2)},
                                         .padding = {rows / 2, columns},
                                         .groups = grouped ? channels : 1};
    if (shape.extent[2] + 2 * (rows / 2) < rows || kernels * channels * rows * columns > MAX_ELEMENTS)
        return;
    const double terms = (double)(rows * columns * (grouped ? 1 : channels));
    tuff_tensor *w = new_input(random, TUFF_SHAPE(kernels, grouped ? 1 : channels, rows, columns));
    add_to_pool(random, tuff_conv2d(x, w, chance(random, 50) ? new_input(random, TUFF_SHAPE(kernels)) : NULL, &options),
                random->size[at] * terms + 1);
}

static void add_pool(generator *random)
{
    int at;
    tuff_tensor *x = as_images(random, &at);
    if (x == NULL)
        return;
    const tuff_shape shape = tuff_tensor_shape(x);
    const int64_t rows = 1 + pick(random, shape.extent[2] < 3 ? shape.extent[2] : 3);
    const int64_t columns = 1 + pick(random, shape.extent[3] < 4 ? shape.extent[3] : 4);
    const tuff_pool2d_options options = {.size = {rows, columns},
                                         .stride = {1 + pick(random, 3), 1 + pick(random, 3)},
                                         .padding = {pick(random, rows), pick(random, columns)}};
    const bool average = random->smooth || chance(random, 50);
    add_to_pool(random, average ? tuff_avg_pool2d(x, &options) : tuff_max_pool2d(x, &options), random->size[at]);
}

/* Adds an op of a random kind; the kinds for images come last. */
static void add_op(generator *random)
{
    enum { IMAGE_KINDS = 2 };
    static void (*const kinds[])(generator *) = {
        add_unary,    add_unary,  add_binary,    add_binary,      add_reduction, add_normalisation,
        add_movement, add_concat, add_matmul,    add_lookup,      add_movement,  add_reduction,
        add_siblings, add_stack,  add_attention, add_convolution, add_pool};
    const int64_t count = (int64_t)(sizeof kinds / sizeof kinds[0]);
    kinds[pick(random, random->has_images ? count : count - IMAGE_KINDS)](random);
}

/* Makes every value that no op reads an output, since it would be dead otherwise, and the last value in any case. If
   gradients are wanted, all are added up to one target. */
static void add_outputs(generator *random)
{
    tuff_tensor *target = tuff_constant(random->graph, TUFF_F32, 0);
    tuff_tensor *gradients[POOL];
    for (int i = 0; i < random->count; i++) {
        const tuff_shape shape = tuff_tensor_shape(random->pool[i]);
        const int axes[TUFF_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
        if (random->read[i] && i < random->count - 1 && !chance(random, 10))
            continue;
        add_output(random->graph, random->pool[i]);
        target = tuff_add(target, tuff_mean(tuff_tanh(random->pool[i]), axes, shape.rank, false));
    }
    if (!random->smooth)
        return;
    const int count = random->input_count > 8 ? 8 : random->input_count;
    if (tuff_gradients(target, random->inputs, count, gradients) == TUFF_OK)
        for (int i = 0; i < count; i++)
            add_output(random->graph, gradients[i]);
}

void random_graph(tuff_graph *graph, const void *seed)
{
    generator rng_state = {.graph = graph, .key = random_key_number(*(const uint64_t *)seed, 1)};
    rng_state.smooth = chance(&rng_state, 50);
    rng_state.has_images = *(const uint64_t *)seed % 4 == 3; /* keeps the graphs of all other seeds as they were */
    for (int i = 0; i < 2; i++)
        add_to_pool(&rng_state, new_input(&rng_state, some_shape(&rng_state, 1 + (int)pick(&rng_state, 4))), 1);
    const int64_t steps = 3 + pick(&rng_state, 8);
    for (int64_t i = 0; i < steps && rng_state.count < POOL - 2 && rng_state.input_count < 24; i++)
        add_op(&rng_state);
    add_outputs(&rng_state);
}
