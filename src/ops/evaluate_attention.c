/* Attention in the float64 reference: the log-sum-exp of the scores, the result, and the gradients, query by query,
   each with the first-order bound of a kernel that recomputes the scores. All ops share one loop: the scores of a
   query, then for each key its weight, then the op's contribution of the pair. Errors of weights are absolute. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/evaluate.h"

/* Number of roundings of a weight besides those that grow with its argument: its polynomial, its factors, and the
   running maximum, which may be eight below the largest score. */
#define WEIGHT_UNITS 24
/* Weights with a smaller exponent would soon be denormal: kernels may treat them as 0. */
#define MIN_EXPONENT (-86)

typedef struct attention {
    const evaluation *e;
    attention_inputs at;
    bool softmax;
    int64_t queries, keys, heads, groups, key_width, value_width;
    int64_t terms;          /* number of terms of the longest sum of the result */
    /* Dropout: weights with random numbers below threshold become 0, others are multiplied by keep_factor. */
    double threshold, keep_factor;
    bool has_bounds;
    double *score, *score_error; /* of one query, indexed by key */
} attention;

/* Positions of the rows of one query and head. */
typedef struct place {
    int64_t query, key_first, key_end; /* range of keys that it sees */
    int64_t q, row, keys;              /* q: position of the query's row in q; row: row of l and d; keys: row of the
                                          first key of its batch and group */
    int64_t bias;                      /* position of the bias of key 0 */
    int64_t random;                    /* index of the random number of key 0 */
} place;

/* The weight of one key for a query. Without dropout, dropout_factor is 1. */
typedef struct key_weight {
    double value, error;
    double dropout_factor;
} key_weight;

/* Returns the number of terms in the sum of one element of the result. */
static int64_t count_terms(const evaluation *e, const attention_inputs *at)
{
    const tuff_shape *q = &e->input_shapes[0], *k = &e->input_shapes[1];
    if (e->op == OP_ATTENTION_DK || e->op == OP_ATTENTION_DV)
        return q->extent[1] * (k->extent[2] > 0 ? q->extent[2] / k->extent[2] : 0);
    if (e->op != OP_ATTENTION_DB)
        return k->extent[1];
    const tuff_shape *bias = &e->input_shapes[at->bias];
    return q->extent[0] / bias->extent[0] * (q->extent[2] / bias->extent[1]) * (q->extent[1] / bias->extent[2]);
}

static attention make_attention(const evaluation *e)
{
    const tuff_shape *q = &e->input_shapes[0], *k = &e->input_shapes[1];
    const attention_inputs at = tuff__attention_inputs(e->op, e->attributes->options);
    const double dropout = e->attributes->dropout;
    return (attention){.e = e,
                       .at = at,
                       .softmax = (e->attributes->options & ATTENTION_NO_SOFTMAX) == 0,
                       .queries = q->extent[1],
                       .keys = k->extent[1],
                       .heads = q->extent[2],
                       .groups = k->extent[2],
                       .key_width = q->extent[3],
                       .value_width = at.v >= 0 ? e->input_shapes[at.v].extent[3] : 0,
                       .terms = count_terms(e, &at),
                       .threshold = tuff__round_to(TUFF_F32, dropout),
                       .keep_factor = tuff__round_to(TUFF_F32, 1 / (1 - dropout)),
                       .has_bounds = e->error != NULL};
}

static double dot(const double *x, const double *y, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Bounds the error of the product of a row of each of two inputs. */
static double dot_error(const evaluation *e, int a, int64_t from_a, int b, int64_t from_b, int64_t count)
{
    const double *x = e->inputs[a] + from_a, *y = e->inputs[b] + from_b;
    const double *x_error = e->input_errors[a] + from_a, *y_error = e->input_errors[b] + from_b;
    const double gamma = tuff__gamma((double)count + 2);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += gamma * fabs(x[i] * y[i]) + fabs(x[i]) * y_error[i] + x_error[i] * fabs(y[i]);
    return sum;
}

/* Returns the position of a row's first element in the bias, which is broadcast along axes of extent 1. */
static int64_t locate_bias(const attention *self, int64_t batch, int64_t query, int64_t head)
{
    if (self->at.bias < 0)
        return 0;
    const int64_t *extent = self->e->input_shapes[self->at.bias].extent;
    return ((batch % extent[0] * extent[1] + head % extent[1]) * extent[2] + query % extent[2]) * extent[3];
}

/* Finds the positions of a query's rows, and the range of keys in its band. */
static place locate(const attention *self, int64_t batch, int64_t query, int64_t head)
{
    const int64_t group = head / (self->heads / self->groups);
    const int64_t first = query + self->e->attributes->start[0], last = query + self->e->attributes->start[1];
    const int64_t row = (batch * self->queries + query) * self->heads + head;
    return (place){.query = query,
                   .key_first = first < 0 ? 0 : first,
                   .key_end = last >= self->keys ? self->keys : last + 1,
                   .q = row * self->key_width,
                   .row = row,
                   .keys = batch * self->keys * self->groups + group,
                   .bias = locate_bias(self, batch, query, head),
                   .random = ((batch * self->heads + head) * self->queries + query) * self->keys};
}

/* Returns the row number of key j in k and v. */
static int64_t key_row(const attention *self, const place *at, int64_t j)
{
    return at->keys + j * self->groups;
}

/* Computes the scaled and biased scores of one query for the keys that it sees. */
static void compute_scores(const attention *self, const place *at)
{
    const evaluation *e = self->e;
    const double scale = e->attributes->value;
    for (int64_t j = at->key_first; j < at->key_end; j++) {
        const int64_t k = key_row(self, at, j) * self->key_width;
        const double product = scale * dot(e->inputs[0] + at->q, e->inputs[1] + k, self->key_width);
        const double bias = self->at.bias < 0 ? 0 : e->inputs[self->at.bias][at->bias + j];
        self->score[j] = tuff__round_on_grid(e->inner_grid, product + bias);
        if (self->has_bounds)
            self->score_error[j] = fabs(scale) * dot_error(e, 0, at->q, 1, k, self->key_width);
        if (self->has_bounds && self->at.bias >= 0)
            self->score_error[j] +=
                e->input_errors[self->at.bias][at->bias + j] + 2 * UNIT * (fabs(product) + fabs(bias));
    }
}

/* Computes the log-sum-exp, subtracting the largest score before taking exponentials. A query that sees no key gets
   +inf, which makes all its weights 0. */
static void compute_lse(const attention *self, const place *at)
{
    double largest = -INFINITY, sum = 0, slack = 0;
    for (int64_t j = at->key_first; j < at->key_end; j++)
        if (isnan(self->score[j]) || self->score[j] > largest)
            largest = self->score[j];
    for (int64_t j = at->key_first; j < at->key_end; j++)
        sum += exp(self->score[j] - (largest == -INFINITY ? 0 : largest));
    self->e->value[at->row] = sum == 0 ? INFINITY : largest + log(sum);
    if (!self->has_bounds)
        return;
    for (int64_t j = at->key_first; j < at->key_end; j++) {
        const double exponent = self->score[j] - largest, share = exp(exponent) / sum;
        if (share > 0)
            slack += share * (self->score_error[j] + UNIT * (fabs(exponent) + WEIGHT_UNITS));
    }
    self->e->error[at->row] =
        slack + tuff__gamma((double)self->keys) + UNIT * (4 * fabs(log(sum)) + 64 + 2 * fabs(largest));
}

/* Computes the weight of key j, that is its probability, and the factor of dropout. Without softmax the score itself is
   the weight. */
static key_weight compute_weight(const attention *self, const place *at, int64_t j)
{
    const evaluation *e = self->e;
    key_weight weight = {
        .value = self->score[j], .error = self->has_bounds ? self->score_error[j] : 0, .dropout_factor = 1};
    if (self->at.step >= 0)
        weight.dropout_factor =
            tuff__random_uniform(e->attributes, at->random + j, e->inputs[self->at.step][0]) < self->threshold
                ? 0
                : self->keep_factor;
    if (!self->softmax)
        return weight;
    const double exponent = self->score[j] - e->inputs[self->at.lse][at->row];
    weight.value = tuff__round_on_grid(e->inner_grid, exp(exponent));
    weight.error = 0;
    if (self->has_bounds && weight.value > 0)
        weight.error = weight.value * (self->score_error[j] + e->input_errors[self->at.lse][at->row] +
                                       UNIT * (fabs(exponent) + WEIGHT_UNITS) + tuff__gamma((double)self->terms));
    if (exponent < MIN_EXPONENT)
        weight.error = weight.value;
    return weight;
}

/* value[to + i] += factor · row of an input. factor_error is the error of factor; that of the row comes from the
   input's errors. */
static void add_row(const attention *self, int64_t to, double factor, double factor_error, int input, int64_t from,
                    int64_t width)
{
    const evaluation *e = self->e;
    const double *row = e->inputs[input] + from;
    for (int64_t i = 0; i < width; i++)
        e->value[to + i] += factor * row[i];
    for (int64_t i = 0; self->has_bounds && i < width; i++)
        e->error[to + i] += factor_error * fabs(row[i]) + fabs(factor) * e->input_errors[input][from + i];
}

/* Adds the contribution of a query and a key to a gradient of q, k or the bias: the derivative of the score, weight ·
   (kept · g·v - d), or kept · g·v without softmax; for q and k multiplied by scale and by the other one's row. */
static void add_score_gradient(const attention *self, const place *at, int64_t j, const key_weight *weight)
{
    const evaluation *e = self->e;
    const int64_t g = at->row * self->value_width, v = key_row(self, at, j) * self->value_width;
    const int64_t k = key_row(self, at, j) * self->key_width;
    const double product =
        weight->dropout_factor * tuff__round_on_grid(e->inner_grid, dot(e->inputs[self->at.upstream] + g,
                                                                        e->inputs[self->at.v] + v, self->value_width));
    const double derivative = self->softmax ? product - e->inputs[self->at.sums][at->row] : product;
    const double scale = e->op == OP_ATTENTION_DB ? 1 : e->attributes->value;
    const double factor = scale * tuff__round_on_grid(e->inner_grid, (self->softmax ? weight->value : 1) * derivative);
    double error = 0;
    if (self->has_bounds) {
        error = weight->dropout_factor * dot_error(e, self->at.upstream, g, self->at.v, v, self->value_width) +
                4 * UNIT * fabs(derivative);
        error += self->at.step >= 0 ? UNIT * fabs(product) : 0;
        if (self->softmax)
            error =
                weight->value * (error + e->input_errors[self->at.sums][at->row]) + weight->error * fabs(derivative);
        error = fabs(scale) * error + tuff__gamma((double)self->terms) * fabs(factor);
    }
    if (e->op == OP_ATTENTION_DQ) {
        add_row(self, at->q, factor, error, 1, k, self->key_width);
    } else if (e->op == OP_ATTENTION_DK) {
        add_row(self, k, factor, error, 0, at->q, self->key_width);
    } else {
        e->value[at->bias + j] += factor;
        if (self->has_bounds)
            e->error[at->bias + j] += error;
    }
}

/* Adds the contributions of one query and head to the values and errors of the op. */
static void visit_query(const attention *self, const place *at)
{
    const evaluation *e = self->e;
    compute_scores(self, at);
    if (e->op == OP_ATTENTION_LSE) {
        compute_lse(self, at);
        return;
    }
    for (int64_t j = at->key_first; j < at->key_end; j++) {
        const key_weight weight = compute_weight(self, at, j);
        const int64_t v = key_row(self, at, j) * self->value_width, result = at->row * self->value_width;
        const double factor = weight.value * weight.dropout_factor;
        const double rounding = e->op == OP_ATTENTION ? e->factor_rounding : 0;
        const double error = weight.error * weight.dropout_factor +
                             (tuff__gamma((double)self->terms) + 2 * UNIT + rounding) * fabs(factor);
        if (e->op == OP_ATTENTION)
            add_row(self, result, factor, error, self->at.v, v, self->value_width);
        else if (e->op == OP_ATTENTION_DV)
            add_row(self, v, factor, error, self->at.upstream, result, self->value_width);
        else
            add_score_gradient(self, at, j, &weight);
    }
}

/* Visits the queries in order, so that sums over queries have a fixed order. */
tuff_status tuff__evaluate_attention(const evaluation *e, int64_t count)
{
    attention self = make_attention(e);
    self.score = tuff__calloc((size_t)self.keys * 2 + 1, sizeof *self.score);
    if (!self.score)
        return TUFF_E_OOM_HOST;
    self.score_error = self.score + self.keys;
    memset(e->value, 0, (size_t)count * sizeof *e->value);
    if (e->error)
        memset(e->error, 0, (size_t)count * sizeof *e->error);
    for (int64_t batch = 0; batch < e->input_shapes[0].extent[0]; batch++)
        for (int64_t query = 0; query < self.queries; query++)
            for (int64_t head = 0; head < self.heads; head++) {
                const place at = locate(&self, batch, query, head);
                visit_query(&self, &at);
            }
    tuff__free(self.score);
    return TUFF_OK;
}
