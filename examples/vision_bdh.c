/* Vision-BDH: an image classifier that applies one block several times with the same weights: two sparse codes by ReLU,
   with linear attention (without softmax) between them, and the product of the codes as a gate.

   Shapes: B batch, C channels, s image size, p patch size, T = (s / p)² + 1 tokens (the class token, then patches), D
   width, n heads, N = mult · D / n elements of a code, L recurrences. LN normalizes over D, without gain and bias. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/example.h"

enum { CLASSES = 10, MAX_CHANNELS = 16 };

typedef struct vision_config {
    example_settings settings;
    int64_t channels, size, patch, width, heads, multiple, recurrences;
    int64_t softmax; /* of the scores / sqrt(N); the published training uses raw scores */
} vision_config;

#define INTEGER(member, name, meaning) EXAMPLE_INTEGER(vision_config, member, name, meaning)
static const example_field fields[] = {
    INTEGER(channels, "C", "channels per image"),
    INTEGER(size, "s", "rows and columns of an image"),
    INTEGER(patch, "p", "rows and columns of a patch"),
    INTEGER(width, "D", "width"),
    INTEGER(heads, "n", "heads"),
    INTEGER(multiple, "mult", "width of the codes of all heads, as a multiple of D"),
    INTEGER(recurrences, "L", "recurrences"),
    INTEGER(softmax, "use_softmax", "1: softmax attention, 0: linear attention"),
};

/* The published warmup lags by one step: its first step has rate 0. */
#define OPTIMIZER \
    .rate = 2e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.05, .clip_norm = 1, .final_rate = 0
#define SIZES(D, N, MULT, L) \
    .channels = 3, .size = 32, .patch = 4, .width = D, .heads = N, .multiple = MULT, .recurrences = L
static const vision_config small = {.settings = {.batch = 16, .steps = 500, .warmup = 10, .dropout = 0.1, OPTIMIZER},
                                    SIZES(64, 4, 8, 3)};
/* The published baseline script. The published optimized script has B=128, accumulate=2, steps=7825. */
static const vision_config original = {
    .settings = {.batch = 64, .steps = 31250, .warmup = 1000, .dropout = 0.1, OPTIMIZER}, SIZES(192, 6, 32, 6)};

static const double norm_epsilon = 1e-5, full_turn = 6.283185307179586;

static const char *check_config(const void *given)
{
    const vision_config *c = given;
    if (c->channels < 1 || c->channels > MAX_CHANNELS || c->size < 1 || c->patch < 1 || c->width < 1 || c->heads < 1 ||
        c->multiple < 1 || c->recurrences < 1)
        return "C must be 1 to 16, and s, p, D, n, mult and L at least 1";
    if (c->size % c->patch != 0)
        return "s must be a multiple of p";
    if (c->multiple * c->width % (2 * c->heads) != 0)
        return "mult * D must be a multiple of 2 * n";
    return NULL;
}

static int64_t tokens_of(const vision_config *c)
{
    return c->size / c->patch * (c->size / c->patch) + 1;
}

static int64_t code_of(const vision_config *c)
{
    return c->multiple * c->width / c->heads;
}

static void list_parameters(const void *given, example_parameters *list)
{
    const vision_config *c = given;
    const int64_t C = c->channels, p = c->patch, D = c->width, n = c->heads, N = code_of(c);
    const double code = sqrt(6.0 / (double)((D + n) * N)), area = (double)(p * p);
    example_add_parameter(list, TUFF_SHAPE(n * N, D), EXAMPLE_UNIFORM, sqrt(6.0 / (double)(n * N + D)), "Dc");
    example_add_parameter(list, TUFF_SHAPE(n, D, N), EXAMPLE_UNIFORM, code, "E");
    example_add_parameter(list, TUFF_SHAPE(n, D, N), EXAMPLE_UNIFORM, code, "F");
    example_add_parameter(list, TUFF_SHAPE(D, C, p, p), EXAMPLE_UNIFORM, sqrt(6 / ((double)(C + D) * area)),
                          "patch.weight");
    example_add_parameter(list, TUFF_SHAPE(D), EXAMPLE_CONSTANT, 0, "patch.bias");
    example_add_parameter(list, TUFF_SHAPE(1, 1, D), EXAMPLE_CONSTANT, 0, "cls");
    example_add_parameter(list, TUFF_SHAPE(1, tokens_of(c), D), EXAMPLE_NORMAL, 0.02, "pos");
    example_add_parameter(list, TUFF_SHAPE(CLASSES, D), EXAMPLE_UNIFORM, sqrt(6.0 / (double)(D + CLASSES)),
                          "head.weight");
    example_add_parameter(list, TUFF_SHAPE(CLASSES), EXAMPLE_CONSTANT, 0, "head.bias");
}

static void list_inputs(const void *given, example_purpose purpose, example_inputs *list)
{
    const vision_config *c = given;
    (void)purpose;
    example_add_input(list, "images", TUFF_F32, TUFF_SHAPE(c->channels, c->size, c->size));
    example_add_input(list, "labels", TUFF_I32, TUFF_SCALAR);
}

static tuff_tensor *norm(tuff_tensor *x)
{
    return tuff_layer_norm(x, NULL, NULL, 1, norm_epsilon);
}

/* Elements first, first + step, ... along an axis, up to but not including stop. */
static tuff_tensor *slice_axis(tuff_tensor *x, int axis, int64_t first, int64_t stop, int64_t step)
{
    tuff_shape shape = tuff_tensor_shape(x);
    int64_t from[TUFF_MAX_RANK] = {0}, to[TUFF_MAX_RANK], by[TUFF_MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        to[i] = shape.extent[i];
        by[i] = 1;
    }
    from[axis] = first;
    to[axis] = stop;
    by[axis] = step;
    return tuff_slice(x, from, to, by);
}

/* Patches as [B,(s/p)²,D]. The published form transposes the result of a convolution; the optimized form is one
   product. */
static tuff_tensor *embed_patches(example_build *b)
{
    static const int width_last[] = {0, 2, 1};
    const vision_config *c = b->config;
    tuff_tensor *images = example_input(b, "images"), *weight = example_parameter(b, "patch.weight"),
                *bias = example_parameter(b, "patch.bias");
    if (b->optimized)
        return tuff_patch_embed(images, weight, bias);
    const tuff_conv2d_options options = {.stride = {c->patch, c->patch}};
    tuff_tensor *made = tuff_conv2d(images, weight, bias, &options);
    return tuff_permute(tuff_reshape(made, TUFF_SHAPE(b->batch, c->width, tokens_of(c) - 1)), width_last);
}

static tuff_tensor *embed(example_build *b)
{
    const vision_config *c = b->config;
    tuff_tensor *const parts[] = {tuff_expand(example_parameter(b, "cls"), TUFF_SHAPE(b->batch, 1, c->width)),
                                  embed_patches(b)};
    tuff_tensor *x = tuff_add(tuff_concat(parts, 2, 1), example_parameter(b, "pos"));
    return example_named_output(b, x, "tokens");
}

/* Fraction of a full turn by which an element of a code rotates per token, in f32 as published; equal within a pair. */
static float frequency_of(const vision_config *c, int64_t element)
{
    return (float)(pow(65536, -(double)(element / 2 * 2) / (double)code_of(c)) / full_turn);
}

typedef struct tables {
    tuff_tensor *cosines, *sines;
} tables;

/* Tables [T,N], computed on the device in every recurrence, as published. (The compiler computes equal values only
   once, even without fusion.) */
static tables compute_tables(example_build *b)
{
    const vision_config *c = b->config;
    const int64_t T = tokens_of(c), N = code_of(c);
    float *frequency = calloc((size_t)N, sizeof *frequency);
    for (int64_t j = 0; frequency && j < N; j++)
        frequency[j] = frequency_of(c, j);
    tuff_tensor *time = tuff_cast(tuff_iota(b->graph, TUFF_SHAPE(T, 1), 0), TUFF_F32);
    tuff_tensor *turns = tuff_mul(time, tuff_constant_data(b->graph, TUFF_F32, TUFF_SHAPE(1, N), frequency));
    tuff_tensor *phase = tuff_mul(tuff_sub(turns, tuff_floor(turns)), tuff_constant(b->graph, TUFF_F32, full_turn));
    free(frequency);
    return (tables){tuff_cos(phase), tuff_sin(phase)};
}

/* Tables [T,N/2], one value per pair, computed once on the host. */
static tables constant_tables(example_build *b)
{
    const vision_config *c = b->config;
    const int64_t half = code_of(c) / 2, count = tokens_of(c) * half;
    const tuff_shape shape = TUFF_SHAPE(tokens_of(c), half);
    float *cosines = calloc((size_t)(2 * count), sizeof *cosines), *sines = cosines ? cosines + count : NULL;
    for (int64_t i = 0; cosines && i < count; i++) {
        const float turns = (float)(i / half) * frequency_of(c, i % half * 2);
        const float phase = (turns - floorf(turns)) * (float)full_turn;
        cosines[i] = cosf(phase);
        sines[i] = sinf(phase);
    }
    const tables made = {tuff_constant_data(b->graph, TUFF_F32, shape, cosines),
                         tuff_constant_data(b->graph, TUFF_F32, shape, sines)};
    free(cosines);
    return made;
}

/* Rotates each pair (2i, 2i+1) of u[B,n,T,N]. The published form stacks slices into a rotated copy. */
static tuff_tensor *rope_in_steps(tuff_tensor *u, tables angles)
{
    const tuff_shape shape = tuff_tensor_shape(u);
    tuff_shape column = shape;
    column.rank = 5;
    column.extent[3] = shape.extent[3] / 2;
    column.extent[4] = 1;
    tuff_tensor *const pair[] = {tuff_reshape(tuff_neg(slice_axis(u, 3, 1, shape.extent[3], 2)), column),
                                 tuff_reshape(slice_axis(u, 3, 0, shape.extent[3], 2), column)};
    return tuff_add(tuff_mul(u, angles.cosines), tuff_mul(tuff_reshape(tuff_concat(pair, 2, 4), shape), angles.sines));
}

/* The same for u[B,T,n,2,N/2], in which the two elements of each pair are N/2 apart: a view swaps them. */
static tuff_tensor *rope(example_build *b, tuff_tensor *u, tables angles)
{
    static const float signs[] = {-1, 1};
    const int64_t T = tokens_of(b->config), half = code_of(b->config) / 2;
    const tuff_shape table = TUFF_SHAPE(1, T, 1, 1, half);
    tuff_tensor *sign = tuff_constant_data(b->graph, TUFF_F32, TUFF_SHAPE(2, 1), signs);
    tuff_tensor *sines = tuff_mul(tuff_reshape(angles.sines, table), sign);
    return tuff_add(tuff_mul(u, tuff_reshape(angles.cosines, table)), tuff_mul(slice_axis(u, 3, 1, -1, -1), sines));
}

/* Scores Q·Rᵀ[B,n,count,T] from q[B,n,count,N] and r[B,n,T,N]. */
static tuff_tensor *scores_of(example_build *b, tuff_tensor *q, tuff_tensor *r)
{
    static const int transposed[] = {0, 1, 3, 2};
    const vision_config *c = b->config;
    tuff_tensor *scores = tuff_matmul(q, tuff_permute(r, transposed));
    if (!c->softmax)
        return scores;
    tuff_tensor *scale = tuff_constant(b->graph, TUFF_F32, 1 / sqrt((double)code_of(c)));
    return tuff_softmax(tuff_mul(scores, scale), 3);
}

/* One recurrence of x[B,T,D] as published: every head reads x by broadcasting, and the scores are stored in memory. */
static tuff_tensor *recur_in_steps(example_build *b, tuff_tensor *x, int step)
{
    static const int heads_last[] = {0, 2, 1, 3};
    const vision_config *c = b->config;
    const int64_t B = b->batch, T = tokens_of(c);
    x = norm(x);
    tuff_tensor *values = tuff_reshape(x, TUFF_SHAPE(B, 1, T, c->width));
    tuff_tensor *u = tuff_relu(tuff_matmul(values, example_parameter(b, "E")));
    const tables angles = compute_tables(b);
    tuff_tensor *r = rope_in_steps(u, angles), *scores = scores_of(b, r, r);
    tuff_tensor *y = norm(tuff_matmul(scores, values));
    tuff_tensor *z = tuff_relu(tuff_matmul(y, example_parameter(b, "F")));
    tuff_tensor *gated = example_dropout(b, tuff_mul(u, z));
    tuff_tensor *w = tuff_reshape(tuff_permute(gated, heads_last), TUFF_SHAPE(B, T, c->heads * code_of(c)));
    if (step == 0) {
        example_named_output(b, angles.cosines, "rope_cos");
        example_named_output(b, angles.sines, "rope_sin");
        example_named_output(b, u, "U_0");
        example_named_output(b, scores, "scores_0");
        example_named_output(b, y, "Y_0");
        example_named_output(b, w, "w_0");
    }
    x = norm(tuff_add(x, norm(tuff_matmul(w, example_parameter(b, "Dc")))));
    return example_named_output(b, x, "x_after_rec_%d", step);
}

/* Parameters of the optimized form, prepared once for all recurrences: heads side by side, and the elements of a code
   reordered so that all even ones come first. */
typedef struct weights {
    tuff_tensor *e, *f, *dc; /* [D,n·N], [n,D,N], [n·N,D] */
    tables angles;
} weights;

static weights prepare_weights(example_build *b)
{
    static const int order_e[] = {1, 0, 3, 2}, order_f[] = {0, 1, 3, 2}, order_dc[] = {0, 2, 1, 3};
    const vision_config *c = b->config;
    const int64_t D = c->width, n = c->heads, N = code_of(c);
    const tuff_shape pairs = TUFF_SHAPE(n, D, N / 2, 2);
    tuff_tensor *e = tuff_permute(tuff_reshape(example_parameter(b, "E"), pairs), order_e);
    tuff_tensor *f = tuff_permute(tuff_reshape(example_parameter(b, "F"), pairs), order_f);
    tuff_tensor *dc = tuff_permute(tuff_reshape(example_parameter(b, "Dc"), TUFF_SHAPE(n, N / 2, 2, D)), order_dc);
    return (weights){tuff_reshape(e, TUFF_SHAPE(D, n * N)), tuff_reshape(f, TUFF_SHAPE(n, D, N)),
                     tuff_reshape(dc, TUFF_SHAPE(n * N, D)), constant_tables(b)};
}

/* Converts [B,count,n,2,N/2] to [B,n,count,N], the order of the published form. */
static tuff_tensor *to_published_order(example_build *b, tuff_tensor *x)
{
    static const int order[] = {0, 2, 1, 4, 3};
    const tuff_shape shape = tuff_tensor_shape(x);
    return tuff_reshape(tuff_permute(x, order),
                        TUFF_SHAPE(b->batch, shape.extent[2], shape.extent[1], 2 * shape.extent[4]));
}

/* Expands a table of pairs [T,N/2] to one of elements [T,N]. */
static tuff_tensor *expand_pairs(tuff_tensor *x)
{
    const int64_t T = tuff_tensor_shape(x).extent[0], half = tuff_tensor_shape(x).extent[1];
    return tuff_reshape(tuff_expand(tuff_reshape(x, TUFF_SHAPE(T, half, 1)), TUFF_SHAPE(T, half, 2)),
                        TUFF_SHAPE(T, 2 * half));
}

/* One recurrence, computed for the first `count` tokens: all T, or only the class token if nothing reads the others.
   The codes of all heads are one product, as are the values of all heads from the scores; then follows one product per
   head. For sequences as short as here, products are faster than attention that recomputes scores. */
static tuff_tensor *recur(example_build *b, tuff_tensor *x, const weights *w, int64_t count, int step)
{
    static const int outwards[] = {1, 0, 2, 3}, back[] = {1, 2, 0, 3}, exchanged[] = {0, 2, 1, 3},
                     in_pairs[] = {0, 2, 1, 4, 3};
    const vision_config *c = b->config;
    const int64_t B = b->batch, T = tokens_of(c), D = c->width, n = c->heads, N = code_of(c);
    const tuff_shape codes = TUFF_SHAPE(B, count, n, 2, N / 2);
    x = norm(x);
    tuff_tensor *u = tuff_relu(tuff_matmul(tuff_reshape(x, TUFF_SHAPE(B * T, D)), w->e));
    u = tuff_reshape(u, TUFF_SHAPE(B, T, n, 2, N / 2));
    tuff_tensor *r = tuff_permute(tuff_reshape(rope(b, u, w->angles), TUFF_SHAPE(B, T, n, N)), exchanged);
    tuff_tensor *scores = tuff_reshape(scores_of(b, example_slice(r, 2, 0, count), r), TUFF_SHAPE(B, n * count, T));
    tuff_tensor *y = norm(tuff_reshape(tuff_matmul(scores, x), TUFF_SHAPE(B, n, count, D)));
    tuff_tensor *rows = tuff_reshape(tuff_permute(y, outwards), TUFF_SHAPE(n, B * count, D));
    tuff_tensor *z = tuff_reshape(tuff_relu(tuff_matmul(rows, w->f)), TUFF_SHAPE(n, B, count, N));
    z = tuff_reshape(tuff_permute(z, back), codes);
    /* Drops the same elements as the published form. */
    tuff_tensor *kept = tuff_expand(tuff_constant(b->graph, TUFF_F32, 1), TUFF_SHAPE(B, n, T, N));
    kept = example_slice(example_dropout(b, kept), 2, 0, count);
    kept = tuff_permute(tuff_reshape(kept, TUFF_SHAPE(B, n, count, N / 2, 2)), in_pairs);
    tuff_tensor *gated = tuff_mul(tuff_mul(example_slice(u, 1, 0, count), z), kept);
    tuff_tensor *sum = norm(tuff_matmul(tuff_reshape(gated, TUFF_SHAPE(B * count, n * N)), w->dc));
    if (step == 0 && count == T && b->purpose == EXAMPLE_CHECK) {
        example_named_output(b, expand_pairs(w->angles.cosines), "rope_cos");
        example_named_output(b, expand_pairs(w->angles.sines), "rope_sin");
        example_named_output(b, to_published_order(b, u), "U_0");
        example_named_output(b, tuff_reshape(scores, TUFF_SHAPE(B, n, T, T)), "scores_0");
        example_named_output(b, y, "Y_0");
        tuff_tensor *joined = tuff_permute(to_published_order(b, gated), exchanged);
        example_named_output(b, tuff_reshape(joined, TUFF_SHAPE(B, T, n * N)), "w_0");
    }
    return norm(tuff_add(example_slice(x, 1, 0, count), tuff_reshape(sum, TUFF_SHAPE(B, count, D))));
}

/* Returns x after all recurrences; only the class token is required. */
static tuff_tensor *recur_all(example_build *b, tuff_tensor *x)
{
    const vision_config *c = b->config;
    const weights w = prepare_weights(b);
    for (int step = 0; step < c->recurrences - 1; step++)
        x = example_named_output(b, recur(b, x, &w, tokens_of(c), step), "x_after_rec_%d", step);
    const int last = (int)c->recurrences - 1;
    tuff_tensor *class_token = recur(b, x, &w, 1, last);
    if (b->purpose == EXAMPLE_CHECK && example_dropout_probability(b) == 0) /* golden files hold all tokens */
        example_named_output(b, recur(b, x, &w, tokens_of(c), last), "x_after_rec_%d", last);
    return class_token;
}

static tuff_tensor *build(example_build *b)
{
    static const int turned[] = {1, 0}, samples[] = {0};
    const vision_config *c = b->config;
    tuff_tensor *x = embed(b), *labels = example_input(b, "labels");
    for (int step = 0; step < c->recurrences && !b->optimized; step++)
        x = recur_in_steps(b, x, step);
    if (b->optimized)
        x = recur_all(b, x);
    tuff_tensor *class_token = tuff_reshape(example_slice(x, 1, 0, 1), TUFF_SHAPE(b->batch, c->width));
    tuff_tensor *weight = tuff_permute(example_parameter(b, "head.weight"), turned);
    tuff_tensor *logits = tuff_linear(norm(class_token), weight, example_parameter(b, "head.bias"));
    example_named_output(b, logits, "logits");
    tuff_tensor *correct = tuff_cast(tuff_equal(tuff_argmax(logits, 1, false), labels), TUFF_F32);
    example_add_metric(b, "accuracy", tuff_mean(correct, samples, 1, false));
    return tuff_cross_entropy(logits, labels, -100, 0);
}

/* Images as bytes, with their labels. Four fifths, selected by the seed, are for training, the others for
   validation. */
typedef struct image_set {
    int64_t count, channels;
    unsigned char *pixels; /* [count, channels, SIDE, SIDE] */
    unsigned char *labels;
} image_set;
enum { SIDE = 32, PIXELS = SIDE * SIDE, RECORD = 1 + 3 * PIXELS, SYNTHETIC = 500 };

static void close_images(void *data)
{
    image_set *self = data;
    if (self) {
        free(self->pixels);
        free(self->labels);
    }
    free(self);
}

static image_set *create_images(int64_t count, int64_t channels)
{
    image_set *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    *made = (image_set){.count = count, .channels = channels};
    made->pixels = malloc((size_t)(count * channels * PIXELS) + 1);
    made->labels = malloc((size_t)count + 1);
    if (made->pixels && made->labels)
        return made;
    close_images(made);
    return NULL;
}

/* Draws waves with noise: the class is one of five angles (of either sign, as images are mirrored) and two
   frequencies. */
static void draw_image(example_random *random, int64_t channels, int label, unsigned char *pixels)
{
    const double angle = label % 5 * 0.392699 * (example_integer(random, 2) ? 1 : -1);
    const double frequency = label < 5 ? 0.4 : 0.9, phase = example_uniform(random, 0, full_turn);
    double contrast[MAX_CHANNELS];
    for (int64_t c = 0; c < channels; c++)
        contrast[c] = example_uniform(random, 20, 60) * (example_integer(random, 2) ? 1 : -1);
    for (int64_t i = 0; i < PIXELS; i++) {
        const double wave =
            sin(frequency * ((double)(i % SIDE) * cos(angle) + (double)(i / SIDE) * sin(angle)) + phase);
        for (int64_t c = 0; c < channels; c++)
            pixels[c * PIXELS + i] =
                (unsigned char)(96 + contrast[c] * wave + (double)(example_random_bits(random) & 63));
    }
}

static void *open_synthetic(tuff_device *device, const void *config, uint64_t seed)
{
    const vision_config *c = config;
    image_set *made = create_images(SYNTHETIC, c->channels);
    (void)device;
    for (int64_t i = 0; made && i < SYNTHETIC; i++) {
        example_random random = example_random_stream(seed, ((uint64_t)1 << 59) + (uint64_t)i);
        made->labels[i] = (unsigned char)example_integer(&random, CLASSES);
        draw_image(&random, c->channels, made->labels[i], made->pixels + i * c->channels * PIXELS);
    }
    return made;
}

static image_set *reject(const char *path, const char *why, image_set *made)
{
    fprintf(stderr, "vision_bdh: %s: %s\n", path, why);
    close_images(made);
    return NULL;
}

/* Reads `count` records: a label, then the red, green and blue pixels. */
static image_set *read_records(FILE *file, const char *path, int64_t count)
{
    image_set *made = create_images(count, 3);
    if (!made)
        return reject(path, "out of memory", NULL);
    for (int64_t i = 0; i < count; i++) {
        unsigned char *pixels = made->pixels + i * 3 * PIXELS;
        if (fread(made->labels + i, 1, 1, file) != 1 || fread(pixels, 3 * PIXELS, 1, file) != 1)
            return reject(path, ferror(file) ? strerror(errno) : "file was truncated while it was read", made);
        if (made->labels[i] >= CLASSES) {
            char why[96];
            snprintf(why, sizeof why, "image %lld has label %d, expected less than %d: not a CIFAR-10 binary file",
                     (long long)i, made->labels[i], CLASSES);
            return reject(path, why, made);
        }
    }
    return made;
}

/* Opens a binary CIFAR-10 file, or several concatenated ones. */
static void *open_cifar(tuff_device *device, const void *config, uint64_t seed, const char *path)
{
    const vision_config *c = config;
    (void)device;
    (void)seed;
    if (c->channels != 3)
        return reject(path, "C must be 3 for CIFAR-10 images", NULL);
    FILE *file = fopen(path, "rb");
    if (!file)
        return reject(path, strerror(errno), NULL);
    const long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    image_set *made = NULL;
    char why[128];
    snprintf(why, sizeof why,
             "size %ld is not a positive multiple of %d bytes: truncated, or not a CIFAR-10 binary file", size, RECORD);
    if (size < 0 || size / RECORD > (long)1 << 24 || fseek(file, 0, SEEK_SET) != 0)
        reject(path, "not a regular file, or too large", NULL);
    else if (size == 0 || size % RECORD != 0)
        reject(path, why, NULL);
    else if (size / RECORD < 5)
        reject(path, "expected at least 5 images, because some are held out", NULL);
    else
        made = read_records(file, path, size / RECORD);
    fclose(file);
    return made;
}

/* Index of the image for sample `index` of a batch. Each training epoch has its own order. */
static int64_t image_at(const image_set *set, const example_batch *batch, int64_t index)
{
    const int64_t training = set->count * 4 / 5, held_out = set->count - training;
    if (batch->number < 0) {
        const int64_t position = ((-1 - batch->number) * batch->count + index) % held_out;
        return tuff_shuffled_index(batch->seed, -1, training + position, set->count);
    }
    const int64_t position = batch->number * batch->count + index;
    const int64_t drawn = tuff_shuffled_index(batch->seed, position / training, position % training, training);
    return tuff_shuffled_index(batch->seed, -1, drawn, set->count);
}

/* A random crop of an image: 0.8 to 1 of its area, aspect ratio 3/4 to 4/3, mirrored half of the time. */
typedef struct crop {
    double left, top, width, height;
    bool mirrored;
} crop;

static crop draw_crop(example_random *random)
{
    crop made = {.width = SIDE, .height = SIDE};
    for (int attempt = 0; attempt < 10; attempt++) {
        const double area = PIXELS * example_uniform(random, 0.8, 1);
        const double ratio = exp(example_uniform(random, log(3.0 / 4), log(4.0 / 3)));
        const double width = floor(sqrt(area * ratio) + 0.5), height = floor(sqrt(area / ratio) + 0.5);
        if (width <= SIDE && height <= SIDE) {
            made = (crop){.width = width, .height = height};
            break;
        }
    }
    made.left = (double)example_integer(random, SIDE - (int64_t)made.width + 1);
    made.top = (double)example_integer(random, SIDE - (int64_t)made.height + 1);
    made.mirrored = example_integer(random, 2);
    return made;
}

/* Bilinear interpolation: sets the two nearest elements and returns the weight of the second. Repeats the border. */
static double between(double first, double extent, int64_t index, int64_t count, int64_t *low, int64_t *high)
{
    const double at = fmax(((double)index + 0.5) * extent / (double)count - 0.5, 0),
                 whole = fmin(floor(at), extent - 1);
    *low = (int64_t)(first + whole);
    *high = (int64_t)(first + fmin(whole + 1, extent - 1));
    return at - whole;
}

/* Resizes a crop of pixels[channels,SIDE,SIDE] to out[channels,size,size], scaled to -1 to 1. */
static void resize(const unsigned char *pixels, int64_t channels, crop from, int64_t size, float *out)
{
    for (int64_t row = 0; row < size; row++) {
        int64_t above, below;
        const double down = between(from.top, from.height, row, size, &above, &below);
        for (int64_t column = 0; column < size; column++, out++) {
            int64_t left, right;
            const double across =
                between(from.left, from.width, from.mirrored ? size - 1 - column : column, size, &left, &right);
            for (int64_t channel = 0; channel < channels; channel++) {
                const unsigned char *upper = pixels + channel * PIXELS + above * SIDE,
                                    *lower = pixels + channel * PIXELS + below * SIDE;
                const double top = upper[left] * (1 - across) + upper[right] * across;
                const double bottom = lower[left] * (1 - across) + lower[right] * across;
                out[channel * size * size] = (float)((top * (1 - down) + bottom * down) / 127.5 - 1);
            }
        }
    }
}

static void fill(const example_batch *batch)
{
    const vision_config *c = batch->config;
    const image_set *set = batch->data;
    const int64_t size = c->size * c->size;
    float *images = batch->inputs[0];
    int32_t *labels = batch->inputs[1];
    example_random random = example_random_stream(batch->seed, 1 + (uint64_t)batch->number);
    for (int64_t i = 0; i < batch->count; i++, images += c->channels * size) {
        if (batch->purpose == EXAMPLE_CHECK) {
            for (int64_t k = 0; k < c->channels * size; k++)
                images[k] = (float)example_normal(&random);
            labels[i] = (int32_t)example_integer(&random, CLASSES);
            continue;
        }
        const int64_t from = image_at(set, batch, i);
        const crop where = draw_crop(&random);
        resize(set->pixels + from * c->channels * PIXELS, c->channels, where, c->size, images);
        labels[i] = set->labels[from];
    }
}

static void draw_config(void *config, example_random *random)
{
    static const int64_t heads[] = {1, 2, 3, 4}, patches[] = {1, 2, 3, 4};
    vision_config *c = config;
    c->settings.batch = 1 + example_integer(random, 4);
    c->settings.dropout = example_integer(random, 2) ? 0.1 : 0;
    c->channels = 1 + example_integer(random, 3);
    c->patch = example_pick(random, patches, 4);
    c->size = c->patch * (1 + example_integer(random, 6));
    c->heads = example_pick(random, heads, 4);
    c->width = 3 + example_random_extent(random, 30); /* layer norm of two numbers keeps little more than their order */
    c->multiple = 1 + example_integer(random, 8);
    c->recurrences = 1 + example_integer(random, 2);
    c->softmax = example_integer(random, 3) == 0;
}

const example vision_bdh_example = {
    .name = "vision_bdh",
    .summary = "an image classifier of recurrent sparse codes and linear attention",
    .item = "images",
    .config_size = sizeof(vision_config),
    .fields = fields,
    .field_count = sizeof fields / sizeof *fields,
    .small = &small,
    .original = &original,
    .baseline_reads_loss = true,
    .check_config = check_config,
    .list_parameters = list_parameters,
    .list_inputs = list_inputs,
    .build = build,
    .fill = fill,
    .draw_config = draw_config,
    .open = open_synthetic,
    .open_file = open_cifar,
    .file_help = "CIFAR-10 binary file, or several concatenated ones (synthetic images)",
    .close = close_images,
};
