/* Rotary position embedding, and scaled dot-product attention in two forms: composed of matmuls and a softmax, which
   supports all options, or the primitive of ../attention.c, which never stores the scores. `build_attention`, at the
   end, chooses. */
#include <math.h>

#include "device/target.h"
#include "graph/builder.h"
#include "tuff/nn.h"

/* One rotary embedding. x [B,T,H,D] is viewed as [B,T,H,D/2,2] or [B,T,H,2,D/2], so that the two elements of a pair lie
   along an axis of extent 2: they are exchanged by reversing that axis, which is a view and needs no concat. */
typedef struct rotation {
    tuff_graph *graph;
    int pair_axis;    /* the axis of extent 2 in split */
    tuff_shape split; /* shape of x with D split */
    tuff_shape table; /* [1,T,1,D/2,2] in the order of split */
    int64_t half;     /* D/2 */
    double theta;
    int64_t offset;
} rotation;

/* The two pairing conventions differ only in the axis that has extent 2. */
static rotation plan_rotation(const tuff_tensor *x, tuff_rope_pairs pairs, double theta, int64_t offset)
{
    const tuff_shape s = x->shape;
    const int64_t half = s.extent[3] / 2;
    const bool interleaved = pairs == TUFF_ROPE_INTERLEAVED;
    const int64_t fourth = interleaved ? half : 2, fifth = interleaved ? 2 : half;
    return (rotation){.graph = x->graph,
                      .pair_axis = interleaved ? 4 : 3,
                      .split = TUFF_SHAPE(s.extent[0], s.extent[1], s.extent[2], fourth, fifth),
                      .table = TUFF_SHAPE(1, s.extent[1], 1, fourth, fifth),
                      .half = half,
                      .theta = theta,
                      .offset = offset};
}

/* Returns theta^(-2i/D) for pair i. */
static double frequency(const rotation *rope, int64_t pair)
{
    return pow(rope->theta, -(double)pair / (double)rope->half);
}

/* Sets the pair, and the member (0 or 1) of it, of element i of a row of D. */
static void find_pair(const rotation *rope, int64_t i, int64_t *pair, int64_t *member)
{
    *pair = rope->pair_axis == 4 ? i / 2 : i % rope->half;
    *member = rope->pair_axis == 4 ? i % 2 : i / rope->half;
}

/* Computes tables for known positions, in double on the host: cosines, and sines with the sign of each member. */
static bool constant_tables(const rotation *rope, tuff_tensor **cosines, tuff_tensor **sines)
{
    const int64_t positions = rope->table.extent[1], width = rope->table.extent[3] * rope->table.extent[4];
    float *values = tuff__calloc((size_t)(positions * width) * 2, sizeof *values);
    if (!values) {
        tuff__graph_fail(rope->graph, TUFF_E_OOM_HOST, "rope: out of host memory for tables of %s",
                         SHAPE_TEXT(rope->table));
        return false;
    }
    for (int64_t i = 0; i < positions * width; i++) {
        int64_t pair, member;
        find_pair(rope, i % width, &pair, &member);
        const double angle = (double)(i / width + rope->offset) * frequency(rope, pair);
        values[i] = (float)cos(angle);
        values[positions * width + i] = (float)(member ? sin(angle) : -sin(angle));
    }
    *cosines = tuff_constant_data(rope->graph, TUFF_F32, rope->table, values);
    *sines = tuff_constant_data(rope->graph, TUFF_F32, rope->table, values + positions * width);
    tuff__free(values);
    return rope->graph->status == TUFF_OK;
}

/* The same for a position that only the device knows, as when one recorded plan generates tokens one by one. The device
   computes the angles. */
static bool device_tables(const rotation *rope, tuff_tensor *position, tuff_tensor **cosines, tuff_tensor **sines)
{
    const int64_t width = rope->table.extent[3] * rope->table.extent[4];
    float *values = tuff__calloc((size_t)width * 2, sizeof *values);
    if (!values) {
        tuff__graph_fail(rope->graph, TUFF_E_OOM_HOST, "rope: out of host memory for tables of %s",
                         SHAPE_TEXT(rope->table));
        return false;
    }
    for (int64_t i = 0; i < width; i++) {
        int64_t pair, member;
        find_pair(rope, i, &pair, &member);
        values[i] = (float)frequency(rope, pair);
        values[width + i] = member ? 1 : -1;
    }
    const tuff_shape row = tuff__with_extent(rope->table, 1, 1);
    const tuff_shape column = TUFF_SHAPE(1, rope->table.extent[1], 1, 1, 1);
    tuff_tensor *index = tuff_add(tuff_iota(rope->graph, column, 1), tuff__shift(position, (double)rope->offset));
    tuff_tensor *angle = tuff_mul(tuff_cast(index, TUFF_F32), tuff_constant_data(rope->graph, TUFF_F32, row, values));
    *cosines = tuff_cos(angle);
    *sines = tuff_mul(tuff_sin(angle), tuff_constant_data(rope->graph, TUFF_F32, row, values + width));
    tuff__free(values);
    return rope->graph->status == TUFF_OK;
}

/* Positions are i32 on the device, and so is the offset. */
static bool rope_is_legal(tuff_graph *graph, const tuff_tensor *x, tuff_rope_pairs pairs, double theta, int64_t offset,
                          const tuff_tensor *position)
{
    const tuff_shape s = x->shape;
    if (s.rank != 4 || s.extent[3] % 2)
        tuff__graph_fail(graph, TUFF_E_SHAPE, "rope: %s: expected [B,T,H,D] with D even", SHAPE_TEXT(s));
    else if (!tuff__dtype_is_float(x->dtype))
        tuff__graph_fail(graph, TUFF_E_DTYPE, "rope: %s %s: expected f32, f16 or bf16", tuff_dtype_name(x->dtype),
                         SHAPE_TEXT(s));
    else if ((pairs != TUFF_ROPE_INTERLEAVED && pairs != TUFF_ROPE_HALF) || !(theta > 0))
        tuff__graph_fail(graph, TUFF_E_USAGE, "rope: %s: pairs %d are unknown, or theta %g is not positive",
                         SHAPE_TEXT(s), (int)pairs, theta);
    else if (offset < INT32_MIN || offset > INT32_MAX)
        tuff__graph_fail(graph, TUFF_E_LIMIT, "rope: %s: the offset %lld does not fit in i32", SHAPE_TEXT(s),
                         (long long)offset);
    else if (position && (position->dtype != TUFF_I32 || position->shape.rank != 0))
        tuff__graph_fail(graph, TUFF_E_SHAPE, "rope: %s: the position must be an i32 scalar, not %s %s", SHAPE_TEXT(s),
                         tuff_dtype_name(position->dtype), SHAPE_TEXT(position->shape));
    return graph->status == TUFF_OK;
}

/* Computes in f32 whatever the dtype: in f16, angles at late positions would lose all their digits. */
tuff_tensor *tuff_rope(tuff_tensor *x, tuff_rope_pairs pairs, double theta, int64_t offset, tuff_tensor *position)
{
    tuff_tensor *failure, *cosines, *sines;
    tuff_graph *graph = tuff__check_operands("rope", (tuff_tensor *[]){x, position}, position ? 2 : 1, &failure);
    if (!graph || !rope_is_legal(graph, x, pairs, theta, offset, position))
        return failure;
    if (tuff_shape_count(x->shape) == 0)
        return x;
    const rotation rope = plan_rotation(x, pairs, theta, offset);
    if (!(position ? device_tables(&rope, position, &cosines, &sines) : constant_tables(&rope, &cosines, &sines)))
        return &graph->failed;
    tuff_tensor *split = tuff_reshape(tuff_cast(x, TUFF_F32), rope.split);
    tuff_tensor *swapped = tuff__reverse_axis(split, rope.pair_axis);
    tuff_tensor *rotated = tuff_add(tuff_mul(split, cosines), tuff_mul(swapped, sines));
    return tuff_cast(tuff_reshape(rotated, x->shape), x->dtype);
}

/* Extents of one attention. */
typedef struct attention_sizes {
    int64_t batch, queries, keys, heads, groups, shared; /* heads = groups · shared; `shared` heads use one group */
    int64_t key_width, value_width;
} attention_sizes;

/* Checks the three shapes and dtypes, then reads all extents from them. */
static bool read_sizes(tuff_graph *graph, const tuff_tensor *q, const tuff_tensor *k, const tuff_tensor *v,
                       attention_sizes *out)
{
    const tuff_shape *a = &q->shape, *b = &k->shape, *c = &v->shape;
    const bool ranks = a->rank == 4 && b->rank == 4 && c->rank == 4;
    const bool fits = ranks && a->extent[0] == b->extent[0] && a->extent[3] == b->extent[3] &&
                      b->extent[0] == c->extent[0] && b->extent[1] == c->extent[1] && b->extent[2] == c->extent[2] &&
                      (b->extent[2] == 0 ? a->extent[2] == 0 : a->extent[2] % b->extent[2] == 0);
    if (!fits) {
        tuff__graph_fail(
            graph, TUFF_E_SHAPE,
            "attention: %s x %s x %s: expected q [B,Tq,H,Dk], k [B,Tk,Hkv,Dk], v [B,Tk,Hkv,Dv], with H a multiple "
            "of Hkv",
            SHAPE_TEXT(*a), SHAPE_TEXT(*b), SHAPE_TEXT(*c));
        return false;
    }
    if (q->dtype != k->dtype || q->dtype != v->dtype || !tuff__dtype_is_float(q->dtype)) {
        tuff__graph_fail(graph, TUFF_E_DTYPE,
                         "attention: %s %s x %s %s x %s %s: expected the same dtype for all: f32, f16 or bf16",
                         tuff_dtype_name(q->dtype), SHAPE_TEXT(*a), tuff_dtype_name(k->dtype), SHAPE_TEXT(*b),
                         tuff_dtype_name(v->dtype), SHAPE_TEXT(*c));
        return false;
    }
    *out = (attention_sizes){.batch = a->extent[0],
                             .queries = a->extent[1],
                             .keys = b->extent[1],
                             .heads = a->extent[2],
                             .groups = b->extent[2],
                             .shared = b->extent[2] ? a->extent[2] / b->extent[2] : 1,
                             .key_width = a->extent[3],
                             .value_width = c->extent[3]};
    return true;
}

/* Returns x [B,T,H,D] as [B,H,T,D], or [B,H,D,T] for a transposed right operand. With shared heads,
   [B,groups,shared,T,D], with shared = 1 for keys and values, which matmul then broadcasts. */
static tuff_tensor *split_heads(tuff_tensor *x, const attention_sizes *sizes, bool is_query, bool transposed)
{
    const tuff_shape s = x->shape;
    const int rows = transposed ? 3 : 1, columns = transposed ? 1 : 3;
    tuff_tensor *heads_first = tuff_permute(x, (int[]){0, 2, rows, columns});
    if (sizes->shared == 1)
        return heads_first;
    if (!is_query)
        return tuff_reshape(heads_first, TUFF_SHAPE(s.extent[0], sizes->groups, 1, s.extent[rows], s.extent[columns]));
    tuff_tensor *grouped =
        tuff_reshape(x, TUFF_SHAPE(s.extent[0], s.extent[1], sizes->groups, sizes->shared, s.extent[3]));
    return tuff_permute(grouped, (int[]){0, 2, 3, 1, 4});
}

/* Whether a bias broadcasts to [B,H,Tq,Tk]; the axis of keys must have all keys. */
static bool bias_fits(const tuff_tensor *bias, const attention_sizes *sizes)
{
    const int64_t expected[4] = {sizes->batch, sizes->heads, sizes->queries, sizes->keys};
    const int rank = bias->shape.rank;
    bool fits = rank >= 1 && rank <= 4 && bias->shape.extent[rank - 1] == sizes->keys;
    for (int i = 0; fits && i < rank; i++)
        fits = bias->shape.extent[i] == expected[4 - rank + i] || bias->shape.extent[i] == 1;
    return fits;
}

/* Checks window and bias, so that both forms of attention may rely on them. */
static bool options_are_legal(tuff_graph *graph, const tuff_tensor *q, const attention_sizes *sizes,
                              const tuff_attention_options *options)
{
    const tuff_tensor *bias = options->bias;
    if (options->window < 0 || options->window > INT32_MAX)
        tuff__graph_fail(graph, TUFF_E_USAGE, "attention: %s: the window %lld must be between 0 and 2147483647",
                         SHAPE_TEXT(q->shape), (long long)options->window);
    if (bias && bias->dtype != q->dtype)
        tuff__graph_fail(graph, TUFF_E_DTYPE, "attention: %s %s: the bias %s %s has a different dtype",
                         tuff_dtype_name(q->dtype), SHAPE_TEXT(q->shape), tuff_dtype_name(bias->dtype),
                         SHAPE_TEXT(bias->shape));
    if (bias && !bias_fits(bias, sizes))
        tuff__graph_fail(
            graph, TUFF_E_SHAPE,
            "attention: %s: the bias %s must broadcast to [B,H,Tq,Tk] = [%lld,%lld,%lld,%lld], and its last "
            "axis must be Tk",
            SHAPE_TEXT(q->shape), SHAPE_TEXT(bias->shape), (long long)sizes->batch, (long long)sizes->heads,
            (long long)sizes->queries, (long long)sizes->keys);
    if (!(options->dropout >= 0 && options->dropout <= 1))
        tuff__graph_fail(graph, TUFF_E_USAGE, "attention: %s: the dropout probability %g must be between 0 and 1",
                         SHAPE_TEXT(q->shape), options->dropout);
    if (!isfinite((float)options->scale)) /* kernels use f32 */
        tuff__graph_fail(graph, TUFF_E_USAGE, "attention: %s: the scale %g is not a finite f32 number",
                         SHAPE_TEXT(q->shape), options->scale);
    return graph->status == TUFF_OK;
}

/* Returns the bias with all four axes. */
static tuff_tensor *bias_of_rank_4(tuff_tensor *bias)
{
    tuff_shape shape = {.rank = 4, .extent = {1, 1, 1, 1}};
    for (int i = 0; i < bias->shape.rank; i++)
        shape.extent[4 - bias->shape.rank + i] = bias->shape.extent[i];
    return bias->shape.rank == 4 ? bias : tuff_reshape(bias, shape);
}

/* Returns the bias in the shape of the scores, whose heads may be split into groups. */
static tuff_tensor *split_bias(tuff_tensor *bias, const attention_sizes *sizes)
{
    bias = bias_of_rank_4(bias);
    const int64_t *extent = bias->shape.extent;
    const bool each = extent[1] != 1;
    if (sizes->shared == 1)
        return bias;
    return tuff_reshape(
        bias, TUFF_SHAPE(extent[0], each ? sizes->groups : 1, each ? sizes->shared : 1, extent[2], extent[3]));
}

/* Returns bool [Tq,Tk], the keys that each query sees; NULL if each sees all. Kernels compute it from the positions: it
   is never a table in memory. */
static tuff_tensor *attention_mask(tuff_graph *graph, const attention_sizes *sizes,
                                   const tuff_attention_options *options)
{
    const tuff_shape shape = TUFF_SHAPE(sizes->queries, sizes->keys);
    const int64_t shift = sizes->keys - sizes->queries;
    if (!options->causal && options->window == 0)
        return NULL;
    tuff_tensor *query = tuff_iota(graph, shape, 0), *key = tuff_iota(graph, shape, 1);
    tuff_tensor *causal = tuff_less(key, tuff__shift(query, (double)(shift + 1)));
    if (options->window == 0)
        return causal;
    int64_t first = shift - options->window;
    if (first < -INT32_MAX)
        first = -INT32_MAX;
    tuff_tensor *in_window = tuff_less(tuff__shift(query, (double)first), key);
    return options->causal ? tuff_and(causal, in_window) : in_window;
}

/* Returns the scores, scaled, biased and masked: with -inf for a softmax, with 0 if there is none. */
static tuff_tensor *attention_scores(tuff_tensor *q, tuff_tensor *k, const attention_sizes *sizes,
                                     const tuff_attention_options *options)
{
    const double scale = options->scale == 0 ? 1 / sqrt((double)sizes->key_width) : options->scale;
    tuff_tensor *product = tuff_matmul(split_heads(q, sizes, true, false), split_heads(k, sizes, false, true));
    tuff_tensor *scores = sizes->key_width > 0 ? tuff__scale(product, scale) : product;
    if (options->bias)
        scores = tuff_add(scores, split_bias(options->bias, sizes));
    tuff_tensor *mask = attention_mask(q->graph, sizes, options);
    if (!mask || !tuff__is_valid(scores))
        return scores;
    return tuff_where(mask, scores, tuff__scalar(scores, options->no_softmax ? 0 : -INFINITY));
}

/* Composes attention of other ops. Operands and options were checked. */
static tuff_tensor *build_composite(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v, const attention_sizes *sizes,
                                    const tuff_attention_options *options)
{
    const tuff_shape shape = TUFF_SHAPE(sizes->batch, sizes->queries, sizes->heads, sizes->value_width);
    tuff_tensor *weights = attention_scores(q, k, sizes, options);
    if (!options->no_softmax)
        weights = tuff_softmax(weights, -1);
    if (options->dropout != 0)
        weights = tuff_dropout(weights, options->dropout);
    tuff_tensor *mixed = tuff_matmul(weights, split_heads(v, sizes, false, false));
    if (sizes->shared > 1)
        return tuff_reshape(tuff_permute(mixed, (int[]){0, 3, 1, 2, 4}), shape);
    return tuff_permute(mixed, (int[]){0, 2, 1, 3});
}

/* Builds the primitive, with the causal mask and the window as one band. */
static tuff_tensor *build_primitive(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v, const attention_sizes *sizes,
                                    const tuff_attention_options *options)
{
    const double scale = options->scale == 0 ? 1 / sqrt((double)sizes->key_width) : options->scale;
    const int64_t shift = sizes->keys - sizes->queries;
    int64_t first = -sizes->queries;
    if (options->window > 0 && shift - options->window + 1 > first)
        first = shift - options->window + 1;
    const attention_operands operands = {q, k, v, options->bias ? bias_of_rank_4(options->bias) : NULL};
    if (operands.bias && !tuff__is_valid(operands.bias))
        return operands.bias;
    return tuff__attention(&operands, &(op_attributes){.value = scale,
                                                       .start = {first, options->causal ? shift : sizes->keys},
                                                       .options = options->no_softmax ? ATTENTION_NO_SOFTMAX : 0,
                                                       .dropout = options->dropout});
}

/* Whether the primitive has no kernels for this case: dropout of every weight, or scores that are sums of no terms. */
static bool needs_composite(const attention_sizes *sizes, const tuff_attention_options *options)
{
    return options->dropout == 1 || sizes->key_width == 0;
}

/* Limit on the bytes of the composition's scores. */
#define MAX_SCORES ((int64_t)64 << 20)

/* Whether the composition is faster, as long as the scores fit. It is for a single query over many keys, such as the
   last token's when a model generates text: the primitive is made for sharing the keys among several queries. It also
   is, several times, if a device keeps a kernel's private arrays in memory and looks their elements up lane by lane. */
static bool is_composite_faster(const tuff_graph *graph, const attention_sizes *sizes)
{
    enum { MANY_KEYS = 64 };
    const int64_t scores = sizes->batch * sizes->heads * sizes->queries;
    const bool is_single = sizes->queries * sizes->shared == 1 && sizes->keys >= MANY_KEYS;
    return (is_single || !tuff__device_target(graph->device).has_fast_private_arrays) &&
           scores <= MAX_SCORES / (int64_t)sizeof(float) / sizes->keys;
}

/* Whether the primitive's kernels may exceed the driver's limit on loop iterations, at which it ends the loops early.
   Overestimates: assumes the kernels that use local memory, and the smallest panel of keys or queries that they
   have. */
static bool exceeds_loop_limit(const tuff_graph *graph, const attention_sizes *sizes,
                               const tuff_attention_options *options)
{
    enum { PANEL = 32, STEPS_OF_PANEL = 160, STEPS_OF_ELEMENT = 2 };
    const int64_t limit = tuff__device_info(graph->device)->loop_limit;
    const int64_t longest = sizes->keys > sizes->queries ? sizes->keys : sizes->queries, window = options->window;
    const int64_t seen = options->causal && window > 0 && window < longest ? window : longest;
    const int64_t steps = STEPS_OF_ELEMENT * (sizes->key_width + sizes->value_width) + STEPS_OF_PANEL;
    return limit > 0 && (double)(seen / PANEL + 2) * (double)steps * (double)sizes->shared > (double)limit;
}

typedef enum attention_form { FORM_AUTO, FORM_COMPOSED, FORM_PRIMITIVE } attention_form;

static tuff_tensor *build_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                    const tuff_attention_options *options, attention_form form)
{
    const tuff_attention_options defaults = {0}, *chosen = options ? options : &defaults;
    tuff_tensor *operands[4] = {q, k, v, chosen->bias}, *failure;
    tuff_graph *graph = tuff__check_operands("attention", operands, chosen->bias ? 4 : 3, &failure);
    attention_sizes sizes;
    if (!graph || !read_sizes(graph, q, k, v, &sizes) || !options_are_legal(graph, q, &sizes, chosen))
        return failure;
    const tuff_shape shape = TUFF_SHAPE(sizes.batch, sizes.queries, sizes.heads, sizes.value_width);
    if (tuff_shape_count(shape) == 0 || sizes.keys == 0)
        return tuff__full(graph, q->dtype, shape, 0);
    if (form == FORM_COMPOSED || needs_composite(&sizes, chosen) ||
        (form == FORM_AUTO && (is_composite_faster(graph, &sizes) || exceeds_loop_limit(graph, &sizes, chosen))))
        return build_composite(q, k, v, &sizes, chosen);
    return build_primitive(q, k, v, &sizes, chosen);
}

tuff_tensor *tuff_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v, const tuff_attention_options *options)
{
    return build_attention(q, k, v, options, FORM_AUTO);
}

tuff_tensor *tuff__composite_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                       const struct tuff_attention_options *options)
{
    return build_attention(q, k, v, options, FORM_COMPOSED);
}

tuff_tensor *tuff__primitive_attention(tuff_tensor *q, tuff_tensor *k, tuff_tensor *v,
                                       const struct tuff_attention_options *options)
{
    return build_attention(q, k, v, options, FORM_PRIMITIVE);
}
