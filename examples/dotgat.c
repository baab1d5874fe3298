/* DynamicDotGAT: agents that each see a part of a multivariate series. An agent attends to its own past (memory), then
   to its neighbours on a ring (social), several times with the same weights, and predicts the next state.

   Shapes: B batch, T time, A agents, M columns, H width, n heads, S message steps, Y outputs. Weights W[A,in,out] hold
   one matrix per agent. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/example.h"

typedef struct dotgat_config {
    example_settings settings;
    int64_t time, agents, columns, width, heads, messages, ties, seen, latent;
    int64_t own_values; /* V projection of attention: one matrix per agent; else one shared by all */
    int64_t argmax; /* older task: predict the largest column by cross-entropy, Y = M; else mean squared error, Y = 1 */
} dotgat_config;

#define INTEGER(member, name, meaning) EXAMPLE_INTEGER(dotgat_config, member, name, meaning)
static const example_field fields[] = {
    INTEGER(time, "T", "time steps"),
    INTEGER(agents, "A", "agents"),
    INTEGER(columns, "M", "columns of the series"),
    INTEGER(width, "H", "width"),
    INTEGER(heads, "n", "heads"),
    INTEGER(messages, "S", "message steps"),
    INTEGER(ties, "k", "neighbours on the ring"),
    INTEGER(seen, "seen", "columns that an agent sees"),
    INTEGER(latent, "r", "latent series that generate the columns"),
    INTEGER(own_values, "own_values", "1: a value projection per agent, 0: one shared by all"),
    INTEGER(argmax, "argmax", "1: predict the largest column instead of the next state"),
};

#define OPTIMIZER                                                                                      \
    .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01, .clip_norm = 1, \
    .final_rate = 1e-3
#define SIZES(T, A, M, H, S, SEEN) \
    .time = T, .agents = A, .columns = M, .width = H, .heads = 4, .messages = S, .ties = 4, .seen = SEEN, .latent = 25
static const dotgat_config small = {
    .settings = {.batch = 16, .steps = 500, .epoch_steps = 50, .dropout = 0.1, OPTIMIZER}, SIZES(24, 8, 16, 64, 3, 4)};
static const dotgat_config original = {
    .settings = {.batch = 64, .steps = 600, .epoch_steps = 12, .dropout = 0.1, OPTIMIZER},
    SIZES(50, 20, 25, 128, 5, 6)};

static const double rms_epsilon = 1.1920928955078125e-7;

static const char *check_config(const void *given)
{
    const dotgat_config *c = given;
    if (c->time < 1 || c->agents < 1 || c->columns < 1 || c->width < 1 || c->heads < 1 || c->messages < 1 ||
        c->latent < 1)
        return "T, A, M, H, n, S and r must be at least 1";
    if (c->width % c->heads != 0)
        return "H must be a multiple of n";
    if (c->seen < 1 || c->seen > c->columns || c->ties < 1)
        return "seen must be 1 to M, and k at least 1";
    return NULL;
}

static int64_t outputs_of(const dotgat_config *c)
{
    return c->argmax ? c->columns : 1;
}

/* Neighbours on each side of the ring; 0 if k is 1, so that an agent sees only itself. */
static int64_t reach_of(const dotgat_config *c)
{
    const int64_t most = c->agents > 2 ? c->agents - 1 : 1;
    return (c->ties < most ? c->ties : most) / 2;
}

static bool is_tie(const dotgat_config *c, int64_t i, int64_t j)
{
    const int64_t apart = llabs(i - j), distance = apart < c->agents - apart ? apart : c->agents - apart;
    return distance >= 1 && distance <= reach_of(c);
}

static int64_t tie_count(const dotgat_config *c)
{
    int64_t count = 0;
    for (int64_t i = 0; i < c->agents; i++)
        for (int64_t j = 0; j < c->agents; j++)
            count += is_tie(c, i, j);
    return count;
}

static void add_attention(const dotgat_config *c, const char *name, example_parameters *list)
{
    const int64_t A = c->agents, H = c->width;
    const double xavier = sqrt(3.0 / (double)H), g = sqrt(2 / (1 + 1.5 * 1.5));
    example_add_parameter(list, TUFF_SHAPE(A, H, H), EXAMPLE_UNIFORM, xavier, "Wq_%s", name);
    example_add_parameter(list, TUFF_SHAPE(A, H, H), EXAMPLE_UNIFORM, xavier, "Wk_%s", name);
    if (c->own_values)
        example_add_parameter(list, TUFF_SHAPE(A, H, H), EXAMPLE_NORMAL, g / sqrt((double)H), "Wv_%s", name);
    else
        example_add_parameter(list, TUFF_SHAPE(H, H), EXAMPLE_UNIFORM, 1 / sqrt((double)H), "Wv_%s_shared", name);
}

static void list_parameters(const void *given, example_parameters *list)
{
    static const char *const norms[] = {"prenorm", "memnorm", "socnorm", "mlpnorm", "prednorm"};
    const dotgat_config *c = given;
    const int64_t A = c->agents, M = c->columns, H = c->width, Y = outputs_of(c), ties = tie_count(c);
    const double g = sqrt(2 / (1 + 1.5 * 1.5));
    example_add_parameter(list, TUFF_SHAPE(A, M, H), EXAMPLE_NORMAL, g / sqrt((double)M), "W_embed");
    add_attention(c, "mem", list);
    if (A > 1)
        add_attention(c, "soc", list);
    if (A > 1 && ties > 0)
        example_add_parameter(list, TUFF_SHAPE(ties), EXAMPLE_CONSTANT, 0, "bias_param");
    example_add_parameter(list, TUFF_SHAPE(A, H, H), EXAMPLE_NORMAL, g / sqrt((double)H), "W1");
    example_add_parameter(list, TUFF_SHAPE(A, H), EXAMPLE_CONSTANT, 0, "b1");
    example_add_parameter(list, TUFF_SHAPE(A, H, H), EXAMPLE_NORMAL, g / sqrt((double)H), "W2");
    example_add_parameter(list, TUFF_SHAPE(A, H), EXAMPLE_CONSTANT, 0, "b2");
    for (int i = 0; i < 5; i++)
        if (A > 1 || i != 2)
            example_add_parameter(list, TUFF_SHAPE(H), EXAMPLE_CONSTANT, 1, "%s.gain", norms[i]);
    example_add_parameter(list, TUFF_SHAPE(A, H, Y), EXAMPLE_UNIFORM, sqrt(6.0 / (double)(H + Y)), "W_dec");
    example_add_parameter(list, TUFF_SHAPE(A, Y), EXAMPLE_CONSTANT, 0, "b_dec");
}

static void list_inputs(const void *given, example_purpose purpose, example_inputs *list)
{
    const dotgat_config *c = given;
    (void)purpose;
    example_add_input(list, "X", TUFF_F32, TUFF_SHAPE(c->time, c->columns));
    if (c->argmax)
        example_add_input(list, "y_class", TUFF_I32, TUFF_SHAPE(c->time));
    else
        example_add_input(list, "y_true", TUFF_F32, TUFF_SHAPE(c->time));
    example_add_fixed(list, "C", TUFF_U8, TUFF_SHAPE(c->agents, c->columns));
    example_add_fixed(list, "learn_mask", TUFF_U8, TUFF_SHAPE(c->agents, c->agents));
}

static tuff_tensor *rms_norm(example_build *b, tuff_tensor *x, const char *name)
{
    return tuff_rms_norm(x, example_parameter(b, "%s.gain", name), 1, rms_epsilon);
}

/* x[B,T,A,K] · w[A,K,N] -> [B,T,A,N], one product per agent. */
static tuff_tensor *per_agent(example_build *b, tuff_tensor *x, tuff_tensor *w)
{
    static const int outwards[] = {2, 0, 1, 3}, back[] = {1, 2, 0, 3};
    const tuff_shape from = tuff_tensor_shape(x), to = tuff_tensor_shape(w);
    const int64_t B = b->batch, T = from.extent[1], A = from.extent[2], K = from.extent[3], N = to.extent[2];
    tuff_tensor *rows = tuff_reshape(tuff_permute(x, outwards), TUFF_SHAPE(A, B * T, K));
    return tuff_permute(tuff_reshape(tuff_matmul(rows, w), TUFF_SHAPE(A, B, T, N)), back);
}

/* bias[A,A]: 1 on the diagonal, learned values for neighbours in row-major order, else -inf. */
static tuff_tensor *social_bias(example_build *b)
{
    const dotgat_config *c = b->config;
    const int64_t A = c->agents;
    tuff_tensor *minus_infinity = tuff_constant(b->graph, TUFF_F32, -INFINITY),
                *one = tuff_constant(b->graph, TUFF_F32, 1);
    tuff_tensor *row = tuff_iota(b->graph, TUFF_SHAPE(A, A), 0), *column = tuff_iota(b->graph, TUFF_SHAPE(A, A), 1);
    tuff_tensor *bias = tuff_expand(minus_infinity, TUFF_SHAPE(A, A));
    if (tie_count(c) > 0) {
        tuff_tensor *learned = tuff_cast(example_input(b, "learn_mask"), TUFF_BOOL);
        tuff_tensor *flat = tuff_reshape(tuff_cast(learned, TUFF_I32), TUFF_SHAPE(A * A));
        tuff_tensor *place = tuff_sub(tuff_cumsum(flat, 0), tuff_constant(b->graph, TUFF_I32, 1));
        tuff_tensor *values = tuff_gather_rows(example_parameter(b, "bias_param"), place, 0);
        bias = tuff_where(learned, tuff_reshape(values, TUFF_SHAPE(A, A)), bias);
    }
    return tuff_where(tuff_equal(row, column), one, bias);
}

/* Attention as published: heads are copied to the front, and scores and probabilities are stored in memory. */
static tuff_tensor *attention_in_steps(example_build *b, tuff_tensor *const qkv[3], bool causal, tuff_tensor *bias)
{
    static const int heads_first[] = {0, 2, 1, 3}, transposed[] = {0, 1, 3, 2};
    const tuff_shape shape = tuff_tensor_shape(qkv[0]); /* [rows, length, n, Dh] */
    const int64_t length = shape.extent[1];
    tuff_tensor *q = example_copy(b, tuff_permute(qkv[0], heads_first));
    tuff_tensor *k = example_copy(b, tuff_permute(qkv[1], heads_first));
    tuff_tensor *v = example_copy(b, tuff_permute(qkv[2], heads_first));
    tuff_tensor *scale = tuff_constant(b->graph, TUFF_F32, 1 / sqrt((double)shape.extent[3]));
    tuff_tensor *scores = tuff_mul(tuff_matmul(q, tuff_permute(k, transposed)), scale);
    if (bias)
        scores = tuff_add(scores, bias);
    if (causal) {
        tuff_tensor *i = tuff_iota(b->graph, TUFF_SHAPE(length, length), 0);
        tuff_tensor *j = tuff_iota(b->graph, TUFF_SHAPE(length, length), 1);
        scores = tuff_where(tuff_less(i, j), tuff_constant(b->graph, TUFF_F32, -INFINITY), scores);
    }
    tuff_tensor *probabilities = example_dropout(b, tuff_softmax(scores, 3));
    return example_copy(b, tuff_permute(tuff_matmul(probabilities, v), heads_first));
}

/* Multi-head attention over the second axis; q, k, v and the result are [rows, length, H]. */
static tuff_tensor *attend(example_build *b, tuff_tensor *const qkv[3], bool causal, tuff_tensor *bias)
{
    const dotgat_config *c = b->config;
    const tuff_shape shape = tuff_tensor_shape(qkv[0]);
    tuff_tensor *split[3];
    for (int i = 0; i < 3; i++)
        split[i] = tuff_reshape(qkv[i], TUFF_SHAPE(shape.extent[0], shape.extent[1], c->heads, c->width / c->heads));
    const tuff_attention_options options = {.causal = causal, .bias = bias, .dropout = example_dropout_probability(b)};
    return tuff_reshape(b->optimized ? tuff_attention(split[0], split[1], split[2], &options)
                                     : attention_in_steps(b, split, causal, bias),
                        shape);
}

/* Multiplies u by Wq, Wk and Wv. The published form uses one product each; the optimized form uses one for all that are
   per agent. */
static void project(example_build *b, tuff_tensor *u, const char *name, tuff_tensor *qkv[3])
{
    static const int turned[] = {1, 0};
    const dotgat_config *c = b->config;
    const int own = c->own_values ? 3 : 2;
    tuff_tensor *weights[3] = {example_parameter(b, "Wq_%s", name), example_parameter(b, "Wk_%s", name)};
    if (c->own_values)
        weights[2] = example_parameter(b, "Wv_%s", name);
    else
        qkv[2] = tuff_matmul(u, tuff_permute(example_parameter(b, "Wv_%s_shared", name), turned));
    tuff_tensor *whole = b->optimized ? per_agent(b, u, tuff_concat(weights, own, 2)) : NULL;
    for (int i = 0; i < own; i++)
        qkv[i] = whole ? example_slice(whole, 3, i * c->width, c->width) : per_agent(b, u, weights[i]);
}

/* h += attention over time, for each agent separately. */
static tuff_tensor *attend_to_past(example_build *b, tuff_tensor *h)
{
    static const int agents_first[] = {0, 2, 1, 3};
    const dotgat_config *c = b->config;
    const int64_t B = b->batch, T = c->time, A = c->agents, H = c->width;
    tuff_tensor *qkv[3];
    project(b, rms_norm(b, h, "memnorm"), "mem", qkv);
    for (int i = 0; i < 3; i++)
        qkv[i] = tuff_reshape(tuff_permute(qkv[i], agents_first), TUFF_SHAPE(B * A, T, H));
    tuff_tensor *out = tuff_reshape(attend(b, qkv, true, NULL), TUFF_SHAPE(B, A, T, H));
    return tuff_add(h, example_dropout(b, tuff_permute(out, agents_first)));
}

/* h += attention over agents, for each time step separately. */
static tuff_tensor *attend_to_neighbours(example_build *b, tuff_tensor *h, tuff_tensor *bias)
{
    const dotgat_config *c = b->config;
    const int64_t B = b->batch, T = c->time, A = c->agents, H = c->width;
    tuff_tensor *qkv[3];
    project(b, rms_norm(b, h, "socnorm"), "soc", qkv);
    for (int i = 0; i < 3; i++)
        qkv[i] = tuff_reshape(qkv[i], TUFF_SHAPE(B * T, A, H));
    tuff_tensor *out = attend(b, qkv, false, bias ? bias : social_bias(b));
    return tuff_add(h, example_dropout(b, tuff_reshape(out, TUFF_SHAPE(B, T, A, H))));
}

/* h += SiLU(u·W1 + b1)·W2 + b2 */
static tuff_tensor *mlp(example_build *b, tuff_tensor *h)
{
    tuff_tensor *u = rms_norm(b, h, "mlpnorm");
    tuff_tensor *inner = tuff_add(per_agent(b, u, example_parameter(b, "W1")), example_parameter(b, "b1"));
    tuff_tensor *outer =
        tuff_add(per_agent(b, tuff_silu(inner), example_parameter(b, "W2")), example_parameter(b, "b2"));
    return tuff_add(h, example_dropout(b, outer));
}

/* Mean squared error; the metric is how often the mean prediction of the agents has the sign of the state. */
static tuff_tensor *state_loss(example_build *b, tuff_tensor *y)
{
    static const int agents[] = {2}, both[] = {0, 1};
    const dotgat_config *c = b->config;
    const int64_t B = b->batch, T = c->time, A = c->agents;
    tuff_tensor *truth = example_input(b, "y_true"), *zero = tuff_constant(b->graph, TUFF_F32, 0);
    tuff_tensor *predicted = tuff_reshape(y, TUFF_SHAPE(B, T, A));
    tuff_tensor *same = tuff_less(zero, tuff_mul(tuff_mean(predicted, agents, 1, false), truth));
    example_add_metric(b, "sign accuracy", tuff_mean(tuff_cast(same, TUFF_F32), both, 2, false));
    return tuff_mse(predicted, tuff_expand(tuff_reshape(truth, TUFF_SHAPE(B, T, 1)), TUFF_SHAPE(B, T, A)));
}

/* Cross-entropy; the metric is how often the majority vote of the agents is the right class. */
static tuff_tensor *class_loss(example_build *b, tuff_tensor *y)
{
    static const int agents[] = {2}, both[] = {0, 1};
    const dotgat_config *c = b->config;
    const int64_t B = b->batch, T = c->time, A = c->agents, M = c->columns;
    tuff_tensor *truth = example_input(b, "y_class");
    tuff_tensor *votes = tuff_sum(tuff_one_hot(tuff_argmax(y, 3, false), M), agents, 1, false);
    tuff_tensor *right = tuff_equal(tuff_argmax(votes, 2, false), truth);
    example_add_metric(b, "vote accuracy", tuff_mean(tuff_cast(right, TUFF_F32), both, 2, false));
    tuff_tensor *targets = tuff_expand(tuff_reshape(truth, TUFF_SHAPE(B, T, 1)), TUFF_SHAPE(B, T, A));
    return tuff_cross_entropy(tuff_reshape(y, TUFF_SHAPE(B * T * A, M)), tuff_reshape(targets, TUFF_SHAPE(B * T * A)),
                              -100, 0);
}

static tuff_tensor *build(example_build *b)
{
    const dotgat_config *c = b->config;
    const int64_t B = b->batch, T = c->time, A = c->agents, M = c->columns;
    /* The published form rebuilds the bias in every message step. */
    tuff_tensor *bias = b->optimized && A > 1 ? social_bias(b) : NULL;
    tuff_tensor *sensed = tuff_mul(tuff_reshape(example_input(b, "X"), TUFF_SHAPE(B, T, 1, M)),
                                   tuff_cast(example_input(b, "C"), TUFF_F32));
    tuff_tensor *h = rms_norm(b, per_agent(b, sensed, example_parameter(b, "W_embed")), "prenorm");
    example_named_output(b, h, "h_embed");
    for (int step = 0; step < (A > 1 ? c->messages : 1); step++) {
        h = attend_to_past(b, h);
        if (step == 0)
            example_named_output(b, h, "h_after_memory_0");
        if (A > 1)
            h = attend_to_neighbours(b, h, bias);
        if (step == 0)
            example_named_output(b, h, "h_after_social_0");
        h = mlp(b, h);
        if (step == 0)
            example_named_output(b, h, "h_after_step_0");
    }
    example_named_output(b, h, "h");
    tuff_tensor *decoded = per_agent(b, rms_norm(b, h, "prednorm"), example_parameter(b, "W_dec"));
    tuff_tensor *y = example_named_output(b, tuff_add(decoded, example_parameter(b, "b_dec")), "y");
    return c->argmax ? class_loss(b, y) : state_loss(b, y);
}

/* The training data. Each sample is a matrix U·Vᵀ[T,M], a mixture of r Gaussian processes. The state follows a weighted
   sum of some of its columns with a delay of one step. */
typedef struct series {
    int64_t time, columns;
    float *x, *y; /* [SERIES, T, M], [SERIES, T] */
} series;
enum {
    TRAINING_SERIES = 800,
    VALIDATION_SERIES = 400,
    SERIES = TRAINING_SERIES + VALIDATION_SERIES,
    MATRICES_PER_DRAW = 10
};

/* Writes the lower Cholesky factor of the covariance (1 + |d / 4|^alpha)^(-beta / alpha) to factor[T,T]. */
static void factorize(int64_t T, double alpha, double beta, double *factor)
{
    for (int64_t i = 0; i < T; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = pow(1 + pow((double)(i - j) / 4, alpha), -beta / alpha) + (i == j ? 1e-8 + 1e-6 : 0);
            for (int64_t k = 0; k < j; k++)
                sum -= factor[i * T + k] * factor[j * T + k];
            factor[i * T + j] = i == j ? sqrt(sum > 1e-12 ? sum : 1e-12) : sum / factor[j * T + j];
        }
}

/* One third each of slow, medium and fast processes. */
static double draw_beta(example_random *random, int64_t process, int64_t r)
{
    static const double low[] = {1e-3, 0.5, 1}, high[] = {0.5, 0.9, 1.5};
    const int64_t third = process * 3 / r;
    return example_uniform(random, low[third], high[third]);
}

/* Draws V[r,M], whose columns sum to 1. */
static void draw_mixing(example_random *random, int64_t r, int64_t M, double *v)
{
    for (int64_t c = 0; c < M; c++) {
        double sum = 0;
        for (int64_t p = 0; p < r; p++)
            sum += v[p * M + c] = example_normal(random) + 1;
        for (int64_t p = 0; p < r; p++)
            v[p * M + c] /= fabs(sum) > 1e-3 ? sum : 1;
    }
}

/* Divides `count` values, `stride` apart, by their unbiased standard deviation. */
static void standardize(float *values, int64_t count, int64_t stride)
{
    double sum = 0, squares = 0;
    for (int64_t t = 0; t < count; t++)
        sum += (double)values[t * stride];
    for (int64_t t = 0; t < count; t++)
        squares += pow((double)values[t * stride] - sum / (double)count, 2);
    const double deviation = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    for (int64_t t = 0; t < count; t++)
        values[t * stride] = (float)((double)values[t * stride] / (deviation > 0 ? deviation : 1));
}

/* Draws MATRICES_PER_DRAW matrices from the same processes. factors has room for [r,T,T], mixing for [r,M] and [T]. */
static void draw_matrices(const dotgat_config *c, example_random *random, double *factors, double *mixing, float *x)
{
    const int64_t T = c->time, M = c->columns, r = c->latent;
    for (int64_t p = 0; p < r; p++) {
        const double alpha = example_uniform(random, 0.75, 2);
        factorize(T, alpha, draw_beta(random, p, r), factors + p * T * T);
    }
    draw_mixing(random, r, M, mixing);
    for (int64_t i = 0; i < MATRICES_PER_DRAW * T * M; i++)
        x[i] = 0;
    double *noise = mixing + r * M; /* [T] */
    for (int64_t matrix = 0; matrix < MATRICES_PER_DRAW; matrix++, x += T * M) {
        for (int64_t p = 0; p < r; p++) {
            for (int64_t t = 0; t < T; t++)
                noise[t] = example_normal(random);
            for (int64_t t = 0; t < T; t++) {
                double u = 0;
                for (int64_t k = 0; k <= t; k++)
                    u += factors[p * T * T + t * T + k] * noise[k];
                for (int64_t m = 0; m < M; m++)
                    x[t * M + m] += (float)(u * mixing[p * M + m]);
            }
        }
        for (int64_t m = 0; m < M; m++)
            standardize(x + m, T, M);
    }
}

/* Finds, by bisection, the gain for which tanh(gain · z) has variance 0.9. */
static double find_gain(const double *z, int64_t count)
{
    double low = 0.1, high = 10;
    for (int i = 0; i < 12; i++) {
        const double gain = (low + high) / 2;
        double sum = 0, squares = 0;
        for (int64_t t = 0; t < count; t++) {
            sum += tanh(gain * z[t]);
            squares += pow(tanh(gain * z[t]), 2);
        }
        const double mean = sum / (double)count;
        *(squares / (double)count - mean * mean < 0.9 ? &low : &high) = gain;
    }
    return (low + high) / 2;
}

/* Computes y[T] from x[T,M]. weight is 0 for columns that do not count; z has room for [T]. */
static void label(const dotgat_config *c, const double *weight, const float *x, double *z, float *y)
{
    const int64_t T = c->time, M = c->columns, counting = (2 * M + 2) / 5;
    double sum = 0, squares = 0;
    y[0] = 0;
    for (int64_t t = 0; t < T - 1; t++) {
        z[t] = 0;
        for (int64_t m = 0; m < M; m++)
            z[t] += weight[m] * (double)x[t * M + m];
        sum += z[t];
    }
    for (int64_t t = 0; t < T - 1; t++)
        squares += pow(z[t] -= sum / (double)(T - 1), 2);
    const double deviation = T > 2 ? sqrt(squares / (double)(T - 2)) : 0;
    for (int64_t t = 0; t < T - 1; t++)
        z[t] /= deviation + 1e-8;
    const double gain = T > 1 ? find_gain(z, T - 1) : 1;
    for (int64_t t = 0; t < T - 1; t++)
        y[t + 1] = (float)tanh(gain * z[t] / 2 / sqrt(2.0 * (double)(counting > 0 ? counting : 1)));
}

/* Sets `chosen` of the count places to 1 and the others to 0, at random. */
static void choose(example_random *random, int64_t chosen, int64_t count, uint8_t *places)
{
    for (int64_t i = 0; i < count; i++)
        places[i] = i < chosen;
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t other = example_integer(random, i + 1);
        const uint8_t kept = places[i];
        places[i] = places[other];
        places[other] = kept;
    }
}

static void draw_series(const dotgat_config *c, uint64_t seed, double *room, uint8_t *counts, series *made)
{
    const int64_t T = c->time, M = c->columns, r = c->latent;
    double *factors = room, *mixing = factors + r * T * T, *weight = mixing + r * M + T;
    example_random random = example_random_stream(seed, 0);
    choose(&random, (2 * M + 2) / 5, M, counts);
    for (int64_t m = 0; m < M; m++)
        weight[m] = counts[m] * example_normal(&random);
    for (int64_t i = 0; i < SERIES; i += MATRICES_PER_DRAW)
        draw_matrices(c, &random, factors, mixing, made->x + i * T * M);
    for (int64_t i = 0; i < SERIES; i++)
        label(c, weight, made->x + i * T * M, factors, made->y + i * T);
}

static void close_series(void *data)
{
    series *self = data;
    if (self) {
        free(self->x);
        free(self->y);
    }
    free(self);
}

static void *open_series(tuff_device *device, const void *config, uint64_t seed)
{
    const dotgat_config *c = config;
    const size_t T = (size_t)c->time, M = (size_t)c->columns, r = (size_t)c->latent;
    series *made = calloc(1, sizeof *made);
    double *room = calloc(r * T * T + r * M + T + M, sizeof *room);
    uint8_t *counts = malloc(M);
    (void)device;
    if (made) {
        *made = (series){.time = c->time, .columns = c->columns};
        made->x = calloc(SERIES * T * M, sizeof *made->x);
        made->y = calloc(SERIES * T, sizeof *made->y);
    }
    const bool good = made && room && counts && made->x && made->y;
    if (good)
        draw_series(c, seed, room, counts, made);
    free(room);
    free(counts);
    if (!good)
        close_series(made);
    return good ? made : NULL;
}

static int32_t largest(const float *row, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        best = row[i] > row[best] ? i : best;
    return (int32_t)best;
}

/* Index of the series for sample `index` of a batch. Each training epoch has its own order. */
static int64_t series_at(const example_batch *batch, int64_t index)
{
    const int64_t per_epoch = TRAINING_SERIES / batch->count > 0 ? TRAINING_SERIES / batch->count : 1;
    const int64_t position = batch->number % per_epoch * batch->count + index;
    if (batch->number < 0)
        return TRAINING_SERIES + ((-1 - batch->number) * batch->count + index) % VALIDATION_SERIES;
    return tuff_shuffled_index(batch->seed, batch->number / per_epoch, position % TRAINING_SERIES, TRAINING_SERIES);
}

static void fill(const example_batch *batch)
{
    const dotgat_config *c = batch->config;
    const series *data = batch->data;
    const int64_t T = c->time, M = c->columns;
    float *x = batch->inputs[0], *y = batch->inputs[1];
    example_random random = example_random_stream(batch->seed, 1 + (uint64_t)batch->number);
    for (int64_t i = 0; i < batch->count; i++) {
        if (batch->purpose == EXAMPLE_CHECK) {
            for (int64_t k = 0; k < T * (M + 1); k++)
                *(k < T * M ? &x[i * T * M + k] : &y[i * T + k - T * M]) = (float)example_normal(&random);
        } else {
            const int64_t from = series_at(batch, i);
            memcpy(x + i * T * M, data->x + from * T * M, (size_t)(T * M) * sizeof *x);
            memcpy(y + i * T, data->y + from * T, (size_t)T * sizeof *y);
        }
    }
    for (int64_t row = 0; c->argmax && row < batch->count * T; row++)
        ((int32_t *)batch->inputs[1])[row] = largest(x + row * M, M);
}

static void fill_fixed(const void *config, uint64_t seed, int index, void *values)
{
    const dotgat_config *c = config;
    uint8_t *mask = values;
    example_random random = example_random_stream(seed, (uint64_t)1 << 61);
    for (int64_t a = 0; a < c->agents; a++)
        if (index == 2)
            choose(&random, c->seen, c->columns, mask + a * c->columns);
        else
            for (int64_t other = 0; other < c->agents; other++)
                mask[a * c->agents + other] = is_tie(c, a, other);
}

static void draw_config(void *config, example_random *random)
{
    static const int64_t head_counts[] = {1, 2, 3, 4}, ties[] = {1, 2, 4, 5};
    dotgat_config *c = config;
    c->settings.batch = 1 + example_integer(random, 4);
    c->settings.dropout = example_integer(random, 2) ? 0.1 : 0;
    c->time = example_random_extent(random, 33);
    c->agents = example_random_extent(random, 9);
    c->columns = example_random_extent(random, 17);
    c->heads = example_pick(random, head_counts, 4);
    c->width = c->heads * example_random_extent(random, 17);
    c->width = c->width < 3 ? 4 : c->width; /* layer norm of two numbers keeps little more than their order */
    c->messages = 1 + example_integer(random, 2);
    c->ties = example_pick(random, ties, 4);
    c->seen = 1 + example_integer(random, c->columns);
    c->own_values = example_integer(random, 2);
    c->argmax = example_integer(random, 2);
}

const example dotgat_example = {
    .name = "dotgat",
    .summary = "agents with causal memory and social graph attention predict a series",
    .item = "samples",
    .config_size = sizeof(dotgat_config),
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
    .fill_fixed = fill_fixed,
    .draw_config = draw_config,
    .open = open_series,
    .close = close_series,
};
