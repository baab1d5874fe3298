/* Sums in the float64 reference: reductions, cumulative sums and matmul, each with a bound on its rounding in f32. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/evaluate.h"

/* Higham's gamma_n = n u / (1 - n u); outside its range there is no bound. */
double tuff__gamma(double count)
{
    double product = count * UNIT;
    return product < 0.5 ? product / (1 - product) : INFINITY;
}

/* Bounds the rounding of a kernel's sum: chains of at most 256 additions, whose results are added in a tree. Kernels
   must stay within this; a longer chain would exceed the bound. */
static double reduction_gamma(double count)
{
    return tuff__gamma(fmin(count, 256 + log2(count)));
}

/* Returns the layout of a reduction's result for iteration over its input. */
static layout reduced_layout(const evaluation *e)
{
    layout result = tuff__row_major(e->shape);
    for (int axis = 0; axis < e->shape.rank; axis++)
        if (e->attributes->axes >> axis & 1)
            result.stride[axis] = 0;
    return result;
}

/* The state of add_run and max_run. magnitudes: add absolute values; wraps: each sum wraps, since those
   of many integers are not exact in double. */
typedef struct sum_context {
    const double *from;
    double *to;
    bool magnitudes, wraps;
    tuff_dtype dtype;
} sum_context;

static void add_run(void *user, int64_t a, int64_t b, int64_t count, int64_t step_a, int64_t step_b)
{
    const sum_context *sum = user;
    for (int64_t i = 0; i < count; i++) {
        const double term = sum->from[a + i * step_a];
        double *to = &sum->to[b + i * step_b];
        *to += sum->magnitudes ? fabs(term) : term;
        if (sum->wraps)
            *to = tuff__wrap(sum->dtype, *to);
    }
}

/* Adds the elements of `from`, which has the input's shape, to `to`, which has the result's shape and must be
   zeroed. */
static void sum_elements(const evaluation *e, const double *from, double *to, bool magnitudes)
{
    layout input = tuff__row_major(e->input_shapes[0]), output = reduced_layout(e);
    tuff__for_each_run(e->input_shapes[0], &input, &output, add_run,
                       &(sum_context){.from = from,
                                      .to = to,
                                      .magnitudes = magnitudes,
                                      .wraps = tuff__dtype_is_integer(e->dtype) && !magnitudes,
                                      .dtype = e->dtype});
}

/* The sum in double is exact enough for any f32 result; the bound is that of a kernel's chains and tree. */
tuff_status tuff__evaluate_sum(const evaluation *e, int64_t count)
{
    memset(e->value, 0, (size_t)count * sizeof *e->value);
    sum_elements(e, e->inputs[0], e->value, false);
    if (!e->error)
        return TUFF_OK;
    double *magnitudes = tuff__calloc((size_t)count, sizeof *magnitudes);
    if (!magnitudes)
        return TUFF_E_OOM_HOST;
    memset(e->error, 0, (size_t)count * sizeof *e->error);
    sum_elements(e, e->input_errors[0], e->error, false);
    sum_elements(e, e->inputs[0], magnitudes, true);
    double terms = (double)tuff_shape_count(e->input_shapes[0]) / (double)count;
    double gamma = tuff__dtype_is_float(e->dtype) && terms > 1 ? reduction_gamma(terms) : 0;
    for (int64_t i = 0; i < count; i++)
        if (gamma > 0 && isfinite(e->value[i]))
            e->error[i] += gamma * magnitudes[i];
    tuff__free(magnitudes);
    return TUFF_OK;
}

/* NaN, once found, stays, because no comparison with it is true. */
static void max_run(void *user, int64_t a, int64_t b, int64_t count, int64_t step_a, int64_t step_b)
{
    const sum_context *reduction = user;
    for (int64_t i = 0; i < count; i++) {
        double term = reduction->from[a + i * step_a], *to = &reduction->to[b + i * step_b];
        if (isnan(term) || term > *to)
            *to = term;
    }
}

/* Sets each element of the result to the largest element, but at least `least`. Also used for errors: the error of a
   maximum is at most the largest error. */
static void find_maxima(const evaluation *e, const double *from, double *to, int64_t count, double least)
{
    layout input = tuff__row_major(e->input_shapes[0]), output = reduced_layout(e);
    for (int64_t i = 0; i < count; i++)
        to[i] = least;
    tuff__for_each_run(e->input_shapes[0], &input, &output, max_run, &(sum_context){.from = from, .to = to});
}

tuff_status tuff__evaluate_reduce_max(const evaluation *e, int64_t count)
{
    find_maxima(e, e->inputs[0], e->value, count, -INFINITY);
    if (e->error)
        find_maxima(e, e->input_errors[0], e->error, count, 0);
    return TUFF_OK;
}

/* Computes series by series; element i is a sum of i + 1 terms and so has i roundings. */
tuff_status tuff__evaluate_cumsum(const evaluation *e, int64_t count)
{
    const int64_t extent = e->shape.extent[e->attributes->axis];
    const int64_t inner = tuff__count_axes(e->shape, e->attributes->axis + 1, e->shape.rank);
    for (int64_t series = 0; series < count / extent; series++) {
        int64_t place = series / inner * inner * extent + series % inner;
        double sum = 0, error = 0, magnitude = 0;
        for (int64_t i = 0; i < extent; i++, place += inner) {
            sum = tuff__wrap(e->dtype, sum + e->inputs[0][place]);
            e->value[place] = sum;
            if (!e->error)
                continue;
            magnitude += fabs(e->inputs[0][place]);
            error += e->input_errors[0][place];
            bool rounds = tuff__dtype_is_float(e->dtype) && isfinite(sum);
            e->error[place] = error + (rounds ? tuff__gamma((double)i) * magnitude : 0);
        }
    }
    return TUFF_OK;
}

/* The extents of one product of matrices. */
typedef struct matrices {
    int64_t rows, inner, columns;
} matrices;

/* out += x · y for one matrix; absolute: uses absolute values. The innermost loop runs along a row of y. */
static void multiply(const matrices *size, const double *x, const double *y, double *out, bool absolute)
{
    for (int64_t i = 0; i < size->rows; i++) {
        double *row = out + i * size->columns;
        for (int64_t k = 0; k < size->inner; k++) {
            const double factor = absolute ? fabs(x[i * size->inner + k]) : x[i * size->inner + k];
            const double *terms = y + k * size->columns;
            if (absolute)
                for (int64_t j = 0; j < size->columns; j++)
                    row[j] += factor * fabs(terms[j]);
            else
                for (int64_t j = 0; j < size->columns; j++)
                    row[j] += factor * terms[j];
        }
    }
}

/* Computes gamma_k Σ|x||y| + Σ|x| error_y + Σ error_x |y| for one matrix. */
static void matmul_bound(const matrices *size, const double *const inputs[2], const double *const errors[2],
                         const double *value, double *error)
{
    const double gamma = tuff__gamma((double)size->inner);
    multiply(size, inputs[0], inputs[1], error, true);
    for (int64_t i = 0; i < size->rows * size->columns; i++)
        error[i] = isfinite(value[i]) ? gamma * error[i] : 0;
    multiply(size, inputs[0], errors[1], error, true);
    multiply(size, errors[0], inputs[1], error, true);
}

/* Computes matrix by matrix: operands of nodes have equal batch axes. */
tuff_status tuff__evaluate_matmul(const evaluation *e, int64_t count)
{
    const int rank = e->shape.rank;
    const tuff_shape *x = &e->input_shapes[0];
    const matrices size = {x->extent[rank - 2], x->extent[rank - 1], e->shape.extent[rank - 1]};
    const int64_t each = size.rows * size.columns;
    memset(e->value, 0, (size_t)count * sizeof *e->value);
    if (e->error)
        memset(e->error, 0, (size_t)count * sizeof *e->error);
    for (int64_t batch = 0; batch < count / each; batch++) {
        const int64_t from_x = batch * size.rows * size.inner, from_y = batch * size.inner * size.columns;
        const double *const inputs[2] = {e->inputs[0] + from_x, e->inputs[1] + from_y};
        multiply(&size, inputs[0], inputs[1], e->value + batch * each, false);
        if (!e->error)
            continue;
        const double *const errors[2] = {e->input_errors[0] + from_x, e->input_errors[1] + from_y};
        matmul_bound(&size, inputs, errors, e->value + batch * each, e->error + batch * each);
    }
    return TUFF_OK;
}
