/* The reference evaluator's attention: the log-sum-exp of the scores, the result, and the gradients, query by query,
   each with the first-order bound of a kernel that computes the scores again. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/evaluate.h"

/* Roundings of one weight besides those that grow with its argument: its polynomial, its factors, the running maximum
   that may lie eight below the largest score. */
#define WEIGHT_UNITS 24
/* Weights of a smaller exponent would soon be denormal: kernels may take them for nothing. */
#define LEAST_EXPONENT (-86)

typedef struct attention {
    const evaluation *e;
    int64_t queries, keys, heads, groups, key_width, value_width;
    int64_t terms; /* of the longest sum of the result */
    bool bounds;
    double *score, *score_error; /* of one query, by key */
} attention;

/* The rows of one query, one head. */
typedef struct place {
    int64_t query, key_first, key_end; /* keys it sees */
    int64_t q, row, keys;              /* rows: of q, of l and d, and of the first key of its batch and group */
} place;

static attention describe(const evaluation *e)
{
    const tuff_shape *q = &e->input_shapes[0], *k = &e->input_shapes[1];
    const int64_t shared = k->extent[2] > 0 ? q->extent[2] / k->extent[2] : 0;
    return (attention){.e = e,
                       .queries = q->extent[1],
                       .keys = k->extent[1],
                       .heads = q->extent[2],
                       .groups = k->extent[2],
                       .key_width = q->extent[3],
                       .value_width = e->input_count > 2 ? e->input_shapes[2].extent[3] : 0,
                       .terms =
                           e->op == OP_ATTENTION_DK || e->op == OP_ATTENTION_DV ? q->extent[1] * shared : k->extent[1],
                       .bounds = e->error != NULL};
}

static double dot(const double *x, const double *y, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

/* The bound of a product of rows of two inputs. */
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

static place locate(const attention *of, int64_t batch, int64_t query, int64_t head)
{
    const int64_t group = head / (of->heads / of->groups);
    const int64_t first = query + of->e->attributes->start[0], last = query + of->e->attributes->start[1];
    const int64_t row = (batch * of->queries + query) * of->heads + head;
    return (place){.query = query,
                   .key_first = first < 0 ? 0 : first,
                   .key_end = last >= of->keys ? of->keys : last + 1,
                   .q = row * of->key_width,
                   .row = row,
                   .keys = batch * of->keys * of->groups + group};
}

/* The row of key j in k and v, counted in rows. */
static int64_t key_row(const attention *of, const place *at, int64_t j)
{
    return at->keys + j * of->groups;
}

static void find_scores(const attention *of, const place *at)
{
    const evaluation *e = of->e;
    const double scale = e->attributes->value;
    for (int64_t j = at->key_first; j < at->key_end; j++) {
        const int64_t k = key_row(of, at, j) * of->key_width;
        of->score[j] = scale * dot(e->inputs[0] + at->q, e->inputs[1] + k, of->key_width);
        if (of->bounds)
            of->score_error[j] = fabs(scale) * dot_error(e, 0, at->q, 1, k, of->key_width);
    }
}

static void find_lse(const attention *of, const place *at)
{
    double largest = -INFINITY, sum = 0, slack = 0;
    for (int64_t j = at->key_first; j < at->key_end; j++)
        if (isnan(of->score[j]) || of->score[j] > largest)
            largest = of->score[j];
    for (int64_t j = at->key_first; j < at->key_end; j++)
        sum += exp(of->score[j] - (largest == -INFINITY ? 0 : largest));
    of->e->value[at->row] = sum == 0 ? INFINITY : largest + log(sum);
    if (!of->bounds)
        return;
    for (int64_t j = at->key_first; j < at->key_end; j++) {
        const double below = of->score[j] - largest, share = exp(below) / sum;
        if (share > 0)
            slack += share * (of->score_error[j] + UNIT * (fabs(below) + WEIGHT_UNITS));
    }
    of->e->error[at->row] =
        slack + tuff__gamma((double)of->keys) + UNIT * (4 * fabs(log(sum)) + 64 + 2 * fabs(largest));
}

/* The weight of key j, and the bound of its relative error. */
static double weight_of(const attention *of, const place *at, int64_t j, double *slack)
{
    const double below = of->score[j] - of->e->inputs[3][at->row], weight = exp(below);
    *slack = 0;
    if (of->bounds && weight > 0)
        *slack = of->score_error[j] + of->e->input_errors[3][at->row] + UNIT * (fabs(below) + WEIGHT_UNITS) +
                 tuff__gamma((double)of->terms);
    if (below < LEAST_EXPONENT)
        *slack = 1;
    return weight;
}

/* value[to + i] += factor · row of an input; factor is off by error, the row as the input's errors say. */
static void add_row(const attention *of, int64_t to, double factor, double factor_error, int input, int64_t from,
                    int64_t width)
{
    const evaluation *e = of->e;
    const double *row = e->inputs[input] + from;
    for (int64_t i = 0; i < width; i++)
        e->value[to + i] += factor * row[i];
    for (int64_t i = 0; of->bounds && i < width; i++)
        e->error[to + i] += factor_error * fabs(row[i]) + fabs(factor) * e->input_errors[input][from + i];
}

/* What query and key add to a gradient of q or k: weight · (g·v - d) · scale times the other's row. */
static void add_score_gradient(const attention *of, const place *at, int64_t j, double weight, double slack)
{
    const evaluation *e = of->e;
    const double scale = e->attributes->value;
    const int64_t g = at->row * of->value_width, v = key_row(of, at, j) * of->value_width;
    const int64_t k = key_row(of, at, j) * of->key_width;
    const double beyond = dot(e->inputs[4] + g, e->inputs[2] + v, of->value_width) - e->inputs[5][at->row];
    const double factor = scale * weight * beyond;
    double error = 0;
    if (of->bounds) {
        error = dot_error(e, 4, g, 2, v, of->value_width) + e->input_errors[5][at->row] + 4 * UNIT * fabs(beyond);
        error = fabs(scale) * weight * (error + slack * fabs(beyond)) + tuff__gamma((double)of->terms) * fabs(factor);
    }
    if (e->op == OP_ATTENTION_DQ)
        add_row(of, at->q, factor, error, 1, k, of->key_width);
    else
        add_row(of, k, factor, error, 0, at->q, of->key_width);
}

static void visit_query(const attention *of, const place *at)
{
    const evaluation *e = of->e;
    find_scores(of, at);
    if (e->op == OP_ATTENTION_LSE) {
        find_lse(of, at);
        return;
    }
    for (int64_t j = at->key_first; j < at->key_end; j++) {
        double slack;
        const double weight = weight_of(of, at, j, &slack);
        const int64_t v = key_row(of, at, j) * of->value_width, result = at->row * of->value_width;
        const double error = weight > 0 ? weight * (slack + tuff__gamma((double)of->terms)) : 0;
        if (e->op == OP_ATTENTION)
            add_row(of, result, weight, error, 2, v, of->value_width);
        else if (e->op == OP_ATTENTION_DV)
            add_row(of, v, weight, error, 4, result, of->value_width);
        else
            add_score_gradient(of, at, j, weight, slack);
    }
}

tuff_status tuff__evaluate_attention(const evaluation *e, int64_t count)
{
    attention of = describe(e);
    of.score = tuff__calloc((size_t)of.keys * 2 + 1, sizeof *of.score);
    if (!of.score)
        return TUFF_E_OOM_HOST;
    of.score_error = of.score + of.keys;
    memset(e->value, 0, (size_t)count * sizeof *e->value);
    if (e->error)
        memset(e->error, 0, (size_t)count * sizeof *e->error);
    for (int64_t batch = 0; batch < e->input_shapes[0].extent[0]; batch++)
        for (int64_t query = 0; query < of.queries; query++)
            for (int64_t head = 0; head < of.heads; head++) {
                const place at = locate(&of, batch, query, head);
                visit_query(&of, &at);
            }
    tuff__free(of.score);
    return TUFF_OK;
}
